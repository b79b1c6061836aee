//! Streams on a simulated disk: what was flushed is there after a crash at any operation, and nothing is there that was not
//! appended.

use std::collections::BTreeMap;

use super::format::{FIRST_ENTRY_AT, LogId, LogPartition, SharedHeader};
use super::scan::{LogItem, items};
use super::streams::{LogPlace, LogSlot, NewLogPartition, SharedLog, SharedLogOptions};
use crate::disk::simulated::SimulatedDisk;
use crate::disk::{Disk, OpenMode};
use crate::log::entry::{EntryKind, EntryMeta};
use crate::{EngineError, PartitionId};
use zerohop_base::random::Random;

const LOG: LogId = LogId(*b"id of this log..");

fn options() -> SharedLogOptions {
    SharedLogOptions {
        segment_bytes: 24 << 10,
        large_segment_bytes: 300 << 10,
        reserve_spares: 0,
        ..SharedLogOptions::new("log", LOG)
    }
}

fn put(epoch: u32, index: u64) -> EntryMeta {
    EntryMeta { kind: EntryKind::Put, flags: 0, epoch, index, timestamp: 1_000 + index }
}

/// The payload of an entry: what it is follows from its name.
fn payload(number: LogPartition, index: u64, bytes: usize) -> Vec<u8> {
    let mut out = vec![0; bytes];
    Random::new(u64::from(number.0) << 32 | index).fill(&mut out);
    out
}

/// Entries with good payloads in all segments, by log partition and index: lengths of their payloads.
fn found(disk: &mut SimulatedDisk) -> BTreeMap<(LogPartition, u64), usize> {
    let mut all = BTreeMap::new();
    for entry in disk.list("log").expect("lists").into_iter().filter(|entry| entry.name.ends_with(".log")) {
        let file = disk.open(&format!("log/{}", entry.name), OpenMode::Existing).expect("opens");
        let mut bytes = vec![0; entry.bytes as usize];
        disk.read_at(file, 0, &mut bytes).expect("reads");
        let Ok(header) = SharedHeader::decode(&bytes) else { continue };
        if format!("{:016x}.log", header.number) != entry.name {
            continue;
        }
        for item in items(header.base(), bytes.get(FIRST_ENTRY_AT..).unwrap_or(&[]), FIRST_ENTRY_AT as u64) {
            if let LogItem::Entry { head, payload: read, payload_is_good: true, .. } = item {
                assert_eq!(read, payload(head.partition, head.index, read.len()), "as it was appended");
                all.insert((head.partition, head.index), read.len());
            }
        }
    }
    all
}

struct History {
    disk: SimulatedDisk,
    log: SharedLog,
    slots: Vec<LogSlot>,
    places: BTreeMap<LogPlace, (LogPartition, u64, usize)>,
    random: Random,
}

impl History {
    fn new(seed: u64) -> History {
        let mut log = SharedLog::new(options());
        let new = [1, 2, 3].map(|id| NewLogPartition::first(PartitionId(id), id));
        let slots = log.begin(&new, None).expect("begins");
        History {
            disk: SimulatedDisk::new(seed),
            log,
            slots,
            places: BTreeMap::new(),
            random: Random::new(seed),
        }
    }

    fn append(&mut self, bytes: usize) {
        let slot = self.slots[self.random.below(self.slots.len() as u64) as usize];
        let (number, index) = (self.log.number(slot), self.log.last(slot).1 + 1);
        let data = payload(number, index, bytes);
        let (first, rest) = data.split_at(self.random.below(bytes as u64 + 1) as usize);
        let place = self.log.append(slot, &put(1, index), b"key", [first, rest]).expect("appends");
        self.places.insert(place, (number, index, bytes));
    }

    fn step(&mut self) -> Result<(), EngineError> {
        match self.random.below(24) {
            0..=14 => {
                let bytes = if self.random.chance(1, 12) {
                    65_000 + self.random.below(9_000)
                } else {
                    self.random.below(2_000)
                };
                self.append(bytes as usize);
            }
            15 | 16 => self.log.flush(&mut self.disk, true)?,
            17 | 18 => drop(self.log.flush_begin(&mut self.disk, false)?),
            19 | 20 => drop(self.log.flush_done(&mut self.disk, false)?),
            21 => self.log.write_full_pieces(&mut self.disk)?,
            22 => drop(self.log.mark()?),
            _ => {
                let settled = self.log.segments().into_iter().find(|n| self.random.chance(1, 2) && *n > 0);
                if let Some(number) = settled
                    && self.log.recycle(&mut self.disk, number) != Err(EngineError::UnknownPartition)
                {
                    self.places.retain(|place, _| place.segment != number);
                }
            }
        }
        Ok(())
    }
}

#[test]
fn flushed_entries_survive_a_crash_at_any_operation() {
    let (mut durable_entries, mut lost) = (0, 0);
    for seed in 0..150 {
        let mut run = History::new(seed);
        run.disk.cut_power_after(run.random.below(120));
        for _ in 0..120 {
            if run.step().is_err() {
                break;
            }
        }
        run.disk.crash();
        let found = found(&mut run.disk);
        for (number, index, bytes) in run.places.values() {
            let slot = run.slots.iter().find(|slot| run.log.number(**slot) == *number).expect("is open");
            let is_there = found.get(&(*number, *index)) == Some(bytes);
            assert!(
                is_there || *index > run.log.durable(*slot),
                "seed {seed}: {number:?} {index} was flushed"
            );
            durable_entries += usize::from(*index <= run.log.durable(*slot));
            lost += usize::from(!is_there);
        }
    }
    assert!(durable_entries > 1_000 && lost > 100, "{durable_entries} durable, {lost} lost");
}

#[test]
fn entries_are_read_from_memory_and_from_files() {
    let mut run = History::new(1);
    for n in 0..300 {
        run.append(if n % 40 == 0 { 70_000 } else { n * 7 });
    }
    let check = |run: &mut History| {
        let mut into = Vec::new();
        for (place, (number, index, bytes)) in &run.places {
            let head = run.log.read(&mut run.disk, *place, &mut into).expect("reads");
            assert_eq!((head.partition, head.index, head.payload_bytes), (*number, *index, *bytes));
            assert_eq!(&into[head.payload_at()..], payload(*number, *index, *bytes));
        }
    };
    check(&mut run);
    run.log.flush(&mut run.disk, true).expect("flushes");
    assert!(run.log.evict() > 0);
    check(&mut run);
    let place = *run.places.keys().next().expect("there are entries");
    let path = format!("log/{:016x}.log", place.segment);
    run.disk.corrupt_at(&path, u64::from(place.offset) + 20, 1).expect("is there");
    let read = run.log.read(&mut run.disk, place, &mut Vec::new());
    assert!(matches!(read, Err(EngineError::Corrupt { .. })), "{read:?}");
}

#[test]
fn entries_of_a_segment_are_linked_back_and_its_footer_has_their_runs() {
    let mut run = History::new(3);
    (0..40).for_each(|_| run.append(10));
    run.log.seal(super::format::LogStream::Small).expect("seals");
    run.log.flush(&mut run.disk, true).expect("flushes");
    let file = run.disk.open("log/0000000000000001.log", OpenMode::Existing).expect("opens");
    let mut bytes = vec![0; run.disk.bytes(file).expect("has a length") as usize];
    run.disk.read_at(file, 0, &mut bytes).expect("reads");
    let header = SharedHeader::decode(&bytes).expect("has a header");
    let (mut last, mut runs) = (BTreeMap::new(), Vec::new());
    for item in items(header.base(), &bytes[FIRST_ENTRY_AT..], FIRST_ENTRY_AT as u64) {
        match item {
            LogItem::Entry { offset, head, .. } => {
                let before: Option<u64> = last.insert(head.partition, offset);
                assert_eq!(u64::from(head.back), before.map_or(0, |before| offset - before));
            }
            LogItem::Footer { footer, .. } => runs = footer.runs,
            LogItem::Bad { offset, .. } => panic!("bad bytes at {offset}"),
            LogItem::Creations { .. } | LogItem::Mark { .. } | LogItem::Voids { .. } => {}
        }
    }
    assert_eq!(runs.len(), 3);
    for row in runs {
        assert_eq!((row.first, last[&row.number]), (1, u64::from(row.last_at)));
        assert_eq!(row.bytes as u64, row.last * (40 + 3 + 10));
        assert_eq!((row.partition, row.seed), (PartitionId(row.seed), u64::from(row.number.0)));
    }
}

#[test]
fn new_segments_are_written_into_spares() {
    let mut run = History::new(4);
    (0..200).for_each(|_| run.append(500));
    run.log.flush(&mut run.disk, true).expect("flushes");
    let files = |run: &mut History| run.disk.list("log").expect("lists").len();
    let before = files(&mut run);
    let sealed = run.log.segments()[1];
    run.log.recycle(&mut run.disk, sealed).expect("is settled");
    assert_eq!(files(&mut run), before, "the file stays");
    run.places.retain(|place, _| place.segment != sealed);
    (0..40).for_each(|_| run.append(500));
    run.log.flush(&mut run.disk, true).expect("flushes");
    assert_eq!(files(&mut run), before, "its space is used again");
    run.disk.crash();
    let found = found(&mut run.disk);
    assert!(run.places.values().all(|(number, index, _)| found.contains_key(&(*number, *index))));
}
