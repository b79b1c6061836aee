//! The last phase of a seed: synced bytes change on the disk.

use std::collections::BTreeSet;

use zerohop_engine::{Durability, EngineError};

use super::TestEngine as Engine;
use super::checks::{check_record, walk};
use super::part::{ModelledPartition, ReadRecord, read};
use super::world::EngineWorld;

impl EngineWorld {
    /// Everything is made durable, the engine is closed, and a few bytes become corrupt. Every
    /// later result must be right, or an error, or the damage must be reported.
    pub fn corruption(&mut self) -> Result<(), String> {
        for at in 0..self.parts.len() {
            let ModelledPartition { handle, is_group, .. } = self.parts[at];
            if is_group {
                self.engine().commit(handle, u64::MAX).map_err(|e| format!("committing all: {e}"))?;
                self.parts[at].commit_to(u64::MAX);
            }
        }
        let engine = self.engine.take().expect("open");
        engine.close().map_err(|e| format!("closing: {e}"))?;
        let count = 1 + self.random.below(3) as usize;
        let hits = self.disk.corrupt_random(count);
        self.trace(|| format!("corruption at {hits:?}"));
        // A report may be made only once, for example when a log is cut at an unreadable place.
        let mut reported = BTreeSet::new();
        // With two corruptions in one partition, the second may hit the evidence that the first
        // corrupt entry was synced. This looks like a torn tail, and is not reported.
        reported.extend(self.parts.iter().map(|part| part.id).filter(|id| {
            let folder = format!("p-{:016x}/", id.0);
            hits.iter().filter(|hit| hit.path.starts_with(&folder)).count() > 1
        }));
        for round in 0..3 {
            let (mut engine, report) = match Engine::open(self.disk.clone(), self.plan.options) {
                Ok(opened) => opened,
                // The file with the format version is corrupt, or a header has another version.
                Err(EngineError::Format { .. }) => return Ok(()),
                Err(error) => return Err(format!("{hits:?}: opening corrupt data: {error}")),
            };
            reported.extend(report.damage().map(|damage| damage.partition));
            let damage = report.damage().map(ToString::to_string).collect::<Vec<_>>();
            self.trace(|| format!("{damage:?}"));
            for part in self.parts.iter().filter(|p| p.durability != Durability::Memory) {
                let was_reported = reported.contains(&part.id);
                let wrong = |wrong| format!("{hits:?}, round {round}, {damage:?}: {wrong}");
                check_corrupt(&mut engine, part, was_reported).map_err(wrong)?;
                let Some((_, handle)) = engine.partitions().find(|(id, _)| *id == part.id) else { continue };
                let compacted = if round == 1 { engine.compact(handle) } else { Ok(()) };
                match compacted {
                    Ok(()) | Err(EngineError::Corrupt { .. }) => {}
                    Err(error) => return Err(format!("{hits:?}: compacting: {error}")),
                }
                check_corrupt(&mut engine, part, was_reported).map_err(wrong)?;
                if !engine.damage(handle).map_err(|e| e.to_string())?.is_empty() {
                    reported.insert(part.id);
                }
            }
            if round == 1 {
                engine.close().map_err(|e| format!("{hits:?}: closing corrupt data: {e}"))?;
            } else {
                drop(engine);
                self.disk.crash();
            }
        }
        Ok(())
    }
}

/// Each record must be right, an error, or covered by a report; and never have contents that were
/// never written.
fn check_corrupt(engine: &mut Engine, part: &ModelledPartition, was_reported: bool) -> Result<(), String> {
    let Some((_, handle)) = engine.partitions().find(|(id, _)| *id == part.id) else {
        return if part.log.is_empty() { Ok(()) } else { Err(format!("partition {} is gone", part.id)) };
    };
    engine.commit(handle, u64::MAX).or_else(only_corrupt)?;
    let keys: BTreeSet<&[u8]> = part.log.iter().map(|e| &*e.key).filter(|key| !key.is_empty()).collect();
    let mut is_error = false;
    for key in keys {
        match read(engine, handle, key, None) {
            Ok(got) => {
                let is_reported =
                    was_reported || !engine.damage(handle).map_err(|e| e.to_string())?.is_empty();
                match check_record(part, key, part.records.get(key), got.as_ref(), true) {
                    Ok(()) => {}
                    Err(_) if is_reported && was_ever(part, key, got.as_ref()) => {}
                    Err(wrong) if is_reported => {
                        return Err(format!("never so, though damage is reported: {wrong}"));
                    }
                    Err(wrong) => return Err(format!("silently wrong: {wrong}")),
                }
            }
            Err(error) => {
                is_error = true;
                only_corrupt(error)?;
            }
        }
    }
    match walk(engine, handle) {
        Ok(keys) => {
            let is_reported =
                is_error || was_reported || !engine.damage(handle).map_err(|e| e.to_string())?.is_empty();
            if !is_reported && keys.len() != part.records.len() {
                return Err(format!("a walk met {} keys of {}", keys.len(), part.records.len()));
            }
            Ok(())
        }
        Err(error) => only_corrupt(error),
    }
}

fn only_corrupt(error: EngineError) -> Result<(), String> {
    match error {
        EngineError::Corrupt { .. } => Ok(()),
        other => Err(other.to_string()),
    }
}

/// Whether each part of a record was once written to that key, in that order.
fn was_ever(part: &ModelledPartition, key: &[u8], got: Option<&ReadRecord>) -> bool {
    let Some(got) = got else { return true };
    let mut written = part.log.iter().filter(|e| *e.key == *key);
    got.parts.iter().all(|payload| written.any(|e| *e.payload == **payload))
}
