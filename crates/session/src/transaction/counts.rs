//! How reads of several records have gone.

use super::Together;

/// Reads of several records that a session has brought, by how they were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadCounts {
    /// Confirmed as they were first read.
    pub confirmed: u64,
    /// Confirmed after something had to be read again.
    pub read_again: u64,
    /// Brought by a transaction.
    pub transacted: u64,
}

impl ReadCounts {
    /// Something has ended well.
    pub(crate) fn note(&mut self, together: &Together) {
        if let Together::Reading(reading) = together {
            match reading.went() {
                (_, true) => self.transacted += 1,
                (true, false) => self.read_again += 1,
                (false, false) => self.confirmed += 1,
            }
        }
    }
}
