//! Reasons for the abort of a transaction.

use crate::numbered;

numbered!(
    /// The detail of [`Failure::Aborted`](super::Failure::Aborted). Nothing of the transaction was done or will be done.
    AbortReason: u32 {
        /// A record that the client has read has another version now: read again, and decide again.
        ReadChanged = 1, "something that it had read was changed meanwhile: read it again, and decide again";
        /// A condition of an operation does not hold.
        ConditionFailed = 2, "a condition of one of its operations failed";
        /// The client's map is older than a split.
        Misplaced = 3, "a partition was asked for data of another partition: fetch the map, and send it again";
        /// Staged data has expired.
        StagedGone = 4, "the staged data of the transaction has expired: stage it again";
        /// A partition has reached a limit, or it has no disk space until compaction gives some back.
        Overloaded = 5, "a partition has too many pending transactions, or no disk space until compaction gives some back: try again \
            later";
        /// The transaction was not decided in time.
        TimedOut = 6, "it was not decided in time: a partition does not answer, or many transactions use the same records";
        /// The coordinator no longer knew the transaction.
        Unknown = 7, "its coordinator has failed and no longer knows it: send it again";
        /// The transaction exceeds a limit.
        TooLong = 8, "it is larger than a transaction may be: split it, or stage more of it";
        /// The transaction contradicts itself.
        Malformed = 9, "its parts and items contradict each other, or the map of its coordinator";
        /// A clock is wrong.
        ClockAhead = 10, "a partition's clock is too far ahead of its coordinator's: set the clocks right";
        /// A disk is full, the memory budget is used up, or the limit of file sizes of a node is too low for an entry.
        NoRoom = 11, "the disk or memory of a partition is full, or its node's limit of file sizes (`ulimit -f`) is too low. Run `zerohop \
            doctor`; then remove records, add space, or raise the limit";
    }
);

impl AbortReason {
    /// In [`Failure::Aborted`](super::Failure::Aborted): no particular part, or no particular item.
    pub const NONE: u32 = u32::MAX;

    /// Whether the same transaction may succeed as a new one.
    #[must_use]
    pub const fn is_passing(self) -> bool {
        matches!(self, Self::Misplaced | Self::StagedGone | Self::Overloaded | Self::TimedOut | Self::Unknown)
    }
}
