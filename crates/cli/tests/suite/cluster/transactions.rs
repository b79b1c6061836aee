//! Transactions over partitions of several nodes, of which one is killed meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;
use zerohop_client::{Client, Keyspace, Record};

use crate::cluster::loads::{connect, reaches};
use crate::cluster::nodes::NodeCluster;

const ACCOUNTS: u64 = 24;
const WORKERS: u64 = 4;

fn account(number: u64) -> String {
    format!("account-{}", number % ACCOUNTS)
}

/// Transfers until the stop signal, every other time with reads first. Returns the numbers of the
/// transfers that succeeded, and of those with an unknown outcome.
async fn transfer(
    client: Client,
    worker: u64,
    stop: Arc<AtomicBool>,
    done: Arc<AtomicU64>,
) -> (Vec<u64>, Vec<u64>) {
    let keyspace = &client.keyspace("default").await.unwrap();
    let (mut written, mut unknown) = (Vec::new(), Vec::new());
    for number in 0.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let (from, to) = (&*account(worker + number), &*account(worker * 5 + number * 7 + 1));
        let note = &*number.to_string();
        let ended = client
            .transaction(|tx| async move {
                if number % 2 == 0 {
                    let balance = tx.read(keyspace.lookup_bytes(from)).await?.unwrap_or_default();
                    let balance: i64 = String::from_utf8_lossy(&balance).parse().unwrap();
                    tx.insert(keyspace, from, &(balance - 3).to_string())?;
                } else {
                    tx.write(keyspace.increment(from, -3))?;
                }
                tx.write(keyspace.increment(to, 3))?;
                tx.write(keyspace.append(&format!("one-{worker}"), &[note.as_bytes()]))?;
                tx.write(keyspace.append(&format!("other-{worker}"), &[note.as_bytes()]))?;
                Ok(())
            })
            .await;
        match ended {
            Ok(()) => {
                written.push(number);
                done.fetch_add(1, Ordering::Relaxed);
            }
            Err(error) if error.is_unknown() => unknown.push(number),
            Err(error) => panic!("{error}"),
        }
    }
    (written, unknown)
}

/// The sum of all accounts at one moment.
async fn sum(client: &Client, keyspace: &Keyspace) -> i64 {
    let keys: Vec<(&Keyspace, String)> = (0..ACCOUNTS).map(|at| (keyspace, account(at))).collect();
    let balance = |record: Option<Record>| match record {
        Some(Record::Bytes { bytes, .. }) => String::from_utf8_lossy(&bytes).parse::<i64>().unwrap(),
        other => panic!("{other:?}"),
    };
    client.read_many(&keys).await.unwrap().into_iter().map(balance).sum()
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
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn transactions_are_atomic_through_a_node_kill() {
    let folder = crate::support::folder();
    let mut cluster = NodeCluster::start(folder.path(), 3);
    let client = connect(&cluster.endpoints()).await;
    let keyspace = client.keyspace("default").await.unwrap();
    for number in 0..ACCOUNTS {
        keyspace.insert(&account(number), "100").await.unwrap();
    }
    let (stop, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let mut workers = JoinSet::new();
    for worker in 0..WORKERS {
        let client = connect(&cluster.endpoints()).await;
        let (stop, done) = (Arc::clone(&stop), Arc::clone(&done));
        workers.spawn(async move { (worker, transfer(client, worker, stop, done).await) });
    }
    for round in 0..24 {
        assert_eq!(sum(&client, &keyspace).await, 100 * ACCOUNTS as i64);
        if round == 8 {
            cluster.kill(0);
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    reaches("they go on without the node", &done, done.load(Ordering::Relaxed) + 1).await;
    stop.store(true, Ordering::Relaxed);
    let mut all = 0;
    while let Some(ended) = workers.join_next().await {
        let (worker, (written, unknown)) = ended.unwrap();
        let (one, other) = (
            list(&keyspace, &format!("one-{worker}")).await,
            list(&keyspace, &format!("other-{worker}")).await,
        );
        assert_eq!(one, other, "worker {worker}: both lists or neither");
        assert!(one.windows(2).all(|pair| pair[0] < pair[1]), "worker {worker}: each once");
        assert!(
            written.iter().all(|number| one.contains(number)),
            "worker {worker}: what was acknowledged is there"
        );
        let known = |number: &u64| written.contains(number) || unknown.contains(number);
        assert!(one.iter().all(known), "worker {worker}: nothing else is");
        all += one.len();
    }
    assert_eq!(sum(&client, &keyspace).await, 100 * ACCOUNTS as i64);
    eprintln!("{all} transactions");
    cluster.start_again(0);
    cluster.wait_until_complete();
    cluster.stop_in_order();
}
