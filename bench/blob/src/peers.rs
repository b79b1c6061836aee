//! The limits of the machine: its loopback by iperf3, its disk by fio.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use bench_common::failure::Failure;
use bench_common::limits::{END, STATUS_POLL};
use bench_common::process;
use bench_common::reading::Measurement;
use bench_common::servers::Place;
use serde_json::Value;

use crate::Orders;
use crate::limits::{CONNECTIONS, FIO_BYTES, RUN_BASE};

const INSTALL: &str = "bench/blob/install";

pub(crate) fn iperf3() -> Result<PathBuf, String> {
    process::installed("iperf3", INSTALL)
}

pub(crate) fn fio() -> Result<PathBuf, String> {
    process::installed("fio", INSTALL)
}

/// As many streams from the server as clients have connections.
pub(crate) fn loopback(place: &Place, orders: &Orders) -> Result<Measurement, Failure> {
    let program = iperf3().map_err(Failure::Usage)?;
    let port = process::free_ports(1)?.to_string();
    let arguments = ["--server", "--bind", "127.0.0.1", "--port", &port].map(str::to_owned);
    let mut server = place.start(&program, &arguments)?;
    // It does not report when it listens.
    process::pause(5 * STATUS_POLL);
    server.check()?;
    let mut command = Command::new(&program);
    // iperf3 accepts whole seconds only.
    let seconds = orders.seconds.ceil().max(1.0).to_string();
    let streams = CONNECTIONS.to_string();
    command.args(["--client", "127.0.0.1", "--port", &port, "--reverse", "--json"]);
    command.args(["--time", &seconds, "--parallel", &streams]);
    let report = process::output(&mut command, limit(orders));
    // It answers the signal with an error.
    let ended = server.kill();
    let report = parsed(&report?)?;
    ended?;
    let bits = report["end"]["sum_received"]["bits_per_second"].as_f64();
    let bits = bits.ok_or_else(|| Failure::Protocol("no rate".into()))?;
    let mut reading = Measurement::default();
    reading.put("read MB/s", bits / 8e6);
    Ok(reading)
}

/// Sequential writes through the page cache.
pub(crate) fn disk(place: &Place, orders: &Orders) -> Result<Measurement, Failure> {
    let mut command = Command::new(fio().map_err(Failure::Usage)?);
    command.args(["--name", "write", "--rw", "write", "--bs", "1M", "--ioengine", "psync", "--time_based"]);
    command.args(["--size", FIO_BYTES, "--output-format", "json", "--runtime"]);
    command.arg(orders.seconds.ceil().max(1.0).to_string()).arg("--directory").arg(&place.dir);
    let report = parsed(&process::output(&mut command, limit(orders))?)?;
    let bytes = report["jobs"][0]["write"]["bw_bytes"].as_f64();
    let bytes = bytes.ok_or_else(|| Failure::Protocol("no rate".into()))?;
    let mut reading = Measurement::default();
    reading.put("write MB/s", bytes / 1e6);
    Ok(reading)
}

fn parsed(report: &str) -> Result<Value, Failure> {
    serde_json::from_str(report).map_err(|error| Failure::Protocol(format!("a report that is none: {error}")))
}

fn limit(orders: &Orders) -> Duration {
    RUN_BASE.max(END + Duration::from_secs_f64(2.0 * orders.seconds))
}
