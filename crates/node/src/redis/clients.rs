//! The Redis clients of one instance, and the units of theirs and of other instances that are under way here.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;

use zerohop_engine::disk::Disk;
use zerohop_partition::instance::{Instance, Time};
use zerohop_partition::{Ran, Token};
use zerohop_placement::map::DEFAULT_KEYSPACE;
use zerohop_resp::{Connection, Place, Scratch, Then, Ticket, Unit, failure_reply};
use zerohop_wire::ids::{RequestId, Timestamp};
use zerohop_wire::messages::{Query, Read, Until};
use zerohop_wire::{Envelope, Failure, Message};

use super::execution::{Execution, Waits};
use super::forward::{Outgoing, Replied, Siblings, Units};
use super::limits::{
    BUSY_RETRY_MS, FORWARD_TIME_OUT_MS, STEPS_PER_TURN_MAX, STEPS_WAITING_MAX, UNDER_WAY_MAX, WAIT_MS_MAX,
};
use super::world::Here;
use crate::instance::{Effected, Outlet};
use crate::reactor::{ConnectionId, Foreign, Now, Replies};

/// What sets tokens of units apart from those of requests: no connection has so high a number.
pub(crate) const TOKEN_MARK: u64 = 1 << 31;

/// The connection of tokens of units that another instance asked for.
const OF_SIBLINGS: u64 = u64::MAX;

/// All Redis clients of an instance.
#[derive(Debug)]
pub(crate) struct Clients {
    /// By the slot of their connection.
    table: Vec<Option<Client>>,
    next_client: u64,
    pub(super) desk: Desk,
}

#[derive(Debug)]
pub(super) struct Client {
    id: ConnectionId,
    pub(super) connection: Connection,
}

/// What is under way, whoever asked for it.
#[derive(Debug)]
pub(super) struct Desk {
    under_way: BTreeMap<u64, UnderWay>,
    /// When those end that are at another instance, in milliseconds of the reactor's clock.
    deadlines: BTreeSet<(u64, u64)>,
    next_number: u64,
    pub(super) outgoing: Outgoing,
    scratch: Scratch,
    /// Where the effects of the instance go.
    pub(super) outlet: Outlet,
    steps: VecDeque<Step>,
    /// Replies to other instances found no room.
    is_stuck: bool,
    pub(super) commands: u64,
    pub(super) clients: u64,
}

/// What an instance answers to a unit that was held, or to a wait.
#[derive(Debug)]
pub(crate) enum Answer {
    /// The reply of its program.
    Reply(Vec<u8>),
    /// What it waited for has come, or the time has.
    Woken,
    /// It cannot be.
    Failed(Failure<'static>),
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Asker {
    Client { connection: ConnectionId, ticket: Ticket },
    Sibling { place: usize, number: u64 },
}

#[derive(Debug)]
struct UnderWay {
    asker: Asker,
    /// When it is given up, if it is at another instance.
    deadline_ms: Option<u64>,
    parked: Option<Box<Parked>>,
}

/// A unit that waits for a record.
#[derive(Debug)]
struct Parked {
    to: Place,
    unit: Vec<u8>,
    waits: Waits,
    /// What it has seen is committed, and the wait was handed to the partition.
    is_waiting: bool,
}

/// A step of a command that asks all partitions: it has time.
#[derive(Debug)]
struct Step {
    to: Place,
    asker: Asker,
    unit: Vec<u8>,
}

/// The instance, the time, and the way to answer its own clients.
pub(super) struct At<'a, 'r, D: Disk> {
    pub(super) instance: &'a mut Instance<D>,
    pub(super) now: Now,
    pub(super) replies: &'a mut Replies<'r>,
}

impl Asker {
    fn connection(self) -> u64 {
        match self {
            Asker::Client { connection, .. } => connection.to_u64() | TOKEN_MARK,
            Asker::Sibling { .. } => OF_SIBLINGS,
        }
    }
}

impl Desk {
    fn number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number
    }

    /// Whether one more unit may be under way.
    pub(super) fn is_full(&self) -> bool {
        self.under_way.len() >= UNDER_WAY_MAX
    }

    /// Runs a unit here. `true`: its reply has been appended; else it comes.
    #[inline]
    pub(super) fn run<D: Disk>(
        &mut self,
        at: &mut At<'_, '_, D>,
        to: Place,
        asker: Asker,
        unit: &Unit<'_>,
        reply: &mut Vec<u8>,
    ) -> bool {
        let number = self.number();
        let token = Token { connection: asker.connection(), request: RequestId(number) };
        let Desk { scratch, outlet, .. } = self;
        let mut program = Execution { unit, scratch, waits: None };
        let place = (to.keyspace, to.partition);
        let mut effects = Effected { replies: at.replies, outlet, now: at.now };
        let ran = at.instance.run(time(at.now), token, place, (&mut program, reply), &mut effects);
        let waits = program.waits.take();
        match (ran, waits) {
            (Ok(Ran::Now), None) => true,
            (Ok(Ran::Now), Some(waits)) => {
                let parked = Parked::new(to, unit, waits);
                self.park(at, number, asker, parked);
                false
            }
            (Ok(Ran::Later), waits) => {
                let parked = waits.map(|waits| Parked::new(to, unit, waits));
                self.under_way.insert(number, UnderWay { asker, deadline_ms: None, parked });
                false
            }
            (Err(failure), _) => {
                failure_reply(&failure, reply);
                true
            }
        }
    }

    /// Has a unit run again once its record has changed or its time is over.
    fn park<D: Disk>(&mut self, at: &mut At<'_, '_, D>, number: u64, asker: Asker, mut parked: Box<Parked>) {
        parked.is_waiting = true;
        let (to, Waits { key, version, until_ms }) = (parked.to, parked.waits.clone());
        if let Asker::Sibling { place, number } = asker {
            self.outgoing.waits(place, number, until_ms);
        }
        self.under_way.insert(number, UnderWay { asker, deadline_ms: None, parked: Some(parked) });
        let left_ms = until_ms.saturating_sub(at.now.unix_ms).clamp(1, WAIT_MS_MAX);
        let envelope = Envelope {
            keyspace: to.keyspace,
            partition: to.partition,
            time_out_ms: u32::try_from(left_ms).unwrap_or(u32::MAX),
            ..Envelope::default()
        };
        let until = if version == Timestamp::ZERO { Until::Present } else { Until::Changed(version) };
        let read = Read { key: &key, query: Query::Wait { until } };
        let message = Message::Read { seen: Timestamp::ZERO, read };
        let token = Token { connection: asker.connection(), request: RequestId(number) };
        let mut effects = Effected { replies: at.replies, outlet: &mut self.outlet, now: at.now };
        at.instance.request(time(at.now), token, &envelope, &message, &mut effects);
    }

    /// Sends a unit to the instance at a place. `false`: there is no room.
    pub(super) fn forward(
        &mut self,
        now: Now,
        place: usize,
        to: Place,
        asker: Asker,
        unit: &Unit<'_>,
    ) -> bool {
        let number = self.number();
        if !self.outgoing.unit(place, number, to, unit) {
            return false;
        }
        let deadline_ms = now.elapsed_ms + FORWARD_TIME_OUT_MS;
        self.deadlines.insert((deadline_ms, number));
        self.under_way.insert(number, UnderWay { asker, deadline_ms: Some(deadline_ms), parked: None });
        true
    }

    /// Puts off a step of a command that asks all partitions. `false`: there is no room.
    pub(super) fn put_off(&mut self, to: Place, asker: Asker, unit: &Unit<'_>) -> bool {
        if self.steps.len() >= STEPS_WAITING_MAX {
            return false;
        }
        let mut bytes = Vec::new();
        unit.encode(&mut bytes);
        self.steps.push_back(Step { to, asker, unit: bytes });
        true
    }

    fn take(&mut self, number: u64) -> Option<UnderWay> {
        let under_way = self.under_way.remove(&number)?;
        if let Some(deadline_ms) = under_way.deadline_ms {
            self.deadlines.remove(&(deadline_ms, number));
        }
        Some(under_way)
    }
}

impl Parked {
    fn new(to: Place, unit: &Unit<'_>, waits: Waits) -> Box<Parked> {
        let mut bytes = Vec::new();
        unit.encode(&mut bytes);
        Box::new(Parked { to, unit: bytes, waits, is_waiting: false })
    }
}

impl Clients {
    /// None yet; this is the instance at a place among those of its node.
    pub(crate) fn new(place: usize, outlet: Outlet) -> Clients {
        let desk = Desk {
            under_way: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            next_number: 0,
            outgoing: Outgoing::new(place),
            scratch: Scratch::default(),
            outlet,
            steps: VecDeque::new(),
            is_stuck: false,
            commands: 0,
            clients: 0,
        };
        // Numbers of clients are unique in the process, whose instances count alternately.
        Clients { table: Vec::new(), next_client: place as u64 + 1, desk }
    }

    /// Where the effects of the instance go, among them what answers units.
    pub(crate) fn outlet(&mut self) -> &mut Outlet {
        &mut self.desk.outlet
    }

    /// All instances of the node are there.
    pub(crate) fn meet(&mut self, siblings: Siblings) {
        self.desk.outgoing.meet(siblings);
    }

    /// Takes up what a client has sent.
    pub(crate) fn receive<D: Disk>(
        &mut self,
        id: ConnectionId,
        bytes: &[u8],
        (instance, now, replies): (&mut Instance<D>, Now, &mut Replies<'_>),
        out: &mut Vec<u8>,
    ) -> Foreign {
        let mut client = match self.out_of_table(id) {
            Some(client) => client,
            None => self.welcome(id, instance, now, replies.peer(id)),
        };
        let at = At { instance, now, replies };
        let mut here = Here { at, desk: &mut self.desk, others: &self.table, connection: id };
        let received = client.connection.receive(bytes, &mut here, out);
        let waits = client.connection.is_waiting();
        let result = match received.then {
            Then::More => {
                let need = bytes.len() - received.used + 1;
                Foreign::Used { used: received.used, need, holds: false, waits }
            }
            Then::Hold => Foreign::Used { used: received.used, need: 0, holds: waits, waits },
            Then::Close => Foreign::Close,
        };
        self.table[id.slot as usize] = Some(client);
        result
    }

    /// A connection has closed.
    pub(crate) fn closed<D: Disk>(&mut self, id: ConnectionId, instance: &mut Instance<D>) {
        if self.out_of_table(id).is_some() {
            self.desk.clients -= 1;
            instance.disconnected(id.to_u64() | TOKEN_MARK);
        }
    }

    /// Runs units of another instance's clients.
    pub(crate) fn run_for<D: Disk>(
        &mut self,
        units: &Units,
        (instance, now, replies): (&mut Instance<D>, Now, &mut Replies<'_>),
    ) {
        let mut at = At { instance, now, replies };
        let (mut begin, mut reply) = (0, Vec::new());
        for item in &units.items {
            let bytes = &units.bytes[begin..item.end];
            begin = item.end;
            reply.clear();
            let asker = Asker::Sibling { place: units.from, number: item.number };
            let done = match Unit::decode(bytes) {
                Ok(unit) if unit.is_page() && self.desk.put_off(item.to, asker, &unit) => false,
                Ok(unit) if !unit.is_page() && !self.desk.is_full() => {
                    self.desk.run(&mut at, item.to, asker, &unit, &mut reply)
                }
                Ok(_) => {
                    failure_reply(&Failure::Busy { retry_after_ms: BUSY_RETRY_MS }, &mut reply);
                    true
                }
                Err(_) => {
                    failure_reply(&zerohop_wire::What::Unexpected.into(), &mut reply);
                    true
                }
            };
            if done {
                self.desk.outgoing.reply(units.from, item.number, &reply);
            }
        }
    }

    /// Takes replies of units that were run elsewhere.
    pub(crate) fn ran<D: Disk>(
        &mut self,
        replied: &Replied,
        (instance, now, replies): (&mut Instance<D>, Now, &mut Replies<'_>),
    ) {
        let mut at = At { instance, now, replies };
        let mut begin = 0;
        for item in &replied.items {
            let bytes = &replied.bytes[begin..item.end];
            begin = item.end;
            let Some(mut under_way) = self.desk.take(item.number) else { continue };
            match item.waits_until_ms {
                None => self.deliver(&mut at, under_way.asker, bytes),
                Some(until_ms) => {
                    let left_ms = until_ms.saturating_sub(now.unix_ms);
                    let deadline_ms = now.elapsed_ms.saturating_add(left_ms) + FORWARD_TIME_OUT_MS;
                    under_way.deadline_ms = Some(deadline_ms);
                    self.desk.deadlines.insert((deadline_ms, item.number));
                    self.desk.under_way.insert(item.number, under_way);
                }
            }
        }
    }

    /// Some of what has time, before the batch is flushed.
    pub(crate) fn step<D: Disk>(
        &mut self,
        (instance, now, replies): (&mut Instance<D>, Now, &mut Replies<'_>),
    ) {
        let mut at = At { instance, now, replies };
        let mut reply = Vec::new();
        for _ in 0..STEPS_PER_TURN_MAX {
            let Some(Step { to, asker, unit }) = self.desk.steps.pop_front() else { return };
            reply.clear();
            let done = match Unit::decode(&unit) {
                Ok(unit) => self.desk.run(&mut at, to, asker, &unit, &mut reply),
                Err(_) => {
                    failure_reply(&zerohop_wire::What::Unexpected.into(), &mut reply);
                    true
                }
            };
            if done {
                self.deliver(&mut at, asker, &reply);
            }
        }
    }

    /// The batch has been flushed: hands on what that has answered. Whether units have run again, which want a flush of
    /// their own.
    pub(crate) fn settle<D: Disk>(
        &mut self,
        (instance, now, replies): (&mut Instance<D>, Now, &mut Replies<'_>),
    ) -> bool {
        let mut at = At { instance, now, replies };
        let mut has_run = false;
        while !self.desk.outlet.answered.is_empty() {
            for (number, answer) in std::mem::take(&mut self.desk.outlet.answered) {
                has_run |= self.take_answer(&mut at, number, answer);
            }
        }
        while let Some(&(deadline_ms, number)) = self.desk.deadlines.first()
            && deadline_ms <= now.elapsed_ms
        {
            if let Some(under_way) = self.desk.take(number) {
                self.fail(&mut at, under_way.asker, &Failure::TimedOut { version: Timestamp::ZERO });
            } else {
                self.desk.deadlines.pop_first();
            }
        }
        has_run
    }

    /// The turn ends: tells the other instances what there is for them.
    pub(crate) fn send<D: Disk>(
        &mut self,
        (instance, now, replies): (&mut Instance<D>, Now, &mut Replies<'_>),
    ) {
        let mut at = At { instance, now, replies };
        let mut refused = Vec::new();
        self.desk.is_stuck = self.desk.outgoing.send(|number| refused.push(number));
        for number in refused {
            if let Some(under_way) = self.desk.take(number) {
                self.fail(&mut at, under_way.asker, &Failure::Busy { retry_after_ms: BUSY_RETRY_MS });
            }
        }
    }

    /// When [`Clients::settle`] and [`Clients::send`] have something to do though nothing comes.
    pub(crate) fn next_deadline_ms(&self, now_ms: u64) -> Option<u64> {
        if !self.desk.steps.is_empty() || !self.desk.outlet.answered.is_empty() {
            return Some(now_ms);
        }
        let retry_ms = self.desk.is_stuck.then_some(now_ms + 1);
        let deadline_ms = self.desk.deadlines.first().map(|(deadline_ms, _)| *deadline_ms);
        retry_ms.into_iter().chain(deadline_ms).min()
    }

    /// The reactor stops: nothing that is under way elsewhere is waited for.
    pub(crate) fn stop<D: Disk>(
        &mut self,
        (instance, now, replies): (&mut Instance<D>, Now, &mut Replies<'_>),
    ) {
        let mut at = At { instance, now, replies };
        self.desk.steps.clear();
        let numbers: Vec<u64> = self.desk.under_way.keys().copied().collect();
        for number in numbers {
            if let Some(under_way) = self.desk.take(number) {
                self.fail(&mut at, under_way.asker, &Failure::TimedOut { version: Timestamp::ZERO });
            }
        }
        self.desk.outgoing.send(|_| ());
    }

    /// An answer of the instance. Whether a unit has run again because of it.
    fn take_answer<D: Disk>(&mut self, at: &mut At<'_, '_, D>, number: u64, answer: Answer) -> bool {
        let Some(UnderWay { asker, parked, .. }) = self.desk.take(number) else { return false };
        match (answer, parked) {
            (Answer::Failed(failure), _) => {
                self.fail(at, asker, &failure);
                false
            }
            (Answer::Reply(bytes), None) => {
                self.deliver(at, asker, &bytes);
                false
            }
            (_, Some(parked)) if !parked.is_waiting => {
                self.desk.park(at, number, asker, parked);
                false
            }
            (_, Some(parked)) => {
                let mut reply = Vec::new();
                let done = match Unit::decode(&parked.unit) {
                    Ok(mut unit) => {
                        unit.wait_until_ms = Some(parked.waits.until_ms);
                        self.desk.run(at, parked.to, asker, &unit, &mut reply)
                    }
                    Err(_) => {
                        failure_reply(&zerohop_wire::What::Unexpected.into(), &mut reply);
                        true
                    }
                };
                if done {
                    self.deliver(at, asker, &reply);
                }
                true
            }
            // Nobody waits but what is parked.
            (Answer::Woken, None) => false,
        }
    }

    fn fail<D: Disk>(&mut self, at: &mut At<'_, '_, D>, asker: Asker, failure: &Failure<'_>) {
        let mut reply = Vec::new();
        failure_reply(failure, &mut reply);
        self.deliver(at, asker, &reply);
    }

    /// Hands a reply to whoever asked.
    fn deliver<D: Disk>(&mut self, at: &mut At<'_, '_, D>, asker: Asker, reply: &[u8]) {
        let (id, ticket) = match asker {
            Asker::Sibling { place, number } => return self.desk.outgoing.reply(place, number, reply),
            Asker::Client { connection, ticket } => (connection, ticket),
        };
        let Some(mut client) = self.out_of_table(id) else { return };
        let mut out = Vec::new();
        let At { instance, now, replies } = at;
        let at = At { instance, now: *now, replies };
        let mut here = Here { at, desk: &mut self.desk, others: &self.table, connection: id };
        let mut goes_on = client.connection.complete(ticket, reply, &mut here, &mut out);
        let mut closes = false;
        if goes_on {
            // It may have been waiting to close, and what it was sent is all taken.
            match client.connection.receive(&[], &mut here, &mut out).then {
                Then::More => {}
                Then::Hold => goes_on = !client.connection.is_waiting(),
                Then::Close => closes = true,
            }
        }
        let waits = client.connection.is_waiting();
        self.table[id.slot as usize] = Some(client);
        if closes {
            replies.close(id, &out);
        } else {
            replies.resume(id, &out, !goes_on, waits);
        }
    }

    fn welcome<D: Disk>(
        &mut self,
        id: ConnectionId,
        instance: &Instance<D>,
        now: Now,
        peer: Option<SocketAddr>,
    ) -> Client {
        let slot = id.slot as usize;
        if self.table.len() <= slot {
            self.table.resize_with(slot + 1, || None);
        }
        let number = self.next_client;
        self.next_client += crate::server::limits::INSTANCES_MAX as u64;
        self.desk.clients += 1;
        let me = instance.identity().instance;
        let local = instance.map().instance(me).map_or("", |instance| instance.addr);
        let now_us = now.unix_ms * 1000;
        // A peer that has gone meanwhile has no address any more.
        let address = peer.map_or_else(|| "?:0".to_owned(), |peer| peer.to_string());
        let connection = Connection::new(number, DEFAULT_KEYSPACE, &address, local, now_us);
        Client { id, connection }
    }

    fn out_of_table(&mut self, id: ConnectionId) -> Option<Client> {
        let entry = self.table.get_mut(id.slot as usize)?;
        entry.take_if(|client| client.id == id)
    }
}

pub(super) fn time(now: Now) -> Time {
    Time { unix_ms: now.unix_ms, elapsed_ms: now.elapsed_ms }
}
