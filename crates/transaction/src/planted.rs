//! Bugs that can be planted, so that a test can show that the simulation finds them. Release builds, without debug
//! assertions, have none: there the checks are constants.

/// A bug to plant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// Versions read are not checked when a transaction is prepared.
    ReadsUnchecked,
    /// A read of several items is confirmed despite conflicting intents.
    ConfirmIgnoresIntents,
    /// Reads wait for no intent.
    ReadsWaitForNothing,
    /// A participant frees its intents once it has answered that it is prepared.
    FreedBeforeDecision,
    /// The timestamp is fixed without the last proposal.
    TimestampTooEarly,
    /// A decision is forgotten once it was sent, before all participants have acknowledged it.
    ForgottenBeforeFinished,
    /// Answers to an earlier attempt count.
    EarlierAttemptCounts,
    /// The coordinator keeps its own intents while the transaction goes along the chain.
    OwnKeptInChain,
    /// An unknown transaction is reported as aborted, without a log entry for that.
    UnknownNotLogged,
    /// A `Prepare` that comes again after the end is prepared again, and applied by a repeated `Commit`.
    RepeatedPrepareApplied,
    /// A read at a timestamp does not wait for intents that were proposed below it.
    ReadAboveProposal,
    /// A transform is installed again when its `Commit` comes again.
    TransformTwice,
    /// Only the owner of a participant's routing key receives the decision, not the partitions split off from it.
    SiblingsUntold,
    /// A partition that was split off from a participant reports that it has prepared everything.
    HalfIsWhole,
    /// A decision is forgotten with the session whose transaction it decides.
    EvictedWithSession,
}

impl Bug {
    /// All of them.
    pub const ALL: [Bug; 15] = [
        Bug::ReadsUnchecked,
        Bug::ConfirmIgnoresIntents,
        Bug::ReadsWaitForNothing,
        Bug::FreedBeforeDecision,
        Bug::TimestampTooEarly,
        Bug::ForgottenBeforeFinished,
        Bug::EarlierAttemptCounts,
        Bug::OwnKeptInChain,
        Bug::UnknownNotLogged,
        Bug::RepeatedPrepareApplied,
        Bug::ReadAboveProposal,
        Bug::TransformTwice,
        Bug::SiblingsUntold,
        Bug::HalfIsWhole,
        Bug::EvictedWithSession,
    ];
}

zerohop_base::mutant_switch!(Bug);
