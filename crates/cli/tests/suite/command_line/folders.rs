//! Data folders of `zerohop up`, also after an interrupted start.

use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use zerohop_server::LocalCluster;

use crate::support::folder;
use crate::support::ports::ports;
use crate::support::process::{RunningProcess, pause};
use crate::support::serving::{ServingProgram, code, output, pid, stderr, zerohop};
use crate::support::wait_for;

/// `zerohop up` of nodes with one instance each.
fn up(data: &Path, port: u16, arguments: &[&str]) -> Command {
    let mut command = zerohop(&["up", "--instances", "1", "--json", "--log-level", "error"]);
    command.arg("--port").arg(port.to_string()).arg("--data").arg(data).args(arguments);
    command
}

/// Ports of three nodes with one instance each.
fn three() -> u16 {
    ports(6)
}

fn ids(cluster: &ServingProgram) -> Vec<u64> {
    let mut ids: Vec<u64> =
        cluster.ready["nodes"].as_array().unwrap().iter().map(|node| node["id"].as_u64().unwrap()).collect();
    ids.sort_unstable();
    ids
}

/// Waits until the cluster's three nodes, and no others, are up, and every partition has all of its
/// copies.
fn wait_until_complete(cluster: &ServingProgram) {
    let look = || cluster.json(&["status"]);
    let status = wait_for("three nodes are up", look, |status: &Value| {
        let nodes = status["nodes"].as_array().unwrap();
        let groups = &status["groups"];
        let is_served = ["below_min_in_sync", "rebuilding", "recovering", "down", "lost"]
            .iter()
            .all(|one| groups[one] == 0);
        nodes.len() >= 3 && nodes.iter().all(|node| node["state"] == "up") && is_served
    });
    assert_eq!(status["nodes"].as_array().unwrap().len(), 3, "{status}");
    assert_eq!(ids(cluster).len(), 3);
}

#[test]
fn folders_without_data_do_not_determine_node_count() {
    for left in [&[1][..], &[1, 3]] {
        let folder = folder();
        let data = folder.path().join("data");
        for node in left {
            std::fs::create_dir_all(data.join(format!("node-{node}/node"))).unwrap();
            std::fs::write(data.join(format!("node-{node}/node/lock")), "").unwrap();
        }
        let cluster = ServingProgram::start(up(&data, three(), &[]));
        wait_until_complete(&cluster);
    }
}

#[test]
fn node_count_may_change_until_data_exists() {
    let folder = folder();
    let port = three();
    let address = |behind: u16| ([127, 0, 0, 1], port + behind).into();
    LocalCluster::new(vec![address(0), address(2)]).unwrap().write(folder.path()).unwrap();
    std::fs::create_dir(folder.path().join("node-1")).unwrap();
    let cluster = ServingProgram::start(up(folder.path(), port, &["--nodes", "3"]));
    wait_until_complete(&cluster);
    assert_eq!(cluster.end_with(Signal::INT), Some(0));
    let other = output(up(folder.path(), port, &["--nodes", "2"]), b"");
    assert_eq!(code(&other), 2, "{other:?}");
    assert!(stderr(&other).contains("the data is that of 3 nodes"), "{other:?}");
    // The state that programs without this file have left.
    std::fs::remove_file(folder.path().join("cluster")).unwrap();
    wait_until_complete(&ServingProgram::start(up(folder.path(), port, &[])));
}

/// The command lines, with this path in them, of all processes.
fn processes_with(path: &Path) -> Vec<String> {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.filter_map(|one| std::fs::read(one.path().join("cmdline")).ok());
    let lines = lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " "));
    lines.filter(|line| line.contains(path.to_str().unwrap())).collect()
}

/// The command as a script starts it behind `&`: with SIGINT and SIGQUIT ignored.
fn in_background(command: &Command) -> Command {
    let mut shell = Command::new("sh");
    shell
        .args(["-c", r#"trap "" INT QUIT; exec "$@""#, "sh"])
        .arg(command.get_program())
        .args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    shell
}

/// The first start is killed as soon as it has made one of these files, on the same ports or on
/// others.
#[test]
fn killed_first_start_is_continued_by_the_next() {
    let steps = [
        "cluster",
        "node-1",
        "node-2/node/lock",
        "node-1/node/control.log",
        "node-3/node/control.log",
        "node-2/node/member",
        "node-1/instance-00",
        "node-3/instance-00/life",
    ];
    for (place, step) in steps.iter().enumerate() {
        let folder = folder();
        let data = folder.path().join("data");
        let port = three();
        let mut command = in_background(&up(&data, port, &["--nodes", "3"]));
        let mut first = RunningProcess::start(command.stdin(Stdio::null()).stdout(Stdio::null()));
        let made = data.join(step);
        wait_for(&format!("{step} is made"), || made.exists(), |is_made| *is_made);
        first.kill().unwrap();
        first.ended();
        // Its nodes end when they see its end, and until then they lock their folders.
        wait_for("its nodes end", || processes_with(&data), Vec::is_empty);
        let again = if place % 2 == 0 { port } else { three() };
        eprintln!("killed once {step} was made; started again at {again}, first at {port}");
        let cluster = ServingProgram::start(up(&data, again, &[]));
        wait_until_complete(&cluster);
    }
}

/// Each start was interrupted at another step.
#[test]
fn killed_bootstrap_nodes_are_joined_by_later_ones() {
    for (begun, step) in
        [(&[1][..], "control.log"), (&[2], "control.log"), (&[1, 3], "member"), (&[1, 2, 3], "member")]
    {
        let folder = folder();
        let port = three();
        let hosts: Vec<String> = (0..3).map(|node| format!("127.0.0.1:{}", port + 2 * node)).collect();
        let cluster = LocalCluster::new(hosts.iter().map(|host| host.parse().unwrap()).collect()).unwrap();
        cluster.write(folder.path()).unwrap();
        let start = |node: &usize| {
            let mut command = zerohop(&["node", "--instances", "1", "--log-level", "error", "--bootstrap"]);
            command.args(["--listen", &hosts[node - 1], "--hosts", &hosts.join(",")]);
            command.args(["--bootstrap-addresses", &hosts.join(","), "--cluster-name", &cluster.name()]);
            command.arg("--data").arg(folder.path().join(format!("node-{node}")));
            RunningProcess::start(command.stdin(Stdio::null()).stdout(Stdio::null()))
        };
        let mut nodes: Vec<RunningProcess> = begun.iter().map(start).collect();
        for node in begun {
            let made = folder.path().join(format!("node-{node}/node/{step}"));
            wait_for(&format!("{} is made", made.display()), || made.exists(), |is_made| *is_made);
        }
        for node in &mut nodes {
            node.kill().unwrap();
            node.ended();
        }
        eprintln!("{begun:?} had {step}");
        wait_until_complete(&ServingProgram::start(up(folder.path(), port, &[])));
    }
}

#[test]
fn corrupt_cluster_file_is_refused_with_a_remedy() {
    let folder = folder();
    std::fs::write(folder.path().join("cluster"), "zerohopu and no more").unwrap();
    let refused = output(up(folder.path(), three(), &[]), b"");
    assert_eq!(code(&refused), 3, "{refused:?}");
    assert!(stderr(&refused).contains("damaged"), "{refused:?}");
    assert!(!folder.path().join("node-1").exists(), "nothing was touched");
}

fn managers(cluster: &ServingProgram) -> Vec<String> {
    let managers = cluster.list(&["node", "managers"]);
    let mut at: Vec<String> =
        managers.as_array().unwrap().iter().map(|one| one["manager"].as_str().unwrap().to_owned()).collect();
    at.sort();
    at
}

fn listening(cluster: &ServingProgram) -> Vec<String> {
    let mut at: Vec<String> = cluster.ready["nodes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|node| node["manager"].as_str().unwrap().to_owned())
        .collect();
    at.sort();
    at
}

/// Waits until the cluster has all nodes at their present addresses, and looks up what was stored
/// before.
fn has_moved(cluster: &ServingProgram, stored: &[String]) {
    wait_until_complete(cluster);
    wait_for("the control group knows the addresses", || managers(cluster), |at| *at == listening(cluster));
    for key in stored {
        assert_eq!(cluster.ok(&["kv", "lookup", key]).trim_end(), "value", "{key}");
    }
}

#[test]
fn cluster_restarts_at_other_ports() {
    let folder = folder();
    let data = folder.path().join("data");
    let port = three();
    let mut stored = Vec::new();
    let mut store = |cluster: &ServingProgram| {
        let key = format!("key-{}", stored.len());
        cluster.ok(&["kv", "insert", &key, "value"]);
        stored.push(key);
        stored.clone()
    };
    let first = ServingProgram::start(up(&data, port, &["--nodes", "3"]));
    // Node 1 is in `node-1`, whatever the order in which nodes joined.
    let ids: Vec<u64> =
        first.ready["nodes"].as_array().unwrap().iter().map(|node| node["id"].as_u64().unwrap()).collect();
    assert_eq!(ids, [1, 2, 3]);
    wait_until_complete(&first);
    store(&first);
    assert_eq!(first.end_with(Signal::INT), Some(0));
    // Another cluster uses the old ports, and does not know the first cluster.
    let other = ServingProgram::start(up(&folder.path().join("other"), port, &["--nodes", "3"]));
    wait_until_complete(&other);
    let second = ServingProgram::start(up(&data, 0, &[]));
    let known = store(&second);
    has_moved(&second, &known);
    wait_until_complete(&other);
    drop(other);
    // The nodes are killed, and no file records the bootstrap, as in folders of older programs.
    assert_eq!(second.end_with(Signal::KILL), None);
    std::fs::remove_file(data.join("cluster")).unwrap();
    let third = ServingProgram::start(up(&data, port, &[]));
    let known = store(&third);
    has_moved(&third, &known);
    assert_eq!(third.end_with(Signal::INT), Some(0));
    // Each node but the last is at the former address of the next node.
    let fourth = ServingProgram::start(up(&data, port + 2, &["--no-restart"]));
    let known = store(&fourth);
    has_moved(&fourth, &known);
    // The control group is complete: without one node the others have a quorum.
    kill_process(pid(fourth.ready["nodes"][0]["pid"].as_u64().unwrap()), Signal::KILL).unwrap();
    let others = listening(&fourth).into_iter().filter(|at| *at != fourth.endpoint());
    let others = others.collect::<Vec<_>>().join(",");
    let create = || zerohop(&["keyspace", "create", "more", "--endpoint", &others]).output().unwrap();
    wait_for("the others have a quorum", create, |output| code(output) == 0);
}

/// A copy of a folder, as `cp -a` makes it.
fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-a").args([from, to]).status().unwrap();
    assert!(copied.success());
}

#[test]
fn copy_of_running_cluster_needs_a_new_cluster_id() {
    let folder = folder();
    let (data, copied) = (folder.path().join("data"), folder.path().join("copied"));
    let (port, other_port) = (three(), three());
    let original = ServingProgram::start(up(&data, port, &["--nodes", "3"]));
    wait_until_complete(&original);
    original.ok(&["kv", "insert", "key", "value"]);
    assert_eq!(original.end_with(Signal::INT), Some(0));
    copy(&data, &copied);
    let original = ServingProgram::start(up(&data, port, &[]));
    wait_until_complete(&original);
    // All of its nodes, and a single one.
    let one = copied.join("node-2");
    let listen = format!("127.0.0.1:{other_port}");
    let mut alone =
        zerohop(&["node", "--instances", "1", "--listen", &listen, "--join", original.endpoint()]);
    alone.arg("--data").arg(&one);
    for command in [up(&copied, other_port, &[]), alone] {
        let refused = output(command, b"");
        assert_eq!(code(&refused), 3, "{refused:?}");
        let error = stderr(&refused);
        let advice = format!("zerohop folder new-cluster {}", copied.display());
        assert!(error.contains("is served by another process") && error.contains(&advice), "{error}");
    }
    wait_until_complete(&original);
    original.ok(&["kv", "insert", "of the original", "value"]);

    let new = |folder: &Path| {
        let mut command = zerohop(&["folder", "new-cluster", "--json"]);
        command.arg(folder);
        output(command, b"")
    };
    let running = new(&data);
    assert_eq!(code(&running), 3, "{running:?}");
    assert!(stderr(&running).contains("another zerohop process"), "{running:?}");
    let made = new(&copied);
    assert_eq!(code(&made), 0, "{made:?}");
    let made: Value = serde_json::from_slice(&made.stdout).unwrap();
    assert_eq!(made["folders"], 3);
    let copy = ServingProgram::start(up(&copied, other_port, &[]));
    has_moved(&copy, &["key".to_owned()]);
    let status = copy.json(&["status"]);
    assert_eq!(status["cluster"], made["cluster"]);
    assert_ne!(status["cluster"], original.json(&["status"])["cluster"]);
    assert_eq!(code(&copy.run(&["kv", "lookup", "of the original"])), 1);
    copy.ok(&["kv", "insert", "of the copy", "value"]);
    has_moved(&original, &["key".to_owned(), "of the original".to_owned()]);
    assert_eq!(code(&original.run(&["kv", "lookup", "of the copy"])), 1);
}

/// As a suspended machine does, or a container that is paused.
#[test]
fn copy_of_paused_cluster_is_refused() {
    let folder = folder();
    let (data, copied) = (folder.path().join("data"), folder.path().join("copied"));
    let original = ServingProgram::start(up(&data, three(), &["--nodes", "3"]));
    wait_until_complete(&original);
    original.ok(&["kv", "insert", "key", "value"]);
    copy(&data, &copied);
    let processes = original.ready["nodes"].as_array().unwrap().clone();
    let processes: Vec<Pid> = processes.iter().map(|process| pid(process["pid"].as_u64().unwrap())).collect();
    processes.iter().for_each(|process| pause(*process));
    let refused = output(up(&copied, three(), &[]), b"");
    processes.iter().for_each(|process| kill_process(*process, Signal::CONT).unwrap());
    assert_eq!(code(&refused), 3, "{refused:?}");
    let error = stderr(&refused);
    let advice = format!("zerohop folder new-cluster {}", copied.display());
    assert!(error.contains("is served by another process") && error.contains(&advice), "{error}");
    wait_until_complete(&original);
    original.ok(&["kv", "insert", "later", "value"]);
    let mut new = zerohop(&["folder", "new-cluster"]);
    new.arg(&copied);
    assert_eq!(code(&output(new, b"")), 0);
    wait_until_complete(&ServingProgram::start(up(&copied, three(), &[])));
    original.ok(&["kv", "lookup", "later"]);
}

/// The port that the system has chosen is in no file.
#[test]
fn copy_of_a_node_at_a_chosen_port_gets_a_new_cluster_id() {
    let folder = folder();
    let (data, copied) = (folder.path().join("data"), folder.path().join("copied"));
    let start = |data: &Path| ServingProgram::start(up(data, 0, &["--nodes", "1"]));
    let original = start(&data);
    original.ok(&["kv", "insert", "key", "value"]);
    let before = original.json(&["status"])["cluster"].clone();
    assert_eq!(original.end_with(Signal::INT), Some(0));
    copy(&data, &copied);
    let mut new = zerohop(&["folder", "new-cluster"]);
    new.arg(&copied);
    let made = output(new, b"");
    assert_eq!(code(&made), 0, "{made:?}");
    let again = start(&copied);
    assert_eq!(again.ok(&["kv", "lookup", "key"]), "value");
    assert_ne!(again.json(&["status"])["cluster"], before);
}

#[test]
fn folder_of_one_of_three_nodes_is_refused_with_the_reason() {
    let folder = folder();
    let (data, part) = (folder.path().join("data"), folder.path().join("part"));
    let cluster = ServingProgram::start(up(&data, three(), &["--nodes", "3"]));
    wait_until_complete(&cluster);
    assert_eq!(cluster.end_with(Signal::INT), Some(0));
    std::fs::create_dir(&part).unwrap();
    copy(&data.join("node-2"), &part.join("node-2"));
    for options in [&[][..], &["--nodes", "1"]] {
        let refused = output(up(&part, three(), options), b"");
        assert_eq!(code(&refused), 3, "{refused:?}");
        assert!(stderr(&refused).contains("has the data of 1 of at least"), "{refused:?}");
    }
}

#[test]
fn folder_that_is_there_twice_is_refused_before_a_node_starts() {
    let folder = folder();
    let data = folder.path().join("data");
    let cluster = ServingProgram::start(up(&data, three(), &["--nodes", "3"]));
    wait_until_complete(&cluster);
    assert_eq!(cluster.end_with(Signal::INT), Some(0));
    let (second, kept) = (data.join("node-2"), data.join("kept"));
    std::fs::rename(&second, &kept).unwrap();
    copy(&data.join("node-1"), &second);
    let refused = output(up(&data, three(), &[]), b"");
    assert_eq!(code(&refused), 3, "{refused:?}");
    assert!(
        stderr(&refused).contains("node-1 and") && stderr(&refused).contains("are both of node 1"),
        "{refused:?}"
    );
    std::fs::remove_dir_all(&second).unwrap();
    std::fs::rename(&kept, &second).unwrap();
    wait_until_complete(&ServingProgram::start(up(&data, three(), &[])));
}

#[test]
fn folders_of_different_clusters_and_folders_without_data_are_refused() {
    let folder = folder();
    let data = folder.path().join("data");
    let cluster = ServingProgram::start(up(&data, three(), &["--nodes", "3"]));
    wait_until_complete(&cluster);
    assert_eq!(cluster.end_with(Signal::INT), Some(0));
    let new = |folder: &Path, id: &str| {
        let mut command = zerohop(&["folder", "new-cluster", "--id", id]);
        command.arg(folder);
        output(command, b"")
    };
    let id = "00112233445566778899aabbccddeeff";
    // The state after an interruption.
    assert_eq!(code(&new(&data.join("node-2"), id)), 0);
    let mixed = output(up(&data, three(), &[]), b"");
    assert_eq!(code(&mixed), 3, "{mixed:?}");
    assert!(stderr(&mixed).contains("new-cluster"), "{mixed:?}");
    assert_eq!(code(&new(&data, id)), 3, "it has an id of its own");
    assert_eq!(code(&new(&folder.path().join("none"), id)), 3);
    assert!(!folder.path().join("none").exists());
    assert_eq!(code(&new(&data, "0")), 2);
    let mut again = zerohop(&["folder", "new-cluster"]);
    again.arg(&data);
    assert_eq!(code(&output(again, b"")), 0);
    wait_until_complete(&ServingProgram::start(up(&data, three(), &[])));
}

#[test]
fn start_says_that_it_waits_for_a_silent_program_at_the_old_ports() {
    let folder = folder();
    let (data, log) = (folder.path().join("data"), folder.path().join("log"));
    let first = ServingProgram::start(up(&data, 0, &["--nodes", "3"]));
    let old = listening(&first);
    assert_eq!(first.end_with(Signal::INT), Some(0));
    let _silent: Vec<TcpListener> = old.iter().map(|at| TcpListener::bind(at).unwrap()).collect();
    let second = ServingProgram::start_with_log(up(&data, 0, &[]), &log);
    wait_until_complete(&second);
    let log_text = std::fs::read_to_string(&log).unwrap();
    for at in old {
        assert!(log_text.contains(&format!("waiting for an answer from {at}")), "{at}: {log_text}");
    }
}

/// `timeout` signals a program and its group, and the end of a terminal is a signal and the end of the input.
#[test]
fn several_signals_at_once_stop_nodes_in_order() {
    let folder = folder();
    let data = folder.path().join("data");
    let port = three();
    let mut first = ServingProgram::start(up(&data, port, &["--nodes", "1"]));
    first.ok(&["kv", "insert", "key", "value"]);
    // All of them wait for it when it goes on.
    pause(first.pid());
    for signal in [Signal::INT, Signal::TERM, Signal::HUP, Signal::CONT] {
        kill_process(first.pid(), signal).unwrap();
    }
    assert_eq!(first.wait(), Some(0));
    let second = ServingProgram::start(up(&data, port, &[]));
    assert_eq!(second.ok(&["kv", "lookup", "key"]).trim_end(), "value");
}

#[test]
fn majority_of_nodes_is_served_without_a_missing_folder() {
    let folder = folder();
    let (data, log) = (folder.path().join("data"), folder.path().join("log"));
    let port = three();
    let first = ServingProgram::start(up(&data, port, &["--nodes", "3"]));
    wait_until_complete(&first);
    first.ok(&["kv", "insert", "key", "value"]);
    assert_eq!(first.end_with(Signal::INT), Some(0));
    let (place, elsewhere) = (data.join("node-2"), folder.path().join("elsewhere"));
    std::fs::rename(&place, &elsewhere).unwrap();
    let second = ServingProgram::start_with_log(up(&data, port, &[]), &log);
    assert_eq!(ids(&second), [1, 3]);
    let log_text = || std::fs::read_to_string(&log).unwrap();
    let log_text = wait_for("the missing folder is named", log_text, |log_text| {
        log_text.contains("zerohop node remove ID")
    });
    assert!(log_text.contains(&format!("{} is missing or empty", place.display())), "{log_text}");
    assert!(!place.exists(), "it is made");
    assert_eq!(second.ok(&["kv", "lookup", "key"]).trim_end(), "value");
    second.ok(&["kv", "insert", "key", "value"]);
    assert_eq!(second.end_with(Signal::INT), Some(0));
    // The folder comes back.
    std::fs::rename(&elsewhere, &place).unwrap();
    let third = ServingProgram::start(up(&data, port, &[]));
    has_moved(&third, &["key".to_owned()]);
    assert_eq!(third.end_with(Signal::INT), Some(0));

    // It is lost: the command that the message names starts a new node in its place.
    std::fs::remove_dir_all(&place).unwrap();
    let fourth = ServingProgram::start_with_log(up(&data, port, &[]), &log);
    let log_text = || std::fs::read_to_string(&log).unwrap();
    let log_text =
        wait_for("a command is named", log_text, |log_text| log_text.contains("zerohop node remove ID"));
    let start = log_text.split('`').find(|part| part.starts_with("zerohop node --data")).expect("a command");
    let arguments: Vec<&str> = start.split(' ').skip(1).chain(["--json"]).collect();
    let new = ServingProgram::start(zerohop(&arguments));
    assert_eq!(new.ready["id"], 4);
    assert_eq!(new.end_with(Signal::TERM), Some(0));
    assert_eq!(fourth.end_with(Signal::INT), Some(0));
    let fifth = ServingProgram::start(up(&data, port, &[]));
    assert_eq!(ids(&fifth), [1, 3, 4]);
    assert_eq!(fifth.ok(&["kv", "lookup", "key"]).trim_end(), "value");
    assert_eq!(fifth.end_with(Signal::INT), Some(0));

    // One node is no majority.
    for node in ["node-1", "node-3"] {
        std::fs::rename(data.join(node), folder.path().join(node)).unwrap();
    }
    let refused = output(up(&data, port, &[]), b"");
    assert_eq!(code(&refused), 3, "{refused:?}");
    let error = stderr(&refused);
    assert!(
        error.contains("are missing or empty, and 1 node of 3 cannot serve without the others"),
        "{error}"
    );
}

/// What cannot be read is not taken for missing, for which the advice is to replace the node.
#[test]
fn node_folder_that_cannot_be_listed_is_reported_as_such() {
    let folder = folder();
    let data = folder.path().join("data");
    std::fs::create_dir(&data).unwrap();
    std::fs::write(data.join("node-2"), "a file in place of a folder").unwrap();
    let ended = up(&data, three(), &[]).output().unwrap();
    let error = stderr(&ended);
    let path = data.join("node-2");
    assert!(error.contains(&format!("{}: Not a directory", path.display())), "{error}");
    assert!(code(&ended) != 0 && !error.contains("missing"), "{error}");
}
