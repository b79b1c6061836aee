//! Bugs that can be planted, so that a test can show that the simulator finds them. A build
//! without debug assertions, as users have it, has none: there the checks are constants.

/// A bug to plant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// A write is sent again under a number of its own.
    RetriesAgain,
    /// A write that was sent and not answered is said not to have been done.
    DoubtDenied,
    /// After a split numbers begin again.
    LanesBeginAgain,
    /// What a transaction's operations brought is told in the order of partitions.
    AnswersByPart,
    /// Several records are read and not confirmed.
    ReadsUnconfirmed,
    /// What was found to be changed is not read again.
    ChangesUnread,
    /// What was held is believed to be so however long ago that was.
    HeldTooLong,
}

impl Bug {
    /// All but those of transactions.
    pub const ALL: [Bug; 3] = [Bug::RetriesAgain, Bug::DoubtDenied, Bug::LanesBeginAgain];

    /// Those of transactions and of reads of several records.
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

    /// Plants a bug in the sessions of this thread, or none.
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
