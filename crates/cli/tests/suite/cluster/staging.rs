//! Transactions that are larger than one frame: their data is staged first. They commit atomically,
//! and staged data is removed if the client is killed.

use std::process::{Command, Stdio};
use std::time::Instant;

use zerohop_client::{Client, Error, InvalidTransaction, Keyspace, Reason};

use crate::cluster::loads::connect;
use crate::cluster::nodes::{NodeCluster, metric};
use crate::support::process::RunningProcess;
use crate::support::wait_for;

/// Bytes of a record that is staged as one piece.
const PIECE_BYTES: usize = 1 << 20;

/// Bytes that are staged when the client is killed.
const STAGED_BYTES: u64 = 200 << 20;

/// The variable with the endpoint for a process that only stages, or whose memory is measured.
const STAGES_AT: &str = "ZEROHOP_TEST_STAGES_AT";
const MEASURED_AT: &str = "ZEROHOP_TEST_MEASURED_AT";

fn key(number: usize) -> String {
    format!("staged-{number}")
}

fn piece(number: usize) -> Vec<u8> {
    let mut bytes = vec![number as u8; PIECE_BYTES];
    bytes[..8].copy_from_slice(&number.to_le_bytes());
    bytes
}

fn sum(endpoints: &[String], name: &str) -> u64 {
    endpoints.iter().map(|endpoint| metric(endpoint, name)).sum()
}

fn staged_bytes(endpoints: &[String]) -> u64 {
    sum(endpoints, "staged_bytes")
}

/// The peak memory of a process, in bytes.
fn resident_bytes_max(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    let kib: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kib << 10
}

/// MiB of data in one transaction. The environment can ask for a gibibyte, which takes three nodes
/// on one disk minutes.
fn mebibytes() -> usize {
    std::env::var("ZEROHOP_TEST_STAGED_MIB").map_or(160, |text| text.parse().unwrap())
}

async fn one_keyspace(endpoints: &[String]) -> (Client, Keyspace) {
    let client = connect(endpoints).await;
    let keyspace = client.keyspace("default").await.unwrap();
    (client, keyspace)
}

#[tokio::test]
async fn transaction_larger_than_client_memory_is_atomic() {
    let folder = crate::support::folder();
    let cluster = NodeCluster::start(folder.path(), 3);
    let mut client = program("staging_client_runs_if_endpoint_is_set", MEASURED_AT, &cluster);
    assert!(client.ended().success(), "what went wrong is shown above");
    let of_nodes: Vec<u64> = cluster.processes().map(resident_bytes_max).map(|bytes| bytes >> 20).collect();
    eprintln!("the nodes have taken {of_nodes:?} MiB");
    let endpoints = cluster.endpoints();
    wait_for("nothing of what was committed stays staged", || staged_bytes(&endpoints), |bytes| *bytes == 0);
    cluster.stop_in_order();
}

/// Not a test of its own: the client whose memory is measured, alone in its process.
#[tokio::test]
async fn staging_client_runs_if_endpoint_is_set() {
    let Ok(endpoints) = std::env::var(MEASURED_AT) else { return };
    let endpoints: Vec<String> = endpoints.split(',').map(str::to_owned).collect();
    let (client, keyspace) = one_keyspace(&endpoints).await;
    let (pieces, began) = (mebibytes(), Instant::now());
    let before = resident_bytes_max(std::process::id());
    let transaction = client.begin();
    for number in 0..pieces {
        transaction.stage(keyspace.insert(&key(number), &piece(number))).await.unwrap();
    }
    // Small records, up to ten thousand records in all.
    for number in pieces..10_000 {
        transaction.write(keyspace.insert(&key(number), &number.to_le_bytes())).unwrap();
    }
    let staged = began.elapsed();
    assert!(staged_bytes(&endpoints) >= (pieces * PIECE_BYTES) as u64);
    for number in [0, pieces - 1, 9_999] {
        assert_eq!(keyspace.lookup_bytes(&key(number)).await.unwrap(), None, "{number} is visible");
    }
    transaction.commit().await.unwrap();
    let committed = began.elapsed() - staged;
    let grown = resident_bytes_max(std::process::id()) - before;
    eprintln!(
        "{pieces} MiB staged in {staged:?}, 10,000 records committed in {committed:?}; the client has grown by {} MiB",
        grown >> 20
    );
    assert!(grown < 64 << 20, "the client holds what it has staged: {grown}");
    for number in (0..pieces).step_by(7).chain((pieces..10_000).step_by(1_001)) {
        let found = keyspace.lookup_bytes(&key(number)).await.unwrap().unwrap();
        let expected = if number < pieces { piece(number) } else { number.to_le_bytes().to_vec() };
        assert!(found == expected, "{number}");
    }
}

#[tokio::test]
async fn transaction_above_a_limit_is_refused_before_sending() {
    let folder = crate::support::folder();
    let cluster = NodeCluster::start(folder.path(), 1);
    let (client, keyspace) = one_keyspace(&cluster.endpoints()).await;
    let invalid = |error: Error| match error {
        Error::Operation { reason, .. } => match *reason {
            Reason::InvalidTransaction(invalid) => invalid,
            other => panic!("{other}"),
        },
        other => panic!("{other}"),
    };
    let transaction = client.begin();
    for number in 0..16_384 {
        transaction.write(keyspace.increment(&key(number), 1)).unwrap();
    }
    let refused = transaction.write(keyspace.increment("one more", 1)).unwrap_err();
    assert_eq!(invalid(refused), InvalidTransaction::Items { count: 16_385, limit: 16_384 });
    // A value that is larger than a piece.
    let transaction = client.begin();
    let refused = transaction.write(keyspace.insert("long", &vec![0; (16 << 20) + 1])).map(drop).unwrap_err();
    let message = refused.to_string();
    assert!(message.contains("16777216"), "{message}");
    // More data for one partition than it applies in one step: nothing of it is done.
    let transaction = client.begin();
    let long = vec![b'x'; 15 << 20];
    for number in 0..18 {
        transaction.stage(keyspace.append(&key(0), &[format!("{number}").as_bytes(), &long])).await.unwrap();
    }
    let refused = transaction.commit().await.unwrap_err();
    assert!(matches!(invalid(refused), InvalidTransaction::PartitionBytes { limit: 268_435_456, .. }));
    assert_eq!(keyspace.lookup_bytes(&key(0)).await.unwrap(), None);
    cluster.stop_in_order();
}

/// Not a test of its own: the client that is killed.
#[tokio::test]
async fn endless_staging_client_runs_if_endpoint_is_set() {
    let Ok(endpoint) = std::env::var(STAGES_AT) else { return };
    let endpoints: Vec<String> = endpoint.split(',').map(str::to_owned).collect();
    let client = connect(&endpoints).await;
    let keyspace = client.keyspace("default").await.unwrap();
    let transaction = client.begin();
    for number in 0..1_000 {
        transaction.stage(keyspace.insert(&key(number), &piece(number))).await.unwrap();
    }
    std::future::pending().await
}

/// Runs this test program again, as a client, by its environment.
fn program(test: &str, variable: &str, cluster: &NodeCluster) -> RunningProcess {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", &format!("cluster::staging::{test}"), "--nocapture"]);
    RunningProcess::start(command.env(variable, cluster.endpoints().join(",")).stdout(Stdio::null()))
}

#[tokio::test]
async fn staged_data_of_killed_client_expires() {
    let folder = crate::support::folder();
    let cluster = NodeCluster::start(folder.path(), 3);
    let endpoints = cluster.endpoints();
    let child = program("endless_staging_client_runs_if_endpoint_is_set", STAGES_AT, &cluster);
    wait_for("much is staged", || staged_bytes(&endpoints), |bytes| *bytes >= STAGED_BYTES);
    // Dropping it kills the process.
    drop(child);
    let (killed, staged) = (Instant::now(), staged_bytes(&endpoints));
    wait_for("nothing stays staged", || staged_bytes(&endpoints), |bytes| *bytes == 0);
    let expired = killed.elapsed();
    // The staged data is then dead space of the logs, which compaction frees gradually.
    let on = |name| sum(&endpoints, name);
    let live = || on("log_bytes").saturating_sub(on("dead_bytes"));
    wait_for("its logs are needed no more", live, |bytes| *bytes <= staged / 4);
    eprintln!(
        "{} MiB staged over three nodes expired {expired:?} after the kill; of {} MiB of logs {} MiB were needed then",
        staged >> 20,
        on("log_bytes") >> 20,
        live() >> 20
    );
    let (client, keyspace) = one_keyspace(&cluster.endpoints()).await;
    assert_eq!(keyspace.lookup_bytes(&key(0)).await.unwrap(), None);
    // The cluster continues as usual.
    client.transaction(async |tx| tx.insert(&keyspace, &key(0), "after")).await.unwrap();
    assert_eq!(keyspace.lookup_bytes(&key(0)).await.unwrap().unwrap(), "after");
    cluster.stop_in_order();
}
