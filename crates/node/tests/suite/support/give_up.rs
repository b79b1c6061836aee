//! The one limit of time in tests of real processes.

use std::time::Duration;

/// A test waits for a state, and gives up after this: far longer than the slowest machine takes. No test fails because something took
/// long, so nothing shorter than this ends a wait.
pub(crate) const GIVE_UP_AFTER: Duration = Duration::from_secs(5 * 60);
