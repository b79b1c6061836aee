//! What one contender did in one round.

use serde::Serialize;

use crate::failure::Failure;
use crate::reading::Run;

/// The role of a contender's figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ContenderRole {
    /// The engine under test.
    Ours,
    /// A library to compare with.
    Peer,
    /// A reference that is no store: shown, but not compared with.
    Mark,
}

/// One contender in one round, and the output of its child.
pub(crate) struct Outcome<R = Run> {
    pub(crate) label: String,
    pub(crate) kind: ContenderRole,
    pub(crate) round: usize,
    pub(crate) result: Result<R, Failure>,
}
