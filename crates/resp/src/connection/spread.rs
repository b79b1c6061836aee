//! Whether the keys of one or more commands are in one partition.

use crate::PartitionPlace;

/// The partitions of some keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spread {
    /// All in one partition.
    One(PartitionPlace),
    /// In several.
    Several,
}

impl Spread {
    /// The partitions of both sets of keys together.
    pub(super) fn join(one: Option<Spread>, other: Option<Spread>) -> Option<Spread> {
        match (one, other) {
            (Some(one), Some(other)) if one != other => Some(Spread::Several),
            (one, other) => one.or(other),
        }
    }
}
