//! The manager of a node: all its functions except serving records.
//!
//! ```text
//!   listen port ──first byte──┬─ a zerohop frame ──> frames   Hello, Ping, MapGet, SessionOpen; Admin ──> jobs
//!                             │                     └─> cluster   messages of other managers, once they have greeted
//!                             ├─ a Redis command ──> redis_clients   an error that names the instances' ports
//!                             └─ anything else   ──> http     /metrics /health /status
//!   instances ── Job (a control request that came there) ──────────────────────────────────────────────> jobs
//!   jobs, one after the other:  changes (pure) ──> saved ──> history ──> sent to every instance ──> answered
//!   supervise: waits for the order to stop, or for an instance that ends, and stops the others
//! ```
//!
//! The manager is one thread with a tokio runtime of its own. The state that its tasks share ([`ManagerShared`]) never leaves the thread. It
//! communicates with the instances' threads only by messages through bounded queues, and every wait for an answer has a limit.

mod accept_limits;
mod change_refusal;
mod changes;
mod cluster;
mod cluster_handle;
mod clustered;
mod connection_guard;
mod connections;
mod control_decisions;
mod data_losses;
mod frames;
mod groups;
mod http;
mod instances;
mod jobs;
mod json_key;
mod keyspace_commands;
mod keyspace_drop;
mod keyspace_split;
mod map_changes;
mod metrics;
mod reachability;
mod redis_clients;
mod shared;
mod status;
mod stream;
mod supervise;
mod tokens;
mod view;
mod watches;

use std::io;
use std::net::TcpListener;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::thread::{Builder, JoinHandle};

use tokio::runtime;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::LocalSet;
use zerohop_placement::MapHistory;
use zerohop_reactor::Proofs;
use zerohop_wire::ids::{KeyspaceId, MapEpoch};

pub(crate) use self::cluster::{ClusterPlan, FirstKeyspace, OpeningOrder};
pub(crate) use self::instances::InstanceHandle;
pub(crate) use self::shared::NodeIdentity;
pub use self::stream::Stream;

use self::cluster_handle::ClusterHandle;
use self::jobs::JobWorker;
use self::shared::ManagerShared;
use crate::control_job::ControlJob;
use crate::error::ServeError;
use crate::folder::NodeFolder;
use crate::instance::{EndReport, InstanceExit, panic_message};
use crate::node_files::losses::SavedLosses;

/// The parameters of the manager.
pub(crate) struct ManagerPlan {
    pub(crate) about: NodeIdentity,
    /// The proofs of the cluster's secret, if there is one.
    pub(crate) proofs: Option<Proofs>,
    pub(crate) folder: NodeFolder,
    pub(crate) cluster_state: ClusterMode,
    pub(crate) history: MapHistory,
    /// A socket that is already listening.
    pub(crate) listener: TcpListener,
    pub(crate) jobs: (mpsc::Sender<ControlJob>, mpsc::Receiver<ControlJob>),
    pub(crate) control: mpsc::Receiver<ManagerInput>,
    pub(crate) stop: Arc<Notify>,
}

/// Whether the node is in a cluster.
pub(crate) enum ClusterMode {
    /// It is not, and changes its map itself; the next keyspace gets this id. These are its losses that are not acknowledged.
    Standalone(KeyspaceId, SavedLosses),
    /// It is, or will be.
    InCluster(Box<ClusterPlan>),
}

/// Messages of the server and of the instances' threads to the manager.
#[derive(Debug)]
pub(crate) enum ManagerInput {
    /// All instances serve.
    Serve(Serve),
    /// Handle the signals that end the process; the manager reports whether that is possible.
    Signals(SyncSender<io::Result<()>>),
    /// An instance has ended.
    Ended(InstanceExit),
}

/// The serving instances.
#[derive(Debug)]
pub(crate) struct Serve {
    pub(crate) handles: Vec<InstanceHandle>,
    /// The epoch of the map with which they were opened.
    pub(crate) epoch: MapEpoch,
    /// All their logs were complete, on disks that already existed at the node's last start in the map.
    pub(crate) is_intact: bool,
    /// That start has shut down cleanly, with all logs flushed.
    pub(crate) is_closed: bool,
    /// Notified once control requests are executed.
    pub(crate) executed: SyncSender<()>,
}

/// How an instance reports its end to the manager.
pub(crate) fn report_end(manager: mpsc::Sender<ManagerInput>) -> EndReport {
    // The channel has room for one such message of every instance, unless the manager has ended.
    Arc::new(move |ended| drop(manager.try_send(ManagerInput::Ended(ended))))
}

/// Starts the manager's thread. On `outcome` it sends the node's result, once all instances have stopped.
pub(crate) fn start(
    plan: ManagerPlan,
    outcome: SyncSender<Result<(), ServeError>>,
) -> io::Result<JoinHandle<()>> {
    Builder::new().name("zerohop-manager".to_owned()).spawn(move || {
        let how = catch_unwind(AssertUnwindSafe(|| run(plan)));
        let how = how.unwrap_or_else(|panic| {
            Err(fault(format!("a fault of the program: {}", panic_message(&*panic))))
        });
        // There is no receiver only if the server itself has failed.
        drop(outcome.try_send(how));
    })
}

fn run(plan: ManagerPlan) -> Result<(), ServeError> {
    let runtime = runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| fault(format!("no runtime: {error}")))?;
    LocalSet::new().block_on(&runtime, async {
        let ManagerPlan {
            about,
            proofs,
            folder,
            cluster_state: mode,
            history,
            listener,
            jobs,
            control,
            stop,
        } = plan;
        let listener = connections::into_runtime_listener(listener)
            .map_err(|error| fault(format!("no listener: {error}")))?;
        let shared = Rc::new(ManagerShared::new(about, history, jobs.0));
        shared.proofs.replace(proofs);
        let (over_out, over) = oneshot::channel();
        let (worker, clustered) = match mode {
            ClusterMode::Standalone(next_keyspace, losses) => {
                (JobWorker::standalone(Rc::clone(&shared), folder, next_keyspace, losses), None)
            }
            ClusterMode::InCluster(plan) => {
                let (inputs, inputs_in) = mpsc::channel(cluster::INPUTS_MAX);
                shared.is_in_cluster(ClusterHandle { inputs: inputs.clone() });
                (JobWorker::in_cluster(Rc::clone(&shared)), Some((plan, folder, (inputs, inputs_in))))
            }
        };
        let in_cluster = async {
            match clustered {
                None => std::future::pending().await,
                Some((plan, folder, inputs)) => {
                    let error = cluster::run(&shared, *plan, folder, inputs).await;
                    // The supervisor exists as long as this task.
                    drop(over_out.send(error));
                    std::future::pending::<()>().await;
                }
            }
        };
        // These are not separate tasks, so that a panic in one of them ends the manager.
        tokio::select! {
            how = supervise::run(&shared, control, &stop, over) => how,
            () = connections::accept(&shared, listener) => Ok(()),
            () = worker.run(jobs.1) => Ok(()),
            () = cluster::follow(&shared) => Ok(()),
            () = reachability::follow(&shared) => Ok(()),
            () = in_cluster => Ok(()),
        }
    })
}

fn fault(reason: String) -> ServeError {
    ServeError::Manager { reason }
}
