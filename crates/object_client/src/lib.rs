//! Objects for programs: what `zerohop object` and the S3 gateway have in common, without a protocol.
//!
//! ```text
//!   command, gateway ──▶ ObjectClient ──▶ procedures of the layer ──▶ Store ──▶ ClusterStore ──▶ client
//! ```
//!
//! An object that appears together with a key of another keyspace, or not at all:
//!
//! ```no_run
//! use zerohop_client::{Client, Keyspace};
//! use zerohop_object_client::{ClusterStore, ObjectClient, PutSettings};
//!
//! async fn store(
//!     client: &Client,
//!     objects: &ObjectClient<ClusterStore>,
//!     index: &Keyspace,
//! ) -> Result<(), Box<dyn std::error::Error>> {
//!     let mut writer = objects.put("papers".to_owned(), b"one.txt".to_vec()).await?;
//!     writer.write(b"twenty thousand leagues").await?;
//!     let body = writer.finish().await?;
//!
//!     let transaction = client.begin();
//!     let stored = objects.publish_within(&transaction, &body, PutSettings::default()).await?;
//!     transaction.insert(index, "one.txt", stored.etag.to_string().as_bytes())?;
//!     transaction.commit().await?;
//!     Ok(())
//! }
//! ```
//!
//! [`ClusterStore`] keeps records in an ordered keyspace and bodies as blobs of another one. [`ObjectClient`] puts, gets, copies,
//! lists and removes objects, also as parts of transactions. [`check`] compares the records of a snapshot with the blobs in it.

pub mod check;
mod client;
mod cluster;
mod keyspaces;
mod names;
mod within;
mod writer;

pub use client::{ObjectClient, ObjectReader};
pub use cluster::{ClusterBodyWriter, ClusterStore};
pub use keyspaces::{OBJECTS, bodies_of, new_keyspace};
pub use names::{NameError, bucket_name, object_name};
pub use writer::{CRC64_NVME, ObjectWriter, PutSettings, WrittenBody};
