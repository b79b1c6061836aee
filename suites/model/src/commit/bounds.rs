//! How much of a commit is tried, and which rules are followed.

use super::rules::CommitRule;

/// One transaction over two participants and a coordinator.
#[derive(Clone, Copy, Debug)]
pub struct Commit {
    /// Attempts, at most.
    pub attempts: u8,
    /// `Prepare` entries of one participant, at most.
    pub entries: u8,
    /// Primaries that are replaced, of any group.
    pub failovers: u8,
    /// Reads of one record, or of both participants' records.
    pub reads: u8,
    /// A rule that no group follows.
    pub without: Option<CommitRule>,
}

impl Commit {
    /// Whether a rule is followed.
    #[must_use]
    pub fn follows(&self, rule: CommitRule) -> bool {
        self.without != Some(rule)
    }
}
