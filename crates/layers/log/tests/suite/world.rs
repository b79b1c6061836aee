//! The simulated store. Each commit is compared with the model.

use std::collections::BTreeMap;

use zerohop_base::random::Random;
use zerohop_layer_log::keys::{self, RecordKey};
use zerohop_layer_log::{
    CursorRecord, GroupOwner, GroupRecord, LogEffect, LogEvent, OffsetRecord, PopOutcome, PopRecord,
    ReaderId, StoredBatch, TailWait, TrimGoal, TrimRecord,
};
use zerohop_layer_procedure::{Record, Version, VersionedRecord, Write};

use crate::delivery::{ModelCursor, ModelGroup};
use crate::model::ModelPartition;

pub(crate) const PARTITIONS: u32 = 3;
pub(crate) const GROUP: &str = "group";
pub(crate) const CURSOR: &str = "cursor";

/// What a transaction of a client does.
#[derive(Clone, Debug)]
pub(crate) enum Intent {
    None,
    Append,
    Trim(TrimGoal),
    /// It changes the members of the group.
    Member,
    /// A member commits what it has read from these offsets on.
    Commit(GroupOwner, Vec<(u32, u64)>),
    Pop(ReaderId),
}

#[derive(Default)]
pub(crate) struct World {
    pub(crate) now: u64,
    version: u64,
    records: BTreeMap<RecordKey, (u64, Vec<u8>)>,
    pub(crate) partitions: [ModelPartition; PARTITIONS as usize],
    pub(crate) groups: ModelGroup,
    cursors: [ModelCursor; PARTITIONS as usize],
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
            LogEffect::Transact { conditions, writes, .. } => {
                let stands = |(key, version): &(RecordKey, Option<Version>)| {
                    self.read(key).map(|read| read.version) == *version
                };
                if !conditions.iter().all(stands) {
                    return Ok(LogEvent::Conflict);
                }
                self.commit(writes, intent)?;
                LogEvent::Committed
            }
            LogEffect::Own(_) => LogEvent::OwnDone,
        })
    }

    fn commit(&mut self, writes: &[Write], intent: &Intent) -> Result<(), String> {
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
                self.partitions[partition as usize].trim(*goal, &removed, trim)?;
            }
        }
        self.commit_group(writes, intent)?;
        self.commit_pop(writes, intent)?;
        for write in writes {
            self.version += 1;
            match &write.value {
                Some(value) => self.records.insert(write.key.clone(), (self.version, value.clone())),
                None => self.records.remove(&write.key),
            };
        }
        Ok(())
    }

    fn commit_group(&mut self, writes: &[Write], intent: &Intent) -> Result<(), String> {
        if let Some(write) = writes.iter().find(|write| write.key == keys::group(GROUP)) {
            let record = write.value.as_ref().and_then(|value| GroupRecord::decode(value));
            let (Some(record), Intent::Member) = (record, intent) else {
                return Err(format!("{intent:?} changes the group"));
            };
            self.groups.change(&record, PARTITIONS)?;
        }
        for partition in 0..PARTITIONS {
            let key = keys::group_offset(partition, GROUP);
            let Some(write) = writes.iter().find(|write| write.key == key) else { continue };
            let record = write.value.as_ref().and_then(|value| OffsetRecord::decode(value));
            let (Some(record), Intent::Commit(owner, offsets)) = (record, intent) else {
                return Err(format!("{intent:?} commits an offset"));
            };
            let from = offsets.iter().find(|(one, _)| *one == partition);
            let from = from.ok_or("a partition is committed that was not read")?.1;
            self.groups.commit(*owner, partition, from, record)?;
        }
        Ok(())
    }

    fn commit_pop(&mut self, writes: &[Write], intent: &Intent) -> Result<(), String> {
        for partition in 0..PARTITIONS {
            let cursor = writes.iter().find(|write| write.key == keys::cursor(partition, CURSOR));
            let Some(cursor) = cursor.and_then(|write| CursorRecord::decode(write.value.as_ref()?)) else {
                continue;
            };
            let Intent::Pop(reader) = intent else { return Err(format!("{intent:?} moves a cursor")) };
            let pop = writes.iter().find(|write| write.key == keys::pop(partition, CURSOR, *reader));
            let pop = pop.and_then(|write| PopRecord::decode(write.value.as_ref()?));
            let pop = pop.ok_or("a cursor moves without a pop")?;
            let model = &self.partitions[partition as usize];
            let bounds = (model.first, model.next());
            self.cursors[partition as usize].pop(*reader, pop, cursor.offset, bounds)?;
        }
        Ok(())
    }

    /// A reader gets the records of a pop.
    pub(crate) fn deliver_pop(
        &mut self,
        partition: u32,
        reader: ReaderId,
        pop: &PopOutcome,
    ) -> Result<(), String> {
        let model = &self.partitions[partition as usize];
        let is_right = |(offset, record): &(u64, _)| model.records.get(*offset as usize) == Some(record);
        if !pop.records.iter().all(is_right) {
            return Err("a pop gets other records than those of its offsets".to_owned());
        }
        self.cursors[partition as usize].deliver(reader, pop)
    }

    /// What must hold when all pops have ended.
    pub(crate) fn check_pops(&self) -> Result<(), String> {
        let mut all = self.partitions.iter().zip(&self.cursors);
        all.try_for_each(|(partition, cursor)| cursor.check_rest(partition.first))
    }
}
