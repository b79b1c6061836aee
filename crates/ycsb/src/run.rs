//! A run, and each of its tasks: operations in sequence, each answer checked.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use zerohop_system::clock::Stopwatch;

use super::draws::{Draws, Zipf};
use super::mix::{Preference, YcsbOperation, YcsbWorkload};
use super::records::YcsbRecords;
use super::store::YcsbStore;

/// Records of a scan.
const SCAN_MAX: u64 = 100;

/// After so many failures the removal of records ends: each may take as long as the store's time limit.
const LEFT_MAX: u64 = 100;

/// What the tasks of a run share.
#[derive(Debug)]
pub struct YcsbRun {
    seed: u64,
    records: YcsbRecords,
    /// Of the records that are loaded.
    zipf: Zipf,
    /// Operations of the present part that have begun, and those that have ended.
    begun: AtomicU64,
    done: AtomicU64,
    /// Records that could not be removed.
    left: AtomicU64,
    stopped: AtomicBool,
}

/// What a part of a run does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum YcsbPart {
    /// Inserts the records.
    Load,
    /// Does operations of a workload.
    Run(YcsbWorkload),
    /// Removes all records, those of the workloads included.
    Remove,
}

/// Why a part of a run ended early.
#[derive(Debug)]
pub enum YcsbFailure<E> {
    /// An operation failed.
    Failed(E),
    /// An answer was wrong.
    Wrong(String),
}

impl<E> From<E> for YcsbFailure<E> {
    fn from(error: E) -> Self {
        YcsbFailure::Failed(error)
    }
}

impl YcsbRun {
    /// A run over so many loaded records, at least one, with values of at least 16 bytes. Runs with different seeds have different keys.
    #[must_use]
    pub fn new(records: u64, value_bytes: usize, seed: u64) -> Self {
        Self {
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
    pub fn begin(&self) {
        self.begun.store(0, Ordering::Relaxed);
        self.done.store(0, Ordering::Relaxed);
        self.stopped.store(false, Ordering::Relaxed);
    }

    /// Ends the part early; operations in flight are finished.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// The operations of the part that have ended.
    pub fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// The number of records that could not be removed, or some of them.
    pub fn left(&self) -> u64 {
        self.left.load(Ordering::Relaxed)
    }

    /// The records.
    pub fn records(&self) -> &YcsbRecords {
        &self.records
    }

    /// Removes a record. A failure leaves the others to be removed, unless there are too many.
    async fn remove<S: YcsbStore>(&self, number: u64, store: &mut S) -> Result<(), YcsbFailure<S::Error>> {
        match store.remove(&self.records.key(number)).await {
            Err(error) if self.left.fetch_add(1, Ordering::Relaxed) >= LEFT_MAX => Err(error.into()),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// A record that is there.
    fn choose(&self, workload: YcsbWorkload, draws: &mut Draws) -> u64 {
        let (rank, present) = (self.zipf.draw(draws), self.records.present().max(1));
        match workload.preference() {
            // The most frequent records are anywhere.
            Preference::Some => Draws::new(self.seed, rank).below(present),
            Preference::Newest => present - 1 - rank.min(present - 1),
        }
    }
}

/// Does operations of a part until `count` have begun, and passes the latency of each to `record`. A failure stops the other tasks too.
///
/// # Errors
/// An operation failed, or its answer was wrong.
pub async fn operate_all<S: YcsbStore>(
    run: &YcsbRun,
    part: YcsbPart,
    count: u64,
    store: &mut S,
    mut record: impl FnMut(YcsbOperation, Duration),
) -> Result<(), YcsbFailure<S::Error>> {
    while !run.stopped.load(Ordering::Relaxed) {
        let number = run.begun.fetch_add(1, Ordering::Relaxed);
        if number >= count {
            break;
        }
        let mut draws = Draws::new(run.seed, number);
        let operation = match part {
            YcsbPart::Load => YcsbOperation::Insert,
            YcsbPart::Run(workload) => workload.draw(&mut draws),
            YcsbPart::Remove => YcsbOperation::Update,
        };
        let stopwatch = Stopwatch::start();
        let ended = match part {
            YcsbPart::Remove => run.remove(number, store).await,
            YcsbPart::Load => insert(run, number, store).await,
            YcsbPart::Run(workload) => operate(run, (workload, operation), (number, &mut draws), store).await,
        };
        let took = stopwatch.elapsed();
        if let Err(failure) = ended {
            run.stop();
            return Err(failure);
        }
        record(operation, took);
        run.done.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

/// Writes the next record.
async fn insert<S: YcsbStore>(run: &YcsbRun, write: u64, store: &mut S) -> Result<(), YcsbFailure<S::Error>> {
    let number = run.records.begin_insert();
    store.insert(&run.records.key(number), &run.records.value(number, write)).await?;
    run.records.end_insert(number);
    Ok(())
}

async fn operate<S: YcsbStore>(
    run: &YcsbRun,
    (workload, operation): (YcsbWorkload, YcsbOperation),
    (write, draws): (u64, &mut Draws),
    store: &mut S,
) -> Result<(), YcsbFailure<S::Error>> {
    if operation == YcsbOperation::Insert {
        return insert(run, write, store).await;
    }
    let number = run.choose(workload, draws);
    let key = run.records.key(number);
    if operation == YcsbOperation::Scan {
        return scan(run, &key, 1 + draws.below(SCAN_MAX), store).await;
    }
    if operation != YcsbOperation::Update {
        let value = store.read(&key).await?;
        check(run, number, value.as_ref().map(AsRef::as_ref))?;
    }
    if operation != YcsbOperation::Read {
        store.update(&key, &run.records.value(number, write)).await?;
    }
    Ok(())
}

fn check<E>(run: &YcsbRun, number: u64, value: Option<&[u8]>) -> Result<(), YcsbFailure<E>> {
    let what = match value {
        Some(value) if run.records.number_of(value) == Some(number) => return Ok(()),
        Some(_) => "another value was found than was written",
        None => "was inserted and is not there",
    };
    Err(YcsbFailure::Wrong(format!("key \"{}\": {what}", run.records.key(number))))
}

/// Scans from a key on. The keys rise, and each has a value of its own.
async fn scan<S: YcsbStore>(
    run: &YcsbRun,
    from: &str,
    count: u64,
    store: &mut S,
) -> Result<(), YcsbFailure<S::Error>> {
    let wrong = |what: &str| Err(YcsbFailure::Wrong(format!("scan from key \"{from}\": {what}")));
    let found = store.scan(from, &run.records.end(), count).await?;
    let mut before: Option<&[u8]> = None;
    for (key, value) in &found {
        let number = value.as_ref().and_then(|value| run.records.number_of(value.as_ref()));
        let is_own = number.is_some_and(|number| run.records.key(number).as_bytes() == key);
        if !is_own {
            return wrong("another value was found than was written");
        }
        let is_next = before.map_or(key == from.as_bytes(), |before| before < key.as_slice());
        if !is_next {
            return wrong("the first key is missing, or keys are not in their order");
        }
        before = Some(key);
    }
    if found.is_empty() || found.len() as u64 > count { wrong("no records, or too many") } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::ScannedRecords;
    use std::collections::BTreeMap;
    use std::convert::Infallible;
    use std::sync::Mutex;

    /// What is wrong with a store.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Fault {
        None,
        LosesRecord,
        OtherValue,
        OtherOrder,
        TooMany,
    }

    struct MemoryStore {
        records: Mutex<BTreeMap<String, Vec<u8>>>,
        fault: Fault,
    }

    impl YcsbStore for MemoryStore {
        type Value = Vec<u8>;
        type Error = Infallible;

        async fn insert(&mut self, key: &str, value: &[u8]) -> Result<(), Infallible> {
            let mut records = self.records.lock().unwrap();
            assert_eq!(records.insert(key.to_owned(), value.to_owned()), None, "inserted twice");
            if self.fault == Fault::LosesRecord && records.len() == 20 {
                records.pop_first();
            }
            Ok(())
        }

        async fn read(&mut self, key: &str) -> Result<Option<Vec<u8>>, Infallible> {
            let records = self.records.lock().unwrap();
            if self.fault == Fault::OtherValue {
                return Ok(records.values().next().cloned());
            }
            Ok(records.get(key).cloned())
        }

        async fn update(&mut self, key: &str, value: &[u8]) -> Result<(), Infallible> {
            self.records.lock().unwrap().insert(key.to_owned(), value.to_owned());
            Ok(())
        }

        async fn scan(
            &mut self,
            from: &str,
            end: &str,
            count: u64,
        ) -> Result<ScannedRecords<Vec<u8>>, Infallible> {
            let records = self.records.lock().unwrap();
            let count = count as usize + usize::from(self.fault == Fault::TooMany);
            let range = records.range(from.to_owned()..end.to_owned()).take(count);
            let mut found: ScannedRecords<_> =
                range.map(|(key, value)| (key.clone().into_bytes(), Some(value.clone()))).collect();
            match (self.fault, found.as_mut_slice()) {
                (Fault::OtherOrder, [_, second, third, ..]) => std::mem::swap(second, third),
                (Fault::OtherValue, [first, second, ..]) => std::mem::swap(&mut first.1, &mut second.1),
                _ => {}
            }
            Ok(found)
        }

        async fn remove(&mut self, key: &str) -> Result<(), Infallible> {
            self.records.lock().unwrap().remove(key);
            Ok(())
        }
    }

    const RECORDS: u64 = 50;
    const OPERATIONS: u64 = 2000;

    struct Tested {
        run: YcsbRun,
        store: MemoryStore,
        /// By operation.
        counts: [u64; 5],
    }

    impl Tested {
        fn new(fault: Fault) -> Tested {
            let store = MemoryStore { records: Mutex::default(), fault };
            Tested { run: YcsbRun::new(RECORDS, 100, 7), store, counts: [0; 5] }
        }

        fn part(&mut self, part: YcsbPart, count: u64) -> Result<(), YcsbFailure<Infallible>> {
            self.run.begin();
            self.counts = [0; 5];
            let record = |operation, _| self.counts[operation as usize] += 1;
            let done = operate_all(&self.run, part, count, &mut self.store, record);
            tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(done)
        }

        /// What a workload reports as wrong.
        fn wrong(mut self, workload: YcsbWorkload) -> String {
            self.part(YcsbPart::Load, RECORDS).unwrap();
            match self.part(YcsbPart::Run(workload), OPERATIONS) {
                Err(YcsbFailure::Wrong(what)) => what,
                other => panic!("{workload:?} of {:?}: {other:?}", self.store.fault),
            }
        }
    }

    #[test]
    fn all_workloads_run_on_a_store_and_leave_nothing() {
        use YcsbWorkload::{A, B, C, D, E, F};
        let mut tested = Tested::new(Fault::None);
        tested.part(YcsbPart::Load, RECORDS).unwrap();
        assert_eq!(tested.counts, [0, 0, RECORDS, 0, 0]);
        for (workload, operations) in [
            (A, [true, true, false, false, false]),
            (B, [true, true, false, false, false]),
            (C, [true, false, false, false, false]),
            (F, [true, false, false, false, true]),
            (D, [true, false, true, false, false]),
            (E, [false, false, true, true, false]),
        ] {
            tested.part(YcsbPart::Run(workload), OPERATIONS).unwrap();
            assert_eq!(tested.counts.map(|count| count > 0), operations, "{workload:?}");
            assert_eq!((tested.run.done(), tested.counts.iter().sum()), (OPERATIONS, OPERATIONS));
        }
        let begun = tested.run.records().begun();
        assert!(begun > RECORDS && tested.store.records.lock().unwrap().len() as u64 == begun);
        tested.part(YcsbPart::Remove, begun).unwrap();
        assert_eq!((tested.run.left(), tested.store.records.lock().unwrap().len()), (0, 0));
    }

    #[test]
    fn wrong_answers_are_reported() {
        use YcsbWorkload::{A, C, D, E, F};
        for workload in [A, C, D, F] {
            let lost = Tested::new(Fault::LosesRecord).wrong(workload);
            assert!(lost.ends_with("was inserted and is not there"), "{lost}");
            let other = Tested::new(Fault::OtherValue).wrong(workload);
            assert!(other.ends_with("another value was found than was written"), "{other}");
        }
        for (fault, what) in [
            (Fault::LosesRecord, "the first key is missing"),
            (Fault::OtherValue, "another value was found"),
            (Fault::OtherOrder, "keys are not in their order"),
            (Fault::TooMany, "or too many"),
        ] {
            let found = Tested::new(fault).wrong(E);
            assert!(found.starts_with("scan from key \"ycsb-") && found.contains(what), "{found}");
        }
    }
}
