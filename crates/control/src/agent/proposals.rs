//! Command proposals of this node. Each is sent to the leader until it has an outcome, under one request id,
//! so that the command is applied once. Proposals of other nodes are passed to this node's manager, if it
//! leads.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use zerohop_placement::Address;
use zerohop_wire::ids::{InstanceId, KeyspaceId, MapEpoch, PartitionEpoch, PartitionId};

use super::message::{AgentBody, ControlGroupNews, ProposalAnswer};
use super::{Agent, AgentEffect, GroupRequest, NoOutcome};
use crate::command::{
    CommandOutcome, CommandRefusal, CommandRequest, ControlCommand, KeyspaceDrained, Regroup, RegroupOrigin,
    RequestId,
};
use crate::limits::{
    DRAINED_REPORTS_MAX, FORWARDED_MAX, INSTANCE_PROPOSALS_MAX, LOG_REPORTS_PENDING_MAX, OPERATIONS_MAX,
    PROPOSALS_IN_FLIGHT_MAX,
};
use crate::manager::{self, RequestAnswer};
use crate::planted::{Bug, is_planted};
use zerohop_base::time::Time;

/// How long an instance's proposal is pursued; the instance itself repeats its request for longer.
const INSTANCE_PROPOSAL_MS: u64 = 2_000;
/// First time after which a proposal without an answer is repeated; doubled each time.
const AGAIN_MS: u64 = 300;
/// The longest time between two sends.
const AGAIN_MS_MAX: u64 = 2_000;
/// Time after which a proposal is repeated that no manager could accept.
const REFUSED_MS: u64 = 50;
/// How often in a row a proposal is forwarded to another manager at once.
const HOPS_MAX: u32 = 4;
/// Attempts without an answer after which the known leader is no longer trusted.
const LEADER_TRIES: u32 = 2;

/// The purpose of a proposal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProposalPurpose {
    /// The command changes nothing; the mark of its outcome dates this start.
    NoOp,
    Join,
    ReportLogs,
    Instance(InstanceId),
    /// An instance has no pending work in a keyspace that is being dropped.
    Drained(InstanceId),
    Operator(u64),
    /// Managers have other addresses than the list has.
    UpdateAddresses,
}

#[derive(Debug)]
struct PendingProposal {
    command: ControlCommand,
    /// The mark known when it was first sent.
    after: Option<u64>,
    purpose: ProposalPurpose,
    until: Time,
    next: Time,
    tries: u32,
    hops: u32,
    /// The manager that got the proposal last and has not answered since. `NotLeader` answers of other
    /// managers are ignored: each would forward the proposal once more, and duplicate answers would multiply
    /// with every hop.
    sent_to: Option<Address>,
}

type GroupKey = (InstanceId, KeyspaceId, PartitionId);

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Proposals {
    origin: u64,
    last: u64,
    pending: BTreeMap<u64, PendingProposal>,
    /// When the proposals in flight are sent again, or abandoned.
    due: BTreeSet<(Time, u64)>,
    /// Proposals that wait until others are answered.
    queue: VecDeque<u64>,
    /// The newest proposal for each instance and partition.
    by_group: BTreeMap<GroupKey, u64>,
    operations: usize,
    log_reports: usize,
    draining: usize,
    /// Decided proposals that are reported once the map here shows the result.
    decided: Vec<DecidedProposal>,
}

#[derive(Debug)]
struct DecidedProposal {
    token: u64,
    outcome: CommandOutcome,
    epoch: MapEpoch,
    until: Time,
}

/// Proposals of other nodes that this node's manager is processing.
#[derive(Debug, Default)]
pub(super) struct ForwardedProposals {
    last: u64,
    by_number: BTreeMap<u64, (Address, RequestId)>,
    known: BTreeSet<(Address, RequestId)>,
}

impl Proposals {
    /// `origin` identifies the requester, and is new at every start.
    pub(super) fn new(origin: u64) -> Proposals {
        Proposals { origin, ..Proposals::default() }
    }

    pub(super) fn next_due(&self) -> Time {
        let due = self.due.first().map_or(Time::NEVER, |(time, _)| *time);
        let decided = self.decided.iter().map(|one| one.until).min().unwrap_or(Time::NEVER);
        due.min(decided)
    }

    fn remove(&mut self, number: u64) -> Option<PendingProposal> {
        let pending = self.pending.remove(&number)?;
        self.due.remove(&(pending.next, number));
        match pending.purpose {
            ProposalPurpose::Operator(_) => self.operations -= 1,
            ProposalPurpose::ReportLogs => self.log_reports -= 1,
            ProposalPurpose::Instance(instance) => {
                let place = group_of(instance, &pending.command);
                if place.is_some_and(|place| self.by_group.get(&place) == Some(&number)) {
                    place.and_then(|place| self.by_group.remove(&place));
                }
            }
            ProposalPurpose::Drained(_) => self.draining -= 1,
            ProposalPurpose::NoOp | ProposalPurpose::Join | ProposalPurpose::UpdateAddresses => {}
        }
        Some(pending)
    }

    fn schedule(&mut self, number: u64, at: Time) {
        let Some(pending) = self.pending.get_mut(&number) else { return };
        self.due.remove(&(pending.next, number));
        pending.next = at.min(pending.until);
        self.due.insert((pending.next, number));
    }
}

fn group_of(instance: InstanceId, command: &ControlCommand) -> Option<GroupKey> {
    match command {
        ControlCommand::Regroup(regroup) => Some((instance, regroup.keyspace, regroup.partition)),
        _ => None,
    }
}

impl Agent {
    /// Pursues a command until this time.
    pub(super) fn propose(&mut self, purpose: ProposalPurpose, command: ControlCommand, until: Time) {
        self.proposals.last += 1;
        let number = self.proposals.last;
        match purpose {
            ProposalPurpose::Operator(_) => self.proposals.operations += 1,
            ProposalPurpose::ReportLogs => self.proposals.log_reports += 1,
            ProposalPurpose::Instance(instance) => {
                if let Some(place) = group_of(instance, &command) {
                    self.proposals.by_group.insert(place, number);
                }
            }
            ProposalPurpose::Drained(_) => self.proposals.draining += 1,
            ProposalPurpose::NoOp | ProposalPurpose::Join | ProposalPurpose::UpdateAddresses => {}
        }
        let next = self.now;
        let pending =
            PendingProposal { command, after: None, purpose, until, next, tries: 0, hops: 0, sent_to: None };
        self.proposals.pending.insert(number, pending);
        match purpose {
            // These are few, and delay others only briefly.
            ProposalPurpose::NoOp
            | ProposalPurpose::Join
            | ProposalPurpose::Operator(_)
            | ProposalPurpose::UpdateAddresses => {
                self.proposals.due.insert((next, number));
            }
            ProposalPurpose::ReportLogs | ProposalPurpose::Instance(_) | ProposalPurpose::Drained(_) => {
                self.proposals.queue.push_back(number)
            }
        }
    }

    /// An instance requests a change of a group.
    pub(super) fn handle_instance_proposal(
        &mut self,
        (instance, keyspace, partition): (InstanceId, KeyspaceId, PartitionId),
        epoch: PartitionEpoch,
        request: GroupRequest,
    ) {
        let place = (instance, keyspace, partition);
        if !self.has_joined() || self.is_past(keyspace, partition, epoch) {
            return;
        }
        let by = RegroupOrigin::Instance(instance, self.settings.incarnation);
        let command =
            ControlCommand::Regroup(Regroup { keyspace, partition, epoch, by, step: request.step() });
        if let Some(number) = self.proposals.by_group.get(&place).copied() {
            if self.proposals.pending.get(&number).is_some_and(|pending| pending.command == command) {
                return;
            }
            // The previous request may have been decided or not: the instance is prepared for both.
            self.proposals.remove(number);
        }
        if self.proposals.by_group.len() < INSTANCE_PROPOSALS_MAX {
            self.propose(
                ProposalPurpose::Instance(instance),
                command,
                self.now.after_ms(INSTANCE_PROPOSAL_MS),
            );
        } else {
            self.counters.dropped += 1;
        }
    }

    /// An instance has no pending work in a keyspace that is being dropped. The instance repeats this report;
    /// the agent pursues one proposal at a time for each.
    pub(super) fn drained(&mut self, drained: KeyspaceDrained) {
        if !self.has_joined() || self.map().keyspace(drained.keyspace).is_none() {
            return;
        }
        let is_same = |command: &ControlCommand| {
            let ControlCommand::Drained(other) = command else { return false };
            (other.keyspace, other.instance) == (drained.keyspace, drained.instance)
        };
        let older = self.proposals.pending.iter().find(|(_, pending)| is_same(&pending.command));
        match older.map(|(number, pending)| (*number, pending.command == ControlCommand::Drained(drained))) {
            Some((_, true)) => return,
            Some((number, false)) => drop(self.proposals.remove(number)),
            None => {}
        }
        if self.proposals.draining < DRAINED_REPORTS_MAX {
            let until = self.now.after_ms(INSTANCE_PROPOSAL_MS);
            self.propose(ProposalPurpose::Drained(drained.instance), ControlCommand::Drained(drained), until);
        } else {
            self.counters.dropped += 1;
        }
    }

    /// Whether the map has a newer epoch of the group by now.
    fn is_past(&self, keyspace: KeyspaceId, partition: PartitionId, epoch: PartitionEpoch) -> bool {
        let group = self.map().keyspace(keyspace).and_then(|found| found.group(partition));
        group.is_none_or(|group| group.epoch > epoch)
    }

    pub(super) fn operate(&mut self, token: u64, command: ControlCommand) {
        if self.proposals.operations + self.proposals.decided.len() >= OPERATIONS_MAX {
            return self.effects.push(AgentEffect::Answered { token, result: Err(NoOutcome::Busy) });
        }
        self.propose(ProposalPurpose::Operator(token), command, self.now.after_ms(self.settings.operate_ms));
    }

    /// Whether another report of logs may be sent now.
    pub(super) fn may_report_logs(&self) -> bool {
        self.proposals.log_reports < LOG_REPORTS_PENDING_MAX
    }

    pub(super) fn tick_proposals(&mut self) {
        while self.proposals.due.len() < PROPOSALS_IN_FLIGHT_MAX
            && let Some(number) = self.proposals.queue.pop_front()
        {
            self.proposals.schedule(number, self.now);
        }
        while let Some((time, number)) =
            self.proposals.due.first().copied().filter(|(time, _)| *time <= self.now)
        {
            self.proposals.due.remove(&(time, number));
            self.resend(number);
        }
        let (late, rest) =
            std::mem::take(&mut self.proposals.decided).into_iter().partition(|one| one.until <= self.now);
        self.proposals.decided = rest;
        let late: Vec<DecidedProposal> = late;
        for DecidedProposal { token, outcome, .. } in late {
            self.effects.push(AgentEffect::Answered { token, result: Ok(outcome) });
        }
    }

    /// Sends a proposal, or abandons it.
    fn resend(&mut self, number: u64) {
        let mark = self.group.mark();
        let Some(pending) = self.proposals.pending.get_mut(&number) else { return };
        if pending.until <= self.now {
            if let Some(PendingProposal { purpose: ProposalPurpose::Operator(token), .. }) =
                self.proposals.remove(number)
            {
                self.effects.push(AgentEffect::Answered { token, result: Err(NoOutcome::TimedOut) });
            }
            return;
        }
        if is_planted(Bug::JoinRetriedWithNewId)
            && pending.purpose == ProposalPurpose::Join
            && pending.tries > 0
        {
            let Some(pending) = self.proposals.remove(number) else { return };
            return self.propose(ProposalPurpose::Join, pending.command, pending.until);
        }
        let after = *pending.after.get_or_insert(mark);
        pending.tries += 1;
        let tries = pending.tries;
        let id = RequestId { origin: self.proposals.origin, number };
        let request = CommandRequest { id, after, command: pending.command.clone() };
        if let (ProposalPurpose::Instance(_), ControlCommand::Regroup(regroup)) =
            (pending.purpose, &request.command)
            && self.is_past(regroup.keyspace, regroup.partition, regroup.epoch)
        {
            self.proposals.remove(number);
            return;
        }
        let again = (AGAIN_MS << tries.min(8).saturating_sub(1)).min(AGAIN_MS_MAX);
        let again = self.stream.between(again, again + again / 4);
        self.proposals.schedule(number, self.now.after_ms(again));
        let leads = self.is_leader();
        let to = if leads {
            Some(self.settings.manager.clone())
        } else if tries <= LEADER_TRIES {
            self.proposal_target()
        } else {
            self.another_target()
        };
        if let Some(pending) = self.proposals.pending.get_mut(&number) {
            pending.sent_to.clone_from(&to);
        }
        match to {
            _ if leads => self.notify_manager(manager::ManagerEvent::Request { token: number << 1, request }),
            Some(to) => self.send(&to, AgentBody::Propose(request)),
            None => {}
        }
    }

    /// The answer of this node's manager, or of another, to a proposal.
    pub(super) fn answered(&mut self, number: u64, answer: RequestAnswer, by: &Address) {
        let Some(pending) = self.proposals.pending.get_mut(&number) else { return };
        match answer {
            RequestAnswer::Decided(outcome) => {
                if let Some(pending) = self.proposals.remove(number) {
                    self.group.decided_count = self.group.decided_count.max(outcome.applied_count);
                    self.decided(pending.purpose, outcome);
                }
            }
            RequestAnswer::NotLeader(_) if pending.sent_to.as_ref() != Some(by) => {}
            RequestAnswer::NotLeader(_) => {
                pending.sent_to = None;
                pending.hops += 1;
                pending.tries = 0;
                let hops = pending.hops;
                let me = &self.settings.manager;
                let is_hint = self.group.leader_at().is_some_and(|leader| leader != by && leader != me);
                if self.group.leader_at() == Some(by) {
                    self.group.leader = None;
                }
                let wait = match is_hint && !hops.is_multiple_of(HOPS_MAX) {
                    true => 0,
                    false => self.stream.between(REFUSED_MS, 2 * REFUSED_MS),
                };
                self.proposals.schedule(number, self.now.after_ms(wait));
            }
            RequestAnswer::Busy => {
                pending.tries = 0;
                let wait = self.stream.between(REFUSED_MS, 4 * REFUSED_MS);
                self.proposals.schedule(number, self.now.after_ms(wait));
            }
        }
    }

    /// Another agent's answer.
    pub(super) fn handle_answer(
        &mut self,
        from: &Address,
        id: RequestId,
        answer: ProposalAnswer,
        news: &ControlGroupNews,
    ) {
        self.apply_news(news);
        self.record_news(from, news);
        if id.origin != self.proposals.origin {
            return;
        }
        let answer = match answer {
            ProposalAnswer::Decided(outcome) => RequestAnswer::Decided(outcome),
            ProposalAnswer::NotLeader => RequestAnswer::NotLeader(news.leader),
            ProposalAnswer::Busy => RequestAnswer::Busy,
        };
        self.answered(id.number, answer, from);
    }

    fn decided(&mut self, purpose: ProposalPurpose, outcome: CommandOutcome) {
        match purpose {
            ProposalPurpose::NoOp => self.no_op_decided(outcome.applied_count),
            ProposalPurpose::Join => self.join_decided(outcome),
            // The state shows the result.
            ProposalPurpose::UpdateAddresses => {}
            // The map shows the result; if it does not, the request is repeated.
            ProposalPurpose::ReportLogs | ProposalPurpose::Instance(_) | ProposalPurpose::Drained(_) => {
                if outcome.result.as_ref().is_ok_and(|done| done.epoch > self.map().epoch()) {
                    self.fetch_soon();
                }
            }
            ProposalPurpose::Operator(token) => {
                let epoch = outcome.result.as_ref().map_or(MapEpoch(0), |done| done.epoch);
                let until = self.now.after_ms(self.settings.operate_ms);
                self.proposals.decided.push(DecidedProposal { token, outcome, epoch, until });
                if epoch > self.map().epoch() {
                    self.fetch_soon();
                }
                self.answer_waiting_operators();
            }
        }
    }

    /// Answers operators once this node's map shows the change.
    pub(super) fn answer_waiting_operators(&mut self) {
        let epoch = self.map().epoch();
        let (shown, rest) =
            std::mem::take(&mut self.proposals.decided).into_iter().partition(|one| one.epoch <= epoch);
        self.proposals.decided = rest;
        let shown: Vec<DecidedProposal> = shown;
        for DecidedProposal { token, outcome, .. } in shown {
            self.effects.push(AgentEffect::Answered { token, result: Ok(outcome) });
        }
    }

    /// The process ends: all operators get an answer.
    pub(super) fn answer_all_operators(&mut self) {
        for DecidedProposal { token, outcome, .. } in std::mem::take(&mut self.proposals.decided) {
            self.effects.push(AgentEffect::Answered { token, result: Ok(outcome) });
        }
        for pending in std::mem::take(&mut self.proposals.pending).into_values() {
            if let ProposalPurpose::Operator(token) = pending.purpose {
                self.effects.push(AgentEffect::Answered { token, result: Err(NoOutcome::TimedOut) });
            }
        }
    }

    /// Another node proposes a command.
    pub(super) fn handle_proposal(&mut self, from: &Address, request: CommandRequest) {
        let id = request.id;
        if !self.may_propose(from, &request.command) {
            let outcome = CommandOutcome { result: Err(CommandRefusal::NotControl), applied_count: 0 };
            return self.answer_proposal(from, id, ProposalAnswer::Decided(outcome));
        }
        if !self.is_leader() {
            return self.answer_proposal(from, id, ProposalAnswer::NotLeader);
        }
        if let ControlCommand::Join(join) = &request.command
            && let Some(answer) = self.is_duplicate_start(join)
        {
            return self.answer_proposal(from, id, answer);
        }
        let key = (from.clone(), id);
        if self.forwarded.known.contains(&key) {
            return;
        }
        if self.forwarded.by_number.len() >= FORWARDED_MAX {
            return self.answer_proposal(from, id, ProposalAnswer::Busy);
        }
        self.forwarded.last += 1;
        let number = self.forwarded.last;
        self.forwarded.by_number.insert(number, key.clone());
        self.forwarded.known.insert(key);
        self.notify_manager(manager::ManagerEvent::Request { token: number << 1 | 1, request });
    }

    /// A node may propose only for itself and its instances, and only the leader itself proposes control's
    /// own changes.
    fn may_propose(&self, from: &Address, command: &ControlCommand) -> bool {
        let Some(manager) = self.manager.as_ref() else { return true };
        let map = manager.map();
        let is_of = |node| map.node(node).is_none_or(|node| node.manager() == from.as_str());
        match command {
            ControlCommand::Regroup(Regroup { by: RegroupOrigin::Control, .. })
            | ControlCommand::ExpireToken { .. }
            | ControlCommand::CancelSplit(_) => false,
            ControlCommand::Regroup(Regroup { by: RegroupOrigin::Instance(instance, _), .. }) => {
                map.instance(*instance).is_none_or(|instance| is_of(instance.node))
            }
            ControlCommand::Drained(drained) => {
                map.instance(drained.instance).is_none_or(|instance| is_of(instance.node))
            }
            ControlCommand::ReportLogs(report) => is_of(report.node),
            ControlCommand::Join(join) => join.manager == *from,
            _ => true,
        }
    }

    pub(super) fn answer_forwarded(&mut self, number: u64, answer: RequestAnswer) {
        let Some(key) = self.forwarded.by_number.remove(&number) else { return };
        self.forwarded.known.remove(&key);
        let answer = match answer {
            RequestAnswer::Decided(outcome) => ProposalAnswer::Decided(outcome),
            RequestAnswer::NotLeader(_) => ProposalAnswer::NotLeader,
            RequestAnswer::Busy => ProposalAnswer::Busy,
        };
        self.answer_proposal(&key.0, key.1, answer);
    }

    fn answer_proposal(&mut self, to: &Address, id: RequestId, answer: ProposalAnswer) {
        let news = self.group.news(self.group.applied_count);
        self.send(to, AgentBody::Answer { id, answer, news });
    }
}
