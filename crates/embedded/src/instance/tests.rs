//! Tests of an instance on a simulated disk: crashes, flushes, a full disk, corrupt bytes, limits.

use zerohop_engine::disk::simulated::{DiskOperation, SimulatedDisk};
use zerohop_engine::{Cursor, Durability};
use zerohop_placement::{KeyOrder, PartitionCount};

use super::super::settings::StoreSettings;
use super::*;

fn settings(instances: u16) -> StoreSettings {
    StoreSettings { instances, partitions: PartitionCount::new(8).unwrap(), seed: 1, order: KeyOrder::Hashed }
}

/// The last of so many instances.
fn open_last_of(
    instances: u16,
    disk: &SimulatedDisk,
    durability: Durability,
) -> EmbeddedInstance<SimulatedDisk> {
    let options = EngineOptions { disk_reserve_bytes: 0, ..EngineOptions::default() };
    let map = Arc::new(settings(instances).map(durability).unwrap());
    let (mut instance, _) =
        EmbeddedInstance::open(disk.clone(), options, &map, instances - 1, 1_000_000).unwrap();
    instance.advance(1_000_000, 0);
    instance
}

fn open(disk: &SimulatedDisk, durability: Durability) -> EmbeddedInstance<SimulatedDisk> {
    open_last_of(1, disk, durability)
}

fn key(key: &str) -> StoreKey {
    StoreKey { partition: settings(1).partition_of(key.as_bytes()), key: key.into() }
}

fn record(name: &str, value: &[u8]) -> KeyValue {
    KeyValue { key: key(name), value: value.to_vec() }
}

fn insert(name: &str, value: &[u8]) -> StoreOperation {
    StoreOperation::Insert(record(name, value))
}

/// Executes operations as one batch.
fn batch(instance: &mut EmbeddedInstance<SimulatedDisk>, operations: &[StoreOperation]) -> Vec<StoreAnswer> {
    operations.iter().for_each(|operation| instance.begin(operation));
    instance.end_batch();
    let answers = operations.iter().enumerate();
    let answers = answers.map(|(slot, operation)| instance.answer(slot, operation)).collect();
    instance.clear_batch();
    answers
}

fn execute(instance: &mut EmbeddedInstance<SimulatedDisk>, operation: StoreOperation) -> StoreAnswer {
    batch(instance, &[operation]).remove(0)
}

fn lookup(instance: &mut EmbeddedInstance<SimulatedDisk>, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
    match execute(instance, StoreOperation::Lookup(key(name)))? {
        StoreOutcome::Found(found) => Ok(found),
        other => panic!("a value is expected, not {other:?}"),
    }
}

fn found(instance: &mut EmbeddedInstance<SimulatedDisk>, name: &str) -> Option<Vec<u8>> {
    lookup(instance, name).unwrap()
}

fn stats(instance: &mut EmbeddedInstance<SimulatedDisk>) -> StoreStats {
    match execute(instance, StoreOperation::Stats) {
        Ok(StoreOutcome::Stats(stats)) => stats,
        other => panic!("stats are expected, not {other:?}"),
    }
}

#[test]
fn flushed_records_survive_a_crash() {
    let disk = SimulatedDisk::new(1);
    let mut instance = open(&disk, Durability::Sync);
    execute(&mut instance, insert("a", b"flushed")).unwrap();
    instance.begin(&insert("b", b"not flushed"));
    drop(instance);
    disk.crash();
    let mut instance = open(&disk, Durability::Sync);
    assert_eq!(found(&mut instance, "a").unwrap(), b"flushed");
    assert_eq!(found(&mut instance, "b"), None);
}

/// Power fails after any number of operations of the disk, while many records are written in batches of all kinds.
#[test]
fn acknowledged_writes_survive_a_power_failure_at_any_time() {
    let mut failures = 0;
    for seed in 0..60 {
        let disk = SimulatedDisk::new(seed);
        let mut instance = open(&disk, Durability::Sync);
        let mut acknowledged = 0;
        disk.cut_power_after(seed * 3);
        for round in 0..40u8 {
            let name = |what: &str| format!("{what}-{round}");
            let operations = [
                insert(&name("kept"), &[round; 300]),
                insert(&name("gone"), b"x"),
                StoreOperation::Remove(key(&name("gone"))),
                StoreOperation::Append(record("list", &[round])),
            ];
            let answers = batch(&mut instance, &operations);
            if answers.iter().any(Result::is_err) {
                failures += 1;
                break;
            }
            acknowledged = round + 1;
            instance.advance(1_000_000 + u64::from(round) * 20, u64::from(round) * 20);
            instance.maintain();
        }
        drop(instance);
        disk.crash();
        let mut instance = open(&disk, Durability::Sync);
        for round in 0..acknowledged {
            assert_eq!(found(&mut instance, &format!("kept-{round}")), Some(vec![round; 300]), "seed {seed}");
            assert_eq!(found(&mut instance, &format!("gone-{round}")), None, "seed {seed}");
        }
        let list = match execute(&mut instance, StoreOperation::Values(key("list"))) {
            Ok(StoreOutcome::Values(list)) => list.unwrap_or_default(),
            other => panic!("values are expected, not {other:?}"),
        };
        // The values of the last, failed batch may be there.
        let expected: Vec<Vec<u8>> = (0..list.len() as u8).map(|round| vec![round]).collect();
        assert_eq!(list, expected, "seed {seed}");
        assert!([acknowledged, acknowledged + 1].contains(&(list.len() as u8)), "seed {seed}");
    }
    assert!(failures > 20, "the power failed in {failures} runs");
}

#[test]
fn operations_of_a_batch_share_one_flush_and_see_each_other() {
    let disk = SimulatedDisk::new(1);
    let mut instance = open(&disk, Durability::Sync);
    execute(&mut instance, insert("first", b"makes the files")).unwrap();
    let syncs =
        || [DiskOperation::Sync, DiskOperation::SyncBegin].map(|kind| disk.counts().of(kind)).iter().sum();
    let before: u64 = syncs();
    let many = (0..100).map(|n| record(&format!("many-{n}"), b"v")).collect();
    let operations = [
        insert("a", b"1"),
        StoreOperation::Extend(record("a", b"2")),
        StoreOperation::Lookup(key("a")),
        StoreOperation::InsertMany(many),
        StoreOperation::Append(record("list", b"1")),
        StoreOperation::Remove(key("a")),
        StoreOperation::Remove(key("a")),
    ];
    let answers = batch(&mut instance, &operations);
    let shown: Vec<String> = answers.into_iter().map(|answer| format!("{:?}", answer.unwrap())).collect();
    assert_eq!(shown[2], "Found(Some([49, 50]))");
    assert_eq!(shown[5..], ["Removed(true)", "Removed(false)"]);
    assert_eq!(syncs(), before + 1);
}

#[test]
fn append_to_wrong_type_or_beyond_limit_changes_nothing() {
    for durability in [Durability::DEFAULT, Durability::Sync] {
        let mut instance = open(&SimulatedDisk::new(1), durability);
        execute(&mut instance, insert("bytes", b"1")).unwrap();
        execute(&mut instance, StoreOperation::Append(record("list", b"1"))).unwrap();
        for _ in 0..2 {
            let append = execute(&mut instance, StoreOperation::Append(record("bytes", b"2")));
            assert_eq!(append.unwrap_err(), StoreError::WrongType { is_list: false });
            let extend = execute(&mut instance, StoreOperation::Extend(record("list", b"2")));
            assert_eq!(extend.unwrap_err(), StoreError::WrongType { is_list: true });
        }
        instance.sizes.remember(b"bytes", RECORD_BYTES_MAX);
        let error = execute(&mut instance, StoreOperation::Extend(record("bytes", b"2"))).unwrap_err();
        assert!(matches!(error, StoreError::RecordTooLong { .. }), "{error}");
        assert_eq!(found(&mut instance, "bytes").unwrap(), b"1");
    }
}

#[test]
fn bytes_record_grows_beyond_the_longest_value_and_is_read_in_any_batch() {
    for durability in [Durability::DEFAULT, Durability::Sync] {
        let mut instance = open(&SimulatedDisk::new(1), durability);
        let part = vec![7; 9 << 20];
        execute(&mut instance, insert("k", &part)).unwrap();
        let operations = [StoreOperation::Extend(record("k", &part)), StoreOperation::Lookup(key("k"))];
        match batch(&mut instance, &operations).remove(1) {
            Ok(StoreOutcome::Found(Some(bytes))) => assert_eq!(bytes.len(), 18 << 20),
            other => panic!("a value is expected, not {:?}", other.map(|found| found.bytes())),
        }
    }
}

#[test]
fn cached_record_size_equals_stored_size() {
    let mut instance = open(&SimulatedDisk::new(1), Durability::DEFAULT);
    for n in 0..5 {
        execute(&mut instance, StoreOperation::Extend(record("k", &[n; 100]))).unwrap();
        execute(&mut instance, StoreOperation::Append(record("list", &[n; 100]))).unwrap();
        for name in ["k", "list"] {
            let remembered = instance.sizes.get(name.as_bytes()).unwrap();
            instance.sizes.remove(name.as_bytes());
            assert_eq!(instance.record_bytes(&key(name)), Ok(remembered));
            instance.sizes.remember(name.as_bytes(), remembered);
        }
    }
    execute(&mut instance, StoreOperation::Remove(key("k"))).unwrap();
    execute(&mut instance, StoreOperation::Append(record("k", b"now a list"))).unwrap();
}

#[test]
fn list_of_many_pages_is_read_at_once() {
    for durability in [Durability::DEFAULT, Durability::Sync] {
        let mut instance = open(&SimulatedDisk::new(1), durability);
        let values: Vec<Vec<u8>> = (0..10_000u32).map(|n| vec![n as u8; (n % 700) as usize]).collect();
        let appends = values.iter().map(|value| StoreOperation::Append(record("list", value)));
        let operations: Vec<_> = appends.chain([StoreOperation::Values(key("list"))]).collect();
        match batch(&mut instance, &operations).pop() {
            Some(Ok(StoreOutcome::Values(Some(found)))) => assert!(found == values),
            other => panic!("values are expected, not {other:?}"),
        }
    }
}

#[test]
fn failed_background_sync_is_reported() {
    let disk = SimulatedDisk::new(1);
    let mut instance = open(&disk, Durability::DEFAULT);
    execute(&mut instance, insert("a", b"1")).unwrap();
    disk.fail_nth(DiskOperation::Append, 1);
    for elapsed_ms in [0, 1000, 2000, 3000] {
        instance.advance(1_000_000 + elapsed_ms, elapsed_ms);
        instance.maintain();
    }
    let stats = stats(&mut instance);
    assert_eq!(stats.background_errors.len(), 1, "{stats:?}");
}

#[test]
fn failed_flush_is_an_error_of_the_writes_that_it_covers() {
    let disk = SimulatedDisk::new(1);
    let mut instance = open(&disk, Durability::Sync);
    execute(&mut instance, insert("a", b"1")).unwrap();
    disk.fail_nth(DiskOperation::Sync, 1);
    let answers = batch(&mut instance, &[insert("b", b"2"), StoreOperation::Lookup(key("a"))]);
    assert!(matches!(answers[0], Err(StoreError::NotDurable(_))), "{answers:?}");
    assert!(answers[1].is_ok(), "{answers:?}");
    let error = execute(&mut instance, insert("c", b"3")).unwrap_err();
    assert!(matches!(error, StoreError::Engine(_) | StoreError::NotDurable(_)), "{error:?}");
}

#[test]
fn full_disk_refuses_writes_and_serves_reads_until_there_is_room() {
    let disk = SimulatedDisk::new(1);
    let mut instance = open(&disk, Durability::Sync);
    execute(&mut instance, insert("a", b"1")).unwrap();
    disk.set_capacity(1);
    let mut refused = None;
    for n in 0..2_000 {
        instance.advance(1_000_000 + n, n);
        if let Err(error) = execute(&mut instance, insert("b", &[2; 4096])) {
            refused = Some(error);
            break;
        }
        instance.maintain();
    }
    let full = refused.expect("the disk is full");
    let (StoreError::Engine(error) | StoreError::NotDurable(error)) = &full else { panic!("{full}") };
    assert!(matches!(error, EngineError::DiskFull { .. }), "{full:?}");
    assert_eq!(found(&mut instance, "a").unwrap(), b"1");
    disk.set_capacity(None);
    let mut at_ms = 2_000;
    while execute(&mut instance, insert("c", b"3")).is_err() {
        at_ms += 100;
        instance.advance(1_000_000 + at_ms, at_ms);
        instance.maintain();
        assert!(at_ms < 100_000, "there is room again");
    }
    assert_eq!(found(&mut instance, "c").unwrap(), b"3");
}

#[test]
fn corrupt_record_is_named_listed_and_can_be_removed() {
    let disk = SimulatedDisk::new(1);
    let mut instance = open(&disk, Durability::Sync);
    execute(&mut instance, insert("good", &[1; 100])).unwrap();
    execute(&mut instance, insert("bad", &[2; 9_000])).unwrap();
    execute(&mut instance, insert("behind", &[3; 100])).unwrap();
    instance.close().unwrap();
    let path = format!("p-{:016x}/0000000000000001-00000000.seg", key("bad").partition);
    disk.corrupt_at(&path, 5_000, 0xFF).unwrap();
    let mut instance = open(&disk, Durability::Sync);
    let error = lookup(&mut instance, "bad").unwrap_err();
    assert!(error.to_string().contains("0000000000000001-00000000.seg"), "{error}");
    let listed =
        execute(&mut instance, StoreOperation::Keys(WalkPosition { partition: 0, cursor: Cursor::START }));
    assert!(matches!(&listed, Ok(StoreOutcome::Keys { keys, .. }) if keys.len() == 3), "{listed:?}");
    let removed = execute(&mut instance, StoreOperation::Remove(key("bad")));
    assert!(matches!(removed, Ok(StoreOutcome::Removed(true))), "{removed:?}");
    assert_eq!(found(&mut instance, "bad"), None);
    assert_eq!(found(&mut instance, "behind").unwrap(), [3; 100]);
}

/// No durability that is asked for later removes what is on disk.
#[test]
fn stored_records_outlive_an_opening_in_memory() {
    let disk = SimulatedDisk::new(1);
    let mut instance = open(&disk, Durability::Sync);
    execute(&mut instance, insert("a", b"1")).unwrap();
    instance.close().unwrap();
    let mut instance = open(&disk, Durability::Memory);
    assert_eq!(found(&mut instance, "a").unwrap(), b"1");
    // Its log is on disk, and stays there.
    execute(&mut instance, StoreOperation::Extend(record("a", b"2"))).unwrap();
    instance.close().unwrap();
    let mut instance = open(&disk, Durability::Sync);
    assert_eq!(found(&mut instance, "a").unwrap(), b"12");
}

#[test]
fn writes_to_keys_of_blobs_are_refused() {
    let mut instance = open(&SimulatedDisk::new(1), Durability::DEFAULT);
    let key = b"\xFFzhb 0123456789".to_vec();
    let key = StoreKey { partition: settings(1).partition_of(&key), key };
    let reading = StoreOperation::Lookup(StoreKey { key: key.key.clone(), ..key });
    let error = execute(&mut instance, StoreOperation::Insert(KeyValue { key, value: Vec::new() }));
    assert!(matches!(error, Err(StoreError::Engine(EngineError::Limit { .. }))), "{error:?}");
    // Such a key may be in the folder of an earlier program.
    let read = execute(&mut instance, reading);
    assert!(matches!(read, Ok(StoreOutcome::Found(None))), "{read:?}");
}

#[test]
fn a_partition_of_another_instance_is_refused() {
    let mut instance = open_last_of(2, &SimulatedDisk::new(1), Durability::DEFAULT);
    assert_eq!(instance.partitions, 4..8);
    for partition in [0, 3, 8, u32::MAX] {
        let key = StoreKey { partition, key: b"k".to_vec() };
        let error = execute(&mut instance, StoreOperation::Lookup(key)).unwrap_err();
        assert_eq!(error, StoreError::Engine(EngineError::UnknownPartition));
    }
}
