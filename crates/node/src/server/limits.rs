//! Every bound of a node beside those of its reactors, each with its reason.

use std::time::Duration;

use crate::reactor::Limits;

/// Most instances, unless asked for: more gain little on one machine, and each has a journal of its own to flush.
pub const INSTANCES_DEFAULT_MAX: usize = 8;

/// Most instances that may be asked for: as many as a map takes.
pub const INSTANCES_MAX: usize = zerohop_placement::limits::INSTANCES_PER_NODE_MAX;

/// Memory for the newest part of the data, if nothing else is asked for.
pub const MEMORY_BYTES_DEFAULT: u64 = 1 << 30;

/// How long instances may take to open their data: they read in proportion to it.
pub const OPEN_WAIT: Duration = Duration::from_secs(3600);

/// How long a node that starts in a cluster waits until it has found the control group and joined: those of a batch job
/// come within minutes of each other.
pub const JOIN_WAIT: Duration = Duration::from_secs(600);

/// What instances want of the control group and the agent has not yet heard. What finds no room is said again.
pub const WORDS_MAX: usize = 4_096;

/// How long the other instances are waited for when the start of one has failed: those in the middle of reading a
/// large log cannot be interrupted, and keep the folder until they or the process end.
pub const START_FAILED_WAIT: Duration = Duration::from_secs(10);

/// How long an instance may take to stop: to answer what is in flight, then to sync and to write its checkpoints.
pub const STOP_WAIT: Duration = Duration::from_secs(120);

/// How long a start waits until the manager has heard that its instances serve, which it does at once.
pub const SERVE_WAIT: Duration = Duration::from_secs(30);

/// How long a node that was asked to end serves on until others have taken over what it was primary of. Without them, or
/// without a majority of managers, nobody does.
pub const HAND_OVER_WAIT: Duration = Duration::from_secs(3);

/// How long writes of Redis clients that are under way are waited for before others take over. They take a flush and a round trip.
pub const YIELD_WAIT: Duration = Duration::from_millis(500);

/// How long commands of Redis clients that were taken up, or relayed to other nodes, are waited for before the node stops.
pub const END_CLIENTS_WAIT: Duration = Duration::from_secs(2);

/// How long it serves on after that: the other primaries hear that it has yielded, and its clients whom to ask.
pub const HAND_OVER_LINGER: Duration = Duration::from_millis(100);

/// Between two looks whether others have taken over.
pub const HAND_OVER_LOOK: Duration = Duration::from_millis(5);

/// How long the manager may take to say that it listens to signals: it does nothing that takes long but to save the map.
pub const SIGNALS_WAIT: Duration = Duration::from_secs(10);

/// How long instances may take to follow a change of the map. Dropping a large keyspace removes its files.
pub const MAP_WAIT: Duration = Duration::from_secs(8);

/// How long a control request waits until a keyspace that is being dropped is gone; whoever asked may ask again.
pub const DROP_WAIT: Duration = Duration::from_secs(2);

/// How often it looks whether that is so.
pub const DROP_LOOK: Duration = Duration::from_millis(10);

/// How often a node that stands alone looks whether a keyspace that is being dropped can go, where nobody waits for that.
pub const DROP_AGAIN: Duration = Duration::from_secs(1);

/// How long instances may take to say how they stand; those that do not are left out of the report.
pub const STATS_WAIT: Duration = Duration::from_millis(500);

/// Pause before a message is left again at an instance whose inbox was full.
pub const INBOX_FULL_PAUSE: Duration = Duration::from_millis(5);

/// Control requests that wait to be carried out, from all connections of the node.
pub const JOBS_MAX: usize = 64;

/// When a client whose control request found no room should ask again.
pub const JOBS_RETRY_MS: u32 = 200;

/// Control requests of one connection that are not yet answered.
pub const ADMIN_IN_FLIGHT_MAX: usize = 16;

/// Connections to the manager, of all kinds: control, monitoring, and every client that has it for its endpoint, which
/// asks for the map and keeps the connection. So as many as an instance takes; idle ones cost about two kilobytes.
pub const MANAGER_CONNECTIONS_MAX: usize = crate::reactor::limits::CONNECTIONS_MAX;

/// Connections to the manager from addresses of the cluster's nodes beyond those: other managers are not kept out by clients.
pub const MANAGER_NODE_CONNECTIONS_MAX: usize = 1024;

/// Time from connecting to the proof, or where there is no secret to the greeting, whatever is sent meanwhile; by HTTP to a request
/// with the bearer's password.
pub const GREETING_TIME_OUT: Duration = Duration::from_secs(5);

/// Time for the rest of a frame once its first byte has come.
pub const FRAME_TIME_OUT: Duration = Duration::from_secs(10);

/// Time in which a peer must take what is sent to it.
pub const SEND_TIME_OUT: Duration = Duration::from_secs(10);

/// Time after which a connection that asks nothing is closed.
pub const IDLE_TIME_OUT: Duration = Duration::from_secs(15 * 60);

/// Time for which a connection that ends with an error is still read, so that the error arrives.
pub const LINGER: Duration = Duration::from_secs(1);

/// Longest body of a frame that the manager takes: control requests. What is meant for instances is refused.
pub const MANAGER_BODY_BYTES_MAX: usize = zerohop_wire::limits::ADMIN_BYTES_MAX;

/// Bytes of frames beyond a few kilobytes that are still coming, over all connections to the manager: many requests of
/// the greatest length at once. A frame that would pass it is refused.
pub const RECEIVING_BYTES_MAX: usize = 32 << 20;

/// Bytes to be sent from which nothing more is taken up on a connection until they are sent.
pub const OUT_BYTES_MAX: usize = 256 << 10;

/// Bytes of request line and headers of HTTP, and how many headers.
pub const HTTP_HEAD_BYTES_MAX: usize = 16 << 10;
/// See [`HTTP_HEAD_BYTES_MAX`].
pub const HTTP_HEADERS_MAX: usize = 64;

/// Time for a request's headers, which is also how long an HTTP connection may be idle.
pub const HTTP_HEAD_TIME_OUT: Duration = Duration::from_secs(5);

/// Time that one HTTP connection may last; monitoring connects again.
pub const HTTP_CONNECTION_TIME_OUT: Duration = Duration::from_secs(30 * 60);

/// Damage that is told piece by piece, in the log and in the status; of more, only how much.
pub const DAMAGE_TOLD_MAX: usize = 16;

/// Troubles kept for the status, oldest out first.
pub const TROUBLES_MAX: usize = 32;

/// Refused connections are told in the log this often at most.
pub const REFUSALS_TOLD_EVERY_MS: u64 = 10_000;

/// What connections may take, where a test or an operator wants other bounds than usual.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// Connections to one instance. See [`crate::reactor::limits::CONNECTIONS_MAX`].
    pub instance_max: usize,
    /// Connections to the manager. See [`MANAGER_CONNECTIONS_MAX`].
    pub manager_max: usize,
    /// Those to either that have proved nothing. See [`crate::reactor::limits::STRANGERS_MAX`].
    pub strangers_max: usize,
    /// Those of them from one address. See [`crate::reactor::limits::STRANGERS_PER_ADDRESS_MAX`].
    pub strangers_per_address_max: usize,
    /// How long a connection may take from its accept to its proof. See [`crate::reactor::limits::HELLO_TIME_OUT_MS`].
    pub stranger_time_out: Duration,
    /// Bytes that wait for the connections of one instance. See [`crate::reactor::limits::WAITING_BYTES_MAX`].
    pub waiting_bytes_max: usize,
    /// The share of one token in that. See [`crate::reactor::limits::TOKEN_WAITING_BYTES_MAX`].
    pub token_waiting_bytes_max: usize,
    /// Requests of one token that wait at one instance. See [`crate::reactor::limits::TOKEN_WAITS_MAX`].
    pub token_waits_max: usize,
}

impl ConnectionLimits {
    /// Those of an instance's reactor.
    pub(crate) fn of_instance(&self) -> Limits {
        Limits {
            connections_max: self.instance_max,
            strangers_max: self.strangers_max,
            strangers_per_address_max: self.strangers_per_address_max,
            hello_time_out_ms: u64::try_from(self.stranger_time_out.as_millis()).unwrap_or(u64::MAX),
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
            strangers_max: Limits::DEFAULT.strangers_max,
            strangers_per_address_max: Limits::DEFAULT.strangers_per_address_max,
            stranger_time_out: GREETING_TIME_OUT,
            waiting_bytes_max,
            token_waiting_bytes_max,
            token_waits_max,
        }
    }
}

// A client's control request has ten seconds; it should hear what became of it.
const _: () = assert!(MAP_WAIT.as_secs() < 10 && DROP_WAIT.as_secs() < 10);
const _: () = assert!(MANAGER_BODY_BYTES_MAX * 8 <= RECEIVING_BYTES_MAX);
