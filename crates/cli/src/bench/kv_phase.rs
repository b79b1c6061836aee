//! The kinds of operation that a benchmark runs one after another.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KvPhase {
    Insert,
    Lookup,
    Remove,
    /// Removes what may be left after a failure.
    CleanUp,
}

impl KvPhase {
    pub(super) fn name(self) -> &'static str {
        match self {
            KvPhase::Insert => "insert",
            KvPhase::Lookup => "lookup",
            KvPhase::Remove => "remove",
            KvPhase::CleanUp => "clean up",
        }
    }
}
