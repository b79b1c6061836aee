//! Bugs that can be planted, so that a test can show that the tests find them. Release builds, without debug assertions,
//! have none: there the checks are constants.

/// A bug to plant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// The journal reports a batch as durable without having synced it.
    MissingFlush,
    /// A payload from disk is returned without a check of its checksum.
    SkippedChecksum,
    /// Recovery truncates one valid entry with a torn tail.
    TailCutTooFar,
    /// Compaction gives its copy the name before the entries that it left out are known to be permanently dead.
    NameTooEarly,
    /// Compaction drops entries that an upper layer would read after a crash.
    StateForgotten,
    /// A removal is dropped though an older segment still holds the entries that it removed.
    RemovalDropped,
    /// A recovery considers data durable that may be only in the system's cache.
    CacheBelieved,
    /// A recovery leaves the beginning of an atomic batch whose end is lost.
    UnitNotCut,
    /// A split removes the parent before the children are durable.
    ChildNotSynced,
    /// A split gives uncommitted entries to one child only.
    TailOfOneChild,
    /// A partition with an incomplete snapshot install is not marked as incomplete.
    HalfTakenKept,
    /// The journal's record of the seed of a partition's key hash is ignored.
    SeedUnheard,
    /// A checkpoint counts dead entries that replaying the log over it counts too.
    ReplayCountsTwice,
    /// Removals that are truncated still count.
    CutRemovalCounted,
}

impl Bug {
    /// Bugs that random histories of one engine find.
    pub const ALL: [Bug; 12] = [
        Bug::MissingFlush,
        Bug::SkippedChecksum,
        Bug::TailCutTooFar,
        Bug::NameTooEarly,
        Bug::StateForgotten,
        Bug::RemovalDropped,
        Bug::CacheBelieved,
        Bug::UnitNotCut,
        Bug::ChildNotSynced,
        Bug::TailOfOneChild,
        Bug::ReplayCountsTwice,
        Bug::CutRemovalCounted,
    ];

    /// Bugs of snapshot installs from one engine to another.
    pub const OF_SNAPSHOT_INSTALL: [Bug; 1] = [Bug::HalfTakenKept];

    /// Bugs that only a scan shows that continues in another engine.
    pub const OF_WALKS: [Bug; 1] = [Bug::SeedUnheard];
}

zerohop_base::mutant_switch!(Bug);
