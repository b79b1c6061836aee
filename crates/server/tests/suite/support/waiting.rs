//! Waiting for a state.

use std::fmt::Debug;
use std::time::{Duration, Instant};

use super::give_up::GIVE_UP_AFTER;

/// The pauses between checks: a tenth of the time waited so far, within these limits. Most checks start
/// a program, and all cost the nodes work.
const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_millis(300);

/// Checks repeatedly until `is_so`, and returns what was seen then. On time-out it panics with what
/// was seen last.
#[expect(clippy::disallowed_methods, reason = "a test waits for another thread or process")]
pub(crate) fn wait_for<T: Debug>(what: &str, mut look: impl FnMut() -> T, is_so: impl Fn(&T) -> bool) -> T {
    let began = Instant::now();
    loop {
        let seen = look();
        if is_so(&seen) {
            return seen;
        }
        assert!(began.elapsed() < GIVE_UP_AFTER, "never came: {what}; this was seen last: {seen:#?}");
        std::thread::sleep((began.elapsed() / 10).clamp(PAUSE_MIN, PAUSE_MAX));
    }
}
