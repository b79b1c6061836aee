//! Logs for programs: what `zerohop log` is made of, without its output.
//!
//! ```text
//!   command, program ──▶ LogClient ──▶ procedures of the layer ──▶ RecordStore ──▶ client
//! ```
//!
//! - [`LogClient`] reads, trims and describes a log. Its groups share the partitions among members.
//! - [`LogProducer`] appends each batch once, also if an answer is lost.
//! - [`LogReader`] reads partitions from where it has come to.
//! - [`LogMember`] reads the partitions that a group assigns to it, and commits how far it has come.
//! - [`LogPopper`] pops records by a cursor that other readers share.
//! - [`new_log`] has the settings of the keyspace of a log, with a region for each log partition.

mod client;
mod groups;
mod layer;
mod member;
mod popper;
mod producer;
mod reader;

pub use client::{LogClient, OpenError, new_log};
pub use groups::{GroupSummary, PartitionGroups, PartitionOffset};
pub use member::LogMember;
pub use popper::LogPopper;
pub use producer::LogProducer;
pub use reader::{LogReader, PlacedRecord, ReadStart};
pub use zerohop_layer_driver::StorageSettings;
