//! Every bound of a partition, each with its reason. The bounds of a single request are in the wire crate.

use zerohop_wire::limits::{LIST_ENTRY_BYTES_MAX, SESSION_WINDOW_MAX};

/// Sessions that a partition remembers. Each costs about a hundred bytes; a client has one.
pub const SESSIONS_MAX: usize = 1 << 16;

/// Memory of the session table above which no session gains outcomes before it frees some. It bounds the size of a checkpoint and
/// the cost of writing it.
pub const SESSION_BYTES_MAX: usize = 16 << 20;

/// The least time for which a session is remembered after its last write: as long as a client would continue to retry.
pub const SESSION_IDLE_MS: u64 = 10 * 60 * 1000;

/// How often idle sessions are searched for. A search walks through the complete table.
pub const SESSION_SWEEP_MS: u64 = 10_000;

/// Uncommitted entries above which no more records of a sibling are removed, so that requests go first.
pub const SPLIT_CLEANUP_AHEAD_MAX: u64 = 1024;

/// After a split each partition takes a cleanup step once per (partitions of its keyspace / this) milliseconds. In all these are
/// at most two steps a millisecond, a third of a core.
pub const SPLIT_CLEANUP_PARTITIONS_PER_MS: u32 = 2;

/// The least time between two cleanup steps of a partition, so that a keyspace of few partitions does not use a core.
pub const SPLIT_CLEANUP_PAUSE_MS: u64 = 2;

/// Records that a cleanup step removes, and keys that it reads from the log, about: less than a millisecond.
pub const SPLIT_CLEANUP_KEYS_MAX: usize = 64;

/// Keys in memory that a cleanup step walks over in an ordered partition.
pub const SPLIT_CLEANUP_WALKED_MAX: usize = 1024;

/// Sessions that one log entry evicts, so that it stays small.
pub const EVICTED_PER_ENTRY_MAX: usize = 256;

/// The longest value that a failed `compare_swap` keeps for a retry of it. A retry after a longer one is answered
/// `ConditionFailed` with the version that was seen.
pub const SEEN_VALUE_BYTES_MAX: usize = 4 << 10;

/// Memory of the table of deadlines above which no further record gets one.
pub const DEADLINE_BYTES_MAX: usize = 32 << 20;

/// Records that expire in one tick. Requests are served in between.
pub const EXPIRED_PER_TICK_MAX: usize = 256;

/// Memory of the changes that a member sends with a snapshot: the newest. It keeps them encoded while it sends.
pub const HISTORY_SENT_BYTES_MAX: usize = 64 << 20;

/// Requests that wait for changes in one partition. Each change is compared with all of them.
pub const WATCHES_MAX: usize = 1024;

/// Memory of these requests.
pub const WATCH_BYTES_MAX: usize = 4 << 20;

/// Waits in one partition.
pub const WAITS_MAX: usize = 1 << 16;

/// Memory of waits: keys and expected values.
pub const WAIT_BYTES_MAX: usize = 32 << 20;

/// How long a wait lasts if its client does not set a time-out.
pub const WAIT_DEFAULT_MS: u32 = 30_000;

/// How long a client has the update lock of a record, if it does not change the record before: some ten commits.
pub const UPDATE_LOCK_MS: u64 = 100;

/// How much longer it has the lock while a transaction is about to change the record.
pub const UPDATE_LOCK_CHANGE_MS: u64 = 5;

/// How long a request waits for an update lock at most. Ten clients that died with the lock may have been before it.
pub const UPDATE_LOCK_WAIT_MS: u64 = 1000;

/// Update locks that the clients of a partition have at once.
pub const UPDATE_LOCKS_MAX: usize = 1 << 14;

/// Memory of these locks.
pub const UPDATE_LOCK_BYTES_MAX: usize = 4 << 20;

/// Pending replies of a partition. Above this requests are answered `Busy`.
pub const PENDING_REPLIES_MAX: usize = 1 << 16;

/// Bytes of the contents in pending replies; a single reply may exceed it.
pub const PENDING_REPLY_BYTES_MAX: usize = 64 << 20;

/// When to retry after `Busy`: a few flushes.
pub const BUSY_RETRY_MS: u32 = 10;

/// Keys that one scan of an ordered partition visits, however few of them it lists.
pub const RANGE_KEYS_VISITED_MAX: u32 = 8192;

/// Keys that it reads from the engine at once.
pub const RANGE_READ_KEYS: usize = 512;

/// Longest value that it sends with a key, in bytes: half a page. A client reads longer ones alone.
pub const RANGE_VALUE_BYTES_MAX: usize = zerohop_wire::limits::PAGE_BYTES_MAX / 2;

/// Pages of the engine's index that one scan request walks, however few keys it finds there.
pub const SCAN_INDEX_PAGES_MAX: usize = 16;

/// Changes of one atomic batch. All are made in one step, in which the instance does nothing else.
pub const BATCH_CHANGES_MAX: usize = 1 << 16;

/// Staged changes of an atomic batch that are searched for a key. With more, all go into the log, whose overlay can be searched.
pub const STAGED_CHANGES_SEARCHED_MAX: usize = 64;

/// Bytes of staged changes above which they go into the log before the next change is staged.
pub const STAGED_BYTES_MAX: usize = 256 << 10;

/// Buffers larger than this are freed after use.
pub const BUFFER_RETAINED_BYTES: usize = 1 << 20;

/// The most that the buffer shared by the partitions of an instance may keep. There is only one, so it may have the pieces of 4
/// MiB in which blobs are read.
pub const SHARED_BUFFER_KEPT_BYTES: usize = 5 << 20;

/// Length of chunk writes above which their bytes go from the request into the log without a copy or a long buffer. Shorter
/// writes are copied behind the head of their entry, which costs less than appending them piece by piece.
pub const SEPARATE_BYTES_MIN: usize = 16 << 10;

/// When to retry after `Unavailable`: a change of the map is in progress.
pub const UNAVAILABLE_RETRY_MS: u32 = 20;

/// How long after a request a partition is checked: whether a checkpoint is due, which sessions are idle.
pub const TOUCHED_TICK_MS: u64 = 50;

/// Memory of prepared transactions and staged pieces above which no more are accepted, since a checkpoint carries them. A single
/// one of each may exceed it.
pub const TRANSACTED_BYTES_MAX: u64 = 24 << 20;

/// Snapshots that a partition keeps at once. Each retains versions that have changed since.
pub const SNAPSHOTS_MAX: usize = 64;

/// Snapshots that a partition keeps beside these, each for one long stream of a blob. A stream beyond them reads without a snapshot.
pub const STREAM_SNAPSHOTS_MAX: usize = 64;

/// Snapshots that a partition keeps beside these, each for one long answer that its client is taking: what comes when there are as many
/// waits for one of them to end. A token gets another one only while it has fewer than are free: eight if it is alone.
pub const ANSWER_SNAPSHOTS_MAX: usize = 16;

/// Times that are being closed at once for readers of snapshots; more are refused, and retried.
pub const SNAPSHOTS_CLOSING_MAX: usize = 64;

/// Older versions and deadlines that a partition keeps for snapshots, some twenty megabytes. Above this the oldest snapshot is
/// closed.
pub const SNAPSHOT_VERSIONS_MAX: usize = 1 << 17;

/// How often a partition with transactions in progress is ticked: a few times between two copies of a message.
pub const TRANSACTIONS_TICK_MS: u64 = 50;

/// How long a request waits for the intents of transactions before its client must retry.
pub const INTENT_WAIT_MS: u64 = 2_000;

/// How long a read lock lasts; no request changes the record before that time has passed. On a clock of whole milliseconds the
/// read lock lasts for this time or a millisecond less.
pub const READ_LOCK_MS: u64 = 3;

/// How long readers may rely on a read lock, from the time of their request: some round-trip times.
pub const READ_LOCK_US: u32 = 2_000;

/// A record that was changed within this time is not read-locked. A client that changes a record more often never waits for
/// readers. Others wait for [`READ_LOCK_MS`] once in this time.
pub const READ_LOCK_QUIET_MS: u64 = 50;

/// Bytes of requests that wait for intents; a single request may exceed it.
pub const INTENT_WAIT_BYTES_MAX: usize = 32 << 20;

/// Fields of a trailer at most: flags, deadline, session, sequence, its distance, an outcome, its length.
pub const TRAILER_BYTES_MAX: usize = 1 + 8 + 16 + 8 + 2 + 17 + 1;

// A trailer states its length in one byte, and fits beside the longest payload.
const _: () = assert!(TRAILER_BYTES_MAX <= u8::MAX as usize);
const _: () = assert!(
    LIST_ENTRY_BYTES_MAX + TRAILER_BYTES_MAX + SEEN_VALUE_BYTES_MAX
        <= zerohop_engine::limits::PAYLOAD_BYTES_MAX
);
// Clocks in whole milliseconds are up to one millisecond behind.
const _: () = assert!(READ_LOCK_US as u64 <= (READ_LOCK_MS - 1) * 1_000 && READ_LOCK_MS < READ_LOCK_QUIET_MS);
// A sequence is kept by its distance from the lowest unanswered one, in 16 bits.
const _: () = assert!(SESSION_WINDOW_MAX + zerohop_wire::limits::BATCH_ITEMS_MAX as u64 <= u16::MAX as u64);
// All tables fit into an engine's checkpoint.
const _: () = assert!(
    SESSION_BYTES_MAX
        + DEADLINE_BYTES_MAX
        + NAMES_BYTES_MAX
        + CHUNKS_BYTES_MAX
        + TRANSACTED_BYTES_MAX as usize
        + (24 << 20)
        <= zerohop_engine::limits::CHECKPOINT_EXTRA_BYTES_MAX
);

/// Writes that a chunk may consist of. Above this the next write writes the complete chunk again; a long chunk may have
/// [more](CHUNK_PART_BYTES_MIN). Each takes memory, and a read of the complete chunk visits each of them.
pub const CHUNK_PARTS_MAX: u64 = 512;

/// Bytes of a chunk for each write that it may consist of, if that gives more than [`CHUNK_PARTS_MAX`]. Of 4 KiB writes at random
/// places 2 KiB each are visible on average, since later ones hide the rest. Such writes therefore never cause the chunk to be
/// written again. The metadata of a write takes some 60 bytes, a twenty-fifth of this.
pub const CHUNK_PART_BYTES_MIN: u64 = 1536;

/// Multiple of its own size that the writes of a chunk may cover in all, plus a slack in bytes. Above this the next write writes
/// the chunk again, since hidden bytes take room in the log.
pub const CHUNK_COVER_FACTOR_MAX: u64 = 4;

/// See [`CHUNK_COVER_FACTOR_MAX`].
pub const CHUNK_COVER_SLACK_BYTES: u64 = 256 << 10;

/// Memory of blob names in one partition, above which no more blobs are created. A checkpoint carries them, and has room for
/// [`zerohop_engine::limits::CHECKPOINT_EXTRA_BYTES_MAX`] together with sessions and deadlines.
pub const NAMES_BYTES_MAX: usize = 16 << 20;

/// Memory of the table of chunks in one partition, above which it is given up: some 7 million chunks of dense blobs, or 150,000 of the sparsest. A
/// checkpoint carries it too.
pub const CHUNKS_BYTES_MAX: usize = 16 << 20;

/// Chunks of the table that one request visits, most of which may be a sibling's after a split.
pub const CHUNKS_VISITED_MAX: usize = 16_384;

/// Bytes of contents after which a digest stops reading. A value has no more.
pub const DIGEST_BYTES_MAX: u64 = 16 << 20;

/// Records that members compare with their contents at a time, on request of a client.
pub const COMPARED_RECORDS: usize = 256;

/// Bytes of contents after which such a comparison ends.
pub const COMPARED_BYTES: u64 = 1 << 20;
