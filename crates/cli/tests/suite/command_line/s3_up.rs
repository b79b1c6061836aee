//! `zerohop up --s3`: the gateway beside the nodes, its log, TLS, and a full disk.

use std::io::{ErrorKind, IoSlice};
use std::net::TcpStream;

use rustix::process::Signal;
use zerohop_tls::{ClientTls, Tls};

use super::s3::signing::{Answer, SignedRequest};
use super::s3::{ok, send, with_query};
use super::secrets::new_secret;
use super::tls::{new_ca, tls};
use crate::support::disk::SmallDisk;
use crate::support::serving::{ServingProgram, code, output, stderr, zerohop};
use crate::support::{GIVE_UP_AFTER, folder};

const UP: [&str; 8] = ["up", "--nodes", "1", "--port", "0", "--json", "--s3", "0"];

#[test]
fn gateway_beside_nodes_serves_and_logs_a_line_for_each_request() {
    let folder = folder();
    let log = folder.path().join("log");
    let mut command = zerohop(&UP);
    command.args(["--memory", "--log-level", "info"]);
    let cluster = ServingProgram::start_with_log(command, &log);
    let address = cluster.ready["s3"].as_str().unwrap().to_owned();
    ok(&address, SignedRequest::new("PUT", "/bucket"), b"");
    ok(&address, SignedRequest::new("PUT", "/bucket/key"), b"body");
    assert_eq!(ok(&address, SignedRequest::new("GET", "/bucket/key"), b"").body, "body");
    let wrong = super::s3::send_as_user(
        &address,
        SignedRequest { secret: "wrong", ..SignedRequest::new("GET", "/bucket/key") },
        b"",
    );
    assert_eq!((wrong.status, wrong.code()), (403, "SignatureDoesNotMatch"));
    // The port is taken: nothing starts, not even a folder.
    let port = address.rsplit_once(':').unwrap().1;
    let data = folder.path().join("data");
    let mut second = zerohop(&["up", "--nodes", "1", "--port", "0", "--s3", port, "--data"]);
    second.arg(&data);
    let refused = output(second, b"");
    assert_eq!(code(&refused), 3, "{refused:?}");
    let why = stderr(&refused);
    assert!(
        why.contains("Address already in use") && why.contains(port) && why.lines().count() == 1,
        "{why}"
    );
    assert!(!data.exists(), "a folder was made");
    let usage = output(zerohop(&["up", "--s3-region", "eu-west-1", "--s3-domain", "s3.example.org"]), b"");
    assert_eq!(code(&usage), 2, "{usage:?}");
    assert_eq!(cluster.end_with(Signal::TERM), Some(0));
    let log = std::fs::read_to_string(&log).unwrap();
    let refusals: Vec<&str> = log.lines().filter(|line| line.contains("Signature")).collect();
    assert_eq!(refusals.len(), 1, "{log}");
    let line = refusals[0];
    assert!(line.contains("INFO") && line.contains("403") && line.contains("tester"), "{line}");
    assert!(!log.contains("ERROR"), "{log}");
    assert_eq!(log.lines().filter(|line| line.contains("/bucket/key")).count(), 3, "{log}");
}

/// Sends a request over TLS.
pub(super) fn send_over_tls(address: &str, ca: &[u8], request: &SignedRequest<'_>, body: &[u8]) -> Answer {
    let (head, _) = request.head(body.len());
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(GIVE_UP_AFTER)).unwrap();
    let mut tls = Tls::client(&ClientTls::new(ca).unwrap(), "127.0.0.1").unwrap();
    let mut printed = Vec::new();
    let sent = tls.write(&mut stream, &[IoSlice::new(head.as_bytes()), IoSlice::new(body)]);
    sent.unwrap();
    loop {
        match tls.read(&mut stream, 1 << 16, |bytes| printed.extend_from_slice(bytes)) {
            Ok(0) => break,
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => panic!("no answer comes"),
            Err(_) => break,
        }
    }
    Answer::parse(&printed)
}

#[test]
fn gateway_with_a_certificate_serves_over_tls_alone() {
    let folder = folder();
    let ca = new_ca(folder.path(), "ca");
    let secret = new_secret(folder.path(), "secret");
    let mut command = zerohop(&UP);
    command.arg("--memory").args(tls(&ca, "node")).arg("--secret-file").arg(&secret);
    let cluster = ServingProgram::start(command);
    let mut command = zerohop(&["s3", "--listen", "127.0.0.1:0", "--json", "--endpoint", cluster.endpoint()]);
    command.args(tls(&ca, "node")).arg("--secret-file").arg(&secret);
    let second = ServingProgram::start(command);
    let mut token = zerohop(&["token", "new", "robot", "--s3", "--json", "--all", "read,write", "--file"]);
    token.arg(folder.path().join("robot.token")).args(["--endpoint", cluster.endpoint()]);
    token.arg("--tls-ca").arg(ca.join("ca.pem")).arg("--secret-file").arg(&secret);
    let made = output(token, b"");
    let keys: serde_json::Value = serde_json::from_slice(&made.stdout).unwrap_or_else(|_| panic!("{made:?}"));
    let authority = std::fs::read(ca.join("ca.pem")).unwrap();
    let key = keys["secret_access_key"].as_str().unwrap();
    let signed = |request| SignedRequest { access_key: "robot", secret: key, ..request };
    let body = "long ".repeat(100_000);
    let first = cluster.ready["s3"].as_str().unwrap();
    let second = second.ready["listen"].as_str().unwrap();
    for (request, body) in [
        (SignedRequest::new("PUT", "/bucket"), ""),
        (SignedRequest::new("PUT", "/bucket/key"), body.as_str()),
    ] {
        let answer = send_over_tls(first, &authority, &signed(request), body.as_bytes());
        assert_eq!(answer.status, 200, "{answer:?}");
    }
    let answer = send_over_tls(second, &authority, &signed(SignedRequest::new("GET", "/bucket/key")), b"");
    assert!(answer.status == 200 && answer.body == body, "{}", answer.head);
    for address in [first, second] {
        let bare = super::s3::send_as_user(address, signed(SignedRequest::new("GET", "/bucket/key")), b"");
        assert_eq!(bare.status, 0, "{bare:?}");
    }
}

#[test]
fn put_on_a_full_disk_is_answered_507_and_stores_nothing() {
    let folder = folder();
    let Some(disk) = SmallDisk::mount(&folder.path().join("disk"), "220m") else {
        return crate::support::not_run("only root may mount a disk of 220 MiB");
    };
    let data = folder.path().join("disk/data");
    let mut command = zerohop(&UP);
    command.args(["--instances", "1", "--data"]).arg(&data);
    let cluster = ServingProgram::start(command);
    let address = cluster.ready["s3"].as_str().unwrap();
    ok(address, SignedRequest::new("PUT", "/bucket"), b"");
    ok(address, SignedRequest::new("PUT", "/bucket/kept"), b"kept");
    disk.leave(60 << 20);
    let body = vec![b'x'; 2 << 20];
    let refused = (0..80).find_map(|number| {
        let path = format!("/bucket/fill-{number}");
        let answer = send(address, SignedRequest::new("PUT", &path), &body);
        (answer.status != 200).then_some((path, answer))
    });
    let (path, answer) = refused.expect("a put is refused");
    assert_eq!((answer.status, answer.code()), (507, "InsufficientStorage"), "{answer:?}");
    assert_eq!(send(address, SignedRequest::new("GET", &path), b"").status, 404);
    assert_eq!(ok(address, SignedRequest::new("GET", "/bucket/kept"), b"").body, "kept");
    let listed = ok(address, with_query("GET", "/bucket", "list-type=2"), b"").body;
    assert!(!listed.contains(&path["/bucket/".len()..]) && listed.contains("kept"), "{listed}");
}
