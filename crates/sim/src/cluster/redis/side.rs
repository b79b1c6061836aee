//! The Redis clients of one instance, with their connections: the counterpart of `gateways/redis`.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;

use zerohop_base::connection::ConnectionId;
use zerohop_base::random::Random;
use zerohop_engine::disk::simulated::SimulatedDisk;
use zerohop_partition::{Program, ProgramResult, Token};
use zerohop_relay::{Clients, CrossPartition, ReceivedBytes, RelayContext, ReplyBatch, UnitAnswer, Units};
use zerohop_resp::{ServerInfo, Ticket};
use zerohop_shard::{ClockReading, Instance};
use zerohop_wire::auth::Access;
use zerohop_wire::ids::{InstanceId, KeyspaceId, PartitionId};
use zerohop_wire::messages::{Member, PeerBody, PeerMessage};
use zerohop_wire::{DecodeResult, Decoder, Encoder, Envelope, Failure, Features, Message, Permission};

use super::super::instance_turn::Collect;
use super::super::redis_turn::{RedisTurn, SiblingMessage};
use crate::network::{LinkArrival, LinkEnd, LinkId};

/// How often a queue to another instance of the node is full: one of so many times.
const FULL_ONE_OF: u64 = 60;

/// The longest pause before an instance connects to another one again.
const RECONNECT_MS_MAX: u64 = 100;

/// Flushes in one turn: units that waited continue with what the first one has made durable.
const FLUSHES_PER_TURN_MAX: usize = 4;

/// Something for the Redis side of an instance.
#[derive(Debug)]
pub(in crate::cluster) enum RedisArrival {
    /// Over a connection of a client.
    FromClient(LinkId, LinkArrival),
    /// Over a connection that another instance has opened.
    FromInstance(LinkId, LinkArrival),
    /// Over a connection to another instance that this one has opened.
    OverOwnLink(LinkId, InstanceId, LinkArrival),
    /// From another instance of the node.
    Sibling(SiblingMessage),
}

/// See the module.
#[derive(Debug)]
pub(in crate::cluster) struct RedisSide {
    clients: Clients,
    ends: ConnectionEnds,
}

/// The instance's ends of connections.
#[derive(Debug)]
struct ConnectionEnds {
    siblings: Vec<InstanceId>,
    random: Random,
    by_link: BTreeMap<LinkId, ConnectionId>,
    by: BTreeMap<ConnectionId, OpenConnection>,
    /// The generation of each slot, and the free slots.
    generations: Vec<u32>,
    free: Vec<u32>,
    links: BTreeMap<InstanceId, LinkProgress>,
    turn: RedisTurn,
    inbox: VecDeque<RedisArrival>,
    /// Answers of the instance that were not passed on in their turn.
    answers: Vec<(u64, UnitAnswer)>,
    has_more: bool,
}

#[derive(Debug)]
struct OpenConnection {
    link: LinkId,
    peer: ConnectionPeer,
    input: Vec<u8>,
    out: Vec<u8>,
    /// No more bytes are passed on for now.
    is_paused: bool,
    is_closing: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConnectionPeer {
    Client,
    /// An instance that has opened the connection.
    Caller,
    /// An instance to which this one has opened it.
    Called,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LinkProgress {
    Waiting { again_ms: u64 },
    Calling,
    Open(ConnectionId),
}

/// The instance with the Redis side's connections, during one call.
struct SimulatedContext<'c, 's> {
    instance: &'c mut Instance<SimulatedDisk>,
    now: ClockReading,
    ends: &'c mut ConnectionEnds,
    collect: &'c mut Collect<'s>,
}

impl RedisSide {
    pub(in crate::cluster) fn new(
        (place, siblings): (usize, Vec<InstanceId>),
        time_out_ms: u64,
        random: Random,
    ) -> RedisSide {
        let ends = ConnectionEnds {
            siblings,
            random,
            by_link: BTreeMap::new(),
            by: BTreeMap::new(),
            generations: Vec::new(),
            free: Vec::new(),
            links: BTreeMap::new(),
            turn: RedisTurn::default(),
            inbox: VecDeque::new(),
            answers: Vec::new(),
            has_more: false,
        };
        RedisSide { clients: Clients::new(place, Duration::from_millis(time_out_ms)), ends }
    }

    pub(in crate::cluster) fn arrive(&mut self, what: RedisArrival) {
        self.ends.inbox.push_back(what);
    }

    /// What the turn leaves to do.
    pub(in crate::cluster) fn take_turn(&mut self) -> RedisTurn {
        std::mem::take(&mut self.ends.turn)
    }

    /// When it must have a turn even if nothing arrives, in milliseconds of the monotonic clock.
    pub(in crate::cluster) fn next_deadline_ms(&self, now_ms: u64) -> Option<u64> {
        let at_once = self.ends.has_more || !self.ends.answers.is_empty() || !self.ends.inbox.is_empty();
        if at_once { Some(now_ms) } else { self.clients.next_deadline_ms(now_ms) }
    }

    /// One turn: everything that has arrived, the flushes of the instance, and what follows.
    pub(in crate::cluster) fn run_turn(
        &mut self,
        instance: &mut Instance<SimulatedDisk>,
        now: ClockReading,
        collect: &mut Collect<'_>,
    ) {
        self.ends.has_more = false;
        while let Some(what) = self.ends.inbox.pop_front() {
            self.handle(what, instance, now, collect);
        }
        self.clients.step(&mut self.ends.context(instance, now, collect));
        for _ in 0..FLUSHES_PER_TURN_MAX {
            instance.end_of_batch(now, collect);
            if !self.clients.send_answers(&mut self.ends.context(instance, now, collect)) {
                break;
            }
        }
        self.receive_all(instance, now, collect);
        self.clients.send(&mut self.ends.context(instance, now, collect));
        self.end_turn(collect);
    }

    /// The map has changed; `is_split`: some keyspace has more partitions now.
    pub(in crate::cluster) fn map_changed(
        &mut self,
        is_split: bool,
        instance: &mut Instance<SimulatedDisk>,
        now: ClockReading,
        collect: &mut Collect<'_>,
    ) {
        if is_split {
            self.ends.turn.counts.queued_over_splits += self.clients.queued_units() as u64;
        }
        self.clients.map_changed(&mut self.ends.context(instance, now, collect));
    }

    /// The instance has stopped.
    pub(in crate::cluster) fn stop(
        &mut self,
        instance: &mut Instance<SimulatedDisk>,
        now: ClockReading,
        collect: &mut Collect<'_>,
    ) {
        self.clients.send_answers(&mut self.ends.context(instance, now, collect));
        self.clients.stop(&mut self.ends.context(instance, now, collect));
        self.end_turn(collect);
    }

    fn handle(
        &mut self,
        what: RedisArrival,
        instance: &mut Instance<SimulatedDisk>,
        now: ClockReading,
        collect: &mut Collect<'_>,
    ) {
        match what {
            RedisArrival::FromClient(link, what) => {
                self.over_link((link, ConnectionPeer::Client), what, instance, now, collect);
            }
            RedisArrival::FromInstance(link, what) => {
                self.over_link((link, ConnectionPeer::Caller), what, instance, now, collect);
            }
            RedisArrival::OverOwnLink(link, to, what) => {
                let again_ms = now.elapsed_ms + 1 + self.ends.random.below(RECONNECT_MS_MAX);
                let is_up = match &what {
                    LinkArrival::Opened => Some(true),
                    LinkArrival::Bytes(_) => None,
                    LinkArrival::Refused | LinkArrival::Disconnected => Some(false),
                };
                self.over_link((link, ConnectionPeer::Called), what, instance, now, collect);
                match (is_up, self.ends.by_link.get(&link)) {
                    (Some(true), Some(id)) => drop(self.ends.links.insert(to, LinkProgress::Open(*id))),
                    (Some(false), _) => drop(self.ends.links.insert(to, LinkProgress::Waiting { again_ms })),
                    _ => {}
                }
            }
            RedisArrival::Sibling(SiblingMessage::Run(units)) => {
                self.clients.run_for(&units, &mut self.ends.context(instance, now, collect));
            }
            RedisArrival::Sibling(SiblingMessage::Ran(replies)) => {
                self.ends.count_outcomes(replies.items.iter().map(|item| item.verdict));
                self.clients.ran(&replies, &mut self.ends.context(instance, now, collect));
            }
        }
    }

    fn over_link(
        &mut self,
        (link, peer): (LinkId, ConnectionPeer),
        what: LinkArrival,
        instance: &mut Instance<SimulatedDisk>,
        now: ClockReading,
        collect: &mut Collect<'_>,
    ) {
        match what {
            LinkArrival::Opened => self.ends.open(link, peer),
            LinkArrival::Bytes(bytes) => {
                let Some(&id) = self.ends.by_link.get(&link) else { return };
                let Some(connection) = self.ends.by.get_mut(&id) else { return };
                connection.input.extend_from_slice(&bytes);
                match peer {
                    ConnectionPeer::Client => self.receive(id, instance, now, collect),
                    ConnectionPeer::Caller | ConnectionPeer::Called => {
                        self.handle_frames(id, instance, now, collect);
                    }
                }
            }
            LinkArrival::Refused | LinkArrival::Disconnected => {
                let Some(id) = self.ends.by_link.get(&link).copied() else { return };
                self.ends.forget(id);
                self.ends.turn.counts.links_lost += u64::from(peer != ConnectionPeer::Client);
                self.clients.closed(id, instance, now.elapsed_ms);
            }
        }
    }

    /// Passes on what clients have sent that were paused.
    fn receive_all(
        &mut self,
        instance: &mut Instance<SimulatedDisk>,
        now: ClockReading,
        collect: &mut Collect<'_>,
    ) {
        let waiting =
            self.ends.by.iter().filter(|(_, one)| {
                one.peer == ConnectionPeer::Client && !one.is_paused && !one.input.is_empty()
            });
        let waiting: Vec<ConnectionId> = waiting.map(|(id, _)| *id).collect();
        waiting.into_iter().for_each(|id| self.receive(id, instance, now, collect));
    }

    /// Passes on what a client has sent, as far as it is complete.
    fn receive(
        &mut self,
        id: ConnectionId,
        instance: &mut Instance<SimulatedDisk>,
        now: ClockReading,
        collect: &mut Collect<'_>,
    ) {
        loop {
            let Some(one) = self.ends.by.get_mut(&id) else { return };
            if one.is_paused || one.is_closing || one.input.is_empty() {
                return;
            }
            let input = std::mem::take(&mut one.input);
            let mut out = Vec::new();
            let received =
                self.clients.receive(id, &input, &mut self.ends.context(instance, now, collect), &mut out);
            let Some(one) = self.ends.by.get_mut(&id) else { return };
            one.out.extend_from_slice(&out);
            match received {
                ReceivedBytes::Close => one.is_closing = true,
                ReceivedBytes::Used { used, need, pauses, .. } => {
                    one.input = input[used..].to_vec();
                    one.is_paused = pauses;
                    if need > 0 || used == 0 {
                        return;
                    }
                }
            }
        }
    }

    fn handle_frames(
        &mut self,
        id: ConnectionId,
        instance: &mut Instance<SimulatedDisk>,
        now: ClockReading,
        collect: &mut Collect<'_>,
    ) {
        let Some(one) = self.ends.by.get_mut(&id) else { return };
        let input = std::mem::take(&mut one.input);
        let decoder = Decoder::with_version(zerohop_wire::GREETING_VERSION, Features::default());
        let (mut rest, mut scratch) = (&input[..], Vec::new());
        while let DecodeResult::Frame { frame, used } = decoder.decode(rest) {
            if let Ok(Message::Peer(PeerMessage { from, body, .. })) = frame.message(&mut scratch) {
                match &body {
                    PeerBody::UnitAsk(ask) => self.clients.handle_unit_piece(
                        (id, from),
                        &frame.envelope,
                        ask,
                        &mut self.ends.context(instance, now, collect),
                    ),
                    PeerBody::UnitReply(unit_outcome) => {
                        self.ends.count_outcomes([unit_outcome.verdict]);
                        let at = &mut self.ends.context(instance, now, collect);
                        self.clients.handle_outcome_piece((id, from), unit_outcome, at);
                    }
                    _ => {}
                }
            }
            rest = &rest[used..];
        }
        if let Some(one) = self.ends.by.get_mut(&id) {
            one.input = rest.to_vec();
        }
    }

    fn end_turn(&mut self, collect: &mut Collect<'_>) {
        self.ends.answers.append(&mut collect.output.unit_answers);
        let mut closing = Vec::new();
        for (id, one) in &mut self.ends.by {
            let to = if one.peer == ConnectionPeer::Called { LinkEnd::Node } else { LinkEnd::Opener };
            if !one.out.is_empty() {
                self.ends.turn.sent.push((one.link, to, std::mem::take(&mut one.out)));
            }
            if one.is_closing {
                closing.push((*id, one.link, to));
            }
        }
        for (id, link, to) in closing {
            self.ends.turn.closed.push((link, to));
            // The other end's farewell comes to a connection that is closed already.
            self.ends.has_more = true;
            self.ends.inbox.push_back(RedisArrival::FromClient(link, LinkArrival::Disconnected));
            if let Some(one) = self.ends.by.get_mut(&id) {
                (one.is_closing, one.is_paused) = (false, true);
            }
        }
    }
}

impl ConnectionEnds {
    fn context<'c, 's>(
        &'c mut self,
        instance: &'c mut Instance<SimulatedDisk>,
        now: ClockReading,
        collect: &'c mut Collect<'s>,
    ) -> SimulatedContext<'c, 's> {
        SimulatedContext { instance, now, ends: self, collect }
    }

    fn open(&mut self, link: LinkId, peer: ConnectionPeer) {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.generations.push(0);
            self.generations.len() as u32 - 1
        });
        let id = ConnectionId { slot, generation: self.generations[slot as usize] };
        self.by_link.insert(link, id);
        let (input, out) = (Vec::new(), Vec::new());
        self.by.insert(id, OpenConnection { link, peer, input, out, is_paused: false, is_closing: false });
    }

    fn forget(&mut self, id: ConnectionId) {
        if let Some(one) = self.by.remove(&id) {
            self.by_link.remove(&one.link);
            self.generations[id.slot as usize] += 1;
            self.free.push(id.slot);
        }
    }

    fn count_outcomes(&mut self, outcomes: impl IntoIterator<Item = zerohop_wire::messages::UnitVerdict>) {
        use zerohop_wire::messages::UnitVerdict;
        for outcome in outcomes {
            self.turn.counts.sent_back += u64::from(outcome == UnitVerdict::NotRun);
            self.turn.counts.waits_elsewhere += u64::from(matches!(outcome, UnitVerdict::Waits(_)));
        }
    }
}

impl RelayContext for SimulatedContext<'_, '_> {
    type Disk = SimulatedDisk;

    fn instance(&self) -> &Instance<SimulatedDisk> {
        self.instance
    }

    fn now(&self) -> ClockReading {
        self.now
    }

    fn run(
        &mut self,
        token: Token,
        place: (KeyspaceId, PartitionId),
        program: (&mut impl Program, &mut Vec<u8>),
    ) -> Result<ProgramResult, Failure<'static>> {
        self.instance.run(self.now, token, place, program, self.collect)
    }

    fn request(&mut self, token: Token, envelope: &Envelope, message: &Message<'_>) {
        self.ends.turn.counts.waits += 1;
        self.instance.request(self.now, token, envelope, message, self.collect);
    }

    fn has_answers(&self) -> bool {
        !self.ends.answers.is_empty() || !self.collect.output.unit_answers.is_empty()
    }

    fn take_answers(&mut self) -> Vec<(u64, UnitAnswer)> {
        let mut all = std::mem::take(&mut self.ends.answers);
        all.append(&mut self.collect.output.unit_answers);
        all
    }

    fn sibling(&self, instance: InstanceId) -> Option<usize> {
        self.ends.siblings.iter().position(|known| *known == instance)
    }

    fn send_units(&mut self, place: usize, units: Units) -> Result<(), Units> {
        if self.ends.random.chance(1, FULL_ONE_OF) {
            return Err(units);
        }
        self.ends.turn.counts.to_siblings += units.items.len() as u64;
        self.ends.turn.siblings.push((place, SiblingMessage::Run(units)));
        Ok(())
    }

    fn send_replies(&mut self, place: usize, replies: ReplyBatch) -> Result<(), ReplyBatch> {
        if self.ends.random.chance(1, FULL_ONE_OF) {
            return Err(replies);
        }
        self.ends.turn.siblings.push((place, SiblingMessage::Ran(replies)));
        Ok(())
    }

    fn reach(&mut self, instance: InstanceId) -> Option<(ConnectionId, Member)> {
        let link = self.ends.links.entry(instance).or_insert(LinkProgress::Waiting { again_ms: 0 });
        match *link {
            LinkProgress::Open(id) => Some((id, Member { instance, ..Member::default() })),
            LinkProgress::Waiting { again_ms } if again_ms <= self.now.elapsed_ms => {
                *link = LinkProgress::Calling;
                self.ends.turn.calls.push(instance);
                None
            }
            _ => None,
        }
    }

    fn connection_to(&self, instance: InstanceId) -> Option<ConnectionId> {
        match self.ends.links.get(&instance)? {
            LinkProgress::Open(id) => Some(*id),
            _ => None,
        }
    }

    fn instance_at(&self, connection: ConnectionId) -> Option<InstanceId> {
        let found = self.ends.links.iter().find(|(_, link)| **link == LinkProgress::Open(connection));
        found.map(|(instance, _)| *instance)
    }

    fn unsent_bytes(&self, connection: ConnectionId) -> usize {
        self.ends.by.get(&connection).map_or(0, |one| one.out.len())
    }

    fn send(&mut self, connection: ConnectionId, envelope: &Envelope, message: &Message<'_>) {
        let Some(one) = self.ends.by.get_mut(&connection) else { return };
        if let Message::Peer(PeerMessage { body: PeerBody::UnitAsk(_), .. }) = message {
            self.ends.turn.counts.to_nodes += 1;
        }
        let encoded = Encoder::default().encode(envelope, message, &mut one.out);
        assert!(encoded.is_ok(), "units are within the wire's bounds: {encoded:?}");
    }

    fn peer(&self, _: ConnectionId) -> Option<SocketAddr> {
        None
    }

    fn resume(&mut self, client: ConnectionId, bytes: &[u8], holds: bool, _waits: bool) {
        if let Some(one) = self.ends.by.get_mut(&client) {
            one.out.extend_from_slice(bytes);
            one.is_paused &= holds;
            self.ends.has_more |= !one.is_paused && !one.input.is_empty();
        }
    }

    fn close(&mut self, client: ConnectionId, bytes: &[u8]) {
        if let Some(one) = self.ends.by.get_mut(&client) {
            one.out.extend_from_slice(bytes);
            one.is_closing = true;
        }
    }

    fn set_has_more(&mut self, _: ConnectionId, has_more: bool) {
        assert!(!has_more, "simulated clients ask for short replies");
    }

    fn may_buffer(&mut self, _: ConnectionId, _: usize) -> bool {
        true
    }

    fn set_buffered(&mut self, _: ConnectionId, _: usize) {}

    fn access(&self, _: ConnectionId) -> Access {
        Access::All
    }

    fn permits(&self, _: ConnectionId, _: KeyspaceId, _: Permission) -> Result<(), Failure<'static>> {
        Ok(())
    }

    fn token_access(&self, _: &[u8]) -> Option<Access> {
        None
    }

    fn set_authenticated(&mut self, _: ConnectionId, _: Access) {}

    fn requires_proofs(&self) -> bool {
        false
    }

    fn log_wrong_passwords(&self, _: ConnectionId, _: u64) {}

    fn process(&self) -> ServerInfo {
        ServerInfo::default()
    }

    fn cross_partition(&self) -> CrossPartition {
        CrossPartition::No
    }

    fn run_across(&mut self, _: &str, _: Vec<u8>, _: (ConnectionId, Ticket)) -> bool {
        false
    }
}
