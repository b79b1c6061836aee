//! Workers that write, and check their writes.

use std::collections::BTreeMap;

use tokio::sync::{mpsc, watch};
use zerohop_client::{Error, Keyspace, Range, Record};

use crate::kill::NodeAvailability;
use crate::kill::disk_probe::Answers;
use crate::kill::history::RecordHistory;
pub(crate) use crate::kill::history::Rules;
use crate::kill::values::{number_of, random, value};

/// Keys of a worker that inserts and removes.
const KEYS: u64 = 12;

/// The last values of a list, which are checked after every kill; all values are checked at the
/// end.
const TAIL: i64 = -100;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WorkerKind {
    /// Inserts and removes records.
    Insert,
    /// Increments a counter.
    Count,
    /// Appends to a list.
    Append,
}

/// The totals of all workers.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    pub(crate) acknowledged: u64,
    /// Writes with an unknown outcome.
    pub(crate) unknown_writes: u64,
    /// Records checked after a kill.
    pub(crate) checked: u64,
}

/// A worker that writes one record at a time.
pub(crate) struct RecordWorker {
    keyspace: Keyspace,
    rules: Rules,
    kind: WorkerKind,
    id: u64,
    seed: u64,
    availability: watch::Receiver<NodeAvailability>,
    checked: mpsc::Sender<()>,
    answers: Answers,
    /// By key: the number of the value, or of the counter or list; `None`: no record.
    records: BTreeMap<String, RecordHistory<Option<u64>>>,
    step: u64,
    totals: Totals,
}

impl Totals {
    pub(crate) fn add(&mut self, other: Totals) {
        self.acknowledged += other.acknowledged;
        self.unknown_writes += other.unknown_writes;
        self.checked += other.checked;
    }
}

impl RecordWorker {
    pub(crate) fn new(
        (keyspace, rules): (Keyspace, Rules),
        kind: WorkerKind,
        id: u64,
        seed: u64,
        availability: watch::Receiver<NodeAvailability>,
        checked: mpsc::Sender<()>,
        answers: Answers,
    ) -> Self {
        let (records, totals) = (BTreeMap::new(), Totals::default());
        RecordWorker {
            keyspace,
            rules,
            kind,
            id,
            seed,
            availability,
            checked,
            answers,
            records,
            step: 0,
            totals,
        }
    }

    /// Writes until the end of the test; checks first after every kill.
    pub(crate) async fn run(mut self) -> Totals {
        let mut starts = 1;
        loop {
            let availability = *self
                .availability
                .wait_for(|availability| availability.is_up || availability.is_over)
                .await
                .unwrap();
            if availability.starts != starts {
                starts = availability.starts;
                self.check(availability).await;
                self.checked.send(()).await.unwrap();
            }
            if availability.is_over {
                self.check_lists().await;
                return self.totals;
            }
            self.write().await;
        }
    }

    async fn write(&mut self) {
        self.step += 1;
        let who = (matches!(self.rules, Rules::All) as u64) << 32 | (self.kind as u64) << 16 | self.id;
        self.answers.record_request(who);
        let draw = random(self.seed ^ self.id << 32, self.step);
        match self.kind {
            WorkerKind::Insert => self.insert_or_remove(draw).await,
            WorkerKind::Count => self.count().await,
            WorkerKind::Append => self.append().await,
        }
        self.answers.answered(who);
    }

    async fn insert_or_remove(&mut self, draw: u64) {
        let key = format!("insert-{}-{}", self.id, draw % KEYS);
        let availability = self.availability.clone();
        let rules = self.rules;
        let history = self.records.entry(key.clone()).or_insert_with(|| RecordHistory::new(None));
        let is_insert = !(draw / 64).is_multiple_of(8);
        let state = is_insert.then_some(self.step);
        let outcome = match state {
            Some(number) => self.keyspace.insert(&key, &value(&key, number)).await.map(|_| None),
            None => self.keyspace.remove(&key).await.map(Some),
        };
        match outcome {
            Ok(removed) => {
                let was_there = history.last().is_some();
                assert!(
                    removed.is_none_or(
                        |removed| removed == was_there || may_have_lost_writes(&availability, rules)
                    ),
                    "key {key}: was there: {was_there}, removed: {removed:?}"
                );
                history.acknowledged(state);
                self.totals.acknowledged += 1;
            }
            Err(error) => self.record_failed_write(&key, state, &error).await,
        }
    }

    async fn count(&mut self) {
        let key = format!("count-{}", self.id);
        let history = self.records.entry(key.clone()).or_insert_with(|| RecordHistory::new(None));
        let next = Some(history.last().unwrap_or(0) + 1);
        match self.keyspace.increment(&key, 1).await {
            Ok(sum) => self.counted(&key, next, sum as u64),
            Err(error) => self.record_failed_write(&key, next, &error).await,
        }
    }

    async fn append(&mut self) {
        let key = format!("append-{}", self.id);
        let history = self.records.entry(key.clone()).or_insert_with(|| RecordHistory::new(None));
        let next = Some(history.last().unwrap_or(0) + 1);
        // The number rises even if earlier writes were lost.
        let value = value(&key, self.step);
        match self.keyspace.append(&key, &[&value]).await {
            Ok(length) => self.counted(&key, next, length),
            Err(error) => self.record_failed_write(&key, next, &error).await,
        }
    }

    /// An increment or append returned this number. A kill meanwhile may have lost earlier ones, if
    /// the rules allow it; but none may have happened twice.
    fn counted(&mut self, key: &str, next: Option<u64>, found: u64) {
        let may_be_less = may_have_lost_writes(&self.availability, self.rules);
        let expected = next.unwrap_or(0);
        assert!(
            found == expected || may_be_less && found < expected,
            "key {key}: after {} came {found}",
            expected - 1
        );
        let history = self.records.get_mut(key).unwrap();
        history.acknowledged(Some(found));
        self.totals.acknowledged += 1;
    }

    /// A write has failed. It may have taken effect only if its outcome is unknown.
    async fn record_failed_write(&mut self, key: &str, state: Option<u64>, error: &Error) {
        assert!(error.is_unknown(), "key {key}: {error}");
        assert!(
            matches!(self.rules, Rules::Before(_)),
            "under `sync` every outcome is remembered: {key}: {error}"
        );
        self.records.get_mut(key).unwrap().add_unknown_write(state);
        self.totals.unknown_writes += 1;
    }

    /// Checks whole lists, at the end.
    async fn check_lists(&self) {
        for (key, history) in self.records.iter().filter(|_| self.kind == WorkerKind::Append) {
            assert_eq!(list_length(&self.keyspace, key, i64::MIN, self.rules).await, *history.last());
        }
    }

    /// Checks all of its records; of a list only the end.
    async fn check(&mut self, availability: NodeAvailability) {
        for (key, history) in &mut self.records {
            let found = match self.kind {
                WorkerKind::Insert => lookup(&self.keyspace, key).await.map(|bytes| number_of(key, &bytes)),
                WorkerKind::Count => lookup(&self.keyspace, key)
                    .await
                    .map(|bytes| std::str::from_utf8(&bytes).unwrap().parse().unwrap()),
                WorkerKind::Append => list_length(&self.keyspace, key, TAIL, self.rules).await,
            };
            history.check_state(key, found, &availability, self.rules);
            self.totals.checked += 1;
        }
    }
}

/// Whether a kill that a worker has not checked for yet may have lost some of its writes.
fn may_have_lost_writes(availability: &watch::Receiver<NodeAvailability>, rules: Rules) -> bool {
    let was_killed = !availability.borrow().is_up || availability.has_changed().unwrap_or(true);
    was_killed && matches!(rules, Rules::Before(_))
}

async fn lookup(keyspace: &Keyspace, key: &str) -> Option<bytes::Bytes> {
    keyspace.lookup_bytes(key).await.unwrap()
}

/// The length of a list, from this position on. Each value must be that of its position; where some
/// may have been lost, the others are still in order and none is duplicated.
async fn list_length(keyspace: &Keyspace, key: &str, start: i64, rules: Rules) -> Option<u64> {
    let mut range = Range { start, stop: i64::MAX };
    let mut last = None;
    loop {
        let record = keyspace.lookup_range(key, range).await.unwrap()?;
        let Record::List { values, length, first, .. } = record else { panic!("key {key}: {record:?}") };
        for (at, value) in (first..).zip(&values) {
            let number = number_of(key, value);
            let is_next = match rules {
                // Each step appends one value, and none was lost.
                Rules::All => number == at + 1,
                Rules::Before(_) => last.is_none_or(|last| number > last),
            };
            assert!(is_next, "key {key}, {rules:?}: at place {at}, after {last:?}, comes {number}");
            last = Some(number);
        }
        let end = first + values.len() as u64;
        if end == length {
            return Some(length);
        }
        range.start = end as i64;
    }
}
