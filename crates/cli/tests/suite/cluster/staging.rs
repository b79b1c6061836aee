//! Transactions that bring more than travels at once: what they bring is staged before. It is committed as one, and goes if its
//! client is killed.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use zerohop_client::{Client, Error, Keyspace, Reason, Unfit};

use crate::cluster::loads::connect;
use crate::cluster::nodes::Cluster;

/// Bytes of a record that is staged by itself.
const PIECE_BYTES: usize = 1 << 20;

/// As long as what is staged for nobody stays (docs/guide/limits.md), and what a loaded machine takes longer.
const GOES_AFTER: Duration = Duration::from_secs(60 + 60);

/// Where a process that only stages finds its cluster.
const STAGES_AT: &str = "ZEROHOP_TEST_STAGES_AT";

fn key(number: usize) -> String {
    format!("staged-{number}")
}

fn piece(number: usize) -> Vec<u8> {
    let mut bytes = vec![number as u8; PIECE_BYTES];
    bytes[..8].copy_from_slice(&number.to_le_bytes());
    bytes
}

/// The sum of a gauge over all instances of a node.
fn gauge(endpoint: &str, name: &str) -> u64 {
    let mut stream = TcpStream::connect(endpoint).unwrap();
    write!(stream, "GET /metrics HTTP/1.1\r\nHost: {endpoint}\r\nConnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let of = |line: &str| -> Option<f64> {
        let (named, value) = line.rsplit_once(' ')?;
        let named = named.split('{').next()?;
        (named == format!("zerohop_{name}")).then(|| value.trim().parse().unwrap())
    };
    text.lines().filter_map(of).sum::<f64>() as u64
}

fn staged_bytes(cluster: &Cluster) -> u64 {
    cluster.endpoints().iter().map(|endpoint| gauge(endpoint, "staged_bytes")).sum()
}

/// Memory of a process in bytes, at most so far.
fn resident_bytes_max(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    let kib: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kib << 10
}

/// MiB that the test brings in one transaction: a gibibyte if it is asked for, as three nodes on one disk take minutes for it.
fn mebibytes() -> usize {
    std::env::var("ZEROHOP_TEST_STAGED_MIB").map_or(160, |text| text.parse().unwrap())
}

async fn one_keyspace(cluster: &Cluster) -> (Client, Keyspace) {
    let client = connect(&cluster.endpoints()).await;
    let keyspace = client.keyspace("default").await.unwrap();
    (client, keyspace)
}

#[tokio::test]
async fn a_transaction_of_more_than_its_client_holds_is_seen_whole_or_not_at_all() {
    let folder = crate::support::folder();
    let cluster = Cluster::start(folder.path(), 3);
    let (client, keyspace) = one_keyspace(&cluster).await;
    let (pieces, began) = (mebibytes(), Instant::now());
    let before = resident_bytes_max(std::process::id());
    let transaction = client.begin();
    for number in 0..pieces {
        transaction.stage(keyspace.insert(&key(number), &piece(number))).await.unwrap();
    }
    // Beside them as many small ones as make ten thousand.
    for number in pieces..10_000 {
        transaction.write(keyspace.insert(&key(number), &number.to_le_bytes())).unwrap();
    }
    let staged = began.elapsed();
    assert!(staged_bytes(&cluster) >= (pieces * PIECE_BYTES) as u64);
    for number in [0, pieces - 1, 9_999] {
        assert_eq!(keyspace.lookup_bytes(&key(number)).await.unwrap(), None, "nobody sees {number}");
    }
    transaction.commit().await.unwrap();
    let committed = began.elapsed() - staged;
    let grown = resident_bytes_max(std::process::id()) - before;
    let of_nodes: Vec<u64> = cluster.processes().map(resident_bytes_max).map(|bytes| bytes >> 20).collect();
    eprintln!(
        "{pieces} MiB staged in {staged:?}, 10,000 records committed in {committed:?}; the client has grown by {} MiB, the nodes \
         have taken {of_nodes:?} MiB",
        grown >> 20
    );
    assert!(grown < 64 << 20, "the client holds what it has staged: {grown}");
    for number in (0..pieces).step_by(7).chain((pieces..10_000).step_by(1_001)) {
        let found = keyspace.lookup_bytes(&key(number)).await.unwrap().unwrap();
        let expected = if number < pieces { piece(number) } else { number.to_le_bytes().to_vec() };
        assert!(found == expected, "{number}");
    }
    let deadline = Instant::now() + GOES_AFTER;
    while staged_bytes(&cluster) > 0 {
        assert!(Instant::now() < deadline, "what was committed stays staged");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    cluster.stop_in_order();
}

#[tokio::test]
async fn one_operation_or_byte_too_many_is_refused_before_it_is_sent() {
    let folder = crate::support::folder();
    let cluster = Cluster::start(folder.path(), 1);
    let (client, keyspace) = one_keyspace(&cluster).await;
    let unfit = |error: Error| match error {
        Error::Operation { reason, .. } => match *reason {
            Reason::Unfit(unfit) => unfit,
            other => panic!("{other}"),
        },
        other => panic!("{other}"),
    };
    let transaction = client.begin();
    for number in 0..16_384 {
        transaction.write(keyspace.increment(&key(number), 1)).unwrap();
    }
    let refused = transaction.write(keyspace.increment("one more", 1)).unwrap_err();
    assert_eq!(unfit(refused), Unfit::Items { count: 16_385, limit: 16_384 });
    // An item of more than a piece.
    let transaction = client.begin();
    let refused = transaction.write(keyspace.insert("long", &vec![0; (16 << 20) + 1])).map(drop).unwrap_err();
    let told = refused.to_string();
    assert!(told.contains("16777216"), "{told}");
    // More of one partition than it does in one step: nothing of it is done.
    let transaction = client.begin();
    let long = vec![b'x'; 15 << 20];
    for number in 0..18 {
        transaction.stage(keyspace.append(&key(0), &[format!("{number}").as_bytes(), &long])).await.unwrap();
    }
    let refused = transaction.commit().await.unwrap_err();
    assert!(matches!(unfit(refused), Unfit::PartitionBytes { limit: 268_435_456, .. }));
    assert_eq!(keyspace.lookup_bytes(&key(0)).await.unwrap(), None);
    cluster.stop_in_order();
}

/// Not a test of its own: the client that is killed.
#[tokio::test]
async fn stages_for_ever_if_told_where() {
    let Ok(endpoint) = std::env::var(STAGES_AT) else { return };
    let client = connect(&[endpoint]).await;
    let keyspace = client.keyspace("default").await.unwrap();
    let transaction = client.begin();
    for number in 0..1_000 {
        transaction.stage(keyspace.insert(&key(number), &piece(number))).await.unwrap();
    }
    std::future::pending().await
}

fn stager(cluster: &Cluster) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "cluster::staging::stages_for_ever_if_told_where"]);
    command.env(STAGES_AT, &cluster.endpoints()[0]).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().unwrap()
}

#[tokio::test]
async fn what_a_killed_client_has_staged_goes_within_the_published_time() {
    let folder = crate::support::folder();
    let cluster = Cluster::start(folder.path(), 3);
    let mut child = stager(&cluster);
    let began = Instant::now();
    while staged_bytes(&cluster) < 600 << 20 {
        assert!(began.elapsed() < GOES_AFTER, "nothing is staged: {}", staged_bytes(&cluster));
        std::thread::sleep(Duration::from_millis(100));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let (killed, staged) = (Instant::now(), staged_bytes(&cluster));
    while staged_bytes(&cluster) > 0 {
        assert!(killed.elapsed() < GOES_AFTER, "{} bytes stay staged", staged_bytes(&cluster));
        std::thread::sleep(Duration::from_millis(200));
    }
    let expired = killed.elapsed();
    assert!(expired > Duration::from_secs(50), "it goes before its time: {expired:?}");
    // It is dead space of the logs then, which compaction gives back at its pace.
    let on = |name| cluster.endpoints().iter().map(|one| gauge(one, name)).sum::<u64>();
    let live = || on("log_bytes").saturating_sub(on("dead_bytes"));
    while live() > staged / 4 {
        assert!(killed.elapsed() < GOES_AFTER + Duration::from_secs(30), "{} bytes of logs live on", live());
        std::thread::sleep(Duration::from_millis(200));
    }
    eprintln!(
        "{} MiB staged over three nodes expired {expired:?} after the kill; of {} MiB of logs {} MiB were needed then",
        staged >> 20,
        on("log_bytes") >> 20,
        live() >> 20
    );
    let (client, keyspace) = one_keyspace(&cluster).await;
    assert_eq!(keyspace.lookup_bytes(&key(0)).await.unwrap(), None);
    // The cluster goes on as if nothing had been.
    client.transaction(async |tx| tx.insert(&keyspace, &key(0), "after")).await.unwrap();
    assert_eq!(keyspace.lookup_bytes(&key(0)).await.unwrap().unwrap(), "after");
    cluster.stop_in_order();
}
