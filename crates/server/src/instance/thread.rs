//! The thread of an instance: it opens its data, serves until it is stopped, and closes.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use tokio::sync::mpsc;
use tracing::{error, info, warn};
use zerohop_disk::NodeDisk;
use zerohop_engine::EngineOptions;
use zerohop_placement::MapHistory;
use zerohop_reactor::{Driver, Limits, MioDriver, Proofs, Reactor, ReactorMailbox};
use zerohop_shard::{ClockReading, Identity, Instance, InstanceOptions, OpenReport};
use zerohop_system::clock::Stopwatch;
use zerohop_wire::ids::{Incarnation, InstanceId, Timestamp};

use super::gateway::{Gateway, GatewayStart, NoGateway};
use super::notice::{InstanceMessage, InstanceNotice};
use super::service::InstanceService;
use super::timestamp_bounds::TimestampBounds;
use crate::control_job::ControlJob;
use crate::folder::NodeFolder;
use crate::limits::DAMAGE_REPORTED_MAX;
use crate::node_files::clean_shutdown;
use crate::partition_limits::PartitionLimits;

/// The parameters of an instance.
pub(crate) struct InstancePlan {
    /// Its index in the node, from zero.
    pub(crate) instance_index: usize,
    pub(crate) identity: Identity,
    /// The data folder of the node; `None`: everything is in memory.
    pub(crate) root: Option<PathBuf>,
    pub(crate) engine: EngineOptions,
    /// The limits of its partitions; its share of the node's limits.
    pub(crate) partitions: PartitionLimits,
    pub(crate) history: MapHistory,
    /// A listening socket; clients that connect wait until the data is open.
    pub(crate) driver: MioDriver,
    pub(crate) jobs: mpsc::Sender<ControlJob>,
    pub(crate) report_end: EndReport,
    /// The channel to the control group; `None`: the node is standalone.
    pub(crate) manager_messages: Option<mpsc::Sender<InstanceMessage>>,
    /// The proofs of the cluster's secret, if there is one.
    pub(crate) proofs: Option<Proofs>,
    /// See [`crate::server::ServerOptions::serves_cross_partition`].
    pub(crate) serves_cross_partition: bool,
    /// See [`crate::server::ServerOptions::redis_time_out`].
    pub(crate) redis_time_out: Duration,
    /// See [`crate::server::ServerOptions::gateway`].
    pub(crate) gateway: Option<GatewayStart>,
    pub(crate) limits: Limits,
}

/// An instance that serves.
#[derive(Debug)]
pub(crate) struct ReadyToServe {
    pub(crate) mailbox: ReactorMailbox<InstanceNotice>,
    pub(crate) recovered: RecoveredData,
    /// The newest timestamp that it has stored.
    pub(crate) newest: Timestamp,
    /// The earlier starts that its disk has recorded.
    pub(crate) lived: Vec<Incarnation>,
    /// The start that shut down cleanly, according to the mark on its disk.
    pub(crate) closed: Option<Incarnation>,
}

/// The results of opening its data.
#[derive(Clone, Debug, Default)]
pub(crate) struct RecoveredData {
    pub(crate) partitions: usize,
    /// Numbers of log entries from checkpoints, from the log, and from the journal.
    pub(crate) from_checkpoint: u64,
    pub(crate) from_log: u64,
    pub(crate) from_journal: u64,
    /// Bytes of torn tails that were cut off.
    pub(crate) torn_bytes: u64,
    /// Number of removed partitions of dropped keyspaces.
    pub(crate) removed: usize,
    /// Number of corrupt or missing parts, and descriptions of the first of them.
    pub(crate) damaged: usize,
    pub(crate) damage: Vec<String>,
    pub(crate) duration: Duration,
    /// A warning about its disk for the operator.
    pub(crate) warning: Option<&'static str>,
}

/// The end of an instance.
#[derive(Clone, Debug)]
pub(crate) struct InstanceExit {
    pub(crate) instance_index: usize,
    /// `Ok` if it was stopped and has closed all data; otherwise the reason.
    pub(crate) how: Result<(), String>,
}

/// How an instance reports its end.
pub(crate) type EndReport = Arc<dyn Fn(InstanceExit) + Send + Sync>;

/// The result of opening an instance.
pub(crate) type OpenResult = (usize, Result<ReadyToServe, String>);

/// Starts the thread. On `opened` it sends the result of opening, and after a success it reports its end by the plan's `report_end`.
pub(crate) fn start(plan: InstancePlan, opened: SyncSender<OpenResult>) -> std::io::Result<JoinHandle<()>> {
    let (place, report_end) = (plan.instance_index, Arc::clone(&plan.report_end));
    Builder::new().name(format!("zerohop-{}", plan.identity.instance)).spawn(move || {
        let how = catch_unwind(AssertUnwindSafe(|| run(plan, &opened)));
        let how =
            how.unwrap_or_else(|panic| Err(format!("a fault of the program: {}", panic_message(&*panic))));
        if let Err(reason) = &how {
            error!(place, reason, "an instance has ended");
            // If the thread ended before it sent the result of opening, the receiver gets it now.
            drop(opened.try_send((place, Err(reason.clone()))));
        }
        report_end(InstanceExit { instance_index: place, how });
    })
}

/// The message of a panic.
pub(crate) fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    let words = panic.downcast_ref::<&str>().map(|words| (*words).to_owned());
    words.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default()
}

fn run(plan: InstancePlan, opened: &SyncSender<OpenResult>) -> Result<(), String> {
    let InstancePlan {
        instance_index: place,
        identity,
        root,
        engine,
        partitions,
        history,
        mut driver,
        jobs,
        manager_messages: words,
        proofs,
        serves_cross_partition: spans,
        redis_time_out,
        gateway,
        limits,
        ..
    } = plan;
    let stopwatch = Stopwatch::start();
    let mut disk = NodeFolder::instance_disk(root.as_deref(), place).map_err(|error| error.to_string())?;
    let folder = root.as_deref().map(|root| NodeFolder::instance_folder(root, place));
    // This comes before any write: a start after a later crash must not find the mark.
    let closed = folder.as_deref().map_or(Ok(None), clean_shutdown::take)?;
    disk.set_sync_waker(driver.waker());
    let warning = disk.warning();
    let now = driver.now();
    let now = ClockReading { unix_ms: now.unix_ms, elapsed_ms: now.elapsed_ms };
    let (mut instance, found) =
        Instance::<NodeDisk>::open(disk, InstanceOptions { identity, engine }, history, now)
            .map_err(|error| error.to_string())?;
    if root.is_some() {
        instance.keep_ballast();
    }
    instance.set_copy_rate(partitions.copy_bytes_per_s);
    instance.set_region_limit(partitions.region_bytes);
    let recovered = RecoveredData::new(&found, stopwatch.elapsed(), warning);
    recovered.log_recovery(identity.instance);
    let (timestamp_bounds, before) = TimestampBounds::begin(folder.clone(), identity.incarnation)?;
    if before.timestamp_bound > Timestamp::ZERO {
        instance.begin_above(now, before.timestamp_bound);
    }
    let newest = instance.newest();
    let gateway = gateway.map_or_else(
        || Box::new(NoGateway) as Box<dyn Gateway<NodeDisk>>,
        |GatewayStart(start)| start(place, redis_time_out),
    );
    let mut service = InstanceService::new(instance, (place, gateway), timestamp_bounds, (jobs, words));
    if spans {
        service.await_cross_partition();
    }
    let (mut reactor, mailbox) = Reactor::new(driver, service, limits);
    reactor.prove(proofs);
    // If no receiver is left, no other thread would ever stop this one.
    let ready = ReadyToServe { mailbox, recovered, newest, lived: before.starts, closed };
    let is_awaited = opened.try_send((place, Ok(ready))).is_ok();
    let served = if is_awaited { reactor.run() } else { Ok(()) };
    let instance = reactor.into_service().into_instance();
    let closed = instance.close();
    served.map_err(|error| format!("its event queue failed: {error}"))?;
    // The disk's lock keeps other processes out of the folder until the mark is written.
    let disk = closed.map_err(|error| format!("its data could not be closed: {error}"))?;
    if let Some(folder) = folder
        && let Err(error) = clean_shutdown::write(&folder, identity.incarnation)
    {
        // Nothing is lost by that; the next start may report a possible loss.
        warn!(%error, instance = identity.instance.0, "the clean-shutdown file cannot be written; the next start may report possible data loss, although nothing is lost");
    }
    drop(disk);
    Ok(())
}

impl RecoveredData {
    fn new(opened: &OpenReport, took: Duration, warning: Option<&'static str>) -> Self {
        let mut recovered = RecoveredData {
            partitions: opened.partitions,
            removed: opened.removed,
            duration: took,
            warning,
            ..RecoveredData::default()
        };
        for (_, report) in &opened.engine.partitions {
            recovered.from_checkpoint += report.from_checkpoint;
            recovered.from_log += report.from_log;
            recovered.from_journal += report.from_journal;
            recovered.torn_bytes += report.torn_bytes;
        }
        let lost = opened.lost_states.iter().map(|(keyspace, partition)| {
            format!(
                "partition {partition} of keyspace {keyspace}: its sessions and deadlines could not all be read; \
                 sessions are expired, so that nothing is done twice"
            )
        });
        let damage = opened.engine.damage().map(ToString::to_string);
        recovered.damaged = opened.engine.damage().count() + opened.lost_states.len();
        recovered.damage = damage.chain(lost).take(DAMAGE_REPORTED_MAX).collect();
        recovered
    }

    fn log_recovery(&self, instance: InstanceId) {
        let RecoveredData {
            partitions, from_checkpoint, from_log, from_journal, torn_bytes, removed, ..
        } = self;
        info!(
            instance = instance.0,
            partitions,
            from_checkpoint,
            from_log,
            from_journal,
            torn_bytes,
            removed,
            damaged = self.damaged,
            took_ms = self.duration.as_millis() as u64,
            "recovered"
        );
        for damage in &self.damage {
            warn!(instance = instance.0, damage, "damage found");
        }
        if let Some(warning) = self.warning {
            warn!(instance = instance.0, "{warning}");
        }
    }
}
