//! Blobs that a transaction creates, writes to, replaces and removes again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::task::JoinSet;
use zerohop_client::{Blob, Client, Error, Failure, Keyspace, Transaction, Transform};

use crate::cluster::loads::{connect, reaches};
use crate::cluster::nodes::NodeCluster;

const CHUNK: u64 = 4096;

async fn read_all(blob: &Blob<'_>) -> Vec<u8> {
    let size = blob.stat().await.unwrap().unwrap().size;
    blob.read_with_version(0, size).await.unwrap().0.to_vec()
}

async fn names(keyspace: &Keyspace) -> Vec<String> {
    let mut list = keyspace.list_blobs("");
    let mut names = Vec::new();
    while let Some(page) = list.next_page().await.unwrap() {
        names.extend(page.iter().map(|name| String::from_utf8_lossy(name).into_owned()));
    }
    names
}

/// With two nodes, header and chunks are on different nodes, which identify the blob by the
/// transaction's version.
#[tokio::test]
async fn transaction_creates_writes_and_reads_a_blob() {
    let folder = crate::support::folder();
    let cluster = NodeCluster::start(folder.path(), 2);
    let client = connect(&cluster.endpoints()).await;
    let keyspace = client.keyspace("default").await.unwrap();
    let tx = client.begin();
    let own = tx.blob(&keyspace, "made");
    own.create_with(12, b"first").await.unwrap();
    assert_eq!(own.read(0, 10).await.unwrap(), "");
    assert_eq!(own.extend(vec![1; 5000]).await.unwrap(), 0);
    assert_eq!(own.extend(vec![2; 5000]).await.unwrap(), 5000);
    own.write(3 * CHUNK - 5, vec![3; 10]).await.unwrap();
    own.transform(Transform::add(7_u16).at(4999)).await.unwrap();
    own.transform(Transform::max(9_u64).at(2 * CHUNK - 3)).await.unwrap();
    own.truncate(3 * CHUNK).await.unwrap();
    own.transform(Transform::add(1_u8).at(5 * CHUNK)).await.unwrap();
    own.set_attributes(b"second").await.unwrap();
    let info = own.stat().await.unwrap().unwrap();
    assert_eq!((info.size, &info.attributes[..]), (5 * CHUNK + 1, &b"second"[..]));
    let seen = own.read(0, u64::MAX).await.unwrap();
    assert_eq!((seen.len() as u64, &seen[4998..5002]), (info.size, &[1, 8, 2, 2][..]));
    assert_eq!(own.read(4999, 1).await.unwrap()[..], [8], "a part of a number");
    tx.insert(&keyspace, "index", "made").unwrap();
    assert_eq!(names(&keyspace).await, [""; 0]);
    let committed = tx.commit().await.unwrap();

    let blob = keyspace.blob("made");
    let made = blob.stat().await.unwrap().unwrap();
    assert_eq!((made.id, made.generation, made.chunk_bytes), (committed.version(), 1, CHUNK));
    assert_eq!((made.size, &made.attributes[..]), (info.size, &b"second"[..]));
    assert_eq!(read_all(&blob).await, seen);
    // The result is an ordinary blob.
    blob.write_at(CHUNK - 1, b"xyz").await.unwrap();
    assert_eq!(blob.extend(b"end").await.unwrap(), info.size);
    assert_eq!(blob.transform(Transform::add(1_u8).at(5 * CHUNK)).await.unwrap(), 2);
    blob.truncate(10).await.unwrap();
    assert_eq!(read_all(&blob).await, [1; 10]);
    assert!(blob.delete().await.unwrap());
}

#[tokio::test]
async fn transaction_replaces_a_blob() {
    let folder = crate::support::folder();
    let cluster = NodeCluster::start(folder.path(), 2);
    let client = connect(&cluster.endpoints()).await;
    let keyspace = client.keyspace("default").await.unwrap();
    let blob = keyspace.blob("b");
    blob.create_with(12, b"old").await.unwrap();
    blob.write_at(0, &vec![9; 5 * CHUNK as usize]).await.unwrap();
    let before = blob.stat().await.unwrap().unwrap();
    let replace = async |tx: Transaction| {
        let own = tx.blob(&keyspace, "b");
        assert!(own.remove().await?);
        assert_eq!(own.stat().await?, None);
        assert!(!own.remove().await?);
        assert_eq!(own.extend("x").await.unwrap_err().failure(), Some(&Failure::NotFound));
        own.create_with(13, b"new").await?;
        own.write(3 * CHUNK, "new").await?;
        assert_eq!(own.read(3 * CHUNK - 1, 9).await?, "\0new");
        Ok::<_, Error>(())
    };
    // A conflict aborts the transaction.
    let tx = client.begin();
    replace(tx.clone()).await.unwrap();
    blob.extend(b"more").await.unwrap();
    assert!(tx.commit().await.unwrap_err().is_conflict());
    assert_eq!(read_all(&blob).await.len() as u64, 5 * CHUNK + 4);

    let tx = client.begin();
    replace(tx.clone()).await.unwrap();
    let committed = tx.commit().await.unwrap();
    let now = keyspace.blob("b").stat().await.unwrap().unwrap();
    assert_eq!((now.id, now.generation, now.chunk_bytes), (committed.version(), 0, 2 * CHUNK));
    assert!(now.id > before.id && now.size == 3 * CHUNK + 3 && now.attributes == "new");
    let mut expected = vec![0; 3 * CHUNK as usize];
    expected.extend(b"new");
    assert_eq!(read_all(&keyspace.blob("b")).await, expected);
    // A handle with the old header writes to the new blob, as usual.
    blob.write_at(1, b"y").await.unwrap();
    expected[1] = b'y';
    assert_eq!(read_all(&keyspace.blob("b")).await, expected);
}

/// Transforms as outside of transactions: in a chunk, across chunks, in an existing blob and in a
/// new one.
#[tokio::test]
async fn transform_results_are_reported_after_commit() {
    let folder = crate::support::folder();
    let cluster = NodeCluster::start(folder.path(), 1);
    let client = connect(&cluster.endpoints()).await;
    let keyspace = client.keyspace("default").await.unwrap();
    let blob = keyspace.blob("there");
    blob.create_with(12, b"").await.unwrap();
    blob.write_at(0, &vec![1; 2 * CHUNK as usize]).await.unwrap();
    // A transform within a chunk has no read dependency; one across two chunks has.
    let tx = client.begin();
    tx.blob(&keyspace, "there").transform(Transform::add(1_u16).at(CHUNK - 1)).await.unwrap();
    assert_eq!(blob.transform(Transform::add(1_u8)).await.unwrap(), 2);
    assert!(tx.commit().await.unwrap_err().is_conflict());
    let tx = client.begin();
    let within = tx.blob(&keyspace, "there").transform_and_get_old(Transform::add(1_u8)).await.unwrap();
    assert_eq!(blob.transform(Transform::add(1_u8)).await.unwrap(), 3);
    assert_eq!(tx.commit().await.unwrap().result(&within).unwrap(), 3, "as it is found by the commit");

    let tx = client.begin();
    let (there, made) = (tx.blob(&keyspace, "there"), tx.blob(&keyspace, "made"));
    made.create_with(12, b"").await.unwrap();
    let mut promises = Vec::new();
    for own in [&there, &made] {
        for at in [0, CHUNK - 1] {
            let add = Transform::add(0x100_u16).at(at);
            promises.push(own.transform(add).await.unwrap());
            promises.push(own.transform_and_get_old(add).await.unwrap());
        }
    }
    let committed = tx.commit().await.unwrap();
    let results: Vec<u16> = promises.iter().map(|one| committed.result(one).unwrap()).collect();
    assert_eq!(results, [0x204, 0x204, 0x201, 0x201, 0x100, 0x100, 0x100, 0x100]);
    assert_eq!(read_all(&keyspace.blob("made")).await[CHUNK as usize - 1..], [0, 2]);
}

/// Ranges of blobs that exist, are created, changed and removed, among records.
#[tokio::test]
async fn transaction_reads_ranges_and_records_with_its_own_changes() {
    let folder = crate::support::folder();
    let cluster = NodeCluster::start(folder.path(), 2);
    let client = connect(&cluster.endpoints()).await;
    let keyspace = client.keyspace("default").await.unwrap();
    let blobs = ["one", "two", "made", "none"].map(|name| keyspace.blob(name));
    let [one, two, made, none] = &blobs;
    let bytes: Vec<u8> = (0..4 * CHUNK).map(|at| (at / 7) as u8).collect();
    for blob in [one, two] {
        blob.create_with(12, b"").await.unwrap();
        blob.write_at(0, &bytes).await.unwrap();
    }
    keyspace.insert("k", "v").await.unwrap();
    let ranges = [
        (one, CHUNK - 10, 2 * CHUNK),
        (two, 4 * CHUNK - 3, 100),
        (one, 0, 5),
        (made, 0, 100),
        (two, 9 * CHUNK, 1),
    ];
    let part = |from: u64, length: u64| bytes[from as usize..][..length as usize].to_vec();
    let tx = client.begin();
    tx.blob(&keyspace, "made").create(b"").await.unwrap();
    tx.blob(&keyspace, "made").extend("new").await.unwrap();
    tx.blob(&keyspace, "two").extend("end").await.unwrap();
    tx.blob(&keyspace, "one").transform(Transform::add(1_u64).at(3)).await.unwrap();
    let (records, found) = tx.read_all(&[(&keyspace, "k"), (&keyspace, "absent")], &ranges).await.unwrap();
    assert!(records[0].is_some() && records[1].is_none());
    let mut first = part(0, 11);
    first[3] += 1;
    let mut last = part(4 * CHUNK - 3, 3);
    last.extend(b"end");
    assert_eq!(found[0], part(CHUNK - 10, 2 * CHUNK));
    assert_eq!((&found[1][..], &found[2][..]), (&last[..], &first[..5]));
    assert_eq!((&found[3][..], &found[4][..]), (&b"new"[..], &b""[..]));
    let missing = tx.read_ranges(&[(one, 0, 1), (none, 0, 1)]).await.unwrap_err();
    assert_eq!(missing.failure(), Some(&Failure::NotFound));
    let limit = tx.read_ranges(&vec![(one, 0, 4 * CHUNK); 4097]).await.unwrap_err();
    assert!(limit.to_string().contains("67108864"), "{limit}");
    tx.commit().await.unwrap();
    assert_eq!(read_all(made).await, b"new");
    // Each of these ranges must be unchanged at the commit.
    for (blob, offset) in [(one, 2 * CHUNK), (two, 4 * CHUNK), (one, 1)] {
        let tx = client.begin();
        tx.read_ranges(&ranges).await.unwrap();
        tx.insert(&keyspace, "k", "w").unwrap();
        blob.write_at(offset, b"x").await.unwrap();
        assert!(tx.commit().await.unwrap_err().is_conflict(), "{offset}");
    }
    let tx = client.begin();
    tx.read_ranges(&ranges).await.unwrap();
    tx.insert(&keyspace, "k", "w").unwrap();
    one.write_at(3 * CHUNK + 100, b"x").await.unwrap();
    tx.commit().await.expect("no read depends on it");
}

/// Changes a blob in one way, and removes it in the same transaction.
async fn changed_and_removed(client: &Client, keyspace: &Keyspace, how: &str) -> Transaction {
    let tx = client.begin();
    let own = tx.blob(keyspace, "b");
    match how {
        "write" => own.write(1, "x").await.unwrap(),
        "grow" => own.write(8 * CHUNK, "x").await.unwrap(),
        "extend" => drop(own.extend(vec![1; 2 * CHUNK as usize]).await.unwrap()),
        "transform" => drop(own.transform(Transform::add(1_u32).at(CHUNK - 2)).await.unwrap()),
        "cut" => own.truncate(5).await.unwrap(),
        "attributes" => own.set_attributes(b"other").await.unwrap(),
        "same attributes" => own.set_attributes(b"same").await.unwrap(),
        _ => {
            own.truncate(CHUNK + 5).await.unwrap();
            own.extend("x").await.unwrap();
            own.set_attributes(b"other").await.unwrap();
        }
    }
    assert!(own.remove().await.unwrap(), "{how}");
    tx.insert(keyspace, "removed", how).unwrap();
    tx
}

#[tokio::test]
async fn transaction_removes_a_blob_after_each_of_its_changes() {
    let folder = crate::support::folder();
    let cluster = NodeCluster::start(folder.path(), 1);
    let client = connect(&cluster.endpoints()).await;
    let keyspace = client.keyspace("default").await.unwrap();
    let blob = keyspace.blob("b");
    for how in ["write", "grow", "extend", "transform", "cut", "attributes", "same attributes", "several"] {
        blob.create_with(12, b"same").await.unwrap();
        blob.write_at(0, &vec![7; 3 * CHUNK as usize]).await.unwrap();
        // A concurrent write comes first.
        let tx = changed_and_removed(&client, &keyspace, how).await;
        blob.extend(b"more").await.unwrap();
        assert!(tx.commit().await.unwrap_err().is_conflict(), "{how}");
        assert_eq!(read_all(&blob).await.len() as u64, 3 * CHUNK + 4);

        let tx = changed_and_removed(&client, &keyspace, how).await;
        tx.commit().await.unwrap();
        assert_eq!(blob.stat().await.unwrap(), None, "{how}");
        assert_eq!(keyspace.lookup_bytes("removed").await.unwrap().unwrap(), how);
        // A new blob of the name has none of the old bytes.
        blob.create_with(12, b"").await.unwrap();
        blob.truncate(10 * CHUNK).await.unwrap();
        assert!(read_all(&blob).await.iter().all(|byte| *byte == 0), "{how}");
        assert!(blob.delete().await.unwrap());
    }
}

#[tokio::test]
async fn blob_created_and_removed_by_one_transaction_leaves_nothing() {
    let folder = crate::support::folder();
    let cluster = NodeCluster::start(folder.path(), 2);
    let client = connect(&cluster.endpoints()).await;
    let keyspace = client.keyspace("default").await.unwrap();
    let tx = client.begin();
    let own = tx.blob(&keyspace, "b");
    for round in 0..3_u64 {
        own.create_with(12, b"").await.unwrap();
        own.write(round * CHUNK, vec![round as u8; 2 * CHUNK as usize]).await.unwrap();
        own.truncate((round + 1) * CHUNK).await.unwrap();
        assert!(own.remove().await.unwrap());
    }
    tx.insert(&keyspace, "k", "v").unwrap();
    tx.commit().await.unwrap();
    assert_eq!(names(&keyspace).await, [""; 0]);
    let blob = keyspace.blob("b");
    blob.create_with(12, b"").await.unwrap();
    blob.truncate(10 * CHUNK).await.unwrap();
    assert!(read_all(&blob).await.iter().all(|byte| *byte == 0));
    blob.delete().await.unwrap();
    // An empty read, write or extension still requires that the blob exists.
    for work in ["read", "write", "extend"] {
        let tx = client.begin();
        let own = tx.blob(&keyspace, "there");
        assert_eq!(own.write(0, "").await.unwrap_err().failure(), Some(&Failure::NotFound), "{work}");
        keyspace.blob("there").create(b"").await.unwrap();
        let tx = client.begin();
        let own = tx.blob(&keyspace, "there");
        match work {
            "read" => assert_eq!(own.read(0, 0).await.unwrap(), ""),
            "write" => own.write(7, "").await.unwrap(),
            _ => assert_eq!(own.extend("").await.unwrap(), 0),
        }
        tx.commit().await.expect(work);
        assert!(keyspace.blob("there").delete().await.unwrap());
    }
    // Of two transactions that create a blob of the same name, one has a conflict.
    let (one, other) = (client.begin(), client.begin());
    for tx in [&one, &other] {
        let own = tx.blob(&keyspace, "b");
        own.create(b"").await.unwrap();
        own.extend("x").await.unwrap();
    }
    one.commit().await.unwrap();
    assert!(other.commit().await.unwrap_err().is_conflict());
    assert_eq!(read_all(&keyspace.blob("b")).await, b"x");
}

/// Creates blobs, each of several chunks, with a count of them; every third time the previous blob
/// is removed and created again. Returns the blobs that exist afterwards, and those with an unknown
/// outcome.
async fn make(
    client: Client,
    worker: u8,
    stop: Arc<AtomicBool>,
    done: Arc<AtomicU64>,
) -> (Vec<String>, Vec<String>) {
    let keyspace: &Keyspace = &client.keyspace("default").await.unwrap();
    let (mut made, mut unknown) = (Vec::<String>::new(), Vec::new());
    for number in 0_u64.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let name = &format!("{worker}-{number}");
        let before = &made.last().cloned();
        let ended = client
            .transaction(|tx| async move {
                let own = tx.blob(keyspace, name.clone());
                own.create_with(12, name.as_bytes()).await?;
                own.extend(vec![worker; 3 * CHUNK as usize]).await?;
                if let (Some(before), 0) = (before, number % 3) {
                    let before = tx.blob(keyspace, before.clone());
                    before.remove().await?;
                    before.create_with(12, b"again").await?;
                    before.write(CHUNK - 9, vec![worker; 2 * CHUNK as usize]).await?;
                }
                tx.write(keyspace.increment("made", 1)).map(drop)
            })
            .await;
        match ended {
            Ok(()) => {
                made.push(name.clone());
                done.fetch_add(1, Ordering::Relaxed);
            }
            Err(error) if error.is_unknown() => unknown.push(name.clone()),
            Err(error) => panic!("{error}"),
        }
    }
    (made, unknown)
}

#[tokio::test]
async fn blob_creation_is_atomic_through_a_node_kill() {
    let folder = crate::support::folder();
    let mut cluster = NodeCluster::start(folder.path(), 3);
    let client = connect(&cluster.endpoints()).await;
    let keyspace = client.keyspace("default").await.unwrap();
    let (stop, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let mut workers = JoinSet::new();
    for worker in 1..=3 {
        let client = connect(&cluster.endpoints()).await;
        workers.spawn(make(client, worker, Arc::clone(&stop), Arc::clone(&done)));
    }
    reaches("blobs are made", &done, 12).await;
    cluster.kill(0);
    reaches("they go on without the node", &done, done.load(Ordering::Relaxed) + 60).await;
    stop.store(true, Ordering::Relaxed);
    let (mut made, mut unknown) = (Vec::new(), Vec::new());
    while let Some(ended) = workers.join_next().await {
        let (one, other) = ended.unwrap();
        (made, unknown) = ([made, one].concat(), [unknown, other].concat());
    }
    let there = names(&keyspace).await;
    assert!(made.iter().all(|name| there.contains(name)), "what was acknowledged is there");
    assert!(there.iter().all(|name| made.contains(name) || unknown.contains(name)));
    let count = keyspace.lookup_bytes("made").await.unwrap().unwrap();
    assert_eq!(String::from_utf8_lossy(&count), there.len().to_string(), "{unknown:?}");
    let mut renewed = 0;
    for name in &there {
        let blob = keyspace.blob(name.clone());
        let info = blob.stat().await.unwrap().unwrap();
        let bytes = read_all(&blob).await;
        let worker = name.as_bytes()[0] - b'0';
        let zeros = if info.attributes == "again" { CHUNK as usize - 9 } else { 0 };
        renewed += usize::from(zeros > 0);
        assert_eq!(bytes.len() as u64, if zeros > 0 { 3 * CHUNK - 9 } else { 3 * CHUNK }, "{name}");
        assert!(bytes[..zeros].iter().all(|byte| *byte == 0), "{name}");
        assert!(bytes[zeros..].iter().all(|byte| *byte == worker), "{name}");
    }
    assert!(there.len() > 20 && renewed > 3, "{} made, {renewed} again", there.len());
}

/// More than a commit may contain: chunks are staged, and still belong to the blob that the
/// transaction creates.
#[tokio::test]
async fn transaction_creates_long_blob_with_staged_chunks() {
    const PART: usize = 48 << 20;
    let folder = crate::support::folder();
    let cluster = NodeCluster::start(folder.path(), 1);
    let client = connect(&cluster.endpoints()).await;
    let keyspace = client.keyspace("default").await.unwrap();
    let tx = client.begin();
    let own = tx.blob(&keyspace, "long");
    own.create(b"").await.unwrap();
    let bytes = |part: usize| -> Vec<u8> { (0..PART).map(|at| (at / 1021 + part) as u8).collect() };
    for part in 0..2 {
        assert_eq!(own.extend(bytes(part)).await.unwrap(), (part * PART) as u64);
    }
    let committed = tx.commit().await.unwrap();
    let blob = keyspace.blob("long");
    let info = blob.stat().await.unwrap().unwrap();
    assert_eq!((info.id, info.size), (committed.version(), 2 * PART as u64));
    for part in 0..2 {
        let (read, _) = blob.read_with_version((part * PART) as u64, PART as u64).await.unwrap();
        assert!(read == bytes(part), "part {part}");
    }
}
