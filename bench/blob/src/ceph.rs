//! Ceph RADOS of one monitor and one OSD, started by hand, without a manager daemon and without authentication, and asked by
//! `rados bench`.

use std::path::{Path, PathBuf};
use std::process::Command;

use bench_common::failure::Failure;
use bench_common::process::{self, Server};
use bench_common::reading::Reading;

use crate::Orders;
use crate::limits::{COMMAND, DEPTH, END, LARGE_BYTES, POLL, RUN_BASE, SERVING, SMALL_BYTES};
use crate::servers::Place;

/// Any would do: it is the only one in its folder.
const FSID: &str = "6f1d2a5e-8f37-4f0e-9a51-3d6f2b7c9e10";
const OSD: &str = "a3f1c7d2-54be-4c0a-8d6e-1b2c3d4e5f60";
const POOL: &str = "bench";

/// Bytes of its store, in memory or on disk.
const STORE_BYTES: u64 = 2 << 30;

/// What has to be installed.
pub(crate) fn installed() -> Result<(), String> {
    let programs = ["ceph-mon", "ceph-osd", "ceph", "rados", "monmaptool"];
    programs.iter().try_for_each(|name| process::installed(name, "bench/blob/install").map(drop))
}

struct Ceph {
    configuration: PathBuf,
    servers: Vec<Server>,
}

/// Large and small objects, and one at a time, by `rados bench`.
pub(crate) fn run(place: &Place, in_memory: bool, orders: &Orders) -> Result<Reading, Failure> {
    let ceph = Ceph::start(place, in_memory)?;
    let mut reading = Reading::default();
    let bench = |depth: usize, what: &str, bytes: usize, run: &str| -> Result<Said, Failure> {
        ceph.bench(orders, (depth, what, bytes, run))
    };
    // What is read is what the write before it has left.
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

/// What a report of `rados bench` says.
#[derive(Debug, PartialEq)]
struct Said {
    megabytes: f64,
    operations: f64,
    latency_ms: f64,
}

impl Ceph {
    fn start(place: &Place, in_memory: bool) -> Result<Ceph, Failure> {
        let dir = &place.dir;
        let ports = process::free_ports(2)?;
        let monitor = format!("[v2:127.0.0.1:{ports},v1:127.0.0.1:{}]", ports + 1);
        let configuration = dir.join("ceph.conf");
        process::write(&configuration, &settings(dir, &monitor, in_memory))?;
        let mut ceph = Ceph { configuration, servers: Vec::new() };
        let (map, mon, osd) = (shown(dir, "monmap"), shown(dir, "mon"), dir.join("osd"));
        once("monmaptool", &["--create", "--fsid", FSID, "--addv", "a", &monitor, &map])?;
        let conf = ceph.configuration.display().to_string();
        once("ceph-mon", &["-c", &conf, "--mkfs", "-i", "a", "--monmap", &map, "--mon-data", &mon])?;
        ceph.serve(place, "ceph-mon", &["-i", "a", "--mon-data", &mon])?;
        ceph.eventually(|ceph| ceph.ceph(&["osd", "new", OSD]).map(drop))?;
        std::fs::create_dir_all(&osd).map_err(Failure::io("creating", &osd))?;
        let osd = osd.display().to_string();
        once("ceph-osd", &["-c", &conf, "-i", "0", "--mkfs", "--osd-uuid", OSD, "--osd-data", &osd])?;
        ceph.serve(place, "ceph-osd", &["-i", "0", "--osd-data", &osd])?;
        ceph.eventually(|ceph| {
            let said = ceph.ceph(&["osd", "stat"])?;
            let is_up = said.contains("1 osds: 1 up") && said.contains("1 in");
            if is_up { Ok(()) } else { Err(Failure::Protocol(said)) }
        })?;
        ceph.ceph(&["osd", "pool", "create", POOL, "32", "32"])?;
        ceph.ceph(&["osd", "pool", "set", POOL, "size", "1", "--yes-i-really-mean-it"])?;
        // It is there once an object is taken.
        ceph.eventually(|ceph| ceph.rados(&["touch", "is-anybody-there"]).map(drop))?;
        Ok(ceph)
    }

    fn serve(&mut self, place: &Place, name: &str, arguments: &[&str]) -> Result<(), Failure> {
        let program = process::installed(name, "bench/blob/install").map_err(Failure::Usage)?;
        let conf = self.configuration.display().to_string();
        let arguments: Vec<String> =
            ["-f", "-c", &conf].iter().chain(arguments).map(|word| (*word).to_owned()).collect();
        self.servers.push(place.start(&program, &arguments)?);
        Ok(())
    }

    fn eventually(&mut self, mut look: impl FnMut(&Ceph) -> Result<(), Failure>) -> Result<(), Failure> {
        let deadline = process::now() + SERVING;
        loop {
            self.servers.iter_mut().try_for_each(Server::check)?;
            match look(self) {
                Ok(()) => return Ok(()),
                Err(error) if process::now() >= deadline => return Err(error),
                Err(_) => process::pause(POLL),
            }
        }
    }

    fn ceph(&self, words: &[&str]) -> Result<String, Failure> {
        let mut command = Command::new("ceph");
        command.arg("-c").arg(&self.configuration).args(["--connect-timeout", "5"]).args(words);
        process::output(&mut command, COMMAND)
    }

    fn rados(&self, words: &[&str]) -> Result<String, Failure> {
        let mut command = Command::new("rados");
        command.arg("-c").arg(&self.configuration).args(["-p", POOL]).args(words);
        process::output(&mut command, COMMAND)
    }

    fn bench(
        &self,
        orders: &Orders,
        (depth, what, bytes, run): (usize, &str, usize, &str),
    ) -> Result<Said, Failure> {
        let (depth, bytes, object) = (depth.to_string(), bytes.to_string(), LARGE_BYTES.to_string());
        // Whole seconds are all that it takes.
        let seconds = orders.seconds.ceil().max(1.0).to_string();
        let mut command = Command::new("rados");
        command.arg("-c").arg(&self.configuration).args(["-p", POOL, "bench", &seconds, what, "-t", &depth]);
        command.args(["--run-name", run]);
        if what == "write" {
            command.args(["-b", &bytes, "-O", &object, "--no-cleanup"]);
        }
        read(&process::output(&mut command, RUN_BASE)?)
    }

    /// The OSD first, which tells the monitor.
    fn end(mut self) -> Result<(), Failure> {
        self.servers.iter_mut().rev().try_for_each(|server| server.end(END))
    }
}

fn settings(dir: &Path, monitor: &str, in_memory: bool) -> String {
    let dir = dir.display();
    let store = match in_memory {
        true => format!("osd objectstore = memstore\nmemstore device bytes = {STORE_BYTES}"),
        false => format!(
            "osd objectstore = bluestore\nbluestore block size = {STORE_BYTES}\nbluestore block create = true"
        ),
    };
    format!(
        "[global]\nfsid = {FSID}\nmon host = {monitor}\nauth cluster required = none\nauth service required = none\n\
         auth client required = none\nrun dir = {dir}\nadmin socket = {dir}/$name.asok\nlog file = {dir}/$name.log\n\
         pid file = {dir}/$name.pid\nmon allow pool size one = true\nosd pool default size = 1\n\
         osd pool default min size = 1\nosd crush chooseleaf type = 0\nosd pool default pg autoscale mode = off\n\
         mon cluster log file = {dir}/cluster.log\nosd class dir = /usr/lib/rados-classes\ncrash dir = {dir}\n\
         mon data avail crit = 0\n{store}\n"
    )
}

fn once(name: &str, arguments: &[&str]) -> Result<(), Failure> {
    process::output(Command::new(name).args(arguments), COMMAND).map(drop)
}

fn shown(dir: &Path, name: &str) -> String {
    dir.join(name).display().to_string()
}

/// Reads the end of a report. Its megabytes are of 2^20 bytes.
fn read(report: &str) -> Result<Said, Failure> {
    let figure = |name: &str| {
        let line = report.lines().find(|line| line.starts_with(name));
        let figure = line.and_then(|line| line.split(':').nth(1)?.trim().parse::<f64>().ok());
        figure.ok_or_else(|| Failure::Protocol(format!("no {name} in: {report}")))
    };
    Ok(Said {
        megabytes: figure("Bandwidth (MB/sec)")? * f64::from(1 << 20) / 1e6,
        operations: figure("Average IOPS")?,
        latency_ms: figure("Average Latency(s)")? * 1e3,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_read_by_the_names_of_its_lines() {
        let report = "hints = 1\nTotal time run:         3.01\nBandwidth (MB/sec):     1000\nStddev Bandwidth:       5\n\
                      Average IOPS:           250\nStddev IOPS:            1.2\nAverage Latency(s):     0.0625\n";
        let said = read(report).unwrap();
        assert_eq!(said, Said { megabytes: 1048.576, operations: 250.0, latency_ms: 62.5 });
        assert!(read("nothing").is_err());
    }
}
