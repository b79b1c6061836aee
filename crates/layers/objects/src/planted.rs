//! Mutants that a test can switch on, to prove that the tests find them. A build without debug assertions has none: there the checks
//! are constants.

/// A mutant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// A replaced object does not release its set.
    ReplacedNotReleased,
    /// A copy does not count as a reference.
    CopyNotCounted,
    /// A set without references is deleted at once.
    NoGrace,
    /// The time of grace of a set that an open transaction has released is over at its commit.
    GraceFromDecision,
    /// The sweep deletes bodies of a pending set before the transaction that ends the set.
    SweepDeletesFirst,
    /// A completion does not stop uploads of parts.
    PartsNotFrozen,
    /// The bodies of parts that a completion leaves out stay.
    UnlistedPartsStay,
    /// The sweep of left-out parts removes a set that has died meanwhile.
    DyingSetForgotten,
    /// A listing continues behind the last key that it has scanned, not behind the last that it reported.
    ListingSkips,
    /// An aborted upload does not release the sources of its copied parts.
    CopiedPartsNotReleased,
    /// A put into a bucket under removal leaves the removal valid.
    RemovalNotInterrupted,
    /// A write into a bucket with suspended versioning keeps the version `null` that it should replace.
    NullVersionStays,
    /// The removal of a version does not release its set.
    RemovedVersionNotReleased,
    /// A version that becomes the current one stays among the older ones.
    PromotedVersionStays,
    /// A listing of versions does not begin a name again after another client removed one of its versions.
    BrokenListOfVersionsShown,
    /// The removal of an expired object does not look whether it was replaced.
    ReplacedObjectExpires,
    /// A lifecycle rule keeps one older version fewer than it says.
    NewerVersionsMiscounted,
    /// The removal of an older version does not confirm that the newer ones, which are to stay, still exist.
    NewerVersionsNotConfirmed,
}

zerohop_base::mutant_switch!(Bug);
