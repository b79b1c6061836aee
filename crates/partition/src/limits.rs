//! Every bound of a partition, each with its reason. Those of one request are the wire's.

use zerohop_wire::limits::{SESSION_WINDOW_MAX, VALUE_BYTES_MAX};

/// Sessions that a partition remembers. Each costs about a hundred bytes; a client has one.
pub const SESSIONS_MAX: usize = 1 << 16;

/// Memory of the session table above which no session gains outcomes before it lets go of some. It bounds what a
/// checkpoint carries and what writing it costs at once.
pub const SESSION_BYTES_MAX: usize = 16 << 20;

/// For how long after its last write a session is remembered, at least: as long as anybody would go on retrying.
pub const SESSION_IDLE_MS: u64 = 10 * 60 * 1000;

/// How often idle sessions are looked for: a look walks the whole table.
pub const SESSION_SWEEP_MS: u64 = 10_000;

/// Entries on their way to being committed above which no more records of a sibling are removed: requests go first.
pub const SPLIT_CLEANUP_AHEAD_MAX: u64 = 1024;

/// After a split each partition takes a step of removing what is its sibling's every so many of its keyspace in milliseconds:
/// some 1,600 pages of the index a second in all, a fifth of a core.
pub const SPLIT_CLEANUP_PARTITIONS_PER_MS: u32 = 2;

/// Sessions that one log entry evicts: it stays small.
pub const EVICTED_PER_ENTRY_MAX: usize = 256;

/// The longest value that a failed `compare_swap` keeps for a retry of it. A retry after a longer one is answered
/// `ConditionFailed` with the version that was seen.
pub const SEEN_KEPT_BYTES_MAX: usize = 4 << 10;

/// Memory of the table of deadlines above which no further record gets one.
pub const DEADLINE_BYTES_MAX: usize = 32 << 20;

/// Records that expire in one tick: others are served in between.
pub const EXPIRED_PER_TICK_MAX: usize = 256;

/// Waits parked in a partition.
pub const WAITS_MAX: usize = 1 << 16;

/// Memory of parked waits: keys and expected values.
pub const WAIT_BYTES_MAX: usize = 32 << 20;

/// How long a wait lasts if its asker does not say.
pub const WAIT_DEFAULT_MS: u32 = 30_000;

/// Answers held until what they were evaluated over is committed; beyond it requests are answered `Busy`.
pub const HELD_ANSWERS_MAX: usize = 1 << 16;

/// Bytes of the contents in held answers; one answer may pass it.
pub const HELD_BYTES_MAX: usize = 64 << 20;

/// When to ask again after `Busy`: a few flushes.
pub const BUSY_RETRY_MS: u32 = 10;

/// Pages of the engine's index that one scan request walks, however few keys it finds there.
pub const SCAN_INDEX_PAGES_MAX: usize = 16;

/// Longest payload of an entry that `append` or a trim of a list's tail writes: as a value.
pub const LIST_ENTRY_BYTES_MAX: usize = VALUE_BYTES_MAX;

/// Changes of one unit: all are made in one step, in which the instance does nothing else.
pub const UNIT_CHANGES_MAX: usize = 1 << 16;

/// Staged changes of a unit that are looked through for a key. Where there are more, all go into the log, which has an
/// overlay to find them in.
pub const STAGED_LOOKED_THROUGH_MAX: usize = 64;

/// Bytes of staged changes from which on they go into the log before the next is staged.
pub const STAGED_BYTES_MAX: usize = 256 << 10;

/// Buffers larger than this are given back after use.
pub const BUFFER_KEPT_BYTES: usize = 1 << 20;

/// As large as the buffer that the partitions of an instance share may stay: there is one, so that it may hold the pieces of
/// 4 MiB in which blobs are read.
pub const SHARED_BUFFER_KEPT_BYTES: usize = 5 << 20;

/// Bytes written into a chunk from which on they go into the log from where they lie in the request: a copy less, and no buffer
/// as long. What is shorter is copied behind the head of its entry, which costs less than to add it piece by piece.
pub const APART_BYTES_MIN: usize = 16 << 10;

/// Partitions split, or segments copied ahead for it, in one batch: each costs a few syncs, and others are served in between.
pub const SPLIT_STEPS_PER_BATCH: usize = 4;

/// When a split that failed is tried again: a full disk may have room by then.
pub const SPLIT_AGAIN_MS: u64 = 200;

/// When a keyspace that could not be followed to the map is tried again: a disk may be well, or have room, by then.
pub const FOLLOW_AGAIN_MS: u64 = 500;

/// When to ask again after `Unavailable`: a change of the map is on its way.
pub const UNAVAILABLE_RETRY_MS: u32 = 20;

/// How long after a request a partition is looked at: whether a checkpoint is due, which sessions are idle.
pub const TOUCHED_TICK_MS: u64 = 50;

/// Flushes in one go: what is committed by the first may append more (waits that are answered, records that expire).
pub const FLUSH_ROUNDS_MAX: usize = 4;

/// How often an instance that was used of late looks after its engine.
pub const UPKEEP_EVERY_MS: u64 = 5;

/// For how long after the last request: until what was written is synced and checkpointed.
pub const UPKEEP_BUSY_MS: u64 = 2_000;

/// Partitions whose dead space waits for a checkpoint are ticked so often: a tick begins the checkpoint.
pub const PRESSED_TICK_MS: u64 = 20;

/// How often an idle instance does: dead space is looked for by a timer.
pub const UPKEEP_IDLE_MS: u64 = 1_000;

/// Damaged partitions of an instance of which is told what was found; of the others only how many there are.
pub const DAMAGED_TOLD_MAX: usize = 64;

/// Failures kept for the operator, oldest out first.
pub const TROUBLES_MAX: usize = 16;

/// Memory of prepared transactions and staged pieces above which no more are taken: a checkpoint carries them. One of each
/// may pass it.
pub const TRANSACTED_BYTES_MAX: u64 = 24 << 20;

/// Snapshots that a partition keeps at once: each holds back what has changed since.
pub const SNAPSHOTS_MAX: usize = 64;

/// Snapshots that a partition keeps beside these, each for one long answer that its client is taking: what comes when there are as many
/// waits for one of them to end.
pub const ANSWER_SNAPSHOTS_MAX: usize = 16;

/// Times that are being closed at once for readers of snapshots; more are told to come again.
pub const SNAPSHOTS_CLOSING_MAX: usize = 64;

/// Older versions and deadlines that a partition keeps for snapshots, some twenty megabytes; above that the oldest snapshot
/// is closed.
pub const SNAPSHOT_VERSIONS_MAX: usize = 1 << 17;

/// How often a partition with transactions under way looks after them: a few times between two copies of a message.
pub const TRANSACTIONS_TICK_MS: u64 = 50;

/// Messages of transactions that an instance has to pass on; more are let lie.
pub const TRANSIT_MAX: usize = 65_536;

/// Messages of transactions that are passed on in one turn: others are served in between.
pub const TRANSIT_PER_BATCH_MAX: usize = 4_096;

/// Rounds of flushes and messages between partitions of one instance in one batch: a transaction takes three.
pub const TRANSIT_ROUNDS_MAX: usize = 8;

/// For how long a request waits for the intents of transactions before its asker has to come again.
pub const INTENT_WAIT_MS: u64 = 2_000;

/// For how long a record is held that is read with others: nobody changes it before as much has passed. On a clock that shows
/// whole milliseconds this lasts for as much or a millisecond less.
pub const HOLD_MS: u64 = 3;

/// For how long readers are told that it is, from when they asked: some times what a round takes.
pub const HELD_US: u32 = 2_000;

/// A record that was changed within so long is not held. Whoever changes one more often never waits for readers, and others wait
/// for [`HOLD_MS`] once in so long.
pub const HOLD_QUIET_MS: u64 = 50;

/// For how long after a read that was to be held an instance looks at the clock for each read of a socket: none is held where the
/// time may be from before it came.
pub const TIMELY_MS: u64 = 1_000;

/// Bytes of requests that wait for intents; one may pass it.
pub const INTENT_WAIT_BYTES_MAX: usize = 32 << 20;

/// Fields of a trailer at most: flags, deadline, session, sequence, its distance, an outcome, its length.
pub const TRAILER_BYTES_MAX: usize = 1 + 8 + 16 + 8 + 2 + 17 + 1;

// A trailer tells its length in one byte, and fits beside the longest payload.
const _: () = assert!(TRAILER_BYTES_MAX <= u8::MAX as usize);
const _: () = assert!(
    LIST_ENTRY_BYTES_MAX + TRAILER_BYTES_MAX + SEEN_KEPT_BYTES_MAX
        <= zerohop_engine::limits::PAYLOAD_BYTES_MAX
);
// Clocks in whole milliseconds are up to one behind.
const _: () = assert!(HELD_US as u64 <= (HOLD_MS - 1) * 1_000 && HOLD_MS < HOLD_QUIET_MS);
// A sequence is kept by its distance from the lowest unanswered one, in 16 bits.
const _: () = assert!(SESSION_WINDOW_MAX + zerohop_wire::limits::BATCH_ITEMS_MAX as u64 <= u16::MAX as u64);
// All tables fit what an engine's checkpoint carries.
const _: () = assert!(
    SESSION_BYTES_MAX + DEADLINE_BYTES_MAX + NAMES_BYTES_MAX + TRANSACTED_BYTES_MAX as usize + (24 << 20)
        <= zerohop_engine::limits::CHECKPOINT_EXTRA_BYTES_MAX
);

/// Writes that a chunk consists of, above which the next one writes it again as a whole; of a long one
/// [more](CHUNK_PART_BYTES_MIN). Each takes memory, and a read of the whole looks at each of them.
pub const CHUNK_PARTS_MAX: u64 = 512;

/// Bytes of a chunk for each write that it may consist of, if that comes to more than [`CHUNK_PARTS_MAX`]. Of writes of 4 KiB at any
/// places 2 KiB each show on average, since later ones hide the rest: so they never have the chunk written again. What is noted of
/// a write is some 60 bytes, a twenty-fifth of this.
pub const CHUNK_PART_BYTES_MIN: u64 = 1536;

/// Times its own size that the writes of a chunk may cover in all, and bytes beside, above which the next one writes it again: what
/// lies under other writes takes room in the log.
pub const CHUNK_COVER_FACTOR_MAX: u64 = 4;

/// See [`CHUNK_COVER_FACTOR_MAX`].
pub const CHUNK_COVER_SLACK_BYTES: u64 = 256 << 10;

/// After how long an instance says again that nothing is under way in a keyspace that is being dropped; each time after twice as long,
/// as each is an entry of control's log.
pub const DRAINED_AGAIN_MS: u64 = 500;

/// And after this long at most.
pub const DRAINED_AGAIN_MS_MAX: u64 = 30_000;

/// After how long it looks again whether that is so; each time after twice as long,
pub const DRAINED_LOOK_MS: u64 = 20;

/// and after this long at most.
pub const DRAINED_LOOK_MS_MAX: u64 = 500;

/// Memory of the names of blobs in one partition, above which no more are made: a checkpoint carries them, and has room
/// for [`zerohop_engine::limits::CHECKPOINT_EXTRA_BYTES_MAX`] with what sessions and deadlines take.
pub const NAMES_BYTES_MAX: usize = 16 << 20;

/// Bytes of contents after which a digest reads no further. A value has no more.
pub const DIGEST_BYTES_MAX: u64 = 16 << 20;

/// Records that members compare at a time if they are asked to: with their contents,
pub const COMPARED_RECORDS: usize = 256;

/// and until these come to so many bytes.
pub const COMPARED_BYTES: u64 = 1 << 20;
