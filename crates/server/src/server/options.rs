//! The options of a node.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use tracing::{info, warn};
use zerohop_wire::auth::Secret;

use super::{LocalStart, TlsOptions};
use crate::instance::gateway::GatewayStart;
use crate::limits::{ConnectionLimits, MEMORY_BYTES_DEFAULT, REDIS_TIME_OUT_DEFAULT};
use crate::memory_limit::MemoryLimit;
use crate::partition_limits::PartitionLimits;

/// The options of a node.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// The manager's address; the instances use the ports that follow. Port 0: all use free ports.
    pub listen: SocketAddr,
    /// The data folder, created if it does not exist. `None`: everything is in memory, and is lost with the process.
    pub data: Option<PathBuf>,
    /// The number of instances. `None`: the number at the data's creation; for new data one for each core, at most 8.
    pub instances: Option<usize>,
    /// Memory for the newest part of the data, in bytes, over all instances; indexes need additional memory. `None`: 1 GiB, or a
    /// quarter of what the node may use, if that is less.
    pub memory_bytes: Option<u64>,
    /// The limits of its partitions.
    pub partitions: PartitionLimits,
    /// Its membership in a cluster of several nodes. `None`: as saved in the data folder; with new data, the node is standalone.
    pub cluster: Option<ClusterOptions>,
    /// Its part in a local cluster, for all of whose folders one process starts nodes.
    pub local: Option<LocalStart>,
    /// The cluster's secret, which both sides of every connection must prove to know.
    pub secret: Option<Secret>,
    /// The node may listen where other machines can reach it, even without a secret.
    pub insecure: bool,
    /// The TLS settings, if TLS is in use.
    pub tls: Option<TlsOptions>,
    /// The caller will call [`super::Server::set_cross_partition`] once the node is started. Until then, Redis commands with keys in several partitions get a temporary
    /// error; without this option they are refused permanently.
    pub serves_cross_partition: bool,
    /// How long commands of Redis clients wait for a partition without a primary, and for an answer of another instance.
    pub redis_time_out: Duration,
    /// The gateway of each instance. `None`: connections of other protocols get an error.
    pub gateway: Option<GatewayStart>,
    /// Host names for which HTTP is served without a secret, in addition to loopback names, the address of the connection, and the system's name of
    /// this machine.
    pub http_names: Vec<String>,
    /// The limits of connections.
    pub connections: ConnectionLimits,
}

impl ServerOptions {
    /// The default options, with everything in memory.
    #[must_use]
    pub fn new(listen: SocketAddr) -> Self {
        ServerOptions {
            listen,
            data: None,
            instances: None,
            memory_bytes: None,
            partitions: PartitionLimits::default(),
            cluster: None,
            local: None,
            secret: None,
            insecure: false,
            tls: None,
            serves_cross_partition: false,
            redis_time_out: REDIS_TIME_OUT_DEFAULT,
            gateway: None,
            http_names: Vec::new(),
            connections: ConnectionLimits::default(),
        }
    }

    /// The memory budget of the node, in bytes. Logs one that does not fit, and a default that is lower than usual.
    pub(super) fn budget_bytes(&self) -> u64 {
        let nodes = self.local.as_ref().map_or(1, |local| local.bootstrap_addresses.len());
        let limit = MemoryLimit::of_process(nodes);
        let budget_bytes = self.memory_bytes.unwrap_or_else(|| limit.default_budget());
        let mib = budget_bytes >> 20;
        if limit.is_low_for(budget_bytes) {
            warn!(
                "the memory budget is {mib} MiB, but {limit}: the system may end it under load; raise the limit, or give a lower \
                 --memory-budget"
            );
        } else if self.memory_bytes.is_none() && budget_bytes < MEMORY_BYTES_DEFAULT {
            info!("the memory budget is {mib} MiB, as {limit}; --memory-budget sets another");
        }
        budget_bytes
    }
}

/// A node's membership in a cluster of several nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterOptions {
    /// How the node joins.
    pub method: JoinMethod,
    /// The failure domain of the node: nodes of one domain have the same number.
    pub domain: u32,
    /// The capacity of the node relative to others.
    pub capacity: u32,
    /// While this node leads the control group: how long no node has gone down or come back before primaries are balanced. `None`:
    /// five seconds.
    pub balance_after: Option<Duration>,
}

/// How a node joins its cluster. A node that was a member before returns to its cluster whatever this says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JoinMethod {
    /// All nodes start together, with the same list.
    Together {
        /// The addresses of all managers; the first of them bootstrap the control group.
        hosts: Vec<SocketAddr>,
        /// The index of this node in the list.
        own_index: usize,
        /// Distinguishes this cluster from others on the same hosts.
        name: String,
    },
    /// The node joins an existing cluster, of which these are managers.
    Join(Vec<SocketAddr>),
}
