//! Everything that the model remembers: three members, the control group, and what is under way between them.
//!
//! Messages are never removed: each may be lost (not looked at), late, overtaken and repeated. So that states stay few,
//! they are not kept one by one: a primary's log of an epoch only grows, and whatever it ever sent in that epoch can be
//! derived from it. Likewise what a member has acknowledged in an epoch is one number.

use crate::log::Log;

/// Members, and processes that one instance may have.
pub const MEMBERS: usize = 3;
/// First start and a second one.
pub const STARTS: usize = 2;
/// Epochs from 1; place 0 is "no map".
pub const EPOCHS: usize = 7;
/// The mark cannot be logged.
pub const NO_MARK: u8 = u8::MAX;

/// Members, one bit each.
pub type MemberSet = u8;

/// All members.
pub const ALL: MemberSet = (1 << MEMBERS) - 1;

/// The set of one.
#[must_use]
pub fn only(member: usize) -> MemberSet {
    1 << member
}

/// Whether a member is in a set.
#[must_use]
pub fn has(set: MemberSet, member: usize) -> bool {
    set & only(member) != 0
}

/// The members of a set.
pub fn each(set: MemberSet) -> impl Iterator<Item = usize> {
    (0..MEMBERS).filter(move |member| has(set, *member))
}

/// A replica group as one epoch of the map has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Group {
    /// The member that orders writes.
    pub primary: u8,
    /// In-sync replicas.
    pub in_sync: MemberSet,
    /// Followers.
    pub followers: MemberSet,
    /// No member serves.
    pub is_recovering: bool,
    /// The start of each member's process that it names.
    pub starts: [u8; MEMBERS],
}

impl Group {
    /// The primary.
    #[must_use]
    pub fn primary(&self) -> usize {
        usize::from(self.primary)
    }

    /// Primary and in-sync replicas.
    #[must_use]
    pub fn copies(&self) -> MemberSet {
        self.in_sync | only(self.primary())
    }
}

/// What a member is in a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Not in it, or another start of it.
    Removed,
    /// Behind.
    Follower,
    /// Holds everything acknowledged.
    InSync,
    /// Orders and answers.
    Primary,
}

/// The last request of a primary in its epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum LastRequest {
    /// None yet.
    #[default]
    Nothing,
    /// To admit a member.
    Admit,
    /// To remove a member.
    Remove,
    /// To keep the group.
    Keep,
}

/// One process and its disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Member {
    /// Which start of its instance it is.
    pub start: u8,
    /// The epoch of the map that it has applied; 0 before any.
    pub known: u8,
    /// On its disk, or on its way there.
    pub log: Log,
    /// So much of it is synced (under `sync` only).
    pub durable: u8,
    /// Committed, as it knows.
    pub applied: u8,
    /// Its log is the primary's up to here, in this epoch.
    pub matched: u8,
    /// It must install a snapshot.
    pub needs_state: bool,
    /// Its log may lack what earlier starts acknowledged under `sync`.
    pub is_damaged: bool,

    /// As primary: it answers once this is committed.
    pub mark: u8,
    /// Holders of its grants that it waits for.
    pub waits: MemberSet,
    /// It waits for whatever its earlier start has granted.
    pub waits_start: bool,
    /// The map under which it was promoted: grants of older ones are waited for.
    pub promoted: u8,
    /// The members that its requests of this epoch ask to admit.
    pub admitting: MemberSet,
    /// The members that they ask to remove.
    pub removing: MemberSet,
    /// The last of them.
    pub last_proposal: LastRequest,
    /// Writes whose clients wait for its answer.
    pub pending: u8,

    /// Primaries of epochs that may not be settled.
    pub former_primaries: MemberSet,
    /// There may be others that it has not heard of.
    pub has_unknown_former_primaries: bool,
    /// The newest epoch that each has said it yields to.
    pub yielded: [u8; MEMBERS],
}

/// The control group, which decides one thing after another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Control {
    /// The present epoch.
    pub epoch: u8,
    /// Requests of primaries on their way: to admit, to remove, to keep.
    pub admits: MemberSet,
    /// See `admits`.
    pub removes: MemberSet,
    /// See `admits`.
    pub keeps: bool,
    /// Of a group that recovers: the members that have started again and may have lost something.
    pub restarted: MemberSet,
    /// What its members have reported: the end of the log, and whether it is intact.
    pub log_reports: [Option<(u8, u8, bool)>; MEMBERS],
}

/// What a primary has sent in an epoch, and what was said in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PrimaryTraffic {
    /// The group of this epoch.
    pub group: Group,
    /// The primary's log, as far as it came in this epoch.
    pub log: Log,
    /// The highest commit index that it has sent.
    pub commit: u8,
    /// What each member has acknowledged.
    pub acknowledged: [u8; MEMBERS],
    /// Deposed primaries that have notified the primary of this epoch that they yield to it.
    pub yields: MemberSet,
}

/// Grants that may be in use although their granter gives no such ones any more: bit e is one under the map of epoch e.
/// By granter, start of the granter, holder.
pub type Grants = [[[u8; MEMBERS]; STARTS]; MEMBERS];

/// What must not have happened, noticed in the step in which it did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ReplicationViolations {
    /// Something committed was cut, without any report of a loss.
    pub is_commit_cut: bool,
    /// Acknowledged with fewer copies than `min_in_sync`.
    pub is_thin: bool,
    /// A loss was reported although a member still had the data.
    pub is_lost_needlessly: bool,
}

/// A state of the model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ReplicaWorld {
    /// The processes.
    pub members: [Member; MEMBERS],
    /// The control group.
    pub control: Control,
    /// By epoch.
    pub sent: [PrimaryTraffic; EPOCHS],
    /// See [`Grants`].
    pub grants: Grants,
    /// Grants that arrived after they had been waited for: only where a rule is left out.
    pub late: Grants,
    /// Writes that clients have made.
    pub writes: u8,
    /// Starts so far.
    pub restarts: u8,
    /// Writes that were acknowledged, or seen by a reader, one bit each.
    pub acknowledged: u8,
    /// The operator was notified that something may be missing.
    pub is_loss_reported: bool,
    /// See [`ReplicationViolations`].
    pub broken: ReplicationViolations,
}

impl ReplicaWorld {
    /// The group of an epoch.
    #[must_use]
    pub fn group(&self, epoch: u8) -> &Group {
        &self.sent[usize::from(epoch)].group
    }

    /// The present group, as the control group has it.
    #[must_use]
    pub fn present(&self) -> &Group {
        self.group(self.control.epoch)
    }

    /// The group that a member acts in.
    #[must_use]
    pub fn view(&self, member: usize) -> &Group {
        self.group(self.members[member].known)
    }
}
