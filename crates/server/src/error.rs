//! Errors of a node's start and end.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use zerohop_disk::OpenDiskError;
use zerohop_engine::disk::DiskError;
use zerohop_placement::MapError;
use zerohop_system::descriptors::Descriptors;
use zerohop_wire::escaped::shown_path;
use zerohop_wire::ids::InstanceId;
use zerohop_wire::plurals::{by_number, counted};

use crate::node_files::persisted::SavedError;

/// The reason why a node does not start. Nothing was changed except by recovery's own repairs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StartError {
    /// The address is reachable from other machines.
    NotLoopback {
        /// The requested address.
        listen: SocketAddr,
    },
    /// The number of instances is invalid.
    Instances {
        /// The requested number.
        requested: usize,
        /// The maximum.
        most: usize,
    },
    /// The data was created with another number of instances.
    InstancesFixed {
        /// The data folder.
        root: PathBuf,
        /// The number at creation.
        has: usize,
        /// The requested number.
        requested: usize,
    },
    /// The process has too few descriptors for its data and for connections.
    Descriptors {
        /// The process's limit.
        limit: u64,
        /// The number that its data and the rest of the process need.
        required: u64,
    },
    /// The data folder could not be opened, for example because another process uses it.
    Folder(OpenDiskError),
    /// The data folder has other contents.
    ForeignFolder {
        /// The folder.
        root: PathBuf,
        /// What it is, and what the user can do.
        reason: String,
    },
    /// The node's state file cannot be read.
    State {
        /// The file.
        path: PathBuf,
        /// The reason.
        error: SavedError,
    },
    /// The node's file about its cluster cannot be read.
    Member {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// The node cannot join the cluster as requested.
    Cluster {
        /// The reason, and what the user can do.
        reason: String,
    },
    /// The cluster has no place for this node: starting it again changes nothing.
    NoPlace {
        /// The reason, and what the user can do.
        reason: String,
    },
    /// The node's state could not be saved.
    NotSaved(DiskError),
    /// The cluster map does not permit this start.
    Map(MapError),
    /// The node cannot listen at an address.
    Listen {
        /// The address.
        address: String,
        /// The reason.
        reason: String,
    },
    /// An instance could not open its data.
    Instance {
        /// The instance.
        instance: InstanceId,
        /// The reason.
        reason: String,
    },
    /// An instance did not open its data in time.
    Overdue {
        /// How long the node waited.
        waited: Duration,
    },
    /// The system could not provide a thread, random numbers or an event queue.
    System {
        /// The operation that failed.
        operation: &'static str,
        /// The reason.
        reason: String,
    },
}

/// The reason why a running node has failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServeError {
    /// An instance failed or could not close its data; all others were stopped.
    Instance {
        /// The instance.
        instance: InstanceId,
        /// What happened.
        reason: String,
    },
    /// An instance did not stop in time. Its acknowledged writes are as durable as their keyspaces say.
    Overdue {
        /// The instance.
        instance: InstanceId,
        /// How long the node waited.
        waited: Duration,
    },
    /// The node cannot act as a member of its cluster, as it cannot write its control log or was refused; all instances were stopped.
    Cluster {
        /// The reason, and what the user can do.
        reason: String,
    },
    /// The node is no longer a member of its cluster, and starting it again changes nothing: it was removed, or its data is of another cluster.
    NoPlace {
        /// The reason, and what the user can do.
        reason: String,
    },
    /// The manager failed; all instances were stopped.
    Manager {
        /// What happened.
        reason: String,
    },
}

impl StartError {
    /// The error for this limit of descriptors, with the least limit that these instances need.
    pub(crate) fn too_few_descriptors(limit: u64, instances: usize) -> Self {
        let is_enough = |most: &u64| !Descriptors::new(Some(*most), instances as u64).is_too_few();
        StartError::Descriptors { limit, required: (limit..).find(is_enough).unwrap_or(u64::MAX) }
    }
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::NotLoopback { listen } => write!(
                f,
                "{listen} is reachable from other machines, and the cluster has no secret. Make one with `zerohop secret new PATH` and \
                 start every node with --secret-file PATH, listen on 127.0.0.1 or [::1], or pass --insecure"
            ),
            StartError::Instances { requested, most } => {
                write!(f, "{}: ask for 1 to {most}, or leave the option out", counted(*requested, "instance"))
            }
            StartError::InstancesFixed { root, has, requested } => write!(
                f,
                "{}: this folder has {}, {requested} {} requested, and the number cannot change. Start with --instances {has}, or \
                 without the option",
                shown_path(root),
                counted(*has, "instance"),
                by_number(*requested, "was", "were")
            ),
            StartError::Descriptors { limit, required } => write!(
                f,
                "this process may have {limit} descriptors, and needs {required}: allow it as many (`ulimit -n`, or nofile in \
                 limits.conf), or start with fewer --instances"
            ),
            StartError::Folder(error) => error.fmt(f),
            StartError::ForeignFolder { root, reason } => write!(f, "{}: {reason}", shown_path(root)),
            StartError::State { path, error } => write!(f, "{}: {error}", shown_path(path)),
            StartError::Member { path, reason } => write!(f, "{}: {reason}", shown_path(path)),
            StartError::Cluster { reason } | StartError::NoPlace { reason } => f.write_str(reason),
            StartError::NotSaved(error) => write!(f, "the node's state could not be saved: {error}"),
            StartError::Map(error) => write!(f, "the cluster map cannot be brought up to date: {error}"),
            StartError::Listen { address, reason } => write!(
                f,
                "cannot listen at {address}: {reason}; another process may have the port, give another with --listen (`zerohop up`: --port)"
            ),
            StartError::Instance { instance, reason } => {
                write!(f, "instance {instance} could not open its data: {reason}")
            }
            StartError::Overdue { waited } => {
                write!(
                    f,
                    "the instances did not open their data within {waited:?}: the disk is slow or stuck"
                )
            }
            StartError::System { operation, reason } => write!(f, "{operation} failed: {reason}"),
        }
    }
}

impl fmt::Display for ServeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServeError::Instance { instance, reason } => {
                write!(f, "instance {instance} has ended ({reason}), so the node has stopped: start it again")
            }
            ServeError::Overdue { instance, waited } => {
                write!(f, "instance {instance} did not stop within {waited:?}: its disk is slow or stuck")
            }
            ServeError::Cluster { reason } | ServeError::NoPlace { reason } => f.write_str(reason),
            ServeError::Manager { reason } => {
                write!(f, "the manager has ended ({reason}), so the node has stopped: start it again")
            }
        }
    }
}

/// The error of a start during which the node has failed.
impl From<ServeError> for StartError {
    fn from(error: ServeError) -> StartError {
        match error {
            ServeError::NoPlace { reason } => StartError::NoPlace { reason },
            other => StartError::Cluster { reason: other.to_string() },
        }
    }
}

impl std::error::Error for StartError {}
impl std::error::Error for ServeError {}
