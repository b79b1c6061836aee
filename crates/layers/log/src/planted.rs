//! Mutants that a test can switch on, to prove that the tests find them. A build without debug assertions has none: there the checks
//! are constants.

/// A mutant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// A repeated append is appended again.
    DuplicateAppended,
    /// An append whose sequence number is too high is accepted.
    SequenceGapAccepted,
    /// A producer with an older epoch goes on.
    EpochNotFenced,
    /// A trim to an offset inside a batch removes the whole batch.
    TrimTakesWholeBatch,
    /// A trim by size or age does not move the first offset.
    FirstOffsetStays,
    /// A reader below the first offset gets the batches behind the gap.
    GapNotReported,
    /// A search by time compares the time of a batch, not the highest time up to it.
    TimesOutOfOrderMissed,
    /// A member of an older generation commits.
    OldGenerationCommits,
    /// A change of the members does not begin a generation.
    GenerationStays,
    /// The last partition of a member is the first one of the next member too.
    RangesOverlap,
    /// A repeated pop gets the next records.
    RepeatedPopMoves,
}

zerohop_base::mutant_switch!(Bug);
