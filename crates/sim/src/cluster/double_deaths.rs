//! Groups of which all members die, and some die again while the group recovers. By chance the second death comes between the
//! start of a recovery and its end in few of many runs.
//!
//! ```text
//!   all members die ──> the map: the group recovers ──> a member reports its log, or not yet
//!                                     └── it dies again, half of the time twice ──> its next process has another report
//! ```

use zerohop_base::random::Random;
use zerohop_base::time::Time;
use zerohop_placement::{Durability, Group, GroupState};
use zerohop_wire::ids::{InstanceId, KeyspaceId, PartitionId};

use super::{ClusterPhase, SimulatedCluster};
use crate::kinds::FaultKind;
use crate::streams::Draw;

const MS: u64 = 1_000;
const SECOND: u64 = 1_000_000;

/// Groups in each fault window whose members all die.
const GROUPS_PER_WINDOW: u64 = 2;

/// The longest downtime of a member that dies first, and of one that dies again.
const FIRST_DOWN_US: [u64; 3] = [300 * MS, SECOND, 4 * SECOND];
const AGAIN_DOWN_US: [u64; 3] = [50 * MS, 400 * MS, 3 * SECOND];

/// A member dies again within so long after a map in which its group recovers.
const AGAIN_WITHIN_US: [u64; 3] = [20 * MS, 200 * MS, 900 * MS];

/// The draws are in a stream of their own.
const DEATHS: u64 = 0xE9 << 56;

/// A second or third death.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AnotherDeath {
    pub(super) host: usize,
    pub(super) life: u32,
    pub(super) instance: InstanceId,
    pub(super) place: (KeyspaceId, PartitionId),
}

/// See the module.
pub(super) struct DoubleDeaths<'w> {
    pub(super) world: &'w mut SimulatedCluster,
}

impl DoubleDeaths<'_> {
    fn is_on(&self) -> bool {
        let scenario = &self.world.scenario;
        scenario.peers.kills_twice && scenario.has(FaultKind::Kills)
    }

    fn draw(&self) -> Random {
        Random::new(self.world.seed ^ DEATHS).fork(self.world.now().0)
    }

    /// When all members of a group die.
    pub(super) fn times(&mut self) -> Vec<Time> {
        if !self.is_on() {
            return Vec::new();
        }
        let mut draw = Random::new(self.world.seed ^ DEATHS);
        let windows = self.world.scenario.fault_windows.clone();
        let times = windows.into_iter().flat_map(|(from, until)| {
            let within_us = until.since_us(from);
            (0..GROUPS_PER_WINDOW).map(|_| from.after_us(draw.below(within_us))).collect::<Vec<Time>>()
        });
        times.collect()
    }

    /// All members of a group die. Under `sync` every intact log has everything, so that groups of other durabilities are chosen
    /// if there are any.
    pub(super) fn kill_group(&mut self) {
        let map = std::sync::Arc::clone(&self.world.watch.map);
        let groups: Vec<_> = map
            .keyspaces()
            .flat_map(|(id, keyspace)| {
                let is_sync = keyspace.config().durability == Durability::Sync;
                keyspace.groups().map(move |(partition, group)| (is_sync, (id, partition), group))
            })
            .filter(|(_, _, group)| !group.in_sync.is_empty() && group.state != GroupState::Recovering)
            .collect();
        let lossy: Vec<_> = groups.iter().filter(|(is_sync, _, _)| !is_sync).copied().collect();
        let groups = if lossy.is_empty() { groups } else { lossy };
        if groups.is_empty() {
            return;
        }
        let mut draw = self.draw();
        let (_, (keyspace, partition), group) = *draw.pick(&groups);
        let now = self.world.now();
        self.world.trace.record(now, format_args!("DEATH of all members of {keyspace}/{partition}"));
        let mut hosts: Vec<usize> =
            group.members().filter_map(|one| self.world.host_of(one).map(|(at, _)| at)).collect();
        hosts.sort_unstable();
        hosts.dedup();
        for host in hosts {
            let down_us = *draw.pick(&FIRST_DOWN_US);
            self.world.coverage.fault(FaultKind::Kills);
            self.world.crash_and_restart(host, down_us);
        }
        self.world.focus = Some((keyspace, now.after_us(6 * SECOND)));
    }

    /// A new map shows that a group recovers: the next death of a member, and its time, if one is drawn.
    pub(super) fn draw_another(
        &mut self,
        place: (KeyspaceId, PartitionId),
        group: Group<'_>,
    ) -> Option<(Time, AnotherDeath)> {
        if !self.is_on() || self.world.phase != ClusterPhase::Faults {
            return None;
        }
        let at = u64::from(place.0.0) << 32 | u64::from(place.1.get());
        let mut draw = self.draw().fork(at);
        let in_sync: Vec<InstanceId> =
            std::iter::once(group.primary).chain(group.in_sync.iter().copied()).collect();
        let instance = *draw.pick(&in_sync);
        let within_us = *draw.pick(&AGAIN_WITHIN_US);
        let due = self.world.now().after_us(draw.below(within_us));
        let (host, _) = self.world.host_of(instance).filter(|(at, _)| self.world.hosts[*at].is_up)?;
        let life = self.world.hosts[host].life;
        draw.chance(1, 2).then_some((due, AnotherDeath { host, life, instance, place }))
    }

    /// A member dies again, if its group still recovers.
    pub(super) fn die_again(&mut self, death: AnotherDeath) {
        let AnotherDeath { host, life, instance, place } = death;
        let map = std::sync::Arc::clone(&self.world.watch.map);
        let group = map.keyspace(place.0).and_then(|keyspace| keyspace.group(place.1));
        let recovers = group.is_some_and(|group| group.state == GroupState::Recovering);
        let one = &self.world.hosts[host];
        if !recovers || one.life != life || !one.is_up {
            return;
        }
        let has_reported = self.world.watch.reported_logs.has_reported(place, instance, one.incarnation);
        self.world.coverage.blob(match has_reported {
            true => "recoveries: members that die again after their report",
            false => "recoveries: members that die again before their report",
        });
        let mut draw = self.draw();
        let down_us = *draw.pick(&AGAIN_DOWN_US);
        let now = self.world.now();
        self.world
            .trace
            .record(now, format_args!("DEATH of n{host} again, as {}/{} recovers", place.0, place.1));
        self.world.coverage.fault(FaultKind::Kills);
        self.world.crash_and_restart(host, down_us);
    }
}
