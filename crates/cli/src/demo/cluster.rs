//! The demo's second part: three nodes with three copies of everything, of which one is killed
//! while files are stored. It comes back, a fourth joins and receives its share, and another is
//! drained; then every file must be intact.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};
use zerohop_client::{Client, ClientOptions};
use zerohop_placement::KeyspaceName;
use zerohop_system::clock::Stopwatch;
use zerohop_wire::admin::{KeyspaceSettings, NodeStatus, Status};

use super::check;
use super::cluster_report::ClusterReport;
use super::limits::{DEADLINE, PARTITIONS};
use super::load;
use super::progress::DemoProgress;
use super::report::rate;
use super::source::DemoFiles;
use crate::common::admin;
use crate::common::demo_error::DemoError;
use crate::common::ending::CommandError;
use crate::common::tls::NodeTls;
use crate::local::{LocalNode, NodePlan, ReservedPorts, StartingNode};
use crate::output::StatusLine;

/// Nodes at the start.
const NODES: u16 = 3;

/// Ports of a node: its manager's and one instance's.
const PORTS: u16 = 2;

/// The node that is killed and the node that is drained, from 0; they differ.
const KILLED: usize = 1;
const EMPTIED: usize = 2;

/// The interval of status polls.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// The keyspace.
const KEYSPACE: &str = "demo-cluster";

/// Runs the whole part in a new folder.
pub(super) async fn run(
    source: &Arc<DemoFiles>,
    folder: &Path,
    kill_after: Option<u64>,
) -> Result<ClusterReport, CommandError> {
    let ports = ReservedPorts::find(PORTS * (NODES + 1))
        .ok_or_else(|| CommandError::Node("no free ports were found for the demo's cluster".to_owned()))?;
    let plans = plans(folder, ports.first());
    let (first_nodes, fourth) = plans.split_at(usize::from(NODES));
    let starting = first_nodes.iter().map(StartingNode::spawn).collect::<Result<Vec<_>, CommandError>>()?;
    let mut nodes = Vec::new();
    for one in starting {
        nodes.push(one.ready().await?);
    }
    let client = connect(&nodes).await?;
    let settings = KeyspaceSettings {
        name: KEYSPACE.to_owned(),
        partitions: Some(PARTITIONS),
        ..KeyspaceSettings::default()
    };
    let made = admin::create(&client, settings).await?;
    // The default keyspace is not used: a single copy saves moving it.
    let single = KeyspaceSettings {
        name: KeyspaceName::default_keyspace().to_string(),
        replicas: Some(1),
        min_in_sync: Some(1),
        ..KeyspaceSettings::default()
    };
    admin::alter(&client, single).await?;
    let mut report = ClusterReport {
        nodes: NODES,
        replicas: made.replicas,
        min_in_sync: made.min_in_sync,
        ..ClusterReport::default()
    };
    let keyspace = client.keyspace(KEYSPACE).await?;

    // Stores everything; one node is killed in the middle, without any intervention.
    let progress = Arc::new(DemoProgress::default());
    let total = source.files.len();
    let kill_after = kill_after.unwrap_or(total as u64 / 2).max(1).min(total as u64);
    let victim = nodes.remove(KILLED);
    let stopwatch = Stopwatch::start();
    let killing = async {
        progress.reached(kill_after).await;
        progress.record_kill();
        victim.kill().await
    };
    let loading = async { Ok::<_, CommandError>(load::load(&keyspace, source, &progress).await?) };
    let both = async { tokio::try_join!(loading, killing) };
    let (loaded, ()) = progress.watch("storing in a cluster, with a kill", total, both).await?;
    let files = Arc::new(loaded.files);
    report.write_seconds = stopwatch.elapsed().as_secs_f64();
    report.write_mb_per_second = rate(files.iter().map(|file| file.bytes).sum(), stopwatch.elapsed());
    report.files = files.len() as u64;
    report.acknowledged = files.iter().filter(|file| file.before_kill).count() as u64;

    let line = StatusLine::new();
    line.show("the killed node comes back");
    let stopwatch = Stopwatch::start();
    nodes.insert(KILLED, LocalNode::start(&first_nodes[KILLED]).await?);
    wait_until_settled(&client, "the killed node did not get in step again", |_| true).await?;
    report.return_seconds = stopwatch.elapsed().as_secs_f64();

    line.show("a fourth node joins and takes its share");
    let stopwatch = Stopwatch::start();
    for plan in fourth {
        nodes.push(LocalNode::start(plan).await?);
    }
    let id = nodes[usize::from(NODES)].ready.id;
    let has_its_share = |status: &Status| {
        let copies: u32 = status.keyspaces.iter().map(|one| one.partitions * one.replicas).sum();
        copies_on(status, id) + 1 >= copies / (u32::from(NODES) + 1)
    };
    let status = wait_until_settled(&client, "the fourth node did not get its share", has_its_share).await?;
    (report.join_seconds, report.join_copies) = (stopwatch.elapsed().as_secs_f64(), copies_on(&status, id));

    line.show("a node is emptied");
    let stopwatch = Stopwatch::start();
    let id = nodes[EMPTIED].ready.id;
    admin::set_node_state(&client, id, "draining").await?;
    wait_until_settled(&client, "a node was not emptied", |status| copies_on(status, id) == 0).await?;
    report.drain_seconds = stopwatch.elapsed().as_secs_f64();
    drop(line);

    let progress = Arc::new(DemoProgress::default());
    let checking = async {
        let checked = check::check(&keyspace, &files, &progress).await?;
        Ok::<_, DemoError>((checked, check::count_foreign(&keyspace, &files).await?))
    };
    let (checked, foreign_keys) = progress.watch("verifying the cluster", files.len(), checking).await?;
    (report.whole, report.verified) = (checked.intact, checked.intact_before_kill);
    (report.foreign_keys, report.faults) = (foreign_keys, checked.faults);
    nodes.iter().for_each(LocalNode::request_end);
    for node in nodes {
        node.stop().await?;
    }
    Ok(report)
}

/// The plans of the nodes that start together, and of the one that joins them.
fn plans(folder: &Path, first: SocketAddr) -> Vec<NodePlan> {
    let at = |node: u16| SocketAddr::new(first.ip(), first.port() + node * PORTS);
    let hosts: Vec<SocketAddr> = (0..NODES).map(at).collect();
    let plan = |node: u16| NodePlan {
        listen: at(node),
        data: Some(folder.join(format!("node-{}", node + 1))),
        instances: Some(1),
        hosts: if node < NODES { hosts.clone() } else { Vec::new() },
        secret_file: None,
        tls: NodeTls::none(),
        name: String::new(),
        local: None,
        join: (node == NODES).then_some(first),
        log_name: format!("node-{}", node + 1),
        log_level: "error".to_owned(),
        redis_timeout: None,
        environment: Vec::new(),
    };
    (0..=NODES).map(plan).collect()
}

async fn connect(nodes: &[LocalNode]) -> Result<Client, CommandError> {
    let options =
        ClientOptions { deadline: DEADLINE, name: "zerohop-demo".to_owned(), ..ClientOptions::default() };
    let endpoints: Vec<&str> = nodes.iter().map(|node| node.ready.manager.as_str()).collect();
    Client::connect_with(&endpoints, options).await.map_err(CommandError::Unreachable)
}

/// Waits until all nodes are up, every partition has all of its copies, nothing moves, and the
/// given condition is true.
async fn wait_until_settled(
    client: &Client,
    what: &str,
    is_so: impl Fn(&Status) -> bool,
) -> Result<Status, CommandError> {
    let due = Instant::now() + DEADLINE;
    loop {
        let status = admin::status(client).await?;
        let groups = status.groups.unwrap_or_default();
        let is_whole =
            [groups.below_min_in_sync, groups.rebuilding, groups.moving, groups.recovering, groups.down];
        let are_there = status.nodes.iter().all(|node| node.state != "down");
        if are_there && is_whole == [0; 5] && is_so(&status) {
            return Ok(status);
        }
        if Instant::now() >= due {
            return Err(CommandError::Node(format!("{what} within {DEADLINE:?}")));
        }
        sleep(CHECK_INTERVAL).await;
    }
}

/// The number of partition copies on a node.
fn copies_on(status: &Status, id: u32) -> u32 {
    let of = |node: &NodeStatus| node.primaries + node.in_sync + node.following;
    status.nodes.iter().find(|node| node.id == id).map_or(0, of)
}
