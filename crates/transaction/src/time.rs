//! The clock of waits, as an argument.

/// Microseconds on a monotonic clock, since a start of the caller's choosing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub u64);

impl Time {
    /// So many microseconds later.
    #[must_use]
    pub const fn after_us(self, us: u64) -> Self {
        Self(self.0.saturating_add(us))
    }
}
