//! Drives procedures of layers over an ordered keyspace of a cluster.
//!
//! ```text
//!   object_client, log_client ──▶ RecordStore ──▶ client
//! ```
//!
//! [`StorageSettings`] makes the settings of the keyspace of a layer. [`RecordStore`] reads, scans and waits for records, and commits transactions of them. [`run()`] drives a procedure over it, and
//! [`decide_within`] makes a decision a part of a transaction.

mod environment;
mod error;
mod keyspace;
mod run;
mod store;
mod within;

pub use environment::{Environment, SystemEnvironment};
pub use error::StoreError;
pub use keyspace::StorageSettings;
pub use run::{Layer, run};
pub use store::{RecordPage, RecordStore};
pub use within::decide_within;
