//! What the clients of an instance reach during one call: the instance, and the ends of connections.

use std::net::SocketAddr;

use zerohop_base::connection::ConnectionId;
use zerohop_engine::disk::simulated::SimulatedDisk;
use zerohop_partition::{Program, ProgramResult, Token};
use zerohop_relay::{CrossPartition, RelayContext, ReplyBatch, UnitAnswer, Units};
use zerohop_resp::{ServerInfo, Ticket};
use zerohop_shard::{ClockReading, Instance};
use zerohop_wire::auth::Access;
use zerohop_wire::ids::{InstanceId, KeyspaceId, PartitionId};
use zerohop_wire::messages::{Member, PeerBody, PeerMessage};
use zerohop_wire::{Encoder, Envelope, Failure, Message, Permission};

use super::super::super::redis_turn::SimulatedCrossPartitionUnit;
use super::{LinkProgress, SiblingMessage, SimulatedContext};

/// How often a queue to another instance of the node is full: one of so many times.
const FULL_ONE_OF: u64 = 60;

/// The longest time until a client has read what was sent, and that of slow clients.
const READER_MS_MAX: u64 = 60;
const SLOW_READER_MS_MAX: u64 = 3_000;

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
        if let Message::Peer(PeerMessage { body: PeerBody::UnitQuery(_), .. }) = message {
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
            one.reply(bytes);
            one.is_paused &= holds;
            self.ends.has_more |= !one.is_paused && !one.input.is_empty();
        }
    }

    fn close(&mut self, client: ConnectionId, bytes: &[u8]) {
        if let Some(one) = self.ends.by.get_mut(&client) {
            one.reply(bytes);
            one.is_closing = true;
            if self.ends.leave.is_ending
                && let Some(what) = one.open_commands.unanswered()
            {
                self.ends.leave.unanswered.push(format!("{} closes without a reply to {what}", one.link));
            }
        }
    }

    fn set_has_more(&mut self, client: ConnectionId, has_more: bool) {
        let Some(one) = self.ends.by.get_mut(&client) else { return };
        one.room_at_ms = has_more.then(|| {
            self.ends.turn.counts.pages_awaited += 1;
            let wait_ms = if self.ends.random.chance(1, 4) { SLOW_READER_MS_MAX } else { READER_MS_MAX };
            self.now.elapsed_ms + self.ends.random.below(wait_ms)
        });
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
        if self.ends.is_cross_partition { CrossPartition::Yes } else { CrossPartition::No }
    }

    fn run_across(&mut self, keyspace: &str, unit: Vec<u8>, requester: (ConnectionId, Ticket)) -> bool {
        let has_room = !self.ends.random.chance(1, FULL_ONE_OF);
        if has_room {
            self.ends.turn.counts.spanning += 1;
            self.ends.turn.spanning.push(SimulatedCrossPartitionUnit {
                keyspace: keyspace.to_owned(),
                unit,
                requester,
            });
        }
        has_room
    }
}
