//! The effects that the partition carries out.

use bytes::Bytes;
use zerohop_wire::ids::Timestamp;

use crate::entry::TransactionEntry;
use crate::id::{Durability, RoutingKey, TransactionId};
use crate::message::Message;
use crate::reason::Refusal;

/// The outcome of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransactionOutcome {
    /// The transaction is committed.
    Committed {
        /// Its version.
        timestamp: Timestamp,
        /// The results of its items, by part.
        results: Vec<Bytes>,
    },
    /// Nothing was done, and nothing will be.
    Aborted {
        /// The partition that refused it.
        by: RoutingKey,
        /// The reason.
        refusal: Refusal,
    },
}

/// A client's request, a read or a write whose continuation the caller waits for: a number of the caller's choosing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// An action for the partition; actions are carried out in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransactionEffect {
    /// Append this entry to the log now, in the order of these effects, with the flush that `durability` requires. Once it
    /// is committed, the partition calls [`crate::Transactions::committed`]. The entry may be lost only with this primary.
    Append {
        /// The entry.
        entry: TransactionEntry,
        /// Its durability.
        durability: Durability,
    },
    /// Send this message to the owner of `message.to`, at once. Like every answer of the partition, it may be sent only
    /// while the partition may answer. For `Confirm` and version checks, everything appended before the check must be
    /// committed first.
    Send(Message),
    /// Answer the client. At once: everything that the answer depends on is committed.
    Answer {
        /// The ticket of the request.
        ticket: Ticket,
        /// How the transaction ended.
        outcome: TransactionOutcome,
    },
    /// All intents that existed when the read arrived are gone: read now.
    Read(Ticket),
    /// The write holds its lock keys: evaluate and append it now, then call [`crate::Transactions::leave`].
    Write(Ticket),
    /// A decided transaction is missing at a participant, although it is not finished. Or, if the place is the
    /// coordinator's: the deciding keyspace is gone, and what was prepared here is undone, whatever was decided. The
    /// operator must be notified.
    Loss {
        /// The transaction.
        id: TransactionId,
        /// The place.
        routing_key: RoutingKey,
    },
}
