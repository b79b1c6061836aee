//! `zerohop blob`.

use serde_json::json;
use tokio::task::JoinSet;
use zerohop_client::{BlobTrouble, Client, Error, Transform};

use crate::support::{Serving, code, stderr, stdout};

/// Bytes that differ wherever one looks.
fn pattern(length: usize) -> Vec<u8> {
    (0..length as u64).map(|at| (at.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8).collect()
}

#[test]
fn a_file_of_many_chunks_comes_back_whole_and_in_part() {
    let cluster = Serving::in_memory();
    let folder = tempfile::tempdir().unwrap();
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
    let told = (&info["size"], &info["chunk_bytes"], &info["attributes"], &info["generation"]);
    assert_eq!(told, (&json!(3_500_000), &json!(1 << 20), &json!("colour"), &json!(0)));

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
fn bytes_are_written_appended_cut_and_changed_in_place() {
    let cluster = Serving::in_memory();
    let mut model = pattern(10_000);
    assert_eq!(code(&cluster.run_with(&["blob", "put", "b", "--chunk", "4K"], &model)), 0);
    cluster.ok(&["blob", "write", "b", "hello", "--at", "100"]);
    model[100..105].copy_from_slice(b"hello");
    let across = cluster.run(&["blob", "write", "b", "hello", "--at", "4094"]);
    assert_eq!(code(&across), 3, "{across:?}");
    assert!(stderr(&across).contains("do not lie within one chunk of 4096 bytes"), "{across:?}");
    cluster.ok(&["blob", "write", "b", "hello", "--at", "4094", "--pieces"]);
    model[4094..4099].copy_from_slice(b"hello");
    assert_eq!(cluster.ok(&["blob", "append", "b", "tail"]), "10000\n");
    model.extend_from_slice(b"tail");
    assert_eq!(cluster.run(&["blob", "get", "b"]).stdout, model);

    // What is cut off is gone for good: what comes in its place later are zeros.
    cluster.ok(&["blob", "truncate", "b", "5000"]);
    assert_eq!(cluster.run(&["blob", "get", "b"]).stdout, model[..5000]);
    assert_eq!(cluster.json(&["blob", "stat", "b"])["generation"], 1);
    cluster.ok(&["blob", "truncate", "b", "12000"]);
    model.truncate(5000);
    model.resize(12_000, 0);
    assert_eq!(cluster.run(&["blob", "get", "b"]).stdout, model);
    // Far behind the end: zeros between.
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
    assert_eq!(cluster.run(&["blob", "get", "b"]).stdout, model);
    assert_eq!(cluster.json(&["blob", "stat", "b", "--set-attributes", "x=1"])["attributes"], "x=1");

    assert_eq!(cluster.json(&["blob", "rm", "b"]), json!({"name": "b", "done": true}));
    for gone in [&["blob", "get", "b"][..], &["blob", "rm", "b"], &["blob", "append", "b", "x"]] {
        let output = cluster.run(gone);
        assert_eq!((code(&output), stdout(&output).as_str()), (1, ""), "{output:?}");
        assert!(stderr(&output).contains("blob \"b\": there is no such blob"), "{output:?}");
    }
    // Nothing of it is in the next one of its name, and nothing is left of its chunks.
    assert_eq!(code(&cluster.run_with(&["blob", "put", "b", "--chunk", "4K"], b"")), 0);
    cluster.ok(&["blob", "truncate", "b", "6000"]);
    assert_eq!(cluster.run(&["blob", "get", "b"]).stdout, vec![0; 6000]);
}

#[test]
fn names_are_listed_in_their_order() {
    let cluster = Serving::in_memory();
    for n in [3, 1, 2, 5, 4] {
        assert_eq!(code(&cluster.run_with(&["blob", "put", &format!("logs/{n}")], b"x")), 0);
    }
    assert_eq!(code(&cluster.run_with(&["blob", "put", "other"], b"x")), 0);
    cluster.ok(&["kv", "insert", "logs/0", "a record, not a blob"]);
    cluster.ok(&["blob", "rm", "logs/4"]);
    assert_eq!(cluster.ok(&["blob", "ls", "logs/"]), "logs/1\nlogs/2\nlogs/3\nlogs/5\n");
    assert_eq!(cluster.ok(&["blob", "ls", "--limit", "2"]), "logs/1\nlogs/2\n");
    assert_eq!(cluster.ok(&["blob", "ls", "--after", "logs/3"]), "logs/5\nother\n");
    assert_eq!(cluster.ok(&["blob", "ls", "o", "--json"]), "{\"name\":\"other\"}\n");
    assert_eq!(cluster.ok(&["kv", "scan"]), "logs/0\n", "blobs are not among the records");
}

/// Several clients at once on one blob: appends do not overlap, numbers count each change once, and a chunk is never seen
/// half-written, also while others cut the blob.
#[test]
fn many_clients_at_once_leave_each_others_bytes_alone() {
    const TASKS: u8 = 4;
    const ROUNDS: u8 = 20;
    const CHUNK: usize = 4096;
    let cluster = Serving::in_memory();
    let endpoint = cluster.endpoint().to_owned();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let client = Client::connect(&endpoint).await.unwrap();
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
                    log.append(&[task * ROUNDS + round; 300]).await.unwrap();
                    match cells.transform(Transform::add(1_u64).at(0)).await {
                        // Its chunk is never cut, so it was done.
                        Ok(_) | Err(Error::Blob { why: BlobTrouble::CutMeanwhile, .. }) => {}
                        Err(error) => panic!("{error}"),
                    }
                    // Behind the number: whole chunks of one byte.
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
