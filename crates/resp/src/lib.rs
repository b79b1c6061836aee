//! The Redis protocol as zerohop speaks it: parser, command table, execution over the records of a partition, and the
//! state of a connection. Pure: no socket, no clock, no threads, no randomness of its own.
//!
//! ```text
//!   bytes ──▶ Connection::receive ──▶ World::run(place, ticket, Unit) ──▶ execute(unit, Records) ──▶ reply as bytes
//!                  │    ▲                 here, in another thread, or in another process                  │
//!                  │    └──────────────── Connection::complete(ticket, reply) ◀───────────────────────────┘
//!                  ▼                       (or at once, if World::run says Done)
//!                 out: replies, in the order of the commands
//! ```
//!
//! A [`Unit`] is what one partition executes in one step: a command, or all of a transaction. A connection knows which
//! keys a command has, asks its [`ConnectionWorld`] for their partition, and sends the unit there. Commands that ask all partitions
//! (`DBSIZE`, `KEYS`, `SCAN`, `FLUSHALL`) are many units, which the connection puts together; whoever holds it needs to
//! know nothing of that.
//!
//! A unit whose keys live in several partitions is executed over [`GatheredRecords`] records: they are fetched, and what it does to them
//! is done elsewhere, as a transaction.
//!
//! A `World` has two duties to an execution. What a unit has changed is one atomic change, and its reply is handed on
//! once that is committed; see [`Records`] and [`ExecutionOutcome`].

mod args;
mod command;
mod connection;
mod execute;
mod gathered;
mod glob;
mod inline;
pub mod limits;
pub mod model;
mod number;
mod parse;
mod parts;
mod records;
mod reply;
mod unit;
mod world;

pub use args::Args;
pub use connection::{Connection, NextStep, ReceiveResult};
pub use execute::{
    ExecutionOutcome, PagedReply, PastRecords, Scratch, error_reply, execute, execute_past, failure_reply,
};
pub use gathered::{FoundRecord, GatherStep, GatheredChange, GatheredContents, GatheredRecords, TooMuch};
pub use parts::{JoinedReplies, Shares};
pub use records::{Deadline, Info, RecordType, Records};
pub use reply::{Protocol, ReplyWriter};
pub use unit::{NotAUnit, UNIT_HEADER_BYTES, Unit};
pub use world::{
    ConnectionWorld, Layout, PartitionPlace, RedisMember, ServerInfo, Slots, Ticket, UnitResult,
    WrongPassword,
};
