//! What a connection needs from its environment.

use zerohop_wire::Failure;
use zerohop_wire::ids::{KeyspaceId, PartitionId};

use crate::Unit;

/// A partition of a keyspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartitionPlace {
    /// Which keyspace.
    pub keyspace: KeyspaceId,
    /// Which of its partitions.
    pub partition: PartitionId,
}

/// Assigns the reply of a unit to its position among the replies of its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket {
    /// The number of its command in the connection.
    pub number: u64,
    /// The number of the unit in its command.
    pub part: u32,
}

/// The result of running a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnitResult {
    /// It is executed, its changes are committed, and its reply has been appended.
    Done,
    /// Nothing has been appended. [`Connection::complete`](crate::Connection::complete) is called
    /// once, later, with the reply; after a failure with [`failure_reply`](crate::failure_reply).
    Later,
}

/// An instance as clients of Redis Cluster see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedisMember {
    /// 40 hexadecimal digits, the same as long as the instance exists.
    pub id: String,
    /// Name or address, without the port.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// Whether it is the instance that answers.
    pub is_self: bool,
    /// The state of its node.
    pub state: MemberState,
}

/// The state of a node, as the node sees it that answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberState {
    /// It is up, and answers.
    Up,
    /// It is up by the cluster map, and does not answer.
    Silent,
    /// It is down by the cluster map.
    Down,
}

/// Contiguous slots with the same primary and replicas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slots {
    /// The first.
    pub first: u16,
    /// The last, inclusive.
    pub last: u16,
    /// The primary, as an index into [`Layout::members`].
    pub primary: usize,
    /// The replicas.
    pub replicas: Vec<usize>,
}

/// The instances of a cluster, and their slots of a keyspace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// All of them.
    pub members: Vec<RedisMember>,
    /// In order, without gaps.
    pub slots: Vec<Slots>,
    /// How they are served.
    pub service: SlotService,
}

/// How the slots of a keyspace are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotService {
    /// Number of slots without a primary.
    pub failed: u32,
    /// Number of slots whose primary or in-sync replica does not answer, which the control group has not decided yet.
    pub suspected: u32,
    /// The control group has a quorum, and each slot has a primary that answers.
    pub is_complete: bool,
}

impl Default for SlotService {
    fn default() -> Self {
        SlotService { failed: 0, suspected: 0, is_complete: true }
    }
}

/// User and password do not grant access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrongPassword {
    /// The reason, if the world knows more than that they are wrong. `None`: Redis' own text.
    pub why: Option<&'static str>,
}

/// The server's part of `INFO` and `HELLO`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerInfo {
    /// The version of zerohop.
    pub version: String,
    /// The operating system.
    pub os: String,
    /// Process id.
    pub process_id: u32,
    /// 40 hexadecimal digits, new with every start.
    pub run_id: String,
    /// The port of this instance.
    pub port: u16,
    /// Seconds since the start.
    pub uptime_s: u64,
    /// Connections that speak this protocol.
    pub connected_clients: u64,
    /// Those of them whose command waits for a record.
    pub blocked_clients: u64,
    /// The maximum number of connections.
    pub clients_max: u64,
    /// Bytes of memory in use.
    pub used_memory_bytes: u64,
    /// Connections accepted since the start.
    pub total_connections: u64,
    /// Commands since the start.
    pub total_commands: u64,
    /// Bytes received since the start.
    pub received_bytes: u64,
    /// Bytes sent since the start.
    pub sent_bytes: u64,
}

/// A connection's view of the node: it is passed to the connection with received bytes.
pub trait ConnectionWorld {
    /// Executes a unit at the partition of its keys with [`execute`](crate::execute()). Its reply
    /// is appended ([`UnitResult::Done`]) or comes later ([`UnitResult::Later`]). Units of one
    /// connection at the same partition are executed in the order of their calls.
    fn run(&mut self, to: PartitionPlace, ticket: Ticket, unit: &Unit<'_>, reply: &mut Vec<u8>)
    -> UnitResult;

    /// Whether [`ConnectionWorld::run_over`] is available.
    fn serves_cross_partition(&self) -> bool {
        false
    }

    /// Whether it will be available soon: the node is starting.
    fn serves_cross_partition_soon(&self) -> bool {
        false
    }

    /// Executes a unit with keys in several partitions of a keyspace, atomically, over
    /// [`GatheredRecords`](crate::GatheredRecords). No other unit of the connection is under way,
    /// except other parts of the same command. Only if [`ConnectionWorld::serves_cross_partition`].
    fn run_over(
        &mut self,
        keyspace: KeyspaceId,
        ticket: Ticket,
        unit: &Unit<'_>,
        reply: &mut Vec<u8>,
    ) -> UnitResult {
        let _ = (keyspace, ticket, unit);
        crate::failure_reply(&zerohop_wire::BadRequestReason::Unexpected.into(), reply);
        UnitResult::Done
    }

    /// Whether any keyspace has been known since the start. Before that, a missing keyspace may be about to be created.
    fn has_known_keyspaces(&self) -> bool {
        true
    }

    /// The keyspace with this name, if it exists and this connection may use it.
    fn keyspace(&self, name: &[u8]) -> Option<KeyspaceId>;

    /// The name of a keyspace; empty if it does not exist.
    fn keyspace_name(&self, keyspace: KeyspaceId) -> String;

    /// The partition count of a keyspace; 0 if it does not exist, and never else.
    fn partitions(&self, keyspace: KeyspaceId) -> u32;

    /// The partition at a position below that number. In an ordered keyspace positions are in the order of keys, and a split moves them up.
    fn partition_at(&self, _keyspace: KeyspaceId, position: u32) -> PartitionId {
        PartitionId(position)
    }

    /// The partition of a key; any partition if the keyspace does not exist.
    fn partition_of(&self, keyspace: KeyspaceId, key: &[u8]) -> PartitionId;

    /// The slot of a key in Redis Cluster: CRC16 of its hash tag or of the whole key, modulo 16384.
    fn slot_of(&self, key: &[u8]) -> u16;

    /// The partition with the keys of a slot, for `CLUSTER COUNTKEYSINSLOT`. `None` if the keyspace
    /// places keys by another hash.
    fn partition_of_slot(&self, keyspace: KeyspaceId, slot: u16) -> Option<PartitionId>;

    /// Host and port to which a cluster-aware client is redirected for a key of this partition.
    /// `None` if this instance serves it, or if the keyspace does not place keys by slots; then the
    /// unit is forwarded.
    fn moved(&self, place: PartitionPlace) -> Option<(String, u16)>;

    /// The instances, and their slots of a keyspace. In a keyspace that does not place keys by
    /// slots, the instance that answers serves all. Called only for a keyspace that exists, except for the id of the instance.
    fn layout(&self, keyspace: KeyspaceId) -> Layout;

    /// The epoch of the cluster map.
    fn map_epoch(&self) -> u64;

    /// The data of `INFO` and `HELLO`.
    fn server(&self) -> ServerInfo;

    /// Records of the keyspace in the partitions that this instance serves.
    fn own_keys(&self, keyspace: KeyspaceId) -> u64;

    /// Microseconds since 1970.
    fn now_us(&self) -> u64;

    /// Milliseconds of a clock that is never set, for the time-out of a command.
    fn elapsed_ms(&self) -> u64 {
        self.now_us() / 1000
    }

    /// The time that a command of several parts has for all of them, in milliseconds.
    fn time_out_ms(&self) -> u64 {
        u64::MAX
    }

    /// Passes the line of every connection of this instance
    /// ([`Connection::describe`](crate::Connection::describe)) to `each`, except that of connection
    /// `asking`.
    fn other_clients(&self, asking: u64, each: &mut dyn FnMut(&str));

    /// Authenticates the client. The user is `default` if none is given.
    ///
    /// # Errors User or password is wrong.
    fn authenticate(&mut self, user: &[u8], password: &[u8]) -> Result<(), WrongPassword>;

    /// Whether the connection may read, or also write, this keyspace. Called before a command is
    /// kept for later; [`ConnectionWorld::run`] checks by itself.
    ///
    /// # Errors It may not, or not any more.
    /// It may not, or not any more.
    fn permits(&self, keyspace: KeyspaceId, may_write: bool) -> Result<(), Failure<'static>> {
        let _ = (keyspace, may_write);
        Ok(())
    }

    /// Whether the connection may keep so many bytes in all: queued and pending commands, watched
    /// keys, unsent replies.
    fn may_buffer(&mut self, bytes: usize) -> bool {
        let _ = bytes;
        true
    }

    /// Whether connections must authenticate.
    fn needs_authentication(&self) -> bool;

    /// Whether `DEBUG SLEEP` is allowed: in tests.
    fn allows_debug(&self) -> bool {
        false
    }

    /// Sleeps so long, in a test that has allowed it.
    fn sleep(&mut self, ms: u64) {
        let _ = ms;
    }
}
