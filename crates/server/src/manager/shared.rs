//! The state that the manager's tasks share. It never leaves the manager's thread.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::VecDeque;
use std::path::PathBuf;

use tokio::sync::mpsc;
use zerohop_placement::MapHistory;
use zerohop_reactor::{Proofs, TlsOptions};
use zerohop_system::clock::{HybridClock, Stopwatch};
use zerohop_wire::auth::Secret;
use zerohop_wire::ids::{Incarnation, NodeId, SessionId, Timestamp};
use zerohop_wire::messages::ClusterId;

use super::ControlJob;
use super::accept_limits::AcceptLimits;
use super::cluster_handle::ClusterHandle;
use super::data_losses::DataLosses;
use super::instances::InstanceHandle;
use super::map_changes::MapChangeQueue;
use crate::limits::ALERTS_MAX;
use crate::limits::ConnectionLimits;

/// The identity of the node.
#[derive(Clone, Debug)]
pub(crate) struct NodeIdentity {
    /// All zero: not known yet.
    pub(crate) cluster: ClusterId,
    /// Zero: the node has not joined yet.
    pub(crate) node: NodeId,
    pub(crate) incarnation: Incarnation,
    pub(crate) started_ms: u64,
    /// There is no data folder.
    pub(crate) in_memory: bool,
    /// The data folder.
    pub(crate) data: Option<PathBuf>,
    /// A warning about the disk for the operator.
    pub(crate) warning: Option<&'static str>,
    /// The cluster's secret, if there is one.
    pub(crate) secret: Option<Secret>,
    pub(crate) tls: Option<TlsOptions>,
    pub(crate) connections: ConnectionLimits,
    /// Host names of this node for which HTTP is served without a secret.
    pub(crate) http_names: Vec<String>,
}

/// The phase of the node's life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NodePhase {
    /// The instances are opening their data.
    Recovering,
    /// The node serves.
    Serving,
    /// The node is stopping.
    Stopping,
    /// An instance has ended, and the others are being stopped.
    Failed(String),
}

/// The shared state; see the module.
#[derive(Debug)]
pub(super) struct ManagerShared {
    pub(super) about: NodeIdentity,
    /// The initial value is that of [`NodeIdentity`].
    pub(super) cluster: Cell<ClusterId>,
    pub(super) node: Cell<NodeId>,
    /// The handle of its agent; a standalone node has none.
    cluster_handle: OnceCell<ClusterHandle>,
    pub(super) map_changes: MapChangeQueue,
    pub(super) history: RefCell<MapHistory>,
    /// The proofs of the cluster's secret, if there is one.
    pub(super) proofs: RefCell<Option<Proofs>>,
    pub(super) phase: RefCell<NodePhase>,
    pub(super) instances: OnceCell<Vec<InstanceHandle>>,
    pub(super) jobs: mpsc::Sender<ControlJob>,
    pub(super) uptime: Stopwatch,
    /// Connections to the manager.
    pub(super) door: RefCell<AcceptLimits>,
    /// Bytes of incomplete frames, over all connections.
    pub(super) receiving: Cell<usize>,
    /// Number of connections that found no place.
    pub(super) refused: Cell<u64>,
    /// The node's saved state of its cluster cannot be written, because the disk is full.
    pub(super) store_waits: Cell<bool>,
    /// What the node's start waits for, other than its own data.
    pub(super) waits: RefCell<Option<String>>,
    /// Data that was lost by restarts of nodes.
    pub(super) losses: RefCell<DataLosses>,
    troubles: RefCell<VecDeque<String>>,
    clock: RefCell<HybridClock>,
}

impl ManagerShared {
    pub(super) fn new(about: NodeIdentity, history: MapHistory, jobs: mpsc::Sender<ControlJob>) -> Self {
        let shared = ManagerShared {
            cluster: Cell::new(about.cluster),
            node: Cell::new(about.node),
            cluster_handle: OnceCell::new(),
            map_changes: MapChangeQueue::new(),
            history: RefCell::new(history),
            proofs: RefCell::new(None),
            phase: RefCell::new(NodePhase::Recovering),
            instances: OnceCell::new(),
            jobs,
            uptime: Stopwatch::start(),
            door: RefCell::new(AcceptLimits::new(&about.connections)),
            receiving: Cell::new(0),
            refused: Cell::new(0),
            store_waits: Cell::new(false),
            waits: RefCell::default(),
            losses: RefCell::default(),
            troubles: RefCell::default(),
            clock: RefCell::default(),
            about,
        };
        if let Some(warning) = shared.about.warning {
            shared.record_alert(warning.to_owned());
        }
        shared
    }

    /// The instances; none before they serve.
    pub(super) fn instances(&self) -> &[InstanceHandle] {
        self.instances.get().map_or(&[], Vec::as_slice)
    }

    /// The handle of the agent, if the node is in a cluster.
    pub(super) fn cluster_handle(&self) -> Option<&ClusterHandle> {
        self.cluster_handle.get()
    }

    /// Records that the node is in a cluster, or will be.
    pub(super) fn is_in_cluster(&self, handle: ClusterHandle) {
        // This is set only once.
        drop(self.cluster_handle.set(handle));
    }

    pub(super) fn phase(&self) -> NodePhase {
        self.phase.borrow().clone()
    }

    /// The reason why the node itself does not serve; `None` if it does.
    pub(super) fn unserved_reason(&self) -> Option<String> {
        match (self.phase(), &*self.waits.borrow()) {
            (NodePhase::Recovering, Some(waits_for)) => Some(format!("the node waits for {waits_for}")),
            (phase, _) => phase.unserved_reason(),
        }
    }

    /// Records a trouble for the operator.
    pub(super) fn record_alert(&self, trouble: String) {
        let mut troubles = self.troubles.borrow_mut();
        if !troubles.contains(&trouble) {
            if troubles.len() == ALERTS_MAX {
                troubles.pop_front();
            }
            troubles.push_back(trouble);
        }
    }

    /// The cause of the troubles that begin so has ended.
    pub(super) fn end_alerts(&self, beginning: &str) {
        self.troubles.borrow_mut().retain(|trouble| !trouble.starts_with(beginning));
    }

    pub(super) fn troubles(&self) -> Vec<String> {
        self.troubles.borrow().iter().cloned().collect()
    }

    /// A new unique session: no instance issues one with this nonce, and no timestamp is used twice.
    pub(super) fn new_session(&self) -> SessionId {
        SessionId { issued: self.now(), nonce: self.about.incarnation.0 }
    }

    /// A unique timestamp.
    pub(super) fn now(&self) -> Timestamp {
        self.clock.borrow_mut().tick()
    }
}

impl NodePhase {
    /// The name of the phase.
    pub(super) fn name(&self) -> &'static str {
        match self {
            NodePhase::Recovering => "recovering",
            NodePhase::Serving => "serving",
            NodePhase::Stopping => "stopping",
            NodePhase::Failed(_) => "failed",
        }
    }

    /// The reason why the node does not serve; `None` if it does.
    pub(super) fn unserved_reason(&self) -> Option<String> {
        match self {
            NodePhase::Serving => None,
            NodePhase::Recovering => Some("the node reads its data; it serves once that is done".to_owned()),
            NodePhase::Stopping => Some("the node received a signal to stop".to_owned()),
            NodePhase::Failed(reason) => Some(format!("{reason}; the node stops")),
        }
    }
}
