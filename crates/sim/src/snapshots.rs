//! What clients have seen of snapshots: what their checker looks at.

use zerohop_base::time::Time;

use crate::check::cycles::CheckedAction;

/// A snapshot that was opened.
#[derive(Clone, Debug)]
pub struct SnapshotHistory {
    /// Whose.
    pub client: usize,
    /// Its time: what has a later version is not in it.
    pub at: u64,
    /// When it was asked for.
    pub begin: Time,
    /// When it was open: what began later is not in it.
    pub end: Time,
    /// What was read in it, in the order of the answers.
    pub reads: Vec<SnapshotRead>,
}

/// One read of a snapshot.
#[derive(Clone, Debug)]
pub struct SnapshotRead {
    /// When it was answered.
    pub when: Time,
    /// What was read: another number for each record, and each blob.
    pub of: u64,
    /// What was there.
    pub found: SnapshotRecord,
}

/// A record, or a blob with its chunks, as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotRecord {
    /// Its version, or the latest of those of its chunks; zero: there was none.
    pub version: u64,
    /// What that is to the checker of transactions.
    pub actions: Vec<CheckedAction>,
    /// Of an account: of which bank, of how many accounts, and what it holds.
    pub account: Option<(u64, usize, i64)>,
    /// It is nothing that can be there: why.
    pub strange: Option<String>,
}

impl SnapshotRecord {
    /// There is nothing.
    #[must_use]
    pub fn nothing() -> SnapshotRecord {
        SnapshotRecord { version: 0, actions: Vec::new(), account: None, strange: None }
    }

    /// There is something that cannot be.
    #[must_use]
    pub fn strange(why: String) -> SnapshotRecord {
        SnapshotRecord { strange: Some(why), ..SnapshotRecord::nothing() }
    }
}
