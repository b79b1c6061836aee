//! The client's half of the protocol as a pure state machine: events and a time are its input, effects are its output. It opens no socket, reads no
//! clock, and has no threads or random numbers of its own. `client` executes its effects, and so does the simulator.
//!
//! ```text
//!   submit ──▶ route by the map ──▶ a connection's queue ──▶ stamp, pack, encode ──▶ Effect::Send
//!                    ▲                                                                    │
//!                    └── again, under the same number: reset, overdue, moved, busy ◀──────┤
//!                                                                                         ▼
//!   Effect::Complete ◀── judge ◀── answers, matched by request id, in any order ◀──── received
//! ```
//!
//! Guarantees: every operation ends at its deadline at the latest. An operation that is reported as done was done exactly once; one that is
//! reported as [`SessionError::Unknown`], at most once; one with any other error has changed nothing.

mod backoff;
mod buffer_pool;
mod coalescing;
mod collected_operations;
mod connection;
mod connection_protocol;
mod effect;
mod error;
mod in_flight_frame;
mod invalid_transaction;
mod key_range;
pub mod limits;
mod operation;
pub mod planted;
pub mod procedures;
mod reply;
mod request;
mod request_kind;
mod sequence_window;
mod session;
mod settings;
mod slots;

mod timers;
mod transaction;
mod unanswered_frames;

pub use coalescing::{Coalescing, Collect};
pub use connection::ConnectionId;
pub use effect::{ConnectionLoss, SessionEffect};
pub use error::{AttemptFailure, SessionError, UnreachedPartition, WaitReason};
pub use invalid_transaction::InvalidTransaction;
pub use key_range::KeyRange;
pub use reply::{ChangedRecord, ComparedRange, KeyspaceLookup, Reply, ScanKey};
pub use request::SessionRequest;
pub use request_kind::{ChangesQuery, HashRange};
pub use session::Session;
pub use settings::SessionSettings;
pub use transaction::{CompositeItem, ReadCounts};
pub use zerohop_transaction::StageId;
pub use zerohop_transaction::limits::{STAGED_ITEM_US, STAGED_US_MAX, TRANSACTION_BYTES_MAX};
