//! Drives procedures of layers over an ordered keyspace of a cluster.
//!
//! ```text
//!   object_client, log_client ──▶ RecordStore ──▶ client
//! ```
//!
//! [`RecordStore`] reads, scans and waits for records, and commits transactions of them. [`run()`] drives a procedure over it.

mod error;
mod run;
mod store;

pub use error::StoreError;
pub use run::{Layer, run};
pub use store::{RecordPage, RecordStore};
