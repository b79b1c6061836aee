//! Processes: their starts and ends, the turns of their instances, and their clocks.

use std::sync::Arc;

use zerohop_base::time::Time;
use zerohop_control::agent::{Agent, AgentEvent, GroupRequest};
use zerohop_control::command::KeyspaceDrained;
use zerohop_engine::disk::simulated::SimulatedDisk;
use zerohop_placement::MapHistory;
use zerohop_replication::GroupChange;
use zerohop_shard::{AnswerOrigin, Identity};
use zerohop_wire::ids::{Incarnation, InstanceId};

use super::aimed_crashes::AimedCrashes;
use super::breaks::InvariantBreaks;
use super::commits::FrameContent;
use super::delayed_event::DelayedEvent;
use super::host::manager_address;
use super::instance_turn::ClusterTurn;
use super::node_end::NodeEnd;
use super::slot::DescribedFrames;
use super::torn_batches::TornBatches;
use super::traffic::Traffic;
use super::{ClusterEvent, ClusterPhase, SimulatedCluster};
use crate::kinds::FaultKind;
use crate::limits::{CLOCK_RATE_TRUE, START};
use crate::network::LinkEnd;
use crate::node::CLUSTER;
use crate::streams::Draw;

/// The highest deviation of a clock's rate, in parts of a million. A lease is waited for an eighth
/// longer than it lasts, and two clocks may differ by twice this value.
const RATE_PPM_MAX: u64 = 40_000;

/// The text by which an instance reports members with different contents.
const DIFFERS: &str = "has different records";

/// The code of [`zerohop_wire::Failure::SessionExpired`].
const SESSION_EXPIRED: u16 = 305;

impl SimulatedCluster {
    pub(super) fn schedule_slot(&mut self, host: usize, slot: usize, at: Time) {
        let paused_until = self.hosts[host].paused_until;
        let found = &mut self.hosts[host].slots[slot];
        let at = at.max(found.busy_until).max(paused_until);
        if found.instance.is_some() && found.turn_at.is_none_or(|turn_at| turn_at > at) {
            found.turn_at = Some(at);
            self.event_queue.at(at, ClusterEvent::RunSlot { host, slot });
        }
    }

    pub(super) fn schedule_slot_soon(&mut self, host: usize, slot: usize) {
        let soon = self.streams.schedule.below(self.scenario.arrival_delay_us_max);
        self.schedule_slot(host, slot, self.now().after_us(soon));
    }

    /// Frames of another instance have arrived.
    pub(super) fn receive_frames(&mut self, host: usize, slot: usize, frames: Vec<u8>) {
        let now = self.now();
        self.trace.record_frequent(
            now,
            format_args!("n{host}/{slot} hears{}", DescribedFrames(&frames)),
            frames.len() as u64,
        );
        self.trace.bytes(&frames);
        self.hosts[host].slots[slot].receive_frames(frames);
        self.schedule_slot_soon(host, slot);
    }

    pub(super) fn run_slot(&mut self, host: usize, slot: usize) {
        let now = self.now();
        let one = &mut self.hosts[host];
        let found = &mut one.slots[slot];
        if found.turn_at != Some(now) {
            return;
        }
        found.turn_at = None;
        if now < one.paused_until || now < found.busy_until {
            return self.schedule_slot(host, slot, now);
        }
        let before_us = found.worked_us();
        let turned = found.run_turn(one.clock.show(now));
        let took_us = found.worked_us() - before_us;
        self.perform_turn(host, slot, turned, took_us);
        if self.hosts[host].slots[slot].disk.is_power_off() {
            let end = AimedCrashes { world: self }.end_at_cut(host);
            self.end_process(host, end);
        }
    }

    /// Carries out the effects of a turn, which took so many microseconds.
    pub(super) fn perform_turn(&mut self, host: usize, slot: usize, turned: ClusterTurn, took_us: u64) {
        let now = self.now();
        let done = now.after_us(took_us + 1);
        self.hosts[host].slots[slot].busy_until = done;
        InvariantBreaks { world: self }.watch_answers(host, slot, &turned);
        for place in &turned.answered {
            self.watch_answer(host, slot, *place);
        }
        for place in &turned.acknowledged {
            self.watch_acknowledged(host, slot, *place);
        }
        for applied in &turned.applied {
            self.watch_applied(host, slot, applied);
        }
        for (link, bytes) in turned.sent {
            self.trace.record_frequent(
                done,
                format_args!("n{host}/{slot} sends {} bytes on {link}", bytes.len()),
                link.0,
            );
            self.network.send(done, link, LinkEnd::Opener, &bytes);
        }
        for link in turned.closed {
            self.trace.record(done, format_args!("n{host}/{slot} closes {link}"));
            self.network.close(done, link, LinkEnd::Node);
        }
        self.send_to_peers(host, slot, done, turned.to_peers);
        super::redis::RedisRun { world: self }.perform_turn(host, slot, done, turned.redis);
        for (place, change) in turned.proposals {
            self.handle_instance_proposal(host, slot, place, change);
        }
        for (keyspace, map) in turned.drained {
            if let Some(instance) = &self.hosts[host].slots[slot].instance {
                let instance = instance.identity().instance;
                self.queue_agent_event(
                    host,
                    DelayedEvent::Drained(KeyspaceDrained { keyspace, instance, map }),
                );
            }
        }
        for large in &turned.large_regions {
            self.split_large_region(large);
        }
        if turned.fetches_map {
            self.queue_agent_event(host, DelayedEvent::FetchMap);
        }
        let one = &self.hosts[host];
        let Some(instance) = &one.slots[slot].instance else { return };
        let next = match turned.has_more {
            true => done,
            false => {
                let now_ms = one.clock.show(now).elapsed_ms;
                let redis_ms =
                    one.slots[slot].redis.as_ref().and_then(|redis| redis.next_deadline_ms(now_ms));
                let next_ms = instance.next_tick_ms().min(redis_ms.unwrap_or(u64::MAX));
                one.clock.when_elapsed(next_ms).max(done)
            }
        };
        self.schedule_slot(host, slot, next);
    }

    /// Sends frames to other instances: in one message per instance, unless messages are reordered.
    fn send_to_peers(
        &mut self,
        host: usize,
        slot: usize,
        done: Time,
        mut frames: Vec<(zerohop_wire::messages::Member, Vec<u8>)>,
    ) {
        TornBatches { world: self }.tear(host, done, &mut frames);
        TornBatches { world: self }.send_half(host, done, &mut frames);
        let overtakes = self.scenario.has(FaultKind::Reordering) && self.phase == ClusterPhase::Faults;
        let mut gathered: Vec<(InstanceId, Vec<u8>)> = Vec::new();
        for (to, bytes) in frames {
            match gathered.iter_mut().rev().find(|(known, _)| *known == to.instance) {
                Some((_, so_far)) if !overtakes => so_far.extend_from_slice(&bytes),
                _ => gathered.push((to.instance, bytes)),
            }
        }
        for (to, frames) in gathered {
            let Some((target, target_slot)) = self.host_of(to) else { continue };
            let say = |frames| ClusterEvent::ToInstance { host: target, slot: target_slot, frames };
            let frames = self.withhold(done, frames, &say);
            if frames.is_empty() {
                continue;
            }
            let (content, word) = self.watch_commits(host, &frames);
            self.trace.record_frequent(
                done,
                format_args!("n{host}/{slot} says to {to}:{}", DescribedFrames(&frames)),
                to.0.into(),
            );
            let make =
                || ClusterEvent::ToInstance { host: target, slot: target_slot, frames: frames.clone() };
            if content != FrameContent::Nothing && host != target {
                let again =
                    || ClusterEvent::ToInstance { host: target, slot: target_slot, frames: word.to_vec() };
                self.maybe_target_message(done, (host, target), content, &again);
            }
            self.post(done, (host, target), Traffic::Instances, &make);
        }
    }

    pub(super) fn host_of(&self, instance: InstanceId) -> Option<(usize, usize)> {
        self.hosts.iter().find_map(|host| Some((host.at, host.slot_of(instance)?)))
    }

    fn handle_instance_proposal(
        &mut self,
        host: usize,
        slot: usize,
        place: AnswerOrigin,
        change: GroupChange,
    ) {
        let Some(instance) = self.hosts[host].instance_id(slot) else { return };
        let change = match change {
            GroupChange::Admit(member) => GroupRequest::Admit(member.instance),
            GroupChange::Remove(member) => GroupRequest::Remove(member.instance),
            GroupChange::RaiseEpoch => GroupRequest::RaiseEpoch,
        };
        let AnswerOrigin { keyspace, partition, epoch, .. } = place;
        self.trace.record(
            self.now(),
            format_args!("n{host}/{slot} asks {change:?} of {keyspace}/{partition} at {epoch}"),
        );
        self.queue_agent_event(host, DelayedEvent::Asks { instance, place, change });
    }

    /// A process starts.
    pub(super) fn start(&mut self, at: usize) {
        let now = self.now();
        if self.hosts[at].is_up || self.hosts[at].is_removed {
            return;
        }
        let is_first = self.hosts[at].life == 0;
        let is_wild =
            self.scenario.has(FaultKind::ClockJumps) && self.phase == ClusterPhase::Faults && !is_first;
        let by_ms = self.clock_jump_ms();
        let rate = self.streams.node.between(CLOCK_RATE_TRUE - RATE_PPM_MAX, CLOCK_RATE_TRUE + RATE_PPM_MAX);
        let seed = self.streams.node.next_u64();
        let contacts: Vec<_> = (0..self.hosts.len().min(3)).map(manager_address).collect();
        let host = &mut self.hosts[at];
        host.clock.restart_monotonic(
            now,
            if is_wild { by_ms } else { 0 },
            if self.scenario.has(FaultKind::ClockRates) { rate } else { CLOCK_RATE_TRUE },
        );
        host.life += 1;
        host.incarnation = Incarnation(self.streams.node.next_u64() | 1);
        host.is_up = true;
        host.stays_down = false;
        host.has_failed = false;
        host.is_doomed = false;
        host.paused_until = Time(0);
        host.agent_paused_until = Time(0);
        host.agent_inbox.clear();
        host.agent_pending_events.clear();
        host.repair_disks();
        let settings = host.settings(seed, &self.bootstrap_members, &contacts);
        let settings = zerohop_control::agent::AgentSettings {
            leader: zerohop_control::manager::LeadSettings {
                replace_after_ms: self.scenario.replace_after_ms,
                move_max_ms: 20_000,
                ..settings.leader
            },
            log_entries_max: self.scenario.log_entries_max,
            ..settings
        };
        self.trace.record(
            now,
            format_args!("START of n{at}, {:?}, clock {:?}", host.incarnation, host.clock.show(now)),
        );
        match Agent::open(host.agent_time(now), settings) {
            Ok((agent, good)) => {
                host.control.truncate(good);
                host.agent = Some(agent);
            }
            Err(_) if host.has_lost_log => {
                // The operator sees the reason and restarts it as another manager.
                self.replace_manager(at);
                return self.queue_agent_event(at, DelayedEvent::End(NodeEnd::Killed));
            }
            Err(error) => {
                return self.record_violation("world", format!("the agent of n{at} does not start: {error}"));
            }
        }
        let places = host.instance_range.clone();
        self.network.node_is_back(now, |place| places.contains(&place));
        self.redis.node_is_back(now, (at, places));
        self.handle_agent_event(at, AgentEvent::Tick);
    }

    /// The jump of a clock in milliseconds: mostly less than the clock skew that nodes may have.
    pub(super) fn clock_jump_ms(&mut self) -> i64 {
        let most = *self.streams.node.pick(&[200, 200, 400, 2_000]);
        self.streams.node.between(0, 2 * most) as i64 - most as i64
    }

    /// Opens the instances of a node with a map, under its number. Returns whether all contents of
    /// their disks are intact and date from the start that the map names, and whether that start
    /// has shut down cleanly.
    pub(super) fn open_slots(&mut self, at: usize) -> (bool, bool) {
        let now = self.now();
        let (mut is_intact, mut is_closed) = (true, true);
        let host = &mut self.hosts[at];
        let Some(first) = host.folder.first_instance else { return (true, false) };
        let map = Arc::clone(&host.folder.map);
        let named = host.folder.node.and_then(|node| map.node(node)).map(|node| node.incarnation());
        let is_sound =
            !self.targeted_faults.failed_disks.contains(&at) && !self.watch.lost_disks.contains_key(&at);
        let (mut trouble, mut damaged) = (None, None);
        let count = host.slots.len() as u32;
        for (slot, found) in host.slots.iter_mut().enumerate() {
            let identity = Identity {
                cluster: CLUSTER,
                instance: InstanceId(first.0 + slot as u32),
                incarnation: host.incarnation,
            };
            found.busy_until = now;
            match found.remember(host.incarnation, named) {
                Ok(remembered) => {
                    is_intact &= remembered.has_lived_through;
                    is_closed &= remembered.was_closed;
                }
                Err(error) => trouble = Some(error.to_string()),
            }
            let history = MapHistory::new(Arc::clone(&map));
            match found.open(identity, self.scenario.engine, history, host.clock.show(now)) {
                Ok(opened) => {
                    found.set_region_limit(self.operator.region_limit());
                    let damage = opened.engine.damage().next();
                    is_intact &= opened.lost_states.is_empty() && damage.is_none();
                    if is_sound && (damage.is_some() || !opened.lost_states.is_empty()) {
                        let states = &opened.lost_states;
                        damaged = Some(format!("{slot}: {damage:?}, states that cannot be read: {states:?}"));
                    }
                }
                Err(error) => trouble = Some(error.to_string()),
            }
            found.redis = self.redis.side(slot, (0..count).map(|at| InstanceId(first.0 + at)).collect());
        }
        if self.hosts[at].slots.iter().any(|slot| slot.disk.is_power_off()) {
            let end = AimedCrashes { world: self }.end_at_cut(at);
            self.queue_agent_event(at, DelayedEvent::End(end));
            return (false, false);
        }
        if let Some(damaged) = damaged {
            self.record_violation("restart", format!("damage without corruption in n{at}/{damaged}"));
        }
        match trouble {
            // Its disk began to fail during this process: the process ends and is started again.
            Some(_) if self.hosts[at].has_failed => {
                self.queue_agent_event(at, DelayedEvent::End(NodeEnd::Killed));
                return (false, false);
            }
            Some(trouble) => {
                self.record_violation("world", format!("an instance of n{at} does not open: {trouble}"));
            }
            None => {}
        }
        self.trace
            .record(now, format_args!("n{at} opens its instances, intact: {is_intact}, closed: {is_closed}"));
        for slot in 0..self.hosts[at].slots.len() {
            self.schedule_slot(at, slot, now);
        }
        (is_intact, is_intact && is_closed)
    }

    /// A process ends and restarts later.
    pub(super) fn end_process(&mut self, at: usize, how: NodeEnd) {
        self.end_process_for(at, how, self.scenario.down_us);
    }

    /// A process ends and restarts after at most so many microseconds.
    pub(super) fn end_process_for(&mut self, at: usize, mut how: NodeEnd, down_us: u64) {
        if !self.hosts[at].is_up || how == NodeEnd::Stopped && self.hosts[at].is_doomed {
            return;
        }
        self.count(at);
        let now = self.now();
        if how == NodeEnd::Stopped {
            self.hosts[at].repair_disks();
            for slot in 0..self.hosts[at].slots.len() {
                let shown = self.hosts[at].clock.show(now);
                let (turned, trouble) = self.hosts[at].slots[slot].stop(shown);
                self.perform_turn(at, slot, turned, 0);
                if self.hosts[at].slots[slot].disk.is_power_off() {
                    how = AimedCrashes { world: self }.end_at_cut(at);
                    break;
                }
                if let Some(trouble) = trouble.filter(|_| !self.hosts[at].has_failed) {
                    self.record_violation(
                        "world",
                        format!("an instance of n{at} does not shut down cleanly: {trouble}"),
                    );
                }
            }
        }
        self.watch_end(at, how);
        self.watch_coordinators(at);
        if how == NodeEnd::DisksLost {
            self.watch.lost_disks.insert(at, now);
        }
        let host = &mut self.hosts[at];
        host.is_up = false;
        host.agent = None;
        host.agent_due = None;
        host.agent_inbox.clear();
        for slot in &mut host.slots {
            slot.die();
            for disk in [&mut slot.disk, &mut slot.instance_file_disk] {
                match how {
                    NodeEnd::Power => disk.crash(),
                    NodeEnd::DisksLost => *disk = SimulatedDisk::new(self.streams.disk.next_u64()),
                    // A process that has shut down cleanly has synced everything: unsynced writes
                    // may be lost.
                    NodeEnd::Stopped if slot.record.closed.is_some() => disk.crash(),
                    NodeEnd::Killed | NodeEnd::Stopped => disk.power_off_clean(),
                }
            }
        }
        match how {
            NodeEnd::Killed | NodeEnd::Stopped => host.control.end_process(),
            _ => host.control.lose_power(&mut self.streams.disk),
        }
        let places = host.instance_range.clone();
        let silently =
            !matches!(how, NodeEnd::Stopped | NodeEnd::Killed) && self.streams.network.chance(1, 2);
        self.network.lose_node(now, silently, |place| places.contains(&place));
        self.redis.lose_node(now, silently, (at, places));
        AimedCrashes { world: self }.ended(at);
        let down_us = self.streams.node.below(down_us + 1);
        let down_us = if self.phase == ClusterPhase::Faults { down_us } else { 0 };
        self.trace.record(now, format_args!("END of n{at}, {how:?}, for {down_us} us"));
        self.coverage.ended(how == NodeEnd::Stopped);
        if !self.hosts[at].stays_down {
            self.event_queue.at(now.after_us(down_us + 1), ClusterEvent::Start(at));
        }
    }

    /// Adds the counters of a node's instances to the coverage, before they are gone.
    pub(super) fn count(&mut self, at: usize) {
        let mut differing: Vec<String> = Vec::new();
        let now = self.now();
        for slot in &mut self.hosts[at].slots {
            let Some(instance) = &mut slot.instance else { continue };
            let stats = instance.stats();
            for text in &stats.errors {
                self.trace.record(now, format_args!("n{at} had trouble: {text}"));
            }
            differing.extend(stats.errors.iter().filter(|text| text.contains(DIFFERS)).cloned());
            let expired = stats.failures.iter().filter(|(code, _)| *code == SESSION_EXPIRED);
            self.coverage.expired += expired.map(|(_, count)| count).sum::<u64>();
            self.coverage.dropped_requests += stats.dropped_requests;
            self.coverage.splits_completed += instance.splits_completed();
            self.coverage.splits_cut_short += instance.splits_pending() as u64;
            for (_, _, replica) in instance.replicas() {
                let counts = replica.counts();
                self.coverage.truncations += counts.truncations;
                self.coverage.snapshots_installed += counts.snapshots_installed;
                self.coverage.lease_expiries += counts.lease_expiries;
                self.coverage.handover_requests += counts.handover_requests;
                self.coverage.disk_full_reports += counts.disk_full_reports;
                self.coverage.queued_requests += counts.queued_requests;
                let stats = replica.stats();
                self.coverage.answered_again += stats.answered_again;
                self.coverage.commits_seen("staged pieces expired", stats.staged_expired);
                self.coverage.blobs_seen("snapshots: horizons moved", stats.horizons_moved);
            }
        }
        // Corruption alone may explain the difference.
        if !self.watch.lost_disks.values().any(|at| *at == Time::NEVER) {
            differing.into_iter().for_each(|text| self.record_violation("I6", format!("n{at}: {text}")));
        }
    }

    /// The lowest and highest value of any node's clock between two moments.
    pub(super) fn clock_bounds_ms(&self, from: Time, to: Time) -> (u64, u64) {
        let bounds = self.hosts.iter().map(|host| host.clock.bounds_ms(from.max(START), to));
        let (least, most) =
            bounds.fold((u64::MAX, 0), |(least, most), (from, to)| (least.min(from), most.max(to)));
        (least, most + crate::limits::CLOCK_AHEAD_MS)
    }
}
