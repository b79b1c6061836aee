//! The procedures of clients over the session: operations on records, scans, snapshots, transactions and blobs.
//!
//! ```text
//!   caller ──▶ procedure (an async fn: the compiler's state machine) ──▶ ProcedureShell ──▶ Session ──▶ connections
//!                    ▲                                                        │
//!                    └── results of requests, timers ◀────────────────────────┘
//! ```
//!
//! Each procedure exists once. The asynchronous client, its blocking form, Python and the simulator give it a [`ProcedureShell`] and poll it.

mod blob;
mod blob_knowledge;
mod cluster_handle;
mod drop_keyspace;
mod error;
mod keyspace;
mod keyspaces;
mod limits;
mod operation;
mod range_scan;
mod records;

mod scan;
#[cfg(test)]
mod scripted_shell;
mod shell;
mod snapshot;
mod snapshot_lease;
mod transaction;
mod transform;
mod unfinished_truncations;
mod verify;
mod watch;
mod watch_cursor;

pub use blob::{
    Blob, BlobInfo, BlobList, BlobPut, BlobRead, BlobReadVersion, PinnedBlobs, PutOptions, StagedContents,
    StagedExtension, TransactionBlob,
};
pub use cluster_handle::{ClusterHandle, ProcedureSettings};
pub use drop_keyspace::DropOptions;
pub use error::{BlobError, Error};
pub use keyspace::Keyspace;
pub use limits::BlobLimits;
pub use operation::{Info, Operation, PendingOperation, Record, Ttl};
pub use range_scan::RangeScan;
pub use scan::Scan;
pub use shell::{
    BackgroundTask, BatchSender, BoxFuture, PendingReply, ProcedureShell, ReplySender, RequestResult,
};
pub use snapshot::{
    Snapshot, SnapshotBlob, SnapshotBlobList, SnapshotBlobRead, SnapshotOptions, SnapshotRangeScan,
    SnapshotScan,
};
pub use transaction::{Attempts, CommittedTransaction, Promise, Transaction};
pub use transform::Transform;
pub use verify::Comparison;
pub use watch::{Watch, WatchEvent, WatchOptions};
pub use watch_cursor::{CursorError, WatchCursor};
