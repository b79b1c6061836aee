//! The simulated store. Each commit is compared with the model.

use std::collections::BTreeMap;

use zerohop_base::random::Random;
use zerohop_layer_log::keys::{self, RecordKey};
use zerohop_layer_log::{LogEffect, LogEvent, StoredBatch, TailWait, TrimGoal, TrimRecord};
use zerohop_layer_procedure::{Record, Version, VersionedRecord, Write};

use crate::model::ModelPartition;

pub(crate) const PARTITIONS: u32 = 2;

/// What a transaction of a client does.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Intent {
    None,
    Append,
    Trim(TrimGoal),
}

#[derive(Default)]
pub(crate) struct World {
    pub(crate) now: u64,
    version: u64,
    records: BTreeMap<RecordKey, (u64, Vec<u8>)>,
    pub(crate) partitions: [ModelPartition; PARTITIONS as usize],
}

impl World {
    fn read(&self, key: &[u8]) -> Option<VersionedRecord> {
        let (version, value) = self.records.get(key)?;
        Some(VersionedRecord { version: Version(*version), value: value.clone() })
    }

    /// Whether a wait has ended.
    pub(crate) fn is_over(&self, wait: &TailWait) -> bool {
        let version = self.read(&wait.key).map(|record| record.version);
        version != Some(wait.seen) || self.now >= wait.until
    }

    /// Carries out an effect. The error is a violation.
    pub(crate) fn perform(
        &mut self,
        effect: &LogEffect,
        intent: &Intent,
        random: &mut Random,
    ) -> Result<LogEvent, String> {
        Ok(match effect {
            LogEffect::Read(keys) => LogEvent::Values(keys.iter().map(|key| self.read(key)).collect()),
            LogEffect::Scan { from, to, limit, bytes } => {
                // Pages are shorter than asked for at times, as those of a store are.
                let limit = if random.chance(1, 3) { 1 + random.below(3) as usize } else { *limit };
                let (mut entries, mut next, mut sum) = (Vec::new(), None, 0);
                for (key, (_, value)) in self.records.range(from.clone()..to.clone().max(from.clone())) {
                    if entries.len() == limit || (sum >= *bytes && !entries.is_empty()) {
                        next = Some(key.clone());
                        break;
                    }
                    sum += value.len();
                    entries.push((key.clone(), value.clone()));
                }
                LogEvent::Page { entries, next }
            }
            LogEffect::Transact { conditions, writes } => {
                let stands = |(key, version): &(RecordKey, Option<Version>)| {
                    self.read(key).map(|read| read.version) == *version
                };
                if !conditions.iter().all(stands) {
                    return Ok(LogEvent::Conflict);
                }
                self.commit(writes, *intent)?;
                LogEvent::Committed
            }
            LogEffect::Own(_) => LogEvent::OwnDone,
        })
    }

    fn commit(&mut self, writes: &[Write], intent: Intent) -> Result<(), String> {
        for partition in 0..PARTITIONS {
            let (from, to) = (keys::batch(partition, 0), keys::batches_end(partition));
            let mut removed = Vec::new();
            for write in writes.iter().filter(|write| write.key >= from && write.key < to) {
                match &write.value {
                    Some(_) if self.records.contains_key(&write.key) => {
                        return Err("a batch is written over another one".to_owned());
                    }
                    Some(value) => {
                        let stored = StoredBatch::decode(value).ok_or("a batch is written that is none")?;
                        if write.key != keys::batch(partition, stored.last()) {
                            return Err("a batch has the key of another one".to_owned());
                        }
                        self.partitions[partition as usize].append(&stored)?;
                    }
                    None => {
                        let last = write.key.last_chunk().ok_or("a batch has a short key")?;
                        removed.push(u64::from_be_bytes(*last));
                    }
                }
            }
            let trim = writes.iter().find(|write| write.key == keys::trim(partition));
            let trim = trim.and_then(|write| TrimRecord::decode(write.value.as_ref()?));
            if trim.is_some() || !removed.is_empty() {
                let Intent::Trim(goal) = intent else {
                    return Err(format!("{intent:?} trims a partition"));
                };
                self.partitions[partition as usize].trim(goal, &removed, trim)?;
            }
        }
        for write in writes {
            self.version += 1;
            match &write.value {
                Some(value) => self.records.insert(write.key.clone(), (self.version, value.clone())),
                None => self.records.remove(&write.key),
            };
        }
        Ok(())
    }
}
