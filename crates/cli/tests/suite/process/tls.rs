//! Nodes that serve other machines only with TLS.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::process::net::Net;
use crate::process::nodes::Nodes;

#[test]
fn remote_client_without_tls_is_refused_with_reason() {
    let Some(net) = Net::spaces(3) else {
        return crate::support::not_run("this user may make no network namespaces");
    };
    let folder = crate::support::folder();
    let tls = folder.path().join("tls");
    let addresses: Vec<String> = (0..3).map(|node| net.address(node)).collect();
    let made = Command::new(env!("CARGO_BIN_EXE_zerohop"))
        .args(["tls", "new", tls.to_str().unwrap(), "--hosts", &addresses.join(",")])
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
    // Nodes on different machines discover each other, and replicate to each other.
    let nodes = Nodes::start_with(net, 3, folder.path(), Some(tls));
    for key in 0..12 {
        let done = nodes.command(&["kv", "insert", &format!("k{key}"), "v"]);
        assert!(done.status.success(), "{done:?}");
    }
    let mut bare = nodes.net.client(Path::new(env!("CARGO_BIN_EXE_zerohop")));
    bare.args(["kv", "lookup", "k1", "--endpoint", &nodes.endpoints()[0]]).env("ZEROHOP_TLS_CA", "");
    let refused = bare.output().unwrap();
    let error = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == Some(3) && error.contains("accepts only TLS"), "{refused:?}");
    assert!(error.contains("--tls-ca"), "{error}");
    // Over HTTP, and over Redis at an instance.
    for (port, words, answer) in [
        (7400, "GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", "say https"),
        (7401, "PING\r\n", "-ERR only TLS is served"),
    ] {
        let mut program = nodes.net.client(&std::env::current_exe().unwrap());
        program.args(["--exact", "process::tls::remote_request_is_sent_if_variables_are_set", "--nocapture"]);
        program.env("ZEROHOP_TEST_SAY", words).env("ZEROHOP_TEST_TO", format!("{}:{port}", addresses[0]));
        let output = program.stdin(Stdio::null()).output().unwrap();
        let output = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.contains(answer), "{output}");
    }
}

/// Not a test: sends a request of the other test from another machine.
#[test]
fn remote_request_is_sent_if_variables_are_set() {
    let (Ok(to), Ok(words)) = (std::env::var("ZEROHOP_TEST_TO"), std::env::var("ZEROHOP_TEST_SAY")) else {
        return;
    };
    let mut stream = TcpStream::connect(to).unwrap();
    stream.set_read_timeout(Some(crate::support::GIVE_UP_AFTER)).unwrap();
    stream.write_all(words.as_bytes()).unwrap();
    let mut output = String::new();
    stream.read_to_string(&mut output).unwrap();
    eprintln!("{output}");
}
