//! The rules of `docs/protocols/replication.md` that the model can leave out, to see that it would notice.

/// A rule, named for what it demands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReplicationRule {
    /// An acknowledgement needs all in-sync members.
    AllInSyncAcknowledge,
    /// Under `sync`, what is held counts once it is durable.
    DurableBeforeAcknowledged,
    /// While an admission is undecided, commits and reads need the newcomer.
    UndecidedAdmissionCounts,
    /// Removed is a member that the map has removed, not one that a request asks to remove.
    UndecidedRemovalWaits,
    /// Older epochs are refused.
    OlderEpochsRefused,
    /// Appends name the preceding entry, and a mismatch is no match.
    PrecedingMatched,
    /// A conflicting entry of a higher epoch kills its place and what follows.
    ConflictsCut,
    /// Commit indexes count only on a log matched in this epoch.
    CommitNeedsMatch,
    /// What a member said that it holds counts only in the epoch in which it said so.
    AcknowledgedInThisEpoch,
    /// A new primary commits a mark of its epoch before it answers.
    MarkFirst,
    /// Answers wait for what they were evaluated over.
    AnswersWait,
    /// A primary answers only with the grants of all members that it needs.
    LeaseBeforeAnswers,
    /// Grants count from the time of their request.
    GrantsCountFromRequest,
    /// A grant under a newer map is unusable until that is applied.
    NewerGrantsWait,
    /// A promoted replica waits out what it granted under older maps.
    GrantsWaitedOut,
    /// If it has not seen every epoch between, it waits for all its holders.
    UnseenEpochsWaitedOut,
    /// A promoted primary that is deposed and promoted again still waits for the members that it had to wait for.
    WaitsOutliveDeposition,
    /// A primary that is one again after epochs that it has not seen starts as a new one.
    UnseenEpochsStartAgain,
    /// A release counts only if it yields to this epoch or a later one.
    YieldNamesEpoch,
    /// A process counts its start as its last grant to all members.
    StartIsAGrant,
    /// A restarted process is no member until it is readmitted.
    RestartedIsNoMember,
    /// A disk that was lost is not an intact one.
    LostDiskIsNotIntact,
    /// After a restart of all, every member must have reported its log, and the highest end is chosen.
    AllReportAfterRestart,
    /// While a group recovers, it has no members.
    RecoveringDoesNotServe,
    /// Followers are never promoted.
    FollowersStay,
    /// Only a follower that has everything committed is admitted.
    CaughtUpBeforeAdmission,
    /// Below `min_in_sync`, writes park.
    CopiesBeforeWrites,
    /// A change is applied to the epoch on which it was decided, or not at all.
    CompareAndSet,
}
