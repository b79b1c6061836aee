//! The client over real sockets, against a small server that stores records in memory. It answers
//! writes by their session and sequence number, and drops its connections when a test requires it.

#![expect(clippy::unwrap_used, reason = "a test; the lint spares only functions marked as such")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use zerohop_client::DropOptions;
use zerohop_client::{
    BlockingClient, BlockingHandle, Client, ClientOptions, Condition, Error, Failure, Reason, Record, Ttl,
};
use zerohop_placement::{Address, ClusterMap, Node, NodeState};
use zerohop_wire::admin::{
    AdminAnswer, AdminQuestion, AdminRefusal, AdminReply, AdminRequest, KeyspaceDrop, KeyspaceStatus,
    REFUSED_DROPPING, REFUSED_FAILED, REFUSED_UNKNOWN,
};
use zerohop_wire::ids::*;
use zerohop_wire::limits::VERSION_MAX;
use zerohop_wire::messages::*;
use zerohop_wire::messages::{Append, Insert, Remove};
use zerohop_wire::{DecodeResult, Decoder, Elements, Encoder, Envelope, Features, pack};

#[derive(Default)]
struct FakeStore {
    records: BTreeMap<Vec<u8>, FakeRecord>,
    outcomes: BTreeMap<(SessionId, PartitionId, u64), FakeOutcome>,
    applied: u64,
    /// Writes after which the connection is dropped without an answer.
    drop_after: Vec<u64>,
    connections: u64,
    /// The answers of a manager, in order; `None`: it drops the connection. `asked` has the
    /// requests that it received.
    admin: Vec<Option<AdminAnswer>>,
    requests: Vec<AdminRequest>,
}

#[derive(Clone)]
enum FakeRecord {
    Bytes(Vec<u8>),
    List(Vec<Vec<u8>>),
}

#[derive(Clone)]
enum FakeOutcome {
    Done(u64, u64),
    Failed(Failure<'static>),
}

struct FakeServer {
    address: String,
    store: Arc<Mutex<FakeStore>>,
}

async fn serve() -> FakeServer {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let node = Node {
        id: NodeId(1),
        state: NodeState::Up,
        incarnation: Incarnation(1),
        manager: Address::new(&address).unwrap(),
        first_instance: InstanceId(1),
        instances: vec![Address::new(&address).unwrap()],
    };
    let map = Arc::new(ClusterMap::of_one_node(node, 3).unwrap());
    let store = Arc::new(Mutex::new(FakeStore::default()));
    let shared = Arc::clone(&store);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            shared.lock().unwrap().connections += 1;
            tokio::spawn(talk(stream, Arc::clone(&map), Arc::clone(&shared)));
        }
    });
    FakeServer { address, store }
}

async fn talk(mut stream: TcpStream, map: Arc<ClusterMap>, store: Arc<Mutex<FakeStore>>) {
    let (mut input, mut scratch) = (Vec::new(), Vec::new());
    let mut decoder = Decoder::before_hello();
    loop {
        let mut out = Vec::new();
        let mut at = 0;
        while let DecodeResult::Frame { frame, used } = decoder.decode(&input[at..]) {
            at += used;
            decoder = Decoder::with_version(VERSION_MAX, Features::LZ4);
            let message = frame.message(&mut scratch).unwrap();
            if answer(&frame.envelope, message, &map, &mut store.lock().unwrap(), &mut out).is_none() {
                return;
            }
        }
        input.drain(..at);
        if stream.write_all(&out).await.is_err()
            || stream.read_buf(&mut input).await.is_ok_and(|read| read == 0)
        {
            return;
        }
    }
}

/// `None`: the connection is to be dropped.
fn answer(
    envelope: &Envelope,
    message: Message<'_>,
    map: &ClusterMap,
    store: &mut FakeStore,
    out: &mut Vec<u8>,
) -> Option<()> {
    let envelope = Envelope { time_out_ms: 0, ..*envelope };
    let mut say =
        |message: &Message<'_>| Encoder::newest_for(message).encode(&envelope, message, out).unwrap();
    match message {
        Message::Hello(hello) => {
            let features = hello.features.common(Features::LZ4);
            say(&Message::HelloAck(HelloAck { version: VERSION_MAX, features, ..HelloAck::default() }));
        }
        Message::MapGet(_) => {
            let (epoch, encoded) = (map.epoch(), map.encode());
            say(&Message::Map(Map { epoch, since: MapEpoch(0), encoded: &encoded }));
        }
        Message::SessionOpen(_) => {
            let session = SessionId { issued: Timestamp(7), nonce: store.connections };
            say(&Message::SessionOpened(SessionOpened { session, idle_ms: 0 }));
        }
        Message::Read { read, .. } => store.read(&read, |answer| say(&Message::Answer(answer))),
        Message::Write { stamp, write } => {
            let kept = store.write(envelope.partition, stamp, stamp.sequence, &write)?;
            say(&Message::Answer(stored_answer(&kept)));
        }
        Message::Batch(batch) => {
            let (mut packed, mut count) = (Vec::new(), 0);
            for (sequence, operation) in batch.numbered() {
                match operation {
                    RecordOperation::Read(read) => {
                        store.read(&read, |answer| pack(&answer, &mut packed).unwrap())
                    }
                    RecordOperation::Write(write) => {
                        let kept = store.write(envelope.partition, batch.stamp, sequence, &write)?;
                        pack(&stored_answer(&kept), &mut packed).unwrap();
                    }
                }
                count += 1;
            }
            say(&Message::BatchAnswer(Elements::packed(count, &packed).unwrap()));
        }
        Message::Scan(scan) => {
            let keyspace = map.keyspace(envelope.keyspace).unwrap();
            let here = |key: &&Vec<u8>| {
                keyspace.partition(key) == envelope.partition && key.starts_with(scan.prefix)
            };
            let keys: Vec<ScannedKey<'_>> = store
                .records
                .keys()
                .filter(here)
                .map(|key| ScannedKey { key, record: RecordType::Bytes, version: Timestamp(1), value: None })
                .collect();
            say(&Message::Answer(Ok(Outcome::Page { next: &[], keys: Elements::from_slice(&keys) })));
        }
        Message::Admin(Admin { encoded }) => {
            store.requests.push(AdminRequest::from_bytes(encoded).unwrap());
            let encoded = store.admin.remove(0)?.to_bytes();
            say(&Message::AdminAnswer(Admin { encoded: &encoded }));
        }
        other => panic!("the client asks {other:?}"),
    }
    Some(())
}

impl FakeStore {
    fn read(&self, read: &RecordRead<'_>, tell: impl FnOnce(zerohop_wire::messages::OperationAnswer<'_>)) {
        let version = Timestamp(self.applied + 1);
        match (self.records.get(read.key), read.query) {
            (None, _) => tell(Err(Failure::NotFound)),
            (Some(FakeRecord::Bytes(bytes)), Query::Inspect) => tell(Ok(Outcome::Info {
                version,
                record: RecordType::Bytes,
                length: bytes.len() as u64,
                expires_at_ms: None,
            })),
            (Some(FakeRecord::Bytes(bytes)), _) => {
                tell(Ok(Outcome::Value { version, length: bytes.len() as u64, bytes }));
            }
            (Some(FakeRecord::List(values)), _) => {
                let values: Vec<&[u8]> = values.iter().map(|value| &value[..]).collect();
                let (length, values) = (values.len() as u64, Elements::from_slice(&values[..]));
                tell(Ok(Outcome::List { version, length, first: 0, values }));
            }
        }
    }

    fn write(
        &mut self,
        at: PartitionId,
        stamp: Stamp,
        sequence: Sequence,
        write: &RecordWrite<'_>,
    ) -> Option<FakeOutcome> {
        let place = (stamp.session, at, sequence.0);
        if let Some(kept) = self.outcomes.get(&place) {
            return Some(kept.clone());
        }
        self.applied += 1;
        let kept = self.apply(write);
        self.outcomes.insert(place, kept.clone());
        if self.drop_after.contains(&self.applied) {
            return None;
        }
        Some(kept)
    }

    fn apply(&mut self, write: &RecordWrite<'_>) -> FakeOutcome {
        let version = self.applied;
        let found = self.records.get(write.key).cloned();
        if write.condition == Condition::IfAbsent && found.is_some() {
            let failure = Failure::ConditionFailed { version: Timestamp(1), found: Some(RecordType::Bytes) };
            return FakeOutcome::Failed(failure);
        }
        let (record, number) = match write.change {
            WriteChange::Insert(Insert { value, .. }) => (FakeRecord::Bytes(value.to_vec()), 0),
            WriteChange::Remove(Remove) => {
                return FakeOutcome::Done(version, u64::from(self.records.remove(write.key).is_some()));
            }
            WriteChange::Append(Append { values }) => {
                let mut list = match found {
                    Some(FakeRecord::List(list)) => list,
                    None => Vec::new(),
                    Some(_) => return FakeOutcome::Failed(Failure::WrongType { found: RecordType::Bytes }),
                };
                list.extend(values.iter().map(<[u8]>::to_vec));
                let number = list.len() as u64;
                (FakeRecord::List(list), number)
            }
            WriteChange::Expire(_) if found.is_none() => return FakeOutcome::Failed(Failure::NotFound),
            WriteChange::Expire(_) => return FakeOutcome::Done(version, 0),
            other => panic!("the tests do not use {other:?}"),
        };
        self.records.insert(write.key.to_vec(), record);
        FakeOutcome::Done(version, number)
    }
}

fn stored_answer(kept: &FakeOutcome) -> zerohop_wire::messages::OperationAnswer<'_> {
    match kept {
        FakeOutcome::Done(version, number) => {
            Ok(Outcome::Done { version: Timestamp(*version), number: *number })
        }
        FakeOutcome::Failed(failure) => Err(failure.clone()),
    }
}

#[tokio::test]
async fn records_are_written_and_found() {
    let server = serve().await;
    let client = Client::connect(&server.address).await.unwrap();
    let keyspace = client.keyspace("default").await.unwrap();
    keyspace.insert("colour", "blue").await.unwrap();
    assert_eq!(keyspace.lookup_bytes("colour").await.unwrap().as_deref(), Some(&b"blue"[..]));
    assert_eq!(keyspace.lookup("absent").await.unwrap(), None);
    assert_eq!(keyspace.append("list", &[b"a", b"b"]).await.unwrap(), 2);
    let Some(Record::List { values, .. }) = keyspace.lookup("list").await.unwrap() else { panic!() };
    assert_eq!(values, ["a", "b"]);
    assert_eq!(keyspace.ttl("colour").await.unwrap(), Ttl::Never);
    assert!(keyspace.persist("colour").await.unwrap() && !keyspace.persist("absent").await.unwrap());
    assert!(keyspace.remove("colour").await.unwrap() && !keyspace.remove("colour").await.unwrap());
    // Manager and instance have the same address here, so that one connection is enough.
    assert_eq!(server.store.lock().unwrap().connections, 1);
}

#[tokio::test]
async fn errors_name_the_key_and_the_reason() {
    let server = serve().await;
    let client = Client::connect(&server.address).await.unwrap();
    let keyspace = client.keyspace("default").await.unwrap();
    keyspace.insert("lock", "you").await.unwrap();
    let error = keyspace.insert("lock", "me").condition(Condition::IfAbsent).await.unwrap_err();
    assert!(matches!(error.failure(), Some(Failure::ConditionFailed { .. })), "{error}");
    assert!(error.to_string().starts_with("key \"lock\": the condition failed"), "{error}");
    let long = vec![b'k'; 70_000];
    let error = keyspace.lookup(&long).await.unwrap_err();
    assert!(matches!(error.failure(), Some(Failure::KeyTooLong { .. })), "{error}");
    let error = client.keyspace("absent").await.unwrap_err();
    assert!(error.to_string().contains("no keyspace \"absent\""), "{error}");
    let error = Client::connect("nowhere").await.unwrap_err();
    assert!(error.to_string().contains("write host:port"), "{error}");
}

#[tokio::test]
async fn unanswered_write_is_retried_and_applied_once() {
    let server = serve().await;
    let client = Client::connect(&server.address).await.unwrap();
    let keyspace = client.keyspace("default").await.unwrap();
    server.store.lock().unwrap().drop_after = vec![2, 5];
    for expected in 1..=8 {
        assert_eq!(keyspace.append("list", &[b"v"]).await.unwrap(), expected);
    }
    let store = server.store.lock().unwrap();
    assert_eq!((store.applied, store.connections), (8, 3));
}

#[tokio::test]
async fn batches_and_large_values_round_trip() {
    let server = serve().await;
    let options = ClientOptions { compress_from_bytes: Some(4096), ..ClientOptions::default() };
    let client = Client::connect_with(&[&server.address], options).await.unwrap();
    for client in [client, Client::connect(&server.address).await.unwrap()] {
        let keyspace = client.keyspace("default").await.unwrap();
        let large: Vec<u8> = (0..3_000_000u32).map(|at| (at / 7) as u8).collect();
        keyspace.insert("large", &large).await.unwrap();
        assert_eq!(keyspace.lookup_bytes("large").await.unwrap().as_deref(), Some(&large[..]));
        let keys: Vec<String> = (0..500).map(|at| format!("key-{at}")).collect();
        let change = WriteChange::Insert(Insert { value: b"v", expiry: Expiry::Never });
        let write = |key| RecordOperation::Write(RecordWrite { key, condition: Condition::Always, change });
        let operations: Vec<RecordOperation<'_>> = keys.iter().map(|key| write(key.as_bytes())).collect();
        let results = keyspace.batch(&operations).await;
        assert!(results.len() == 500 && results.iter().all(Result::is_ok));
        let (mut scan, mut found) = (keyspace.scan("key-"), 0);
        while let Some(page) = scan.next_page().await.unwrap() {
            found += page.len();
        }
        assert_eq!(found, 500);
    }
}

#[tokio::test]
async fn many_operations_may_be_in_flight() {
    let server = serve().await;
    let client = Client::connect(&server.address).await.unwrap();
    let keyspace = client.keyspace("default").await.unwrap();
    let tasks: Vec<_> = (0..200)
        .map(|at| {
            let keyspace = keyspace.clone();
            tokio::spawn(async move {
                for round in 0..20 {
                    let (key, value) = (format!("key-{at}"), round.to_string());
                    keyspace.insert(&key, &value).await.unwrap();
                    assert_eq!(keyspace.lookup_bytes(&key).await.unwrap().unwrap(), value);
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(server.store.lock().unwrap().applied, 4000);
}

#[tokio::test]
async fn unreachable_server_fails_at_the_deadline() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    drop(listener);
    // A slow machine may report the refused connection only after a short deadline.
    for tries in 0.. {
        let connect_deadline = Duration::from_millis(200 << tries);
        let options = ClientOptions { connect_deadline, ..ClientOptions::default() };
        let error = Client::connect_with(&[&address], options).await.unwrap_err();
        let Error::Operation { reason, .. } = &error else { panic!("{error}") };
        assert!(matches!(**reason, Reason::Deadline { .. }));
        if error.to_string().contains("connection refused") {
            break;
        }
        assert!(tries < 10, "{error}");
    }
}

#[test]
fn blocking_client_needs_no_runtime_and_refuses_to_block_one() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (address, served) = std::sync::mpsc::channel();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            runtime.block_on(async {
                address.send(serve().await.address).unwrap();
                drop(stopped.await);
            });
        });
        let address = served.recv().unwrap();
        let client = BlockingClient::connect(&address).unwrap();
        let keyspace = client.keyspace("default").unwrap();
        keyspace.wait_for(keyspace.insert("colour", "blue")).unwrap();
        assert_eq!(keyspace.wait_for(keyspace.lookup_bytes("colour")).unwrap().unwrap(), "blue");
        let inside = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let error = inside.block_on(async { keyspace.wait_for(keyspace.lookup("colour")) }).unwrap_err();
        assert_eq!(error, Error::InsideRuntime);
        stop.send(()).unwrap();
    });
}

fn under_way(reason: &str) -> Option<AdminAnswer> {
    let (code, reason) = (REFUSED_DROPPING.to_owned(), reason.to_owned());
    Some(AdminAnswer::of(AdminReply::Refused(AdminRefusal { code, reason, keyspace: 9 })))
}

fn drops(server: &FakeServer) -> Vec<KeyspaceDrop> {
    let requests = std::mem::take(&mut server.store.lock().unwrap().requests);
    let drops = requests.into_iter().map(|request| match request.query {
        Some(AdminQuestion::DropKeyspace(drop)) => drop,
        other => panic!("{other:?}"),
    });
    drops.collect()
}

#[tokio::test]
async fn drop_waits_until_done_and_ignores_later_keyspace_of_same_name() {
    let server = serve().await;
    let client = Client::connect(&server.address).await.unwrap();
    let says = |answers: Vec<Option<AdminAnswer>>| server.store.lock().unwrap().admin = answers;
    let papers = KeyspaceStatus { id: 9, name: "papers".into(), ..KeyspaceStatus::default() };
    let refused = |code| Some(AdminAnswer::refused(code, "why"));
    let done = || Some(AdminAnswer::of(AdminReply::Keyspace(Box::new(papers.clone()))));

    says(vec![refused(REFUSED_FAILED), under_way("a"), under_way("a"), None, under_way("b"), done()]);
    let mut reasons = Vec::new();
    let options = DropOptions { at_once: false, wait: Duration::from_mins(1) };
    let dropped =
        client.drop_keyspace_with("papers", options, |reason| reasons.push(reason.to_owned())).await;
    assert_eq!((dropped.as_ref(), &reasons[..]), (Ok(&papers), &["a".to_owned(), "b".to_owned()][..]));
    let requests = drops(&server);
    assert_eq!(requests.iter().map(|drop| drop.id).collect::<Vec<_>>(), [0, 0, 9, 9, 9, 9]);
    assert!(
        requests.iter().all(|drop| drop.wait_ms > Some(30_000) && drop.wait_ms <= Some(60_000)),
        "{requests:?}"
    );

    // The keyspace may be gone between two requests; it is an error only if it was missing from the
    // start.
    says(vec![under_way("a"), refused(REFUSED_UNKNOWN), refused(REFUSED_UNKNOWN)]);
    client.drop_keyspace("papers").await.unwrap();
    let error = client.drop_keyspace("papers").await.unwrap_err();
    assert!(matches!(&error, Error::Refused { code, .. } if &**code == REFUSED_UNKNOWN), "{error}");
    drops(&server);

    // It is not gone in time: the error says so, with the reason.
    says(vec![under_way("it waits for partition 5")]);
    let options = DropOptions { wait: Duration::ZERO, ..options };
    let error = client.drop_keyspace_with("papers", options, |_| ()).await.unwrap_err();
    assert!(matches!(error, Error::UnderWay { .. }) && !error.is_unknown(), "{error}");
    let text = error.to_string();
    assert!(text.contains("continues by itself") && text.ends_with("it waits for partition 5"), "{text}");
    assert_eq!(drops(&server)[0].wait_ms, Some(0));

    // No answer has confirmed that the drop has begun.
    says(vec![None]);
    let error = client.drop_keyspace("papers").await.unwrap_err();
    assert!(error.is_unknown(), "{error}");
}
