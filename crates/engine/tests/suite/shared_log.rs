//! The log of an instance against a model: partitions that begin, are truncated, split and dropped, two streams, crashes at any
//! disk operation, failing writes, corrupt bytes, and bytes that are unreadable once.

use std::collections::BTreeMap;

use zerohop_base::random::Random;
use zerohop_engine::disk::simulated::{Chance, DiskOperation, SimulatedDisk, SimulatedFaults};
use zerohop_engine::log::shared::format::{HEAD_BYTES, LogId, LogStream};
use zerohop_engine::log::shared::prefix::{LogDamage, RecoveredLog};
use zerohop_engine::log::shared::recover::{recover, resume};
use zerohop_engine::log::shared::streams::{LogSlot, NewLogPartition, SharedLog, SharedLogOptions};
use zerohop_engine::{EngineError, EntryKind, FLAG_JOINED, Meta, PartitionId};

const LOG: LogId = LogId(*b"the simulated id");

fn options() -> SharedLogOptions {
    SharedLogOptions {
        segment_bytes: 24 << 10,
        large_segment_bytes: 300 << 10,
        ..SharedLogOptions::new("log", LOG)
    }
}

/// An entry of the model. No two have the same stamp, from which the payload follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LoggedEntry {
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
type LogState = Option<Vec<LoggedEntry>>;

/// A partition of the model: its states since the last flush that has ended, the first of which survives everything.
#[derive(Clone, Debug, Default)]
struct LoggedPartition {
    slot: Option<LogSlot>,
    epoch: u32,
    states: Vec<LogState>,
    /// How many of the states the flush that runs covers.
    flushing: usize,
}

impl LoggedPartition {
    fn now(&self) -> &[LoggedEntry] {
        self.states.last().and_then(Option::as_deref).unwrap_or_default()
    }
}

/// Where bytes of an entry stand.
type EntrySpan = (u64, std::ops::Range<u64>);

struct LogWorld {
    disk: SimulatedDisk,
    log: SharedLog,
    partitions: BTreeMap<PartitionId, LoggedPartition>,
    spans: Vec<EntrySpan>,
    random: Random,
    stamp: u64,
    next_partition: u64,
    moves: usize,
    /// Segments up to this number were there at the last recovery.
    recovered_segments: u64,
}

impl LogWorld {
    fn new(seed: u64) -> LogWorld {
        let mut world = LogWorld {
            disk: SimulatedDisk::new(seed),
            log: SharedLog::new(options()),
            partitions: BTreeMap::new(),
            spans: Vec::new(),
            random: Random::new(seed),
            stamp: seed << 20,
            next_partition: 1,
            moves: 0,
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
        Ok(())
    }

    /// Operations on files fail from now on, now and then; those of the log's own answer too.
    fn begin_faults(&mut self) {
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
        }
    }

    /// Corrupts a byte of an entry that no flush covers. Returns where.
    fn corrupt_what_is_not_flushed(&mut self) -> Option<(String, u64)> {
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
        partition.states.push(Some(log));
        Ok(())
    }

    fn step(&mut self) -> Result<(), EngineError> {
        let done = self.one_step();
        self.follow_moves();
        done
    }

    fn one_step(&mut self) -> Result<(), EngineError> {
        let Some((id, slot)) = self.any() else {
            let id = self.new_id();
            return self.begin(id);
        };
        match self.random.below(40) {
            0..=19 => self.append(id, slot, false)?,
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
            36 | 37 => self.log.mark(0)?,
            38 => drop(self.log.evict()),
            _ => {
                let stream = [LogStream::Small, LogStream::Large][self.random.below(2) as usize];
                self.log.seal(stream)?;
            }
        }
        Ok(())
    }

    fn truncate(&mut self, id: PartitionId, slot: LogSlot) -> Result<(), EngineError> {
        let partition = self.partitions.get_mut(&id).expect("is known");
        let mut log = partition.now().to_vec();
        log.truncate(log.len() - self.random.below(log.len().min(6) as u64 + 1) as usize);
        while log.last().is_some_and(|entry| entry.is_joined) {
            log.pop();
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
        (parent.slot, _) = (None, parent.states.push(None));
        for (child, slot) in children.into_iter().zip(slots) {
            // The birth may survive, and not all of what the child continues.
            let states = (0..=log.len()).map(|length| Some(log[..length].to_vec()));
            let states = [None].into_iter().chain(states).collect();
            self.partitions.insert(child, LoggedPartition { slot: Some(slot), epoch, states, flushing: 0 });
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), EngineError> {
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
    fn read(&mut self, log: &SharedLog, found: &RecoveredLog) -> BTreeMap<u64, LoggedEntry> {
        let (mut entries, mut into) = (BTreeMap::new(), Vec::new());
        for entry in found.entries.iter().filter(|entry| entry.is_good) {
            let head = log.read(&mut self.disk, entry.place, &mut into).expect("can be read");
            let read = LoggedEntry {
                epoch: head.epoch,
                stamp: head.timestamp,
                bytes: head.payload_bytes,
                is_joined: head.flags & FLAG_JOINED != 0,
            };
            assert_eq!(head.index, entry.index);
            assert!(
                into[head.payload_at()..] == read.payload(),
                "{:?} {} is another",
                found.partition,
                head.index
            );
            entries.insert(head.index, read);
        }
        entries
    }

    /// Recovers on a disk on which what was flushed is sound: each log is in one of its states.
    fn recover(&mut self) {
        self.disk.set_faults(SimulatedFaults::default());
        let recovery = recover(&mut self.disk, "log", LOG).expect("recovers");
        assert_eq!(recovery.damage, [], "the disk is sound");
        let found = recovery.partitions.clone();
        let (log, slots) = resume(&mut self.disk, options(), recovery).expect("resumes");
        let mut recovered: BTreeMap<PartitionId, (LogSlot, Vec<LoggedEntry>)> = BTreeMap::new();
        for (one, slot) in found.iter().zip(slots) {
            assert_eq!(one.seed, one.partition.0);
            let entries = self.read(&log, one);
            assert!(entries.keys().copied().eq(1..=one.last.1), "{:?} has a gap", one.partition);
            recovered.insert(one.partition, (slot, entries.into_values().collect()));
        }
        self.log = log;
        for (id, partition) in &mut self.partitions {
            let (slot, state) =
                recovered.remove(id).map_or((None, None), |(slot, log)| (Some(slot), Some(log)));
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
    fn corrupt_and_recover(&mut self) {
        for _ in 0..2 {
            self.flush().expect("the disk is sound");
            self.log.mark(0).expect("the log runs");
        }
        self.flush().expect("the disk is sound");
        self.disk.power_off_clean();
        let hits = self.disk.corrupt_random(1 + self.random.below(4) as usize);
        let recovery = recover(&mut self.disk, "log", LOG).expect("recovers");
        let (found, damage) = (recovery.partitions.clone(), recovery.damage.clone());
        let (log, _) = resume(&mut self.disk, options(), recovery).expect("resumes");
        let hits: Vec<(u64, u64)> = hits
            .iter()
            .filter_map(|hit| {
                let name = hit.path.strip_prefix("log/")?.strip_suffix(".log")?;
                Some((u64::from_str_radix(name, 16).expect("a number"), hit.offset))
            })
            .collect();
        let is_hit =
            |span: &EntrySpan| hits.iter().any(|(segment, at)| *segment == span.0 && span.1.contains(at));
        // Hits of births and marks may cost more; those between header and entries cost nothing.
        let in_entries = |(segment, at): &(u64, u64)| {
            (64..4096).contains(at) || self.spans.iter().any(|span| span.0 == *segment && span.1.contains(at))
        };
        let is_strict = hits.iter().all(in_entries);
        let hit_stamps = self.spans.iter().filter(|span| is_hit(span)).count();
        let mut lost = 0;
        for (id, partition) in self.partitions.clone() {
            let Some(state) = partition.states.last().cloned().flatten() else { continue };
            let one = found.iter().find(|one| one.partition == id);
            if one.is_none() && is_strict {
                panic!("{id:?} is gone");
            }
            let Some(one) = one else { continue };
            let entries = self.read(&log, one);
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
                            _ => false,
                        });
                        assert!(is_named, "{id:?} {index} is missing without notice: {damage:?}");
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

/// Returns how many entries failed files have moved.
fn run_crashes(seed: u64, with_faults: bool) -> usize {
    let mut world = LogWorld::new(seed);
    for _ in 0..4 {
        if with_faults {
            world.begin_faults();
        }
        world.disk.cut_power_after(world.random.below(150));
        let steps = world.random.below(120);
        for _ in 0..steps {
            if world.step().is_err() {
                break;
            }
        }
        if world.random.chance(1, 6) && !world.disk.is_power_off() {
            world.disk.power_off_clean();
        } else {
            world.disk.crash();
        }
        world.recover();
    }
    world.moves
}

/// Bytes that are unreadable at one recovery, and readable at later ones.
fn run_unreadable(seed: u64) {
    let mut world = LogWorld::new(seed);
    for round in 0..6 {
        world.disk.cut_power_after(world.random.below(150));
        let steps = world.random.below(60);
        for _ in 0..steps {
            if world.step().is_err() {
                break;
            }
        }
        world.disk.crash();
        let mut hits = Vec::new();
        if round % 2 == 0 {
            for _ in 0..6 {
                hits.extend(world.corrupt_what_is_not_flushed());
            }
        }
        world.recover();
        for (path, at) in hits {
            // The file may be a spare by now.
            let _ = world.disk.corrupt_at(&path, at, 1);
        }
    }
}

fn run_corruption(seed: u64) {
    let mut world = LogWorld::new(seed);
    for _ in 0..150 {
        world.step().expect("the disk is sound");
    }
    world.corrupt_and_recover();
}

#[test]
fn logs_recover_to_one_of_their_states() {
    for seed in 0..200 {
        run_crashes(seed, false);
    }
}

#[test]
fn entries_of_failed_files_are_written_again() {
    let moves: usize = (0..200).map(|seed| run_crashes(seed, true)).sum();
    assert!(moves > 200, "{moves} entries were moved");
}

#[test]
fn entries_that_were_unreadable_once_stay_dead() {
    for seed in 0..300 {
        run_unreadable(seed);
    }
}

#[test]
fn corrupt_bytes_cost_only_what_they_hit() {
    for seed in 0..150 {
        run_corruption(seed);
    }
}

#[test]
fn segment_of_another_log_is_refused() {
    let mut world = LogWorld::new(1);
    world.flush().expect("the disk is sound");
    let refused = recover(&mut world.disk, "log", LogId([1; 16])).map(|_| ());
    assert!(matches!(refused, Err(EngineError::Format { .. })), "{refused:?}");
}

#[cfg(debug_assertions)]
#[test]
fn test_finds_every_shared_log_mutant() {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use zerohop_engine::planted::{Bug, plant};
    for bug in Bug::OF_SHARED_LOGS {
        plant(Some(bug));
        let finds = |seed| {
            catch_unwind(AssertUnwindSafe(|| {
                run_crashes(seed, seed % 2 == 1);
                run_unreadable(seed);
                run_corruption(seed);
            }))
            .is_err()
        };
        let found = (0..200).find(|&seed| finds(seed));
        plant(None);
        assert!(found.is_some(), "{bug:?} was not found");
    }
}
