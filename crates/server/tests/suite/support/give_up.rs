//! The only time limit in tests of real processes.

use std::time::Duration;

/// A test waits for a state, and gives up after this: far longer than the slowest machine needs.
/// Nothing shorter ends a wait, so no test fails because something was slow.
pub(crate) const GIVE_UP_AFTER: Duration = Duration::from_secs(5 * 60);
