//! Closed-loop writers on `sync` partitions: the benefit of one journal flush for all partitions.
//!
//! One thread plays the writers, in the way an instance serves them: a batch is one write of each,
//! then one flush, then all are acknowledged and write again. Background maintenance runs once a
//! batch, and counts.

use zerohop_engine::{Durability, PartitionOptions};

use super::{Bound, Case, Clock, Scenario, ScenarioReading, Target, check_some, label, mib, us};
use crate::failure::Failure;
use crate::measure::{cpu_time, percentile, timed};
use crate::subjects::zerohop::{Zerohop, options};
use crate::workload::Records;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "sync",
    about: "32 closed-loop writers, durability sync, played by one thread: a batch is a write of each to the \
            partition of its random key, one flush, one call of maintenance; a sample is a batch with all of that. \
            Journal files are of 64 MiB.",
    // About 400 MB of journal: six files are filled.
    records: 2_000_000,
    rounds: 7,
    flushes: true,
    variants: &[""],
    run,
    targets,
};

const WRITERS: usize = 32;
const LOOKUPS: u64 = 1000;
const RATE: &str = "entries/s";

fn targets(partitions: &[usize]) -> Vec<Target> {
    let Some((&first, others)) = partitions.split_first() else { return Vec::new() };
    let over_first = |&other: &usize| Target {
        figure: RATE,
        of: label(other, ""),
        over: Some(label(first, "")),
        bound: Bound::AtLeast(0.8),
    };
    others.iter().map(over_first).collect()
}

fn run(case: &Case) -> Result<ScenarioReading, Failure> {
    let records = Records { seed: case.seed };
    let partition_options = PartitionOptions { durability: Durability::Sync, index_seed: case.seed };
    let (mut store, _) = Zerohop::open_with(&case.dir, options(), case.partitions, partition_options)?;
    let batches = case.records.div_ceil(WRITERS as u64).max(2) as usize;
    let entries = (batches * WRITERS) as f64;

    let mut samples = vec![1u32; batches];
    let mut journal = JournalWatch::default();
    let (cpu, clock) = (cpu_time(), Clock::start());
    let took = timed(&mut samples, |at| {
        for index in at * WRITERS..(at + 1) * WRITERS {
            store.put(&records.key(index as u64), &records.value(index as u64, 0))?;
        }
        store.flush()?;
        store.maintain(clock.ms())?;
        journal.look(store.engine.stats().journal_bytes);
        Ok(())
    })?;
    let cpu = cpu_time() - cpu;
    if store.stats()?.iter().any(|stats| stats.durable != stats.last.1) {
        return Err(Failure::Store("entries are not durable after a flush".into()));
    }
    check_some(&mut store, &records, (batches * WRITERS) as u64, LOOKUPS)?;

    let mut reading = ScenarioReading::default();
    reading.put(RATE, entries / took.as_secs_f64());
    // In the order of time; a percentile reorders the samples later.
    let rate = |samples: &[u32]| {
        (samples.len() * WRITERS) as f64 * 1e9 / samples.iter().map(|ns| f64::from(*ns)).sum::<f64>()
    };
    reading.put("entries/s, first tenth", rate(&samples[..batches.div_ceil(10)]));
    reading.put("entries/s, last half", rate(&samples[batches / 2..]));
    reading.put("batch p50, us", us(percentile(&mut samples, 0.5)));
    reading.put("batch p99, us", us(percentile(&mut samples, 0.99)));
    reading.put("batch p99.9, us", us(percentile(&mut samples, 0.999)));
    reading.put("longest batch, us", us(samples.iter().copied().max().unwrap_or(0)));
    reading.put("CPU us/entry", cpu.as_secs_f64() * 1e6 / entries);
    reading.put("journal files removed", journal.removed as f64);
    reading.put("journal at its longest, MiB", mib(journal.longest));
    Ok(reading)
}

/// The journal's length, batch by batch.
#[derive(Default)]
struct JournalWatch {
    bytes: u64,
    longest: u64,
    removed: u64,
}

impl JournalWatch {
    fn look(&mut self, bytes: u64) {
        self.removed += u64::from(bytes < self.bytes);
        self.longest = self.longest.max(bytes);
        self.bytes = bytes;
    }
}
