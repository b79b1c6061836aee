//! The result of the demo, as text and as JSON.

use std::fmt;
use std::time::Duration;
use zerohop_wire::plurals::counted;

use serde::Serialize;

use super::cluster_report::{CONTINUED, ClusterReport};
use super::fault::Fault;
use super::limits::FAULTS_SHOWN_MAX;
use crate::common::names;

/// The report. Sizes in bytes, times in seconds, rates in megabytes (10^6 bytes) a second.
#[derive(Debug, Default, Serialize)]
pub(crate) struct DemoReport {
    /// Whether everything was correct.
    pub(crate) ok: bool,
    pub(crate) folder: String,
    pub(crate) files: u64,
    pub(crate) bytes: u64,
    pub(crate) unreadable: u64,
    pub(crate) skipped_folders: u64,
    pub(crate) skipped_others: u64,
    pub(crate) instances: u64,
    /// Partitions of each of the two keyspaces.
    pub(crate) partitions: u32,
    pub(crate) write_seconds: f64,
    pub(crate) write_mb_per_second: f64,
    /// Stopping the node cleanly, and starting it until it serves.
    pub(crate) reopen_seconds: f64,
    pub(crate) read_seconds: f64,
    pub(crate) read_mb_per_second: f64,
    /// Files that were read back correctly.
    pub(crate) read_whole: u64,
    /// Storing all files a second time, including the kill.
    pub(crate) again_seconds: f64,
    /// Whether the node was ended by SIGKILL.
    pub(crate) killed: bool,
    /// Files of the second time that were acknowledged before the kill, and their bytes.
    pub(crate) acknowledged: u64,
    pub(crate) acknowledged_bytes: u64,
    /// From the kill until the node served again.
    pub(crate) recovery_seconds: f64,
    /// Files acknowledged before the kill that are intact after it.
    pub(crate) verified: u64,
    /// Files of the first time that are intact after the kill.
    pub(crate) first_whole: u64,
    /// Files stored the second time, and how many of them are intact.
    pub(crate) again_files: u64,
    pub(crate) again_whole: u64,
    /// Keys that the demo did not store.
    pub(crate) foreign_keys: u64,
    /// Files that are lost or have wrong contents.
    pub(crate) faulty: u64,
    /// These files, up to a thousand of each check.
    pub(crate) faults: Vec<Fault>,
    /// The second part: several nodes.
    pub(super) cluster: Option<ClusterReport>,
    /// Damage that the node reports of its disk.
    pub(crate) damage: Vec<String>,
    /// Where the data is, if it was kept.
    pub(crate) data: Option<String>,
}

impl DemoReport {
    /// Sets `ok` from the counts.
    pub(super) fn set_ok(&mut self) {
        self.ok = self.faulty == 0
            && self.damage.is_empty()
            && self.killed
            && self.read_whole == self.files
            && self.first_whole == self.files
            && self.again_whole == self.again_files
            && self.verified == self.acknowledged
            && self.foreign_keys == 0
            && self.cluster.as_ref().is_none_or(ClusterReport::is_well);
    }
}

/// Megabytes a second; 0 if the time or the bytes are too small.
pub(super) fn rate(bytes: u64, took: Duration) -> f64 {
    if took.is_zero() { 0.0 } else { bytes as f64 / 1e6 / took.as_secs_f64() }
}

impl fmt::Display for DemoReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let megabytes = |bytes: u64| bytes as f64 / 1e6;
        writeln!(
            f,
            "{}, {:.1} MB below {}{}",
            counted(self.files, "file"),
            megabytes(self.bytes),
            self.folder,
            SkipSummary(self)
        )?;
        writeln!(f)?;
        writeln!(
            f,
            "  store    {:>8.1} MB/s   {:.2} s, each acknowledged once synced;{CONTINUED}{}, {}",
            self.write_mb_per_second,
            self.write_seconds,
            counted(self.instances, "instance"),
            counted(self.partitions, "partition")
        )?;
        writeln!(
            f,
            "  read     {:>8.1} MB/s   {:.2} s after a restart of the node ({:.0} ms);{CONTINUED}{} of {} files right",
            self.read_mb_per_second,
            self.read_seconds,
            self.reopen_seconds * 1e3,
            self.read_whole,
            self.files
        )?;
        writeln!(
            f,
            "  kill     {:>8} files  of a second round ({:.1} MB), then SIGKILL;{CONTINUED}what was not synced is gone, \
             as by a power cut",
            self.acknowledged,
            megabytes(self.acknowledged_bytes)
        )?;
        writeln!(
            f,
            "  recover  {:>8.0} ms     until it served again;{CONTINUED}the client went on by itself to {}",
            self.recovery_seconds * 1e3,
            counted(self.again_files, "file")
        )?;
        writeln!(
            f,
            "  verify   {:>8} files  of {} from before the kill are whole;{CONTINUED}{} of {} in all; {}",
            self.verified,
            self.acknowledged,
            self.first_whole + self.again_whole,
            self.files + self.again_files,
            counted(self.foreign_keys, "strange key")
        )?;
        self.cluster.iter().try_for_each(|cluster| write!(f, "{cluster}"))?;
        writeln!(f)?;
        for fault in self.faults.iter().take(FAULTS_SHOWN_MAX) {
            writeln!(f, "  LOST OR WRONG: {} {}", fault.path, fault.what)?;
        }
        if self.faulty > FAULTS_SHOWN_MAX as u64 {
            writeln!(f, "  and {} more", self.faulty - FAULTS_SHOWN_MAX as u64)?;
        }
        self.damage.iter().take(FAULTS_SHOWN_MAX).try_for_each(|damage| writeln!(f, "  DAMAGE: {damage}"))?;
        if let Some(data) = &self.data {
            writeln!(f, "The data is in {}.", names::text(data.as_bytes()))?;
        }
        match self.ok {
            true if self.files == 0 => write!(f, "There were no files to lose: name a folder that has some."),
            true => write!(f, "Nothing that was acknowledged is lost."),
            false if !self.killed => write!(f, "FAILED: the node ended before it was killed."),
            false => write!(f, "FAILED: data is lost or wrong. Please report this with the lines above."),
        }
    }
}

/// What was left out, if anything.
struct SkipSummary<'a>(&'a DemoReport);

impl fmt::Display for SkipSummary<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DemoReport { unreadable, skipped_folders, skipped_others, .. } = self.0;
        let counts = [
            (skipped_folders, "folders skipped"),
            (skipped_others, "links and devices skipped"),
            (unreadable, "unreadable"),
        ];
        let parts: Vec<String> = counts
            .iter()
            .filter(|(count, _)| **count > 0)
            .map(|(count, what)| format!("{count} {what}"))
            .collect();
        if parts.is_empty() { Ok(()) } else { write!(f, " ({})", parts.join(", ")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> DemoReport {
        DemoReport {
            files: 10,
            read_whole: 10,
            first_whole: 10,
            again_files: 10,
            again_whole: 10,
            acknowledged: 5,
            verified: 5,
            killed: true,
            cluster: Some(ClusterReport { files: 10, whole: 10, ..ClusterReport::default() }),
            ..DemoReport::default()
        }
    }

    #[test]
    fn report_is_ok_only_if_every_check_passes() {
        let mut report = good();
        report.set_ok();
        assert!(report.ok && report.to_string().ends_with("Nothing that was acknowledged is lost."));
        let spoil: [fn(&mut DemoReport); 9] = [
            |report| report.faulty = 1,
            |report| report.damage.push("corruption".to_owned()),
            |report| report.killed = false,
            |report| report.read_whole -= 1,
            |report| report.first_whole -= 1,
            |report| report.again_whole -= 1,
            |report| report.verified -= 1,
            |report| report.foreign_keys = 1,
            |report| report.cluster.as_mut().unwrap().whole -= 1,
        ];
        for (at, spoil) in spoil.iter().enumerate() {
            let mut report = good();
            spoil(&mut report);
            report.set_ok();
            assert!(!report.ok && report.to_string().contains("FAILED"), "{at}");
        }
    }

    #[test]
    fn lines_fit_80_columns_and_count_in_words() {
        let cluster = ClusterReport {
            nodes: 3,
            replicas: 3,
            min_in_sync: 2,
            write_seconds: 1234.5,
            acknowledged: 400_000,
            whole: 800_000,
            files: 800_000,
            join_copies: 112,
            join_seconds: 1234.5,
            ..ClusterReport::default()
        };
        let report = DemoReport {
            instances: 16,
            partitions: 1024,
            files: 800_000,
            bytes: 99_999_000_000,
            write_seconds: 1234.5,
            read_seconds: 1234.5,
            reopen_seconds: 12.0,
            read_whole: 800_000,
            acknowledged: 400_000,
            acknowledged_bytes: 99_999_000_000,
            again_files: 800_000,
            verified: 400_000,
            first_whole: 400_000,
            again_whole: 800_000,
            foreign_keys: 1,
            cluster: Some(cluster),
            ok: true,
            ..DemoReport::default()
        };
        let text = report.to_string();
        let widest = text.lines().max_by_key(|line| line.chars().count()).unwrap();
        assert!(widest.chars().count() <= 80, "{widest}\n{text}");
        assert!(text.contains("in all; 1 strange key\n") && text.contains("0 strange keys"), "{text}");
        let empty = DemoReport { ok: true, ..DemoReport::default() }.to_string();
        assert!(empty.ends_with("name a folder that has some."), "{empty}");
    }

    #[test]
    fn faults_are_named_up_to_a_number_and_counted_beyond() {
        let fault = |n| Fault { path: format!("file {n}"), what: "is not there".to_owned() };
        let report = DemoReport { faulty: 30, faults: (0..30).map(fault).collect(), ..good() };
        let text = report.to_string();
        assert_eq!(text.matches("LOST OR WRONG").count(), FAULTS_SHOWN_MAX);
        assert!(text.contains("and 10 more"), "{text}");
    }

    #[test]
    fn skipped_files_are_reported() {
        let text = DemoReport { unreadable: 3, skipped_folders: 2, ..good() }.to_string();
        assert!(text.contains("(2 folders skipped, 3 unreadable)"), "{text}");
        assert_eq!(rate(0, Duration::ZERO), 0.0);
        assert_eq!(rate(5_000_000, Duration::from_millis(500)), 10.0);
    }
}
