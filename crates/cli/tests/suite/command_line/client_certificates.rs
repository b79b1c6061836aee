//! Nodes that require certificates of clients, and nodes whose own certificate has expired.

use std::fs;
use std::path::Path;
use std::process::{Output, Stdio};

use crate::command_line::secrets::log_line_with;
use crate::command_line::tls::{new_ca, tls, up};
use crate::support::process::RunningProcess;
use crate::support::serving::{ServingProgram, code, output, stderr, stdout, zerohop};
use crate::support::wait_for;

/// Makes a certificate by the CA of this folder, with a period of validity in the past.
fn add_expired(ca: &Path, name: &str) {
    let issuer = {
        let pem = fs::read_to_string(ca.join("ca-key.pem")).unwrap();
        let mut params = rcgen::CertificateParams::new(Vec::<String>::new()).unwrap();
        params.distinguished_name.push(rcgen::DnType::CommonName, "zerohop CA");
        rcgen::Issuer::new(params, rcgen::KeyPair::from_pem(&pem).unwrap())
    };
    let key = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    (params.not_before, params.not_after) =
        (rcgen::date_time_ymd(2020, 1, 1), rcgen::date_time_ymd(2021, 1, 1));
    fs::write(ca.join(format!("{name}.pem")), params.signed_by(&key, &issuer).unwrap().pem()).unwrap();
    let key_file = ca.join(format!("{name}-key.pem"));
    // The copy has the mode of a key.
    fs::copy(ca.join("node-key.pem"), &key_file).unwrap();
    fs::write(&key_file, key.serialize_pem()).unwrap();
}

fn add(ca: &Path, name: &str) {
    let made = output(zerohop(&["tls".as_ref(), "add".as_ref(), ca.as_os_str(), name.as_ref()]), b"");
    assert_eq!(code(&made), 0, "{made:?}");
}

/// Runs a client that trusts `ca`, and presents the certificate of this name in a folder.
fn run(endpoint: &str, ca: &Path, own: Option<(&Path, &str)>, arguments: &[&str]) -> Output {
    let mut command = zerohop(arguments);
    command.env("ZEROHOP_ENDPOINT", endpoint).env("ZEROHOP_TLS_CA", ca.join("ca.pem"));
    if let Some((folder, name)) = own {
        command.env("ZEROHOP_TLS_CERT", folder.join(format!("{name}.pem")));
        command.env("ZEROHOP_TLS_KEY", folder.join(format!("{name}-key.pem")));
    }
    output(command, b"")
}

/// The arguments of a node with the certificate of this name that requires certificates of clients by the same CA.
fn requiring(ca: &Path, name: &str) -> Vec<String> {
    let client_ca = ca.join("ca.pem").to_str().unwrap().to_owned();
    [tls(ca, name), vec!["--tls-client-ca".to_owned(), client_ca]].concat()
}

#[test]
fn only_clients_and_nodes_with_certificate_are_served() {
    let folder = crate::support::folder();
    let (ours, another) = (new_ca(folder.path(), "ours"), new_ca(folder.path(), "another"));
    add(&ours, "client");
    add_expired(&ours, "expired");
    let log = folder.path().join("log");
    let mut command =
        zerohop(&["up", "--port", "0", "--json", "--memory", "--instances", "1", "--nodes", "2"]);
    command.args(requiring(&ours, "node"));
    let cluster = ServingProgram::start_with_log(command, &log);
    let own = Some((ours.as_path(), "client"));
    // The nodes have joined each other, and replicate to each other.
    let nodes = stdout(&run(cluster.endpoint(), &ours, own, &["node", "list", "--json"]));
    assert_eq!(nodes.matches("\"up\"").count(), 2, "{nodes}");
    for key in 0..8 {
        let done = run(cluster.endpoint(), &ours, own, &["kv", "insert", &format!("k{key}"), "v"]);
        assert_eq!(code(&done), 0, "{done:?}");
    }
    // A third node joins by its own certificate.
    let mut command = zerohop(&["node", "--memory", "--listen", "127.0.0.1:0", "--instances", "1"]);
    command.args(["--join", cluster.endpoint()]).args(requiring(&ours, "node"));
    command.args(["--ends-with-parent", &std::process::id().to_string()]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut node = RunningProcess::start(&mut command);
    log_line_with(&mut node, "joined the cluster");
    // `doctor` and `top` read health and metrics over HTTP.
    let doctor = run(cluster.endpoint(), &ours, own, &["doctor", "--json"]);
    assert!(!stdout(&doctor).contains("cannot be reached"), "{doctor:?}");
    assert!(stdout(&doctor).contains("and serves"), "{doctor:?}");
    let top = run(cluster.endpoint(), &ours, own, &["top", "--once", "--json", "--interval", "100ms"]);
    assert!(code(&top) == 0 && stdout(&top).matches("\"figures\":{").count() >= 2, "{top:?}");

    let instance = cluster.ready["nodes"][0]["instances"][0]["addr"].as_str().unwrap();
    for endpoint in [cluster.endpoint(), instance] {
        for (own, words) in [
            (None, "serves only clients with a certificate"),
            (Some((another.as_path(), "node")), "rejects this client's certificate"),
            (Some((ours.as_path(), "expired")), "the certificate of this client has expired"),
        ] {
            let refused = run(endpoint, &ours, own, &["kv", "lookup", "k1"]);
            assert_eq!((code(&refused), stdout(&refused).as_str()), (3, ""), "{refused:?}");
            assert!(stderr(&refused).contains(words), "{words}: {refused:?}");
            let has_time = stderr(&refused).contains("(it has expired on 2021-01-01 00:00:00 UTC)");
            assert_eq!(has_time, words.contains("has expired"), "{refused:?}");
        }
        // Without TLS there is no certificate, also on this machine.
        let bare = output(zerohop(&["kv", "lookup", "k1", "--endpoint", endpoint]), b"");
        assert!(code(&bare) == 3 && stderr(&bare).contains("accepts only TLS"), "{bare:?}");
    }
    assert_eq!(stdout(&run(instance, &ours, own, &["kv", "lookup", "k1"])), "v");
    for is_of_manager in [true, false] {
        for reason in
            ["presents no certificate", "is not one by the CA of --tls-client-ca", "2021-01-01 00:00:00 UTC"]
        {
            let is_one = |line: &str| {
                line.contains("a client is refused")
                    && line.contains("by the manager") == is_of_manager
                    && line.contains(reason)
            };
            let is_there = |log: &String| log.lines().any(is_one);
            wait_for("the reason in the log", || fs::read_to_string(&log).unwrap(), is_there);
        }
    }
}

#[test]
fn certificate_of_client_needs_key_and_ca() {
    let folder = crate::support::folder();
    let ours = new_ca(folder.path(), "ours");
    let (ca, certificate, key) = (ours.join("ca.pem"), ours.join("node.pem"), ours.join("node-key.pem"));
    for (option, path, other) in [("--tls-cert", &certificate, None), ("--tls-key", &key, Some(&ca))] {
        let mut command = zerohop(&["kv", "lookup", "k", "--endpoint", "127.0.0.1:9"]);
        command.arg(option).arg(path);
        if let Some(ca) = other {
            command.arg("--tls-ca").arg(ca);
        }
        let refused = output(command, b"");
        assert!(code(&refused) == 2 && stderr(&refused).contains("needs all of --tls-cert"), "{refused:?}");
    }
    // The variables may be meant for nodes: without a CA they have no effect on clients.
    let cluster =
        ServingProgram::start(zerohop(&["up", "--port", "0", "--json", "--memory", "--nodes", "1"]));
    let mut command = zerohop(&["kv", "insert", "k", "v", "--endpoint", cluster.endpoint()]);
    command.env("ZEROHOP_TLS_CERT", &certificate).env("ZEROHOP_TLS_KEY", &key);
    let done = output(command, b"");
    assert_eq!(code(&done), 0, "{done:?}");
}

#[test]
fn client_names_expired_certificate_of_node() {
    let folder = crate::support::folder();
    let ours = new_ca(folder.path(), "ours");
    add_expired(&ours, "expired");
    let cluster = up(&tls(&ours, "expired"), "1");
    let refused = run(cluster.endpoint(), &ours, None, &["kv", "insert", "k", "v"]);
    assert_eq!((code(&refused), stdout(&refused).as_str()), (3, ""), "{refused:?}");
    let words = stderr(&refused);
    assert!(words.contains("the server's certificate has expired: have another made"), "{refused:?}");
    assert!(words.contains("(it has expired on 2021-01-01 00:00:00 UTC)"), "{refused:?}");
}
