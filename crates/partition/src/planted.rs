//! Bugs of partitions, of their replication and of their instance that a test can switch on, to show that the simulator finds
//! them. A release build without debug assertions has none; its checks are constants.

/// A bug to switch on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// A repeated write is evaluated again, without a look into the session table.
    SessionsNotConsulted,
    /// A write is answered before its entry is durable.
    AnswersBeforeFlush,
    /// A write is evaluated over committed data and does not see appended entries.
    OverlayNotSeen,
    /// Reads and refused writes do not wait for the entries that they depend on.
    ReadsUncommitted,
    /// A session drops an outcome that it must still have.
    WindowOneTooFar,
    /// A start does not restore the sessions.
    SessionsForgottenAtStart,
    /// Waits for a record are not checked when the record changes.
    WaitsNotWoken,
    /// A request is accepted whatever epoch it names.
    EpochNotChecked,
    /// The primary answers before the in-sync replicas have the entry.
    AcknowledgedAlone,
    /// Reads and answers do not check whether the leases are valid.
    LeaseNotChecked,
    /// A promoted replica does not wait for the end of leases that it has granted.
    GrantNotWaitedOut,
    /// A lease granted under a newer map than the holder's is used.
    NewerGrantUsed,
    /// A replica accepts entries whose preceding entry it does not have.
    PrecedingNotMatched,
    /// No clock starts above the timestamp bound that was synced.
    CeilingForgotten,
    /// A message of an older epoch is accepted.
    OlderEpochAccepted,
    /// A replica keeps its own entry where the primary's differs.
    TruncationSkipped,
    /// A promoted replica starts with an empty session table.
    SessionsForgottenAtPromotion,
    /// Writes are accepted and answered although there are too few copies.
    MinInSyncIgnored,
    /// A follower's admission is requested before it has all committed entries.
    AdmittedBeforeCaughtUp,
    /// A new primary answers before its epoch marker is committed.
    MarkNotAwaited,
    /// While a requested change is undecided, only the new set counts.
    UndecidedIgnored,
    /// A replica applies the commit index to entries that were not matched in this epoch.
    CommitNotMatched,
    /// A lease counts from the arrival of the grant.
    GrantFromArrival,
    /// A process does not count its start as its last grant.
    StartNotCounted,
    /// A `Yield` is accepted whatever epoch it names.
    YieldOfAnyEpoch,
    /// A split gives the children no session table.
    SessionsNotSplit,
    /// The changes of a transaction are applied twice.
    TransactionTwice,
    /// A snapshot is read while entries may still be committed at its time.
    SnapshotNotClosed,
    /// Followers keep nothing for snapshots, and serve them all the same.
    SnapshotsNotFollowed,
    /// Of several snapshots only the versions that the newest can see are kept.
    VersionsDroppedEarly,
    /// Snapshots that no client renews are kept permanently.
    LeasesNotEnded,
    /// A member keeps snapshots that a new primary does not know.
    OthersNotEnded,
    /// A keyspace is dropped although transactions in it are in progress.
    DroppedAtOnce,
    /// A chunk accepts a write of a generation before a truncation that it knows.
    OldGenerationTaken,
    /// A number in a chunk is transformed twice.
    TransformTwice,
    /// A blob that a transaction creates is identified in each partition by the evaluation time, not by the transaction's time.
    OwnByItsOwnClock,
    /// Reads do not wait for the intents of transactions.
    IntentsIgnored,
    /// A write does not wait for the end of a read lock, and a record that has just changed is read-locked too.
    HoldIgnored,
    /// A read is confirmed although a transaction is about to change the record.
    ConfirmIgnoresIntents,
    /// Operations prepared before a split are applied in both children, including those for the other child's keys.
    SiblingsHalfDone,
    /// A partition accepts requests and atomic batches for any keys, including those of its siblings.
    SliceNotChecked,
    /// A partition shows and counts its sibling's records until they are removed.
    ForeignCounted,
    /// A follower counts although entries of its log cannot be read.
    CorruptCounts,
    /// Corrupt entries are left out of the sent log.
    CorruptLeftOut,
    /// A step breaks an invariant of a primary, which then does what it does in a release build.
    InvariantBroken,
    /// Corrupt entries are not requested from other members.
    CorruptionNotRepaired,
    /// Members send the digest of their applied state, whatever log index was requested.
    DigestOfAnyIndex,
    /// The log is compacted while a snapshot is read from it.
    LogNotHeld,
    /// A full page of a scan leaves out the key behind it.
    ScanPassesOver,
    /// A page of a scan starts with the last key of the previous page.
    ScanGoesBack,
}

impl Bug {
    /// Bugs of groups of several members.
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

    /// Bugs of transactions over several partitions.
    pub const OF_TRANSACTIONS: [Bug; 5] = [
        Bug::TransactionTwice,
        Bug::IntentsIgnored,
        Bug::ConfirmIgnoresIntents,
        Bug::DroppedAtOnce,
        Bug::HoldIgnored,
    ];

    /// Bugs of blobs and snapshots.
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

    /// Bugs of splits.
    pub const OF_SPLITS: [Bug; 3] = [Bug::SessionsNotSplit, Bug::ForeignCounted, Bug::SliceNotChecked];

    /// Bugs of scans.
    pub const OF_SCANS: [Bug; 2] = [Bug::ScanPassesOver, Bug::ScanGoesBack];

    /// Bugs of single-copy partitions.
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

zerohop_base::mutant_switch!(Bug);
