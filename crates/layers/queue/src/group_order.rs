//! The order of the messages of a group: only the first one has an entry.

use std::collections::BTreeMap;

use zerohop_layer_procedure::Writes;

use crate::keys;
use crate::planted::{Bug, is_planted};
use crate::procedure::{QueuePause, QueueReads};
use crate::records::{CountsRecord, EntryRecord, GroupPlace, GroupRecord, MessageId, WaitingRecord};

/// Writes the entry of a message without a lease: ready, or delayed until `due`.
pub(crate) fn put_entry(
    writes: &mut Writes,
    partition: u32,
    now: u64,
    message: MessageId,
    due: u64,
    entry: &EntryRecord,
) {
    if due > now && !is_planted(Bug::DelayIgnored) {
        writes.put(keys::timed(partition, due, message), entry);
    } else {
        writes.put(keys::ready(partition, entry.pushed, message), entry);
    }
}

/// The changes of groups in one decision.
pub(crate) struct GroupChanges {
    partition: u32,
    now: u64,
    /// The groups as the decision leaves them.
    groups: BTreeMap<String, GroupRecord>,
}

impl GroupChanges {
    pub(crate) const fn new(partition: u32, now: u64) -> Self {
        Self { partition, now, groups: BTreeMap::new() }
    }

    fn get(&mut self, reads: &mut QueueReads, group: &str) -> Result<GroupRecord, QueuePause> {
        if let Some(changed) = self.groups.get(group) {
            return Ok(*changed);
        }
        Ok(reads.get(&keys::group(self.partition, group))?.unwrap_or_default())
    }

    /// Appends a message. It gets an entry if it is the only one of the group.
    pub(crate) fn append(
        &mut self,
        reads: &mut QueueReads,
        writes: &mut Writes,
        group: &str,
        waiting: WaitingRecord,
    ) -> Result<(), QueuePause> {
        let before = self.get(reads, group)?;
        if before.first == before.next || is_planted(Bug::GroupOrderIgnored) {
            self.put_first(writes, group, before.next, &waiting);
        }
        writes.put(keys::waiting(self.partition, group, before.next), &waiting);
        self.groups.insert(group.to_owned(), GroupRecord { next: before.next + 1, ..before });
        Ok(())
    }

    /// Removes the first message, whose entry the caller removes. The next one gets an entry.
    pub(crate) fn finish_first(
        &mut self,
        reads: &mut QueueReads,
        writes: &mut Writes,
        place: &GroupPlace,
    ) -> Result<(), QueuePause> {
        let GroupPlace { group, place } = place;
        let next_key = keys::waiting(self.partition, group, place + 1);
        reads.require([keys::group(self.partition, group), next_key.clone()])?;
        let before = self.get(reads, group)?;
        writes.remove(keys::waiting(self.partition, group, *place));
        let after = GroupRecord { first: place + 1, ..before };
        if after.first < after.next {
            let Some(waiting) = reads.get::<WaitingRecord>(&next_key)? else {
                return Err(crate::QueueError::Corrupt(next_key).into());
            };
            if !is_planted(Bug::GroupStops) {
                self.put_first(writes, group, after.first, &waiting);
                writes.add(keys::counts(self.partition), CountsRecord::RETURNED, 1);
            }
        }
        self.groups.insert(group.clone(), after);
        Ok(())
    }

    fn put_first(&self, writes: &mut Writes, group: &str, place: u64, waiting: &WaitingRecord) {
        let entry = EntryRecord {
            pushed: waiting.pushed,
            tries: 0,
            bytes: waiting.bytes,
            consumer: None,
            place: Some(GroupPlace { group: group.to_owned(), place }),
        };
        put_entry(writes, self.partition, self.now, waiting.message, waiting.due, &entry);
    }

    /// Writes the groups.
    pub(crate) fn write(self, writes: &mut Writes) {
        for (group, after) in self.groups {
            let key = keys::group(self.partition, &group);
            if after.first < after.next { writes.put(key, &after) } else { writes.remove(key) }
        }
    }
}
