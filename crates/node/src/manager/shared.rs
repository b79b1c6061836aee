//! What the tasks of the manager share. It never leaves the manager's thread.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::VecDeque;

use tokio::sync::mpsc;
use zerohop_placement::MapHistory;
use zerohop_wire::auth::Secret;
use zerohop_wire::ids::{Incarnation, NodeId, SessionId, Timestamp};
use zerohop_wire::messages::ClusterId;

use super::ControlJob;
use super::accept_limits::Door;
use super::cluster::{ClusterHandle, Follow};
use super::data_losses::DataLosses;
use super::instances::InstanceHandle;
use crate::clock::{HybridClock, Stopwatch};
use crate::proofs::Proofs;
use crate::server::ConnectionLimits;
use crate::server::limits::TROUBLES_MAX;
use crate::tls::TlsOptions;

/// Who the node is.
#[derive(Clone, Debug)]
pub(crate) struct NodeIdentity {
    /// All zero: it is not known yet.
    pub(crate) cluster: ClusterId,
    /// Zero: it has not joined yet.
    pub(crate) node: NodeId,
    pub(crate) incarnation: Incarnation,
    pub(crate) started_ms: u64,
    /// There is no data folder.
    pub(crate) in_memory: bool,
    /// What the operator must know about the disk.
    pub(crate) warning: Option<&'static str>,
    /// The cluster's secret, if it has one.
    pub(crate) secret: Option<Secret>,
    pub(crate) tls: Option<TlsOptions>,
    pub(crate) connections: ConnectionLimits,
    /// Names of this node by which HTTP is served where there is no secret.
    pub(crate) http_names: Vec<String>,
}

/// How far the node has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NodePhase {
    /// Instances open their data.
    Recovering,
    /// All is well.
    Serving,
    /// It was told to stop.
    Stopping,
    /// An instance has ended, and the others are being stopped.
    Failed(String),
}

/// See the module.
#[derive(Debug)]
pub(super) struct ManagerShared {
    pub(super) about: NodeIdentity,
    /// As [`NodeIdentity`] has them at first.
    pub(super) cluster: Cell<ClusterId>,
    pub(super) node: Cell<NodeId>,
    /// Its part in a cluster; a node that stands alone has none.
    cluster_handle: OnceCell<ClusterHandle>,
    pub(super) follow: Follow,
    pub(super) history: RefCell<MapHistory>,
    /// Of the cluster's secret, if it has one.
    pub(super) proofs: RefCell<Option<Proofs>>,
    pub(super) phase: RefCell<NodePhase>,
    pub(super) instances: OnceCell<Vec<InstanceHandle>>,
    pub(super) jobs: mpsc::Sender<ControlJob>,
    pub(super) uptime: Stopwatch,
    /// Connections to the manager.
    pub(super) door: RefCell<Door>,
    /// Bytes of frames that are still coming, over all connections.
    pub(super) receiving: Cell<usize>,
    /// Connections that found no room.
    pub(super) refused: Cell<u64>,
    /// What the node must remember of its cluster cannot be written, as the disk is full.
    pub(super) store_waits: Cell<bool>,
    /// What the node's start waits for, besides its own data.
    pub(super) waits: RefCell<Option<String>>,
    /// What is missing since nodes were started again.
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
            follow: Follow::new(),
            history: RefCell::new(history),
            proofs: RefCell::new(None),
            phase: RefCell::new(NodePhase::Recovering),
            instances: OnceCell::new(),
            jobs,
            uptime: Stopwatch::start(),
            door: RefCell::new(Door::new(&about.connections)),
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
            shared.trouble(warning.to_owned());
        }
        shared
    }

    /// The instances; none before they serve.
    pub(super) fn instances(&self) -> &[InstanceHandle] {
        self.instances.get().map_or(&[], Vec::as_slice)
    }

    /// The way to the agent of a node in a cluster.
    pub(super) fn cluster_handle(&self) -> Option<&ClusterHandle> {
        self.cluster_handle.get()
    }

    /// The node is in a cluster, or will be.
    pub(super) fn is_in_cluster(&self, handle: ClusterHandle) {
        // Told once only.
        drop(self.cluster_handle.set(handle));
    }

    pub(super) fn phase(&self) -> NodePhase {
        self.phase.borrow().clone()
    }

    /// Why the node itself does not serve; `None` if it does.
    pub(super) fn why_not(&self) -> Option<String> {
        match (self.phase(), &*self.waits.borrow()) {
            (NodePhase::Recovering, Some(waits_for)) => Some(format!("the node waits for {waits_for}")),
            (phase, _) => phase.why_not(),
        }
    }

    /// Takes note of what the operator should know.
    pub(super) fn trouble(&self, trouble: String) {
        let mut troubles = self.troubles.borrow_mut();
        if !troubles.contains(&trouble) {
            if troubles.len() == TROUBLES_MAX {
                troubles.pop_front();
            }
            troubles.push_back(trouble);
        }
    }

    pub(super) fn troubles(&self) -> Vec<String> {
        self.troubles.borrow().iter().cloned().collect()
    }

    /// A session of its own: no instance issues one of this nonce, and no time is given twice.
    pub(super) fn new_session(&self) -> SessionId {
        SessionId { issued: self.now(), nonce: self.about.incarnation.0 }
    }

    /// A time that was never given before.
    pub(super) fn now(&self) -> Timestamp {
        self.clock.borrow_mut().tick()
    }
}

impl NodePhase {
    /// What it is called.
    pub(super) fn name(&self) -> &'static str {
        match self {
            NodePhase::Recovering => "recovering",
            NodePhase::Serving => "serving",
            NodePhase::Stopping => "stopping",
            NodePhase::Failed(_) => "failed",
        }
    }

    /// Why the node does not serve; `None` if it does.
    pub(super) fn why_not(&self) -> Option<String> {
        match self {
            NodePhase::Serving => None,
            NodePhase::Recovering => Some("the node reads its data; it serves once that is done".to_owned()),
            NodePhase::Stopping => Some("the node was told to stop".to_owned()),
            NodePhase::Failed(reason) => Some(format!("{reason}; the node stops")),
        }
    }
}
