//! Bugs of maps and their deltas that a test can switch on, to show that tests find them. A release build without debug assertions
//! has none; its checks are constants.

/// A bug to switch on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// A delta is applied whatever epoch it starts from.
    DeltaBaseNotChecked,
    /// A group that a delta changes before it splits the keyspace or the region is split as it was before.
    GroupLostInSplit,
}

impl Bug {
    /// All bugs.
    pub const ALL: [Bug; 2] = [Bug::DeltaBaseNotChecked, Bug::GroupLostInSplit];
}

zerohop_base::mutant_switch!(Bug);
