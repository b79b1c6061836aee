//! Stores over one log of all partitions: their dead space is given back, whatever they are, and files are few.

use zerohop_engine::disk::simulated::SimulatedDisk;
use zerohop_engine::disk::{Disk, DiskResult};
use zerohop_engine::log::shared::format::LogId;
use zerohop_engine::{
    Durability, Engine, EngineOptions, EntryKind, FLAG_LIST, Handle, PartitionId, PartitionOptions,
};

const LOG: LogId = LogId([7; 16]);
/// Bytes of a value.
const VALUE: usize = 1_000;

struct SharedStore {
    disk: SimulatedDisk,
    engine: Engine<SimulatedDisk>,
    now_ms: u64,
    /// The timestamp of the last entry.
    timestamp: u64,
}

impl SharedStore {
    fn open(disk: SimulatedDisk) -> SharedStore {
        let options = EngineOptions {
            shared_log: Some(LOG),
            segment_bytes: 64 << 10,
            disk_reserve_bytes: 0,
            checkpoint_tail_bytes: 64 << 10,
            check_after_bytes: 16 << 10,
            collect_every_ms: 100,
            ..EngineOptions::default()
        };
        let (mut engine, report) = Engine::open(disk.clone(), options).expect("opens");
        assert_eq!(report.damage().next(), None);
        engine.commit_all().expect("commits");
        SharedStore { disk, engine, now_ms: 0, timestamp: 0 }
    }

    fn partition(&mut self, id: u64, durability: Durability) -> Handle {
        let options = PartitionOptions { durability, index_seed: id };
        self.engine.partition(PartitionId(id), options).expect("opens")
    }

    fn put(&mut self, p: Handle, key: u64, byte: u8) {
        self.timestamp += 1;
        let key = format!("key {key}");
        self.engine
            .write(p, EntryKind::Put, 0, self.timestamp, key.as_bytes(), &[byte; VALUE])
            .expect("is accepted");
    }

    fn maintain(&mut self, ms: u64) {
        for _ in 0..ms {
            self.now_ms += 1;
            while self.engine.maintain(self.now_ms).expect("goes on") {}
        }
    }

    /// Bytes of the log's files that are no spares, and the number of all files.
    fn files(&self) -> DiskResult<(u64, usize)> {
        let names = self.disk.clone().list("log")?;
        let in_use = names.iter().filter(|name| name.name.ends_with(".log"));
        Ok((in_use.map(|name| name.bytes).sum(), names.len()))
    }

    fn check(&mut self, p: Handle, keys: std::ops::Range<u64>, byte: u8) {
        for key in keys {
            let value = self.engine.lookup_assembled(p, format!("key {key}").as_bytes()).expect("reads");
            assert_eq!(value, Some(vec![byte; VALUE]), "key {key}");
        }
    }
}

#[test]
fn overwritten_partitions_give_their_space_back_while_they_are_written() {
    let mut store = SharedStore::open(SimulatedDisk::new(1));
    let parts: Vec<Handle> = (1..=4).map(|id| store.partition(id, Durability::Interval { ms: 5 })).collect();
    // One partition is written once, between the others.
    let quiet = store.partition(9, Durability::Interval { ms: 5 });
    (0..50).for_each(|key| store.put(quiet, key, 9));
    let live = 4 * 100 * VALUE as u64 + 50 * VALUE as u64;
    for round in 0..40 {
        for key in 0..100 {
            parts.iter().for_each(|p| store.put(*p, key, round));
            store.maintain(1);
        }
        let (bytes, files) = store.files().expect("lists");
        assert!(round < 5 || bytes < 4 * live, "{bytes} bytes of files for {live} live ones, round {round}");
        assert!(files < 60, "{files} files");
    }
    parts.iter().for_each(|p| store.check(*p, 0..100, 39));
    store.check(quiet, 0..50, 9);
    // What is left is compacted while nothing is written.
    store.maintain(2_000);
    let (bytes, _) = store.files().expect("lists");
    assert!(bytes < live * 2, "{bytes} bytes of files for {live} live ones");
}

#[test]
fn memory_partition_gives_its_space_back() {
    let mut store = SharedStore::open(SimulatedDisk::new(1));
    let p = store.partition(1, Durability::Memory);
    for round in 0..60 {
        (0..200).for_each(|key| store.put(p, key, round));
        // An entry that crosses several blocks.
        store.timestamp += 1;
        let long = vec![round; 300 << 10];
        store.engine.write(p, EntryKind::Put, 0, store.timestamp, b"long", &long).expect("is accepted");
        store.maintain(20);
    }
    let resident = store.engine.stats().resident_bytes;
    assert!(resident < 4 << 20, "{resident} bytes of memory for half a megabyte");
    assert_eq!(store.files().expect("lists").0, 0, "nothing is written");
    store.check(p, 0..200, 59);
    let long = store.engine.lookup_assembled(p, b"long").expect("reads");
    assert_eq!(long, Some(vec![59; 300 << 10]));
}

#[test]
fn space_of_earlier_starts_is_given_back_too() {
    let disk = SimulatedDisk::new(1);
    for start in 0..6 {
        let mut store = SharedStore::open(disk.clone());
        let p = store.partition(1, Durability::Interval { ms: 5 });
        if start > 0 {
            store.check(p, 0..300, start - 1);
        }
        (0..300).for_each(|key| store.put(p, key, start));
        store.maintain(300);
        let (bytes, _) = store.files().expect("lists");
        assert!(bytes < 3 * 300 * VALUE as u64, "{bytes} bytes of files at start {start}");
        match start % 2 {
            0 => drop(store.engine.close().expect("closes")),
            _ => {
                store.engine.sync().expect("syncs");
                drop(store.engine);
                disk.crash();
            }
        }
    }
}

#[test]
fn queue_that_is_trimmed_keeps_no_more_than_it_has() {
    let disk = SimulatedDisk::new(1);
    let mut store = SharedStore::open(disk.clone());
    let p = store.partition(1, Durability::Interval { ms: 5 });
    let value = [&1u32.to_le_bytes()[..], &[7; 200]].concat();
    for n in 0..6_000u64 {
        store.timestamp += 1;
        let list = format!("list {}", n % 20);
        let at = store.timestamp;
        store
            .engine
            .write(p, EntryKind::Append, FLAG_LIST, at, list.as_bytes(), &value)
            .expect("is accepted");
        if n >= 200 {
            let to = store.engine.trim_point(p, list.as_bytes(), 1).expect("reads").expect("some are left");
            store.timestamp += 1;
            let at = store.timestamp;
            let trim = to.encode();
            store
                .engine
                .write(p, EntryKind::Trim, FLAG_LIST, at, list.as_bytes(), &trim)
                .expect("is accepted");
        }
        if n % 10 == 0 {
            store.maintain(1);
        }
    }
    store.maintain(2_000);
    let (bytes, _) = store.files().expect("lists");
    assert!(bytes < 400 << 10, "{bytes} bytes of files for 50 KiB of lists");
    drop(store.engine);
    disk.crash();
    let mut store = SharedStore::open(disk);
    let p = store.partition(1, Durability::Interval { ms: 5 });
    for list in 0..20 {
        let left = store.engine.lookup_assembled(p, format!("list {list}").as_bytes()).expect("reads");
        assert_eq!(left.map(|left| left.len()), Some(10 * 200), "list {list}");
    }
}

/// A power cut can leave the file of a round with its directory, and other bytes than those of its sections. No mark names the
/// round, so nothing that was durable is damaged: neither for this recovery nor for later ones.
#[test]
fn round_that_was_never_durable_is_no_damage_to_later_starts() {
    let disk = SimulatedDisk::new(1);
    let mut store = SharedStore::open(disk.clone());
    let p = store.partition(1, Durability::Sync);
    (0..20).for_each(|key| store.put(p, key, 1));
    store.engine.sync().expect("syncs");
    store.engine.checkpoint_begin(p, &[]).expect("begins");
    store.engine.finish_work(p).expect("ends");
    drop(store.engine);
    disk.crash();
    let round = "log/0000000000000001.ckp";
    disk.corrupt_at(round, 64 + 40, 0xFF).expect("is there");
    for start in 0..3 {
        let mut store = SharedStore::open(disk.clone());
        let p = store.partition(1, Durability::Sync);
        store.check(p, 0..20, 1);
        store.put(p, 100 + start, 2);
        store.engine.sync().expect("syncs");
        store.maintain(300);
        drop(store.engine);
        disk.crash();
    }
}

/// A start reads the log back into memory as far as there is room, and takes no block with bytes that are not as they were written.
#[test]
fn log_is_read_back_into_memory_after_a_start() {
    let disk = SimulatedDisk::new(1);
    let mut store = SharedStore::open(disk.clone());
    let p = store.partition(1, Durability::Sync);
    (0..600).for_each(|key| store.put(p, key, 1));
    store.engine.sync().expect("syncs");
    store.engine.checkpoint_begin(p, &[]).expect("begins");
    store.engine.finish_work(p).expect("ends");
    store.engine.sync().expect("syncs");
    drop(store.engine);
    disk.crash();
    let mut store = SharedStore::open(disk.clone());
    let p = store.partition(1, Durability::Sync);
    // The second segment has a wrong byte, and is not taken.
    let (wrong, later) = ("log/0000000000000002.log", "log/0000000000000005.log");
    disk.corrupt_at(wrong, 20_000, 1).expect("is there");
    let before = store.engine.stats().resident_bytes;
    store.maintain(1);
    let resident = store.engine.stats().resident_bytes - before;
    assert!((550_000..700_000).contains(&resident), "{resident} bytes of 630 KB");
    // What is in memory is not read from the disk.
    disk.corrupt_at(later, 20_000, 1).expect("is there");
    let read = |store: &mut SharedStore, key: u64| {
        store.engine.lookup_assembled(p, format!("key {key}").as_bytes()).is_ok_and(|value| value.is_some())
    };
    let unread: Vec<u64> = (0..600).filter(|key| !read(&mut store, *key)).collect();
    assert_eq!(unread.len(), 1, "only the entry in the second segment: {unread:?}");
}
