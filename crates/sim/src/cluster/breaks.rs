//! Broken invariants: in a fault window the primary of a replicated partition breaks an invariant, as by a fault of the program.
//!
//! ```text
//!   fault window ──Break──> a primary with another in-sync member ──> its next step finds it: the copy stops
//!   seconds later, or at the end of all faults ──> its process is killed, and starts with what is on its disk
//! ```
//!
//! The checker *broken*: after the report, the copy answers nothing and acknowledges nothing until its process ends or the
//! partition leaves the instance.

use zerohop_base::time::Time;
use zerohop_wire::ids::{InstanceId, KeyspaceId, PartitionId};

use super::SimulatedCluster;
use super::instance_turn::{BrokenReport, ClusterTurn};
use crate::kinds::FaultKind;
use crate::streams::Draw;

const SECOND: u64 = 1_000_000;

/// The draws are in streams of their own from here on, so that they shift no others.
const BREAK_FORK: u64 = 0xB0C7 << 32;

/// The shortest and longest time from a broken invariant to the end of the process.
const KILLED_AFTER_US: (u64, u64) = (SECOND, 9 * SECOND);

/// For so long clients prefer the keyspace of the broken partition.
const FOCUS_US: u64 = 4 * SECOND;

/// The broken invariants of a run, while one of its events happens.
pub(super) struct InvariantBreaks<'w> {
    pub(super) world: &'w mut SimulatedCluster,
}

impl InvariantBreaks<'_> {
    /// When invariants break: once in about each second fault window.
    pub(super) fn times(&mut self) -> Vec<Time> {
        if !self.world.scenario.has(FaultKind::BrokenInvariants) {
            return Vec::new();
        }
        let mut draw = self.world.streams.node.fork(BREAK_FORK);
        let windows = self.world.scenario.fault_windows.iter();
        let at = windows.map(|(from, to)| (draw.chance(1, 2), from.after_us(draw.below(to.since_us(*from)))));
        at.filter_map(|(is_drawn, at)| is_drawn.then_some(at)).collect()
    }

    /// The primary of some partition breaks an invariant. Returns the node, and when its process is to be killed.
    pub(super) fn break_invariant(&mut self) -> Option<(usize, Time)> {
        let now = self.world.now();
        let mut draw = self.world.streams.node.fork(BREAK_FORK + now.0);
        let places = self.breakable_places();
        if places.is_empty() {
            return None;
        }
        let (keyspace, partition, primary) = *draw.pick(&places);
        let (host, slot) = self.world.host_of(primary)?;
        let instance = self.world.hosts[host].slots[slot].instance.as_mut()?;
        if !instance.break_invariant(keyspace, partition) {
            return None;
        }
        self.world.trace.record(now, format_args!("BREAK of {keyspace}/{partition} at n{host}/{slot}"));
        self.world.focus = Some((keyspace, now.after_us(FOCUS_US)));
        let life = self.world.hosts[host].life;
        self.world.targeted_faults.broken.insert((host, life));
        self.world.schedule_slot(host, slot, now);
        Some((host, now.after_us(draw.between(KILLED_AFTER_US.0, KILLED_AFTER_US.1))))
    }

    /// The partitions whose primary runs, with another running in-sync member, which can take over.
    fn breakable_places(&self) -> Vec<(KeyspaceId, PartitionId, InstanceId)> {
        let map = &self.world.watch.map;
        let is_well = |instance: InstanceId| {
            let known = map.instance(instance);
            self.world.host_of(instance).is_some_and(|(at, _)| {
                let host = &self.world.hosts[at];
                host.is_up && known.is_some_and(|known| known.incarnation == host.incarnation)
            })
        };
        let all = map.keyspaces().flat_map(|(id, keyspace)| {
            keyspace.groups().map(move |(partition, group)| (id, partition, group))
        });
        all.filter(|(_, _, group)| {
            is_well(group.primary) && group.in_sync.iter().any(|instance| is_well(*instance))
        })
        .map(|(id, partition, group)| (id, partition, group.primary))
        .collect()
    }

    /// Whether a copy that has stopped still answers.
    pub(super) fn watch_answers(&mut self, host: usize, slot: usize, turned: &ClusterTurn) {
        let known = &self.world.hosts[host].slots[slot].broken;
        if known.is_empty() && turned.broken.is_empty() {
            return;
        }
        let answered = turned.answered.iter().enumerate().find_map(|(at, place)| {
            let of = |one: &&BrokenReport| one.is_of(place) && one.answered_before <= at;
            known.iter().chain(&turned.broken).find(of).map(|one| ("answers a request", *one))
        });
        let acknowledged = turned.acknowledged.iter().enumerate().find_map(|(at, place)| {
            let of = |one: &&BrokenReport| one.is_of(place) && one.acknowledged_before <= at;
            known.iter().chain(&turned.broken).find(of).map(|one| ("acknowledges a write", *one))
        });
        let now = self.world.now();
        if let Some((what, BrokenReport { keyspace, partition, rule, .. })) = acknowledged.or(answered) {
            let what = format!(
                "at {} n{host}/{slot} {what} of {keyspace}/{partition}, where an invariant is broken: {rule}",
                now.0
            );
            self.world.record_violation("broken", what);
        }
        for one in &turned.broken {
            let BrokenReport { keyspace, partition, rule, .. } = *one;
            self.world.coverage.fault(FaultKind::BrokenInvariants);
            self.world
                .trace
                .record(now, format_args!("n{host}/{slot} {keyspace}/{partition} is BROKEN: {rule}"));
            // Whatever leaves in a later turn leaves after it.
            let report = BrokenReport { answered_before: 0, acknowledged_before: 0, ..*one };
            self.world.hosts[host].slots[slot].broken.push(report);
        }
    }
}
