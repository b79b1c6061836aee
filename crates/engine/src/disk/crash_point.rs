//! Points in the work of an engine at which a crash leaves something for recovery to decide.

/// A point that the engine announces to its disk by [`super::Disk::reached`]. At each of them some files or names are
/// written and others are not, so that a crash there needs its own case of recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CrashPoint {
    /// The file of a checkpoint is created.
    CheckpointBegun,
    /// A page of the index is encoded for the checkpoint.
    CheckpointPage,
    /// All blocks of the checkpoint are written, and not synced.
    CheckpointWritten,
    /// The checkpoint has its name, which is not durable.
    CheckpointNamed,
    /// The checkpoint and its name are durable, and the older ones exist.
    CheckpointInstalled,
    /// An older checkpoint is removed.
    CheckpointRemoved,
    /// The open segment is sealed.
    SegmentSealed,
    /// The segments to be rewritten are chosen.
    CompactionBegun,
    /// Some entries are copied.
    CompactionCopied,
    /// The copy is written, and not synced.
    CompactionWritten,
    /// The copy has its name, which is not durable.
    CompactionNamed,
    /// The copy is durable, and replaces the segments in the log.
    CompactionSwapped,
    /// Some locations point to the copy.
    CompactionRedirected,
    /// A replaced segment is removed.
    SegmentRemoved,
    /// A journal file is begun.
    JournalBegun,
    /// The oldest journal file is removed.
    JournalRemoved,
    /// The recovery of a partition begins.
    RecoveryBegun,
    /// The recovery has loaded the newest checkpoint.
    RecoveryCheckpointLoaded,
    /// The recovery has read the log behind the checkpoint, and not truncated its torn end.
    RecoveryLogRead,
    /// The journal is read into the logs, and these are not synced.
    RecoveryJournalRead,
    /// A segment is copied into a partition that a split makes.
    SplitCopied,
    /// The children of a split are durable, and their parent exists.
    SplitDecided,
    /// A file of a dropped partition is removed.
    PartitionFileRemoved,
    /// A partition is marked as incomplete, and its snapshot install begins.
    InstallBegun,
    /// A run of a snapshot install is added.
    InstallRun,
    /// The mark of an incomplete partition is removed.
    InstallEnded,
}

impl CrashPoint {
    /// The crash points of checkpoints.
    pub const OF_CHECKPOINTS: [CrashPoint; 6] = [
        CrashPoint::CheckpointBegun,
        CrashPoint::CheckpointPage,
        CrashPoint::CheckpointWritten,
        CrashPoint::CheckpointNamed,
        CrashPoint::CheckpointInstalled,
        CrashPoint::CheckpointRemoved,
    ];

    /// The crash points of sealed segments and their compaction.
    pub const OF_COMPACTION: [CrashPoint; 8] = [
        CrashPoint::SegmentSealed,
        CrashPoint::CompactionBegun,
        CrashPoint::CompactionCopied,
        CrashPoint::CompactionWritten,
        CrashPoint::CompactionNamed,
        CrashPoint::CompactionSwapped,
        CrashPoint::CompactionRedirected,
        CrashPoint::SegmentRemoved,
    ];

    /// All of them, in the order of their declaration.
    pub const ALL: [CrashPoint; 26] = [
        CrashPoint::CheckpointBegun,
        CrashPoint::CheckpointPage,
        CrashPoint::CheckpointWritten,
        CrashPoint::CheckpointNamed,
        CrashPoint::CheckpointInstalled,
        CrashPoint::CheckpointRemoved,
        CrashPoint::SegmentSealed,
        CrashPoint::CompactionBegun,
        CrashPoint::CompactionCopied,
        CrashPoint::CompactionWritten,
        CrashPoint::CompactionNamed,
        CrashPoint::CompactionSwapped,
        CrashPoint::CompactionRedirected,
        CrashPoint::SegmentRemoved,
        CrashPoint::JournalBegun,
        CrashPoint::JournalRemoved,
        CrashPoint::RecoveryBegun,
        CrashPoint::RecoveryCheckpointLoaded,
        CrashPoint::RecoveryLogRead,
        CrashPoint::RecoveryJournalRead,
        CrashPoint::SplitCopied,
        CrashPoint::SplitDecided,
        CrashPoint::PartitionFileRemoved,
        CrashPoint::InstallBegun,
        CrashPoint::InstallRun,
        CrashPoint::InstallEnded,
    ];

    /// The crash points of recovery: an engine reaches them while it opens.
    pub const OF_RECOVERY: [CrashPoint; 4] = [
        CrashPoint::RecoveryBegun,
        CrashPoint::RecoveryCheckpointLoaded,
        CrashPoint::RecoveryLogRead,
        CrashPoint::RecoveryJournalRead,
    ];
}
