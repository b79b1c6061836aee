//! Durability: when a copy counts as stored.

use std::fmt;
use std::str::FromStr;

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

    /// Parses `memory`, `sync`, `interval` (with the default interval), or `interval:50ms`.
    fn from_str(text: &str) -> Result<Durability, UnknownDurability> {
        match text {
            "memory" => Ok(Self::Memory),
            "sync" => Ok(Self::Sync),
            "interval" => Ok(Self::DEFAULT),
            _ => text
                .strip_prefix("interval:")
                .and_then(|rest| rest.strip_suffix("ms"))
                .and_then(|ms| ms.parse().ok())
                .map(|ms| Self::Interval { ms })
                .ok_or(UnknownDurability),
        }
    }
}

/// The error for a text that is not a durability.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownDurability;

impl fmt::Display for UnknownDurability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no such durability: use memory, interval, interval:50ms (any number), or sync")
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
        for wrong in
            ["", "Sync", "interval:", "interval:ms", "interval:-1ms", "interval:5", "interval:99999999999ms"]
        {
            assert_eq!(wrong.parse::<Durability>(), Err(UnknownDurability), "{wrong}");
        }
    }
}
