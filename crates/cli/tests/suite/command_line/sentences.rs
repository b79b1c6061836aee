//! Sentences of the program say what is true, once and completely: errors with foreign bytes, limits, and help.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;

use crate::command_line::secrets::new_secret;
use crate::support::serving::{ServingProgram, code, output, stderr, stdout, zerohop};

/// A name that would clear a terminal and break a line.
const FOREIGN: &str = "a\u{1b}[2J\nb\u{9b}ü\\";

/// The form in which every sentence shows it.
const SHOWN: &str = "a\\x1b[2J\\nb\\xc2\\x9bü\\\\";

#[test]
fn nonprintable_bytes_are_escaped_alike_in_every_error() {
    let cluster = ServingProgram::in_memory();
    let folder = crate::support::folder();
    for (before, expected) in [
        (&["kv", "lookup"][..], 1),
        (&["kv", "remove"], 1),
        (&["kv", "append", "k", "v", "--keyspace"], 3),
        (&["kv", "insert", "k", "--file"], 3),
        (&["kv", "transform", "k", "add"], 2),
        (&["blob", "stat"], 1),
        (&["blob", "rm"], 1),
        (&["blob", "put", "b"], 3),
        (&["keyspace", "show"], 3),
        (&["keyspace", "drop", "--yes"], 3),
        (&["keyspace", "create", "k", "--hash"], 2),
        (&["keyspace", "create", "k", "--durability"], 2),
        (&["partition", "list"], 3),
        (&["backup", "folder", "--keyspace"], 3),
        (&["restore"], 3),
        (&["recover", "acknowledge"], 3),
        (&["token", "revoke"], 3),
        (&["status", "--endpoint"], 2),
        (&["status", "--secret-file"], 3),
        (&["status", "--token-file"], 3),
        (&["status", "--tls-ca"], 3),
        (&["top", "--interval"], 2),
        (&["sim", "--scenario"], 2),
        (&["folder", "new-cluster"], 3),
        (&["node", "--memory", "--host-file"], 2),
        (&["no-such-command-"], 2),
        (&["kv"], 2),
        (&["kv", "lookup", "k"], 2),
    ] {
        let arguments: Vec<&OsStr> = before.iter().map(OsStr::new).chain([OsStr::new(FOREIGN)]).collect();
        let mut command = zerohop(&arguments);
        command.env("ZEROHOP_ENDPOINT", cluster.endpoint()).current_dir(folder.path());
        let ended = output(command, b"");
        assert_eq!(code(&ended), expected, "{before:?}: {ended:?}");
        if before == ["no-such-command-"] {
            continue;
        }
        let error = stderr(&ended);
        assert!(error.lines().any(|line| line.contains(SHOWN)), "{before:?}: {error}");
        assert!(!error.contains(|one: char| one.is_control() && one != '\n'), "{before:?}: {error:?}");
        // The usage follows an error of the command line.
        assert!(expected == 2 || error.lines().count() == 1, "{before:?}: {error}");
    }
    let line = format!("lookup \"{}\"\nlookup --{}\n", "a\\x1b\\nb\\xff", "x\u{1b}");
    let error = stderr(&cluster.run_with(&["txn"], line.as_bytes()));
    assert!(
        error.contains("line 2") && error.contains("--x\\x1b") && error.lines().count() == 1,
        "{error:?}"
    );
    let error = stderr(&cluster.run_with(&["txn"], b"check \"a\\x1b\\nb\\xff\" 1.0\n"));
    assert!(error.contains("key \"a\\x1b\\nb\\xff\"") && error.lines().count() == 1, "{error:?}");
    // Letters beyond ASCII are text.
    let error = stderr(&cluster.run(&["kv", "lookup", "größe \"x\""]));
    assert_eq!(error, "zerohop: key \"größe \\\"x\\\"\": there is no record of this key\n");
}

#[test]
fn empty_key_is_refused_in_words() {
    let cluster = ServingProgram::in_memory();
    let of_key = "zerohop: key \"\": the key is empty: a key has 1 to 65536 bytes\n";
    for arguments in [&["kv", "insert", "", "v"][..], &["kv", "lookup", ""], &["kv", "append", "", "v"]] {
        let ended = cluster.run(arguments);
        assert_eq!((code(&ended), stderr(&ended)), (3, of_key.to_owned()), "{arguments:?}");
    }
    let ended = cluster.run_with(&["blob", "put", ""], b"bytes");
    let of_blob = "zerohop: blob \"\": the name of the blob is empty: a name has 1 to 4096 bytes\n";
    assert_eq!((code(&ended), stderr(&ended)), (3, of_blob.to_owned()));
    let ended = cluster.run_with(&["txn"], b"insert \"\" v\n");
    assert!(code(&ended) == 3 && stderr(&ended).contains("line 1: key \"\": the key is empty"), "{ended:?}");
    let limits = include_str!("../../../../../docs/guide/limits.md");
    assert!(limits.contains("| a key | 1 byte to 64 KiB |"));
}

#[test]
fn limits_are_named_where_they_are_exceeded() {
    for (arguments, words) in [
        (&["kv", "scan", "--page", "5000"][..], "a page has 1 to 4096 keys"),
        (&["kv", "scan", "--page", "0"], "a page has 1 to 4096 keys"),
        (&["kv", "scan", "--page", "-1"], "below 0"),
        (&["top", "--interval", "99ms"], "at least 100ms"),
        (&["top", "--interval", "2d"], "the longest interval allowed is 1d"),
        (&["backup", "folder", "--within", "8d"], "at most 7d"),
        (&["keyspace", "create", "k", "--durability", "interval:61s"], "from 1ms to 60s"),
        (&["keyspace", "alter", "k", "--durability", "interval:0ms"], "from 1ms to 60s"),
        (&["keyspace", "create", "k", "--durability", "interval:5"], "ms, s or m behind it"),
    ] {
        let ended = output(zerohop(arguments), b"");
        assert!(code(&ended) == 2 && stderr(&ended).contains(words), "{arguments:?}: {ended:?}");
    }
    let cluster = ServingProgram::in_memory();
    cluster.ok(&["kv", "scan", "--page", "4096"]);
    cluster.ok(&["kv", "scan", "--page", "1"]);
    for (option, number, words) in [
        ("--replicas", "9", "9 replicas, but the cluster has 1 node"),
        ("--replicas", "0", "0 replicas: ask for 1 to 8"),
        ("--min-in-sync", "0", "min-in-sync 0 with 1 replica: ask for min-in-sync 1"),
    ] {
        let ended = cluster.run(&["keyspace", "create", "k", option, number]);
        assert!(code(&ended) == 3 && stderr(&ended).contains(words), "{option} {number}: {ended:?}");
    }
}

#[test]
fn intervals_have_seconds_and_minutes() {
    let folder = crate::support::folder();
    let cluster = ServingProgram::up(&["--instances", "1", "--data", folder.path().to_str().unwrap()]);
    for (name, given, is) in [
        ("a", "interval:60s", "interval:60000ms"),
        ("b", "interval:1m", "interval:60000ms"),
        ("c", "interval:2s", "interval:2000ms"),
        ("d", "interval:50ms", "interval:50ms"),
    ] {
        let created = cluster.json(&["keyspace", "create", name, "--partitions", "1", "--durability", given]);
        assert_eq!(created["durability"], is, "{given}");
    }
}

#[test]
fn help_states_defaults_and_limits() {
    let help = |command: &[&str]| {
        let printed = stdout(&output(zerohop(&[command, &["--help"]].concat()), b""));
        printed.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    for (command, words) in [
        (&["bench", "txn"][..], &["also after Ctrl-C"][..]),
        (&["blob", "put"], &["Readers find the blob once all of its bytes are stored"]),
        (
            &["keyspace", "create"],
            &["[default: 256]", "[default: xxh3]", "[default: 1MiB]", "from 1ms to 60s", "1 to 8"],
        ),
        (&["keyspace", "alter"], &["ms, s and m", "leaves the number as it is"]),
        (&["demo"], &["three nodes", "[default: a temporary folder", "exit code is 1"]),
        (&["verify"], &["Without DIR", "With DIR", "[default: all keyspaces]"]),
        (&["partition", "move"], &["as in 4:7", "fewest copies", "numbered over all nodes"]),
        (&["kv", "scan"], &["1 to 4096"]),
        (&["top"], &["from 100ms to 1d"]),
        (&["backup"], &["from 1ms to 7d"]),
        (&["status"], &["Instances are numbered over all nodes"]),
        (
            &["node", "list"],
            &["Instances are numbered over all nodes", "in the order in which their nodes joined"],
        ),
    ] {
        let help_text = help(command);
        for word in words {
            assert!(help_text.contains(word), "{command:?}, {word}: {help_text}");
        }
        assert!(
            !help_text.contains("but not after Ctrl-C") && !help_text.contains("empty until"),
            "{command:?}: {help_text}"
        );
    }
}

#[test]
fn errors_name_one_cause_and_the_right_object() {
    let cluster = ServingProgram::in_memory();
    let error = |arguments: &[&str], expected: i32| {
        let output = cluster.run(arguments);
        assert_eq!(code(&output), expected, "{output:?}");
        stderr(&output)
    };
    let empty = "zerohop: blob \"\": the name of the blob is empty: a name has 1 to 4096 bytes\n";
    for arguments in
        [&["blob", "put", ""][..], &["blob", "get", ""], &["blob", "stat", ""], &["blob", "rm", ""]]
    {
        assert_eq!(error(arguments, 3), empty, "{arguments:?}");
    }
    let long = "n".repeat(4097);
    assert!(
        error(&["blob", "stat", &long], 3).contains("the name of the blob has 4097 bytes, 4096 are allowed")
    );
    let attributes = error(&["blob", "put", "b", "/dev/null", "--attributes", &"x".repeat(40_000)], 3);
    assert!(
        attributes.starts_with("zerohop: blob \"b\": a blob's attributes have 40000 bytes"),
        "{attributes}"
    );
    let copies = error(&["keyspace", "create", "k", "--min-in-sync", "2"], 3);
    assert!(
        copies.contains("min-in-sync 2 with 1 replica: ask for min-in-sync 1, or for more replicas"),
        "{copies}"
    );
    let nowhere = error(&["recover", "acknowledge", "nowhere"], 3);
    assert!(
        nowhere.contains("there is no keyspace \"nowhere\": nothing is reported missing there"),
        "{nowhere}"
    );
    assert_eq!(
        cluster.ok(&["recover", "acknowledge", "default"]),
        "Nothing is reported missing in keyspace default.\n"
    );
    // Blobs of a transaction are blobs too.
    let line = "blob create \"\"\n";
    let refused = stderr(&cluster.run_with(&["txn"], line.as_bytes()));
    assert!(refused.contains("line 1: blob \"\": the name of the blob is empty"), "{refused}");
}

#[test]
fn advice_for_readable_secret_or_token_file_names_its_kind() {
    let folder = crate::support::folder();
    let secret = new_secret(folder.path(), "secret");
    let token = folder.path().join("token");
    std::fs::copy(&secret, &token).unwrap();
    for path in [&secret, &token] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o644)).unwrap();
    }
    for (option, path, words, other) in [
        ("--secret-file", &secret, "`zerohop secret new`", "token"),
        ("--token-file", &token, "`zerohop token revoke NAME`", "secret new"),
    ] {
        let path = path.to_str().unwrap();
        let printed = stdout(&output(zerohop(&["doctor", "--machine", option, path]), b""));
        let at = printed.find("PROBLEM").unwrap();
        let problem = &printed[at..];
        assert!(
            problem.contains("its mode is 0644") && problem.contains(&format!("`chmod 600 {path}`")),
            "{problem}"
        );
        assert!(problem.contains(words) && !problem.replace(path, "").contains(other), "{problem}");
        assert!(!problem.contains("name the right file"), "{problem}");
    }
}
