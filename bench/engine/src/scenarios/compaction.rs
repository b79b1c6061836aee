//! A mixed load during compaction, compared with the same load without it.
//!
//! Half lookups, half overwrites, of uniformly drawn records, as fast as one thread can. Background
//! maintenance runs after every 32 operations and counts into the last of these. So one operation
//! in 32 includes a step of a sync, a checkpoint or compaction, and the 99th percentile is one with
//! maintenance.

use zerohop_engine::{Durability, EngineOptions, PartitionOptions};

use super::{Bound, Case, Clock, Scenario, ScenarioReading, Target, label, us};
use crate::failure::Failure;
use crate::measure::{cpu_time, disk_bytes, expect, percentile, timed};
use crate::subjects::Subject;
use crate::subjects::zerohop::{OPERATIONS_PER_MAINTENANCE, Zerohop, options};
use crate::workload::{Draws, Records, below};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "compaction",
    about: "Ten times as many operations as records, half lookups and half overwrites of records drawn evenly, closed \
            loop, durability interval; maintenance in line after every 32 operations, counted into the operation after \
            which it runs. \"on\": compaction above 50 % dead; \"off\": never. Checkpoints are taken in both. Log over \
            live is bytes of all segments over bytes of entries that are referred to; disk over live counts \
            checkpoints too, at the end of the load, without settling first.",
    records: 1_000_000,
    rounds: 5,
    flushes: false,
    variants: &["off", "on"],
    run,
    targets,
};

const OPERATIONS_PER_RECORD: usize = 10;
const TAIL: &str = "p99.9, us";
const LOG_OVER_LIVE: &str = "log over live, greatest";
/// Without this bound, a compaction that hardly runs would pass as harmless. Half dead is twice the
/// live size; the rest is for entries that are not durable yet and so cannot be rewritten.
const LOG_OVER_LIVE_BOUND: Bound = Bound::Below(3.0);
/// Interval of the log measurements, in operations.
const LOOK_EVERY: usize = 1 << 16;

fn targets(partitions: &[usize]) -> Vec<Target> {
    let both = |&count: &usize| {
        let tail = Target {
            figure: TAIL,
            of: label(count, "on"),
            over: Some(label(count, "off")),
            bound: Bound::Below(2.0),
        };
        let space =
            Target { figure: LOG_OVER_LIVE, of: label(count, "on"), over: None, bound: LOG_OVER_LIVE_BOUND };
        [tail, space]
    };
    partitions.iter().flat_map(both).collect()
}

fn run(case: &Case) -> Result<ScenarioReading, Failure> {
    let records = Records { seed: case.seed };
    let count = usize::try_from(case.records)
        .map_err(|_| Failure::Usage(format!("{} records are too many", case.records)))?;
    let partition_options = PartitionOptions { durability: Durability::DEFAULT, index_seed: case.seed };
    let (mut store, _) =
        Zerohop::open_with(&case.dir, options_of(&case.variant)?, case.partitions, partition_options)?;
    for index in 0..case.records {
        store.insert(&records.key(index), &records.value(index, 0))?;
    }
    store.finish_phase()?;

    let mut versions = vec![0u8; count];
    let mut samples = vec![1u32; count * OPERATIONS_PER_RECORD];
    let mut draws = Draws::new(case.seed.wrapping_add(3));
    let mut log_over_live: f64 = 0.0;
    // Later than any time that the engine got during the load before.
    let (cpu, clock, began_ms) = (cpu_time(), Clock::start(), case.records);
    let took = timed(&mut samples, |at| {
        let draw = draws.next();
        let index = below(draw, case.records);
        let version = &mut versions[index as usize];
        if draw & 1 == 1 {
            expect(&mut store, &records, index, Some(*version))?;
        } else {
            *version = version.wrapping_add(1);
            store.put(&records.key(index), &records.value(index, *version))?;
        }
        if at % OPERATIONS_PER_MAINTENANCE as usize == 0 {
            store.maintain(began_ms + clock.ms())?;
        }
        if at % LOOK_EVERY == 0 {
            log_over_live = log_over_live.max(over_live(&mut store)?.0);
        }
        Ok(())
    })?;
    let cpu = cpu_time() - cpu;
    let (at_end, live_bytes) = over_live(&mut store)?;
    let disk = disk_bytes(&case.dir)?;
    for index in (0..case.records).step_by((count / 1000).max(1)) {
        expect(&mut store, &records, index, Some(versions[index as usize]))?;
    }

    let operations = samples.len() as f64;
    let mut reading = ScenarioReading::default();
    reading.put("operations/s", operations / took.as_secs_f64());
    reading.put("p50, us", us(percentile(&mut samples, 0.5)));
    reading.put("p99, us", us(percentile(&mut samples, 0.99)));
    reading.put(TAIL, us(percentile(&mut samples, 0.999)));
    reading.put("longest, us", us(samples.iter().copied().max().unwrap_or(0)));
    reading.put("CPU us/operation", cpu.as_secs_f64() * 1e6 / operations);
    reading.put(LOG_OVER_LIVE, log_over_live.max(at_end));
    reading.put("log over live at the end", at_end);
    reading.put("disk over live at the end", disk as f64 / live_bytes as f64);
    Ok(reading)
}

fn options_of(variant: &str) -> Result<EngineOptions, Failure> {
    match variant {
        "on" => Ok(options()),
        "off" => Ok(EngineOptions { dead_percent_max: 99, collect_every_ms: u64::MAX, ..options() }),
        other => Err(Failure::Usage(format!("compaction has no variant {other}"))),
    }
}

/// Bytes of all segments divided by the live bytes, and the latter.
fn over_live(store: &mut Zerohop) -> Result<(f64, u64), Failure> {
    let log = store.log_sizes()?;
    let live = (log.bytes - log.dead_bytes - log.removal_bytes).max(1);
    Ok((log.bytes as f64 / live as f64, live))
}
