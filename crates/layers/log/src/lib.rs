//! Logs: batches of records in the order of their offsets, in one ordered keyspace of its own for each log.
//!
//! ```text
//!   program, gateway ──▶ procedure (step: event in, effect out) ──▶ driver ──▶ transactions, scans, waits
//! ```
//!
//! - A log has partitions. All keys of a log partition begin with its number, so each may be a region of the keyspace.
//! - A batch is one record of the keyspace. Its bytes are those of its producer, behind what the append adds.
//! - An append is one transaction in one region: it confirms the tail, and writes the batch, the tail and the state of the
//!   producer. The state makes a repeated append answer what the first one did.
//! - Members of a group share the partitions. A change of the members begins a generation, and a commit of offsets confirms it.
//! - A pop moves a cursor that readers share, so each record goes to one of them.
//! - A trim removes whole batches, and moves the first offset with them. It does not touch the tail.
//!
//! The procedures open no socket, read no clock and draw no random numbers: ids and times are arguments.

mod append;
mod batch;
mod bounds;
mod create;
#[cfg(test)]
mod documented;
mod error;
mod group;
pub mod keys;
pub mod planted;
mod pop;
mod procedure;
mod read;
mod records;
mod time_search;
mod trim;
mod varint;

pub use append::{AppendOutcome, append, append_decision};
pub use batch::{
    BATCH_HEADER_BYTES, Batch, BatchFault, BatchLimits, LogRecord, ProducerId, ProducerStamp, RecordIter,
    SEQUENCE_END,
};
pub use bounds::{Bounds, bounds, read_options};
pub use create::{AlterLog, CreateLog, alter_log, create_log};
pub use error::LogError;
pub use group::{
    CommitOffsets, ExpireMembers, GroupOwner, JoinGroup, MEMBERS_MAX, Membership, commit_offsets,
    commit_offsets_decision, delete_group, fetch_offsets, heartbeat, join_group, leave_group,
};
pub use pop::{PopLog, PopOutcome, PopRequest, forget_reader};
pub use procedure::{LogEffect, LogEvent, LogProcedure, LogStep, TailWait};
pub use read::{LogPage, ReadLog, ReadRequest};
pub use records::{
    CursorRecord, GroupMember, GroupRecord, HeartbeatRecord, LogOptions, MemberId, OffsetRecord,
    PRODUCER_BATCHES, PopRecord, ProducerBatch, ProducerRecord, ReaderId, StoredBatch, TailRecord,
    TrimRecord,
};
pub use time_search::TimeSearch;
pub use trim::{Trim, TrimGoal, TrimOutcome};
