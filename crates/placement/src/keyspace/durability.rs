//! Durability: when a copy counts as stored.

use std::fmt;
use std::str::FromStr;

use crate::limits::INTERVAL_MS_MAX;

/// When a copy counts as stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Durability {
    /// In memory only; a restarted copy is empty.
    Memory,
    /// In memory, and on disk at most this many milliseconds later. A power failure of all copies loses the writes of that time.
    Interval {
        /// Milliseconds between flushes.
        ms: u32,
    },
    /// On disk before it is acknowledged.
    Sync,
}

impl Durability {
    /// The default. A tenth of a second means ten flushes a second, which any disk can do.
    pub const DEFAULT: Durability = Durability::Interval { ms: 100 };

    /// The name of the durability, without the interval.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Interval { .. } => "interval",
            Self::Sync => "sync",
        }
    }
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Interval { ms } => write!(f, "interval:{ms}ms"),
            Self::Memory | Self::Sync => f.write_str(self.name()),
        }
    }
}

impl FromStr for Durability {
    type Err = UnknownDurability;

    /// Parses `memory`, `sync`, `interval` (with the default interval), or an interval with a unit, as in `interval:50ms`, `interval:2s` and
    /// `interval:1m`.
    fn from_str(text: &str) -> Result<Durability, UnknownDurability> {
        match text {
            "memory" => Ok(Self::Memory),
            "sync" => Ok(Self::Sync),
            "interval" => Ok(Self::DEFAULT),
            _ => text
                .strip_prefix("interval:")
                .and_then(interval_ms)
                .map(|ms| Self::Interval { ms })
                .ok_or(UnknownDurability),
        }
    }
}

/// The milliseconds of digits with a unit.
fn interval_ms(text: &str) -> Option<u32> {
    let (digits, unit) = text.split_at(text.bytes().take_while(u8::is_ascii_digit).count());
    let factor = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        _ => return None,
    };
    digits.parse::<u32>().ok()?.checked_mul(factor)
}

/// The error for a text that is not a durability.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownDurability;

impl fmt::Display for UnknownDurability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "no such durability: use memory, sync, interval, or interval: with a whole number and ms, s or m behind it, from interval:1ms to \
             interval:{}s",
            INTERVAL_MS_MAX / 1_000
        )
    }
}

impl std::error::Error for UnknownDurability {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_read_back() {
        for durability in [Durability::Memory, Durability::Interval { ms: 50 }, Durability::Sync] {
            assert_eq!(durability.to_string().parse(), Ok(durability));
        }
        assert_eq!("interval".parse(), Ok(Durability::DEFAULT));
        for (text, ms) in
            [("interval:1ms", 1), ("interval:2s", 2_000), ("interval:60s", 60_000), ("interval:1m", 60_000)]
        {
            assert_eq!(text.parse(), Ok(Durability::Interval { ms }), "{text}");
        }
        for wrong in [
            "",
            "Sync",
            "interval:",
            "interval:ms",
            "interval:-1ms",
            "interval:5",
            "interval:99999999999ms",
            "interval:+5ms",
            "interval:5 s",
            "interval:99999999m",
            "interval:1h",
        ] {
            assert_eq!(wrong.parse::<Durability>(), Err(UnknownDurability), "{wrong}");
        }
        assert!(
            UnknownDurability
                .to_string()
                .ends_with("ms, s or m behind it, from interval:1ms to interval:60s")
        );
    }
}
