//! Every bound of the wire, each with its reason. A length is compared with its bound before anything is allocated
//! for it; reaching one is a typed error that names it.

/// Longest key. Keys are held in memory for a batch and repeated in every request: a key that long is a mistake.
pub const KEY_BYTES_MAX: usize = 64 << 10;

/// Longest value: a bytes record, or one value of a list. What is larger belongs in a blob, striped over chunks; a
/// record is replicated and answered whole, and one this size already holds a link for milliseconds.
pub const VALUE_BYTES_MAX: usize = 16 << 20;

/// Room in a body beside one key and one value of the greatest lengths: fixed fields, item headers, cursors.
pub const BODY_SLACK_BYTES: usize = 64 << 10;

/// Longest body: one value and one key of the greatest lengths, and slack. It bounds a connection's receive buffer.
/// A `compare_swap` whose two values do not fit together must use `insert` on the condition of a version.
pub const BODY_BYTES_MAX: usize = VALUE_BYTES_MAX + KEY_BYTES_MAX + BODY_SLACK_BYTES;

/// Longest body before the connection has said `Hello`: strangers get no large buffers.
pub const HELLO_BODY_BYTES_MAX: usize = 1 << 10;

/// Most operations in one batch. Each holds an outcome in the session table until the client has it; larger batches
/// gain nothing, as the fixed cost of a frame is by then below a hundredth of the work.
pub const BATCH_ITEMS_MAX: u32 = 4096;

/// Most requests, or answers, that are gathered in one frame: more gain nothing, and a partition has its requests in a
/// batch.
pub const GATHERED_MAX: u32 = 512;

/// Bytes of a frame, with its header, at which whoever gathers begins another: what the fixed cost of a frame is shared by
/// is many by then, and receivers take shorter frames from one buffer.
pub const GATHERED_BYTES: usize = 16 << 10;

/// Most values that one `append` adds: an append is one log entry, and its cost must stay below that of a large value.
pub const APPEND_VALUES_MAX: u32 = 4096;

/// Most values in one answered page of a list. The asker pages on from the last one.
pub const LIST_PAGE_VALUES_MAX: u32 = 4096;

/// Most keys in one page of a scan.
pub const SCAN_PAGE_KEYS_MAX: u32 = 4096;

/// Bytes after which a page of a list or of a scan ends, though it always holds one value or key. An instance serves
/// others between pages; a page this size costs it well under a millisecond.
pub const PAGE_BYTES_MAX: usize = 1 << 20;

/// Most entries of a log in one frame between instances.
pub const ENTRIES_MAX: u32 = 4096;

/// Longest payload of a log entry: a value, and what a partition puts around it.
pub const ENTRY_PAYLOAD_BYTES_MAX: usize = VALUE_BYTES_MAX + (32 << 10);

/// Most items of one transaction: each is an intent in memory and a few bytes in the log until the end.
pub const TRANSACTION_ITEMS_MAX: u32 = 16_384;

/// Most bytes that are staged at once for a transaction: one log entry, which holds its name beside them.
pub const STAGED_PIECE_BYTES_MAX: usize = VALUE_BYTES_MAX;

/// Longest cursor of a scan: opaque to clients, at most a key and its place.
pub const CURSOR_BYTES_MAX: usize = KEY_BYTES_MAX + 64;

/// Longest body of an `Admin` frame and of its answer: descriptions of a cluster, not data.
pub const ADMIN_BYTES_MAX: usize = 1 << 20;

/// Longest encoded map or delta that one frame carries. 16 bytes for each replica of a million partitions.
pub const MAP_BYTES_MAX: usize = VALUE_BYTES_MAX;

/// Longest name that a client gives itself in `Hello`; shown in logs and in `zerohop status`.
pub const CLIENT_NAME_BYTES_MAX: usize = 64;

/// Shortest secret of a cluster: 16 random bytes as hexadecimal digits, which nobody guesses. A proof can be tried against
/// guesses by whoever overhears it, as often as he likes.
pub const SECRET_BYTES_MIN: usize = 32;

/// Longest secret: what is longer is another file.
pub const SECRET_BYTES_MAX: usize = 4 << 10;

/// Longest name of a blob: as long as the longest path of a POSIX file system. An index of all names is held in memory.
pub const BLOB_NAME_BYTES_MAX: usize = 4 << 10;

/// Most bytes of attributes that a blob carries: every write that makes it larger writes them again.
pub const BLOB_ATTRIBUTES_BYTES_MAX: usize = 32 << 10;

/// Smallest chunk, as a power of two: 4 KiB. Below it the keys would be a share worth speaking of.
pub const CHUNK_BITS_MIN: u8 = 12;

/// Largest chunk, as a power of two: a write of a whole one must fit a frame.
pub const CHUNK_BITS_MAX: u8 = 24;

/// Bytes of the largest chunk.
pub const CHUNK_BYTES_MAX: usize = 1 << CHUNK_BITS_MAX;

/// Most chunks of a blob, of which there need not be many: whoever cuts it, removes it or backs it up goes through all places
/// where one may be, which for so many takes minutes.
pub const BLOB_CHUNKS_MAX: u64 = 1 << 24;

/// Highest bit that may be set: the last of the longest value.
pub const BIT_OFFSET_MAX: u64 = (VALUE_BYTES_MAX as u64) * 8 - 1;

/// Longest time a request may wait, a day: whoever waits longer has gone, and asks again if not.
pub const TIME_OUT_MS_MAX: u32 = 24 * 60 * 60 * 1000;

/// Furthest a session's sequence may be ahead of its lowest unanswered one, per partition: four full batches. It
/// bounds the outcomes that a partition must keep for one session.
pub const SESSION_WINDOW_MAX: u64 = 4 * BATCH_ITEMS_MAX as u64;

/// Longest time that a snapshot is kept without being renewed: what a client that has vanished may hold back.
pub const SNAPSHOT_LEASE_MS_MAX: u32 = 5 * 60 * 1000;

/// Longest time that a snapshot stays open at all, however often it is renewed: a week, for the backup of a very large cluster.
pub const SNAPSHOT_AGE_MS_MAX: u64 = 7 * 24 * 60 * 60 * 1000;

/// Furthest that a request's timestamp may be ahead of the server's clock (ARCHITECTURE.md, "Clocks"); beyond it some clock is
/// wrong, and following it would drag every version with it.
pub const CLOCK_AHEAD_MS_MAX: u64 = 500;

/// Oldest frame version this program speaks.
pub const VERSION_MIN: u8 = 1;

/// Newest frame version this program speaks.
pub const VERSION_MAX: u8 = 1;

/// Bodies below this are not worth compressing: LZ4 needs repetition, and its hash table costs about a microsecond.
pub const COMPRESS_BYTES_MIN: usize = 1 << 10;

/// LZ4 cannot expand a block by more than this factor (its length bytes count up to 255 each), so a claim of more is
/// false and is refused before anything is allocated for it.
pub const COMPRESS_RATIO_MAX: usize = 255;

/// From this length on a payload is handed to the socket from where it lies; below, copying it beside its header is
/// cheaper than one more piece in the system call.
pub const SPLIT_BYTES_MIN: usize = 16 << 10;

// A body's length, and every length and count within it, travels in 32 bits.
const _: () = assert!(BODY_BYTES_MAX <= u32::MAX as usize);
// A page of one greatest value or key still fits a body.
const _: () = assert!(CURSOR_BYTES_MAX + KEY_BYTES_MAX + PAGE_BYTES_MAX <= BODY_BYTES_MAX);
// A whole chunk fits where a value does.
const _: () = assert!(CHUNK_BYTES_MAX <= VALUE_BYTES_MAX && BLOB_NAME_BYTES_MAX + 16 <= KEY_BYTES_MAX);
// So does the longest entry.
const _: () = assert!(ENTRY_PAYLOAD_BYTES_MAX + KEY_BYTES_MAX + (1 << 10) <= BODY_BYTES_MAX);
const _: () = assert!(COMPRESS_BYTES_MIN > 64 && VERSION_MIN <= VERSION_MAX);
