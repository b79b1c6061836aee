//! Why a transaction is aborted.

/// Why a transaction is aborted: what its client is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// Something that the client has read has another version now.
    ReadChanged,
    /// A condition that an operation declares does not hold.
    ConditionFailed,
    /// A partition does not hold all the items that it was asked for: the client's map is older than a split.
    Misplaced,
    /// What was staged has expired.
    StagedGone,
    /// A limit of a partition is reached.
    Overloaded,
    /// It was not decided in time.
    TimedOut,
    /// Somebody asked for it when the decider did not know it (any more): nothing was done, and nothing will be.
    Unknown,
    /// It is larger than a limit.
    TooLong,
    /// It contradicts itself.
    Malformed,
    /// A partition's clock is too far ahead of the decider's.
    ClockAhead,
}

impl Reason {
    /// All of them.
    pub const ALL: [Reason; 10] = [
        Reason::ReadChanged,
        Reason::ConditionFailed,
        Reason::Misplaced,
        Reason::StagedGone,
        Reason::Overloaded,
        Reason::TimedOut,
        Reason::Unknown,
        Reason::TooLong,
        Reason::Malformed,
        Reason::ClockAhead,
    ];

    /// As it travels: from 1, in the order above.
    #[must_use]
    pub const fn number(self) -> u8 {
        self as u8 + 1
    }

    /// The reason of a number.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Reason> {
        Reason::ALL.get(usize::from(number).checked_sub(1)?).copied()
    }
}

/// A refusal, and what it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Why.
    pub reason: Reason,
    /// Which item of the part, from 0; [`Refusal::NO_ITEM`] if none in particular.
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
