//! The results of transactions, and of single operations on their records: the input of their
//! checker.

use std::fmt;

use zerohop_base::time::Time;
use zerohop_wire::ids::Timestamp;

use crate::cycles::{CheckedAction, Transaction, TransactionFate};
use crate::workload::blobs::is_mark;

/// A transaction, or an equivalent: a read of several records, an operation on one.
#[derive(Clone, Debug)]
pub struct TransactionRecord {
    /// The client.
    pub client: usize,
    /// Its actions on lists and registers, with their results; times are in microseconds.
    pub transaction: Transaction,
    /// Its version, if its client knows it.
    pub version: Option<Timestamp>,
    /// Lists that were read: the list, its last value, and its version.
    pub lists: Vec<(u64, u64, Timestamp)>,
    /// Blobs that it has observed or changed: the blob, and whether it exists.
    pub lives: Vec<(u64, BlobLife)>,
    /// If all accounts of a bank were read: the sum of their balances.
    pub sum: Option<i64>,
    /// Its deadline.
    pub deadline: Time,
    /// Its client went away.
    pub is_left: bool,
    /// The reason why it did not succeed.
    pub failure: Option<TransactionFailure>,
}

/// A blob of a name, by its creation time: the next blob of the name has a later one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlobLife {
    /// It existed.
    Seen(u64),
    /// It existed, by a listing, which does not say which one.
    Listed,
    /// The blob of that time is removed, if this succeeds, and there is none after it.
    Removed,
    /// The blob of that time is replaced by a later one, if there was one and this succeeds.
    Put,
    /// It was absent.
    Absent,
}

/// The reasons why a transaction may not succeed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransactionFailure {
    /// A record that it depends on had changed, or was absent.
    Conflict(String),
    /// Another cause, or its outcome is unknown.
    Other(String),
    /// It returned an impossible result.
    Impossible(String),
}

impl TransactionRecord {
    /// When it began.
    #[must_use]
    pub fn begin(&self) -> Time {
        Time(self.transaction.begin)
    }

    /// When its client learned of its end.
    #[must_use]
    pub fn end(&self) -> Option<Time> {
        self.transaction.end.map(Time)
    }
}

impl fmt::Display for TransactionRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Transaction { begin, end, fate, actions } = &self.transaction;
        write!(f, "c{} [{begin} .. ", self.client)?;
        match end {
            Some(end) => write!(f, "{end}]")?,
            None => f.write_str("]")?,
        }
        write!(f, " {fate:?}")?;
        if let Some(version) = self.version {
            write!(f, " @{version}")?;
        }
        for action in actions {
            match action {
                CheckedAction::Append { key, value } => write!(f, "; {key:x} << {value}")?,
                CheckedAction::Write { key, value, .. } => write!(f, "; {key:x} := {value}")?,
                CheckedAction::Look { key, value, version } => write!(f, "; {key:x} = {value} @{version}")?,
                // There are as many of them as marks.
                CheckedAction::Read { key, values } if is_mark(*key) && values.is_empty() => {}
                CheckedAction::Read { key, values } => {
                    let from = values.len().saturating_sub(VALUES_SHOWN);
                    let more = if from > 0 { ".." } else { "" };
                    write!(f, "; {key:x} = [{more}{:?}] of {}", &values[from..], values.len())?;
                }
            }
        }
        for (blob, life) in &self.lives {
            write!(f, "; blob {blob} {life:?}")?;
        }
        if let Some(sum) = self.sum {
            write!(f, "; sum {sum}")?;
        }
        match &self.failure {
            Some(
                TransactionFailure::Conflict(why)
                | TransactionFailure::Other(why)
                | TransactionFailure::Impossible(why),
            ) => {
                write!(f, "; {why}")
            }
            None => Ok(()),
        }
    }
}

/// Number of a list's last values that are shown.
const VALUES_SHOWN: usize = 6;

impl TransactionRecord {
    /// A transaction that has begun, without a known end.
    #[must_use]
    pub fn begun(client: usize, now: Time, deadline: Time, actions: Vec<CheckedAction>) -> TransactionRecord {
        TransactionRecord {
            client,
            transaction: Transaction { begin: now.0, end: None, fate: TransactionFate::Unknown, actions },
            version: None,
            lists: Vec::new(),
            lives: Vec::new(),
            sum: None,
            deadline,
            is_left: false,
            failure: None,
        }
    }
}
