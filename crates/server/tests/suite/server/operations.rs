//! Every operation, over the wire.

use std::time::Duration;

use zerohop_client::{Client, Condition, Error, Expiry, Failure, Range, Record, RecordType, Ttl, WaitUntil};

use crate::server::support::{anywhere, block_on, client, default_keyspace, in_memory, on};
use zerohop_server::Server;

fn failure(error: Error) -> Failure<'static> {
    error.failure().unwrap_or_else(|| panic!("no answer: {error}")).clone()
}

async fn all_operations(client: &Client) {
    let keyspace = default_keyspace(client).await;
    let first = keyspace.insert("k", "one").await.unwrap();
    assert_eq!(keyspace.lookup_bytes("k").await.unwrap().as_deref(), Some(&b"one"[..]));
    assert_eq!(keyspace.extend("k", ", two").await.unwrap(), 8);
    let second = keyspace.compare_swap("k", Some(b"one, two"), Some(b"three")).await.unwrap();
    assert!(second > first);
    let seen = failure(keyspace.compare_swap("k", Some(b"one"), None).await.unwrap_err());
    assert!(matches!(seen, Failure::CompareFailed { .. }), "{seen}");
    let wrong = failure(keyspace.append("k", &[b"v"]).await.unwrap_err());
    assert_eq!(wrong, Failure::WrongType { found: RecordType::Bytes });

    assert_eq!(keyspace.append("l", &[b"a", b"b", b"c"]).await.unwrap(), 3);
    assert_eq!(keyspace.trim("l", Range { start: 1, stop: i64::MAX }).await.unwrap(), 2);
    match keyspace.lookup("l").await.unwrap().unwrap() {
        Record::List { values, .. } => assert_eq!(values, ["b", "c"]),
        other => panic!("no list: {other:?}"),
    }
    assert_eq!(keyspace.increment("n", 41).await.unwrap(), 41);
    assert_eq!(keyspace.increment("n", 1).await.unwrap(), 42);

    let absent = keyspace.insert("k", "x").condition(Condition::IfAbsent).await.unwrap_err();
    assert!(matches!(failure(absent), Failure::ConditionFailed { .. }));
    assert!(keyspace.expire("k", Expiry::AfterMs(3_600_000)).await.unwrap());
    assert!(matches!(keyspace.ttl("k").await.unwrap(), Ttl::AtMs(_)));
    assert!(keyspace.persist("k").await.unwrap());
    assert_eq!(keyspace.ttl("k").await.unwrap(), Ttl::Never);
    assert_eq!(keyspace.inspect("k").await.unwrap().unwrap().length, 5);

    let other = client.clone();
    let waiting = tokio::spawn(async move {
        let keyspace = default_keyspace(&other).await;
        keyspace.wait("w", WaitUntil::Present).await
    });
    tokio::time::sleep(Duration::from_millis(30)).await;
    keyspace.insert("w", "it is here").await.unwrap();
    match waiting.await.unwrap().unwrap().unwrap() {
        Record::Bytes { bytes, .. } => assert_eq!(bytes, "it is here"),
        other => panic!("no bytes: {other:?}"),
    }

    let mut scan = keyspace.scan("");
    let mut keys = Vec::new();
    while let Some(page) = scan.next_page().await.unwrap() {
        keys.extend(page.into_iter().map(|found| found.key));
    }
    keys.sort();
    assert_eq!(keys, ["k", "l", "n", "w"].map(|key| key.as_bytes()));
    for key in &keys {
        assert!(keyspace.remove(key).await.unwrap());
    }
    assert!(!keyspace.remove("k").await.unwrap());
    assert_eq!(keyspace.lookup("k").await.unwrap(), None);
}

#[test]
fn every_operation_makes_the_round_trip_in_memory_and_on_disk() {
    let server = in_memory(2);
    block_on(async { all_operations(&client(&server).await).await });
    server.stop().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(on(folder.path(), anywhere())).unwrap();
    block_on(async { all_operations(&client(&server).await).await });
    server.stop().unwrap();
}

#[test]
fn an_instance_is_as_good_an_endpoint_as_the_manager() {
    let server = in_memory(2);
    block_on(async {
        for (_, address) in server.instances() {
            let client = Client::connect(&address.to_string()).await.unwrap();
            all_operations(&client).await;
        }
    });
}

#[test]
fn many_clients_read_their_own_writes() {
    const CLIENTS: usize = 40;
    const KEYS: usize = 50;
    let server = in_memory(2);
    block_on(async {
        let tasks = (0..CLIENTS).map(|number| {
            let address = server.manager_address().to_string();
            tokio::spawn(async move {
                let client = Client::connect(&address).await.unwrap();
                let keyspace = default_keyspace(&client).await;
                for key in 0..KEYS {
                    let (key, value) = (format!("{number}/{key}"), format!("value {key} of {number}"));
                    keyspace.insert(&key, &value).await.unwrap();
                    keyspace.increment("all", 1).await.unwrap();
                    let found = keyspace.lookup_bytes(&key).await.unwrap();
                    assert_eq!(found.as_deref(), Some(value.as_bytes()));
                }
            })
        });
        for task in tasks.collect::<Vec<_>>() {
            task.await.unwrap();
        }
        let keyspace = default_keyspace(&client(&server).await).await;
        assert_eq!(keyspace.increment("all", 0).await.unwrap(), (CLIENTS * KEYS) as i64);
    });
}
