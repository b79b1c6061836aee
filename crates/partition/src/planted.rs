//! Bugs of partitions, of their replication and of their instance that a test can switch on, to show that the simulator finds
//! them. A release build without debug assertions has none; its checks are constants.

/// A bug to switch on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// The decision of a transaction is acted on before it is durable.
    DecisionSeenUnflushed,
    /// A prepared part that is not durable counts at a coordinator whose log may survive without it.
    UnsyncedPreparedSent,
    /// A repeated write is evaluated again, without a look into the session table.
    SessionTableNotChecked,
    /// A write is answered before its entry is durable.
    AnswersBeforeFlush,
    /// A write is evaluated over committed data and does not see appended entries.
    OverlayIgnored,
    /// Reads and refused writes do not wait for the entries that they depend on.
    ReadsUncommitted,
    /// A session drops an outcome that it must still have.
    OutcomeDroppedEarly,
    /// A start does not restore the sessions.
    SessionsNotRestoredAtStart,
    /// Waits for a record are not checked when the record changes.
    WaitsNotChecked,
    /// An update lock that ends with a change of its record is not given to the next request.
    UpdateLockNotPassed,
    /// An update lock ends although a transaction is about to change its record.
    UpdateLockIgnoresIntents,
    /// A request is accepted whatever epoch it names.
    EpochNotChecked,
    /// The primary answers before the in-sync replicas have the entry.
    AnswersBeforeReplication,
    /// Reads and answers do not check whether the leases are valid.
    LeaseNotChecked,
    /// A primary uses the lease of one in-sync replica, whatever the others have granted.
    OneLeaseEnough,
    /// A promoted replica does not wait for the end of leases that it has granted.
    PromotedBeforeLeaseExpiry,
    /// A lease granted under a newer map than the holder's is used.
    NewerMapLeaseUsed,
    /// A replica accepts entries whose preceding entry it does not have.
    PrecedingEntryNotChecked,
    /// No clock starts above the timestamp bound that was synced.
    TimestampBoundIgnored,
    /// A message of an older epoch is accepted.
    OlderEpochAccepted,
    /// A replica keeps its own entry where the primary's differs.
    TruncationSkipped,
    /// A promoted replica starts with an empty session table.
    SessionTableEmptyAtPromotion,
    /// Writes are accepted and answered although there are too few copies.
    MinInSyncIgnored,
    /// A follower's admission is requested before it has all committed entries.
    AdmittedBeforeCaughtUp,
    /// A new primary answers before its epoch marker is committed.
    EpochMarkerNotAwaited,
    /// While a requested change is undecided, only the new set counts.
    UndecidedChangeIgnored,
    /// A replica applies the commit index to entries that were not matched in this epoch.
    CommitIndexNotMatched,
    /// A lease counts from the arrival of the grant.
    LeaseCountedFromArrival,
    /// A process does not count its start as its last grant.
    StartNotCountedAsGrant,
    /// A `Yield` is accepted whatever epoch it names.
    YieldEpochNotChecked,
    /// A split gives the children no session table.
    SessionTableNotSplit,
    /// A snapshot install leaves out the session table.
    SessionTableNotInstalled,
    /// Entries of an atomic batch are committed before the last entry of the batch.
    BatchCommittedInPieces,
    /// A batch of operations is answered once the entry of its first write is committed.
    BatchAnsweredEarly,
    /// A follower reports entries that are not durable to a group that recovers.
    VolatileLogReported,
    /// A timestamp may equal the one before.
    TimestampsTie,
    /// A timestamp that was seen does not count if it is of the same millisecond as the newest assigned.
    SeenTieIgnored,
    /// A new primary keeps the beginning of an atomic batch whose end it has not received.
    IncompleteBatchKept,
    /// The changes of a transaction are applied twice.
    TransactionAppliedTwice,
    /// A snapshot is read while entries may still be committed at its time.
    SnapshotReadBeforeCommit,
    /// Followers keep nothing for snapshots, and serve them all the same.
    FollowersKeepNoSnapshots,
    /// Of several snapshots only the versions that the newest can see are kept.
    VersionsDroppedEarly,
    /// Snapshots that no client renews are kept permanently.
    SnapshotLeasesNeverExpire,
    /// A member keeps snapshots that a new primary does not know.
    UnknownSnapshotsKept,
    /// A keyspace is dropped although transactions in it are in progress.
    KeyspaceNotDrained,
    /// A partition is split although units over several keys are not committed.
    SplitNotPrepared,
    /// A chunk accepts a write of a generation before a truncation that it knows.
    OldGenerationAccepted,
    /// A number in a chunk is transformed twice.
    TransformAppliedTwice,
    /// A blob that a transaction creates is identified in each partition by the evaluation time, not by the transaction's time.
    BlobIdFromEvaluationTime,
    /// Reads do not wait for the intents of transactions.
    IntentsIgnored,
    /// A write does not wait for the end of a read lock, and a record that has just changed is read-locked too.
    ReadLockIgnored,
    /// A read is confirmed although a transaction is about to change the record.
    ConfirmIgnoresIntents,
    /// Operations prepared before a split are applied in both children, including those for the other child's keys.
    PreparedAppliedInBothChildren,
    /// A partition accepts requests and atomic batches for any keys, including those of its siblings.
    HashRangeNotChecked,
    /// A region accepts keys behind its end.
    RegionEndIgnored,
    /// A start drops a stored region that was split since.
    SplitRegionDropped,
    /// A partition shows and counts its sibling's records until they are removed.
    SiblingRecordsCounted,
    /// A follower counts although entries of its log cannot be read.
    CorruptFollowerCounted,
    /// Corrupt entries are left out of the sent log.
    CorruptEntriesSkipped,
    /// A step breaks an invariant of a primary, which then does what it does in a release build.
    InvariantBroken,
    /// A primary with a broken invariant reports it, and serves on.
    BrokenServesOn,
    /// Corrupt entries are not requested from other members.
    CorruptionNotRepaired,
    /// Members send the digest of their applied state, whatever log index was requested.
    DigestIndexNotChecked,
    /// The log is compacted while a snapshot is read from it.
    LogCompactedDuringInstall,
    /// A full page of a scan leaves out the key behind it.
    ScanSkipsKey,
    /// The page of a range skips the key before which the page is full.
    RangeSkipsKey,
    /// A page of a range begins with the last key of the one before it.
    RangeRepeatsKey,
    /// A scan of a range in reverse ends with its first page.
    ReverseRangeEndsAtPage,
    /// A page of a scan starts with the last key of the previous page.
    ScanRepeatsKey,
    /// The history of a partition forgets that its oldest change was dropped.
    HistoryEndForgotten,
    /// A history does not notice that its reader knows a log that was lost.
    LostLogForgotten,
    /// A request that waits for a change is not answered by one.
    WatchesNotWoken,
    /// A page of changes that ends early says that everything was read.
    MarkOvertakesPage,
    /// The timestamp through which changes were read is above that of a transaction that may still commit.
    MarkOvertakesTransactions,
}

impl Bug {
    /// Bugs of groups of several members.
    pub const OF_GROUPS: [Bug; 22] = [
        Bug::AnswersBeforeReplication,
        Bug::LeaseNotChecked,
        Bug::PromotedBeforeLeaseExpiry,
        Bug::NewerMapLeaseUsed,
        Bug::PrecedingEntryNotChecked,
        Bug::TimestampBoundIgnored,
        Bug::OlderEpochAccepted,
        Bug::TruncationSkipped,
        Bug::SessionTableEmptyAtPromotion,
        Bug::MinInSyncIgnored,
        Bug::AdmittedBeforeCaughtUp,
        Bug::EpochMarkerNotAwaited,
        Bug::UndecidedChangeIgnored,
        Bug::CommitIndexNotMatched,
        Bug::LeaseCountedFromArrival,
        Bug::StartNotCountedAsGrant,
        Bug::YieldEpochNotChecked,
        Bug::CorruptFollowerCounted,
        Bug::CorruptEntriesSkipped,
        Bug::CorruptionNotRepaired,
        Bug::DigestIndexNotChecked,
        Bug::LogCompactedDuringInstall,
    ];

    /// Bugs of groups of several members that only clusters show. Tests of `batch.rs` and `clock.rs` show the first three.
    pub const OF_CLUSTERS: [Bug; 8] = [
        Bug::BatchAnsweredEarly,
        Bug::TimestampsTie,
        Bug::SeenTieIgnored,
        Bug::OneLeaseEnough,
        Bug::SessionTableNotInstalled,
        Bug::BatchCommittedInPieces,
        Bug::IncompleteBatchKept,
        Bug::VolatileLogReported,
    ];

    /// Bugs of transactions over several partitions.
    pub const OF_TRANSACTIONS: [Bug; 5] = [
        Bug::TransactionAppliedTwice,
        Bug::IntentsIgnored,
        Bug::ConfirmIgnoresIntents,
        Bug::KeyspaceNotDrained,
        Bug::ReadLockIgnored,
    ];

    /// Bugs of blobs and snapshots.
    pub const OF_BLOBS: [Bug; 8] = [
        Bug::SnapshotReadBeforeCommit,
        Bug::FollowersKeepNoSnapshots,
        Bug::VersionsDroppedEarly,
        Bug::SnapshotLeasesNeverExpire,
        Bug::UnknownSnapshotsKept,
        Bug::OldGenerationAccepted,
        Bug::TransformAppliedTwice,
        Bug::BlobIdFromEvaluationTime,
    ];

    /// Bugs of splits.
    pub const OF_SPLITS: [Bug; 3] =
        [Bug::SessionTableNotSplit, Bug::SiblingRecordsCounted, Bug::HashRangeNotChecked];

    /// Bugs that only scans of ordered keyspaces find.
    pub const OF_RANGES: [Bug; 3] = [Bug::RangeSkipsKey, Bug::RangeRepeatsKey, Bug::ReverseRangeEndsAtPage];

    /// Bugs of regions, which only clusters show.
    pub const OF_REGIONS: [Bug; 2] = [Bug::RegionEndIgnored, Bug::SplitRegionDropped];

    /// Bugs of readers that watch a keyspace.
    pub const OF_WATCHES: [Bug; 5] = [
        Bug::HistoryEndForgotten,
        Bug::LostLogForgotten,
        Bug::WatchesNotWoken,
        Bug::MarkOvertakesPage,
        Bug::MarkOvertakesTransactions,
    ];

    /// Bugs of scans.
    pub const OF_SCANS: [Bug; 2] = [Bug::ScanSkipsKey, Bug::ScanRepeatsKey];

    /// Bugs of single-copy partitions.
    pub const ALL: [Bug; 8] = [
        Bug::SessionTableNotChecked,
        Bug::AnswersBeforeFlush,
        Bug::OverlayIgnored,
        Bug::ReadsUncommitted,
        Bug::OutcomeDroppedEarly,
        Bug::SessionsNotRestoredAtStart,
        Bug::WaitsNotChecked,
        Bug::EpochNotChecked,
    ];
}

zerohop_base::mutant_switch!(Bug);
