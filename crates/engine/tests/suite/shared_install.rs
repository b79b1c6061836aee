//! Snapshot installs between partitions in shared logs, while the sender goes on: lists, chunks, trims, other partitions in the same
//! segments, runs that are read again, power cuts, and the log's tail behind the install.

use zerohop_base::random::Random;
use zerohop_engine::disk::simulated::SimulatedDisk;
use zerohop_engine::log::shared::format::LogId;
use zerohop_engine::{
    Durability, Engine, EngineError, EngineOptions, EntryKind, EntryMeta, FLAG_LIST, Handle, LogRun,
    PartitionId, PartitionOptions, RunPlace, ScrubPosition,
};

use crate::support::TestEngine as Store;

const P: PartitionId = PartitionId(1);
const BESIDE: PartitionId = PartitionId(2);
const KEYS: u64 = 14;

/// An engine with the partition, and another in the same segments.
struct SharedInstance {
    disk: SimulatedDisk,
    engine: Store,
    p: Handle,
    beside: Handle,
    durability: Durability,
    now_ms: u64,
    timestamp: u64,
}

impl SharedInstance {
    fn open(disk: &SimulatedDisk, durability: Durability) -> SharedInstance {
        let options = EngineOptions {
            shared_log: Some(LogId([9; 16])),
            segment_bytes: 24 << 10,
            disk_reserve_bytes: 0,
            memory_bytes: if durability == Durability::Memory { 64 << 20 } else { 128 << 10 },
            checkpoint_tail_bytes: 64 << 10,
            check_after_bytes: 16 << 10,
            collect_every_ms: 100,
            ..EngineOptions::default()
        };
        let (mut engine, report) = Engine::open(disk.clone(), options).expect("opens");
        assert_eq!(report.damage().map(ToString::to_string).next(), None);
        engine.commit_all().expect("commits");
        let own = PartitionOptions { durability, index_seed: 7 };
        let p = engine.partition(P, own).expect("opens");
        let beside = engine.partition(BESIDE, PartitionOptions { index_seed: 3, ..own }).expect("opens");
        SharedInstance { disk: disk.clone(), engine, p, beside, durability, now_ms: 0, timestamp: 1 }
    }

    fn restart(&mut self) {
        self.disk.crash();
        *self = SharedInstance::open(&self.disk, self.durability);
    }

    fn write(&mut self, random: &mut Random) {
        self.timestamp += 1;
        let at = self.timestamp;
        let key = [random.below(KEYS) as u8];
        let bytes = if random.below(20) == 0 { 70_000 + random.below(30_000) } else { random.below(2_000) };
        let fill = vec![random.below(256) as u8; bytes as usize];
        // Each key has one kind of contents, until it is removed.
        let (is_list, is_bytes) = (key[0] % 3 == 1, key[0] % 3 == 2);
        let value = [&1_u32.to_le_bytes()[..], &(fill.len() as u32).to_le_bytes(), &fill].concat();
        let engine = &mut self.engine;
        let written = match random.below(8) {
            0 => engine.write(self.p, EntryKind::Remove, 0, at, &key, b""),
            1..=3 if is_list || is_bytes => {
                let left = random.below(3) + 1;
                let flags = if is_list { FLAG_LIST } else { 0 };
                match engine.trim_point(self.p, &key, left).expect("reads") {
                    Some(to) => engine.write(self.p, EntryKind::Trim, flags, at, &key, &to.encode()),
                    None => Ok(0),
                }
            }
            _ if is_list => engine.write(self.p, EntryKind::Append, FLAG_LIST, at, &key, &value),
            _ if is_bytes => engine.write(self.p, EntryKind::Append, 0, at, &key, &fill),
            _ => engine.write(self.p, EntryKind::Put, 0, at, &key, &fill),
        };
        written.expect("is accepted");
        let other = [random.below(5) as u8];
        engine.write(self.beside, EntryKind::Put, 0, at, &other, &fill).expect("is accepted");
    }

    fn maintain(&mut self, times: u64) {
        for _ in 0..times {
            self.now_ms += 20;
            while self.engine.maintain(self.now_ms).expect("goes on") {}
        }
    }

    fn scrub(&mut self) {
        let mut at = Some(ScrubPosition::default());
        while let Some(from) = at {
            let scrubbed = self.engine.scrub(self.p, from, 10_000).expect("reads");
            assert!(scrubbed.corrupt.is_empty() && !scrubbed.is_unreadable);
            at = scrubbed.next;
        }
    }

    fn records(&mut self) -> Vec<Option<Vec<u8>>> {
        (0..KEYS).map(|key| self.engine.lookup_assembled(self.p, &[key as u8]).expect("reads")).collect()
    }

    /// Appends the entries of another member's log behind an index.
    fn follow(&mut self, from: &mut SharedInstance, after: u64) {
        let mut tail: Vec<(EntryMeta, Vec<u8>, Vec<u8>)> = Vec::new();
        from.engine
            .entries_after(from.p, after, |entry, is_good| {
                assert!(is_good);
                tail.push((entry.head.meta, entry.key.to_vec(), entry.payload.to_vec()));
            })
            .expect("reads");
        for (meta, key, payload) in tail {
            self.engine.append(self.p, &meta, &key, &payload).expect("follows");
            self.engine.commit(self.p, meta.index).expect("commits");
        }
    }

    fn complete(&mut self, last: (u32, u64)) -> Result<(), EngineError> {
        self.engine.finish_install(self.p, last)?;
        self.engine.checkpoint_begin(self.p, b"state")?;
        self.engine.finish_work(self.p)?;
        self.engine.end_install(self.p)
    }
}

fn durability(random: &mut Random) -> Durability {
    [Durability::Memory, Durability::Interval { ms: 50 }, Durability::Sync][random.below(3) as usize]
}

fn runs(seed: u64) {
    let mut random = Random::new(seed);
    let mut from = SharedInstance::open(&SimulatedDisk::new(seed), durability(&mut random));
    for _ in 0..random.below(250) {
        from.write(&mut random);
        if random.below(4) == 0 {
            from.maintain(1);
        }
        if random.below(20) == 0 {
            from.scrub();
        }
        if random.below(200) == 0 && from.durability != Durability::Memory {
            from.engine.sync().expect("syncs");
            from.restart();
        }
    }
    if random.below(2) == 0 {
        // What is known of a segment is of no use once compaction has moved entries into it.
        from.scrub();
        from.maintain(random.below(40));
    }
    let mut to = SharedInstance::open(&SimulatedDisk::new(seed + 1), durability(&mut random));
    from.engine.pause_compaction(from.p, true).expect("is open");
    let last = from.engine.partition_stats(from.p).expect("is open").last;
    to.engine.begin_install(to.p).expect("begins");
    let (mut place, mut run) = (RunPlace::default(), Vec::new());
    loop {
        if random.below(3) == 0 {
            from.write(&mut random);
            from.maintain(1);
        }
        if random.below(3) == 0 {
            to.maintain(1);
        }
        if random.below(60) == 0 {
            // Nothing of it is left, and the install begins again.
            to.restart();
            assert_eq!(to.engine.partition_stats(to.p).expect("is open").last, (0, 0), "seed {seed}");
            to.engine.begin_install(to.p).expect("begins");
            place = RunPlace::default();
        }
        let (before, bytes) = (place, random.below(20_000) as usize);
        match from.engine.read_run(from.p, &mut place, (last.1, bytes), &mut run).expect("is read") {
            LogRun::Bytes { begins } => {
                to.engine.install_run(to.p, begins, &run).expect("is installed");
                if random.below(10) == 0 && before != place {
                    // A run that has arrived is no next run.
                    let again = to.engine.install_run(to.p, begins, &run);
                    assert!(matches!(again, Err(EngineError::NotNext { .. })), "seed {seed}: {again:?}");
                }
            }
            LogRun::End => break,
            other => panic!("{other:?}"),
        }
    }
    to.complete(last).expect("ends");
    to.follow(&mut from, last.1);
    from.engine.pause_compaction(from.p, false).expect("is open");
    check_same(&mut to, &mut from, &format!("seed {seed}"));
    for _ in 0..40 {
        let after = from.engine.partition_stats(from.p).expect("is open").last.1;
        from.write(&mut random);
        to.follow(&mut from, after);
        to.maintain(1);
        from.maintain(1);
    }
    check_same(&mut to, &mut from, &format!("seed {seed}, later"));
    let counts = to.engine.recount(to.p).expect("reads");
    assert!(counts.iter().all(|count| count.is_right()), "seed {seed}: {counts:?}");
    if to.durability != Durability::Memory {
        to.engine.sync().expect("syncs");
        to.restart();
        check_same(&mut to, &mut from, &format!("seed {seed}, after a crash"));
        to.maintain(100);
        check_same(&mut to, &mut from, &format!("seed {seed}, compacted after a crash"));
    }
}

#[test]
fn installed_records_equal_those_of_a_sender_that_goes_on() {
    for seed in crate::support::seeds(150) {
        runs(seed);
    }
}

/// Both have the same records.
fn check_same(to: &mut SharedInstance, from: &mut SharedInstance, when: &str) {
    let (found, expected) = (to.records(), from.records());
    let differ = |key: &usize| found[*key] != expected[*key];
    let lengths = |key: usize| [&found, &expected].map(|all| all[key].as_ref().map(Vec::len));
    let wrong: Vec<_> = (0..found.len()).filter(differ).map(|key| (key, lengths(key))).collect();
    assert!(wrong.is_empty(), "{when}: keys with other values, and their lengths: {wrong:?}");
}

/// Installs a log with a power cut after this many disk operations. Returns an error in the remaining state, if there is one.
fn crashed_after(operations: u64) -> Option<&'static str> {
    let mut random = Random::new(5);
    let mut from = SharedInstance::open(&SimulatedDisk::new(5), Durability::DEFAULT);
    (0..120).for_each(|_| from.write(&mut random));
    let mut to = SharedInstance::open(&SimulatedDisk::new(operations), Durability::DEFAULT);
    let last = from.engine.partition_stats(from.p).expect("is open").last;
    to.disk.cut_power_after(operations);
    let mut install = || -> Result<(), EngineError> {
        to.engine.begin_install(to.p)?;
        let (mut place, mut run) = (RunPlace::default(), Vec::new());
        while let LogRun::Bytes { begins } =
            from.engine.read_run(from.p, &mut place, (last.1, 30_000), &mut run)?
        {
            to.engine.install_run(to.p, begins, &run)?;
            to.engine.sync()?;
        }
        to.complete(last)
    };
    let has_ended = install().is_ok();
    to.restart();
    let found = to.records();
    if found.iter().all(Option::is_none) && !has_ended {
        let is_empty = to.engine.partition_stats(to.p).expect("is open").last == (0, 0);
        return (!is_empty || to.engine.begin_install(to.p).is_err()).then_some("it cannot be repeated");
    }
    (found != from.records()).then_some("a part of it is there")
}

#[test]
fn incomplete_install_leaves_nothing_after_a_crash() {
    for operations in 0..90 {
        assert_eq!(crashed_after(operations), None, "{operations}");
    }
}

#[cfg(debug_assertions)]
#[test]
fn test_finds_every_shared_install_mutant() {
    use zerohop_engine::planted::{Bug, plant};
    for bug in Bug::OF_SHARED_INSTALL {
        plant(Some(bug));
        let is_wrong = |number: u64| {
            let crashed = std::panic::catch_unwind(|| crashed_after(number));
            crashed.map_or(true, |wrong| wrong.is_some())
                || std::panic::catch_unwind(|| runs(number)).is_err()
        };
        let found = (0..90).find(|&number| is_wrong(number));
        plant(None);
        assert!(found.is_some(), "{bug:?} was not found");
    }
}

/// Twenty entries of 1,041 bytes, which a checkpoint covers: they are not read at a start, and none is in memory after this one.
fn restarted_with_entries(disk: &SimulatedDisk) -> SharedInstance {
    let mut from = SharedInstance::open(disk, Durability::DEFAULT);
    for number in 0..20_u8 {
        from.timestamp += 1;
        let payload = [number; 1000];
        from.engine
            .write(from.p, EntryKind::Put, 0, from.timestamp, &[number], &payload)
            .expect("is accepted");
    }
    from.engine.checkpoint_begin(from.p, b"state").expect("begins");
    from.engine.finish_work(from.p).expect("ends");
    from.engine.sync().expect("syncs");
    from.restart();
    from
}

/// The first segment of the log, which has the entries.
const SEGMENT: &str = "log/0000000000000001.log";

/// An offset in the payload of the second or third entry.
const IN_PAYLOAD: u64 = 5_137 + 1_041 + 600;

#[test]
fn corrupt_entry_is_reported_and_not_sent() {
    let disk = SimulatedDisk::new(3);
    let mut from = restarted_with_entries(&disk);
    disk.corrupt_at(SEGMENT, IN_PAYLOAD, 1).expect("becomes corrupt");
    let (mut place, mut run, mut seen) = (RunPlace::default(), Vec::new(), Vec::new());
    for _ in 0..3 {
        seen.push(from.engine.read_run(from.p, &mut place, (20, 100_000), &mut run).expect("is read"));
    }
    let corrupt = seen.pop().expect("is there");
    let LogRun::Corrupt { index } = corrupt else { panic!("{corrupt:?}") };
    assert!((2..4).contains(&index) && seen == [LogRun::Bytes { begins: true }, corrupt], "{seen:?}");
}

/// The repaired entry is in a segment that was sent already.
#[test]
fn install_begins_again_after_a_repair() {
    let disk = SimulatedDisk::new(3);
    let mut from = restarted_with_entries(&disk);
    from.engine.pause_compaction(from.p, true).expect("is open");
    let (mut place, mut run) = (RunPlace::default(), Vec::new());
    let first = from.engine.read_run(from.p, &mut place, (20, 1), &mut run).expect("is read");
    assert_eq!(first, LogRun::Bytes { begins: true });
    disk.corrupt_at(SEGMENT, IN_PAYLOAD, 1).expect("becomes corrupt");
    let scrubbed = from.engine.scrub(from.p, ScrubPosition::default(), 100_000).expect("reads");
    let [corrupt] = scrubbed.corrupt[..] else { panic!("{scrubbed:?}") };
    let number = corrupt.index as u8 - 1;
    let name = (corrupt.epoch, corrupt.index, corrupt.index + 1);
    assert_eq!(from.engine.repair(from.p, name, &[number], &[number; 1000]), Ok(true));
    let next = from.engine.read_run(from.p, &mut place, (20, 1), &mut run).expect("is read");
    assert_eq!(next, LogRun::Replaced);
    assert_eq!(from.engine.lookup_assembled(from.p, &[number]).expect("reads"), Some(vec![number; 1000]));
}

/// Which entries unreadable bytes were is not known, so an install without them might leave out records.
#[test]
fn unreadable_head_ends_an_install() {
    let disk = SimulatedDisk::new(3);
    let mut from = restarted_with_entries(&disk);
    // In the epoch of the third entry, behind the creation of the partition.
    disk.corrupt_at(SEGMENT, 4_176 + 2 * 1_041 + 20, 1).expect("becomes corrupt");
    let (mut place, mut run) = (RunPlace::default(), Vec::new());
    let read = from.engine.read_run(from.p, &mut place, (20, 100_000), &mut run);
    assert!(matches!(read, Err(EngineError::Corrupt { .. })), "{read:?}");
}

/// On their way to the disk, entries get places in segments that were sent already.
#[test]
fn install_begins_again_after_the_log_was_written_to_the_disk() {
    let mut from = SharedInstance::open(&SimulatedDisk::new(3), Durability::Memory);
    let mut random = Random::new(3);
    (0..40).for_each(|_| from.write(&mut random));
    from.engine.pause_compaction(from.p, true).expect("is open");
    let last = from.engine.partition_stats(from.p).expect("is open").last.1;
    let (mut place, mut run) = (RunPlace::default(), Vec::new());
    let first = from.engine.read_run(from.p, &mut place, (last, 1), &mut run).expect("is read");
    assert_eq!(first, LogRun::Bytes { begins: true });
    assert_eq!(from.engine.set_durability(from.p, Durability::DEFAULT), Ok(Durability::DEFAULT));
    let next = from.engine.read_run(from.p, &mut place, (last, 1), &mut run).expect("is read");
    assert_eq!(next, LogRun::Replaced);
}
