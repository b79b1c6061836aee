//! The page of all errors, `docs/guide/errors.md`, made from the code. A test compares it with the committed one; `ZEROHOP_WRITE_SURFACE=1`
//! writes it.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use zerohop_client::{BlobError, Error, Failure, Reason};
use zerohop_wire::error::{AbortReason, AuthFault, BadRequestReason, ErrorCode, Parts};

use super::ending::CommandError;
use super::failure;

/// Each word of `reason`: when it occurs, and what to do.
const WORDS: &[(&str, &str, &str)] = &[
    (
        "aborted",
        "a transaction had no effect",
        "repeat it if it had a conflict; else change it as the error says",
    ),
    ("bounds", "the lower bound of a range is above its upper bound", "exchange them"),
    ("changed", "another client changed the blob while it was read", "read it again"),
    ("clock_ahead", "the clock of this client is far ahead of the server's", "set the clock right"),
    ("compare_failed", "the record is not what the comparison expected", "look it up, and compare with that"),
    (
        "condition_failed",
        "the record's presence or version is not that of the condition",
        "look it up, and decide again",
    ),
    ("contended", "other clients changed the blob too often", "try again; write it by fewer clients"),
    (
        "corrupt",
        "stored bytes are corrupt, and no copy could repair them",
        "`zerohop doctor`; restore the record, or `zerohop recover`",
    ),
    (
        "cursor",
        "the cursor of a watch is damaged, is of another keyspace, or its file cannot be read or written",
        "remove the file, and begin again with `zerohop watch --records`; or see the message",
    ),
    ("demo", "`zerohop demo` found a file that is not right, or could not run", "see the message"),
    (
        "disk_failed",
        "a disk of the server failed; a write may be done or not",
        "`zerohop doctor`; look the record up before you repeat it",
    ),
    ("empty", "a key or name is empty", "give one of at least 1 byte"),
    (
        "forbidden",
        "the token lacks a permission",
        "ask the administrator for another token, or give the secret",
    ),
    (
        "history_gone",
        "changes behind the position of a watch are no longer kept",
        "remove the cursor, and begin again with `zerohop watch --records`; a longer `--history` keeps more",
    ),
    ("interrupted", "Ctrl-C or SIGTERM ended the command", "the message says whether something was changed"),
    (
        "no_cluster",
        "nothing answers at the endpoint",
        "start the cluster, or give --endpoint; `zerohop doctor`",
    ),
    (
        "no_history",
        "the keyspace keeps no history of its changes",
        "`zerohop keyspace alter NAME --history 1h`",
    ),
    ("no_keyspace", "no keyspace has this name", "`zerohop keyspace list`; `zerohop keyspace create NAME`"),
    (
        "no_place",
        "the cluster has no place for the node: it was removed, or its folder is of another cluster",
        "start a new node with an empty folder and --join",
    ),
    (
        "no_room",
        "the disk or the memory of the server is full",
        "make room, or add nodes; removals are still done",
    ),
    ("node", "a node did not start or end as it should", "see the message, and the log of the node"),
    ("not_a_number", "the record is not a decimal number", "use another key, or write a number first"),
    ("not_found", "there is no record or blob of this name", "check the name and the keyspace"),
    (
        "not_ordered",
        "a range, a direction or values were requested of a keyspace that has no order of keys",
        "create an ordered keyspace (`zerohop keyspace create NAME --ordered`), and copy the records to it",
    ),
    ("other_cluster", "the server belongs to another cluster", "check the endpoint"),
    ("output_closed", "the reader of standard output has gone", "nothing"),
    ("overflow", "the number would leave 64 signed bits", "use smaller numbers"),
    ("partition_lost", "all nodes with a copy in sync are down", "start one of them; else `zerohop recover`"),
    ("partly_done", "a part of the command is done", "give the same command again"),
    ("refused", "the cluster refused the request", "see the message"),
    ("secret", "a file of a secret or token cannot be used", "check its path, owner and permissions"),
    ("snapshot_expired", "the snapshot is no longer kept", "open another one, and close it sooner"),
    ("system", "the operating system refused something", "see the message"),
    ("timed_out", "not done in time", "try again, or allow more time with --timeout; `zerohop status`"),
    ("too_few_in_sync", "fewer copies are in sync than a write needs", "start the nodes that are down"),
    (
        "too_large",
        "a key, value, name or request exceeds a limit",
        "see [limits.md](limits.md); store large data as a blob",
    ),
    ("unauthenticated", "the secret or token is missing or wrong", "give --secret-file or --token-file"),
    ("unavailable", "the partition cannot answer at this time", "try again soon; `zerohop status`"),
    ("under_way", "a drop continues by itself", "give the same command again to wait for its end"),
    (
        "unexpected",
        "a server answered something else than was requested",
        "use programs of one version; report it",
    ),
    (
        "unfinished",
        "the blob is being put, or its writer was interrupted",
        "wait for the writer, or put it again",
    ),
    ("unknown", "a write may be done or not", "look the record up before you repeat it"),
    (
        "unprinted",
        "the write is done, and its result could not be printed",
        "look the record up; do not repeat the command",
    ),
    ("usage", "the command line is wrong", "`zerohop COMMAND --help`"),
    (
        "wrong_type",
        "the record is a list and bytes are needed, or the reverse",
        "use the operations of its type, or another key",
    ),
];

/// Words of errors that are results: the command was done, and its answer is no.
const NEGATIVE: &[&str] = &["compare_failed", "condition_failed", "not_found"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// An example of each failure, with the limits and numbers of a real one.
fn failures() -> Vec<Failure<'static>> {
    let of = |parts: Parts<'static>| Failure::from_parts(parts).expect("the fields are those of this code");
    let mut all = Vec::new();
    for code in ErrorCode::ALL {
        let parts = Parts { code: code.number(), ..Parts::default() };
        match code {
            ErrorCode::BadRequest => {
                all.extend(BadRequestReason::ALL.iter().map(|reason| Failure::from(*reason)));
            }
            ErrorCode::AuthFailed => {
                all.extend(AuthFault::ALL.iter().map(|fault| Failure::AuthFailed { fault: *fault }));
            }
            ErrorCode::Aborted => {
                let none = AbortReason::NONE;
                all.extend(AbortReason::ALL.iter().map(|reason| Failure::Aborted {
                    reason: *reason,
                    part: none,
                    item: none,
                }));
            }
            ErrorCode::UnsupportedVersion => all.push(of(Parts { detail: 0x0101, ..parts })),
            ErrorCode::FrameTooLong => all.push(of(Parts { number: 40 << 20, detail: 33 << 20, ..parts })),
            ErrorCode::KeyTooLong => {
                all.push(of(Parts { number: 70_000, detail: 65_536, ..parts }));
                all.push(of(Parts { number: 0, detail: 65_536, ..parts }));
            }
            ErrorCode::ValueTooLong => all.push(of(Parts { number: 17 << 20, detail: 16 << 20, ..parts })),
            ErrorCode::TooMany => all.push(of(Parts { number: 5000, detail: 4096, ..parts })),
            ErrorCode::AnswerTooLong => all.push(of(Parts { number: 2 << 20, ..parts })),
            ErrorCode::UnknownKeyspace => all.push(of(Parts { detail: 7, ..parts })),
            ErrorCode::Forbidden => all.push(of(Parts { detail: 2, ..parts })),
            ErrorCode::WrongType => all.push(of(Parts { record: 1, ..parts })),
            ErrorCode::Busy | ErrorCode::Unavailable => all.push(of(Parts { detail: 20, ..parts })),
            ErrorCode::TooFewInSync => all.push(of(Parts { detail: 1 | 2 << 16, ..parts })),
            ErrorCode::ClockAhead => all.push(of(Parts { number: 60_000, ..parts })),
            ErrorCode::DiskFull => {
                all.push(of(parts));
                all.push(of(Parts { number: 1 << 20, ..parts }));
            }
            _ => all.push(of(parts)),
        }
    }
    all
}

/// Errors that the client finds itself.
fn own_errors() -> Vec<Error> {
    let reasons = [
        Reason::NoKeyspace { name: "results".into(), epoch: zerohop_wire::ids::MapEpoch(9) },
        Reason::PartitionLost { partition: zerohop_wire::ids::PartitionId(17), waited_us: 10_000_000 },
        Reason::NoOwner { redirects: 8 },
        Reason::TooManyOperations { limit: 65_536 },
        Reason::TooManyBytes { limit: 256 << 20 },
        Reason::Closed,
    ];
    let blobs = [
        BlobError::Absent,
        BlobError::TooLong { limit: 64 << 20 },
        BlobError::ExceedsMaximumSize { limit: 1 << 44 },
        BlobError::Contended,
        BlobError::Attributes { limit: 3_000 },
        BlobError::Unfinished,
        BlobError::ChangedMeanwhile,
    ];
    let of_reason = |reason| Error::Operation { key: None, reason: Box::new(reason) };
    let of_blob = |why| Error::Blob { name: b"film".as_slice().into(), why };
    reasons.into_iter().map(of_reason).chain(blobs.into_iter().map(of_blob)).collect()
}

/// The exception of Python for a code, from the package's own table.
fn python_exception(table: &str, code: &str) -> String {
    let begin = format!("    \"{code}\": ");
    let found = table.lines().find_map(|line| line.strip_prefix(&begin)?.strip_suffix(','));
    found.unwrap_or("Error").to_owned()
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

/// The page.
fn page() -> String {
    let python =
        fs::read_to_string(root().join("python/package/zerohop/errors.py")).expect("it is in the tree");
    let mut page = "# Errors\n\n\
        This page has every kind of error, and what to do. It is made from the code: a test fails if it is not current.\n\n\
        Every command prints an error as one line on standard error. With `--json` it also prints a line of JSON, whose `reason` is one of \
        these words. The exit code is 3 if nothing was changed, and 4 if that is unknown or only a part is done. It is 2 for a wrong \
        command line, 130 after an interruption, and 1 for a negative answer. [command-line.md](command-line.md#what-all-commands-have-in-common) has the details. The exceptions of Python are \
        those of [python.md](python.md#errors), and Redis clients get the messages in their own form ([redis.md](redis.md)).\n\n\
        ## By the word in `reason`\n\n| reason | when | what to do |\n| --- | --- | --- |\n"
        .to_owned();
    for (word, when, action) in WORDS {
        let answer = if NEGATIVE.contains(word) { " (exit code 1)" } else { "" };
        writeln!(page, "| `{word}` | {when}{answer} | {action} |").expect("text takes it");
    }
    page += "\n## Errors of servers\n\n\
        The number is that of the wire, and `number` of Python's exceptions; the name is their `code`. Messages have examples of the numbers.\n\n\
        | number | name | message | reason | exception |\n| ---: | --- | --- | --- | --- |\n";
    for failure in failures() {
        let code = ErrorCode::from_number(failure.code()).expect("it is known");
        let reason = Box::new(Reason::Answer { failure: failure.clone() });
        let word = failure::of_client(&Error::Operation { key: None, reason });
        let exception = python_exception(&python, code.text());
        let (number, name, message) = (code.number(), code.text(), cell(&failure.to_string()));
        writeln!(page, "| {number} | `{name}` | {message} | `{word}` | `{exception}` |")
            .expect("text takes it");
    }
    page += "\n## Errors that a client finds itself\n\n| message | reason |\n| --- | --- |\n";
    for error in own_errors() {
        let word = failure::of_client(&error);
        writeln!(page, "| {} | `{word}` |", cell(&error.to_string())).expect("text takes it");
    }
    page
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a document of the tree, not a file of the store")]
fn page_of_errors_is_current() {
    let path = root().join("docs/guide/errors.md");
    let page = page();
    if std::env::var_os("ZEROHOP_WRITE_SURFACE").is_some_and(|value| value == "1") {
        fs::write(&path, &page).unwrap();
    }
    let committed = fs::read_to_string(&path).unwrap();
    let differing = committed.lines().zip(page.lines()).find(|(old, new)| old != new);
    assert!(
        committed == page,
        "docs/guide/errors.md is not current, first at {differing:?}; write it:\n\
         ZEROHOP_WRITE_SURFACE=1 cargo test -p zerohop page_of_errors"
    );
}

#[test]
fn every_word_of_the_code_has_a_row() {
    let source = fs::read_to_string(root().join("crates/cli/src/common/failure.rs")).unwrap();
    let code = source.split("#[cfg(test)]").next().unwrap();
    let quoted = code.lines().filter(|line| !line.trim_start().starts_with("//")).flat_map(|line| {
        line.split('"')
            .skip(1)
            .step_by(2)
            .filter(|text| text.bytes().all(|byte| byte == b'_' || byte.is_ascii_lowercase()))
    });
    let used: BTreeSet<&str> = quoted.collect();
    let listed: BTreeSet<&str> = WORDS.iter().map(|(word, ..)| *word).collect();
    assert_eq!(used, listed);
    assert!(WORDS.is_sorted_by_key(|(word, ..)| *word));
    // These are negative answers in all commands that meet them.
    let known = |word: &&str| listed.contains(*word);
    assert!(NEGATIVE.iter().all(known));
    assert_eq!(failure::reason(&CommandError::Unexpected), "unexpected");
}
