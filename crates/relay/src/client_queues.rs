//! Units of this instance's Redis clients that another instance must run, or that wait to run here.
//!
//! The commands of one client for one partition form a *queue*. Its units run in the order of the
//! commands, whichever instance serves the partition. A queue sends its units to one target without
//! waiting for replies; each message names the unit before it. When the target reports a unit as
//! not run, the queue stops sending until the outcome of every sent unit is known. It then starts
//! again at the first unit that was not run.
//!
//! ```text
//!   waits ──sent──> under way ──replied──> gone     a queue: [not run] [sent] [sent] [waits]
//!     ^                 │
//!     │<── not run ─────┤        connection lost, node down by the map, or time-out:
//!     │<── only reads ──┴──> a write in doubt: its client is notified
//! ```
//!
//! The target of a queue's next unit is looked up when the unit is sent: the keyspace may have been
//! split since the unit arrived.
//!
//! A read is repeated only if no write of its queue was sent after it; the read would see that
//! write.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::RangeInclusive;
use std::time::Duration;

use zerohop_base::connection::ConnectionId;
use zerohop_placement::Keyspace;
use zerohop_resp::{PartitionPlace, Ticket};
use zerohop_wire::ids::{KeyspaceId, PartitionId};

use super::limits::{DEPOSED_MS, LEFT_MS, RELAYED_BYTES_MAX, RETRY_MS, UNDER_WAY_MAX};
use super::planted::{Bug, is_planted};

/// The points that a partition had at one time: its hashes, or the points of a region. Wider ones are lower in the order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PartitionPoints {
    /// The points of the keyspace that are not in the range.
    outside: u64,
    first: u64,
}

impl PartitionPoints {
    /// Those of a partition of a map; if the map does not have it, all points.
    pub(super) fn of(found: &Keyspace, partition: PartitionId) -> PartitionPoints {
        let points = found.division().points(partition);
        points.map_or(PartitionPoints::default(), |points| PartitionPoints::new(&points))
    }

    pub(super) fn new(points: &RangeInclusive<u64>) -> PartitionPoints {
        PartitionPoints { outside: u64::MAX - (points.end() - points.start()), first: *points.start() }
    }

    pub(super) fn range(self) -> RangeInclusive<u64> {
        self.first..=self.first + (u64::MAX - self.outside)
    }

    fn covers(self, other: PartitionPoints) -> bool {
        let (range, other) = (self.range(), other.range());
        range.start() <= other.start() && other.end() <= range.end()
    }
}

/// The commands of one client for one partition, by its points at the queue's first unit.
/// After a split, the units of the child partitions stay in this queue, in order, until it is empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct QueueId {
    pub(super) connection: ConnectionId,
    pub(super) keyspace: KeyspaceId,
    pub(super) points: PartitionPoints,
    pub(super) partition: PartitionId,
}

impl QueueId {
    /// The queue of a client for a partition that has these points. An older queue may take precedence:
    /// [`ClientQueues::queue_of`].
    pub(super) fn of(
        connection: ConnectionId,
        PartitionPlace { keyspace, partition }: PartitionPlace,
        points: PartitionPoints,
    ) -> QueueId {
        QueueId { connection, keyspace, points, partition }
    }

    /// Whether a map has its partition, with the points that it had then.
    pub(super) fn is_unchanged(self, found: &Keyspace) -> bool {
        let points = found.division().points(self.partition);
        points.is_some_and(|points| PartitionPoints::new(&points) == self.points)
    }

    /// Below all queues of a client in a keyspace whose partitions have at least as many points.
    fn first(self, points: PartitionPoints) -> QueueId {
        QueueId { points: PartitionPoints { first: 0, ..points }, partition: PartitionId(0), ..self }
    }

    /// Whether this queue's partition contained the whole partition of another queue.
    fn covers(self, other: QueueId) -> bool {
        (self.connection, self.keyspace) == (other.connection, other.keyspace)
            && self.points.covers(other.points)
    }
}

/// Where the sent units of a queue are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum UnitTarget {
    /// The instance with this index on the same node.
    Sibling(usize),
    /// An instance of another node, over this connection.
    Wire(ConnectionId),
}

/// An encoded unit, and the partition that the map named for it.
#[derive(Debug)]
pub(super) struct RoutedUnit {
    pub(super) partition: PartitionId,
    pub(super) unit: Vec<u8>,
    pub(super) may_write: bool,
}

/// A unit of a client.
#[derive(Debug)]
pub(super) struct QueuedUnit {
    pub(super) queue: QueueId,
    /// Its partition when it was queued. That of the queue may be an older and wider one.
    partition: PartitionId,
    pub(super) ticket: Ticket,
    pub(super) unit: Vec<u8>,
    pub(super) may_write: bool,
    deadline_ms: u64,
    is_sent: bool,
    /// It waits for a record at its target.
    is_waiting: bool,
}

impl QueuedUnit {
    /// A unit that was not sent yet.
    fn new(queue: QueueId, ticket: Ticket, routed: RoutedUnit, deadline_ms: u64) -> QueuedUnit {
        let RoutedUnit { partition, unit, may_write } = routed;
        QueuedUnit {
            queue,
            partition,
            ticket,
            unit,
            may_write,
            deadline_ms,
            is_sent: false,
            is_waiting: false,
        }
    }
}

/// How a unit ended without a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UnitFailure {
    /// It was not executed and will not be.
    NotDone,
    /// The outcome is unknown.
    OutcomeUnknown,
}

/// A unit that ended without a reply, and how.
pub(super) type FailedUnit = (QueueId, Ticket, UnitFailure);

#[derive(Debug, Default)]
struct ClientQueue {
    /// Numbers, in the order of the commands.
    order: VecDeque<u64>,
    /// How many of them are sent, all to `target`.
    sent: usize,
    target: Option<UnitTarget>,
    /// A sent unit was not run: nothing is sent until no other sent unit is under way.
    is_sent_back: bool,
    /// When to process this queue again.
    due_ms: Option<u64>,
}

/// See the module.
#[derive(Debug)]
pub(super) struct ClientQueues {
    /// How long a unit waits, over all attempts.
    time_out_ms: u64,
    by: BTreeMap<QueueId, ClientQueue>,
    units: BTreeMap<u64, QueuedUnit>,
    /// (deadline in milliseconds of the reactor's clock, number).
    deadlines: BTreeSet<(u64, u64)>,
    due: BTreeSet<(u64, QueueId)>,
    bytes: usize,
    /// Numbers only rise: a unit that was sent earlier has a lower one.
    next_number: u64,
}

impl ClientQueues {
    fn is_full_for(&self, unit: &[u8]) -> bool {
        self.units.len() >= UNDER_WAY_MAX || self.bytes + unit.len() > RELAYED_BYTES_MAX
    }

    /// Empty queues, whose units wait at most `time_out`.
    pub(super) fn new(time_out: Duration) -> ClientQueues {
        ClientQueues {
            time_out_ms: u64::try_from(time_out.as_millis()).unwrap_or(u64::MAX),
            by: BTreeMap::new(),
            units: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            due: BTreeSet::new(),
            bytes: 0,
            next_number: 0,
        }
    }

    /// The queue of a client's units for a partition: a queue from before a split takes precedence.
    #[inline]
    pub(super) fn queue_of(&self, queue_id: QueueId) -> QueueId {
        if self.by.is_empty() {
            return queue_id;
        }
        let wider = queue_id.first(PartitionPoints::default())..queue_id.first(queue_id.points);
        let older = self.by.range(wider).map(|(older, _)| *older);
        older.into_iter().find(|older| older.covers(queue_id)).unwrap_or(queue_id)
    }

    /// Whether no earlier unit of this client for this partition is queued here.
    #[inline]
    pub(super) fn is_free(&self, queue_id: QueueId) -> bool {
        self.by.is_empty() || !self.by.contains_key(&queue_id)
    }

    /// Appends a unit to its queue. `false`: there is no room.
    pub(super) fn push(
        &mut self,
        queue_id: QueueId,
        ticket: Ticket,
        routed: RoutedUnit,
        now_ms: u64,
    ) -> bool {
        if self.is_full_for(&routed.unit) {
            return false;
        }
        self.next_number += 1;
        let (number, deadline_ms) = (self.next_number, now_ms.saturating_add(self.time_out_ms));
        self.bytes += routed.unit.len();
        self.deadlines.insert((deadline_ms, number));
        self.units.insert(number, QueuedUnit::new(queue_id, ticket, routed, deadline_ms));
        let queue = self.by.entry(queue_id).or_default();
        queue.order.push_back(number);
        if queue.due_ms.is_none() {
            self.schedule(queue_id, now_ms);
        }
        true
    }

    /// A queue that is due.
    pub(super) fn take_due(&mut self, now_ms: u64) -> Option<QueueId> {
        let &(due_ms, queue_id) = self.due.first()?;
        if due_ms > now_ms {
            return None;
        }
        self.due.pop_first();
        if let Some(queue) = self.by.get_mut(&queue_id) {
            queue.due_ms = None;
        }
        Some(queue_id)
    }

    /// The next unit of a queue, if it can run at this target (`None`: this instance) while others
    /// are under way.
    pub(super) fn next(&self, queue_id: QueueId, target: Option<UnitTarget>) -> Option<u64> {
        let queue = self.by.get(&queue_id)?;
        if queue.sent > 0 && (queue.is_sent_back || target.is_none() || queue.target != target) {
            return None;
        }
        // Sent units come before the others, except while `is_sent_back`.
        queue.order.get(queue.sent).copied()
    }

    /// The next unit of a queue, for any target. `None`: none may be sent now.
    pub(super) fn first(&self, queue_id: QueueId) -> Option<u64> {
        let queue = self.by.get(&queue_id)?;
        let waits = queue.sent > 0 && queue.is_sent_back;
        queue.order.get(queue.sent).copied().filter(|_| !waits)
    }

    /// The next unit of a queue is being sent: its number, and that of the unit before it that is
    /// still under way (0: none).
    pub(super) fn send(&mut self, queue_id: QueueId, target: UnitTarget) -> Option<(u64, u64)> {
        let queue = self.by.get_mut(&queue_id)?;
        let old = *queue.order.get(queue.sent)?;
        let behind = queue.sent.checked_sub(1).map_or(0, |before| queue.order[before]);
        let mut queued = self.units.remove(&old)?;
        // Each attempt has a new number, so that a late report on an earlier attempt matches
        // nothing.
        self.next_number += 1;
        let number = self.next_number;
        self.deadlines.remove(&(queued.deadline_ms, old));
        self.deadlines.insert((queued.deadline_ms, number));
        (queued.is_sent, queued.is_waiting) = (true, false);
        self.units.insert(number, queued);
        queue.order[queue.sent] = number;
        queue.sent += 1;
        queue.target = Some(target);
        queue.is_sent_back = false;
        Some((number, behind))
    }

    /// The first unit of a unit's queue.
    pub(super) fn first_of_queue(&self, number: u64) -> Option<u64> {
        let queued = self.units.get(&number)?;
        self.by.get(&queued.queue)?.order.front().copied()
    }

    /// Removes a unit: it was replied to, or runs here.
    pub(super) fn take_unit(&mut self, number: u64, now_ms: u64) -> Option<QueuedUnit> {
        let queued = self.units.remove(&number)?;
        self.deadlines.remove(&(queued.deadline_ms, number));
        self.bytes -= queued.unit.len();
        if let Some(queue) = self.by.get_mut(&queued.queue) {
            if queue.order.front() == Some(&number) {
                queue.order.pop_front();
            } else {
                queue.order.retain(|one| *one != number);
            }
            queue.sent -= usize::from(queued.is_sent);
            if queue.order.is_empty() {
                self.remove_queue(queued.queue);
            } else if queue.sent == 0 && queue.due_ms.is_none() {
                let pause_ms = if queue.is_sent_back { RETRY_MS } else { 0 };
                self.schedule(queued.queue, now_ms + pause_ms);
            }
        }
        Some(queued)
    }

    /// Queues a unit that could not run here, before the others of its queue. `false`: there is no
    /// room.
    pub(super) fn push_first(
        &mut self,
        queue_id: QueueId,
        ticket: Ticket,
        routed: RoutedUnit,
        now_ms: u64,
    ) -> bool {
        if self.is_full_for(&routed.unit) {
            return false;
        }
        let deadline_ms = now_ms.saturating_add(self.time_out_ms);
        self.put_back(QueuedUnit::new(queue_id, ticket, routed, deadline_ms), now_ms);
        true
    }

    /// Puts back a unit that could not run here, before the others of its queue.
    pub(super) fn put_back(&mut self, queued: QueuedUnit, now_ms: u64) {
        self.next_number += 1;
        let (number, queue_id) = (self.next_number, queued.queue);
        self.bytes += queued.unit.len();
        self.deadlines.insert((queued.deadline_ms, number));
        self.units.insert(number, QueuedUnit { is_sent: false, is_waiting: false, ..queued });
        let queue = self.by.entry(queue_id).or_default();
        // Sent units of this queue come after it, so they count as refused for retry.
        queue.is_sent_back = true;
        queue.order.push_front(number);
        // Replaces an earlier due time: nothing behind this unit can run before it.
        if let Some(due_ms) = queue.due_ms.take() {
            self.due.remove(&(due_ms, queue_id));
        }
        self.schedule(queue_id, now_ms + RETRY_MS);
    }

    /// The target reports that it did not run a unit.
    pub(super) fn not_run(&mut self, number: u64, now_ms: u64) {
        let Some(queued) = self.units.get_mut(&number) else { return };
        if !std::mem::replace(&mut queued.is_sent, false) {
            return;
        }
        let queue_id = queued.queue;
        if let Some(queue) = self.by.get_mut(&queue_id) {
            queue.sent -= 1;
            queue.is_sent_back = true;
            if queue.sent == 0 {
                self.schedule(queue_id, now_ms + RETRY_MS);
            }
        }
    }

    /// A unit of a queue may have written. Earlier units that wait to run again would see that
    /// write, so they end.
    pub(super) fn written(
        &mut self,
        queue_id: QueueId,
        ticket: Ticket,
        now_ms: u64,
        over: &mut Vec<FailedUnit>,
    ) {
        if self.by.is_empty() {
            return;
        }
        let waits_before = |number: &&u64| {
            self.units.get(number).is_some_and(|queued| !queued.is_sent && queued.ticket < ticket)
        };
        let of_keyspace =
            |other: &QueueId| (other.connection, other.keyspace) == (queue_id.connection, queue_id.keyspace);
        let first = queue_id.first(PartitionPoints::default());
        let queues = self.by.range(first..).take_while(|(other, _)| of_keyspace(other));
        let shared = queues.filter(|(other, queue)| {
            queue.is_sent_back && (other.covers(queue_id) || queue_id.covers(**other))
        });
        let before = shared.flat_map(|(_, queue)| queue.order.iter().filter(waits_before).copied());
        let before: Vec<u64> = before.collect();
        before.into_iter().for_each(|number| self.end(number, now_ms, over));
    }

    /// A unit waits at its target until this time at most. `unit` is the request for the next
    /// attempt.
    pub(super) fn waits(&mut self, number: u64, unit: Vec<u8>, until_ms: u64) {
        let Some(queued) = self.units.get_mut(&number) else { return };
        self.bytes = self.bytes - queued.unit.len() + unit.len();
        (queued.unit, queued.is_waiting) = (unit, true);
        self.deadlines.remove(&(queued.deadline_ms, number));
        queued.deadline_ms = until_ms.saturating_add(self.time_out_ms);
        self.deadlines.insert((queued.deadline_ms, number));
    }

    /// How many units wait for a record at their targets.
    pub(super) fn waiting(&self) -> usize {
        self.units.values().filter(|queued| queued.is_waiting).count()
    }

    pub(super) fn unit_of(&self, number: u64) -> Option<&[u8]> {
        self.units.get(&number).map(|queued| &queued.unit[..])
    }

    /// The partition of a unit, as it was numbered when the unit was queued.
    pub(super) fn place_of(&self, number: u64) -> Option<PartitionPlace> {
        let QueuedUnit { queue, partition, .. } = self.units.get(&number)?;
        let own = if is_planted(Bug::PageRoutedByQueue) { queue.partition } else { *partition };
        Some(PartitionPlace { keyspace: queue.keyspace, partition: own })
    }

    /// Where a unit was sent.
    pub(super) fn target_of(&self, number: u64) -> Option<UnitTarget> {
        let queued = self.units.get(&number).filter(|queued| queued.is_sent)?;
        self.by.get(&queued.queue)?.target
    }

    /// Processes a queue again at this time, or earlier if an earlier time is set.
    pub(super) fn schedule(&mut self, queue_id: QueueId, at_ms: u64) {
        let Some(queue) = self.by.get_mut(&queue_id) else { return };
        if queue.due_ms.is_some_and(|due_ms| due_ms <= at_ms) {
            return;
        }
        if let Some(due_ms) = queue.due_ms.replace(at_ms) {
            self.due.remove(&(due_ms, queue_id));
        }
        self.due.insert((at_ms, queue_id));
    }

    /// This target will report no more outcomes.
    pub(super) fn fail_target(&mut self, target: UnitTarget, now_ms: u64, over: &mut Vec<FailedUnit>) {
        let at_it = |(_, queue): &(&QueueId, &ClientQueue)| queue.sent > 0 && queue.target == Some(target);
        let queues: Vec<QueueId> = self.by.iter().filter(at_it).map(|(queue_id, _)| *queue_id).collect();
        for queue_id in queues {
            self.fail_sent(queue_id, now_ms, over);
        }
    }

    /// The map has changed. `primary` returns the target that serves all of a queue's partition now;
    /// `is_down` says that a target will not report any more.
    pub(super) fn map_changed(
        &mut self,
        now_ms: u64,
        primary: impl Fn(QueueId) -> Option<UnitTarget>,
        is_down: impl Fn(UnitTarget) -> bool,
        over: &mut Vec<FailedUnit>,
    ) {
        let queues: Vec<QueueId> = self.by.keys().copied().collect();
        for queue_id in queues {
            let Some(queue) = self.by.get(&queue_id) else { continue };
            let sent: Vec<u64> =
                queue.order.iter().filter(|number| self.is_sent(**number)).copied().collect();
            match queue.target {
                Some(target) if !sent.is_empty() && primary(queue_id) != Some(target) => {
                    let writes = sent.iter().any(|number| self.units[number].may_write);
                    if !writes {
                        self.fail_sent(queue_id, now_ms, over);
                    } else {
                        // The former primary knows the outcomes, if it can still report them.
                        let wait_ms = if is_down(target) { LEFT_MS } else { DEPOSED_MS };
                        sent.into_iter().for_each(|number| self.prioritize(number, now_ms + wait_ms));
                    }
                }
                _ => {}
            }
            self.schedule(queue_id, now_ms);
        }
    }

    /// Ends the units whose deadline has passed.
    pub(super) fn overdue(&mut self, now_ms: u64, over: &mut Vec<FailedUnit>) {
        while let Some(&(deadline_ms, number)) = self.deadlines.first()
            && deadline_ms <= now_ms
        {
            self.end(number, now_ms, over);
        }
    }

    /// Ends all units.
    pub(super) fn stop(&mut self, over: &mut Vec<FailedUnit>) {
        while let Some((&number, _)) = self.units.first_key_value() {
            self.end(number, 0, over);
        }
    }

    /// Number of units that are under way or queued.
    pub(super) fn len(&self) -> usize {
        self.units.len()
    }

    /// Whether any unit is under way or queued that does not wait for a record.
    pub(super) fn has_unfinished(&self) -> bool {
        self.units.values().any(|queued| !queued.is_waiting)
    }

    /// A client is gone: units that were not sent are dropped.
    pub(super) fn closed(&mut self, connection: ConnectionId) {
        let of_it: Vec<QueueId> = {
            let (keyspace, partition) = (KeyspaceId(0), PartitionId(0));
            let from = QueueId { connection, keyspace, points: PartitionPoints::default(), partition };
            let queues = self.by.range(from..).map(|(queue_id, _)| *queue_id);
            queues.take_while(|queue_id| queue_id.connection == connection).collect()
        };
        for queue_id in of_it {
            let numbers = self.by.get(&queue_id).map(|queue| queue.order.clone()).unwrap_or_default();
            for number in numbers {
                self.take_unit(number, 0);
            }
        }
    }

    /// When to act even if no message comes.
    pub(super) fn next_ms(&self) -> Option<u64> {
        let due_ms = self.due.first().map(|(ms, _)| *ms);
        due_ms.into_iter().chain(self.deadlines.first().map(|(ms, _)| *ms)).min()
    }

    fn is_sent(&self, number: u64) -> bool {
        self.units.get(&number).is_some_and(|queued| queued.is_sent)
    }

    /// Sent writes are in doubt, and so are units before them, which must not run again and see
    /// them. Reads after the last write are queued again.
    fn fail_sent(&mut self, queue_id: QueueId, now_ms: u64, over: &mut Vec<FailedUnit>) {
        let Some(queue) = self.by.get(&queue_id) else { return };
        let sent: Vec<u64> = queue.order.iter().filter(|number| self.is_sent(**number)).copied().collect();
        let is_write = |number: &u64| self.units[number].may_write && !is_planted(Bug::LostWritesSentAgain);
        let writes = sent.iter().rposition(is_write).map_or(0, |last| last + 1);
        for (place, number) in sent.into_iter().enumerate() {
            if place < writes {
                self.end(number, now_ms, over);
            } else {
                self.not_run(number, now_ms);
            }
        }
    }

    fn end(&mut self, number: u64, now_ms: u64, over: &mut Vec<FailedUnit>) {
        let is_sent = self.is_sent(number);
        let Some(queued) = self.take_unit(number, now_ms) else { return };
        let ended = if is_sent && queued.may_write && !is_planted(Bug::UnknownReportedAsFailed) {
            UnitFailure::OutcomeUnknown
        } else {
            UnitFailure::NotDone
        };
        over.push((queued.queue, queued.ticket, ended));
    }

    fn prioritize(&mut self, number: u64, deadline_ms: u64) {
        let Some(queued) = self.units.get_mut(&number) else { return };
        if queued.deadline_ms > deadline_ms {
            self.deadlines.remove(&(queued.deadline_ms, number));
            queued.deadline_ms = deadline_ms;
            self.deadlines.insert((deadline_ms, number));
        }
    }

    fn remove_queue(&mut self, queue_id: QueueId) {
        if let Some(ClientQueue { due_ms: Some(due_ms), .. }) = self.by.remove(&queue_id) {
            self.due.remove(&(due_ms, queue_id));
        }
    }
}

#[cfg(test)]
mod tests;
