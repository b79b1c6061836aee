//! What the terminals need of a database: it makes an attempt at a transaction, and says how that ended.

use std::fmt;

use tokio_postgres::error::SqlState;

use crate::inputs::Input;
use crate::keys::DistrictKey;

/// A connection to a database. Clones share it.
pub(crate) trait DatabaseConnection: Clone + 'static {
    /// Makes one attempt at a transaction, at this time. `payment` is a number that no other payment has.
    async fn attempt(&self, input: &Input, time: u64, payment: u64) -> Result<Outcome, TransactionError>;
}

/// What a committed transaction, or one that was rolled back, did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    Committed,
    /// New-Order with an unused item (clause 2.4.1.4).
    RolledBack,
    /// Delivery of an order in each of these districts.
    Delivered(Vec<DistrictKey>),
}

/// Why a transaction was not done.
#[derive(Debug)]
pub(crate) enum TransactionError {
    Client(zerohop_client::Error),
    Postgresql(tokio_postgres::Error),
    /// A row changed between the scan that found it and its read.
    Changed,
    /// A row that must exist is absent, or its bytes are no row.
    WrongRow(String),
}

impl From<zerohop_client::Error> for TransactionError {
    fn from(error: zerohop_client::Error) -> Self {
        TransactionError::Client(error)
    }
}

impl From<tokio_postgres::Error> for TransactionError {
    fn from(error: tokio_postgres::Error) -> Self {
        TransactionError::Postgresql(error)
    }
}

impl fmt::Display for TransactionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TransactionError::Client(error) => write!(f, "{error}"),
            TransactionError::Postgresql(error) => match error.as_db_error() {
                Some(answer) => write!(f, "PostgreSQL: {answer} ({})", answer.code().code()),
                None => write!(f, "PostgreSQL: {error}"),
            },
            TransactionError::Changed => f.write_str("a scanned row has changed"),
            TransactionError::WrongRow(what) => f.write_str(what),
        }
    }
}

impl TransactionError {
    /// Nothing was done, because others were in the way.
    pub(crate) fn is_conflict(&self) -> bool {
        match self {
            TransactionError::Client(error) => error.is_conflict(),
            TransactionError::Postgresql(error) => error.code().is_some_and(is_conflict),
            TransactionError::Changed => true,
            TransactionError::WrongRow(_) => false,
        }
    }

    /// The transaction may be done, or not.
    pub(crate) fn is_unknown(&self) -> bool {
        match self {
            TransactionError::Client(error) => error.is_unknown(),
            // Without an answer of the server it may have committed.
            TransactionError::Postgresql(error) => error.code().is_none(),
            TransactionError::Changed | TransactionError::WrongRow(_) => false,
        }
    }
}

/// A serialization failure or a deadlock: PostgreSQL has rolled the transaction back, and its documentation asks for another attempt.
fn is_conflict(state: &SqlState) -> bool {
    [SqlState::T_R_SERIALIZATION_FAILURE, SqlState::T_R_DEADLOCK_DETECTED].contains(state)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_serialization_failures_and_deadlocks_are_repeated() {
        let states = ["40001", "40P01", "23505", "57014"].map(|code| is_conflict(&SqlState::from_code(code)));
        assert_eq!(states, [true, true, false, false]);
    }
}
