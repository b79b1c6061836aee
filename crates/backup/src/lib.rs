//! Backups: keyspaces as they were at one time, in a folder of files; whole, or what has changed since an earlier one.
//!
//! ```text
//!   cluster ── snapshot ──> take ──> parts, one for each partition ──> manifest, written last
//!                                       │ kept: stands in the backup before
//!   cluster <── restore <── check <─────┘
//! ```
//!
//! A folder is a backup once its manifest is there, and not before: it names every part with length and checksum, and is
//! written when all of them are on the disk. `docs/formats/backup.md` has the bytes.

mod check;
mod create;
mod error;
mod files;
pub mod format;
mod restore;

pub use check::{Chain, check};
pub use create::{BackupTotals, Target, read_all, take};
pub use error::BackupError;
pub use restore::{RestoreTotals, begin, finish, is_free, restore};

/// How far it has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Records and blobs.
    pub records: u64,
    /// Bytes of their contents.
    pub bytes: u64,
}
