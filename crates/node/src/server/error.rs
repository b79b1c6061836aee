//! Why a node does not start, and why it ended.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use zerohop_engine::disk::DiskError;
use zerohop_placement::MapError;
use zerohop_wire::ids::InstanceId;

use super::persisted::SavedError;
use crate::disk::OpenDiskError;

/// Why a node does not start. Nothing was changed but what recovery itself repairs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StartError {
    /// The address can be reached from other machines.
    NotLoopback {
        /// The address asked for.
        listen: SocketAddr,
    },
    /// No such number of instances.
    Instances {
        /// The number asked for.
        asked: usize,
        /// The most there may be.
        most: usize,
    },
    /// The data was made by another number of instances.
    InstancesFixed {
        /// The data folder.
        root: PathBuf,
        /// The number it was made with.
        has: usize,
        /// The number asked for.
        asked: usize,
    },
    /// The process may have too few descriptors for its data and any connection.
    Descriptors {
        /// How many it may have.
        limit: u64,
        /// How many its data needs.
        reserved: u64,
    },
    /// The data folder could not be opened, among others because another process has it.
    Folder(OpenDiskError),
    /// The data folder is something else's.
    ForeignFolder {
        /// The folder.
        root: PathBuf,
        /// What it is, and what to do.
        reason: String,
    },
    /// The node's state file cannot be read.
    State {
        /// The file.
        path: PathBuf,
        /// Why not.
        error: SavedError,
    },
    /// What the node remembers of its cluster cannot be read.
    Member {
        /// The file.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// It cannot be in the cluster as it was asked to.
    Cluster {
        /// Why not, and what to do.
        reason: String,
    },
    /// The node's state could not be saved.
    NotSaved(DiskError),
    /// The cluster map cannot be as this start needs it.
    Map(MapError),
    /// Nothing can listen there.
    Listen {
        /// The address.
        address: String,
        /// Why not.
        reason: String,
    },
    /// An instance could not open its data.
    Instance {
        /// Which.
        instance: InstanceId,
        /// Why not.
        reason: String,
    },
    /// An instance did not open its data in time.
    Overdue {
        /// How long it was waited for.
        waited: Duration,
    },
    /// The system gave no thread, no random number or no event queue.
    System {
        /// What was tried.
        operation: &'static str,
        /// Why not.
        reason: String,
    },
}

/// Why a node that had started did not end well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServeError {
    /// An instance ended by a fault or could not close its data; all others were stopped.
    Instance {
        /// Which.
        instance: InstanceId,
        /// What happened.
        reason: String,
    },
    /// An instance did not stop in time. What it acknowledged is as durable as its keyspaces say.
    Overdue {
        /// Which.
        instance: InstanceId,
        /// How long it was waited for.
        waited: Duration,
    },
    /// The node has no place in its cluster any more; all instances were stopped.
    Cluster {
        /// Why not, and what to do.
        reason: String,
    },
    /// The manager ended by a fault; all instances were stopped.
    Manager {
        /// What happened.
        reason: String,
    },
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::NotLoopback { listen } => write!(
                f,
                "{listen} can be reached from other machines, and without a secret whoever connects could read and write \
                 everything: make one with `zerohop secret new PATH` and give it to every node with --secret-file PATH; or \
                 listen at 127.0.0.1 or [::1], or say --insecure"
            ),
            StartError::Instances { asked, most } => {
                write!(f, "{asked} instances: ask for 1 to {most}, or for none in particular")
            }
            StartError::InstancesFixed { root, has, asked } => write!(
                f,
                "{}: this data was made with {has} instances, {asked} were asked for, and partitions cannot move \
                 between instances yet: start with --instances {has} or without the option",
                root.display()
            ),
            StartError::Descriptors { limit, reserved } => write!(
                f,
                "this process may have {limit} descriptors, and data alone needs {reserved}: allow it more (`ulimit -n`, or nofile in \
                 limits.conf), or start with fewer --instances"
            ),
            StartError::Folder(error) => error.fmt(f),
            StartError::ForeignFolder { root, reason } => write!(f, "{}: {reason}", root.display()),
            StartError::State { path, error } => write!(f, "{}: {error}", path.display()),
            StartError::Member { path, reason } => write!(f, "{}: {reason}", path.display()),
            StartError::Cluster { reason } => f.write_str(reason),
            StartError::NotSaved(error) => write!(f, "the node's state could not be saved: {error}"),
            StartError::Map(error) => write!(f, "the cluster map cannot be brought up to date: {error}"),
            StartError::Listen { address, reason } => write!(
                f,
                "cannot listen at {address}: {reason}; another process may have the port, give another with --listen"
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
            ServeError::Cluster { reason } => f.write_str(reason),
            ServeError::Manager { reason } => {
                write!(f, "the manager has ended ({reason}), so the node has stopped: start it again")
            }
        }
    }
}

impl std::error::Error for StartError {}
impl std::error::Error for ServeError {}
