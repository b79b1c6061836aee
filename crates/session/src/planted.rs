//! Mutants that a test can switch on, to prove that the simulator finds them. A build without debug assertions, as users have it, has none: there
//! the checks are constants.

/// A mutant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// A retry of a write gets a new sequence number.
    RetriesAgain,
    /// A write that was sent and not answered is reported as not done.
    DoubtDenied,
    /// After a split, sequence numbers start again.
    LanesBeginAgain,
    /// The results of a transaction's operations are returned in the order of partitions.
    AnswersByPart,
    /// A read of several records has no confirming round.
    ReadsUnconfirmed,
    /// A record that has changed is not read again.
    ChangesUnread,
    /// A read lock counts as valid after its time is over.
    HeldTooLong,
}

impl Bug {
    /// All mutants except those of transactions.
    pub const ALL: [Bug; 3] = [Bug::RetriesAgain, Bug::DoubtDenied, Bug::LanesBeginAgain];

    /// The mutants of transactions and of reads of several records.
    pub const OF_TRANSACTIONS: [Bug; 4] =
        [Bug::AnswersByPart, Bug::ReadsUnconfirmed, Bug::ChangesUnread, Bug::HeldTooLong];
}

#[cfg(debug_assertions)]
mod chosen {
    use std::cell::Cell;

    use super::Bug;

    thread_local! {
        static PLANTED: Cell<Option<Bug>> = const { Cell::new(None) };
    }

    /// Switches on a mutant in the sessions of this thread, or none.
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
