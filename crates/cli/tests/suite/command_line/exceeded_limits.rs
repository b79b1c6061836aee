//! Blobs, transforms and transactions beyond the limits: refused with a message, and nothing is
//! changed.

use std::fmt::Write as _;

use crate::support::serving::{ServingProgram, code, stderr, stdout};

/// The largest length of a blob, and so an offset without a byte.
const LAST: &str = "18446744073709551615";

/// A cluster with a blob of ten bytes.
fn with_blob() -> ServingProgram {
    let cluster = ServingProgram::in_memory();
    cluster.ok(&["blob", "put", "b", "/dev/null"]);
    cluster.ok(&["blob", "write", "b", "x", "--at", "9"]);
    cluster
}

#[test]
fn offsets_beyond_largest_blob_or_value_are_refused_without_change() {
    let cluster = with_blob();
    let beyond = "18446744073709551616";
    for (arguments, expected, part) in [
        (&["blob", "write", "b", "x", "--at", LAST][..], 3, "beyond 281474976710656 bytes"),
        (&["blob", "write", "b", "x", "--at", beyond], 2, "too large"),
        (&["blob", "write", "b", "x", "--at", "-1"], 2, "'-1' for '--at <OFFSET>': it is below 0"),
        (&["blob", "write", "b", "x", "--at", "1K"], 2, "write a whole number from 0 on"),
        (&["blob", "read", "b", "--at", beyond], 2, "too large"),
        (&["blob", "read", "b", "--at", "-1"], 2, "'-1' for '--at <OFFSET>': it is below 0"),
        (&["blob", "read", "b", "--length", "-1"], 2, "'-1' for '--length <BYTES>': it is below 0"),
        (&["blob", "ls", "--limit", "-1"], 2, "'-1' for '--limit <NAMES>': it is below 0"),
        (&["blob", "truncate", "b", "-1"], 2, "'-1' for '<SIZE>': it is below 0"),
        (&["blob", "transform", "b", "add", "1", "--at", "-1"], 2, "it is below 0"),
        (&["kv", "transform", "n", "add", "1", "--at", "-1"], 2, "it is below 0"),
        (&["bench", "kv", "--ops", "-1"], 2, "invalid value '-1' for '--ops"),
        (&["blob", "truncate", "b", beyond], 2, "too large"),
        (&["blob", "transform", "b", "add", "1", "--at", LAST], 3, "beyond 281474976710656 bytes"),
        // 16,777,216 chunks of 1 MiB, and half of the 64-bit range.
        (&["blob", "write", "b", "x", "--at", "17592186044416"], 3, "beyond 17592186044416 bytes"),
        (&["blob", "write", "b", "xy", "--at", "17592186044415"], 3, "beyond 17592186044416 bytes"),
        (
            &["blob", "write", "b", "x", "--at", "17592186044416", "--pieces"],
            3,
            "beyond 17592186044416 bytes",
        ),
        (&["blob", "write", "b", "x", "--at", "9223372036854775808"], 3, "beyond 17592186044416 bytes"),
        (&["blob", "truncate", "b", "17592186044417"], 3, "beyond 17592186044416 bytes"),
        (&["blob", "truncate", "b", LAST], 3, "beyond 17592186044416 bytes"),
        (&["blob", "transform", "b", "add", "1", "--at", "17592186044409"], 3, "beyond 17592186044416 bytes"),
        (
            &["blob", "transform", "b", "add", "1", "--at", "9223372036854775808"],
            3,
            "beyond 17592186044416 bytes",
        ),
        (&["blob", "transform", "b", "add", "256", "--type", "u8"], 2, "choose another --type"),
        (&["blob", "transform", "b", "add", "1", "--type", "u9"], 2, "possible values"),
        (&["blob", "write", "b", "x", "--at", "0", "-k", "absent"], 3, "zerohop keyspace create"),
        (&["kv", "transform", "n", "add", "1", "--at", LAST], 3, "beyond the longest value"),
        (&["kv", "transform", "n", "add", "1", "--at", "16777212"], 3, "beyond the longest value"),
        (&["kv", "transform", "n", "add", "128", "--type", "i8"], 2, "choose another --type"),
        (&["kv", "transform", "n", "add", "1", "--type", "f16"], 2, "possible values"),
        (&["keyspace", "create", "x", "--chunk-size", "5000"], 3, "a power of two from 4096"),
    ] {
        let output = cluster.run(arguments);
        assert_eq!((code(&output), stdout(&output).as_str()), (expected, ""), "{arguments:?}: {output:?}");
        let error = stderr(&output);
        assert!(error.contains(part) && !error.contains("tip: to pass"), "{arguments:?}: {output:?}");
    }
    assert_eq!(cluster.ok(&["blob", "read", "b", "--at", LAST]), "", "behind the end there is nothing");
    assert_eq!(cluster.json(&["blob", "stat", "b"])["size"], 10);
    assert_eq!(code(&cluster.run(&["kv", "lookup", "n"])), 1);

    // The last possible byte; nothing can be behind it.
    cluster.ok(&["blob", "put", "far", "/dev/null", "--chunk", "16MiB"]);
    cluster.ok(&["blob", "write", "far", "x", "--at", "281474976710655"]);
    let behind = cluster.run(&["blob", "extend", "far", "y"]);
    assert_eq!(code(&behind), 3, "{behind:?}");
    assert!(stderr(&behind).contains("beyond 281474976710656 bytes"), "{behind:?}");
    let many = cluster.run_with(&["blob", "extend", "far", "-"], &[1; (16 << 20) + 1]);
    assert_eq!(code(&many), 3, "{many:?}");
    assert!(stderr(&many).contains("beyond 281474976710656 bytes"), "{many:?}");
    assert_eq!(cluster.ok(&["blob", "read", "far", "--at", "281474976710655"]), "x");
}

#[test]
fn transaction_with_line_beyond_a_limit_has_no_effect() {
    let cluster = with_blob();
    let mut many = String::new();
    for at in 0..16_385 {
        writeln!(many, "incr k{at}").unwrap();
    }
    for (text, part) in [
        ("incr k0\nincr k1 -k absent", "zerohop keyspace create"),
        (&format!("incr k0\ntransform k1 add 1 --at {LAST}"), "line 2: key \"k1\": bad request"),
        ("incr k0\ntransform k1 add 1 --at 16777212", "beyond the longest value"),
        (&format!("incr k0\nblob transform b add 1 --at {LAST}"), "beyond 281474976710656 bytes"),
        (
            "incr k0\nblob write b x --at 17592186044416",
            "line 2: blob \"b\": it would end beyond 17592186044416 bytes",
        ),
        ("incr k0\nblob truncate b 17592186044417", "beyond 17592186044416 bytes"),
        ("incr k0\nblob transform b add 1 --at 17592186044409", "beyond 17592186044416 bytes"),
        (
            "incr k0\nblob write b x --at 17592186044415\nblob read b",
            "line 3: blob \"b\": one operation may write, replace, truncate or read at most 67108864",
        ),
        (
            "incr k0\nblob read b\nblob write b x --at 99999999\nblob read b",
            "line 4: blob \"b\": one operation may write, replace, truncate or read at most 67108864",
        ),
        (&many, "16385 operations in one transaction, 16384 are allowed: split it"),
    ] {
        let output = cluster.run_with(&["txn"], text.as_bytes());
        let text = &text[..text.len().min(99)];
        assert_eq!((code(&output), stdout(&output).as_str()), (3, ""), "{text}: {output:?}");
        assert!(stderr(&output).contains(part), "{text}: {output:?}");
    }
    assert_eq!(code(&cluster.run(&["kv", "lookup", "k0"])), 1);
    assert_eq!(cluster.json(&["blob", "stat", "b"])["size"], 10);
}
