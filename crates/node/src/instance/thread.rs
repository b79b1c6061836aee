//! The thread of an instance: opens its data, serves until it is told to stop, closes.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::mpsc::SyncSender;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use tokio::sync::mpsc;
use tracing::{error, info, warn};
use zerohop_engine::EngineOptions;
use zerohop_partition::instance::{ClockReading, Identity, Instance, InstanceOptions, OpenReport};
use zerohop_placement::MapHistory;
use zerohop_wire::ids::{Incarnation, InstanceId, Timestamp};

use super::ceilings::Ceilings;
use super::closed;
use super::notice::{InstanceMessage, InstanceNotice};
use super::service::InstanceService;
use crate::clock::Stopwatch;
use crate::disk::NodeDisk;
use crate::manager::{ControlJob, ManagerInput};
use crate::proofs::Proofs;
use crate::reactor::{Driver, Limits, MioDriver, Reactor, ReactorMailbox};
use crate::server::NodeFolder;
use crate::server::limits::DAMAGE_TOLD_MAX;

/// What an instance is started with.
pub(crate) struct InstancePlan {
    /// Which of the node's instances it is, from zero.
    pub(crate) place: usize,
    pub(crate) identity: Identity,
    /// The data folder of the node; `None`: all is in memory.
    pub(crate) root: Option<PathBuf>,
    pub(crate) engine: EngineOptions,
    /// See [`crate::server::ServerOptions::copy_bytes_per_s`]; of this instance alone.
    pub(crate) copy_bytes_per_s: u64,
    pub(crate) history: MapHistory,
    /// Listens already; who connects waits until the data is open.
    pub(crate) driver: MioDriver,
    pub(crate) jobs: mpsc::Sender<ControlJob>,
    pub(crate) control: mpsc::Sender<ManagerInput>,
    /// For the control group; `None`: the node stands alone.
    pub(crate) words: Option<mpsc::Sender<InstanceMessage>>,
    /// Of the cluster's secret, if it has one.
    pub(crate) proofs: Option<Proofs>,
    /// See [`crate::server::ServerOptions::spans`].
    pub(crate) spans: bool,
    /// See [`crate::server::ServerOptions::redis_time_out`].
    pub(crate) redis_time_out: Duration,
    pub(crate) limits: Limits,
}

/// An instance that serves.
#[derive(Debug)]
pub(crate) struct ReadyToServe {
    pub(crate) mailbox: ReactorMailbox<InstanceNotice>,
    pub(crate) recovered: RecoveredData,
    /// The newest timestamp that it has stored.
    pub(crate) newest: Timestamp,
    /// The earlier starts that its disk has lived through.
    pub(crate) lived: Vec<Incarnation>,
    /// The start whose end in order its disk told of.
    pub(crate) closed: Option<Incarnation>,
}

/// What opening its data found.
#[derive(Clone, Debug, Default)]
pub(crate) struct RecoveredData {
    pub(crate) partitions: usize,
    /// Log entries taken from checkpoints, read from the log, and taken from the journal.
    pub(crate) from_checkpoint: u64,
    pub(crate) from_log: u64,
    pub(crate) from_journal: u64,
    /// Bytes of torn tails that were cut off.
    pub(crate) torn_bytes: u64,
    /// Partitions of dropped keyspaces that were removed.
    pub(crate) removed: usize,
    /// Pieces of damage, and the first of them in words.
    pub(crate) damaged: usize,
    pub(crate) damage: Vec<String>,
    pub(crate) took: Duration,
    /// What the operator must know about its disk.
    pub(crate) warning: Option<&'static str>,
}

/// An instance has ended.
#[derive(Clone, Debug)]
pub(crate) struct EndedInstance {
    pub(crate) place: usize,
    /// Whether it ended because it was told to, with all data closed; else what happened.
    pub(crate) how: Result<(), String>,
}

/// How opening went.
pub(crate) type OpenResult = (usize, Result<ReadyToServe, String>);

/// Starts the thread. It says on `opened` how opening went and, if well, on the plan's control channel that it has
/// ended.
pub(crate) fn start(plan: InstancePlan, opened: SyncSender<OpenResult>) -> std::io::Result<JoinHandle<()>> {
    let (place, control) = (plan.place, plan.control.clone());
    Builder::new().name(format!("zerohop-{}", plan.identity.instance)).spawn(move || {
        let how = catch_unwind(AssertUnwindSafe(|| run(plan, &opened)));
        let how = how.unwrap_or_else(|panic| Err(format!("a fault of the program: {}", words(&*panic))));
        if let Err(reason) = &how {
            error!(place, reason, "an instance has ended");
            // If it ended before it said how opening went: who waits for that is told now.
            drop(opened.try_send((place, Err(reason.clone()))));
        }
        // There is room for one such message of every instance, unless nobody is left to read it.
        drop(control.try_send(ManagerInput::Ended(EndedInstance { place, how })));
    })
}

/// What a panic said.
pub(crate) fn words(panic: &(dyn std::any::Any + Send)) -> String {
    let words = panic.downcast_ref::<&str>().map(|words| (*words).to_owned());
    words.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default()
}

fn run(plan: InstancePlan, opened: &SyncSender<OpenResult>) -> Result<(), String> {
    let InstancePlan {
        place,
        identity,
        root,
        engine,
        copy_bytes_per_s,
        history,
        mut driver,
        jobs,
        words,
        proofs,
        spans,
        redis_time_out,
        limits,
        ..
    } = plan;
    let stopwatch = Stopwatch::start();
    let mut disk = NodeFolder::instance_disk(root.as_deref(), place).map_err(|error| error.to_string())?;
    let folder = root.as_deref().map(|root| NodeFolder::instance_folder(root, place));
    // Before anything is written: a crash from here on must not find it.
    let closed = folder.as_deref().map_or(Ok(None), closed::take)?;
    disk.wake(driver.waker());
    let warning = disk.warning();
    let now = driver.now();
    let now = ClockReading { unix_ms: now.unix_ms, elapsed_ms: now.elapsed_ms };
    let (mut instance, found) =
        Instance::<NodeDisk>::open(disk, InstanceOptions { identity, engine }, history, now)
            .map_err(|error| error.to_string())?;
    instance.set_copy_rate(copy_bytes_per_s);
    let recovered = RecoveredData::new(&found, stopwatch.elapsed(), warning);
    recovered.tell(identity.instance);
    let (ceilings, before) = Ceilings::begin(folder.clone(), identity.incarnation)?;
    if before.ceiling > Timestamp::ZERO {
        instance.begin_above(now, before.ceiling);
    }
    let newest = instance.newest();
    let mut service = InstanceService::new(instance, (place, redis_time_out), ceilings, (jobs, words));
    if spans {
        service.await_spanning();
    }
    let (mut reactor, mailbox) = Reactor::new(driver, service, limits);
    reactor.prove(proofs);
    // If nobody waits for it any more, nobody would ever tell it to stop.
    let ready = ReadyToServe { mailbox, recovered, newest, lived: before.starts, closed };
    let is_awaited = opened.try_send((place, Ok(ready))).is_ok();
    let served = if is_awaited { reactor.run() } else { Ok(()) };
    let instance = reactor.into_service().into_instance();
    let closed = instance.close();
    served.map_err(|error| format!("its event queue failed: {error}"))?;
    // It keeps others out of the folder until the mark is there.
    let disk = closed.map_err(|error| format!("its data could not be closed: {error}"))?;
    if let Some(folder) = folder
        && let Err(error) = closed::leave(&folder, identity.incarnation)
    {
        // Nothing is lost by that; the next start may be told that something is.
        warn!(%error, instance = identity.instance.0, "the mark of a stop in order could not be written: nothing is lost, though the next start may say that something could be");
    }
    drop(disk);
    Ok(())
}

impl RecoveredData {
    fn new(opened: &OpenReport, took: Duration, warning: Option<&'static str>) -> Self {
        let mut recovered = RecoveredData {
            partitions: opened.partitions,
            removed: opened.removed,
            took,
            warning,
            ..RecoveredData::default()
        };
        for (_, report) in &opened.engine.partitions {
            recovered.from_checkpoint += report.from_checkpoint;
            recovered.from_log += report.from_log;
            recovered.from_journal += report.from_journal;
            recovered.torn_bytes += report.torn_bytes;
        }
        let lost = opened.states_lost.iter().map(|(keyspace, partition)| {
            format!(
                "partition {partition} of keyspace {keyspace}: its sessions and deadlines could not all be read; \
                 sessions are expired, so that nothing is done twice"
            )
        });
        let damage = opened.engine.damage().map(ToString::to_string);
        recovered.damaged = opened.engine.damage().count() + opened.states_lost.len();
        recovered.damage = damage.chain(lost).take(DAMAGE_TOLD_MAX).collect();
        recovered
    }

    fn tell(&self, instance: InstanceId) {
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
            took_ms = self.took.as_millis() as u64,
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
