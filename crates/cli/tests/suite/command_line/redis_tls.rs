//! Redis clients at nodes that require certificates of clients.

use std::fs;
use std::io::{self, IoSlice};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;

use zerohop_tls::{ClientTls, Tls};

use crate::command_line::tls::{new_ca, tls};
use crate::support::serving::{ServingProgram, code, output, stdout, zerohop};
use crate::support::{GIVE_UP_AFTER, wait_for};

/// A Redis client over TLS.
struct SecureRedis {
    tls: Tls,
    stream: TcpStream,
}

impl SecureRedis {
    /// Trusts the CA of a folder, and presents the certificate of the node in another one.
    fn connect(address: &str, ca: &Path, own: Option<&Path>) -> SecureRedis {
        let file = |folder: &Path, name: &str| fs::read(folder.join(name)).unwrap();
        let ca = file(ca, "ca.pem");
        let config = match own {
            None => ClientTls::new(&ca),
            Some(own) => ClientTls::with_identity(&ca, &file(own, "node.pem"), &file(own, "node-key.pem")),
        };
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(GIVE_UP_AFTER)).unwrap();
        SecureRedis { tls: Tls::client(&config.unwrap(), "127.0.0.1").unwrap(), stream }
    }

    fn address(&self) -> SocketAddr {
        self.stream.local_addr().unwrap()
    }

    /// Sends commands, and returns what comes until it ends with `end`.
    fn exchange(&mut self, commands: &str, end: &str) -> io::Result<String> {
        self.tls.write(&mut self.stream, &[IoSlice::new(commands.as_bytes())])?;
        let mut received = Vec::new();
        while !received.ends_with(end.as_bytes()) {
            if self.tls.read(&mut self.stream, 1, |bytes| received.extend_from_slice(bytes))? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(String::from_utf8(received).unwrap())
    }
}

#[test]
fn only_redis_clients_with_certificate_are_served() {
    let folder = crate::support::folder();
    let (ours, another) = (new_ca(folder.path(), "ours"), new_ca(folder.path(), "another"));
    let log = folder.path().join("log");
    let mut command =
        zerohop(&["up", "--port", "0", "--json", "--memory", "--instances", "1", "--nodes", "1"]);
    command.args(tls(&ours, "node")).arg("--tls-client-ca").arg(ours.join("ca.pem"));
    let cluster = ServingProgram::start_with_log(command, &log);
    let instance = cluster.ready["nodes"][0]["instances"][0]["addr"].as_str().unwrap();

    let mut redis = SecureRedis::connect(instance, &ours, Some(&ours));
    let long = "x".repeat(100_000);
    let received = redis
        .exchange(
            &format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$100000\r\n{long}\r\nGET k\r\nPING\r\n"),
            "+PONG\r\n",
        )
        .unwrap();
    assert!(received == format!("+OK\r\n$100000\r\n{long}\r\n+PONG\r\n"), "{} bytes", received.len());

    for (own, client_hears, log_says) in [
        (None, "serves only clients with a certificate", "presents no certificate"),
        (
            Some(another.as_path()),
            "rejects this client's certificate",
            "is not one by the CA of --tls-client-ca",
        ),
    ] {
        let mut refused = SecureRedis::connect(instance, &ours, own);
        let peer = refused.address().to_string();
        let error = refused.exchange("SET k foreign\r\n", "\r\n").unwrap_err();
        assert!(error.to_string().contains(client_hears), "{error}");
        let is_one = |line: &str| {
            line.contains("a client is refused") && line.contains(&peer) && line.contains(log_says)
        };
        let is_there = |log: &String| log.lines().any(is_one);
        wait_for("the refused client, and the reason", || fs::read_to_string(&log).unwrap(), is_there);
    }
    // A client that trusts another CA ends the connection itself, and says why.
    let error =
        SecureRedis::connect(instance, &another, Some(&ours)).exchange("PING\r\n", "\r\n").unwrap_err();
    assert!(error.to_string().contains("is not one by the CA given"), "{error}");
    // Without TLS there is no certificate, also on this machine.
    let mut bare = crate::cluster::redis::Redis::connect(instance);
    let reply = bare.send_command("GET k");
    assert!(reply.starts_with("-ERR only TLS is served"), "{reply}");

    // Nothing of the others was done, and the first client is still served.
    let received = redis.exchange("STRLEN k\r\n", "\r\n").unwrap();
    assert_eq!(received, ":100000\r\n");

    // `doctor` says of itself why it is refused, and what to give.
    let mut doctor = zerohop(&["doctor", "--endpoint", cluster.endpoint()]);
    doctor.env("ZEROHOP_TLS_CA", ours.join("ca.pem"));
    let report = output(doctor, b"");
    assert!(code(&report) != 0, "{report:?}");
    assert!(stdout(&report).contains("serves only clients with a certificate"), "{report:?}");
    assert!(stdout(&report).contains("--tls-cert"), "{report:?}");
}
