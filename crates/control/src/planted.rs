//! Bugs that can be planted, so that a test can show that the simulation finds them. Release builds, without
//! debug assertions, have none: there the checks are constants.

/// A bug to plant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// A vote is not written to disk, and is sent at once: a restarted manager votes again in the same term.
    VotesTwice,
    /// The control group makes a follower primary.
    PromotesFollower,
    /// A group change that was decided on an older epoch is accepted.
    OlderEpochAccepted,
    /// A command is answered as soon as the leader has it in its own log's memory.
    AcknowledgesBeforeCommit,
    /// A retried command is applied again.
    RetriesApplied,
    /// A restarted in-sync replica stays in sync although its log was not synced.
    RestartedStaysInSync,
    /// A leader hands out the map of a command that it has only proposed.
    HandsOutUndecided,
    /// A node repeats its join under another request id each time.
    JoinsUnderNewNames,
    /// A node's instances are opened with any available map.
    OpensWithAnyMap,
    /// No manager considers a node dead that gossip has never heard of.
    NobodyIsSilent,
    /// A bootstrap member without a log bootstraps the group without contacting the others.
    FoundsUnasked,
}

impl Bug {
    /// Bugs that managers alone show, except [`Bug::VotesTwice`], which requires two candidates and a crash
    /// at the same moment.
    pub const OF_MANAGERS: [Bug; 5] = [
        Bug::PromotesFollower,
        Bug::OlderEpochAccepted,
        Bug::AcknowledgesBeforeCommit,
        Bug::RetriesApplied,
        Bug::RestartedStaysInSync,
    ];

    /// Bugs that complete nodes show.
    pub const OF_AGENTS: [Bug; 5] = [
        Bug::HandsOutUndecided,
        Bug::JoinsUnderNewNames,
        Bug::OpensWithAnyMap,
        Bug::NobodyIsSilent,
        Bug::FoundsUnasked,
    ];
}

zerohop_base::mutant_switch!(Bug);
