//! All limits of the client, each with its reason; those of the session are in `crate::limits`.

use std::time::Duration;

/// Maximum number of records that a transaction may read and write: the number that one request may contain.
pub(crate) const TRANSACTION_ITEMS_MAX: usize = zerohop_wire::limits::TRANSACTION_ITEMS_MAX as usize;

/// Maximum total size of the operations of one transaction, in bytes.
pub(crate) const TRANSACTION_BYTES_MAX: u64 = crate::TRANSACTION_BYTES_MAX;

/// Maximum size of the operations that a commit sends directly, in bytes; the session stages some of them if needed. The session's memory limit is
/// twice this by default, and the session stores the operations twice. The client stages the excess before the commit.
pub(crate) const COMMIT_BYTES_MAX: usize = 64 << 20;

/// In this case the client stages operations of at least this length: [`TRANSACTION_ITEMS_MAX`] shorter ones fit in [`COMMIT_BYTES_MAX`].
pub(crate) const STAGED_BYTES_MIN: usize = COMMIT_BYTES_MAX / TRANSACTION_ITEMS_MAX;

/// A smaller operation is not worth a round trip of its own before the commit, in bytes.
pub(crate) const STAGED_AT_ONCE_BYTES_MIN: usize = 64 << 10;

/// Interval between two staged pieces in one partition: a third of the time for which a piece is kept.
pub(crate) const STAYS_FOR: Duration = Duration::from_micros(crate::STAGED_US_MAX / 3);

/// Maximum number of bytes in flight while a commit stages; a single operation may exceed it.
pub(crate) const STAGED_AHEAD_BYTES: usize = 16 << 20;

/// First pause of a transaction after a conflict: about the duration of a commit.
pub(crate) const BACKOFF_MIN: Duration = Duration::from_millis(1);

/// Maximum pause between two attempts.
pub(crate) const BACKOFF_MAX: Duration = Duration::from_millis(200);

/// Maximum number of attempts of a blob operation, which starts again when the blob has changed since its header was read or on a conflict. With
/// their pauses they take longer than the default deadline.
pub(crate) const BLOB_ATTEMPTS_MAX: u32 = 128;

/// Maximum number of times that `Blob::extend` tries to reserve its place. Each failed attempt means that another client has extended the blob.
pub(crate) const BLOB_EXTEND_ATTEMPTS_MAX: u32 = 1000;

/// From where on a blob operation does its work in several requests. A program with small blobs, as the simulator, sets small ones, so that it
/// takes the ways of large blobs too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlobLimits {
    /// Maximum number of bytes in flight while a blob is read; a longer stream reads a snapshot.
    pub ahead_bytes: u64,
    /// Maximum number of bytes of a put that creates a blob in one transaction.
    pub put_bytes: usize,
    /// The same for a put that replaces a blob.
    pub replaced_bytes: usize,
    /// Maximum number of chunks that one transaction truncates or removes.
    pub transaction_chunks: u64,
}

impl Default for BlobLimits {
    fn default() -> Self {
        Self {
            ahead_bytes: BLOB_AHEAD_BYTES,
            put_bytes: BLOB_PUT_BYTES,
            replaced_bytes: BLOB_WRITE_BYTES_MAX,
            transaction_chunks: BLOB_TRUNCATE_CHUNKS_MAX,
        }
    }
}

/// Maximum number of bytes of one write to a blob: the client has several copies in memory, and the primaries store the bytes until the decision.
pub(crate) const BLOB_WRITE_BYTES_MAX: usize = 64 << 20;

/// Maximum number of bytes of a put that creates a blob in one transaction; a longer put uses a staged extension while its bytes arrive.
const BLOB_PUT_BYTES: usize = 16 << 20;

/// Number of conflicts after which a put that replaces a blob stages its bytes instead of sending them again.
pub(crate) const BLOB_PUT_ATTEMPTS: u32 = 3;

/// Number of times that a put, whose unfinished blob another client has cut, looks for the blob of that client.
pub(crate) const BLOB_BEATEN_CHECKS_MAX: u32 = 10;

/// A put of up to this number of bytes does not stage them after conflicts: to send them again takes about as long as to bind them.
pub(crate) const BLOB_PUT_STAGED_BYTES_MIN: usize = 256 << 10;

/// Maximum number of bytes of one request while a blob is read.
pub(crate) const BLOB_PIECE_BYTES: u64 = 4 << 20;

/// Maximum number of bytes in flight while a blob is streamed in or out; a single piece may exceed it. A stream uses this much memory plus one
/// piece.
pub(crate) const BLOB_AHEAD_BYTES: u64 = 16 << 20;

/// Maximum number of bytes of pinned blobs that are kept in memory; longer ones are read from a snapshot.
pub(crate) const BLOB_PIN_MEMORY_BYTES: u64 = 1 << 20;

/// Maximum number of chunks of one stream. The stream remembers the version of each until its end: 8 bytes each.
pub(crate) const BLOB_STREAM_CHUNKS_MAX: u64 = 1 << 20;

/// Maximum number of confirmations in flight.
pub(crate) const BLOB_CONFIRMS_AHEAD: usize = 4096;

/// Number of confirming rounds of a read of several chunks before it becomes a transaction, which waits for writers instead.
pub(crate) const BLOB_CONFIRMS_MAX: u32 = 2;

/// Maximum number of times that such a read starts again.
pub(crate) const BLOB_CHECKS_MAX: u32 = 32;

/// Maximum number of bytes that are read as results of a transaction, because the coordinator stores those results.
pub(crate) const BLOB_SHARED_BYTES_MAX: u64 = 512 << 10;

/// Maximum number of chunks that one transaction truncates or removes.
const BLOB_TRUNCATE_CHUNKS_MAX: u64 = 4096;

/// Number of chunks that are truncated in parallel if there are more than fit in a transaction.
pub(crate) const BLOB_TRUNCATES_PARALLEL: u64 = 256;

/// Number of partitions that list chunks in parallel while a long blob is truncated, and the most chunks of one list: together as many as one step
/// of a scan.
pub(crate) const BLOB_CHUNK_LISTS_PARALLEL: usize = 64;

/// See [`BLOB_CHUNK_LISTS_PARALLEL`].
pub(crate) const BLOB_LISTED_CHUNKS: u32 = 1024;

/// Maximum number of truncations that ended early, as at their deadline, whose progress a handle to the cluster keeps: at most some megabytes each,
/// for the numbers of one page and the cursors of all partitions.
pub(crate) const BLOB_UNFINISHED_TRUNCATIONS_MAX: usize = 8;

/// Interval between two renewals of staged blob contents by their writer. Several fit in [`BLOB_RENEWED_MS_MAX`], so that a slow reply does not count
/// as the death of a writer.
pub(crate) const BLOB_RENEWAL: Duration = Duration::from_secs(4);

/// Maximum time in milliseconds between two renewals. After that, clients that replace or remove the same blob remove the contents.
pub(crate) const BLOB_RENEWED_MS_MAX: u64 = 20_000;

/// Maximum time in milliseconds between two renewals for clients that replace other blobs: a day.
pub(crate) const BLOB_STAGED_MS_MAX: u64 = 24 * 3600 * 1000;

/// Number of chunks that a staged extension announces in the header before it writes them. The writer updates the header after each such number of
/// chunks. If the extension fails, as many chunks beyond the written ones must be checked.
pub(crate) const BLOB_STAGED_STEP_CHUNKS: u64 = 256;

/// Extra time that a manager has, beyond the requested wait, to reply that a drop is in progress.
pub(crate) const DROP_ANSWER_MAX: Duration = Duration::from_secs(2);

/// Maximum time for which the client repeats the request to a manager that cannot drop a keyspace at the moment; the time-out, if it is shorter.
pub(crate) const DROP_NOT_NOW_MAX: Duration = Duration::from_secs(5);

/// Pause before the client repeats the request, unless the manager has itself waited before its reply.
pub(crate) const DROP_PAUSE: Duration = Duration::from_millis(100);

/// Lease of the snapshot that a long stream of a blob reads: about as long as a primary may be silent until another one takes its place.
pub(crate) const STREAM_SNAPSHOT_LEASE: Duration = Duration::from_secs(15);

/// Maximum age of such a snapshot in milliseconds: a stalled reader must not keep replaced bytes on disk indefinitely.
pub(crate) const STREAM_SNAPSHOT_AGE_MS: u64 = 30 * 60 * 1000;

/// Maximum number of times that a stream opens a snapshot, because the keyspace was split or the blob replaced meanwhile.
pub(crate) const STREAM_SNAPSHOT_ATTEMPTS: u32 = 4;

/// Maximum time in microseconds until such a snapshot is open; after that the stream reads without it.
pub(crate) const STREAM_SNAPSHOT_OPEN_US: u64 = 2_000_000;
