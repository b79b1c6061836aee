//! `zerohop up` starts nodes again that end by themselves, and says so.

use std::path::{Path, PathBuf};
use std::process::Output;

use rustix::process::{Pid, Signal, kill_process};

use crate::support::folder::TestFolder;
use crate::support::process::{RunningProcess, pause};
use crate::support::serving::{ServingProgram, code, pid, stderr, wait_until_exited, zerohop};
use crate::support::{report, wait_for};

/// A cluster whose log and folder a test reads.
struct LoggedCluster {
    up: ServingProgram,
    folder: TestFolder,
}

impl LoggedCluster {
    fn start(options: &[&str]) -> LoggedCluster {
        let folder = crate::support::folder();
        let mut command =
            zerohop(&["up", "--instances", "1", "--port", "0", "--json", "--log-level", "error"]);
        command.args(options).arg("--data").arg(folder.path().join("data"));
        LoggedCluster { up: ServingProgram::start_with_log(command, &folder.path().join("log")), folder }
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap()
    }

    fn wait_for_line(&self, words: &str) -> String {
        let log = wait_for(words, || self.log(), |log| log.lines().any(|line| line.contains(words)));
        log.lines().find(|line| line.contains(words)).unwrap().to_owned()
    }

    /// The process of a node, by its number.
    fn node(&self, number: usize) -> Pid {
        pid(self.up.ready["nodes"][number - 1]["pid"].as_u64().unwrap())
    }

    fn node_folder(&self, number: usize) -> PathBuf {
        self.folder.path().join(format!("data/node-{number}"))
    }

    /// Kills a node, and changes its folder before `up` can start it again.
    fn kill_and_change(&self, number: usize, change: impl FnOnce(&Path)) {
        pause(self.up.pid());
        kill_process(self.node(number), Signal::KILL).unwrap();
        // It is a zombie until `up` goes on.
        wait_for("its end", || report::is_alive(self.node(number)), |is_alive| !is_alive);
        change(&self.node_folder(number));
        kill_process(self.up.pid(), Signal::CONT).unwrap();
    }

    /// Stops the cluster, of which no process may be left, and returns the exit code.
    fn end(self, signal: Signal) -> Option<i32> {
        let nodes: Vec<Pid> =
            (1..=self.up.ready["nodes"].as_array().unwrap().len()).map(|number| self.node(number)).collect();
        let code = self.up.end_with(signal);
        nodes.into_iter().for_each(wait_until_exited);
        wait_for("no process is left", || processes_with(self.folder.path()), Vec::is_empty);
        code
    }
}

/// A command in the folder that has the cluster's data as its default.
fn run_beside(data: &Path, endpoint: &str, arguments: &[&str]) -> Output {
    let mut command = zerohop(arguments);
    command.current_dir(data.parent().unwrap()).env("ZEROHOP_ENDPOINT", endpoint);
    command.output().unwrap()
}

/// The processes with this folder in their arguments.
fn processes_with(folder: &Path) -> Vec<u32> {
    let folder = folder.to_str().unwrap();
    let all = std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let has_folder = |process: &u32| {
        std::fs::read_to_string(format!("/proc/{process}/cmdline")).is_ok_and(|line| line.contains(folder))
    };
    all.filter(has_folder).collect()
}

fn damage_member_file(node: &Path) {
    std::fs::write(node.join("node/member"), "no member file").unwrap();
}

#[test]
fn killed_node_starts_again_and_cluster_is_whole() {
    let cluster = LoggedCluster::start(&["--nodes", "3"]);
    cluster.up.ok(&["status", "--wait", "whole", "--timeout", "5m"]);
    cluster.up.ok(&["kv", "insert", "key", "value"]);
    let killed = cluster.node(2);
    kill_process(killed, Signal::KILL).unwrap();
    cluster.wait_for_line(
        "node 2 ended by signal 9 (as by a user, or by the system for lack of memory); it starts again in 1 s",
    );
    let serves = cluster.wait_for_line("node 2 serves again (process ");
    cluster.up.ok(&["status", "--wait", "whole", "--timeout", "5m"]);
    assert_eq!(cluster.up.ok(&["kv", "lookup", "key"]), "value");
    let status = cluster.up.json(&["status"]);
    let process = status["nodes"][1]["pid"].as_u64().unwrap();
    assert!(pid(process) != killed && serves.contains(&format!("(process {process})")), "{serves} {status}");
    assert_eq!(cluster.end(Signal::INT), Some(0));
}

#[test]
fn each_line_of_the_log_names_its_node() {
    let folder = crate::support::folder();
    let mut command =
        zerohop(&["up", "--nodes", "2", "--instances", "1", "--memory", "--port", "0", "--json"]);
    command.args(["--log-level", "info"]);
    let log = folder.path().join("log");
    let up = ServingProgram::start_with_log(command, &log);
    assert_eq!(up.end_with(Signal::INT), Some(0));
    let log = std::fs::read_to_string(log).unwrap();
    assert!(log.lines().all(|line| line.starts_with("node-1: ") || line.starts_with("node-2: ")), "{log}");
    for node in [1, 2] {
        let ready = format!("node-{node}: ");
        assert!(log.lines().any(|line| line.starts_with(&ready) && line.contains("INFO ready")), "{log}");
    }
}

#[test]
fn killed_single_node_starts_again_at_its_address_with_its_data() {
    let cluster = LoggedCluster::start(&["--nodes", "1"]);
    cluster.up.ok(&["keyspace", "create", "papers", "--durability", "sync"]);
    for round in ["1", "2"] {
        cluster.up.ok(&["kv", "insert", "-k", "papers", round, "value"]);
        let status = cluster.up.json(&["status"]);
        kill_process(pid(status["nodes"][0]["pid"].as_u64().unwrap()), Signal::KILL).unwrap();
        let delay = format!("it starts again in {round} s");
        cluster.wait_for_line(&delay);
        let serves =
            || cluster.log().lines().filter(|line| line.contains("serves again")).count().to_string();
        wait_for("it serves again", serves, |count| count == round);
        assert_eq!(cluster.up.ok(&["kv", "lookup", "-k", "papers", round]), "value");
    }
    assert_eq!(cluster.end(Signal::TERM), Some(0));
}

#[test]
fn node_that_cannot_start_again_stays_ended_and_others_serve() {
    let cluster = LoggedCluster::start(&["--nodes", "3"]);
    cluster.up.ok(&["status", "--wait", "whole", "--timeout", "5m"]);
    cluster.kill_and_change(3, damage_member_file);
    let last = cluster.wait_for_line("it stays ended");
    assert!(last.contains("node 3 did not start again: ") && last.contains("node/member: "), "{last}");
    assert!(last.contains("5 times in a row") && last.contains("The others go on: `--endpoint "), "{last}");
    let log = cluster.log();
    // The node itself does not print the reason a second time.
    let reasons = log.lines().filter(|line| line.contains("node/member: "));
    assert!(reasons.clone().all(|line| line.starts_with("zerohop: node 3 did not start again: ")), "{log}");
    let delays = log.lines().filter_map(|line| Some(line.split_once("it starts again in ")?.1));
    let delays: Vec<&str> = delays.collect();
    // The first run counts only if it was short.
    assert!(["1 s", "2 s", "4 s", "8 s", "16 s"].starts_with(&delays[..]) && delays.len() >= 4, "{delays:?}");
    cluster.up.ok(&["kv", "insert", "key", "value"]);
    assert_eq!(cluster.up.ok(&["kv", "lookup", "key"]), "value");
    assert_eq!(cluster.end(Signal::INT), Some(0));
}

#[test]
fn ctrl_c_during_the_delay_ends_all_processes() {
    let cluster = LoggedCluster::start(&["--nodes", "3"]);
    cluster.kill_and_change(1, damage_member_file);
    // The delay of eight seconds begins.
    cluster.wait_for_line("it starts again in 8 s");
    assert_eq!(cluster.end(Signal::INT), Some(0));
}

#[test]
fn commands_say_that_up_is_about_to_start_the_node_again() {
    let cluster = LoggedCluster::start(&["--nodes", "1"]);
    let default = cluster.folder.path().join("zerohop-data");
    std::os::unix::fs::symlink(cluster.folder.path().join("data"), &default).unwrap();
    cluster.kill_and_change(1, damage_member_file);
    cluster.wait_for_line("it starts again in 8 s");
    let endpoint = cluster.up.endpoint().to_owned();
    let run = |arguments: &[&str]| run_beside(&default, &endpoint, arguments);
    let file = default.join("restarting");
    wait_for("the file", || std::fs::read_to_string(&file).unwrap_or_default(), |text| text.ends_with('\n'));
    // The delay does not end while the commands run.
    pause(cluster.up.pid());
    let text = stderr(&run(&["kv", "lookup", "key"]));
    let says = "Node 1 has ended, and `zerohop up` is about to start it again";
    assert!(text.contains(says) && !text.contains("Start a cluster"), "{text}");
    let judged = run(&["doctor"]);
    let text = String::from_utf8_lossy(&judged.stdout);
    assert!(text.contains("node 1 has ended, and `zerohop up` is about to start it again"), "{text}");
    assert!(!text.contains("start a cluster"), "{text}");
    kill_process(cluster.up.pid(), Signal::CONT).unwrap();
    assert_eq!(cluster.end(Signal::INT), Some(0));
    assert!(!file.exists());
}

#[test]
fn last_node_without_its_folder_ends_the_cluster() {
    let mut cluster = LoggedCluster::start(&["--nodes", "1"]);
    cluster.kill_and_change(1, |node| std::fs::remove_dir_all(node).unwrap());
    assert_eq!(cluster.up.wait(), Some(3));
    let log = cluster.log();
    let last = log.lines().last().unwrap();
    assert!(
        last.contains("node 1 did not start again: ") && last.contains("node-1 is missing or empty"),
        "{log}"
    );
    assert!(!cluster.node_folder(1).exists(), "no node has made it again");
}

#[test]
fn node_that_a_signal_or_a_removal_ends_stays_ended() {
    let cluster = LoggedCluster::start(&["--nodes", "4"]);
    cluster.up.ok(&["status", "--wait", "whole", "--timeout", "5m"]);
    let drained = cluster.up.run(&["node", "drain", "4", "--timeout", "5m", "--wait", "5m"]);
    assert_eq!(code(&drained), 0, "{drained:?}");
    let remove = || cluster.up.run(&["node", "remove", "4"]);
    wait_for("it is removed", remove, |removed| code(removed) == 0);
    let refused = cluster.wait_for_line("node 4 did not start again: ");
    assert!(refused.contains("node 4 was removed from the cluster"), "{refused}");
    assert!(!cluster.log().contains("it starts again in 2 s"), "{}", cluster.log());
    kill_process(cluster.node(3), Signal::TERM).unwrap();
    cluster.wait_for_line("node 3 ended, because a signal asked it to. The others go on: ");
    assert!(!cluster.log().contains("serves again"), "{}", cluster.log());
    assert_eq!(cluster.end(Signal::INT), Some(0));
}

#[test]
fn node_stays_ended_without_restarts() {
    let cluster = LoggedCluster::start(&["--nodes", "2", "--no-restart"]);
    kill_process(cluster.node(2), Signal::KILL).unwrap();
    let line = cluster.wait_for_line("node 2 ended by signal 9");
    assert!(line.contains("To bring it back, stop them with Ctrl-C"), "{line}");
    assert!(!cluster.log().contains("starts again"), "{}", cluster.log());
    kill_process(cluster.node(1), Signal::KILL).unwrap();
    let LoggedCluster { mut up, .. } = cluster;
    assert_eq!(up.wait(), Some(3));
}

/// A log collector, or `tee` at the end of a pipe, may end before the cluster.
#[test]
fn nodes_go_on_when_the_reader_of_their_log_has_ended() {
    let folder = crate::support::folder();
    let mut command = zerohop(&["up", "--nodes", "3", "--instances", "1", "--port", "0", "--json", "--data"]);
    let (reader, writer) = std::io::pipe().unwrap();
    command.arg(folder.path().join("data")).stdout(std::process::Stdio::piped()).stderr(writer);
    let mut up = RunningProcess::start(&mut command);
    // The command has the other end of the pipe, too.
    drop(command);
    let ready: serde_json::Value = serde_json::from_str(&up.first_line()).unwrap();
    drop(reader);
    let endpoint = ready["endpoint"].as_str().unwrap();
    let processes = |status: &serde_json::Value| -> Vec<Option<u64>> {
        status["nodes"].as_array().unwrap().iter().map(|node| node["pid"].as_u64()).collect()
    };
    let killed = ready["nodes"][1]["pid"].as_u64();
    kill_process(pid(killed.unwrap()), Signal::KILL).unwrap();
    // The others write lines about it.
    let status = || {
        let output = zerohop(&["status", "--json", "--endpoint", endpoint]).output().unwrap();
        serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap_or_default()
    };
    let is_back = |status: &serde_json::Value| {
        status["nodes"].as_array().is_some_and(|nodes| nodes.len() == 3)
            && processes(status)[1].is_some_and(|process| Some(process) != killed)
    };
    let later = processes(&wait_for("node 2 serves again", status, is_back));
    assert_eq!((later[0], later[2]), (ready["nodes"][0]["pid"].as_u64(), ready["nodes"][2]["pid"].as_u64()));
    kill_process(up.pid(), Signal::INT).unwrap();
    assert_eq!(up.ended().code(), Some(0));
}

#[test]
fn stop_names_a_node_that_does_not_end_and_a_second_signal_kills_it() {
    let cluster = LoggedCluster::start(&["--nodes", "2"]);
    let (paused, other) = (cluster.node(2), cluster.node(1));
    pause(paused);
    kill_process(cluster.up.pid(), Signal::INT).unwrap();
    let line = cluster.wait_for_line("still waiting for ");
    let number = paused.as_raw_nonzero();
    let words = format!(
        "node 2 (process {number}), which is paused by a signal (`kill -CONT {number}` continues it); a second Ctrl-C kills it"
    );
    assert!(line.contains(&words), "{line}");
    wait_until_exited(other);
    assert_eq!(cluster.end(Signal::INT), Some(130));
}
