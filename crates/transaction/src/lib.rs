//! Transactions over several partitions: how they are committed, and what reads wait for. The primary of a partition owns
//! one value of [`Transactions`]. It consults this value before it reads or writes, passes requests, messages and committed
//! entries to it, and carries out its effects. No clock, no thread, no disk.
//!
//! ```text
//!   request ──> coordinator ──Prepare──> participant          host      versions, evaluation, clock: the partition's
//!               │   ▲                 │  │ Prepare entry  intents   holders, queue and waiting reads of each lock key
//!               │   └────Prepared─────┘  ▼                state     what the committed log says: of all members
//!               ▼                       log               message, entry, codec    their bytes
//!   Commit entry: this is the transaction                 transactions/            coordinator and participant
//!               │──────Commit───────> Apply entry
//!               ▼                       │
//!   client <── answer     Finish <──────┘ Applied
//! ```
//!
//! `docs/protocols/transactions.md` has states, messages, and the reason for each rule.

pub mod codec;
mod effect;
mod entry;
mod host;
mod id;
mod intents;
mod item;
pub mod limits;
mod message;
pub mod planted;
mod reason;
mod region_lock;
mod state;
mod transactions;

pub use codec::CodecError;
pub use effect::{Ticket, TransactionEffect, TransactionOutcome};
pub use entry::{Participant, TransactionEntry};
pub use host::{EvaluatedPart, PartitionHost, SessionKnowledge};
pub use id::{Attempt, DecisionFloor, Durability, KeyspaceRange, RoutingKey, StageId, TransactionId};
pub use item::{Access, ItemBody, Items, TransactionItem, TransactionPart, TransactionRequest};
pub use message::{Message, TransactionMessage};
pub use reason::{Reason, Refusal};
pub use state::{Install, ParticipantState};
pub use transactions::{Admission, Transactions};
