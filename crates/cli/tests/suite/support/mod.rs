//! Shared code of all tests of the program: starting and ending it, its ports and folders, and
//! waiting.

pub(crate) mod disk;
pub(crate) mod folder;
#[path = "../../../../server/tests/suite/support/give_up.rs"]
pub(crate) mod give_up;
pub(crate) mod patience;
#[path = "../../../../server/tests/suite/support/ports.rs"]
pub(crate) mod ports;
pub(crate) mod process;
pub(crate) mod report;
pub(crate) mod serving;
pub(crate) mod terminal;
#[path = "../../../../server/tests/suite/support/waiting.rs"]
pub(crate) mod waiting;

pub(crate) use self::folder::folder;
pub(crate) use self::give_up::GIVE_UP_AFTER;
pub(crate) use self::waiting::wait_for;

/// Reports that a test cannot run here. `cargo xtask test` counts it as skipped, and in CI as
/// failed (`xtask/src/runner/job.rs` reads the line).
pub(crate) fn not_run(reason: &str) {
    eprintln!("not run: {reason}");
}
