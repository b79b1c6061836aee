//! Nodes that are started in the wrong place: of another cluster, of another version, with another
//! secret, or on a folder of another cluster. They end soon with the reason and advice, and the
//! running nodes are not harmed.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::Output;

use zerohop_wire::limits::{VERSION_MAX, VERSION_MIN};
use zerohop_wire::{DecodeResult, Decoder, Encoder, Failure, Message};

use crate::command_line::secrets::{new_secret, up};
use crate::support::serving::{ServingProgram, code, output, stderr, stdout, zerohop};
use crate::support::wait_for;

/// Starts a node with these arguments, which must end by itself with 3 and print these words.
fn refused(arguments: &[&str], words: &[&str]) -> Output {
    let mut command = zerohop(&["node", "--listen", "127.0.0.1:0", "--instances", "1"]);
    command.args(arguments).args(["--ends-with-parent", &std::process::id().to_string()]);
    let output = output(command, b"");
    assert_eq!((code(&output), stdout(&output).as_str()), (3, ""), "{arguments:?}: {output:?}");
    for word in words {
        assert!(stderr(&output).contains(word), "{arguments:?}, {word}: {output:?}");
    }
    output
}

/// A cluster of this many nodes on free ports, in memory.
fn cluster(nodes: &str) -> ServingProgram {
    ServingProgram::start(zerohop(&[
        "up",
        "--nodes",
        nodes,
        "--port",
        "0",
        "--json",
        "--memory",
        "--instances",
        "1",
    ]))
}

fn nodes(cluster: &ServingProgram) -> usize {
    cluster.list(&["node", "list"]).as_array().unwrap().len()
}

#[test]
fn node_with_folder_of_other_cluster_cannot_join() {
    let folder = crate::support::folder();
    let data = folder.path().join("node");
    let data = data.to_str().unwrap();
    let first = cluster("2");
    let mut joins = zerohop(&["node", "--listen", "127.0.0.1:0", "--instances", "1", "--json"]);
    joins.args(["--data", data, "--join", first.endpoint()]);
    joins.args(["--ends-with-parent", &std::process::id().to_string()]);
    let joined = ServingProgram::start(joins);
    assert_eq!(nodes(&first), 3);
    assert_eq!(joined.end_with(rustix::process::Signal::TERM), Some(0));
    assert_eq!(first.end_with(rustix::process::Signal::TERM), Some(0));
    let second = cluster("2");
    let words = ["is of another cluster (", second.endpoint(), "start with an empty folder"];
    refused(&["--data", data, "--join", second.endpoint()], &words);
    assert_eq!(nodes(&second), 2, "nothing has come of it");
    second.ok(&["kv", "insert", "k", "v"]);
}

#[test]
fn standalone_folder_cannot_join_a_cluster() {
    let folder = crate::support::folder();
    let alone = ServingProgram::up(&["--data", folder.path().to_str().unwrap(), "--instances", "1"]);
    let data = alone.ready["nodes"][0]["data"].as_str().unwrap().to_owned();
    assert_eq!(alone.end_with(rustix::process::Signal::TERM), Some(0));
    let two = cluster("2");
    let words = [data.as_str(), "standalone node", "name another folder"];
    refused(&["--data", &data, "--join", two.endpoint()], &words);
    assert_eq!(nodes(&two), 2);
}

#[test]
fn node_with_wrong_or_missing_secret_ends_and_names_contact() {
    let folder = crate::support::folder();
    let (ours, another) = (new_secret(folder.path(), "ours"), new_secret(folder.path(), "another"));
    let with_secret = up(&ours, &["--nodes", "2"]);
    let (to, another) = (with_secret.endpoint(), another.to_str().unwrap());
    let join = ["--memory", "--join", to];
    refused(
        &[&join[..], &["--secret-file", another]].concat(),
        &[to, "cannot be joined", "does not know the secret given"],
    );
    refused(&join, &[to, "cannot be joined", "the cluster has a secret", "--secret-file"]);
    // The same with the roles exchanged.
    let open = cluster("2");
    refused(
        &["--memory", "--join", open.endpoint(), "--secret-file", another],
        &[open.endpoint(), "the server has none"],
    );
    assert_eq!(nodes(&open), 2);
}

#[test]
fn node_of_other_version_stops_and_names_versions() {
    let newer = VERSION_MAX + 7;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap().to_string();
    // A manager of another version answers any greeting with its own version.
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || answer_as_of(newer, stream));
        }
    });
    let output = refused(&["--memory", "--join", &at], &[&at, "cannot be joined", "version"]);
    let error = stderr(&output);
    let both = format!("speaks version {newer} of the protocol, and this program version {VERSION_MAX}");
    assert!(error.contains(&both), "{error}");
}

fn answer_as_of(version: u8, mut stream: std::net::TcpStream) {
    let mut bytes = Vec::new();
    loop {
        match Decoder::before_hello().decode(&bytes) {
            DecodeResult::Need(need) => {
                let at = bytes.len();
                bytes.resize(need, 0);
                if stream.read_exact(&mut bytes[at..]).is_err() {
                    return;
                }
            }
            DecodeResult::Frame { frame, .. } => {
                let mut answer = Vec::new();
                let failure = Failure::UnsupportedVersion { min: version, max: version };
                let message = Message::Answer(Err(failure));
                Encoder::default().encode(&frame.envelope, &message, &mut answer).unwrap();
                drop(stream.write_all(&answer));
                return;
            }
            other => panic!("no greeting: {other:?}"),
        }
    }
}

/// The greeting of a node of another version to this one.
#[test]
fn node_refuses_unsupported_versions_and_names_its_own() {
    let two = cluster("2");
    let mut stream = std::net::TcpStream::connect(two.endpoint()).unwrap();
    let hello = zerohop_wire::messages::Hello {
        version_min: VERSION_MAX + 1,
        version_max: VERSION_MAX + 3,
        features: zerohop_wire::Features::AGENT,
        cluster: zerohop_wire::messages::ClusterId::default(),
        map_epoch: zerohop_wire::ids::MapEpoch(0),
        proof_method: 0,
        nonce: [0; 32],
        name: "manager",
    };
    let mut bytes = Vec::new();
    let envelope = zerohop_wire::Envelope::default();
    Encoder::default().encode(&envelope, &Message::Hello(hello), &mut bytes).unwrap();
    stream.write_all(&bytes).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let DecodeResult::Frame { frame, .. } = Decoder::before_hello().decode(&answer) else {
        panic!("no answer: {answer:?}")
    };
    let message = frame.message(&mut Vec::new()).map(|message| format!("{message:?}")).unwrap();
    let expected = Failure::UnsupportedVersion { min: VERSION_MIN, max: VERSION_MAX };
    assert!(message.contains(&format!("{expected:?}")), "{message}");
    two.ok(&["kv", "insert", "k", "v"]);
}

#[test]
fn corrupt_format_file_is_named_with_a_remedy() {
    let folder = crate::support::folder();
    let alone = ServingProgram::up(&["--data", folder.path().to_str().unwrap(), "--instances", "1"]);
    alone.ok(&["kv", "insert", "k", "v"]);
    let data = alone.ready["nodes"][0]["data"].as_str().unwrap().to_owned();
    assert_eq!(alone.end_with(rustix::process::Signal::TERM), Some(0));
    let format = Path::new(&data).join("instance-00/format");
    let good = std::fs::read(&format).unwrap();
    let mut corrupt = good.clone();
    corrupt[3] ^= 0x20;
    std::fs::write(&format, &corrupt).unwrap();
    let error = stderr(&refused(&["--data", &data], &["format: damaged", "empty folder"]));
    assert!(!error.contains("another format"), "{error}");
    std::fs::write(&format, "zerohop engine data, format 2\n").unwrap();
    refused(&["--data", &data], &["is of format 2", "use the zerohop that wrote it"]);
    // After the advised repair all data is there.
    std::fs::write(&format, good).unwrap();
    let mut again = zerohop(&["node", "--listen", "127.0.0.1:0", "--json", "--data", &data]);
    again.args(["--ends-with-parent", &std::process::id().to_string()]);
    let again = ServingProgram::start(again);
    let lookup = ["kv", "lookup", "k", "--endpoint", again.ready["manager"].as_str().unwrap()];
    assert_eq!(stdout(&output(zerohop(&lookup), b"")), "v");
}

#[test]
fn replicas_beyond_node_count_are_refused_or_warned_about() {
    let three = cluster("3");
    let output = three.run(&["keyspace", "create", "many", "--replicas", "4"]);
    assert_eq!(code(&output), 3, "{output:?}");
    for words in ["4 replicas", "has 3 nodes", "ask for 3"] {
        assert!(stderr(&output).contains(words), "{output:?}");
    }
    let status = three.json(&["status"]);
    assert_eq!(status["warnings"], serde_json::json!([]), "{status:#}");
    // A node that joined is drained and removed: `all` has one copy more than there are nodes.
    let mut joins = zerohop(&["node", "--listen", "127.0.0.1:0", "--instances", "1", "--json", "--memory"]);
    joins.args(["--join", three.endpoint(), "--ends-with-parent", &std::process::id().to_string()]);
    let fourth = ServingProgram::start(joins);
    three.ok(&["keyspace", "create", "all", "--replicas", "4", "--partitions", "1"]);
    let id = fourth.ready["id"].to_string();
    let drain = three.run(&["node", "drain", &id]);
    let words = "asks for 4 copies, and 3 other nodes are up: start more nodes, or run `zerohop keyspace alter all --replicas 3`";
    assert!(code(&drain) == 0 && stderr(&drain).contains(words), "{drain:?}");
    wait_for("it is empty", || three.run(&["node", "remove", &id]), |removed| code(removed) == 0);
    let printed = three.ok(&["status"]);
    for words in ["WARNING: keyspace all asks for 4 copies", "the cluster has 3 nodes", "--replicas 3"] {
        assert!(printed.contains(words), "{words}: {printed}");
    }
}
