//! Names chosen by other programs: none may control the terminal on which it is shown, or break its
//! line.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use serde_json::Value;

use crate::support::patience;
use crate::support::serving::{ServingProgram, code, stderr};
use crate::support::terminal::TerminalProgram;

/// Names with their forms on a terminal and in a pipe, in the order of their bytes.
const NAMES: [(&[u8], &[u8], &[u8]); 7] = [
    (b"\x1b]0;owned\x07\x1b[2J", b"\\x1b]0;owned\\x07\\x1b[2J", b"\\x1b]0;owned\\x07\\x1b[2J"),
    (b"a\\b", b"a\\\\b", b"a\\b"),
    (b"latin\xe9", b"latin\\xe9", b"latin\xe9"),
    (b"plain", b"plain", b"plain"),
    (b"two\nlines\0", b"two\\nlines\\x00", b"two\\nlines\\x00"),
    (b"x\xc2\x9b31m", b"x\\xc2\\x9b31m", b"x\\xc2\\x9b31m"),
    (b"y\xe2\x80\xaefdp.exe", b"y\\xe2\\x80\\xaefdp.exe", b"y\\xe2\\x80\\xaefdp.exe"),
];

fn program_with_records() -> ServingProgram {
    let cluster = ServingProgram::in_memory();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let client = patience::client(cluster.endpoint()).await.unwrap();
        let keyspace = client.keyspace("default").await.unwrap();
        for (name, _, _) in NAMES {
            keyspace.insert(name, "v").await.unwrap();
        }
        cluster.ok(&["keyspace", "create", "blobs"]);
        let keyspace = client.keyspace("blobs").await.unwrap();
        for (name, _, _) in NAMES {
            keyspace.blob(name).put(zerohop_client::PutOptions::default()).publish().await.unwrap();
        }
    });
    cluster
}

fn sorted(parts: impl Iterator<Item = Vec<u8>>) -> Vec<Vec<u8>> {
    let mut all: Vec<Vec<u8>> = parts.collect();
    all.sort();
    all
}

const LISTS: [&[&str]; 2] = [&["kv", "scan"], &["blob", "ls", "-k", "blobs"]];

#[test]
fn a_terminal_shows_names_with_escapes() {
    let cluster = program_with_records();
    for list in LISTS {
        let (screen, _, output) = TerminalProgram::on_all_streams(&cluster, list).end();
        assert_eq!(code(&output), 0, "{screen:?}");
        let lines = sorted(screen.split_terminator("\r\n").map(|line| line.as_bytes().to_vec()));
        assert_eq!(lines, sorted(NAMES.iter().map(|(_, shown, _)| shown.to_vec())), "{list:?}: {screen:?}");
        // The JSON has no control characters.
        let (screen, _, _) = TerminalProgram::on_all_streams(&cluster, &[list, &["--json"]].concat()).end();
        let rules = |one: char| (one.is_control() && !"\r\n".contains(one)) || one == '\u{202e}';
        assert!(!screen.contains(rules) && screen.lines().count() == NAMES.len(), "{list:?}: {screen:?}");
    }
}

#[test]
fn a_line_of_a_pipe_never_breaks_inside_a_name() {
    let cluster = program_with_records();
    for list in LISTS {
        let lines = cluster.run(list).stdout;
        let lines =
            sorted(lines.strip_suffix(b"\n").unwrap().split(|byte| *byte == b'\n').map(<[u8]>::to_vec));
        assert_eq!(lines, sorted(NAMES.iter().map(|(_, _, line)| line.to_vec())), "{list:?}");
        let field = if list[0] == "kv" { "key" } else { "name" };
        let json = cluster.ok(&[list, &["--json"]].concat());
        let names = json.lines().filter_map(|line| {
            let report: Value = serde_json::from_str(line).unwrap();
            report[field].as_str().map(|name| name.as_bytes().to_vec())
        });
        let text = NAMES.iter().filter(|(name, _, _)| std::str::from_utf8(name).is_ok());
        assert_eq!(sorted(names), sorted(text.map(|(name, _, _)| name.to_vec())), "{list:?}");
    }
}

#[test]
fn null_option_prints_raw_names_ended_by_zero_bytes() {
    let cluster = program_with_records();
    for list in LISTS {
        for zero in ["-0", "--null"] {
            let raw = cluster.run(&[list, &[zero]].concat()).stdout;
            let raw = sorted(raw.strip_suffix(b"\0").unwrap().split(|byte| *byte == 0).map(<[u8]>::to_vec));
            // A zero byte inside a name separates it too.
            let names =
                NAMES.iter().flat_map(|(name, _, _)| name.split(|byte| *byte == 0).map(<[u8]>::to_vec));
            assert_eq!(raw, sorted(names), "{list:?} {zero}");
        }
    }
}

#[test]
fn errors_show_names_with_escapes() {
    let cluster = ServingProgram::in_memory();
    let evil = OsStr::from_bytes(b"-\x1b]0;owned\x07\xc2\x9b31m\xe2\x80\xae");
    let words = |words: &'static [&'static str]| words.iter().map(OsStr::new);
    for (before, expected) in [
        // The record, the backup, the keyspace, the file, the option and the word do not exist.
        (&["kv", "lookup"][..], 1),
        (&["blob", "stat"], 1),
        (&["blob", "rm"], 1),
        (&["verify", "--"], 1),
        (&["keyspace", "show", "--"], 3),
        (&["kv", "insert", "k", "--file"], 3),
        (&["kv", "insert", "k", "v", "--ttl"], 2),
        (&["status"], 2),
        (&["txn"], 2),
        (&["keyspace", "show", "name"], 2),
    ] {
        let arguments: Vec<&OsStr> = words(before).chain([evil]).collect();
        let output = cluster.run(&arguments);
        assert_eq!(code(&output), expected, "{before:?}: {output:?}");
        let error = stderr(&output);
        let rules = |one: char| (one.is_control() && one != '\n') || one == '\u{202e}';
        assert!(!error.is_empty() && !error.contains(rules), "{before:?}: {error:?}");
    }
}
