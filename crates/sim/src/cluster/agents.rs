//! The node agents: their inputs, and the effects that they ask for.

use std::sync::Arc;

use zerohop_base::time::Time;
use zerohop_control::agent::{AgentEffect, AgentEvent, EndReason, LogEndQuery};
use zerohop_control::command::{LogEnd, LogReport, ManagerId, ManagerInfo};
use zerohop_placement::{ClusterMap, MapDelta};
use zerohop_shard::AnswerOrigin;
use zerohop_wire::ids::{InstanceId, NodeId};

use super::aimed_crashes::AimedCrashes;
use super::delayed_event::DelayedEvent;
use super::host::{host_and_port, manager_address};
use super::joined_deltas::regroups_and_splits;
use super::node_end::NodeEnd;
use super::traffic::Traffic;
use super::{ClusterEvent, ClusterPhase, SimulatedCluster};
use crate::streams::Draw;

/// Added to the id of a manager that rejoins under a new id after it has lost its log.
const MANAGERS_AGAIN: u64 = 100;

impl SimulatedCluster {
    /// Hands an event to an agent and carries out the agent's effects.
    pub(super) fn handle_agent_event(&mut self, at: usize, event: AgentEvent<'_>) {
        let now = self.now();
        let host = &mut self.hosts[at];
        let time = host.agent_time(now);
        let Some(agent) = &mut host.agent else { return };
        let effects = agent.handle(time, event);
        for effect in effects {
            self.perform_agent_effect(at, effect);
        }
        self.schedule_agent(at);
    }

    fn schedule_agent(&mut self, at: usize) {
        let now = self.now();
        let host = &mut self.hosts[at];
        let Some(agent) = &host.agent else { return };
        let wake = agent.tick_due();
        if wake == zerohop_base::time::Time::NEVER {
            return;
        }
        let due = host.clock.when_elapsed_us(wake.0).max(now.after_us(1)).max(host.agent_paused_until());
        if host.agent_due.is_none_or(|turn_at| turn_at > due || turn_at <= now) {
            host.agent_due = Some(due);
            self.event_queue.at(due, ClusterEvent::RunAgent { host: at, life: host.life });
        }
    }

    pub(super) fn run_agent(&mut self, at: usize, life: u32) {
        let now = self.now();
        let host = &mut self.hosts[at];
        if host.life != life || !host.is_up || host.agent_due != Some(now) {
            return;
        }
        host.agent_due = None;
        if now < host.agent_paused_until() {
            return self.schedule_agent(at);
        }
        let owes = std::mem::take(&mut host.agent_pending_events);
        owes.into_iter().for_each(|what| self.queue_agent_event(at, what));
        self.deliver_agent_events();
        let host = &mut self.hosts[at];
        for bytes in std::mem::take(&mut host.agent_inbox) {
            self.handle_agent_event(at, AgentEvent::Received { bytes: &bytes });
        }
        self.handle_agent_event(at, AgentEvent::Tick);
    }

    pub(super) fn deliver_to_agent(&mut self, at: usize, bytes: Vec<u8>) {
        let now = self.now();
        let host = &mut self.hosts[at];
        if !host.is_up {
            return;
        }
        if now < host.agent_paused_until() {
            host.agent_inbox.push(bytes);
            return self.schedule_agent(at);
        }
        self.trace.record_frequent(
            now,
            format_args!("n{at} hears {} bytes of an agent", bytes.len()),
            bytes.len() as u64,
        );
        self.trace.bytes(&bytes);
        self.handle_agent_event(at, AgentEvent::Received { bytes: &bytes });
    }

    pub(super) fn agent_persisted(&mut self, at: usize, life: u32, number: u64) {
        let host = &mut self.hosts[at];
        if host.life != life || !host.is_up {
            return;
        }
        let until = host.agent_paused_until();
        if self.event_queue.now() < until {
            return self.event_queue.at(until, ClusterEvent::Persisted { host: at, life, number });
        }
        host.control.sync(number);
        self.handle_agent_event(at, AgentEvent::Persisted(number));
        self.draw_end_of_voter(at);
    }

    fn perform_agent_effect(&mut self, at: usize, effect: AgentEffect) {
        let now = self.now();
        match effect {
            AgentEffect::Persist { number, bytes, replace } => {
                let host = &mut self.hosts[at];
                host.control.write(number, bytes, replace);
                let late_us = if self.streams.network.chance(1, 50) { 20_000 } else { 500 };
                let done = now.after_us(20 + self.streams.network.below(late_us));
                let life = host.life;
                self.event_queue.at(done, ClusterEvent::Persisted { host: at, life, number });
            }
            AgentEffect::Send { to, bytes, .. } => {
                let Some((target, _)) = host_and_port(to.as_str()) else { return };
                self.trace.record_frequent(
                    now,
                    format_args!("n{at} sends {} bytes to n{target}", bytes.len()),
                    target as u64,
                );
                self.post(now, (at, target), Traffic::Agents, &|| ClusterEvent::ToAgent {
                    host: target,
                    bytes: bytes.clone(),
                });
            }
            AgentEffect::Cluster(_) | AgentEffect::Managers(_) | AgentEffect::Log(_) => {}
            AgentEffect::Open(map) => {
                self.trace.record(now, format_args!("n{at} is to open with map {}", map.epoch()));
                self.see_map(&map);
                self.watch_map(at, &map);
                self.hosts[at].folder.map = map;
                // A node without a number has nothing to open either.
                let (intact, closed) = self.open_slots(at);
                self.queue_agent_event(at, DelayedEvent::Opened { intact, closed });
            }
            AgentEffect::Map(delta) => self.follow(at, &delta),
            AgentEffect::MapReplaced(map) => self.replace_map(at, map),
            AgentEffect::Joined { node, first_instance, epoch } => {
                self.joined(at, (node, first_instance), epoch.0)
            }
            AgentEffect::RequestLogEnds(requested) => self.report_log_ends(at, &requested),
            AgentEffect::Answered { token, result } => self.deliver_to_operator(token, result),
            AgentEffect::WritesMayBeLost { keyspace, partition } => self.watch_loss(keyspace, partition),
            AgentEffect::Ended(ended) => self.agent_ends(at, &ended),
        }
    }

    /// Queues an event for an agent until all effects of the current event are carried out.
    pub(super) fn queue_agent_event(&mut self, at: usize, what: DelayedEvent) {
        self.pending.push_back((at, self.hosts[at].life, what));
    }

    pub(super) fn deliver_agent_events(&mut self) {
        while let Some((at, life, what)) = self.pending.pop_front() {
            if self.hosts[at].life != life || !self.hosts[at].is_up {
                continue;
            }
            let waits = self.event_queue.now() < self.hosts[at].agent_paused_until;
            if waits && !matches!(what, DelayedEvent::Opened { .. } | DelayedEvent::End(_)) {
                self.hosts[at].agent_pending_events.push(what);
                continue;
            }
            match what {
                DelayedEvent::Opened { intact, closed } => {
                    self.handle_agent_event(at, AgentEvent::Opened { intact, closed });
                }
                DelayedEvent::FetchMap => self.handle_agent_event(at, AgentEvent::FetchMap),
                DelayedEvent::LogEnds(logs) => self.handle_agent_event(at, AgentEvent::LogEnds(logs)),
                DelayedEvent::Asks { instance, place, change } => {
                    let AnswerOrigin { keyspace, partition, epoch, .. } = place;
                    self.handle_agent_event(
                        at,
                        AgentEvent::InstanceProposes { instance, keyspace, partition, epoch, change },
                    );
                }
                DelayedEvent::Drained(drained) => self.handle_agent_event(at, AgentEvent::Drained(drained)),
                DelayedEvent::End(how) => self.end_process(at, how),
            }
        }
    }

    fn joined(&mut self, at: usize, (node, first): (NodeId, InstanceId), epoch: u64) {
        let now = self.now();
        self.trace
            .record(now, format_args!("n{at} has joined as {node}, instances from {first}, in map {epoch}"));
        let host = &mut self.hosts[at];
        let is_new = host.folder.node != Some(node);
        (host.folder.node, host.folder.first_instance) = (Some(node), Some(first));
        if is_new {
            self.coverage.joins += 1;
            let map = host.agent.as_ref().map(|agent| Arc::clone(agent.map()));
            host.folder.map = map.unwrap_or_default();
            self.open_slots(at);
        }
    }

    /// An agent reports a change of the map.
    fn follow(&mut self, at: usize, delta: &Arc<MapDelta>) {
        self.see_delta(delta);
        if regroups_and_splits(delta) {
            self.coverage.blob("maps: nodes that learn of a group's change and its split at once");
        }
        let host = &mut self.hosts[at];
        match host.folder.map.apply(delta) {
            Ok(map) => host.folder.map = Arc::new(map),
            // The instances may have been opened with a newer map.
            Err(_) if host.folder.map.epoch() >= delta.to => {}
            Err(error) => {
                return self
                    .record_violation("world", format!("n{at} cannot apply a change of the map: {error}"));
            }
        }
        let map = Arc::clone(&self.hosts[at].folder.map);
        self.watch_map(at, &map);
        self.apply_to_instances(at, delta);
    }

    fn replace_map(&mut self, at: usize, map: Arc<ClusterMap>) {
        self.see_map(&map);
        let host = &self.hosts[at];
        if map.epoch() < host.folder.map.epoch() {
            return self.record_violation("world", format!("n{at} receives an older map"));
        }
        let delta = map.to_delta();
        self.watch_map(at, &map);
        self.hosts[at].folder.map = map;
        self.apply_to_instances(at, &delta);
    }

    fn apply_to_instances(&mut self, at: usize, delta: &MapDelta) {
        let now = self.now();
        for slot in 0..self.hosts[at].slots.len() {
            let shown = self.hosts[at].clock.show(now);
            let found = &mut self.hosts[at].slots[slot];
            let Some(instance) = &found.instance else { continue };
            if instance.map().epoch() >= delta.to {
                continue;
            }
            let before_us = found.worked_us();
            let (turned, trouble) = found.apply_map(shown, delta);
            let took_us = found.worked_us() - before_us;
            let is_off = found.disk.is_power_off();
            self.perform_turn(at, slot, turned, took_us);
            if is_off {
                let end = AimedCrashes { world: self }.end_at_cut(at);
                return self.queue_agent_event(at, DelayedEvent::End(end));
            }
            if let Some(trouble) = trouble.filter(|_| !self.has_failed_disk(at)) {
                self.record_violation("world", format!("n{at}/{slot} does not follow the map: {trouble}"));
            }
        }
    }

    /// Reports where logs end. Only an instance that knows that its group is recovering may report:
    /// its log does not change any more.
    fn report_log_ends(&mut self, at: usize, requested: &[LogEndQuery]) {
        let mut logs = Vec::new();
        for want in requested {
            let Some(slot) = self.hosts[at].slot_of(want.instance) else { continue };
            let Some(instance) = &mut self.hosts[at].slots[slot].instance else { continue };
            let (keyspace, partition) = (want.keyspace, want.partition);
            let found = instance.replicas().find(|one| (one.0, one.1) == (keyspace, partition));
            if found.is_none_or(|(_, _, replica)| replica.view().epoch < want.epoch) {
                continue;
            }
            let ends = instance.log_ends(&[(keyspace, partition)]);
            let Some((_, end)) = ends.first() else { continue };
            let log_end = match end.is_complete {
                true => LogEnd { epoch: end.last.epoch.into(), index: end.last.index },
                false => LogEnd::default(),
            };
            // An empty disk is not intact: every in-sync replica has at least an epoch marker.
            let intact = end.is_intact && end.is_complete && log_end != LogEnd::default();
            let (epoch, instance) = (want.epoch, want.instance);
            let log = LogReport { keyspace, partition, epoch, instance, end: log_end, intact };
            self.watch.reported_logs.report(self.hosts[at].incarnation, &log);
            logs.push(log);
        }
        if !logs.is_empty() {
            self.trace.record(self.now(), format_args!("n{at} tells where logs end: {logs:?}"));
            self.queue_agent_event(at, DelayedEvent::LogEnds(logs));
        }
    }

    fn agent_ends(&mut self, at: usize, ended: &EndReason) {
        let now = self.now();
        self.trace.record(now, format_args!("n{at} has no place in the cluster: {ended}"));
        let removed = matches!(ended, EndReason::Removed { .. });
        self.hosts[at].is_removed |= removed;
        if self.hosts[at].has_lost_log && matches!(ended, EndReason::BootstrappedBefore { .. }) {
            self.replace_manager(at);
        } else if !removed && !matches!(ended, EndReason::AnotherStart { .. }) {
            self.record_violation("world", format!("the agent of n{at} ends: {ended}"));
        }
        self.queue_agent_event(at, DelayedEvent::End(NodeEnd::Killed));
    }

    /// A manager that has lost its log rejoins under a new id, as the error message asks the
    /// operator.
    pub(super) fn replace_manager(&mut self, at: usize) {
        let host = &mut self.hosts[at];
        let Some(old) = host.manager else { return };
        host.manager = Some(ManagerId(old.0 + MANAGERS_AGAIN));
        (host.has_lost_log, host.is_new_manager) = (false, true);
        let managers = self
            .hosts
            .iter()
            .filter_map(|host| host.manager.map(|id| ManagerInfo { id, addr: manager_address(host.at) }));
        let managers = managers.collect();
        self.operator.replace_managers(managers);
    }

    /// Whether a disk of a node has failed in this process.
    pub(super) fn has_failed_disk(&self, at: usize) -> bool {
        self.hosts[at].has_failed
    }

    /// A random node whose process runs.
    pub(super) fn any_up(&mut self) -> Option<usize> {
        let up: Vec<usize> = (0..self.hosts.len()).filter(|at| self.hosts[*at].is_up).collect();
        (!up.is_empty()).then(|| *self.streams.node.pick(&up))
    }

    /// The first node whose manager acts as leader of the control group.
    pub(super) fn leader(&self) -> Option<usize> {
        self.hosts.iter().position(|host| {
            host.agent
                .as_ref()
                .and_then(|agent| agent.manager())
                .is_some_and(|manager| manager.leading().is_some())
        })
    }

    pub(super) fn is_in_fault_window(&self, now: Time) -> bool {
        self.phase == ClusterPhase::Faults && self.scenario.is_in_fault_window(now)
    }
}
