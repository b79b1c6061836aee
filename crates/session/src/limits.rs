//! Every bound of a session, each with its reason. [`crate::SessionSettings`] may ask for less, where it says so.

use zerohop_wire::limits::GATHERED_BYTES;

/// Most operations that a session holds, waiting or in flight. Each takes about 200 bytes beside its data; beyond it
/// the caller is faster than the cluster and is told so.
pub const OPERATIONS_MAX: usize = 1 << 20;

/// The default of it: enough for thirty connections at full depth and batch.
pub const OPERATIONS_DEFAULT: usize = 1 << 17;

/// Most bytes of keys and values that a session holds for operations: they stay in memory until they are answered.
pub const OPERATION_BYTES_DEFAULT: usize = 256 << 20;

/// Most connections of a session. One to every instance of a hundred machines; beyond it the one used least recently
/// makes room.
pub const CONNECTIONS_DEFAULT: usize = 1024;

/// Most frames in flight on one connection. A server answers a thousand small ones in a millisecond, so more would
/// only wait in its buffers.
pub const WINDOW_FRAMES_DEFAULT: u32 = 1024;

/// Most redirects of one operation by servers that know no newer epoch than the one it was sent by. So many say that two
/// servers each send the client to the other.
pub const REDIRECTS_MAX: u8 = 16;

/// How often a transaction is planned again, by a newer map or because what was staged had expired.
pub const REPLANS_MAX: u32 = 8;

/// How often a read of several records is confirmed before it runs as a transaction, which waits for writers instead.
pub const CONFIRMS_MAX: u32 = 2;

/// How often such a read, where its values are too long to be a transaction's results, is checked by one.
pub const CHECKS_MAX: u32 = 16;

/// A part of a chunk of so many bytes is asked for by itself, whatever else is asked of its partition: it is sent from where it lies.
pub const APART_BYTES_MIN: u32 = 64 << 10;

/// What is left of the time for which something is held, for clocks that run at other rates: eight ninths, as an eighth more is what
/// leases allow for.
pub const HELD_NINTHS: u64 = 8;

/// Least time between two questions for the map that nothing but failures prompted: a thousand clients of a node that
/// died must not turn on the next.
pub const MAP_QUESTION_US_MIN: u64 = 20_000;

/// How often, beside once for each endpoint, servers may refuse to tell the map before that is final: with the pauses between, longer than a
/// new token takes to reach every node that follows the map.
pub const MAP_REFUSALS_PASSING: usize = 3;

/// After so long without an answer the map is asked for, elsewhere too, and again as often: an owner that is cut off from the others
/// says nothing of the one that has taken its place. A failover takes several times as long.
pub const SILENT_US: u64 = 250_000;

/// Longest time for which one operation rests between two attempts, however often it has failed.
pub const REST_US_MAX: u64 = 500_000;

/// First rest after an answer that does not say when to ask again.
pub const REST_US_MIN: u64 = 1_000;

/// How much later than the server a client gives up a wait, so that the server's answer is the one that is heard.
pub const WAIT_GRACE_US: u64 = 1_000_000;

/// From this length on a value that was received is shared with the receive buffer instead of copied.
pub const SHARE_BYTES_MIN: usize = 16 << 10;

/// From this length on the buffer of a frame is kept to be used again; shorter ones the allocator keeps itself.
pub const REUSED_BYTES_MIN: usize = 256 << 10;

/// Bytes of such buffers that are kept at most: a frame of the longest kind, or four of a chunk of 4 MiB.
pub const REUSED_BYTES_MAX: usize = 20 << 20;

/// Most frames in flight on all connections together: what their ids can tell apart, with half of it left for frames of the
/// session's own.
pub const FLIGHTS_MAX: usize = crate::slots::PACKED_MAX / 2;

/// Longest request that is gathered with others, with what stands in front of it: for longer ones the header of a frame is a
/// small share.
pub const GATHERED_REQUEST_BYTES_MAX: usize = GATHERED_BYTES / 4 - 128;

/// Bytes of a frame of gathered requests at which it goes: another of the longest still fitted in front of it.
pub const GATHERED_FRAME_BYTES: usize = GATHERED_BYTES / 4 * 3;

/// Part of a body that a batch leaves free for its own fields.
pub const BATCH_SLACK_BYTES: usize = 4 << 10;

/// Send buffers kept for the next turn.
pub const SPARE_BUFFERS_MAX: usize = 64;

/// Send buffers that grew beyond this are not kept: one large batch must not hold memory for ever.
pub const SPARE_BUFFER_BYTES_MAX: usize = 256 << 10;
