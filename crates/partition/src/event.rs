//! The inputs and effects of a partition.

use zerohop_wire::ids::RequestId;
use zerohop_wire::{Envelope, Message};

use crate::map_view::MapView;

/// A reading of the caller's clocks. A partition follows neither backwards. A request is accompanied by a reading taken after the
/// request was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClockSample {
    /// Milliseconds since 1970: the wall clock, which an operator may set.
    pub ms: u64,
    /// Milliseconds since some start, on the monotonic clock.
    pub elapsed_ms: u64,
}

impl ClockSample {
    /// A reading at which both clocks show the same.
    #[must_use]
    pub const fn at_ms(ms: u64) -> ClockSample {
        ClockSample { ms, elapsed_ms: ms }
    }

    /// This reading, without a map.
    #[must_use]
    pub const fn without_map(self) -> StepContext<'static> {
        StepContext { now: self, map: MapView::NONE }
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
    /// A `Prepared` of another partition whose entry is appended and not durable yet. Only where both partitions are `sync`, have
    /// one copy each, and use the same engine: see [`zerohop_engine::Engine::set_journal_first`].
    UnsyncedPrepared(&'a zerohop_transaction::Message),
    /// Another member gets the log, so that entries may survive without those of other partitions. See [`PartitionEvent::UnsyncedPrepared`].
    ForgetUnsynced,
    /// Another primary serves this range of keys of a keyspace: messages about transactions that were sent to the one before it may
    /// be lost, so those without an answer are sent again.
    PrimaryMoved(zerohop_transaction::KeyspaceRange),
    /// Time has passed. The owner sends this every few milliseconds, and at [`crate::Partition::next_tick_ms`].
    Tick,
    /// What the clients' tokens permit has changed. Requests that wait for changes end without one, so that the owner judges the next ones.
    TokensChanged,
    /// A connection has closed: its requests need no answers any more.
    Disconnected {
        /// The connection.
        connection: u64,
    },
}

/// What a step of a partition depends on beside its event and its storage.
#[derive(Clone, Copy, Debug)]
pub struct StepContext<'m> {
    /// A reading of the caller's clocks.
    pub now: ClockSample,
    /// The map that the instance knows.
    pub map: MapView<'m>,
}

/// An effect that a partition requests from its owner. All may be carried out at once, in the order in which they come.
#[derive(Debug)]
pub enum PartitionEffect<'e> {
    /// Send an answer. All entries that it was evaluated over are committed, at the keyspace's durability.
    Answer {
        /// The receiver.
        to: Token,
        /// The answer.
        message: &'e Message<'e>,
        /// For how many microseconds, from the time of the request, the record that was read is read-locked; 0: it is not. An
        /// owner that cannot pass the time on leaves it out.
        read_lock_us: u32,
    },
    /// Send the reply of an atomic batch that was answered [`crate::ProgramResult::Later`]. All entries that it depends on are
    /// committed, at the keyspace's durability.
    Reply {
        /// The receiver.
        to: Token,
        /// The reply.
        bytes: &'e [u8],
    },
    /// Answer `WrongOwner` with the map changes since the client's epoch: the request named another epoch of this partition. The
    /// owner has the map.
    WrongOwner {
        /// The receiver.
        to: Token,
    },
    /// Answer nothing: the request repeats one whose answer its session has. The owner may free the resources of the request.
    Dropped {
        /// The receiver that gets no answer.
        to: Token,
    },
    /// Send a message to the primary of its routing key. A lost or repeated message does no harm.
    Transaction(zerohop_transaction::Message),
    /// Pass a `Prepared` to the primary of its routing key as [`PartitionEvent::UnsyncedPrepared`] if that is possible, and drop it
    /// otherwise: the same message follows as [`PartitionEffect::Transaction`] once the entry is durable.
    UnsyncedPrepared(zerohop_transaction::Message),
    /// The effect of a decided transaction is missing at a routing key, for the operator. Either its partition has lost data that
    /// it had acknowledged. Or the routing key is the coordinator's, whose keyspace is gone, and the prepared part here is
    /// undone.
    TransactionLost {
        /// The transaction.
        id: zerohop_transaction::TransactionId,
        /// The routing key.
        place: zerohop_transaction::RoutingKey,
    },
    /// Entries were appended that are answered only once durable. Call [`zerohop_engine::Engine::flush`] before waiting for more
    /// requests, then send [`PartitionEvent::Flushed`] to the partition. This effect accompanies every such entry.
    FlushWanted(FlushNeed),
}

/// When appended entries must be flushed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum FlushNeed {
    /// Nothing was appended that needs a flush.
    #[default]
    Nothing,
    /// With the next flush, or some milliseconds later: no client waits for it.
    Later,
    /// Before the owner waits for more requests.
    Now,
}

/// Takes the effects of a partition. The enum is exhaustive: an owner that passes effects on cannot leave one out unnoticed.
pub trait PartitionEffects {
    /// Takes one effect.
    fn push(&mut self, effect: PartitionEffect<'_>);
}

impl<F: FnMut(PartitionEffect<'_>)> PartitionEffects for F {
    fn push(&mut self, effect: PartitionEffect<'_>) {
        self(effect);
    }
}

impl dyn PartitionEffects + '_ {
    /// Requests [`PartitionEffect::Answer`] for a record without a read lock.
    pub fn answer(&mut self, to: Token, message: &Message<'_>) {
        self.push(PartitionEffect::Answer { to, message, read_lock_us: 0 });
    }

    pub(crate) fn answer_read_locked(&mut self, to: Token, message: &Message<'_>, read_lock_us: u32) {
        self.push(PartitionEffect::Answer { to, message, read_lock_us });
    }

    pub(crate) fn reply(&mut self, to: Token, bytes: &[u8]) {
        self.push(PartitionEffect::Reply { to, bytes });
    }

    /// Requests [`PartitionEffect::WrongOwner`].
    pub fn wrong_owner(&mut self, to: Token) {
        self.push(PartitionEffect::WrongOwner { to });
    }

    pub(crate) fn dropped(&mut self, to: Token) {
        self.push(PartitionEffect::Dropped { to });
    }

    pub(crate) fn transaction(&mut self, message: zerohop_transaction::Message) {
        self.push(PartitionEffect::Transaction(message));
    }

    pub(crate) fn unsynced_prepared(&mut self, message: zerohop_transaction::Message) {
        self.push(PartitionEffect::UnsyncedPrepared(message));
    }

    pub(crate) fn transaction_effect_missing(
        &mut self,
        id: zerohop_transaction::TransactionId,
        place: zerohop_transaction::RoutingKey,
    ) {
        self.push(PartitionEffect::TransactionLost { id, place });
    }

    /// Requests [`PartitionEffect::FlushWanted`].
    pub fn request_flush(&mut self) {
        self.push(PartitionEffect::FlushWanted(FlushNeed::Now));
    }
}
