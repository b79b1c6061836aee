//! Ceph RADOS, measured by `rados bench`.

use std::process::Command;

use bench_common::ceph::{Ceph, POOL};
use bench_common::failure::Failure;
use bench_common::process;
use bench_common::reading::Measurement;
use bench_common::servers::Place;

use crate::Orders;
use crate::limits::{DEPTH, LARGE_BYTES, RUN_BASE, SMALL_BYTES};

/// Large and small objects at depth 16, and small ones at depth 1, by `rados bench`.
pub(crate) fn run(place: &Place, in_memory: bool, orders: &Orders) -> Result<Measurement, Failure> {
    let ceph = Ceph::start(place, in_memory)?;
    let mut reading = Measurement::default();
    let bench = |depth: usize, what: &str, bytes: usize, run: &str| -> Result<RadosReport, Failure> {
        self::bench(&ceph, orders, (depth, what, bytes, run))
    };
    // The reads use the objects of the write before.
    let written = bench(DEPTH, "write", LARGE_BYTES, "large")?;
    reading.put("write MB/s", written.megabytes);
    reading.put("read MB/s", bench(DEPTH, "rand", LARGE_BYTES, "large")?.megabytes);
    reading.put("small write K op/s", bench(DEPTH, "write", SMALL_BYTES, "small")?.operations / 1e3);
    reading.put("small read K op/s", bench(DEPTH, "rand", SMALL_BYTES, "small")?.operations / 1e3);
    reading.put("one write ms", bench(1, "write", SMALL_BYTES, "one")?.latency_ms);
    reading.put("one read ms", bench(1, "rand", SMALL_BYTES, "one")?.latency_ms);
    ceph.end()?;
    Ok(reading)
}

/// A report of `rados bench`.
#[derive(Debug, PartialEq)]
struct RadosReport {
    megabytes: f64,
    operations: f64,
    latency_ms: f64,
}

fn bench(
    ceph: &Ceph,
    orders: &Orders,
    (depth, what, bytes, run): (usize, &str, usize, &str),
) -> Result<RadosReport, Failure> {
    let (depth, bytes, object) = (depth.to_string(), bytes.to_string(), LARGE_BYTES.to_string());
    // `rados bench` accepts whole seconds only.
    let seconds = orders.seconds.ceil().max(1.0).to_string();
    let mut command = Command::new("rados");
    command.arg("-c").arg(&ceph.configuration).args(["-p", POOL, "bench", &seconds, what, "-t", &depth]);
    command.args(["--run-name", run]);
    if what == "write" {
        command.args(["-b", &bytes, "-O", &object, "--no-cleanup"]);
    }
    read(&process::output(&mut command, RUN_BASE)?)
}

/// Parses the end of a report. Its megabytes are of 2^20 bytes.
fn read(report: &str) -> Result<RadosReport, Failure> {
    let figure = |name: &str| {
        let line = report.lines().find(|line| line.starts_with(name));
        let figure = line.and_then(|line| line.split(':').nth(1)?.trim().parse::<f64>().ok());
        figure.ok_or_else(|| Failure::Protocol(format!("no {name} in: {report}")))
    };
    Ok(RadosReport {
        megabytes: figure("Bandwidth (MB/sec)")? * f64::from(1 << 20) / 1e6,
        operations: figure("Average IOPS")?,
        latency_ms: figure("Average Latency(s)")? * 1e3,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn report_fields_are_parsed_by_name() {
        let report = "hints = 1\nTotal time run:         3.01\nBandwidth (MB/sec):     1000\nStddev Bandwidth:       5\n\
                      Average IOPS:           250\nStddev IOPS:            1.2\nAverage Latency(s):     0.0625\n";
        let parsed = read(report).unwrap();
        assert_eq!(parsed, RadosReport { megabytes: 1048.576, operations: 250.0, latency_ms: 62.5 });
        assert!(read("nothing").is_err());
    }
}
