//! Reports of a node to the control group: where its logs end while their groups recover, which nodes do not
//! answer, and the load of its primaries.

use std::collections::BTreeMap;
use std::sync::Arc;

use zerohop_placement::{Address, GroupState, MapChange, MapDelta};
use zerohop_wire::ids::{Incarnation, InstanceId, KeyspaceId, NodeId, PartitionEpoch, PartitionId};

use super::message::AgentBody;
use super::proposals::Purpose;
use super::{Agent, AgentEffect, LogWanted};
use crate::command::{ControlCommand, HeldLog, HeldLogs};
use crate::limits::{HELD_LOGS_TOLD_MAX, LOADS_TOLD_MAX, REPORTS_MAX};
use crate::manager;
use zerohop_base::time::Time;

/// First time after which a log is reported again if its group still recovers; doubled each time.
const HELD_AGAIN_MS: u64 = 1_000;
/// The longest time between two reports: other members may be down for hours.
const HELD_AGAIN_MS_MAX: u64 = 30_000;
/// How long a report of logs is pursued.
const HELD_MS: u64 = 5_000;
/// Time between two messages that report nodes.
const REPORTS_MS: u64 = 200;
/// Time between two messages that report loads.
const LOADS_MS: u64 = 2_000;

type LogKey = (InstanceId, KeyspaceId, PartitionId);

#[derive(Debug)]
struct ReportTimer {
    epoch: PartitionEpoch,
    next: Time,
    wait_ms: u64,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct LogReports {
    /// Logs of this node whose groups recover.
    recovering: BTreeMap<LogKey, ReportTimer>,
    next_held: Option<Time>,
    /// Nodes that do not answer, to be reported.
    reports: BTreeMap<NodeId, Incarnation>,
    next_reports: Time,
    loads: BTreeMap<(KeyspaceId, PartitionId), u32>,
    next_loads: Time,
    has_begun: bool,
}

impl LogReports {
    pub(super) fn wake_at(&self) -> Time {
        let reports = if self.reports.is_empty() { Time::NEVER } else { self.next_reports };
        let loads = if self.loads.is_empty() { Time::NEVER } else { self.next_loads };
        reports.min(loads).min(self.next_held.unwrap_or(Time::NEVER))
    }
}

impl Agent {
    /// Determines the logs to report, after a change or for a whole map.
    pub(super) fn note_recovering(&mut self, delta: Option<&MapDelta>) {
        let Some(own) = self.own else { return };
        let map = Arc::clone(self.map());
        let Some(delta) = delta.filter(|delta| self.owed.has_begun && !delta.is_whole()) else {
            self.owed.has_begun = true;
            self.owed.recovering.clear();
            self.owed.next_held = None;
            for instance in own.instances() {
                for (keyspace, partition, group) in map.partitions_of(instance) {
                    if group.state == GroupState::Recovering {
                        self.owe((instance, keyspace, partition), group.epoch);
                    }
                }
            }
            return;
        };
        for change in &delta.changes {
            match change {
                MapChange::SetGroup { keyspace, partition, .. } => {
                    let (keyspace, partition) = (*keyspace, *partition);
                    let group = map.keyspace(keyspace).and_then(|found| found.group(partition));
                    let recovers = group.filter(|group| group.state == GroupState::Recovering);
                    for instance in own.instances() {
                        let log = (instance, keyspace, partition);
                        match recovers.filter(|group| group.members().any(|member| member == instance)) {
                            Some(group) => self.owe(log, group.epoch),
                            None => drop(self.owed.recovering.remove(&log)),
                        }
                    }
                }
                MapChange::DropKeyspace(gone) => {
                    self.owed.recovering.retain(|(_, keyspace, _), _| keyspace != gone);
                }
                _ => {}
            }
        }
    }

    fn owe(&mut self, log: LogKey, epoch: PartitionEpoch) {
        let now = self.now;
        let duty = self.owed.recovering.entry(log).or_insert(ReportTimer {
            epoch,
            next: now,
            wait_ms: HELD_AGAIN_MS,
        });
        if duty.epoch != epoch {
            *duty = ReportTimer { epoch, next: now, wait_ms: HELD_AGAIN_MS };
        }
        let next = duty.next;
        self.owed.next_held = Some(self.owed.next_held.map_or(next, |other| other.min(next)));
    }

    /// The shell reports the ends of logs.
    pub(super) fn log_ends(&mut self, logs: Vec<HeldLog>) {
        let Some(own) = self.own else { return };
        let wanted = |log: &HeldLog| {
            let duty = self.owed.recovering.get(&(log.instance, log.keyspace, log.partition));
            duty.is_some_and(|duty| duty.epoch == log.epoch)
        };
        let logs: Vec<HeldLog> = logs.into_iter().filter(wanted).collect();
        for logs in logs.chunks(HELD_LOGS_TOLD_MAX) {
            if !self.may_tell_held() {
                break;
            }
            let incarnation = self.settings.incarnation;
            let held = HeldLogs { node: own.node, incarnation, logs: logs.to_vec() };
            self.ask(Purpose::Held, ControlCommand::Held(held), self.now.after_ms(HELD_MS));
        }
    }

    /// Another node's instance does not answer.
    pub(super) fn unreachable(&mut self, node: NodeId, incarnation: Incarnation) {
        let is_meant = self.map().node(node).is_some_and(|found| found.incarnation() == incarnation);
        if is_meant && Some(node) != self.own_node() && self.owed.reports.len() < REPORTS_MAX {
            self.owed.reports.insert(node, incarnation);
        }
    }

    pub(super) fn load(&mut self, keyspace: KeyspaceId, partition: PartitionId, load: u32) {
        let loads = &mut self.owed.loads;
        if loads.len() < LOADS_TOLD_MAX || loads.contains_key(&(keyspace, partition)) {
            loads.insert((keyspace, partition), load);
        }
    }

    pub(super) fn pass_time_owing(&mut self) {
        if self.owed.next_held.is_some_and(|next| next <= self.now) {
            self.want_log_ends();
        }
        let own = self.own_node();
        if !self.owed.reports.is_empty()
            && self.owed.next_reports <= self.now
            && let Some(by) = own
        {
            self.owed.next_reports = self.now.after_ms(REPORTS_MS);
            let about: Vec<_> = std::mem::take(&mut self.owed.reports).into_iter().collect();
            // All managers store reports, so that the next leader has received them too.
            let me = self.settings.manager.clone();
            let to: Vec<Address> = self.group.managers.iter().map(|manager| manager.addr.clone()).collect();
            for to in to.iter().filter(|to| **to != me) {
                self.send(to, AgentBody::Reports { by, about: about.clone() });
            }
            self.reported(by, &about);
        }
        if !self.owed.loads.is_empty() && self.owed.next_loads <= self.now {
            self.owed.next_loads = self.now.after_ms(LOADS_MS);
            let loads = std::mem::take(&mut self.owed.loads);
            let loads = loads.into_iter().map(|((keyspace, partition), load)| (keyspace, partition, load));
            let loads: Vec<_> = loads.collect();
            if self.leads() {
                self.loaded(&loads);
            } else if let Some(to) = self.ask_whom() {
                self.send(&to, AgentBody::Loads(loads));
            }
        }
    }

    fn want_log_ends(&mut self) {
        let (now, mut next) = (self.now, None::<Time>);
        let mut wanted = Vec::new();
        for ((instance, keyspace, partition), duty) in &mut self.owed.recovering {
            if duty.next <= now && wanted.len() < HELD_LOGS_TOLD_MAX {
                duty.next = now.after_ms(duty.wait_ms);
                duty.wait_ms = (2 * duty.wait_ms).min(HELD_AGAIN_MS_MAX);
                let (instance, keyspace, partition) = (*instance, *keyspace, *partition);
                wanted.push(LogWanted { instance, keyspace, partition, epoch: duty.epoch });
            }
            next = Some(next.map_or(duty.next, |other| other.min(duty.next)));
        }
        self.owed.next_held = next;
        if !wanted.is_empty() {
            self.effects.push(AgentEffect::WantLogEnds(wanted));
        }
    }

    /// A node reports other nodes, through its agent.
    pub(super) fn take_reports(&mut self, from: &Address, by: NodeId, about: &[(NodeId, Incarnation)]) {
        if self.map().node(by).is_some_and(|node| node.manager() == from.as_str()) {
            self.reported(by, about);
        }
    }

    fn reported(&mut self, by: NodeId, about: &[(NodeId, Incarnation)]) {
        for (about, incarnation) in about.iter().copied() {
            self.tell_manager(manager::ManagerEvent::Report { by, about, incarnation });
        }
    }

    pub(super) fn loaded(&mut self, loads: &[(KeyspaceId, PartitionId, u32)]) {
        for (keyspace, partition, load) in loads.iter().copied() {
            self.tell_manager(manager::ManagerEvent::Load { keyspace, partition, load });
        }
    }
}
