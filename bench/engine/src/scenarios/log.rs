//! Appends to the log of an instance alone: what many partitions cost it.
//!
//! No product path has this log yet, so there is no index, and nothing is applied. The insert figures of the engine are those of
//! the log of each partition, with its index.

use zerohop_disk::FilesDisk;
use zerohop_engine::log::shared::format::LogId;
use zerohop_engine::log::shared::streams::{NewLogPartition, SharedLog, SharedLogOptions};
use zerohop_engine::{EngineError, EntryKind, EntryMeta, PartitionId};

use super::{Bound, Case, Scenario, ScenarioReading, Target, label, us};
use crate::failure::Failure;
use crate::measure::{cpu_time, percentile, timed};
use crate::workload::{Draws, Records, below};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "log",
    about: "The log of all partitions of an instance, without an engine: batches of 32 appends to random partitions; \
            full pieces are issued after each, a flush begins every 1,000 batches and is asked about at each. A \
            sample is a batch.",
    records: 4_000_000,
    rounds: 7,
    flushes: true,
    variants: &[""],
    run,
    targets,
};

const BATCH: usize = 32;
const BATCHES_PER_FLUSH: usize = 1_000;
const RATE: &str = "entries/s";

fn targets(partitions: &[usize]) -> Vec<Target> {
    let Some((&first, others)) = partitions.split_first() else { return Vec::new() };
    let over_first = |&other: &usize| Target {
        figure: RATE,
        of: label(other, ""),
        over: Some(label(first, "")),
        bound: Bound::AtLeast(0.85),
    };
    others.iter().map(over_first).collect()
}

fn run(case: &Case) -> Result<ScenarioReading, Failure> {
    let records = Records { seed: case.seed };
    let mut disk = FilesDisk::open(&case.dir).map_err(|error| Failure::Store(error.to_string()))?;
    let mut log = SharedLog::new(SharedLogOptions::new("log", LogId(*b"of the benchmark")));
    let new: Vec<NewLogPartition> =
        (0..case.partitions as u64).map(|id| NewLogPartition::first(PartitionId(id), case.seed)).collect();
    let slots = log.begin(&new, None).map_err(refused)?;
    let mut last = vec![0; slots.len()];
    let batches = case.records.div_ceil(BATCH as u64).max(2) as usize;
    let entries = (batches * BATCH) as f64;

    let (mut samples, mut draws) = (vec![1u32; batches], Draws::new(case.seed));
    let cpu = cpu_time();
    let took = timed(&mut samples, |at| {
        for index in at * BATCH..(at + 1) * BATCH {
            let to = below(draws.next(), slots.len() as u64) as usize;
            last[to] += 1;
            let meta = EntryMeta {
                kind: EntryKind::Put,
                flags: 0,
                epoch: 1,
                index: last[to],
                timestamp: (1 << 60) + index as u64,
            };
            let (key, value) = (records.key(index as u64), records.value(index as u64, 0));
            log.append(slots[to], &meta, &key, [&value]).map_err(refused)?;
        }
        if log.is_mark_due() {
            log.mark().map_err(refused)?;
        }
        log.write_full_pieces(&mut disk).map_err(refused)?;
        log.flush_done(&mut disk, false).map_err(refused)?;
        if at % BATCHES_PER_FLUSH == 0 {
            log.flush_begin(&mut disk, false).map_err(refused)?;
            log.evict();
        }
        Ok(())
    })?;
    log.flush(&mut disk, true).map_err(refused)?;
    let cpu = cpu_time() - cpu;
    if slots.iter().zip(&last).any(|(slot, last)| log.durable(*slot) != *last) {
        return Err(Failure::Store("entries are not durable after a flush".into()));
    }
    let mut reading = ScenarioReading::default();
    reading.put(RATE, entries / took.as_secs_f64());
    reading.put("CPU us/entry", cpu.as_secs_f64() * 1e6 / entries);
    reading.put("batch p50, us", us(percentile(&mut samples, 0.5)));
    reading.put("batch p99.9, us", us(percentile(&mut samples, 0.999)));
    Ok(reading)
}

fn refused(error: EngineError) -> Failure {
    Failure::Store(error.to_string())
}
