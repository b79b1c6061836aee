//! The manager of a node: everything that is not a record.
//!
//! ```text
//!   listen port ──first byte──┬─ a zerohop frame ──> frames   Hello, Ping, MapGet, SessionOpen; Admin ──> jobs
//!                             │                     └─> cluster   messages of other managers, once they have greeted
//!                             └─ anything else   ──> http     /metrics /health /status
//!   instances ── Job (a control request that came there) ──────────────────────────────────────────────> jobs
//!   jobs, one after the other:  changes (pure) ──> saved ──> history ──> told to every instance ──> answered
//!   supervise: waits for the order to stop, or for an instance that ends, and stops the others
//! ```
//!
//! One thread with a tokio runtime of its own. What its tasks share ([`ManagerShared`]) never leaves it; from and to the
//! instances' threads go messages only, through bounded queues, and no wait for an answer is without end.

mod accept_limits;
mod changes;
mod cluster;
mod clustered;
mod connections;
mod data_losses;
mod frames;
mod groups;
mod http;
mod instances;
mod jobs;
mod keyspace_drop;
mod metrics;
mod process;
mod shared;
mod status;
mod stream;
mod supervise;
mod tokens;
mod view;
mod web_names;

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
use zerohop_wire::Envelope;
use zerohop_wire::auth::Access;
use zerohop_wire::ids::{KeyspaceId, MapEpoch};

pub(crate) use self::cluster::{ClusterPlan, FirstKeyspace, OpeningOrder};
pub(crate) use self::instances::InstanceHandle;
pub(crate) use self::process::resident_bytes;
pub(crate) use self::shared::NodeIdentity;

use self::jobs::JobWorker;
use self::shared::ManagerShared;
use crate::instance::{EndedInstance, words};
use crate::proofs::Proofs;
use crate::server::{NodeFolder, ServeError};

/// What the manager is started with.
pub(crate) struct ManagerPlan {
    pub(crate) about: NodeIdentity,
    /// Of the cluster's secret, if it has one.
    pub(crate) proofs: Option<Proofs>,
    pub(crate) folder: NodeFolder,
    pub(crate) standing: ClusterMode,
    pub(crate) history: MapHistory,
    /// Listens already.
    pub(crate) listener: TcpListener,
    pub(crate) jobs: (mpsc::Sender<ControlJob>, mpsc::Receiver<ControlJob>),
    pub(crate) control: mpsc::Receiver<ManagerInput>,
    pub(crate) stop: Arc<Notify>,
}

/// Whether the node stands alone.
pub(crate) enum ClusterMode {
    /// It does, and changes its map itself; the next keyspace gets this id.
    Alone(KeyspaceId),
    /// It is in a cluster, or will be.
    InCluster(Box<ClusterPlan>),
}

/// A control request on its way.
#[derive(Debug)]
pub(crate) struct ControlJob {
    /// The request, as it came.
    pub(crate) encoded: Vec<u8>,
    /// What whoever asks may do.
    pub(crate) access: Access,
    pub(crate) reply: ReplyTo,
}

/// Where an answer goes.
#[derive(Debug)]
pub(crate) enum ReplyTo {
    /// To a connection of an instance.
    Instance {
        /// Which of the node's instances, from zero.
        place: usize,
        /// The instance's number for the request.
        ask: u64,
    },
    /// To a connection of the manager itself, which has room for it.
    Here {
        /// Whom it is for.
        envelope: Envelope,
        /// Its connection's task.
        sender: mpsc::Sender<(Envelope, Vec<u8>)>,
    },
}

/// What the server and the threads of instances tell the manager.
#[derive(Debug)]
pub(crate) enum ManagerInput {
    /// All instances serve.
    Serve(Serve),
    /// Stop when the system asks the process to end; says whether that can be.
    Signals(SyncSender<io::Result<()>>),
    /// An instance has ended.
    Ended(EndedInstance),
}

/// Instances that serve.
#[derive(Debug)]
pub(crate) struct Serve {
    pub(crate) handles: Vec<InstanceHandle>,
    /// The epoch of the map that they were opened with.
    pub(crate) epoch: MapEpoch,
    /// All their logs were whole, on disks that were there when the map last heard of them.
    pub(crate) is_intact: bool,
    /// And that start has ended in order, with all of them flushed.
    pub(crate) is_closed: bool,
    /// Told once control requests are carried out.
    pub(crate) taken: SyncSender<()>,
}

/// Starts the manager's thread. It says on `outcome` how the node has ended, all instances stopped.
pub(crate) fn start(
    plan: ManagerPlan,
    outcome: SyncSender<Result<(), ServeError>>,
) -> io::Result<JoinHandle<()>> {
    Builder::new().name("zerohop-manager".to_owned()).spawn(move || {
        let how = catch_unwind(AssertUnwindSafe(|| run(plan)));
        let how =
            how.unwrap_or_else(|panic| Err(fault(format!("a fault of the program: {}", words(&*panic)))));
        // Nobody is left to be told only if the server itself has come to a bad end.
        drop(outcome.try_send(how));
    })
}

fn run(plan: ManagerPlan) -> Result<(), ServeError> {
    let runtime = runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| fault(format!("no runtime: {error}")))?;
    LocalSet::new().block_on(&runtime, async {
        let ManagerPlan { about, proofs, folder, standing, history, listener, jobs, control, stop } = plan;
        let listener =
            connections::take_over(listener).map_err(|error| fault(format!("no listener: {error}")))?;
        let shared = Rc::new(ManagerShared::new(about, history, jobs.0));
        shared.proofs.replace(proofs);
        let (over_out, over) = oneshot::channel();
        let (worker, clustered) = match standing {
            ClusterMode::Alone(next_keyspace) => {
                (JobWorker::alone(Rc::clone(&shared), folder, next_keyspace), None)
            }
            ClusterMode::InCluster(plan) => {
                let (inputs, inputs_in) = mpsc::channel(cluster::INPUTS_MAX);
                shared.is_in_cluster(cluster::ClusterHandle { inputs: inputs.clone() });
                (JobWorker::in_cluster(Rc::clone(&shared)), Some((plan, folder, (inputs, inputs_in))))
            }
        };
        let in_cluster = async {
            match clustered {
                None => std::future::pending().await,
                Some((plan, folder, inputs)) => {
                    let reason = cluster::run(&shared, *plan, folder, inputs).await;
                    // The supervisor is there as long as this is.
                    drop(over_out.send(reason));
                    std::future::pending::<()>().await;
                }
            }
        };
        // Not tasks of their own, so that a fault in one of them is a fault of the manager.
        tokio::select! {
            how = supervise::run(&shared, control, &stop, over) => how,
            () = connections::accept(&shared, listener) => Ok(()),
            () = worker.run(jobs.1) => Ok(()),
            () = cluster::follow(&shared) => Ok(()),
            () = in_cluster => Ok(()),
        }
    })
}

fn fault(reason: String) -> ServeError {
    ServeError::Manager { reason }
}
