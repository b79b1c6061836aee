//! Clusters that use TLS: which clients are served, and the errors of the others.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::command_line::secrets::{log_line_with, new_secret};
use crate::support::GIVE_UP_AFTER;
use crate::support::process::RunningProcess;
use crate::support::serving::{ServingProgram, code, output, stderr, stdout, zerohop};

/// Makes a CA, and a certificate for this machine's loopback.
pub(crate) fn new_ca(folder: &Path, name: &str) -> PathBuf {
    let path = folder.join(name);
    let made = zerohop(&["tls".as_ref(), "new".as_ref(), path.as_os_str()]).output().unwrap();
    assert_eq!((code(&made), stdout(&made).as_str()), (0, ""), "{made:?}");
    assert!(stderr(&made).contains("--tls-cert"), "{made:?}");
    path
}

/// The arguments of a node with the certificate of this name.
pub(crate) fn tls(ca: &Path, name: &str) -> Vec<String> {
    let file = |file: String| ca.join(file).to_str().unwrap().to_owned();
    let pairs = [
        ("--tls-cert", format!("{name}.pem")),
        ("--tls-key", format!("{name}-key.pem")),
        ("--tls-ca", "ca.pem".to_owned()),
    ];
    pairs.into_iter().flat_map(|(option, name)| [option.to_owned(), file(name)]).collect()
}

pub(crate) fn up(arguments: &[String], nodes: &str) -> ServingProgram {
    let mut command =
        zerohop(&["up", "--port", "0", "--json", "--memory", "--instances", "1", "--nodes", nodes]);
    command.args(arguments);
    ServingProgram::start(command)
}

fn run(cluster: &ServingProgram, ca: Option<&Path>, arguments: &[&str]) -> Output {
    let mut command = zerohop(arguments);
    command.env("ZEROHOP_ENDPOINT", cluster.endpoint());
    if let Some(ca) = ca {
        command.env("ZEROHOP_TLS_CA", ca.join("ca.pem"));
    }
    output(command, b"")
}

fn refusal(cluster: &ServingProgram, ca: Option<&Path>) -> String {
    let refused = run(cluster, ca, &["kv", "insert", "k", "v"]);
    assert_eq!((code(&refused), stdout(&refused).as_str()), (3, ""), "{refused:?}");
    stderr(&refused)
}

#[test]
fn three_nodes_and_their_clients_speak_tls_and_believe_only_their_ca() {
    let folder = crate::support::folder();
    let (ours, another) = (new_ca(folder.path(), "ours"), new_ca(folder.path(), "another"));
    let secret = new_secret(folder.path(), "secret");
    let mut arguments = tls(&ours, "node");
    arguments.extend(["--secret-file".to_owned(), secret.to_str().unwrap().to_owned()]);
    let cluster = up(&arguments, "3");
    let secret = ["--secret-file", secret.to_str().unwrap()];
    let query = |ca: Option<&Path>, words: &[&str]| run(&cluster, ca, &[words, &secret].concat());
    // Larger than a TLS record, than one encryption step and than a socket buffer.
    let large = folder.path().join("large");
    fs::write(&large, vec![7; 3 << 20]).unwrap();
    let done = query(Some(&ours), &["kv", "insert", "large", "--file", large.to_str().unwrap()]);
    assert_eq!(code(&done), 0, "{done:?}");
    let read = query(Some(&ours), &["kv", "lookup", "large"]);
    assert!(read.stdout == fs::read(&large).unwrap(), "{}", stderr(&read));
    for key in 0..20 {
        let done = query(Some(&ours), &["kv", "insert", &format!("k{key}"), "v"]);
        assert_eq!(code(&done), 0, "{done:?}");
    }
    let nodes = query(Some(&ours), &["node", "list", "--json"]);
    assert_eq!(stdout(&nodes).matches("\"up\"").count(), 3, "{nodes:?}");

    let error = stderr(&query(Some(&another), &["kv", "insert", "k", "v"]));
    assert!(error.contains("is not one by the CA given"), "{error}");
    // Local clients with the secret are served without TLS too.
    assert_eq!(stdout(&query(None, &["kv", "lookup", "k1"])), "v");
    // TLS clients need the secret too.
    assert!(refusal(&cluster, Some(&ours)).contains("--secret-file"));
}

#[test]
fn client_refuses_other_certificate_names_and_servers_without_tls() {
    let folder = crate::support::folder();
    let ours = new_ca(folder.path(), "ours");
    let elsewhere = {
        let pem = fs::read_to_string(ours.join("ca-key.pem")).unwrap();
        let mut ca = rcgen::CertificateParams::new(Vec::<String>::new()).unwrap();
        ca.distinguished_name.push(rcgen::DnType::CommonName, "zerohop CA");
        let issuer = rcgen::Issuer::new(ca, rcgen::KeyPair::from_pem(&pem).unwrap());
        let key = rcgen::KeyPair::generate().unwrap();
        let params = rcgen::CertificateParams::new(vec!["elsewhere.example".to_owned()]).unwrap();
        fs::write(ours.join("other.pem"), params.signed_by(&key, &issuer).unwrap().pem()).unwrap();
        let key_file = ours.join("other-key.pem");
        fs::copy(ours.join("node-key.pem"), &key_file).unwrap();
        fs::write(&key_file, key.serialize_pem()).unwrap();
        up(&tls(&ours, "other"), "1")
    };
    assert!(refusal(&elsewhere, Some(&ours)).contains("does not name the address"));
    let bare = ServingProgram::in_memory();
    assert!(refusal(&bare, Some(&ours)).contains("does not speak TLS"));
}

#[test]
fn node_with_other_ca_cannot_join() {
    let folder = crate::support::folder();
    let (ours, another) = (new_ca(folder.path(), "ours"), new_ca(folder.path(), "another"));
    let cluster = up(&tls(&ours, "node"), "2");
    let mut command = zerohop(&["node", "--memory", "--listen", "127.0.0.1:0", "--instances", "1"]);
    command.args(["--join", cluster.endpoint()]).args(tls(&another, "node"));
    command.args(["--ends-with-parent", &std::process::id().to_string()]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut node = RunningProcess::start(&mut command);
    let line = log_line_with(&mut node, "the connection to a manager was rejected");
    assert!(line.contains("is not one by the CA given"), "{line}");
}

#[test]
fn certificate_and_key_errors_are_reported() {
    let folder = crate::support::folder();
    let (ours, another) = (new_ca(folder.path(), "ours"), new_ca(folder.path(), "another"));
    let again = zerohop(&["tls".as_ref(), "new".as_ref(), ours.as_os_str()]).output().unwrap();
    assert!(code(&again) == 3 && stderr(&again).contains("exists"), "{again:?}");
    let started = |certificate: PathBuf, key: Option<PathBuf>, more: &[&str]| {
        let mut command = zerohop(&["node", "--memory", "--listen", "127.0.0.1:0", "--instances", "1"]);
        command.arg("--tls-cert").arg(certificate).args(more);
        if let Some(key) = key {
            command.arg("--tls-key").arg(key);
        }
        let refused = output(command, b"");
        assert!(code(&refused) == 2 || code(&refused) == 3, "{refused:?}");
        stderr(&refused)
    };
    let (certificate, key) = (ours.join("node.pem"), ours.join("node-key.pem"));
    assert!(started(certificate.clone(), None, &[]).contains("--tls-key"));
    assert!(started(certificate.clone(), Some(key.clone()), &["--tls-only"]).contains("--tls-ca"));
    let other_key = Some(another.join("node-key.pem"));
    assert!(started(certificate.clone(), other_key, &[]).contains("cannot be used together"));
    assert!(started(key.clone(), Some(key.clone()), &[]).contains("no certificate"));
    assert!(started(ours.join("nowhere"), Some(key), &[]).contains("No such file"));
    assert!(started(certificate.clone(), Some(certificate), &[]).contains("chmod 600"));
}

/// Certificates may be read by others; nothing may be changed by them, and keys may not even be read.
#[test]
fn new_files_have_same_permissions_whatever_the_umask() {
    let folder = crate::support::folder();
    for (umask, of_folder, of_certificate) in
        [("000", 0o755, 0o644), ("002", 0o755, 0o644), ("077", 0o700, 0o600)]
    {
        let ours = folder.path().join(umask).join("made");
        for (words, name) in [("new", None), ("add", Some("other"))] {
            let mut command = Command::new("sh");
            command.args(["-c", &format!("umask {umask}; exec \"$@\""), "sh"]);
            command.arg(env!("CARGO_BIN_EXE_zerohop")).args(["tls", words]).arg(&ours).args(name);
            let made = output(command, b"");
            assert_eq!(code(&made), 0, "{made:?}");
        }
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&ours), mode(ours.parent().unwrap())), (of_folder, of_folder), "{umask}");
        for name in ["ca", "node", "other"] {
            let (certificate, key) = (ours.join(format!("{name}.pem")), ours.join(format!("{name}-key.pem")));
            assert_eq!((mode(&certificate), mode(&key)), (of_certificate, 0o600), "{name} {umask}");
        }
    }
}

#[test]
fn bad_handshakes_do_not_affect_other_connections() {
    let folder = crate::support::folder();
    let ours = new_ca(folder.path(), "ours");
    let cluster = up(&tls(&ours, "node"), "1");
    let instance = cluster.ready["nodes"][0]["instances"][0]["addr"].as_str().unwrap().to_owned();
    for address in [cluster.endpoint(), &instance] {
        let connect = |bytes: &[u8]| {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.set_read_timeout(Some(GIVE_UP_AFTER)).unwrap();
            stream.set_write_timeout(Some(GIVE_UP_AFTER)).unwrap();
            // The server may close the connection before all bytes are sent, so that errors are
            // ignored.
            drop(stream.write_all(bytes));
            stream
        };
        // Connections that stop in a record header, in a handshake, and in a long record.
        let silent = [connect(&[0x16]), connect(&[0x16, 3, 1, 1, 0, 1]), connect(&[0x16, 3, 3, 0x3f, 0xff])];
        let crowd: Vec<TcpStream> = (0..200).map(|_| connect(&[0x16, 3, 1])).collect();
        // Bytes that are no handshake, and a handshake without end.
        let endless = [&[0x16, 3, 1, 0x40, 0, 1, 0xff, 0xff, 0xff][..], &[0; 0x4000 - 4]].concat().repeat(64);
        for bytes in [&[0x16, 0, 0, 0, 0][..], &[0x16; 4096], &[0x16, 3, 1, 0xff, 0xff], &endless] {
            let mut answer = Vec::new();
            // The server sends at most an alert, and closes.
            drop(connect(bytes).read_to_end(&mut answer));
            assert!(answer.len() < 100, "{answer:?}");
        }
        for key in 0..5 {
            let done = run(&cluster, Some(&ours), &["kv", "insert", &format!("k{key}"), "v"]);
            assert_eq!(code(&done), 0, "{done:?}");
        }
        drop(crowd);
        for mut stream in silent {
            let mut answer = Vec::new();
            let ended = stream.read_to_end(&mut answer);
            assert!(ended.is_ok() && answer.is_empty(), "it is not ended: {ended:?} {answer:?}");
        }
    }
}
