//! The only copy of a partition became corrupt while its node was down: the corruption is reported,
//! and an operator has the partition continue with the readable part.

use std::path::{Path, PathBuf};

use zerohop_client::{Client, ClientOptions, Error, Keyspace};
use zerohop_wire::Failure;

use crate::cluster::nodes::NodeCluster;
use crate::support::{GIVE_UP_AFTER, wait_for};

/// Keys, of which exactly one is lost.
const KEYS: usize = 40;

async fn connect(cluster: &NodeCluster) -> Client {
    let options = ClientOptions {
        deadline: GIVE_UP_AFTER,
        connect_deadline: GIVE_UP_AFTER,
        ..ClientOptions::default()
    };
    Client::connect_with(&[&cluster.endpoints()[0]], options).await.unwrap()
}

fn value(key: usize) -> String {
    format!("value of {key:03} ").repeat(60)
}

async fn insert(keyspace: &Keyspace, keys: std::ops::Range<usize>) {
    for key in keys {
        keyspace.insert(format!("key-{key}").as_str(), value(key).as_bytes()).await.unwrap();
    }
}

/// The result of a lookup: the value, or the server's error.
async fn lookup_result(keyspace: &Keyspace, key: usize) -> Result<Option<String>, Failure<'static>> {
    match keyspace.lookup_bytes(format!("key-{key}").as_str()).await {
        Ok(found) => Ok(found.map(|bytes| String::from_utf8(bytes.to_vec()).unwrap())),
        Err(error @ Error::Operation { .. }) => Err(error.failure().expect("the server's word").clone()),
        Err(other) => panic!("{other}"),
    }
}

pub(crate) fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

/// Flips a bit of the value in each file of the folder that has it; returns the number of files.
fn corruption(folder: &Path, value: &str) -> usize {
    let mut found = 0;
    for path in files(folder) {
        let mut bytes = std::fs::read(&path).unwrap();
        if let Some(at) = bytes.windows(value.len()).position(|window| window == value.as_bytes()) {
            bytes[at + 7] ^= 0x10;
            std::fs::write(&path, bytes).unwrap();
            found += 1;
        }
    }
    found
}

#[tokio::test]
async fn corrupt_sole_copy_continues_on_operator_command() {
    let folder = crate::support::folder();
    let mut cluster = NodeCluster::start(folder.path(), 1);
    for name in ["corrupt", "sound"] {
        cluster.json(&["keyspace", "create", name, "--replicas", "1", "--partitions", "1"]);
    }
    let client = connect(&cluster).await;
    let (corrupt, sound) =
        (client.keyspace("corrupt").await.unwrap(), client.keyspace("sound").await.unwrap());
    insert(&sound, 100..110).await;
    for wave in 0..4 {
        let before = cluster.syncs();
        insert(&corrupt, wave * KEYS / 4..(wave + 1) * KEYS / 4).await;
        cluster.wait_until_flushed(&before);
    }
    drop((corrupt, sound, client));
    cluster.kill(0);
    assert_eq!(corruption(folder.path(), &value(5)), 1, "one file has it");
    cluster.start_again(0);

    // Every report names the corrupt partition.
    cluster.wait_for("its node says that it is damaged", |status| {
        let troubles = status["nodes"][0]["troubles"].as_array().unwrap();
        troubles.iter().any(|one| {
            let text = one.as_str().unwrap();
            ["corrupt/0 is damaged", "key-5", "zerohop recover corrupt/0"]
                .iter()
                .all(|part| text.contains(part))
        })
    });
    let listed = cluster.list(&["partition", "list", "corrupt"]);
    assert_eq!(listed[0]["damaged"], true, "{listed}");
    let (_, listed, _) = cluster.run(&["partition", "list", "corrupt"]);
    assert!(listed.contains("DAMAGED"), "{listed}");
    let (_, found, _) = cluster.run(&["doctor"]);
    assert!(found.contains("corrupt/0: its only in-sync copy") && found.contains("key-5"), "{found}");
    assert_eq!(cluster.metric(0, "partitions_damaged"), 1);

    // A request for the lost key fails at once; all other keys are served.
    let client = connect(&cluster).await;
    let (corrupt, sound) =
        (client.keyspace("corrupt").await.unwrap(), client.keyspace("sound").await.unwrap());
    assert_eq!(lookup_result(&sound, 100).await, Ok(Some(value(100))));
    assert_eq!(lookup_result(&corrupt, 20).await, Err(Failure::DataCorrupt));
    let refused = corrupt.insert("new", b"value").await.unwrap_err();
    assert_eq!(refused.failure(), Some(&Failure::DataCorrupt));

    // Recovery changes nothing without `--accept-loss`, and `--all-lost` does not cover corrupt
    // partitions.
    let (code, out, error) = cluster.run(&["recover"]);
    assert!(code == 3 && out.contains("corrupt/0") && out.contains("key-5"), "{code} {out} {error}");
    assert!(error.contains("--accept-loss") && error.contains("--from-follower"), "{error}");
    let all = cluster.list(&["recover", "--accept-loss", "--all-lost"]);
    assert_eq!((&all[0]["lost"], &all[0]["damaged"]), (&0.into(), &1.into()), "{all}");
    assert_eq!(lookup_result(&corrupt, 20).await, Err(Failure::DataCorrupt));

    let done = cluster.list(&["recover", "--accept-loss", "corrupt/0"]);
    assert_eq!((&done[0]["left"], &done[0]["recovered"]), (&"damaged".into(), &true.into()), "{done}");
    assert_eq!((&done[0]["damaged"]["found"], done.as_array().unwrap().len()), (&1.into(), 1), "{done}");
    // What the command calls recovered is served.
    for key in (0..KEYS).filter(|key| *key != 5) {
        assert_eq!(lookup_result(&corrupt, key).await, Ok(Some(value(key))), "{key}");
    }
    assert_eq!(
        lookup_result(&corrupt, 5).await,
        Err(Failure::DataCorrupt),
        "lost data is never mistaken for other data"
    );
    let before = cluster.syncs();
    corrupt.insert("key-5", value(5).as_bytes()).await.unwrap();
    assert_eq!(cluster.metric(0, "partitions_damaged"), 0);
    assert_eq!(cluster.run(&["recover"]).0, 0);
    let status = cluster.status();
    let troubles = status["nodes"][0]["troubles"].to_string();
    assert!(troubles.contains("corrupt/0 continues") && !troubles.contains("is damaged"), "{troubles}");

    // The next start finds no damage to ask about, and everything that was flushed.
    cluster.wait_until_flushed(&before);
    wait_for("a checkpoint", || cluster.metric(0, "checkpoints_total"), |checkpoints| *checkpoints > 0);
    cluster.kill(0);
    cluster.start_again(0);
    let client = connect(&cluster).await;
    let corrupt = client.keyspace("corrupt").await.unwrap();
    for key in 0..KEYS {
        assert_eq!(lookup_result(&corrupt, key).await, Ok(Some(value(key))), "{key}");
    }
    cluster.stop_in_order();
}

#[tokio::test]
async fn operator_may_replace_corrupt_sole_copy_by_a_follower() {
    let folder = crate::support::folder();
    let mut cluster = NodeCluster::start(folder.path(), 2);
    // The primary of the single partition is on the first node, which is a manager. A single
    // partition keeps the data few enough that flushes write to segments.
    let status = cluster.status();
    let nodes = status["nodes"].as_array().unwrap();
    let first = nodes.iter().find(|node| node["manager"] == cluster.endpoints()[0].as_str()).unwrap();
    let of_first = first["instances"][0]["id"].clone();
    // Each new keyspace has its primary on either node with equal chance: 40 names fail to hit the
    // first node once in 2^40 runs.
    let names: Vec<String> = (0..40).map(|number| format!("corrupt-{number}")).collect();
    let name = names.iter().find(|name| {
        let settings = ["--replicas", "2", "--min-in-sync", "1", "--partitions", "1"];
        cluster.json(&[&["keyspace", "create", name.as_str()], &settings[..]].concat());
        cluster.json(&["partition", "list", name.as_str()])[0]["primary"] == of_first
    });
    let name = name.expect("partitions are spread");
    let place = format!("{name}/0");
    cluster.wait_for("it has its copies", |status| status["groups"]["rebuilding"] == 0);
    let client = connect(&cluster).await;
    let corrupt = client.keyspace(name).await.unwrap();
    for wave in 0..4 {
        let before = cluster.syncs();
        insert(&corrupt, wave * KEYS / 4..(wave + 1) * KEYS / 4).await;
        cluster.wait_until_flushed(&before);
    }
    drop((corrupt, client));
    cluster.kill(1);
    cluster.kill(0);
    assert_eq!(corruption(&folder.path().join("node-0"), &value(5)), 1, "one file has it");
    // The follower is promoted once the other node is known to be down; then that node returns.
    cluster.start_again(0);
    cluster.wait_for("it is alone with damaged copies", |status| {
        let damaged = |text: &str| text.contains("is damaged");
        let troubles = status["nodes"][0]["troubles"].as_array().unwrap();
        troubles.iter().any(|one| damaged(one.as_str().unwrap()))
    });
    cluster.start_again(1);
    cluster.wait_for("both are up, and nothing else is amiss", |status| {
        let nodes = status["nodes"].as_array().unwrap();
        nodes.iter().all(|node| node["state"] == "up") && status["groups"]["recovering"] == 0
    });
    let (code, out, error) = cluster.run(&["recover"]);
    assert!(code == 3 && out.contains(&place) && out.contains("follower that is up"), "{out} {error}");
    let done = cluster.list(&["recover", "--accept-loss", "--from-follower", &place]);
    assert_eq!((&done[0]["left"], &done[0]["recovered"]), (&"followers".into(), &true.into()), "{done}");
    assert_ne!(done[0]["primary"], done[0]["damaged"]["instance"], "{done}");
    assert_eq!(cluster.run(&["recover"]).0, 0);
    let client = connect(&cluster).await;
    let corrupt = client.keyspace(name).await.unwrap();
    for key in 0..KEYS {
        assert_eq!(lookup_result(&corrupt, key).await, Ok(Some(value(key))), "{key}");
    }
    cluster.stop_in_order();
}
