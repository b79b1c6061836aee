//! What goes into a partition and what comes out.

use zerohop_wire::ids::RequestId;
use zerohop_wire::{Envelope, Message};

/// What the caller's clocks show. A partition follows neither backwards. With a request comes what they showed after it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Now {
    /// Milliseconds since 1970: a time of day, which somebody may set.
    pub ms: u64,
    /// Milliseconds since some start, on a clock that nobody sets.
    pub elapsed_ms: u64,
}

impl Now {
    /// Both clocks show the same.
    #[must_use]
    pub const fn at_ms(ms: u64) -> Now {
        Now { ms, elapsed_ms: ms }
    }
}

/// Whom an answer is for: opaque here, but that what is parked for a connection goes with it.
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
    /// Whom to answer.
    pub token: Token,
    /// The frame's header fields; epoch and time-out are looked at.
    pub envelope: Envelope,
    /// A read, a scan, a write or a batch.
    pub message: &'a Message<'a>,
}

/// What a partition is told.
#[derive(Clone, Copy, Debug)]
pub enum PartitionEvent<'a> {
    /// A client asks for something.
    Request(RecordRequest<'a>),
    /// [`zerohop_engine::Engine::flush`] has returned: what was appended before is durable.
    Flushed,
    /// The flush failed with another error than a full disk: what was appended since the last one may be lost.
    FlushFailed,
    /// Another partition says something about a transaction.
    Transaction(&'a zerohop_transaction::Message),
    /// Time has passed: to be told every few milliseconds, and at [`crate::Partition::next_wake_ms`].
    Tick,
    /// A connection has closed: nobody waits for its answers any more.
    Disconnected {
        /// Which.
        connection: u64,
    },
}

/// What a partition asks its owner to do. All may be done at once, in the order in which they come.
///
/// No method has a default: an adapter that wraps another would compile without passing that method on, and nobody would see it.
pub trait PartitionEffects {
    /// Send an answer. Everything it was evaluated over is committed, at the keyspace's durability.
    fn answer(&mut self, to: Token, message: &Message<'_>);

    /// The same of something that was read, and that nobody changes for so many microseconds from when it was asked for. Whoever
    /// cannot pass that on leaves it out.
    fn answer_held(&mut self, to: Token, message: &Message<'_>, held_us: u32);

    /// Send the reply of a unit that was answered [`crate::ProgramResult::Later`]. Everything it rests on is committed, at the
    /// keyspace's durability.
    fn reply(&mut self, to: Token, bytes: &[u8]);

    /// Answer `WrongOwner` with what changed in the map since the asker's epoch: the request named another epoch of this
    /// partition. The map is the owner's.
    fn wrong_owner(&mut self, to: Token);

    /// Answer nothing: the request repeats one whose answer its session has. What is held for it may be let go.
    fn dropped(&mut self, to: Token);

    /// Send a message to whoever holds its place. Lost or sent twice it does no harm.
    fn transaction(&mut self, message: zerohop_transaction::Message);

    /// What a transaction was decided to do is missing at a place: its partition has lost what it had acknowledged; or the
    /// place is its coordinator's, whose keyspace is gone, and what was prepared here is undone. For the operator.
    fn transaction_lost(
        &mut self,
        id: zerohop_transaction::TransactionId,
        place: zerohop_transaction::RoutingKey,
    );

    /// The first of these parts, if any, that the map does not have so: of no keyspace, of one that is being
    /// dropped, or of one that is otherwise durable.
    fn misplaced(&mut self, parts: &[zerohop_transaction::TransactionPart]) -> Option<u32>;

    /// Whether the map has a keyspace.
    fn has_keyspace(&self, keyspace: zerohop_wire::ids::KeyspaceId) -> bool;

    /// Whether the map has a keyspace that is being dropped.
    fn is_closing(&self, keyspace: zerohop_wire::ids::KeyspaceId) -> bool;

    /// Entries were appended that are answered only once durable: call [`zerohop_engine::Engine::flush`] before
    /// waiting for more requests, then tell the partition [`PartitionEvent::Flushed`]. Comes with every such entry.
    fn flush_wanted(&mut self);
}
