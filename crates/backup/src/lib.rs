//! Backups: keyspaces at one time, in a folder of files; either full, or the changes since an
//! earlier backup.
//!
//! ```text
//!   cluster ── snapshot ──> take ──> parts, one for each partition ──> manifest, written last
//!                                        │ unchanged items: in the base
//!   cluster <── restore <── check <─────┘
//! ```
//!
//! A folder becomes a backup when its manifest is written. This happens after all parts are on the
//! disk, and the manifest has the length and checksum of every part. `docs/formats/backup.md` has
//! the bytes.

mod check;
mod create;
mod error;
mod files;
pub mod format;
mod restore;

pub use check::{Chain, check};
pub use create::{BackupTotals, Target, create, read_all};
pub use error::BackupError;
pub use restore::{RestoreTotals, begin, finish, is_free, restore};

/// The progress of a backup or restore.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Number of records and blobs.
    pub records: u64,
    /// Bytes of their contents.
    pub bytes: u64,
}
