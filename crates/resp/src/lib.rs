//! The Redis protocol of zerohop: parser, command table, execution over a partition's records, and
//! the state of a connection. Pure: no socket, clock, threads or randomness of its own.
//!
//! ```text
//!   bytes ──▶ Connection::receive ──▶ ConnectionWorld::run(place, ticket, Unit) ──┐
//!                  │    ▲         ┌──── here, in another thread or process ◀──────┘
//!                  │    │         └───▶ execute(unit, Records) ──▶ reply as bytes ──┐
//!                  │    └─── Connection::complete(ticket, reply), unless Done ◀─────┘
//!                  ▼
//!                 out: replies, in the order of the commands
//! ```
//!
//! A [`Unit`] is what one partition executes in one step: a command, or a whole transaction. A
//! connection knows the keys of a command, asks its [`ConnectionWorld`] for their partition, and
//! sends the unit there. A command over all partitions (`DBSIZE`, `KEYS`, `SCAN`, `FLUSHALL`)
//! becomes many units, whose replies the connection joins.
//!
//! A unit with keys in several partitions is executed over [`GatheredRecords`]. The caller fetches
//! the records and applies the changes as a transaction.
//!
//! A [`ConnectionWorld`] has two duties: the changes of a unit are one atomic change, and its reply
//! is sent only once they are committed; see [`Records`] and [`ExecutionOutcome`].

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
pub use gathered::{
    FetchedRecord, GatherStep, GatheredChange, GatheredContents, GatheredRecords, UnitTooLarge,
};
pub use parts::{JoinedReplies, Shares};
pub use records::{Deadline, Info, RecordType, Records};
pub use reply::{Protocol, ReplyWriter};
pub use unit::{InvalidUnit, UNIT_HEADER_BYTES, Unit};
pub use world::{
    ConnectionWorld, Layout, MemberState, PartitionPlace, RedisMember, ServerInfo, SlotService, Slots,
    Ticket, UnitResult, WrongPassword,
};
