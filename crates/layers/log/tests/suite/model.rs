//! What a log partition must be, and what each commit may do to it.

use std::collections::{BTreeMap, BTreeSet};

use zerohop_layer_log::{LogRecord, ProducerId, StoredBatch, TrimGoal, TrimRecord};

/// A batch that stands.
#[derive(Clone, Copy)]
struct ModelBatch {
    base: u64,
    last: u64,
    appended: u64,
    bytes: u64,
}

/// A log partition.
#[derive(Default)]
pub(crate) struct ModelPartition {
    /// All records that were ever appended.
    pub(crate) records: Vec<LogRecord>,
    pub(crate) first: u64,
    batches: Vec<ModelBatch>,
    values: BTreeSet<Vec<u8>>,
    /// The epoch of each producer, and the last record of it.
    producers: BTreeMap<ProducerId, (u16, u32)>,
}

/// The value of a record: who has made it, and as which of its records.
pub(crate) fn value_of(producer: u8, epoch: u16, number: u32) -> Vec<u8> {
    [&[producer][..], &epoch.to_be_bytes(), &number.to_be_bytes()].concat()
}

fn number_of(record: &LogRecord) -> Option<(u16, u32)> {
    let value = record.value.as_ref()?;
    Some((
        u16::from_be_bytes(*value.get(1..)?.first_chunk()?),
        u32::from_be_bytes(*value.get(3..)?.first_chunk()?),
    ))
}

impl ModelPartition {
    pub(crate) fn next(&self) -> u64 {
        self.records.len() as u64
    }

    /// Whether a record was ever appended.
    pub(crate) fn contains(&self, record: &LogRecord) -> bool {
        record.value.as_ref().is_some_and(|value| self.values.contains(value))
    }

    pub(crate) fn append(&mut self, stored: &StoredBatch) -> Result<(), String> {
        if stored.base != self.next() {
            return Err(format!("a batch begins at {} where {} follows", stored.base, self.next()));
        }
        let epoch_before = stored.batch.producer().and_then(|stamp| {
            let last = self.producers.get(&stamp.id)?;
            Some((stamp.epoch, last.0))
        });
        if let Some((epoch, before)) = epoch_before.filter(|(epoch, before)| epoch < before) {
            return Err(format!("a producer of epoch {epoch} appends after one of epoch {before}"));
        }
        for record in stored.batch.records() {
            let value = record.value.clone().ok_or("a record has no value")?;
            if !self.values.insert(value.clone()) {
                return Err(format!("{value:?} is appended twice"));
            }
            if let Some(stamp) = stored.batch.producer() {
                let (epoch, number) = number_of(&record).ok_or("a value is none of the test")?;
                let expected = match self.producers.get(&stamp.id) {
                    Some((before, last)) if *before == epoch => last + 1,
                    _ => 0,
                };
                if number != expected {
                    return Err(format!("record {number} of a producer follows where {expected} is missing"));
                }
                self.producers.insert(stamp.id, (epoch, number));
            }
            self.records.push(record);
        }
        self.batches.push(ModelBatch {
            base: stored.base,
            last: stored.last(),
            appended: stored.appended,
            bytes: stored.batch.bytes().len() as u64,
        });
        let highest = self.records.iter().map(|record| record.time).max();
        if highest != Some(stored.highest) {
            return Err(format!("the highest time is {highest:?}, and the batch has {}", stored.highest));
        }
        Ok(())
    }

    /// A commit that removes the batches with these last offsets, and writes `trim`.
    pub(crate) fn trim(
        &mut self,
        goal: TrimGoal,
        removed: &[u64],
        trim: Option<TrimRecord>,
    ) -> Result<(), String> {
        let before = self.first;
        for last in removed {
            let first = self.batches.first().copied().filter(|batch| batch.last == *last);
            let Some(batch) = first else {
                return Err(format!("the batch up to {last} is removed, and is not the first one"));
            };
            let left = self.batches[1..].iter().map(|one| one.bytes).sum::<u64>();
            let may_go = match goal {
                TrimGoal::Below(offset) => batch.last < offset,
                TrimGoal::Retention { before, bytes } => {
                    before.is_some_and(|before| batch.appended < before)
                        || bytes.is_some_and(|bytes| left >= bytes)
                }
            };
            if !may_go {
                return Err(format!("the batch from {} to {last} is removed for {goal:?}", batch.base));
            }
            self.batches.remove(0);
        }
        self.first = trim.map_or(before, |trim| trim.first);
        if self.first < before || self.first > self.next() {
            return Err(format!("the first offset moves from {before} to {}", self.first));
        }
        let stands = self.batches.first().map_or(self.next(), |batch| batch.base);
        if self.first < stands || self.batches.first().is_some_and(|batch| batch.last < self.first) {
            return Err(format!(
                "the first offset is {}, and the first batch begins at {stands}",
                self.first
            ));
        }
        Ok(())
    }

    /// The batches that stand: their number and bytes.
    pub(crate) fn size(&self) -> (u64, u64) {
        (self.batches.len() as u64, self.batches.iter().map(|batch| batch.bytes).sum())
    }
}
