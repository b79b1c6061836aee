//! What the demo found, for people and as JSON.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

use super::limits::FAULTS_SHOWN_MAX;

/// The report. Sizes in bytes, times in seconds, rates in megabytes (10^6 bytes) a second.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Report {
    /// Whether everything was as it must be.
    pub(crate) ok: bool,
    pub(crate) folder: String,
    pub(crate) files: u64,
    pub(crate) bytes: u64,
    pub(crate) unreadable: u64,
    pub(crate) skipped_folders: u64,
    pub(crate) skipped_others: u64,
    pub(crate) instances: u64,
    pub(crate) partitions: u64,
    pub(crate) write_seconds: f64,
    pub(crate) write_mb_per_second: f64,
    pub(crate) reopen_seconds: f64,
    pub(crate) read_seconds: f64,
    pub(crate) read_mb_per_second: f64,
    /// Files that were read back right.
    pub(crate) read_whole: u64,
    /// Whether the child was ended by SIGKILL.
    pub(crate) killed: bool,
    /// Files that the child had acknowledged, and their bytes.
    pub(crate) acknowledged: u64,
    pub(crate) acknowledged_bytes: u64,
    pub(crate) recovery_seconds: f64,
    /// Entries that were read to recover: from checkpoints, logs and journals.
    pub(crate) recovered_entries: u64,
    pub(crate) torn_bytes: u64,
    /// Acknowledged files that are whole after recovery.
    pub(crate) verified: u64,
    /// Files that were there, whole, without having been acknowledged.
    pub(crate) unacknowledged_whole: u64,
    /// Parts of files that were not complete when the child was killed.
    pub(crate) leftover_parts: u64,
    /// Files that are lost or hold something wrong.
    pub(crate) faulty: u64,
    /// Which, up to a thousand of them.
    pub(crate) faults: Vec<Fault>,
    /// Damage on disk that recovery found.
    pub(crate) damage: Vec<String>,
    /// Where the data is, if it was kept.
    pub(crate) data: Option<String>,
}

/// A file that is not as it was stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Fault {
    pub(crate) path: String,
    pub(crate) what: String,
}

impl Report {
    /// Whether everything is as it must be, from what was counted.
    pub(super) fn judge(&mut self) {
        self.ok = self.faulty == 0
            && self.damage.is_empty()
            && self.killed
            && self.read_whole == self.files
            && self.verified == self.acknowledged;
    }
}

/// Megabytes a second; 0 if there is nothing to speak of.
pub(super) fn rate(bytes: u64, took: Duration) -> f64 {
    if took.is_zero() { 0.0 } else { bytes as f64 / 1e6 / took.as_secs_f64() }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let megabytes = |bytes: u64| bytes as f64 / 1e6;
        writeln!(
            f,
            "{} files, {:.1} MB below {}{}",
            self.files,
            megabytes(self.bytes),
            self.folder,
            Skipped(self)
        )?;
        writeln!(f)?;
        writeln!(
            f,
            "  store    {:>8.1} MB/s   {:.2} s, each acknowledged once synced; {} instances, {} partitions",
            self.write_mb_per_second, self.write_seconds, self.instances, self.partitions
        )?;
        writeln!(
            f,
            "  read     {:>8.1} MB/s   {:.2} s, after closing and opening ({:.0} ms); {} of {} files right",
            self.read_mb_per_second,
            self.read_seconds,
            self.reopen_seconds * 1e3,
            self.read_whole,
            self.files
        )?;
        writeln!(
            f,
            "  kill     {:>8} files  acknowledged ({:.1} MB), then SIGKILL; what was not synced is gone, as by a \
             power cut",
            self.acknowledged,
            megabytes(self.acknowledged_bytes)
        )?;
        writeln!(
            f,
            "  recover  {:>8.0} ms     {} entries read, {} torn bytes cut",
            self.recovery_seconds * 1e3,
            self.recovered_entries,
            self.torn_bytes
        )?;
        writeln!(
            f,
            "  verify   {:>8} files  of {} acknowledged are whole; {} more are there and whole, {} are not",
            self.verified, self.acknowledged, self.unacknowledged_whole, self.faulty
        )?;
        writeln!(f)?;
        for fault in self.faults.iter().take(FAULTS_SHOWN_MAX) {
            writeln!(f, "  LOST OR WRONG: {} {}", fault.path, fault.what)?;
        }
        if self.faulty > FAULTS_SHOWN_MAX as u64 {
            writeln!(f, "  and {} more", self.faulty - FAULTS_SHOWN_MAX as u64)?;
        }
        self.damage.iter().take(FAULTS_SHOWN_MAX).try_for_each(|damage| writeln!(f, "  DAMAGE: {damage}"))?;
        if let Some(data) = &self.data {
            writeln!(f, "The data is in {data}.")?;
        }
        match self.ok {
            true => write!(f, "Nothing that was acknowledged is lost."),
            false if !self.killed => write!(f, "FAILED: the second process ended before it was killed."),
            false => write!(f, "FAILED: data is lost or wrong. Please report this with the lines above."),
        }
    }
}

/// What was left out, if anything.
struct Skipped<'a>(&'a Report);

impl fmt::Display for Skipped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report { unreadable, skipped_folders, skipped_others, .. } = self.0;
        let counts = [
            (skipped_folders, "folders skipped"),
            (skipped_others, "links and devices skipped"),
            (unreadable, "unreadable"),
        ];
        let told: Vec<String> = counts
            .iter()
            .filter(|(count, _)| **count > 0)
            .map(|(count, what)| format!("{count} {what}"))
            .collect();
        if told.is_empty() { Ok(()) } else { write!(f, " ({})", told.join(", ")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> Report {
        Report { files: 10, read_whole: 10, acknowledged: 5, verified: 5, killed: true, ..Report::default() }
    }

    #[test]
    fn it_is_well_only_if_everything_is() {
        let mut report = good();
        report.judge();
        assert!(report.ok && report.to_string().ends_with("Nothing that was acknowledged is lost."));
        let spoil: [fn(&mut Report); 5] = [
            |report| report.faulty = 1,
            |report| report.damage.push("rot".to_owned()),
            |report| report.killed = false,
            |report| report.read_whole -= 1,
            |report| report.verified -= 1,
        ];
        for (at, spoil) in spoil.iter().enumerate() {
            let mut report = good();
            spoil(&mut report);
            report.judge();
            assert!(!report.ok && report.to_string().contains("FAILED"), "{at}");
        }
    }

    #[test]
    fn faults_are_named_up_to_a_number_and_counted_beyond() {
        let fault = |n| Fault { path: format!("file {n}"), what: "is not there".to_owned() };
        let report = Report { faulty: 30, faults: (0..30).map(fault).collect(), ..good() };
        let text = report.to_string();
        assert_eq!(text.matches("LOST OR WRONG").count(), FAULTS_SHOWN_MAX);
        assert!(text.contains("and 10 more"), "{text}");
    }

    #[test]
    fn what_was_left_out_is_told() {
        let text = Report { unreadable: 3, skipped_folders: 2, ..good() }.to_string();
        assert!(text.contains("(2 folders skipped, 3 unreadable)"), "{text}");
        assert_eq!(rate(0, Duration::ZERO), 0.0);
        assert_eq!(rate(5_000_000, Duration::from_millis(500)), 10.0);
    }
}
