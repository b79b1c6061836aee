//! One node: its data folder, its instances and its manager, started together and stopped together.
//!
//! ```text
//!   start:  folder locked, state read ──> listeners ──> map of this start, saved ──> manager (health: 503)
//!           ──> instances open their data, in parallel ──> manager is notified (health: 200)
//!   stop:   instances answer what is in flight, sync, write checkpoints ──> threads end ──> folder released
//! ```
//!
//! The node ends as a unit: when an instance or the manager fails, the node stops the others, and [`Server::wait`] returns the reason. Half a node
//! would look alive and serve only half of the keys.

mod clustered;
#[cfg(test)]
mod documented;
mod force_new_cluster;
mod listen;
mod local;
mod losses_at_start;
mod maps;
mod new_cluster;
mod options;
#[cfg(test)]
mod tests;

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::{Notify, mpsc};
use tracing::{error, info};
use zerohop_engine::EngineOptions;
use zerohop_placement::MapHistory;
use zerohop_reactor::{Proofs, ReactorMailbox};
use zerohop_shard::Identity;
use zerohop_system::clock::{Stopwatch, unix_ms};
use zerohop_system::descriptors::Descriptors;
use zerohop_system::entropy::{random_bytes, random_u64};
use zerohop_wire::ids::{Incarnation, InstanceId, NodeId};
use zerohop_wire::messages::ClusterId;

pub use self::force_new_cluster::{ForcedCluster, force_new_control_group};
pub use self::local::{
    FolderOwner, LocalCluster, LocalStart, check_readable, holds_data, node_folder, owner,
    process_of_original,
};
pub use self::new_cluster::new_cluster;
pub use self::options::{ClusterOptions, JoinMethod, ServerOptions};
pub use crate::error::{ServeError, StartError};
pub(crate) use crate::folder::NodeFolder;
pub use crate::limits::{ConnectionLimits, REDIS_TIME_OUT_DEFAULT, REDIS_TIME_OUT_MAX, REDIS_TIME_OUT_MIN};
pub(crate) use crate::node_files::identity::SavedMember;
pub(crate) use crate::node_files::losses::SavedLosses;
pub use crate::node_files::persisted::{SAVED_BYTES_MAX, SavedError, SavedNode};

use self::listen::Listeners;
use self::maps::Start;
use crate::instance::gateway::{CrossPartitionRunner, Siblings};
use crate::instance::{self, InstanceNotice, InstancePlan, OpenResult, ReadyToServe};
use crate::limits::{
    INSTANCES_DEFAULT_MAX, INSTANCES_MAX, JOBS_MAX, OPEN_WAIT, SERVE_WAIT, SIGNALS_WAIT, START_FAILED_WAIT,
    STOP_WAIT,
};
use crate::manager::{self, ClusterMode, InstanceHandle, ManagerInput, ManagerPlan, NodeIdentity, Serve};
pub use zerohop_reactor::TlsOptions;

/// A running node. Dropping it stops it.
pub struct Server {
    node: NodeId,
    manager: SocketAddr,
    instances: Vec<(InstanceId, SocketAddr)>,
    warning: Option<&'static str>,
    ready_after: Duration,
    stop: Arc<Notify>,
    control: mpsc::Sender<ManagerInput>,
    running: Option<RunningNode>,
    /// How long it waits for the instances when it ends.
    end_wait: Duration,
}

/// Stops a server from any thread. Clones stop the same one.
#[derive(Clone, Debug)]
pub struct StopHandle(Arc<Notify>);

/// The running parts that must be waited for.
struct RunningNode {
    outcome: Receiver<Result<(), ServeError>>,
    /// The result, once it is known.
    ended: Option<Result<(), ServeError>>,
    manager: Option<JoinHandle<()>>,
    instances: Instances,
}

/// The threads of the instances.
struct Instances {
    /// Disconnected once all have ended.
    opened: Receiver<OpenResult>,
    threads: Vec<JoinHandle<()>>,
    mailboxes: Vec<ReactorMailbox<InstanceNotice>>,
}

impl Server {
    /// Starts a node, and returns when it serves: every listener listens, and every partition is recovered.
    ///
    /// # Errors
    /// [`StartError`]; nothing is left running then.
    pub fn start(options: ServerOptions) -> Result<Server, StartError> {
        let stopwatch = Stopwatch::start();
        // This check comes before anything is created that a refusal would leave behind.
        listen::check(options.listen, options.insecure || options.secret.is_some())?;
        let (mut folder, saved) = match &options.data {
            Some(root) => NodeFolder::open(root)?,
            None => (NodeFolder::in_memory(), None),
        };
        let member = folder.read_member()?;
        if options.cluster.is_some() || member.is_some() {
            if saved.is_some() && member.is_none() {
                return Err(clustered::standalone_folder_error(&options));
            }
            return clustered::start(&options, folder, member, stopwatch);
        }
        let made_with = saved.as_ref().and_then(|saved| saved.map.node(saved.node));
        let instances = instance_count(&options, made_with.map(|node| node.instances().count()))?;
        share_descriptors(instances)?;
        let listeners = Listeners::open(options.listen, instances, options.tls.as_ref())?;
        let incarnation = Incarnation(random(random_u64())?);
        let addresses: Vec<SocketAddr> = listeners.instances.iter().map(|(_, address)| *address).collect();
        let start = Start { incarnation, manager: listeners.manager.1, instances: &addresses };
        let in_memory = options.data.is_none();
        let (saved, losses) = match saved {
            Some(before) => {
                let saved = start.restarted(&before)?;
                let losses = losses_at_start::at_start(&mut folder, &before, &saved.map, instances)?;
                (saved, losses)
            }
            None => {
                let cluster = ClusterId(random(random_bytes())?);
                (start.first(cluster, random(random_u64())?, in_memory)?, SavedLosses::default())
            }
        };
        // The start must be saved before any other process can learn of it.
        folder.save(&saved).map_err(StartError::NotSaved)?;
        info!(
            cluster = hex(&saved.cluster.0),
            node = saved.node.0,
            manager = %listeners.manager.1,
            instances,
            data = folder.root().map(|root| root.display().to_string()),
            map_epoch = saved.map.epoch().0,
            "starting"
        );
        let plan = Assembly { options: &options, saved: &saved, losses, incarnation };
        plan.start(folder, listeners, stopwatch)
    }

    /// The manager's address: the endpoint for clients, and for HTTP.
    #[must_use]
    pub fn manager_address(&self) -> SocketAddr {
        self.manager
    }

    /// The node's id in the cluster.
    #[must_use]
    pub fn node(&self) -> NodeId {
        self.node
    }

    /// The instances with their addresses.
    #[must_use]
    pub fn instances(&self) -> &[(InstanceId, SocketAddr)] {
        &self.instances
    }

    /// Enables Redis commands with keys in several partitions: this executes them. Without it they are refused.
    pub fn set_cross_partition(&self, cross_partition: &Arc<dyn CrossPartitionRunner>) {
        for mailbox in self.running.iter().flat_map(|running| &running.instances.mailboxes) {
            // An instance whose inbox is full continues to refuse such commands; it has received nothing else yet.
            drop(mailbox.leave(InstanceNotice::CrossPartitionRunner(Arc::clone(cross_partition))));
        }
    }

    /// A warning that the user must see: this disk is not for data.
    #[must_use]
    pub fn warning(&self) -> Option<&'static str> {
        self.warning
    }

    /// How long the start took.
    #[must_use]
    pub fn ready_after(&self) -> Duration {
        self.ready_after
    }

    /// A handle that stops the node from elsewhere.
    #[must_use]
    pub fn stop_handle(&self) -> StopHandle {
        StopHandle(Arc::clone(&self.stop))
    }

    /// From now on SIGTERM, SIGINT (Ctrl-C), SIGHUP and SIGQUIT stop the server instead of ending the process. The first three stop it after other
    /// nodes, if there are any, have taken over its primaries; another signal ends that wait. SIGQUIT stops it without that.
    ///
    /// # Errors
    /// Those of the system.
    pub fn stop_on_signals(&self) -> io::Result<()> {
        let (requester, answer) = sync_channel(1);
        let gone = || io::Error::other("the manager has ended, or does not answer");
        self.control.try_send(ManagerInput::Signals(requester)).map_err(|_| gone())?;
        answer.recv_timeout(SIGNALS_WAIT).map_err(|_| gone())?
    }

    /// Waits until the server is stopped, by [`StopHandle::stop`] or a signal, and has ended: requests in flight are answered, all data is synced,
    /// and the folder is released.
    ///
    /// # Errors
    /// The node has failed, or could not close its data.
    pub fn wait(mut self) -> Result<(), ServeError> {
        self.finish()
    }

    /// Stops the server and waits for its end.
    ///
    /// # Errors
    /// As [`Server::wait`].
    pub fn stop(self) -> Result<(), ServeError> {
        self.stop_handle().stop();
        self.wait()
    }

    /// Records that the node serves.
    fn is_ready(&mut self, stopwatch: Stopwatch) {
        (self.ready_after, self.end_wait) = (stopwatch.elapsed(), STOP_WAIT);
    }

    /// Logs that the node serves. A reader of the log may send signals from then on, so [`Server::stop_on_signals`] comes before.
    pub fn log_ready(&self) {
        let listening: Vec<String> = self.instances.iter().map(|(id, at)| format!("{id} at {at}")).collect();
        let ready_after_ms = self.ready_after.as_millis() as u64;
        info!(ready_after_ms, instances = listening.join(", "), "ready");
    }

    fn finish(&mut self) -> Result<(), ServeError> {
        let Some(mut running) = self.running.take() else { return Ok(()) };
        let result = running.ended.take().or_else(|| running.outcome.recv().ok());
        let outcome = result
            .unwrap_or_else(|| Err(ServeError::Manager { reason: "a fault of the program".to_owned() }));
        // The manager has stopped the instances, unless it has failed itself.
        if running.instances.end(self.end_wait)
            && let Some(thread) = running.manager.take()
        {
            drop(thread.join());
        }
        match &outcome {
            Ok(()) => info!("stopped"),
            Err(error) => error!(%error, "stopped"),
        }
        outcome
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.notify_one();
        // The log has the error; no caller is left.
        drop(self.finish());
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("manager", &self.manager)
            .field("instances", &self.instances)
            .finish_non_exhaustive()
    }
}

impl StopHandle {
    /// Stops the server. It may have stopped already.
    pub fn stop(&self) {
        self.0.notify_one();
    }
}

impl RunningNode {
    /// The manager's result, if it ends within this time; the same result for every call.
    fn ended_within(&mut self, wait: Duration) -> Option<&Result<(), ServeError>> {
        if self.ended.is_none() {
            self.ended = self.outcome.recv_timeout(wait).ok();
        }
        self.ended.as_ref()
    }
}

impl Instances {
    /// Stops the running instances, and waits until all have ended. `false`: not all have.
    fn end(&mut self, wait: Duration) -> bool {
        for mailbox in &self.mailboxes {
            // An instance with a full inbox, or one that has ended, needs no further notice.
            drop(mailbox.leave(InstanceNotice::Stop));
        }
        let stopwatch = Stopwatch::start();
        loop {
            match self.opened.recv_timeout(wait.saturating_sub(stopwatch.elapsed())) {
                // This instance was opening its data when the start of another one failed.
                Ok((_, Ok(ready))) => drop(ready.mailbox.leave(InstanceNotice::Stop)),
                Ok((_, Err(_))) => {}
                Err(RecvTimeoutError::Timeout) => return false,
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        for thread in self.threads.drain(..) {
            drop(thread.join());
        }
        true
    }
}

/// The construction of a node.
struct Assembly<'a> {
    options: &'a ServerOptions,
    saved: &'a SavedNode,
    losses: SavedLosses,
    incarnation: Incarnation,
}

impl Assembly<'_> {
    fn start(
        self,
        folder: NodeFolder,
        listeners: Listeners,
        stopwatch: Stopwatch,
    ) -> Result<Server, StartError> {
        let Assembly { options, saved, losses, incarnation } = self;
        let ids: Vec<InstanceId> = saved
            .map
            .node(saved.node)
            .map(|node| node.instances().map(|instance| instance.id).collect())
            .unwrap_or_default();
        let (jobs, jobs_in) = mpsc::channel(JOBS_MAX);
        // Every instance ends once, and the server sends two messages.
        let (control, control_in) = mpsc::channel(ids.len() + 2);
        let stop = Arc::new(Notify::new());
        let history = MapHistory::new(Arc::clone(&saved.map));
        let (outcome_out, outcome) = sync_channel(1);
        let Listeners { manager: (listener, manager), instances: drivers } = listeners;
        let addresses: Vec<SocketAddr> = drivers.iter().map(|(_, address)| *address).collect();
        let warning = folder.warning();
        let about = NodeIdentity {
            cluster: saved.cluster,
            node: saved.node,
            incarnation,
            started_ms: unix_ms(),
            in_memory: options.data.is_none(),
            data: options.data.clone(),
            warning,
            secret: options.secret.clone(),
            tls: options.tls.clone(),
            connections: options.connections,
            http_names: listen::http_names(options),
        };
        let manager_plan = ManagerPlan {
            about,
            proofs: proofs(options)?,
            folder,
            cluster_state: ClusterMode::Standalone(saved.next_keyspace, losses),
            history: history.clone(),
            listener,
            jobs: (jobs.clone(), jobs_in),
            control: control_in,
            stop: Arc::clone(&stop),
        };
        let thread = manager::start(manager_plan, outcome_out).map_err(|error| no_thread(&error))?;
        let (opened_out, opened) = sync_channel::<OpenResult>(2 * ids.len());
        let mut instances = Instances { opened, threads: Vec::new(), mailboxes: Vec::new() };
        let memory_bytes = options.budget_bytes() / ids.len().max(1) as u64;
        let proofs_of_all: Vec<Option<Proofs>> =
            ids.iter().map(|_| proofs(options)).collect::<Result<_, StartError>>()?;
        let plans = drivers.into_iter().zip(&ids).zip(proofs_of_all).enumerate();
        let plans = plans.map(|(place, (((driver, _), id), proofs))| InstancePlan {
            instance_index: place,
            identity: Identity { cluster: saved.cluster, instance: *id, incarnation },
            root: options.data.clone(),
            engine: EngineOptions { memory_bytes, ..EngineOptions::default() },
            partitions: options.partitions.of_instance(ids.len()),
            history: history.clone(),
            driver,
            jobs: jobs.clone(),
            report_end: manager::report_end(control.clone()),
            manager_messages: None,
            proofs,
            serves_cross_partition: options.serves_cross_partition,
            redis_time_out: options.redis_time_out,
            gateway: options.gateway,
            limits: options.connections.of_instance(),
        });
        let serving = open_all(plans, opened_out, &ids, &mut instances);
        let running = RunningNode { outcome, ended: None, manager: Some(thread), instances };
        let mut server = Server {
            node: saved.node,
            manager,
            instances: ids.into_iter().zip(addresses).collect(),
            warning,
            ready_after: Duration::ZERO,
            stop,
            control,
            running: Some(running),
            end_wait: START_FAILED_WAIT,
        };
        // If it has failed, dropping the server stops everything that runs.
        let handles = serving?.handles;
        let (executed, is_executed) = sync_channel(1);
        let serving =
            Serve { handles, epoch: saved.map.epoch(), is_intact: true, is_closed: false, executed };
        let sent = server.control.try_send(ManagerInput::Serve(serving));
        // An earlier control request would be refused.
        if sent.is_err() || is_executed.recv_timeout(SERVE_WAIT).is_err() {
            let reason = "the manager has ended, or does not answer; the log says why".to_owned();
            return Err(StartError::System { operation: "starting the manager", reason });
        }
        server.is_ready(stopwatch);
        Ok(server)
    }
}

/// The secret, for one thread.
fn proofs(options: &ServerOptions) -> Result<Option<Proofs>, StartError> {
    options.secret.as_ref().map(|secret| random(Proofs::new(secret))).transpose()
}

/// Instances that have opened their data.
struct OpenInstances {
    handles: Vec<InstanceHandle>,
    /// The process starts that the disks of all instances have recorded.
    lived: Vec<Incarnation>,
    /// The process start that shut down cleanly according to the disks of all instances.
    closed: Option<Incarnation>,
}

/// Starts the instances' threads, and waits until all have opened their data.
fn open_all(
    plans: impl Iterator<Item = InstancePlan>,
    opened: SyncSender<OpenResult>,
    ids: &[InstanceId],
    instances: &mut Instances,
) -> Result<OpenInstances, StartError> {
    for plan in plans {
        let thread = instance::start(plan, opened.clone()).map_err(|error| no_thread(&error))?;
        instances.threads.push(thread);
    }
    drop(opened);
    let stopwatch = Stopwatch::start();
    let mut ready: Vec<Option<ReadyToServe>> = ids.iter().map(|_| None).collect();
    while ready.iter().any(Option::is_none) {
        match instances.opened.recv_timeout(OPEN_WAIT.saturating_sub(stopwatch.elapsed())) {
            Ok((place, Ok(one))) => {
                instances.mailboxes.push(one.mailbox.clone());
                ready[place] = Some(one);
            }
            Ok((place, Err(reason))) => return Err(StartError::Instance { instance: ids[place], reason }),
            Err(RecvTimeoutError::Timeout) => return Err(StartError::Overdue { waited: OPEN_WAIT }),
            Err(RecvTimeoutError::Disconnected) => {
                let reason = "an instance ended without a word".to_owned();
                return Err(StartError::System { operation: "starting the instances", reason });
            }
        }
    }
    let ready: Vec<ReadyToServe> = ready.into_iter().flatten().collect();
    let siblings: Vec<_> = ids.iter().copied().zip(ready.iter().map(|one| one.mailbox.clone())).collect();
    let siblings = Siblings(siblings.into());
    let newest = ready.iter().map(|one| one.newest).max().unwrap_or_default();
    for one in &ready {
        // The inbox is still empty, so there is room; an instance that has ended already is reported separately.
        drop(one.mailbox.leave(InstanceNotice::Siblings(siblings.clone(), newest)));
    }
    let closed = common_mark(ready.iter().map(|one| one.closed));
    let mut lived = ready.first().map(|one| one.lived.clone()).unwrap_or_default();
    lived.retain(|start| ready.iter().all(|one| one.lived.contains(start)));
    let handle =
        |(id, one): (&InstanceId, ReadyToServe)| InstanceHandle::new(*id, one.mailbox, one.recovered);
    Ok(OpenInstances { handles: ids.iter().zip(ready).map(handle).collect(), lived, closed })
}

/// The process start that shut down cleanly according to all disks; `None` if a disk has no mark, or a different one.
fn common_mark(mut marks: impl Iterator<Item = Option<Incarnation>>) -> Option<Incarnation> {
    let first = marks.next()??;
    marks.all(|mark| mark == Some(first)).then_some(first)
}

fn instance_count(options: &ServerOptions, made_with: Option<usize>) -> Result<usize, StartError> {
    if let Some(requested) = options.instances
        && !(1..=INSTANCES_MAX).contains(&requested)
    {
        return Err(StartError::Instances { requested, most: INSTANCES_MAX });
    }
    match (made_with, options.instances) {
        (Some(has), Some(requested)) if has != requested => {
            let root = options.data.clone().unwrap_or_default();
            Err(StartError::InstancesFixed { root, has, requested })
        }
        (Some(has), _) => Ok(has),
        (None, Some(requested)) => Ok(requested),
        (None, None) => Ok(instances_default()),
    }
}

/// The default number of instances of a node with new data: one for each core, at most [`INSTANCES_DEFAULT_MAX`].
pub fn instances_default() -> usize {
    std::thread::available_parallelism().map_or(1, |cores| cores.get()).min(INSTANCES_DEFAULT_MAX)
}

/// Divides the descriptors of this process, and logs the result.
fn share_descriptors(instances: usize) -> Result<(), StartError> {
    let descriptors = Descriptors::share_among(instances);
    let reserved = descriptors.reserved();
    match descriptors.limit() {
        Some(limit) if descriptors.is_too_few() => Err(StartError::too_few_descriptors(limit, instances)),
        limit => {
            info!(limit, reserved, "this process may have {descriptors}");
            Ok(())
        }
    }
}

fn random<T>(drawn: Result<T, String>) -> Result<T, StartError> {
    drawn.map_err(|reason| StartError::System { operation: "drawing a random number", reason })
}

fn no_thread(error: &io::Error) -> StartError {
    StartError::System { operation: "starting a thread", reason: error.to_string() }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
