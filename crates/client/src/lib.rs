//! The client of a zerohop cluster: connections, clock, timers and random numbers around `zerohop-session`, which has the procedures and makes the
//! decisions.
//!
//! ```no_run
//! # async fn example() -> Result<(), zerohop_client::Error> {
//! let client = zerohop_client::Client::connect("127.0.0.1:7400").await?;
//! let keyspace = client.keyspace("default").await?;
//! keyspace.insert("colour", "blue").await?;
//! assert_eq!(keyspace.lookup_bytes("colour").await?.as_deref(), Some(&b"blue"[..]));
//! # Ok(())
//! # }
//! ```
//!
//! A watch follows the changes of a keyspace that keeps a history:
//!
//! ```no_run
//! # use zerohop_client::{Error, Keyspace, WatchEvent, WatchOptions};
//! # async fn example(keyspace: Keyspace) -> Result<(), Error> {
//! let mut watch = keyspace.watch(WatchOptions { prefix: "run-".into(), ..WatchOptions::default() })?;
//! loop {
//!     match watch.next().await? {
//!         WatchEvent::Changes(changes) => {
//!             changes.iter().for_each(|change| println!("{:?} is {:?}", change.key, change.value));
//!         }
//!         WatchEvent::Mark(through) => println!("nothing up to {through} is missing"),
//!     }
//! }
//! # }
//! ```
//!
//! One task drives all connections of a client. Operations reach it through one channel. In each round it makes one write to each connection that
//! has data to send, however many operations the write contains. The guide is `docs/guide/client.md`.

mod batches;
mod blocking;
mod client;
mod driver;
mod listeners;
mod secret;
mod shell;
mod socket;
mod wakers;

#[cfg(doctest)]
#[doc = include_str!("../../../docs/guide/client.md")]
struct Guide;

pub use blocking::{BlockingClient, BlockingHandle, BlockingKeyspace, BlockingTransaction};
pub use client::{Client, ClientOptions};
pub use listeners::{no_address, until_none_listens};
pub use secret::{
    SecretFileError, read_key, read_secret, read_token, write_key, write_new_secret, write_new_token,
};
pub use zerohop_placement::KeyOrder;
pub use zerohop_session::procedures::{
    Blob, BlobError, BlobInfo, BlobList, BlobPut, BlobRead, BlobReadVersion, ClusterHandle,
    CommittedTransaction, Comparison, DropOptions, Error, Info, Keyspace, Operation, PendingOperation,
    PinnedBlobs, Promise, PutOptions, RangeScan, Record, Scan, Snapshot, SnapshotBlob, SnapshotBlobList,
    SnapshotBlobRead, SnapshotOptions, SnapshotRangeScan, SnapshotScan, StagedContents, StagedExtension,
    Transaction, TransactionBlob, Transform, Ttl, Watch, WatchCursor, WatchEvent, WatchOptions,
};
pub use zerohop_session::{
    AttemptFailure, ChangedRecord, Coalescing, Collect, ComparedRange, InvalidTransaction, KeyRange, Reply,
    ScanKey, SessionError as Reason, WaitReason,
};
pub use zerohop_tls::{ClientTls, ConfigError};
pub use zerohop_wire::auth::{Secret, Token};
pub use zerohop_wire::ids::Timestamp;
pub use zerohop_wire::messages::{
    ChangeCause, Condition, Expiry, Number, Operator, Range, RecordType, WaitUntil,
};
pub use zerohop_wire::{AbortReason, Failure};
