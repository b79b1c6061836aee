//! What came of transactions, and of single operations on what they are about: what their checker looks at.

use std::fmt;

use zerohop_base::time::Time;
use zerohop_wire::ids::Timestamp;

use crate::check::cycles::{CheckedAction, Transaction, TransactionFate};
use crate::workload::blobs::is_mark;

/// One transaction, or something that is as good as one: a read of several records, an operation on one.
#[derive(Clone, Debug)]
pub struct TransactionRecord {
    /// Whose.
    pub client: usize,
    /// Its actions, with what they brought, as far as they are on lists and registers; times are in microseconds.
    pub transaction: Transaction,
    /// Its version, if its client was told one.
    pub version: Option<Timestamp>,
    /// Of lists that were read: which, its last value, and its version.
    pub lists: Vec<(u64, u64, Timestamp)>,
    /// What it has shown of blobs, or done to them: which, and whether there is one.
    pub lives: Vec<(u64, BlobLife)>,
    /// If all accounts of a bank were read: what they hold together.
    pub sum: Option<i64>,
    /// When it had to have ended.
    pub deadline: Time,
    /// Its client went away.
    pub is_left: bool,
    /// How it ended otherwise than well.
    pub trouble: Option<TransactionTrouble>,
}

/// A blob of a name, by the time of its creation: the next of the name has a later one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlobLife {
    /// It was there.
    Seen(u64),
    /// It goes, if this is done.
    Ended(u64),
    /// There was none.
    Absent,
}

/// How a transaction can end otherwise than well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransactionTrouble {
    /// What it rested on had changed, or was not there.
    Conflict(String),
    /// Something else stood in its way, or its end is not known.
    Other(String),
    /// It brought something that nothing could have brought.
    Strange(String),
}

impl TransactionRecord {
    /// When it began.
    #[must_use]
    pub fn begin(&self) -> Time {
        Time(self.transaction.begin)
    }

    /// When its client knew of its end.
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
        match &self.trouble {
            Some(
                TransactionTrouble::Conflict(why)
                | TransactionTrouble::Other(why)
                | TransactionTrouble::Strange(why),
            ) => {
                write!(f, "; {why}")
            }
            None => Ok(()),
        }
    }
}

/// Of a list, so many of its last values are shown.
const VALUES_SHOWN: usize = 6;

impl TransactionRecord {
    /// One that has begun, and of whose end nothing is known.
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
            trouble: None,
        }
    }
}
