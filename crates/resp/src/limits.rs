//! Every bound of the Redis protocol, each with its reason.

use zerohop_wire::limits::{LIST_PAGE_VALUES_MAX, TRANSACTION_ITEMS_MAX, VALUE_BYTES_MAX};

/// Longest argument of a command: the longest value. Redis allows 512 MiB; larger data belongs in a
/// blob.
pub const BULK_BYTES_MAX: usize = VALUE_BYTES_MAX;

/// Longest argument that is skipped and answered with an error: Redis' own limit. Nothing of it is
/// kept. A longer one closes the connection.
pub const SKIPPED_BULK_BYTES_MAX: usize = 512 << 20;

/// Longest command, with all its arguments: two of the longest values (`ZH.CAS` has two), and room
/// for two short arguments and all lengths.
pub const COMMAND_BYTES_MAX: usize = 2 * VALUE_BYTES_MAX + (1 << 20);

/// Most arguments of one command, as in Redis. Their spans take 8 bytes each and are allocated only
/// as arguments arrive.
pub const ARGUMENTS_MAX: usize = 1 << 20;

/// Longest line: an inline command, or the length of an array or argument. As in Redis.
pub const LINE_BYTES_MAX: usize = 64 << 10;

/// Commands of one connection whose replies are not sent. It bounds the memory for one client. A
/// reply waits milliseconds for the disk; a deeper pipeline would not be faster.
pub const PENDING_MAX: usize = 1024;

/// Bytes of one connection's replies that wait for an earlier one, above which no more is read.
pub const WAITING_REPLY_BYTES_MAX: usize = 4 << 20;

/// Bytes of such replies at which a connection is closed. Only commands accepted before reading
/// stopped can get there, by many long replies after a missing one. The longest reply still fits.
pub const WAITING_REPLY_BYTES_CLOSE: usize = 128 << 20;

/// Output of one call of [`Connection::receive`](crate::Connection::receive), which then stops
/// until this is sent. So a client that does not read its replies is not read from either.
pub const OUTPUT_BYTES_MAX: usize = 1 << 20;

/// Commands between `MULTI` and `EXEC`: the most operations of a transaction over several
/// partitions. In one partition all are one step, which blocks its instance: some ten milliseconds
/// of short commands.
pub const QUEUED_COMMANDS_MAX: usize = TRANSACTION_ITEMS_MAX as usize;

/// Bytes of commands between `MULTI` and `EXEC`, for the same reason.
pub const QUEUED_BYTES_MAX: usize = COMMAND_BYTES_MAX;

/// Commands of a connection before the required authentication; the reply to the last closes it.
/// Enough for what clients send before they log in, and a few attempts.
pub const UNPROVED_COMMANDS_MAX: u32 = 8;

/// From this size on, memory is reserved for a command before it runs, as it may have to wait.
/// Shorter ones amount to a megabyte for one connection.
pub const RESERVE_MEMORY_BYTES: usize = 1 << 10;

/// Most keys that one connection watches.
pub const WATCHED_KEYS_MAX: usize = 1024;

/// Bytes of records that one transaction's commands read, copy and write in one partition. All are
/// one step, and each command may process a value of the longest.
pub const TRANSACTION_WORK_BYTES_MAX: usize = 256 << 20;

/// Bytes of values of one append: a longer one is made in several, as a group of values together is as long as a value at most, with its
/// framing.
pub const APPEND_BYTES: usize = VALUE_BYTES_MAX / 2;

/// Keys of one part of a command that is executed in parts. A part in one partition blocks its
/// instance's thread for about a millisecond; others are served in between.
pub const PART_KEYS_MAX: usize = 1024;

/// Most keys of `MSETNX` in several partitions: each is a check and a change of the transaction.
pub const CHECKED_KEYS_MAX: usize = TRANSACTION_ITEMS_MAX as usize / 2;

/// Most keys of `MSET` and `MSETNX` in one partition, where they are one step: as many as over
/// several. So many short ones block the thread for some ten milliseconds.
pub const SET_KEYS_MAX: usize = TRANSACTION_ITEMS_MAX as usize;

/// Values of a list up to which `LRANGE` and `MGET` are one step of one or two milliseconds. A
/// longer reply is read page by page from a snapshot. [`STEP_REPLY_BYTES_MAX`] is the same for
/// bytes.
pub const STEP_VALUES_MAX: u64 = LIST_PAGE_VALUES_MAX as u64;

/// See [`STEP_VALUES_MAX`].
pub const STEP_REPLY_BYTES_MAX: usize = 2 << 20;

/// Bytes of values at which a page of such a reply ends; it has at least one value. The next page
/// is read once the client has room.
pub const PAGE_BYTES: usize = 1 << 20;

/// Bytes of keys in the request for one page of `MGET`; at least one key.
pub const PAGE_KEY_BYTES: usize = 64 << 10;

/// The lease of the snapshot of such a reply between two pages. A page has a megabyte, so a client
/// that reads 20 KB a second is served.
pub const ANSWER_LEASE_MS: u32 = 60_000;

/// The maximum age of such a snapshot.
pub const ANSWER_AGE_MS: u64 = 3_600_000;

/// Keys of one part of `MGET` over several partitions: each part is a transaction, whose records
/// are fetched at the same time, and its reply is buffered.
pub const SPANNING_PART_KEYS_MAX: usize = 256;

/// Parts of one command over several partitions that are under way at a time. Most of a part's time
/// is spent waiting for the partitions. The parts of `MGET` are fewer, if their values are long.
pub const SPANNING_PARTS_WINDOW: usize = 8;

/// Longest reply of one unit that is not read in pages. Redis has no such limit. Here one thread
/// serves many partitions, and three of the longest values already take it milliseconds. It fits
/// in what a connection may buffer of its output, together with [`WAITING_REPLY_BYTES_MAX`] and
/// twice [`OUTPUT_BYTES_MAX`]: a client that reads is never disconnected for it.
pub const REPLY_BYTES_MAX: usize = 3 * VALUE_BYTES_MAX + (1 << 20);

/// Partitions that a command over all partitions asks at the same time.
pub const ALL_PARTITIONS_WINDOW: usize = 32;

/// Keys that one step of such a command looks at before the instance serves others.
pub const ALL_PARTITIONS_PAGE_KEYS: usize = 1024;

/// Most bytes of keys in a reply to `KEYS`. Use `SCAN` for more.
pub const KEYS_BYTES_MAX: usize = 64 << 20;

/// Work of one such step, in units of about a nanosecond: bytes of the keys times the pattern's
/// cost for each. The step ends after the index page at which it exceeds this.
pub const ALL_PARTITIONS_STEP_WORK_MAX: usize = 1 << 19;

/// Index pages of one such step: where most records were removed, many pages have no key.
pub const ALL_PARTITIONS_STEP_PAGES_MAX: usize = 64;

/// Most keys that one call of `SCAN` looks at, whatever its `COUNT`.
pub const SCAN_COUNT_MAX: usize = 4096;

/// Most steps of one call of `SCAN`, in one or several partitions; each may be in another process.
/// Then the reply is what was found, perhaps nothing, and a cursor.
pub const SCAN_STEPS_MAX: u32 = 64;

/// Consecutive calls of `SCAN` that a partition cannot answer. Each waits as long as a command does
/// and returns no keys and a cursor; the next one returns an error.
pub const SCAN_STALLS_MAX: u64 = 2;

/// Most bytes of gathered records for a unit over several partitions.
pub const FETCHED_BYTES_MAX: usize = REPLY_BYTES_MAX;

/// Longest name of a client, and of its library and version.
pub const NAME_BYTES_MAX: usize = 256;

/// Longest pattern of `KEYS`, `SCAN` and `CONFIG GET`: its compiled form takes memory.
pub const PATTERN_BYTES_MAX: usize = 1024;

/// Patterns of one `CONFIG GET`: each is compared with all names.
pub const CONFIG_PATTERNS_MAX: usize = 64;

/// Longest `DEBUG SLEEP`.
pub const SLEEP_MS_MAX: u64 = 60_000;

const _: () = assert!(WAITING_REPLY_BYTES_MAX + REPLY_BYTES_MAX < WAITING_REPLY_BYTES_CLOSE);
// Spans within a command have 32 bits.
const _: () = assert!(COMMAND_BYTES_MAX <= u32::MAX as usize && QUEUED_BYTES_MAX <= u32::MAX as usize);

/// Retry time for a page of a partition that has not learned of a split: maps come within
/// milliseconds.
pub(crate) const SPLIT_RETRY_MS: u32 = 10;
