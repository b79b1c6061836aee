//! The processes of a cluster.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

use crate::support::patience::patient;
use crate::support::ports::ports;
use crate::support::process::{NodeProcess, log_of};
use crate::support::{report, wait_for};

/// Ports of a node: its manager's and one instance's, and spare ones.
const PORTS: u16 = 4;

/// Nodes that may join a cluster, with ports behind those of the first nodes.
const JOINING_MAX: u16 = 1;

/// The interval of flushes (`interval:100ms`).
const FLUSHES_AFTER: Duration = Duration::from_millis(100);

pub(crate) struct NodeCluster {
    folder: PathBuf,
    ports: Vec<u16>,
    /// Nodes that started together.
    bootstrap_nodes: usize,
    nodes: Vec<Option<NodeProcess>>,
    /// A kill loses unsynced data, as a power cut does.
    is_forgetful: bool,
    /// The file of the cluster's secret.
    secret: Option<PathBuf>,
    /// A test may break an invariant of a partition.
    is_breakable: bool,
    /// The size above which regions are split, if it is not the default one.
    region_size: Option<&'static str>,
}

impl NodeCluster {
    /// Starts this many nodes together and waits until all serve.
    pub(crate) fn start(folder: &Path, nodes: u16) -> NodeCluster {
        NodeCluster::start_on(folder, nodes, false)
    }

    /// As [`Self::start`], on disks that lose unsynced data when their node is killed.
    pub(crate) fn start_forgetful(folder: &Path, nodes: u16) -> NodeCluster {
        NodeCluster::start_on(folder, nodes, true)
    }

    /// As [`Self::start`], with a secret.
    pub(crate) fn start_with_secret(folder: &Path, nodes: u16, secret: &Path) -> NodeCluster {
        let mut cluster = NodeCluster::of(folder, nodes, false);
        cluster.secret = Some(secret.to_owned());
        cluster.start_together(&(0..cluster.bootstrap_nodes).collect::<Vec<_>>());
        cluster
    }

    /// As [`Self::start`], with the switch that breaks an invariant of a partition.
    pub(crate) fn start_breakable(folder: &Path, nodes: u16) -> NodeCluster {
        let mut cluster = NodeCluster::of(folder, nodes, false);
        cluster.is_breakable = true;
        cluster.start_together(&(0..cluster.bootstrap_nodes).collect::<Vec<_>>());
        cluster
    }

    /// As [`Self::start`], with regions that are split above this size.
    pub(crate) fn start_with_region_size(folder: &Path, nodes: u16, size: &'static str) -> NodeCluster {
        let mut cluster = NodeCluster::of(folder, nodes, false);
        cluster.region_size = Some(size);
        cluster.start_together(&(0..cluster.bootstrap_nodes).collect::<Vec<_>>());
        cluster
    }

    fn start_on(folder: &Path, nodes: u16, is_forgetful: bool) -> NodeCluster {
        let mut cluster = NodeCluster::of(folder, nodes, is_forgetful);
        cluster.start_together(&(0..cluster.bootstrap_nodes).collect::<Vec<_>>());
        cluster
    }

    /// Starts only the first of this many nodes: it waits for the others.
    pub(crate) fn start_first(folder: &Path, nodes: u16) -> NodeCluster {
        let mut cluster = NodeCluster::of(folder, nodes, false);
        cluster.nodes[0] = Some(cluster.spawn(0));
        cluster
    }

    /// Starts the other nodes, and waits until all serve.
    pub(crate) fn start_others(&mut self) {
        self.start_together(&(1..self.bootstrap_nodes).collect::<Vec<_>>());
        self.nodes[0].as_mut().unwrap().ready();
    }

    fn of(folder: &Path, nodes: u16, is_forgetful: bool) -> NodeCluster {
        let first = ports((nodes + JOINING_MAX) * PORTS);
        let bootstrapped = usize::from(nodes);
        NodeCluster {
            folder: folder.to_owned(),
            ports: (0..nodes).map(|node| first + node * PORTS).collect(),
            bootstrap_nodes: bootstrapped,
            nodes: (0..nodes).map(|_| None).collect(),
            is_forgetful,
            secret: None,
            is_breakable: false,
            region_size: None,
        }
    }

    pub(crate) fn endpoints(&self) -> Vec<String> {
        self.ports.iter().map(|port| format!("127.0.0.1:{port}")).collect()
    }

    /// The log of a node so far.
    pub(crate) fn log(&self, node: usize) -> String {
        std::fs::read_to_string(log_of(&self.folder, node)).unwrap()
    }

    /// The running processes.
    pub(crate) fn processes(&self) -> impl Iterator<Item = u32> {
        self.nodes.iter().flatten().map(NodeProcess::id)
    }

    /// Has another node join; returns its index.
    pub(crate) fn join(&mut self) -> usize {
        let at = self.ports.len();
        assert!(at < self.bootstrap_nodes + usize::from(JOINING_MAX), "its port may be another cluster's");
        self.ports.push(self.ports[0] + at as u16 * PORTS);
        self.nodes.push(None);
        let mut command = self.command(at);
        command.args(["--join", &self.endpoints()[0], "--listen", &self.endpoints()[at]]);
        self.nodes[at].insert(NodeProcess::start(command, &log_of(&self.folder, at))).ready();
        at
    }

    /// Runs the program; returns its exit code, output and error output.
    pub(crate) fn run(&self, arguments: &[&str]) -> (i32, String, String) {
        // For commands that ask no node, any endpoint is right.
        let running = self.nodes.iter().position(Option::is_some).unwrap_or(0);
        let output = self.program(running).args(patient(arguments)).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
    }

    /// Runs the program, which must succeed; each line of its output is JSON.
    pub(crate) fn json(&self, arguments: &[&str]) -> Vec<Value> {
        let (code, out, problems) = self.run(&[arguments, &["--json"]].concat());
        assert_eq!(code, 0, "{arguments:?}: {out} {problems}");
        out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Runs a command that prints a list: its lines of JSON as one array.
    pub(crate) fn list(&self, arguments: &[&str]) -> Value {
        Value::Array(self.json(arguments))
    }

    /// Asks a node to end and waits until it has.
    pub(crate) fn stop(&mut self, node: usize) {
        self.stop_with(node, Signal::TERM);
    }

    /// Asks a node to end by this signal, and waits until it has.
    pub(crate) fn stop_with(&mut self, node: usize, signal: Signal) {
        assert!(self.nodes[node].is_some(), "it runs");
        NodeProcess::stop([&mut self.nodes[node]], signal);
    }

    /// The address of a node's instance.
    pub(crate) fn instance(&self, node: usize) -> String {
        format!("127.0.0.1:{}", self.ports[node] + 1)
    }

    pub(crate) fn kill(&mut self, node: usize) {
        assert!(self.nodes[node].is_some(), "it runs");
        NodeProcess::kill([&mut self.nodes[node]]);
    }

    /// Has the primary of a partition, on this node, break an invariant.
    pub(crate) fn break_partition(&self, node: usize, keyspace: u64, partition: u64) {
        let file = self.break_file(node);
        // The node must not read half of it.
        let whole = file.with_extension("whole");
        std::fs::write(&whole, format!("{keyspace} {partition}")).unwrap();
        std::fs::rename(whole, file).unwrap();
    }

    /// The next process of this node breaks nothing.
    pub(crate) fn break_nothing(&self, node: usize) {
        std::fs::remove_file(self.break_file(node)).unwrap();
    }

    fn break_file(&self, node: usize) -> PathBuf {
        self.folder.join(format!("break-{node}"))
    }

    /// Whether the process of a node runs.
    pub(crate) fn is_running(&mut self, node: usize) -> bool {
        self.nodes[node].as_mut().is_some_and(|process| !process.has_ended())
    }

    /// Stops a node's process with SIGSTOP, or continues it.
    pub(crate) fn pause(&self, node: usize, is_paused: bool) {
        self.nodes[node].as_ref().unwrap().pause(is_paused);
    }

    pub(crate) fn start_again(&mut self, node: usize) {
        self.start_together(&[node]);
    }

    /// Starts several nodes together: all before any is waited for, as at bootstrap none serves
    /// without the others.
    pub(crate) fn start_together(&mut self, nodes: &[usize]) {
        for node in nodes {
            self.nodes[*node] = Some(self.spawn(*node));
        }
        for node in nodes {
            self.nodes[*node].as_mut().unwrap().ready();
        }
    }

    /// Runs `act` while no node runs.
    pub(crate) fn while_stopped(&self, act: impl FnOnce(&NodeCluster)) {
        assert!(self.nodes.iter().all(Option::is_none));
        act(self);
    }

    /// The sum of a metric over all instances of a node.
    pub(crate) fn metric(&self, node: usize, name: &str) -> u64 {
        metric(&self.endpoints()[node], name)
    }

    /// How often each node has begun to sync a partition's segments.
    pub(crate) fn syncs(&self) -> Vec<u64> {
        (0..self.nodes.len()).map(|node| self.metric(node, "segment_syncs_total")).collect()
    }

    /// Waits until all writes since `before` was counted are flushed on all nodes. A flush and the
    /// mark of its durable index are two syncs. So each node must have begun two more syncs, and
    /// then none for many flush intervals.
    pub(crate) fn wait_until_flushed(&self, before: &[u64]) {
        let mut last = Vec::new();
        let mut since = Instant::now();
        let look = || {
            let now = self.syncs();
            if now != last {
                since = Instant::now();
                last.clone_from(&now);
            }
            (now, since.elapsed())
        };
        let is_so = |(now, quiet): &(Vec<u64>, Duration)| {
            *quiet >= FLUSHES_AFTER * 10 && now.iter().zip(before).all(|(now, before)| *now >= before + 2)
        };
        wait_for(&format!("all is flushed since {before:?}"), look, is_so);
    }

    /// Waits until the status has a property.
    pub(crate) fn wait_for(&self, what: &str, is_so: impl Fn(&Value) -> bool) {
        wait_for(what, || self.status(), is_so);
    }

    /// Waits until all nodes are up and every partition has as many copies in sync as it is to have.
    pub(crate) fn wait_until_complete(&self) {
        self.wait_for("it is whole", |status| {
            let nodes = status["nodes"].as_array().unwrap();
            let are_up = nodes.len() == self.ports.len() && nodes.iter().all(|node| node["state"] == "up");
            let groups = &status["groups"];
            are_up && groups["below_min_in_sync"] == 0 && groups["recovering"] == 0
        });
    }

    pub(crate) fn stop_in_order(mut self) {
        self.stop_all(Signal::TERM);
    }

    /// Asks all nodes to end at once, and waits until they have.
    pub(crate) fn stop_all(&mut self, signal: Signal) {
        NodeProcess::stop(&mut self.nodes, signal);
    }

    pub(crate) fn status(&self) -> Value {
        self.json(&["status"]).remove(0)
    }

    fn spawn(&self, node: usize) -> NodeProcess {
        let mut command = self.command(node);
        command.args(["--hosts", &self.endpoints().join(","), "--listen", &self.endpoints()[node]]);
        NodeProcess::start(command, &log_of(&self.folder, node))
    }

    fn command(&self, node: usize) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_zerohop"));
        command.args(["node", "--json", "--log-level", "info", "--instances", "1", "--data"]);
        command.arg(self.folder.join(format!("node-{node}")));
        command.args(["--ends-with-parent", &std::process::id().to_string()]);
        if self.is_forgetful {
            command.env("ZEROHOP_TEST_DISK", "hold-unsynced");
        }
        if self.is_breakable {
            command.env("ZEROHOP_TEST_BREAK", self.break_file(node));
        }
        if let Some(size) = self.region_size {
            command.env("ZEROHOP_REGION_SIZE", size);
        }
        self.secure(&mut command);
        command
    }

    /// The program, with this node as its endpoint.
    fn program(&self, node: usize) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_zerohop"));
        command.env("ZEROHOP_ENDPOINT", &self.endpoints()[node]);
        self.secure(&mut command);
        command
    }

    fn secure(&self, command: &mut Command) {
        if let Some(secret) = &self.secret {
            command.env("ZEROHOP_SECRET_FILE", secret);
        }
    }
}

impl Drop for NodeCluster {
    fn drop(&mut self) {
        let logs: Vec<PathBuf> = (0..self.nodes.len()).map(|node| log_of(&self.folder, node)).collect();
        let nodes = self.nodes.iter().zip(&logs).enumerate().map(|(at, (node, log))| {
            (format!("node at {}", self.endpoints()[at]), node.as_ref().map(NodeProcess::id), log.as_path())
        });
        report::if_failed(nodes, || {
            let mut status = Command::new(env!("CARGO_BIN_EXE_zerohop"));
            status.args(["status", "--timeout", "10s", "--endpoint", &self.endpoints().join(",")]);
            self.secure(&mut status);
            status
        });
    }
}

/// All metrics of the node at this endpoint.
pub(crate) fn scrape(endpoint: &str) -> String {
    let mut stream = TcpStream::connect(endpoint).unwrap();
    write!(stream, "GET /metrics HTTP/1.1\r\nHost: {endpoint}\r\nConnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

/// The sum of a metric over all instances of the node at this endpoint.
pub(crate) fn metric(endpoint: &str, name: &str) -> u64 {
    let text = scrape(endpoint);
    let of = |line: &str| -> Option<f64> {
        let (named, value) = line.rsplit_once(' ')?;
        let named = named.split('{').next()?;
        (named == format!("zerohop_{name}")).then(|| value.trim().parse().unwrap())
    };
    text.lines().filter_map(of).sum::<f64>() as u64
}
