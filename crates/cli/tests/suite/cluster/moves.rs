//! An operator moves a partition manually.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::cluster::loads::{ClientLoad, check, connect};
use crate::cluster::nodes::NodeCluster;
use crate::support::wait_for;

fn members(partition: &Value) -> BTreeSet<u64> {
    let others = ["in_sync", "followers"].into_iter().flat_map(|role| partition[role].as_array().unwrap());
    others.chain([&partition["primary"]]).map(|one| one.as_u64().unwrap()).collect()
}

/// Moves a partition. On a loaded machine a node may briefly be considered down; then the move
/// fails, and the error says so.
fn moves(cluster: &NodeCluster, name: &str, to: &str) {
    let steps = || {
        let (code, out, error) = cluster.run(&["partition", "move", name, "--to", to, "--json"]);
        if code == 0 {
            let steps: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
            assert_eq!(steps.last().unwrap()["step"], "done", "{steps:?}");
            return Ok(());
        }
        assert!(
            code == 3 && ["has failed", "is being moved", "is down"].iter().any(|one| error.contains(one)),
            "{error}"
        );
        Err(error)
    };
    drop(wait_for(&format!("{name} is moved"), steps, Result::is_ok));
}

#[tokio::test]
async fn partition_moved_under_load_stays_on_its_target() {
    let folder = crate::support::folder();
    let mut cluster = NodeCluster::start(folder.path(), 3);
    cluster.wait_until_complete();
    cluster.join();
    cluster.wait_for("the fourth has its share", |status| {
        let replicas: u64 = ["primaries", "in_sync", "following"]
            .iter()
            .map(|role| status["nodes"][3][role].as_u64().unwrap_or_default())
            .sum();
        replicas == 192 && status["groups"]["moving"] == 0 && status["groups"]["rebuilding"] == 0
    });
    let load = ClientLoad::begin(&cluster.endpoints(), 4);
    let all = cluster.list(&["partition", "list"]);
    let all = all.as_array().unwrap();
    // With three copies on four nodes one node has no copy: its instance is the target.
    let instances: Vec<u64> = (0..4).collect();
    let mut moved = Vec::new();
    for at in [3usize, 77, 200] {
        let before = members(&all[at]);
        let to = *instances.iter().find(|one| !before.contains(one)).unwrap();
        let name = format!("default/{at}");
        let nodes = cluster.status();
        let node = nodes["nodes"].as_array().unwrap().iter().find(|node| {
            node["instances"].as_array().unwrap().iter().any(|one| one["id"].as_u64() == Some(to))
        });
        let node = node.unwrap()["id"].as_u64().unwrap();
        moves(&cluster, &name, &format!("{node}:{to}"));
        let now = cluster.list(&["partition", "list"]);
        assert_eq!(now[at]["primary"].as_u64(), Some(to));
        assert_eq!(members(&now[at]).len(), 3);
        assert_eq!(before.difference(&members(&now[at])).count(), 1, "one has left");
        moved.push((at, to));
        // An invalid move is refused at once.
        let (code, _, error) = cluster.run(&["partition", "move", &name, "--to", &node.to_string()]);
        assert!(code == 3 && error.contains("is there already"), "{code} {error}");
    }
    for (name, to, words) in [
        ("papers/1", "1", "no keyspace"),
        ("default/256", "1", "no partition 256"),
        ("default/1", "99", "no such node"),
        ("default/1", "1:77", "is not of node 1"),
    ] {
        let (code, _, error) = cluster.run(&["partition", "move", name, "--to", to]);
        assert!(code == 3 && error.contains(words), "{name} {to}: {code} {error}");
    }
    let (code, ..) = cluster.run(&["partition", "move", "default", "--to", "1"]);
    assert_eq!(code, 2);
    let written = load.end();
    check(&connect(&cluster.endpoints()).await, &written).await;
    // The planner does not undo an operator's placement before it is released.
    std::thread::sleep(std::time::Duration::from_secs(1));
    let now = cluster.list(&["partition", "list"]);
    assert!(moved.iter().all(|(at, to)| now[*at]["primary"].as_u64() == Some(*to)));
    // Only the control group knows the pinned partitions, yet every node reports them.
    for endpoint in cluster.endpoints() {
        let (code, out, error) = cluster.run(&["partition", "list", "--json", "--endpoint", &endpoint]);
        assert_eq!(code, 0, "{error}");
        let listed: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let pinned = listed.iter().enumerate().filter_map(|(at, one)| Some((at, one["pinned"].as_u64()?)));
        assert_eq!(pinned.collect::<Vec<_>>(), moved, "{endpoint}");
    }
    let (_, listed, _) = cluster.run(&["partition", "list"]);
    assert_eq!(listed.matches("pinned to ").count(), moved.len(), "{listed}");
    let (code, printed, _) = cluster.run(&["partition", "release", "default/3", "--json"]);
    let report: Value = serde_json::from_str(&printed).unwrap();
    assert_eq!((code, report), (0, serde_json::json!({"keyspace": "default", "partition": 3, "done": true})));
    let listed = cluster.list(&["partition", "list"]);
    assert_eq!(listed[3]["pinned"], Value::Null);
    let (code, _, error) = cluster.run(&["partition", "release", "default/3"]);
    assert!(code == 3 && error.contains("nothing to release"), "{error}");
    // A draining node or one that is down cannot be a target.
    let others = members(&now[5]);
    let free = instances.iter().find(|one| !others.contains(one)).unwrap() + 1;
    let (code, printed, _) = cluster.run(&["node", "drain", &free.to_string(), "--no-wait", "--json"]);
    let report: Value = serde_json::from_str(&printed).unwrap();
    assert_eq!((code, &report["node"], &report["state"]), (0, &Value::from(free), &Value::from("draining")));
    assert_eq!((&report["moved"], &report["done"]), (&Value::from(0), &Value::from(true)), "{report}");
    assert!(report["left"].as_u64() > Some(0), "it has not waited: {report}");
    let (code, _, error) = cluster.run(&["partition", "move", "default/5", "--to", &free.to_string()]);
    assert!(code == 3 && error.contains("is being drained"), "{error}");
    cluster.kill(free as usize - 1);
    cluster.wait_for("it is seen to be down", |status| {
        status["nodes"].as_array().unwrap().iter().any(|node| node["state"] == "down")
    });
    let (code, _, error) = cluster.run(&["partition", "move", "default/5", "--to", &free.to_string()]);
    assert!(code == 3 && error.contains("is down"), "{error}");
    // A restarted node is still draining.
    cluster.start_again(free as usize - 1);
    cluster.wait_for("it is emptied on", |status| {
        let nodes = status["nodes"].as_array().unwrap();
        let node = nodes.iter().find(|node| node["id"].as_u64() == Some(free)).unwrap();
        node["state"] == "draining"
            && ["primaries", "in_sync", "following"].iter().all(|role| node[role] == 0)
    });
    cluster.stop_in_order();
}

#[test]
fn drain_returns_once_the_node_has_no_copies_and_says_how_many_it_had() {
    let folder = crate::support::folder();
    let mut cluster = NodeCluster::start(folder.path(), 3);
    let fourth = cluster.join();
    let number = |node: &Value| node["id"].as_u64().unwrap();
    let joined = cluster.endpoints()[fourth].clone();
    let copies = |node: &Value| -> u64 {
        ["primaries", "in_sync", "following"].iter().map(|role| node[role].as_u64().unwrap()).sum()
    };
    let find = |status: &Value| {
        let nodes = status["nodes"].as_array().unwrap();
        nodes.iter().find(|node| node["manager"] == joined.as_str()).cloned().unwrap()
    };
    cluster.wait_for("it has its share", |status| {
        find(status)["primaries"].as_u64() > Some(0) && status["groups"]["moving"] == 0
    });
    let had = copies(&find(&cluster.status()));
    let id = number(&find(&cluster.status())).to_string();
    let (code, printed, progress) = cluster.run(&["node", "drain", &id, "--wait", "10m", "--json"]);
    assert_eq!(code, 0, "{printed} {progress}");
    assert_eq!(copies(&find(&cluster.status())), 0, "{progress}");
    let report: Value = serde_json::from_str(&printed).unwrap();
    assert_eq!((&report["done"], &report["left"]), (&Value::from(true), &Value::from(0)), "{report}");
    assert!(report["moved"].as_u64() >= Some(had), "{report}: it had {had}");
    let (code, printed, _) = cluster.run(&["node", "drain", &id]);
    assert_eq!((code, printed), (0, format!("node {id} is empty: 0 copies have left it\n")));
    cluster.stop_in_order();
}

#[test]
fn drain_that_no_node_can_take_ends_its_wait_with_the_copies_that_are_left() {
    let folder = crate::support::folder();
    let mut cluster = NodeCluster::start(folder.path(), 2);
    cluster.kill(1);
    let is_down = |node: &Value| node["state"] == "down";
    cluster.wait_for("it is down", |status| status["nodes"].as_array().unwrap().iter().any(is_down));
    let status = cluster.status();
    let nodes = status["nodes"].as_array().unwrap();
    let id = nodes.iter().find(|node| !is_down(node)).unwrap()["id"].to_string();
    let (code, printed, progress) = cluster.run(&["node", "drain", &id, "--wait", "10s", "--json"]);
    let report: Value = serde_json::from_str(&printed).unwrap();
    assert_eq!((code, &report["done"], &report["reason"]), (4, &Value::Null, &Value::from("under_way")));
    for words in [
        "because no other node is up".to_owned(),
        format!("draining node {id}: "),
        format!("zerohop: the drain of node {id} goes on, but "),
    ] {
        assert!(progress.contains(&words), "{words}: {progress}");
    }
    cluster.start_again(1);
    cluster.stop_in_order();
}
