//! Background maintenance under load, on a simulated disk: one call for each batch must be enough,
//! however large the batches.

use zerohop_engine::disk::Disk;
use zerohop_engine::disk::simulated::SimulatedDisk;
use zerohop_engine::{
    Durability, Engine, EngineError, EngineOptions, EntryKind, PartitionId, PartitionOptions,
};

#[test]
fn one_maintenance_step_per_batch_of_any_size_bounds_dead_space() {
    const KEYS: u64 = 20_000;
    for batch in [16, 256, 2048] {
        let options = EngineOptions {
            segment_bytes: 1 << 20,
            collect_every_ms: u64::MAX,
            dead_bytes_allowed: 0,
            disk_reserve_bytes: 0,
            ..EngineOptions::default()
        };
        let (mut engine, _) = Engine::open(SimulatedDisk::new(batch), options).expect("opens");
        // Only durable entries are rewritten, so that the last interval's writes come on top of any
        // bound.
        let durability = Durability::Interval { ms: 10 };
        let partition_options = PartitionOptions { durability, index_seed: 7 };
        let p = engine.partition(PartitionId(1), partition_options).expect("opens");
        let mut greatest: f64 = 0.0;
        for n in 0..KEYS * 20 {
            // Every key is overwritten repeatedly, so that writes produce only dead space.
            let key = (n % KEYS).wrapping_mul(0x9E37_79B9_7F4A_7C15).to_le_bytes();
            engine.write(p, EntryKind::Put, 0, n, &key, &[n as u8; 132]).expect("is accepted");
            if n.is_multiple_of(batch) {
                engine.maintain(n / 100).expect("is kept up");
                let log = engine.partition_stats(p).expect("is open").log;
                let live = log.bytes - log.dead_bytes - log.removal_bytes;
                if n > 2 * KEYS {
                    greatest = greatest.max(log.bytes as f64 / live as f64);
                }
            }
        }
        // Half dead space means twice the live bytes; the entries that die during a rewrite, and
        // its copy, come on top.
        assert!(greatest < 3.0, "batches of {batch}: the log grew to {greatest:.1} times what lives");
    }
}

/// Overwrites 32 partitions on a disk with slow syncs, with this many maintenance calls in a
/// second. Returns the largest ratio of the length of all logs to the live bytes.
fn greatest_over_live(dead_percent_bound: u64, calls_a_second: u64, capacity_bytes: u64) -> f64 {
    const KEYS: u64 = 16 << 10;
    const BATCH: u64 = 32;
    let disk = SimulatedDisk::new(3);
    disk.set_sync_polls_max(500);
    disk.set_capacity(capacity_bytes);
    let options = EngineOptions {
        dead_percent_bound,
        dead_bytes_allowed: 0,
        disk_reserve_bytes: 0,
        ..EngineOptions::default()
    };
    let (mut engine, _) = Engine::open(disk, options).expect("opens");
    let durability = Durability::Interval { ms: 10 };
    let partition_options = PartitionOptions { durability, index_seed: 7 };
    let open = |id| engine.partition(PartitionId(id), partition_options).expect("opens");
    let partitions: Vec<_> = (1..=32).map(open).collect();
    let mut greatest: f64 = 0.0;
    for n in 0..KEYS * 8 {
        let p = partitions[n as usize % partitions.len()];
        let key = (n % KEYS).to_le_bytes();
        engine.write(p, EntryKind::Put, 0, n, &key, &[n as u8; 1000]).expect("is accepted");
        if n.is_multiple_of(BATCH) {
            engine.maintain(n / BATCH * 1000 / calls_a_second).expect("is kept up");
        }
        if n.is_multiple_of(KEYS / 16) && n > 2 * KEYS {
            let logs = partitions.iter().map(|&p| engine.partition_stats(p).expect("is open").log);
            let (bytes, wasted) = logs.fold((0, 0), |(bytes, wasted), log| {
                (bytes + log.bytes, wasted + log.dead_bytes + log.removal_bytes)
            });
            greatest = greatest.max(bytes as f64 / (bytes - wasted) as f64);
        }
    }
    greatest
}

const SMALL_DISK_BYTES: u64 = 256 << 20;

#[test]
fn writers_wait_for_compaction_where_the_disk_is_slower_than_they_are() {
    // 60 % dead space means 2.5 times the live bytes; entries that are not durable yet or die
    // meanwhile come on top.
    let bounded = greatest_over_live(60, 31_250, SMALL_DISK_BYTES);
    assert!(bounded < 3.0, "the logs grew to {bounded:.1} times what lives");
    let unbounded = greatest_over_live(100, 31_250, SMALL_DISK_BYTES);
    assert!(unbounded > 4.0, "such a disk is no trial for the bound: {unbounded:.1}");
}

#[test]
fn writers_wait_less_for_compaction_on_large_disk() {
    for calls_a_second in [50, 5_000, 31_250] {
        let all = greatest_over_live(60, calls_a_second, SMALL_DISK_BYTES);
        let part = greatest_over_live(60, calls_a_second, 1 << 40);
        let none = greatest_over_live(100, calls_a_second, 1 << 40);
        assert!(
            all < 3.0 && all + 0.2 < part && part + 0.2 < none,
            "{all:.1}, {part:.1}, {none:.1} times what lives"
        );
    }
}

#[test]
fn memory_partition_stays_bounded_under_overwrites() {
    const KEYS: u64 = 4_000;
    let options = EngineOptions { segment_bytes: 1 << 20, ..EngineOptions::default() };
    let disk = SimulatedDisk::new(9);
    let (mut engine, _) = Engine::open(disk.clone(), options).expect("opens");
    let durability = Durability::Memory;
    let p = engine.partition(PartitionId(1), PartitionOptions { durability, index_seed: 7 }).expect("opens");
    let key_of = |n: u64| (n % KEYS).wrapping_mul(0x9E37_79B9_7F4A_7C15).to_le_bytes();
    let mut greatest = 0;
    for n in 0..KEYS * 100 {
        engine.write(p, EntryKind::Put, 0, n, &key_of(n), &[(n / KEYS) as u8; 132]).expect("is accepted");
        if n.is_multiple_of(32) {
            engine.maintain(n / 100).expect("is kept up");
        }
        greatest = greatest.max(engine.stats().resident_bytes);
    }
    let live = KEYS * (28 + 8 + 132);
    // Half dead space means twice the live bytes; the open segment, and a copy beside the original,
    // come on top.
    let bound = 2 * live + 3 * options.segment_bytes;
    assert!(greatest < bound, "{greatest} bytes in memory for {live} that live, above {bound}");
    for n in 0..KEYS {
        let whole = engine.lookup_assembled(p, &key_of(n)).expect("is read");
        assert_eq!(whole, Some(vec![99; 132]), "{n}");
    }
    assert_eq!(engine.durable_index(p).expect("is open"), 0, "nothing of it survives");
    let files = disk.clone().list("p-0000000000000001").expect("lists");
    assert_eq!(files, [], "it writes no file");
}

#[test]
fn logs_on_disk_yield_memory_to_memory_only_partition() {
    // Segments smaller than a block: each is a single, partial block.
    let options = EngineOptions {
        segment_bytes: 16 << 10,
        memory_bytes: 256 << 10,
        dead_percent_max: 100,
        ..EngineOptions::default()
    };
    let (mut engine, _) = Engine::open(SimulatedDisk::new(3), options).expect("opens");
    let partition = |engine: &mut Engine<SimulatedDisk>, id, durability| {
        engine.partition(PartitionId(id), PartitionOptions { durability, index_seed: id }).expect("opens")
    };
    let on_disk = partition(&mut engine, 1, Durability::Interval { ms: 10 });
    let in_memory = partition(&mut engine, 2, Durability::Memory);
    for n in 0..2_000u64 {
        engine.write(on_disk, EntryKind::Put, 0, n, &n.to_le_bytes(), &[7; 1000]).expect("is accepted");
        engine.maintain(n).expect("is kept up");
    }
    let resident_bytes = engine.stats().resident_bytes;
    assert!(resident_bytes <= options.memory_bytes + (64 << 10), "{resident_bytes} bytes in memory");
    engine.write(in_memory, EntryKind::Put, 0, 3_000, b"a", &[8; 1000]).expect("there is room");
}

#[test]
fn full_memory_accepts_removals_and_marks() {
    let options = EngineOptions { memory_bytes: 64 << 10, ..EngineOptions::default() };
    let (mut engine, _) = Engine::open(SimulatedDisk::new(4), options).expect("opens");
    let durability = Durability::Memory;
    let p = engine.partition(PartitionId(1), PartitionOptions { durability, index_seed: 7 }).expect("opens");
    let refused = (0..200u64).find_map(|n| {
        engine.write(p, EntryKind::Put, 0, n, &n.to_le_bytes(), &[7; 1000]).err().map(|error| (n, error))
    });
    let (at, error) = refused.expect("memory is full");
    assert!(matches!(error, EngineError::MemoryFull { .. }), "{error}");
    // Without its epoch marker a new primary answers no request, and so no record could be removed.
    engine.write(p, EntryKind::Mark, 0, at, b"", b"mark").expect("is accepted");
    engine.write(p, EntryKind::Remove, 0, at, &0u64.to_le_bytes(), b"").expect("is accepted");
}
