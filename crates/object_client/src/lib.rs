//! Objects for programs: what `zerohop object` and the S3 gateway have in common, without a protocol.
//!
//! ```text
//!   command, gateway ──▶ ObjectClient ──▶ procedures of the layer ──▶ Store ──▶ ClusterStore ──▶ client
//! ```
//!
//! [`ClusterStore`] keeps records in an ordered keyspace and bodies as blobs of another one. [`ObjectClient`] puts, gets, copies,
//! lists and removes objects. [`check`] compares the records of a snapshot with the blobs in it.

pub mod check;
mod client;
mod cluster;
mod names;
mod writer;

pub use client::{ObjectClient, ObjectReader};
pub use cluster::{ClusterBodyWriter, ClusterStore};
pub use names::{NameError, bucket_name, object_name};
pub use writer::{CRC64_NVME, ObjectWriter, PutSettings};
