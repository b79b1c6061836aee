//! The rules of `docs/protocols/transactions.md` that the model of the commit can leave out, to see that it would notice.

/// A rule, named for what it demands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CommitRule {
    /// A participant says that it has prepared once the log entry is committed.
    PreparedOnceCommitted,
    /// A decision is sent once its log entry is committed.
    NotifiedOnceCommitted,
    /// Only answers to the attempt that runs count.
    PresentAttemptCounts,
    /// A lower attempt than the prepared one is ignored.
    LowerAttemptsIgnored,
    /// A release frees the attempt that it names, and lower ones.
    ReleaseNamesAttempt,
    /// An unknown transaction is logged as aborted before the answer is sent.
    UnknownIsLogged,
    /// What is aborted does not begin again.
    AbortIsFinal,
    /// A decision is kept until all have acknowledged it.
    KeptUntilFinished,
    /// What is applied is remembered until it is finished.
    AppliedRemembered,
    /// A `Commit` names the log entry that was decided.
    CommitNamesEntry,
    /// A prepared participant frees nothing before it knows the decision.
    LockedUntilDecided,
    /// Reads wait for the intents that stand when they arrive.
    ReadsWait,
    /// A read of several is confirmed only where no intent stands.
    ConfirmChecksIntents,
}
