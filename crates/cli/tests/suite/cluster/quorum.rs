//! Two of three managers are dead: every report says so before everything else, and none says that
//! all is well.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::Value;

use crate::cluster::nodes::{NodeCluster, metric};
use crate::cluster::redis::Redis;
use crate::support::wait_for;

/// A manager's answer on a path, with its status line.
fn get(endpoint: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(endpoint).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {endpoint}\r\nConnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

fn assert_first(report: &str, text: &str) {
    assert!(text.starts_with("NO QUORUM: 1 of 3 managers"), "{report}: {text}");
    for words in [
        "recover --control-group",
        "NO ANSWER from node",
        "NO PRIMARY for",
        "What follows is as node",
        "s old",
    ] {
        assert!(text.contains(words), "{report} does not say {words:?}: {text}");
    }
}

/// Operations that are not served name the partition and the lost quorum.
fn assert_operations_say_what_is_missing(cluster: &NodeCluster) {
    let mut unreached = 0;
    for number in 0..16 {
        let key = format!("key-{number}");
        let (code, printed, problems) = cluster.run(&["kv", "lookup", &key, "--timeout", "500ms", "--json"]);
        if code == 1 {
            continue;
        }
        assert_eq!(code, 3, "{printed}");
        let error: Value = serde_json::from_str(&printed).unwrap();
        assert_eq!(error["reason"], "timed_out", "{error}");
        for text in [problems.as_str(), error["error"].as_str().unwrap()] {
            assert!(text.contains("no quorum (1 of 3 managers answer)"), "{text}");
            assert!(text.contains("`zerohop status`") && text.contains("`zerohop doctor`"), "{text}");
        }
        unreached += usize::from(problems.contains("of keyspace \"default\" has no reachable primary"));
    }
    assert!(unreached > 0, "two of three nodes are dead, and each key is at the third");
    let folder = crate::support::folder();
    let backup = folder.path().join("backup");
    for command in [&["verify"][..], &["backup", backup.to_str().unwrap()]] {
        let (code, _, problems) = cluster.run(&[command, &["--timeout", "1s"]].concat());
        assert!(
            code == 3 && problems.contains("no quorum (1 of 3 managers answer)"),
            "{command:?}: {problems}"
        );
    }
}

/// The counts of slots in `CLUSTER INFO`: served, suspected, failed.
fn slot_counts(info: &str) -> [u32; 3] {
    ["ok", "pfail", "fail"].map(|name| {
        let field = format!("cluster_slots_{name}:");
        info.lines().find_map(|line| line.strip_prefix(&field)).unwrap().trim().parse().unwrap()
    })
}

/// Redis clients get the same answer as those of the manager: no node takes over from the two that are dead.
fn assert_redis_reports_lost_quorum(address: &str) {
    let mut redis = Redis::connect(address);
    let info = wait_for(
        "Redis reports it",
        || redis.send_command("CLUSTER INFO"),
        |info| info.contains("cluster_state:fail\r\n"),
    );
    let [served, suspected, failed] = slot_counts(&info);
    assert!(suspected > 0 && served + suspected + failed == 16_384, "{info}");
    let nodes = redis.send_command("CLUSTER NODES");
    let dead = nodes.lines().filter(|line| line.contains(",fail?") && line.contains(" disconnected"));
    assert_eq!(dead.count(), 2 * nodes.lines().count() / 3, "{nodes}");
    let own: Vec<&str> = nodes.lines().filter(|line| line.contains("myself")).collect();
    assert!(own.len() == 1 && own[0].contains(" connected") && !own[0].contains("fail"), "{nodes}");
}

#[test]
fn sole_surviving_manager_reports_lost_quorum() {
    let folder = crate::support::folder();
    let mut cluster = NodeCluster::start(folder.path(), 3);
    cluster.wait_until_complete();
    let survivor = cluster.endpoints().remove(0);
    assert!(get(&survivor, "/health").starts_with("HTTP/1.1 200 "));
    assert_eq!((metric(&survivor, "control_quorum"), metric(&survivor, "serving")), (1, 1));
    let status = cluster.status();
    let (view, node) = (&status["view"], &status["nodes"][0]["id"]);
    assert!(view["quorum"] == true && view["answering"] == 3 && view["node"] == *node, "{status}");
    assert_eq!(status["warnings"], Value::Array(Vec::new()));
    let redis_address = status["nodes"][0]["instances"][0]["addr"].as_str().unwrap().to_owned();
    let redis_info = || Redis::connect(&redis_address).send_command("CLUSTER INFO");
    let info = redis_info();
    assert!(info.contains("cluster_state:ok\r\n") && slot_counts(&info) == [16_384, 0, 0], "{info}");

    cluster.kill(1);
    cluster.kill(2);
    wait_for("nothing is served", || get(&survivor, "/health"), |health| health.starts_with("HTTP/1.1 503 "));
    cluster.wait_for("both are silent", |status| {
        status["view"]["silent"].as_array().unwrap().len() == 2 && status["view"]["quorum"] == false
    });
    let health = get(&survivor, "/health");
    assert!(health.contains("no quorum") && health.contains("no primary for"), "{health}");
    let body: Value = serde_json::from_str(health.split_once("\r\n\r\n").unwrap().1).unwrap();
    let counts = &body["partitions"];
    assert!(counts["total"] == 256 && counts["served"].as_u64() < Some(128), "{body}");
    let (code, printed, problems) = cluster.run(&["status"]);
    assert_eq!(code, 0, "{problems}");
    assert_first("status", &printed);
    for line in printed.lines().filter(|line| line.starts_with("node 2") || line.starts_with("node 3")) {
        assert!(line.contains(": silent"), "{line}");
    }
    for list in ["list", "managers"] {
        let (code, printed, _) = cluster.run(&["node", list]);
        assert_eq!((code, printed.matches("silent").count()), (0, 2), "{printed}");
        assert_first(list, &printed);
        // The JSON has no warning text in it.
        let (code, printed, problems) = cluster.run(&["node", list, "--json"]);
        let listed: Value =
            printed.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()).collect();
        assert!(code == 0 && listed[1]["state"] == "silent", "{printed}");
        assert_first(list, &problems);
    }
    for list in ["keyspace", "token"] {
        for format in [&[][..], &["--json"]] {
            let (code, printed, problems) = cluster.run(&[&[list, "list"], format].concat());
            assert_eq!((code, printed.contains("QUORUM")), (0, false), "{printed}");
            assert_first(list, &problems);
        }
    }
    let keyspace = cluster.json(&["keyspace", "list"]).remove(0);
    assert!(keyspace["quorum"] == false && keyspace["age_ms"].as_u64() > Some(0), "{keyspace}");
    for recover in [&["recover"][..], &["recover", "--accept-loss", "--all-lost"]] {
        let (code, printed, problems) = cluster.run(recover);
        assert!(code == 3 && !printed.contains("nothing to recover"), "{code} {printed}");
        assert!(problems.contains("recover --control-group"), "{problems}");
        assert_first("recover", &printed);
    }
    let (code, printed, _) = cluster.run(&["doctor"]);
    assert_eq!(code, 1, "{printed}");
    assert_first("doctor", &printed);
    let first = printed
        .lines()
        .filter(|line| line.starts_with("ok") || line.starts_with("WARNING  ") || line.starts_with("PROBLEM"))
        .find(|line| !["open-files", "disk-", "secrets"].iter().any(|check| line.contains(check)));
    assert!(first.is_some_and(|line| line.contains("PROBLEM") && line.contains("no quorum")), "{printed}");
    assert!(
        !printed.contains("firewall")
            && printed.matches("is up\n").count() == 1
            && printed.contains("recover --control-group"),
        "{printed}"
    );
    let (code, printed, _) = cluster.run(&["top", "--once", "--interval", "100ms"]);
    assert_eq!(code, 0);
    assert!(printed.starts_with("NO QUORUM: 1 of 3 managers") && printed.contains("troubles"), "{printed}");
    let top = cluster.json(&["top", "--once", "--interval", "100ms"]).remove(0);
    assert!(top["view"]["quorum"] == false && top["total"]["troubles"].as_f64() >= Some(1.0), "{top}");

    assert_operations_say_what_is_missing(&cluster);
    assert_redis_reports_lost_quorum(&redis_address);

    let of = |name: &str| metric(&survivor, name);
    assert_eq!((of("serving"), of("control_quorum"), of("control_leader")), (0, 0, 0));
    assert_eq!((of("control_managers"), of("control_managers_answering"), of("nodes_silent")), (3, 1, 2));
    assert!(of("troubles") >= 1 && of("control_leader_seconds") >= 1);
    assert_eq!(of("groups_without_primary") + of("groups_stuck"), of("groups"), "all stand still");
    let log = cluster.log(0);
    assert_eq!(log.matches("no quorum: 1 of 3 managers").count(), 1, "{log}");

    // With the other managers there is a quorum again, and every command works.
    cluster.start_together(&[1, 2]);
    cluster.wait_for("there is a quorum", |status| {
        status["view"]["quorum"] == true
            && status["view"]["no_primary"] == 0
            && status["view"]["silent"] == Value::Array(vec![])
    });
    assert!(get(&survivor, "/health").starts_with("HTTP/1.1 200 "));
    assert_eq!((of("serving"), of("control_quorum")), (1, 1));
    wait_for("Redis reports it", redis_info, |info| info.contains("cluster_state:ok\r\n"));
    let (_, _, problems) = cluster.run(&["keyspace", "list"]);
    assert_eq!(problems, "", "the list is as new as the map");
    assert_eq!(cluster.json(&["keyspace", "list"]).remove(0)["quorum"], true);
    let log = cluster.log(0);
    assert!(log.contains("has a leader again"), "{log}");
}

#[test]
fn waiting_bootstrap_node_names_missing_members() {
    let folder = crate::support::folder();
    let mut cluster = NodeCluster::start_first(folder.path(), 3);
    let endpoints = cluster.endpoints();
    wait_for(
        "it names the nodes that it waits for",
        || cluster.log(0),
        |log| log.contains("waiting for the other bootstrap members"),
    );
    let (health, log) = (get(&endpoints[0], "/health"), cluster.log(0));
    assert!(health.starts_with("HTTP/1.1 503 ") && !health.contains("reads its data"), "{health}");
    let (code, _, refused) = cluster.run(&["kv", "lookup", "a"]);
    assert!(
        code == 3 && !refused.contains("keyspace create") && refused.contains("has not joined a cluster yet"),
        "{refused}"
    );
    let (code, _, status) = cluster.run(&["status"]);
    assert_eq!(code, 3, "{status}");
    for text in [&health, &log, &refused, &status] {
        assert!(text.contains(&endpoints[1]) && text.contains(&endpoints[2]), "{text}");
    }
    cluster.start_others();
    assert!(get(&endpoints[0], "/health").starts_with("HTTP/1.1 200 "));
    // Nodes are numbered by their positions.
    let status = cluster.status();
    for (place, node) in (1..).zip(status["nodes"].as_array().unwrap()) {
        assert_eq!(
            (&node["id"], &node["manager"]),
            (&Value::from(place), &Value::from(endpoints[place - 1].as_str()))
        );
    }
    // Copies are named by these numbers, as `partition move` takes them.
    let (_, listed, _) = cluster.run(&["partition", "list"]);
    let mut lines = listed.lines();
    assert!(lines.next().is_some_and(|heading| heading.contains("NODE:INSTANCE")), "{listed}");
    let one: Vec<&str> = lines.next().unwrap().split('\t').collect();
    let (node, instance) = one[2].split_once(':').unwrap();
    let of_it = &status["nodes"][node.parse::<usize>().unwrap() - 1]["instances"][0]["id"];
    assert_eq!(of_it.to_string(), instance, "{listed}");
}

#[test]
fn node_death_and_failovers_are_logged_in_one_line() {
    let folder = crate::support::folder();
    let mut cluster = NodeCluster::start(folder.path(), 3);
    cluster.wait_until_complete();
    let leader = cluster.status()["view"]["leader"].as_u64().unwrap();
    let dies = if leader == 3 { 1 } else { 2 };
    cluster.kill(dies);
    let survivors: Vec<usize> = (0..3).filter(|at| *at != dies).collect();
    let (decided, took_over) =
        (format!("node {} is down, as node {leader}", dies + 1), format!("of node {}", dies + 1));
    for at in &survivors {
        wait_for("the failure is logged", || cluster.log(*at), |log| log.contains(&decided));
        // A log of warnings only, as of `zerohop up`, has this line too.
        let is_warned = cluster.log(*at).lines().any(|line| line.contains(&decided) && line.contains("WARN"));
        assert_eq!(is_warned, *at as u64 + 1 == leader);
    }
    let takeovers = |at: &usize| -> Vec<String> {
        let log = cluster.log(*at);
        let lines =
            log.lines().filter(|line| line.contains("took over as primary") && line.contains(&took_over));
        lines.map(str::to_owned).collect()
    };
    // The in-sync replicas of its partitions may all be on one of the others.
    wait_for(
        "the takeover is reported",
        || survivors.iter().map(takeovers).collect(),
        |reported: &Vec<Vec<String>>| reported.iter().any(|lines| !lines.is_empty()),
    );
    for lines in survivors.iter().map(takeovers) {
        assert!(lines.len() <= 1 && lines.iter().all(|line| line.contains("WARN")), "{lines:?}");
    }
}

#[test]
fn memory_keyspace_causes_one_alert_after_kill_and_none_after_stop() {
    let folder = crate::support::folder();
    let mut cluster = NodeCluster::start(folder.path(), 3);
    let create =
        ["keyspace", "create", "scratch", "--durability", "memory", "--replicas", "1", "--partitions", "256"];
    assert_eq!(cluster.run(&create).0, 0);
    cluster.wait_until_complete();
    // The alerts of a node, as any node reports them.
    let troubles = |cluster: &NodeCluster, node: usize| {
        let (code, printed, _) = cluster.run(&["status", "--json", "--endpoint", &cluster.endpoints()[node]]);
        assert_eq!(code, 0, "{printed}");
        let report: Value = serde_json::from_str(&printed).unwrap();
        let troubles = report["nodes"][node]["troubles"].as_array().unwrap();
        troubles.iter().map(|trouble| trouble.as_str().unwrap().to_owned()).collect::<Vec<String>>()
    };
    cluster.stop(1);
    cluster.start_again(1);
    cluster.wait_until_complete();
    for node in 0..3 {
        assert_eq!(troubles(&cluster, node), Vec::<String>::new(), "a clean shutdown is no trouble");
    }
    let primaries = |status: &Value| status["groups"]["recovering"] == 0 && status["groups"]["lost"] == 0;
    cluster.kill(1);
    cluster.start_again(1);
    cluster.wait_for("all is served", primaries);
    let listed = cluster.list(&["partition", "list", "scratch"]);
    let of_node = listed.as_array().unwrap().iter().filter(|one| one["primary_node"] == 2).count();
    assert!(of_node > 32, "{of_node}");
    let line = format!(
        "keyspace scratch: durability memory: everything of {of_node} of 256 partitions is gone with the process of node 2"
    );
    wait_for(
        "its node tells it",
        || troubles(&cluster, 1),
        |reported| reported.iter().any(|one| one.contains(&line)),
    );
    assert_eq!(troubles(&cluster, 1).iter().filter(|one| one.contains("scratch")).count(), 1);
    for other in [0, 2] {
        assert!(!troubles(&cluster, other).iter().any(|one| one.contains("scratch")), "it has none of these");
    }
    assert!(cluster.metric(1, "troubles") >= 1);
    // The alert remains until an operator acknowledges it, over restarts and at every node.
    cluster.stop(1);
    cluster.start_again(1);
    cluster.wait_until_complete();
    let of_scratch =
        |reported: &[String]| reported.iter().filter(|one| one.contains("keyspace scratch")).count();
    wait_for("it is reported again", || troubles(&cluster, 1), |reported| of_scratch(reported) == 1);
    assert!(cluster.metric(1, "troubles") >= 1);
    let ends = "`zerohop recover acknowledge scratch` ends this report";
    assert!(troubles(&cluster, 1).iter().any(|one| one.contains(ends)));
    // A script with an empty variable passes this.
    let (code, _, why) = cluster.run(&["recover", "acknowledge", ""]);
    assert!(code == 3 && why.contains("there is no keyspace \"\""), "{code} {why}");
    let (code, printed, _) = cluster.run(&["recover", "acknowledge", "none"]);
    assert_eq!((code, printed.as_str()), (3, ""));
    let (code, printed, _) = cluster.run(&["recover", "acknowledge", "default"]);
    assert!(code == 0 && printed.contains("Nothing is reported missing in keyspace default"), "{printed}");
    assert_eq!(of_scratch(&troubles(&cluster, 1)), 1);
    let (code, printed, _) = cluster.run(&["recover", "acknowledge", "scratch"]);
    assert!(
        code == 0
            && printed.starts_with(&format!("The missing data of {of_node} partitions in keyspace scratch")),
        "{printed}"
    );
    wait_for("it is reported no more", || troubles(&cluster, 1), |reported| reported.is_empty());
    wait_for("nor counted", || cluster.metric(1, "troubles"), |troubles| *troubles == 0);
    cluster.stop(1);
    cluster.start_again(1);
    cluster.wait_until_complete();
    for node in 0..3 {
        assert_eq!(troubles(&cluster, node), Vec::<String>::new(), "nor after a restart");
    }
    cluster.kill(1);
    cluster.start_again(1);
    cluster.wait_for("all is served", primaries);
    wait_for("the next loss is reported", || troubles(&cluster, 1), |reported| of_scratch(reported) == 1);
    // The alert is gone with the keyspace.
    assert_eq!(cluster.run(&["keyspace", "drop", "scratch", "--yes"]).0, 0);
    wait_for(
        "it is gone",
        || troubles(&cluster, 1),
        |reported| !reported.iter().any(|one| one.contains("scratch")),
    );
}
