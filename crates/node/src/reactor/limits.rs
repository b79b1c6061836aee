//! Every bound of a reactor, each with its reason. Those that a test or an operator turns are the fields of [`Limits`];
//! the constants are their defaults. Reaching one is a typed error, back-pressure, or the end of one connection.

use zerohop_wire::limits::BODY_BYTES_MAX;

/// Connections open at once. Each costs a descriptor and about 300 bytes while it is idle; thousands of client
/// processes, each with one connection per instance, fit.
pub const CONNECTIONS_MAX: usize = 8192;

/// Connections beyond [`CONNECTIONS_MAX`] that are let in only to be told `Busy`; what comes beyond these is closed
/// without a word, as nothing more could be promised to it.
pub const REFUSALS_MAX: usize = 64;

/// Connections that have not been greeted, or have not proved that they know the cluster's secret: half of all, which is enough
/// for a job's clients that come at the same time. Beyond it the oldest of them is closed for each newcomer. Connections from
/// addresses of the cluster's nodes have as many places of their own.
pub const STRANGERS_MAX: usize = CONNECTIONS_MAX / 2;

/// Those of them from one remote address (of IPv6: from one network of 64 bits): beyond it the oldest one from there is closed.
pub const STRANGERS_PER_ADDRESS_MAX: usize = STRANGERS_MAX / 4;

/// Bytes that a connection of another protocol may send before it has proved who it is: an `AUTH`, and what clients say before it.
pub const STRANGER_BYTES_MAX: usize = 1 << 10;

/// When a client that was refused for want of connections should ask again.
pub const REFUSED_RETRY_MS: u32 = 1_000;

/// Connections that the system holds until they are taken up, if it allows as many (`net.core.somaxconn`): a job's clients
/// connect all at the same time.
pub const BACKLOG: i32 = 4096;

/// Connections taken up in one turn, so that a storm of them does not hold up those that are there.
pub const ACCEPTS_PER_TURN_MAX: usize = 64;

/// Pause after the system would give no more sockets (descriptors or memory used up): trying at once again would spin.
pub const ACCEPT_RETRY_MS: u64 = 100;

/// Time from connecting until a connection is no stranger's any more: to `Hello`, and where there is a secret to the proof, or to
/// the token of another protocol, whatever is sent meanwhile. A client sends it at once: this is a few round trips over a bad link,
/// and some.
pub const HELLO_TIME_OUT_MS: u64 = 5_000;

/// Time from beginning to connect to another instance until it has answered `Hello`. What is to be said is stale by then;
/// a lost packet of the greeting is sent again after one second.
pub const CALL_TIME_OUT_MS: u64 = 2_000;

/// Time for the rest of a frame once its first byte has come, beside what its length takes at
/// [`FRAME_BYTES_PER_MS_MIN`]. It bounds how long a peer that trickles can hold a buffer.
pub const FRAME_TIME_OUT_MS: u64 = 10_000;

/// The slowest link that a large frame may come over: 256 KB/s.
pub const FRAME_BYTES_PER_MS_MIN: u64 = 256;

/// Time in which a peer with unsent answers must take at least one byte.
pub const SEND_TIME_OUT_MS: u64 = 30_000;

/// Time after which a connection that asks nothing and waits for nothing is closed. Clients keep and renew theirs;
/// peers that died without a word are found sooner by the system's keep-alive.
pub const IDLE_TIME_OUT_MS: u64 = 15 * 60 * 1_000;

/// Time in which requests in flight must be answered once the peer has said that it sends no more.
pub const HALF_CLOSED_TIME_OUT_MS: u64 = 10_000;

/// Time for which a connection that ends with an error is still read, to nobody: closing it with bytes unread would
/// make the system throw away the error on its way to the peer.
pub const LINGER_MS: u64 = 2_000;

/// Time in which a reactor that was told to stop answers what is in flight.
pub const STOP_TIME_OUT_MS: u64 = 3_000;

/// Seconds of silence after which the system asks whether the peer's machine is there; then the seconds between
/// questions, and how many go unanswered before the connection ends. A machine that died is noticed in two minutes.
pub const KEEP_ALIVE_S: (u64, u64, u32) = (60, 10, 6);

/// Bytes read from one connection in one turn, unless it is in the middle of a large frame: a few hundred requests, so
/// that a greedy connection gets no more than its share. Also the size of the one buffer that all reads share.
pub const RECEIVE_BYTES: usize = 64 << 10;

/// Frames up to this length are put together in the shared buffer, which copies what came of them before; longer ones
/// grow in a buffer of their own, so that bytes that trickle in are not copied over and over.
pub const SMALL_FRAME_BYTES_MAX: usize = 16 << 10;

/// Most by which the buffer of a large frame grows at a time: nothing is allocated on the mere claim of a length.
pub const RECEIVE_STEP_BYTES: usize = 1 << 20;

/// Bytes that large frames may hold together while they come in. A frame beyond it is answered `Busy` and passed by.
pub const LARGE_FRAMES_BYTES_MAX: usize = 256 << 20;

/// When to send a frame again that found no room.
pub const NO_ROOM_RETRY_MS: u32 = 100;

/// Requests of one connection that are not yet answered. It bounds what a service keeps for one peer; a closed loop
/// over a link of 1 ms at a million requests a second needs a quarter of it.
pub const IN_FLIGHT_MAX: u32 = 4096;

/// Unsent bytes from which a connection is not read any more, until the peer has taken some. A megabyte keeps a fast
/// link busy for the time of a turn.
pub const UNSENT_BYTES_MAX: usize = 1 << 20;

/// Bytes of answers at which a connection's are sent before the batch ends: whoever asked works on the first of them while the
/// others are made.
pub const SEND_BYTES: usize = 16 << 10;

/// Most pieces that are given to one call of the system, which takes 1,024.
pub const PIECES_MAX: usize = 1_000;

/// Unsent bytes at which a connection is closed. Only answers to what was taken up before it was no longer read can
/// bring it so far; three of the longest still fit.
pub const UNSENT_BYTES_END: usize = 64 << 20;

/// Unsent bytes of all connections together. Above half of it no connection with unsent bytes is read; one that would
/// pass it is closed.
pub const UNSENT_BYTES_TOTAL_MAX: usize = 256 << 20;

/// Bytes that wait over all connections of a reactor: frames that are coming, answers that are not read, commands that are queued,
/// requests that wait. It is what one instance may use of the memory beside its data, whoever connects.
pub const WAITING_BYTES_MAX: usize = 512 << 20;

/// The share of one token in that: a program that runs wild, or is made to, does not take the room of others.
pub const TOKEN_WAITING_BYTES_MAX: usize = WAITING_BYTES_MAX / 4;

/// Requests of one token that wait for a record, over all connections of a reactor: a quarter of what one partition takes.
pub const TOKEN_WAITS_MAX: usize = 1 << 14;

/// Requests taken up before effects are carried out and answers sent: some milliseconds of work, which bounds what a
/// batch adds to latency and what it holds.
pub const BATCH_REQUESTS_MAX: u32 = 4096;

/// Bytes of requests after which a batch ends, for the same reason.
pub const BATCH_BYTES_MAX: usize = 4 << 20;

/// Events taken from the system at a time. What is left over comes the next time.
pub const EVENTS_MAX: usize = 1024;

/// Messages to a reactor's thread that it has not yet taken. They are rare; whoever finds it full is told so.
pub const INBOX_MAX: usize = 1024;

/// Messages taken up in one turn.
pub const NOTICES_PER_TURN_MAX: usize = 64;

/// Capacity of a buffer up to which it is kept for the next connection that needs one: answers of some hundred kilobytes to
/// one batch are nothing rare, and memory of that size comes from the system and goes back, page by page.
pub const KEPT_BUFFER_BYTES_MAX: usize = 512 << 10;

/// Capacity of all buffers kept so.
pub const KEPT_BYTES_MAX: usize = 4 << 20;

/// Capacity of the buffers of large frames, and of answers that a peer does not take at once, that are kept for the next: four of
/// 4 MiB, or one of the longest. What comes and goes with every request of that length would be memory that the system has
/// to clear each time, and a buffer that grows with its frame would be copied several times over.
pub const KEPT_LARGE_BYTES_MAX: usize = 20 << 20;

/// Large buffers are multiples of this, so that one fits what is a little longer than what it was made for.
pub const LARGE_BUFFER_STEP_BYTES: usize = 64 << 10;

/// The bounds that a reactor is started with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// See [`CONNECTIONS_MAX`].
    pub connections_max: usize,
    /// See [`REFUSALS_MAX`].
    pub refusals_max: usize,
    /// See [`STRANGERS_MAX`].
    pub strangers_max: usize,
    /// See [`STRANGERS_PER_ADDRESS_MAX`].
    pub strangers_per_address_max: usize,
    /// See [`STRANGER_BYTES_MAX`].
    pub stranger_bytes_max: usize,
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
        strangers_max: STRANGERS_MAX,
        strangers_per_address_max: STRANGERS_PER_ADDRESS_MAX,
        stranger_bytes_max: STRANGER_BYTES_MAX,
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
