//! Blobs of many chunks and of more bytes than a client may have in memory; chunks and attributes
//! at their limits and beyond.

use std::io::{Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};

use rustix::process::{Signal, kill_process};

use crate::support::process::RunningProcess;
use crate::support::serving::{ServingProgram, code, stderr, stdout, zerohop};
use crate::support::wait_for;

/// More than the 4,096 chunks that one truncation step covers.
const CHUNKS: u64 = 4100;
const CHUNK_BYTES: u64 = 4096;

/// More than one write, or one read of a transaction, may have.
const LONG_BYTES: usize = 96 << 20;

/// The memory limit of a streaming client: the program itself, the data in flight (16 MiB and a
/// piece for each direction), and nothing that grows with the blob.
const CLIENT_BYTES_MAX: u64 = 80 << 20;

/// Bytes in which no two chunks are equal.
fn pattern(length: u64) -> Vec<u8> {
    (0..length.div_ceil(8))
        .flat_map(|at| at.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_le_bytes())
        .take(length as usize)
        .collect()
}

/// The peak memory of a process.
fn resident_bytes_max(child: &Child) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
}

fn begin(cluster: &ServingProgram, arguments: &[&str]) -> RunningProcess {
    let mut command = zerohop(arguments);
    command.env("ZEROHOP_ENDPOINT", cluster.endpoint());
    RunningProcess::start(command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()))
}

fn end(child: RunningProcess, expected: &str) {
    let output = child.output();
    assert_eq!((code(&output), stdout(&output).as_str(), stderr(&output).as_str()), (0, expected, ""));
}

#[test]
fn long_truncate_and_removal_leave_no_chunks() {
    let cluster = ServingProgram::in_memory();
    let bytes = pattern(CHUNKS * CHUNK_BYTES);
    let size = bytes.len().to_string();
    let put = cluster.run_with(&["blob", "put", "b", "--chunk", "4KiB"], &bytes);
    assert_eq!(code(&put), 0, "{put:?}");
    for line in ["blob truncate b 5", "blob rm b"] {
        let refused = cluster.run_with(&["txn"], format!("incr n\n{line}").as_bytes());
        assert_eq!(code(&refused), 3, "{line}: {refused:?}");
        assert!(
            stderr(&refused).contains("line 2: blob \"b\": one operation may write, replace, truncate or read at most 16777216 bytes"),
            "{line}: {refused:?}"
        );
    }
    assert_eq!(cluster.json(&["blob", "stat", "b"])["size"], bytes.len());

    cluster.ok(&["blob", "truncate", "b", "5000"]);
    let got = cluster.run(&["blob", "get", "b"]);
    assert!(code(&got) == 0 && got.stdout == bytes[..5000], "{} bytes", got.stdout.len());
    cluster.ok(&["blob", "truncate", "b", &size]);
    let got = cluster.run(&["blob", "read", "b", "--at", "4990"]).stdout;
    assert!(got[..10] == bytes[4990..5000], "what was kept");
    assert!(got[10..].iter().all(|byte| *byte == 0), "what was cut off comes back");
    assert_eq!(got.len(), bytes.len() - 4990);

    assert_eq!(code(&cluster.run_with(&["blob", "write", "b", "-", "--at", "0"], &bytes)), 0);
    cluster.ok(&["blob", "rm", "b"]);
    assert_eq!(code(&cluster.run(&["blob", "stat", "b"])), 1);
    assert_eq!(cluster.ok(&["blob", "ls"]), "");
    cluster.ok(&["blob", "put", "b", "/dev/null", "--chunk", "4KiB"]);
    cluster.ok(&["blob", "truncate", "b", &size]);
    let got = cluster.run(&["blob", "get", "b"]).stdout;
    assert!(
        got.len() == bytes.len() && got.iter().all(|byte| *byte == 0),
        "a new blob has bytes of the old one"
    );
}

#[test]
fn streaming_uses_constant_memory() {
    let cluster = ServingProgram::in_memory();
    let bytes = pattern(LONG_BYTES as u64);
    let mut putting = begin(&cluster, &["blob", "put", "b"]);
    let mut stdin: ChildStdin = putting.stdin.take().unwrap();
    let almost = LONG_BYTES - 1;
    stdin.write_all(&bytes[..almost]).unwrap();
    let resident = resident_bytes_max(&putting);
    assert!(resident < CLIENT_BYTES_MAX, "{resident} bytes to put {LONG_BYTES}");
    stdin.write_all(&bytes[almost..]).unwrap();
    drop(stdin);
    end(putting, "");

    // No single operation returns so many bytes.
    let refused = cluster.run_with(&["txn"], b"incr n\nblob read b");
    assert_eq!(code(&refused), 3, "{refused:?}");
    assert!(
        stderr(&refused).contains(
            "line 2: blob \"b\": one operation may write, replace, truncate or read at most 67108864 bytes"
        ),
        "{refused:?}"
    );

    let mut reading = begin(&cluster, &["blob", "read", "b", "--at", "1"]);
    let mut out = reading.stdout.take().unwrap();
    let mut got = vec![0; LONG_BYTES - (1 << 20)];
    out.read_exact(&mut got).unwrap();
    // The client waits until the rest is read, which does not fit into a pipe.
    let resident = resident_bytes_max(&reading);
    assert!(resident < CLIENT_BYTES_MAX, "{resident} bytes to read {LONG_BYTES}");
    out.read_to_end(&mut got).unwrap();
    assert!(got == bytes[1..], "{} other bytes", got.len());
    end(reading, "");
}

#[test]
fn slow_command_shows_progress_on_a_terminal() {
    let cluster = ServingProgram::in_memory();
    let source = "head -c 3000000 /dev/zero; sleep 1.2; head -c 3000000 /dev/zero";
    let put = format!("({source}) | {} blob put slow", env!("CARGO_BIN_EXE_zerohop"));
    // `script` gives the program a terminal.
    let mut command = Command::new("script");
    command.args(["--quiet", "--return", "--command", &put, "/dev/null"]);
    command.env("ZEROHOP_ENDPOINT", cluster.endpoint()).env("ZEROHOP_SECRET_FILE", "");
    let shown = match command.output() {
        Ok(output) => output,
        Err(error) => {
            return crate::support::not_run(&format!("`script` of util-linux is not there: {error}"));
        }
    };
    assert_eq!(code(&shown), 0, "{shown:?}");
    let text = stdout(&shown);
    assert!(text.contains("\r\u{1b}[Kstored: 3 MB, "), "{text:?}");
    assert!(text.trim_end().ends_with("\u{1b}[K"), "the line is cleared at the end: {text:?}");
    // Without a terminal nothing is shown.
    let mut command = Command::new("sh");
    command.args(["-c", &put.replace("slow", "slow-too")]);
    command.env("ZEROHOP_ENDPOINT", cluster.endpoint()).env("ZEROHOP_SECRET_FILE", "");
    let piped = command.output().unwrap();
    assert_eq!((code(&piped), stderr(&piped).as_str()), (0, ""), "{piped:?}");
}

#[test]
fn chunks_and_attributes_are_limited() {
    let cluster = ServingProgram::in_memory();
    for size in ["0", "1", "2KiB", "4095", "5000", "12KiB", "32MiB", "4GiB"] {
        let refused = cluster.run_with(&["blob", "put", "b", "--chunk", size], b"bytes");
        assert_eq!(code(&refused), 2, "{size}: {refused:?}");
        assert!(stderr(&refused).contains("a power of two from 4KiB to 16MiB"), "{size}: {refused:?}");
    }
    for size in ["0", "1", "2KiB", "4095", "5000", "12KiB", "16MiB", "2GiB"] {
        let refused = cluster.run(&["keyspace", "create", "ks", "--chunk-size", size]);
        assert_eq!(code(&refused), 3, "{size}: {refused:?}");
        assert!(stderr(&refused).contains("a power of two from 4096 to 8388608"), "{size}: {refused:?}");
    }
    let refused = cluster.run(&["keyspace", "create", "ks", "--chunk-size", "4GiB"]);
    assert_eq!(code(&refused), 2, "{refused:?}");
    assert_eq!(code(&cluster.run(&["blob", "stat", "b"])), 1, "a refused one is made");
    assert_eq!(code(&cluster.run(&["keyspace", "show", "ks"])), 3, "a refused one is made");

    let bytes = pattern((33 << 20) + 5);
    for (name, size, chunk_bytes) in [("least", "4KiB", 4 << 10), ("most", "16MiB", 16 << 20)] {
        let put = cluster.run_with(&["blob", "put", name, "--chunk", size], &bytes);
        assert_eq!(code(&put), 0, "{put:?}");
        cluster.ok(&["blob", "write", name, "across", "--at", "16777213"]);
        cluster.ok(&["blob", "truncate", name, "20000000"]);
        let mut expected = bytes[..20_000_000].to_vec();
        expected[16_777_213..16_777_219].copy_from_slice(b"across");
        assert!(cluster.run(&["blob", "get", name]).stdout == expected, "{name}");
        assert_eq!(cluster.json(&["blob", "stat", name])["chunk_bytes"], chunk_bytes);
    }
    for (name, size) in [("small", "4KiB"), ("large", "8MiB")] {
        cluster.ok(&["keyspace", "create", name, "--chunk-size", size, "--durability", "memory"]);
        assert_eq!(code(&cluster.run_with(&["blob", "put", "b", "-k", name], &bytes)), 0);
        assert!(cluster.run(&["blob", "get", "b", "-k", name]).stdout == bytes, "{name}");
    }

    let (most, more) = ("a".repeat(32 << 10), "a".repeat((32 << 10) + 1));
    cluster.ok(&["blob", "put", "attributed", "/dev/null", "--attributes", &most]);
    for arguments in [
        &["blob", "stat", "attributed", "--set-attributes", &more][..],
        &["blob", "put", "other", "/dev/null", "--attributes", &more],
        &["blob", "put", "attributed", "/dev/null", "--replace", "--attributes", &more],
    ] {
        let refused = cluster.run(arguments);
        assert_eq!((code(&refused), stdout(&refused).as_str()), (3, ""), "{arguments:.3?}: {refused:?}");
        let error = stderr(&refused);
        assert!(
            error.contains("32769") && error.contains("32768") && error.contains("attributes"),
            "{arguments:.3?}: {error}"
        );
    }
    assert_eq!(cluster.json(&["blob", "stat", "attributed"])["attributes"], most.as_str());
    assert_eq!(code(&cluster.run(&["blob", "stat", "other"])), 1, "a refused one is made");
}

/// More than fits into one transaction, also if it replaces a blob.
const UNFINISHED_BYTES: usize = 70 << 20;

/// Starts to put a blob, and sends almost all of it.
fn half_put(cluster: &ServingProgram, arguments: &[&str]) -> (RunningProcess, ChildStdin) {
    let mut putting = begin(cluster, arguments);
    let mut stdin = putting.stdin.take().unwrap();
    stdin.write_all(&pattern(UNFINISHED_BYTES as u64)).unwrap();
    (putting, stdin)
}

/// Waits until a part of the blob exists.
fn begun(cluster: &ServingProgram, name: &str) {
    wait_for(
        "the beginning of the blob",
        || cluster.run(&["blob", "stat", name, "--json"]),
        |output| stdout(output).contains("\"finished\":false"),
    );
}

/// Every reader must report that the blob is not finished.
fn assert_unfinished(cluster: &ServingProgram, name: &str) {
    begun(cluster, name);
    let stat = cluster.run(&["blob", "stat", name]);
    assert_eq!(code(&stat), 1, "{stat:?}");
    assert!(stdout(&stat).starts_with("not finished: "), "{stat:?}");
    let stat = cluster.run(&["blob", "stat", name, "--json"]);
    assert!(code(&stat) == 1 && stdout(&stat).contains("\"reason\":\"unfinished\""), "{stat:?}");
    for command in [
        &["blob", "get", name][..],
        &["blob", "read", name, "--at", "0", "--length", "1"],
        &["blob", "extend", name, "x"],
        &["blob", "write", name, "x", "--at", "0"],
        &["blob", "truncate", name, "1"],
        &["blob", "transform", name, "add", "1", "--at", "0"],
        &["blob", "stat", name, "--set-attributes", "x"],
    ] {
        let refused = cluster.run(command);
        assert_eq!((code(&refused), stdout(&refused).as_str()), (1, ""), "{command:?}: {refused:?}");
        assert!(stderr(&refused).contains("it is not finished: "), "{command:?}: {refused:?}");
    }
    let refused = cluster.run_with(&["txn"], format!("blob extend {name} x").as_bytes());
    assert!(code(&refused) != 0 && stderr(&refused).contains("it is not finished"), "{refused:?}");
    assert_eq!(cluster.ok(&["blob", "ls"]), "");
    assert_eq!(cluster.ok(&["blob", "ls", "--unfinished"]), format!("{name}\tunfinished\n"));
    assert_eq!(cluster.ok(&["blob", "ls", "--unfinished", "-0"]), format!("{name}\0"));
}

#[test]
fn blob_appears_once_its_put_is_complete() {
    let cluster = ServingProgram::in_memory();
    let (putting, stdin) = half_put(&cluster, &["blob", "put", "b", "--attributes", "mine"]);
    assert_unfinished(&cluster, "b");
    // Beside one that is finished.
    assert_eq!(code(&cluster.run_with(&["blob", "put", "a"], b"whole")), 0);
    assert_eq!(cluster.ok(&["blob", "ls", "--unfinished"]), "a\nb\tunfinished\n");
    let rows = [r#"{"name":"a","finished":true}"#, r#"{"name":"b","finished":false}"#];
    assert_eq!(cluster.ok(&["blob", "ls", "--unfinished", "--json"]), format!("{}\n{}\n", rows[0], rows[1]));
    assert_eq!(cluster.ok(&["blob", "ls", "--json"]), format!("{}\n", rows[0]));
    assert_eq!(cluster.ok(&["blob", "ls", "--unfinished", "--limit", "1"]), "a\n");
    cluster.ok(&["blob", "rm", "a"]);
    drop(stdin);
    end(putting, "");
    let stat = cluster.json(&["blob", "stat", "b"]);
    assert_eq!((&stat["finished"], &stat["size"]), (&true.into(), &UNFINISHED_BYTES.into()));
    assert_eq!(stat["attributes"], "mine");
    assert!(cluster.run(&["blob", "get", "b"]).stdout == pattern(UNFINISHED_BYTES as u64));
    assert_eq!(cluster.ok(&["blob", "ls"]), "b\n");

    // The old blob exists until the new one is complete, which has other chunks.
    let mut putting = begin(&cluster, &["blob", "put", "b", "--replace", "--chunk", "64KiB"]);
    let mut stdin = putting.stdin.take().unwrap();
    stdin.write_all(&pattern(20 << 20)).unwrap();
    assert_eq!(cluster.json(&["blob", "stat", "b"])["size"], UNFINISHED_BYTES);
    drop(stdin);
    end(putting, "");
    assert!(cluster.run(&["blob", "get", "b"]).stdout == pattern(20 << 20));
    assert_eq!(cluster.json(&["blob", "stat", "b"])["chunk_bytes"], 64 << 10);
}

#[test]
fn unfinished_blob_of_killed_put_is_hidden_and_blocks_nothing() {
    let cluster = ServingProgram::in_memory();
    let folder = crate::support::folder();
    let kill = |name: &str| {
        let (mut putting, stdin) = half_put(&cluster, &["blob", "put", name]);
        begun(&cluster, name);
        kill_process(putting.pid(), Signal::KILL).unwrap();
        putting.ended();
        drop(stdin);
    };
    kill("b");
    assert_unfinished(&cluster, "b");
    let backup = folder.path().join("backup");
    let report = cluster.json(&["backup", backup.to_str().unwrap()]);
    assert_eq!(report["records"], 0, "{report}");
    assert_eq!(code(&cluster.run_with(&["blob", "put", "b"], b"whole")), 0);
    assert_eq!(cluster.ok(&["blob", "get", "b"]), "whole");
    let refused = cluster.run_with(&["blob", "put", "b"], b"another");
    assert_eq!(code(&refused), 1, "{refused:?}");
    cluster.ok(&["blob", "rm", "b"]);
    kill("b");
    // A new blob of the same length is unfinished too.
    let (putting, stdin) = half_put(&cluster, &["blob", "put", "b"]);
    drop(stdin);
    end(putting, "");
    cluster.ok(&["blob", "rm", "b"]);
    kill("b");
    cluster.ok(&["blob", "rm", "b"]);
    assert_eq!(code(&cluster.run(&["blob", "stat", "b"])), 1);
    assert_eq!(cluster.ok(&["blob", "ls", "--unfinished"]), "");
}

#[test]
fn interrupted_put_leaves_nothing_and_replaces_nothing() {
    let cluster = ServingProgram::in_memory();
    let interrupt = |putting: RunningProcess, stdin: ChildStdin| {
        kill_process(putting.pid(), Signal::INT).unwrap();
        let ended = putting.output();
        drop(stdin);
        let message = "zerohop: interrupted; what was sent is removed\n";
        assert_eq!((code(&ended), stderr(&ended).as_str()), (130, message), "{ended:?}");
    };
    let (putting, stdin) = half_put(&cluster, &["blob", "put", "b"]);
    begun(&cluster, "b");
    interrupt(putting, stdin);
    assert_eq!(code(&cluster.run(&["blob", "stat", "b"])), 1);
    assert_eq!(cluster.ok(&["blob", "ls", "--unfinished"]), "");

    assert_eq!(code(&cluster.run_with(&["blob", "put", "b"], b"old")), 0);
    let mut putting = begin(&cluster, &["blob", "put", "b", "--replace"]);
    let mut stdin = putting.stdin.take().unwrap();
    stdin.write_all(&pattern(30 << 20)).unwrap();
    interrupt(putting, stdin);
    assert_eq!(cluster.ok(&["blob", "get", "b"]), "old");
}
