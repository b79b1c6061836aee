//! Every limit of transactions, each with its reason. A length is compared with its limit before anything is allocated for
//! it; reaching a limit is a typed refusal.

use zerohop_wire::limits::{ENTRY_PAYLOAD_BYTES_MAX, TRANSACTION_ITEMS_MAX};

/// Most items of one transaction. Each is an intent in memory and a few bytes in the log until the end; a job with more
/// items is a resumable task, not a transaction.
pub const ITEMS_MAX: usize = TRANSACTION_ITEMS_MAX as usize;

/// Most partitions of one transaction: the coordinator's entry names all of them, with 40 bytes each.
pub const PARTICIPANTS_MAX: usize = 4_096;

/// Most bytes of operations that are sent inside one transaction; further bytes are staged first, and referred to. A chain
/// carries the inline bytes from partition to partition.
pub const INLINE_BYTES_MAX: usize = 1 << 20;

/// Most bytes that a session may have staged at one partition.
pub const STAGED_BYTES_MAX: u64 = 1 << 30;

/// Most bytes that all sessions may have staged at one partition. They are records: they use space in its log.
pub const STAGED_HERE_BYTES_MAX: u64 = 2 << 30;

/// Most bytes of staged operations that one transaction applies in one partition: it applies them in one step, and all of
/// them are in memory until they are on disk.
pub const STAGED_PART_BYTES_MAX: u64 = 256 << 20;

/// Most bytes of operations of one transaction, over all its partitions.
pub const TRANSACTION_BYTES_MAX: u64 = (1 << 30) + (64 << 20);

/// Staged pieces that one entry, or one request of a client, releases: each is a removal beside the entry.
pub const EXPIRED_PER_ENTRY_MAX: usize = 1_024;

/// Most bytes of one staged piece: it is one log entry.
pub const STAGED_PIECE_BYTES_MAX: usize = zerohop_wire::limits::STAGED_PIECE_BYTES_MAX;

/// Most pieces that one partition holds staged; each has a line in its checkpoint.
pub const STAGED_PIECES_MAX: usize = 65_536;

/// Longest list of items that is itself staged.
pub const STAGED_ITEMS_BYTES_MAX: usize = STAGED_PIECE_BYTES_MAX;

/// Most bytes of changes that one partition may log for a transaction. More is staged.
pub const EFFECT_BYTES_MAX: usize = 4 << 20;

/// Most bytes of results of one transaction, in total: they are kept for a client that repeats its request.
pub const RESULT_BYTES_MAX: usize = 1 << 20;

/// Most transactions that hold intents in one partition.
pub const HOLDERS_MAX: usize = 65_536;

/// Most transactions and writes that queue in one partition; more are refused.
pub const QUEUE_MAX: usize = 65_536;

/// Most lock keys with read locks at a time in one partition; a read of more is confirmed. Each takes some hundred bytes for
/// some milliseconds.
pub const READ_LOCKS_MAX: usize = 4_096;

/// Most reads that wait for intents in one partition.
pub const READS_MAX: usize = 65_536;

/// Most transactions that one partition decides at a time.
pub const RUNNING_MAX: usize = 16_384;

/// Most decisions that one partition keeps for participants that have not acknowledged them.
pub const DECISIONS_MAX: usize = 65_536;

/// Released attempts remembered so that a late copy of their `Prepare` acquires no intents. Safety does not depend on it.
pub const RELEASED_MAX: usize = 4_096;

/// Queries about one unknown transaction that are answered together, once it is logged as aborted.
pub const REQUESTERS_MAX: usize = 64;

/// Most unknown transactions that are being logged as aborted at a time; a participant with a query about another one
/// repeats it.
pub const UNKNOWN_MAX: usize = 4_096;

/// Most transactions whose release is repeated; a participant that misses another release sends a query.
pub const RELEASING_MAX: usize = 16_384;

/// Most applied transactions remembered until their coordinators have finished them. Beyond it nothing is prepared.
pub const APPLIED_MAX: usize = 262_144;

/// Most coordinators whose floors are remembered until they are logged, and named by one entry.
pub const FLOORS_MAX: usize = 1_024;

/// Interval at which the floors of coordinators are logged, as one entry for all of them; otherwise an entry would be logged
/// for about every transaction.
pub const FLOORS_US: u64 = 1_000_000;

/// Time after which an unanswered message is sent again.
pub const RESEND_US: u64 = 200_000;

/// Time after which a participant queries the coordinator. Longer than a chain of some partitions takes.
pub const STATUS_QUERY_US: u64 = 1_000_000;

/// Time after which a participant asks whether it may forget an applied transaction, if no message of the coordinator has
/// shown that. A remembered transaction takes some hundred bytes. With hundreds of partitions few transactions have the same
/// coordinator and participant, and each query is two messages.
pub const CLEANUP_QUERY_US: u64 = 20_000_000;

/// A transaction that is not decided after this time is aborted by its coordinator: a partition may be permanently gone.
pub const TRANSACTION_US_MAX: u64 = 10_000_000;

/// Additional time for each operation and list that was staged for it: a thousand of a mebibyte are read and written by all
/// their partitions meanwhile.
pub const STAGED_ITEM_US: u64 = 20_000;

/// Staged data that no `Prepare` has pinned expires this long after its session last staged data in the same partition.
pub const STAGED_US_MAX: u64 = 60_000_000;

/// A decided change that is missing at a participant is requested for this long, then considered lost there: the decision is
/// released.
pub const LOSS_US: u64 = 60_000_000;

/// How often the participant must have reported the loss by then. A deposed primary that does not know of its successor has
/// no lease, so it cannot repeat the report for so long. Late copies of one message are fewer.
pub const LOSS_REPORTS_MIN: u32 = 50;

/// A keyspace that has been missing in the map for so long is gone, with everything that was decided or prepared in it.
pub const KEYSPACE_GONE_US: u64 = 10_000_000;

/// Longest encoded message or entry. Checked before it is decoded.
pub const ENCODED_BYTES_MAX: usize = ENTRY_PAYLOAD_BYTES_MAX;

// A partition's log data for one transaction fits one entry.
const _: () = assert!(ITEMS_MAX * 16 + EFFECT_BYTES_MAX + RESULT_BYTES_MAX < ENCODED_BYTES_MAX);
const _: () = assert!(STAGED_PIECE_BYTES_MAX + 64 < ENCODED_BYTES_MAX);
// The data that is sent for one transaction fits one message, also if every item is a participant's only one.
const _: () = assert!(INLINE_BYTES_MAX + ITEMS_MAX * 64 + PARTICIPANTS_MAX * 32 < ENCODED_BYTES_MAX);
