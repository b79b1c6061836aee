//! Every bound of the client's own, each with its reason; those of a session are in `zerohop_session::limits`.

use std::time::Duration;

/// Most records that a transaction has read or will write: as many as it may send.
pub(crate) const TRANSACTION_ITEMS_MAX: usize = zerohop_wire::limits::TRANSACTION_ITEMS_MAX as usize;

/// Most bytes of operations of one transaction.
pub(crate) const TRANSACTION_BYTES_MAX: u64 = zerohop_session::TRANSACTION_BYTES_MAX;

/// Bytes of operations that a commit sends as they are, and its session stages as it sees fit: twice as much is what a session
/// holds by default, and it holds them twice. Of more, the client stages before.
pub(crate) const COMMIT_BYTES_MAX: usize = 64 << 20;

/// Where it does, operations from this length on: as many as a transaction may have leave [`COMMIT_BYTES_MAX`].
pub(crate) const STAGED_BYTES_MIN: usize = COMMIT_BYTES_MAX / TRANSACTION_ITEMS_MAX;

/// An operation of fewer bytes is not worth a round trip of its own before the commit.
pub(crate) const STAGED_AT_ONCE_BYTES_MIN: usize = 64 << 10;

/// So long after the last piece that was staged in a partition, another is: a third of the time for which one stays.
pub(crate) const STAYS_FOR: Duration = Duration::from_micros(zerohop_session::STAGED_US_MAX / 3);

/// Bytes that are on their way while a commit stages; one operation may pass it.
pub(crate) const STAGED_AHEAD_BYTES: usize = 16 << 20;

/// First pause of a transaction that was in others' way: about what a commit takes.
pub(crate) const BACKOFF_MIN: Duration = Duration::from_millis(1);

/// Longest pause between two attempts.
pub(crate) const BACKOFF_MAX: Duration = Duration::from_millis(200);

/// How often an operation of a blob begins again because the blob is another than its header said, or others were in the way:
/// with the pauses between, longer than the default deadline.
pub(crate) const BLOB_ATTEMPTS_MAX: u32 = 128;

/// How often an append asks for a place that another takes first. Each time somebody has appended.
pub(crate) const BLOB_PLACES_MAX: u32 = 1000;

/// Most bytes of one write of a blob: they are in memory several times, and with the primaries until it is decided.
pub(crate) const BLOB_WRITE_BYTES_MAX: usize = 64 << 20;

/// Most bytes of a put that makes a blob by one transaction; more is filled in while it comes.
pub(crate) const BLOB_PUT_BYTES: usize = 16 << 20;

/// Most bytes that are asked for at once while a blob is read.
pub(crate) const BLOB_PIECE_BYTES: u64 = 4 << 20;

/// Bytes that are on their way while a blob is streamed, in or out; one piece may pass it. What a stream holds in memory is
/// this and a piece.
pub(crate) const BLOB_AHEAD_BYTES: u64 = 16 << 20;

/// Most chunks of one stream, whose versions are remembered until its end: 8 bytes each.
pub(crate) const BLOB_STREAM_CHUNKS_MAX: u64 = 1 << 20;

/// Confirmations on their way at once.
pub(crate) const BLOB_CONFIRMS_AHEAD: usize = 4096;

/// How often a read of several chunks is confirmed before it runs as a transaction, which waits for writers instead.
pub(crate) const BLOB_CONFIRMS_MAX: u32 = 2;

/// How often such a read begins again at most.
pub(crate) const BLOB_CHECKS_MAX: u32 = 32;

/// Most bytes that are read as the results of a transaction, which its coordinator keeps.
pub(crate) const BLOB_SHARED_BYTES_MAX: u64 = 512 << 10;

/// Most chunks that are cut, or removed, by one transaction.
pub(crate) const BLOB_CUT_CHUNKS_MAX: u64 = 4096;

/// Chunks that are cut side by side where they are more.
pub(crate) const BLOB_CUTS_AHEAD: u64 = 256;

/// For how long new contents of a blob may wait, in milliseconds, without a step of their writer, before others remove them: a day.
pub(crate) const BLOB_STAGED_MS_MAX: u64 = 24 * 3600 * 1000;

/// How many chunks ahead of what is filled the header says that it is: after so many it is said once more, and so many have to
/// be looked at beyond what was filled if it comes to nothing.
pub(crate) const BLOB_FILL_STEP_CHUNKS: u64 = 256;

/// How much later than it was asked to a manager may answer that a drop is under way.
pub(crate) const DROP_ANSWER_MAX: Duration = Duration::from_secs(2);

/// How long a manager is asked again that cannot drop anything just now; the time-out, if that is shorter.
pub(crate) const DROP_NOT_NOW_MAX: Duration = Duration::from_secs(5);

/// After which pause it is asked again, where it, or whoever is asked next, has not said that it waits.
pub(crate) const DROP_PAUSE: Duration = Duration::from_millis(100);
