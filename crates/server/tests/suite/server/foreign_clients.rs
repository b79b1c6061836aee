//! Whatever is sent to any port of a node, correct clients are not disturbed.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use zerohop_base::random::Random;
use zerohop_wire::admin::{
    AdminAnswer, AdminQuestion, AdminReply, AdminRequest, KeyspaceSettings, StatusGet,
};
use zerohop_wire::ids::{KeyspaceId, RequestId, Timestamp};
use zerohop_wire::limits::{VALUE_BYTES_MAX, VERSION_MAX, VERSION_MIN};
use zerohop_wire::messages::{Admin, Hello, Insert, Message, Query, RecordRead as Lookup};
use zerohop_wire::{
    BadRequestReason, DecodeResult, Decoder, Encoder, Envelope, Failure, Features, GREETING_VERSION,
};

use crate::server::support::{block_on, client, default_keyspace, in_memory};
use crate::support::give_up::GIVE_UP_AFTER;
use crate::support::waiting::wait_for;

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(GIVE_UP_AFTER)).unwrap();
    stream
}

fn frame(request: u64, message: &Message<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let envelope = Envelope { request: RequestId(request), keyspace: KeyspaceId(1), ..Envelope::default() };
    Encoder::newest_for(message).encode(&envelope, message, &mut bytes).unwrap();
    bytes
}

fn hello() -> Vec<u8> {
    hello_of(VERSION_MIN, VERSION_MAX)
}

/// The greeting of a program that speaks these versions.
fn hello_of(version_min: u8, version_max: u8) -> Vec<u8> {
    frame(
        1,
        &Message::Hello(Hello {
            version_min,
            version_max,
            features: Features::default(),
            cluster: Default::default(),
            map_epoch: Default::default(),
            proof_method: 0,
            nonce: [0; 32],
            name: "foreign",
        }),
    )
}

/// The parts of an answer that these tests check.
#[derive(Debug, PartialEq)]
enum ForeignAnswer {
    Failure(Failure<'static>),
    Admin(AdminAnswer),
    Something,
}

/// Reads up to so many answers, each with its request id.
fn answers(stream: &mut TcpStream, many: usize) -> Vec<(u64, ForeignAnswer)> {
    let (mut bytes, mut at, mut found) = (Vec::new(), 0, Vec::new());
    let mut chunk = vec![0; 64 << 10];
    while found.len() < many {
        // A greeting has a version of its own.
        let version = bytes.get(at + 3).copied().unwrap_or(GREETING_VERSION);
        match Decoder::with_version(version, Features::default()).decode(&bytes[at..]) {
            DecodeResult::Frame { frame, used } => {
                let mut expanded = Vec::new();
                let answer = match frame.message(&mut expanded).unwrap() {
                    Message::Answer(Err(failure)) => ForeignAnswer::Failure(failure.into_owned()),
                    Message::AdminAnswer(admin) => {
                        ForeignAnswer::Admin(AdminAnswer::from_bytes(admin.encoded).unwrap())
                    }
                    _ => ForeignAnswer::Something,
                };
                found.push((frame.envelope.request.0, answer));
                at += used;
            }
            DecodeResult::Need(_) => match stream.read(&mut chunk) {
                Ok(0) | Err(_) => break,
                Ok(read) => bytes.extend_from_slice(&chunk[..read]),
            },
            other => panic!("no answer: {other:?}"),
        }
    }
    found
}

#[test]
fn random_bytes_on_any_port_are_harmless() {
    let server = in_memory(2);
    let ports: Vec<SocketAddr> =
        server.instances().iter().map(|(_, address)| *address).chain([server.manager_address()]).collect();
    block_on(async {
        let client = client(&server).await;
        let keyspace = default_keyspace(&client).await;
        let mut random = Random::new(1);
        for round in 0..60 {
            keyspace.insert("k", &format!("round {round}")).await.unwrap();
            for port in &ports {
                let mut stream = connect(*port);
                let mut bytes = match round % 4 {
                    0 => Vec::new(),
                    1 => hello(),
                    2 => [hello(), frame(2, &Message::Admin(Admin { encoded: b"\xff\xff" }))].concat(),
                    _ => [hello(), hello()].concat(),
                };
                let mut noise = vec![0; random.below(3000) as usize];
                random.fill(&mut noise);
                bytes.extend_from_slice(&noise);
                if !bytes.is_empty() && round % 3 == 0 {
                    let at = random.below(bytes.len() as u64) as usize;
                    bytes[at] ^= 1 << random.below(8);
                }
                // The server may have closed it already.
                drop(stream.write_all(&bytes));
            }
            let found = keyspace.lookup_bytes("k").await.unwrap();
            assert_eq!(found.as_deref(), Some(format!("round {round}").as_bytes()));
        }
    });
    server.stop().unwrap();
}

#[test]
fn manager_redirects_record_requests() {
    let server = in_memory(1);
    let mut stream = connect(server.manager_address());
    let read = Lookup { key: b"k", query: Query::Lookup };
    let lookup = frame(2, &Message::Read { seen: Timestamp::ZERO, read });
    let unreadable = frame(3, &Message::Admin(Admin { encoded: b"\x12\xff" }));
    let answer = frame(4, &Message::Answer(Err(Failure::NotFound)));
    stream.write_all(&[hello(), lookup, unreadable, answer].concat()).unwrap();
    let mut found = answers(&mut stream, 4);
    found.sort_by_key(|(request, _)| *request);
    assert_eq!(found[0], (1, ForeignAnswer::Something));
    match &found[1] {
        (2, ForeignAnswer::Failure(Failure::WrongOwner { epoch, delta })) => {
            assert!(epoch.0 > 0 && !delta.is_empty())
        }
        other => panic!("no redirect: {other:?}"),
    }
    // The refusal of a control request has its own kind of answer.
    assert!(matches!(&found[2], (3, ForeignAnswer::Admin(_))), "{found:?}");
    assert_eq!(found[3], (4, ForeignAnswer::Failure(BadRequestReason::Unexpected.into())));
}

#[test]
fn manager_accepts_nothing_before_hello_or_beyond_limits() {
    let server = in_memory(1);
    let mut stream = connect(server.manager_address());
    let (mut ping, envelope) = (Vec::new(), Envelope { request: RequestId(7), ..Envelope::default() });
    Encoder::default().encode(&envelope, &Message::Ping(Default::default()), &mut ping).unwrap();
    stream.write_all(&ping).unwrap();
    assert_eq!(
        answers(&mut stream, 2),
        [(7, ForeignAnswer::Failure(BadRequestReason::HelloExpected.into()))]
    );
    let mut stream = connect(server.manager_address());
    stream.write_all(&hello_of(1, VERSION_MIN - 1)).unwrap();
    let refusal = Failure::UnsupportedVersion { min: VERSION_MIN, max: VERSION_MAX };
    assert_eq!(answers(&mut stream, 2), [(1, ForeignAnswer::Failure(refusal))]);

    let mut stream = connect(server.manager_address());
    stream.write_all(&hello()).unwrap();
    assert_eq!(answers(&mut stream, 1), [(1, ForeignAnswer::Something)]);
    let value = vec![0; VALUE_BYTES_MAX];
    let write = zerohop_wire::messages::RecordWrite {
        key: b"k",
        condition: Default::default(),
        change: zerohop_wire::messages::WriteChange::Insert(Insert {
            value: &value,
            expiry: Default::default(),
        }),
    };
    let large = frame(8, &Message::Write { stamp: Default::default(), write });
    // It is refused before it is complete.
    drop(stream.write_all(&large));
    let found = answers(&mut stream, 2);
    assert!(matches!(found[..], [(8, ForeignAnswer::Failure(Failure::FrameTooLong { .. }))]), "{found:?}");
}

#[test]
fn many_simultaneous_requests_are_bounded_and_answered() {
    const REQUESTS: u64 = 5000;
    let server = in_memory(1);
    let mut stream = connect(server.manager_address());
    let map_get = |request| frame(request, &Message::MapGet(Default::default()));
    let requests: Vec<u8> = (2..2 + REQUESTS).flat_map(map_get).collect();
    let mut writer = stream.try_clone().unwrap();
    let writing = std::thread::Builder::new().spawn(move || writer.write_all(&[hello(), requests].concat()));
    let found = answers(&mut stream, REQUESTS as usize + 1);
    writing.unwrap().join().unwrap().unwrap();
    assert_eq!(found.len(), REQUESTS as usize + 1);
    assert!(found.iter().all(|(_, answer)| *answer == ForeignAnswer::Something));

    // Incomplete frames.
    let encoded = vec![0; 1 << 20];
    let whole = frame(9, &Message::Admin(Admin { encoded: &encoded }));
    let begun: Vec<TcpStream> = (0..40)
        .map(|_| {
            let mut stream = connect(server.manager_address());
            stream.write_all(&hello()).unwrap();
            assert_eq!(answers(&mut stream, 1), [(1, ForeignAnswer::Something)]);
            // It may be refused before it is complete.
            drop(stream.write_all(&whole[..whole.len() - 1]));
            stream
        })
        .collect();
    let refused = || {
        let is_refused = |stream: &&TcpStream| {
            stream.set_nonblocking(true).unwrap();
            matches!(stream.peek(&mut [0; 1]), Ok(1))
        };
        begun.iter().filter(is_refused).count()
    };
    wait_for("so many are more than all may hold together", refused, |refused| *refused >= 40 - 31);
    // The other connections stay open while the test waits.
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(refused(), 40 - 31);
    drop(begun);
    // They are closed now, and there is room again.
    let mut stream = connect(server.manager_address());
    stream.write_all(&[hello(), whole].concat()).unwrap();
    assert!(matches!(
        answers(&mut stream, 2)[..],
        [(1, ForeignAnswer::Something), (9, ForeignAnswer::Admin(_))]
    ));
    block_on(async { default_keyspace(&client(&server).await).await.insert("k", "v").await.unwrap() });
}

#[test]
fn manager_answers_control_request_sent_to_an_instance() {
    let server = in_memory(2);
    let create = |name: &str| {
        let settings = KeyspaceSettings { name: name.to_owned(), ..KeyspaceSettings::default() };
        AdminRequest::of(AdminQuestion::CreateKeyspace(settings)).to_bytes()
    };
    let status = AdminRequest::of(AdminQuestion::Status(StatusGet {})).to_bytes();
    for (place, (_, address)) in server.instances().iter().enumerate() {
        let mut stream = connect(*address);
        // The request changes the map of the instance that waits for the answer.
        let create = create(&format!("k{place}"));
        let requests = [
            hello(),
            frame(2, &Message::Admin(Admin { encoded: &create })),
            frame(3, &Message::Admin(Admin { encoded: &status })),
            frame(4, &Message::Admin(Admin { encoded: b"\x12\xff" })),
            frame(5, &Message::Ping(Default::default())),
        ];
        stream.write_all(&requests.concat()).unwrap();
        let mut found = answers(&mut stream, 5);
        found.sort_by_key(|(request, _)| *request);
        match &found[..] {
            [
                (1, ForeignAnswer::Something),
                (
                    2,
                    ForeignAnswer::Admin(AdminAnswer {
                        answer: Some(AdminReply::Keyspace(keyspace)), ..
                    }),
                ),
                (3, ForeignAnswer::Admin(AdminAnswer { answer: Some(AdminReply::Status(status)), .. })),
                (4, ForeignAnswer::Admin(AdminAnswer { answer: Some(AdminReply::Refused(refused)), .. })),
                (5, ForeignAnswer::Something),
            ] => {
                assert_eq!(keyspace.name, format!("k{place}"));
                assert_eq!(status.keyspaces.len(), place + 2);
                assert_eq!(refused.code, "bad-request");
            }
            other => panic!("not as asked: {other:?}"),
        }
    }
    // Some are under way when the node stops: each is answered once, or its connection is closed.
    let mut streams: Vec<TcpStream> =
        server.instances().iter().map(|(_, address)| connect(*address)).collect();
    let flood: Vec<u8> =
        (2..60).flat_map(|n| frame(n, &Message::Admin(Admin { encoded: &status }))).collect();
    for stream in &mut streams {
        stream.write_all(&[hello(), flood.clone()].concat()).unwrap();
    }
    server.stop().unwrap();
    for stream in &mut streams {
        let mut requests: Vec<u64> = answers(stream, 100).into_iter().map(|(request, _)| request).collect();
        let answered = requests.len();
        requests.sort_unstable();
        requests.dedup();
        assert_eq!(requests.len(), answered);
    }
}
