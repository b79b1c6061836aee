//! Commands to the control group about the map, and their outcomes.
//!
//! A command is decided on some state of the map and applied to a later one. Each command that depends on
//! that state names it: the epoch of a partition, the incarnation of a node. If that has changed, the command
//! is refused and nothing is done. `docs/protocols/control.md` has the table of the commands that each node
//! may send.

use std::fmt;

use zerohop_placement::{Address, KeyspaceConfig, NodeState, PendingSplit, TokenEntry};
use zerohop_wire::ids::{
    Incarnation, InstanceId, KeyspaceId, LogIndex, MapEpoch, NodeId, PartitionEpoch, PartitionId,
};

mod codec;
mod entry;
pub(crate) mod proto;
#[cfg(test)]
pub(crate) mod tests;

pub use codec::CommandError;
pub(crate) use codec::{read_managers, write_managers};
pub use entry::Entry;

/// A manager as a member of the control group. A manager that lost its disk is a new member: its number is
/// drawn when its disk is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ManagerId(pub u64);

impl fmt::Display for ManagerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// A member of the control group, and its address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManagerInfo {
    /// Its number; not zero.
    pub id: ManagerId,
    /// Its address.
    pub addr: Address,
}

/// Identifies a request, so that a retry is recognized.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId {
    /// The requester: a nonce drawn by its process.
    pub origin: u64,
    /// The number of the request at that requester.
    pub number: u64,
}

/// A command with the fields that make it happen at most once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandRequest {
    /// Its id. A retry has the same.
    pub id: RequestId,
    /// The mark that the requester knew when it first sent this ([`CommandOutcome::applied_count`]; zero if it knew
    /// none). A request whose outcome may have been forgotten since is refused with
    /// [`CommandRefusal::TooOld`].
    pub after: u64,
    /// The command.
    pub command: ControlCommand,
}

/// A split of a region. The result has the number of the left child; that of the right one follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegionSplit {
    /// The keyspace.
    pub keyspace: KeyspaceId,
    /// The region.
    pub region: PartitionId,
    /// The lowest key of the right child.
    pub separator: Box<[u8]>,
    /// The left child's share of the points, of 256.
    pub share: u8,
}

/// A command of the control group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ControlCommand {
    /// A node joins: a new one, one that has restarted, or one that was considered dead.
    Join(JoinNode),
    /// Sets the state of a node. `Down` and `Up` are verdicts of the control group; `Draining`, and `Up`
    /// after it, are the operator's.
    SetNodeState {
        /// The node.
        node: NodeId,
        /// The start of it that is meant.
        incarnation: Incarnation,
        /// The new state.
        state: NodeState,
    },
    /// Removes a node without copies from the map, permanently.
    RemoveNode(NodeId),
    /// Creates a keyspace; the control group places its partitions.
    CreateKeyspace(KeyspaceConfig),
    /// Changes a keyspace that is in use.
    AlterKeyspace(KeyspaceId, KeyspaceConfig),
    /// Removes a keyspace and everything in it, even with work pending there. Transactions over it and other
    /// keyspaces may be undone in the others, although they were acknowledged.
    DropKeyspace(KeyspaceId),
    /// Stops new work in a keyspace, and removes it once no work is pending there.
    BeginDropKeyspace(KeyspaceId),
    /// An instance has no pending work in the partitions of a keyspace being dropped of which it is primary.
    Drained(KeyspaceDrained),
    /// Splits partitions once their primaries have reported that they are ready ([`ControlCommand::Drained`]).
    BeginSplit {
        /// The keyspace.
        keyspace: KeyspaceId,
        /// The partitions.
        split: PendingSplit,
    },
    /// Gives up the pending split of a keyspace, which has waited for too long. Proposed by the leader, by its clock.
    CancelSplit(KeyspaceId),
    /// Splits every partition of a keyspace in two by the next bit of the hashes.
    SplitKeyspace(KeyspaceId),
    /// Splits a region of an ordered keyspace in two.
    SplitRegion(RegionSplit),
    /// Changes the group of a partition, if it is still of this epoch.
    Regroup(Regroup),
    /// Reports the logs of members of recovering groups.
    ReportLogs(LogIndexReport),
    /// The operator declares that members that are not up will not return: the group continues with the best
    /// available log, even a follower's, and loses what only the others had.
    Recover {
        /// The keyspace.
        keyspace: KeyspaceId,
        /// The partition in it.
        partition: PartitionId,
        /// No member is missing: the only in-sync copy is damaged, as its instance reports.
        damaged: Option<RecoverySource>,
    },
    /// The operator acknowledges the losses of a keyspace, or of all keyspaces (none): they are no longer
    /// reported.
    AcknowledgeLosses {
        /// The keyspace.
        keyspace: KeyspaceId,
        /// Losses up to the map of this epoch, which the operator has seen.
        until: MapEpoch,
    },
    /// An operator pins a partition to a place, or releases it.
    Move(MovePartition),
    /// Adds a token with these permissions, or replaces it.
    PutToken(TokenEntry),
    /// Removes a token.
    RemoveToken(u64),
    /// Expires a token, if it is still to expire at that time. Proposed by the leader, by its clock.
    ExpireToken {
        /// Its number.
        token: u64,
        /// The time at which it was to expire, in milliseconds since 1970.
        at_ms: u64,
    },
    /// The new members of the control group, at most [`crate::limits::MANAGERS_MAX`]; the leader gets there
    /// step by step.
    SetManagers(Vec<ManagerInfo>),
}

/// See [`ControlCommand::Drained`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyspaceDrained {
    /// The keyspace.
    pub keyspace: KeyspaceId,
    /// The instance: it has no pending work in the partitions of which it is the primary.
    pub instance: InstanceId,
    /// According to the map of this epoch.
    pub map: MapEpoch,
}

/// How a group continues whose only in-sync copy is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecoverySource {
    /// With the readable part of that copy.
    Damaged,
    /// With the most complete copy of the other members that are up; with the damaged copy if they have
    /// nothing.
    Follower,
}

/// See [`ControlCommand::Move`]. The plan moves the partition to the node, and leaves it there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MovePartition {
    /// The keyspace.
    pub keyspace: KeyspaceId,
    /// The partition in it.
    pub partition: PartitionId,
    /// The node; none: the plan chooses the place, as for partitions that are not pinned.
    pub to: Option<NodeId>,
    /// Its instance; none: the instance with the fewest partitions.
    pub instance: Option<InstanceId>,
}

/// See [`ControlCommand::Join`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinNode {
    /// The number of the node, as stored in its folder; a new node has no number yet.
    pub node: Option<NodeId>,
    /// The start that this start replaces, as the node has read in the map: of two starts of one node, the
    /// one that joins last must know of the other. Equal to `incarnation` if the node only returns.
    pub replaces: Incarnation,
    /// The nonce of its process's start.
    pub incarnation: Incarnation,
    /// The address of its manager.
    pub manager: Address,
    /// The addresses of its instances.
    pub instances: Vec<Address>,
    /// The node's failure domain: a rack, a power supply. Copies of a partition are placed in different
    /// domains.
    pub domain: u32,
    /// Its capacity, relative to others.
    pub capacity: u32,
    /// Whether all logs that it had are intact, as recovery found them.
    pub intact: bool,
    /// Whether the start that this replaces was shut down cleanly: everything that it had is on its disks,
    /// except for data in memory only.
    pub closed: bool,
}

/// See [`ControlCommand::Regroup`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Regroup {
    /// The keyspace.
    pub keyspace: KeyspaceId,
    /// The partition in it.
    pub partition: PartitionId,
    /// The epoch of the group on which this was decided.
    pub epoch: PartitionEpoch,
    /// The requester.
    pub by: RegroupOrigin,
    /// The change.
    pub step: GroupStep,
}

/// The requester of a change of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegroupOrigin {
    /// The leader of the control group itself.
    Control,
    /// An instance that considers itself the primary.
    Instance(InstanceId, Incarnation),
}

/// A change of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupStep {
    /// A follower has caught up and acknowledges from now on. Only the primary may request it.
    Admit(InstanceId),
    /// An in-sync replica does not answer, and becomes a follower; or the primary itself finds its log
    /// corrupt, and an in-sync replica that is up takes over. Only the primary may request it.
    Exclude(InstanceId),
    /// The same group under a higher epoch: all other requests on the present epoch are settled, done or not.
    /// Only the primary may request it.
    RaiseEpoch,
    /// Another instance starts to follow; the target of a move if `target`. Decided by the control group.
    AddFollower {
        /// The instance.
        instance: InstanceId,
        /// Whether it is to be admitted as soon as it has caught up.
        target: bool,
    },
    /// A follower leaves. Decided by the control group.
    RemoveFollower(InstanceId),
    /// An in-sync replica becomes primary, and the primary becomes an in-sync replica. Decided by the control
    /// group.
    Promote(InstanceId),
    /// An in-sync replica becomes a follower, as there are more than needed. Decided by the control group.
    Demote(InstanceId),
    /// An in-sync replica leaves, as there are more than needed. Decided by the control group.
    Leave(InstanceId),
}

/// Logs of a node whose groups are recovering.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogIndexReport {
    /// The node.
    pub node: NodeId,
    /// Its start.
    pub incarnation: Incarnation,
    /// The logs.
    pub logs: Vec<LogReport>,
}

/// A log of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogReport {
    /// The keyspace.
    pub keyspace: KeyspaceId,
    /// The partition in it.
    pub partition: PartitionId,
    /// The epoch of the recovering group that this answers.
    pub epoch: PartitionEpoch,
    /// The instance.
    pub instance: InstanceId,
    /// Where the log ends.
    pub end: LogEnd,
    /// Whether the log is intact, as recovery found it.
    pub intact: bool,
}

/// The position of a log's last entry. Of two logs the one with the greater end has everything that was
/// acknowledged, if either has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogEnd {
    /// The epoch of its last entry.
    pub epoch: u64,
    /// The index of its last entry.
    pub index: LogIndex,
}

/// The outcome of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandOutcome {
    /// The result, or why nothing was done.
    pub result: Result<CommandResult, CommandRefusal>,
    /// The number of commands applied: the mark for this requester's next requests.
    pub applied_count: u64,
}

/// The result of a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommandResult {
    /// The keyspace that was created, the node that joined, or the partition's new epoch.
    pub number: u64,
    /// The epoch of the map with the result.
    pub epoch: MapEpoch,
}

/// Why nothing was done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommandRefusal {
    /// The group has another epoch: the requester must decide again.
    StaleEpoch {
        /// That epoch.
        now: PartitionEpoch,
    },
    /// The node has restarted, or another start of it has joined.
    StaleIncarnation,
    /// Only the primary may request this.
    NotPrimary,
    /// Only the control group may request this.
    NotControl,
    /// Not an in-sync replica.
    NotInSync,
    /// Not a follower.
    NotFollower,
    /// It is a member already.
    Member,
    /// There are enough in-sync replicas, and it is not the target of a move.
    NotNeeded,
    /// The group would have fewer in-sync copies than the keyspace requires.
    TooFewInSync,
    /// The instance's node is down, or is draining.
    NotUp,
    /// The group is recovering.
    Recovering,
    /// The group serves, or will serve as soon as its primary is back; there is nothing to recover.
    NothingToRecover,
    /// The group is in the middle of a move.
    Moving,
    /// No such node.
    UnknownNode,
    /// No such instance.
    UnknownInstance,
    /// No such keyspace.
    UnknownKeyspace,
    /// No such partition.
    UnknownPartition,
    /// No node is up to place a copy on.
    NoNodes,
    /// No managers, too many, or one twice.
    Managers,
    /// The outcome is forgotten, or the command was never done.
    TooOld,
    /// The node's manager is a member of the control group.
    InControlGroup,
    /// The map would break a rule.
    Map(String),
}

impl fmt::Display for CommandRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::StaleEpoch { now } => {
                return write!(f, "the group has epoch {now} by now: decide again");
            }
            Self::Map(why) => why,
            Self::StaleIncarnation => "the node has started again since: read the map and decide again",
            Self::NotPrimary => "only the primary may ask for this",
            Self::NotControl => "only the control group itself decides this",
            Self::NotInSync => "the instance is not an in-sync replica of the partition",
            Self::NotFollower => "the instance is not a follower of the partition",
            Self::Member => "the instance is a member of the group already",
            Self::NotNeeded => {
                "there are enough in-sync replicas, and the follower is not the target of a move"
            }
            Self::TooFewInSync => "fewer copies would be in sync than the keyspace asks for",
            Self::NotUp => "the instance's node is down or leaves the cluster",
            Self::Recovering => "the group is recovering: wait for its members, or use `recover`",
            Self::NothingToRecover => {
                "the group has an in-sync replica that is up: there is nothing to recover"
            }
            Self::Moving => "the partition is being moved: wait for the end of it",
            Self::UnknownNode => "the map has no such node",
            Self::UnknownInstance => "the map has no such instance",
            Self::UnknownKeyspace => "the map has no such keyspace",
            Self::UnknownPartition => "the keyspace has no such partition",
            Self::NoNodes => "no node is up to store it",
            Self::Managers => "a control group has 1 to 5 managers, each once",
            Self::InControlGroup => {
                "the node's manager is a member of the control group: set other managers before it leaves"
            }
            Self::TooOld => "the request is too old to tell whether it was done: look at the map",
        })
    }
}

impl std::error::Error for CommandRefusal {}
