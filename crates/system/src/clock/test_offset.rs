//! A time of day that tests set: `ZEROHOP_TEST_CLOCK` names a file with a number of milliseconds, possibly negative, to add to the system's time.
//! The file may change while the node runs, and may be absent: then nothing is added.

use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, Ordering};
use std::thread::Builder;
use std::time::Duration;

use tracing::warn;

/// The environment variable.
const VARIABLE: &str = "ZEROHOP_TEST_CLOCK";

/// Interval at which the file is read.
const CHECK_INTERVAL: Duration = Duration::from_millis(10);

static OFFSET_MS: AtomicI64 = AtomicI64::new(0);
static IS_SET: OnceLock<bool> = OnceLock::new();

/// The milliseconds to add to the time of day: 0, except in tests.
pub(super) fn offset_ms() -> i64 {
    if *IS_SET.get_or_init(begin) { OFFSET_MS.load(Ordering::Relaxed) } else { 0 }
}

/// Starts to read the file, if the variable names one.
fn begin() -> bool {
    let Some(file) = std::env::var_os(VARIABLE).filter(|file| !file.is_empty()).map(PathBuf::from) else {
        return false;
    };
    warn!(file = %file.display(), "{VARIABLE}: THIS IS A CLOCK FOR TESTS");
    read_offset(&file);
    let looks = Builder::new().name("zerohop-test-clock".to_owned()).spawn(move || {
        loop {
            std::thread::sleep(CHECK_INTERVAL);
            read_offset(&file);
        }
    });
    looks.is_ok()
}

fn read_offset(file: &std::path::Path) {
    let offset_ms = std::fs::read_to_string(file).ok().and_then(|text| text.trim().parse().ok());
    OFFSET_MS.store(offset_ms.unwrap_or(0), Ordering::Relaxed);
}
