//! How an agent is to be, told once at its start.

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

/// How an agent is to be. The incarnation doubles as the nonce that names its requests, so it must be drawn again at every
/// start, and never zero.
#[derive(Clone, Debug)]
pub struct AgentSettings {
    /// Of its random numbers; drawn again at every start.
    pub seed: u64,
    /// The cluster. All zero if it is not known yet: it is asked for, see [`super::AgentEffect::Cluster`].
    pub cluster: ClusterId,
    /// The node's own number, if its folder remembers one.
    pub node: Option<NodeId>,
    /// The nonce of this start.
    pub incarnation: Incarnation,
    /// Where this agent listens, as others reach it.
    pub manager: Address,
    /// Where its instances listen, in order.
    pub instances: Vec<Address>,
    /// What fails together with it: a rack, a power supply.
    pub domain: u32,
    /// How much it can take, beside others.
    pub capacity: u32,
    /// Whom to ask first: addresses of any nodes' managers. The founders need not be named again.
    pub contacts: Vec<Address>,
    /// Those of them whom the operator has named for this start: if all of them are of another cluster, it is in the wrong place,
    /// whoever else its folder remembers.
    pub named: Vec<Address>,
    /// Managers that listen elsewhere than the control group may know yet, and where: this node's shell has started all of them.
    pub moved: Vec<ManagerInfo>,
    /// Of a node that does not know its number: where an earlier start of it may have joined before it could note the number.
    /// Nothing else listens there now.
    pub joined_at: Option<Address>,
    /// Its part in the control group.
    pub control: ControlRole,
    /// The map that its folder remembers; empty if none.
    pub map: Arc<ClusterMap>,
    /// How soon the leader acts.
    pub lead: LeadSettings,
    /// How soon somebody is taken for dead.
    pub gossip: GossipSettings,
    /// How long a node may be in the map, unheard of by gossip, until a manager takes it for dead; longer in large clusters.
    pub silent_ms: u64,
    /// How long an operator waits for an answer at most.
    pub operate_ms: u64,
    /// Entries in the control log after which a snapshot takes their place.
    pub log_entries_max: usize,
}

/// A node's part in the control group at its start.
#[derive(Clone, Debug)]
pub enum ControlRole {
    /// None.
    No,
    /// It is a member, and this is its log as it is on disk.
    Log(Vec<u8>),
    /// It is a founder and has no log: the cluster has never been started, or its log is lost. The group is founded when
    /// all founders are heard from, and nobody knows of anything that was decided before.
    Found {
        /// Its number among the founders.
        id: ManagerId,
        /// All of them, the same list for everybody.
        founders: Vec<ManagerInfo>,
        /// Where the managers of all nodes of the first list of hosts listen, the same list for everybody: these nodes get the
        /// numbers of their places in it. Empty: they are numbered as they come.
        places: Vec<Address>,
    },
    /// It is to be taken in by `SetManagers` under this new number.
    New {
        /// Drawn when its disk was made.
        id: ManagerId,
    },
}

impl AgentSettings {
    /// The defaults, for a node that listens there, knows nothing, and is no manager.
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
            lead: LeadSettings::default(),
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
    /// The settings cannot be.
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
