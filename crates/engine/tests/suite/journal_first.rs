//! Journal-first entries survive a crash only together with everything that was accepted before them, of all `sync` partitions.

use zerohop_base::random::Random;
use zerohop_engine::disk::simulated::SimulatedDisk;
use zerohop_engine::{
    Durability, Engine, EngineOptions, EntryKind, EntryMeta, Handle, PartitionId, PartitionOptions,
};

use crate::support::TestEngine as Store;

const PARTITIONS: u64 = 4;
const SEEDS: u64 = 120;
const STEPS: usize = 400;

fn open(disk: &SimulatedDisk) -> Store {
    let options = EngineOptions {
        segment_bytes: 300 << 10,
        journal_file_bytes: 512 << 10,
        disk_reserve_bytes: 0,
        ..EngineOptions::default()
    };
    let (engine, report) = Engine::open(disk.clone(), options).expect("opens");
    assert_eq!(report.damage().map(ToString::to_string).next(), None);
    engine
}

/// The partitions, and the last log index of each.
struct JournalFirstHistory {
    engine: Store,
    handles: Vec<Handle>,
    last: Vec<u64>,
    /// The same at the last flush.
    flushed: Vec<u64>,
}

impl JournalFirstHistory {
    fn open(disk: &SimulatedDisk) -> JournalFirstHistory {
        let mut engine = open(disk);
        let options = PartitionOptions { durability: Durability::Sync, index_seed: 7 };
        let handles: Vec<Handle> = (1..=PARTITIONS)
            .map(|number| engine.partition(PartitionId(number), options).expect("opens"))
            .collect();
        let last: Vec<u64> =
            handles.iter().map(|p| engine.partition_stats(*p).expect("is open").last.1).collect();
        JournalFirstHistory { engine, handles, flushed: last.clone(), last }
    }

    fn append(&mut self, at: usize, payload: &[u8]) {
        let index = self.last[at] + 1;
        let meta = EntryMeta { kind: EntryKind::Put, flags: 0, epoch: 1, index, timestamp: index };
        let key = format!("k{}", index % 50);
        self.engine.append(self.handles[at], &meta, key.as_bytes(), payload).expect("is accepted");
        self.last[at] = index;
    }

    /// Appends a journal-first entry with the ends of all logs, and so many bytes behind them.
    fn append_journal_first(&mut self, at: usize, bytes: usize) {
        let ends: Vec<u8> = self.last.iter().flat_map(|last| last.to_le_bytes()).collect();
        assert!(self.engine.set_journal_first(self.handles[at], true), "the partition has a journal");
        self.append(at, &[b"ends", &ends[..], &vec![7; bytes]].concat());
        self.engine.set_journal_first(self.handles[at], false);
    }

    fn commit_durable(&mut self) {
        for handle in self.handles.clone() {
            let durable = self.engine.durable_index(handle).expect("is open");
            self.engine.commit(handle, durable).expect("commits");
        }
    }

    fn step(&mut self, random: &mut Random, now_ms: u64) {
        let at = random.below(PARTITIONS) as usize;
        match random.below(20) {
            0..8 => self.append(at, &vec![7; random.below(9_000) as usize]),
            8 => self.append(at, &vec![7; 66_000 + random.below(9_000) as usize]),
            9..14 => self.append_journal_first(at, 0),
            14 => self.append_journal_first(at, 66_000),
            15 => {
                self.engine.flush().expect("flushes");
                self.flushed.clone_from(&self.last);
            }
            16 => drop(self.engine.flush_begin().expect("begins")),
            17 => drop(self.engine.flush_done().expect("is known")),
            18 => drop(self.engine.maintain(now_ms).expect("goes on")),
            _ => {
                self.commit_durable();
                self.engine.checkpoint_begin(self.handles[at], &[]).expect("begins");
            }
        }
    }

    /// What was flushed is in the logs, and all that a journal-first entry depends on.
    fn check(&mut self, flushed: &[u64]) -> usize {
        let is_kept = |(last, flushed): (&u64, &u64)| last >= flushed;
        assert!(self.last.iter().zip(flushed).all(is_kept), "{:?} of {flushed:?} are left", self.last);
        let mut found = 0;
        for at in 0..self.handles.len() {
            for index in 1..=self.last[at] {
                let Ok(entry) = self.engine.read_entry(self.handles[at], index) else { continue };
                let Some(ends) = entry.payload.strip_prefix(b"ends") else { continue };
                let ends = ends[..8 * self.last.len()]
                    .chunks_exact(8)
                    .map(|end| u64::from_le_bytes(end.try_into().expect("eight bytes")));
                for (of, end) in ends.enumerate() {
                    assert!(
                        self.last[of] >= end,
                        "entry {index} of {at} survives, and entry {end} of {of} does not"
                    );
                }
                found += 1;
            }
        }
        found
    }
}

/// Runs a random history with crashes. Returns the number of journal-first entries that survived.
fn run(seed: u64) -> usize {
    let disk = SimulatedDisk::new(seed);
    let mut random = Random::new(seed);
    let mut survived = 0;
    let mut now_ms = 0;
    let mut flushed = vec![0; PARTITIONS as usize];
    for _ in 0..3 {
        let mut world = JournalFirstHistory::open(&disk);
        survived += world.check(&flushed);
        for _ in 0..random.below(STEPS as u64) {
            now_ms += 1 + random.below(3);
            world.step(&mut random, now_ms);
        }
        flushed = world.flushed;
        drop(world.engine);
        disk.crash();
    }
    survived + JournalFirstHistory::open(&disk).check(&flushed)
}

#[test]
fn journal_first_entry_survives_only_with_what_was_accepted_before() {
    let survived: usize = (0..SEEDS).map(run).sum();
    assert!(survived > 1_000, "{survived} journal-first entries survived");
}

#[cfg(debug_assertions)]
#[test]
fn segment_written_before_the_journal_is_found() {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use zerohop_engine::planted::{Bug, plant};
    for bug in Bug::OF_JOURNAL_FIRST {
        plant(Some(bug));
        let found = (0..SEEDS).find(|seed| catch_unwind(AssertUnwindSafe(|| run(*seed))).is_err());
        plant(None);
        assert!(found.is_some(), "{bug:?} is not found");
    }
}
