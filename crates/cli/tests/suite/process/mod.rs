//! A cluster of real processes, and clients in processes of their own, during faults of a node: it
//! is killed, paused, cut off, restarted, its disk fills up, or its clock steps. The results that
//! clients saw are checked like the simulator's histories: linearizable, exactly once, only written
//! values, in order, and nothing lost.
//!
//! Each test prints its name and the longest time of a call during the fault.

mod calls;
mod client;
mod net;
mod nodes;
mod tls;

use std::time::Duration;

use zerohop_base::time::Time;
use zerohop_sim::history::{ClientCall, OperationEnd};

use self::client::ProcessLoad;
use self::net::Net;
use self::nodes::Nodes;

const NODES: usize = 3;

/// Enough keys that every node is the primary of some.
const KEYS_EVERYWHERE: usize = 24;

/// Client processes.
const CLIENTS: usize = 3;

/// Calls that every task ends before the fault, and after it: enough to use every key.
const CALLS: usize = 60;

/// The least time for which a node is dead, paused or cut off: longer than its lease, so that
/// others take over.
const OUTAGE_MIN: Duration = Duration::from_millis(2500);

/// Not a test: a client process of the tests.
#[test]
fn client_process() {
    client::run_if_requested();
}

/// Runs clients while `strike` causes a fault; checks their results. `name` is printed.
fn under_load(name: &str, net: Net, keyspace: &str, strike: impl FnOnce(&mut Nodes)) {
    let folder = crate::support::folder();
    under_load_in(folder.path(), name, net, keyspace, strike);
}

fn under_load_in(
    folder: &std::path::Path,
    name: &str,
    net: Net,
    keyspace: &str,
    strike: impl FnOnce(&mut Nodes),
) {
    let mut nodes = Nodes::start(net, NODES, folder);
    if keyspace != "default" {
        let created = nodes.command(&["keyspace", "create", keyspace, "--durability", "sync"]);
        assert!(created.status.success(), "{created:?}");
        nodes.wait_until_complete();
    }
    let load = ProcessLoad::start(&nodes.net, CLIENTS, keyspace, &nodes.endpoints(), folder);
    load.wait_for_progress(CALLS);
    let struck = calls::now();
    strike(&mut nodes);
    load.wait_for_progress(CALLS);
    let calls = load.stop();
    report_and_check(name, calls, struck);
    nodes.wait_until_complete();
}

fn report_and_check(name: &str, calls: Vec<ClientCall>, struck: Time) {
    let took = |call: &ClientCall| call.returned.unwrap_or(Time::NEVER).0 - call.invoked.0;
    let before = calls.iter().filter(|call| call.invoked < struck).count();
    let after: Vec<&ClientCall> =
        calls.iter().filter(|call| call.returned.is_some_and(|at| at > struck)).collect();
    let longest = Duration::from_micros(after.iter().map(|call| took(call)).max().unwrap_or(0));
    let unknown = calls.iter().filter(|call| call.end == OperationEnd::Unknown).count();
    let refused: Vec<&&ClientCall> =
        after.iter().filter(|call| matches!(call.end, OperationEnd::NotDone(_))).collect();
    eprintln!(
        "{name}: {before} calls before, {} after, longest gap {:.2} s, {unknown} in doubt, {} refused",
        after.len(),
        longest.as_secs_f64(),
        refused.len()
    );
    let findings = zerohop_sim::check::check(&calls::history(calls));
    let violations: Vec<String> = findings.violations.iter().take(3).map(ToString::to_string).collect();
    assert!(
        violations.is_empty(),
        "{} things do not hold:\n{}",
        findings.violations.len(),
        violations.join("\n")
    );
    assert!(findings.undecided * 10 <= findings.sections, "{} searches were given up", findings.undecided);
}

#[test]
fn history_is_consistent_across_node_kill_and_restart() {
    under_load("killed", Net::loopback(), "default", |nodes| {
        nodes.kill(&[0]);
        std::thread::sleep(OUTAGE_MIN);
        nodes.start_again(&[0]);
    });
}

#[test]
fn paused_node_resumes_as_former_primary() {
    under_load("paused", Net::loopback(), "default", |nodes| {
        for node in 0..2 {
            nodes.pause(node, true);
            std::thread::sleep(OUTAGE_MIN);
            nodes.pause(node, false);
            std::thread::sleep(Duration::from_millis(500));
        }
    });
}

#[test]
fn history_is_consistent_across_kill_of_all_nodes() {
    let folder = crate::support::folder();
    under_load_in(folder.path(), "all killed", Net::loopback(), "strict", |nodes| {
        nodes.kill(&[0, 1, 2]);
        nodes.start_again(&[0, 1, 2]);
    });
}

#[test]
fn history_is_consistent_across_rolling_restart() {
    under_load("rolling restart", Net::loopback(), "default", |nodes| {
        for node in 0..NODES {
            nodes.stop(node);
            nodes.start_again(&[node]);
            nodes.wait_until_complete();
        }
    });
}

#[test]
fn clocks_are_stepped_ahead_and_back() {
    under_load("clock stepped", Net::loopback(), "default", |nodes| {
        for ms in [300, -300, 30_000] {
            nodes.step_clock(0, ms);
            std::thread::sleep(Duration::from_millis(800));
        }
        // No node follows the wrong clock, and no request is refused because of it.
        nodes.wait_for_node(0, "it tells of its clock", |node| node.to_string().contains("was set 30"));
        for key in 0..KEYS_EVERYWHERE {
            let key = format!("stepped-{key}");
            let inserted = nodes.command(&["kv", "insert", &key, &key]);
            assert!(inserted.status.success(), "{key}: {inserted:?}");
        }
        nodes.step_clock(0, 0);
        nodes.wait_for_node(0, "its clock is well", |node| node["troubles"] == serde_json::json!([]));
    });
}

/// The disk is full to the last byte: other nodes take over its primaries, so that reads and writes
/// continue. The node keeps running, reports the problem, and recovers by itself.
#[test]
fn full_node_hands_over_and_returns() {
    let folder = crate::support::folder();
    // A node reserves 64 MiB.
    let Some(disk) = crate::support::disk::SmallDisk::mount(&folder.path().join("node-0"), "160m") else {
        return crate::support::not_run("only root may mount a disk of 160 MiB");
    };
    under_load_in(folder.path(), "disk full", Net::loopback(), "default", |nodes| {
        let before = nodes.status_of(0).unwrap();
        assert_eq!(before["troubles"], serde_json::json!([]), "{before:#}");
        assert!(before["primaries"].as_u64() > Some(0), "{before:#}");
        disk.fill_disk();
        nodes.wait_for_node(0, "it is full and primary of nothing", |node| {
            node["primaries"] == 0 && node["in_sync"] == 0 && node.to_string().contains("its disk is full")
        });
        assert!(nodes.health(0).contains(r#""disk":"full""#), "{}", nodes.health(0));
        for key in 0..KEYS_EVERYWHERE {
            let key = format!("while-full-{key}");
            let inserted = nodes.command(&["kv", "insert", &key, &key]);
            assert!(inserted.status.success(), "{key}: {inserted:?}");
            assert_eq!(nodes.command(&["kv", "lookup", &key]).stdout, key.as_bytes());
        }
        assert!(!nodes.has_ended(0), "it waits for room");
        disk.free();
        nodes.wait_for_node(0, "it is well", |node| node["troubles"] == serde_json::json!([]));
        assert!(!nodes.health(0).contains("full"), "{}", nodes.health(0));
        // The replicas of the node are in sync and accept writes again: with another node dead,
        // they are needed.
        nodes.kill(&[1]);
        nodes.wait_for_node(0, "it takes part again", |node| node["in_sync"].as_u64() > Some(200));
        assert!(nodes.command(&["kv", "insert", "after", "full"]).status.success());
        assert!(!nodes.has_ended(0));
        nodes.start_again(&[1]);
    });
}

/// Namespaces, or a printed reason why there are none.
fn spaces() -> Option<Net> {
    let net = Net::spaces(NODES);
    if net.is_none() {
        crate::support::not_run("this user may make no network namespaces");
    }
    net
}

#[test]
fn history_is_consistent_across_node_isolation() {
    let Some(net) = spaces() else { return };
    under_load("cut off both ways", net, "default", |nodes| {
        let ways = [(0, 1), (1, 0), (0, 2), (2, 0)];
        ways.iter().for_each(|(from, to)| nodes.net.block(*from, *to));
        std::thread::sleep(OUTAGE_MIN);
        ways.iter().for_each(|(from, to)| nodes.net.unblock(*from, *to));
    });
}

#[test]
fn node_with_outgoing_loss_only() {
    let Some(net) = spaces() else { return };
    under_load("cut off one way", net, "default", |nodes| {
        for to in [1, 2] {
            nodes.net.block(0, to);
        }
        std::thread::sleep(OUTAGE_MIN);
        for to in [1, 2] {
            nodes.net.unblock(0, to);
        }
    });
}
