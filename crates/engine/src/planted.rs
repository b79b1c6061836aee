//! Bugs that can be planted, so that a test can show that the tests find them. Release builds, without debug assertions,
//! have none: there the checks are constants.

/// A bug to plant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// The journal reports a batch as durable without having synced it.
    JournalNotSynced,
    /// A payload from disk is returned without a check of its checksum.
    ChecksumNotChecked,
    /// Recovery truncates one valid entry with a torn tail.
    ValidEntryTruncated,
    /// Compaction gives its copy the name before the entries that it left out are known to be permanently dead.
    CompactedSegmentRenamedEarly,
    /// Compaction drops entries that an upper layer would read after a crash.
    NeededEntriesCompacted,
    /// A removal is dropped though an older segment still holds the entries that it removed.
    TombstoneDropped,
    /// A recovery considers data durable that may be only in the system's cache.
    CachedDataCountedDurable,
    /// A recovery leaves the beginning of an atomic batch whose end is lost.
    PartialBatchKept,
    /// A split removes the parent before the children are durable.
    ParentRemovedBeforeChildSync,
    /// A split gives uncommitted entries to one child only.
    UncommittedTailInOneChild,
    /// A partition with an incomplete snapshot install is not marked as incomplete.
    PartialInstallNotMarked,
    /// The journal's record of the seed of a partition's key hash is ignored.
    KeyHashSeedIgnored,
    /// A checkpoint counts dead entries that replaying the log over it counts too.
    ReplayCountsTwice,
    /// Removals that are truncated still count.
    CutRemovalCounted,
    /// Recovery of a shared log takes a gap before which entries were durable for the end of a partition's log.
    GapTakenForEnd,
    /// A flush of a shared log does not wait for the sync of its large stream.
    StreamSyncNotAwaited,
    /// Recovery of a shared log gives a partition entries of a log partition that was dropped.
    DroppedEntriesReplayed,
}

impl Bug {
    /// Bugs that random histories of one engine find.
    pub const ALL: [Bug; 12] = [
        Bug::JournalNotSynced,
        Bug::ChecksumNotChecked,
        Bug::ValidEntryTruncated,
        Bug::CompactedSegmentRenamedEarly,
        Bug::NeededEntriesCompacted,
        Bug::TombstoneDropped,
        Bug::CachedDataCountedDurable,
        Bug::PartialBatchKept,
        Bug::ParentRemovedBeforeChildSync,
        Bug::UncommittedTailInOneChild,
        Bug::ReplayCountsTwice,
        Bug::CutRemovalCounted,
    ];

    /// Bugs of snapshot installs from one engine to another.
    pub const OF_SNAPSHOT_INSTALL: [Bug; 1] = [Bug::PartialInstallNotMarked];

    /// Bugs of a shared log.
    pub const OF_SHARED_LOGS: [Bug; 3] =
        [Bug::GapTakenForEnd, Bug::StreamSyncNotAwaited, Bug::DroppedEntriesReplayed];

    /// Bugs that only a scan shows that continues in another engine.
    pub const OF_WALKS: [Bug; 1] = [Bug::KeyHashSeedIgnored];
}

zerohop_base::mutant_switch!(Bug);
