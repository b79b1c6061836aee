//! Whether the keys of a command, or of several, live in one partition.

use crate::PartitionPlace;

/// Where keys live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spread {
    /// All in one partition.
    One(PartitionPlace),
    /// In several.
    Several,
}

impl Spread {
    /// Those of one and those of the other.
    pub(super) fn join(one: Option<Spread>, other: Option<Spread>) -> Option<Spread> {
        match (one, other) {
            (Some(one), Some(other)) if one != other => Some(Spread::Several),
            (one, other) => one.or(other),
        }
    }
}
