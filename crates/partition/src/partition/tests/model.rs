//! A plain model of a partition: maps, no log, no engine. It computes the answer of each request, the log index that the answer
//! depends on, and the state after a crash that leaves the log at some index.

use std::collections::BTreeMap;

use zerohop_record::memory::{MemoryContents, MemoryRecord};
use zerohop_record::state::ApplyOutcome;
use zerohop_wire::ids::{SessionId, Timestamp};
use zerohop_wire::messages::{
    Condition, Confirm, CountBits, Expiry, GetBit, Insert, LookupRange, OperationAnswer, Outcome, Query,
    Range, RecordRead, RecordType, RecordWrite, Stamp, Wait, WaitUntil, WriteChange,
};
use zerohop_wire::{Elements, Failure};

use crate::testing::OwnedAnswer;

/// A session: lowest unanswered sequence; by sequence, the index of the entry and the outcome.
type ModelSession = (u64, BTreeMap<u64, (u64, OwnedAnswer)>);

/// The partition as of a log index.
#[derive(Clone, Debug, Default)]
pub(super) struct PartitionModel {
    pub(super) records: BTreeMap<Vec<u8>, MemoryRecord>,
    sessions: BTreeMap<SessionId, ModelSession>,
    /// By key, the last entry that changed it.
    touched: BTreeMap<Vec<u8>, u64>,
    pub(super) last: u64,
    /// The highest timestamp in the log.
    pub(super) newest: Timestamp,
}

/// The model now, and as it was at each log index.
#[derive(Default)]
pub(super) struct ModelHistory {
    pub(super) now: PartitionModel,
    pub(super) clock: Timestamp,
    pub(super) now_ms: u64,
    /// Up to which log index entries are committed.
    pub(super) commit: u64,
    at: BTreeMap<u64, PartitionModel>,
}

/// The expected answer of a request, and the entry that it depends on.
pub(super) struct ExpectedAnswer {
    pub(super) answer: OwnedAnswer,
    pub(super) index: u64,
}

impl PartitionModel {
    /// The answer of a lookup.
    pub(super) fn lookup(&self, key: &[u8], range: Range) -> OwnedAnswer {
        let Some(record) = self.records.get(key) else { return OwnedAnswer::of(&Err(Failure::NotFound)) };
        let (version, length) = (record.version, record.length());
        let part = range.clip(length);
        let of = part.start as usize..part.end as usize;
        match &record.contents {
            MemoryContents::Bytes(bytes) => {
                OwnedAnswer::of(&Ok(Outcome::Value { version, length, bytes: &bytes[of] }))
            }
            MemoryContents::List(values) => {
                let values: Vec<&[u8]> = values[of].iter().map(Vec::as_slice).collect();
                let (first, values) = (part.start, Elements::from_slice(&values));
                OwnedAnswer::of(&Ok(Outcome::List { version, length, first, values }))
            }
        }
    }

    /// Whether the last entry was of this key.
    pub(super) fn was_touched_last(&self, key: &[u8]) -> bool {
        self.touched.get(key) == Some(&self.last)
    }

    pub(super) fn is_satisfied(&self, key: &[u8], until: &WaitUntil<'_>) -> bool {
        let record = self.records.get(key);
        let is = |value: &[u8]| matches!(record, Some(MemoryRecord { contents: MemoryContents::Bytes(bytes), .. }) if bytes == value);
        match until {
            WaitUntil::Equals(value) => is(value),
            WaitUntil::Differs(value) => !is(value),
            WaitUntil::Absent => record.is_none(),
            WaitUntil::Present => record.is_some(),
            WaitUntil::Changed(version) => {
                record.map_or(Timestamp::ZERO, |record| record.version) != *version
            }
        }
    }
}

impl ModelHistory {
    pub(super) fn new(now_ms: u64) -> ModelHistory {
        ModelHistory { now_ms, ..ModelHistory::default() }
    }

    /// The log has gained an entry.
    fn logged(&mut self, key: Option<&[u8]>, at: Timestamp) {
        self.now.last += 1;
        self.now.newest = self.now.newest.max(at);
        if let Some(key) = key {
            self.now.touched.insert(key.to_vec(), self.now.last);
        }
        self.save_state();
    }

    fn save_state(&mut self) {
        self.at.insert(self.now.last, self.now.clone());
    }

    /// The model as it was when the log ended there.
    pub(super) fn at(&self, index: u64) -> PartitionModel {
        self.at.get(&index).cloned().unwrap_or_default()
    }

    /// A crash has shortened the log to this index.
    pub(super) fn truncate_to(&mut self, index: u64) {
        self.now = self.at(index);
        self.at.split_off(&(index + 1));
        self.clock = self.now.newest;
    }

    /// Earlier states are not needed again.
    pub(super) fn remove_below(&mut self, index: u64) {
        self.at = self.at.split_off(&index);
    }

    fn next_timestamp(&mut self) -> Timestamp {
        self.clock = self.clock.next().max(Timestamp::from_millis(self.now_ms));
        self.clock
    }

    pub(super) fn expire_if_due(&mut self, key: &[u8]) {
        let is_due = |record: &MemoryRecord| record.deadline.is_some_and(|deadline| deadline <= self.now_ms);
        if self.now.records.get(key).is_some_and(is_due) {
            let at = self.next_timestamp();
            self.now.records.remove(key);
            self.logged(Some(key), at);
        }
    }

    /// Expires due records, earliest first.
    pub(super) fn tick(&mut self) {
        let mut due: Vec<(u64, Vec<u8>)> = Vec::new();
        for (key, record) in &self.now.records {
            due.extend(record.deadline.map(|deadline| (deadline, key.clone())));
        }
        due.sort_unstable();
        due.into_iter().for_each(|(_, key)| self.expire_if_due(&key));
    }

    fn committed(&self, stamp: &Stamp) -> Option<&ModelSession> {
        self.at.get(&self.commit)?.sessions.get(&stamp.session)
    }

    /// Whether the session has reported that it has the answer.
    pub(super) fn is_answered(&self, stamp: &Stamp) -> bool {
        self.committed(stamp).is_some_and(|(lowest, _)| stamp.sequence.0 < *lowest)
    }

    fn depends_on(&self, key: &[u8]) -> u64 {
        self.now.touched.get(key).copied().unwrap_or(0)
    }

    /// A read, except a wait whose condition does not hold.
    pub(super) fn read(&mut self, read: &RecordRead<'_>) -> Option<ExpectedAnswer> {
        let key = read.key;
        self.expire_if_due(key);
        let record = self.now.records.get(key);
        let version = record.map(|record| record.version).unwrap_or_default();
        let answer = match (&read.query, record) {
            (Query::ReadChunk(_), _) => unreachable!("chunks have a model of their own"),
            (Query::Lookup | Query::UpdateLock(_), _) => self.now.lookup(key, Range::ALL),
            (Query::LookupRange(LookupRange { range }), _) => self.now.lookup(key, *range),
            (Query::Wait(Wait { until }), _) if !self.now.is_satisfied(key, until) => return None,
            (Query::Wait(_), _) => self.now.lookup(key, Range::ALL),
            (Query::Confirm(Confirm { version: seen }), _) => {
                // An absence of a record is not confirmed.
                let number = u64::from(version == *seen && record.is_some());
                OwnedAnswer::of(&Ok(Outcome::Done { version, number }))
            }
            (Query::Inspect, None) => OwnedAnswer::of(&Err(Failure::NotFound)),
            (Query::Inspect, Some(known)) => OwnedAnswer::of(&Ok(Outcome::Info {
                version,
                record: known.record_type(),
                length: known.length(),
                expires_at_ms: known.deadline,
            })),
            (
                Query::GetBit(_) | Query::CountBits(_),
                Some(MemoryRecord { contents: MemoryContents::List(_), .. }),
            ) => OwnedAnswer::of(&Err(Failure::WrongType { found: RecordType::List })),
            (Query::GetBit(GetBit { offset }), known) => {
                let number = known.map_or(0, |known| bit(known, *offset));
                OwnedAnswer::of(&Ok(Outcome::Done { version, number }))
            }
            (Query::CountBits(CountBits { range }), known) => {
                let number = known.map_or(0, |known| {
                    let part = range.clip(known.length());
                    (part.start * 8..part.end * 8).map(|offset| bit(known, offset)).sum()
                });
                OwnedAnswer::of(&Ok(Outcome::Done { version, number }))
            }
        };
        Some(ExpectedAnswer { answer, index: self.depends_on(key) })
    }

    /// A write; `None` if its session already has the answer.
    pub(super) fn write(
        &mut self,
        stamp: &Stamp,
        sequence: u64,
        write: &RecordWrite<'_>,
    ) -> Option<ExpectedAnswer> {
        let has_session = stamp.session.is_some();
        if has_session {
            // Outcomes are dropped only once the entry that allows it is committed.
            if self.is_answered(stamp) {
                return None;
            }
            let mut known = self.committed(stamp).into_iter().chain(self.now.sessions.get(&stamp.session));
            if let Some((index, answer)) = known.find_map(|(_, outcomes)| outcomes.get(&sequence)) {
                return Some(ExpectedAnswer { answer: answer.clone(), index: *index });
            }
        }
        let is_blind = matches!(
            (write.condition, &write.change),
            (Condition::Always, WriteChange::Insert(Insert { expiry, .. })) if *expiry != Expiry::Unchanged
        );
        if !is_blind {
            self.expire_if_due(write.key);
        }
        let at = self.next_timestamp();
        let before = self.now.records.get(write.key).cloned();
        let mut after = before.clone();
        let answer = evaluate(&mut after, write, at, self.now_ms);
        let answer = OwnedAnswer::of(&answer);
        let is_changed =
            before != after || matches!(write.change, WriteChange::Insert(_)) && answer.number().is_ok();
        if !is_changed && !has_session {
            return Some(ExpectedAnswer { answer, index: self.depends_on(write.key) });
        }
        match after {
            Some(record) => drop(self.now.records.insert(write.key.to_vec(), record)),
            None => drop(self.now.records.remove(write.key)),
        }
        if has_session {
            let index = self.now.last + 1;
            let (lowest, outcomes) = self.now.sessions.entry(stamp.session).or_default();
            *lowest = (*lowest).max(stamp.lowest_unanswered.0);
            *outcomes = outcomes.split_off(lowest);
            if sequence >= *lowest {
                outcomes.insert(sequence, (index, answer.clone()));
            }
        }
        self.logged(is_changed.then_some(write.key), at);
        Some(ExpectedAnswer { answer, index: self.now.last })
    }
}

fn bit(record: &MemoryRecord, offset: u64) -> u64 {
    let MemoryContents::Bytes(bytes) = &record.contents else { return 0 };
    let byte = bytes.get((offset / 8) as usize).copied().unwrap_or(0);
    u64::from(byte >> (7 - offset % 8) & 1)
}

/// The effect of a write on a record.
fn evaluate(
    slot: &mut Option<MemoryRecord>,
    write: &RecordWrite<'_>,
    at: Timestamp,
    now_ms: u64,
) -> OperationAnswer<'static> {
    let version = slot.as_ref().map(|record| record.version).unwrap_or_default();
    let found = slot.as_ref().map(MemoryRecord::record_type);
    let holds = match write.condition {
        Condition::Always => true,
        Condition::IfAbsent => found.is_none(),
        Condition::IfPresent => found.is_some(),
        Condition::IfVersion(expected) => found.is_some() && version == expected,
    };
    if !holds {
        return Err(Failure::ConditionFailed { version, found });
    }
    match write.change.apply_in_memory(slot, at, now_ms).expect("blobs have a model of their own")? {
        ApplyOutcome::Done { version, number } => Ok(Outcome::Done { version, number }),
        ApplyOutcome::Counter { version, value } => Ok(Outcome::Counter { version, value }),
        ApplyOutcome::NotFound => Err(Failure::NotFound),
        ApplyOutcome::WrongType(found) => Err(Failure::WrongType { found }),
        ApplyOutcome::CompareFailed { version, seen } => {
            Err(Failure::CompareFailed { version, seen: seen.map(|seen| seen.into_vec().into()) })
        }
        ApplyOutcome::NotANumber => Err(Failure::NotANumber),
        ApplyOutcome::Overflow => Err(Failure::Overflow),
        ApplyOutcome::ValueTooLong { length, limit } => Err(Failure::ValueTooLong { length, limit }),
        ApplyOutcome::TooMany { count, limit } => Err(Failure::TooMany { count, limit }),
        ApplyOutcome::RemovedRecord { .. } => unreachable!("it draws no take"),
    }
}
