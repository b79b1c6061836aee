//! Primaries that reach only one of their in-sync replicas. A cut of single pairs of nodes does this by chance, and rarely at a
//! time at which the managers do not hear the primary either.
//!
//! ```text
//!   old primary ──X── managers, heir       the heir is promoted
//!        └── instances only ── third in-sync replica ── heir
//! ```
//!
//! The third replica grants leases to the old primary until it follows the map that promotes the heir.

use zerohop_base::random::Random;
use zerohop_base::time::Time;

use super::SimulatedCluster;
use super::traffic::Traffic;
use crate::kinds::FaultKind;
use crate::streams::Draw;

const MS: u64 = 1_000;
const SECOND: u64 = 1_000_000;

/// Cuts in each fault window.
const CUTS_PER_WINDOW: u64 = 2;

/// The draws are in a stream of their own.
const PAIRS: u64 = 0xE8 << 56;

/// See the module.
pub(super) struct PairCuts<'w> {
    pub(super) world: &'w mut SimulatedCluster,
}

impl PairCuts<'_> {
    /// When primaries are cut off from all but one of their in-sync replicas.
    pub(super) fn times(&mut self) -> Vec<Time> {
        if !self.world.scenario.peers.cuts_pairs || !self.world.scenario.has(FaultKind::Cuts) {
            return Vec::new();
        }
        let mut draw = Random::new(self.world.seed ^ PAIRS);
        let windows = self.world.scenario.fault_windows.clone();
        let times = windows.into_iter().flat_map(|(from, until)| {
            let within_us = until.since_us(from);
            (0..CUTS_PER_WINDOW).map(|_| from.after_us(draw.below(within_us))).collect::<Vec<Time>>()
        });
        times.collect()
    }

    /// Cuts a primary off.
    pub(super) fn cut(&mut self) {
        let now = self.world.now();
        let mut draw = Random::new(self.world.seed ^ PAIRS).fork(now.0);
        let map = std::sync::Arc::clone(&self.world.watch.map);
        let groups: Vec<_> = map
            .keyspaces()
            .flat_map(|(id, keyspace)| keyspace.groups().map(move |(_, group)| (id, group)))
            .filter(|(_, group)| group.in_sync.len() >= 2)
            .collect();
        if groups.is_empty() {
            return;
        }
        let (keyspace, group) = *draw.pick(&groups);
        let third = *draw.pick(group.in_sync);
        let place = |instance| self.world.host_of(instance).map(|(at, _)| at);
        let (Some(old), Some(third)) = (place(group.primary), place(third)) else { return };
        if old == third {
            return;
        }
        let until = now.after_us(draw.between(3 * SECOND, 6 * SECOND));
        self.world.trace.record(now, format_args!("CUT of n{old} from all but n{third} until {}", until.0));
        self.world.coverage.fault(FaultKind::Cuts);
        for other in (0..self.world.hosts.len()).filter(|other| ![old, third].contains(other)) {
            self.world.cut_between(old, other, until);
            self.world.cut_between(other, old, until);
        }
        for (from, to) in [(old, third), (third, old)] {
            self.world.begin_stall(from, Some(to), Some(Traffic::Agents), until);
        }
        self.world.focus = Some((keyspace, until.after_us(500 * MS)));
    }
}
