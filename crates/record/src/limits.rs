//! All limits of the wire format, each with its reason. A length is checked against its limit before memory is allocated for it; exceeding a limit
//! is a typed error that names it.

/// Maximum length of a key. Keys stay in memory for a batch and are repeated in every request: a longer key is a mistake.
pub const KEY_BYTES_MAX: usize = 64 << 10;

/// Maximum length of a value: a bytes record, or one value of a list. Larger data belongs in a blob, striped over chunks. A record is replicated
/// and returned as one piece, and one of this size already occupies a link for milliseconds.
pub const VALUE_BYTES_MAX: usize = 16 << 20;

/// Space in a body beside one key and one value of maximum length: fixed fields, item headers, cursors.
pub const BODY_FIELDS_BYTES: usize = 64 << 10;

/// Maximum length of a body: one value and one key of maximum length, and slack. It limits a connection's receive buffer. A `compare_swap` whose
/// two values do not fit together must be replaced by an `insert` with a version condition.
pub const BODY_BYTES_MAX: usize = VALUE_BYTES_MAX + KEY_BYTES_MAX + BODY_FIELDS_BYTES;

/// Maximum length of a body before the connection's `Hello`: unauthenticated connections get no large buffers.
pub const HELLO_BODY_BYTES_MAX: usize = 1 << 10;

/// Maximum number of operations in one batch. Each has an outcome in the session table until the client has received it. Larger batches gain
/// nothing, because the fixed cost of a frame is by then below a hundredth of the work.
pub const BATCH_ITEMS_MAX: u32 = 4096;

/// Maximum number of requests, or answers, in one coalesced frame. More gain nothing, and requests for one partition share a batch.
pub const COALESCED_MAX: u32 = 512;

/// Length of a coalesced frame, with its header, at which the sender starts another. By then enough requests share the fixed cost of the frame, and
/// receivers read frames below this length from one buffer.
pub const COALESCED_BYTES: usize = 16 << 10;

/// Maximum number of values that one `append` adds: an append is one log entry, and its cost must stay below that of a large value.
pub const APPEND_VALUES_MAX: u32 = 4096;

/// Longest payload of a log entry that `append`, or a trim of a list's end, writes: the same as for a value.
pub const LIST_ENTRY_BYTES_MAX: usize = VALUE_BYTES_MAX;

/// Longest record that `take` returns, in bytes, with 4 for each value of a list. The session of the client keeps it until the client
/// has the answer.
pub const TAKE_BYTES_MAX: usize = 64 << 10;

/// Maximum number of values in one page of a list. The client requests the next page from the last value on.
pub const LIST_PAGE_VALUES_MAX: u32 = 4096;

/// Maximum number of keys in one page of a scan.
pub const SCAN_PAGE_KEYS_MAX: u32 = 4096;

/// Maximum number of changes in one page for a reader that watches a keyspace.
pub const CHANGES_PAGE_MAX: u32 = 4096;

/// The longest wait of such a reader for a change, in milliseconds. The reader asks again; until then, its connection is known to live.
pub const CHANGES_WAIT_MS_MAX: u32 = 30_000;

/// Longest value that is returned with a change. A reader looks longer ones up.
pub const CHANGE_VALUE_BYTES_MAX: usize = 64 << 10;

/// Number of bytes after which a page of a list or of a scan ends, though it has at least one value or key. An instance serves other requests
/// between pages; a page of this size costs it well under a millisecond.
pub const PAGE_BYTES_MAX: usize = 1 << 20;

/// Maximum number of log entries in one frame between instances.
pub const ENTRIES_MAX: u32 = 4096;

/// Maximum length of a log entry's payload: a value, and the fields that a partition adds to it.
pub const ENTRY_PAYLOAD_BYTES_MAX: usize = VALUE_BYTES_MAX + (32 << 10);

/// Maximum number of items of one transaction: each is an intent in memory and a few bytes in the log until the end.
pub const TRANSACTION_ITEMS_MAX: u32 = 16_384;

/// Maximum number of bytes of one staged piece: it is one log entry, together with its name.
pub const STAGED_PIECE_BYTES_MAX: usize = VALUE_BYTES_MAX;

/// Maximum length of a scan cursor: opaque to clients, at most a key and its position.
pub const CURSOR_BYTES_MAX: usize = KEY_BYTES_MAX + 64;

/// Maximum length of the body of an `Admin` frame and of its reply: descriptions of a cluster, not data.
pub const ADMIN_BYTES_MAX: usize = 1 << 20;

/// Maximum length of an encoded map or delta in one frame: 16 bytes for each replica of a million partitions.
pub const MAP_BYTES_MAX: usize = VALUE_BYTES_MAX;

/// Maximum length of a client's name in `Hello`; the name appears in logs and in `zerohop status`.
pub const CLIENT_NAME_BYTES_MAX: usize = 64;

/// Minimum length of a cluster's secret: 16 random bytes as hexadecimal digits, which cannot be guessed. An eavesdropper can test any number of
/// guesses against a recorded proof.
pub const SECRET_BYTES_MIN: usize = 32;

/// Maximum length of a secret: a longer file is certainly another file.
pub const SECRET_BYTES_MAX: usize = 4 << 10;

/// Maximum length of a blob's name: the maximum path length of a POSIX file system. An index of all names is in memory.
pub const BLOB_NAME_BYTES_MAX: usize = 4 << 10;

/// Maximum length of a blob's attributes: every write that extends the blob writes them again.
pub const BLOB_ATTRIBUTES_BYTES_MAX: usize = 32 << 10;

/// Minimum chunk size, as a power of two: 4 KiB. Below it the keys would be a considerable share of the data.
pub const CHUNK_BITS_MIN: u8 = 12;

/// Maximum chunk size, as a power of two: a write of an entire chunk must fit in a frame.
pub const CHUNK_BITS_MAX: u8 = 24;

/// Maximum chunk size in bytes.
pub const CHUNK_BYTES_MAX: usize = 1 << CHUNK_BITS_MAX;

/// Maximum number of chunks of a blob, most of which may be absent. A backup visits the position of every chunk, which for this number takes minutes.
pub const BLOB_CHUNKS_MAX: u64 = 1 << 24;

/// Number of the first chunk that partitions keep in their tables of chunks. A truncation or removal visits the positions below it, and requests from
/// each partition which chunks exist at or above it. Most blobs are shorter, and take no memory in these tables.
pub const CHUNKS_LISTED_FROM: u64 = 4096;

/// Highest offset of a bit: the last bit of the longest value.
pub const BIT_OFFSET_MAX: u64 = (VALUE_BYTES_MAX as u64) * 8 - 1;

/// Maximum time-out of a request, a day: a client that waits longer has probably gone, and can otherwise repeat its request.
pub const TIME_OUT_MS_MAX: u32 = 24 * 60 * 60 * 1000;

/// Maximum distance of a session's sequence number from its lowest unanswered one, per partition: four full batches. It limits the number of
/// outcomes that a partition must keep for one session.
pub const SESSION_WINDOW_MAX: u64 = 4 * BATCH_ITEMS_MAX as u64;

/// Maximum time between two renewals of a snapshot: a limit on what a vanished client can hold back.
pub const SNAPSHOT_LEASE_MS_MAX: u32 = 5 * 60 * 1000;

/// Maximum time for which a snapshot stays open, however often it is renewed: a week, for the backup of a very large cluster.
pub const SNAPSHOT_AGE_MS_MAX: u64 = 7 * 24 * 60 * 60 * 1000;

/// Maximum distance of a request's timestamp ahead of the server's clock (ARCHITECTURE.md, "Clocks"). Beyond it some clock is wrong, and following
/// it would raise every version as well.
pub const CLOCK_AHEAD_MS_MAX: u64 = 500;

/// Oldest frame version that this program supports.
pub const VERSION_MIN: u8 = 2;

/// Newest frame version that this program supports.
pub const VERSION_MAX: u8 = 2;

/// Minimum length of a body to compress: LZ4 needs repetition, and its hash table costs about a microsecond.
pub const COMPRESS_BYTES_MIN: usize = 1 << 10;

/// Maximum factor by which LZ4 can expand a block (its length bytes count up to 255 each). A larger claim is false, and is refused before memory is
/// allocated for it.
pub const COMPRESS_RATIO_MAX: usize = 255;

/// From this length on, a payload is passed to the socket without a copy; below, a copy beside its header is cheaper than another buffer in the
/// system call.
pub const SPLIT_BYTES_MIN: usize = 16 << 10;

// The length of a body, and every length and count within it, is encoded in 32 bits.
const _: () = assert!(BODY_BYTES_MAX <= u32::MAX as usize);
// A page with one value or key of maximum length still fits in a body.
const _: () = assert!(CURSOR_BYTES_MAX + KEY_BYTES_MAX + PAGE_BYTES_MAX <= BODY_BYTES_MAX);
// An entire chunk fits where a value does.
const _: () = assert!(CHUNK_BYTES_MAX <= VALUE_BYTES_MAX && BLOB_NAME_BYTES_MAX + 16 <= KEY_BYTES_MAX);
// The longest entry also fits.
const _: () = assert!(ENTRY_PAYLOAD_BYTES_MAX + KEY_BYTES_MAX + (1 << 10) <= BODY_BYTES_MAX);
const _: () = assert!(COMPRESS_BYTES_MIN > 64 && VERSION_MIN <= VERSION_MAX);
