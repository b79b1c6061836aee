//! A model of the log of an instance: partitions in one of their states, the places of their entries, and rounds.

use std::collections::BTreeMap;

use zerohop_base::random::Random;
use zerohop_engine::disk::simulated::{Chance, DiskOperation, SimulatedDisk, SimulatedFaults};
use zerohop_engine::log::shared::format::{HEAD_BYTES, LogId, LogStream};
use zerohop_engine::log::shared::prefix::{LogDamage, RecoveredLog};
use zerohop_engine::log::shared::recover::{read_section, recover, resume};
use zerohop_engine::log::shared::rounds::{LogRounds, RoundState, learn_runs};
use zerohop_engine::log::shared::streams::{LogPlace, LogSlot, NewLogPartition, SharedLog, SharedLogOptions};
use zerohop_engine::{EngineError, EntryKind, FLAG_JOINED, Meta, PartitionId};

pub const LOG: LogId = LogId(*b"the simulated id");

fn options() -> SharedLogOptions {
    SharedLogOptions {
        segment_bytes: 24 << 10,
        large_segment_bytes: 300 << 10,
        ..SharedLogOptions::new("log", LOG)
    }
}

/// An entry of the model. No two have the same stamp, from which the payload follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoggedEntry {
    epoch: u32,
    stamp: u64,
    bytes: usize,
    is_joined: bool,
}

impl LoggedEntry {
    fn payload(&self) -> Vec<u8> {
        let mut out = vec![0; self.bytes];
        Random::new(self.stamp).fill(&mut out);
        out
    }
}

/// A partition in a state: its log, or `None` if it does not exist.
pub type LogState = Option<Vec<LoggedEntry>>;

/// A partition of the model: its states since the last flush that has ended, the first of which survives everything.
#[derive(Clone, Debug, Default)]
pub struct LoggedPartition {
    slot: Option<LogSlot>,
    epoch: u32,
    states: Vec<LogState>,
    /// How many of the states the flush that runs covers.
    flushing: usize,
    /// What the index of the partition would have: the places of its entries.
    places: BTreeMap<u64, LogPlace>,
    /// Nothing up to this index is truncated.
    commit: u64,
}

impl LoggedPartition {
    fn now(&self) -> &[LoggedEntry] {
        self.states.last().and_then(Option::as_deref).unwrap_or_default()
    }
}

/// Where bytes of an entry stand.
pub type EntrySpan = (u64, std::ops::Range<u64>);

pub struct LogWorld {
    pub disk: SimulatedDisk,
    pub log: SharedLog,
    pub rounds: LogRounds,
    pub partitions: BTreeMap<PartitionId, LoggedPartition>,
    pub spans: Vec<EntrySpan>,
    pub random: Random,
    pub stamp: u64,
    pub next_partition: u64,
    pub moves: usize,
    /// Partitions whose sections the round still lacks.
    pub round: Vec<PartitionId>,
    pub rounds_done: usize,
    /// No checkpoint is written, so that recovery reads all entries.
    pub is_without_rounds: bool,
    pub recycled: usize,
    /// Segments up to this number were there at the last recovery.
    pub recovered_segments: u64,
}

impl LogWorld {
    pub fn new(seed: u64) -> LogWorld {
        let mut world = LogWorld {
            disk: SimulatedDisk::new(seed),
            log: SharedLog::new(options()),
            rounds: LogRounds::default(),
            partitions: BTreeMap::new(),
            spans: Vec::new(),
            random: Random::new(seed),
            stamp: seed << 20,
            next_partition: 1,
            moves: 0,
            round: Vec::new(),
            rounds_done: 0,
            is_without_rounds: false,
            recycled: 0,
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
        partition.places.clear();
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
        let chance = Chance { numerator: 1, denominator: 40 };
        let fail = operations.into_iter().map(|operation| (operation, chance)).collect();
        self.disk.set_faults(SimulatedFaults { fail, ..SimulatedFaults::default() });
    }

    /// Follows the places of entries that a failed file has moved.
    fn follow_moves(&mut self) {
        let mut into = Vec::new();
        for moved in self.log.take_moved() {
            self.moves += 1;
            let head = self.log.read(&mut self.disk, moved.to, &mut into).expect("is in memory");
            assert_eq!((head.partition, head.index), (moved.number, moved.index));
            let is_it = |span: &&mut EntrySpan| {
                span.0 == moved.from.segment && span.1.start == u64::from(moved.from.offset)
            };
            let span = self.spans.iter_mut().find(is_it).expect("is known");
            let from = u64::from(moved.to.offset);
            *span = (moved.to.segment, from..from + span.1.end - span.1.start);
            let places = self.partitions.values_mut().flat_map(|partition| partition.places.values_mut());
            places.filter(|place| **place == moved.from).for_each(|place| *place = moved.to);
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
            0 | 1 => 65_537 + self.random.below(40_000),
            2 => 65_536,
            _ => self.random.below(700),
        };
        self.stamp += 1;
        let partition = self.partitions.get_mut(&id).expect("is known");
        let entry =
            LoggedEntry { epoch: partition.epoch, stamp: self.stamp, bytes: bytes as usize, is_joined };
        let mut log = partition.now().to_vec();
        let meta = Meta {
            kind: EntryKind::Put,
            flags: if is_joined { FLAG_JOINED } else { 0 },
            epoch: entry.epoch,
            index: log.len() as u64 + 1,
            timestamp: self.stamp,
        };
        let place = self.log.append(slot, &meta, b"key", [&entry.payload()])?;
        let from = u64::from(place.offset);
        self.spans.push((place.segment, from..from + (HEAD_BYTES + 3) as u64 + bytes));
        log.push(entry);
        partition.places.insert(log.len() as u64, place);
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
        match self.random.below(52) {
            40..=48 if !self.is_without_rounds => self.step_round()?,
            49 | 50 => self.compact()?,
            51 => drop(learn_runs(&mut self.log, &mut self.disk)?),
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
            36 | 37 => self.log.mark()?,
            38 => drop(self.log.evict()),
            _ => {
                let stream = [LogStream::Small, LogStream::Large][self.random.below(2) as usize];
                self.log.seal(stream)?;
            }
        }
        Ok(())
    }

    /// Goes on with a round: begins it, writes the section of a partition, or ends it.
    fn step_round(&mut self) -> Result<(), EngineError> {
        if !self.rounds.is_writing() {
            let plan = self.rounds.plan(&self.log);
            let most = 1 + self.random.below(plan.len().max(1) as u64) as usize;
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
            let log = partition.now().to_vec();
            let is_end = |index: &u64| *index == 0 || !log[*index as usize - 1].is_joined;
            let commit = (0..=log.len() as u64).rev().find(is_end).expect("0 is one");
            partition.commit = commit.max(partition.commit);
            let epoch = if commit == 0 { 0 } else { log[commit as usize - 1].epoch };
            self.log.note_progress(slot, partition.commit, 0);
            self.rounds.begin_section(&self.log, slot, commit, epoch);
            for (index, place) in partition.places.range(..=commit) {
                self.rounds.append_section(&index.to_le_bytes());
                self.rounds.append_section(&place.segment.to_le_bytes());
                self.rounds.append_section(&place.offset.to_le_bytes());
            }
            return self.rounds.end_section(&mut self.disk);
        }
        let wait = self.random.chance(1, 3);
        if self.rounds.end(&mut self.log, &mut self.disk, wait)? == RoundState::Done {
            self.rounds_done += 1;
        }
        Ok(())
    }

    /// Copies what is live in a segment that rounds cover, and recycles it.
    fn compact(&mut self) -> Result<(), EngineError> {
        let victims = self.rounds.victims(&self.log);
        let Some(&victim) = victims.get(self.random.below(victims.len().max(1) as u64) as usize) else {
            return Ok(());
        };
        let mut entry = Vec::new();
        for partition in self.partitions.values_mut() {
            let Some(slot) = partition.slot else { continue };
            for place in partition.places.values_mut().filter(|place| place.segment == victim) {
                let head = self.log.read(&mut self.disk, *place, &mut entry)?;
                let (key, payload) = entry[HEAD_BYTES..].split_at(head.key_bytes);
                *place = self.log.append_copy(slot, &head, key, payload, false)?;
                let from = u64::from(place.offset);
                self.spans.push((place.segment, from..from + entry.len() as u64));
            }
        }
        self.flush()?;
        self.follow_moves();
        if self.log.recycle(&mut self.disk, victim).is_ok() {
            self.spans.retain(|span| span.0 != victim);
            self.recycled += 1;
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
        partition.places.split_off(&(log.len() as u64 + 1));
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
        let (places, commit) = (parent.places.clone(), parent.commit);
        (parent.slot, _) = (None, parent.states.push(None));
        for (child, slot) in children.into_iter().zip(slots) {
            // The birth may survive, and not all of what the child continues.
            let states = (0..=log.len()).map(|length| Some(log[..length].to_vec()));
            let states = [None].into_iter().chain(states).collect();
            let places = places.clone();
            let partition = LoggedPartition { slot: Some(slot), epoch, states, flushing: 0, places, commit };
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

    /// The entries of a log that was found, as far as they are not damaged, by index.
    fn read(
        &mut self,
        log: &SharedLog,
        found: &RecoveredLog,
    ) -> (BTreeMap<u64, LoggedEntry>, BTreeMap<u64, LogPlace>) {
        let (mut entries, mut places, mut into) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
        if let Some(section) = &found.section {
            let bytes = read_section(&mut self.disk, "log", section).expect("reads").expect("is sound");
            for row in bytes.chunks_exact(20) {
                let word = |at: usize| u64::from_le_bytes(row[at..at + 8].try_into().expect("8 bytes"));
                let offset = u32::from_le_bytes(row[16..].try_into().expect("4 bytes"));
                places.insert(word(0), LogPlace { segment: word(8), offset });
            }
            let segments = log.segments();
            places.retain(|_, place| segments.binary_search(&place.segment).is_ok());
        }
        let found = found.copies.iter().chain(&found.entries).filter(|entry| entry.is_good);
        places.extend(found.map(|entry| (entry.index, entry.place)));
        for (index, place) in &places {
            let head = match log.read(&mut self.disk, *place, &mut into) {
                Err(EngineError::Corrupt { .. }) => continue,
                read => read.expect("can be read"),
            };
            let read = LoggedEntry {
                epoch: head.epoch,
                stamp: head.timestamp,
                bytes: head.payload_bytes,
                is_joined: head.flags & FLAG_JOINED != 0,
            };
            assert_eq!(head.index, *index);
            assert!(into[head.payload_at()..] == read.payload(), "{:?} {index} is another", head.partition);
            entries.insert(head.index, read);
        }
        (entries, places)
    }

    /// Recovers on a disk on which what was flushed is sound: each log is in one of its states.
    pub fn recover(&mut self) {
        self.disk.set_faults(SimulatedFaults::default());
        let recovery = recover(&mut self.disk, "log", LOG).expect("recovers");
        assert_eq!(recovery.damage, [], "the disk is sound");
        let found = recovery.partitions.clone();
        let (log, rounds, slots) = resume(&mut self.disk, options(), recovery).expect("resumes");
        let mut recovered: BTreeMap<_, (LogSlot, Vec<LoggedEntry>, _)> = BTreeMap::new();
        for (one, slot) in found.iter().zip(slots) {
            assert_eq!(one.seed, one.partition.0);
            let (entries, places) = self.read(&log, one);
            assert!(entries.keys().copied().eq(1..=one.last.1), "{:?} has a gap", one.partition);
            recovered.insert(one.partition, (slot, entries.into_values().collect(), places));
        }
        (self.log, self.rounds, self.round) = (log, rounds, Vec::new());
        for (id, partition) in &mut self.partitions {
            let found = recovered.remove(id);
            let (slot, state) = found.as_ref().map_or((None, None), |f| (Some(f.0), Some(f.1.clone())));
            partition.places = found.map(|found| found.2).unwrap_or_default();
            partition.commit = partition.commit.min(state.as_ref().map_or(0, Vec::len) as u64);
            let is_unit =
                |state: &LogState| !state.as_ref().is_some_and(|log| log.last().is_some_and(|e| e.is_joined));
            assert!(
                is_unit(&state) && partition.states.contains(&state),
                "{id:?} is in none of its states: {:?} of {:?}",
                state.as_ref().map(Vec::len),
                partition.states.iter().map(|state| state.as_ref().map(Vec::len)).collect::<Vec<_>>()
            );
            partition.epoch += 1;
            (partition.slot, partition.flushing) = (slot, 0);
            partition.states = vec![state];
        }
        assert!(recovered.is_empty(), "nobody began {:?}", recovered.keys());
        let highest = self.log.segments().last().copied();
        self.recovered_segments = highest.unwrap_or_default();
    }

    /// Corrupts bytes of what a mark proves, and recovers: all that was not hit is there.
    pub fn corrupt_and_recover(&mut self) {
        for _ in 0..2 {
            self.flush().expect("the disk is sound");
            self.log.mark().expect("the log runs");
        }
        self.flush().expect("the disk is sound");
        self.disk.power_off_clean();
        let hits = self.disk.corrupt_random(1 + self.random.below(4) as usize);
        // Most bytes are payloads of long entries, whose heads are found nonetheless.
        let targeted = self.spans.get(self.random.below(2 * self.spans.len() as u64) as usize).cloned();
        let targeted = targeted.and_then(|(segment, range)| {
            let at = range.start + self.random.below(40);
            self.disk.corrupt_at(&format!("log/{segment:016x}.log"), at, 1).ok().map(|()| (segment, at))
        });
        let recovery = recover(&mut self.disk, "log", LOG).expect("recovers");
        let (found, damage) = (recovery.partitions.clone(), recovery.damage.clone());
        let (log, _, _) = resume(&mut self.disk, options(), recovery).expect("resumes");
        let in_rounds = hits.iter().filter(|hit| hit.path.ends_with(".ckp")).count();
        let hits: Vec<(u64, u64)> = hits
            .iter()
            .filter_map(|hit| {
                let name = hit.path.strip_prefix("log/")?.strip_suffix(".log")?;
                Some((u64::from_str_radix(name, 16).expect("a number"), hit.offset))
            })
            .chain(targeted)
            .collect();
        let is_hit =
            |span: &EntrySpan| hits.iter().any(|(segment, at)| *segment == span.0 && span.1.contains(at));
        // Hits of births and marks may cost more; those between header and entries cost nothing.
        let in_entries = |(segment, at): &(u64, u64)| {
            (64..4096).contains(at) || self.spans.iter().any(|span| span.0 == *segment && span.1.contains(at))
        };
        // One of two directories may become corrupt.
        let is_strict = hits.iter().all(in_entries) && in_rounds < 2;
        let hit_stamps = self.spans.iter().filter(|span| is_hit(span)).count();
        let mut lost = 0;
        for (id, partition) in self.partitions.clone() {
            let Some(state) = partition.states.last().cloned().flatten() else { continue };
            let one = found.iter().find(|one| one.partition == id);
            if one.is_none() && is_strict {
                panic!("{id:?} is gone");
            }
            let Some(one) = one else { continue };
            let (entries, places) = self.read(&log, one);
            for (at, expected) in state.iter().enumerate() {
                let index = at as u64 + 1;
                match entries.get(&index) {
                    Some(entry) => assert_eq!(entry, expected, "{id:?} {index} is another entry"),
                    None if is_strict => {
                        lost += 1;
                        let is_named = damage.iter().any(|damage| match *damage {
                            LogDamage::Missing { partition, from, through } => {
                                partition == id && (from..=through).contains(&index)
                            }
                            LogDamage::Payload { partition, index: corrupt } => {
                                partition == id && corrupt == index
                            }
                            LogDamage::Copies { .. } => true,
                            _ => false,
                        });
                        // What a section has is not read by recovery.
                        let is_corrupt = places.contains_key(&index);
                        assert!(
                            is_named || is_corrupt,
                            "{id:?} {index} is missing without notice: {damage:?}"
                        );
                    }
                    None => {}
                }
            }
            assert!(!is_strict || entries.len() <= state.len(), "{id:?} has too many entries");
        }
        // A split shares entries.
        let partitions = self.partitions.len();
        assert!(lost <= hit_stamps * partitions, "{lost} entries lost by {hit_stamps} hits");
    }
}
