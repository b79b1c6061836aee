//! The omniscient observer: it sees the maps that are decided, the processes that end, and the
//! answers that leave them. It reports to the checkers what may have been lost, and violations at
//! the time at which they occur.
//!
//! *I4*: see [`super::hash_ranges`].
//! *I1*: see [`super::recovery`] and [`super::reported_logs`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use zerohop_base::time::Time;
use zerohop_placement::{
    ClusterMap, Division, Durability, Group, GroupState, KeyOrder, KeyspaceConfig, MapChange, MapDelta,
    NodeState,
};
use zerohop_shard::AnswerOrigin;
use zerohop_wire::ids::{Incarnation, InstanceId, KeyspaceId, PartitionEpoch, PartitionId};

use super::committed_entries::{AgreedEntries, AppliedEntries, MemberLog, PartitionKey, is_replicated};
use super::double_deaths::DoubleDeaths;
use super::faults::ClusterFault;
use super::hash_ranges::{HashRanges, partitions_named};
use super::maps::Maps;
use super::node_end::NodeEnd;
use super::recovery::{Holder, ProcessExit, RecoveryVerdict, check_chosen_log};
use super::redis::REDIS_KEYSPACES;
use super::reported_logs::ReportedLogs;
use super::{ClusterEvent, SimulatedCluster};
use crate::history::{KeyspaceHistory, Loss, RunHistory};
use crate::limits::TRACES_US;
use crate::workload::transactional::KEYSPACES;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct ClusterWatch {
    /// The newest map that was decided.
    pub(super) map: Arc<ClusterMap>,
    /// Names of keyspaces that were dropped.
    pub(super) dropped: BTreeSet<String>,
    /// Disks of some node have been lost.
    pub(super) has_lost_disks: bool,
    /// A manager has lost its log.
    pub(super) has_lost_log: bool,
    keyspaces: BTreeMap<KeyspaceId, KeyspaceModel>,
    hash_ranges: HashRanges,
    committed_entries: AgreedEntries,
    maps: Maps,
    pub(super) reported_logs: ReportedLogs,
    /// Processes that have ended.
    ends: BTreeMap<Incarnation, ProcessEnd>,
    /// Per node: since when its process has trouble; and its last pause.
    disk_fault_since: BTreeMap<usize, Time>,
    pauses: BTreeMap<usize, (Time, Time)>,
    losses: Vec<Loss>,
    /// When the disks of a node were lost.
    pub(super) lost_disks: BTreeMap<usize, Time>,
}

#[derive(Debug)]
struct KeyspaceModel {
    history: KeyspaceHistory,
    /// With the highest number of partitions so far.
    config: KeyspaceConfig,
    division: Division,
    /// The replicas that had all acknowledged writes, in the last group of each partition that did
    /// not recover.
    holders: BTreeMap<PartitionId, Vec<(InstanceId, Incarnation)>>,
}

/// The end of a process.
#[derive(Clone, Copy, Debug)]
struct ProcessEnd {
    at: Time,
    how: NodeEnd,
    /// The last time at which its disks and the process worked.
    sound_until: Time,
    has_failed: bool,
}

impl ClusterWatch {
    /// Keyspaces that clients use for single operations; for a while also those just dropped.
    pub(super) fn live(&self, now: Time) -> impl Iterator<Item = KeyspaceId> {
        let used = move |known: &&KeyspaceModel| {
            let name = known.config.name.as_str();
            let is_plain = !KEYSPACES.contains(&name) && !REDIS_KEYSPACES.contains(&name);
            is_plain && known.history.dropped.is_none_or(|at| now < at.after_us(300_000))
        };
        self.keyspaces.values().filter(used).map(|known| known.history.id)
    }

    /// Whether a partition of a keyspace goes on with a log in doubt.
    pub(super) fn has_lost(&self, keyspace: KeyspaceId) -> bool {
        self.losses.iter().any(|loss| loss.keyspace == keyspace)
    }

    /// A keyspace is about to be dropped.
    pub(super) fn dropping(&mut self, id: KeyspaceId, now: Time) {
        if let Some(known) = self.keyspaces.get_mut(&id) {
            known.history.dropped.get_or_insert(now);
            self.dropped.insert(known.config.name.as_str().to_owned());
        }
    }

    /// A disk of a node has trouble from now on.
    pub(super) fn record_disk_fault(&mut self, host: usize, now: Time) {
        self.disk_fault_since.entry(host).or_insert(now);
    }

    pub(super) fn paused(&mut self, host: usize, now: Time, until: Time) {
        let known = self.pauses.entry(host).or_insert((now, until));
        *known = if now <= known.1 { (known.0, known.1.max(until)) } else { (now, until) };
    }

    /// Keyspaces of transactions.
    fn transactional(&self) -> Vec<KeyspaceId> {
        let is_so = |known: &&KeyspaceModel| KEYSPACES.contains(&known.config.name.as_str());
        self.keyspaces.values().filter(is_so).map(|known| known.history.id).collect()
    }

    /// Their ids in order, once both have existed; one may have been dropped since.
    pub(super) fn transactional_ids(&self) -> Option<[KeyspaceId; 2]> {
        let id = |name: &str| {
            let named = self.keyspaces.iter().find(|(_, known)| known.config.name.as_str() == name);
            named.map(|(id, _)| *id)
        };
        Some([id(KEYSPACES[0])?, id(KEYSPACES[1])?])
    }

    pub(super) fn is_dropped(&self, id: KeyspaceId) -> bool {
        self.keyspaces.get(&id).is_some_and(|known| known.history.dropped.is_some())
    }

    /// Adds everything that checkers need to the history, at the end.
    pub(super) fn add_to_history(&mut self, history: &mut RunHistory) {
        for call in &mut history.calls {
            if let Some(known) = self.keyspaces.get(&call.keyspace) {
                call.partition = known.division.partition(&call.operation.key);
            }
        }
        for mut loss in std::mem::take(&mut self.losses) {
            let Some(known) = self.keyspaces.get(&loss.keyspace) else { continue };
            let finest = known.config.partitions.get();
            let parts: Vec<PartitionId> = match known.config.order {
                KeyOrder::Hashed => {
                    let each = finest / loss.partitions;
                    (loss.partition.0 * each..(loss.partition.0 + 1) * each).map(PartitionId).collect()
                }
                KeyOrder::Ordered => known.division.successors(loss.partition, &known.division),
            };
            for partition in parts {
                (loss.partition, loss.partitions) = (partition, finest);
                history.losses.push(loss);
            }
        }
        history.transactional = self.transactional();
        history.keyspaces = self.keyspaces.values().map(|known| known.history.clone()).collect();
    }
}

impl SimulatedCluster {
    /// An answer about a record leaves a process.
    pub(super) fn watch_answer(&mut self, host: usize, slot: usize, place: AnswerOrigin) {
        let now = self.now();
        let Some(instance) = self.hosts[host].instance_id(slot) else { return };
        if let Err((epoch, other)) = self.watch.hash_ranges.answers(place, instance) {
            let what = format!(
                "at {} instance {instance} answers for {}/{} in epoch {}, though {other} has answered in epoch {epoch}",
                now.0, place.keyspace, place.partition, place.epoch
            );
            self.record_violation("I4", what);
        }
    }

    /// An acknowledgement of a write leaves a process: enough copies must exist.
    pub(super) fn watch_acknowledged(&mut self, host: usize, slot: usize, place: AnswerOrigin) {
        let Some(known) = self.watch.keyspaces.get(&place.keyspace) else { return };
        let requested = known.config.min_in_sync;
        let epoch = (place.keyspace, place.partition, place.epoch);
        if let Some(copies) = self.watch.committed_entries.too_few(epoch, requested) {
            let what = format!(
                "at {} n{host}/{slot} acknowledges a write of {}/{} in epoch {}, which has {copies} copies of {requested}",
                self.now().0,
                place.keyspace,
                place.partition,
                place.epoch
            );
            self.record_violation("copies", what);
        }
    }

    /// A member of a group has applied entries: no other member has different entries there, and
    /// all in-sync replicas have them.
    pub(super) fn watch_applied(&mut self, host: usize, slot: usize, applied: &AppliedEntries) {
        let AppliedEntries { keyspace, partition, epoch, .. } = *applied;
        let Some(instance) = self.hosts[host].instance_id(slot) else { return };
        let Some(partitions) = self.watch.hash_ranges.partitions_in(keyspace, epoch) else { return };
        let now = self.now().0;
        if let Err(what) = self.watch.committed_entries.applies(
            PartitionKey { keyspace, partitions, partition },
            instance,
            applied,
        ) {
            self.record_violation(
                "agreed",
                format!("at {now}, {keyspace}/{partition} in epoch {epoch}: {what}"),
            );
        }
        if !applied.is_primary {
            return;
        }
        let lacks = self.replicas_lacking(applied, partitions);
        let was_replicated = |cluster: &mut SimulatedCluster, epoch| {
            cluster.replicas_lacking(&AppliedEntries { epoch, ..applied.clone() }, partitions).is_empty()
        };
        if lacks.is_empty() || applied.primary_epoch.is_some_and(|epoch| was_replicated(self, epoch)) {
            return;
        }
        for (member, holds) in lacks {
            let upto = applied.upto;
            let what = format!(
                "at {now} {instance} applies {keyspace}/{partition} up to {upto} in epoch {epoch}, and {member}, in sync, has {holds:?}"
            );
            self.record_violation("replicated", what);
        }
    }

    /// The in-sync replicas of an epoch that do not have what its primary has applied in it.
    fn replicas_lacking(
        &mut self,
        applied: &AppliedEntries,
        partitions: u32,
    ) -> Vec<(InstanceId, MemberLog)> {
        let AppliedEntries { keyspace, partition, epoch, .. } = *applied;
        let is_sync = self.map_durability(keyspace) == Some(Durability::Sync);
        let mut lacks = Vec::new();
        for (member, incarnation) in self.watch.committed_entries.in_sync(keyspace, partition, epoch).to_vec()
        {
            let Some((at, place)) = self.host_of(member) else { continue };
            let other = &mut self.hosts[at];
            if !other.is_up || other.incarnation != incarnation {
                continue;
            }
            let Some(holds) = other.slots[place].member_contents(keyspace, partition) else { continue };
            // A replica that has not learned of a split yet has another hash range under this
            // number.
            if self.watch.hash_ranges.partitions_in(keyspace, holds.epoch) != Some(partitions) {
                continue;
            }
            if !is_replicated(applied, holds, is_sync) {
                lacks.push((member, holds));
            }
        }
        lacks
    }

    fn map_durability(&self, keyspace: KeyspaceId) -> Option<Durability> {
        self.watch.map.keyspace(keyspace).map(|known| known.config().durability)
    }

    /// A node has this map: no other map of its epoch may exist.
    pub(super) fn watch_map(&mut self, at: usize, map: &Arc<ClusterMap>) {
        if !self.watch.maps.see(map) {
            self.record_violation("maps", format!("n{at} has another map {} than others had", map.epoch()));
        }
    }

    /// A process ends.
    pub(super) fn watch_end(&mut self, at: usize, how: NodeEnd) {
        let now = self.now();
        let host = &self.hosts[at];
        let mut sound_until = self.watch.disk_fault_since.remove(&at).unwrap_or(Time::NEVER);
        if let Some((from, until)) = self.watch.pauses.remove(&at)
            && now < until.after_us(TRACES_US + u64::from(self.scenario.interval_ms) * 1_000)
        {
            sound_until = sound_until.min(from);
        }
        let end = ProcessEnd { at: now, how, sound_until, has_failed: host.has_failed };
        self.watch.ends.insert(host.incarnation, end);
        self.operator_loses();
    }

    /// An agent has received a change of the map.
    pub(super) fn see_delta(&mut self, delta: &MapDelta) {
        if delta.from != self.watch.map.epoch() {
            return;
        }
        match self.watch.map.apply(delta) {
            Ok(map) => self.see(Arc::new(map), Some(delta)),
            Err(error) => {
                self.record_violation("world", format!("a decided change of the map cannot be: {error}"))
            }
        }
    }

    /// An agent has received a whole map.
    pub(super) fn see_map(&mut self, map: &Arc<ClusterMap>) {
        if map.epoch() > self.watch.map.epoch() {
            self.see(Arc::clone(map), None);
        }
    }

    fn see(&mut self, map: Arc<ClusterMap>, delta: Option<&MapDelta>) {
        let now = self.now();
        let before = std::mem::replace(&mut self.watch.map, Arc::clone(&map));
        self.trace.record(now, format_args!("MAP {}: {:?}", map.epoch(), delta.map(|delta| &delta.changes)));
        for change in delta.iter().flat_map(|delta| &delta.changes) {
            if let MapChange::SplitKeyspace(_) | MapChange::SplitRegion { .. } = change {
                self.coverage.splits += 1;
                self.draw_split_fault();
            }
            if let MapChange::SplitRegion { .. } = change {
                self.coverage.blob("regions split");
            }
        }
        for node in before.nodes().filter(|node| map.node(node.id()).is_none()) {
            self.coverage.removals += 1;
            let gone = self.hosts.iter_mut().find(|host| host.folder.node == Some(node.id()));
            if let Some(host) = gone {
                host.is_removed = true;
            }
        }
        for (id, keyspace) in map.keyspaces() {
            let known = self.watch.keyspaces.entry(id).or_insert_with(|| KeyspaceModel {
                history: KeyspaceHistory {
                    id,
                    durability: vec![(now, keyspace.config().durability)],
                    dropped: None,
                },
                config: keyspace.config().clone(),
                division: keyspace.division().clone(),
                holders: BTreeMap::new(),
            });
            self.watch.hash_ranges.see(id, before.keyspace(id), keyspace);
            if keyspace.config().partitions > known.config.partitions {
                known.config = keyspace.config().clone();
                known.division = keyspace.division().clone();
                // A region has its number for itself.
                if known.config.order == KeyOrder::Hashed {
                    known.holders.clear();
                }
            }
            for (partition, group) in keyspace.groups() {
                let old = before.keyspace(id).filter(|old| old.splits() == keyspace.splits());
                let old = old.and_then(|old| old.group(partition));
                self.see_group(&before, (id, partition), old, group);
            }
        }
        for (id, known) in &mut self.watch.keyspaces {
            if map.keyspace(*id).is_none() && known.history.dropped.is_none() {
                known.history.dropped = Some(now);
            }
        }
    }

    fn see_group(
        &mut self,
        before: &ClusterMap,
        (keyspace, partition): (KeyspaceId, PartitionId),
        old: Option<Group<'_>>,
        group: Group<'_>,
    ) {
        if old == Some(group) {
            return;
        }
        let map = Arc::clone(&self.watch.map);
        if let Some(old) = old {
            self.count_change(before, old, group);
        }
        if group.state == GroupState::Recovering {
            let place = (keyspace, partition);
            if let Some((at, death)) = (DoubleDeaths { world: self }).draw_another(place, group) {
                self.event_queue.at(at, ClusterEvent::Fault(ClusterFault::DieAgain(death)));
            }
            return;
        }
        if old.is_some_and(|old| old.state == GroupState::Recovering) {
            self.coverage.total_restarts += 1;
            self.check_recovery(before, (keyspace, partition), group.epoch, group.primary);
        }
        if old.is_some_and(|old| old.primary != group.primary)
            && let Some((host, _)) = self.host_of(group.primary)
        {
            self.draw_restart(host);
        }
        if let Some(old) = old.filter(|old| old.primary != group.primary) {
            let at = [(old.primary, old.epoch), (group.primary, group.epoch)];
            self.read_around((keyspace, partition), &at);
            if let Some((host, _)) = self.host_of(old.primary) {
                self.draw_late_messages(host);
            }
        }
        let holders = std::iter::once(group.primary).chain(group.in_sync.iter().copied());
        let named =
            |instance| (instance, map.instance(instance).map_or(Incarnation(0), |one| one.incarnation));
        let holders: Vec<(InstanceId, Incarnation)> = holders.map(named).collect();
        self.watch.committed_entries.see((keyspace, partition, group.epoch), holders.clone());
        if let Some(known) = self.watch.keyspaces.get_mut(&keyspace) {
            known.holders.insert(partition, holders);
        }
    }

    fn count_change(&mut self, before: &ClusterMap, old: Group<'_>, group: Group<'_>) {
        let map = Arc::clone(&self.watch.map);
        let coverage = &mut self.coverage;
        let settled = group.state != GroupState::Recovering && old.state != GroupState::Recovering;
        if settled && old.primary != group.primary {
            coverage.promotions += 1;
        }
        coverage.admissions += group.in_sync.iter().filter(|one| old.followers.contains(one)).count() as u64;
        coverage.exclusions += group.followers.iter().filter(|one| old.in_sync.contains(one)).count() as u64;
        // An instance that has restarted in its former place.
        let restarted = |one: &&InstanceId| {
            let named = |map: &ClusterMap| map.instance(**one).map(|known| known.incarnation);
            named(before).is_some() && named(before) != named(&map)
        };
        let holders: Vec<InstanceId> =
            std::iter::once(group.primary).chain(group.in_sync.iter().copied()).collect();
        let were: Vec<InstanceId> = std::iter::once(old.primary).chain(old.in_sync.iter().copied()).collect();
        if settled {
            coverage.readmissions +=
                holders.iter().filter(restarted).filter(|one| were.contains(one)).count() as u64;
        }
        if old.state == GroupState::Admitting && group.state == GroupState::Stable {
            let target = old.followers.first();
            match target.is_some_and(|target| holders.contains(target)) {
                true => coverage.moves_completed += 1,
                false => coverage.moves_abandoned += 1,
            }
        }
    }

    /// A group goes on after all in-sync replicas are gone: judges with which log, and what may be
    /// missing from it.
    fn check_recovery(
        &mut self,
        before: &ClusterMap,
        (keyspace, partition): (KeyspaceId, PartitionId),
        epoch: PartitionEpoch,
        chosen: InstanceId,
    ) {
        let now = self.now();
        let Some(known) = self.watch.keyspaces.get(&keyspace) else { return };
        let holders = known.holders.get(&partition).cloned().unwrap_or_default();
        let durability = known.history.durability_at(now);
        let partitions = partitions_named(&known.config);
        let in_sync: Vec<InstanceId> = holders.iter().map(|(instance, _)| *instance).collect();
        let is_whole = holders.iter().any(|holder| holder.0 == chosen && self.may_be_whole(*holder));
        let holders: Vec<Holder> = holders.iter().map(|holder| self.holder(*holder)).collect();
        let is_in_doubt = self.has_lost_disk_since(chosen, Time::NEVER);
        let judged = check_chosen_log(durability, &holders, chosen);
        if is_whole || in_sync.is_empty() || !matches!(judged, RecoveryVerdict::MayLack(_)) {
            self.watch.reported_logs.forget((keyspace, partition));
        } else {
            let map = Arc::clone(&self.watch.map);
            let reports = &mut self.watch.reported_logs;
            let reported = reports.end((keyspace, partition), (before, &map), (&in_sync, chosen));
            if let Err(what) = reported {
                self.record_violation("I1", format!("at {} {keyspace}/{partition} {what}", now.0));
            }
        }
        if judged != RecoveryVerdict::Complete {
            self.watch
                .committed_entries
                .begins_again(PartitionKey { keyspace, partitions, partition }, epoch);
        }
        let survives_until = match judged {
            RecoveryVerdict::Complete => return,
            // Its disk is corrupt, and it has repaired all corruption that it met.
            RecoveryVerdict::MustNotContinue(_) if is_in_doubt && durability == Durability::Sync => return,
            RecoveryVerdict::MayLack(survives_until) => survives_until,
            RecoveryVerdict::MustNotContinue(passed) => {
                let what = format!(
                    "{keyspace}/{partition} goes on with the log of {chosen}, though {passed} was in sync and holds everything"
                );
                return self.record_violation("I1", what);
            }
        };
        self.coverage.losses += 1;
        let text = format_args!(
            "LOSS of {keyspace}/{partition}: {chosen} goes on, all from before {} survives",
            survives_until.0
        );
        self.trace.record(now, text);
        let keeps_timestamp_bound = !self.has_lost_disk_since(chosen, Time(0));
        self.watch.losses.push(Loss {
            keyspace,
            partition,
            partitions,
            down: now,
            up: now,
            survives_until,
            keeps_timestamp_bound,
        });
    }

    /// Whether a replica that had everything may not have restarted at the time of the decision that the map shows, or
    /// may have shut down cleanly before.
    fn may_be_whole(&self, (instance, incarnation): (InstanceId, Incarnation)) -> bool {
        let named = self.watch.map.instance(instance).map(|known| known.incarnation);
        let end = self.watch.ends.get(&incarnation);
        named == Some(incarnation) || end.is_none_or(|ended| ended.how == NodeEnd::Stopped)
    }

    /// The fate of a replica that had everything.
    fn holder(&self, (instance, incarnation): (InstanceId, Incarnation)) -> Holder {
        // A replica that ran at the time of the decision may have ended since.
        let end = self.watch.ends.get(&incarnation).map(|ended| ProcessExit {
            at: ended.at,
            sound_until: ended.sound_until,
            is_clean: ended.how == NodeEnd::Stopped && !ended.has_failed,
            has_lost_disks: self.has_lost_disk_since(instance, ended.at),
        });
        Holder { instance, end }
    }

    /// Whether an instance's disks were lost at this time or later.
    fn has_lost_disk_since(&self, instance: InstanceId, at: Time) -> bool {
        let Some((host, _)) = self.host_of(instance) else { return true };
        self.watch.lost_disks.get(&host).is_some_and(|lost| *lost >= at)
    }

    /// The control group reports that a partition goes on with a log in doubt.
    pub(super) fn watch_loss(&mut self, keyspace: KeyspaceId, partition: PartitionId) {
        self.trace.record(self.now(), format_args!("control: {keyspace}/{partition} may have lost"));
    }

    /// Instances of nodes that are up, by the map: a node with two may have two copies, where there
    /// are too few other nodes.
    pub(super) fn instances_up(&self) -> usize {
        let up = self.watch.map.nodes().filter(|node| node.state() == NodeState::Up);
        up.map(|node| node.instances().count()).sum()
    }
}
