//! The measured servers: three nodes of zerohop, or three members of etcd. Each is a process that
//! ends with its run.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use bench_common::failure::Failure;
use bench_common::process::{self, Server};
use bench_common::usage::Cpu;
use serde_json::Value;

use crate::limits::{COMMAND, END, NODES, START_POLL, STATUS_POLL, WHOLE};

/// Where servers run.
pub(crate) struct Place {
    /// This program, which also launches the servers.
    pub(crate) own_program: PathBuf,
    /// The cores of all servers together.
    pub(crate) cores: Vec<usize>,
    /// An empty folder for the servers.
    pub(crate) dir: PathBuf,
}

/// The servers of a cluster.
pub(crate) struct Cluster {
    program: PathBuf,
    place: Place,
    /// Addresses of the managers, or of etcd's members.
    pub(crate) addresses: Vec<SocketAddr>,
    servers: Vec<Option<Server>>,
    arguments: Vec<Vec<String>>,
}

/// The measured keyspace.
pub(crate) const KEYSPACE: &str = "bench";

/// The settings of a keyspace, in the command line's terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Setting {
    pub(crate) durability: &'static str,
    pub(crate) replicas: u8,
    pub(crate) min_in_sync: u8,
}

/// The program of etcd, if it is installed.
pub(crate) fn etcd() -> Result<PathBuf, String> {
    process::installed("etcdctl", "bench/cluster/install")?;
    process::installed("etcd", "bench/cluster/install")
}

/// The program of zerohop, if it is built.
pub(crate) fn zerohop(own_program: &Path) -> Result<PathBuf, String> {
    process::beside(own_program, "zerohop")
}

impl Cluster {
    /// Starts three nodes of one instance each and waits until all serve.
    pub(crate) fn of_zerohop(place: Place) -> Result<Cluster, Failure> {
        let program = zerohop(&place.own_program).map_err(Failure::Usage)?;
        // Ports for a manager and one instance per node.
        let first = process::free_ports(2 * NODES as u16)?;
        let addresses: Vec<SocketAddr> = (0..NODES as u16).map(|node| at(first + 2 * node)).collect();
        let hosts = listed(&addresses, ",");
        let arguments = addresses.iter().enumerate().map(|(node, address)| {
            let data = place.dir.join(format!("node-{node}"));
            let line = format!(
                "node --json --log-level error --instances 1 --hosts {hosts} --listen {address} --data"
            );
            words(&line).chain([data.display().to_string()]).collect()
        });
        let mut cluster = Cluster::started(program, addresses.clone(), arguments.collect(), place)?;
        cluster.wait_until_whole()?;
        Ok(cluster)
    }

    /// Starts three members of etcd and waits until they have a leader.
    pub(crate) fn of_etcd(place: Place) -> Result<Cluster, Failure> {
        let program = etcd().map_err(Failure::Usage)?;
        let first = process::free_ports(2 * NODES as u16)?;
        let client = |member: u16| at(first + 2 * member);
        let peer = |member: u16| format!("http://{}", at(first + 2 * member + 1));
        let all: Vec<String> =
            (0..NODES as u16).map(|member| format!("m{member}={}", peer(member))).collect();
        let arguments = (0..NODES as u16).map(|member| {
            let (all, peer, client) = (all.join(","), peer(member), client(member));
            let data = place.dir.join(format!("member-{member}"));
            let line = format!(
                "--name m{member} --log-level error --initial-cluster {all} --initial-cluster-state new \
                 --listen-peer-urls {peer} --initial-advertise-peer-urls {peer} \
                 --listen-client-urls http://{client} --advertise-client-urls http://{client} --data-dir"
            );
            words(&line).chain([data.display().to_string()]).collect()
        });
        let arguments = arguments.collect();
        let mut cluster =
            Cluster::started(program, (0..NODES as u16).map(client).collect(), arguments, place)?;
        cluster.eventually("etcd has no leader", |cluster| Ok(cluster.leader().is_ok().then_some(())))?;
        Ok(cluster)
    }

    fn started(
        program: PathBuf,
        addresses: Vec<SocketAddr>,
        arguments: Vec<Vec<String>>,
        place: Place,
    ) -> Result<Cluster, Failure> {
        let servers = addresses.iter().map(|_| None).collect();
        let mut cluster = Cluster { program, place, addresses, servers, arguments };
        // All are started before any is awaited: no member serves before the others run.
        (0..NODES).try_for_each(|node| cluster.start(node))?;
        Ok(cluster)
    }

    /// Starts a node that is not running.
    pub(crate) fn start(&mut self, node: usize) -> Result<(), Failure> {
        let Place { own_program, cores, .. } = &self.place;
        let server = Server::start(own_program, cores, &self.program, &self.arguments[node])?;
        self.servers[node] = Some(server);
        Ok(())
    }

    /// Kills a node.
    pub(crate) fn kill(&mut self, node: usize) -> Result<(), Failure> {
        self.servers[node].take().map_or(Ok(()), |mut server| server.kill())
    }

    /// Stops a node in order, and waits.
    pub(crate) fn end(&mut self, node: usize) -> Result<(), Failure> {
        self.servers[node].take().map_or(Ok(()), |mut server| server.end(END))
    }

    /// An error if a server has ended unexpectedly.
    pub(crate) fn check(&mut self) -> Result<(), Failure> {
        self.servers.iter_mut().flatten().try_for_each(Server::check)
    }

    /// CPU time of all running servers.
    pub(crate) fn cpu(&self) -> Result<Cpu, Failure> {
        let mut sum = Cpu::default();
        for server in self.servers.iter().flatten() {
            let cpu = Cpu::of(server.pid())?;
            (sum.ran, sum.waited) = (sum.ran + cpu.ran, sum.waited + cpu.waited);
        }
        Ok(sum)
    }

    /// Creates the measured keyspace, and waits until all of its copies are in sync.
    pub(crate) fn create_keyspace(&mut self, setting: Setting) -> Result<(), Failure> {
        let Setting { durability, replicas, min_in_sync } = setting;
        let line = format!(
            "keyspace create {KEYSPACE} --durability {durability} --replicas {replicas} --min-in-sync {min_in_sync}"
        );
        self.command(&line)?;
        self.wait_until_whole()
    }

    /// Waits until all nodes are up and every partition has its in-sync copies in their planned
    /// places.
    pub(crate) fn wait_until_whole(&mut self) -> Result<(), Failure> {
        self.eventually("the cluster is never whole", |cluster| {
            // It may not listen yet.
            let Ok(text) = cluster.command("status --json") else { return Ok(None) };
            let status: Value = serde_json::from_str(&text)
                .map_err(|error| Failure::Protocol(format!("a status that is none: {error}")))?;
            let nodes = status["nodes"].as_array().map_or(&[][..], Vec::as_slice);
            let are_up = nodes.len() == NODES && nodes.iter().all(|node| node["state"] == "up");
            let is_none = |what: &&str| status["groups"][what] == 0;
            let are_settled =
                ["below_min_in_sync", "rebuilding", "moving", "recovering", "down"].iter().all(is_none);
            let has_default = status["keyspaces"].as_array().is_some_and(|all| !all.is_empty());
            Ok((are_up && are_settled && has_default).then_some(()))
        })
    }

    /// The output of a `zerohop` command about this cluster.
    pub(crate) fn command(&self, line: &str) -> Result<String, Failure> {
        self.command_within(line, COMMAND)
    }

    /// The same with a time limit.
    pub(crate) fn command_within(&self, line: &str, limit: Duration) -> Result<String, Failure> {
        let running = self.addresses.iter().zip(&self.servers).filter(|(_, server)| server.is_some());
        let endpoints: Vec<SocketAddr> = running.map(|(address, _)| *address).collect();
        let mut command = Command::new(&self.program);
        command.args(line.split(' ')).args(["--endpoint", &listed(&endpoints, ",")]);
        process::output(&mut command, limit)
    }

    /// The index of etcd's leader.
    pub(crate) fn leader(&self) -> Result<usize, Failure> {
        let mut command = Command::new("etcdctl");
        command.env("ETCDCTL_API", "3").args(["endpoint", "status", "--write-out", "json", "--endpoints"]);
        command.arg(listed(&self.addresses, ","));
        let text = process::output(&mut command, COMMAND)?;
        let none = || Failure::Protocol(format!("a status without a leader: {text}"));
        let status: Value = serde_json::from_str(&text).map_err(|_| none())?;
        let members = status.as_array().map_or(&[][..], Vec::as_slice);
        let leads = |member: &Value| {
            let id = &member["Status"]["header"]["member_id"];
            id.is_u64() && *id == member["Status"]["leader"]
        };
        let found = members.iter().find(|member| members.len() == NODES && leads(member)).ok_or_else(none)?;
        let named = |address: &SocketAddr| {
            found["Endpoint"].as_str().is_some_and(|text| text.ends_with(&address.to_string()))
        };
        self.addresses.iter().position(named).ok_or_else(none)
    }

    fn eventually(
        &mut self,
        otherwise: &str,
        mut look: impl FnMut(&Cluster) -> Result<Option<()>, Failure>,
    ) -> Result<(), Failure> {
        let deadline = process::now() + WHOLE;
        loop {
            self.check()?;
            if look(self)?.is_some() {
                return Ok(());
            }
            if process::now() >= deadline {
                return Err(Failure::Protocol(otherwise.into()));
            }
            process::pause(STATUS_POLL);
        }
    }
}

/// Runs `zerohop up` from nothing until `serves` returns true. Returns how long that took.
pub(crate) fn up(place: &Place, mut serves: impl FnMut(SocketAddr) -> bool) -> Result<Duration, Failure> {
    let program = zerohop(&place.own_program).map_err(Failure::Usage)?;
    let port = process::free_ports(2 * NODES as u16)?;
    let data = place.dir.join("up");
    let line = format!("up --json --nodes {NODES} --port {port} --data");
    let arguments: Vec<String> = words(&line).chain([data.display().to_string()]).collect();
    let mut server = Server::start(&place.own_program, &place.cores, &program, &arguments)?;
    loop {
        server.check()?;
        let passed = process::now() - server.started;
        // It prints its line when all nodes serve.
        if server.printed()?.contains('\n') && serves(at(port)) {
            let took = process::now() - server.started;
            server.end(END)?;
            return Ok(took);
        }
        if passed > WHOLE {
            return Err(Failure::TimedOut(WHOLE));
        }
        process::pause(START_POLL);
    }
}

fn at(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

fn words(line: &str) -> impl Iterator<Item = String> {
    line.split(' ').map(str::to_owned)
}

fn listed(addresses: &[SocketAddr], between: &str) -> String {
    addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(between)
}
