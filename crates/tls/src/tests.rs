//! Two filters and the bytes between them: complete, cut, corrupt, and with full buffers.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::rc::Rc;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    date_time_ymd,
};
use zerohop_wire::AuthFault;

use super::*;

/// A CA, and a certificate by it with its key; all as PEM.
struct TestCertificates {
    ca: String,
    issuer: Rc<Issuer<'static, KeyPair>>,
    certificate: String,
    key: String,
}

fn made(names: &[&str]) -> TestCertificates {
    let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, "a CA of tests");
    let ca_key = KeyPair::generate().unwrap();
    let ca = params.self_signed(&ca_key).unwrap().pem();
    certified(ca, Rc::new(Issuer::new(params, ca_key)), names, |_| ())
}

fn certified(
    ca: String,
    issuer: Rc<Issuer<'static, KeyPair>>,
    names: &[&str],
    change: impl FnOnce(&mut CertificateParams),
) -> TestCertificates {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(names).unwrap();
    change(&mut params);
    let certificate = params.signed_by(&key, &issuer).unwrap().pem();
    TestCertificates { ca, issuer, certificate, key: key.serialize_pem() }
}

/// Another certificate by the same CA.
fn with_change(trusted: &TestCertificates, change: impl FnOnce(&mut CertificateParams)) -> TestCertificates {
    certified(trusted.ca.clone(), Rc::clone(&trusted.issuer), &["localhost"], change)
}

fn pair(server: &TestCertificates, ca: &TestCertificates, host: &str) -> (Tls, Tls) {
    let config = ServerTls::new(server.certificate.as_bytes(), server.key.as_bytes()).unwrap();
    let client = ClientTls::new(ca.ca.as_bytes()).unwrap();
    (Tls::server(&config).unwrap(), Tls::client(&client, host).unwrap())
}

/// One end of a socket pair: bytes to this side, bytes from it, and the room for the latter.
struct End<'a> {
    input: &'a mut VecDeque<u8>,
    output: &'a mut VecDeque<u8>,
    room: usize,
}

impl Read for End<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.input.is_empty() {
            return Err(ErrorKind::WouldBlock.into());
        }
        self.input.read(into)
    }
}

impl Write for End<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let length = bytes.len().min(self.room.saturating_sub(self.output.len()));
        if length == 0 {
            return Err(ErrorKind::WouldBlock.into());
        }
        self.output.write(&bytes[..length])
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[derive(Default)]
struct WirePair {
    to_server: VecDeque<u8>,
    to_client: VecDeque<u8>,
}

impl WirePair {
    fn client(&mut self, room: usize) -> End<'_> {
        End { input: &mut self.to_client, output: &mut self.to_server, room }
    }

    fn server(&mut self, room: usize) -> End<'_> {
        End { input: &mut self.to_server, output: &mut self.to_client, room }
    }
}

fn all(tls: &mut Tls, end: &mut End<'_>, received: &mut Vec<u8>) -> io::Result<()> {
    loop {
        match tls.read(end, 1000, |piece| received.extend_from_slice(piece)) {
            Ok(0) => return Ok(()),
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}

#[test]
fn tls_data_arrives_despite_short_socket_writes() {
    let made = made(&["localhost", "127.0.0.1"]);
    let sent: Vec<u8> = (0..300_000_u32).map(|at| (at % 251) as u8).collect();
    for (host, room) in [("localhost", usize::MAX), ("127.0.0.1", 70_000), ("127.0.0.1", 333)] {
        let (mut server, mut client) = pair(&made, &made, host);
        let mut wires = WirePair::default();
        let (mut at, mut received, mut answered) = (0, Vec::new(), Vec::new());
        for _ in 0..10_000 {
            let piece = [IoSlice::new(&sent[at..])];
            match client.write(&mut wires.client(room), &piece) {
                Ok(length) => at += length,
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
            }
            client.flush(&mut wires.client(room)).unwrap();
            all(&mut server, &mut wires.server(room), &mut received).unwrap();
            server.flush(&mut wires.server(room)).unwrap();
            all(&mut client, &mut wires.client(room), &mut answered).unwrap();
            if received.len() == sent.len() {
                break;
            }
        }
        assert!(received == sent, "{} of {} bytes", received.len(), sent.len());
        server
            .write(&mut wires.server(usize::MAX), &[IoSlice::new(b"an "), IoSlice::new(b"answer")])
            .unwrap();
        assert!(!wires.to_client.iter().copied().collect::<Vec<u8>>().windows(6).any(|at| at == b"answer"));
        assert_eq!(client.peek(&mut wires.client(room)).unwrap(), Some(b'a'));
        assert!(client.has_more());
        all(&mut client, &mut wires.client(room), &mut answered).unwrap();
        assert_eq!(answered, b"an answer");
        client.end();
        client.flush(&mut wires.client(usize::MAX)).unwrap();
        assert_eq!(server.read(&mut wires.server(room), 9, |_| {}).unwrap(), 0);
    }
}

/// The client's error at the server's part of the handshake.
fn refused(server: &TestCertificates, ca: &TestCertificates, host: &str) -> Option<AuthFault> {
    let (mut server, mut client) = pair(server, ca, host);
    let mut wires = WirePair::default();
    client.flush(&mut wires.client(usize::MAX)).unwrap();
    all(&mut server, &mut wires.server(usize::MAX), &mut Vec::new()).unwrap();
    let ended = all(&mut client, &mut wires.client(usize::MAX), &mut Vec::new()).err()?;
    // The server receives an alert.
    let error = all(&mut server, &mut wires.server(usize::MAX), &mut Vec::new()).unwrap_err();
    assert!(error.to_string().contains("alert"), "{error}");
    fault_of(&ended)
}

#[test]
fn a_certificate_by_another_ca_or_for_another_name_is_refused_in_words() {
    let (one, other) = (made(&["localhost"]), made(&["localhost"]));
    assert_eq!(refused(&one, &one, "localhost"), None);
    assert_eq!(refused(&one, &other, "localhost"), Some(AuthFault::Certificate));
    assert_eq!(refused(&one, &one, "127.0.0.1"), Some(AuthFault::CertificateName));
    assert_eq!(refused(&one, &one, "elsewhere.example"), Some(AuthFault::CertificateName));
}

/// When certificates with [`has_expired`] have expired, in seconds since 1970.
const EXPIRED_S: u64 = 1_609_459_200;

fn has_expired(params: &mut CertificateParams) {
    (params.not_before, params.not_after) = (date_time_ymd(2020, 1, 1), date_time_ymd(2021, 1, 1));
}

#[test]
fn certificate_of_server_outside_its_time_is_refused_in_words() {
    let trusted = made(&["localhost"]);
    let expired = with_change(&trusted, has_expired);
    // The client learns the time.
    let (mut server, mut client) = pair(&expired, &expired, "localhost");
    let mut wires = WirePair::default();
    client.flush(&mut wires.client(usize::MAX)).unwrap();
    all(&mut server, &mut wires.server(usize::MAX), &mut Vec::new()).unwrap();
    let ended = all(&mut client, &mut wires.client(usize::MAX), &mut Vec::new()).unwrap_err();
    assert_eq!(expired_of(&ended), Some(EXPIRED_S));
    assert!(ended.to_string().ends_with("(it has expired on 2021-01-01 00:00:00 UTC)"), "{ended}");
    assert_eq!(refused(&expired, &expired, "localhost"), Some(AuthFault::CertificateExpired));
    let future = with_change(&trusted, |params| params.not_before = date_time_ymd(2090, 1, 1));
    assert_eq!(refused(&future, &future, "localhost"), Some(AuthFault::CertificateTime));
}

/// What a server that requires certificates by its CA, and a client that sends a greeting at once, report about the client.
fn client_refused(
    server: &TestCertificates,
    client: Option<&TestCertificates>,
) -> (Option<io::Error>, Option<io::Error>) {
    let bytes = |text: &str| text.as_bytes().to_vec();
    let (certificate, key, ca) = (bytes(&server.certificate), bytes(&server.key), bytes(&server.ca));
    let config = ServerTls::with_client_cas(&certificate, &key, &ca).unwrap();
    assert!(config.requires_certificates());
    let trusting = match client {
        None => ClientTls::new(&ca).unwrap(),
        Some(own) => ClientTls::with_identity(&ca, own.certificate.as_bytes(), own.key.as_bytes()).unwrap(),
    };
    let (mut server, mut client) =
        (Tls::server(&config).unwrap(), Tls::client(&trusting, "localhost").unwrap());
    let mut wires = WirePair::default();
    client.write(&mut wires.client(usize::MAX), &[IoSlice::new(b"hello")]).unwrap();
    all(&mut server, &mut wires.server(usize::MAX), &mut Vec::new()).unwrap();
    all(&mut client, &mut wires.client(usize::MAX), &mut Vec::new()).unwrap();
    let mut received = Vec::new();
    let at_server = all(&mut server, &mut wires.server(usize::MAX), &mut received).err();
    // Unread bytes would make the system reset the connection.
    assert!(wires.to_server.is_empty());
    assert_eq!(received, if at_server.is_none() { &b"hello"[..] } else { b"" });
    (at_server, all(&mut client, &mut wires.client(usize::MAX), &mut Vec::new()).err())
}

#[test]
fn client_without_accepted_certificate_is_refused_in_words_on_both_sides() {
    let trusted = made(&["localhost"]);
    assert!(matches!(client_refused(&trusted, Some(&trusted)), (None, None)));
    let (another, expired) = (made(&["localhost"]), with_change(&trusted, has_expired));
    let for_servers = with_change(&trusted, |params| {
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    });
    for (client, fault, words) in [
        (None, AuthFault::ClientCertificateWanted, "presents no certificate"),
        (Some(&another), AuthFault::ClientCertificate, "not one by the CA of --tls-client-ca"),
        (Some(&for_servers), AuthFault::ClientCertificate, "or is not for clients"),
        (Some(&expired), AuthFault::ClientCertificateTime, "2021-01-01 00:00:00 UTC"),
    ] {
        let (at_server, at_client) = client_refused(&trusted, client);
        let (at_server, at_client) = (at_server.unwrap(), at_client.unwrap());
        assert_eq!((refused_client(&at_server), fault_of(&at_client)), (Some(fault), Some(fault)));
        assert!(at_server.to_string().contains(words), "{at_server}");
        assert!(at_client.to_string().contains(fault.text()), "{at_client}");
        assert_eq!(refused_client(&at_client), None);
        let expired_s = (fault == AuthFault::ClientCertificateTime).then_some(EXPIRED_S);
        assert_eq!((expired_of(&at_server), expired_of(&at_client)), (expired_s, expired_s));
    }
    // A node whose own certificate the other nodes would refuse does not start.
    let own = |node: &TestCertificates, ca: &TestCertificates| {
        ServerTls::with_client_cas(node.certificate.as_bytes(), node.key.as_bytes(), ca.ca.as_bytes())
    };
    for error in [own(&trusted, &another).unwrap_err(), own(&for_servers, &trusted).unwrap_err()] {
        assert!(error.to_string().contains("lacks the client usage"), "{error}");
    }
}

#[test]
fn non_tls_input_is_reported_and_closes_the_connection() {
    let made = made(&["localhost"]);
    let (_, mut client) = pair(&made, &made, "localhost");
    let mut wires = WirePair::default();
    wires.to_client.extend(b"-ERR this is no TLS\r\n");
    let error = all(&mut client, &mut wires.client(usize::MAX), &mut Vec::new()).unwrap_err();
    assert_eq!(fault_of(&error), Some(AuthFault::NoTlsThere));
    assert!(error.to_string().contains("does not speak TLS"), "{error}");

    // A truncated handshake, one that is corrupt at any byte, and one without an end.
    let hello = {
        let (_, mut client) = pair(&made, &made, "localhost");
        let mut wires = WirePair::default();
        client.flush(&mut wires.client(usize::MAX)).unwrap();
        wires.to_server
    };
    let config = ServerTls::new(made.certificate.as_bytes(), made.key.as_bytes()).unwrap();
    for at in 0..hello.len() {
        let mut wires =
            WirePair { to_server: hello.iter().copied().take(at).collect(), ..WirePair::default() };
        let mut server = Tls::server(&config).unwrap();
        assert!(all(&mut server, &mut wires.server(usize::MAX), &mut Vec::new()).is_ok(), "{at}");
        let mut damaged = hello.clone();
        damaged[at] ^= 0x55;
        let mut wires = WirePair { to_server: damaged, ..WirePair::default() };
        let mut server = Tls::server(&config).unwrap();
        // Whatever the server answers, no plain bytes arrive.
        let mut received = Vec::new();
        drop(all(&mut server, &mut wires.server(usize::MAX), &mut received));
        assert!(received.is_empty());
    }
    // A handshake message with an announced length of 16 MB.
    let mut wires = WirePair::default();
    for _ in 0..1000 {
        wires.to_server.extend([0x16, 3, 1, 0x40, 0, 1, 0xff, 0xff, 0xff]);
        wires.to_server.extend(std::iter::repeat_n(0, 0x4000 - 4));
    }
    let mut server = Tls::server(&config).unwrap();
    assert!(all(&mut server, &mut wires.server(usize::MAX), &mut Vec::new()).is_err());
    assert!(wires.to_server.len() > 900 * 0x4000, "nothing more is taken of it");
}

#[test]
fn invalid_tls_files_are_reported() {
    let (one, other) = (made(&["localhost"]), made(&["localhost"]));
    let server = |certificate: &str, key: &str| ServerTls::new(certificate.as_bytes(), key.as_bytes());
    assert!(server(&one.certificate, &one.key).is_ok());
    let words = |result: Result<ServerTls, ConfigError>| result.unwrap_err().to_string();
    assert!(words(server("", &one.key)).contains("no certificate"));
    assert!(words(server(&one.certificate, "")).contains("no private key"));
    assert!(words(server(&one.certificate, &other.key)).contains("cannot be used together"));
    assert!(ClientTls::new(one.key.as_bytes()).unwrap_err().to_string().contains("no certificate"));
}

#[test]
fn hosts_are_found_in_addresses() {
    let all = ["node1:7400", "127.0.0.1:7400", "[::1]:7400", "node1"].map(host_of);
    assert_eq!(all, ["node1", "127.0.0.1", "::1", "node1"]);
}
