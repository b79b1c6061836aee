//! The Redis clients of one instance, with their connections: the counterpart of `gateways/redis`.

#[path = "side/context.rs"]
mod context;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use zerohop_base::connection::ConnectionId;
use zerohop_base::random::Random;
use zerohop_engine::disk::simulated::SimulatedDisk;
use zerohop_relay::{Clients, ReceivedBytes, UnitAnswer};
use zerohop_resp::Ticket;
use zerohop_shard::{ClockReading, Instance};
use zerohop_wire::ids::InstanceId;
use zerohop_wire::messages::{PeerBody, PeerMessage};
use zerohop_wire::{DecodeResult, Decoder, Features, Message};

use super::super::instance_turn::Collect;
use super::super::redis_turn::{RedisTurn, SiblingMessage};
use super::replies::OpenCommands;
use crate::network::{LinkArrival, LinkEnd, LinkId};

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
    /// The reply to a unit over several partitions.
    Spanned((ConnectionId, Ticket), Vec<u8>),
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
    /// Commands may have keys in several partitions.
    is_cross_partition: bool,
    leave: LeaveProgress,
}

/// How far the end of a clean shutdown has come.
#[derive(Debug, Default)]
struct LeaveProgress {
    has_yielded: bool,
    is_ending: bool,
    has_ended: bool,
    /// Connections that were closed with commands that had no reply.
    unanswered: Vec<String>,
}

#[derive(Debug)]
struct OpenConnection {
    link: LinkId,
    peer: ConnectionPeer,
    input: Vec<u8>,
    out: Vec<u8>,
    /// What a client has asked and was not told.
    open_commands: OpenCommands,
    /// No more bytes are passed on for now.
    is_paused: bool,
    /// It has more to send once its client has room: then, in milliseconds of the monotonic clock.
    room_at_ms: Option<u64>,
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
        (time_out_ms, is_cross_partition): (u64, bool),
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
            is_cross_partition,
            leave: LeaveProgress::default(),
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
        if at_once {
            return Some(now_ms);
        }
        let room_ms = self.ends.by.values().filter_map(|one| one.room_at_ms).min();
        room_ms.into_iter().chain(self.clients.next_deadline_ms(now_ms)).min()
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

    /// New writes wait from now on, until other nodes have taken over.
    pub(in crate::cluster) fn yield_writes(&mut self, now_ms: u64) {
        self.clients.yield_writes(now_ms);
    }

    /// Whether the earlier writes have ended.
    pub(in crate::cluster) fn has_yielded(&mut self) -> bool {
        self.ends.leave.has_yielded |= self.clients.take_yielded();
        self.ends.leave.has_yielded
    }

    /// No more commands are accepted from now on.
    pub(in crate::cluster) fn end_clients(&mut self) {
        self.ends.leave.is_ending = true;
        for idle in self.clients.end() {
            if let Some(one) = self.ends.by.get_mut(&idle) {
                one.is_closing = true;
            }
        }
    }

    /// Whether all accepted commands are answered.
    pub(in crate::cluster) fn has_ended(&mut self) -> bool {
        self.ends.leave.has_ended |= self.clients.take_ended();
        self.ends.leave.has_ended
    }

    /// The connections that were closed though commands of them had no reply.
    pub(in crate::cluster) fn take_unanswered(&mut self) -> Vec<String> {
        std::mem::take(&mut self.ends.leave.unanswered)
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
                self.clients.run_units(&units, &mut self.ends.context(instance, now, collect));
            }
            RedisArrival::Spanned(requester, reply) => {
                self.clients.cross_partition_reply(
                    requester,
                    &reply,
                    &mut self.ends.context(instance, now, collect),
                );
            }
            RedisArrival::Sibling(SiblingMessage::Ran(replies)) => {
                self.ends.count_outcomes(replies.items.iter().map(|item| item.verdict));
                self.clients.units_completed(&replies, &mut self.ends.context(instance, now, collect));
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

    /// Passes on what clients have sent that were paused, and continues replies for which there is room.
    fn receive_all(
        &mut self,
        instance: &mut Instance<SimulatedDisk>,
        now: ClockReading,
        collect: &mut Collect<'_>,
    ) {
        let waiting = self.ends.by.iter().filter(|(_, one)| {
            let has_some = !one.input.is_empty() || one.room_at_ms.is_some();
            one.peer == ConnectionPeer::Client && !one.is_paused && has_some
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
            let has_room = one.room_at_ms.is_none_or(|room_ms| room_ms <= now.elapsed_ms);
            let has_some = !one.input.is_empty() || one.room_at_ms.is_some();
            if one.is_paused || one.is_closing || !has_room || !has_some {
                return;
            }
            one.room_at_ms = None;
            let input = std::mem::take(&mut one.input);
            let mut out = Vec::new();
            let received =
                self.clients.receive(id, &input, &mut self.ends.context(instance, now, collect), &mut out);
            let Some(one) = self.ends.by.get_mut(&id) else { return };
            if let ReceivedBytes::Used { used, .. } = received {
                one.open_commands.query(&input[..used]);
            }
            one.reply(&out);
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
                    PeerBody::UnitQuery(query) => self.clients.handle_unit_piece(
                        (id, from),
                        &frame.envelope,
                        query,
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

impl OpenConnection {
    fn reply(&mut self, bytes: &[u8]) {
        self.open_commands.reply(bytes);
        self.out.extend_from_slice(bytes);
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
        let (input, out, open_commands) = (Vec::new(), Vec::new(), OpenCommands::default());
        let (is_paused, is_closing, room_at_ms) = (false, false, None);
        let one = OpenConnection { link, peer, input, out, open_commands, is_paused, room_at_ms, is_closing };
        self.by.insert(id, one);
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
