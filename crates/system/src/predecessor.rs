//! A process that was just killed keeps its folder and its ports until the system has released its resources, which takes longer the more memory it
//! had. A process that starts in its place waits for that, but not for a process that serves.

use std::time::Duration;

use tracing::info;

use crate::clock::Stopwatch;

/// Time in which a process of some tens of gigabytes is released.
pub const EXIT_TIME_OUT: Duration = Duration::from_secs(3);

const PAUSE: Duration = Duration::from_millis(10);

/// Acquires a resource that a predecessor may still have, as soon as it is free, within [`EXIT_TIME_OUT`]. `what` names it for people.
///
/// # Errors
/// Those of the last attempt.
pub fn retry_until_released<T, E>(
    what: &dyn std::fmt::Display,
    is_in_use: impl Fn(&E) -> bool,
    mut take: impl FnMut() -> Result<T, E>,
) -> Result<T, E> {
    let waited = Stopwatch::start();
    let mut is_logged = false;
    loop {
        match take() {
            Err(error) if is_in_use(&error) && waited.elapsed() < EXIT_TIME_OUT => {
                if !std::mem::replace(&mut is_logged, true) {
                    info!("another process uses {what}: waiting up to {EXIT_TIME_OUT:?} for its end");
                }
                #[expect(
                    clippy::disallowed_methods,
                    reason = "the process waits here, and nothing serves yet"
                )]
                std::thread::sleep(PAUSE);
            }
            result => return result,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_locked_folder_is_waited_for() {
        let outcome = |answers: &[Result<u32, &'static str>]| {
            let mut answers = answers.iter().copied();
            let result = retry_until_released(&"it", |error| *error == "held", || answers.next().unwrap());
            (result, answers.count())
        };
        assert_eq!(outcome(&[Err("held"), Err("held"), Ok(7)]), (Ok(7), 0));
        assert_eq!(outcome(&[Err("held"), Err("broken"), Ok(7)]), (Err("broken"), 1));
    }

    #[test]
    fn wait_for_predecessor_is_bounded() {
        let waited = Stopwatch::start();
        assert_eq!(retry_until_released(&"it", |_| true, || Err::<(), _>("held")), Err("held"));
        assert!(waited.elapsed() >= EXIT_TIME_OUT, "{:?}", waited.elapsed());
    }
}
