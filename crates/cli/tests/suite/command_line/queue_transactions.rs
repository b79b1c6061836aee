//! Queues in transactions of a cluster: a message is acknowledged together with its effects.

use std::path::Path;
use std::time::Duration;

use zerohop_client::{Client, Keyspace};
use zerohop_layer_queue::{CreateQueue, NewMessage, QueueError, SettleAction};
use zerohop_queue_client::{QueueClient, QueueConsumer, QueueProducer};

use crate::support::folder;
use crate::support::serving::{ServingProgram, code, output, stdout, zerohop};

const PATIENCE: Duration = Duration::from_secs(60);

fn start(folder: &Path) -> ServingProgram {
    ServingProgram::up(&["--instances", "2", "--data", folder.join("data").to_str().unwrap()])
}

async fn queue(cluster: &ServingProgram, client: &Client, name: &str, partitions: u32) -> QueueClient {
    let separator = |partition: u32| {
        let bytes = partition.to_be_bytes();
        bytes.iter().map(|byte| format!("\\x{byte:02x}")).collect::<String>()
    };
    let separators = (1..partitions).map(separator).collect::<Vec<_>>().join(",");
    let mut command = vec!["keyspace", "create", name, "--ordered", "--endpoint", cluster.endpoint()];
    if partitions > 1 {
        command.extend(["--split-at", &separators]);
    }
    assert_eq!(code(&output(zerohop(&command), b"")), 0);
    let create = CreateQueue { id: id_of(name), partitions, lease: 60_000, tries: 20, names: 60_000 };
    QueueClient::create(client, name, create).await.unwrap()
}

fn id_of(name: &str) -> [u8; 16] {
    let mut id = [7; 16];
    id[..name.len()].copy_from_slice(name.as_bytes());
    id
}

fn message(text: &str) -> NewMessage {
    NewMessage { value: text.as_bytes().to_vec(), ..NewMessage::default() }
}

async fn number(keyspace: &Keyspace, key: &str) -> Option<Vec<u8>> {
    keyspace.lookup_bytes(key).await.unwrap().map(|value| value.to_vec())
}

#[tokio::test]
async fn message_is_acknowledged_with_its_effects_or_not_at_all() {
    let folder = folder();
    let cluster = start(folder.path());
    let client = Client::connect(cluster.endpoint()).await.unwrap();
    let (jobs, done) = (queue(&cluster, &client, "jobs", 2).await, queue(&cluster, &client, "done", 1).await);
    let results = client.keyspace("default").await.unwrap();
    let until = jobs.now() + 60_000;
    let mut producer = QueueProducer::new(jobs.clone());
    producer.push(vec![message("run 7")], until).await.unwrap();
    let mut consumer = QueueConsumer::new(jobs.clone());
    let popped = consumer.pop(8, 60_000, 0, PATIENCE).await.unwrap();
    assert_eq!(popped.len(), 1);
    let lease = popped[0].lease;

    // The transaction is aborted: the message stays leased, and nothing was pushed.
    let transaction = client.begin();
    jobs.acknowledge_within(&transaction, &[lease]).await.unwrap();
    done.push_within(&transaction, vec![message("run 7 is done")]).await.unwrap();
    transaction.insert(&results, "result", b"42").unwrap();
    transaction.abort();
    assert_eq!(number(&results, "result").await, None);
    let depth = async |queue: &QueueClient, partitions: u32| {
        let mut depth = 0;
        for partition in 0..partitions {
            depth += queue.statistics(partition).await.unwrap().depth;
        }
        depth
    };
    assert_eq!((depth(&jobs, 2).await, depth(&done, 1).await), (1, 0));

    let transaction = client.begin();
    jobs.acknowledge_within(&transaction, &[lease]).await.unwrap();
    done.push_within(&transaction, vec![message("run 7 is done")]).await.unwrap();
    transaction.insert(&results, "result", b"42").unwrap();
    transaction.commit().await.unwrap();
    assert_eq!(number(&results, "result").await, Some(b"42".to_vec()));
    assert_eq!((depth(&jobs, 2).await, depth(&done, 1).await), (0, 1));
    let mut listener = QueueConsumer::new(done.clone());
    let popped = listener.pop(8, 60_000, 0, PATIENCE).await.unwrap();
    assert_eq!(popped[0].message.value, b"run 7 is done");
}

#[tokio::test]
async fn transaction_of_a_lapsed_lease_does_not_commit() {
    let folder = folder();
    let cluster = start(folder.path());
    let client = Client::connect(cluster.endpoint()).await.unwrap();
    let jobs = queue(&cluster, &client, "jobs", 1).await;
    let results = client.keyspace("default").await.unwrap();
    let until = jobs.now() + 60_000;
    QueueProducer::new(jobs.clone()).push(vec![message("run 7")], until).await.unwrap();
    let mut slow = QueueConsumer::new(jobs.clone());
    let first = slow.pop(1, 1, 0, PATIENCE).await.unwrap();
    // The lease of a millisecond has lapsed: another consumer gets the message, and acknowledges it.
    let mut other = QueueConsumer::new(jobs.clone());
    let second = other.pop(1, 60_000, until, PATIENCE).await.unwrap();
    assert_eq!((second[0].message.value.as_slice(), second[0].lease.receipt.tries), (&b"run 7"[..], 2));

    let transaction = client.begin();
    transaction.insert(&results, "result", b"slow").unwrap();
    let refused = jobs.acknowledge_within(&transaction, &[first[0].lease]).await;
    assert_eq!(refused, Err(QueueError::LeaseLapsed));
    transaction.abort();

    // This one is begun while its lease stands, and the message is given back before the commit.
    let transaction = client.begin();
    jobs.acknowledge_within(&transaction, &[second[0].lease]).await.unwrap();
    transaction.insert(&results, "result", b"late").unwrap();
    let released = jobs.settle(&[second[0].lease], SettleAction::Release { delay: 0 }, until).await.unwrap();
    assert_eq!(released, (Vec::new(), Vec::new()));
    let error = transaction.commit().await.unwrap_err();
    assert!(error.is_conflict(), "{error}");
    assert_eq!(number(&results, "result").await, None);
    let third = other.pop(1, 60_000, 0, PATIENCE).await.unwrap();
    assert_eq!(third[0].lease.receipt.tries, 3);
}

#[tokio::test]
async fn push_wakes_a_consumer_and_a_delay_ends_its_wait() {
    let folder = folder();
    let cluster = start(folder.path());
    let client = Client::connect(cluster.endpoint()).await.unwrap();
    let jobs = queue(&cluster, &client, "jobs", 3).await;
    let until = jobs.now() + 120_000;
    let mut consumer = QueueConsumer::new(jobs.clone());
    let waiting = tokio::spawn(async move {
        let mut all = Vec::new();
        while all.len() < 2 {
            all.extend(consumer.pop(1, 60_000, until, PATIENCE).await.unwrap());
        }
        all
    });
    let mut producer = QueueProducer::new(jobs.clone());
    producer.push(vec![NewMessage { delay: 300, ..message("late") }], until).await.unwrap();
    producer.push(vec![message("now")], until).await.unwrap();
    let all = waiting.await.unwrap();
    let values: Vec<&[u8]> = all.iter().map(|one| one.message.value.as_slice()).collect();
    assert!(values.contains(&&b"late"[..]) && values.contains(&&b"now"[..]), "{values:?}");
}

#[tokio::test]
async fn message_that_was_acknowledged_is_refused_in_a_transaction() {
    let folder = folder();
    let cluster = start(folder.path());
    let client = Client::connect(cluster.endpoint()).await.unwrap();
    let (jobs, other) =
        (queue(&cluster, &client, "jobs", 1).await, queue(&cluster, &client, "other", 1).await);
    let results = client.keyspace("default").await.unwrap();
    let until = jobs.now() + 60_000;
    QueueProducer::new(jobs.clone()).push(vec![message("run 7")], until).await.unwrap();
    let mut consumer = QueueConsumer::new(jobs.clone());
    let popped = consumer.pop(1, 60_000, 0, PATIENCE).await.unwrap();
    let lease = [popped[0].lease];
    let process = async || {
        let transaction = client.begin();
        jobs.acknowledge_within(&transaction, &lease).await?;
        transaction.insert(&results, "result", b"42").unwrap();
        transaction.commit().await.unwrap();
        Ok(())
    };
    assert_eq!(process().await, Ok(()));
    assert_eq!(process().await, Err(QueueError::LeaseLapsed));
    let again = jobs.settle(&lease, SettleAction::Acknowledge, until).await;
    assert_eq!(again, Ok((lease.to_vec(), Vec::new())));
    assert_eq!(other.settle(&lease, SettleAction::Acknowledge, until).await, Err(QueueError::OtherQueue));
}

#[tokio::test]
async fn logs_and_queues_are_listed_beside_each_other() {
    let folder = folder();
    let cluster = start(folder.path());
    let run = |words: &[&str]| {
        let ended = output(zerohop(&[words, &["--endpoint", cluster.endpoint()]].concat()), b"");
        (code(&ended), stdout(&ended))
    };
    assert_eq!(run(&["log", "create", "events", "--retention", "1d"]).0, 0);
    assert_eq!(run(&["queue", "create", "jobs"]).0, 0);
    let (code, logs) = run(&["log", "list"]);
    assert!(code == 0 && logs.starts_with("events:") && logs.lines().count() == 1, "{code} {logs}");
    let (code, queues) = run(&["queue", "list"]);
    assert!(code == 0 && queues.starts_with("jobs:") && queues.lines().count() == 1, "{code} {queues}");
    assert_eq!((run(&["queue", "stats", "events"]).0, run(&["log", "info", "jobs"]).0), (1, 1));
}
