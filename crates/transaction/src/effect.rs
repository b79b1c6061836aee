//! What the partition is to do.

use bytes::Bytes;
use zerohop_wire::ids::Timestamp;

use crate::entry::TransactionEntry;
use crate::id::{Durability, RoutingKey, TransactionId};
use crate::message::Message;
use crate::reason::Refusal;

/// How a transaction has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransactionOutcome {
    /// It is done.
    Committed {
        /// Its version.
        timestamp: Timestamp,
        /// What its items return, by part.
        results: Vec<Bytes>,
    },
    /// Nothing was done, and nothing will be.
    Aborted {
        /// Who refused it.
        by: RoutingKey,
        /// Why.
        refusal: Refusal,
    },
}

/// A client's request, a read or a write that the caller waits to go on with: a number of the caller's choosing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// What the partition is to do, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransactionEffect {
    /// Append this to the log now, in the order of these effects; it is flushed as `durability` asks. Once it is
    /// committed, [`crate::Transactions::committed`]. It may be lost only with this primary.
    Append {
        /// What.
        entry: TransactionEntry,
        /// How durable.
        durability: Durability,
    },
    /// Send it to whoever holds `message.to`; at once, but, like every answer of the partition, only while it may answer,
    /// and once everything appended before is committed where that was looked at (`Confirm` and version checks).
    Send(Message),
    /// Answer the client. At once: everything that it rests on is committed.
    Answer {
        /// Which request.
        ticket: Ticket,
        /// How the transaction ended.
        outcome: TransactionOutcome,
    },
    /// No intent that was there when the read arrived stands any more: read now.
    Read(Ticket),
    /// The write holds its cells: evaluate and append it now, then [`crate::Transactions::leave`].
    Write(Ticket),
    /// What was decided is missing at a participant, although it is not finished; or, where the place is the coordinator's, the
    /// keyspace that decides is gone, and what was prepared here is undone, whatever was decided. Tell the operator.
    Loss {
        /// Of which transaction.
        id: TransactionId,
        /// Where.
        place: RoutingKey,
    },
}
