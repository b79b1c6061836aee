//! Blobs over chunks of several nodes, of which one is killed during the writes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;
use zerohop_client::Client;

use crate::cluster::loads::{connect, reaches};
use crate::cluster::nodes::NodeCluster;

const CHUNK: usize = 4096;
/// Bytes of every write, in eight chunks.
const BLOB_BYTES: usize = 8 * CHUNK - 100;
/// Bytes of one extension, sometimes over two chunks.
const RECORD: usize = 600;

/// Writes a whole blob and extends another until the stop signal. Returns the numbers of the
/// extensions that succeeded, and of those with an unknown outcome.
async fn write(
    client: Client,
    worker: u8,
    stop: Arc<AtomicBool>,
    done: Arc<AtomicU64>,
) -> (Vec<u64>, Vec<u64>) {
    let keyspace = client.keyspace("default").await.unwrap();
    let (cells, log) = (keyspace.blob("cells"), keyspace.blob("log"));
    let (mut written, mut unknown) = (Vec::new(), Vec::new());
    for number in 0_u64.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        match cells.write_at(0, &vec![worker ^ number as u8; BLOB_BYTES]).await {
            Ok(()) => {}
            Err(error) if error.is_unknown() => {}
            Err(error) => panic!("{error}"),
        }
        let mut record = vec![worker; RECORD];
        record[..8].copy_from_slice(&number.to_le_bytes());
        match log.extend(&record).await {
            Ok(_) => {
                written.push(number);
                done.fetch_add(1, Ordering::Relaxed);
            }
            Err(error) if error.is_unknown() => unknown.push(number),
            Err(error) => panic!("{error}"),
        }
    }
    (written, unknown)
}

#[tokio::test]
async fn blobs_stay_atomic_through_a_node_kill() {
    let folder = crate::support::folder();
    let mut cluster = NodeCluster::start(folder.path(), 3);
    let client = connect(&cluster.endpoints()).await;
    let keyspace = client.keyspace("default").await.unwrap();
    for name in ["cells", "log"] {
        keyspace.blob(name).create_with(12, b"").await.unwrap();
    }
    keyspace.blob("cells").write_at(0, &[0; BLOB_BYTES]).await.unwrap();
    let (stop, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let mut workers = JoinSet::new();
    for worker in 1..=3 {
        let client = connect(&cluster.endpoints()).await;
        let (stop, done) = (Arc::clone(&stop), Arc::clone(&done));
        workers.spawn(async move { (worker, write(client, worker, stop, done).await) });
    }
    for round in 0..16 {
        let all = keyspace.blob("cells").read_at(0, u64::MAX).await.unwrap().read_to_end().await.unwrap();
        assert_eq!(all.len(), BLOB_BYTES);
        assert!(all.iter().all(|byte| *byte == all[0]), "bytes of two writes, in round {round}");
        if round == 5 {
            cluster.kill(0);
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    reaches("they go on without the node", &done, done.load(Ordering::Relaxed) + 1).await;
    stop.store(true, Ordering::Relaxed);
    let mut outcomes = Vec::new();
    while let Some(ended) = workers.join_next().await {
        outcomes.push(ended.unwrap());
    }
    let log = keyspace.blob("log").read_at(0, u64::MAX).await.unwrap().read_to_end().await.unwrap();
    assert_eq!(log.len() % RECORD, 0);
    let mut found: Vec<(u8, u64)> = Vec::new();
    for record in log.chunks(RECORD) {
        assert!(record[8..].iter().all(|byte| *byte == record[8]), "none overlaps another");
        found.push((record[8], u64::from_le_bytes(*record.first_chunk().unwrap())));
    }
    for (worker, (written, unknown)) in outcomes {
        let own: Vec<u64> = found.iter().filter(|(of, _)| *of == worker).map(|(_, number)| *number).collect();
        assert!(own.windows(2).all(|pair| pair[0] < pair[1]), "worker {worker}: each once, in order");
        assert!(written.iter().all(|number| own.contains(number)), "worker {worker}: what was acknowledged");
        let known = |number: &u64| written.contains(number) || unknown.contains(number);
        assert!(own.iter().all(known), "worker {worker}: nothing else is there");
    }
}
