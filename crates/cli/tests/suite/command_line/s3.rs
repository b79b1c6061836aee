//! `zerohop s3`: the gateway as a process, killed while clients put, and over a node that restarts.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

// What `signing` is made with.
use hmac as _;
use rustix::process::Signal;
use sha2 as _;

use self::signing::{Answer, SignedRequest};
use crate::cluster::NodeCluster;
use crate::support::serving::{ServingProgram, code, output, stderr, zerohop};
use crate::support::{GIVE_UP_AFTER, folder, wait_for};

#[allow(dead_code, reason = "the gateway's own tests use all of it")]
#[path = "../../../../gateways/s3/tests/suite/signing.rs"]
pub(super) mod signing;

/// Clients that put at the same time.
const WRITERS: usize = 4;
/// Objects of each.
const KEYS: usize = 5;
/// Puts of all writers before a fault.
const PUTS: u64 = 60;

pub(super) fn gateway(endpoint: &str) -> ServingProgram {
    ServingProgram::start(zerohop(&[
        "s3",
        "--endpoint",
        endpoint,
        "--listen",
        "127.0.0.1:0",
        "--timeout",
        "60s",
        "--json",
    ]))
}

/// Sends a request to a gateway; the status is 0 without an answer.
pub(super) fn send(address: &str, request: SignedRequest<'_>, body: &[u8]) -> Answer {
    send_as_user(address, SignedRequest { secret: "zerohop", ..request }, body)
}

/// Sends a request with its own access keys.
pub(super) fn send_as_user(address: &str, request: SignedRequest<'_>, body: &[u8]) -> Answer {
    let (head, _) = request.head(body.len());
    let mut answer = Vec::new();
    if let Ok(mut stream) = TcpStream::connect(address) {
        stream.set_read_timeout(Some(GIVE_UP_AFTER)).unwrap();
        // A gateway that is killed leaves a part of the answer, or none.
        let sent = stream.write_all(&[head.as_bytes(), body].concat());
        drop(sent.and_then(|()| stream.read_to_end(&mut answer)));
    }
    Answer::parse(&answer)
}

pub(super) fn ok(address: &str, request: SignedRequest<'_>, body: &[u8]) -> Answer {
    let what = format!("{} {}?{}", request.method, request.path, request.query);
    let answer = send(address, request, body);
    assert!(matches!(answer.status, 200 | 204 | 206), "{what}: {} {}", answer.head, answer.body);
    answer
}

pub(super) fn with_query<'a>(method: &'a str, path: &'a str, query: &'a str) -> SignedRequest<'a> {
    SignedRequest { query, ..SignedRequest::new(method, path) }
}

/// The texts between two tags.
fn all_between<'t>(text: &'t str, tag: &str) -> Vec<&'t str> {
    let (open, close) = (format!("<{tag}>"), format!("</{tag}>"));
    text.split(&*open).skip(1).filter_map(|rest| Some(rest.split_once(&*close)?.0)).collect()
}

/// The body of a put: its number, repeated. The lengths are those of one put and of a long one.
fn body_of(writer: usize, number: u64) -> String {
    let length = if number % 7 == 3 { 2_500_000 } else { 10 + number as usize * 100 };
    format!("{writer}-{number};").repeat(length / 4)
}

/// What a writer knows of one of its objects: the number of its last put that was answered, and of one behind it that was not.
#[derive(Clone, Copy, Debug, Default)]
struct PutState {
    acknowledged: Option<u64>,
    doubtful: Option<u64>,
}

/// Puts the objects of a writer in turn until `is_over`; returns the state of each.
fn write(
    address: &str,
    bucket: &str,
    writer: usize,
    (done, is_over): (&AtomicU64, &AtomicBool),
) -> BTreeMap<String, PutState> {
    let mut states = BTreeMap::<String, PutState>::new();
    let mut number = 0;
    while !is_over.load(Ordering::Relaxed) {
        let key = format!("w{writer}/{}", number as usize % KEYS);
        let body = body_of(writer, number);
        let answer = send(address, SignedRequest::new("PUT", &format!("/{bucket}/{key}")), body.as_bytes());
        let state = states.entry(key).or_default();
        match answer.status {
            200 => *state = PutState { acknowledged: Some(number), doubtful: None },
            // A put of this object that was not answered before may be what stands.
            0 | 503 => state.doubtful = Some(number),
            status => panic!("a put ends with {status}: {}", answer.body),
        }
        if answer.status != 200 {
            break;
        }
        done.fetch_add(1, Ordering::Relaxed);
        number += 1;
    }
    states
}

/// Each object is one whole put, the last one or the one in doubt, and the listing has exactly these objects.
fn check(address: &str, bucket: &str, states: &BTreeMap<String, PutState>) {
    let list = ok(address, with_query("GET", &format!("/{bucket}"), "list-type=2&prefix=w"), b"").body;
    let listed: BTreeSet<&str> = all_between(&list, "Key").into_iter().collect();
    let sizes: Vec<&str> = all_between(&list, "Size");
    let mut sizes_found = BTreeMap::new();
    for (key, state) in states {
        let answer = send(address, SignedRequest::new("GET", &format!("/{bucket}/{key}")), b"");
        let writer = key[1..].split('/').next().unwrap().parse().unwrap();
        let expected = [state.acknowledged, state.doubtful].into_iter().flatten();
        let mut expected = expected.map(|number| body_of(writer, number));
        match answer.status {
            200 => {
                assert!(expected.any(|body| body == answer.body), "{key}: {state:?}: {}", answer.head);
                sizes_found.insert(key.as_str(), answer.body.len().to_string());
            }
            status => assert!(status == 404 && state.acknowledged.is_none(), "{key}: {state:?}: {answer:?}"),
        }
    }
    assert_eq!(listed, sizes_found.keys().copied().collect(), "{list}");
    assert_eq!(sizes, sizes_found.values().collect::<Vec<_>>(), "{list}");
}

/// Puts from several writers until `fault` has come; checks the objects at the gateway that `fault` returns.
fn under_puts(
    gateway: ServingProgram,
    bucket: &str,
    fault: impl FnOnce(ServingProgram) -> ServingProgram,
) -> ServingProgram {
    let address = gateway.ready["listen"].as_str().unwrap().to_owned();
    ok(&address, SignedRequest::new("PUT", &format!("/{bucket}")), b"");
    let (done, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    let (gateway, states) = std::thread::scope(|scope| {
        let (address, shared) = (&address, (&done, &is_over));
        let writers: Vec<_> =
            (0..WRITERS).map(|writer| scope.spawn(move || write(address, bucket, writer, shared))).collect();
        wait_for("puts", || done.load(Ordering::Relaxed), |done| *done >= PUTS);
        let gateway = fault(gateway);
        is_over.store(true, Ordering::Relaxed);
        let states: BTreeMap<_, _> = writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect();
        (gateway, states)
    });
    check(gateway.ready["listen"].as_str().unwrap(), bucket, &states);
    gateway
}

#[test]
fn objects_are_whole_after_kills_of_gateway_and_node() {
    let folder = folder();
    let mut cluster = NodeCluster::start(folder.path(), 1);
    let endpoint = cluster.endpoints()[0].clone();
    let first = gateway(&endpoint);
    let second = under_puts(first, "gateway-killed", |first| {
        assert_eq!(first.end_with(Signal::KILL), None);
        gateway(&endpoint)
    });
    let second = under_puts(second, "node-killed", |second| {
        cluster.kill(0);
        cluster.start_again(0);
        second
    });
    let address = second.ready["listen"].as_str().unwrap().to_owned();
    ok(&address, SignedRequest::new("PUT", "/node-killed/after"), b"more");
    assert_eq!(ok(&address, SignedRequest::new("GET", "/node-killed/after"), b"").body, "more");
    assert_eq!(second.end_with(Signal::TERM), Some(0));
}

#[test]
fn operations_of_clients_work_and_a_second_gateway_sees_them() {
    let folder = folder();
    let cluster =
        ServingProgram::up(&["--instances", "2", "--data", folder.path().join("data").to_str().unwrap()]);
    let gateways = [gateway(cluster.endpoint()), gateway(cluster.endpoint())];
    let [one, other] = gateways.each_ref().map(|gateway| gateway.ready["listen"].as_str().unwrap());
    ok(one, SignedRequest::new("PUT", "/bucket"), b"");
    ok(one, SignedRequest::new("PUT", "/bucket/short").header("x-amz-meta-colour", "blue"), b"0123456789");
    let read = ok(other, SignedRequest::new("GET", "/bucket/short").header("range", "bytes=2-4"), b"");
    assert_eq!((read.status, read.body.as_str()), (206, "234"));
    assert!(read.head.contains("x-amz-meta-colour: blue"), "{}", read.head);
    let refused = send(other, SignedRequest::new("PUT", "/bucket/short").header("if-none-match", "*"), b"x");
    assert_eq!(refused.status, 412, "{refused:?}");
    for round in 0..5 {
        let path = format!("/bucket/race-{round}");
        let winners: Vec<String> = std::thread::scope(|scope| {
            let puts: Vec<_> = (0..8)
                .map(|writer: usize| {
                    let (path, gateway) = (&path, [one, other][writer % 2]);
                    let put = move || {
                        let put = SignedRequest::new("PUT", path).header("if-none-match", "*");
                        (send(gateway, put, writer.to_string().as_bytes()).status, writer.to_string())
                    };
                    scope.spawn(put)
                })
                .collect();
            let ends = puts.into_iter().map(|put| put.join().unwrap());
            ends.filter(|(status, _)| *status != 412)
                .inspect(|(status, _)| assert_eq!(*status, 200))
                .map(|(_, writer)| writer)
                .collect()
        });
        assert_eq!(winners, [ok(one, SignedRequest::new("GET", &path), b"").body]);
        ok(other, SignedRequest::new("DELETE", &path), b"");
    }
    // Parts, of which the second is put through the other gateway.
    let started = ok(one, with_query("POST", "/bucket/long", "uploads"), b"").body;
    let id = all_between(&started, "UploadId")[0].to_owned();
    let parts = ["a".repeat(5 << 20), "b".repeat(1000)];
    let mut list = String::new();
    for (number, (part, gateway)) in parts.iter().zip([one, other]).enumerate() {
        let query = format!("partNumber={}&uploadId={id}", number + 1);
        let put = ok(gateway, with_query("PUT", "/bucket/long", &query), part.as_bytes());
        let tag = put.head.lines().find_map(|line| line.strip_prefix("etag: ")).unwrap();
        list += &format!("<Part><PartNumber>{}</PartNumber><ETag>{tag}</ETag></Part>", number + 1);
    }
    let list = format!("<CompleteMultipartUpload>{list}</CompleteMultipartUpload>");
    assert_eq!(send(other, SignedRequest::new("GET", "/bucket/long"), b"").status, 404);
    ok(one, with_query("POST", "/bucket/long", &format!("uploadId={id}")), list.as_bytes());
    assert!(ok(other, SignedRequest::new("GET", "/bucket/long"), b"").body == parts.concat());
    let listed = ok(other, with_query("GET", "/bucket", "list-type=2"), b"").body;
    assert_eq!(all_between(&listed, "Key"), ["long", "short"]);
    ok(other, SignedRequest::new("DELETE", "/bucket/short"), b"");
    assert_eq!(send(one, SignedRequest::new("GET", "/bucket/short"), b"").status, 404);
    let wrong = send(one, SignedRequest { secret: "zerohop", ..SignedRequest::new("GET", "/nothing") }, b"");
    assert_eq!((wrong.status, wrong.code()), (404, "NoSuchBucket"));
    let unsigned = Answer::parse(&{
        let mut stream = TcpStream::connect(one).unwrap();
        stream.write_all(b"GET /bucket HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        answer
    });
    assert_eq!((unsigned.status, unsigned.code()), (403, "AccessDenied"));
    for (at, exit, words) in
        [(one, 3, "Address already in use"), ("0.0.0.0:0", 2, "addresses of this machine")]
    {
        let refused = output(zerohop(&["s3", "--endpoint", cluster.endpoint(), "--listen", at]), b"");
        assert_eq!(code(&refused), exit, "{refused:?}");
        assert!(stderr(&refused).contains(words) && stderr(&refused).lines().count() == 1, "{refused:?}");
    }
    for gateway in gateways {
        assert_eq!(gateway.end_with(Signal::TERM), Some(0));
    }
}
