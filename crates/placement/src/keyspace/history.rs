//! The history of a keyspace: how long its changes are kept for readers that watch it.

use crate::limits::{HISTORY_KEPT_BYTES_MAX, HISTORY_KEPT_BYTES_MIN, HISTORY_KEPT_MS_MAX};

/// How long, and how many of, the changes of a keyspace are kept for readers that watch it. The default keeps none, and such a keyspace cannot be
/// watched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ChangeHistory {
    /// Milliseconds for which a change is kept; 0: none is.
    pub ms: u32,
    /// Bytes of the changes that each copy of a partition keeps at most, with their keys and values; the oldest go first. 0 if none are kept.
    pub bytes: u32,
}

impl ChangeHistory {
    /// No history: the keyspace cannot be watched.
    pub const NONE: ChangeHistory = ChangeHistory { ms: 0, bytes: 0 };

    /// The default bytes of a partition's changes, if only a time is given.
    pub const BYTES_DEFAULT: u32 = 4 << 20;

    /// A history of this time, with the default limit of its bytes.
    #[must_use]
    pub const fn of_ms(ms: u32) -> ChangeHistory {
        ChangeHistory { ms, bytes: if ms == 0 { 0 } else { ChangeHistory::BYTES_DEFAULT } }
    }

    /// Whether no change is kept.
    #[must_use]
    pub const fn is_none(self) -> bool {
        self.ms == 0
    }

    /// Whether both limits are within their range, or none is set.
    #[must_use]
    pub fn is_valid(self) -> bool {
        let is_kept = self.ms <= HISTORY_KEPT_MS_MAX
            && (HISTORY_KEPT_BYTES_MIN..=HISTORY_KEPT_BYTES_MAX).contains(&self.bytes);
        self == ChangeHistory::NONE || self.ms > 0 && is_kept
    }
}
