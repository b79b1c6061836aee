//! One subject through all phases, in a process of its own.
#![expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use std::hint::black_box;
use std::time::Instant;

use serde::{Deserialize, Serialize};
use zerohop_base::random::Random;

use crate::subjects::{Key, MeasuredMap, open};

/// Reads, overwrites and removals at most, so that a large map takes no longer than its load.
const OPERATIONS_MAX: usize = 2_000_000;
/// Full scans have so many records together, or are one.
const FULL_SCANS_RECORDS: usize = 10_000_000;
const SHORT_SCANS_MAX: usize = 100_000;
const SHORT_SCAN_RECORDS: usize = 100;

/// The phases, in the order of the tables: processor time of a record (a scan of 100 counts as one).
pub(crate) const PHASES: [&str; 7] =
    ["random load", "point read", "overwrite", "scan of 100", "full scan", "removal", "sorted load"];

/// The measurements of one process.
#[derive(Deserialize, Serialize)]
pub(crate) struct Measurements {
    /// One for each phase; `None` if the subject has no order.
    pub(crate) nanoseconds: Vec<Option<f64>>,
    /// By its own account, after random load and after sorted load.
    pub(crate) bytes: [Option<f64>; 2],
    /// What the process grew by in random load.
    pub(crate) resident: f64,
    pub(crate) fill: [Option<f64>; 2],
}

/// Measures one subject; `None` if there is none of that name.
pub(crate) fn measure(name: &str, records: usize) -> Option<Measurements> {
    let mut random = Random::new(0x0dde_5eed);
    let mut keys: Vec<Key> = vec![[0; _]; records];
    keys.iter_mut().for_each(|key| random.fill(key));
    // Another order for reads, as an array of its own: reading it costs all subjects the same few nanoseconds.
    let mut others = keys.clone();
    for at in (1..others.len()).rev() {
        others.swap(at, random.below(at as u64 + 1) as usize);
    }
    let few = &others[..records.min(OPERATIONS_MAX)];
    let starts = &others[..records.min(SHORT_SCANS_MAX)];
    let before = resident();
    let mut subject = open(name, &keys)?;
    let mut nanoseconds = Vec::new();
    nanoseconds.push(Some(timed(records, || load(&mut *subject, &keys))));
    let resident = (resident() - before) / records as f64;
    let mut bytes = [own(&*subject, records), None];
    let mut fill = [subject.fill(), None];
    nanoseconds.push(Some(timed(few.len(), || {
        for key in few {
            assert!(black_box(subject.get(key)).is_some());
        }
    })));
    nanoseconds.push(Some(timed(few.len(), || {
        for key in few {
            subject.overwrite(key, u64::from(key[0]));
        }
    })));
    let is_ordered = subject.scan(&keys[0], 0).is_some();
    let ordered = |time: f64| is_ordered.then_some(time);
    nanoseconds.push(ordered(timed(starts.len(), || {
        for key in starts {
            black_box(subject.scan(key, SHORT_SCAN_RECORDS));
        }
    })));
    // A short phase would be as long as the system's tick, by which it counts processor time.
    let scans = FULL_SCANS_RECORDS.div_ceil(records);
    nanoseconds.push(ordered(timed(records * scans, || {
        for _ in 0..scans {
            black_box(subject.scan(&[0; _], records));
        }
    })));
    nanoseconds.push(Some(timed(few.len(), || {
        for key in few {
            assert!(black_box(subject.remove(key)).is_some());
        }
    })));
    drop(subject);
    others.sort_unstable();
    let mut subject = open(name, &others)?;
    nanoseconds.push(Some(timed(records, || load(&mut *subject, &others))));
    bytes[1] = own(&*subject, records);
    fill[1] = subject.fill();
    Some(Measurements { nanoseconds, bytes, resident, fill })
}

fn load(subject: &mut dyn MeasuredMap, keys: &[Key]) {
    for (key, number) in keys.iter().zip(0..) {
        subject.insert(key, number);
    }
}

fn own(subject: &dyn MeasuredMap, records: usize) -> Option<f64> {
    subject.memory_bytes().map(|bytes| bytes as f64 / records as f64)
}

fn timed(operations: usize, work: impl FnOnce()) -> f64 {
    let (start, before) = (Instant::now(), processor_time());
    work();
    let wall = start.elapsed().as_secs_f64() * 1e9;
    let nanoseconds = before.and_then(|before| Some(processor_time()? - before)).unwrap_or(wall);
    nanoseconds / operations as f64
}

/// Nanoseconds that this process, which has one thread, has run; none where the system does not say.
fn processor_time() -> Option<f64> {
    std::fs::read_to_string("/proc/self/schedstat").ok()?.split(' ').next()?.parse().ok()
}

/// Memory of this process in bytes; 0 where the system does not say.
fn resident() -> f64 {
    let pages = std::fs::read_to_string("/proc/self/statm").ok();
    let pages = pages.as_deref().and_then(|text| text.split(' ').nth(1)?.parse::<f64>().ok());
    pages.unwrap_or_default() * 4096.0
}
