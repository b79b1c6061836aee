//! Recorded replies of a Redis server 7.0.15, in both versions of the protocol.
//!
//! In `recorded/*.txt`, `> ` is an inline command, `2 ` its reply in RESP2, and `3 ` that in RESP3
//! if it differs. Most commands are the examples of Redis' documentation; those of `random.txt` are
//! random. Every file starts with an empty keyspace.

use zerohop_placement::hash::key_slot;
use zerohop_resp::model::ModelWorld;
use zerohop_resp::{Connection, ConnectionWorld};
use zerohop_wire::ids::KeyspaceId;

/// The recordings.
const FILES: [(&str, &str); 9] = [
    ("bits", include_str!("../recorded/bits.txt")),
    ("connection", include_str!("../recorded/connection.txt")),
    ("counters", include_str!("../recorded/counters.txt")),
    ("expiry", include_str!("../recorded/expiry.txt")),
    ("keys", include_str!("../recorded/keys.txt")),
    ("lists", include_str!("../recorded/lists.txt")),
    ("random", include_str!("../recorded/random.txt")),
    ("strings", include_str!("../recorded/strings.txt")),
    ("transactions", include_str!("../recorded/transactions.txt")),
];

/// One command, and its replies as written in the file.
struct Case<'a> {
    command: &'a str,
    resp2: &'a str,
    resp3: &'a str,
}

fn cases(text: &str) -> Vec<Case<'_>> {
    let mut cases: Vec<Case<'_>> = Vec::new();
    for line in text.lines() {
        match (line.split_at(2), cases.last_mut()) {
            (("> ", command), _) => cases.push(Case { command, resp2: "", resp3: "" }),
            (("2 ", reply), Some(case)) => (case.resp2, case.resp3) = (reply, reply),
            (("3 ", reply), Some(case)) => case.resp3 = reply,
            _ => panic!("a line that is none: {line}"),
        }
    }
    cases
}

fn escaped(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, &byte| {
        match byte {
            b'\\' => text.push_str("\\\\"),
            b'\r' => text.push_str("\\r"),
            b'\n' => text.push_str("\\n"),
            b' '..=b'~' => text.push(byte as char),
            other => text.push_str(&format!("\\x{other:02x}")),
        }
        text
    })
}

/// Runs all files; in a world whose only partition is remote, every reply comes later.
fn check(protocol: &str, is_away: bool) {
    let mut wrong = String::new();
    for (file, text) in FILES {
        let mut world = ModelWorld::new(1, key_slot);
        if is_away {
            world.remote.insert(0);
        }
        let mut connection = Connection::new(1, KeyspaceId(1), "1.2.3.4:5", "5.4.3.2:1", world.now_us());
        let mut send = |line: &str| {
            let mut out = Vec::new();
            let bytes = format!("{line}\r\n").into_bytes();
            let used = connection.receive(&bytes, &mut world, &mut out).used;
            assert_eq!(used, bytes.len(), "{file}: {line}");
            world.deliver_all(&mut connection, Vec::new(), &mut out);
            assert!(!connection.is_waiting(), "{file}: {line}");
            escaped(&out)
        };
        send(&format!("HELLO {protocol}"));
        for case in cases(text) {
            let expected = if protocol == "2" { case.resp2 } else { case.resp3 };
            let reply = send(case.command);
            if reply != expected {
                wrong.push_str(&format!("{file}: {}\n  ours  {reply}\n  redis {expected}\n", case.command));
            }
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

#[test]
fn replies_are_those_of_redis_in_resp2() {
    check("2", false);
}

#[test]
fn replies_are_those_of_redis_in_resp3() {
    check("3", false);
}

#[test]
fn delayed_replies_equal_those_of_redis() {
    check("2", true);
    check("3", true);
}
