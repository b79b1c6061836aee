//! Files that are not as they were stored.

use serde::Serialize;

/// A file that is not as it was stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Fault {
    pub(crate) path: String,
    pub(crate) what: String,
}
