//! What groups and pops may deliver.

use std::collections::{BTreeMap, BTreeSet};

use zerohop_layer_log::{GroupOwner, GroupRecord, MemberId, OffsetRecord, PopOutcome, PopRecord, ReaderId};

/// A group.
#[derive(Default)]
pub(crate) struct ModelGroup {
    generation: u64,
    owners: BTreeMap<u32, MemberId>,
    pub(crate) committed: BTreeMap<u32, u64>,
    /// The member that got a record in a generation.
    delivered: BTreeMap<(u64, u32, u64), MemberId>,
}

impl ModelGroup {
    /// A commit changes the members.
    pub(crate) fn change(&mut self, record: &GroupRecord, partitions: u32) -> Result<(), String> {
        if record.generation <= self.generation {
            return Err(format!("the members change, and generation {} stays", self.generation));
        }
        self.generation = record.generation;
        self.owners.clear();
        for member in &record.members {
            for partition in member.first..member.first + member.count {
                if self.owners.insert(partition, member.id).is_some() {
                    return Err(format!("two members read partition {partition}"));
                }
            }
        }
        let is_whole = record.members.is_empty() || self.owners.keys().copied().eq(0..partitions);
        if is_whole { Ok(()) } else { Err("a partition has no member".to_owned()) }
    }

    /// A member commits what it has read from `from` on.
    pub(crate) fn commit(
        &mut self,
        owner: GroupOwner,
        partition: u32,
        from: u64,
        record: OffsetRecord,
    ) -> Result<(), String> {
        if owner.generation != self.generation || self.owners.get(&partition) != Some(&owner.member) {
            return Err(format!("{owner:?} commits, and does not read partition {partition}"));
        }
        let before = self.committed.insert(partition, record.offset).unwrap_or_default();
        // The answer of the same commit may have been lost.
        if (from == before && record.offset >= from) || record.offset == before {
            return Ok(());
        }
        Err(format!("what was read from {from} to {} is committed at {before}", record.offset))
    }

    /// A member gets a record.
    pub(crate) fn deliver(&mut self, owner: GroupOwner, partition: u32, offset: u64) -> Result<(), String> {
        let before = self.delivered.insert((owner.generation, partition, offset), owner.member);
        if before.is_some_and(|before| before != owner.member) {
            return Err(format!("record {offset} goes to two members of generation {}", owner.generation));
        }
        Ok(())
    }
}

/// The cursor of a partition.
#[derive(Default)]
pub(crate) struct ModelCursor {
    offset: u64,
    popped: BTreeMap<u64, ReaderId>,
    delivered: BTreeSet<u64>,
}

impl ModelCursor {
    /// A commit pops records.
    pub(crate) fn pop(
        &mut self,
        reader: ReaderId,
        pop: PopRecord,
        cursor: u64,
        bounds: (u64, u64),
    ) -> Result<(), String> {
        let end = pop.first + u64::from(pop.count);
        if cursor != end || end > bounds.1 || pop.first < self.offset {
            return Err(format!("{pop:?} moves the cursor from {} to {cursor}", self.offset));
        }
        if pop.first > self.offset && pop.first > bounds.0 {
            return Err(format!("{pop:?} passes over records from {} on", self.offset));
        }
        self.offset = end;
        for offset in pop.first..end {
            if self.popped.insert(offset, reader).is_some() {
                return Err(format!("record {offset} is popped twice"));
            }
        }
        Ok(())
    }

    /// A reader gets records.
    pub(crate) fn deliver(&mut self, reader: ReaderId, pop: &PopOutcome) -> Result<(), String> {
        for (offset, _) in &pop.records {
            if self.popped.get(offset) != Some(&reader) || !self.delivered.insert(*offset) {
                return Err(format!("record {offset} goes to a reader that has not popped it, or twice"));
            }
        }
        Ok(())
    }

    /// Every popped record that is not trimmed was delivered.
    pub(crate) fn check_rest(&self, first: u64) -> Result<(), String> {
        match self.popped.keys().find(|offset| **offset >= first && !self.delivered.contains(offset)) {
            Some(offset) => Err(format!("record {offset} is popped, and no reader gets it")),
            None => Ok(()),
        }
    }
}
