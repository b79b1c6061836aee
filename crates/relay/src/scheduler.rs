//! The units under way at an instance, for its own clients and for other instances, and their
//! routing.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use zerohop_base::connection::ConnectionId;
use zerohop_partition::{ProgramResult, Token, answer_snapshot};
use zerohop_placement::ClusterMap;
use zerohop_resp::{PartitionPlace, Scratch, Ticket, Unit, failure_reply};
use zerohop_wire::ids::{InstanceId, RequestId, Timestamp};
use zerohop_wire::messages::{Member, Query, RecordRead, UnitVerdict, Wait, WaitUntil};
use zerohop_wire::{Envelope, Failure, Message};

use super::client_queues::{
    ClientQueues, FailedUnit, PartitionPoints, QueueId, QueuedUnit, RoutedUnit, UnitFailure, UnitTarget,
};
use super::execution::{Execution, RecordWait};
use super::limits::{
    BUSY_RETRY_MS, RETRY_COPY_BYTES_MAX, RETRY_MS, STEPS_WAITING_MAX, UNDER_WAY_MAX, WAIT_MS_MAX,
};
use super::outgoing::OutgoingMessages;
use super::remote::{Head, RemoteLinks};
use super::retry::RetryTable;
use super::shutdown_progress::ShutdownProgress;
use super::unit_deadlines::UnitDeadlines;
use super::{RelayContext, UNIT_TOKEN_BIT};

/// The connection in tokens of units that another instance has sent.
const OF_OTHERS: u64 = u64::MAX;

/// See the module.
#[derive(Debug)]
pub(super) struct UnitScheduler {
    /// Units that run here and are not replied to yet: waiting for commit, or for a record.
    pub(super) under_way: BTreeMap<u64, RunningUnit>,
    next_number: u64,
    /// Until when clients of this instance wait for those.
    pub(super) deadlines: UnitDeadlines,
    /// Units of this instance's clients that run elsewhere, or later.
    pub(super) client_queues: ClientQueues,
    /// Units of other instances that were not run here.
    pub(super) sent_back: RetryTable<UnitTarget>,
    pub(super) outgoing: OutgoingMessages,
    pub(super) links: RemoteLinks,
    /// Units over several partitions that are not answered yet.
    pub(super) cross_partition_count: usize,
    scratch: Scratch,
    pub(super) steps: VecDeque<ScheduledStep>,
    /// Replies to this instance's clients that are not delivered yet.
    pub(super) ready: VecDeque<(ConnectionId, Ticket, Vec<u8>)>,
    /// A message to another instance found no room.
    pub(super) is_stuck: bool,
    /// The progress of the shutdown.
    pub(super) farewell: ShutdownProgress,
    pub(super) commands: u64,
    pub(super) clients: u64,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum UnitOrigin {
    Client { connection: ConnectionId, ticket: Ticket },
    Other { source: UnitTarget, number: u64 },
}

#[derive(Debug)]
pub(super) struct RunningUnit {
    pub(super) reply_to: UnitOrigin,
    pub(super) to: PartitionPlace,
    /// The points of the partition when it ran: [`QueueId::points`].
    pub(super) points: PartitionPoints,
    pub(super) may_write: bool,
    /// A copy of a client's unit, to run it again if it fails here. A long writing unit has none.
    pub(super) retry_copy: Option<Vec<u8>>,
    pub(super) waiting_unit: Option<Box<WaitingUnit>>,
}

/// A unit that waits for a record.
#[derive(Debug)]
pub(super) struct WaitingUnit {
    pub(super) to: PartitionPlace,
    pub(super) unit: Vec<u8>,
    pub(super) waits: RecordWait,
    /// Its reads are committed, and the wait was passed to the partition.
    pub(super) is_waiting: bool,
}

/// A step of a command over all partitions; it is not urgent.
#[derive(Debug)]
pub(super) struct ScheduledStep {
    pub(super) to: PartitionPlace,
    pub(super) reply_to: UnitOrigin,
    pub(super) unit: Vec<u8>,
}

impl UnitOrigin {
    fn connection(self) -> u64 {
        match self {
            UnitOrigin::Client { connection, .. } => connection.to_u64() | UNIT_TOKEN_BIT,
            UnitOrigin::Other { .. } => OF_OTHERS,
        }
    }
}

/// Whether a unit with this failure was not run, and may run later or elsewhere.
pub(super) fn may_come_again(failure: &Failure<'_>) -> bool {
    matches!(failure, Failure::WrongOwner { .. } | Failure::Unavailable { .. } | Failure::Busy { .. })
}

impl UnitScheduler {
    /// The number of clients of this instance whose command waits for a record, here or at another instance.
    pub(super) fn blocked_clients(&self) -> u64 {
        let is_blocked = |unit: &&RunningUnit| {
            let waits = unit.waiting_unit.as_ref().is_some_and(|waiting| waiting.is_waiting);
            waits && matches!(unit.reply_to, UnitOrigin::Client { .. })
        };
        (self.under_way.values().filter(is_blocked).count() + self.client_queues.waiting()) as u64
    }

    pub(super) fn new(place: usize, time_out: Duration) -> UnitScheduler {
        UnitScheduler {
            under_way: BTreeMap::new(),
            next_number: 0,
            deadlines: UnitDeadlines::new(time_out),
            client_queues: ClientQueues::new(time_out),
            sent_back: RetryTable::new(),
            outgoing: OutgoingMessages::new(place),
            links: RemoteLinks::default(),
            cross_partition_count: 0,
            scratch: Scratch::default(),
            steps: VecDeque::new(),
            ready: VecDeque::new(),
            is_stuck: false,
            farewell: ShutdownProgress::default(),
            commands: 0,
            clients: 0,
        }
    }

    /// The time that each unit has, and a command of several parts for all of them.
    pub(super) fn time_out_ms(&self) -> u64 {
        self.deadlines.time_out_ms()
    }

    /// Whether no more units may be under way.
    pub(super) fn is_full(&self) -> bool {
        self.under_way.len() >= UNDER_WAY_MAX
    }

    /// Runs a unit here. `true`: its reply has been appended; `false`: the reply comes later.
    ///
    /// # Errors Why it was not run.
    #[inline]
    pub(super) fn run(
        &mut self,
        at: &mut impl RelayContext,
        to: PartitionPlace,
        requester: UnitOrigin,
        unit: &Unit<'_>,
        reply: &mut Vec<u8>,
    ) -> Result<bool, Failure<'static>> {
        if self.farewell.withholds((at.instance().map(), at.instance().identity().instance), to, unit) {
            return Err(unavailable());
        }
        self.next_number += 1;
        let number = self.next_number;
        let token = Token { connection: requester.connection(), request: RequestId(number) };
        let me = at.this_member();
        let snapshot = answer_snapshot(me, number);
        let scratch = &mut self.scratch;
        let now_ms = at.now().unix_ms;
        let mut program = Execution { unit, scratch, waits: None, snapshot, paged: None, now_ms };
        let place = (to.keyspace, to.partition);
        let ran = at.run(token, place, (&mut program, reply));
        let waits = program.waits.take();
        match (ran?, waits) {
            (ProgramResult::Now, None) => Ok(true),
            (ProgramResult::Now, Some(waits)) => {
                let waiting = WaitingUnit::new(to, unit, waits);
                self.enqueue(at, number, requester, waiting);
                Ok(false)
            }
            (ProgramResult::Later, waits) => {
                let may_write = unit.may_write();
                let is_short = !may_write || unit.encoded_bytes() <= RETRY_COPY_BYTES_MAX;
                let keeps = is_short && waits.is_none() && matches!(requester, UnitOrigin::Client { .. });
                let kept = keeps.then(|| encoded(unit));
                let waiting = waits.map(|waits| WaitingUnit::new(to, unit, waits));
                let points = points_of(at.instance().map(), to);
                self.under_way.insert(
                    number,
                    RunningUnit {
                        reply_to: requester,
                        to,
                        points,
                        may_write,
                        retry_copy: kept,
                        waiting_unit: waiting,
                    },
                );
                // A unit of another instance has its own time limit there.
                if matches!(requester, UnitOrigin::Client { .. }) {
                    self.deadlines.begin(number, at.now().elapsed_ms);
                }
                Ok(false)
            }
        }
    }

    /// Has a unit run again once its record has changed or its time is over.
    pub(super) fn enqueue(
        &mut self,
        at: &mut impl RelayContext,
        number: u64,
        requester: UnitOrigin,
        mut waiting: Box<WaitingUnit>,
    ) {
        waiting.is_waiting = true;
        let (to, RecordWait { key, version, until_ms }) = (waiting.to, waiting.waits.clone());
        if let UnitOrigin::Other { source, number } = requester {
            self.report_outcome(source, number, UnitVerdict::Waits(until_ms), &[]);
        }
        let points = points_of(at.instance().map(), to);
        let under_way = RunningUnit {
            reply_to: requester,
            to,
            points,
            may_write: false,
            retry_copy: None,
            waiting_unit: Some(waiting),
        };
        self.under_way.insert(number, under_way);
        let left_ms = until_ms.saturating_sub(at.now().unix_ms).clamp(1, WAIT_MS_MAX);
        let envelope = Envelope {
            keyspace: to.keyspace,
            partition: to.partition,
            time_out_ms: u32::try_from(left_ms).unwrap_or(u32::MAX),
            ..Envelope::default()
        };
        let until = if version == Timestamp::ZERO { WaitUntil::Present } else { WaitUntil::Changed(version) };
        let read = RecordRead { key: &key, query: Query::Wait(Wait { until }) };
        let message = Message::Read { seen: Timestamp::ZERO, read };
        let token = Token { connection: requester.connection(), request: RequestId(number) };
        at.request(token, &envelope, &message);
    }

    /// Queues a step of a command over all partitions, or of a long reply. `false`: there is no
    /// room.
    pub(super) fn put_off(&mut self, to: PartitionPlace, requester: UnitOrigin, unit: &Unit<'_>) -> bool {
        if self.steps.len() >= STEPS_WAITING_MAX {
            return false;
        }
        self.steps.push_back(ScheduledStep { to, reply_to: requester, unit: encoded(unit) });
        true
    }

    /// A client is gone: the snapshots of its long replies are closed.
    pub(super) fn end_pages(
        &mut self,
        map: &ClusterMap,
        (connection, ends): (ConnectionId, Vec<(PartitionPlace, Vec<u8>)>),
        now_ms: u64,
    ) {
        for ((to, unit), number) in ends.into_iter().zip(0..) {
            let queue_id = QueueId::of(connection, to, points_of(map, to));
            // Without room the snapshot ends by its lease.
            let routed = RoutedUnit { partition: to.partition, unit, may_write: false };
            self.client_queues.push(queue_id, Ticket { number, part: 1 }, routed, now_ms);
        }
    }

    /// A unit was refused here and has had no effect: it runs later or elsewhere, if that may help.
    pub(super) fn refused(
        &mut self,
        at: &impl RelayContext,
        to: PartitionPlace,
        requester: UnitOrigin,
        (unit, may_write): (Vec<u8>, bool),
        failure: &Failure<'_>,
    ) {
        match requester {
            UnitOrigin::Other { source, number } if may_come_again(failure) => self.send_back(source, number),
            UnitOrigin::Client { connection, ticket } if may_come_again(failure) => {
                // By the current map, and in order with the other units of its keys.
                let map = at.instance().map();
                let Some(to) = route(map, to, &unit) else { return self.fail(requester, &unavailable()) };
                let queue_id = QueueId::of(connection, to, points_of(map, to));
                let queue_id = self.client_queues.queue_of(queue_id);
                let routed = RoutedUnit { partition: to.partition, unit, may_write };
                if !self.client_queues.push_first(queue_id, ticket, routed, at.now().elapsed_ms) {
                    self.fail(requester, failure);
                }
            }
            _ => self.fail(requester, failure),
        }
    }

    /// The outcome of a unit that ran here cannot be learned here any more, or its wait has failed.
    pub(super) fn failed(&mut self, at: &impl RelayContext, under_way: RunningUnit, failure: &Failure<'_>) {
        let RunningUnit {
            reply_to: requester,
            to,
            points,
            may_write,
            retry_copy: kept,
            waiting_unit: waiting,
        } = under_way;
        let is_over = may_come_again(failure) || matches!(failure, Failure::TimedOut { .. });
        if !is_over {
            return self.fail(requester, failure);
        }
        // A waiting unit has changed nothing.
        let unit = waiting.map(|waiting| with_wait(&waiting.unit, waiting.waits.until_ms));
        let only_reads = unit.is_some() || !may_write;
        // For a unit that may be in a log, a partition says this only once it knows that the entry
        // is gone.
        let is_undone = matches!(failure, Failure::Unavailable { .. });
        match unit.or(kept.filter(|_| only_reads || is_undone)) {
            Some(unit) => self.refused(at, to, requester, (unit, !only_reads), &unavailable()),
            None if is_undone && matches!(requester, UnitOrigin::Client { .. }) => {
                self.fail(requester, &unavailable())
            }
            None if only_reads || is_undone => {
                self.refused(at, to, requester, (Vec::new(), false), &unavailable())
            }
            None => {
                if let UnitOrigin::Client { connection, ticket } = requester {
                    self.written(at.now().elapsed_ms, QueueId::of(connection, to, points), ticket);
                }
                self.fail(requester, &Failure::TimedOut { version: Timestamp::ZERO });
            }
        }
    }

    /// A unit of a queue may have written: earlier units must not run again after it.
    pub(super) fn written(&mut self, now_ms: u64, queue_id: QueueId, ticket: Ticket) {
        let mut over = Vec::new();
        self.client_queues.written(queue_id, ticket, now_ms, &mut over);
        self.over(over);
    }

    pub(super) fn fail(&mut self, requester: UnitOrigin, failure: &Failure<'_>) {
        let mut reply = Vec::new();
        failure_reply(failure, &mut reply);
        self.reply(requester, reply);
    }

    /// Passes on a reply; a client of this instance has it once the caller reads `ready`.
    pub(super) fn reply(&mut self, requester: UnitOrigin, reply: Vec<u8>) {
        match requester {
            UnitOrigin::Client { connection, ticket } => self.ready.push_back((connection, ticket, reply)),
            UnitOrigin::Other { source, number } => {
                self.report_outcome(source, number, UnitVerdict::Replied, &reply)
            }
        }
    }

    /// Reports to another instance that its unit was not run.
    pub(super) fn send_back(&mut self, source: UnitTarget, number: u64) {
        self.sent_back.add(source, number);
        self.report_outcome(source, number, UnitVerdict::NotRun, &[]);
    }

    pub(super) fn report_outcome(
        &mut self,
        source: UnitTarget,
        number: u64,
        verdict: UnitVerdict,
        bytes: &[u8],
    ) {
        match source {
            UnitTarget::Sibling(place) => self.outgoing.add_outcome(place, number, verdict, bytes),
            UnitTarget::Wire(connection) => {
                self.links.queue_answer(connection, Head::Outcome { number, verdict }, bytes)
            }
        }
    }

    /// Answers clients whose units ended without a reply.
    pub(super) fn over(&mut self, over: Vec<FailedUnit>) {
        for (QueueId { connection, .. }, ticket, ended) in over {
            let failure = match ended {
                UnitFailure::NotDone => unavailable(),
                UnitFailure::OutcomeUnknown => Failure::TimedOut { version: Timestamp::ZERO },
            };
            self.fail(UnitOrigin::Client { connection, ticket }, &failure);
        }
    }

    /// Sends or runs the units of queues that are due.
    pub(super) fn pump(&mut self, at: &mut impl RelayContext) {
        while let Some(queue_id) = self.client_queues.take_due(at.now().elapsed_ms) {
            while let Some(again_ms) = self.pump_one(at, queue_id) {
                if again_ms > at.now().elapsed_ms {
                    self.client_queues.schedule(queue_id, again_ms);
                    break;
                }
            }
        }
    }

    /// Answers clients whose units have waited too long: a read was not done, a write is in doubt.
    /// A later outcome is not reported any more.
    pub(super) fn end_overdue(&mut self, at: &impl RelayContext) {
        let now_ms = at.now().elapsed_ms;
        // A unit that waits for a record has its own time limit.
        let waits = |one: &RunningUnit| one.waiting_unit.as_ref().is_none_or(|waiting| !waiting.is_waiting);
        while let Some(number) =
            self.deadlines.next_overdue(now_ms, |number| self.under_way.get(&number).is_some_and(waits))
        {
            let Some(one) = self.under_way.remove(&number) else { continue };
            let requester = one.reply_to;
            match (one.is_write(), requester) {
                (true, UnitOrigin::Client { connection, ticket }) => {
                    self.written(now_ms, QueueId::of(connection, one.to, one.points), ticket);
                    self.fail(requester, &Failure::TimedOut { version: Timestamp::ZERO });
                }
                _ => self.fail(requester, &unavailable()),
            }
        }
    }

    /// Processes the next unit of a queue. `None`: there is nothing to do now; else when to
    /// continue.
    fn pump_one(&mut self, at: &mut impl RelayContext, queue_id: QueueId) -> Option<u64> {
        let (now_ms, me) = (at.now().elapsed_ms, at.this_member().instance);
        let number = self.client_queues.first(queue_id)?;
        let map = at.instance().map();
        let Some(found) = map.keyspace(queue_id.keyspace) else {
            let flight = self.client_queues.take_unit(number, now_ms)?;
            let requester = UnitOrigin::Client { connection: queue_id.connection, ticket: flight.ticket };
            self.fail(requester, &Failure::UnknownKeyspace { keyspace: queue_id.keyspace });
            return Some(now_ms);
        };
        let to = self.client_queues.place_of(number)?;
        let to = match self.client_queues.unit_of(number) {
            Some(unit) if !queue_id.is_unchanged(found) => route(map, to, unit),
            _ => Some(to),
        };
        let is_split = |to: &PartitionPlace| !found.division().descendants(to.partition).is_empty();
        let to = to.filter(|to| !is_split(to));
        let Some(to) = to else {
            // The keys of one partition are in several now, or it is a page of a region that was split. Nothing of the unit was executed.
            let flight = self.client_queues.take_unit(number, now_ms)?;
            let requester = UnitOrigin::Client { connection: queue_id.connection, ticket: flight.ticket };
            self.fail(requester, &unavailable());
            return Some(now_ms);
        };
        let later = Some(now_ms + RETRY_MS);
        let Some(primary) = found.group(to.partition).map(|group| group.primary) else {
            // A split that this map does not have yet.
            return later;
        };
        if primary == me {
            self.client_queues.next(queue_id, None)?;
            let flight = self.client_queues.take_unit(number, now_ms)?;
            return Some(self.run_queued(at, to, flight));
        }
        let (target, peer) = match at.sibling(primary) {
            Some(place) => (UnitTarget::Sibling(place), Member::default()),
            None => match at.reach(primary) {
                Some((connection, peer)) => (UnitTarget::Wire(connection), peer),
                None => return later,
            },
        };
        self.client_queues.next(queue_id, Some(target))?;
        let has_room = match target {
            UnitTarget::Sibling(place) => self.outgoing.has_room(place),
            UnitTarget::Wire(connection) => self.links.has_room(connection),
        };
        if !has_room {
            return Some(now_ms + 1);
        }
        let (number, behind) = self.client_queues.send(queue_id, target)?;
        let unit = self.client_queues.unit_of(number)?;
        match target {
            UnitTarget::Sibling(place) => self.outgoing.add_unit(place, (number, behind), to, unit),
            UnitTarget::Wire(connection) => {
                let head = Head::RunUnit { number, behind, to };
                self.links.push(connection, peer, head, unit.to_vec());
            }
        }
        Some(now_ms)
    }

    /// Runs a client's unit here that had to wait. Returns when to continue with its queue.
    fn run_queued(&mut self, at: &mut impl RelayContext, to: PartitionPlace, flight: QueuedUnit) -> u64 {
        let now_ms = at.now().elapsed_ms;
        let QueuedUnit { queue: QueueId { connection, .. }, ticket, .. } = flight;
        let requester = UnitOrigin::Client { connection, ticket };
        let ran = match Unit::decode(&flight.unit) {
            Ok(unit) if unit.is_step() && self.put_off(to, requester, &unit) => return now_ms,
            Ok(unit) if !unit.is_page() && !self.is_full() => {
                let mut reply = Vec::new();
                self.run(at, to, requester, &unit, &mut reply).map(|is_done| is_done.then_some(reply))
            }
            Ok(_) => Err(Failure::Busy { retry_after_ms: BUSY_RETRY_MS }),
            Err(_) => Err(zerohop_wire::BadRequestReason::Unexpected.into()),
        };
        match ran {
            Ok(reply) => reply.into_iter().for_each(|reply| self.reply(requester, reply)),
            Err(failure) if may_come_again(&failure) => {
                self.client_queues.put_back(flight, now_ms);
                return now_ms + RETRY_MS;
            }
            Err(failure) => self.fail(requester, &failure),
        }
        now_ms
    }

    /// Where a partition's units are sent at the moment.
    pub(super) fn target(&self, at: &impl RelayContext, primary: InstanceId) -> Option<UnitTarget> {
        let sibling = at.sibling(primary).map(UnitTarget::Sibling);
        sibling.or_else(|| at.connection_to(primary).map(UnitTarget::Wire))
    }
}

impl RunningUnit {
    /// Whether it may have written without a report of its outcome so far.
    pub(super) fn is_write(&self) -> bool {
        self.may_write && self.waiting_unit.is_none()
    }
}

impl WaitingUnit {
    fn new(to: PartitionPlace, unit: &Unit<'_>, waits: RecordWait) -> Box<WaitingUnit> {
        Box::new(WaitingUnit { to, unit: encoded(unit), waits, is_waiting: false })
    }
}

/// The points of a partition by this map.
pub(super) fn points_of(map: &ClusterMap, to: PartitionPlace) -> PartitionPoints {
    map.keyspace(to.keyspace)
        .map_or(PartitionPoints::default(), |found| PartitionPoints::of(found, to.partition))
}

/// The partition that runs a unit by this map, for a unit first sent to `to`. `None`: its keys are
/// in several partitions now. A page has no keys but a partition number; its sender is notified if
/// that number means another partition now.
fn route(map: &ClusterMap, to: PartitionPlace, unit: &[u8]) -> Option<PartitionPlace> {
    let Ok(unit) = Unit::decode(unit) else { return Some(to) };
    let Some(found) = map.keyspace(to.keyspace).filter(|_| !unit.is_page()) else { return Some(to) };
    let keys = unit.keys();
    let mut partitions = keys.iter().map(|key| found.partition(key));
    let partition = partitions.next().unwrap_or(to.partition);
    partitions.all(|other| other == partition).then_some(PartitionPlace { partition, ..to })
}

pub(super) fn encoded(unit: &Unit<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    unit.encode(&mut bytes);
    bytes
}

/// The unit with its wait continued, wherever it runs next.
pub(super) fn with_wait(unit: &[u8], until_ms: u64) -> Vec<u8> {
    match Unit::decode(unit) {
        Ok(mut unit) => {
            unit.wait_until_ms = Some(until_ms);
            encoded(&unit)
        }
        Err(_) => unit.to_vec(),
    }
}

pub(super) fn unavailable() -> Failure<'static> {
    Failure::Unavailable { retry_after_ms: BUSY_RETRY_MS }
}
