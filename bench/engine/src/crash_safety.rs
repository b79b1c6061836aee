//! What a store survives.

use serde::{Deserialize, Serialize};

/// The failures that a store survives, without a sync per operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum CrashSafe {
    /// A killed process can leave it corrupt, or without answered changes.
    None,
    /// All answered changes survive a killed process; a power cut can leave the store corrupt.
    Process,
    /// Also after a power cut it opens and is consistent, without the last unsynced changes.
    Power,
}
