//! The control group loses managers: one, which another node replaces; and a majority, after which
//! an operator has a remaining manager continue alone.

use crate::cluster::nodes::NodeCluster;
use crate::support::wait_for;

/// Repeats the command until it succeeds.
fn until_done(cluster: &NodeCluster, arguments: &[&str]) {
    wait_for(&format!("{arguments:?}"), || cluster.run(arguments), |(code, ..)| *code == 0);
}

/// Waits until the other nodes have a quorum alone. No report says when a new manager votes. So the
/// nodes are paused, not killed: if a vote is still missing, they resume and the test tries again.
fn until_others_decide(cluster: &NodeCluster, without: &[usize]) {
    let mut tried = 0;
    let decide = || {
        tried += 1;
        without.iter().for_each(|node| cluster.pause(*node, true));
        let name = format!("tried-{tried}");
        let output = cluster.run(&["keyspace", "create", &name, "--replicas", "1", "--timeout", "5s"]);
        without.iter().for_each(|node| cluster.pause(*node, false));
        // With all nodes up there is a quorum, which has time to continue the change of voters.
        until_done(cluster, &["keyspace", "create", &format!("between-{tried}"), "--replicas", "1"]);
        output
    };
    wait_for("the others decide", decide, |(code, ..)| *code == 0);
}

/// The nodes of the control group, as reported by the node that is asked.
fn managers(cluster: &NodeCluster) -> Vec<String> {
    let listed = cluster.list(&["node", "managers"]);
    let mut managers: Vec<String> =
        listed.as_array().unwrap().iter().map(|one| one["node"].to_string()).collect();
    managers.sort();
    managers
}

#[test]
fn lost_manager_is_replaced_by_another_node() {
    let folder = crate::support::folder();
    let mut cluster = NodeCluster::start(folder.path(), 3);
    assert_eq!(cluster.join(), 3);
    cluster.wait_until_complete();
    cluster.kill(1);
    std::fs::remove_dir_all(folder.path().join("node-1")).unwrap();
    let gone = cluster.status()["nodes"]
        .as_array()
        .unwrap()
        .iter()
        .position(|node| node["manager"] == cluster.endpoints()[1].as_str());
    let gone = cluster.status()["nodes"][gone.unwrap()]["id"].to_string();
    let (code, _, error) = cluster.run(&["node", "remove", &gone]);
    assert!(code == 3, "{error}");
    // The removal is refused while the node is in the control group or has copies; after half a
    // minute neither is true.
    until_done(&cluster, &["node", "remove", &gone]);
    wait_for(
        "another node is a manager",
        || managers(&cluster),
        |managers| managers.len() == 3 && !managers.contains(&gone),
    );
    // One bootstrap node is left, and the new group has a majority without it.
    until_others_decide(&cluster, &[2]);
    cluster.kill(2);
    until_done(&cluster, &["keyspace", "create", "after", "--replicas", "1"]);
    // The votes of the new manager survive its restart.
    cluster.start_again(2);
    cluster.stop(3);
    cluster.start_again(3);
    cluster.wait_for("all are back", |status| {
        status["nodes"].as_array().unwrap().iter().filter(|node| node["state"] == "up").count() == 3
    });
    cluster.kill(2);
    until_done(&cluster, &["keyspace", "create", "again", "--replicas", "1"]);
}

#[test]
fn bootstrap_node_without_folder_gets_rejoin_advice() {
    let folder = crate::support::folder();
    let mut cluster = NodeCluster::start(folder.path(), 3);
    cluster.kill(2);
    let data = folder.path().join("node-2");
    std::fs::remove_dir_all(&data).unwrap();
    let (hosts, listen) = (cluster.endpoints().join(","), cluster.endpoints().remove(2));
    let data = data.to_str().unwrap();
    let (code, out, error) =
        cluster.run(&["node", "--instances", "1", "--hosts", &hosts, "--listen", &listen, "--data", data]);
    assert_eq!((code, out.as_str()), (3, ""), "{error}");
    assert!(error.contains("has lost its log") && error.contains("an empty folder and --join"), "{error}");
    // It does not wait for instances, as it has not begun to open any, and reports no internal
    // error.
    assert!(!error.contains("a fault of the program"), "{error}");
    cluster.stop_in_order();
}

#[test]
fn operator_chooses_the_control_group_members() {
    let folder = crate::support::folder();
    let mut cluster = NodeCluster::start(folder.path(), 3);
    assert_eq!(cluster.join(), 3);
    cluster.wait_until_complete();
    let status = cluster.status();
    let nodes = status["nodes"].as_array().unwrap();
    let ids: Vec<String> = cluster
        .endpoints()
        .iter()
        .map(|endpoint| {
            nodes.iter().find(|node| node["manager"] == endpoint.as_str()).unwrap()["id"].to_string()
        })
        .collect();
    let sorted = |of: [&String; 3]| {
        let mut sorted: Vec<String> = of.into_iter().cloned().collect();
        sorted.sort();
        sorted
    };
    assert_eq!(managers(&cluster), sorted([&ids[0], &ids[1], &ids[2]]), "the bootstrap members");
    for (set, words) in [
        (format!("{},{}", ids[0], ids[1]), "1, 3 or 5"),
        (format!("{},{},99", ids[0], ids[1]), "no node 99"),
        (format!("{0},{0},{1}", ids[0], ids[1]), "named twice"),
    ] {
        let (code, _, error) = cluster.run(&["node", "managers", "--set", &set]);
        assert!(code == 3 && error.contains(words), "{set}: {code} {error}");
    }
    let set = format!("{},{},{}", ids[0], ids[1], ids[3]);
    until_done(&cluster, &["node", "managers", "--set", &set]);
    // The manager that is asked applies the decision a little later than the leader.
    let decided = sorted([&ids[0], &ids[1], &ids[3]]);
    wait_for("it is heard of", || managers(&cluster), |managers| *managers == decided);
    // The former manager has no vote any more.
    until_others_decide(&cluster, &[1, 2]);
    cluster.kill(2);
    cluster.kill(1);
    until_done(&cluster, &["keyspace", "create", "by-the-new", "--replicas", "1"]);
    cluster.wait_for("node 1 is known to be down", |status| {
        let nodes = status["nodes"].as_array().unwrap();
        nodes.iter().any(|node| node["id"] == ids[1].parse::<u32>().unwrap() && node["state"] == "down")
    });
    let (code, _, error) = cluster.run(&["node", "managers", "--set", &ids[1]]);
    let refusal = format!("node {} is down: a control group decides nothing", ids[1]);
    assert!(code == 3 && error.contains(&refusal), "{code} {error}");
    cluster.start_together(&[1, 2]);
    cluster.wait_for("all are up", |status| {
        status["nodes"].as_array().unwrap().iter().all(|node| node["state"] == "up")
    });
    assert_eq!(managers(&cluster), sorted([&ids[0], &ids[1], &ids[3]]), "also as a former manager sees it");
    let (code, _, error) = cluster.run(&["node", "managers", "--set", &ids[0]]);
    assert!(
        code == 3 && error.contains("while 4 nodes are up, its control group has at least 3"),
        "{code} {error}"
    );
}

#[test]
fn forced_new_cluster_readmits_old_managers_without_vote() {
    let folder = crate::support::folder();
    let mut cluster = NodeCluster::start(folder.path(), 3);
    cluster.wait_until_complete();
    // All three nodes must have each write before it is acknowledged. A mere follower might lack
    // the latest writes when the other two are killed.
    until_done(&cluster, &["keyspace", "alter", "default", "--min-in-sync", "3"]);
    cluster.wait_for("all copies are in sync", |_| {
        let partitions = cluster.list(&["partition", "list", "default"]);
        partitions.as_array().unwrap().iter().all(|one| one["in_sync"].as_array().unwrap().len() == 2)
    });
    for key in 0..8 {
        assert_eq!(cluster.run(&["kv", "insert", &format!("k{key}"), "before"]).0, 0);
    }
    cluster.kill(1);
    cluster.kill(2);
    let (code, _, error) = cluster.run(&["keyspace", "create", "none", "--timeout", "2s"]);
    assert!(code == 3 || code == 4, "there is no quorum: {error}");
    let own = folder.path().join("node-0");
    let recover = ["recover", "--control-group", own.to_str().unwrap()];
    let (code, _, error) = cluster.run(&recover);
    assert!(code == 3 && error.contains("another zerohop process"), "{error}");
    cluster.kill(0);
    cluster.while_stopped(|cluster| {
        let (code, out, error) = cluster.run(&recover);
        assert!(
            code == 3 && error.contains("Nothing is changed") && out.contains("decisions"),
            "{out} {error}"
        );
        let nowhere = folder.path().join("nowhere");
        let (code, _, error) = cluster.run(&["recover", "--control-group", nowhere.to_str().unwrap()]);
        assert!(code == 3 && error.contains("no such folder"), "{error}");
        let (code, out, error) = cluster.run(&[&recover[..], &["--accept-loss"]].concat());
        assert!(code == 0 && out.contains("--join"), "{out} {error}");
    });
    cluster.start_again(0);
    cluster.wait_for("the others are down", |status| {
        status["nodes"].as_array().unwrap().iter().filter(|node| node["state"] == "down").count() == 2
    });
    until_done(&cluster, &["recover", "--accept-loss", "--all-lost"]);
    cluster.wait_for("all is served", |status| {
        status["groups"]["lost"] == 0 && status["groups"]["recovering"] == 0
    });
    until_done(&cluster, &["keyspace", "alter", "default", "--replicas", "1", "--min-in-sync", "1"]);
    for key in 0..8 {
        let (code, out, error) = cluster.run(&["kv", "lookup", &format!("k{key}")]);
        assert_eq!((code, out.as_str()), (0, "before"), "{error}");
    }
    until_done(&cluster, &["kv", "insert", "late", "after"]);

    // The lost nodes return together, with their old logs: they would be a majority of the old
    // group.
    cluster.start_together(&[1, 2]);
    cluster.wait_for("all are up", |status| {
        status["nodes"].as_array().unwrap().iter().all(|node| node["state"] == "up")
    });
    // All nodes follow one map, that of the new control group.
    let epochs: Vec<u64> = (0..3)
        .map(|node| {
            let (code, out, error) =
                cluster.run(&["status", "--json", "--endpoint", &cluster.endpoints()[node]]);
            assert_eq!(code, 0, "{error}");
            let status: serde_json::Value = serde_json::from_str(&out).unwrap();
            status["map_epoch"].as_u64().unwrap()
        })
        .collect();
    assert!(epochs.iter().all(|epoch| *epoch > 1 << 20), "{epochs:?}");
    for node in 0..3 {
        let endpoint = &cluster.endpoints()[node];
        let (code, out, error) = cluster.run(&["kv", "lookup", "late", "--endpoint", endpoint]);
        assert_eq!((code, out.as_str()), (0, "after"), "{error}");
    }
    // Without the only voter nothing is decided: the others do not vote.
    cluster.pause(0, true);
    let other = &cluster.endpoints()[1];
    let (code, _, _) = cluster.run(&["keyspace", "create", "split", "--timeout", "4s", "--endpoint", other]);
    assert_ne!(code, 0, "the former managers decide by themselves");
    cluster.pause(0, false);
    cluster.wait_for("all are up", |status| {
        status["nodes"].as_array().unwrap().iter().all(|node| node["state"] == "up")
    });
}
