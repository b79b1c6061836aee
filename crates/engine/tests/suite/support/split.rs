//! Partitions that are split: a crash leaves the parent or both children.

use zerohop_engine::PartitionId;

use super::part::ModelledPartition;
use super::world::{EngineWorld, ErrorVerdict};

/// The most partitions: each step checks one.
const PARTS_MAX: usize = 6;

impl EngineWorld {
    /// Splits a partition, with or without some segments copied in advance.
    pub fn split(&mut self, at: usize) -> Result<(), String> {
        let ModelledPartition { id, durability, is_unsure, is_dropping, .. } = self.parts[at];
        if is_unsure || is_dropping || self.parts.len() >= PARTS_MAX {
            return Ok(());
        }
        let children = [self.new_id(), self.new_id()];
        if self.random.chance(1, 2) {
            self.trace(|| format!("p{at} split ahead"));
            for _ in 0..self.random.below(6) {
                match self.engine().split_ahead(id, &children) {
                    Ok(true) if self.random.chance(1, 2) => break,
                    Ok(_) if self.random.chance(1, 3) => self.maintain()?,
                    Ok(_) => {}
                    Err(error) => return self.not_split(at, children, error),
                }
            }
        }
        let state = self.plan.has_state_in_log && self.random.chance(1, 2);
        let commit = self.parts[at].commit;
        let bytes = commit.to_le_bytes();
        self.trace(|| format!("p{at} split of {id} into {children:?}, state {state}"));
        match self.engine().split_partition(id, &children, state.then_some((commit, &bytes[..]))) {
            Ok(left) => {
                if let Some(error) = left {
                    self.check_error("removing what was split", durability, error)?;
                }
                self.has_split(at, children)?;
                for at in [at, self.parts.len() - 1] {
                    let part = &mut self.parts[at];
                    part.handle = self
                        .engine
                        .as_mut()
                        .and_then(|engine| {
                            engine.partitions().find(|(there, _)| *there == part.id).map(|(_, handle)| handle)
                        })
                        .ok_or("a child is not there")?;
                    if durability != zerohop_engine::Durability::Memory {
                        part.floor = part.floor.max(part.accepted);
                    }
                    self.check_ends(at)?;
                    self.check_all(at)?;
                    self.scan(at)?;
                }
                Ok(())
            }
            Err(error) => self.not_split(at, children, error),
        }
    }

    fn not_split(
        &mut self,
        at: usize,
        children: [PartitionId; 2],
        error: zerohop_engine::EngineError,
    ) -> Result<(), String> {
        let durability = self.parts[at].durability;
        if let ErrorVerdict::Failed = self.check_error("split", durability, error)? {
            self.parts[at].splitting = Some(children);
            self.parts[at].is_unsure = true;
        }
        Ok(())
    }

    /// Replaces the parent's model by its children's.
    fn has_split(&mut self, at: usize, [first, second]: [PartitionId; 2]) -> Result<(), String> {
        let mut part = self.parts[at].clone();
        part.pinned.clear();
        part.splitting = None;
        (part.id, self.parts[at]) = (second, ModelledPartition { id: first, ..part.clone() });
        self.parts.push(part);
        Ok(())
    }

    /// After an opening: decides the splits whose effect was unknown.
    pub fn resolve_splits(&mut self) -> Result<(), String> {
        for at in 0..self.parts.len() {
            let Some(children) = self.parts[at].splitting.take() else { continue };
            let parent = self.parts[at].id;
            let there: Vec<PartitionId> = self.engine().partitions().map(|(id, _)| id).collect();
            let are_there = children.map(|id| there.contains(&id));
            match (there.contains(&parent), are_there) {
                (false, [true, true]) => self.has_split(at, children)?,
                (_, [false, false]) => {}
                (true, _) => {
                    // An abandoned child may have left an empty folder.
                    for id in children.into_iter().filter(|id| there.contains(id)) {
                        let found = self.engine().partitions().find(|(there, _)| *there == id);
                        let handle = found.map(|(_, handle)| handle).ok_or("it was there")?;
                        let stats = self.engine().partition_stats(handle).map_err(|e| e.to_string())?;
                        if stats.last.1 > 0 {
                            return Err(format!("p{at}: both {parent} and its child {id} are there"));
                        }
                        self.engine().drop_partition(id).map_err(|e| e.to_string())?;
                    }
                }
                (parent, are_there) => return Err(format!("p{at}: parent {parent}, children {are_there:?}")),
            }
        }
        Ok(())
    }
}
