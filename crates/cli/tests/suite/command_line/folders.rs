//! Data folders of `zerohop up`: those that an interrupted start has left.

use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::Signal;
use serde_json::Value;
use zerohop_node::server::LocalCluster;

use crate::support::folder;
use crate::support::ports::ports;
use crate::support::process::Running;
use crate::support::serving::{Serving, code, output, stderr, zerohop};
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

fn ids(cluster: &Serving) -> Vec<u64> {
    let mut ids: Vec<u64> =
        cluster.ready["nodes"].as_array().unwrap().iter().map(|node| node["id"].as_u64().unwrap()).collect();
    ids.sort_unstable();
    ids
}

/// Waits until the three nodes of the cluster are up, and no others are known, and every partition has all of its copies.
fn is_whole(cluster: &Serving) {
    let look = || cluster.json(&["status"]);
    let status = wait_for("three nodes are up", look, |status: &Value| {
        let nodes = status["nodes"].as_array().unwrap();
        let groups = &status["groups"];
        let is_served =
            ["short", "rebuilding", "recovering", "down", "lost"].iter().all(|one| groups[one] == 0);
        nodes.len() >= 3 && nodes.iter().all(|node| node["state"] == "up") && is_served
    });
    assert_eq!(status["nodes"].as_array().unwrap().len(), 3, "{status}");
    assert_eq!(ids(cluster).len(), 3);
}

#[test]
fn folders_without_data_do_not_say_how_many_nodes_there_are() {
    for left in [&[1][..], &[1, 3]] {
        let folder = folder();
        let data = folder.path().join("data");
        for node in left {
            std::fs::create_dir_all(data.join(format!("node-{node}/node"))).unwrap();
            std::fs::write(data.join(format!("node-{node}/node/lock")), "").unwrap();
        }
        let cluster = Serving::start(up(&data, three(), &[]));
        is_whole(&cluster);
    }
}

#[test]
fn the_number_of_nodes_may_be_another_until_there_is_data() {
    let folder = folder();
    let port = three();
    let address = |behind: u16| ([127, 0, 0, 1], port + behind).into();
    LocalCluster::new(vec![address(0), address(2)]).unwrap().write(folder.path()).unwrap();
    std::fs::create_dir(folder.path().join("node-1")).unwrap();
    let cluster = Serving::start(up(folder.path(), port, &["--nodes", "3"]));
    is_whole(&cluster);
    assert_eq!(cluster.end_with(Signal::INT), Some(0));
    let other = output(up(folder.path(), port, &["--nodes", "2"]), b"");
    assert_eq!(code(&other), 2, "{other:?}");
    assert!(stderr(&other).contains("the data is that of 3 nodes"), "{other:?}");
    // As programs before the file left it.
    std::fs::remove_file(folder.path().join("cluster")).unwrap();
    is_whole(&Serving::start(up(folder.path(), port, &[])));
}

/// The first start is killed as soon as it has made one of these, at the same ports or at others.
#[test]
fn a_first_start_that_is_killed_at_any_step_is_gone_on_with_by_the_next() {
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
        let mut command = up(&data, port, &["--nodes", "3"]);
        let mut first = Running::start(command.stdin(Stdio::null()).stdout(Stdio::null()));
        let made = data.join(step);
        wait_for(&format!("{step} is made"), || made.exists(), |is_made| *is_made);
        first.kill().unwrap();
        first.ended();
        let again = if place % 2 == 0 { port } else { three() };
        eprintln!("killed once {step} was made; started again at {again}, first at {port}");
        let cluster = Serving::start(up(&data, again, &[]));
        is_whole(&cluster);
    }
}

/// Each of these has come so far, and no further.
#[test]
fn founders_that_were_killed_before_the_others_had_begun_are_joined_by_them() {
    for (begun, step) in
        [(&[1][..], "control.log"), (&[2], "control.log"), (&[1, 3], "member"), (&[1, 2, 3], "member")]
    {
        let folder = folder();
        let port = three();
        let hosts: Vec<String> = (0..3).map(|node| format!("127.0.0.1:{}", port + 2 * node)).collect();
        let cluster = LocalCluster::new(hosts.iter().map(|host| host.parse().unwrap()).collect()).unwrap();
        cluster.write(folder.path()).unwrap();
        let start = |node: &usize| {
            let mut command = zerohop(&["node", "--instances", "1", "--log-level", "error", "--first"]);
            command.args(["--listen", &hosts[node - 1], "--hosts", &hosts.join(",")]);
            command.args(["--founded-at", &hosts.join(","), "--cluster-name", &cluster.name()]);
            command.arg("--data").arg(folder.path().join(format!("node-{node}")));
            Running::start(command.stdin(Stdio::null()).stdout(Stdio::null()))
        };
        let mut nodes: Vec<Running> = begun.iter().map(start).collect();
        for node in begun {
            let made = folder.path().join(format!("node-{node}/node/{step}"));
            wait_for(&format!("{} is made", made.display()), || made.exists(), |is_made| *is_made);
        }
        for node in &mut nodes {
            node.kill().unwrap();
            node.ended();
        }
        eprintln!("{begun:?} had {step}");
        is_whole(&Serving::start(up(folder.path(), port, &[])));
    }
}

#[test]
fn a_cluster_file_that_is_damaged_is_refused_with_what_to_do() {
    let folder = folder();
    std::fs::write(folder.path().join("cluster"), "zerohopu and no more").unwrap();
    let refused = output(up(folder.path(), three(), &[]), b"");
    assert_eq!(code(&refused), 3, "{refused:?}");
    assert!(stderr(&refused).contains("damaged"), "{refused:?}");
    assert!(!folder.path().join("node-1").exists(), "nothing was touched");
}
