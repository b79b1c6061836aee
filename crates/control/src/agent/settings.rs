//! Settings of an agent, given once at its start.

use std::fmt;
use std::sync::Arc;

use zerohop_placement::{Address, ClusterMap};
use zerohop_wire::ids::{Incarnation, NodeId};
use zerohop_wire::messages::ClusterId;

use crate::LogError;
use crate::command::{ManagerId, ManagerInfo};
use crate::gossip::GossipSettings;
use crate::limits::LOG_ENTRIES_MAX;
use crate::manager::LeadSettings;

/// Settings of an agent. The incarnation doubles as the nonce that identifies its requests, so it must be
/// drawn again at every start, and must not be zero.
#[derive(Clone, Debug)]
pub struct AgentSettings {
    /// Seed of its random numbers; drawn again at every start.
    pub seed: u64,
    /// The cluster. All zero if it is not known yet: the agent then requests it, see
    /// [`super::AgentEffect::Cluster`].
    pub cluster: ClusterId,
    /// The node's own number, if its folder has one.
    pub node: Option<NodeId>,
    /// The nonce of this start.
    pub incarnation: Incarnation,
    /// The address of this agent, as others reach it.
    pub manager: Address,
    /// The addresses of its instances, in order.
    pub instances: Vec<Address>,
    /// The failure domain of the node: a rack, a power supply.
    pub domain: u32,
    /// The capacity of the node, relative to others.
    pub capacity: u32,
    /// The first addresses to contact: managers of any nodes. The bootstrap members need not be repeated
    /// here.
    pub contacts: Vec<Address>,
    /// Those contacts that the operator named for this start. If all of them belong to another cluster, the
    /// node is in the wrong place, whatever other addresses its folder has.
    pub named: Vec<Address>,
    /// Managers that have moved to addresses that the control group may not know yet: this node's shell has
    /// started all of them.
    pub moved: Vec<ManagerInfo>,
    /// For a node that does not know its number: the address at which an earlier start of it may have joined
    /// before it could store the number. No other process listens there now.
    pub joined_at: Option<Address>,
    /// The node's part in the control group.
    pub control: ControlRole,
    /// The map in its folder; empty if there is none.
    pub map: Arc<ClusterMap>,
    /// The delays after which the leader acts.
    pub leader: LeadSettings,
    /// The delays after which a node is considered dead.
    pub gossip: GossipSettings,
    /// How long a node may be in the map, unknown to gossip, before a manager considers it dead; longer in
    /// large clusters.
    pub silent_ms: u64,
    /// How long an operator waits for an answer at most.
    pub operate_ms: u64,
    /// Number of entries in the control log after which a snapshot replaces them.
    pub log_entries_max: usize,
}

/// A node's part in the control group at its start.
#[derive(Clone, Debug)]
pub enum ControlRole {
    /// None.
    No,
    /// The node is a member, and this is its log as it is on disk.
    Log(Vec<u8>),
    /// The node is a bootstrap member and has no log: the cluster has never been started, or its log is lost.
    /// The group bootstraps when all bootstrap members are heard from, and none of them knows of an earlier
    /// decision.
    Bootstrap {
        /// Its number among the bootstrap members.
        id: ManagerId,
        /// All bootstrap members; every node gets the same list.
        members: Vec<ManagerInfo>,
        /// The addresses of the managers of all nodes in the first list of hosts; every node gets the same
        /// list. These nodes get the numbers of their places in it. Empty: nodes are numbered in the order in
        /// which they join.
        addresses: Vec<Address>,
    },
    /// The node is to be added by `SetManagers` under this new number.
    New {
        /// Drawn when its disk was made.
        id: ManagerId,
    },
}

impl AgentSettings {
    /// The defaults, for a node at this address that has no number and no manager.
    pub fn new(seed: u64, cluster: ClusterId, incarnation: Incarnation, manager: Address) -> AgentSettings {
        AgentSettings {
            seed,
            cluster,
            node: None,
            incarnation,
            manager,
            instances: Vec::new(),
            domain: 0,
            capacity: 1,
            contacts: Vec::new(),
            named: Vec::new(),
            moved: Vec::new(),
            joined_at: None,
            control: ControlRole::No,
            map: Arc::default(),
            leader: LeadSettings::default(),
            gossip: GossipSettings::default(),
            silent_ms: 5_000,
            operate_ms: 10_000,
            log_entries_max: LOG_ENTRIES_MAX,
        }
    }
}

/// Why an agent does not start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpenError {
    /// The control log is damaged.
    Log(LogError),
    /// The settings are invalid.
    Settings(&'static str),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::Log(error) => error.fmt(f),
            OpenError::Settings(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for OpenError {}
