//! Units of this instance's clients that another instance is to run, or this one as soon as it may.
//!
//! What one client asks of one partition is a *lane*: its units are run in their order, wherever the partition is served by
//! then. A lane sends them all at once to one target, each naming the one before it. One that is told that a unit was not run
//! sends no more until all that it has sent are told of, and begins again at the first that was not.
//!
//! ```text
//!   waits ──sent──> under way ──replied──> gone          a lane:   [told] [sent] [sent] [waits] [waits]
//!     ^                 │
//!     │<── not run ─────┤        the connection is lost, or the map says that its node is down, or the time is over:
//!     │<── only reads ──┴──> a write whose fate nobody knows: its client is told so
//! ```
//!
//! Where a lane's next unit is run is looked up when it goes there: the keyspace may have been split since the unit came.
//!
//! A read is asked for again only if no write of its lane was sent behind it, which it would see.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use zerohop_resp::{PartitionPlace, Ticket};
use zerohop_wire::ids::{KeyspaceId, PartitionId};

use super::limits::{DEPOSED_MS, LEFT_MS, RELAYED_BYTES_MAX, RETRY_MS, UNDER_WAY_MAX};
use crate::reactor::ConnectionId;

/// What one client asks of one partition, as the keyspace was cut when the first of its units came. After a split the units of the
/// parts go on in it, in their order, until it is empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ClientLane {
    pub(super) connection: ConnectionId,
    pub(super) keyspace: KeyspaceId,
    /// The keyspace had two to the power of this partitions.
    pub(super) bits: u32,
    pub(super) partition: PartitionId,
}

impl ClientLane {
    /// That of a client for a partition of a keyspace of so many bits, if no older one is there: [`ClientQueues::lane_of`].
    pub(super) fn of(
        connection: ConnectionId,
        PartitionPlace { keyspace, partition }: PartitionPlace,
        bits: u32,
    ) -> ClientLane {
        ClientLane { connection, keyspace, bits, partition }
    }

    /// Its partition, as it was numbered then.
    pub(super) fn to(self) -> PartitionPlace {
        PartitionPlace { keyspace: self.keyspace, partition: self.partition }
    }

    /// Whether all that is in another's partition was in this one's.
    fn covers(self, other: ClientLane) -> bool {
        let part = other.bits.checked_sub(self.bits).and_then(|bits| other.partition.0.checked_shr(bits));
        (self.connection, self.keyspace, Some(self.partition.0)) == (other.connection, other.keyspace, part)
    }
}

/// Where a lane's units are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum UnitTarget {
    /// At the instance at this place of the node.
    Sibling(usize),
    /// At an instance of another node, over this connection.
    Wire(ConnectionId),
}

/// A unit of a client.
#[derive(Debug)]
pub(super) struct Flight {
    pub(super) lane: ClientLane,
    pub(super) ticket: Ticket,
    pub(super) unit: Vec<u8>,
    pub(super) may_write: bool,
    deadline_ms: u64,
    is_sent: bool,
    /// It waits for a record where it is.
    is_waiting: bool,
}

/// How a unit ended without a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UnitFailure {
    /// It was not done and will not be.
    NotDone,
    /// Nobody knows.
    InDoubt,
}

/// What became of a unit that nobody replied to.
pub(super) type FailedUnit = (ClientLane, Ticket, UnitFailure);

#[derive(Debug, Default)]
struct LaneQueue {
    /// Numbers, in the order of the commands.
    order: VecDeque<u64>,
    /// So many of them are sent, all to this target.
    sent: usize,
    target: Option<UnitTarget>,
    /// Some that were sent were not run: all that are still under way are waited for.
    is_turned_back: bool,
    /// When to look at it again.
    due_ms: Option<u64>,
}

/// See the module.
#[derive(Debug)]
pub(super) struct ClientQueues {
    /// For how long a unit waits, all attempts together.
    time_out_ms: u64,
    by: BTreeMap<ClientLane, LaneQueue>,
    flights: BTreeMap<u64, Flight>,
    /// By their time, in milliseconds of the reactor's clock.
    deadlines: BTreeSet<(u64, u64)>,
    due: BTreeSet<(u64, ClientLane)>,
    bytes: usize,
    /// Numbers only rise: those that were sent earlier are lower.
    next_number: u64,
}

impl ClientQueues {
    /// None yet, whose units wait for so long at most.
    pub(super) fn new(time_out: Duration) -> ClientQueues {
        ClientQueues {
            time_out_ms: u64::try_from(time_out.as_millis()).unwrap_or(u64::MAX),
            by: BTreeMap::new(),
            flights: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            due: BTreeSet::new(),
            bytes: 0,
            next_number: 0,
        }
    }

    /// The lane of a client's units for a partition: one that was there before a split goes first.
    #[inline]
    pub(super) fn lane_of(&self, lane: ClientLane) -> ClientLane {
        if self.by.is_empty() {
            return lane;
        }
        let first = |bits| ClientLane { bits, partition: PartitionId(0), ..lane };
        let older = self.by.range(first(0)..first(lane.bits)).map(|(older, _)| *older);
        older.into_iter().find(|older| older.covers(lane)).unwrap_or(lane)
    }

    /// Whether a client has nothing here that its next unit for this partition must wait for.
    #[inline]
    pub(super) fn is_free(&self, lane: ClientLane) -> bool {
        self.by.is_empty() || !self.by.contains_key(&lane)
    }

    /// Takes a unit up behind the others of its lane. `false`: there is no room.
    pub(super) fn push(
        &mut self,
        lane: ClientLane,
        ticket: Ticket,
        (unit, may_write): (Vec<u8>, bool),
        now_ms: u64,
    ) -> bool {
        if self.flights.len() >= UNDER_WAY_MAX || self.bytes + unit.len() > RELAYED_BYTES_MAX {
            return false;
        }
        self.next_number += 1;
        let (number, deadline_ms) = (self.next_number, now_ms.saturating_add(self.time_out_ms));
        self.bytes += unit.len();
        self.deadlines.insert((deadline_ms, number));
        self.flights.insert(
            number,
            Flight { lane, ticket, unit, may_write, deadline_ms, is_sent: false, is_waiting: false },
        );
        let queue = self.by.entry(lane).or_default();
        queue.order.push_back(number);
        if queue.due_ms.is_none() {
            self.look_at(lane, now_ms);
        }
        true
    }

    /// A lane whose time has come.
    pub(super) fn take_due(&mut self, now_ms: u64) -> Option<ClientLane> {
        let &(due_ms, lane) = self.due.first()?;
        if due_ms > now_ms {
            return None;
        }
        self.due.pop_first();
        if let Some(queue) = self.by.get_mut(&lane) {
            queue.due_ms = None;
        }
        Some(lane)
    }

    /// The next unit of a lane that is to be run, if it can be run at this target (`None`: at this instance) while others are
    /// under way.
    pub(super) fn next(&self, lane: ClientLane, target: Option<UnitTarget>) -> Option<u64> {
        let queue = self.by.get(&lane)?;
        if queue.sent > 0 && (queue.is_turned_back || target.is_none() || queue.target != target) {
            return None;
        }
        // All that are sent stand before the others, but while it is turned back.
        queue.order.get(queue.sent).copied()
    }

    /// The unit of a lane that goes next, wherever to. `None`: none may go now.
    pub(super) fn first(&self, lane: ClientLane) -> Option<u64> {
        let queue = self.by.get(&lane)?;
        let waits = queue.sent > 0 && queue.is_turned_back;
        queue.order.get(queue.sent).copied().filter(|_| !waits)
    }

    /// The next unit of a lane is being sent: its number and that of the one before it that is still under way, 0 if none is.
    pub(super) fn send(&mut self, lane: ClientLane, target: UnitTarget) -> Option<(u64, u64)> {
        let queue = self.by.get_mut(&lane)?;
        let old = *queue.order.get(queue.sent)?;
        let behind = queue.sent.checked_sub(1).map_or(0, |before| queue.order[before]);
        let mut flight = self.flights.remove(&old)?;
        // A new number each time it is sent: what is told of an earlier one is of no use.
        self.next_number += 1;
        let number = self.next_number;
        self.deadlines.remove(&(flight.deadline_ms, old));
        self.deadlines.insert((flight.deadline_ms, number));
        (flight.is_sent, flight.is_waiting) = (true, false);
        self.flights.insert(number, flight);
        queue.order[queue.sent] = number;
        queue.sent += 1;
        queue.target = Some(target);
        queue.is_turned_back = false;
        Some((number, behind))
    }

    /// Takes a unit out: it was replied to, or is run here.
    pub(super) fn take(&mut self, number: u64, now_ms: u64) -> Option<Flight> {
        let flight = self.flights.remove(&number)?;
        self.deadlines.remove(&(flight.deadline_ms, number));
        self.bytes -= flight.unit.len();
        if let Some(queue) = self.by.get_mut(&flight.lane) {
            if queue.order.front() == Some(&number) {
                queue.order.pop_front();
            } else {
                queue.order.retain(|one| *one != number);
            }
            queue.sent -= usize::from(flight.is_sent);
            if queue.order.is_empty() {
                self.forget(flight.lane);
            } else if queue.sent == 0 && queue.due_ms.is_none() {
                let pause_ms = if queue.is_turned_back { RETRY_MS } else { 0 };
                self.look_at(flight.lane, now_ms + pause_ms);
            }
        }
        Some(flight)
    }

    /// Takes a unit up that could not be run here, before the others of its lane. `false`: there is no room.
    pub(super) fn push_first(
        &mut self,
        lane: ClientLane,
        ticket: Ticket,
        (unit, may_write): (Vec<u8>, bool),
        now_ms: u64,
    ) -> bool {
        if self.flights.len() >= UNDER_WAY_MAX || self.bytes + unit.len() > RELAYED_BYTES_MAX {
            return false;
        }
        let deadline_ms = now_ms.saturating_add(self.time_out_ms);
        self.put_back(
            Flight { lane, ticket, unit, may_write, deadline_ms, is_sent: false, is_waiting: false },
            now_ms,
        );
        true
    }

    /// Puts a unit back that could not be run here, before the others of its lane.
    pub(super) fn put_back(&mut self, flight: Flight, now_ms: u64) {
        self.next_number += 1;
        let (number, lane) = (self.next_number, flight.lane);
        self.bytes += flight.unit.len();
        self.deadlines.insert((flight.deadline_ms, number));
        self.flights.insert(number, Flight { is_sent: false, is_waiting: false, ..flight });
        let queue = self.by.entry(lane).or_default();
        // What is sent of them is behind it, and is waited for as if it had been turned back.
        queue.is_turned_back = true;
        queue.order.push_front(number);
        // Not before, whatever was said: all behind it would only wait for it.
        if let Some(due_ms) = queue.due_ms.take() {
            self.due.remove(&(due_ms, lane));
        }
        self.look_at(lane, now_ms + RETRY_MS);
    }

    /// A unit was told not to have been run.
    pub(super) fn not_run(&mut self, number: u64, now_ms: u64) {
        let Some(flight) = self.flights.get_mut(&number) else { return };
        if !std::mem::replace(&mut flight.is_sent, false) {
            return;
        }
        let lane = flight.lane;
        if let Some(queue) = self.by.get_mut(&lane) {
            queue.sent -= 1;
            queue.is_turned_back = true;
            if queue.sent == 0 {
                self.look_at(lane, now_ms + RETRY_MS);
            }
        }
    }

    /// A unit of a lane has perhaps written: what came before it and waits to be run again would see that.
    pub(super) fn written(
        &mut self,
        lane: ClientLane,
        ticket: Ticket,
        now_ms: u64,
        over: &mut Vec<FailedUnit>,
    ) {
        if self.by.is_empty() {
            return;
        }
        let waits_before = |number: &&u64| {
            self.flights.get(number).is_some_and(|flight| !flight.is_sent && flight.ticket < ticket)
        };
        let of_keyspace =
            |other: &ClientLane| (other.connection, other.keyspace) == (lane.connection, lane.keyspace);
        let first = ClientLane { bits: 0, partition: PartitionId(0), ..lane };
        let lanes = self.by.range(first..).take_while(|(other, _)| of_keyspace(other));
        let shared = lanes
            .filter(|(other, queue)| queue.is_turned_back && (other.covers(lane) || lane.covers(**other)));
        let before = shared.flat_map(|(_, queue)| queue.order.iter().filter(waits_before).copied());
        let before: Vec<u64> = before.collect();
        before.into_iter().for_each(|number| self.end(number, now_ms, over));
    }

    /// A unit waits where it is, until this time at most: `unit` is what to ask for if it is to be asked for again.
    pub(super) fn waits(&mut self, number: u64, unit: Vec<u8>, until_ms: u64) {
        let Some(flight) = self.flights.get_mut(&number) else { return };
        self.bytes = self.bytes - flight.unit.len() + unit.len();
        (flight.unit, flight.is_waiting) = (unit, true);
        self.deadlines.remove(&(flight.deadline_ms, number));
        flight.deadline_ms = until_ms.saturating_add(self.time_out_ms);
        self.deadlines.insert((flight.deadline_ms, number));
    }

    pub(super) fn unit_of(&self, number: u64) -> Option<&[u8]> {
        self.flights.get(&number).map(|flight| &flight.unit[..])
    }

    /// Where a unit was sent.
    pub(super) fn target_of(&self, number: u64) -> Option<UnitTarget> {
        let flight = self.flights.get(&number).filter(|flight| flight.is_sent)?;
        self.by.get(&flight.lane)?.target
    }

    /// Looks at a lane again at this time, or earlier if that was said before.
    pub(super) fn look_at(&mut self, lane: ClientLane, at_ms: u64) {
        let Some(queue) = self.by.get_mut(&lane) else { return };
        if queue.due_ms.is_some_and(|due_ms| due_ms <= at_ms) {
            return;
        }
        if let Some(due_ms) = queue.due_ms.replace(at_ms) {
            self.due.remove(&(due_ms, lane));
        }
        self.due.insert((at_ms, lane));
    }

    /// Nothing more is told by this target of what it was sent.
    pub(super) fn lost(&mut self, target: UnitTarget, now_ms: u64, over: &mut Vec<FailedUnit>) {
        let at_it = |(_, queue): &(&ClientLane, &LaneQueue)| queue.sent > 0 && queue.target == Some(target);
        let lanes: Vec<ClientLane> = self.by.iter().filter(at_it).map(|(lane, _)| *lane).collect();
        for lane in lanes {
            self.give_up_sent(lane, now_ms, over);
        }
    }

    /// The map has changed: `primary` says where all of a lane's partition is served now, and `is_down` that a target will not say more.
    pub(super) fn map_changed(
        &mut self,
        now_ms: u64,
        primary: impl Fn(ClientLane) -> Option<UnitTarget>,
        is_down: impl Fn(UnitTarget) -> bool,
        over: &mut Vec<FailedUnit>,
    ) {
        let lanes: Vec<ClientLane> = self.by.keys().copied().collect();
        for lane in lanes {
            let Some(queue) = self.by.get(&lane) else { continue };
            let sent: Vec<u64> =
                queue.order.iter().filter(|number| self.is_sent(**number)).copied().collect();
            match queue.target {
                Some(target) if !sent.is_empty() && primary(lane) != Some(target) => {
                    let writes = sent.iter().any(|number| self.flights[number].may_write);
                    if !writes {
                        self.give_up_sent(lane, now_ms, over);
                    } else {
                        // Who served it until now knows what became of them, if it still can say so.
                        let wait_ms = if is_down(target) { LEFT_MS } else { DEPOSED_MS };
                        sent.into_iter().for_each(|number| self.hurry(number, now_ms + wait_ms));
                    }
                }
                _ => {}
            }
            self.look_at(lane, now_ms);
        }
    }

    /// Units whose time is over.
    pub(super) fn overdue(&mut self, now_ms: u64, over: &mut Vec<FailedUnit>) {
        while let Some(&(deadline_ms, number)) = self.deadlines.first()
            && deadline_ms <= now_ms
        {
            self.end(number, now_ms, over);
        }
    }

    /// All of them end.
    pub(super) fn stop(&mut self, over: &mut Vec<FailedUnit>) {
        while let Some((&number, _)) = self.flights.first_key_value() {
            self.end(number, 0, over);
        }
    }

    /// Whether any are under way, or are to go, that do not wait for a record.
    pub(super) fn owes(&self) -> bool {
        self.flights.values().any(|flight| !flight.is_waiting)
    }

    /// A client is gone: what was not sent is not done.
    pub(super) fn closed(&mut self, connection: ConnectionId) {
        let of_it: Vec<ClientLane> = {
            let from = ClientLane { connection, keyspace: KeyspaceId(0), bits: 0, partition: PartitionId(0) };
            let lanes = self.by.range(from..).map(|(lane, _)| *lane);
            lanes.take_while(|lane| lane.connection == connection).collect()
        };
        for lane in of_it {
            let numbers = self.by.get(&lane).map(|queue| queue.order.clone()).unwrap_or_default();
            for number in numbers {
                self.take(number, 0);
            }
        }
    }

    /// When there is something to do though nothing comes.
    pub(super) fn next_ms(&self) -> Option<u64> {
        let due_ms = self.due.first().map(|(ms, _)| *ms);
        due_ms.into_iter().chain(self.deadlines.first().map(|(ms, _)| *ms)).min()
    }

    fn is_sent(&self, number: u64) -> bool {
        self.flights.get(&number).is_some_and(|flight| flight.is_sent)
    }

    /// Writes that were sent are in doubt; so is what stood before them, which must not see them; reads behind them wait.
    fn give_up_sent(&mut self, lane: ClientLane, now_ms: u64, over: &mut Vec<FailedUnit>) {
        let Some(queue) = self.by.get(&lane) else { return };
        let sent: Vec<u64> = queue.order.iter().filter(|number| self.is_sent(**number)).copied().collect();
        let writes =
            sent.iter().rposition(|number| self.flights[number].may_write).map_or(0, |last| last + 1);
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
        let Some(flight) = self.take(number, now_ms) else { return };
        let ended = if is_sent && flight.may_write { UnitFailure::InDoubt } else { UnitFailure::NotDone };
        over.push((flight.lane, flight.ticket, ended));
    }

    fn hurry(&mut self, number: u64, deadline_ms: u64) {
        let Some(flight) = self.flights.get_mut(&number) else { return };
        if flight.deadline_ms > deadline_ms {
            self.deadlines.remove(&(flight.deadline_ms, number));
            flight.deadline_ms = deadline_ms;
            self.deadlines.insert((deadline_ms, number));
        }
    }

    fn forget(&mut self, lane: ClientLane) {
        if let Some(LaneQueue { due_ms: Some(due_ms), .. }) = self.by.remove(&lane) {
            self.due.remove(&(due_ms, lane));
        }
    }
}

#[cfg(test)]
mod tests;
