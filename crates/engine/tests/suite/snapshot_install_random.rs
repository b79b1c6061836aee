//! Snapshot installs with random disturbances of the receiving partition: in the end its log is the
//! sender's.

use zerohop_engine::disk::simulated::SimulatedDisk;
use zerohop_engine::log::shared::format::LogId;
use zerohop_engine::{
    Durability, Engine, EngineError, EngineOptions, EntryKind, Handle, LogRun, PartitionId, PartitionOptions,
    RunPlace,
};

use crate::support::TestEngine as Store;

/// The length of a segment, and the log that all partitions share, if they do.
type Log = (u64, Option<LogId>);

const P: PartitionId = PartitionId(1);
const INTERVAL: Durability = Durability::Interval { ms: 50 };
const DURABILITIES: [Durability; 3] = [Durability::Memory, INTERVAL, Durability::Sync];

/// Pseudo-random numbers: the upper bits of a linear congruential generator.
struct LinearRandom(u64);

impl LinearRandom {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

fn open(disk: &SimulatedDisk, (segment_bytes, shared_log): Log, durability: Durability) -> (Store, Handle) {
    // Memory for a few blocks, and hardly any dead space allowed.
    let options = EngineOptions {
        segment_bytes,
        shared_log,
        disk_reserve_bytes: 0,
        memory_bytes: 256 << 10,
        dead_percent_max: 5,
        ..EngineOptions::default()
    };
    // A memory partition must fit into memory.
    let options = match durability {
        Durability::Memory => EngineOptions { memory_bytes: 64 << 20, ..options },
        _ => options,
    };
    let (mut engine, report) = Engine::open(disk.clone(), options).expect("opens");
    assert_eq!(report.damage().map(ToString::to_string).next(), None);
    engine.commit_all().expect("commits");
    let p = engine.partition(P, PartitionOptions { durability, index_seed: 7 }).expect("opens");
    (engine, p)
}

fn write(random: &mut LinearRandom, (engine, p): (&mut Store, Handle)) {
    let (key, bytes) = ([random.below(12) as u8], random.below(9_000) as usize);
    let (kind, payload) = match random.below(8) {
        0 => (EntryKind::Remove, Vec::new()),
        _ => (EntryKind::Put, vec![random.below(256) as u8; bytes]),
    };
    engine.write(p, kind, 0, 1, &key, &payload).expect("is accepted");
}

fn records(engine: &mut Store, p: Handle) -> Vec<Option<Vec<u8>>> {
    (0..12).map(|key| engine.lookup_assembled(p, &[key]).expect("reads")).collect()
}

/// A receiving partition, and its history.
struct InstallingPartition {
    random: LinearRandom,
    disk: SimulatedDisk,
    engine: Store,
    q: Handle,
    ms: u64,
    /// It was opened with memory for the whole log.
    is_roomy: bool,
}

impl InstallingPartition {
    /// The counters of dead bytes equal an exact count.
    fn check_counters(&mut self, seed: u64) {
        let counts = self.engine.recount(self.q).expect("reads");
        assert!(counts.iter().all(|count| count.is_right()), "seed {seed}: {counts:?}");
    }

    /// Does something that must not matter.
    fn disturb(&mut self) {
        let InstallingPartition { engine, q, .. } = self;
        match self.random.below(8) {
            0 => {
                // Not to memory, if the memory is too small.
                let least = u64::from(!self.is_roomy);
                let other = DURABILITIES[(least + self.random.below(3 - least)) as usize];
                engine.set_durability(*q, other).expect("is changed");
            }
            1 => {
                // The disk is full when the log is to be written to it.
                self.disk.set_capacity(self.random.below(400_000));
                let outcome = engine.set_durability(*q, INTERVAL);
                self.disk.set_capacity(None);
                engine.check_disk_space();
                let is_full = matches!(
                    &outcome,
                    Err(EngineError::DiskFull { .. }
                        | EngineError::Disk(zerohop_engine::disk::DiskError::Full))
                );
                assert!(outcome.is_ok() || is_full, "{outcome:?}");
            }
            2..=4 => {
                for _ in 0..20 {
                    self.ms += 100;
                    engine.maintain(self.ms).expect("goes on");
                }
            }
            5 => engine.sync().expect("syncs"),
            6 => drop(records(engine, *q)),
            _ => {
                assert_eq!(engine.write(*q, EntryKind::Put, 0, 1, b"key", b"it"), Err(EngineError::Incoming));
                assert_eq!(engine.truncate_after(*q, 0), Err(EngineError::Incoming));
            }
        }
    }
}

fn runs(seed: u64, shared_log: Option<LogId>) {
    let mut random = LinearRandom(seed);
    let log = ([80 << 10, 300 << 10, 8 << 20][random.below(3) as usize], shared_log);
    let (mut from, p) = open(&SimulatedDisk::new(seed), log, INTERVAL);
    for _ in 0..random.below(300) + 1 {
        write(&mut random, (&mut from, p));
    }
    let disk = SimulatedDisk::new(seed + 1);
    let durability = DURABILITIES[random.below(3) as usize];
    let (engine, q) = open(&disk, log, durability);
    let is_roomy = durability == Durability::Memory;
    let mut to = InstallingPartition { random, disk, engine, q, ms: 0, is_roomy };
    let last = from.partition_stats(p).expect("is open").last;
    to.engine.begin_install(to.q).expect("begins");
    let (mut place, mut run) = (RunPlace::default(), Vec::new());
    loop {
        let bytes = to.random.below(100_000) as usize;
        if to.random.below(2) == 0 {
            to.disturb();
        }
        if to.random.below(60) == 0 {
            // A power cut: nothing is left, and the install begins again.
            to.disk.crash();
            let durability = DURABILITIES[to.random.below(3) as usize];
            (to.engine, to.q) = open(&to.disk, log, durability);
            to.is_roomy = durability == Durability::Memory;
            assert_eq!(to.engine.partition_stats(to.q).expect("is open").last, (0, 0), "seed {seed}");
            to.engine.begin_install(to.q).expect("begins");
            place = RunPlace::default();
        }
        match from.read_run(p, &mut place, (last.1, bytes), &mut run).expect("is read") {
            LogRun::Bytes { begins } => {
                to.engine.install_run(to.q, begins, &run).expect("is installed");
            }
            LogRun::End => break,
            other => panic!("{other:?}"),
        }
    }
    to.engine.finish_install(to.q, last).expect("is all");
    if to.random.below(2) == 0 {
        to.disturb();
    }
    to.engine.checkpoint_begin(to.q, b"state").expect("begins");
    to.engine.finish_work(to.q).expect("ends");
    to.engine.end_install(to.q).expect("ends");
    assert_eq!(records(&mut to.engine, to.q), records(&mut from, p), "seed {seed}");
    // Both logs continue alike, as any log does.
    let (mut one, mut other) = (LinearRandom(seed), LinearRandom(seed));
    for _ in 0..60 {
        write(&mut one, (&mut from, p));
        write(&mut other, (&mut to.engine, to.q));
        to.ms += 100;
        to.engine.maintain(to.ms).expect("goes on");
    }
    assert_eq!(records(&mut to.engine, to.q), records(&mut from, p), "seed {seed}");
    to.check_counters(seed);
    if to.engine.set_durability(to.q, INTERVAL).expect("is changed") == INTERVAL {
        to.engine.sync().expect("syncs");
        to.disk.crash();
        (to.engine, to.q) = open(&to.disk, log, INTERVAL);
        assert_eq!(records(&mut to.engine, to.q), records(&mut from, p), "seed {seed}, after a crash");
        to.check_counters(seed);
    }
}

#[test]
fn installed_log_equals_sender_despite_concurrent_changes() {
    for seed in 0..150 {
        runs(seed, None);
        runs(seed, Some(LogId([7; 16])));
    }
}
