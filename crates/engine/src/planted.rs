//! Bugs that can be planted, so that a test can show that the tests find them. A build
//! without debug assertions, as users have it, has none: there the checks are constants.

/// A bug to plant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// The journal says that a batch is durable without having synced it.
    MissingFlush,
    /// A payload that comes from disk is returned without a look at its checksum.
    SkippedChecksum,
    /// Recovery cuts one good entry off with a torn tail.
    TailCutTooFar,
    /// Compaction gives its copy the name before what it left out is known to be dead for good.
    NameTooEarly,
    /// Compaction drops what an upper layer would read after a crash.
    StateForgotten,
    /// A removal goes though an older segment still holds what it removed.
    RemovalDropped,
    /// A recovery takes for durable what only the system's cache may hold.
    CacheBelieved,
    /// A recovery leaves the beginning of a unit whose end is lost.
    UnitNotCut,
    /// A split lets go of the parent before the children are durable.
    ChildNotSynced,
    /// A split gives what is not committed to one child only.
    TailOfOneChild,
    /// Nothing says of a log that is being taken from another that it is not whole.
    HalfTakenKept,
    /// What the journal says of the seed by which a partition's keys are hashed is not heard.
    SeedUnheard,
}

impl Bug {
    /// Those that random histories of one engine find.
    pub const ALL: [Bug; 10] = [
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
    ];

    /// Those of logs that go from one engine to another.
    pub const OF_TAKING: [Bug; 1] = [Bug::HalfTakenKept];

    /// Those that only a walk through keys shows which goes on in another engine.
    pub const OF_WALKS: [Bug; 1] = [Bug::SeedUnheard];
}

#[cfg(debug_assertions)]
mod chosen {
    use std::cell::Cell;

    use super::Bug;

    thread_local! {
        static PLANTED: Cell<Option<Bug>> = const { Cell::new(None) };
    }

    /// Plants a bug in the engines of this thread, or none.
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
