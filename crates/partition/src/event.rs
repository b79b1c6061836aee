//! The inputs and effects of a partition.

use zerohop_wire::ids::RequestId;
use zerohop_wire::{Envelope, Message};

/// A reading of the caller's clocks. A partition follows neither backwards. A request is accompanied by a reading taken after the
/// request was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Now {
    /// Milliseconds since 1970: the wall clock, which an operator may set.
    pub ms: u64,
    /// Milliseconds since some start, on the monotonic clock.
    pub elapsed_ms: u64,
}

impl Now {
    /// A reading at which both clocks show the same.
    #[must_use]
    pub const fn at_ms(ms: u64) -> Now {
        Now { ms, elapsed_ms: ms }
    }
}

/// The receiver of an answer. It is opaque here, except that waiting requests of a connection are dropped with it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Token {
    /// The connection, as its owner numbers them.
    pub connection: u64,
    /// The request on it.
    pub request: RequestId,
}

/// One request about records.
#[derive(Clone, Copy, Debug)]
pub struct RecordRequest<'a> {
    /// The receiver of the answer.
    pub token: Token,
    /// The frame's header fields; epoch and time-out are used.
    pub envelope: Envelope,
    /// A read, a scan, a write or a batch.
    pub message: &'a Message<'a>,
}

/// An input of a partition.
#[derive(Clone, Copy, Debug)]
pub enum PartitionEvent<'a> {
    /// A request of a client.
    Request(RecordRequest<'a>),
    /// [`zerohop_engine::Engine::flush`] has returned: all entries appended before are durable.
    Flushed,
    /// The flush failed with another error than a full disk. Entries appended since the last one may be lost.
    FlushFailed,
    /// A message of another partition about a transaction.
    Transaction(&'a zerohop_transaction::Message),
    /// Time has passed. The owner sends this every few milliseconds, and at [`crate::Partition::next_wake_ms`].
    Tick,
    /// A connection has closed: its requests need no answers any more.
    Disconnected {
        /// The connection.
        connection: u64,
    },
}

/// The effects that a partition requests from its owner. All may be carried out at once, in the order in which they come.
///
/// No method has a default. Otherwise an adapter that wraps another could compile without passing that method on, unnoticed.
pub trait PartitionEffects {
    /// Send an answer. All entries that it was evaluated over are committed, at the keyspace's durability.
    fn answer(&mut self, to: Token, message: &Message<'_>);

    /// The same for a read whose record is read-locked for so many microseconds from the time of the request. An owner that
    /// cannot pass the time on leaves it out.
    fn answer_held(&mut self, to: Token, message: &Message<'_>, held_us: u32);

    /// Send the reply of an atomic batch that was answered [`crate::ProgramResult::Later`]. All entries that it depends on are
    /// committed, at the keyspace's durability.
    fn reply(&mut self, to: Token, bytes: &[u8]);

    /// Answer `WrongOwner` with the map changes since the client's epoch: the request named another epoch of this partition. The
    /// owner has the map.
    fn wrong_owner(&mut self, to: Token);

    /// Answer nothing: the request repeats one whose answer its session has. The owner may free the resources of the request.
    fn dropped(&mut self, to: Token);

    /// Send a message to the primary of its routing key. A lost or repeated message does no harm.
    fn transaction(&mut self, message: zerohop_transaction::Message);

    /// The effect of a decided transaction is missing at a routing key, for the operator. Either its partition has lost data that
    /// it had acknowledged. Or the routing key is the coordinator's, whose keyspace is gone, and the prepared part here is
    /// undone.
    fn transaction_lost(
        &mut self,
        id: zerohop_transaction::TransactionId,
        place: zerohop_transaction::RoutingKey,
    );

    /// The first of these parts, if any, for which the map differs: it has no such keyspace, the keyspace is being dropped, or
    /// its durability is another.
    fn misplaced(&mut self, parts: &[zerohop_transaction::TransactionPart]) -> Option<u32>;

    /// Whether the map has a keyspace.
    fn has_keyspace(&self, keyspace: zerohop_wire::ids::KeyspaceId) -> bool;

    /// Whether the map has a keyspace that is being dropped.
    fn is_closing(&self, keyspace: zerohop_wire::ids::KeyspaceId) -> bool;

    /// Entries were appended that are answered only once durable. Call [`zerohop_engine::Engine::flush`] before waiting for more
    /// requests, then send [`PartitionEvent::Flushed`] to the partition. This effect accompanies every such entry.
    fn flush_wanted(&mut self);
}
