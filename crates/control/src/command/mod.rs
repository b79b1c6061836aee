//! What the control group is asked to do to the map, and what became of it.
//!
//! A command is decided on some state of the map and applied to a later one, so each that depends on what it was decided
//! on says so: the epoch of a partition, the incarnation of a node. If that has changed, it is refused and nothing is
//! done. `docs/protocols/control.md` has the table of who may ask what.

use std::fmt;

use zerohop_placement::{Address, KeyspaceConfig, NodeState, TokenEntry};
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

/// A manager as a member of the control group. A manager that lost its disk is a new member: its number is drawn when its
/// disk is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ManagerId(pub u64);

impl fmt::Display for ManagerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// A member of the control group, and where it listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManagerInfo {
    /// Its number; not zero.
    pub id: ManagerId,
    /// Where it listens.
    pub addr: Address,
}

/// Names a request, so that a retry is known for one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId {
    /// Who asks: a nonce drawn by its process.
    pub origin: u64,
    /// Which of its requests.
    pub number: u64,
}

/// A command with what makes it happen at most once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandRequest {
    /// Its name. A retry has the same.
    pub id: RequestId,
    /// The mark that the asker had heard of when it first sent this ([`CommandOutcome::mark`]; zero if of none). A request whose
    /// outcome may have been forgotten since is refused with [`CommandRefusal::TooOld`].
    pub after: u64,
    /// What to do.
    pub command: ControlCommand,
}

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ControlCommand {
    /// A node is here: a new one, one that has started again, or one that was taken for dead.
    Join(JoinNode),
    /// A node is to be treated so. `Down` and `Up` are control's own verdicts; `Draining`, and `Up` after it, are the
    /// operator's.
    SetNodeState {
        /// The node.
        node: NodeId,
        /// The start of it that is meant.
        incarnation: Incarnation,
        /// What it is now.
        state: NodeState,
    },
    /// A node that holds nothing leaves the map for ever.
    RemoveNode(NodeId),
    /// Make a keyspace; control places its partitions.
    CreateKeyspace(KeyspaceConfig),
    /// Change a keyspace that is in use.
    AlterKeyspace(KeyspaceId, KeyspaceConfig),
    /// Remove a keyspace and all that is in it, whatever is under way there: transactions over it and others may be undone in
    /// the others, though they were acknowledged.
    DropKeyspace(KeyspaceId),
    /// Have nothing begin in a keyspace any more, and remove it once nothing is under way there.
    CloseKeyspace(KeyspaceId),
    /// Nothing is under way in a keyspace that is being dropped, where an instance is primary.
    Drained(KeyspaceDrained),
    /// Cut every partition of a keyspace in two by the next bit of the hashes.
    SplitKeyspace(KeyspaceId),
    /// Change the group of a partition, if it is still of this epoch.
    Regroup(Regroup),
    /// What members of recovering groups hold.
    Held(HeldLogs),
    /// The operator's word that what is not up will not return: go on with the best log that is there, even a
    /// follower's, and lose what only others had.
    Recover {
        /// The keyspace.
        keyspace: KeyspaceId,
        /// The partition in it.
        partition: PartitionId,
        /// Nobody is missing: the only copy that counts is damaged, as its instance says.
        damaged: Option<KeptCopy>,
    },
    /// The operator knows of what is missing in a keyspace, or in all (none): it is told no more.
    AcknowledgeLosses {
        /// The keyspace.
        keyspace: KeyspaceId,
        /// What went missing by the map of this epoch, which the operator has seen.
        until: MapEpoch,
    },
    /// An operator's word where a partition is to be.
    Move(MovePartition),
    /// A token is good from now on, for this; or for something else than before.
    PutToken(TokenEntry),
    /// A token is good for nothing any more.
    RemoveToken(u64),
    /// The time of a token is over, if it still is to expire then. The leader's word, by its clock.
    ExpireToken {
        /// Its number.
        token: u64,
        /// When it was to expire, in milliseconds since 1970.
        at_ms: u64,
    },
    /// The control group is to be these, at most [`crate::limits::MANAGERS_MAX`]; the leader gets there step by step.
    SetManagers(Vec<ManagerInfo>),
}

/// See [`ControlCommand::Drained`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyspaceDrained {
    /// The keyspace.
    pub keyspace: KeyspaceId,
    /// The instance: nothing is under way in those partitions of which it is the primary.
    pub instance: InstanceId,
    /// By the map of this epoch.
    pub map: MapEpoch,
}

/// What a group goes on with of which the only copy that counts is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeptCopy {
    /// With what is whole of that copy.
    Damaged,
    /// With the most complete of the others that are up; with that copy all the same if they have nothing.
    Follower,
}

/// See [`ControlCommand::Move`]. The plan moves the partition there, and leaves it there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MovePartition {
    /// The keyspace.
    pub keyspace: KeyspaceId,
    /// The partition in it.
    pub partition: PartitionId,
    /// The node; none: wherever the plan finds best, as if no operator had said anything.
    pub to: Option<NodeId>,
    /// Which of its instances; none: that which holds least.
    pub instance: Option<InstanceId>,
}

/// See [`ControlCommand::Join`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinNode {
    /// Which node, as it remembers; a new one has no number yet.
    pub node: Option<NodeId>,
    /// The start that this replaces, as the node has read in the map: of two starts of one node, whichever is told last
    /// must know of the other. Equal to `incarnation` if it only returns.
    pub replaces: Incarnation,
    /// The nonce of its process's start.
    pub incarnation: Incarnation,
    /// Where its manager listens.
    pub manager: Address,
    /// Where its instances listen.
    pub instances: Vec<Address>,
    /// What fails together with it: a rack, a power supply. Copies of a partition are kept in different ones.
    pub domain: u32,
    /// How much it can take, beside others.
    pub capacity: u32,
    /// Whether all logs that it had are whole, as recovery found them.
    pub intact: bool,
    /// Whether the start that this replaces has ended in order: everything that it held is on its disks, but for what is
    /// held in memory only.
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
    /// Who asks.
    pub by: RegroupOrigin,
    /// What to change.
    pub step: GroupStep,
}

/// Who asks for a change of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegroupOrigin {
    /// The leader of the control group itself.
    Control,
    /// An instance that takes itself for the primary.
    Instance(InstanceId, Incarnation),
}

/// A change of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupStep {
    /// A follower has caught up and acknowledges from now on. Asked by the primary alone.
    Admit(InstanceId),
    /// An in-sync replica does not answer, and becomes a follower; or the primary itself finds its log corrupt, and an
    /// in-sync replica that is up takes over. Asked by the primary alone.
    Exclude(InstanceId),
    /// The same group under a higher epoch: whatever else was asked for on this one is settled, done or not. Asked by the
    /// primary alone.
    Keep,
    /// Another instance begins to follow; the target of a move if `target`. Decided by control.
    AddFollower {
        /// The instance.
        instance: InstanceId,
        /// Whether it is to be admitted as soon as it has caught up.
        target: bool,
    },
    /// A follower leaves. Decided by control.
    RemoveFollower(InstanceId),
    /// An in-sync replica becomes primary, and the primary in-sync replica. Decided by control.
    Promote(InstanceId),
    /// An in-sync replica becomes a follower, as there are more than are needed. Decided by control.
    Demote(InstanceId),
    /// An in-sync replica leaves, as there are more than are needed. Decided by control.
    Leave(InstanceId),
}

/// Logs that a node holds of groups that are recovering.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldLogs {
    /// The node.
    pub node: NodeId,
    /// Its start.
    pub incarnation: Incarnation,
    /// The logs.
    pub logs: Vec<HeldLog>,
}

/// A log that an instance holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldLog {
    /// The keyspace.
    pub keyspace: KeyspaceId,
    /// The partition in it.
    pub partition: PartitionId,
    /// The epoch of the recovering group to which this answers.
    pub epoch: PartitionEpoch,
    /// The instance.
    pub instance: InstanceId,
    /// Where the log ends.
    pub end: LogEnd,
    /// Whether the log is whole, as recovery found it.
    pub intact: bool,
}

/// The place of a log's last entry. Of two logs the one with the greater end has all that was acknowledged, if any has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogEnd {
    /// The epoch of its last entry.
    pub epoch: u64,
    /// The index of its last entry.
    pub index: LogIndex,
}

/// What became of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandOutcome {
    /// What was done, or why nothing was.
    pub result: Result<CommandResult, CommandRefusal>,
    /// How many commands had been applied: the mark for this asker's next requests.
    pub mark: u64,
}

/// What was done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommandResult {
    /// The keyspace that was made, the node that joined, or the partition's new epoch.
    pub number: u64,
    /// The epoch of the map in which it is so.
    pub epoch: MapEpoch,
}

/// Why nothing was done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommandRefusal {
    /// The group has another epoch: decide again.
    StaleEpoch {
        /// Which.
        now: PartitionEpoch,
    },
    /// The node has started again, or another start of it has been told.
    StaleIncarnation,
    /// Only the primary may ask for this.
    NotPrimary,
    /// Only control may ask for this.
    NotControl,
    /// Not an in-sync replica.
    NotInSync,
    /// Not a follower.
    NotFollower,
    /// It is a member already.
    Member,
    /// There are enough in-sync replicas, and it is not the target of a move.
    NotWanted,
    /// It would leave fewer in-sync copies than the keyspace asks for.
    TooFewInSync,
    /// The instance's node is down, or on its way out.
    NotUp,
    /// The group is recovering.
    Recovering,
    /// The group serves, or will as soon as its primary is back; nothing is to be recovered.
    NotLost,
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
    /// No node is up to place anything on.
    NoNodes,
    /// None, too many, or one twice.
    Managers,
    /// Whatever became of it is forgotten, or it was never done.
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
            Self::NotWanted => {
                "there are enough in-sync replicas, and the follower is not the target of a move"
            }
            Self::TooFewInSync => "fewer copies would be in sync than the keyspace asks for",
            Self::NotUp => "the instance's node is down or on its way out",
            Self::Recovering => "the group is recovering: wait for its members, or use `recover`",
            Self::NotLost => "the group has an in-sync replica that is up: nothing is to be recovered",
            Self::Moving => "the partition is being moved: wait for the end of it",
            Self::UnknownNode => "the map has no such node",
            Self::UnknownInstance => "the map has no such instance",
            Self::UnknownKeyspace => "the map has no such keyspace",
            Self::UnknownPartition => "the keyspace has no such partition",
            Self::NoNodes => "no node is up to hold it",
            Self::Managers => "a control group has 1 to 5 managers, each once",
            Self::InControlGroup => {
                "the node's manager is a member of the control group: make the group of others before it leaves"
            }
            Self::TooOld => "the request is too old to tell whether it was done: look at the map",
        })
    }
}

impl std::error::Error for CommandRefusal {}
