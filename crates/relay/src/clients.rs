//! The Redis clients of one instance, and the units under way here for them and for other
//! instances.

use std::time::Duration;

use zerohop_base::connection::ConnectionId;
use zerohop_engine::disk::Disk;
use zerohop_placement::NodeState;
use zerohop_placement::limits::INSTANCES_PER_NODE_MAX;
use zerohop_placement::map::DEFAULT_KEYSPACE;
use zerohop_resp::{Connection, NextStep, PartitionPlace, Ticket, Unit};
use zerohop_shard::Instance;
use zerohop_wire::ids::Timestamp;
use zerohop_wire::messages::{Member, UnitReport, UnitRequest, UnitVerdict};
use zerohop_wire::{Envelope, Failure};

use super::client_queues::{ClientQueues, QueueId, UnitTarget};
use super::delays::Delays;
use super::limits::{BUSY_RETRY_MS, STEPS_PER_TURN_MAX};
use super::outage_hint::explained;
use super::planted::{Bug, is_planted};
use super::redis_client::RedisClient;
use super::remote::Head;
use super::scheduler::{RunningUnit, ScheduledStep, UnitOrigin, UnitScheduler, may_come_again, with_wait};
use super::unit_batches::{ReplyBatch, Units};
use super::world::ClientWorld;
use super::{RelayContext, UNIT_TOKEN_BIT, UnitAnswer};

/// The result of receiving bytes of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceivedBytes {
    /// Some bytes are used; the rest comes again with the bytes that follow.
    Used {
        /// Number of used bytes.
        used: usize,
        /// Minimum number of bytes, including the unused ones, before the next call; zero: call
        /// again as soon as the unsent replies permit it.
        need: usize,
        /// No more bytes may be passed on before [`RelayContext::resume`].
        pauses: bool,
        /// The used bytes still need a reply.
        waits: bool,
    },
    /// The conversation is over: send the reply and close.
    Close,
}

/// All Redis clients of an instance. The shell calls the methods on one thread, those of one turn in
/// this order: received bytes and messages, [`Clients::step`], then after each flush of the instance
/// [`Clients::send_answers`], then [`Clients::send`].
#[derive(Debug)]
pub struct Clients {
    /// By the slot of their connection.
    table: Vec<Option<RedisClient>>,
    next_client: u64,
    /// Clients that have recently sent a wrong password.
    delays: Delays,
    pub(super) scheduler: UnitScheduler,
}

/// Whether a unit is a page of a command over all partitions.
fn is_page(unit: Option<&[u8]>) -> bool {
    let unit = unit.and_then(|unit| Unit::decode(unit).ok());
    unit.is_some_and(|unit| unit.is_step() && unit.reads_past().is_none())
}

/// Bytes of the reply to such a page without any keys.
const EMPTY_PAGE_BYTES: usize = 18;

impl Clients {
    /// No clients. `place` is the instance's index on its node. Units wait at most `time_out` for
    /// their partition.
    pub fn new(place: usize, time_out: Duration) -> Clients {
        let scheduler = UnitScheduler::new(place, time_out);
        // Client numbers are unique in the process: each instance starts at its index and counts in
        // steps.
        Clients { table: Vec::new(), next_client: place as u64 + 1, delays: Delays::default(), scheduler }
    }

    /// The number of units that were run for clients.
    #[must_use]
    pub fn commands(&self) -> u64 {
        self.scheduler.commands
    }

    /// Number of units of this instance's clients that run elsewhere, or later.
    #[must_use]
    pub fn queued_units(&self) -> usize {
        self.scheduler.client_queues.len()
    }

    /// All clients, in the order of their connections.
    pub(super) fn clients(&self) -> impl Iterator<Item = &RedisClient> {
        self.table.iter().flatten()
    }

    fn run_of_other(
        &mut self,
        at: &mut impl RelayContext,
        (source, number, behind): (UnitTarget, u64, u64),
        to: PartitionPlace,
        bytes: &[u8],
    ) {
        let requester = UnitOrigin::Other { source, number };
        if self.scheduler.sent_back.follows_one(source, behind) && !is_planted(Bug::FollowerRuns) {
            return self.scheduler.send_back(source, number);
        }
        let ran = match Unit::decode(bytes) {
            Ok(unit) if unit.is_step() && self.scheduler.put_off(to, requester, &unit) => return,
            Ok(unit) if !unit.is_step() && !self.scheduler.is_full() => {
                let mut reply = Vec::new();
                let ran = self.scheduler.run(at, to, requester, &unit, &mut reply);
                ran.map(|is_done| is_done.then_some(reply))
            }
            Ok(_) => Err(Failure::Busy { retry_after_ms: BUSY_RETRY_MS }),
            Err(_) => Err(zerohop_wire::BadRequestReason::Unexpected.into()),
        };
        match ran {
            Ok(reply) => reply.into_iter().for_each(|reply| self.scheduler.reply(requester, reply)),
            Err(failure) if may_come_again(&failure) => self.scheduler.send_back(source, number),
            Err(failure) => self.scheduler.fail(requester, &failure),
        }
    }

    fn handle_message(
        &mut self,
        at: &mut impl RelayContext,
        number: u64,
        verdict: UnitVerdict,
        reply: &[u8],
    ) {
        let (queues, now) = (&mut self.scheduler.client_queues, at.now());
        if queues.target_of(number).is_none() {
            return;
        }
        let number = match verdict {
            UnitVerdict::Replied if is_planted(Bug::OutcomesByOrder) => {
                queues.first_of_queue(number).unwrap_or(number)
            }
            _ => number,
        };
        match verdict {
            UnitVerdict::Replied => {
                if let Some(queued) = queues.take_unit(number, now.elapsed_ms) {
                    if queued.may_write {
                        self.scheduler.written(now.elapsed_ms, queued.queue, queued.ticket);
                    }
                    self.deliver(at, queued.queue.connection, queued.ticket, reply);
                }
            }
            UnitVerdict::NotRun if is_planted(Bug::MovedPageEmpty) && is_page(queues.unit_of(number)) => {
                if let Some(queued) = queues.take_unit(number, now.elapsed_ms) {
                    self.deliver(at, queued.queue.connection, queued.ticket, &[0; EMPTY_PAGE_BYTES]);
                }
            }
            UnitVerdict::NotRun => queues.not_run(number, now.elapsed_ms),
            UnitVerdict::Waits(until_ms) => {
                let Some(unit) = queues.unit_of(number) else { return };
                let unit = with_wait(unit, until_ms);
                let left_ms = until_ms.saturating_sub(now.unix_ms);
                queues.waits(number, unit, now.elapsed_ms.saturating_add(left_ms));
            }
        }
    }

    /// Handles an answer of the instance. Whether a unit has run again because of it.
    fn handle_answer(&mut self, at: &mut impl RelayContext, number: u64, answer: UnitAnswer) -> bool {
        let Some(mut under_way) = self.scheduler.under_way.remove(&number) else { return false };
        let requester = under_way.reply_to;
        let waiting = match answer {
            UnitAnswer::Failed(failure) => {
                if under_way.may_write && !self.is_newest(requester) {
                    // A later unit may have run elsewhere.
                    under_way.retry_copy = None;
                }
                self.scheduler.failed(at, under_way, &failure);
                return false;
            }
            UnitAnswer::Reply(bytes) if under_way.waiting_unit.is_none() => {
                self.scheduler.reply(requester, bytes);
                return false;
            }
            // No wait for a record: the time-out means that the outcome is unknown.
            UnitAnswer::WaitEnded if under_way.waiting_unit.is_none() => {
                self.scheduler.failed(at, under_way, &Failure::TimedOut { version: Timestamp::ZERO });
                return false;
            }
            UnitAnswer::Reply(_) | UnitAnswer::WaitEnded => under_way.waiting_unit.take(),
        };
        match waiting {
            Some(waiting) if !waiting.is_waiting => {
                self.scheduler.enqueue(at, number, requester, waiting);
                false
            }
            Some(waiting) => {
                let unit = with_wait(&waiting.unit, waiting.waits.until_ms);
                let mut reply = Vec::new();
                let ran = match Unit::decode(&unit) {
                    Ok(unit) => self.scheduler.run(at, waiting.to, requester, &unit, &mut reply),
                    Err(_) => Err(zerohop_wire::BadRequestReason::Unexpected.into()),
                };
                match ran {
                    Ok(true) => self.scheduler.reply(requester, reply),
                    Ok(false) => {}
                    Err(failure) => {
                        self.scheduler.refused(at, waiting.to, requester, (unit, false), &failure)
                    }
                }
                true
            }
            None => false,
        }
    }

    /// Whether a client has sent nothing after this unit.
    fn is_newest(&self, requester: UnitOrigin) -> bool {
        let UnitOrigin::Client { connection, ticket } = requester else { return true };
        let client = self.table.get(connection.slot as usize).and_then(Option::as_ref);
        client.is_some_and(|client| client.id == connection && client.connection.is_newest(ticket))
    }

    fn deliver_ready(&mut self, at: &mut impl RelayContext) {
        while let Some((connection, ticket, reply)) = self.scheduler.ready.pop_front() {
            self.deliver(at, connection, ticket, &reply);
        }
    }

    /// Passes a reply to a client.
    fn deliver(&mut self, at: &mut impl RelayContext, id: ConnectionId, ticket: Ticket, reply: &[u8]) {
        let reply = explained(reply, at.reachability());
        self.serve(at, id, |client, here, out| client.connection.complete(ticket, &reply, here, out));
    }

    /// A client's delay after a wrong password is over.
    fn end_delay(&mut self, at: &mut impl RelayContext, id: ConnectionId) {
        self.serve(at, id, |client, _, _| {
            client.connection.end_delay();
            true
        });
    }

    /// Passes an event to a client: `hear` returns whether to receive more from it.
    fn serve<C: RelayContext>(
        &mut self,
        at: &mut C,
        id: ConnectionId,
        hear: impl FnOnce(&mut RedisClient, &mut ClientWorld<'_, C>, &mut Vec<u8>) -> bool,
    ) {
        let Some(mut client) = self.out_of_table(id) else { return };
        let mut out = Vec::new();
        let ends = self.scheduler.farewell.ends;
        let mut here =
            ClientWorld { at, scheduler: &mut self.scheduler, others: &self.table, connection: id };
        let mut goes_on = hear(&mut client, &mut here, &mut out);
        let mut closes = ends && !client.connection.is_waiting();
        if client.connection.awaits_output_space() && !out.is_empty() {
            // It continues once this is sent.
        } else if ends && !client.connection.awaits_output_space() {
            goes_on = false;
        } else if goes_on {
            // Without new bytes: it may have waited to close until all its output was sent.
            match client.connection.receive(&[], &mut here, &mut out).then {
                NextStep::More => {}
                NextStep::PauseInput => {
                    let waits = client.connection.is_waiting() && !client.connection.awaits_output_space();
                    goes_on = !(waits || client.connection.is_delayed())
                }
                NextStep::Close => closes = true,
            }
        }
        let (waits, buffered_bytes) = (client.connection.is_waiting(), client.connection.buffered_bytes());
        at.set_has_more(id, client.connection.awaits_output_space());
        self.table[id.slot as usize] = Some(client);
        at.set_buffered(id, buffered_bytes);
        if closes {
            at.close(id, &out);
        } else {
            at.resume(id, &out, !goes_on, waits);
        }
    }

    fn welcome(&mut self, id: ConnectionId, at: &impl RelayContext) -> RedisClient {
        let slot = id.slot as usize;
        if self.table.len() <= slot {
            self.table.resize_with(slot + 1, || None);
        }
        let number = self.next_client;
        self.next_client += INSTANCES_PER_NODE_MAX as u64;
        self.scheduler.clients += 1;
        let instance = at.instance();
        let me = instance.identity().instance;
        let local = instance.map().instance(me).map_or("", |instance| instance.addr);
        let now_us = at.now().unix_ms * 1000;
        // A peer that has disconnected meanwhile has no address.
        let address = at.peer(id).map_or_else(|| "?:0".to_owned(), |peer| peer.to_string());
        let connection = Connection::new(number, DEFAULT_KEYSPACE, &address, local, now_us);
        RedisClient { id, connection }
    }

    fn out_of_table(&mut self, id: ConnectionId) -> Option<RedisClient> {
        let entry = self.table.get_mut(id.slot as usize)?;
        entry.take_if(|client| client.id == id)
    }

    /// The reply to a unit over several partitions has arrived.
    pub fn cross_partition_reply(
        &mut self,
        (connection, ticket): (ConnectionId, Ticket),
        reply: &[u8],
        at: &mut impl RelayContext,
    ) {
        self.scheduler.cross_partition_count = self.scheduler.cross_partition_count.saturating_sub(1);
        self.deliver(at, connection, ticket, reply);
    }

    /// Receives bytes of a client. The replies that are ready go into `out`.
    pub fn receive(
        &mut self,
        id: ConnectionId,
        bytes: &[u8],
        at: &mut impl RelayContext,
        out: &mut Vec<u8>,
    ) -> ReceivedBytes {
        let mut client = match self.out_of_table(id) {
            Some(client) => client,
            None => self.welcome(id, at),
        };
        // No command is accepted any more, but a long reply goes on.
        if self.scheduler.farewell.ends && !client.connection.awaits_output_space() {
            let waits = client.connection.is_waiting();
            self.table[id.slot as usize] = Some(client);
            let paused = ReceivedBytes::Used { used: 0, need: 0, pauses: true, waits };
            return if waits { paused } else { ReceivedBytes::Close };
        }
        let bytes = if self.scheduler.farewell.ends { &[] } else { bytes };
        let mut here =
            ClientWorld { at, scheduler: &mut self.scheduler, others: &self.table, connection: id };
        let received = client.connection.receive(bytes, &mut here, out);
        let (waits, is_delayed) = (client.connection.is_waiting(), client.connection.is_delayed());
        let wants_room = client.connection.awaits_output_space();
        at.set_buffered(id, client.connection.buffered_bytes());
        at.set_has_more(id, wants_room);
        if is_delayed && let Some(times) = self.delays.wrong(id, at.now().elapsed_ms) {
            at.log_wrong_passwords(id, times);
        }
        let result = match received.then {
            NextStep::More => {
                let need = bytes.len() - received.used + 1;
                ReceivedBytes::Used { used: received.used, need, pauses: false, waits }
            }
            NextStep::PauseInput => {
                let holds = waits && !wants_room || is_delayed;
                ReceivedBytes::Used { used: received.used, need: 0, pauses: holds, waits }
            }
            NextStep::Close => ReceivedBytes::Close,
        };
        self.table[id.slot as usize] = Some(client);
        result
    }

    /// A connection has closed: a client's, or one to or from another instance. Time in milliseconds
    /// of the monotonic clock.
    pub fn closed(&mut self, id: ConnectionId, instance: &mut Instance<impl Disk>, now_ms: u64) {
        if let Some(client) = self.out_of_table(id) {
            self.scheduler.clients -= 1;
            self.scheduler.client_queues.closed(id);
            self.scheduler.end_pages(instance.map(), (id, client.connection.ends()), now_ms);
            return instance.disconnected(id.to_u64() | UNIT_TOKEN_BIT);
        }
        let target = UnitTarget::Wire(id);
        let mut over = Vec::new();
        self.scheduler.client_queues.fail_target(target, now_ms, &mut over);
        self.scheduler.over(over);
        self.scheduler.links.closed(id);
        self.scheduler.sent_back.closed(target);
        // The results of its waits have no receiver; pending units end by themselves.
        let is_of_it =
            |one: &RunningUnit| matches!(one.reply_to, UnitOrigin::Other { source, .. } if source == target);
        self.scheduler.under_way.retain(|_, one| one.waiting_unit.is_none() || !is_of_it(one));
    }

    /// The map has changed: units go to the current primaries of their partitions.
    pub fn map_changed(&mut self, at: &mut impl RelayContext) {
        let map = at.instance().map();
        let mut over = Vec::new();
        let mut queues =
            std::mem::replace(&mut self.scheduler.client_queues, ClientQueues::new(Duration::ZERO));
        let scheduler = &self.scheduler;
        let primary = |queue_id: QueueId| {
            let found = map.keyspace(queue_id.keyspace)?;
            // All partitions that the queue's partition has become, if the keyspace was split since.
            let (division, points) = (found.division(), queue_id.points.range());
            let position = |point| division.position(division.partition_at(point));
            let all = position(*points.start())?..=position(*points.end())?;
            let mut parts = all.map(|position| found.group(division.at(position)));
            let primary = parts.next()??.primary;
            let has_all = parts.all(|group| group.is_some_and(|group| group.primary == primary));
            scheduler.target(at, primary).filter(|_| has_all)
        };
        let is_down = |target| match target {
            UnitTarget::Sibling(_) => false,
            UnitTarget::Wire(connection) => {
                let at_it = at.instance_at(connection).and_then(|id| map.instance(id));
                let node = at_it.and_then(|instance| map.node(instance.node));
                node.is_none_or(|node| node.state() == NodeState::Down)
            }
        };
        queues.map_changed(at.now().elapsed_ms, primary, is_down, &mut over);
        self.scheduler.client_queues = queues;
        self.scheduler.over(over);
    }

    /// Runs units of the clients of another instance of this node.
    pub fn run_units(&mut self, units: &Units, at: &mut impl RelayContext) {
        let mut begin = 0;
        for item in &units.items {
            let bytes = &units.bytes[begin..item.end];
            begin = item.end;
            let source = UnitTarget::Sibling(units.from);
            self.run_of_other(at, (source, item.number, item.behind), item.to, bytes);
        }
    }

    /// Receives a piece of a unit of a client of another node's instance; runs the unit once
    /// complete.
    pub fn handle_unit_piece(
        &mut self,
        (connection, from): (ConnectionId, Member),
        envelope: &Envelope,
        query: &UnitRequest<'_>,
        at: &mut impl RelayContext,
    ) {
        let to = PartitionPlace { keyspace: envelope.keyspace, partition: envelope.partition };
        let UnitRequest { number, behind, total, at: begin, piece } = *query;
        let head = Head::RunUnit { number, behind, to };
        let Some(unit) = self.scheduler.links.receive_piece(connection, from, head, (total, begin, piece))
        else {
            return;
        };
        let source = UnitTarget::Wire(connection);
        if !self.scheduler.links.has_room(connection) {
            return self.scheduler.send_back(source, number);
        }
        self.run_of_other(at, (source, number, behind), to, &unit);
    }

    /// Receives the outcomes of units that another instance of this node had to run.
    pub fn units_completed(&mut self, replied: &ReplyBatch, at: &mut impl RelayContext) {
        let mut begin = 0;
        for item in &replied.items {
            let bytes = &replied.bytes[begin..item.end];
            begin = item.end;
            self.handle_message(at, item.number, item.verdict, bytes);
        }
    }

    /// Receives a piece of the outcome of a unit that an instance of another node had to run.
    pub fn handle_outcome_piece(
        &mut self,
        (connection, from): (ConnectionId, Member),
        report: &UnitReport<'_>,
        at: &mut impl RelayContext,
    ) {
        let UnitReport { number, verdict, total, at: begin, piece } = *report;
        if self.scheduler.client_queues.target_of(number) != Some(UnitTarget::Wire(connection)) {
            // It has timed out.
            return;
        }
        let head = Head::Outcome { number, verdict };
        let Some(reply) = self.scheduler.links.receive_piece(connection, from, head, (total, begin, piece))
        else {
            return;
        };
        self.handle_message(at, number, verdict, &reply);
    }

    /// Runs some of the steps that are not urgent, before the batch is flushed.
    pub fn step(&mut self, at: &mut impl RelayContext) {
        self.scheduler.pump(at);
        for _ in 0..STEPS_PER_TURN_MAX {
            let Some(ScheduledStep { to, reply_to: requester, unit: bytes }) =
                self.scheduler.steps.pop_front()
            else {
                return;
            };
            let mut reply = Vec::new();
            let (ran, may_write) = match Unit::decode(&bytes) {
                Ok(unit) => (self.scheduler.run(at, to, requester, &unit, &mut reply), unit.may_write()),
                Err(_) => (Err(zerohop_wire::BadRequestReason::Unexpected.into()), true),
            };
            match ran {
                Ok(true) => self.scheduler.reply(requester, reply),
                Ok(false) => {}
                Err(failure) => self.scheduler.refused(at, to, requester, (bytes, may_write), &failure),
            }
        }
    }

    /// The batch has been flushed: passes on the answers. Whether units have run again, which need a
    /// flush of their own.
    pub fn send_answers(&mut self, at: &mut impl RelayContext) -> bool {
        let mut has_run = false;
        while let Some(id) = self.delays.take_due(at.now().elapsed_ms) {
            self.end_delay(at, id);
        }
        let mut over = Vec::new();
        self.scheduler.client_queues.overdue(at.now().elapsed_ms, &mut over);
        self.scheduler.over(over);
        self.scheduler.end_overdue(at);
        while at.has_answers() || !self.scheduler.ready.is_empty() {
            for (number, answer) in at.take_answers() {
                has_run |= self.handle_answer(at, number, answer);
            }
            self.deliver_ready(at);
        }
        has_run
    }

    /// The turn ends: sends the other instances their units and replies.
    pub fn send(&mut self, at: &mut impl RelayContext) {
        self.scheduler.pump(at);
        let mut refused = Vec::new();
        self.scheduler.is_stuck = self.scheduler.outgoing.send(at, |number| refused.push(number));
        refused
            .into_iter()
            .for_each(|number| self.scheduler.client_queues.not_run(number, at.now().elapsed_ms));
        self.scheduler.is_stuck |= self.scheduler.links.flush(at);
        self.end_on(at);
    }

    /// When [`Clients::send_answers`] and [`Clients::send`] must run even if no event comes and no
    /// answer waits, in milliseconds of the monotonic clock.
    pub fn next_deadline_ms(&self, now_ms: u64) -> Option<u64> {
        let scheduler = &self.scheduler;
        if !scheduler.steps.is_empty() || !scheduler.ready.is_empty() {
            return Some(now_ms);
        }
        let retry_ms = scheduler.is_stuck.then_some(now_ms + 1);
        let other_ms = [
            scheduler.client_queues.next_ms(),
            scheduler.deadlines.next_ms(),
            self.delays.next_ms(),
            self.next_end_ms(),
        ];
        retry_ms.into_iter().chain(other_ms.into_iter().flatten()).min()
    }

    /// The instance stops: nothing under way elsewhere is awaited.
    pub fn stop(&mut self, at: &mut impl RelayContext) {
        for ScheduledStep { reply_to: requester, .. } in std::mem::take(&mut self.scheduler.steps) {
            if let UnitOrigin::Other { source, number } = requester {
                self.scheduler.send_back(source, number);
            }
        }
        for under_way in std::mem::take(&mut self.scheduler.under_way).into_values() {
            self.scheduler.failed(at, under_way, &Failure::TimedOut { version: Timestamp::ZERO });
        }
        let mut over = Vec::new();
        self.scheduler.client_queues.stop(&mut over);
        self.scheduler.over(over);
        self.deliver_ready(at);
        self.scheduler.outgoing.send(at, |_| ());
        self.scheduler.links.flush(at);
    }
}
