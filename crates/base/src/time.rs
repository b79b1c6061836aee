//! Monotonic time, as an argument.

/// Microseconds on a monotonic clock, since a start that the caller chooses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub u64);

impl Time {
    /// Later than every other time.
    pub const NEVER: Self = Self(u64::MAX);

    /// The time `us` microseconds later, at most [`Time::NEVER`].
    #[must_use]
    pub const fn after_us(self, us: u64) -> Self {
        Self(self.0.saturating_add(us))
    }

    /// The time `ms` milliseconds later, at most [`Time::NEVER`].
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

#[cfg(test)]
mod tests {
    use super::Time;

    #[test]
    fn times_saturate_at_both_ends() {
        assert_eq!(Time(5).after_ms(2), Time(2005));
        assert_eq!(Time(5).after_us(u64::MAX), Time::NEVER);
        assert_eq!(Time(5).after_ms(u64::MAX), Time::NEVER);
        assert_eq!((Time(7).since_us(Time(5)), Time(5).since_us(Time(7))), (2, 0));
    }
}
