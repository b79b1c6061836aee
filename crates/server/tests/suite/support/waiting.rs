//! Waiting for a state.

use std::fmt::Debug;
use std::time::{Duration, Instant};

use super::give_up::GIVE_UP_AFTER;

/// The pause between two checks.
const PAUSE: Duration = Duration::from_millis(20);

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
        std::thread::sleep(PAUSE);
    }
}
