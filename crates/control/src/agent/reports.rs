//! Reports of a node to the control group: where its logs end while their groups recover, which nodes do not
//! answer, and the load of its primaries.

use std::collections::BTreeMap;
use std::sync::Arc;

use zerohop_placement::{Address, GroupState, MapChange, MapDelta};
use zerohop_wire::ids::{Incarnation, InstanceId, KeyspaceId, NodeId, PartitionEpoch, PartitionId};

use super::message::AgentBody;
use super::proposals::ProposalPurpose;
use super::{Agent, AgentEffect, LogEndQuery};
use crate::command::{ControlCommand, LogIndexReport, LogReport};
use crate::limits::{AGENT_REPORTED_LOGS_MAX, LOADS_REPORTED_MAX, REPORTS_MAX};
use crate::manager;
use zerohop_base::time::Time;

/// First time after which a log is reported again if its group still recovers; doubled each time.
const LOG_REPORT_REPEAT_MS: u64 = 1_000;
/// The longest time between two reports: other members may be down for hours.
const LOG_REPORT_REPEAT_MS_MAX: u64 = 30_000;
/// How long a report of logs is pursued.
const LOG_REPORT_MS: u64 = 5_000;
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
    next_report: Option<Time>,
    /// Nodes that do not answer, to be reported.
    reports: BTreeMap<NodeId, Incarnation>,
    next_reports: Time,
    loads: BTreeMap<(KeyspaceId, PartitionId), u32>,
    next_loads: Time,
    has_begun: bool,
}

impl LogReports {
    pub(super) fn next_due(&self) -> Time {
        let reports = if self.reports.is_empty() { Time::NEVER } else { self.next_reports };
        let loads = if self.loads.is_empty() { Time::NEVER } else { self.next_loads };
        reports.min(loads).min(self.next_report.unwrap_or(Time::NEVER))
    }
}

impl Agent {
    /// Determines the logs to report, after a change or for a whole map.
    pub(super) fn update_recovering(&mut self, delta: Option<&MapDelta>) {
        let Some(own) = self.own else { return };
        let map = Arc::clone(self.map());
        let Some(delta) = delta.filter(|delta| self.log_reports.has_begun && !delta.is_complete()) else {
            self.log_reports.has_begun = true;
            self.log_reports.recovering.clear();
            self.log_reports.next_report = None;
            for instance in own.instances() {
                for (keyspace, partition, group) in map.partitions_of(instance) {
                    if group.state == GroupState::Recovering {
                        self.queue_report((instance, keyspace, partition), group.epoch);
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
                            Some(group) => self.queue_report(log, group.epoch),
                            None => drop(self.log_reports.recovering.remove(&log)),
                        }
                    }
                }
                MapChange::DropKeyspace(gone) => {
                    self.log_reports.recovering.retain(|(_, keyspace, _), _| keyspace != gone);
                }
                _ => {}
            }
        }
    }

    fn queue_report(&mut self, log: LogKey, epoch: PartitionEpoch) {
        let now = self.now;
        let duty = self.log_reports.recovering.entry(log).or_insert(ReportTimer {
            epoch,
            next: now,
            wait_ms: LOG_REPORT_REPEAT_MS,
        });
        if duty.epoch != epoch {
            *duty = ReportTimer { epoch, next: now, wait_ms: LOG_REPORT_REPEAT_MS };
        }
        let next = duty.next;
        self.log_reports.next_report =
            Some(self.log_reports.next_report.map_or(next, |other| other.min(next)));
    }

    /// The shell reports the ends of logs.
    pub(super) fn log_ends(&mut self, logs: Vec<LogReport>) {
        let Some(own) = self.own else { return };
        let requested = |log: &LogReport| {
            let duty = self.log_reports.recovering.get(&(log.instance, log.keyspace, log.partition));
            duty.is_some_and(|duty| duty.epoch == log.epoch)
        };
        let logs: Vec<LogReport> = logs.into_iter().filter(requested).collect();
        for logs in logs.chunks(AGENT_REPORTED_LOGS_MAX) {
            if !self.may_report_logs() {
                break;
            }
            let incarnation = self.settings.incarnation;
            let report = LogIndexReport { node: own.node, incarnation, logs: logs.to_vec() };
            self.propose(
                ProposalPurpose::ReportLogs,
                ControlCommand::ReportLogs(report),
                self.now.after_ms(LOG_REPORT_MS),
            );
        }
    }

    /// Another node's instance does not answer.
    pub(super) fn unreachable(&mut self, node: NodeId, incarnation: Incarnation) {
        let is_meant = self.map().node(node).is_some_and(|found| found.incarnation() == incarnation);
        if is_meant && Some(node) != self.own_node() && self.log_reports.reports.len() < REPORTS_MAX {
            self.log_reports.reports.insert(node, incarnation);
        }
    }

    pub(super) fn load(&mut self, keyspace: KeyspaceId, partition: PartitionId, load: u32) {
        let loads = &mut self.log_reports.loads;
        if loads.len() < LOADS_REPORTED_MAX || loads.contains_key(&(keyspace, partition)) {
            loads.insert((keyspace, partition), load);
        }
    }

    pub(super) fn tick_reports(&mut self) {
        if self.log_reports.next_report.is_some_and(|next| next <= self.now) {
            self.request_log_ends();
        }
        let own = self.own_node();
        if !self.log_reports.reports.is_empty()
            && self.log_reports.next_reports <= self.now
            && let Some(by) = own
        {
            self.log_reports.next_reports = self.now.after_ms(REPORTS_MS);
            let about: Vec<_> = std::mem::take(&mut self.log_reports.reports).into_iter().collect();
            // All managers store reports, so that the next leader has received them too.
            let me = self.settings.manager.clone();
            let to: Vec<Address> = self.group.managers.iter().map(|manager| manager.addr.clone()).collect();
            for to in to.iter().filter(|to| **to != me) {
                self.send(to, AgentBody::Reports { by, about: about.clone() });
            }
            self.reported(by, &about);
        }
        if !self.log_reports.loads.is_empty() && self.log_reports.next_loads <= self.now {
            self.log_reports.next_loads = self.now.after_ms(LOADS_MS);
            let loads = std::mem::take(&mut self.log_reports.loads);
            let loads = loads.into_iter().map(|((keyspace, partition), load)| (keyspace, partition, load));
            let loads: Vec<_> = loads.collect();
            if self.is_leader() {
                self.loaded(&loads);
            } else if let Some(to) = self.proposal_target() {
                self.send(&to, AgentBody::Loads(loads));
            }
        }
    }

    fn request_log_ends(&mut self) {
        let (now, mut next) = (self.now, None::<Time>);
        let mut requested = Vec::new();
        for ((instance, keyspace, partition), duty) in &mut self.log_reports.recovering {
            if duty.next <= now && requested.len() < AGENT_REPORTED_LOGS_MAX {
                duty.next = now.after_ms(duty.wait_ms);
                duty.wait_ms = (2 * duty.wait_ms).min(LOG_REPORT_REPEAT_MS_MAX);
                let (instance, keyspace, partition) = (*instance, *keyspace, *partition);
                requested.push(LogEndQuery { instance, keyspace, partition, epoch: duty.epoch });
            }
            next = Some(next.map_or(duty.next, |other| other.min(duty.next)));
        }
        self.log_reports.next_report = next;
        if !requested.is_empty() {
            self.effects.push(AgentEffect::RequestLogEnds(requested));
        }
    }

    /// A node reports other nodes, through its agent.
    pub(super) fn handle_node_reports(
        &mut self,
        from: &Address,
        by: NodeId,
        about: &[(NodeId, Incarnation)],
    ) {
        if self.map().node(by).is_some_and(|node| node.manager() == from.as_str()) {
            self.reported(by, about);
        }
    }

    fn reported(&mut self, by: NodeId, about: &[(NodeId, Incarnation)]) {
        for (about, incarnation) in about.iter().copied() {
            self.notify_manager(manager::ManagerEvent::Report { by, about, incarnation });
        }
    }

    pub(super) fn loaded(&mut self, loads: &[(KeyspaceId, PartitionId, u32)]) {
        for (keyspace, partition, load) in loads.iter().copied() {
            self.notify_manager(manager::ManagerEvent::Load { keyspace, partition, load });
        }
    }
}
