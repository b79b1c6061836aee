//! One task of a run: operations in sequence, each answer checked.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use zerohop_client::Keyspace;
use zerohop_system::clock::Stopwatch;

use super::super::histogram::Histogram;
use super::super::phase::PhaseFailure;
use super::draws::{Draws, Zipf};
use super::mix::{Preference, YcsbOperation, YcsbWorkload};
use super::records::YcsbRecords;

/// Records of a scan.
const SCAN_MAX: u64 = 100;

/// After so many failures the removal of records ends: each may take as long as `--timeout`.
const LEFT_MAX: u64 = 100;

/// What the tasks of a run share.
pub(super) struct YcsbRun {
    pub(super) workload: YcsbWorkload,
    pub(super) seed: u64,
    pub(super) records: YcsbRecords,
    /// Of the records that are loaded.
    pub(super) zipf: Zipf,
    /// Operations of the present part that have begun, and those that have ended.
    begun: AtomicU64,
    done: AtomicU64,
    /// Records that could not be removed.
    left: AtomicU64,
    stopped: AtomicBool,
}

/// What a part of a run does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum YcsbPart {
    Load,
    Run,
    Remove,
}

/// The latencies by operation, as in [`YcsbOperation::ALL`].
pub(super) type YcsbLatencies = [Histogram; 5];

impl YcsbRun {
    pub(super) fn new(workload: YcsbWorkload, records: u64, value_bytes: usize, seed: u64) -> Self {
        Self {
            workload,
            seed,
            records: YcsbRecords::new(value_bytes, seed),
            zipf: Zipf::new(records),
            begun: AtomicU64::new(0),
            done: AtomicU64::new(0),
            left: AtomicU64::new(0),
            stopped: AtomicBool::new(false),
        }
    }

    /// Prepares a part; no task may run meanwhile.
    pub(super) fn begin(&self) {
        self.begun.store(0, Ordering::Relaxed);
        self.done.store(0, Ordering::Relaxed);
        self.stopped.store(false, Ordering::Relaxed);
    }

    /// Ends the part early; operations in flight are finished.
    pub(super) fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    pub(super) fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// The number of records that could not be removed, or some of them.
    pub(super) fn left(&self) -> u64 {
        self.left.load(Ordering::Relaxed)
    }

    /// Removes a record. A failure leaves the others to be removed, unless there are too many.
    async fn remove(&self, number: u64, keyspace: &Keyspace) -> Result<(), PhaseFailure> {
        match keyspace.remove(&self.records.key(number)).await {
            Err(error) if self.left.fetch_add(1, Ordering::Relaxed) >= LEFT_MAX => Err(error.into()),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// A record that is there.
    fn choose(&self, draws: &mut Draws) -> u64 {
        let (rank, present) = (self.zipf.draw(draws), self.records.present().max(1));
        match self.workload.preference() {
            // The most frequent records are anywhere.
            Preference::Some => Draws::new(self.seed, rank).below(present),
            Preference::Newest => present - 1 - rank.min(present - 1),
        }
    }
}

/// Does operations of a part until `count` have begun. A failure stops the other tasks too.
pub(super) async fn operate_all(
    run: Arc<YcsbRun>,
    part: YcsbPart,
    count: u64,
    keyspace: Keyspace,
) -> Result<YcsbLatencies, PhaseFailure> {
    let mut latencies: YcsbLatencies = std::array::from_fn(|_| Histogram::new());
    while !run.stopped.load(Ordering::Relaxed) {
        let number = run.begun.fetch_add(1, Ordering::Relaxed);
        if number >= count {
            break;
        }
        let mut draws = Draws::new(run.seed, number);
        let operation = match part {
            YcsbPart::Load => YcsbOperation::Insert,
            YcsbPart::Run => run.workload.draw(&mut draws),
            YcsbPart::Remove => YcsbOperation::Update,
        };
        let stopwatch = Stopwatch::start();
        let ended = match part {
            YcsbPart::Remove => run.remove(number, &keyspace).await,
            YcsbPart::Load | YcsbPart::Run => operate(&run, operation, (number, &mut draws), &keyspace).await,
        };
        let took = stopwatch.elapsed();
        if let Err(failure) = ended {
            run.stop();
            return Err(failure);
        }
        latencies[operation as usize].record(took);
        run.done.fetch_add(1, Ordering::Relaxed);
    }
    Ok(latencies)
}

async fn operate(
    run: &YcsbRun,
    operation: YcsbOperation,
    (write, draws): (u64, &mut Draws),
    keyspace: &Keyspace,
) -> Result<(), PhaseFailure> {
    if operation == YcsbOperation::Insert {
        let number = run.records.begin_insert();
        keyspace.insert(&run.records.key(number), &run.records.value(number, write)).await?;
        run.records.end_insert(number);
        return Ok(());
    }
    let number = run.choose(draws);
    let key = run.records.key(number);
    if operation == YcsbOperation::Scan {
        return scan(run, &key, 1 + draws.below(SCAN_MAX), keyspace).await;
    }
    if operation != YcsbOperation::Update {
        check(run, number, keyspace.lookup_bytes(&key).await?.as_deref())?;
    }
    if operation != YcsbOperation::Read {
        keyspace.insert(&key, &run.records.value(number, write)).await?;
    }
    Ok(())
}

fn check(run: &YcsbRun, number: u64, value: Option<&[u8]>) -> Result<(), PhaseFailure> {
    let what = match value {
        Some(value) if run.records.number_of(value) == Some(number) => return Ok(()),
        Some(_) => "another value was found than was written",
        None => "was inserted and is not there",
    };
    Err(PhaseFailure::Wrong(format!("key \"{}\": {what}", run.records.key(number))))
}

/// Scans from a key on. The keys rise, and each has a value of its own.
async fn scan(run: &YcsbRun, from: &str, count: u64, keyspace: &Keyspace) -> Result<(), PhaseFailure> {
    let wrong = |what: &str| Err(PhaseFailure::Wrong(format!("scan from key \"{from}\": {what}")));
    let end = run.records.end();
    let mut pages = keyspace.scan_range(from..end.as_str()).values().limit(count).page_keys(count as u32);
    let (mut before, mut found) = (None, 0);
    while let Some(page) = pages.next_page().await? {
        for one in page {
            let number = one.value.as_deref().and_then(|value| run.records.number_of(value));
            let is_own = number.is_some_and(|number| run.records.key(number).as_bytes() == one.key);
            if !is_own {
                return wrong("another value was found than was written");
            }
            let is_next = before.as_ref().map_or(one.key == from.as_bytes(), |before| *before < one.key);
            if !is_next {
                return wrong("the first key is missing, or keys are not in their order");
            }
            before = Some(one.key);
            found += 1;
        }
    }
    if found == 0 || found > count { wrong("no records, or too many") } else { Ok(()) }
}
