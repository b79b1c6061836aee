//! Bugs that can be planted, so that a test can show that the simulation finds them. Release builds, without
//! debug assertions, have none: there the checks are constants.

/// A bug to plant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// A vote is not written to disk, and is sent at once: a restarted manager votes again in the same term.
    VoteNotSynced,
    /// The control group makes a follower primary.
    FollowerPromoted,
    /// A group change that was decided on an older epoch is accepted.
    OlderEpochAccepted,
    /// A command is answered as soon as the leader has it in its own log's memory.
    AcknowledgesBeforeCommit,
    /// A retried command is applied again.
    RetryAppliedTwice,
    /// A restarted in-sync replica stays in sync although its log was not synced.
    RestartedReplicaStaysInSync,
    /// A recovery does not wait for in-sync replicas that have not reported their logs.
    SilentMemberPassed,
    /// A recovery chooses the log with the lowest end.
    LowestLogChosen,
    /// A recovery counts what a member reported before it died again.
    EarlierReportCounts,
    /// A recovery does not wait for in-sync replicas that are down.
    DeadMemberPassed,
    /// A leader hands out the map of a command that it has only proposed.
    UndecidedMapSent,
    /// A node repeats its join under another request id each time.
    JoinRetriedWithNewId,
    /// A node's instances are opened with any available map.
    InstancesOpenedWithAnyMap,
    /// No manager considers a node dead that gossip has never heard of.
    UnseenNodeNotDeclaredDead,
    /// A bootstrap member without a log bootstraps the group without contacting the others.
    BootstrapWithoutPeers,
    /// A manager that leads when its own removal is decided remains leader.
    RemovedLeaderStays,
    /// A leader that is to be removed hands over to a manager that does not answer.
    HandoverToSilentManager,
    /// Entries are written without the commit index: a restarted manager campaigns with the votes of older members.
    CommitIndexNotWritten,
    /// A report that a primary is ready counts after the groups have changed.
    OlderReportCounts,
}

impl Bug {
    /// Bugs that managers alone show, except two that require a crash at a certain moment:
    /// [`Bug::VoteNotSynced`] and [`Bug::CommitIndexNotWritten`].
    pub const OF_MANAGERS: [Bug; 7] = [
        Bug::FollowerPromoted,
        Bug::OlderEpochAccepted,
        Bug::AcknowledgesBeforeCommit,
        Bug::RetryAppliedTwice,
        Bug::RestartedReplicaStaysInSync,
        Bug::RemovedLeaderStays,
        Bug::HandoverToSilentManager,
    ];

    /// Bugs of recoveries, which clusters show in which all in-sync replicas of a group die. Unit tests show the last two.
    pub const OF_RECOVERIES: [Bug; 4] =
        [Bug::SilentMemberPassed, Bug::LowestLogChosen, Bug::EarlierReportCounts, Bug::DeadMemberPassed];

    /// Bugs that complete nodes show.
    pub const OF_AGENTS: [Bug; 5] = [
        Bug::UndecidedMapSent,
        Bug::JoinRetriedWithNewId,
        Bug::InstancesOpenedWithAnyMap,
        Bug::UnseenNodeNotDeclaredDead,
        Bug::BootstrapWithoutPeers,
    ];
}

zerohop_base::mutant_switch!(Bug);
