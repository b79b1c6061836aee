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
    /// The sender of a snapshot install over a shared log leaves out the trim of a list.
    TrimNotSent,
    /// The end of a snapshot install into a shared log is acknowledged before it is durable.
    InstallEndNotSynced,
    /// The split of a partition in a shared log is acknowledged before it is durable.
    SplitNotSynced,
    /// The index goes on naming the corrupt original of an entry that was repaired.
    RepairedEntryNotNamed,
    /// The journal's record of the seed of a partition's key hash is ignored.
    KeyHashSeedIgnored,
    /// A checkpoint counts dead entries that replaying the log over it counts too.
    ReplayCountsTwice,
    /// Removals that are truncated still count.
    CutRemovalCounted,
    /// Compaction does not change the place of an entry that a list, a chunk or an older version names.
    PartPlaceNotMoved,
    /// A removal counts as dead once it is committed.
    RemovalCountedDead,
    /// Recovery takes the newest copy of an entry, though it may be a removal in place of contents.
    NewestCopyCounts,
    /// Compaction copies contents as they are that only keep older ones from coming back.
    ReplacedContentsCopied,
    /// Compaction frees segments whose entries are dead by what is committed, before that survives a crash.
    CommitsNotMarked,
    /// An entry that only a snapshot needs counts as dead.
    KeptCountedDead,
    /// Recovery does not count what the index refers to.
    RecoveredNotCounted,
    /// A checkpoint has no state of the upper layer.
    CheckpointStateLeftOut,
    /// A list is loaded from a checkpoint with the values that were trimmed off its first part.
    CheckpointForgetsTrim,
    /// Recovery reads nothing of the open segment behind the checkpoint.
    LogBehindCheckpointIgnored,
    /// Compaction drops the second part of a record of several.
    PartDropped,
    /// Compaction counts a segment that is mostly dead as all dead.
    MostlyDeadSegmentFreed,
    /// A copy of compaction gets its name before it is durable.
    CopyNamedUnsynced,
    /// Recovery keeps segments that a rewritten one replaces.
    ReplacedSegmentStays,
    /// A journal file is removed before the segments durably hold its entries.
    JournalRemovedEarly,
    /// A segment is written although the journal does not have a journal-first entry in it.
    JournalFirstIgnored,
    /// The order of the keys has no removed keys that a snapshot may still read.
    EndedKeyNotOrdered,
    /// The order of the keys has no records that begin with an append.
    AppendedKeyNotOrdered,
    /// A follower that is behind the recent entries gets one of them in place of the entry that it asks for.
    RecentEntriesWrap,
    /// Recovery of a shared log takes a gap before which entries were durable for the end of a partition's log.
    GapReadAsEnd,
    /// A flush of a shared log does not wait for the sync of its large stream.
    StreamSyncNotAwaited,
    /// Recovery of a shared log gives a partition entries of a log partition that was dropped.
    DroppedEntriesReplayed,
    /// Recovery of a shared log does not write down which bytes it could not read.
    UnreadableBytesComeBack,
    /// What a failed sync of a shared log may have lost is not written again.
    FailedSyncRepeated,
    /// The directory of a checkpoint round does not wait for the log.
    UnfinishedRoundUsed,
    /// Recovery of a shared log leaves out the first entry above a section.
    EntryAboveSectionDropped,
    /// Recovery of a shared log does not look for copies of compaction that are newer than a section.
    CopyBehindSectionIgnored,
    /// Compaction of a shared log takes a segment with entries that no checkpoint has.
    UncoveredEntryCompacted,
    /// Recovery of a shared log uses copies of compaction that are older than a section.
    CopyBeforeSectionUsed,
    /// A segment of a shared log is used again before what compaction has copied survives a crash.
    VictimFreedEarly,
    /// Compaction of a shared log leaves out a removal though another segment has an entry that it removed.
    RemovalLeftOut,
    /// Compaction of a shared log takes entries that a transfer needs.
    HoldIgnored,
    /// Compaction of a shared log does not count its copies as live.
    LiveBytesNotMoved,
    /// A round that recovery has read counts though it may be only in the system's cache.
    CachedRoundCountedDurable,
}

impl Bug {
    /// Bugs that random histories of one engine find.
    pub const ALL: [Bug; 15] = [
        Bug::EndedKeyNotOrdered,
        Bug::AppendedKeyNotOrdered,
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
        Bug::PartPlaceNotMoved,
    ];

    /// Bugs of checkpoints, compaction and recovery that clusters find: by restarts and by crashes at points of that work.
    pub const OF_RESTARTS: [Bug; 10] = [
        Bug::NeededEntriesCompacted,
        Bug::TombstoneDropped,
        Bug::CheckpointStateLeftOut,
        Bug::CheckpointForgetsTrim,
        Bug::LogBehindCheckpointIgnored,
        Bug::PartDropped,
        Bug::MostlyDeadSegmentFreed,
        Bug::CopyNamedUnsynced,
        Bug::ReplacedSegmentStays,
        Bug::JournalRemovedEarly,
    ];

    /// Bugs of the order in which entries of several partitions survive a crash.
    pub const OF_JOURNAL_FIRST: [Bug; 1] = [Bug::JournalFirstIgnored];

    /// Bugs of snapshot installs from one engine to another.
    pub const OF_SNAPSHOT_INSTALL: [Bug; 1] = [Bug::PartialInstallNotMarked];

    /// Those over a shared log.
    pub const OF_SHARED_INSTALL: [Bug; 3] =
        [Bug::PartialInstallNotMarked, Bug::TrimNotSent, Bug::InstallEndNotSynced];

    /// Bugs that only a reader of many committed entries by log index finds.
    pub const OF_FOLLOWERS: [Bug; 1] = [Bug::RecentEntriesWrap];
    /// Bugs of a shared log.
    pub const OF_SHARED_LOGS: [Bug; 14] = [
        Bug::GapReadAsEnd,
        Bug::StreamSyncNotAwaited,
        Bug::DroppedEntriesReplayed,
        Bug::UnreadableBytesComeBack,
        Bug::FailedSyncRepeated,
        Bug::UnfinishedRoundUsed,
        Bug::EntryAboveSectionDropped,
        Bug::CopyBehindSectionIgnored,
        Bug::UncoveredEntryCompacted,
        Bug::CopyBeforeSectionUsed,
        Bug::VictimFreedEarly,
        Bug::RemovalLeftOut,
        Bug::HoldIgnored,
        Bug::LiveBytesNotMoved,
    ];

    /// Bugs of stores over a shared log, which random histories of one engine find.
    pub const OF_STORES_OVER_SHARED_LOGS: [Bug; 20] = [
        Bug::NewestCopyCounts,
        Bug::ReplacedContentsCopied,
        Bug::CommitsNotMarked,
        Bug::RemovalCountedDead,
        Bug::KeptCountedDead,
        Bug::RecoveredNotCounted,
        Bug::PartPlaceNotMoved,
        Bug::UncoveredEntryCompacted,
        Bug::VictimFreedEarly,
        Bug::RemovalLeftOut,
        Bug::LiveBytesNotMoved,
        Bug::CheckpointStateLeftOut,
        Bug::CheckpointForgetsTrim,
        Bug::DroppedEntriesReplayed,
        Bug::UnfinishedRoundUsed,
        Bug::EntryAboveSectionDropped,
        Bug::CachedRoundCountedDurable,
        Bug::UncommittedTailInOneChild,
        Bug::SplitNotSynced,
        Bug::RepairedEntryNotNamed,
    ];

    /// Bugs that only a scan shows that continues in another engine.
    pub const OF_WALKS: [Bug; 1] = [Bug::KeyHashSeedIgnored];
}

zerohop_base::mutant_switch!(Bug);
