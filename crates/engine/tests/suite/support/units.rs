//! Atomic batches of several entries, and hints for the location of a key.

use zerohop_engine::{EntryMeta, FLAG_JOINED, Hint, NewEntry};

use super::part::ModelledPartition;
use super::world::{EngineWorld, ErrorVerdict};

impl EngineWorld {
    /// The location of the key: the present one, or one from an earlier lookup, whatever has
    /// happened since. It uses no random draw, so that seeds stay the same.
    pub fn hint_for(&mut self, at: usize, meta: &EntryMeta, key: &[u8]) -> Option<Hint> {
        if !meta.kind.has_key() || meta.index.is_multiple_of(3) {
            return None;
        }
        if let Some((_, hint)) = self.parts[at].hint.take_if(|(of, _)| &**of == key) {
            return Some(hint);
        }
        let handle = self.parts[at].handle;
        // Reads find errors in a record; here they are ignored.
        let hint = self.engine().inspect(handle, key).ok().flatten().map(|found| found.hint);
        if meta.index % 3 == 1 {
            self.parts[at].hint = hint.map(|hint| (key.into(), hint));
        }
        hint
    }

    /// Several entries that take effect together or not at all.
    pub fn add_batch(&mut self, at: usize) -> Result<(), String> {
        let ModelledPartition { handle, is_group, durability, is_unsure, .. } = self.parts[at];
        if is_unsure {
            return Ok(());
        }
        let (before, count) = (self.parts[at].last(), 2 + self.random.below(4));
        if !is_group && before.is_multiple_of(2) {
            return self.write_batch(at, count);
        }
        for left in (0..count).rev() {
            let mut entry = self.random_entry(at);
            entry.meta.flags |= if left > 0 { FLAG_JOINED } else { 0 };
            self.trace(|| format!("p{at} unit, {left} to come: {:?}", entry.meta));
            if let Err(error) = self.engine().append(handle, &entry.meta, &entry.key, &entry.payload) {
                return match self.check_error("an entry of a unit", durability, error)? {
                    ErrorVerdict::Refused => self.undo_batch(at, before),
                    ErrorVerdict::Failed => {
                        self.see_whether_it_happened(at, entry)?;
                        self.parts[at].is_unsure = true;
                        Ok(())
                    }
                };
            }
            self.parts[at].log.push(entry);
        }
        self.parts[at].accepted = self.parts[at].last();
        if !is_group {
            match self.engine().commit(handle, u64::MAX) {
                Ok(()) => self.parts[at].commit_to(u64::MAX),
                Err(error) => {
                    self.check_error("commit of a unit", durability, error)?;
                    let stats = self.engine().partition_stats(handle).map_err(|e| e.to_string())?;
                    self.parts[at].stopped_at(stats.commit);
                }
            }
        }
        self.check_ends(at)
    }

    /// There is no space for the rest: the entries that were written are removed.
    fn undo_batch(&mut self, at: usize, before: u64) -> Result<(), String> {
        let ModelledPartition { handle, durability, .. } = self.parts[at];
        match self.engine().truncate_after(handle, before) {
            Ok(()) => {
                self.parts[at].log.truncate(before as usize);
                self.check_ends(at)
            }
            Err(error) => {
                self.parts[at].is_unsure = true;
                self.check_error("giving a unit up", durability, error).map(drop)
            }
        }
    }

    /// Writes an atomic batch in one call.
    fn write_batch(&mut self, at: usize, count: u64) -> Result<(), String> {
        let ModelledPartition { handle, durability, .. } = self.parts[at];
        let before = self.parts[at].last();
        for left in (0..count).rev() {
            let mut entry = self.random_entry(at);
            entry.meta.flags |= if left > 0 { FLAG_JOINED } else { 0 };
            self.parts[at].log.push(entry);
        }
        let entries = self.parts[at].log.split_off(before as usize);
        let hints: Vec<_> = entries.iter().map(|entry| self.hint_for(at, &entry.meta, &entry.key)).collect();
        self.trace(|| format!("p{at} unit of {count} after {before}"));
        let new = entries.iter().zip(&hints).map(|(entry, hint)| {
            let EntryMeta { kind, flags, timestamp, .. } = entry.meta;
            let hint = hint.as_ref();
            NewEntry { kind, flags, timestamp, key: &entry.key, payload: &entry.payload, hint }
        });
        match self.engine().write_batch(handle, new) {
            Ok(last) => {
                let part = &mut self.parts[at];
                part.log.extend(entries);
                assert_eq!(last, part.last(), "the returned index");
                part.accepted = last;
                part.commit_to(u64::MAX);
            }
            Err(error) => {
                self.check_error("a unit in one call", durability, error)?;
                let stats = self.engine().partition_stats(handle).map_err(|e| e.to_string())?;
                let part = &mut self.parts[at];
                part.log.extend(entries.into_iter().filter(|entry| entry.meta.index <= stats.last.1));
                part.stopped_at(stats.commit);
                part.is_unsure = part.last() > before;
            }
        }
        self.check_ends(at)
    }
}
