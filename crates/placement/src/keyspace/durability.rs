//! When a copy counts as holding a write.

use std::fmt;
use std::str::FromStr;

/// When a copy counts as holding a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Durability {
    /// Held in memory only; a restarted copy is empty.
    Memory,
    /// Held in memory, and on disk at most so many milliseconds later. A power cut at all copies takes that away.
    Interval {
        /// Milliseconds between flushes.
        ms: u32,
    },
    /// On disk before it is acknowledged.
    Sync,
}

impl Durability {
    /// What a keyspace gets if nothing else is asked for. A tenth of a second costs ten flushes a second, which any
    /// disk has to spare.
    pub const DEFAULT: Durability = Durability::Interval { ms: 100 };

    /// Its kind in a word, without the interval.
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

    /// `memory`, `sync`, `interval` (the default one), or `interval:50ms`.
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

/// A text that names no durability.
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
