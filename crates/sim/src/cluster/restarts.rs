//! After everything else each instance is restarted alone, several times. It must store what it stored before: every
//! record with its version, and sessions, deadlines and transactions as of the same log index.
//!
//! ```text
//!   running instance ── what it stores ──> before
//!     disk ── killed, power lost or shut down cleanly ──> opened, compared ──> checkpoints and compaction, most of the
//!             ^                                                               time with a crash at a point of them
//!             └────────────────────────────────────────────────────────────────┘
//! ```
//!
//! The restarts are made on a duplicate of the disk, so that they do not change the cluster. Members of a group that lose
//! contents in a restart would get them again from the others, and a client would never see it.

use zerohop_base::random::Random;
use zerohop_base::time::Time;
use zerohop_engine::disk::crash_point::CrashPoint;
use zerohop_engine::disk::simulated::SimulatedDisk;
use zerohop_shard::{StoredInstance, StoredPartition};

use super::SimulatedCluster;
use super::node_end::NodeEnd;
use crate::engine_cases;
use crate::streams::Draw;

/// Restarts of each instance one after the other.
const RESTARTS: u64 = 4;

/// Calls of the disk that may still succeed at a point, at most.
const CALLS_LEFT_MAX: u64 = 6;

/// See the module.
pub(super) struct Restarts<'w> {
    pub(super) world: &'w mut SimulatedCluster,
}

impl Restarts<'_> {
    /// Restarts all instances that run.
    pub(super) fn check(&mut self) {
        for host in 0..self.world.hosts.len() {
            // What is corrupt on its disk may be found at any time.
            if self.world.watch.lost_disks.get(&host) == Some(&Time::NEVER) {
                continue;
            }
            for slot in 0..self.world.hosts[host].slots.len() {
                if let Err(what) = self.check_instance(host, slot) {
                    self.world.record_violation("restart", format!("n{host}/{slot}: {what}"));
                }
            }
        }
    }

    fn check_instance(&mut self, host: usize, slot: usize) -> Result<(), String> {
        let found = &mut self.world.hosts[host].slots[slot];
        let Some(instance) = &mut found.instance else { return Ok(()) };
        let before =
            instance.local().stored_partitions().map_err(|error| format!("cannot be read: {error}"))?;
        let durable = before.iter().filter(|before| before.is_durable()).count();
        self.world.coverage.blobs_seen(engine_cases::RESTARTS[0], durable as u64);
        let place = ((host as u64) << 8) + slot as u64;
        let mut draw = Random::new(self.world.seed ^ 0xE5 << 56).fork(place);
        let disk = self.world.hosts[host].slots[slot].disk.duplicate();
        disk.reseed(draw.next_u64());
        self.restart(&disk, &before, &mut draw)?;
        // A clean shutdown ends the instance, so it comes last.
        self.world.count(host);
        let now = self.world.now();
        let shown = self.world.hosts[host].clock.show(now);
        let mut stopped = Ok(Vec::new());
        let (_, trouble) = self.world.hosts[host].slots[slot]
            .stop_after(shown, |instance| stopped = instance.local().stored_partitions());
        if let Some(trouble) = trouble {
            return Err(format!("does not shut down cleanly: {trouble}"));
        }
        let stopped = stopped.map_err(|error| format!("cannot be read when it has stopped: {error}"))?;
        let before = with_last_entries(before, stopped);
        self.world.coverage.blob(engine_cases::RESTARTS[1]);
        let disk = self.world.hosts[host].slots[slot].disk.duplicate();
        disk.crash();
        self.open(&disk, &before, "a clean shutdown").map(drop)
    }

    fn restart(
        &mut self,
        disk: &SimulatedDisk,
        before: &[StoredPartition],
        draw: &mut Random,
    ) -> Result<(), String> {
        let mut end = if draw.chance(1, 2) { NodeEnd::Power } else { NodeEnd::Killed };
        let mut after = format!("{end:?}");
        for restart in 0..RESTARTS {
            match end {
                NodeEnd::Power => disk.crash(),
                _ => disk.power_off_clean(),
            }
            let mut opened = self.open(disk, before, &after)?;
            if restart + 1 == RESTARTS {
                break;
            }
            end = if draw.chance(1, 2) { NodeEnd::Power } else { NodeEnd::Killed };
            if draw.chance(3, 4) {
                let points = [&CrashPoint::OF_CHECKPOINTS[..], &CrashPoint::OF_COMPACTION].concat();
                disk.cut_power_at(&[*draw.pick(&points)], 1 + draw.below(4), draw.below(CALLS_LEFT_MAX + 1));
            }
            self.world.coverage.blob(engine_cases::RESTARTS[2]);
            let done = opened.maintenance();
            if let (Err(error), false) = (&done, disk.is_power_off()) {
                return Err(format!("maintenance after {after} fails: {error}"));
            }
            after = format!("{end:?} after maintenance");
            if let Some(point) = disk.cut_at() {
                self.world.coverage.blob(engine_cases::RESTARTS[3]);
                self.world.coverage.blob(engine_cases::crashed(point));
                after = format!("{end:?} at {point:?}");
            }
        }
        Ok(())
    }

    /// Opens a disk, and compares what it stores.
    fn open(
        &mut self,
        disk: &SimulatedDisk,
        before: &[StoredPartition],
        after: &str,
    ) -> Result<StoredInstance<SimulatedDisk>, String> {
        let opened = StoredInstance::open(disk.clone(), self.world.scenario.engine, before);
        let (mut opened, report) = opened.map_err(|error| format!("does not open after {after}: {error}"))?;
        if let Some(damage) = report.damage().next() {
            return Err(format!("finds damage after {after}: {damage:?}"));
        }
        match opened.first_difference() {
            Ok(None) => Ok(opened),
            Ok(Some(difference)) => Err(format!("after {after}: {difference}")),
            Err(error) => Err(format!("cannot be read after {after}: {error}")),
        }
    }
}

/// What a clean shutdown must leave: what was stored before it, or as the instance was when it had stopped where its last batch logged something
/// that was due, such as the end of a cleanup.
fn with_last_entries(before: Vec<StoredPartition>, stopped: Vec<StoredPartition>) -> Vec<StoredPartition> {
    let last = |before: StoredPartition| {
        let mut same = stopped.iter().filter(|one| one.id == before.id);
        match same.next() {
            Some(last) if last.index > before.index => last.clone(),
            _ => before,
        }
    };
    before.into_iter().map(last).collect()
}
