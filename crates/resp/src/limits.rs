//! Every bound of the Redis protocol, each with its reason.

use zerohop_wire::limits::{LIST_PAGE_VALUES_MAX, TRANSACTION_ITEMS_MAX, VALUE_BYTES_MAX};

/// Longest argument of a command: the longest value. Redis allows 512 MiB; what is larger than this belongs in a blob.
pub const BULK_BYTES_MAX: usize = VALUE_BYTES_MAX;

/// Longest argument that is passed over, to answer that it is too long: Redis' own limit. Nothing of it is kept. What is longer
/// closes the connection.
pub const SKIPPED_BULK_BYTES_MAX: usize = 512 << 20;

/// Longest command, with all its arguments: two of the longest values (`ZH.CAS` has two) and as much room as two short
/// ones with their lengths may take.
pub const COMMAND_BYTES_MAX: usize = 2 * VALUE_BYTES_MAX + (1 << 20);

/// Most arguments of one command, as in Redis. Places of arguments take 8 bytes each and grow only with what has come.
pub const ARGUMENTS_MAX: usize = 1 << 20;

/// Longest line: an inline command, or the length of an array or argument. As in Redis.
pub const LINE_BYTES_MAX: usize = 64 << 10;

/// Commands of one connection whose replies have not been handed out. It bounds what is kept for one client; a reply that
/// waits for the disk waits for milliseconds, in which nobody pipelines more with profit.
pub const PENDING_MAX: usize = 1024;

/// Bytes of replies of one connection that are held back because an earlier one is missing.
pub const HELD_BYTES_MAX: usize = 4 << 20;

/// Bytes of replies held back at which a connection is closed. Only replies to what was taken up before it was no longer
/// read can bring it so far: many long ones, behind one that does not come. The longest reply still fits.
pub const HELD_BYTES_END: usize = 128 << 20;

/// Bytes that one call of [`Connection::receive`](crate::Connection::receive) writes before it stops and asks to be
/// called again once they are sent: a client that does not read its replies is not read either.
pub const OUTPUT_BYTES_MAX: usize = 1 << 20;

/// Commands between `MULTI` and `EXEC`: as many as a transaction over several partitions may have operations. In one partition all
/// are one step, during which its instance does nothing else: some ten milliseconds of short commands.
pub const QUEUED_COMMANDS_MAX: usize = TRANSACTION_ITEMS_MAX as usize;

/// Bytes of commands between `MULTI` and `EXEC`, for the same reason.
pub const QUEUED_BYTES_MAX: usize = COMMAND_BYTES_MAX;

/// Commands of a connection that has to authenticate and has not: it is closed with the reply to the last of them. What clients send
/// before they log in, and a few tries.
pub const UNPROVED_COMMANDS_MAX: u32 = 8;

/// Bytes of a command from which on it is asked for room before it is run, as it may have to wait: those of shorter ones come to a
/// megabyte for one connection.
pub const ASKS_FOR_ROOM_BYTES: usize = 1 << 10;

/// Keys that one connection watches.
pub const WATCHED_KEYS_MAX: usize = 1024;

/// Bytes of records that one transaction reads, copies and writes in one partition, all its commands together: each may be about a
/// value of the longest, again and again, and all are one step.
pub const TRANSACTION_WORK_BYTES_MAX: usize = 256 << 20;

/// Keys of a part, where a command with more of them is done in parts: a part in one partition keeps its instance's thread for about a
/// millisecond, and others are served between two of them.
pub const PART_KEYS_MAX: usize = 1024;

/// Keys of `MSETNX` in several partitions: with a check and a change of each it is a transaction of the most operations.
pub const CHECKED_KEYS_MAX: usize = TRANSACTION_ITEMS_MAX as usize / 2;

/// Keys of `MSET` and `MSETNX`, which are one step, in one partition: as many as over several. So many short ones keep the thread for
/// some ten milliseconds.
pub const SET_KEYS_MAX: usize = TRANSACTION_ITEMS_MAX as usize;

/// Values of a list, and bytes of any reply, up to which `LRANGE` and `MGET` are one step, which takes one or two milliseconds. A longer
/// reply is read page by page from a snapshot.
pub const STEP_VALUES_MAX: u64 = LIST_PAGE_VALUES_MAX as u64;

/// See [`STEP_VALUES_MAX`].
pub const STEP_REPLY_BYTES_MAX: usize = 2 << 20;

/// Bytes of values at which a page of such a reply ends; it has one value at least. The next is asked for once the client has room.
pub const PAGE_BYTES: usize = 1 << 20;

/// Bytes of keys that are asked for with one page of `MGET`: one at least.
pub const PAGE_KEY_BYTES: usize = 64 << 10;

/// For how long the snapshot of such a reply is kept while no page of it is asked for: as the client takes a megabyte of a page, any that
/// takes 20 KB a second is served.
pub const ANSWER_LEASE_MS: u32 = 60_000;

/// For how long it is kept in any case.
pub const ANSWER_AGE_MS: u64 = 3_600_000;

/// Longest reply of one unit that is not read in pages. Redis has no such bound; here one instance serves many partitions from one thread, and
/// four of the longest values already take it milliseconds.
pub const REPLY_BYTES_MAX: usize = 4 * VALUE_BYTES_MAX + (1 << 20);

/// Partitions that are asked at the same time by a command that asks all of them.
pub const GATHER_WINDOW: usize = 32;

/// Keys that one step of a command that asks all partitions looks at before it lets the instance serve others.
pub const GATHER_PAGE_KEYS: usize = 1024;

/// Bytes of keys that `KEYS` answers at most. Use `SCAN` for more.
pub const KEYS_BYTES_MAX: usize = 64 << 20;

/// Work of one such step, in steps of about a nanosecond: bytes of the keys times what the pattern costs for each. The step
/// ends behind the page of the index at which it has passed this.
pub const GATHER_STEP_WORK_MAX: usize = 1 << 19;

/// Pages of the index that one such step walks: there are many without a key where most records were removed.
pub const GATHER_STEP_PAGES_MAX: usize = 64;

/// Keys at which one call of `SCAN` looks at most, whatever its `COUNT`.
pub const SCAN_COUNT_MAX: usize = 4096;

/// Steps of one call of `SCAN` at most, of one partition or of several: each may be in another process. Behind them it is
/// answered with what it has found, which may be nothing, and a cursor.
pub const SCAN_STEPS_MAX: u32 = 64;

/// Calls of `SCAN` in a row that a partition cannot answer, each of which waits as long as a command does: a page without keys and a cursor
/// each. The one behind them is answered with an error.
pub const SCAN_STALLS_MAX: u64 = 2;

/// Most bytes that are brought together of the records of a unit over several partitions.
pub const GATHERED_BYTES_MAX: usize = REPLY_BYTES_MAX;

/// Longest name of a client, and of its library and version.
pub const NAME_BYTES_MAX: usize = 256;

/// Longest pattern of `KEYS`, `SCAN` and `CONFIG GET`: what is prepared of it takes memory.
pub const PATTERN_BYTES_MAX: usize = 1024;

/// Patterns of one `CONFIG GET`: each is compared with all names.
pub const CONFIG_PATTERNS_MAX: usize = 64;

/// Longest `DEBUG SLEEP`.
pub const SLEEP_MS_MAX: u64 = 60_000;

const _: () = assert!(HELD_BYTES_MAX + REPLY_BYTES_MAX < HELD_BYTES_END);
// Places within a command are kept in 32 bits.
const _: () = assert!(COMMAND_BYTES_MAX <= u32::MAX as usize && QUEUED_BYTES_MAX <= u32::MAX as usize);

/// When to ask again for a page of a partition that has not heard of a split yet: maps come within milliseconds.
pub(crate) const SPLIT_RETRY_MS: u32 = 10;
