//! The shell of an instance's Redis clients: the instance, its reactor and its siblings.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tracing::warn;
use zerohop_engine::disk::Disk;
use zerohop_partition::{Program, ProgramResult, Token};
use zerohop_reactor::limits::UNSENT_BYTES_END;
use zerohop_reactor::{CONNECTIONS_MAX, ClockSample, ConnectionId, ForeignResult, Replies, UNSENT_BYTES_MAX};
use zerohop_relay::limits::{PIECE_BYTES_MAX, WIRE_UNSENT_BYTES_MAX};
use zerohop_relay::{Clients, CrossPartition, ReceivedBytes, RelayContext, ReplyBatch, UnitAnswer, Units};
use zerohop_resp::limits::{OUTPUT_BYTES_MAX, REPLY_BYTES_MAX, WAITING_REPLY_BYTES_MAX};
use zerohop_resp::{ServerInfo, Ticket};
use zerohop_server::gateway::{
    CrossPartitionRunner, Gateway, InstanceContext, Reachability, Siblings, permits, resident_bytes,
};
use zerohop_shard::{ClockReading, Instance};
use zerohop_wire::auth::Access;
use zerohop_wire::ids::{InstanceId, KeyspaceId, PartitionId};
use zerohop_wire::messages::{Member, UnitReport, UnitRequest};
use zerohop_wire::{Envelope, Failure, Message, Permission};

const _: () = assert!(WIRE_UNSENT_BYTES_MAX + PIECE_BYTES_MAX < UNSENT_BYTES_MAX);
// A reply of the maximum length behind other replies does not end its connection.
const _: () = assert!(REPLY_BYTES_MAX + WAITING_REPLY_BYTES_MAX + 2 * OUTPUT_BYTES_MAX < UNSENT_BYTES_END);

/// The Redis clients of an instance, and what reaches beyond it.
#[derive(Debug)]
pub(crate) struct RedisGateway {
    clients: Clients,
    node: NodeLinks,
    /// Notified at the steps of a shutdown.
    yielded: Option<oneshot::Sender<()>>,
    ended: Option<oneshot::Sender<()>>,
}

/// The other threads of the node.
#[derive(Debug)]
struct NodeLinks {
    siblings: Siblings,
    /// The index of this instance among them.
    place: usize,
    /// Which nodes answer this one.
    reachability: Arc<Reachability>,
    /// Executes units with keys in several partitions.
    cross_partition: Option<Arc<dyn CrossPartitionRunner>>,
    /// `cross_partition` will be set: the node is starting.
    awaits_cross_partition: bool,
}

impl RedisGateway {
    /// No clients. `place` is the instance's index on its node. Units wait at most `time_out` for
    /// their partition.
    pub(crate) fn new(place: usize, time_out: Duration) -> RedisGateway {
        let node = NodeLinks {
            siblings: Siblings::default(),
            place,
            reachability: Arc::default(),
            cross_partition: None,
            awaits_cross_partition: false,
        };
        RedisGateway { clients: Clients::new(place, time_out), node, yielded: None, ended: None }
    }
}

/// An instance with its reactor and its siblings, during one call.
struct ReactorContext<'c, 'a, 'r, D: Disk> {
    at: &'c mut InstanceContext<'a, 'r, D>,
    node: &'c NodeLinks,
}

impl<D: Disk> RelayContext for ReactorContext<'_, '_, '_, D> {
    type Disk = D;

    #[inline]
    fn instance(&self) -> &Instance<D> {
        self.at.instance
    }

    #[inline]
    fn now(&self) -> ClockReading {
        self.at.clock()
    }

    #[inline]
    fn run(
        &mut self,
        token: Token,
        place: (KeyspaceId, PartitionId),
        program: (&mut impl Program, &mut Vec<u8>),
    ) -> Result<ProgramResult, Failure<'static>> {
        self.at.run(token, place, program)
    }

    fn request(&mut self, token: Token, envelope: &Envelope, message: &Message<'_>) {
        self.at.request(token, envelope, message);
    }

    fn has_answers(&self) -> bool {
        self.at.has_answers()
    }

    fn take_answers(&mut self) -> Vec<(u64, UnitAnswer)> {
        self.at.take_answers()
    }

    fn reachability(&self) -> &Reachability {
        &self.node.reachability
    }

    fn sibling(&self, instance: InstanceId) -> Option<usize> {
        self.node.siblings.index_of(instance)
    }

    fn send_units(&mut self, place: usize, units: Units) -> Result<(), Units> {
        self.node.siblings.send_units(place, units)
    }

    fn send_replies(&mut self, place: usize, replies: ReplyBatch) -> Result<(), ReplyBatch> {
        self.node.siblings.send_replies(place, replies)
    }

    fn reach(&mut self, instance: InstanceId) -> Option<(ConnectionId, Member)> {
        self.at.reach(instance)
    }

    fn connection_to(&self, instance: InstanceId) -> Option<ConnectionId> {
        self.at.connection_to(instance)
    }

    fn instance_at(&self, connection: ConnectionId) -> Option<InstanceId> {
        self.at.instance_at(connection)
    }

    fn unsent_bytes(&self, connection: ConnectionId) -> usize {
        self.at.replies.unsent_bytes(connection)
    }

    fn send(&mut self, connection: ConnectionId, envelope: &Envelope, message: &Message<'_>) {
        self.at.replies.send(connection, envelope, message);
    }

    fn peer(&self, client: ConnectionId) -> Option<SocketAddr> {
        self.at.replies.peer(client)
    }

    fn resume(&mut self, client: ConnectionId, bytes: &[u8], holds: bool, waits: bool) {
        self.at.replies.resume(client, bytes, holds, waits);
    }

    fn close(&mut self, client: ConnectionId, bytes: &[u8]) {
        self.at.replies.close(client, bytes);
    }

    fn set_has_more(&mut self, client: ConnectionId, has_more: bool) {
        self.at.replies.set_has_more(client, has_more);
    }

    fn may_buffer(&mut self, client: ConnectionId, bytes: usize) -> bool {
        self.at.replies.may_buffer(client, bytes)
    }

    fn set_buffered(&mut self, client: ConnectionId, bytes: usize) {
        self.at.replies.set_buffered(client, bytes);
    }

    fn access(&self, client: ConnectionId) -> Access {
        self.at.replies.access(client)
    }

    fn permits(
        &self,
        client: ConnectionId,
        keyspace: KeyspaceId,
        permission: Permission,
    ) -> Result<(), Failure<'static>> {
        permits(self.at.instance.map(), self.access(client), keyspace, permission)
    }

    fn token_access(&self, text: &[u8]) -> Option<Access> {
        self.at.replies.token_access(text)
    }

    fn set_authenticated(&mut self, client: ConnectionId, access: Access) {
        self.at.replies.set_authenticated(client, access);
    }

    fn requires_proofs(&self) -> bool {
        self.at.replies.requires_proofs()
    }

    fn log_wrong_passwords(&self, client: ConnectionId, times: u64) {
        let peer = self.peer(client);
        let peer = peer.map_or_else(|| "an address that is gone".to_owned(), |peer| peer.to_string());
        warn!(
            times,
            last_from = peer,
            "Redis clients sent wrong passwords; each is delayed before its next attempt"
        );
    }

    fn process(&self) -> ServerInfo {
        let counters = self.at.replies.counters();
        ServerInfo {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            os: std::env::consts::OS.to_owned(),
            process_id: std::process::id(),
            clients_max: CONNECTIONS_MAX as u64,
            used_memory_bytes: resident_bytes().unwrap_or(0),
            total_connections: counters.accepted,
            received_bytes: counters.bytes_in,
            sent_bytes: counters.bytes_out,
            ..ServerInfo::default()
        }
    }

    fn cross_partition(&self) -> CrossPartition {
        match (&self.node.cross_partition, self.node.awaits_cross_partition) {
            (Some(_), _) => CrossPartition::Yes,
            (None, true) => CrossPartition::Soon,
            (None, false) => CrossPartition::No,
        }
    }

    fn run_across(
        &mut self,
        keyspace: &str,
        unit: Vec<u8>,
        (connection, ticket): (ConnectionId, Ticket),
    ) -> bool {
        let requester = self.node.siblings.reply_address(self.node.place, connection, ticket);
        let cross_partition = self.node.cross_partition.as_ref().zip(requester);
        cross_partition.is_some_and(|(cross_partition, requester)| {
            cross_partition.start_unit(keyspace, unit, requester).is_ok()
        })
    }
}

impl<D: Disk> Gateway<D> for RedisGateway {
    fn set_reachability(&mut self, reachability: Arc<Reachability>) {
        self.node.reachability = reachability;
    }

    fn set_siblings(&mut self, siblings: Siblings) {
        self.node.siblings = siblings;
    }

    fn commands(&self) -> u64 {
        self.clients.commands()
    }

    fn await_cross_partition(&mut self) {
        self.node.awaits_cross_partition = true;
    }

    fn set_cross_partition(&mut self, cross_partition: Arc<dyn CrossPartitionRunner>) {
        self.node.cross_partition = Some(cross_partition);
        self.node.awaits_cross_partition = false;
    }

    fn cross_partition_reply(
        &mut self,
        unit: (ConnectionId, Ticket),
        reply: &[u8],
        at: &mut InstanceContext<'_, '_, D>,
    ) {
        self.clients.cross_partition_reply(unit, reply, &mut ReactorContext { at, node: &self.node });
    }

    fn receive(
        &mut self,
        id: ConnectionId,
        bytes: &[u8],
        at: &mut InstanceContext<'_, '_, D>,
        out: &mut Vec<u8>,
    ) -> ForeignResult {
        match self.clients.receive(id, bytes, &mut ReactorContext { at, node: &self.node }, out) {
            ReceivedBytes::Used { used, need, pauses, waits } => {
                ForeignResult::Used { used, need, pauses, waits }
            }
            ReceivedBytes::Close => ForeignResult::Close,
        }
    }

    fn closed(&mut self, id: ConnectionId, instance: &mut Instance<D>, now_ms: u64) {
        self.clients.closed(id, instance, now_ms);
    }

    fn map_changed(&mut self, at: &mut InstanceContext<'_, '_, D>) {
        self.clients.map_changed(&mut ReactorContext { at, node: &self.node });
    }

    fn run_units(&mut self, units: &Units, at: &mut InstanceContext<'_, '_, D>) {
        self.clients.run_units(units, &mut ReactorContext { at, node: &self.node });
    }

    fn handle_unit_piece(
        &mut self,
        from: (ConnectionId, Member),
        envelope: &Envelope,
        piece: &UnitRequest<'_>,
        at: &mut InstanceContext<'_, '_, D>,
    ) {
        let at = &mut ReactorContext { at, node: &self.node };
        self.clients.handle_unit_piece(from, envelope, piece, at);
    }

    fn units_completed(&mut self, replied: &ReplyBatch, at: &mut InstanceContext<'_, '_, D>) {
        self.clients.units_completed(replied, &mut ReactorContext { at, node: &self.node });
    }

    fn handle_outcome_piece(
        &mut self,
        from: (ConnectionId, Member),
        piece: &UnitReport<'_>,
        at: &mut InstanceContext<'_, '_, D>,
    ) {
        self.clients.handle_outcome_piece(from, piece, &mut ReactorContext { at, node: &self.node });
    }

    fn step(&mut self, at: &mut InstanceContext<'_, '_, D>) {
        self.clients.step(&mut ReactorContext { at, node: &self.node });
    }

    fn send_answers(&mut self, at: &mut InstanceContext<'_, '_, D>) -> bool {
        self.clients.send_answers(&mut ReactorContext { at, node: &self.node })
    }

    fn send(&mut self, at: &mut InstanceContext<'_, '_, D>) {
        self.clients.send(&mut ReactorContext { at, node: &self.node });
        let yielded = self.yielded.take_if(|_| self.clients.take_yielded());
        let ended = self.ended.take_if(|_| self.clients.take_ended());
        // A receiver that is gone does not matter.
        yielded.into_iter().chain(ended).for_each(|done| _ = done.send(()));
    }

    fn next_deadline_ms(&self, now_ms: u64) -> Option<u64> {
        self.clients.next_deadline_ms(now_ms)
    }

    fn stop(&mut self, at: &mut InstanceContext<'_, '_, D>) {
        self.clients.stop(&mut ReactorContext { at, node: &self.node });
    }

    fn yield_writes(&mut self, done: oneshot::Sender<()>, now: ClockSample) {
        self.yielded = Some(done);
        self.clients.yield_writes(now.elapsed_ms);
    }

    fn end(&mut self, done: oneshot::Sender<()>, replies: &mut Replies<'_>) {
        self.ended = Some(done);
        self.clients.end().into_iter().for_each(|idle| replies.close(idle, &[]));
    }
}
