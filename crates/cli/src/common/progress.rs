//! The text of a progress line.

use std::time::Duration;

use super::quantity::format_time;

/// `stored: 792 of 1600 MB (49 %), 51 MB/s, 15 s left`; without a total `stored: 792 MB, 51 MB/s`. Bytes are counted from the start, `elapsed` ago.
pub(crate) fn bytes_line(what: &str, done: u64, total: Option<u64>, elapsed: Duration) -> String {
    let megabytes = |bytes: u64| bytes as f64 / 1e6;
    let seconds = elapsed.as_secs_f64();
    let rate = if seconds > 0.0 { megabytes(done) / seconds } else { 0.0 };
    let Some(total) = total.filter(|total| *total >= done && *total > 0) else {
        return format!("{what}: {:.0} MB, {rate:.0} MB/s", megabytes(done));
    };
    let percent = done as f64 / total as f64 * 100.0;
    let line = format!(
        "{what}: {:.0} of {:.0} MB ({percent:.0} %), {rate:.0} MB/s",
        megabytes(done),
        megabytes(total)
    );
    match time_left(done, total, elapsed) {
        Some(left) => format!("{line}, {} left", format_time(left)),
        None => line,
    }
}

/// The time for the rest at the speed so far, in whole seconds, at least one; `None`: nothing is done yet.
pub(crate) fn time_left(done: u64, total: u64, elapsed: Duration) -> Option<Duration> {
    let seconds = elapsed.as_secs_f64() * total.saturating_sub(done) as f64 / done as f64;
    // A longer time says nothing.
    (done > 0 && seconds < 1e7).then(|| Duration::from_secs(seconds.ceil().max(1.0) as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_has_total_percent_and_time_left_if_the_total_is_known() {
        let seconds = Duration::from_secs;
        let line = |done, total, elapsed| bytes_line("stored", done, total, seconds(elapsed));
        assert_eq!(line(792_000_000, None, 16), "stored: 792 MB, 50 MB/s");
        assert_eq!(
            line(400_000_000, Some(1_600_000_000), 8),
            "stored: 400 of 1600 MB (25 %), 50 MB/s, 24 s left"
        );
        assert_eq!(line(0, Some(1_000_000), 2), "stored: 0 of 1 MB (0 %), 0 MB/s");
        // A file that grew has no total any more.
        assert_eq!(line(2_000_000, Some(1_000_000), 2), "stored: 2 MB, 1 MB/s");
        assert_eq!(time_left(1, u64::MAX, seconds(1)), None);
        assert_eq!(time_left(10, 10, seconds(9)), Some(seconds(1)));
    }
}
