//! `zerohop doctor` reports problems and advice, and its exit code says whether there are problems.

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::process::Output;

use rustix::process::{Signal, kill_process};
use serde_json::Value;

use crate::support::disk::SmallDisk;
use crate::support::serving::{ServingProgram, code, pid, stdout, wait_until_exited, zerohop};
use crate::support::wait_for;

/// The findings about one thing.
fn findings(output: &Output, check: &str) -> Vec<Value> {
    let report: Value = serde_json::from_str(&stdout(output)).unwrap();
    assert_eq!(report["healthy"], code(output) == 0, "{report}");
    let all = report["findings"].as_array().unwrap();
    all.iter().filter(|one| one["check"] == check).cloned().collect()
}

#[test]
fn a_sound_cluster_is_healthy() {
    let cluster = ServingProgram::in_memory();
    let folder = crate::support::folder();
    let data = folder.path().to_str().unwrap();
    let output = cluster.run(&["doctor", "--json", "--data", data]);
    assert_eq!(code(&output), 0, "{output:?}");
    for check in [
        "open-files",
        "disk-space",
        "disk-flush",
        "cluster",
        "quorum",
        "nodes",
        "reach",
        "clock",
        "partitions",
        "keyspaces",
    ] {
        let found = findings(&output, check);
        let is_ok = |one: &Value| {
            one["verdict"] == "ok" || ["disk-space", "disk-flush", "open-files"].contains(&check)
        };
        assert!(!found.is_empty() && found.iter().all(is_ok), "{check}: {output:?}");
    }
    // The nodes are on the same machine, so that the clocks agree.
    assert_eq!(findings(&output, "clock")[0]["verdict"], "ok", "{output:?}");
    let printed = stdout(&cluster.run(&["doctor", "--data", data]));
    assert!(
        printed.lines().any(|line| line.starts_with("ok") && line.contains("node 1: is up")),
        "{printed}"
    );
}

#[test]
fn doctor_reports_down_node_and_its_consequences() {
    let mut command =
        zerohop(&["up", "--nodes", "3", "--memory", "--instances", "1", "--port", "0", "--json"]);
    command.args(["--log-level", "error"]);
    let cluster = ServingProgram::start(command);
    let third = &cluster.ready["nodes"][2];
    let gone = pid(third["pid"].as_u64().unwrap());
    kill_process(gone, Signal::KILL).unwrap();
    wait_until_exited(gone);
    let about = format!("node {}", third["id"]);
    let down_in = |output: &Output| {
        let nodes = findings(output, "nodes");
        nodes.into_iter().find(|node| node["about"] == about.as_str() && node["verdict"] == "problem")
    };
    let output = wait_for(
        "it is reported as down",
        || cluster.run(&["doctor", "--json"]),
        |output| down_in(output).is_some(),
    );
    let down = down_in(&output).unwrap();
    assert!(down["advice"].as_str().unwrap().contains("start it again"), "{down}");
    assert_eq!(code(&output), 1, "{output:?}");
    let keyspace = &findings(&output, "keyspaces")[0];
    assert_eq!(keyspace["verdict"], "warning", "{keyspace}");
}

#[test]
fn missing_cluster_and_other_program_are_distinguished() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = listener.local_addr().unwrap().to_string();
    let output =
        zerohop(&["doctor", "--json", "--timeout", "300ms", "--endpoint", &endpoint]).output().unwrap();
    let advice = findings(&output, "cluster")[0]["advice"].as_str().unwrap().to_owned();
    assert!(advice.contains("a program listens"), "{advice}");
    drop(listener);
    let output =
        zerohop(&["doctor", "--json", "--timeout", "300ms", "--endpoint", &endpoint]).output().unwrap();
    let advice = findings(&output, "cluster")[0]["advice"].as_str().unwrap().to_owned();
    assert!(advice.contains("zerohop up"), "{advice}");
    let alone = zerohop(&["doctor", "--machine"]).output().unwrap();
    assert_eq!(code(&alone), 0, "{alone:?}");
}

#[test]
fn secret_file_readable_by_others_is_a_problem() {
    let folder = crate::support::folder();
    let secret = folder.path().join("secret");
    let path = secret.to_str().unwrap();
    assert_eq!(code(&zerohop(&["secret", "new", path]).output().unwrap()), 0);
    let arguments = ["doctor", "--machine", "--json", "--secret-file", path];
    let output = zerohop(&arguments).output().unwrap();
    assert_eq!((code(&output), &findings(&output, "secrets")[0]["verdict"]), (0, &"ok".into()));
    std::fs::set_permissions(&secret, std::fs::Permissions::from_mode(0o644)).unwrap();
    let output = zerohop(&arguments).output().unwrap();
    let found = &findings(&output, "secrets")[0];
    assert_eq!((code(&output), &found["verdict"]), (1, &"problem".into()));
    assert!(found["found"].as_str().unwrap().contains("0644"), "{found}");
}

#[test]
fn nodes_report_the_room_on_their_disks() {
    let folder = crate::support::folder();
    let Some(disk) = SmallDisk::mount(&folder.path().join("node-2"), "400m") else {
        return crate::support::not_run("only root may mount a disk of 400 MiB");
    };
    let mut command = zerohop(&["up", "--nodes", "3", "--instances", "1", "--port", "0", "--json"]);
    command.args(["--log-level", "error", "--data", folder.path().to_str().unwrap()]);
    let cluster = ServingProgram::start(command);
    let nodes = cluster.ready["nodes"].as_array().unwrap();
    let low =
        nodes.iter().find(|node| node["data"].as_str().unwrap().ends_with("node-2")).unwrap()["id"].clone();
    disk.leave(20 << 20);
    for node in nodes {
        let manager = node["manager"].as_str().unwrap();
        let query = |command: &str| zerohop(&[command, "--json", "--endpoint", manager]).output().unwrap();
        let status: Value = serde_json::from_str(&stdout(&query("status"))).unwrap();
        for shown in status["nodes"].as_array().unwrap() {
            let (free, total) = (&shown["disk_free_bytes"], &shown["disk_total_bytes"]);
            let (free, total) = (free.as_u64().unwrap(), total.as_u64().unwrap());
            // A node whose disk is full gives its ballast of 4 MiB back.
            assert!(
                free <= total && (shown["id"] != low || free <= 24 << 20 && total == 400 << 20),
                "{shown}"
            );
        }
        let warned = format!("of the disk of node {low} ");
        let warnings = status["warnings"].as_array().unwrap();
        assert!(warnings.iter().any(|one| one.as_str().unwrap().starts_with(&warned)), "{status}");
        let text = stdout(&zerohop(&["status", "--endpoint", manager]).output().unwrap());
        assert!(text.contains(&format!("WARNING: {warned}")), "{text}");
        assert_eq!(text.matches("  disk: ").count(), 3, "{text}");
        let found = findings(&query("doctor"), "disk-space");
        let abouts: Vec<&str> = found.iter().map(|one| one["about"].as_str().unwrap()).collect();
        assert!(abouts.len() == 3 && abouts.iter().all(|about| about.starts_with("node ")), "{found:?}");
        let of_low = found.iter().find(|one| one["about"] == format!("node {low}").as_str()).unwrap();
        assert!(
            of_low["verdict"] == "problem" && of_low["advice"].as_str().unwrap().contains("make room"),
            "{of_low}"
        );
    }
}

#[test]
fn node_alerts_are_shown_from_any_endpoint() {
    let folder = crate::support::folder();
    let Some(disk) = SmallDisk::mount(&folder.path().join("node-2"), "220m") else {
        return crate::support::not_run("only root may mount a disk of 220 MiB");
    };
    let mut command = zerohop(&["up", "--nodes", "3", "--instances", "1", "--port", "0", "--json"]);
    command.args(["--log-level", "error", "--data", folder.path().to_str().unwrap()]);
    let cluster = ServingProgram::start(command);
    disk.leave(40 << 20);
    // The failed write makes the disk's state known.
    let long = vec![b'x'; 1 << 20];
    let full_in = |output: &Output| {
        let is_full = |one: &Value| one["found"].as_str().unwrap().contains("disk is full");
        findings(output, "nodes").into_iter().find(is_full)
    };
    let mut number = 0;
    let write = || {
        number += 1;
        drop(cluster.run_with(&["kv", "insert", &format!("long-{number}"), "-", "--timeout", "1s"], &long));
        cluster.run(&["doctor", "--json"])
    };
    wait_for("its disk is full", write, |output| full_in(output).is_some());
    let of_folder = |node: &&Value| node["data"].as_str().unwrap().ends_with("node-2");
    let nodes = cluster.ready["nodes"].as_array().unwrap();
    let named = format!("node {}", nodes.iter().find(of_folder).unwrap()["id"]);
    for node in nodes {
        let manager = node["manager"].as_str().unwrap();
        let query = || zerohop(&["doctor", "--json", "--endpoint", manager]).output().unwrap();
        let output = wait_for("it reports that", query, |output| full_in(output).is_some());
        let full = full_in(&output).unwrap();
        assert_eq!((&full["about"], &full["verdict"]), (&named.as_str().into(), &"problem".into()), "{full}");
        assert_eq!(code(&output), 1, "{output:?}");
        let verified = zerohop(&["verify", "--json", "--endpoint", manager]).output().unwrap();
        let report: Value = serde_json::from_str(&stdout(&verified)).unwrap();
        assert!(report["troubles"][0].as_str().unwrap().starts_with(&format!("{named}: ")), "{report}");
    }
}
