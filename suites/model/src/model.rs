//! The model: how much of it is tried, and which rules are followed.

use crate::bounds::Bounds;
use crate::rules::ReplicationRule;

/// See the crate.
#[derive(Clone, Debug)]
pub struct Model {
    /// How much of it is tried.
    pub bounds: Bounds,
}

impl Model {
    /// Whether a rule is followed.
    #[must_use]
    pub fn follows(&self, rule: ReplicationRule) -> bool {
        self.bounds.follows(rule)
    }
}
