//! Counts of reads of several records, by the way they were done.

use super::Composite;

/// Completed reads of several records of a session, by the way they were done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadCounts {
    /// Read in one round under read locks with a time limit.
    pub read_locked: u64,
    /// Read in one round without the guarantee of one moment; the caller confirms them.
    pub unconfirmed: u64,
    /// Confirmed as they were first read.
    pub confirmed: u64,
    /// Confirmed after a part was read again.
    pub read_again: u64,
    /// Read by a transaction.
    pub transacted: u64,
}

/// The way in which a read was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CompositePath {
    ReadLocked,
    Unconfirmed,
    Confirmed,
    ReadAgain,
    Transacted,
}

impl ReadCounts {
    /// Counts a composite operation that has succeeded.
    pub(crate) fn count(&mut self, together: &Composite) {
        if let Composite::Reading(reading) = together {
            let count = match reading.path() {
                CompositePath::ReadLocked => &mut self.read_locked,
                CompositePath::Unconfirmed => &mut self.unconfirmed,
                CompositePath::Confirmed => &mut self.confirmed,
                CompositePath::ReadAgain => &mut self.read_again,
                CompositePath::Transacted => &mut self.transacted,
            };
            *count += 1;
        }
    }
}
