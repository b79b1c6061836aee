//! Why a transaction is aborted.

use zerohop_wire::AbortReason;

/// Why a transaction is aborted, as reported to its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// A record that the client has read has another version now.
    ReadChanged,
    /// A condition that an operation declares does not hold.
    ConditionFailed,
    /// A partition does not own all the items in its part: the client's map is older than a split.
    Misplaced,
    /// Staged data has expired.
    StagedExpired,
    /// A limit of a partition is reached, or it lacks disk space that compaction gives back.
    Overloaded,
    /// The transaction was not decided in time.
    TimedOut,
    /// A participant queried it when the coordinator did not know it (any more): nothing was done, and nothing will be.
    Unknown,
    /// It is larger than a limit.
    TooLong,
    /// It contradicts itself.
    Malformed,
    /// A partition's clock is too far ahead of the coordinator's.
    ClockAhead,
    /// A partition's disk or memory is full.
    StorageFull,
}

impl Reason {
    /// All of them.
    pub const ALL: [Reason; 11] = [
        Reason::ReadChanged,
        Reason::ConditionFailed,
        Reason::Misplaced,
        Reason::StagedExpired,
        Reason::Overloaded,
        Reason::TimedOut,
        Reason::Unknown,
        Reason::TooLong,
        Reason::Malformed,
        Reason::ClockAhead,
        Reason::StorageFull,
    ];

    /// The encoded reason: from 1, in the order above.
    #[must_use]
    pub const fn number(self) -> u8 {
        self as u8 + 1
    }

    /// The reason with this number.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Reason> {
        Reason::ALL.get(usize::from(number).checked_sub(1)?).copied()
    }
}

impl From<Reason> for AbortReason {
    fn from(reason: Reason) -> AbortReason {
        match reason {
            Reason::ReadChanged => AbortReason::ReadChanged,
            Reason::ConditionFailed => AbortReason::ConditionFailed,
            Reason::Misplaced => AbortReason::Misplaced,
            Reason::StagedExpired => AbortReason::StagedGone,
            Reason::Overloaded => AbortReason::Overloaded,
            Reason::TimedOut => AbortReason::TimedOut,
            Reason::Unknown => AbortReason::Unknown,
            Reason::TooLong => AbortReason::TooLong,
            Reason::Malformed => AbortReason::Malformed,
            Reason::ClockAhead => AbortReason::ClockAhead,
            Reason::StorageFull => AbortReason::NoRoom,
        }
    }
}

/// A refusal: the reason, and the item that it concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The reason.
    pub reason: Reason,
    /// The item of the part, from 0; [`Refusal::NO_ITEM`] if none in particular.
    pub item: u32,
}

impl Refusal {
    /// About no item in particular.
    pub const NO_ITEM: u32 = u32::MAX;
}

impl From<Reason> for Refusal {
    fn from(reason: Reason) -> Refusal {
        Refusal { reason, item: Refusal::NO_ITEM }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn abort_reasons_have_same_number_in_all_crates() {
        for reason in Reason::ALL {
            assert_eq!(u32::from(reason.number()), AbortReason::from(reason).number());
        }
        assert_eq!((Reason::ALL.len(), Refusal::NO_ITEM), (AbortReason::ALL.len(), AbortReason::NONE));
    }
}
