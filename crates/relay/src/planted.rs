//! Mutants that a test can switch on, to prove that the simulator finds them. A build without debug assertions, as users have it, has none: there
//! the checks are constants.

/// A mutant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// Writes whose connection to another node was lost are sent again.
    LostWritesSentAgain,
    /// A write that was sent and not answered is reported as not done.
    UnknownReportedAsFailed,
    /// An outcome from elsewhere counts for the first unit of its queue.
    OutcomesByOrder,
    /// A unit runs though the unit before it was sent back.
    FollowerRuns,
    /// A unit runs here before earlier units of its queue that are queued.
    QueueOvertaken,
    /// A unit over several partitions whose outcome is unknown is run again.
    UnknownUnitRunAgain,
    /// The commit of a unit over several partitions does not check the records that it has read.
    FetchedRecordsUnchecked,
    /// The pages of a long reply show a later moment than its beginning.
    PagesOfLaterMoments,
    /// `EXEC` runs though a watched key has changed.
    WatchIgnored,
    /// A clean shutdown closes connections before their commands are answered.
    EndsUnanswered,
    /// A page of `KEYS`, `DBSIZE` or `SCAN` for a partition that has moved away counts as empty.
    MovedPageEmpty,
    /// A page of `KEYS`, `DBSIZE` or `SCAN` goes to the partition of its queue, which may be another one after a split.
    PageRoutedByQueue,
}

impl Bug {
    /// All mutants.
    pub const ALL: [Bug; 12] = [
        Bug::LostWritesSentAgain,
        Bug::UnknownReportedAsFailed,
        Bug::OutcomesByOrder,
        Bug::FollowerRuns,
        Bug::QueueOvertaken,
        Bug::UnknownUnitRunAgain,
        Bug::FetchedRecordsUnchecked,
        Bug::PagesOfLaterMoments,
        Bug::WatchIgnored,
        Bug::EndsUnanswered,
        Bug::MovedPageEmpty,
        Bug::PageRoutedByQueue,
    ];
}

zerohop_base::mutant_switch!(Bug);
