//! How processes start and end, and how the end of one process ends others.

use std::io::Write;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::support::ports::ports;
use crate::support::process::{RunningProcess, pause};
use crate::support::serving::{ServingProgram, code, pid, stderr, stdout, wait_until_exited, zerohop};
use crate::support::wait_for;

#[test]
fn ctrl_c_stops_cluster_cleanly_and_restart_finds_its_data() {
    let folder = crate::support::folder();
    let data = folder.path().to_str().unwrap();
    for (round, signal) in [Signal::INT, Signal::TERM, Signal::HUP].into_iter().enumerate() {
        let cluster = ServingProgram::up(&["--data", data]);
        if round > 0 {
            assert_eq!(cluster.ok(&["kv", "lookup", "k"]), format!("of round {}", round - 1));
        }
        cluster.ok(&["kv", "insert", "k", &format!("of round {round}")]);
        let node = cluster.node_pid();
        assert_eq!(cluster.end_with(signal), Some(0), "{signal:?}");
        wait_until_exited(node);
    }
}

#[test]
fn cluster_that_nohup_has_started_goes_on_without_its_terminal() {
    let mut command = Command::new("nohup");
    let up = zerohop(&["up", "--nodes", "1", "--memory", "--port", "0", "--json"]);
    command.arg(up.get_program()).args(up.get_args());
    let cluster = ServingProgram::start(command);
    // A second signal, which the process handles, comes after the ignored one.
    kill_process(cluster.node_pid(), Signal::HUP).unwrap();
    kill_process(cluster.pid(), Signal::HUP).unwrap();
    cluster.ok(&["kv", "insert", "k", "v"]);
    assert_eq!(cluster.end_with(Signal::INT), Some(0));
}

#[test]
fn killed_cluster_leaves_no_node_processes() {
    let cluster = ServingProgram::in_memory();
    let node = cluster.node_pid();
    assert_eq!(cluster.end_with(Signal::KILL), None);
    wait_until_exited(node);
}

#[test]
fn ends_with_input_option_stops_cluster_at_end_of_input() {
    let arguments = ["up", "--nodes", "1", "--memory", "--port", "0", "--json", "--ends-with-input"];
    let mut child = RunningProcess::start(zerohop(&arguments).stdin(Stdio::piped()).stdout(Stdio::piped()));
    let line = child.first_line();
    let ready: serde_json::Value = serde_json::from_str(&line).unwrap();
    let endpoint = ready["endpoint"].as_str().unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(b"what is written does not matter\n").unwrap();
    let inserted = zerohop(&["kv", "insert", "k", "v", "--endpoint", endpoint]).output().unwrap();
    assert_eq!(code(&inserted), 0, "{inserted:?}");
    drop(input);
    assert_eq!(child.ended().code(), Some(0));
    wait_until_exited(pid(ready["nodes"][0]["pid"].as_u64().unwrap()));
}

#[test]
fn node_death_ends_local_cluster_with_an_error() {
    let mut cluster = ServingProgram::in_memory();
    kill_process(cluster.node_pid(), Signal::KILL).unwrap();
    assert_eq!(cluster.wait(), Some(3));
}

#[test]
fn silent_cluster_is_reported_soon() {
    let cluster = ServingProgram::in_memory();
    pause(cluster.node_pid());
    let output = cluster.run(&["kv", "lookup", "k"]);
    kill_process(cluster.node_pid(), Signal::CONT).unwrap();
    assert_eq!(code(&output), 3, "{output:?}");
    let words = format!("a process listens at {} and does not answer", cluster.endpoint());
    assert!(stderr(&output).contains(&words) && !stderr(&output).contains("zerohop up"), "{output:?}");
    cluster.ok(&["kv", "insert", "k", "v"]);
}

#[test]
fn node_without_parent_process_does_not_start() {
    let arguments = ["node", "--memory", "--listen", "127.0.0.1:0", "--ends-with-parent", "1999999999"];
    let output = zerohop(&arguments).output().unwrap();
    assert_eq!((code(&output), stdout(&output).as_str()), (3, ""));
}

#[test]
fn standalone_node_prints_its_addresses_and_stops_cleanly() {
    let folder = crate::support::folder();
    let mut command =
        zerohop(&["node", "--listen", "127.0.0.1:0", "--instances", "1", "--log-format", "json", "--json"]);
    command.arg("--data").arg(folder.path().join("data"));
    let node = ServingProgram::start(command);
    assert_eq!((&node.ready["id"], node.ready["instances"].as_array().unwrap().len()), (&1.into(), 1));
    let endpoint = node.ready["manager"].as_str().unwrap();
    let status = zerohop(&["status", "--json", "--endpoint", endpoint]).output().unwrap();
    assert_eq!(code(&status), 0, "{status:?}");
    assert_eq!(node.end_with(Signal::INT), Some(0));
}

#[test]
fn instances_use_the_ports_after_the_manager_port() {
    let port = ports(3);
    let arguments = ["--memory", "--instances", "2", "--port", &port.to_string()];
    let cluster =
        ServingProgram::start(zerohop(&[&["up", "--nodes", "1", "--json"], &arguments[..]].concat()));
    let node = &cluster.ready["nodes"][0];
    let addresses = [&node["manager"], &node["instances"][0]["addr"], &node["instances"][1]["addr"]];
    let expected: Vec<String> = (0..3).map(|behind| format!("127.0.0.1:{}", port + behind)).collect();
    assert_eq!(addresses.map(|at| at.as_str().unwrap()).to_vec(), expected);
}

#[test]
fn command_waits_for_a_starting_node() {
    let folder = crate::support::folder();
    let endpoint = format!("127.0.0.1:{}", ports(2));
    let mut command = zerohop(&["node", "--instances", "1", "--log-level", "error", "--listen", &endpoint]);
    let node = RunningProcess::start(command.arg("--data").arg(folder.path()).stdout(Stdio::null()));
    // A refused connection ends a command at once. A node listens before it reads its data.
    let wait_until_it_listens = || {
        let connect = || std::net::TcpStream::connect(&endpoint).map_err(|error| error.kind());
        wait_for("the node's port", connect, Result::is_ok).unwrap();
    };
    wait_until_it_listens();
    let arguments = ["keyspace", "create", "papers", "--partitions", "2048", "--endpoint", &endpoint];
    let created = zerohop(&arguments).output().unwrap();
    // After the kill the next start has much to read.
    drop(node);
    let _node = RunningProcess::start(&mut command);
    wait_until_it_listens();
    let altered =
        zerohop(&["keyspace", "alter", "papers", "--durability", "sync", "--endpoint", &endpoint]).output();
    for output in [created, altered.unwrap()] {
        assert_eq!(code(&output), 0, "{output:?}");
    }
}

#[test]
fn first_node_that_fails_ends_the_start_of_all() {
    let (port, folder) = (ports(6), crate::support::folder());
    let (text, data) = (port.to_string(), folder.path().join("data"));
    let data = data.to_str().unwrap();
    let arguments = ["up", "--data", data, "--nodes", "3", "--instances", "1", "--port", &text];
    let cluster = ServingProgram::start(zerohop(&[&arguments[..], &["--json"]].concat()));
    assert_eq!(cluster.end_with(Signal::TERM), Some(0));
    // Node 1 could wait for the others for ten minutes.
    let _others = [2, 4].map(|behind| std::net::TcpListener::bind(("127.0.0.1", port + behind)).unwrap());
    let output = zerohop(&arguments).output().unwrap();
    assert_eq!(code(&output), 3, "{output:?}");
    let text = stderr(&output);
    let last = text.lines().last().unwrap();
    assert!(last.contains("did not start: cannot listen at 127.0.0.1:"), "{output:?}");
}

#[test]
fn new_cluster_at_used_ports_is_refused_in_a_line_before_it_makes_folders() {
    let (port, folder) = (ports(6), crate::support::folder());
    let (text, data) = (port.to_string(), folder.path().join("data"));
    let on_disk = ["--data", data.to_str().unwrap()];
    let refused = |options: &[&str], words: &str| {
        let arguments = [&["up", "--nodes", "3", "--instances", "1", "--port", &text], options].concat();
        let output = zerohop(&arguments).output().unwrap();
        assert_eq!((code(&output), stdout(&output).as_str()), (3, ""), "{output:?}");
        let text = stderr(&output);
        assert!(text.lines().count() == 1 && text.contains(words) && text.contains("--port 0"), "{output:?}");
        assert!(!data.exists(), "{output:?}");
    };
    let silent = std::net::TcpListener::bind(("127.0.0.1", port + 3)).unwrap();
    let words = format!("127.0.0.1:{} is in use by another process", port + 3);
    refused(&on_disk, &words);
    refused(&["--memory"], &words);
    drop(silent);
    // The second node of the new cluster would have the port of this manager.
    let other = (port + 2).to_string();
    let _other = ServingProgram::start(zerohop(&[
        "up",
        "--memory",
        "--nodes",
        "1",
        "--instances",
        "1",
        "--port",
        &other,
        "--json",
    ]));
    refused(&on_disk, &format!("127.0.0.1:{other} is in use by another zerohop cluster"));
}

#[test]
fn message_about_an_ended_node_names_the_endpoint_of_another() {
    let folder = crate::support::folder();
    let log = folder.path().join("log");
    let command = zerohop(&["up", "--memory", "--nodes", "3", "--instances", "1", "--port", "0", "--json"]);
    let cluster = ServingProgram::start_with_log(command, &log);
    let second = cluster.ready["nodes"][1]["manager"].as_str().unwrap();
    kill_process(cluster.node_pid(), Signal::KILL).unwrap();
    let words = format!("The others go on: `--endpoint {second}` reaches them");
    let printed =
        wait_for("the endpoint", || std::fs::read_to_string(&log).unwrap(), |text| text.contains(&words));
    // A killed process has printed no reason.
    assert!(
        printed.contains("ended by signal 9 (as by a user") && !printed.contains("messages above"),
        "{printed}"
    );
    assert!(printed.contains("does not start again: its data was in memory"), "{printed}");
    let output = zerohop(&["kv", "insert", "k", "v", "--endpoint", second]).output().unwrap();
    assert_eq!(code(&output), 0, "{output:?}");
}

#[test]
fn command_asks_other_nodes_of_the_local_cluster_when_its_node_is_gone() {
    let folder = crate::support::folder();
    let data = folder.path().join("zerohop-data");
    let mut command = zerohop(&["up", "--nodes", "3", "--instances", "1", "--port", "0", "--json"]);
    command.args(["--no-restart", "--data"]).arg(&data);
    let cluster = ServingProgram::start(command);
    cluster.ok(&["kv", "insert", "k", "v"]);
    let first = cluster.endpoint().to_owned();
    let second = cluster.ready["nodes"][1]["manager"].as_str().unwrap();
    let lookup = |folder: &std::path::Path| {
        let arguments = ["kv", "lookup", "k", "--endpoint", &first];
        zerohop(&arguments).current_dir(folder).output().unwrap()
    };
    let found = lookup(folder.path());
    assert_eq!((stdout(&found).as_str(), stderr(&found).as_str()), ("v", ""), "its node is asked");
    kill_process(cluster.node_pid(), Signal::KILL).unwrap();
    wait_until_exited(cluster.node_pid());
    let found = wait_for("a lookup", || lookup(folder.path()), |found| code(found) == 0);
    assert_eq!(stdout(&found), "v");
    let notice = stderr(&found);
    let words = format!(
        "zerohop: {first} does not answer; another node of the cluster in zerohop-data is asked: {second}"
    );
    assert!(notice.starts_with(&words) && notice.lines().count() == 1, "{notice}");
    // Elsewhere nothing is known of the other nodes.
    let elsewhere = lookup(&data);
    assert_eq!(code(&elsewhere), 3, "{elsewhere:?}");
    assert!(stderr(&elsewhere).contains("connection refused"), "{elsewhere:?}");
}

/// A process that is stopped until this is dropped.
struct StoppedProcess(Pid);

impl StoppedProcess {
    fn stop(process: Pid) -> StoppedProcess {
        pause(process);
        StoppedProcess(process)
    }
}

impl Drop for StoppedProcess {
    fn drop(&mut self) {
        kill_process(self.0, Signal::CONT).unwrap();
    }
}

/// The sockets of the stopped node still accept connections, but it never answers.
#[test]
fn stopped_node_is_skipped_in_any_endpoint_order() {
    let mut command =
        zerohop(&["up", "--nodes", "3", "--instances", "1", "--memory", "--port", "0", "--json"]);
    command.args(["--log-level", "error"]);
    let cluster = ServingProgram::start(command);
    let nodes = cluster.ready["nodes"].as_array().unwrap();
    let managers: Vec<&str> = nodes.iter().map(|node| node["manager"].as_str().unwrap()).collect();
    for node in nodes {
        let mut endpoints = managers.clone();
        endpoints.sort_by_key(|address| *address != node["manager"]);
        let endpoints = endpoints.join(",");
        let still = StoppedProcess::stop(pid(node["pid"].as_u64().unwrap()));
        for command in [&["keyspace", "list"][..], &["status"], &["kv", "insert", "key", "value"]] {
            let output = zerohop(command).args(["--endpoint", &endpoints]).output().unwrap();
            assert_eq!(
                code(&output),
                0,
                "{command:?} with {endpoints}, of which the first stands still: {output:?}"
            );
        }
        drop(still);
        // Two nodes must not be missing at the same time.
        wait_for(
            "all are back",
            || cluster.json(&["status"]),
            |status| status["nodes"].as_array().unwrap().iter().all(|node| node["state"] == "up"),
        );
    }
}

#[test]
fn up_is_ready_after_a_kill_of_all_nodes_once_all_partitions_are_served() {
    let folder = crate::support::folder();
    let data = folder.path().to_str().unwrap();
    let start = || {
        let arguments = ["--nodes", "3", "--port", "0", "--json", "--instances", "1", "--data", data];
        ServingProgram::start(zerohop(&[&["up"], &arguments[..]].concat()))
    };
    let mut cluster = start();
    for round in 0..3 {
        cluster.ok(&["kv", "insert", &format!("key-{round}"), "v"]);
        let nodes = cluster.ready["nodes"].as_array().unwrap().clone();
        assert_eq!(cluster.end_with(Signal::KILL), None);
        nodes.iter().for_each(|node| wait_until_exited(pid(node["pid"].as_u64().unwrap())));
        cluster = start();
        let status = cluster.json(&["status"]);
        let ready = &cluster.ready["partitions"];
        assert_eq!((&ready["total"], &ready["served"]), (&256.into(), &256.into()), "{}", cluster.ready);
        let (view, groups) = (&status["view"], &status["groups"]);
        assert!(view["no_primary"] == 0 && groups["recovering"] == 0 && groups["down"] == 0, "{status}");
    }
    assert_eq!(cluster.end_with(Signal::TERM), Some(0));
}
