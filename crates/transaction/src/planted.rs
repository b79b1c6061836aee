//! Bugs that can be planted, so that a test can show that the simulation finds them. A build
//! without debug assertions, as users have it, has none: there the checks are constants.

/// A bug to plant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// Versions read are not checked when a transaction is prepared.
    ReadsUnchecked,
    /// A read of several items is confirmed whatever intents stand.
    ConfirmIgnoresIntents,
    /// Reads wait for no intent.
    ReadsWaitForNothing,
    /// A participant frees its intents once it has answered that it is prepared.
    FreedBeforeDecision,
    /// The timestamp is fixed without the last proposal.
    TimestampTooEarly,
    /// A decision is forgotten once it was told, before all have acknowledged it.
    ForgottenBeforeFinished,
    /// Answers to an earlier attempt count.
    EarlierAttemptCounts,
    /// The coordinator keeps its own intents while the transaction goes along the chain.
    OwnKeptInChain,
    /// An unknown transaction is told to be aborted, and not logged so.
    UnknownNotLogged,
    /// A `Prepare` that comes again after the end is prepared again, and applied by a repeated `Commit`.
    RepeatedPrepareApplied,
    /// A read at a timestamp does not wait for intents that were proposed below it.
    ReadAboveProposal,
    /// A transform is installed again when its `Commit` comes again.
    TransformTwice,
    /// Only whoever has the name of a participant hears of the decision, not who was split off from it.
    SiblingsUntold,
    /// What was split off from a participant says that it has prepared all.
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

#[cfg(debug_assertions)]
mod chosen {
    use std::cell::Cell;

    use super::Bug;

    thread_local! {
        static PLANTED: Cell<Option<Bug>> = const { Cell::new(None) };
    }

    /// Plants a bug in the transactions of this thread, or none.
    pub fn plant(bug: Option<Bug>) {
        PLANTED.set(bug);
    }

    pub(crate) fn is_planted(bug: Bug) -> bool {
        PLANTED.get() == Some(bug)
    }
}

#[cfg(debug_assertions)]
pub(crate) use chosen::is_planted;
#[cfg(debug_assertions)]
pub use chosen::plant;

#[cfg(not(debug_assertions))]
pub(crate) const fn is_planted(_: Bug) -> bool {
    false
}
