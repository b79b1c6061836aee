//! The clock of a manager, as an argument.

/// Microseconds on a monotonic clock, since a start of the caller's choosing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub u64);

impl Time {
    /// Later than every other time.
    pub const NEVER: Self = Self(u64::MAX);

    /// So many microseconds later.
    #[must_use]
    pub const fn after_us(self, us: u64) -> Self {
        Self(self.0.saturating_add(us))
    }

    /// So many milliseconds later.
    #[must_use]
    pub const fn after_ms(self, ms: u64) -> Self {
        self.after_us(ms.saturating_mul(1000))
    }

    /// Microseconds since `earlier`, 0 if that is later.
    #[must_use]
    pub const fn since_us(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}
