//! Nodes of zerohop, each a process that ends with its run.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::failure::Failure;
use crate::limits::{COMMAND, END, SERVING, STATUS_POLL};
use crate::process::{self, Server};
use crate::usage::Cpu;

/// Where servers run.
pub struct Place {
    /// This program, which also launches the servers.
    pub own_program: PathBuf,
    /// The cores of all servers together.
    pub cores: Vec<usize>,
    /// An empty folder for the servers.
    pub dir: PathBuf,
}

/// A cluster with one instance per node.
pub struct Cluster {
    program: PathBuf,
    servers: Vec<Server>,
    /// Addresses of the managers.
    pub addresses: Vec<SocketAddr>,
}

/// Memory of a node for its data: all of it fits.
const MEMORY: &str = "1GiB";

/// The measured keyspace.
pub const KEYSPACE: &str = "bench";

/// The program, if it is built.
///
/// # Errors How to build it.
pub fn zerohop(own_program: &Path) -> Result<PathBuf, String> {
    process::beside(own_program, "zerohop")
}

impl Place {
    /// Starts another server.
    ///
    /// # Errors Those of the system.
    pub fn start(&self, program: &Path, arguments: &[String]) -> Result<Server, Failure> {
        Server::start(&self.own_program, &self.cores, program, arguments)
    }
}

impl Cluster {
    /// Starts so many nodes, and creates the keyspace with settings in the command line's terms.
    ///
    /// # Errors A node cannot be started, or does not serve in time.
    pub fn start(place: &Place, nodes: u16, setting: &str) -> Result<Cluster, Failure> {
        let mut cluster = Cluster::without_keyspaces(place, nodes)?;
        cluster.create_keyspaces(&[KEYSPACE], setting)?;
        Ok(cluster)
    }

    /// Starts so many nodes.
    ///
    /// # Errors A node cannot be started, or does not serve in time.
    pub fn without_keyspaces(place: &Place, nodes: u16) -> Result<Cluster, Failure> {
        let program = zerohop(&place.own_program).map_err(Failure::Usage)?;
        // Ports for a manager and one instance per node.
        let first = process::free_ports(2 * nodes)?;
        let addresses: Vec<SocketAddr> =
            (0..nodes).map(|node| SocketAddr::from((Ipv4Addr::LOCALHOST, first + 2 * node))).collect();
        let hosts = listed(&addresses);
        let mut cluster = Cluster { program, servers: Vec::new(), addresses: addresses.clone() };
        for (node, address) in addresses.iter().enumerate() {
            let line = format!(
                "node --json --log-level error --instances 1 --memory-budget {MEMORY} --hosts {hosts} --listen {address} --data"
            );
            let data = place.dir.join(format!("node-{node}")).display().to_string();
            let arguments: Vec<String> = line.split(' ').map(str::to_owned).chain([data]).collect();
            cluster.servers.push(place.start(&cluster.program, &arguments)?);
        }
        cluster.wait_until_whole()?;
        Ok(cluster)
    }

    /// Creates keyspaces with settings in the command line's terms, and waits until they serve.
    ///
    /// # Errors The cluster refuses one of them, or does not serve in time.
    pub fn create_keyspaces(&mut self, names: &[&str], setting: &str) -> Result<(), Failure> {
        for name in names {
            self.command(&format!("keyspace create {name} {setting}"))?;
        }
        self.wait_until_whole()
    }

    /// CPU time of all nodes.
    ///
    /// # Errors One of them has ended.
    pub fn cpu(&self) -> Result<Cpu, Failure> {
        let mut sum = Cpu::default();
        for server in &self.servers {
            let cpu = Cpu::of(server.pid())?;
            (sum.ran, sum.waited) = (sum.ran + cpu.ran, sum.waited + cpu.waited);
        }
        Ok(sum)
    }

    /// Stops all nodes in order, and waits.
    ///
    /// # Errors One of them does not end without error and in time.
    pub fn end(mut self) -> Result<(), Failure> {
        self.servers.iter_mut().try_for_each(|server| server.end(END))
    }

    fn wait_until_whole(&mut self) -> Result<(), Failure> {
        let deadline = process::now() + SERVING;
        loop {
            self.servers.iter_mut().try_for_each(Server::check)?;
            // It may not listen yet.
            if self.command("status --json").is_ok_and(|text| is_whole(&text, self.servers.len())) {
                return Ok(());
            }
            if process::now() >= deadline {
                return Err(Failure::Protocol("that the cluster is never whole".into()));
            }
            process::pause(STATUS_POLL);
        }
    }

    fn command(&self, line: &str) -> Result<String, Failure> {
        self.command_within(line, COMMAND)
    }

    /// The output of a `zerohop` command about this cluster. Its words have single spaces between them.
    ///
    /// # Errors It fails, or is not done in time.
    pub fn command_within(&self, line: &str, limit: Duration) -> Result<String, Failure> {
        let mut command = Command::new(&self.program);
        command.args(line.split(' ')).args(["--endpoint", &listed(&self.addresses)]);
        process::output(&mut command, limit)
    }
}

fn is_whole(status: &str, nodes: usize) -> bool {
    let Ok(status) = serde_json::from_str::<Value>(status) else { return false };
    let listed = status["nodes"].as_array().map_or(&[][..], Vec::as_slice);
    let are_up = listed.len() == nodes && listed.iter().all(|node| node["state"] == "up");
    let is_none = |what: &&str| status["groups"][what] == 0;
    are_up && ["below_min_in_sync", "rebuilding", "moving", "recovering", "down"].iter().all(is_none)
}

fn listed(addresses: &[SocketAddr]) -> String {
    addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}
