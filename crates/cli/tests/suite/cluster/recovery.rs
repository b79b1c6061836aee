//! Nodes are lost permanently, and an operator accepts the loss of the data that only they had.

use std::time::Duration;

use zerohop_client::{Client, ClientOptions, Error, Reason};

use crate::cluster::nodes::NodeCluster;
use crate::support::GIVE_UP_AFTER;

async fn connect(cluster: &NodeCluster, deadline: Duration) -> Client {
    let endpoints = cluster.endpoints();
    let endpoints: Vec<&str> = endpoints[..2].iter().map(String::as_str).collect();
    let options = ClientOptions { deadline, connect_deadline: GIVE_UP_AFTER, ..ClientOptions::default() };
    Client::connect_with(&endpoints, options).await.unwrap()
}

/// The value of a key in the keyspace with one copy; `None`: it is lost. The client reports a loss
/// only at its deadline. On a slow machine no node may have answered by then: the next deadline is
/// longer.
async fn lookup_value(cluster: &NodeCluster, key: &str) -> Option<String> {
    let mut deadline = Duration::from_secs(2);
    loop {
        // The lookup of the keyspace may time out too.
        let client = connect(cluster, deadline).await;
        let Ok(single) = client.keyspace("single").await else {
            assert!(deadline < GIVE_UP_AFTER, "no node knows the keyspace");
            deadline *= 2;
            continue;
        };
        match single.lookup_bytes(key).await {
            Ok(found) => return Some(String::from_utf8(found.unwrap().to_vec()).unwrap()),
            Err(Error::Operation { reason, .. }) if matches!(*reason, Reason::PartitionLost { .. }) => {
                return None;
            }
            Err(error) => assert!(deadline < GIVE_UP_AFTER, "{error}"),
        }
        deadline *= 2;
    }
}

#[tokio::test]
async fn loss_is_reported_and_accepted_by_the_operator_only() {
    let folder = crate::support::folder();
    let mut cluster = NodeCluster::start(folder.path(), 3);
    cluster.wait_until_complete();
    cluster.json(&["keyspace", "create", "single", "--replicas", "1", "--partitions", "16"]);
    let (code, out, _) = cluster.run(&["recover"]);
    assert!(code == 0 && out.contains("nothing to recover"), "{out}");
    let client = connect(&cluster, GIVE_UP_AFTER).await;
    let (single, default) =
        (client.keyspace("single").await.unwrap(), client.keyspace("default").await.unwrap());
    let keys: Vec<String> = (0..64).map(|key| format!("key-{key}")).collect();
    for key in &keys {
        single.insert(key.as_str(), key.as_bytes()).await.unwrap();
        default.insert(key.as_str(), key.as_bytes()).await.unwrap();
    }
    cluster.kill(2);
    cluster.wait_for("some of it is lost", |status| status["groups"]["lost"].as_u64() > Some(0));
    let status = cluster.status();
    let lost = status["groups"]["lost"].as_u64().unwrap();
    assert!(lost < 16);
    let of = |name: &str| {
        let keyspaces = status["keyspaces"].as_array().unwrap();
        keyspaces.iter().find(|one| one["name"] == name).unwrap()["health"]["lost"].clone()
    };
    assert_eq!((of("single"), of("default")), (lost.into(), 0.into()));
    assert!(
        status["warnings"].as_array().unwrap().iter().any(|one| one.as_str().unwrap().contains("are lost"))
    );
    let (_, listed, _) = cluster.run(&["partition", "list", "single"]);
    assert_eq!(listed.matches("LOST").count() as u64, lost, "{listed}");

    // A lookup of lost data reports the loss; all other keys are served.
    let mut gone = Vec::new();
    for key in &keys {
        assert!(default.lookup_bytes(key.as_str()).await.unwrap().is_some());
    }
    for key in &keys {
        match lookup_value(&cluster, key).await {
            Some(found) => assert_eq!(found, *key),
            None => gone.push(key.clone()),
        }
        if gone.len() == 2 {
            break;
        }
    }

    let (code, out, error) = cluster.run(&["recover"]);
    assert!(code == 3 && error.contains("--accept-loss") && out.contains("nothing is left"), "{out} {error}");
    assert_eq!(cluster.run(&["recover", "--accept-loss"]).0, 2);
    assert_eq!(cluster.status()["groups"]["lost"].as_u64(), Some(lost), "nothing is done unasked");
    let first = cluster.list(&["partition", "list", "single"]);
    let first =
        first.as_array().unwrap().iter().find(|one| one["lost"] == true).unwrap()["partition"].clone();
    let one = cluster.list(&["recover", "--accept-loss", &format!("single/{first}")]);
    assert_eq!((&one[0]["left"], &one[0]["recovered"]), (&"nothing".into(), &true.into()), "{one}");
    assert_eq!(cluster.status()["groups"]["lost"].as_u64(), Some(lost - 1));
    let all = cluster.list(&["recover", "--accept-loss", "--all-lost"]);
    assert_eq!(all.as_array().unwrap().len() as u64, lost - 1);
    assert_eq!(cluster.run(&["recover"]).0, 0);

    // The recovered partitions are empty, and in use again.
    for key in &gone {
        assert_eq!(single.lookup_bytes(key.as_str()).await.unwrap(), None);
        single.insert(key.as_str(), key.as_bytes()).await.unwrap();
    }
    // The lost node returns after all, and does no harm.
    cluster.start_again(2);
    cluster.wait_until_complete();
    for key in &gone {
        assert_eq!(single.lookup_bytes(key.as_str()).await.unwrap().as_deref(), Some(key.as_bytes()));
    }
    cluster.stop_in_order();
}
