//! A model of the log of an instance: partitions in one of their states, what their entries are and where, rounds, compaction.
//! `log_checks.rs`
//! compares it with what recovery finds, `log_compaction.rs` drives compaction.

use std::collections::BTreeMap;

use zerohop_base::random::Random;
use zerohop_engine::disk::simulated::{DiskOperation, Probability, SimulatedDisk, SimulatedFaults};
use zerohop_engine::log::shared::compact::LogCompaction;
use zerohop_engine::log::shared::format::{HEAD_BYTES, LogId, LogStream};
use zerohop_engine::log::shared::live_bytes::EntryUse;
use zerohop_engine::log::shared::rounds::{LogRounds, RoundState, learn_runs};
use zerohop_engine::log::shared::streams::{LogSlot, NewLogPartition, SharedLog, SharedLogOptions};
use zerohop_engine::{EngineError, EntryKind, EntryMeta, FLAG_JOINED, PartitionId};

use super::log_model::{EntrySpan, KEY, LoggedEntry, LoggedPartition, UsedEntry, counted};

pub const LOG: LogId = LogId(*b"the simulated id");

pub fn options() -> SharedLogOptions {
    SharedLogOptions {
        segment_bytes: 24 << 10,
        large_segment_bytes: 300 << 10,
        reserve_spares: 2,
        ..SharedLogOptions::new("log", LOG)
    }
}

/// What a history has shown.
#[derive(Clone, Copy, Debug, Default)]
pub struct WorldCounts {
    /// Entries moved by failed files.
    pub moves: usize,
    pub rounds_done: usize,
    /// Segments freed by compaction.
    pub recycled: usize,
    /// Logs that recovery had to rebuild without a section.
    pub rebuilt: usize,
}

/// What a history leaves out.
#[derive(Clone, Copy, Debug, Default)]
pub struct HistoryPlan {
    /// How many keys a partition has.
    pub keys: u64,
    /// No checkpoint is written, so that recovery reads all entries.
    pub is_without_rounds: bool,
    pub is_without_compaction: bool,
    /// No payload is for the large stream.
    pub is_short_only: bool,
}

pub struct LogWorld {
    pub history: HistoryPlan,
    pub disk: SimulatedDisk,
    pub log: SharedLog,
    pub rounds: LogRounds,
    pub compaction: LogCompaction,
    pub partitions: BTreeMap<PartitionId, LoggedPartition>,
    pub spans: Vec<EntrySpan>,
    pub random: Random,
    pub stamp: u64,
    pub next_partition: u64,
    pub counts: WorldCounts,
    /// Partitions whose sections the round still lacks.
    pub round: Vec<PartitionId>,
    /// Segments up to this number were there at the last recovery.
    pub recovered_segments: u64,
}

impl LogWorld {
    pub fn new(seed: u64) -> LogWorld {
        let mut world = LogWorld {
            disk: SimulatedDisk::new(seed),
            log: SharedLog::new(options()),
            rounds: LogRounds::default(),
            compaction: LogCompaction::default(),
            partitions: BTreeMap::new(),
            spans: Vec::new(),
            random: Random::new(seed),
            stamp: seed << 20,
            next_partition: 1,
            counts: WorldCounts::default(),
            history: HistoryPlan { keys: 4 + seed % 20, ..HistoryPlan::default() },
            round: Vec::new(),
            recovered_segments: 0,
        };
        for _ in 0..3 {
            let id = world.new_id();
            world.begin(id).expect("a log begins");
        }
        world
    }

    fn new_id(&mut self) -> PartitionId {
        self.next_partition += 1;
        PartitionId(self.next_partition - 1)
    }

    fn begin(&mut self, id: PartitionId) -> Result<(), EngineError> {
        let slots = self.log.begin(&[NewLogPartition::first(id, id.0)], None)?;
        let partition = self.partitions.entry(id).or_default();
        if partition.states.is_empty() {
            partition.states.push(None);
        }
        partition.slot = Some(slots[0]);
        partition.epoch += 1;
        partition.states.push(Some(Vec::new()));
        partition.uses.clear();
        partition.commit = 0;
        Ok(())
    }

    /// Operations on files fail from now on, now and then; those of the log's own answer too.
    pub fn begin_faults(&mut self) {
        let operations = [
            DiskOperation::Open,
            DiskOperation::Append,
            DiskOperation::SyncBegin,
            DiskOperation::SyncDone,
            DiskOperation::Truncate,
            DiskOperation::SyncDir,
        ];
        let chance = Probability { numerator: 1, denominator: 40 };
        let fail = operations.into_iter().map(|operation| (operation, chance)).collect();
        self.disk.set_faults(SimulatedFaults { fail, ..SimulatedFaults::default() });
    }

    /// Follows the places of entries that a failed file has moved.
    pub fn follow_moves(&mut self) {
        let mut into = Vec::new();
        for moved in self.log.take_moved() {
            self.counts.moves += 1;
            let head = self.log.read(&mut self.disk, moved.to, &mut into).expect("is in memory");
            assert_eq!((head.partition, head.index), (moved.number, moved.index));
            let is_it = |span: &&mut EntrySpan| {
                span.0 == moved.from.segment && span.1.start == u64::from(moved.from.offset)
            };
            let span = self.spans.iter_mut().find(is_it).expect("is known");
            let from = u64::from(moved.to.offset);
            *span = (moved.to.segment, from..from + span.1.end - span.1.start);
            for partition in self.partitions.values_mut() {
                let Some(slot) = partition.slot else { continue };
                let used = partition.uses.get_mut(&moved.index).filter(|used| used.place == moved.from);
                if let Some(used) = used {
                    assert_eq!(used.bytes, moved.bytes);
                    self.log.change_use(&counted(slot, moved.index, used), Some(used.entry_use), None);
                    used.place = moved.to;
                    self.log.change_use(&counted(slot, moved.index, used), None, Some(used.entry_use));
                }
                if let Some((_, places)) = &mut partition.hold {
                    places
                        .iter_mut()
                        .filter(|(_, place)| *place == moved.from)
                        .for_each(|(_, place)| *place = moved.to);
                }
            }
        }
    }

    /// Corrupts a byte of an entry that no flush covers. Returns where.
    pub fn corrupt_what_is_not_flushed(&mut self) -> Option<(String, u64)> {
        let ends = self.log.durable_ends();
        let is_flushed = |segment: u64, at: u64| {
            segment <= self.recovered_segments
                || ends.iter().any(|end| (segment, at) < (end.segment, u64::from(end.offset)))
        };
        let spans: Vec<_> = self.spans.iter().filter(|span| !is_flushed(span.0, span.1.start)).collect();
        let (segment, range) = spans.get(self.random.below(spans.len().max(1) as u64) as usize)?;
        let at = range.start + self.random.below((range.end - range.start).min(200));
        let path = format!("log/{segment:016x}.log");
        self.disk.corrupt_at(&path, at, 1).ok().map(|()| (path, at))
    }

    /// A partition that is open, with its slot.
    fn any(&mut self) -> Option<(PartitionId, LogSlot)> {
        let open: Vec<_> =
            self.partitions.iter().filter_map(|(id, p)| p.slot.map(|slot| (*id, slot))).collect();
        if open.is_empty() { None } else { Some(open[self.random.below(open.len() as u64) as usize]) }
    }

    fn append(&mut self, id: PartitionId, slot: LogSlot, is_joined: bool) -> Result<(), EngineError> {
        let bytes = match self.random.below(16) {
            0 | 1 if !self.history.is_short_only => 65_537 + self.random.below(40_000),
            2 if !self.history.is_short_only => 65_536,
            _ => self.random.below(700),
        };
        self.stamp += 1;
        let is_removal = self.random.chance(1, 6);
        let bytes = if is_removal { 0 } else { bytes };
        let key = self.random.below(self.history.keys) as u8;
        let partition = self.partitions.get_mut(&id).expect("is known");
        let entry = LoggedEntry {
            epoch: partition.epoch,
            stamp: self.stamp,
            bytes: bytes as usize,
            is_joined,
            key,
            is_removal,
        };
        let mut log = partition.now().to_vec();
        let meta = EntryMeta {
            kind: if is_removal { EntryKind::Remove } else { EntryKind::Put },
            flags: if is_joined { FLAG_JOINED } else { 0 },
            epoch: entry.epoch,
            index: log.len() as u64 + 1,
            timestamp: self.stamp,
        };
        let place = self.log.append(slot, &meta, &[b'k', b'e', key], [&entry.payload()])?;
        let (from, length) = (u64::from(place.offset), (HEAD_BYTES + KEY) as u64 + bytes);
        self.spans.push((place.segment, from..from + length));
        log.push(entry);
        let used = UsedEntry { place, bytes: length as u32, entry_use: EntryUse::Live };
        partition.uses.insert(log.len() as u64, used);
        partition.states.push(Some(log));
        Ok(())
    }

    pub fn step(&mut self) -> Result<(), EngineError> {
        let done = self.one_step();
        self.follow_moves();
        done
    }

    fn one_step(&mut self) -> Result<(), EngineError> {
        let Some((id, slot)) = self.any() else {
            let id = self.new_id();
            return self.begin(id);
        };
        match self.random.below(62) {
            40..=48 if !self.history.is_without_rounds => self.step_round()?,
            49..=55 if self.history.is_without_compaction => {}
            49..=55 => self.compact()?,
            56 => drop(learn_runs(&mut self.log, &mut self.disk)?),
            57 | 58 => self.commit(id),
            59 => self.end_kept(id),
            60 => self.hold(id, slot),
            61 => drop(self.log.fill_reserve(&mut self.disk)?),
            0..=19 | 40..=48 => self.append(id, slot, false)?,
            20 => {
                for n in 0..3 {
                    self.append(id, slot, n < 2)?;
                }
            }
            21..=23 => self.truncate(id, slot)?,
            24 => {
                self.log.drop_partition(slot)?;
                let partition = self.partitions.get_mut(&id).expect("is known");
                (partition.slot, _) = (None, partition.states.push(None));
                self.end_life(id);
            }
            25 => self.split(id, slot)?,
            26 => {
                let closed: Vec<_> = self.partitions.iter().filter(|(_, p)| p.slot.is_none()).collect();
                let id = closed.first().map(|(id, _)| **id);
                let id = id.unwrap_or_else(|| self.new_id());
                self.begin(id)?;
            }
            27..=29 => {
                if self.log.flush_begin(&mut self.disk, true)? {
                    self.partitions.values_mut().for_each(|p| p.flushing = p.states.len());
                }
            }
            30..=33 => {
                let was_flushing = self.log.is_flushing();
                if self.log.flush_done(&mut self.disk, self.stamp.is_multiple_of(2))? && was_flushing {
                    self.flushed();
                }
            }
            34 => self.flush()?,
            35 => self.log.write_full_pieces(&mut self.disk)?,
            36 | 37 => drop(self.log.mark()?),
            38 => drop(self.log.evict()),
            _ => {
                let stream = [LogStream::Small, LogStream::Large][self.random.below(2) as usize];
                self.log.seal(stream)?;
            }
        }
        Ok(())
    }

    /// Rounds, until two sections of each partition cover all of it.
    pub fn cover_all(&mut self) -> Result<(), EngineError> {
        let done = self.counts.rounds_done;
        while self.counts.rounds_done < done + 6 {
            self.step_round()?;
            if self.log.is_flushing() {
                self.flush()?;
            }
        }
        self.follow_moves();
        self.flush()
    }

    /// Goes on with a round: begins it, writes the section of a partition, or ends it.
    pub fn step_round(&mut self) -> Result<(), EngineError> {
        if !self.rounds.is_writing() {
            let plan = self.rounds.plan(&self.log);
            let most = if self.history.is_without_compaction {
                plan.len()
            } else {
                1 + self.random.below(plan.len().max(1) as u64) as usize
            };
            let id_of = |slot: LogSlot| {
                let mut open = self.partitions.iter().filter(|(_, p)| p.slot == Some(slot));
                *open.next().expect("the plan has open partitions").0
            };
            self.round = plan.into_iter().take(most).map(id_of).collect();
            return self.rounds.begin(&self.log, &mut self.disk);
        }
        if let Some(id) = self.round.pop() {
            let partition = self.partitions.get_mut(&id).expect("is known");
            let Some(slot) = partition.slot else { return Ok(()) };
            let commit = partition.last_unit(partition.now().len() as u64);
            partition.commit = commit.max(partition.commit);
            let epoch = if commit == 0 { 0 } else { partition.now()[commit as usize - 1].epoch };
            self.log.note_progress(slot, partition.commit, 0);
            partition.settle(&mut self.log, self.stamp.is_multiple_of(5));
            self.rounds.begin_section(&self.log, slot, commit, epoch);
            let live = partition.uses.range(..=commit).filter(|(_, used)| used.entry_use == EntryUse::Live);
            for (index, UsedEntry { place, .. }) in live {
                self.rounds.append_section(&index.to_le_bytes());
                self.rounds.append_section(&place.segment.to_le_bytes());
                self.rounds.append_section(&place.offset.to_le_bytes());
            }
            return self.rounds.end_section(&mut self.disk);
        }
        let wait = self.random.chance(1, 3);
        if self.rounds.end(&mut self.log, &mut self.disk, wait)? == RoundState::Done {
            self.counts.rounds_done += 1;
        }
        Ok(())
    }

    fn truncate(&mut self, id: PartitionId, slot: LogSlot) -> Result<(), EngineError> {
        let partition = self.partitions.get_mut(&id).expect("is known");
        let mut log = partition.now().to_vec();
        let least = log.len().saturating_sub(self.random.below(6) as usize).max(partition.commit as usize);
        log.truncate(least);
        while log.last().is_some_and(|entry| entry.is_joined) {
            log.pop();
        }
        for (index, used) in partition.uses.split_off(&(log.len() as u64 + 1)) {
            self.log.change_use(&counted(slot, index, &used), Some(used.entry_use), None);
        }
        if let Some((_, places)) = &mut partition.hold {
            places.retain(|(index, _)| *index <= log.len() as u64);
        }
        let last = (log.last().map_or(0, |entry| entry.epoch), log.len() as u64);
        self.log.truncate_after(slot, last)?;
        partition.epoch += self.random.below(2) as u32;
        partition.states.push(Some(log));
        Ok(())
    }

    fn split(&mut self, id: PartitionId, slot: LogSlot) -> Result<(), EngineError> {
        let (epoch, index) = self.log.last(slot);
        let number = self.log.number(slot);
        let children = [self.new_id(), self.new_id()];
        let new = children.map(|child| NewLogPartition {
            continues: Some((number, index, epoch)),
            ..NewLogPartition::first(child, child.0)
        });
        let slots = self.log.begin(&new, Some(slot))?;
        let parent = self.partitions.get_mut(&id).expect("is known");
        let (log, epoch) = (parent.now().to_vec(), parent.epoch);
        let (uses, commit) = (parent.uses.clone(), parent.commit);
        (parent.slot, _) = (None, parent.states.push(None));
        self.end_life(id);
        for (child, slot) in children.into_iter().zip(slots) {
            // The creation may survive, and not all of what the child continues.
            let states = (0..=log.len()).map(|length| Some(log[..length].to_vec()));
            let states = [None].into_iter().chain(states).collect();
            let uses = uses.clone();
            let slot = Some(slot);
            let partition = LoggedPartition { slot, epoch, states, flushing: 0, uses, commit, hold: None };
            self.partitions.insert(child, partition);
        }
        Ok(())
    }

    pub fn flush(&mut self) -> Result<(), EngineError> {
        if self.log.is_flushing() {
            self.log.flush_done(&mut self.disk, true)?;
            self.flushed();
        }
        self.log.flush_begin(&mut self.disk, true)?;
        self.partitions.values_mut().for_each(|p| p.flushing = p.states.len());
        self.log.flush_done(&mut self.disk, true)?;
        self.flushed();
        Ok(())
    }

    /// The flush has ended: of the states that it covers, the last one survives everything.
    fn flushed(&mut self) {
        for partition in self.partitions.values_mut() {
            let covered = std::mem::take(&mut partition.flushing);
            partition.states.drain(..covered.saturating_sub(1));
        }
    }
}
