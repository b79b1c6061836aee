//! Mutants that a test can switch on, to prove that the tests find them. A build without debug assertions has none: there the checks
//! are constants.

/// A mutant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// A commit checks only the records that it also writes.
    OnlyWrittenChecked,
    /// A commit checks nothing.
    NothingChecked,
}

zerohop_base::mutant_switch!(Bug);
