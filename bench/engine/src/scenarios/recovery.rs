//! From files to the first answer, after a clean shutdown and after a crash.
//!
//! One process loads and ends, and another opens, so that no memory of the first is reused.
//! "killed" is a load into `sync` partitions that ends without a close. The newest checkpoints are
//! then those of background maintenance; later entries are in the log's tail and in the journal.
//! Every record was flushed, so every record must be there.
//!
//! "cold" drops the files' pages from the system's cache before opening; "warm" keeps them.

use std::os::fd::AsFd;
use std::path::Path;
use std::process::Command;

use rustix::fs::{Advice, Mode, OFlags, fadvise, fsync, open};
use zerohop_engine::{Durability, PartitionOptions};

use super::{Bound, Case, Clock, Scenario, ScenarioReading, Target, check_some, label, mib};
use crate::child;
use crate::failure::Failure;
use crate::limits;
use crate::measure::{cpu_time, disk_bytes};
use crate::subjects::Subject;
use crate::subjects::zerohop::{OPERATIONS_PER_MAINTENANCE, Zerohop, options};
use crate::workload::Records;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "recovery",
    about: "A process loads and ends; another opens and looks one record up: that is timed, with the commit of all that \
            was found. \"closed\": ended by a clean shutdown. \"killed\": sync partitions, a flush every 1024 records, \
            ended without closing, checkpoints only from maintenance. \"warm\": the files' pages are in the system's \
            cache; \"cold\": dropped from it. Then 10,000 records are checked and all are counted.",
    records: 10_000_000,
    rounds: 3,
    flushes: false,
    variants: &["closed warm", "closed cold", "killed warm", "killed cold"],
    run,
    targets,
};

const LOAD_CLOSED: &str = "load closed";
const LOAD_KILLED: &str = "load killed";
const RECORDS_PER_FLUSH: u64 = 1024;
const LOOKUPS: u64 = 10_000;
const TIME: &str = "open to first answer, s";

fn targets(partitions: &[usize]) -> Vec<Target> {
    let of = |&count: &usize| {
        SCENARIO.variants.iter().map(move |variant| Target {
            figure: TIME,
            of: label(count, variant),
            over: None,
            bound: Bound::Below(5.0),
        })
    };
    partitions.iter().flat_map(of).collect()
}

fn run(case: &Case) -> Result<ScenarioReading, Failure> {
    match case.variant.as_str() {
        LOAD_CLOSED => load(case, Durability::DEFAULT),
        LOAD_KILLED => load(case, Durability::Sync),
        "closed warm" => recover(case, LOAD_CLOSED, false),
        "closed cold" => recover(case, LOAD_CLOSED, true),
        "killed warm" => recover(case, LOAD_KILLED, false),
        "killed cold" => recover(case, LOAD_KILLED, true),
        other => Err(Failure::Usage(format!("recovery has no variant {other}"))),
    }
}

fn load(case: &Case, durability: Durability) -> Result<ScenarioReading, Failure> {
    let records = Records { seed: case.seed };
    let partition_options = PartitionOptions { durability, index_seed: case.seed };
    let (mut store, _) = Zerohop::open_with(&case.dir, options(), case.partitions, partition_options)?;
    let clock = Clock::start();
    for index in 0..case.records {
        store.put(&records.key(index), &records.value(index, 0))?;
        if index.is_multiple_of(RECORDS_PER_FLUSH) {
            store.flush()?;
        }
        if index.is_multiple_of(OPERATIONS_PER_MAINTENANCE) {
            store.maintain(clock.ms())?;
        }
    }
    if durability == Durability::Sync {
        store.flush()?;
        // Skips even the destructor: the process ends after this.
        std::mem::forget(store);
    } else {
        store.close()?;
    }
    let mut reading = ScenarioReading::default();
    reading.put("load, s", clock.elapsed().as_secs_f64());
    Ok(reading)
}

fn recover(case: &Case, load: &str, is_cold: bool) -> Result<ScenarioReading, Failure> {
    let mut reading = load_elsewhere(case, load)?;
    let disk = disk_bytes(&case.dir)?;
    if is_cold {
        forget_pages(&case.dir)?;
    }
    let records = Records { seed: case.seed };
    let partition_options = PartitionOptions { durability: durability_of(load), index_seed: case.seed };

    let (cpu, read, clock) = (cpu_time(), bytes_read()?, Clock::start());
    let (mut store, report) = Zerohop::open_with(&case.dir, options(), case.partitions, partition_options)?;
    check_some(&mut store, &records, case.records, 1)?;
    let took = clock.elapsed();
    let (cpu, read) = (cpu_time() - cpu, bytes_read()? - read);

    if let Some(damage) = report.damage().next() {
        return Err(Failure::Store(damage.to_string()));
    }
    let found: u64 = store.stats()?.iter().map(|stats| stats.records).sum();
    if found != case.records {
        return Err(Failure::Store(format!("{found} records came back of {}", case.records)));
    }
    check_some(&mut store, &records, case.records, LOOKUPS)?;

    reading.put(TIME, took.as_secs_f64());
    reading.put("CPU of it, s", cpu.as_secs_f64());
    reading.put("read from the disk, MiB", mib(read));
    let sum = |of: fn(&zerohop_engine::PartitionReport) -> u64| {
        report.partitions.iter().map(|(_, partition)| of(partition)).sum::<u64>() as f64
    };
    reading.put("records from checkpoints", sum(|partition| partition.from_checkpoint));
    reading.put("entries from logs", sum(|partition| partition.from_log));
    reading.put("entries from the journal", sum(|partition| partition.from_journal));
    reading.put("on disk, MiB", mib(disk));
    Ok(reading)
}

fn durability_of(load: &str) -> Durability {
    if load == LOAD_KILLED { Durability::Sync } else { Durability::DEFAULT }
}

fn load_elsewhere(case: &Case, variant: &str) -> Result<ScenarioReading, Failure> {
    let program = std::env::current_exe()
        .map_err(|source| Failure::Io { doing: "finding this program".into(), source })?;
    let mut command = Command::new(program);
    command.args(["--run-scenario", SCENARIO.name, "--variant", variant]);
    command.args(["--partitions", &case.partitions.to_string(), "--records", &case.records.to_string()]);
    command.args(["--seed", &case.seed.to_string(), "--dir"]).arg(&case.dir);
    let printed = child::output(&mut command, limits::run_limit(case.records, SCENARIO.flushes))?;
    serde_json::from_str(&printed)
        .map_err(|error| Failure::Store(format!("the load's result cannot be read: {error}")))
}

/// Drops the files' pages from the system's cache. Dirty pages are written first: only clean ones
/// can be dropped.
fn forget_pages(dir: &Path) -> Result<(), Failure> {
    for entry in std::fs::read_dir(dir).map_err(Failure::io("listing", dir))? {
        let path = entry.map_err(Failure::io("listing", dir))?.path();
        if path.is_dir() {
            forget_pages(&path)?;
            continue;
        }
        open(&path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
            .and_then(|file| {
                fsync(&file)?;
                fadvise(file.as_fd(), 0, None, Advice::DontNeed)
            })
            .map_err(|error| Failure::io("dropping the pages of", &path)(error.into()))?;
    }
    Ok(())
}

/// Bytes that this process has read from block devices.
fn bytes_read() -> Result<u64, Failure> {
    let path = Path::new("/proc/self/io");
    let text = std::fs::read_to_string(path).map_err(Failure::io("reading", path))?;
    text.lines()
        .find_map(|line| line.strip_prefix("read_bytes:")?.trim().parse().ok())
        .ok_or_else(|| Failure::Store("/proc/self/io does not count read bytes".into()))
}
