//! Compares the engine with the models while it runs.

use std::ops::Bound;

use zerohop_engine::{Cursor, Durability, EngineError, EntryKind, FLAG_JOINED, FLAG_LIST, KeyRange};

use super::TestEngine as Engine;
use super::model::{Chunk, ModelEntry, ModelValue, RecordsOfModel, records_of};
use super::part::{ModelledPartition, ReadRecord, read};
use super::world::EngineWorld;

impl EngineWorld {
    /// Looks up a random record, in its present and an earlier version.
    pub fn check_record(&mut self, at: usize) -> Result<(), String> {
        let key = self.key();
        let part = &self.parts[at];
        let handle = part.handle;
        let expected = part.records.get(&key).cloned();
        match read(self.engine(), handle, &key, None) {
            Ok(got) => check_record(&self.parts[at], &key, expected.as_ref(), got.as_ref(), true)?,
            Err(error) => {
                self.check_error("lookup", Durability::Sync, error)?;
            }
        }
        if let Some(expected) = expected.as_ref().filter(|v| v.units() > 0) {
            let units = self.random.below(expected.units() + 2);
            match self.engine().trim_point(handle, &key, units) {
                Ok(point) if point == expected.trim_point(units) => {}
                Ok(point) => {
                    return Err(format!("p{at}: trim point {point:?}, not {:?}", expected.trim_point(units)));
                }
                Err(error) => {
                    self.check_error("trim point", Durability::Sync, error)?;
                }
            }
        }
        if let Some(expected) = expected.as_ref().and_then(|value| value.chunk.as_ref()) {
            self.check_chunk(at, &key, expected)?;
        }
        let Some((horizon, since)) = self.parts[at].horizon else { return Ok(()) };
        let from = horizon.max(since);
        let timestamp = from + self.random.below(self.parts[at].timestamp + 2 - from);
        let part = &self.parts[at];
        let committed = part.log[..part.commit as usize].iter();
        let records = records_of(committed.filter(|e| e.meta.timestamp <= timestamp && e.key == key));
        match read(self.engine(), handle, &key, Some(timestamp)) {
            Ok(got) => check_record(&self.parts[at], &key, records.get(&key), got.as_ref(), false)
                .map_err(|wrong| format!("as of {timestamp} (horizon {horizon}): {wrong}")),
            Err(error) => self.check_error("lookup at", Durability::Sync, error).map(drop),
        }
    }

    /// Checks a range of a chunk, and the chunk's metadata.
    fn check_chunk(&mut self, at: usize, key: &[u8], expected: &Chunk) -> Result<(), String> {
        let handle = self.parts[at].handle;
        let from = self.random.below(4000);
        let range = from..from + self.random.below(3000);
        let mut got = Vec::new();
        let (read, state) = {
            let engine = self.engine();
            (engine.read_chunk(handle, key, range.clone(), &mut got), engine.chunk_state(handle, key))
        };
        let state = match read.and(state) {
            Ok(state) => state.ok_or("a chunk without a state")?,
            Err(error) => return self.check_error("chunk", Durability::Sync, error).map(drop),
        };
        let wanted: Vec<u8> =
            range.clone().map(|at| expected.bytes.get(at as usize).copied().unwrap_or(0)).collect();
        let is_end = state.end <= expected.bytes.len() as u64;
        if got != wanted || state.stamp != expected.stamp || !is_end {
            return Err(format!("p{at}: bytes {range:?} of a chunk differ, or its state does: {state:?}"));
        }
        let mut seen: Vec<u8> = Vec::new();
        let at_once = self.engine().chunk_at_once(handle, key, range.clone(), |piece| seen.extend(piece));
        let written = wanted.len().min(state.end.saturating_sub(range.start) as usize);
        match at_once {
            Ok(Some((found, _))) if found != state || seen != wanted[..written] => {
                return Err(format!("p{at}: bytes {range:?} of a chunk differ where they lie: {found:?}"));
            }
            Ok(_) => {}
            Err(error) => return self.check_error("chunk at once", Durability::Sync, error).map(drop),
        }
        Ok(())
    }

    /// Checks that the log ends where the model says, and that the engine's statistics agree.
    pub fn check_ends(&mut self, at: usize) -> Result<(), String> {
        let handle = self.parts[at].handle;
        let stats = self.engine().partition_stats(handle).map_err(|e| e.to_string())?;
        let part = &self.parts[at];
        let expected = ((part.last_epoch(), part.last()), part.commit, part.records.len() as u64);
        if (stats.last, stats.commit, stats.records) != expected {
            return Err(format!(
                "p{at}: end, commit, records are {:?}, not {expected:?}",
                (stats.last, stats.commit, stats.records)
            ));
        }
        Ok(())
    }

    /// Checks every record, and the uncommitted entries.
    pub fn check_all(&mut self, at: usize) -> Result<(), String> {
        let part = &self.parts[at];
        let engine = self.engine.as_mut().expect("open");
        match compare_all(engine, part, part.handle, &part.records) {
            Ok(wrong) => wrong?,
            Err(error) => self.check_error("check", Durability::Sync, error).map(drop)?,
        }
        self.check_counters(at)
    }

    /// Checks the counters of dead bytes against an exact count.
    pub fn check_counters(&mut self, at: usize) -> Result<(), String> {
        let handle = self.parts[at].handle;
        match self.engine().recount(handle) {
            Ok(counts) => match counts.iter().find(|count| !count.is_right()) {
                Some(wrong) => {
                    Err(format!("p{at}: the counters of dead bytes differ from a count: {wrong:?}"))
                }
                None => Ok(()),
            },
            Err(error) => self.check_error("recount", Durability::Sync, error).map(drop),
        }
    }

    /// Checks that a scan returns each existing key, and no other.
    pub fn scan(&mut self, at: usize) -> Result<(), String> {
        let part = &self.parts[at];
        match walk(self.engine.as_mut().expect("open"), part.handle) {
            Ok(mut keys) => {
                keys.sort();
                let expected: Vec<Vec<u8>> = part.records.keys().map(|key| key.to_vec()).collect();
                if keys == expected {
                    return self.scan_in_order(at, &expected);
                }
                Err(format!("p{at}: a walk met {} keys of {}", keys.len(), expected.len()))
            }
            Err(error) => self.check_error("scan", Durability::Sync, error).map(drop),
        }
    }

    /// Checks the order of the keys of every other partition, now and at an earlier time.
    fn scan_in_order(&mut self, at: usize, expected: &[Vec<u8>]) -> Result<(), String> {
        let part = &self.parts[at];
        if part.id.0.is_multiple_of(2) {
            return Ok(());
        }
        let handle = part.handle;
        let engine = self.engine.as_mut().expect("open");
        let most = 1 + part.timestamp as usize % 50;
        for is_reverse in [false, true] {
            match walk_in_order(engine, handle, (most, is_reverse), None) {
                Ok(keys) if keys == expected => {}
                Ok(keys) => {
                    return Err(format!("p{at}: {} keys of {} in order", keys.len(), expected.len()));
                }
                Err(error) => return self.check_error("order", Durability::Sync, error).map(drop),
            }
        }
        let Some((horizon, since)) = part.horizon else { return Ok(()) };
        let from = horizon.max(since);
        let past = from + (part.timestamp + 1 - from) / 2;
        let committed = part.log[..part.commit as usize].iter();
        let records = records_of(committed.filter(|entry| entry.meta.timestamp <= past));
        match walk_in_order(engine, handle, (most, false), Some(past)) {
            Ok(keys) => match records.keys().find(|key| keys.binary_search(&key.to_vec()).is_err()) {
                Some(key) => Err(format!("p{at}: the order at {past} lacks {key:?}")),
                None => Ok(()),
            },
            Err(error) => self.check_error("order at", Durability::Sync, error).map(drop),
        }
    }

    /// Checks that little dead space is left after compaction.
    pub fn check_dead_space(&mut self, at: usize) -> Result<(), String> {
        let part = &self.parts[at];
        if part.durability == Durability::Memory
            || part.horizon.is_some()
            || self.plan.has_state_in_log
            || self.disturbed
            || self.plan.fills_disk
            || self.plan.is_shared()
        {
            return Ok(());
        }
        let (handle, live) = (part.handle, part.live_bytes());
        let largest = part.log.iter().map(ModelledPartition::entry_bytes).max().unwrap_or(0);
        let (mut waste_max, mut bytes) = (0, 0);
        if part.pinned.iter().all(Vec::is_empty) {
            let stats = self.engine().partition_stats(handle).map_err(|e| e.to_string())?;
            bytes = stats.log.bytes;
            // Compaction leaves out the open segment, and sealed segments with uncommitted entries.
            let part = &self.parts[at];
            let newest: u64 = part.log[part.commit.saturating_sub(60) as usize..]
                .iter()
                .map(ModelledPartition::entry_bytes)
                .sum();
            waste_max = 3 * self.plan.options.segment_bytes
                + 2 * largest
                + 2 * newest
                + 400 * stats.log.segments
                + live / 20;
        }
        if bytes > live + waste_max {
            return Err(format!(
                "p{at}: {bytes} bytes of log after compaction, {live} live, {waste_max} allowed"
            ));
        }
        Ok(())
    }
}

/// All keys that a scan returns.
pub fn walk(engine: &mut Engine, handle: zerohop_engine::Handle) -> Result<Vec<Vec<u8>>, EngineError> {
    let (mut keys, mut cursor) = (Vec::new(), Some(Cursor::START));
    while let Some(from) = cursor {
        let (page, next) = engine.scan(handle, &from)?;
        keys.extend(page);
        cursor = next;
    }
    Ok(keys)
}

/// All keys, in pages of so many of their order; ascending, whatever the direction of the pages.
fn walk_in_order(
    engine: &mut Engine,
    handle: zerohop_engine::Handle,
    (most, is_reverse): (usize, bool),
    at: Option<u64>,
) -> Result<Vec<Vec<u8>>, EngineError> {
    engine.key_order(handle)?.keep()?;
    let mut keys: Vec<Vec<u8>> = Vec::new();
    loop {
        let last = keys.last().map_or(Bound::Unbounded, |key| Bound::Excluded(&**key));
        let (from, to) = if is_reverse { (Bound::Unbounded, last) } else { (last, Bound::Unbounded) };
        let page = engine.key_order(handle)?.keys(KeyRange { from, to, is_reverse }, most, at)?;
        keys.extend(page.keys);
        if !page.has_more {
            break;
        }
    }
    if is_reverse {
        keys.reverse();
    }
    Ok(keys)
}

/// Compares every record, and every uncommitted entry. The outer error is the engine's.
pub fn compare_all(
    engine: &mut Engine,
    part: &ModelledPartition,
    handle: zerohop_engine::Handle,
    records: &RecordsOfModel,
) -> Result<Result<(), String>, EngineError> {
    let mut keys: Vec<&[u8]> =
        part.log.iter().map(|entry| &*entry.key).filter(|key| !key.is_empty()).collect();
    keys.sort_unstable();
    keys.dedup();
    for key in keys {
        let got = read(engine, handle, key, None)?;
        if let Err(wrong) = check_record(part, key, records.get(key), got.as_ref(), true) {
            return Ok(Err(wrong));
        }
    }
    let waiting = if part.is_unsure { &[] } else { &part.log[part.commit as usize..] };
    for entry in waiting {
        let read = engine.read_entry(handle, entry.meta.index)?;
        let got = (read.head.meta, read.key, read.payload);
        if got != (entry.meta, &*entry.key, &*entry.payload) {
            return Ok(Err(format!("{}: entry {:?} is {:?}", part.id, entry.meta, got.0)));
        }
    }
    Ok(Ok(()))
}

/// Compares one record. For the present version also the fields of its newest entry.
pub fn check_record(
    part: &ModelledPartition,
    key: &[u8],
    expected: Option<&ModelValue>,
    got: Option<&ReadRecord>,
    is_present: bool,
) -> Result<(), String> {
    let name =
        || format!("partition {}, key {:?}", part.id, String::from_utf8_lossy(&key[..key.len().min(6)]));
    let (expected, got) = match (expected, got) {
        (None, None) => return Ok(()),
        (Some(expected), Some(got)) => (expected, got),
        (Some(expected), None) => {
            let parts: Vec<u64> = expected.parts.iter().map(|(index, _)| *index).collect();
            return Err(format!("{}: lost; it has parts {parts:?}", name()));
        }
        (None, Some(got)) => return Err(format!("{}: {} came back", name(), got.index)),
    };
    let is_same = got.is_list == expected.is_list
        && got.skipped == expected.skipped
        && got.units == expected.units()
        && got.parts.len() == expected.parts.len()
        && got.parts.iter().zip(&expected.parts).all(|(got, (_, payload))| **got == **payload);
    let is_same = match (&got.chunk, &expected.chunk) {
        (Some(got), Some(expected)) => {
            let (written, behind) = got.split_at(expected.bytes.len());
            written == expected.bytes && behind.iter().all(|&byte| byte == 0)
        }
        (None, None) => is_same,
        _ => false,
    };
    if !is_same {
        let describe = |parts: Vec<usize>| format!("{} parts of {parts:?} bytes", parts.len());
        return Err(format!(
            "{}: got {} (list {}, skipped {}, units {}, newest {}), expected {} (list {}, skipped {}, units {}, parts {:?}, newest {})",
            name(),
            describe(got.parts.iter().map(Vec::len).collect()),
            got.is_list,
            got.skipped,
            got.units,
            got.index,
            describe(expected.parts.iter().map(|(_, payload)| payload.len()).collect()),
            expected.is_list,
            expected.skipped,
            expected.units(),
            expected.parts.iter().map(|(index, _)| *index).collect::<Vec<_>>(),
            expected.newest
        ));
    }
    let entry = |index: u64| -> &ModelEntry { &part.log[index as usize - 1] };
    let last_part = expected.parts.last().map_or(expected.newest, |(index, _)| *index);
    // A trim that has taken effect may be gone; the record's fields are then those of its newest
    // part.
    let may_be_gone = entry(expected.newest).meta.kind == EntryKind::Trim;
    if is_present && got.index != expected.newest && !(may_be_gone && got.index == last_part) {
        return Err(format!("{}: changed last by {}, not {}", name(), got.index, expected.newest));
    }
    let newest = entry(got.index).meta;
    let (flags, newest_flags) = (got.flags & !FLAG_JOINED, newest.flags & !FLAG_JOINED);
    if (flags, got.epoch, got.timestamp) != (newest_flags, newest.epoch, newest.timestamp) {
        return Err(format!("{}: flags, epoch, timestamp are not those of entry {}", name(), got.index));
    }
    if got.is_list != (got.flags & FLAG_LIST != 0) {
        return Err(format!("{}: a list without its flag", name()));
    }
    Ok(())
}
