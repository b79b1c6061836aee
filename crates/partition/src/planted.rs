//! Bugs that can be planted, so that a test can show that the simulator finds them. A build
//! without debug assertions, as users have it, has none: there the checks are constants.

/// A bug to plant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// A write that comes again is evaluated again: nobody looks into the session table.
    SessionsNotConsulted,
    /// A write's answer does not wait for its entry to be durable.
    AnswersBeforeFlush,
    /// A write is evaluated over what is committed, and does not see what is appended.
    OverlayNotSeen,
    /// Reads and refused writes do not wait for what they were evaluated over.
    ReadsUncommitted,
    /// A session lets go of the outcome that it must still have.
    WindowOneTooFar,
    /// A start does not take the sessions over.
    SessionsForgottenAtStart,
    /// Nobody looks at what waits for a record when that changes.
    WaitsNotWoken,
    /// A request is taken up whatever epoch it names.
    EpochNotChecked,
    /// The primary answers before the in-sync replicas have the entry.
    AcknowledgedAlone,
    /// Reads and answers do not ask whether the leases hold.
    LeaseNotChecked,
    /// A promoted replica does not wait for what it has granted.
    GrantNotWaitedOut,
    /// A grant under a newer map than the holder's is used.
    NewerGrantUsed,
    /// A replica takes entries whose predecessor it does not have.
    PrecedingNotMatched,
    /// Nobody begins above the ceiling that was synced.
    CeilingForgotten,
    /// A message of an older epoch is taken up.
    OlderEpochAccepted,
    /// A replica keeps its own entry where the primary's is another.
    TruncationSkipped,
    /// A promoted replica begins with an empty session table.
    SessionsForgottenAtPromotion,
    /// Writes are taken and answered though there are too few copies.
    MinInSyncIgnored,
    /// A follower's admission is asked for before it has what is committed.
    AdmittedBeforeCaughtUp,
    /// A new primary answers before the mark of its epoch is committed.
    MarkNotAwaited,
    /// While a change is asked for and undecided, only the new set counts.
    UndecidedIgnored,
    /// A replica believes the commit index for what was not matched in this epoch.
    CommitNotMatched,
    /// A grant counts from its arrival.
    GrantFromArrival,
    /// A process does not count its start as its last grant.
    StartNotCounted,
    /// A release is believed whatever epoch it names.
    YieldOfAnyEpoch,
    /// A split gives the children no session table.
    SessionsNotSplit,
    /// What a transaction changes is changed twice.
    TransactionTwice,
    /// A snapshot is read before nothing can be committed at its time any more.
    SnapshotNotClosed,
    /// Followers keep nothing for snapshots, and serve them all the same.
    SnapshotsNotFollowed,
    /// Of several snapshots only what the newest can see is kept.
    VersionsDroppedEarly,
    /// Snapshots that nobody renews are kept for good.
    LeasesNotEnded,
    /// A member keeps snapshots of which a new primary knows nothing.
    OthersNotEnded,
    /// A keyspace is dropped whatever is under way in it.
    DroppedAtOnce,
    /// A chunk takes a write of a generation from before a cut that it knows.
    OldGenerationTaken,
    /// A number in a chunk is transformed twice.
    TransformTwice,
    /// A blob that a transaction makes goes in each partition by the clock that evaluated it, not by the transaction's time.
    OwnByItsOwnClock,
    /// Reads do not wait for the intents of transactions.
    IntentsIgnored,
    /// Whoever changes a record does not wait until it is not held any more; and what has just been changed is held too.
    HoldIgnored,
    /// What was read is confirmed though somebody is about to change it.
    ConfirmIgnoresIntents,
    /// What was prepared before a split is done in both children, also what the other owns.
    SiblingsHalfDone,
    /// A partition takes requests and units whatever keys they name, also those of its siblings.
    SliceNotChecked,
    /// A partition shows and counts what its sibling owns until it is removed.
    ForeignCounted,
    /// A follower counts though entries of its log cannot be read.
    CorruptCounts,
    /// Entries that are corrupt are left out of what is sent.
    CorruptLeftOut,
    /// Others are not asked for what is corrupt.
    CorruptionNotRepaired,
    /// Members tell the digest of what they have applied, whatever was asked for.
    DigestOfAnyIndex,
    /// The log is compacted while a state is read from it.
    LogNotHeld,
    /// A page of a scan that is full leaves out the key behind it.
    ScanPassesOver,
    /// A page of a scan begins with the last key of the page before.
    ScanGoesBack,
}

impl Bug {
    /// Those of a group of several.
    pub const OF_GROUPS: [Bug; 22] = [
        Bug::AcknowledgedAlone,
        Bug::LeaseNotChecked,
        Bug::GrantNotWaitedOut,
        Bug::NewerGrantUsed,
        Bug::PrecedingNotMatched,
        Bug::CeilingForgotten,
        Bug::OlderEpochAccepted,
        Bug::TruncationSkipped,
        Bug::SessionsForgottenAtPromotion,
        Bug::MinInSyncIgnored,
        Bug::AdmittedBeforeCaughtUp,
        Bug::MarkNotAwaited,
        Bug::UndecidedIgnored,
        Bug::CommitNotMatched,
        Bug::GrantFromArrival,
        Bug::StartNotCounted,
        Bug::YieldOfAnyEpoch,
        Bug::CorruptCounts,
        Bug::CorruptLeftOut,
        Bug::CorruptionNotRepaired,
        Bug::DigestOfAnyIndex,
        Bug::LogNotHeld,
    ];

    /// Those of transactions over several partitions.
    pub const OF_TRANSACTIONS: [Bug; 5] = [
        Bug::TransactionTwice,
        Bug::IntentsIgnored,
        Bug::ConfirmIgnoresIntents,
        Bug::DroppedAtOnce,
        Bug::HoldIgnored,
    ];

    /// Those of blobs and snapshots.
    pub const OF_BLOBS: [Bug; 8] = [
        Bug::SnapshotNotClosed,
        Bug::SnapshotsNotFollowed,
        Bug::VersionsDroppedEarly,
        Bug::LeasesNotEnded,
        Bug::OthersNotEnded,
        Bug::OldGenerationTaken,
        Bug::TransformTwice,
        Bug::OwnByItsOwnClock,
    ];

    /// Those of splits.
    pub const OF_SPLITS: [Bug; 3] = [Bug::SessionsNotSplit, Bug::ForeignCounted, Bug::SliceNotChecked];

    /// Those of scans.
    pub const OF_SCANS: [Bug; 2] = [Bug::ScanPassesOver, Bug::ScanGoesBack];

    /// Those of a group of one.
    pub const ALL: [Bug; 8] = [
        Bug::SessionsNotConsulted,
        Bug::AnswersBeforeFlush,
        Bug::OverlayNotSeen,
        Bug::ReadsUncommitted,
        Bug::WindowOneTooFar,
        Bug::SessionsForgottenAtStart,
        Bug::WaitsNotWoken,
        Bug::EpochNotChecked,
    ];
}

#[cfg(debug_assertions)]
mod chosen {
    use std::cell::Cell;

    use super::Bug;

    thread_local! {
        static PLANTED: Cell<Option<Bug>> = const { Cell::new(None) };
    }

    /// Plants a bug in the partitions of this thread, or none.
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
