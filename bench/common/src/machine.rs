//! The machine and date of a table, without which its figures mean nothing.

use std::io;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::system::uname;
use serde::Serialize;

/// The line under a table.
#[derive(Debug, Serialize)]
pub struct Machine {
    cpu: String,
    kernel: String,
    cores: usize,
    memory_gib: u64,
    /// UTC, ISO 8601.
    date: String,
    /// Other work on the machine: the load average of the last minute when the benchmark began.
    load: String,
}

impl Machine {
    /// Reads it from the system.
    ///
    /// # Errors Those of the system, with the file.
    pub fn look() -> io::Result<Machine> {
        let read = |path: &str| {
            let with_path =
                |error: io::Error| io::Error::new(error.kind(), format!("reading {path}: {error}"));
            std::fs::read_to_string(path).map_err(with_path)
        };
        let cpuinfo = read("/proc/cpuinfo")?;
        let cpu = cpuinfo
            .lines()
            .find_map(|line| line.strip_prefix("model name")?.split_once(':'))
            .map_or("unknown", |(_, name)| name.trim());
        let memory_kib = read("/proc/meminfo")?
            .lines()
            .find_map(|line| line.strip_prefix("MemTotal:")?.split_whitespace().next()?.parse::<u64>().ok())
            .unwrap_or(0);
        Ok(Machine {
            cpu: cpu.into(),
            kernel: uname().release().to_string_lossy().into_owned(),
            cores: cpuinfo.lines().filter(|line| line.starts_with("processor")).count(),
            memory_gib: memory_kib >> 20,
            date: utc(seconds_since_1970()),
            load: read("/proc/loadavg")?.split_whitespace().next().unwrap_or("unknown").into(),
        })
    }
}

impl std::fmt::Display for Machine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Machine { cpu, kernel, cores, memory_gib, date, load } = self;
        write!(f, "machine: {cpu}, {cores} cores, {memory_gib} GiB, Linux {kernel}, load {load}, {date}")
    }
}

#[expect(clippy::disallowed_methods, reason = "the date of a measurement is the date")]
fn seconds_since_1970() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Howard Hinnant's civil-from-days, for days after 1970.
fn utc(seconds: u64) -> String {
    let (days, second) = (seconds / 86_400 + 719_468, seconds % 86_400);
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute) = (second / 3600, second / 60 % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{:02}Z", second % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_right_around_leap_days_and_centuries() {
        assert_eq!(utc(0), "1970-01-01T00:00:00Z");
        assert_eq!(utc(951_782_399), "2000-02-28T23:59:59Z");
        assert_eq!(utc(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(utc(1_709_251_199), "2024-02-29T23:59:59Z");
        assert_eq!(utc(4_107_542_400), "2100-03-01T00:00:00Z");
    }

    #[test]
    fn the_machine_line_names_processor_and_kernel() {
        let machine = Machine::look().unwrap();
        assert!(machine.cores >= 1 && !machine.cpu.is_empty());
        assert!(machine.to_string().contains(&machine.kernel));
    }
}
