//! All limits of a node except those of its reactors, each with its reason.

use std::time::Duration;

pub use zerohop_engine::limits::DISK_RESERVE_BYTES;
use zerohop_reactor::Limits;

/// Default maximum number of instances: more gain little on one machine, and each has a journal of its own to flush.
pub const INSTANCES_DEFAULT_MAX: usize = 8;

/// Maximum number of instances: the limit of the map.
pub const INSTANCES_MAX: usize = zerohop_placement::limits::INSTANCES_PER_NODE_MAX;

/// Default memory for the newest part of the data, on a node that may use enough.
pub const MEMORY_BYTES_DEFAULT: u64 = 1 << 30;

/// Elsewhere this share of the node's memory is for that, at least so many bytes: indexes, connections and the program need the rest.
pub const MEMORY_SHARE: u64 = 4;

/// See [`MEMORY_SHARE`].
pub const MEMORY_BYTES_MIN: u64 = 16 << 20;

/// Maximum time for instances to open their data: they read in proportion to it.
pub const OPEN_WAIT: Duration = Duration::from_secs(3600);

/// Maximum time for a node to find the control group and join: the nodes of a batch job start within minutes of each other.
pub const JOIN_WAIT: Duration = Duration::from_secs(600);

/// Maximum number of requests of instances to the control group that wait for the agent. A request that finds no room is repeated.
pub const INSTANCE_REQUESTS_MAX: usize = 4_096;

/// How long a failed start waits for the other instances: an instance that is reading a large log cannot be interrupted. It keeps the folder until
/// it or the process ends.
pub const START_FAILED_WAIT: Duration = Duration::from_secs(10);

/// Maximum time for an instance to stop: to answer requests in flight, then to sync and to write its checkpoints.
pub const STOP_WAIT: Duration = Duration::from_secs(120);

/// Maximum time for the manager to confirm that its instances serve, which it does at once.
pub const SERVE_WAIT: Duration = Duration::from_secs(30);

/// How long a stopping node continues to serve until other nodes have taken over its primaries. Without other nodes, or without a quorum of
/// managers, none does.
pub const HAND_OVER_WAIT: Duration = Duration::from_secs(3);

/// How long pending writes of Redis clients may take before other nodes take over: a flush and a round trip.
pub const YIELD_WAIT: Duration = Duration::from_millis(500);

/// How long a stopping node waits for accepted commands of Redis clients, and for those relayed to other nodes.
pub const END_CLIENTS_WAIT: Duration = Duration::from_secs(2);

/// How long the node serves after that: the other primaries learn that it has yielded, and its clients learn where to go.
pub const HAND_OVER_LINGER: Duration = Duration::from_millis(100);

/// How long a unit of a Redis client waits for its partition to be served, over all attempts; a setting of the node
/// overrides it. Twice the two seconds of a failover, and longer than the three of an orderly
/// hand-over of a stopping node. An instance that is silent for longer is cut off, or blocked by
/// its disk.
pub const REDIS_TIME_OUT_DEFAULT: Duration = Duration::from_secs(4);

/// The shortest such time: with less, every restart would cause errors.
pub const REDIS_TIME_OUT_MIN: Duration = Duration::from_millis(500);

/// The longest: no program needs an answer after it.
pub const REDIS_TIME_OUT_MAX: Duration = Duration::from_secs(600);

/// Interval of the checks whether other nodes have taken over.
pub const HAND_OVER_CHECK_INTERVAL: Duration = Duration::from_millis(5);

/// Maximum time for the manager to confirm that it handles signals: its only slow operation is saving the map.
pub const SIGNALS_WAIT: Duration = Duration::from_secs(10);

/// Maximum time for instances to follow a change of the map. Dropping a large keyspace removes its files.
pub const MAP_WAIT: Duration = Duration::from_secs(8);

/// An instance that has not confirmed a change of the map gets the complete map after this time again.
pub const MAP_REPEAT: Duration = Duration::from_secs(2);

/// How long a control request waits until a dropped keyspace is gone; the client may repeat the request.
pub const DROP_WAIT: Duration = Duration::from_secs(2);

/// Interval of the checks for that.
pub const DROP_CHECK_INTERVAL: Duration = Duration::from_millis(10);

/// How long a control request waits until a keyspace or a region is split. The control group gives the split up before that.
pub const SPLIT_WAIT: Duration = Duration::from_secs(8);

/// Interval of the checks for that.
pub const SPLIT_CHECK_INTERVAL: Duration = Duration::from_millis(5);

/// Interval at which a standalone node checks whether a keyspace can be dropped for which no client waits.
pub const DROP_AGAIN: Duration = Duration::from_secs(1);

/// Interval at which the instances learn which nodes answer this one.
pub const REACHABILITY_INTERVAL: Duration = Duration::from_millis(250);

/// Maximum time for instances to report their figures; the report leaves out those that do not.
pub const STATS_WAIT: Duration = Duration::from_millis(500);

/// Pause before a message is sent again to an instance whose inbox was full.
pub const INBOX_FULL_PAUSE: Duration = Duration::from_millis(5);

/// Maximum number of pending control requests of all connections of the node.
pub const JOBS_MAX: usize = 64;

/// When a client should repeat a control request that found no room.
pub const JOBS_RETRY_MS: u32 = 200;

/// Maximum number of unanswered control requests of one connection.
pub const ADMIN_IN_FLIGHT_MAX: usize = 16;

/// Maximum number of connections to the manager of all kinds: control, monitoring, and every client that has it as its endpoint, which requests the
/// map and keeps the connection. The limit is that of an instance; idle connections cost about two kilobytes.
pub const MANAGER_CONNECTIONS_MAX: usize = zerohop_reactor::limits::CONNECTIONS_MAX;

/// Additional connections to the manager from addresses of the cluster's nodes: clients do not exclude other managers.
pub const MANAGER_NODE_CONNECTIONS_MAX: usize = 1024;

/// Time limit from connecting to the proof, or without a secret to the greeting, whatever is sent meanwhile; for HTTP, to a request with the bearer
/// token.
pub const GREETING_TIME_OUT: Duration = Duration::from_secs(5);

/// Time limit for the rest of a frame after its first byte.
pub const FRAME_TIME_OUT: Duration = Duration::from_secs(10);

/// Time in which a peer must accept what is sent to it.
pub const SEND_TIME_OUT: Duration = Duration::from_secs(10);

/// Time after which a connection without requests is closed.
pub const IDLE_TIME_OUT: Duration = Duration::from_secs(15 * 60);

/// Time for which a connection that ends with an error is still read, so that the error arrives.
pub const LINGER: Duration = Duration::from_secs(1);

/// Maximum length of a frame's body at the manager: that of control requests. Frames for instances are refused.
pub const MANAGER_BODY_BYTES_MAX: usize = zerohop_wire::limits::ADMIN_BYTES_MAX;

/// Number of bytes of separators after which a status leaves out those of further keyspaces: an answer has room for nodes and instances too.
pub const STATUS_SEPARATOR_BYTES_MAX: usize = MANAGER_BODY_BYTES_MAX / 4;

/// Bytes of the watches in one answer. Of more, those with the greatest lag are listed.
pub const WATCHES_ANSWER_BYTES_MAX: usize = MANAGER_BODY_BYTES_MAX / 2;

/// Maximum number of bytes of incomplete frames above a few kilobytes, over all connections to the manager: many requests of maximum length at
/// once. A frame that would exceed it is refused.
pub const RECEIVING_BYTES_MAX: usize = 32 << 20;

/// Number of unsent bytes from which a connection is not read until they are sent.
pub const OUT_BYTES_MAX: usize = 256 << 10;

/// Maximum length of an HTTP request line with headers, and maximum number of headers.
pub const HTTP_HEAD_BYTES_MAX: usize = 16 << 10;
/// See [`HTTP_HEAD_BYTES_MAX`].
pub const HTTP_HEADERS_MAX: usize = 64;

/// Time limit for a request's headers, and maximum idle time of an HTTP connection.
pub const HTTP_HEAD_TIME_OUT: Duration = Duration::from_secs(5);

/// Maximum duration of one HTTP connection; monitoring connects again.
pub const HTTP_CONNECTION_TIME_OUT: Duration = Duration::from_secs(30 * 60);

/// Number of corrupt places that log and status describe; of the others, only the number.
pub const DAMAGE_REPORTED_MAX: usize = 16;

/// Number of troubles kept for the status; the oldest are dropped first.
pub const ALERTS_MAX: usize = 32;

/// Minimum interval between searches for logs under which the disk has failed. Each walks over all partitions of an instance.
pub const FAILED_LOGS_SEARCH_INTERVAL_MS: u64 = 1_000;

/// Minimum interval between log messages about refused connections, and about changes that could not be saved.
pub const REFUSALS_LOG_INTERVAL_MS: u64 = 10_000;

/// Limits of connections, for tests and operators that need other values than the defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// Connections to one instance. See [`zerohop_reactor::limits::CONNECTIONS_MAX`].
    pub instance_max: usize,
    /// Connections to the manager. See [`MANAGER_CONNECTIONS_MAX`].
    pub manager_max: usize,
    /// Unauthenticated connections to either. See [`zerohop_reactor::limits::UNPROVEN_MAX`].
    pub unproven_max: usize,
    /// Of these, connections from one address. See [`zerohop_reactor::limits::UNPROVEN_PER_ADDRESS_MAX`].
    pub unproven_per_address_max: usize,
    /// Time limit for a connection from its accept to its proof. See [`zerohop_reactor::limits::HELLO_TIME_OUT_MS`].
    pub unproven_time_out: Duration,
    /// Bytes that wait for the connections of one instance. See [`zerohop_reactor::limits::WAITING_BYTES_MAX`].
    pub waiting_bytes_max: usize,
    /// The share of one token in that. See [`zerohop_reactor::limits::TOKEN_WAITING_BYTES_MAX`].
    pub token_waiting_bytes_max: usize,
    /// Requests of one token that wait at one instance. See [`zerohop_reactor::limits::TOKEN_WAITS_MAX`].
    pub token_waits_max: usize,
}

impl ConnectionLimits {
    /// The limits of an instance's reactor.
    pub(crate) fn of_instance(&self) -> Limits {
        Limits {
            connections_max: self.instance_max,
            unproven_max: self.unproven_max,
            unproven_per_address_max: self.unproven_per_address_max,
            hello_time_out_ms: u64::try_from(self.unproven_time_out.as_millis()).unwrap_or(u64::MAX),
            waiting_bytes_max: self.waiting_bytes_max,
            token_waiting_bytes_max: self.token_waiting_bytes_max,
            token_waits_max: self.token_waits_max,
            ..Limits::DEFAULT
        }
    }
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        let Limits { waiting_bytes_max, token_waiting_bytes_max, token_waits_max, .. } = Limits::DEFAULT;
        ConnectionLimits {
            instance_max: Limits::DEFAULT.connections_max,
            manager_max: MANAGER_CONNECTIONS_MAX,
            unproven_max: Limits::DEFAULT.unproven_max,
            unproven_per_address_max: Limits::DEFAULT.unproven_per_address_max,
            unproven_time_out: GREETING_TIME_OUT,
            waiting_bytes_max,
            token_waiting_bytes_max,
            token_waits_max,
        }
    }
}

// A client's control request has ten seconds; the client should learn its result.
const _: () = assert!(MAP_WAIT.as_secs() < 10 && DROP_WAIT.as_secs() < 10 && SPLIT_WAIT.as_secs() < 10);
const _: () = assert!(MANAGER_BODY_BYTES_MAX * 8 <= RECEIVING_BYTES_MAX);
