//! Mutants that a test can switch on, to prove that the tests find them. A build without debug assertions has none: there the checks
//! are constants.

/// A mutant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// A pop leaves the entry of a message that it leases.
    LeasedEntryStays,
    /// A repeated pop gets further messages.
    RepeatedPopTakesMore,
    /// A repeated push is pushed again.
    RepeatedPushCounts,
    /// A settlement leaves its leases in what the consumer has.
    SettledLeaseStays,
    /// An acknowledgement behind the end of its lease counts.
    LapsedLeaseAcknowledged,
    /// A message of a name that was pushed before is pushed.
    NameNotChecked,
    /// A sweep removes names that still count.
    NameSweptEarly,
    /// A message of a group with others is ready at once.
    GroupOrderIgnored,
    /// The next message of a group does not become ready.
    GroupStops,
    /// A release begins the count of a message's leases again.
    TriesForgotten,
    /// A message whose lease was the last one is leased again.
    DeadLetterLeased,
    /// A delayed message is ready at once.
    DelayIgnored,
    /// An acknowledgement leaves the message's bytes.
    MessageBytesStay,
    /// A transaction may acknowledge what was acknowledged before.
    SettledAgainInTransaction,
    /// An extended lease leaves the entry of the old one.
    OldEntryStays,
    /// A pop without messages has looked at hints and drawn partitions only.
    OnlyDrawnLookedAt,
    /// A consumer that waits has looked at a partition before it has read the counts.
    LookedBeforeCounts,
}

zerohop_base::mutant_switch!(Bug);
