//! Why a transaction was aborted.

use crate::numbered::numbered;

numbered!(
    /// The detail of [`Failure::Aborted`](super::Failure::Aborted). Nothing of the transaction was done, nor will be.
    AbortReason: u32 {
        /// Something that the client has read has another version now: read again, and decide again.
        ReadChanged = 1, "something that it had read was changed meanwhile: read it again, and decide again";
        /// A condition that an operation declares does not hold.
        ConditionFailed = 2, "a condition that one of its operations declares does not hold";
        /// The client's map is older than a split.
        Misplaced = 3, "a partition was asked for what it does not hold: fetch the map, and send it again";
        /// What was staged has expired.
        StagedGone = 4, "what had been staged for it has expired: stage it again";
        /// A partition has reached a limit.
        Overloaded = 5, "a partition has too many transactions to deal with: try again later";
        /// It was not decided in time.
        TimedOut = 6, "it was not decided in time: a partition does not answer, or many want the same records";
        /// Whoever decides it did not know it any more.
        Unknown = 7, "its coordinator had failed and did not know it any more: send it again";
        /// It is larger than a limit.
        TooLong = 8, "it is larger than a transaction may be: split it, or stage more of it";
        /// It contradicts itself.
        Malformed = 9, "its parts and items contradict each other, or the map of whoever decides it";
        /// A clock is wrong.
        ClockAhead = 10, "a partition's clock is too far ahead of its coordinator's: set the clocks right";
        /// A disk, or the memory of what is in memory, is full.
        NoRoom = 11, "a partition's disk or memory is full: remove records, or add space";
    }
);

impl AbortReason {
    /// In [`Failure::Aborted`](super::Failure::Aborted): no part, or no item, in particular.
    pub const NONE: u32 = u32::MAX;

    /// Whether the same transaction, sent as a new one, may well succeed.
    #[must_use]
    pub const fn is_passing(self) -> bool {
        matches!(self, Self::Misplaced | Self::StagedGone | Self::Overloaded | Self::TimedOut | Self::Unknown)
    }
}
