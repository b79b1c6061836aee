//! Control requests and their answers: rare, so they are Protocol Buffers, inside the frames `admin` and
//! `admin_answer`.
//!
//! `docs/protocols/admin.proto` is the specification; these types follow it field by field. Names that other crates
//! parse (durability, hash, states) travel as the text that people read. An unset name or number of a request means:
//! the default, or no change.

mod damaged;
mod refused;
#[cfg(test)]
mod tests;
mod tokens;
mod view;

use prost::{Message, Oneof};

pub use self::damaged::DamagedPartition;
pub use self::refused::{
    AdminRefusal, REFUSED_CLOSING, REFUSED_DECIDED, REFUSED_EXISTS, REFUSED_FAILED, REFUSED_FORBIDDEN,
    REFUSED_REQUEST, REFUSED_SETTING, REFUSED_UNKNOWN, REFUSED_UNKNOWN_NODE, REFUSED_UNKNOWN_PARTITION,
    REFUSED_UNKNOWN_TOKEN,
};
pub use self::tokens::{TokenGrant, TokenLend, TokenList, TokenPut, TokenRevoke, TokenStatus, Tokens};
pub use self::view::NodeView;

use crate::error::{Failure, What};
use crate::limits::ADMIN_BYTES_MAX;

/// What a manager is asked.
#[derive(Clone, PartialEq, Message)]
pub struct AdminRequest {
    /// One of these; none from a newer program.
    #[prost(oneof = "AdminQuestion", tags = "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 20, 21, 22, 23, 30")]
    pub ask: Option<AdminQuestion>,
}

/// See [`AdminRequest`].
#[derive(Clone, PartialEq, Oneof)]
pub enum AdminQuestion {
    /// How is the cluster?
    #[prost(message, tag = "1")]
    Status(StatusGet),
    /// Make a keyspace.
    #[prost(message, tag = "2")]
    CreateKeyspace(KeyspaceSettings),
    /// Change a keyspace that is in use.
    #[prost(message, tag = "3")]
    AlterKeyspace(KeyspaceSettings),
    /// Remove a keyspace and all that is in it.
    #[prost(message, tag = "4")]
    DropKeyspace(KeyspaceDrop),
    /// Treat a node so from now on.
    #[prost(message, tag = "5")]
    SetNodeState(NodeStateSet),
    /// Have a node that holds nothing leave the cluster for ever.
    #[prost(message, tag = "6")]
    RemoveNode(NodeRemove),
    /// Who holds the partitions of a keyspace?
    #[prost(message, tag = "7")]
    ListPartitions(PartitionList),
    /// Have a partition move, or be placed as the cluster finds best again.
    #[prost(message, tag = "8")]
    MovePartition(PartitionMove),
    /// Go on without members of a partition that will not return.
    #[prost(message, tag = "9")]
    RecoverPartition(PartitionRecover),
    /// The operator knows of what is missing: it is told no more.
    #[prost(message, tag = "10")]
    AcknowledgeLosses(LossesAcknowledge),
    /// Make a token good.
    #[prost(message, tag = "20")]
    PutToken(TokenPut),
    /// Make a token good for nothing.
    #[prost(message, tag = "21")]
    RevokeToken(TokenRevoke),
    /// Which tokens are there?
    #[prost(message, tag = "22")]
    ListTokens(TokenList),
    /// Make a token good for a time.
    #[prost(message, tag = "23")]
    LendToken(TokenLend),
    /// Have the control group sit on these nodes.
    #[prost(message, tag = "30")]
    SetManagers(ManagersSet),
}

/// How is the cluster?
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct StatusGet {}

/// What a keyspace is to be. Unset: the default when it is made, as it is when it is altered.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct KeyspaceSettings {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Slices of the hash space; a power of two. Fixed once made.
    #[prost(uint32, optional, tag = "2")]
    pub partitions: Option<u32>,
    /// Name of the hash function. Fixed once made.
    #[prost(string, optional, tag = "3")]
    pub hash: Option<String>,
    /// Copies in all.
    #[prost(uint32, optional, tag = "4")]
    pub replicas: Option<u32>,
    /// Copies that must hold a write before it is acknowledged.
    #[prost(uint32, optional, tag = "5")]
    pub min_in_sync: Option<u32>,
    /// `memory`, `interval`, `interval:50ms` or `sync`.
    #[prost(string, optional, tag = "6")]
    pub durability: Option<String>,
    /// Bytes of a blob's chunks; a power of two. Fixed once made.
    #[prost(uint32, optional, tag = "7")]
    pub chunk_bytes: Option<u32>,
}

/// Remove a keyspace.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct KeyspaceDrop {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Whatever is under way there. Transactions over it and others may be undone in the others, though they were acknowledged.
    #[prost(bool, tag = "2")]
    pub at_once: bool,
    /// Only the keyspace of this id, which another of the same name may have followed; 0: whichever has the name.
    #[prost(uint32, tag = "3")]
    pub id: u32,
    /// How long the manager waits for its end before it answers that it is under way: never longer than 2 s, which it is unless
    /// this says otherwise.
    #[prost(uint32, optional, tag = "4")]
    pub wait_ms: Option<u32>,
}

/// What is missing in a keyspace is known.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct LossesAcknowledge {
    /// The keyspace's name; empty: all.
    #[prost(string, tag = "1")]
    pub keyspace: String,
    /// What went missing by the map of this epoch, which the operator has seen; what did so later is told on.
    #[prost(uint64, tag = "2")]
    pub map_epoch: u64,
}

/// Treat a node so.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct NodeStateSet {
    /// Its id.
    #[prost(uint32, tag = "1")]
    pub node: u32,
    /// `draining`: what it holds moves away; or `up`: after all not.
    #[prost(string, tag = "2")]
    pub state: String,
}

/// Have a node leave.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct NodeRemove {
    /// Its id.
    #[prost(uint32, tag = "1")]
    pub node: u32,
}

/// Have the control group sit on these nodes.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct ManagersSet {
    /// Their ids: 1, 3 or 5.
    #[prost(uint32, repeated, tag = "1")]
    pub nodes: Vec<u32>,
}

/// Who holds the partitions of a keyspace?
#[derive(Clone, PartialEq, Eq, Message)]
pub struct PartitionList {
    /// Its name.
    #[prost(string, tag = "1")]
    pub keyspace: String,
    /// The first partition of the answer, which has at most [`PARTITIONS_LISTED_MAX`].
    #[prost(uint32, tag = "2")]
    pub first: u32,
}

/// Have a partition move.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct PartitionMove {
    /// The keyspace's name.
    #[prost(string, tag = "1")]
    pub keyspace: String,
    /// The partition in it.
    #[prost(uint32, tag = "2")]
    pub partition: u32,
    /// The node that it is to be on; unset: wherever the cluster finds best.
    #[prost(uint32, optional, tag = "3")]
    pub node: Option<u32>,
    /// Which of its instances; unset: that which holds least.
    #[prost(uint32, optional, tag = "4")]
    pub instance: Option<u32>,
}

/// Go on without members of a partition that will not return, by the operator's word.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct PartitionRecover {
    /// The keyspace's name.
    #[prost(string, tag = "1")]
    pub keyspace: String,
    /// The partition in it.
    #[prost(uint32, tag = "2")]
    pub partition: u32,
    /// Set if nobody is missing, and its only copy that counts is damaged: whether to go on with what is whole of that copy, or else
    /// with the most complete of the others that are up.
    #[prost(bool, optional, tag = "3")]
    pub keep_damaged: Option<bool>,
}

/// Partitions in one answer.
pub const PARTITIONS_LISTED_MAX: usize = 1024;

/// What a manager answers.
#[derive(Clone, PartialEq, Message)]
pub struct AdminAnswer {
    /// One of these; none from a newer program.
    #[prost(oneof = "AdminReply", tags = "1, 2, 3, 4, 5, 20")]
    pub answer: Option<AdminReply>,
    /// The epoch of this manager's map when it answered: what it has done is in that one. 0: an older program.
    #[prost(uint64, tag = "21")]
    pub map_epoch: u64,
}

/// See [`AdminAnswer`].
#[derive(Clone, PartialEq, Oneof)]
pub enum AdminReply {
    /// It was not done, or not by all, and why.
    #[prost(message, tag = "1")]
    Refused(AdminRefusal),
    /// How the cluster is.
    #[prost(message, tag = "2", boxed)]
    Status(Box<Status>),
    /// The keyspace as it is now, or was before it was dropped. The instances have taken the change up.
    #[prost(message, tag = "3")]
    Keyspace(KeyspaceStatus),
    /// It is done, in a map of this epoch.
    #[prost(message, tag = "4")]
    Done(AdminDone),
    /// Who holds partitions.
    #[prost(message, tag = "5")]
    Partitions(Partitions),
    /// The tokens.
    #[prost(message, tag = "20")]
    Tokens(Tokens),
}

/// It is done.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct AdminDone {
    /// The epoch of the map in which it is.
    #[prost(uint64, tag = "1")]
    pub map_epoch: u64,
    /// Of a partition that is to move: the instance that it goes to.
    #[prost(uint64, tag = "2")]
    pub number: u64,
}

/// Who holds partitions.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Partitions {
    /// From the one asked for on.
    #[prost(message, repeated, tag = "1")]
    pub partitions: Vec<PartitionStatus>,
    /// How many the keyspace has.
    #[prost(uint32, tag = "2")]
    pub count: u32,
    /// Whether this node knows where operators want partitions: one of the control group does.
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
    /// The instance that orders writes and answers reads.
    #[prost(uint32, tag = "3")]
    pub primary: u32,
    /// The others that hold every acknowledged write.
    #[prost(uint32, repeated, tag = "4")]
    pub in_sync: Vec<u32>,
    /// Those that follow behind.
    #[prost(uint32, repeated, tag = "5")]
    pub followers: Vec<u32>,
    /// `settled`, `admitting` (it moves) or `recovering` (nobody serves it).
    #[prost(string, tag = "6")]
    pub state: String,
    /// Nobody serves it, and nobody will before a node that is down returns or an operator gives it up.
    #[prost(bool, tag = "7")]
    pub lost: bool,
    /// Of its members, those whose node is down.
    #[prost(uint32, repeated, tag = "8")]
    pub down: Vec<u32>,
    /// The instance where an operator wants it, until it is released.
    #[prost(uint32, optional, tag = "9")]
    pub pinned: Option<u32>,
}

/// How the cluster is.
#[derive(Clone, PartialEq, Message)]
pub struct Status {
    /// Epoch of the map that this describes.
    #[prost(uint64, tag = "1")]
    pub map_epoch: u64,
    /// The cluster's name: 16 bytes.
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
    /// Whose view this is, and how old; `None` from programs that do not tell it.
    #[prost(message, optional, tag = "6")]
    pub view: Option<NodeView>,
}

/// How replica groups stand, in numbers.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct GroupsStatus {
    /// All.
    #[prost(uint32, tag = "1")]
    pub groups: u32,
    /// Of these fewer copies are in sync than must hold a write: writes wait.
    #[prost(uint32, tag = "2")]
    pub short: u32,
    /// Of these there are fewer copies, or more, than there are to be.
    #[prost(uint32, tag = "3")]
    pub rebuilding: u32,
    /// Of these one copy moves.
    #[prost(uint32, tag = "4")]
    pub moving: u32,
    /// Nobody serves these: those in sync have started again, and a log to go on with is being chosen.
    #[prost(uint32, tag = "5")]
    pub recovering: u32,
    /// The primary of these is down, and nobody can take over.
    #[prost(uint32, tag = "6")]
    pub down: u32,
    /// Of these nobody serves, and nobody will before a node that is down returns or an operator gives it up.
    #[prost(uint32, tag = "7")]
    pub lost: u32,
}

/// A node.
#[derive(Clone, PartialEq, Message)]
pub struct NodeStatus {
    /// Its id.
    #[prost(uint32, tag = "1")]
    pub id: u32,
    /// `up`, `draining` or `down`; `silent` where the map has it as `up` or `draining` and it does not answer the node that was asked.
    #[prost(string, tag = "2")]
    pub state: String,
    /// The process on its machine; 0: not known.
    #[prost(uint32, tag = "3")]
    pub pid: u32,
    /// Where its manager listens.
    #[prost(string, tag = "4")]
    pub manager: String,
    /// Its instances, by id.
    #[prost(message, repeated, tag = "5")]
    pub instances: Vec<InstanceStatus>,
    /// Version of the program.
    #[prost(string, tag = "6")]
    pub version: String,
    /// Since when the process runs, in milliseconds since 1970.
    #[prost(uint64, tag = "7")]
    pub started_ms: u64,
    /// What the operator should know: damage found, failed syncs, a disk for tests.
    #[prost(string, repeated, tag = "8")]
    pub troubles: Vec<String>,
    /// Groups of which it has the primary.
    #[prost(uint32, tag = "9")]
    pub primaries: u32,
    /// Groups of which it has an in-sync replica.
    #[prost(uint32, tag = "10")]
    pub in_sync: u32,
    /// Groups that it follows.
    #[prost(uint32, tag = "11")]
    pub following: u32,
    /// Its manager sits in the control group, or is to.
    #[prost(bool, tag = "12")]
    pub in_control: bool,
    /// Of the node that is asked: partitions whose only copy that counts is here and damaged, so that nobody serves them.
    #[prost(message, repeated, tag = "13")]
    pub damaged: Vec<DamagedPartition>,
}

/// An instance of a node.
#[derive(Clone, PartialEq, Message)]
pub struct InstanceStatus {
    /// Its id.
    #[prost(uint32, tag = "1")]
    pub id: u32,
    /// Where it listens.
    #[prost(string, tag = "2")]
    pub addr: String,
    /// Partitions that it holds.
    #[prost(uint32, tag = "3")]
    pub partitions: u32,
    /// Records and older versions in their indexes.
    #[prost(uint64, tag = "4")]
    pub entries: u64,
    /// Bytes of their logs.
    #[prost(uint64, tag = "5")]
    pub log_bytes: u64,
    /// Bytes of their logs held in memory.
    #[prost(uint64, tag = "6")]
    pub resident_bytes: u64,
    /// Connections open now.
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
    /// Slices of the hash space.
    #[prost(uint32, tag = "3")]
    pub partitions: u32,
    /// Name of the hash function.
    #[prost(string, tag = "4")]
    pub hash: String,
    /// Copies in all.
    #[prost(uint32, tag = "5")]
    pub replicas: u32,
    /// Copies that must hold a write before it is acknowledged.
    #[prost(uint32, tag = "6")]
    pub min_in_sync: u32,
    /// `memory`, `interval:100ms` (any number) or `sync`.
    #[prost(string, tag = "7")]
    pub durability: String,
    /// Bytes of a blob's chunks.
    #[prost(uint32, tag = "8")]
    pub chunk_bytes: u32,
    /// Partitions of which fewer copies are in sync than must hold a write. In a status only, as what follows.
    #[prost(uint32, tag = "9")]
    pub short: u32,
    /// Partitions of which there are fewer or more copies than there are to be.
    #[prost(uint32, tag = "10")]
    pub rebuilding: u32,
    /// Partitions that nobody serves, nor will before a node that is down returns.
    #[prost(uint32, tag = "11")]
    pub lost: u32,
    /// Whether it is being dropped: nothing begins in it any more.
    #[prost(bool, tag = "12")]
    pub closing: bool,
}

impl AdminRequest {
    /// A request that asks this.
    #[must_use]
    pub fn of(ask: AdminQuestion) -> AdminRequest {
        AdminRequest { ask: Some(ask) }
    }

    /// The bytes of the `admin` frame's body.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        self.encode_to_vec()
    }

    /// Reads what [`AdminRequest::to_bytes`] wrote; fields that this program does not know are passed over.
    ///
    /// # Errors
    /// The bytes are too many or no such message.
    pub fn from_bytes(bytes: &[u8]) -> Result<AdminRequest, Failure<'static>> {
        read(bytes)
    }
}

impl AdminAnswer {
    /// An answer that says this.
    #[must_use]
    pub fn of(answer: AdminReply) -> AdminAnswer {
        AdminAnswer { answer: Some(answer), map_epoch: 0 }
    }

    /// An answer that says why not.
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

    /// Reads what [`AdminAnswer::to_bytes`] wrote; fields that this program does not know are passed over.
    ///
    /// # Errors
    /// The bytes are too many or no such message.
    pub fn from_bytes(bytes: &[u8]) -> Result<AdminAnswer, Failure<'static>> {
        read(bytes)
    }
}

fn read<M: Message + Default>(bytes: &[u8]) -> Result<M, Failure<'static>> {
    if bytes.len() > ADMIN_BYTES_MAX {
        return Err(Failure::FrameTooLong { length: bytes.len() as u64, limit: ADMIN_BYTES_MAX as u32 });
    }
    M::decode(bytes).map_err(|_| What::NotAdmin.into())
}
