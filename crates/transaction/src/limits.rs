//! Every bound of transactions, each with its reason. A length is compared with its bound before anything is allocated
//! for it; reaching one is a typed refusal.

use zerohop_wire::limits::{ENTRY_PAYLOAD_BYTES_MAX, TRANSACTION_ITEMS_MAX};

/// Most items of one transaction. Each is an intent in memory and a few bytes in the log until the end; a job that
/// touches more is a task that can be resumed, not a transaction.
pub const ITEMS_MAX: usize = TRANSACTION_ITEMS_MAX as usize;

/// Most partitions of one transaction: the coordinator's entry names all of them, with 40 bytes each.
pub const PARTICIPANTS_MAX: usize = 4_096;

/// Most bytes of operations that travel inside one transaction; what is more is staged first, and referred to. A chain
/// carries them from partition to partition.
pub const INLINE_BYTES_MAX: usize = 1 << 20;

/// Most bytes that a session may have staged at one partition.
pub const STAGED_BYTES_MAX: u64 = 1 << 30;

/// Most bytes that all sessions may have staged at one partition. They are records: they take room in its log.
pub const STAGED_HERE_BYTES_MAX: u64 = 2 << 30;

/// Most bytes of staged operations that one transaction does in one partition: it does them in one step, and all of them are
/// memory until the disk has them.
pub const STAGED_PART_BYTES_MAX: u64 = 256 << 20;

/// Most bytes of operations of one transaction, over all its partitions.
pub const TRANSACTION_BYTES_MAX: u64 = (1 << 30) + (64 << 20);

/// Staged pieces that one entry lets go of: each is a removal beside it.
pub const EXPIRED_PER_ENTRY_MAX: usize = 1_024;

/// Most bytes of one staged piece: it is one log entry.
pub const STAGED_PIECE_BYTES_MAX: usize = zerohop_wire::limits::STAGED_PIECE_BYTES_MAX;

/// Most pieces that one partition holds staged; each takes a line in its checkpoint.
pub const STAGED_PIECES_MAX: usize = 65_536;

/// Longest list of items that is itself staged.
pub const STAGED_ITEMS_BYTES_MAX: usize = STAGED_PIECE_BYTES_MAX;

/// Most bytes that one partition may log as what a transaction changes there. More is staged.
pub const EFFECT_BYTES_MAX: usize = 4 << 20;

/// Most bytes that the items of one transaction return, in all: they are kept for a client that repeats its request.
pub const RESULT_BYTES_MAX: usize = 1 << 20;

/// Most transactions that hold intents in one partition.
pub const HOLDERS_MAX: usize = 65_536;

/// Most transactions and writes that queue in one partition; more are refused.
pub const QUEUE_MAX: usize = 65_536;

/// Most cells that readers hold at a time in one partition; a read of more is confirmed. Each takes some hundred bytes for some
/// milliseconds.
pub const HOLDS_MAX: usize = 4_096;

/// Most reads that wait for intents in one partition.
pub const READS_MAX: usize = 65_536;

/// Most transactions that one partition decides at a time.
pub const RUNNING_MAX: usize = 16_384;

/// Most decisions that one partition keeps for participants that have not acknowledged them.
pub const DECISIONS_MAX: usize = 65_536;

/// Released attempts remembered so that a late copy of their `Prepare` takes no intents. Safety does not rest on it.
pub const RELEASED_MAX: usize = 4_096;

/// Questions about one unknown transaction that are answered together, once it is logged as aborted.
pub const ASKERS_MAX: usize = 64;

/// Most unknown transactions that are being logged as aborted at a time; who asks about more asks again.
pub const UNKNOWN_MAX: usize = 4_096;

/// Most transactions whose release is repeated; who does not hear of another asks.
pub const RELEASING_MAX: usize = 16_384;

/// Most applied transactions remembered until their coordinators have finished them. Beyond it nothing is prepared.
pub const APPLIED_MAX: usize = 262_144;

/// Most coordinators whose floors are remembered until they are logged, and named by one entry.
pub const FLOORS_MAX: usize = 1_024;

/// How often what coordinators have told of what is finished is logged: an entry for all of them, where each would else be logged for
/// about every transaction.
pub const FLOORS_US: u64 = 1_000_000;

/// After so long a message that was not answered is sent again.
pub const RESEND_US: u64 = 200_000;

/// After so long a participant asks the coordinator. Longer than a chain of some partitions takes.
pub const ASK_US: u64 = 1_000_000;

/// After so long a participant asks whether it may forget what it has applied, if no message of the coordinator has told. What is
/// remembered takes some hundred bytes; with hundreds of partitions few transactions have the same coordinator and participant, and
/// each question is two messages.
pub const FORGET_ASK_US: u64 = 20_000_000;

/// A transaction that is not decided after so long is aborted by its coordinator: a partition may be gone for good.
pub const TRANSACTION_US_MAX: u64 = 10_000_000;

/// So much longer it may take for each operation and list that was staged for it: a thousand of a mebibyte are read and written
/// by all their partitions meanwhile.
pub const STAGED_ITEM_US: u64 = 20_000;

/// Staged data that no `Prepare` has pinned expires so long after its session has staged in the same partition last.
pub const STAGED_US_MAX: u64 = 60_000_000;

/// What was decided and is missing at a participant is asked for so long, then taken for lost there: the decision is let go.
pub const LOSS_US: u64 = 60_000_000;

/// How often the participant must have said so by then. One that was deposed and does not know says it under no lease for so
/// long, and late copies of one message are fewer.
pub const LOSS_HEARD_MIN: u32 = 50;

/// A keyspace that the map has not had for so long is gone, and with it whatever was decided or prepared in it.
pub const GONE_US: u64 = 10_000_000;

/// Longest encoded message or entry. Checked before it is decoded.
pub const ENCODED_BYTES_MAX: usize = ENTRY_PAYLOAD_BYTES_MAX;

// What a partition logs of one transaction fits one entry.
const _: () = assert!(ITEMS_MAX * 16 + EFFECT_BYTES_MAX + RESULT_BYTES_MAX < ENCODED_BYTES_MAX);
const _: () = assert!(STAGED_PIECE_BYTES_MAX + 64 < ENCODED_BYTES_MAX);
// What travels of one transaction fits one message, also where every item is a participant's only one.
const _: () = assert!(INLINE_BYTES_MAX + ITEMS_MAX * 64 + PARTICIPANTS_MAX * 32 < ENCODED_BYTES_MAX);
