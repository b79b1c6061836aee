//! `zerohop blob`.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use serde_json::json;
use tokio::task::JoinSet;
use zerohop_client::{BlobError, Error, Failure, Transform};

use crate::support::patience;
use crate::support::serving::{ServingProgram, code, output, stderr, stdout};

/// Bytes without a short period.
fn pattern(length: usize) -> Vec<u8> {
    (0..length as u64).map(|at| (at.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8).collect()
}

#[test]
fn multi_chunk_file_is_read_fully_and_partially() {
    let cluster = ServingProgram::in_memory();
    let folder = crate::support::folder();
    let (from, to) = (folder.path().join("from"), folder.path().join("to"));
    let contents = pattern(3_500_000);
    std::fs::write(&from, &contents).unwrap();
    let stored = cluster.json(&["blob", "put", "film", from.to_str().unwrap(), "--attributes", "colour"]);
    assert_eq!(stored, json!({"name": "film", "done": true, "size": 3_500_000}));
    cluster.ok(&["blob", "get", "film", to.to_str().unwrap()]);
    assert!(std::fs::read(&to).unwrap() == contents);
    let part = cluster.run(&["blob", "read", "film", "--at", "1048000", "--length", "2000"]);
    assert!(part.stdout == contents[1_048_000..1_050_000], "across two chunks");
    let end = cluster.run(&["blob", "read", "film", "--at", "3499990"]);
    assert_eq!(end.stdout, contents[3_499_990..]);
    let info = cluster.json(&["blob", "stat", "film"]);
    let stat = (&info["size"], &info["chunk_bytes"], &info["attributes"], &info["generation"]);
    assert_eq!(stat, (&json!(3_500_000), &json!(1 << 20), &json!("colour"), &json!(0)));

    let again = cluster.run(&["blob", "put", "film", from.to_str().unwrap()]);
    assert_eq!(code(&again), 1, "{again:?}");
    assert!(stderr(&again).contains("there is one of this name already"), "{again:?}");
    let replaced =
        cluster.run_with(&["blob", "put", "film", "--replace", "--chunk", "4KiB"], &contents[..9000]);
    assert_eq!(code(&replaced), 0, "{replaced:?}");
    assert_eq!(cluster.run(&["blob", "get", "film"]).stdout, contents[..9000]);
    assert_eq!(cluster.json(&["blob", "stat", "film"])["chunk_bytes"], 4096);
}

#[test]
fn bytes_are_written_extended_cut_and_changed_in_place() {
    let cluster = ServingProgram::in_memory();
    let mut model = pattern(10_000);
    assert_eq!(code(&cluster.run_with(&["blob", "put", "b", "--chunk", "4K"], &model)), 0);
    cluster.ok(&["blob", "write", "b", "hello", "--at", "100"]);
    model[100..105].copy_from_slice(b"hello");
    cluster.ok(&["blob", "write", "b", "hello", "--at", "4094"]);
    model[4094..4099].copy_from_slice(b"hello");
    cluster.ok(&["blob", "write", "b", "hullo", "--at", "8190", "--pieces"]);
    model[8190..8195].copy_from_slice(b"hullo");
    assert_eq!(cluster.ok(&["blob", "extend", "b", "tail"]), "10000\n");
    model.extend_from_slice(b"tail");
    assert_eq!(cluster.run(&["blob", "get", "b"]).stdout, model);

    // Truncated bytes are removed permanently: later bytes in their place are zeros.
    cluster.ok(&["blob", "truncate", "b", "5000"]);
    assert_eq!(cluster.run(&["blob", "get", "b"]).stdout, model[..5000]);
    assert_eq!(cluster.json(&["blob", "stat", "b"])["generation"], 1);
    cluster.ok(&["blob", "truncate", "b", "12000"]);
    model.truncate(5000);
    model.resize(12_000, 0);
    assert_eq!(cluster.run(&["blob", "get", "b"]).stdout, model);
    // A write far behind the end leaves zeros between.
    cluster.ok(&["blob", "write", "b", "far", "--at", "20000"]);
    model.resize(20_000, 0);
    model.extend_from_slice(b"far");
    assert_eq!(cluster.run(&["blob", "get", "b"]).stdout, model);

    assert_eq!(cluster.ok(&["blob", "transform", "b", "add", "40", "--at", "8192"]), "40\n");
    assert_eq!(
        cluster.ok(&["blob", "transform", "b", "max", "2.5", "--type", "f32", "--at", "8200"]),
        "2.5\n"
    );
    assert_eq!(cluster.json(&["blob", "transform", "b", "add", "2", "--at", "8192"])["value"], 42);
    model[8192..8200].copy_from_slice(&42_i64.to_le_bytes());
    model[8200..8204].copy_from_slice(&2.5_f32.to_le_bytes());
    // A number in two chunks, of which the second does not exist; and a number behind the end.
    assert_eq!(cluster.ok(&["blob", "transform", "b", "add", "-3", "--at", "12284"]), "-3\n");
    assert_eq!(cluster.ok(&["blob", "transform", "b", "add", "5", "--old", "--at", "12284"]), "-3\n");
    model[12284..12292].copy_from_slice(&2_i64.to_le_bytes());
    assert_eq!(cluster.ok(&["blob", "transform", "b", "add", "7", "--type", "u8", "--at", "30000"]), "7\n");
    model.resize(30_000, 0);
    model.push(7);
    assert_eq!(cluster.run(&["blob", "get", "b"]).stdout, model);
    assert_eq!(cluster.json(&["blob", "stat", "b", "--set-attributes", "x=1"])["attributes"], "x=1");

    assert_eq!(cluster.json(&["blob", "rm", "b"]), json!({"name": "b", "done": true}));
    for gone in [&["blob", "get", "b"][..], &["blob", "rm", "b"], &["blob", "extend", "b", "x"]] {
        let output = cluster.run(gone);
        assert_eq!((code(&output), stdout(&output).as_str()), (1, ""), "{output:?}");
        assert!(stderr(&output).contains("blob \"b\": there is no such blob"), "{output:?}");
    }
    // A new blob of the same name has none of the old bytes, and no chunk is left.
    assert_eq!(code(&cluster.run_with(&["blob", "put", "b", "--chunk", "4K"], b"")), 0);
    cluster.ok(&["blob", "truncate", "b", "6000"]);
    assert_eq!(cluster.run(&["blob", "get", "b"]).stdout, vec![0; 6000]);
}

/// Blobs may be secret: a new file is for its owner, and an existing one keeps its mode.
#[test]
fn file_with_contents_is_private_whatever_the_umask() {
    let cluster = ServingProgram::in_memory();
    assert_eq!(code(&cluster.run_with(&["blob", "put", "b"], b"contents")), 0);
    let folder = crate::support::folder();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    for umask in ["000", "022", "077"] {
        for (words, name) in
            [(&["blob", "get", "b"][..], "got"), (&["blob", "read", "b", "--versions-to"], "versions")]
        {
            let path = folder.path().join(format!("{name}-{umask}"));
            let mut command = Command::new("sh");
            command.args(["-c", &format!("umask {umask}; exec \"$@\""), "sh"]);
            command.arg(env!("CARGO_BIN_EXE_zerohop")).args(words).arg(&path);
            command.env("ZEROHOP_ENDPOINT", cluster.endpoint()).env("ZEROHOP_SECRET_FILE", "");
            let done = output(command, b"");
            assert_eq!((code(&done), mode(&path)), (0, 0o600), "{done:?}");
            fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
            let again = cluster.run(&[words, &[path.to_str().unwrap()]].concat());
            assert_eq!((code(&again), mode(&path)), (0, 0o640), "{again:?}");
        }
    }
}

#[test]
fn names_are_listed_in_their_order() {
    let cluster = ServingProgram::in_memory();
    for n in [3, 1, 2, 5, 4] {
        assert_eq!(code(&cluster.run_with(&["blob", "put", &format!("logs/{n}")], b"x")), 0);
    }
    assert_eq!(code(&cluster.run_with(&["blob", "put", "other"], b"x")), 0);
    cluster.ok(&["kv", "insert", "logs/0", "a record, not a blob"]);
    cluster.ok(&["blob", "rm", "logs/4"]);
    assert_eq!(cluster.ok(&["blob", "ls", "logs/"]), "logs/1\nlogs/2\nlogs/3\nlogs/5\n");
    assert_eq!(cluster.ok(&["blob", "ls", "--limit", "2"]), "logs/1\nlogs/2\n");
    assert_eq!(cluster.ok(&["blob", "ls", "--after", "logs/3"]), "logs/5\nother\n");
    assert_eq!(cluster.ok(&["blob", "ls", "o", "--json"]), "{\"name\":\"other\",\"finished\":true}\n");
    assert_eq!(cluster.ok(&["kv", "scan"]), "logs/0\n", "blobs are not among the records");
}

/// Several clients on one blob: extensions do not overlap, each transform counts once, and a chunk is
/// never read half-written, even during truncations.
#[test]
fn concurrent_clients_do_not_mix_bytes() {
    const TASKS: u8 = 4;
    const ROUNDS: u8 = 20;
    const CHUNK: usize = 4096;
    let cluster = ServingProgram::in_memory();
    let endpoint = cluster.endpoint().to_owned();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let client = patience::client(&endpoint).await.unwrap();
        let keyspace = client.keyspace("default").await.unwrap();
        for name in ["log", "cells"] {
            keyspace.blob(name).create_with(12, b"").await.unwrap();
        }
        let mut tasks = JoinSet::new();
        for task in 1..=TASKS {
            let keyspace = keyspace.clone();
            tasks.spawn(async move {
                let (log, cells) = (keyspace.blob("log"), keyspace.blob("cells"));
                for round in 0..ROUNDS {
                    log.extend(&[task * ROUNDS + round; 300]).await.unwrap();
                    cells.transform(Transform::add(1_u64).at(0)).await.unwrap();
                    // Behind the number: whole chunks of one byte value.
                    let at = CHUNK * (1 + usize::from(round % 3));
                    cells.write_at(at as u64, &[task; CHUNK]).await.unwrap();
                    if round % 7 == 6 {
                        cells.truncate((2 * CHUNK + 100) as u64).await.unwrap();
                    }
                    let all = cells.read_at(0, u64::MAX).await.unwrap().read_to_end().await.unwrap();
                    for chunk in all[CHUNK..].chunks(CHUNK) {
                        let written = chunk.iter().take_while(|byte| **byte == chunk[0]).count();
                        let is_whole = chunk[written..].iter().all(|byte| *byte == 0);
                        assert!(is_whole, "bytes of two writes in one chunk");
                    }
                }
            });
        }
        while let Some(ended) = tasks.join_next().await {
            ended.unwrap();
        }
        let log = keyspace.blob("log").read_at(0, u64::MAX).await.unwrap().read_to_end().await.unwrap();
        assert_eq!(log.len(), usize::from(TASKS * ROUNDS) * 300);
        let mut seen: Vec<u8> = log.chunks(300).map(|part| part[0]).collect();
        assert!(
            log.chunks(300).all(|part| part.iter().all(|byte| *byte == part[0])),
            "none overlaps another"
        );
        seen.sort_unstable();
        assert_eq!(seen, (ROUNDS..ROUNDS * (TASKS + 1)).collect::<Vec<u8>>(), "each is there once");
        let cells = keyspace.blob("cells").read_at(0, 8).await.unwrap().read_to_end().await.unwrap();
        assert_eq!(cells[..], u64::from(TASKS * ROUNDS).to_le_bytes());
    });
}

/// Concurrent writes over eight chunks; readers must find each write complete. Truncations and
/// staged extensions happen in between.
#[test]
fn multi_chunk_writes_and_reads_are_atomic() {
    const CHUNK: usize = 4096;
    const ALL: usize = 8 * CHUNK;
    let cluster = ServingProgram::in_memory();
    let endpoint = cluster.endpoint().to_owned();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let client = patience::client(&endpoint).await.unwrap();
        let keyspace = client.keyspace("default").await.unwrap();
        keyspace.blob("b").create_with(12, b"").await.unwrap();
        keyspace.blob("b").write_at(0, &[0; ALL]).await.unwrap();
        let mut tasks = JoinSet::new();
        for task in 1..=3_u8 {
            let keyspace = keyspace.clone();
            tasks.spawn(async move {
                let blob = keyspace.blob("b");
                for round in 0..15 {
                    match round % 5 {
                        4 => blob.replace(&[task; ALL], None).await.unwrap(),
                        _ => blob.write_at(0, &[task; ALL]).await.unwrap(),
                    }
                }
                (0, 0)
            });
        }
        for _ in 0..2 {
            let keyspace = keyspace.clone();
            tasks.spawn(async move {
                let blob = keyspace.blob("b");
                let (mut whole, mut changed) = (0, 0);
                for _ in 0..20 {
                    let all = blob.read_at(0, u64::MAX).await.unwrap().read_to_end().await.unwrap();
                    assert_eq!(all.len(), ALL);
                    assert!(all.iter().all(|byte| *byte == all[0]), "bytes of two writes");
                    let mut pieces = blob.read_at(100, (ALL - 200) as u64).await.unwrap();
                    let mut streamed = Vec::new();
                    loop {
                        match pieces.next_piece().await {
                            Ok(Some(piece)) => streamed.extend_from_slice(&piece),
                            Ok(None) => {
                                assert!(
                                    streamed.iter().all(|byte| *byte == streamed[0])
                                        && streamed.len() == ALL - 200
                                );
                                whole += 1;
                                break;
                            }
                            Err(Error::Blob { why: BlobError::ChangedMeanwhile, .. }) => {
                                changed += 1;
                                break;
                            }
                            Err(error) => panic!("{error}"),
                        }
                    }
                }
                (whole, changed)
            });
        }
        let mut streams = (0, 0);
        while let Some(ended) = tasks.join_next().await {
            let (whole, changed) = ended.unwrap();
            streams = (streams.0 + whole, streams.1 + changed);
        }
        assert_eq!(streams.0 + streams.1, 40, "{streams:?}");
    });
}

#[test]
fn dependent_write_is_refused_after_a_change() {
    let cluster = ServingProgram::in_memory();
    let endpoint = cluster.endpoint().to_owned();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let client = patience::client(&endpoint).await.unwrap();
        let keyspace = client.keyspace("default").await.unwrap();
        let (one, other) = (keyspace.blob("b"), keyspace.blob("b"));
        one.create_with(12, b"").await.unwrap();
        one.write_at(0, &[1; 10_000]).await.unwrap();
        let (bytes, version) = one.read_with_version(4000, 200).await.unwrap();
        assert!(bytes.len() == 200 && bytes.iter().all(|byte| *byte == 1));
        one.write_at_if(&version, 4000, &[2; 200]).await.unwrap();
        let refused = one.write_at_if(&version, 4000, &[3; 200]).await.unwrap_err();
        assert!(refused.is_conflict(), "{refused}");
        // Reads to the end: an extension changes what was read, a write elsewhere does not.
        let (bytes, version) = one.read_with_version(9000, u64::MAX).await.unwrap();
        assert_eq!(bytes.len(), 1000);
        other.write_at(0, b"elsewhere").await.unwrap();
        one.write_at_if(&version, 9000, b"same").await.unwrap();
        let (_, version) = one.read_with_version(9000, u64::MAX).await.unwrap();
        assert_eq!(other.extend(b"more").await.unwrap(), 10_000);
        assert!(one.write_at_if(&version, 9000, b"late").await.unwrap_err().is_conflict());
        // A handle with an old header notices the removal.
        assert!(other.delete().await.unwrap());
        let gone = one.write_at(0, b"x").await.unwrap_err();
        assert!(matches!(gone.failure(), Some(Failure::NotFound)), "{gone}");
        assert!(gone.to_string().ends_with("there is no blob of this name"), "{gone}");
        other.create_with(13, b"").await.unwrap();
        one.write_at(5000, b"y").await.unwrap();
        assert_eq!(other.stat().await.unwrap().unwrap().size, 5001);
        let all = one.read_at(0, u64::MAX).await.unwrap().read_to_end().await.unwrap();
        assert!(all.len() == 5001 && all[..5000].iter().all(|byte| *byte == 0), "nothing of the old one");
    });
}

#[test]
fn staged_extension_becomes_visible_atomically() {
    let cluster = ServingProgram::in_memory();
    let endpoint = cluster.endpoint().to_owned();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let client = patience::client(&endpoint).await.unwrap();
        let keyspace = client.keyspace("default").await.unwrap();
        let (writer, other) = (keyspace.blob("b"), keyspace.blob("b"));
        writer.create_with(12, b"").await.unwrap();
        writer.extend(b"begin ").await.unwrap();
        let contents = pattern(50_000);
        let mut extension = writer.staged_extension().await.unwrap();
        for piece in contents.chunks(3_333) {
            extension.push(piece).await.unwrap();
            assert_eq!(other.stat().await.unwrap().unwrap().size, 6, "nothing is seen yet");
        }
        assert_eq!(extension.publish().await.unwrap(), 50_006);
        let all = other.read_at(0, u64::MAX).await.unwrap().read_to_end().await.unwrap();
        assert!(all[..6] == *b"begin " && all[6..] == contents);

        // A concurrent write: staged bytes never become visible, and zeros are in their place.
        let mut extension = writer.staged_extension().await.unwrap();
        extension.push(&[9; 20_000]).await.unwrap();
        assert_eq!(other.extend(b"faster").await.unwrap(), 50_006);
        let beaten = match extension.push(&[9; 20_000]).await {
            Ok(()) => extension.publish().await.unwrap_err(),
            Err(error) => error,
        };
        assert!(matches!(beaten, Error::Blob { why: BlobError::Contended, .. }), "{beaten}");
        other.truncate(100_000).await.unwrap();
        let all = writer.read_at(50_006, u64::MAX).await.unwrap().read_to_end().await.unwrap();
        assert!(all.len() == 49_994 && all[..6] == *b"faster" && all[6..].iter().all(|byte| *byte == 0));

        // A staged extension that is never published: the next writer removes it.
        let mut extension = writer.staged_extension().await.unwrap();
        extension.push(&[7; 10_000]).await.unwrap();
        drop(extension);
        assert_eq!(other.extend(b"!").await.unwrap(), 100_000);
        assert!(other.delete().await.unwrap());
        assert!(writer.stat().await.unwrap().is_none());
    });
}

#[test]
fn keys_of_blobs_are_refused_to_operations_of_records() {
    let cluster = ServingProgram::in_memory();
    assert_eq!(code(&cluster.run_with(&["blob", "put", "film"], b"contents")), 0);
    let endpoint = cluster.endpoint().to_owned();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let client = patience::client(&endpoint).await.unwrap();
        let keyspace = client.keyspace("default").await.unwrap();
        for last in [0, 1] {
            let key = [&b"\xFFzhbfilm"[..], &[0; 8], &[last]].concat();
            let refused = keyspace.insert(&key, "v").await.unwrap_err().to_string();
            assert!(refused.contains("reserved for the header or a chunk of a blob"), "{refused}");
            let transaction = client.begin();
            transaction.insert(&keyspace, &key, "v").unwrap();
            transaction.commit().await.unwrap_err();
        }
    });
    assert_eq!(cluster.ok(&["blob", "get", "film"]), "contents");
}
