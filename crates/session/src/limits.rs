//! All limits of a session, each with its reason. [`crate::SessionSettings`] can set some of them lower.

use zerohop_wire::limits::COALESCED_BYTES;

/// Maximum number of operations in a session, waiting or in flight. Each takes about 200 bytes beside its data. Beyond the limit the caller is
/// faster than the cluster, and gets an error.
pub const OPERATIONS_MAX: usize = 1 << 20;

/// The default of [`OPERATIONS_MAX`]: enough for thirty connections at full depth and batch size.
pub const OPERATIONS_DEFAULT: usize = 1 << 17;

/// Maximum number of bytes of keys and values of pending operations: they stay in memory until they are answered.
pub const OPERATION_BYTES_DEFAULT: usize = 256 << 20;

/// Maximum number of connections of a session: one to every instance of a hundred machines. Beyond the limit the session closes the least recently
/// used connection.
pub const CONNECTIONS_DEFAULT: usize = 1024;

/// Maximum number of frames in flight on one connection. A server answers a thousand small frames in a millisecond, so more would only wait in its
/// buffers.
pub const WINDOW_FRAMES_DEFAULT: u32 = 1024;

/// Maximum number of redirects of one operation by servers that know no newer epoch than that of the request. After this many, two servers are
/// redirecting the client to each other.
pub const REDIRECTS_MAX: u8 = 16;

/// Maximum number of times that a transaction is planned again from one and the same map, for example because its staged data had expired.
pub const REPLANS_MAX: u32 = 8;

/// Number of confirming rounds of a read of several records before it runs as a transaction, which waits for writers instead.
pub const CONFIRMS_MAX: u32 = 2;

/// Maximum number of checks by a transaction of such a read, if its values are too long to be a transaction's results.
pub const CHECKS_MAX: u32 = 16;

/// A part of a chunk of at least this many bytes has a request of its own, whatever else the client requests from the
/// partition. The server sends it without a copy.
pub const SEPARATE_PART_BYTES_MIN: u32 = 64 << 10;

/// The usable part of a read lock's time, in ninths, to allow for clocks that run at different rates: eight ninths. Leases allow for a difference
/// of an eighth.
pub const READ_LOCK_USABLE_NINTHS: u64 = 8;

/// Minimum time between two requests for the map that are caused only by failures: a thousand clients of a failed node must not overload the next
/// node.
pub const MAP_QUESTION_US_MIN: u64 = 20_000;

/// Number of refusals to return the map, beside one for each endpoint, before the session treats them as final. With the pauses between them they
/// take longer than a new token needs to reach every node that follows the map.
pub const MAP_REFUSALS_PASSING: usize = 3;

/// While operations wait for a server that cannot be reached, the session requests the map again after about this time. The node may have failed, and
/// the next map then names another primary. The connection itself is opened again after pauses that grow, so these must not decide when the client
/// learns of the new primary.
pub const MAP_REPEAT_US: u64 = 100_000;
/// The same, once [`MAP_REPEATS_FAST`] requests in a row found nothing new: nothing replaces this primary soon.
pub const MAP_REPEAT_SLOW_US: u64 = 500_000;
/// Number of these requests in a row before the session requests the map more rarely. They take as long as a failover at most.
pub const MAP_REPEATS_FAST: u32 = 20;
/// The longest pause between two rounds through all known servers, of which none accepts a connection.
pub const ROUND_PAUSE_US_MAX: u64 = 100_000;

/// After this time without an answer the session requests the map, from other servers too, and repeats this at the same interval. A primary that is
/// cut off from the others cannot report the replica that has replaced it. A failover takes several times as long.
pub const SILENT_US: u64 = 250_000;

/// Maximum pause of one operation between two attempts, however often it has failed.
pub const PAUSE_US_MAX: u64 = 500_000;

/// First pause after an answer that does not say when to try again.
pub const PAUSE_US_MIN: u64 = 1_000;

/// Minimum time limit of the requests that end what was staged in vain: their transaction may have no time left.
pub const RELEASE_US_MIN: u64 = 1_000_000;

/// Least time between two marks of a watch.
pub const MARK_PAUSE_US: u64 = 50_000;
/// Extra time by which a client waits longer than the server, so that the server's answer arrives before the client gives up.
pub const WAIT_GRACE_US: u64 = 1_000_000;

/// From this length on, a received value shares the receive buffer instead of being copied.
pub const SHARE_BYTES_MIN: usize = 16 << 10;

/// From this length on, the session keeps a frame's buffer for reuse; the allocator itself keeps shorter ones.
pub const REUSED_BYTES_MIN: usize = 256 << 10;

/// Maximum number of bytes of these buffers: one frame of the maximum length, or four with a chunk of 4 MiB.
pub const REUSED_BYTES_MAX: usize = 20 << 20;

/// Maximum number of frames in flight on all connections together: half of what their ids can distinguish. The other half is reserved for the
/// session's own frames.
pub const FRAMES_IN_FLIGHT_MAX: usize = crate::slots::PACKED_MAX / 2;

/// Maximum length of a request in a coalesced frame, with its prefix: for longer requests the frame header is a small share of the cost.
pub const COALESCED_REQUEST_BYTES_MAX: usize = COALESCED_BYTES / 4 - 128;

/// Length of a coalesced frame at which it is sent: below it, there was still room for another request of the maximum length.
pub const COALESCED_FRAME_BYTES: usize = COALESCED_BYTES / 4 * 3;

/// Part of a body that a batch reserves for its own fields.
pub const BATCH_FIELDS_BYTES: usize = 4 << 10;

/// Number of send buffers that are kept for the next turn.
pub const POOLED_BUFFERS_MAX: usize = 64;

/// Send buffers larger than this are not kept, so that one large batch does not occupy memory permanently.
pub const POOLED_BUFFER_BYTES_MAX: usize = 256 << 10;

/// Number of bytes of values that no page of a range has room for, after which a part of the page is returned: a page may have thousands of keys,
/// and the values of all would be in memory.
pub(crate) const LONG_VALUES_BYTES_MAX: usize = 16 << 20;
