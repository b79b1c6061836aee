//! Sparse blobs of the greatest size: what removals, truncations, replacements and backups cost, and that they leave nothing.

use std::io::Write;
use std::process::Stdio;

use crate::support::process::RunningProcess;
use crate::support::serving::{ServingProgram, code, zerohop};
use crate::support::{folder, patience, wait_for};

/// The most chunks of 1 MiB that a blob may have.
const BYTES_MAX: u64 = 16 << 40;
/// Requests for one of these operations: twice the positions below 4,096, and twice a list from each of 512 partitions, and
/// some for the chunks of an extension.
const REQUESTS_MAX: f64 = 2.0 * (4096.0 + 512.0) + 1500.0;

/// Requests that the node has answered.
fn requests(cluster: &ServingProgram) -> f64 {
    let metrics = crate::cluster::nodes::scrape(cluster.endpoint());
    let counts = metrics.lines().filter(|line| line.starts_with("zerohop_operation_seconds_count"));
    counts.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
}

/// Does something that takes a bounded number of requests.
fn bounded(cluster: &ServingProgram, what: &str, act: impl FnOnce(&ServingProgram)) {
    let before = requests(cluster);
    act(cluster);
    let made = requests(cluster) - before;
    assert!(made > 0.0 && made < REQUESTS_MAX, "{what}: {made} requests");
}

/// Makes a blob of the greatest size with a few bytes near its begin, in its middle and at its end.
fn sparse(cluster: &ServingProgram) {
    assert_eq!(code(&cluster.run_with(&["blob", "put", "b", "--replace"], b"begin")), 0);
    cluster.ok(&["blob", "truncate", "b", &BYTES_MAX.to_string()]);
    for (bytes, at) in [("low", 5 << 30), ("middle", 9 << 40), ("end", BYTES_MAX - 3)] {
        cluster.ok(&["blob", "write", "b", bytes, "--at", &at.to_string()]);
    }
    assert_eq!(read(cluster, 9 << 40, 6), b"middle");
}

fn read(cluster: &ServingProgram, at: u64, length: u64) -> Vec<u8> {
    cluster.run(&["blob", "read", "b", "--at", &at.to_string(), "--length", &length.to_string()]).stdout
}

/// Waits until the keyspace has so many records: headers and chunks.
fn wait_for_records(cluster: &ServingProgram, records: u64) {
    wait_for(
        "records of blobs",
        || cluster.json(&["status"]),
        |status| status["totals"]["records"].as_u64() == Some(records),
    );
}

#[test]
fn longest_sparse_blob_is_removed_by_a_bounded_number_of_requests() {
    let cluster = ServingProgram::in_memory();
    sparse(&cluster);
    wait_for_records(&cluster, 5);
    bounded(&cluster, "rm", |cluster| drop(cluster.ok(&["blob", "rm", "b"])));
    assert_eq!(code(&cluster.run(&["blob", "stat", "b"])), 1);
    wait_for_records(&cluster, 0);

    // Nothing of an old blob is in a new one.
    sparse(&cluster);
    bounded(&cluster, "put --replace", |cluster| {
        assert_eq!(code(&cluster.run_with(&["blob", "put", "b", "--replace"], b"new")), 0);
    });
    assert_eq!(cluster.ok(&["blob", "get", "b"]), "new");
    assert_eq!(cluster.ok(&["blob", "ls", "--unfinished"]), "b\n");
    wait_for_records(&cluster, 2);
    cluster.ok(&["blob", "truncate", "b", &BYTES_MAX.to_string()]);
    assert_eq!((read(&cluster, 9 << 40, 6), read(&cluster, BYTES_MAX - 3, 3)), (vec![0; 6], vec![0; 3]));

    // After a split a partition has chunks of its sibling, until it has removed them.
    sparse(&cluster);
    cluster.ok(&["keyspace", "split", "default"]);
    bounded(&cluster, "rm after a split", |cluster| drop(cluster.ok(&["blob", "rm", "b"])));
    wait_for_records(&cluster, 0);
}

#[test]
fn longest_sparse_blob_is_truncated_by_a_bounded_number_of_requests() {
    let cluster = ServingProgram::in_memory();
    for size in [0, 1, 9 << 40, (9 << 40) + 3] {
        sparse(&cluster);
        bounded(&cluster, &format!("truncate {size}"), |cluster| {
            cluster.ok(&["blob", "truncate", "b", &size.to_string()]);
        });
        assert_eq!(cluster.json(&["blob", "stat", "b"])["size"], size);
        cluster.ok(&["blob", "truncate", "b", &BYTES_MAX.to_string()]);
        let kept = |at: u64, bytes: &[u8]| -> Vec<u8> {
            (at..).zip(bytes).map(|(at, byte)| if at < size { *byte } else { 0 }).collect()
        };
        for (at, bytes) in
            [(0, &b"begin"[..]), (5 << 30, b"low"), (9 << 40, b"middle"), (BYTES_MAX - 3, b"end")]
        {
            assert_eq!(read(&cluster, at, bytes.len() as u64), kept(at, bytes), "{size}: at {at}");
        }
    }
}

/// The positions behind the size that the extension has announced are marked before the removal, and those only.
#[test]
fn sparse_blob_with_a_killed_extension_is_removed_by_a_bounded_number_of_requests() {
    let cluster = ServingProgram::in_memory();
    let half = (BYTES_MAX / 2).to_string();
    assert_eq!(code(&cluster.run_with(&["blob", "put", "b"], b"begin")), 0);
    cluster.ok(&["blob", "truncate", "b", &half]);
    let mut extend = zerohop(&["blob", "extend", "b", "-"]);
    extend.env("ZEROHOP_ENDPOINT", cluster.endpoint()).stdin(Stdio::piped());
    let mut extending = RunningProcess::start(&mut extend);
    // More than one write may have: the client stages it.
    let mut stdin = extending.stdin.take().unwrap();
    stdin.write_all(&vec![7; 100 << 20]).unwrap();
    extending.kill().unwrap();
    extending.ended();
    drop(stdin);
    assert_eq!(cluster.json(&["blob", "stat", "b"])["size"], BYTES_MAX / 2);
    bounded(&cluster, "rm", |cluster| drop(cluster.ok(&["blob", "rm", "b"])));
    wait_for_records(&cluster, 0);
}

#[test]
fn sparse_blob_is_backed_up_and_restored_by_a_bounded_number_of_requests() {
    let cluster = ServingProgram::in_memory();
    sparse(&cluster);
    let folder = folder();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    bounded(&cluster, "backup", |cluster| drop(cluster.ok(&["backup", &at("whole")])));
    // What is unchanged is looked up again, by its version.
    cluster.ok(&["blob", "write", "b", "new", "--at", &(7_u64 << 40).to_string()]);
    bounded(&cluster, "backup --since", |cluster| {
        drop(cluster.ok(&["backup", &at("changed"), "--since", &at("whole")]));
    });
    bounded(&cluster, "restore", |cluster| {
        drop(cluster.ok(&["restore", &at("changed"), "--as", "restored"]));
    });
    let restored = |at: u64, length: u64| {
        let range = ["--at", &at.to_string(), "--length", &length.to_string(), "--keyspace", "restored"];
        cluster.run(&[&["blob", "read", "b"][..], &range].concat()).stdout
    };
    assert_eq!(cluster.json(&["blob", "stat", "b", "--keyspace", "restored"])["size"], BYTES_MAX);
    assert_eq!((restored(0, 5), restored(5 << 30, 3)), (b"begin".to_vec(), b"low".to_vec()));
    assert_eq!((restored(7 << 40, 3), restored(9 << 40, 6)), (b"new".to_vec(), b"middle".to_vec()));
    assert_eq!((restored(8 << 40, 3), restored(BYTES_MAX - 3, 3)), (vec![0; 3], b"end".to_vec()));
}

/// A backup that takes long meets such blobs.
#[tokio::test]
async fn chunks_of_a_snapshot_are_found_by_a_bounded_number_of_requests_after_a_replacement() {
    let cluster = ServingProgram::in_memory();
    let client = patience::client(cluster.endpoint()).await.unwrap();
    let keyspace = client.keyspace("default").await.unwrap();
    for change in
        [&["blob", "put", "b", "--replace"][..], &["blob", "truncate", "b", "0"], &["blob", "rm", "b"]]
    {
        sparse(&cluster);
        let snapshot = client.snapshot(&[&keyspace]).await.unwrap();
        assert_eq!(code(&cluster.run_with(change, b"new")), 0, "{change:?}");
        let before = requests(&cluster);
        let blob = snapshot.blob(&keyspace, "b").await.unwrap().unwrap();
        let mut found = Vec::new();
        for number in blob.chunk_numbers().await.unwrap() {
            if let Some((_, bytes)) = blob.chunk(number).await.unwrap() {
                found.push((number, bytes.to_vec()));
            }
        }
        let made = requests(&cluster) - before;
        assert!(made < REQUESTS_MAX, "{change:?}: {made} requests");
        let numbers: Vec<u64> = found.iter().map(|(number, _)| *number).collect();
        assert_eq!(numbers, [0, 5 << 10, 9 << 20, (16 << 20) - 1], "{change:?}");
        assert!(found[0].1 == b"begin" && found[1].1 == b"low" && found[2].1 == b"middle", "{change:?}");
        snapshot.close().await.unwrap();
        drop(cluster.run(&["blob", "rm", "b"]));
    }
}
