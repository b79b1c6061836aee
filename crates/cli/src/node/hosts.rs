//! How a node joins its cluster: from the command line, files and the batch scheduler.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use zerohop_server::hosts::{self, HostEntry, HostsError, PORT_DEFAULT};
use zerohop_server::{ClusterOptions, JoinMethod, LocalStart};

use super::listen;
use crate::common::ending::CommandError;
use crate::common::endpoint::with_port;
use crate::common::names;
use crate::common::quantity;

/// The longest wait before primaries are balanced: with a longer one, a returned node would idle for good.
const BALANCE_AFTER_MAX: Duration = Duration::from_secs(3600);

/// The most bytes of the name of a failure domain, and of its value.
const DOMAIN_BYTES_MAX: usize = 64;

/// The most bytes of a file of hosts that are read.
const FILE_BYTES_MAX: u64 = 16 << 20;

#[derive(Args, Debug)]
#[group(multiple = true)]
pub(super) struct ClusterArguments {
    /// Starts a new cluster together with other nodes. LIST has all hosts and is the same on each, as in
    /// node[001-003,007]:7400,login. The first hosts form the control group.
    #[arg(long, value_name = "LIST", conflicts_with_all = ["host_file", "scheduler", "join"])]
    hosts: Option<String>,
    /// Reads the list of hosts from a file, one host per line.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["scheduler", "join"])]
    host_file: Option<PathBuf>,
    /// Reads the list of hosts from the environment of the batch scheduler that started this process: Slurm or PBS.
    #[arg(long, conflicts_with = "join")]
    scheduler: bool,
    /// Joins an existing cluster: the address of one of its managers. May be given several times.
    #[arg(long, value_name = "HOST:PORT", value_parser = manager)]
    join: Vec<SocketAddr>,
    /// The name of a cluster that starts together. It distinguishes clusters at the same addresses, each with its own
    /// folders.
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    cluster_name: String,
    /// The addresses of the bootstrap members. `zerohop up` passes them to its nodes.
    #[arg(long, value_name = "HOST:PORT,...", value_delimiter = ',', hide = true)]
    bootstrap_addresses: Vec<SocketAddr>,
    /// The cluster has no log yet: its bootstrap members create it. `zerohop up` passes this option.
    #[arg(long, hide = true)]
    bootstrap: bool,
    /// A manager of the control group by its number, and where it listens now. `zerohop up` passes this option.
    #[arg(long, value_name = "NUMBER=HOST:PORT", value_parser = parse_manager, hide = true)]
    control_member: Vec<(u64, SocketAddr)>,
    /// The failure domain of this node, as in rack=a. Copies of a partition are placed in different domains.
    #[arg(long, value_name = "NAME=VALUE", value_parser = domain)]
    domain: Option<String>,
    /// The weight of this node: how much data it gets, relative to other nodes.
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    capacity: u32,
    /// Balances the primaries of the cluster once no node has gone down or come back for this time, up to 1h. The
    /// setting of the node that leads the control group counts [default: 5s].
    #[arg(long, env = "ZEROHOP_BALANCE_AFTER", value_name = "TIME", value_parser = balance_after)]
    balance_after: Option<Duration>,
    /// Allows a node without a secret to listen where other machines can reach it. Any client that can connect can then
    /// read and write all data.
    #[arg(long)]
    pub(super) insecure: bool,
}

impl ClusterArguments {
    /// The cluster options of the node; `None`: none was given.
    pub(super) fn options(&self, listen: Option<SocketAddr>) -> Result<Option<ClusterOptions>, CommandError> {
        let usage = |error: HostsError| CommandError::Usage(error.to_string());
        let (hosts, own_number) = if let Some(list) = &self.hosts {
            (hosts::expand(list).map_err(usage)?, None)
        } else if let Some(path) = &self.host_file {
            let text = read(path).map_err(CommandError::Usage)?;
            (hosts::expand(&text).map_err(usage)?, None)
        } else if self.scheduler {
            let variable = |name: &str| std::env::var(name).ok();
            let found = hosts::of_scheduler(variable, |path| read(Path::new(path))).map_err(usage)?;
            (found.hosts, found.own_index)
        } else if self.join.is_empty() {
            return Ok(None);
        } else {
            return Ok(Some(self.of(JoinMethod::Join(self.join.clone()))));
        };
        let me = match own_number {
            Some(me) => me,
            None => {
                let at = listen.map(|at| (at.ip().to_string(), at.port()));
                let at = at.as_ref().map(|(name, port)| (name.as_str(), *port));
                let called = rustix::system::uname().nodename().to_string_lossy().into_owned();
                hosts::find_self(&hosts, at, &called, PORT_DEFAULT, is_here).map_err(usage)?
            }
        };
        let addresses = hosts.iter().map(resolve).collect::<Result<Vec<_>, CommandError>>()?;
        let mut sorted: Vec<(&SocketAddr, &HostEntry)> = addresses.iter().zip(&hosts).collect();
        sorted.sort_unstable();
        if let Some(pair) = sorted.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err(CommandError::Usage(format!(
                "the list of hosts names one address twice: {} and {} are both {}",
                pair[0].1, pair[1].1, pair[0].0
            )));
        }
        let name = self.cluster_name.clone();
        Ok(Some(self.of(JoinMethod::Together { hosts: addresses, own_index: me, name })))
    }

    /// The information from the process that started all nodes of a local cluster; `None`: there is
    /// none.
    pub(super) fn local(&self) -> Option<LocalStart> {
        let (bootstrap_addresses, managers) = (self.bootstrap_addresses.clone(), self.control_member.clone());
        let is_local = !bootstrap_addresses.is_empty() || !managers.is_empty();
        is_local.then_some(LocalStart { bootstrap_addresses, is_first: self.bootstrap, managers })
    }

    fn of(&self, method: JoinMethod) -> ClusterOptions {
        ClusterOptions {
            method,
            domain: self.domain.as_deref().map_or(0, domain_of),
            capacity: self.capacity,
            balance_after: self.balance_after,
        }
    }
}

/// Parses the address of a manager; the port has a default. For clap.
fn manager(text: &str) -> Result<SocketAddr, String> {
    listen(&with_port(text)?)
}

/// The listening address of a node of a list.
pub(super) fn listen_of(options: &ClusterOptions) -> Option<SocketAddr> {
    match &options.method {
        JoinMethod::Together { hosts, own_index: me, .. } => hosts.get(*me).copied(),
        JoinMethod::Join(_) => None,
    }
}

/// Parses a manager's number and address. For clap.
fn parse_manager(text: &str) -> Result<(u64, SocketAddr), String> {
    let (id, at) = text.split_once('=').ok_or("write NUMBER=HOST:PORT")?;
    Ok((id.parse().map_err(|_| "no number")?, at.parse().map_err(|_| "no address")?))
}

/// Parses the time after which primaries are balanced. For clap.
fn balance_after(text: &str) -> Result<Duration, String> {
    let time = quantity::duration(text)?;
    if time <= BALANCE_AFTER_MAX { Ok(time) } else { Err("a time up to 1h is allowed".to_owned()) }
}

/// Validates a failure domain, NAME=VALUE, and returns it. Nodes of one domain must give identical
/// text, so that characters that are easily confused are not allowed. For clap.
fn domain(text: &str) -> Result<String, String> {
    let is_word = |word: &str| {
        let is_fine = |one: char| one.is_ascii_alphanumeric() || "._-:/".contains(one);
        !word.is_empty() && word.len() <= DOMAIN_BYTES_MAX && word.chars().all(is_fine)
    };
    match text.split_once('=') {
        Some((name, value)) if is_word(name) && is_word(value) => Ok(text.to_owned()),
        _ => Err("write NAME=VALUE of letters, digits and . _ - : /, as in rack=a".to_owned()),
    }
}

/// The number of a domain: nodes with the same text are in the same domain. FNV-1a; zero means no
/// domain.
fn domain_of(text: &str) -> u32 {
    let hash =
        text.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    hash.max(1)
}

fn read(path: &Path) -> Result<String, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", names::path(path));
    let bytes = std::fs::metadata(path).map_err(failed)?.len();
    if bytes > FILE_BYTES_MAX {
        return Err(format!("{}: {bytes} bytes are no list of hosts", names::path(path)));
    }
    std::fs::read_to_string(path).map_err(failed)
}

/// The address of a host. One that other machines can reach is preferred: a machine's own name
/// often resolves to its loopback.
fn resolve(host: &HostEntry) -> Result<SocketAddr, CommandError> {
    let port = host.port.unwrap_or(PORT_DEFAULT);
    let found = (host.name.as_str(), port).to_socket_addrs();
    let mut all: Vec<SocketAddr> = found
        .map_err(|error| CommandError::Usage(format!("the host {host} of the list has no address: {error}")))?
        .collect();
    all.sort_by_key(|address| (address.ip().is_loopback(), address.is_ipv6()));
    all.first()
        .copied()
        .ok_or_else(|| CommandError::Usage(format!("the host {host} of the list has no address")))
}

/// Whether a name resolves to an address of this machine, at which it can listen.
fn is_here(name: &str) -> bool {
    let Ok(addresses) = (name, 0).to_socket_addrs() else { return false };
    #[expect(
        clippy::disallowed_methods,
        reason = "asks the system whether the address is its own, and lets go"
    )]
    addresses.into_iter().any(|address| std::net::TcpListener::bind(address).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_addresses_are_distinguished_from_remote_ones() {
        assert!(is_here("127.0.0.1") && is_here("localhost"));
        // The first name is an address reserved for documentation.
        assert!(!is_here("203.0.113.1") && !is_here("no such name"));
    }

    #[test]
    fn balancing_waits_for_an_hour_at_most() {
        assert_eq!(balance_after("0"), Ok(Duration::ZERO));
        assert_eq!(balance_after("1h"), Ok(BALANCE_AFTER_MAX));
        assert!(balance_after("61m").unwrap_err().contains("up to 1h"));
        assert!(balance_after("-1").is_err() && balance_after("soon").is_err());
    }

    #[test]
    fn equal_texts_give_equal_failure_domains() {
        assert_eq!(domain_of("rack=a"), domain_of("rack=a"));
        assert_ne!(domain_of("rack=a"), domain_of("rack=b"));
        assert_eq!(domain("rack=a").as_deref(), Ok("rack=a"));
        for bad in ["", "rack", "rack=", "=a", "rack=a b", "rack=a=b", "räck=a"] {
            assert!(domain(bad).is_err(), "{bad}");
        }
    }
}
