//! A result that cannot be printed: after a write the error says that the write is done.

use std::fs::OpenOptions;
use std::os::unix::net::UnixStream;
use std::process::{Output, Stdio};

use crate::support::serving::{ServingProgram, code, stderr, zerohop};

/// Runs a command with this standard output.
fn run_to(cluster: &ServingProgram, arguments: &[&str], output: impl Into<Stdio>) -> Output {
    let mut command = zerohop(arguments);
    command.env("ZEROHOP_ENDPOINT", cluster.endpoint()).stdin(Stdio::null());
    command.stdout(output).stderr(Stdio::piped()).spawn().unwrap().wait_with_output().unwrap()
}

fn full() -> Stdio {
    OpenOptions::new().write(true).open("/dev/full").unwrap().into()
}

/// An output whose reader is gone.
fn closed() -> Stdio {
    let (output, reader) = UnixStream::pair().unwrap();
    drop(reader);
    std::os::fd::OwnedFd::from(output).into()
}

#[test]
fn write_that_is_done_ends_with_code_4_if_its_result_cannot_be_printed() {
    let cluster = ServingProgram::in_memory();
    for (place, output) in [("full", full as fn() -> Stdio), ("closed", closed)] {
        let of = |name: &str| format!("{name}-{place}");
        let (number, list, blob, keyspace) = (of("number"), of("list"), of("blob"), of("keyspace"));
        for arguments in [
            &["kv", "incr", &number][..],
            &["kv", "append", &list, "v"],
            &["kv", "insert", "k", "v", "--json"],
            &["kv", "transform", &of("bits"), "add", "1"],
            &["kv", "take", "k"],
            &["blob", "put", &blob, "/dev/null", "--json"],
            &["blob", "rm", &blob, "--json"],
            &["keyspace", "create", &keyspace, "--json"],
            &["keyspace", "drop", &keyspace, "--yes", "--json"],
        ] {
            let ended = run_to(&cluster, arguments, output());
            assert_eq!(code(&ended), 4, "{arguments:?}: {ended:?}");
            assert!(stderr(&ended).contains("is done, but its result could not be printed"), "{ended:?}");
        }
        assert_eq!(cluster.ok(&["kv", "lookup", &number]), "1");
        assert_eq!(code(&cluster.run(&["kv", "lookup", "k"])), 1, "taken");
        assert_eq!(cluster.ok(&["blob", "ls"]), "");
    }
    // A read changes nothing: a full disk is an ordinary error, and a reader may leave.
    assert_eq!(code(&run_to(&cluster, &["kv", "scan"], full())), 3);
    let ended = run_to(&cluster, &["kv", "scan"], closed());
    assert_eq!((code(&ended), stderr(&ended).as_str()), (0, ""));
}
