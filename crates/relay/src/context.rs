//! What the clients of an instance need from its shell during one call.

use std::net::SocketAddr;

use zerohop_base::connection::ConnectionId;
use zerohop_engine::disk::Disk;
use zerohop_partition::{Program, ProgramResult, Token};
use zerohop_placement::Reachability;
use zerohop_resp::{ServerInfo, Ticket};
use zerohop_shard::{ClockReading, Instance};
use zerohop_wire::auth::Access;
use zerohop_wire::ids::{InstanceId, KeyspaceId, PartitionId};
use zerohop_wire::messages::Member;
use zerohop_wire::{Envelope, Failure, Message, Permission};

use super::UnitAnswer;
use super::unit_batches::{ReplyBatch, Units};

/// Whether units may have keys in several partitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrossPartition {
    /// They may not.
    No,
    /// They may soon: the node is starting.
    Soon,
    /// [`RelayContext::run_across`] runs them.
    Yes,
}

/// The instance, the time, its clients' connections, and the ways to other instances. A server
/// implements it with a reactor, the simulator with a simulated network; calls are resolved
/// statically.
pub trait RelayContext {
    /// The disk of the instance.
    type Disk: Disk;

    /// The instance.
    fn instance(&self) -> &Instance<Self::Disk>;

    /// The time of this call.
    fn now(&self) -> ClockReading;

    /// The instance in this start.
    fn this_member(&self) -> Member {
        let identity = self.instance().identity();
        Member { instance: identity.instance, incarnation: identity.incarnation }
    }

    /// Runs a program over the records of a partition.
    ///
    /// # Errors
    /// As [`Instance::run`].
    fn run(
        &mut self,
        token: Token,
        place: (KeyspaceId, PartitionId),
        program: (&mut impl Program, &mut Vec<u8>),
    ) -> Result<ProgramResult, Failure<'static>>;

    /// Passes a request to the instance. With [`super::UNIT_TOKEN_BIT`] in the token its answer is
    /// among [`RelayContext::take_answers`].
    fn request(&mut self, token: Token, envelope: &Envelope, message: &Message<'_>);

    /// Whether answers to units wait.
    fn has_answers(&self) -> bool;

    /// The answers to units since the last call, by the numbers of the units' tokens.
    fn take_answers(&mut self) -> Vec<(u64, UnitAnswer)>;

    /// Which nodes answer this one, as far as the shell knows.
    fn reachability(&self) -> &Reachability {
        static ALL: Reachability = Reachability::ALL;
        &ALL
    }

    /// The index of an instance among those of this node.
    fn sibling(&self, instance: InstanceId) -> Option<usize>;

    /// Sends units to the instance of this node with this index.
    ///
    /// # Errors
    /// It has no room now, or has ended; the units are returned.
    fn send_units(&mut self, place: usize, units: Units) -> Result<(), Units>;

    /// Sends outcomes to the instance of this node with this index.
    ///
    /// # Errors
    /// It has no room now; the outcomes are returned.
    fn send_replies(&mut self, place: usize, replies: ReplyBatch) -> Result<(), ReplyBatch>;

    /// The connection to another node's instance, and the member at its other end. `None`: there is
    /// none at present; the shell connects at the end of the batch, unless it tried a moment ago.
    fn reach(&mut self, instance: InstanceId) -> Option<(ConnectionId, Member)>;

    /// The connection to another node's instance, if there is one.
    fn connection_to(&self, instance: InstanceId) -> Option<ConnectionId>;

    /// The instance at the other end of a connection that this side has opened.
    fn instance_at(&self, connection: ConnectionId) -> Option<InstanceId>;

    /// Unsent bytes of a connection.
    fn unsent_bytes(&self, connection: ConnectionId) -> usize;

    /// Sends a frame over a connection to another instance.
    fn send(&mut self, connection: ConnectionId, envelope: &Envelope, message: &Message<'_>);

    /// The address of a client; none if it has disconnected.
    fn peer(&self, client: ConnectionId) -> Option<SocketAddr>;

    /// Sends bytes to a client. `holds`: nothing more is received from it for now. `waits`: its
    /// earlier commands will have more replies.
    fn resume(&mut self, client: ConnectionId, bytes: &[u8], holds: bool, waits: bool);

    /// Sends bytes to a client, then closes its connection.
    fn close(&mut self, client: ConnectionId, bytes: &[u8]);

    /// Whether a client is to be received from again, without more bytes too, once little is
    /// unsent.
    fn set_has_more(&mut self, client: ConnectionId, has_more: bool);

    /// Whether so many bytes may be kept for a client, in place of those kept until now; if so,
    /// they are counted.
    fn may_buffer(&mut self, client: ConnectionId, bytes: usize) -> bool;

    /// Records that so many bytes are kept for a client.
    fn set_buffered(&mut self, client: ConnectionId, bytes: usize);

    /// The permissions of a client.
    fn access(&self, client: ConnectionId) -> Access;

    /// Checks a permission of a client in a keyspace; for no keyspace: in all of them.
    ///
    /// # Errors
    /// The permission is missing, or the client's token is no longer valid.
    fn permits(
        &self,
        client: ConnectionId,
        keyspace: KeyspaceId,
        permission: Permission,
    ) -> Result<(), Failure<'static>>;

    /// The permissions of the token with this text, if there is one.
    fn token_access(&self, text: &[u8]) -> Option<Access>;

    /// A client has sent a valid token.
    fn set_authenticated(&mut self, client: ConnectionId, access: Access);

    /// Whether clients must authenticate themselves.
    fn requires_proofs(&self) -> bool;

    /// A client has sent a wrong password; so many are to be logged, those since the last call.
    fn log_wrong_passwords(&self, client: ConnectionId, times: u64);

    /// What the process knows about itself: of [`ServerInfo`] all but the fields of the instance
    /// and of its Redis clients.
    fn process(&self) -> ServerInfo;

    /// Whether units may have keys in several partitions.
    fn cross_partition(&self) -> CrossPartition;

    /// Runs a unit over the keyspace of this name; its reply comes to [`super::Clients::cross_partition_reply`].
    /// `false`: there is no room, and nothing is run.
    fn run_across(&mut self, keyspace: &str, unit: Vec<u8>, requester: (ConnectionId, Ticket)) -> bool;
}
