//! Queues for programs: what `zerohop queue` is made of, without its output.
//!
//! ```text
//!   command, program ──▶ QueueClient ──▶ procedures of the layer ──▶ RecordStore ──▶ client
//! ```
//!
//! - [`QueueClient`] describes a queue, and settles leases. Within a transaction it pushes and acknowledges together with the
//!   other writes of the transaction.
//! - [`QueueProducer`] pushes each message once, also if an answer is lost.
//! - [`QueueConsumer`] pops messages under leases.
//! - [`new_queue`] has the settings of the keyspace of a queue, with a region for each partition.

mod client;
mod consumer;
mod layer;
mod lease_token;
mod producer;
mod retry;

pub use client::{OpenError, QueueClient, new_queue};
pub use consumer::{LeasedMessage, QueueConsumer};
pub use lease_token::{BadLeaseToken, LeaseToken};
pub use producer::QueueProducer;
pub use zerohop_layer_driver::StorageSettings;
