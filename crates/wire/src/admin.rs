//! Control requests and their replies. They are rare, so they are Protocol Buffers, inside the frames `admin` and `admin_answer`.
//!
//! `docs/protocols/admin.proto` is the specification; these types follow it field by field. Names that other crates parse (durability, hash,
//! states) are sent as readable text. An unset name or number of a request means the default, or no change.

mod damaged;
mod descriptors;
mod history;
mod refused;
#[cfg(test)]
mod tests;
mod tokens;
mod view;
mod watches;

use prost::{Message, Oneof};

pub use self::damaged::DamagedPartition;
pub use self::descriptors::DescriptorStatus;
pub use self::history::KeyspaceHistory;
pub use self::refused::{
    AdminRefusal, REFUSED_DECIDED, REFUSED_DROPPING, REFUSED_EXISTS, REFUSED_FAILED, REFUSED_FORBIDDEN,
    REFUSED_FORGOTTEN, REFUSED_REQUEST, REFUSED_SETTING, REFUSED_UNDECIDED, REFUSED_UNFOLLOWED,
    REFUSED_UNKNOWN, REFUSED_UNKNOWN_NODE, REFUSED_UNKNOWN_PARTITION, REFUSED_UNKNOWN_TOKEN,
    leaves_outcome_open,
};
pub use self::tokens::{DelegateToken, TokenGrant, TokenList, TokenPut, TokenRevoke, TokenStatus, Tokens};
pub use self::view::NodeView;
pub use self::watches::{WatchList, WatchStatus, Watches};

use crate::error::{BadRequestReason, Failure};
use crate::limits::ADMIN_BYTES_MAX;

/// A control request to a manager.
#[derive(Clone, PartialEq, Message)]
pub struct AdminRequest {
    /// The request; `None` if it comes from a newer program.
    #[prost(oneof = "AdminQuestion", tags = "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 20, 21, 22, 23, 30")]
    pub query: Option<AdminQuestion>,
}

/// See [`AdminRequest`].
#[derive(Clone, PartialEq, Oneof)]
pub enum AdminQuestion {
    /// Return the status of the cluster.
    #[prost(message, tag = "1")]
    Status(StatusGet),
    /// Create a keyspace.
    #[prost(message, tag = "2")]
    CreateKeyspace(KeyspaceSettings),
    /// Change a keyspace that is in use.
    #[prost(message, tag = "3")]
    AlterKeyspace(KeyspaceSettings),
    /// Remove a keyspace and all its contents.
    #[prost(message, tag = "4")]
    DropKeyspace(KeyspaceDrop),
    /// Change the state of a node.
    #[prost(message, tag = "5")]
    SetNodeState(NodeStateSet),
    /// Permanently remove a node that has no replicas from the cluster.
    #[prost(message, tag = "6")]
    RemoveNode(NodeRemove),
    /// List the replicas of a keyspace's partitions.
    #[prost(message, tag = "7")]
    ListPartitions(PartitionList),
    /// Move a partition, or release it so that the cluster places it.
    #[prost(message, tag = "8")]
    MovePartition(PartitionMove),
    /// Declare the data of members that will not return as lost, so that the partition continues without them.
    #[prost(message, tag = "9")]
    RecoverPartition(PartitionRecover),
    /// Confirm that the operator knows of a data loss, which is then reported no more.
    #[prost(message, tag = "10")]
    AcknowledgeLosses(LossesAcknowledge),
    /// Divide a region of an ordered keyspace.
    #[prost(message, tag = "11")]
    SplitRegion(RegionSplit),
    /// List the watches of this node.
    #[prost(message, tag = "12")]
    ListWatches(WatchList),
    /// Make a token valid.
    #[prost(message, tag = "20")]
    PutToken(TokenPut),
    /// Revoke a token.
    #[prost(message, tag = "21")]
    RevokeToken(TokenRevoke),
    /// List the tokens.
    #[prost(message, tag = "22")]
    ListTokens(TokenList),
    /// Make a token valid for a limited time.
    #[prost(message, tag = "23")]
    LendToken(DelegateToken),
    /// Place the control group on these nodes.
    #[prost(message, tag = "30")]
    SetManagers(ManagersSet),
}

/// Requests the status of the cluster.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct StatusGet {}

/// Settings of a keyspace. An unset field means the default for a new keyspace, and no change for an existing one.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct KeyspaceSettings {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Number of partitions: a power of two, or in an ordered keyspace one more than there are separators. Only splits change it.
    #[prost(uint32, optional, tag = "2")]
    pub partitions: Option<u32>,
    /// Name of the hash function, or `ordered`: the keys are in byte order, at first in one partition without `split_at`. Fixed at creation.
    #[prost(string, optional, tag = "3")]
    pub hash: Option<String>,
    /// Total number of copies.
    #[prost(uint32, optional, tag = "4")]
    pub replicas: Option<u32>,
    /// Number of copies that must store a write before it is acknowledged.
    #[prost(uint32, optional, tag = "5")]
    pub min_in_sync: Option<u32>,
    /// `memory`, `interval`, `interval:50ms` or `sync`.
    #[prost(string, optional, tag = "6")]
    pub durability: Option<String>,
    /// Size of a blob's chunks in bytes; a power of two. Fixed at creation.
    #[prost(uint32, optional, tag = "7")]
    pub chunk_bytes: Option<u32>,
    /// The keys at which the partitions of an ordered keyspace begin, after the first one. Only splits change them. A program that does not know this field
    /// refuses the number of partitions, which a request should therefore name.
    #[prost(bytes = "vec", repeated, tag = "8")]
    pub split_at: Vec<Vec<u8>>,
    /// How long changes are kept for readers that watch the keyspace, in milliseconds; 0: none are.
    #[prost(uint32, optional, tag = "9")]
    pub history_ms: Option<u32>,
    /// Bytes of the changes that a copy of a partition keeps at most.
    #[prost(uint32, optional, tag = "10")]
    pub history_bytes: Option<u32>,
}

/// Requests the removal of a keyspace.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct KeyspaceDrop {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Do not wait for pending work. Transactions over the keyspace and others may be undone in the others, even if they were acknowledged.
    #[prost(bool, tag = "2")]
    pub at_once: bool,
    /// The id of the keyspace, to exclude a later one of the same name; 0: the keyspace that has the name now.
    #[prost(uint32, tag = "3")]
    pub id: u32,
    /// How long the manager waits for the end of the drop before it replies that the drop is in progress: at most 2 s, which is also the default.
    #[prost(uint32, optional, tag = "4")]
    pub wait_ms: Option<u32>,
}

/// Requests that a region begins at a key, by a split of the region that has it. If one begins there already, nothing is changed.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct RegionSplit {
    /// The name of the ordered keyspace.
    #[prost(string, tag = "1")]
    pub keyspace: String,
    /// The key.
    #[prost(bytes = "vec", tag = "2")]
    pub separator: Vec<u8>,
    /// The left child's share of the region's points, of 256; unset: half. A child that will not be split again needs few.
    #[prost(uint32, optional, tag = "3")]
    pub share: Option<u32>,
    /// Only if this region has the key; unset: the region that has it. A request that is repeated after its split would divide a child otherwise.
    #[prost(uint32, optional, tag = "4")]
    pub region: Option<u32>,
}

/// Confirms that a data loss in a keyspace is known.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct LossesAcknowledge {
    /// The keyspace's name; empty: all.
    #[prost(string, tag = "1")]
    pub keyspace: String,
    /// The epoch of the map that the operator has seen. Losses up to this epoch are confirmed; later ones are still reported.
    #[prost(uint64, tag = "2")]
    pub map_epoch: u64,
}

/// Requests a change of a node's state.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct NodeStateSet {
    /// Its id.
    #[prost(uint32, tag = "1")]
    pub node: u32,
    /// `draining`: the cluster moves all its replicas to other nodes; `up`: the node stays after all.
    #[prost(string, tag = "2")]
    pub state: String,
}

/// Requests the removal of a node.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct NodeRemove {
    /// Its id.
    #[prost(uint32, tag = "1")]
    pub node: u32,
}

/// Requests the placement of the control group.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct ManagersSet {
    /// The ids of the nodes: 1, 3 or 5.
    #[prost(uint32, repeated, tag = "1")]
    pub nodes: Vec<u32>,
}

/// Requests the list of a keyspace's partitions.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct PartitionList {
    /// Its name.
    #[prost(string, tag = "1")]
    pub keyspace: String,
    /// The first partition of the reply, which has at most [`PARTITIONS_LISTED_MAX`].
    #[prost(uint32, tag = "2")]
    pub first: u32,
}

/// Requests the move of a partition.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct PartitionMove {
    /// The keyspace's name.
    #[prost(string, tag = "1")]
    pub keyspace: String,
    /// The partition in it.
    #[prost(uint32, tag = "2")]
    pub partition: u32,
    /// The target node; unset: the cluster chooses.
    #[prost(uint32, optional, tag = "3")]
    pub node: Option<u32>,
    /// The target instance of this node; unset: the one with the fewest replicas.
    #[prost(uint32, optional, tag = "4")]
    pub instance: Option<u32>,
}

/// Requests that a partition continue without members that will not return. The operator accepts the loss.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct PartitionRecover {
    /// The keyspace's name.
    #[prost(string, tag = "1")]
    pub keyspace: String,
    /// The partition in it.
    #[prost(uint32, tag = "2")]
    pub partition: u32,
    /// Set if no member is missing, and the only in-sync copy is corrupt. `true`: continue with the intact part of that copy; `false`: with the
    /// most complete of the other copies that are up.
    #[prost(bool, optional, tag = "3")]
    pub keep_damaged: Option<bool>,
}

/// Maximum number of partitions in one reply.
pub const PARTITIONS_LISTED_MAX: usize = 1024;

/// A manager's reply to a control request.
#[derive(Clone, PartialEq, Message)]
pub struct AdminAnswer {
    /// The reply; `None` if it comes from a newer program.
    #[prost(oneof = "AdminReply", tags = "1, 2, 3, 4, 5, 6, 20")]
    pub answer: Option<AdminReply>,
    /// The epoch of this manager's map at the time of the reply, which includes the change that was made. 0: an older program.
    #[prost(uint64, tag = "21")]
    pub map_epoch: u64,
}

/// See [`AdminAnswer`].
#[derive(Clone, PartialEq, Oneof)]
pub enum AdminReply {
    /// The request was not done, or not by all, with the reason.
    #[prost(message, tag = "1")]
    Refused(AdminRefusal),
    /// The status of the cluster.
    #[prost(message, tag = "2", boxed)]
    Status(Box<Status>),
    /// The keyspace as it is now, or as it was before it was dropped. The instances have applied the change.
    #[prost(message, tag = "3", boxed)]
    Keyspace(Box<KeyspaceStatus>),
    /// The change is in the map of this epoch.
    #[prost(message, tag = "4")]
    Done(AdminDone),
    /// The replicas of partitions.
    #[prost(message, tag = "5")]
    Partitions(Partitions),
    /// The watches of this node.
    #[prost(message, tag = "6")]
    Watches(Watches),
    /// The tokens.
    #[prost(message, tag = "20")]
    Tokens(Tokens),
}

/// The request was done.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct AdminDone {
    /// The epoch of the map that includes the change.
    #[prost(uint64, tag = "1")]
    pub map_epoch: u64,
    /// For a partition move: the target instance.
    #[prost(uint64, tag = "2")]
    pub number: u64,
}

/// The replicas of partitions.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Partitions {
    /// The partitions, from the requested one on.
    #[prost(message, repeated, tag = "1")]
    pub partitions: Vec<PartitionStatus>,
    /// The number of partitions of the keyspace.
    #[prost(uint32, tag = "2")]
    pub count: u32,
    /// Whether this node knows which partitions operators have pinned: nodes of the control group do.
    #[prost(bool, tag = "3")]
    pub pins_known: bool,
}

/// A partition.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct PartitionStatus {
    /// Its number.
    #[prost(uint32, tag = "1")]
    pub partition: u32,
    /// The epoch of its group.
    #[prost(uint64, tag = "2")]
    pub epoch: u64,
    /// The primary's instance, which orders writes and answers reads.
    #[prost(uint32, tag = "3")]
    pub primary: u32,
    /// The other replicas that store every acknowledged write.
    #[prost(uint32, repeated, tag = "4")]
    pub in_sync: Vec<u32>,
    /// The followers.
    #[prost(uint32, repeated, tag = "5")]
    pub followers: Vec<u32>,
    /// `settled`, `admitting` (a move is in progress) or `recovering` (no replica serves the partition).
    #[prost(string, tag = "6")]
    pub state: String,
    /// No replica serves the partition until a node that is down returns or an operator accepts the loss.
    #[prost(bool, tag = "7")]
    pub lost: bool,
    /// The members whose node is down.
    #[prost(uint32, repeated, tag = "8")]
    pub down: Vec<u32>,
    /// The instance to which an operator has pinned it, until it is released.
    #[prost(uint32, optional, tag = "9")]
    pub pinned: Option<u32>,
}

/// The status of the cluster.
#[derive(Clone, PartialEq, Message)]
pub struct Status {
    /// Epoch of the map that this describes.
    #[prost(uint64, tag = "1")]
    pub map_epoch: u64,
    /// The cluster's id: 16 bytes.
    #[prost(bytes = "vec", tag = "2")]
    pub cluster: Vec<u8>,
    /// The nodes, by id.
    #[prost(message, repeated, tag = "3")]
    pub nodes: Vec<NodeStatus>,
    /// The keyspaces, by id.
    #[prost(message, repeated, tag = "4")]
    pub keyspaces: Vec<KeyspaceStatus>,
    /// The replica groups, over all keyspaces.
    #[prost(message, optional, tag = "5")]
    pub groups: Option<GroupsStatus>,
    /// The node that reports this, and the age of its view; `None` from programs that do not report it.
    #[prost(message, optional, tag = "6")]
    pub view: Option<NodeView>,
    /// The descriptors of the nodes that report this; none from programs that do not report them.
    #[prost(message, repeated, tag = "7")]
    pub descriptors: Vec<DescriptorStatus>,
}

/// Numbers of replica groups by state.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct GroupsStatus {
    /// All replica groups.
    #[prost(uint32, tag = "1")]
    pub groups: u32,
    /// Groups with fewer in-sync copies than a write needs: writes wait.
    #[prost(uint32, tag = "2")]
    pub below_min_in_sync: u32,
    /// Groups with fewer or more copies than configured.
    #[prost(uint32, tag = "3")]
    pub rebuilding: u32,
    /// Groups with a copy that is being moved.
    #[prost(uint32, tag = "4")]
    pub moving: u32,
    /// Groups without service: their in-sync replicas have restarted, and the control group is choosing a log to continue with.
    #[prost(uint32, tag = "5")]
    pub recovering: u32,
    /// Groups whose primary is down without a replacement.
    #[prost(uint32, tag = "6")]
    pub down: u32,
    /// Groups without service until a node that is down returns or an operator accepts the loss.
    #[prost(uint32, tag = "7")]
    pub lost: u32,
}

/// A node.
#[derive(Clone, PartialEq, Message)]
pub struct NodeStatus {
    /// Its id.
    #[prost(uint32, tag = "1")]
    pub id: u32,
    /// `up`, `draining` or `down`; `silent` if the map says `up` or `draining` but the node does not answer the node that reports this.
    #[prost(string, tag = "2")]
    pub state: String,
    /// The process id on its machine; 0: not known.
    #[prost(uint32, tag = "3")]
    pub pid: u32,
    /// The address of its manager.
    #[prost(string, tag = "4")]
    pub manager: String,
    /// Its instances, by id.
    #[prost(message, repeated, tag = "5")]
    pub instances: Vec<InstanceStatus>,
    /// Version of the program.
    #[prost(string, tag = "6")]
    pub version: String,
    /// Start of the process, in milliseconds since 1970.
    #[prost(uint64, tag = "7")]
    pub started_ms: u64,
    /// Troubles for the operator: corruption, failed syncs, a disk for tests.
    #[prost(string, repeated, tag = "8")]
    pub troubles: Vec<String>,
    /// Number of groups of which it has the primary.
    #[prost(uint32, tag = "9")]
    pub primaries: u32,
    /// Number of groups of which it has an in-sync replica.
    #[prost(uint32, tag = "10")]
    pub in_sync: u32,
    /// Number of groups of which it has a follower.
    #[prost(uint32, tag = "11")]
    pub following: u32,
    /// Its manager is, or will be, a member of the control group.
    #[prost(bool, tag = "12")]
    pub in_control: bool,
    /// Only for the node that reports this: partitions without service because their only in-sync copy is here and corrupt.
    #[prost(message, repeated, tag = "13")]
    pub damaged: Vec<DamagedPartition>,
    /// Only for the node that reports this: bytes that are free on the disk of its data folder.
    #[prost(uint64, tag = "14")]
    pub disk_free_bytes: u64,
    /// Size of that disk in bytes; 0: not known, or there is no data folder.
    #[prost(uint64, tag = "15")]
    pub disk_total_bytes: u64,
}

/// An instance of a node.
#[derive(Clone, PartialEq, Message)]
pub struct InstanceStatus {
    /// Its id.
    #[prost(uint32, tag = "1")]
    pub id: u32,
    /// Its address.
    #[prost(string, tag = "2")]
    pub addr: String,
    /// Number of its partitions.
    #[prost(uint32, tag = "3")]
    pub partitions: u32,
    /// Number of records and older versions in their indexes.
    #[prost(uint64, tag = "4")]
    pub entries: u64,
    /// Size of their logs in bytes.
    #[prost(uint64, tag = "5")]
    pub log_bytes: u64,
    /// Bytes of their logs in memory.
    #[prost(uint64, tag = "6")]
    pub resident_bytes: u64,
    /// Number of open connections.
    #[prost(uint32, tag = "7")]
    pub connections: u32,
}

/// A keyspace.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct KeyspaceStatus {
    /// Its id.
    #[prost(uint32, tag = "1")]
    pub id: u32,
    /// Its name.
    #[prost(string, tag = "2")]
    pub name: String,
    /// Number of partitions.
    #[prost(uint32, tag = "3")]
    pub partitions: u32,
    /// Name of the hash function, or `ordered`.
    #[prost(string, tag = "4")]
    pub hash: String,
    /// Total number of copies.
    #[prost(uint32, tag = "5")]
    pub replicas: u32,
    /// Number of copies that must store a write before it is acknowledged.
    #[prost(uint32, tag = "6")]
    pub min_in_sync: u32,
    /// `memory`, `interval:100ms` (any number) or `sync`.
    #[prost(string, tag = "7")]
    pub durability: String,
    /// Size of a blob's chunks in bytes.
    #[prost(uint32, tag = "8")]
    pub chunk_bytes: u32,
    /// Number of partitions with fewer in-sync copies than a write needs. Set only in a status, like the next two fields.
    #[prost(uint32, tag = "9")]
    pub below_min_in_sync: u32,
    /// Number of partitions with fewer or more copies than configured.
    #[prost(uint32, tag = "10")]
    pub rebuilding: u32,
    /// Number of partitions without service until a node that is down returns.
    #[prost(uint32, tag = "11")]
    pub lost: u32,
    /// Whether the keyspace is being dropped: it accepts no new work.
    #[prost(bool, tag = "12")]
    pub dropping: bool,
    /// Number of records in the partitions whose primary is on the node that reports this; the sum over all nodes is that of the keyspace.
    #[prost(uint64, tag = "13")]
    pub records: u64,
    /// Size in bytes of the logs of all copies on the node that reports this.
    #[prost(uint64, tag = "14")]
    pub log_bytes: u64,
    /// The keys at which the partitions of an ordered keyspace begin, after the first one. A status with many of them leaves them out.
    #[prost(bytes = "vec", repeated, tag = "15")]
    pub separators: Vec<Vec<u8>>,
    /// The changes that are kept for readers that watch the keyspace; unset: none are.
    #[prost(message, optional, tag = "16")]
    pub history: Option<KeyspaceHistory>,
}

impl AdminRequest {
    /// A request with this content.
    #[must_use]
    pub fn of(query: AdminQuestion) -> AdminRequest {
        AdminRequest { query: Some(query) }
    }

    /// The bytes of the `admin` frame's body.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        self.encode_to_vec()
    }

    /// Decodes the output of [`AdminRequest::to_bytes`]; fields that this program does not know are ignored.
    ///
    /// # Errors
    /// The bytes exceed the limit, or are not a valid message.
    pub fn from_bytes(bytes: &[u8]) -> Result<AdminRequest, Failure<'static>> {
        read(bytes)
    }
}

impl AdminAnswer {
    /// A reply with this content.
    #[must_use]
    pub fn of(answer: AdminReply) -> AdminAnswer {
        AdminAnswer { answer: Some(answer), map_epoch: 0 }
    }

    /// A reply that refuses the request.
    #[must_use]
    pub fn refused(code: &str, reason: impl Into<String>) -> AdminAnswer {
        AdminAnswer::of(AdminReply::Refused(AdminRefusal {
            code: code.to_owned(),
            reason: reason.into(),
            keyspace: 0,
        }))
    }

    /// The bytes of the `admin_answer` frame's body.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        self.encode_to_vec()
    }

    /// Decodes the output of [`AdminAnswer::to_bytes`]; fields that this program does not know are ignored.
    ///
    /// # Errors
    /// The bytes exceed the limit, or are not a valid message.
    pub fn from_bytes(bytes: &[u8]) -> Result<AdminAnswer, Failure<'static>> {
        read(bytes)
    }
}

fn read<M: Message + Default>(bytes: &[u8]) -> Result<M, Failure<'static>> {
    if bytes.len() > ADMIN_BYTES_MAX {
        return Err(Failure::FrameTooLong { length: bytes.len() as u64, limit: ADMIN_BYTES_MAX as u32 });
    }
    M::decode(bytes).map_err(|_| BadRequestReason::NotAdmin.into())
}
