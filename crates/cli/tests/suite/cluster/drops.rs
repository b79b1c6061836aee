//! Keyspaces that are dropped while transactions over them and another keyspace are in flight.

use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::task::{JoinSet, spawn_blocking};
use zerohop_client::{Client, Keyspace, Record};

use crate::cluster::loads::{connect, reaches};
use crate::cluster::nodes::NodeCluster;

const WORKERS: u64 = 8;

/// Longer than a prepared part for a dropped keyspace may last. If a node dies right before the
/// drop, the outcome of its undecided transactions is unknown, and is asked for only once the
/// keyspace is gone.
const PREPARED_PART_LASTS: Duration = Duration::from_secs(13);

/// The outcomes of a worker's transactions.
#[derive(Debug, Default)]
struct WorkerOutcome {
    done: Vec<u64>,
    unknown: Vec<u64>,
    refused: Vec<(u64, String)>,
}

/// Signals to and from workers.
#[derive(Clone, Default)]
struct WorkerSignals {
    stop: Arc<AtomicBool>,
    done: Arc<AtomicU64>,
    refused: Arc<AtomicU64>,
}

/// Appends numbers to two lists of one keyspace and to one of another, until a refusal or the stop
/// signal.
async fn append(
    client: Client,
    worker: u64,
    (kept, dropped): (Keyspace, Keyspace),
    from: u64,
    WorkerSignals { stop, done, refused }: WorkerSignals,
) -> WorkerOutcome {
    let mut ended = WorkerOutcome::default();
    for number in from.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let note = &*number.to_string();
        let (kept, dropped) = (&kept, &dropped);
        let result = client
            .transaction(|tx| async move {
                tx.write(kept.append(&format!("one-{worker}"), &[note.as_bytes()]))?;
                tx.write(kept.append(&format!("other-{worker}"), &[note.as_bytes()]))?;
                tx.write(dropped.append(&format!("third-{worker}-{number}"), &[note.as_bytes()]))?;
                Ok(())
            })
            .await;
        match result {
            Ok(()) => {
                ended.done.push(number);
                done.fetch_add(1, Ordering::Relaxed);
            }
            Err(error) if error.is_unknown() => ended.unknown.push(number),
            Err(error) => {
                ended.refused.push((number, error.to_string()));
                refused.fetch_add(1, Ordering::Relaxed);
                break;
            }
        }
    }
    ended
}

async fn list(keyspace: &Keyspace, key: &str) -> Vec<u64> {
    let mut all = Vec::new();
    loop {
        let range = zerohop_client::Range { start: all.len() as i64, stop: i64::MAX };
        match keyspace.lookup_range(key, range).await.unwrap() {
            Some(Record::List { values, length, .. }) => {
                all.extend(values.iter().map(|value| String::from_utf8_lossy(value).parse::<u64>().unwrap()));
                if all.len() as u64 >= length {
                    return all;
                }
            }
            None => return all,
            other => panic!("{other:?}"),
        }
    }
}

/// Drops a keyspace concurrently with other work.
async fn drop_concurrently(name: &str, endpoint: String) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_zerohop"));
    command.args(["keyspace", "drop", name, "--yes"]).env("ZEROHOP_ENDPOINT", endpoint);
    spawn_blocking(move || command.output().unwrap()).await.unwrap()
}

/// Drops a keyspace under the load of all workers, and optionally kills a node right before.
/// Returns the outcomes of their transactions.
async fn drop_under_load(
    cluster: &mut NodeCluster,
    (name, durability): (&str, &str),
    kills: Option<usize>,
    from: u64,
) -> Vec<(u64, WorkerOutcome)> {
    let (code, _, problems) = cluster.run(&["keyspace", "create", name, "--durability", durability]);
    assert_eq!(code, 0, "{problems}");
    let signals = WorkerSignals::default();
    let mut workers = JoinSet::new();
    for worker in 0..WORKERS {
        let client = connect(&cluster.endpoints()).await;
        let both = (client.keyspace("default").await.unwrap(), client.keyspace(name).await.unwrap());
        let signals = signals.clone();
        workers.spawn(async move { (worker, append(client, worker, both, from, signals).await) });
    }
    reaches("transactions are done", &signals.done, 20 * WORKERS).await;
    if let Some(node) = kills {
        cluster.kill(node);
    }
    let began = Instant::now();
    let endpoint = cluster.endpoints()[usize::from(kills == Some(0))].clone();
    let output = drop_concurrently(name, endpoint).await;
    assert!(output.status.success(), "{output:?}");
    eprintln!("{name}, {durability}: dropped after {:?}", began.elapsed());
    // A worker ends when its transaction is refused.
    reaches("a worker has met the drop", &signals.refused, 1).await;
    signals.stop.store(true, Ordering::Relaxed);
    let client = connect(&cluster.endpoints()).await;
    let stays = client.keyspace("default").await.unwrap();
    // No lock may be left.
    let began = Instant::now();
    for worker in 0..WORKERS {
        for list in ["one", "other"] {
            stays
                .append(&format!("{list}-{worker}"), &[(from + 1_000_000).to_string().as_bytes()])
                .await
                .unwrap();
        }
    }
    eprintln!("nothing was locked after {:?}", began.elapsed());
    let mut ended = Vec::new();
    while let Some(worker) = workers.join_next().await {
        ended.push(worker.unwrap());
    }
    ended
}

/// Checks that every transaction during a drop has the outcome that its worker received.
async fn check_outcomes(stays: &Keyspace, all: Vec<(u64, WorkerOutcome)>) {
    let mut counts = (0, 0, 0);
    for (worker, ended) in all {
        let one = list(stays, &format!("one-{worker}")).await;
        let other = list(stays, &format!("other-{worker}")).await;
        assert_eq!(one, other, "worker {worker}: both lists or neither");
        let lost: Vec<&u64> = ended.done.iter().filter(|number| !one.contains(number)).collect();
        assert!(lost.is_empty(), "worker {worker}: {lost:?} were acknowledged and are not there");
        for (number, why) in &ended.refused {
            assert!(why.contains("keyspace"), "worker {worker}: {why}");
            assert!(!one.contains(number), "worker {worker}: {number} was refused and is there: {why}");
        }
        counts.0 += ended.done.len();
        counts.1 += ended.unknown.len();
        counts.2 += ended.refused.len();
    }
    eprintln!("{counts:?} done, unknown, refused");
}

#[tokio::test]
async fn drop_during_transactions_keeps_other_keyspaces() {
    let folder = crate::support::folder();
    let mut cluster = NodeCluster::start(folder.path(), 3);
    // The dropped keyspace has the coordinators in some runs, and participants in another; each is
    // created again under the previous name.
    let first = drop_under_load(&mut cluster, ("going", "interval:50ms"), None, 0).await;
    let second = drop_under_load(&mut cluster, ("going", "memory"), Some(0), 10_000_000).await;
    cluster.start_again(0);
    cluster.wait_until_complete();
    let third = drop_under_load(&mut cluster, ("going", "interval:50ms"), Some(1), 20_000_000).await;
    cluster.start_again(1);
    cluster.wait_until_complete();
    // Until the transactions that the drop has aborted are undone.
    tokio::time::sleep(PREPARED_PART_LASTS).await;
    let client = connect(&cluster.endpoints()).await;
    let stays = client.keyspace("default").await.unwrap();
    for ended in [first, second, third] {
        check_outcomes(&stays, ended).await;
    }
    let (code, _, problems) = cluster.run(&["keyspace", "create", "going"]);
    assert_eq!(code, 0, "{problems}");
    let first = cluster.run(&["kv", "lookup", "-k", "going", "third-0-0"]);
    assert_eq!(first.0, 1, "the new one is empty: {first:?}");
    cluster.stop_in_order();
}

#[tokio::test]
async fn drop_waiting_for_unavailable_partition_reports_and_resumes() {
    let folder = crate::support::folder();
    let mut cluster = NodeCluster::start(folder.path(), 3);
    for name in ["first", "second"] {
        let made = cluster.run(&["keyspace", "create", name, "--replicas", "1", "--durability", "sync"]);
        assert_eq!(made.0, 0, "{made:?}");
        cluster.run(&["kv", "insert", "-k", name, "key", "value"]);
    }
    cluster.kill(2);
    cluster.wait_for("its partitions are lost", |status| status["groups"]["lost"] != 0);
    let drop_it = |cluster: &NodeCluster, more: &[&str]| {
        cluster.run(&[&["keyspace", "drop", "first", "--yes"], more].concat())
    };
    let (code, _, problems) = drop_it(&cluster, &["--wait", "3s"]);
    assert_eq!(code, 4, "it is under way: {problems}");
    assert!(
        problems.contains("partition") && problems.contains("lost"),
        "it says what it waits for: {problems}"
    );
    // For all other commands the keyspace is gone; only its name is still in use.
    let gone = cluster.run(&["kv", "lookup", "-k", "first", "key"]);
    assert!(gone.0 == 3 && gone.2.contains("no keyspace"), "{gone:?}");
    let refused = cluster.run(&["keyspace", "create", "first"]);
    assert!(refused.0 == 3 && refused.2.contains("being dropped"), "{refused:?}");
    let listed = cluster.run(&["keyspace", "list"]);
    assert!(listed.1.contains("being dropped"), "{listed:?}");

    // A drop need not be waited for: `--wait 0s` returns at once.
    let (code, _, problems) = cluster.run(&["keyspace", "drop", "second", "--yes", "--wait", "0s"]);
    assert_eq!(code, 4, "{problems}");
    let (code, _, problems) = cluster.run(&["keyspace", "drop", "second", "--yes", "--at-once"]);
    assert_eq!(code, 0, "{problems}");
    assert_eq!(cluster.run(&["keyspace", "create", "second"]).0, 0);

    // A repeated drop waits too, and returns at the end.
    let waiting = tokio::spawn(drop_concurrently("first", cluster.endpoints()[0].clone()));
    tokio::time::sleep(Duration::from_secs(1)).await;
    cluster.start_again(2);
    let output = waiting.await.unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(cluster.run(&["keyspace", "create", "first"]).0, 0);
    assert_eq!(cluster.run(&["kv", "lookup", "-k", "first", "key"]).0, 1, "the new one is empty");
    cluster.stop_in_order();
}
