//! Transactions over blobs, lists and records together.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;
use zerohop_client::{Blob, Client, ClientOptions, Error, Failure, Keyspace, Transform};

use crate::cluster::loads::{connect, reaches};
use crate::cluster::nodes::NodeCluster;

const CHUNK: u64 = 4096;
/// Bytes of the blob that every change covers, in five chunks.
const BLOB_BYTES: u64 = 4 * CHUNK + 100;

/// How long the counter retries before the changing workers wait for it.
const COUNT_MAX: Duration = Duration::from_secs(1);

async fn all(blob: &Blob<'_>) -> Vec<u8> {
    let size = blob.stat().await.unwrap().unwrap().size;
    blob.read_with_version(0, size).await.unwrap().0.to_vec()
}

/// A transaction reads its own changes with the values that the commit will store.
#[tokio::test]
async fn transaction_reads_blob_as_its_commit_will_store_it() {
    let folder = crate::support::folder();
    let cluster = NodeCluster::start(folder.path(), 1);
    let client = connect(&cluster.endpoints()).await;
    let keyspace = client.keyspace("default").await.unwrap();
    let blob = keyspace.blob("b");
    blob.create_with(12, b"").await.unwrap();
    let before: Vec<u8> = (0..3 * CHUNK + 50).map(|at| at as u8).collect();
    blob.write_at(0, &before).await.unwrap();

    let tx = client.begin();
    let own = tx.blob(&keyspace, "b");
    let size = before.len() as u64;
    assert_eq!(own.read(CHUNK - 2, 5).await.unwrap()[..], before[CHUNK as usize - 2..][..5]);
    own.write(CHUNK - 3, vec![1; 6]).await.unwrap();
    assert_eq!(own.extend(vec![2; 5000]).await.unwrap(), size);
    own.truncate(2 * CHUNK + 7).await.unwrap();
    assert_eq!(own.stat().await.unwrap().unwrap().size, 2 * CHUNK + 7);
    assert_eq!(own.extend(vec![3; 20]).await.unwrap(), 2 * CHUNK + 7);
    own.write(4 * CHUNK, vec![4; 10]).await.unwrap();
    own.transform(Transform::add(258_u32).at(2 * CHUNK - 2)).await.unwrap();
    let seen = own.read(0, u64::from(u32::MAX)).await.unwrap();
    assert_eq!(seen.len() as u64, 4 * CHUNK + 10);
    // A number within one chunk is transformed at the server, without a read dependency unless it
    // is read.
    own.transform(Transform::add(1_u8).at(9)).await.unwrap();
    assert_eq!(own.read(9, 1).await.unwrap()[..], [seen[9] + 1]);
    assert_eq!(own.read(10, 5).await.unwrap()[..], seen[10..15]);
    tx.insert(&keyspace, "k", "v").unwrap();
    assert_eq!(all(&blob).await, before, "nothing is there before the commit");
    tx.commit().await.unwrap();

    let mut expected = seen.to_vec();
    expected[9] += 1;
    assert_eq!(all(&blob).await, expected);
    assert_eq!(keyspace.lookup_bytes("k").await.unwrap().unwrap(), "v");
    assert!(expected[2 * CHUNK as usize + 27..4 * CHUNK as usize].iter().all(|byte| *byte == 0));
    // 32 bits across two chunks; added and truncated bytes are covered above.
    let number = |bytes: &[u8]| u32::from_le_bytes(bytes[2 * CHUNK as usize - 2..][..4].try_into().unwrap());
    assert_eq!(number(&expected), number(&before).wrapping_add(258));
}

#[tokio::test]
async fn concurrent_blob_change_aborts_transaction() {
    let folder = crate::support::folder();
    let cluster = NodeCluster::start(folder.path(), 1);
    let client = connect(&cluster.endpoints()).await;
    let keyspace = client.keyspace("default").await.unwrap();
    let blob = keyspace.blob("b");
    blob.create_with(12, b"").await.unwrap();
    blob.write_at(0, &vec![7; 3 * CHUNK as usize]).await.unwrap();
    let conflicts = async |other: &str, own: &str| {
        let tx = client.begin();
        let in_it = tx.blob(&keyspace, "b");
        match own {
            "read" => drop(in_it.read(0, 10).await.unwrap()),
            "read the end" => drop(in_it.read(3 * CHUNK - 1, 10).await.unwrap()),
            "extend" => drop(in_it.extend("x").await.unwrap()),
            "write" => in_it.write(5, "x").await.unwrap(),
            "grow" => in_it.write(3 * CHUNK, "x").await.unwrap(),
            _ => drop(in_it.stat().await.unwrap()),
        }
        tx.write(keyspace.increment("count", 1)).unwrap();
        match other {
            "write" => blob.write_at(1, b"y").await.unwrap(),
            "extend" => drop(blob.extend(b"y").await.unwrap()),
            _ => blob.truncate(3 * CHUNK).await.unwrap(),
        }
        let ended = tx.commit().await;
        if other != "cut" {
            blob.truncate(3 * CHUNK).await.unwrap();
        } else {
            blob.extend(b"z").await.unwrap();
        }
        match ended {
            Ok(_) => false,
            Err(error) => {
                assert!(error.is_conflict(), "{error}");
                assert!(!error.to_string().contains("zhb"), "{error}");
                true
            }
        }
    };
    assert!(conflicts("write", "read").await);
    assert!(conflicts("extend", "read the end").await);
    assert!(conflicts("extend", "extend").await);
    assert!(conflicts("extend", "stat").await);
    assert!(!conflicts("extend", "read").await);
    assert!(!conflicts("write", "write").await, "writes check nothing");
    assert!(!conflicts("extend", "grow").await);
    blob.extend(b"z").await.unwrap();
    assert!(conflicts("cut", "write").await, "but that it was not cut");
    let count = keyspace.lookup_bytes("count").await.unwrap().unwrap();
    assert_eq!(count, "3", "those that were committed");
}

#[tokio::test]
async fn blob_creation_and_removal_are_atomic_with_transaction() {
    let folder = crate::support::folder();
    let cluster = NodeCluster::start(folder.path(), 1);
    let client = connect(&cluster.endpoints()).await;
    let keyspace = client.keyspace("default").await.unwrap();
    let tx = client.begin();
    let made = tx.blob(&keyspace, "made");
    assert_eq!(made.stat().await.unwrap(), None);
    assert!(!made.remove().await.unwrap());
    assert_eq!(made.write(0, "x").await.unwrap_err().failure(), Some(&Failure::NotFound));
    made.create(b"kind=x").await.unwrap();
    tx.insert(&keyspace, "index", "made").unwrap();
    tx.commit().await.unwrap();
    let blob = keyspace.blob("made");
    assert_eq!(blob.stat().await.unwrap().unwrap().attributes, "kind=x");
    blob.write_at(0, &vec![1; 3_000_000]).await.unwrap();

    let tx = client.begin();
    assert!(matches!(
        tx.blob(&keyspace, "made").create(b"").await.unwrap_err().failure(),
        Some(Failure::ConditionFailed { .. })
    ));
    assert!(tx.blob(&keyspace, "made").remove().await.unwrap());
    tx.remove(&keyspace, "index").unwrap();
    // A concurrent write comes first.
    blob.extend(b"more").await.unwrap();
    assert!(tx.commit().await.unwrap_err().is_conflict());
    assert!(blob.stat().await.unwrap().is_some() && keyspace.lookup_bytes("index").await.unwrap().is_some());

    let keyspace = &keyspace;
    let removed = client.transaction(|tx| async move {
        tx.remove(keyspace, "index")?;
        tx.blob(keyspace, "made").remove().await
    });
    assert!(removed.await.unwrap());
    assert_eq!(keyspace.blob("made").stat().await.unwrap(), None);
    assert_eq!(keyspace.lookup_bytes("index").await.unwrap(), None);
}

#[tokio::test]
async fn readers_do_not_disturb_staged_extensions() {
    let folder = crate::support::folder();
    let cluster = NodeCluster::start(folder.path(), 1);
    let client = connect(&cluster.endpoints()).await;
    let keyspace = &client.keyspace("default").await.unwrap();
    let blob = keyspace.blob("b");
    blob.create_with(12, b"").await.unwrap();
    blob.write_at(0, b"begin").await.unwrap();
    let stage = async || {
        let mut extension = blob.staged_extension().await.unwrap();
        extension.push(&vec![9; 3 * CHUNK as usize]).await.unwrap();
        extension
    };
    let extension = stage().await;
    let read = client.transaction(|tx| async move {
        tx.insert(keyspace, "k", "v")?;
        let blob = tx.blob(keyspace, "b");
        Ok((blob.stat().await?.map(|info| info.size), blob.read(0, 100).await?))
    });
    assert_eq!(read.await.unwrap(), (Some(5), "begin".into()));
    extension.publish().await.unwrap();
    assert_eq!(blob.stat().await.unwrap().unwrap().size, 5 + 3 * CHUNK);
    // A concurrent write takes precedence over a staged extension.
    let extension = stage().await;
    let written = client.transaction(|tx| async move { tx.blob(keyspace, "b").extend("end").await });
    assert_eq!(written.await.unwrap(), 5 + 3 * CHUNK);
    assert!(extension.publish().await.is_err());
    assert_eq!(blob.stat().await.unwrap().unwrap().size, 8 + 3 * CHUNK);
}

/// Changes that only grow a blob are prepared concurrently; an extension depends on the blob's size.
#[tokio::test]
async fn concurrent_blob_extensions_do_not_overlap() {
    let folder = crate::support::folder();
    let cluster = NodeCluster::start(folder.path(), 2);
    let client = connect(&cluster.endpoints()).await;
    let keyspace = client.keyspace("default").await.unwrap();
    keyspace.blob("log").create_with(12, b"").await.unwrap();
    // Fills chunk 0, which is locked with the header, so that the extensions are behind it.
    keyspace.blob("log").write_at(0, &vec![0; CHUNK as usize]).await.unwrap();
    let mut workers = JoinSet::new();
    for worker in 0..4_u8 {
        let client = connect(&cluster.endpoints()).await;
        workers.spawn(async move {
            let keyspace = &client.keyspace("default").await.unwrap();
            let mut places = Vec::new();
            for number in 0..20 {
                let place = client.transaction(|tx| async move {
                    tx.insert(keyspace, &format!("{worker}-{number}"), "done")?;
                    // Each extension is in another chunk than the last one.
                    tx.blob(keyspace, "log").extend(vec![worker; CHUNK as usize]).await
                });
                places.push(place.await.unwrap());
            }
            places
        });
    }
    let mut places = Vec::new();
    while let Some(ended) = workers.join_next().await {
        places.extend(ended.unwrap());
    }
    places.sort_unstable();
    let expected: Vec<u64> = (1..=80).map(|number| number * CHUNK).collect();
    assert_eq!(places, expected);
}

/// Transforms without a return value are prepared concurrently; each takes effect exactly once.
#[tokio::test]
async fn concurrent_transforms_without_return_value_add_up() {
    let folder = crate::support::folder();
    let cluster = NodeCluster::start(folder.path(), 2);
    let client = connect(&cluster.endpoints()).await;
    let keyspace = client.keyspace("default").await.unwrap();
    let mut workers = JoinSet::new();
    for worker in 0..4_i64 {
        let client = connect(&cluster.endpoints()).await;
        workers.spawn(async move {
            let keyspace = &client.keyspace("default").await.unwrap();
            for number in 0..25 {
                let added = client.transaction(|tx| async move {
                    for key in ["one", "other", "third"] {
                        tx.write(keyspace.transform_silently(key, Transform::add(worker * 100 + number)))?;
                    }
                    Ok(())
                });
                added.await.unwrap();
            }
        });
    }
    while let Some(ended) = workers.join_next().await {
        ended.unwrap();
    }
    let expected: i64 = (0..4).flat_map(|worker| (0..25).map(move |number| worker * 100 + number)).sum();
    for key in ["one", "other", "third"] {
        let sum = keyspace.lookup_bytes(key).await.unwrap().unwrap();
        assert_eq!(i64::from_le_bytes(sum[..].try_into().unwrap()), expected);
    }
}

/// Signals between the changing workers and the counter.
#[derive(Default)]
struct MixedSignals {
    stop: AtomicBool,
    /// The workers pause so that the counter goes first: their constant changes may abort it for
    /// long.
    wait: AtomicBool,
    done: Arc<AtomicU64>,
}

/// Overwrites a blob, extends another, and counts in a record and a list, in one transaction
/// each. Returns the number of commits, and of unknown outcomes.
async fn change(client: Client, worker: u8, signals: Arc<MixedSignals>) -> (u64, u64) {
    let keyspace: &Keyspace = &client.keyspace("default").await.unwrap();
    let (mut written, mut unknown) = (0, 0);
    for number in 0_u64.. {
        while signals.wait.load(Ordering::Relaxed) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        if signals.stop.load(Ordering::Relaxed) {
            break;
        }
        let ended = client
            .transaction(|tx| async move {
                let (cells, log) = (tx.blob(keyspace, "cells"), tx.blob(keyspace, "log"));
                cells.write(0, vec![worker ^ number as u8; BLOB_BYTES as usize]).await?;
                log.extend(vec![worker; 600]).await?;
                cells.transform(Transform::add(1_u64).at(BLOB_BYTES)).await?;
                tx.write(keyspace.increment("count", 1))?;
                tx.write(keyspace.append("list", &[&[worker][..]]))?;
                Ok(())
            })
            .await;
        match ended {
            Ok(()) => {
                written += 1;
                signals.done.fetch_add(1, Ordering::Relaxed);
            }
            Err(error) if error.is_unknown() => unknown += 1,
            Err(error) => panic!("{error}"),
        }
    }
    (written, unknown)
}

/// The number of changes, on which blobs, record and list must agree. Errors: conflicts, or a
/// failed node, until the client's deadline.
async fn count(client: &Client, keyspace: &Keyspace) -> Result<u64, Error> {
    let counted = client.transaction(|tx| async move {
        let (cells, log) = (tx.blob(keyspace, "cells"), tx.blob(keyspace, "log"));
        let cells = cells.read(0, BLOB_BYTES + 8).await?;
        let size = log.stat().await?.map_or(0, |info| info.size);
        let count = tx.get(keyspace, "count").await?.unwrap_or_default();
        Ok((cells, size, count))
    });
    let (cells, size, count) = counted.await?;
    let (cells, number) = cells.split_at(BLOB_BYTES as usize);
    assert!(cells.iter().all(|byte| *byte == cells[0]), "of one write");
    let count: u64 = String::from_utf8_lossy(&count).parse().unwrap();
    assert_eq!(u64::from_le_bytes(number.try_into().unwrap()), count);
    assert_eq!(size, CHUNK + 600 * count);
    Ok(count)
}

#[tokio::test]
async fn blob_and_record_changes_stay_atomic_when_a_node_is_killed() {
    let folder = crate::support::folder();
    let mut cluster = NodeCluster::start(folder.path(), 3);
    let client = connect(&cluster.endpoints()).await;
    let keyspace = client.keyspace("default").await.unwrap();
    for name in ["cells", "log"] {
        keyspace.blob(name).create_with(12, b"").await.unwrap();
    }
    keyspace.blob("cells").write_at(0, &vec![0; BLOB_BYTES as usize + 8]).await.unwrap();
    // Fills chunk 0, which is locked with the header, so that extensions do not touch it.
    keyspace.blob("log").write_at(0, &vec![0; CHUNK as usize]).await.unwrap();
    keyspace.insert("count", "0").await.unwrap();
    let signals = Arc::new(MixedSignals::default());
    let mut workers = JoinSet::new();
    for worker in 0..3 {
        let client = connect(&cluster.endpoints()).await;
        workers.spawn(change(client, worker, Arc::clone(&signals)));
    }
    let endpoints = cluster.endpoints();
    let endpoints: Vec<&str> = endpoints.iter().map(String::as_str).collect();
    let options = ClientOptions { deadline: COUNT_MAX, ..ClientOptions::default() };
    let counter = Client::connect_with(&endpoints, options).await.unwrap();
    let counts = counter.keyspace("default").await.unwrap();
    for round in 0..20 {
        if let Err(error) = count(&counter, &counts).await {
            eprintln!("round {round}, all wait: {error}");
            signals.wait.store(true, Ordering::Relaxed);
            count(&client, &keyspace).await.unwrap();
            signals.wait.store(false, Ordering::Relaxed);
        }
        if round == 5 {
            cluster.kill(0);
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    reaches("they go on without the node", &signals.done, signals.done.load(Ordering::Relaxed) + 1).await;
    signals.stop.store(true, Ordering::Relaxed);
    let (mut written, mut unknown) = (0, 0);
    while let Some(ended) = workers.join_next().await {
        let (one, other) = ended.unwrap();
        (written, unknown) = (written + one, unknown + other);
    }
    let counted = count(&client, &keyspace).await.unwrap();
    assert!((written..=written + unknown).contains(&counted), "{counted} of {written} and {unknown}");
}
