//! Queues: messages that producers push and consumers pop under leases, in one ordered keyspace of its own for each queue.
//!
//! ```text
//!   program ──▶ procedure (step: event in, effect out) ──▶ driver ──▶ transactions, scans, waits
//! ```
//!
//! - A queue has partitions. All keys of a partition begin with its number, so each is a region of the keyspace, and each
//!   procedure is one transaction in one region.
//! - A message that may be popped has an entry in the *ready* order. One that is leased or delayed has an entry in the order
//!   of the moment when that ends.
//! - A pop moves entries from the first order to the second, under the name of the consumer and the number of the pop. A pop
//!   that is repeated under its number gets the same messages.
//! - A pop of a queue of several partitions looks at few of them: hints and two drawn at random. Before it has found nothing, it
//!   reads the counts of all, and looks where there are messages.
//! - An acknowledgement removes a message if its lease still stands. It may be a part of a transaction with its effects, so
//!   that a message is processed exactly once.
//! - Of a group, only the first message has an entry. So messages of a group are processed in their order, one at a time.
//! - A message that was popped as often as the queue allows becomes a dead letter.
//!
//! The procedures open no socket, read no clock and draw no random numbers: ids and times are arguments.

mod consume;
mod create;
mod dead;
#[cfg(test)]
mod documented;
mod error;
mod group_order;
pub mod keys;
mod limits;
pub mod planted;
mod pop;
mod procedure;
mod push;
mod records;
mod settle;
mod statistics;
mod sweep;

pub use consume::{ConsumeOutcome, ConsumeQueue, ConsumeRequest, ConsumerState};
pub use create::{CreateQueue, create_queue, read_options};
pub use dead::{DeadLetter, DeadPage, ListDead, purge_dead, redrive_dead};
pub use error::QueueError;
pub use limits::{LEASES_MAX, MESSAGE_BYTES_MAX, NAME_MAX, PARTITIONS_MAX};
pub use pop::{PopOutcome, PopQueue, PopRequest, PoppedMessage};
pub use procedure::{QueueEffect, QueueEvent, QueueProcedure, QueueStep};
pub use push::{NewMessage, PushOutcome, PushRequest, push, push_decision};
pub use records::{
    ConsumerId, ConsumerRecord, CountsRecord, DeadRecord, EntryRecord, GroupPlace, GroupRecord, Lease,
    MessageId, MessageRecord, NameRecord, ProducerId, ProducerRecord, QueueOptions, WaitingRecord,
};
pub use settle::{Receipt, SettleAction, SettleOutcome, SettleRequest, settle, settle_decision};
pub use statistics::{PartitionStatistics, ReadStatistics};
pub use sweep::Sweep;
