//! How reads of several records have gone.

use super::Composite;

/// Reads of several records that a session has brought, by how they were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadCounts {
    /// In one round, as nobody could change anything meanwhile.
    pub held: u64,
    /// In one round, without its being known that they are of one moment, for a caller who sees to that.
    pub looked: u64,
    /// Confirmed as they were first read.
    pub confirmed: u64,
    /// Confirmed after something had to be read again.
    pub read_again: u64,
    /// Brought by a transaction.
    pub transacted: u64,
}

/// How one of them has gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CompositePath {
    Held,
    Looked,
    Confirmed,
    ReadAgain,
    Transacted,
}

impl ReadCounts {
    /// Something has ended well.
    pub(crate) fn note(&mut self, together: &Composite) {
        if let Composite::Reading(reading) = together {
            let count = match reading.went() {
                CompositePath::Held => &mut self.held,
                CompositePath::Looked => &mut self.looked,
                CompositePath::Confirmed => &mut self.confirmed,
                CompositePath::ReadAgain => &mut self.read_again,
                CompositePath::Transacted => &mut self.transacted,
            };
            *count += 1;
        }
    }
}
