//! The clients' observations of snapshots: the input of their checker.

use zerohop_base::time::Time;

use crate::cycles::CheckedAction;

/// A snapshot that was opened.
#[derive(Clone, Debug)]
pub struct SnapshotHistory {
    /// The client.
    pub client: usize,
    /// Its timestamp: it has no later versions.
    pub at: u64,
    /// When it was requested.
    pub begin: Time,
    /// When it was open: what began later is not in it.
    pub end: Time,
    /// The reads in it, in the order of the answers.
    pub reads: Vec<SnapshotRead>,
    /// The versions that its reads, metadata and listings show, in the order of the answers.
    pub versions: Vec<SnapshotVersion>,
}

/// The version of a record, or of the header of a blob, in a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotVersion {
    /// When it was answered.
    pub when: Time,
    /// The number of the record or blob.
    pub of: u64,
    /// The version; zero if absent.
    pub version: u64,
}

/// One read of a snapshot.
#[derive(Clone, Debug)]
pub struct SnapshotRead {
    /// When it was answered.
    pub when: Time,
    /// The number of the record or blob.
    pub of: u64,
    /// The result.
    pub found: SnapshotRecord,
}

/// A record, or a blob with its chunks, as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotRecord {
    /// Its version, or the highest version of its chunks; zero if absent.
    pub version: u64,
    /// Its meaning for the checker of transactions.
    pub actions: Vec<CheckedAction>,
    /// For an account: the bank, its number of accounts, and the balance.
    pub account: Option<(u64, usize, i64)>,
    /// The reason why this result is impossible.
    pub impossible: Option<String>,
}

impl SnapshotRecord {
    /// An absent record.
    #[must_use]
    pub fn nothing() -> SnapshotRecord {
        SnapshotRecord { version: 0, actions: Vec::new(), account: None, impossible: None }
    }

    /// An impossible result.
    #[must_use]
    pub fn impossible(why: String) -> SnapshotRecord {
        SnapshotRecord { impossible: Some(why), ..SnapshotRecord::nothing() }
    }
}
