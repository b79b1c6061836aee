//! All limits of a reactor, each with its reason. A test or an operator can change those that are fields of [`Limits`]; the constants are their
//! defaults. Reaching one causes a typed error, back-pressure, or the end of one connection.

use zerohop_wire::limits::BODY_BYTES_MAX;

/// Maximum number of open connections. Each needs a descriptor and about 300 bytes while it is idle. Thousands of client processes, each with one
/// connection per instance, fit.
pub const CONNECTIONS_MAX: usize = 8192;

/// Maximum number of connections beyond [`CONNECTIONS_MAX`] that are accepted only to be answered `Busy`. Further ones are closed without an
/// answer, because the server could not process more.
pub const REFUSALS_MAX: usize = 64;

/// Maximum number of unauthenticated connections: their greeting, or the proof of the cluster's secret, is not complete. This is half of all
/// connections, enough for clients of a job that start at the same time. Beyond it, each new one closes the oldest. Connections from addresses of
/// the cluster's nodes have as many places of their own.
pub const UNPROVEN_MAX: usize = CONNECTIONS_MAX / 2;

/// Maximum number of them from one remote address (for IPv6: from one /64 network); beyond it, each new one closes the oldest from there.
pub const UNPROVEN_PER_ADDRESS_MAX: usize = UNPROVEN_MAX / 4;

/// Maximum number of bytes that an unauthenticated connection of another protocol may send: an `AUTH`, and the commands that clients send before
/// it.
pub const UNPROVEN_BYTES_MAX: usize = 1 << 10;

/// When a client should retry that was refused because all connections are in use.
pub const REFUSED_RETRY_MS: u32 = 1_000;

/// Maximum number of connections that the system queues until they are accepted, if it permits as many (`net.core.somaxconn`): the clients of a job
/// connect at the same time.
pub const BACKLOG: i32 = 4096;

/// Maximum number of connections accepted in one turn, so that a burst does not delay existing ones.
pub const ACCEPTS_PER_TURN_MAX: usize = 64;

/// Pause after the system could provide no more sockets (descriptors or memory used up): an immediate retry would spin.
pub const ACCEPT_RETRY_MS: u64 = 100;

/// Time limit from connecting until a connection is authenticated: until `Hello`, and if there is a secret until the proof, or the token of another
/// protocol, whatever is sent meanwhile. A client sends these at once: the limit is more than a few round trips over a bad link.
pub const HELLO_TIME_OUT_MS: u64 = 5_000;

/// Time limit from the start of a connection to another instance until that has answered `Hello`. The messages to send are outdated by then; a lost
/// packet of the greeting is sent again after one second.
pub const CALL_TIME_OUT_MS: u64 = 2_000;

/// Time limit for the rest of a frame after its first byte, in addition to the time for its length at [`FRAME_BYTES_PER_MS_MIN`]. It limits how
/// long a peer that trickles bytes can occupy a buffer.
pub const FRAME_TIME_OUT_MS: u64 = 10_000;

/// The slowest link for a large frame: 256 KB/s.
pub const FRAME_BYTES_PER_MS_MIN: u64 = 256;

/// Time in which a peer with unsent answers must accept at least one byte.
pub const SEND_TIME_OUT_MS: u64 = 30_000;

/// Time after which a connection without requests and without pending replies is closed. Clients renew their connections; the system's keep-alive
/// detects peers that have failed silently sooner.
pub const IDLE_TIME_OUT_MS: u64 = 15 * 60 * 1_000;

/// Time in which requests in flight must be answered after the peer has closed its sending direction.
pub const HALF_CLOSED_TIME_OUT_MS: u64 = 10_000;

/// Time for which a connection that ends with an error is still read, with its bytes discarded. Closing it with unread bytes would make the system
/// drop the error on its way to the peer.
pub const LINGER_MS: u64 = 2_000;

/// Time in which a stopping reactor answers requests in flight.
pub const STOP_TIME_OUT_MS: u64 = 3_000;

/// Seconds of silence after which the system probes the peer's machine; then the seconds between probes, and the number of unanswered probes before
/// the connection ends. A failed machine is detected in two minutes.
pub const KEEP_ALIVE_S: (u64, u64, u32) = (60, 10, 6);

/// Maximum number of bytes read from one connection in one turn, except inside a large frame: a few hundred requests, so that a greedy connection
/// gets only its share. This is also the size of the buffer that all reads share.
pub const RECEIVE_BYTES: usize = 64 << 10;

/// Frames up to this length are assembled in the shared buffer, which copies their earlier parts. Longer ones grow in a buffer of their own, so
/// that trickling bytes are not copied repeatedly.
pub const SMALL_FRAME_BYTES_MAX: usize = 16 << 10;

/// Maximum growth of a large frame's buffer at a time: a claimed length alone allocates nothing.
pub const RECEIVE_STEP_BYTES: usize = 1 << 20;

/// Maximum memory of all incomplete large frames. A frame beyond it is answered `Busy` and skipped.
pub const LARGE_FRAMES_BYTES_MAX: usize = 256 << 20;

/// When a client should send a frame again that found no memory.
pub const MEMORY_FULL_RETRY_MS: u32 = 100;

/// Maximum number of unanswered requests of one connection. It limits what a service stores for one peer; a closed loop over a link of 1 ms at a
/// million requests a second needs a quarter of it.
pub const IN_FLIGHT_MAX: u32 = 4096;

/// Number of unsent bytes from which a connection is not read until the peer has accepted some. A megabyte keeps a fast link busy for the time of a
/// turn.
pub const UNSENT_BYTES_MAX: usize = 1 << 20;

/// Number of answer bytes at which a connection's answers are sent before the batch ends: the client processes the first of them while the server
/// produces the others.
pub const SEND_BYTES: usize = 16 << 10;

/// Maximum number of buffers in one system call, which accepts 1,024.
pub const PIECES_MAX: usize = 1_000;

/// Number of unsent bytes at which a connection is closed. Only answers to requests that were accepted before the connection was no longer read can
/// reach it; three answers of maximum length still fit.
pub const UNSENT_BYTES_END: usize = 64 << 20;

/// Maximum number of unsent bytes of all connections. Above half of it, no connection with unsent bytes is read; a connection that would exceed it
/// is closed.
pub const UNSENT_BYTES_TOTAL_MAX: usize = 256 << 20;

/// Maximum number of waiting bytes over all connections of a reactor: incomplete frames, unread answers, queued commands, and requests that wait.
/// An instance may use as much memory in addition to its data, whatever its clients do.
pub const WAITING_BYTES_MAX: usize = 512 << 20;

/// The share of one token in that: a program out of control does not use the room of others.
pub const TOKEN_WAITING_BYTES_MAX: usize = WAITING_BYTES_MAX / 4;

/// Maximum number of requests of one token that wait for a record or for changes, over all connections of a reactor: a quarter of the limit of one partition.
/// A watch of a keyspace of 1,024 partitions has as many, so 16 such watches fit.
pub const TOKEN_WAITS_MAX: usize = 1 << 14;

/// Maximum number of requests accepted before effects are executed and answers sent: some milliseconds of work, which limits the latency and the
/// memory of a batch.
pub const BATCH_REQUESTS_MAX: u32 = 4096;

/// Number of request bytes after which a batch ends, for the same reason.
pub const BATCH_BYTES_MAX: usize = 4 << 20;

/// Maximum number of events read from the system at a time. The rest follows the next time.
pub const EVENTS_MAX: usize = 1024;

/// Maximum number of unread messages to a reactor's thread. They are rare; a sender that finds the queue full gets an error.
pub const INBOX_MAX: usize = 1024;

/// Maximum number of messages processed in one turn.
pub const NOTICES_PER_TURN_MAX: usize = 64;

/// Maximum capacity of a buffer that is kept for the next connection. Answers of some hundred kilobytes to one batch are not rare, and the system
/// would allocate and free memory of that size page by page.
pub const KEPT_BUFFER_BYTES_MAX: usize = 512 << 10;

/// Maximum capacity of all kept buffers.
pub const KEPT_BYTES_MAX: usize = 4 << 20;

/// Maximum capacity of kept buffers for large frames, and for answers that a peer does not accept at once: four of 4 MiB, or one of maximum length.
/// Without them, the system would have to clear the memory for every such request, and a buffer that grows with its frame would be copied several
/// times.
pub const KEPT_LARGE_BYTES_MAX: usize = 20 << 20;

/// Large buffers are multiples of this, so that a buffer also fits somewhat longer contents than its first.
pub const LARGE_BUFFER_STEP_BYTES: usize = 64 << 10;

/// The limits of a reactor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// See [`CONNECTIONS_MAX`].
    pub connections_max: usize,
    /// See [`REFUSALS_MAX`].
    pub refusals_max: usize,
    /// See [`UNPROVEN_MAX`].
    pub unproven_max: usize,
    /// See [`UNPROVEN_PER_ADDRESS_MAX`].
    pub unproven_per_address_max: usize,
    /// See [`UNPROVEN_BYTES_MAX`].
    pub unproven_bytes_max: usize,
    /// See [`HELLO_TIME_OUT_MS`].
    pub hello_time_out_ms: u64,
    /// See [`CALL_TIME_OUT_MS`].
    pub call_time_out_ms: u64,
    /// See [`FRAME_TIME_OUT_MS`].
    pub frame_time_out_ms: u64,
    /// See [`SEND_TIME_OUT_MS`].
    pub send_time_out_ms: u64,
    /// See [`IDLE_TIME_OUT_MS`].
    pub idle_time_out_ms: u64,
    /// See [`HALF_CLOSED_TIME_OUT_MS`].
    pub half_closed_time_out_ms: u64,
    /// See [`LINGER_MS`].
    pub linger_ms: u64,
    /// See [`STOP_TIME_OUT_MS`].
    pub stop_time_out_ms: u64,
    /// See [`LARGE_FRAMES_BYTES_MAX`].
    pub large_frames_bytes_max: usize,
    /// See [`IN_FLIGHT_MAX`].
    pub in_flight_max: u32,
    /// See [`UNSENT_BYTES_MAX`].
    pub unsent_bytes_max: usize,
    /// See [`UNSENT_BYTES_END`].
    pub unsent_bytes_end: usize,
    /// See [`UNSENT_BYTES_TOTAL_MAX`].
    pub unsent_bytes_total_max: usize,
    /// See [`WAITING_BYTES_MAX`].
    pub waiting_bytes_max: usize,
    /// See [`TOKEN_WAITING_BYTES_MAX`].
    pub token_waiting_bytes_max: usize,
    /// See [`TOKEN_WAITS_MAX`].
    pub token_waits_max: usize,
    /// See [`BATCH_REQUESTS_MAX`].
    pub batch_requests_max: u32,
    /// See [`BATCH_BYTES_MAX`].
    pub batch_bytes_max: usize,
}

impl Limits {
    /// The constants of this module.
    pub const DEFAULT: Limits = Limits {
        connections_max: CONNECTIONS_MAX,
        refusals_max: REFUSALS_MAX,
        unproven_max: UNPROVEN_MAX,
        unproven_per_address_max: UNPROVEN_PER_ADDRESS_MAX,
        unproven_bytes_max: UNPROVEN_BYTES_MAX,
        hello_time_out_ms: HELLO_TIME_OUT_MS,
        call_time_out_ms: CALL_TIME_OUT_MS,
        frame_time_out_ms: FRAME_TIME_OUT_MS,
        send_time_out_ms: SEND_TIME_OUT_MS,
        idle_time_out_ms: IDLE_TIME_OUT_MS,
        half_closed_time_out_ms: HALF_CLOSED_TIME_OUT_MS,
        linger_ms: LINGER_MS,
        stop_time_out_ms: STOP_TIME_OUT_MS,
        large_frames_bytes_max: LARGE_FRAMES_BYTES_MAX,
        in_flight_max: IN_FLIGHT_MAX,
        unsent_bytes_max: UNSENT_BYTES_MAX,
        unsent_bytes_end: UNSENT_BYTES_END,
        unsent_bytes_total_max: UNSENT_BYTES_TOTAL_MAX,
        waiting_bytes_max: WAITING_BYTES_MAX,
        token_waiting_bytes_max: TOKEN_WAITING_BYTES_MAX,
        token_waits_max: TOKEN_WAITS_MAX,
        batch_requests_max: BATCH_REQUESTS_MAX,
        batch_bytes_max: BATCH_BYTES_MAX,
    };
}

impl Default for Limits {
    fn default() -> Self {
        Limits::DEFAULT
    }
}

const _: () = assert!(SMALL_FRAME_BYTES_MAX * 2 <= RECEIVE_BYTES);
const _: () = assert!(UNSENT_BYTES_MAX + 3 * BODY_BYTES_MAX <= UNSENT_BYTES_END);
const _: () = assert!(UNSENT_BYTES_END <= UNSENT_BYTES_TOTAL_MAX / 2);
const _: () = assert!(BODY_BYTES_MAX < LARGE_FRAMES_BYTES_MAX);
