//! Mutants that a test can switch on, to prove that the simulator finds them. A build without debug assertions, as users have it, has none: there
//! the checks are constants.

/// A mutant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// A retry of a write gets a new sequence number.
    RetryGetsNewNumber,
    /// A write that was sent and not answered is reported as not done.
    UnknownReportedNotDone,
    /// After a split, sequence numbers start again.
    NumbersRestartAfterSplit,
    /// The results of a transaction's operations are returned in the order of partitions.
    ResultsInPartitionOrder,
    /// A read of several records has no confirming round.
    ConfirmingRoundSkipped,
    /// A record that has changed is not read again.
    ChangedRecordNotReread,
    /// A read lock counts as valid after its time is over.
    ExpiredReadLockUsed,
    /// A scan continues in one child of each partition after a split.
    ScanSkipsChildren,
    /// A scan starts at the beginning of each child after a split.
    ScanCursorLost,
    /// A scan of a range upwards ends with the region in which it begins.
    RangeEndsAtRegion,
    /// A scan of a range downwards passes to the next region after one page of a region.
    ReverseLeavesRegionEarly,
    /// A range that ends just behind a separator is scanned without the region that the separator begins.
    SeparatorSkipped,
    /// After a split of its region, a scan of a range visits the last child in its direction only.
    RangeSkipsSibling,
    /// After a split of its region, a scan of a range begins each child from its start.
    RangeCursorLost,
    /// The renewal at every partition that fixes the time of a snapshot is left out.
    SnapshotNotFixed,
    /// An empty page ends a scan of a snapshot.
    SnapshotScanEndsEarly,
    /// Chunks of a blob in a snapshot are read as they are now.
    SnapshotOfTheMoment,
    /// The commit does not check records that the transaction has only read.
    OnlyReadNotChecked,
    /// The commit does not check records that the transaction has read and written.
    WrittenNotChecked,
    /// A read does not see what the transaction has written before.
    OwnWritesUnseen,
    /// A transaction that has only read is committed without the confirmation of what it has read.
    ReadsNotConfirmed,
    /// A repeated read asks the server again, and its version replaces the one that was read.
    RereadReplaces,
    /// The commit leaves out staged writes.
    StagedLeftOut,
    /// A read of several chunks of a blob has no confirming round.
    BlobReadUnconfirmed,
    /// A staged extension or put is published before its chunks are written.
    BlobPublishedEarly,
    /// The chunks of a blob are removed before its header.
    BlobChunksRemovedFirst,
    /// A repeated extension of a blob writes where the first attempt found the end.
    BlobExtendKeepsOffset,
    /// Staged contents that were bound to a blob stay under their staging name too, and may be bound or removed again.
    BlobContentsBoundTwice,
    /// A truncation changes the header of a blob, and leaves the bytes in its chunks.
    BlobTruncateKeepsBytes,
    /// The creation of a blob that exists counts as done.
    BlobCreationOverlooked,
    /// Attributes that are set for an absent blob count as set.
    BlobAttributesOfNothing,
    /// The next writer does not complete a truncation whose client is gone.
    BlobCutNotCompleted,
    /// Each request of a call gets the whole deadline of the call.
    CallDeadlineRestarts,
    /// The mark of a watch is the highest of its partitions.
    MarkOfOnePartition,
    /// After a split of its partition, a watch begins again from now on.
    WatchPositionLost,
    /// After a split of its partition, a watch follows one child only.
    WatchSkipsSibling,
}

impl Bug {
    /// All mutants except those of transactions.
    pub const ALL: [Bug; 3] =
        [Bug::RetryGetsNewNumber, Bug::UnknownReportedNotDone, Bug::NumbersRestartAfterSplit];

    /// The mutants of transactions and of reads of several records.
    pub const OF_TRANSACTIONS: [Bug; 4] = [
        Bug::ResultsInPartitionOrder,
        Bug::ConfirmingRoundSkipped,
        Bug::ChangedRecordNotReread,
        Bug::ExpiredReadLockUsed,
    ];

    /// The mutants of scans over several regions.
    pub const OF_REGIONS: [Bug; 3] =
        [Bug::RangeEndsAtRegion, Bug::ReverseLeavesRegionEarly, Bug::SeparatorSkipped];

    /// The mutants of scans over splits of regions.
    pub const OF_REGION_SPLITS: [Bug; 2] = [Bug::RangeSkipsSibling, Bug::RangeCursorLost];

    /// The mutants of watches.
    pub const OF_WATCHES: [Bug; 3] =
        [Bug::MarkOfOnePartition, Bug::WatchPositionLost, Bug::WatchSkipsSibling];

    /// The mutants of procedures.
    pub const OF_PROCEDURES: [Bug; 21] = [
        Bug::ScanSkipsChildren,
        Bug::ScanCursorLost,
        Bug::SnapshotNotFixed,
        Bug::SnapshotScanEndsEarly,
        Bug::SnapshotOfTheMoment,
        Bug::OnlyReadNotChecked,
        Bug::WrittenNotChecked,
        Bug::OwnWritesUnseen,
        Bug::ReadsNotConfirmed,
        Bug::RereadReplaces,
        Bug::StagedLeftOut,
        Bug::BlobReadUnconfirmed,
        Bug::BlobPublishedEarly,
        Bug::BlobChunksRemovedFirst,
        Bug::BlobExtendKeepsOffset,
        Bug::BlobContentsBoundTwice,
        Bug::BlobTruncateKeepsBytes,
        Bug::BlobCreationOverlooked,
        Bug::BlobAttributesOfNothing,
        Bug::BlobCutNotCompleted,
        Bug::CallDeadlineRestarts,
    ];
}

zerohop_base::mutant_switch!(Bug);
