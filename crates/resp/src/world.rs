//! What a connection asks of whoever holds it.

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

/// Ties the reply of a unit to the place that it has among the replies of its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket {
    /// The how-manieth command of the connection it belongs to.
    pub number: u64,
    /// The how-manieth unit of that command.
    pub part: u32,
}

/// What became of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnitResult {
    /// It is executed, what it changed is committed, and its reply has been appended.
    Done,
    /// Nothing has been appended. [`Connection::complete`](crate::Connection::complete) is called with the reply, once,
    /// later; after a failure with [`failure_reply`](crate::failure_reply).
    Later,
}

/// An instance as clients of Redis cluster know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedisMember {
    /// 40 hexadecimal digits, the same for the life of the instance.
    pub id: String,
    /// Name or address, without the port.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// Whether it is the one that is asked.
    pub is_self: bool,
    /// Whether its node is up, as far as the cluster has decided.
    pub is_up: bool,
}

/// Slots that follow one another and are held by the same instances.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slots {
    /// The first.
    pub first: u16,
    /// The last, itself included.
    pub last: u16,
    /// Who serves them: a place in [`Layout::members`].
    pub primary: usize,
    /// Who holds copies of them.
    pub replicas: Vec<usize>,
}

/// The instances of a cluster, and who holds which slots of a keyspace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// All of them.
    pub members: Vec<RedisMember>,
    /// In order, without gaps.
    pub slots: Vec<Slots>,
}

/// User and password let nobody in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrongPassword {
    /// Why, where the world knows more than that they are wrong: Redis' own words otherwise.
    pub why: Option<&'static str>,
}

/// What `INFO` and `HELLO` tell of the server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerInfo {
    /// The version of zerohop.
    pub version: String,
    /// The operating system.
    pub os: String,
    /// Number of the process.
    pub process_id: u32,
    /// 40 hexadecimal digits, new with every start.
    pub run_id: String,
    /// The port of this instance.
    pub port: u16,
    /// Seconds since the start.
    pub uptime_s: u64,
    /// Connections that speak this protocol.
    pub connected_clients: u64,
    /// Connections that there may be.
    pub clients_max: u64,
    /// Bytes of memory in use.
    pub used_memory_bytes: u64,
    /// Connections taken up since the start.
    pub total_connections: u64,
    /// Commands since the start.
    pub total_commands: u64,
    /// Bytes received since the start.
    pub received_bytes: u64,
    /// Bytes sent since the start.
    pub sent_bytes: u64,
    /// Records of the connection's keyspace that this node holds.
    pub keys: u64,
    /// Those of them with a deadline.
    pub keys_with_deadline: u64,
}

/// Where a connection stands and what it may see: asked by it while it takes up bytes.
pub trait ConnectionWorld {
    /// Executes a unit where its keys live, wherever that is, with [`execute`](crate::execute()), and appends its reply
    /// ([`UnitResult::Done`]) or promises it ([`UnitResult::Later`]). Units of one connection at the same partition are executed in
    /// the order of their calls.
    fn run(&mut self, to: PartitionPlace, ticket: Ticket, unit: &Unit<'_>, reply: &mut Vec<u8>)
    -> UnitResult;

    /// Whether [`ConnectionWorld::run_over`] is to be had.
    fn spans(&self) -> bool {
        false
    }

    /// Whether it is to be had in a moment: the node is starting.
    fn spans_later(&self) -> bool {
        false
    }

    /// Executes a unit whose keys live in several partitions of a keyspace: over [`GatheredRecords`](crate::GatheredRecords) records, and all of
    /// it at one moment or none of it. No other unit of the connection is under way. Only where [`ConnectionWorld::spans`] says so.
    fn run_over(
        &mut self,
        keyspace: KeyspaceId,
        ticket: Ticket,
        unit: &Unit<'_>,
        reply: &mut Vec<u8>,
    ) -> UnitResult {
        let _ = (keyspace, ticket, unit);
        crate::failure_reply(&zerohop_wire::What::Unexpected.into(), reply);
        UnitResult::Done
    }

    /// The keyspace of a name, if there is one and this connection may use it.
    fn keyspace(&self, name: &[u8]) -> Option<KeyspaceId>;

    /// The name of a keyspace; empty if it is gone.
    fn keyspace_name(&self, keyspace: KeyspaceId) -> String;

    /// How many partitions a keyspace has; 0 if it is gone.
    fn partitions(&self, keyspace: KeyspaceId) -> u32;

    /// The partition of a key. Of a keyspace that is gone: any.
    fn partition_of(&self, keyspace: KeyspaceId, key: &[u8]) -> PartitionId;

    /// The slot of a key in a Redis cluster: CRC16 of its hash tag or the whole of it, modulo 16384.
    fn slot_of(&self, key: &[u8]) -> u16;

    /// Partitions that hold the keys of a slot, for `CLUSTER COUNTKEYSINSLOT`. `None` if the keyspace places keys by
    /// another hash.
    fn partition_of_slot(&self, keyspace: KeyspaceId, slot: u16) -> Option<PartitionId>;

    /// Host and port to which a client that knows the cluster's layout is sent with a key of this partition. `None` if
    /// this instance serves it, and also if the keyspace does not place keys by slots: it is forwarded then.
    fn moved(&self, place: PartitionPlace) -> Option<(String, u16)>;

    /// The instances, and who holds the slots of a keyspace. In a keyspace that does not place keys by slots, the one that is
    /// asked serves all.
    fn layout(&self, keyspace: KeyspaceId) -> Layout;

    /// The epoch of the cluster map.
    fn map_epoch(&self) -> u64;

    /// What there is to know of the server.
    fn server(&self) -> ServerInfo;

    /// Microseconds since 1970.
    fn now_us(&self) -> u64;

    /// Hands the line of every connection of this instance ([`Connection::describe`](crate::Connection::describe)) to
    /// `each`, but for that of the one with this number, which is being asked.
    fn other_clients(&self, asking: u64, each: &mut dyn FnMut(&str));

    /// Lets the client in if user and password are right. The user is `default` if none is given.
    ///
    /// # Errors
    /// They are not.
    fn authenticate(&mut self, user: &[u8], password: &[u8]) -> Result<(), WrongPassword>;

    /// Whether the connection may do what a command of this keyspace does, which only reads or may change something. Asked before
    /// a command is kept for later; [`ConnectionWorld::run`] asks by itself.
    ///
    /// # Errors
    /// It may not, or not any more.
    fn permits(&self, keyspace: KeyspaceId, may_write: bool) -> Result<(), Failure<'static>> {
        let _ = (keyspace, may_write);
        Ok(())
    }

    /// Whether so many bytes of this connection, all together, may wait: commands that are queued or under way, watched keys,
    /// replies that are not sent yet.
    fn hold(&mut self, bytes: usize) -> bool {
        let _ = bytes;
        true
    }

    /// Whether connections must authenticate.
    fn needs_authentication(&self) -> bool;

    /// Whether `DEBUG SLEEP` is allowed: in tests.
    fn allows_debug(&self) -> bool {
        false
    }

    /// Stands still for so long, in a test that has allowed it.
    fn sleep(&mut self, ms: u64) {
        let _ = ms;
    }
}
