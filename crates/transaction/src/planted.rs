//! Bugs that can be planted, so that a test can show that the simulation finds them. Release builds, without debug
//! assertions, have none: there the checks are constants.

/// A bug to plant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// Versions read are not checked when a transaction is prepared.
    ReadVersionsNotChecked,
    /// A read of several items is confirmed despite conflicting intents.
    ConfirmIgnoresIntents,
    /// Reads wait for no intent.
    ReadsIgnoreIntents,
    /// A participant frees its intents once it has answered that it is prepared.
    IntentsFreedBeforeDecision,
    /// The timestamp is fixed without the last proposal.
    LastProposalIgnored,
    /// A decision is forgotten once it was sent, before all participants have acknowledged it.
    DecisionForgottenEarly,
    /// Answers to an earlier attempt count.
    EarlierAttemptCounted,
    /// The coordinator keeps its own intents while the transaction goes along the chain.
    CoordinatorKeepsOwnIntents,
    /// An unknown transaction is reported as aborted, without a log entry for that.
    UnknownAbortNotLogged,
    /// A `Prepare` that comes again after the end is prepared again, and applied by a repeated `Commit`.
    RepeatedPrepareApplied,
    /// A read at a timestamp does not wait for intents that were proposed below it.
    ReadIgnoresLowerProposals,
    /// A transform is installed again when its `Commit` comes again.
    TransformAppliedTwice,
    /// Only the owner of a participant's routing key receives the decision, not the partitions split off from it.
    SiblingsNotNotified,
    /// A partition that was split off from a participant reports that it has prepared everything.
    ChildReportsAllPrepared,
    /// A decision is forgotten with the session whose transaction it decides.
    DecisionEvictedWithSession,
}

impl Bug {
    /// All of them.
    pub const ALL: [Bug; 15] = [
        Bug::ReadVersionsNotChecked,
        Bug::ConfirmIgnoresIntents,
        Bug::ReadsIgnoreIntents,
        Bug::IntentsFreedBeforeDecision,
        Bug::LastProposalIgnored,
        Bug::DecisionForgottenEarly,
        Bug::EarlierAttemptCounted,
        Bug::CoordinatorKeepsOwnIntents,
        Bug::UnknownAbortNotLogged,
        Bug::RepeatedPrepareApplied,
        Bug::ReadIgnoresLowerProposals,
        Bug::TransformAppliedTwice,
        Bug::SiblingsNotNotified,
        Bug::ChildReportsAllPrepared,
        Bug::DecisionEvictedWithSession,
    ];
}

zerohop_base::mutant_switch!(Bug);
