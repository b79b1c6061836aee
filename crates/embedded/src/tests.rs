//! Tests of the embedded store through its public interface.

use std::collections::BTreeMap;

use zerohop_disk::OpenDiskError;
use zerohop_placement::PartitionCount;

use super::settings::SETTINGS_FILE;
use super::*;

fn options() -> StoreOptions {
    StoreOptions {
        instances: Some(3),
        partitions: Some(PartitionCount::new(16).unwrap()),
        ..StoreOptions::default()
    }
}

fn open(root: &Path) -> EmbeddedStore {
    EmbeddedStore::open_with(root, &options()).unwrap()
}

#[test]
fn store_can_be_shared_between_threads() {
    fn shared<T: Send + Sync + Clone>() {}
    shared::<EmbeddedStore>();
}

#[test]
fn records_of_both_types_survive_reopen() {
    let root = tempfile::tempdir().unwrap();
    for durability in [Durability::DEFAULT, Durability::Sync] {
        let store = EmbeddedStore::open_with(root.path(), &StoreOptions { durability, ..options() }).unwrap();
        store.insert("a", "one").unwrap();
        store.extend("a", " more").unwrap();
        store.extend("new", [1, 2]).unwrap();
        store.insert("empty", "").unwrap();
        store.remove("list").unwrap();
        for n in 0..100u8 {
            store.append("list", [n; 3]).unwrap();
        }
        store.insert("gone", "x").unwrap();
        assert!(store.remove("gone").unwrap());
        assert!(!store.remove("gone").unwrap());
        if durability == Durability::Sync {
            store.close().unwrap();
        } else {
            drop(store);
        }
        let store = EmbeddedStore::open(root.path()).unwrap();
        assert_eq!(store.lookup("a").unwrap().unwrap(), b"one more");
        assert_eq!(store.lookup("empty").unwrap().unwrap(), b"");
        assert_eq!(store.lookup("gone").unwrap(), None);
        assert_eq!(store.values("gone").unwrap(), None);
        let values = store.values("list").unwrap().unwrap();
        assert_eq!(values, (0..100u8).map(|n| vec![n; 3]).collect::<Vec<_>>());
        assert_eq!(store.values("a"), Err(StoreError::WrongType { is_list: false }));
        assert_eq!(store.lookup("list"), Err(StoreError::WrongType { is_list: true }));
        assert_eq!(store.recovery().damage, 0);
        assert_eq!(store.damage().unwrap(), []);
        store.remove("new").unwrap();
    }
}

#[test]
fn walk_finds_all_records_written_by_many_threads() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    let records =
        |thread: u32| (0..3000u32).map(move |n| (format!("{thread}/{n}"), n.to_le_bytes().repeat(10)));
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let store = store.clone();
            scope.spawn(move || assert_eq!(store.insert_many(records(thread)).unwrap(), 3000));
        }
    });
    let mut expected: BTreeMap<Vec<u8>, Vec<u8>> =
        (0..4).flat_map(records).map(|(key, value)| (key.into_bytes(), value)).collect();
    assert_eq!(store.stats().unwrap().records, 12_000);
    assert_eq!((store.stats().unwrap().partitions, store.stats().unwrap().instances), (16, 3));
    for key in store.keys() {
        let key = key.unwrap();
        let value = store.lookup(&key).unwrap();
        assert_eq!(value, expected.remove(&key));
    }
    assert_eq!(expected.len(), 0);
}

#[test]
fn too_long_value_or_key_is_refused_without_effect() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    store.insert("k", vec![7; VALUE_BYTES_MAX]).unwrap();
    let error = store.insert("k", vec![8; VALUE_BYTES_MAX + 1]).unwrap_err();
    assert_eq!(error, StoreError::ValueTooLong { bytes: VALUE_BYTES_MAX + 1 });
    assert!(store.lookup("k").unwrap().unwrap() == vec![7; VALUE_BYTES_MAX]);
    store.append("list", vec![7; VALUE_BYTES_MAX]).unwrap();
    assert_eq!(store.values("list").unwrap().unwrap()[0].len(), VALUE_BYTES_MAX);
    for key in [Vec::new(), vec![0; (64 << 10) + 1]] {
        assert!(matches!(store.insert(key, "x"), Err(StoreError::Engine(_))));
    }
}

#[test]
fn refusal_of_another_type_names_the_calls_of_the_type_that_is_there() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    store.insert("bytes", "x").unwrap();
    store.append("list", "x").unwrap();
    let to_bytes = store.append("bytes", "y").unwrap_err().to_string();
    assert!(to_bytes.contains("`lookup`") && to_bytes.contains("`extend`"), "{to_bytes}");
    let to_list = store.extend("list", "y").unwrap_err().to_string();
    assert!(to_list.contains("`values`") && to_list.contains("`append`"), "{to_list}");
}

#[test]
fn a_second_opening_is_refused_and_names_the_folder() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    let error = EmbeddedStore::open(root.path()).unwrap_err();
    assert_eq!(error, StoreError::Folder(OpenDiskError::InUse { root: root.path().to_owned() }));
    assert!(error.to_string().contains(&root.path().display().to_string()));
    assert!(error.to_string().contains("another store of this process"), "{error}");
    store.close().unwrap();
    EmbeddedStore::open(root.path()).unwrap();
}

#[test]
fn the_numbers_of_the_first_opening_stay() {
    let root = tempfile::tempdir().unwrap();
    drop(open(root.path()));
    let store = EmbeddedStore::open(root.path()).unwrap();
    assert_eq!(store.stats().unwrap().instances, 3);
    drop(store);
    for other in [
        StoreOptions { instances: Some(2), ..StoreOptions::default() },
        StoreOptions { partitions: Some(PartitionCount::DEFAULT), ..StoreOptions::default() },
    ] {
        let error = EmbeddedStore::open_with(root.path(), &other).unwrap_err();
        assert!(matches!(error, StoreError::Settings { .. }), "{error}");
        assert!(error.to_string().contains("permanently"), "{error}");
    }
}

#[test]
fn folder_with_foreign_files_is_refused_unchanged() {
    let root = tempfile::tempdir().unwrap();
    std::fs::create_dir(root.path().join("Photos")).unwrap();
    let error = EmbeddedStore::open(root.path()).unwrap_err();
    assert!(error.to_string().contains("Photos"), "{error}");
    assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 1);
}

#[test]
#[expect(clippy::disallowed_methods, reason = "plants a file that the store did not write")]
fn a_store_of_another_format_is_refused() {
    let root = tempfile::tempdir().unwrap();
    std::fs::write(root.path().join(SETTINGS_FILE), "zerohop embedded store, format 9\n").unwrap();
    let error = EmbeddedStore::open(root.path()).unwrap_err();
    assert!(error.to_string().contains("use the zerohop that wrote it"), "{error}");
}

#[test]
#[expect(clippy::disallowed_methods, reason = "plants a file that the store did not write")]
fn interrupted_first_open_is_restarted() {
    let root = tempfile::tempdir().unwrap();
    std::fs::write(root.path().join("store.tmp"), "zerohop emb").unwrap();
    std::fs::write(root.path().join("lock"), "").unwrap();
    open(root.path()).insert("k", "v").unwrap();
}

#[test]
fn closed_store_returns_error_and_close_is_idempotent() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    let (other, third) = (store.clone(), store.clone());
    store.close().unwrap();
    assert_eq!(other.lookup("k"), Err(StoreError::Closed));
    assert_eq!(other.insert_many([("k", "v")]), Err(StoreError::Closed));
    assert_eq!(other.keys().collect::<Result<Vec<_>, _>>(), Err(StoreError::Closed));
    other.close().unwrap();
    drop(third);
}

#[test]
fn worker_failure_reaches_only_its_callers() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    let key_of = |instance| {
        let keys = (0..).map(|n| format!("key {n}"));
        let owner = |key: &String| {
            store.shared.settings.instance_of(store.shared.settings.partition_of(key.as_bytes()))
        };
        keys.into_iter().find(|key| owner(key) == instance).unwrap()
    };
    store.insert(key_of(0), "kept").unwrap();
    let fault = store.shared.call(0, StoreOperation::Panic, ANSWER_WAIT).unwrap_err();
    for error in [fault, store.insert(key_of(0), "v").unwrap_err(), store.stats().unwrap_err()] {
        assert!(error.to_string().contains("planted by a test"), "{error}");
    }
    store.insert(key_of(1), "v").unwrap();
    let (zero, one) = (key_of(0), key_of(1));
    assert!(store.close().is_err(), "closing tells of the fault");
    let store = open(root.path());
    assert_eq!(store.lookup(one).unwrap().unwrap(), b"v");
    // With `interval` durability a fault may lose the writes of the last moment.
    store.lookup(zero).unwrap();
}

#[test]
fn a_sync_makes_an_interval_store_durable() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    store.insert("k", "v").unwrap();
    store.sync().unwrap();
    // A worker that fails writes nothing more.
    for instance in 0..3 {
        assert!(store.shared.call(instance, StoreOperation::Panic, ANSWER_WAIT).is_err());
    }
    assert!(store.close().is_err());
    assert_eq!(open(root.path()).lookup("k").unwrap().unwrap(), b"v");
}

/// A store that the program before this one has written: part of it in checkpoints, the rest in logs and journals behind them.
#[test]
fn store_of_an_engine_without_a_shard_opens_and_is_written_on() {
    let root = tempfile::tempdir().unwrap();
    copy_folder(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/v1"), root.path());
    for opening in 0..3u8 {
        let store = EmbeddedStore::open(root.path()).unwrap();
        assert_eq!((store.recovery().damage, store.damage().unwrap()), (0, Vec::new()));
        if opening == 0 {
            assert!(store.recovery().from_checkpoint > 0 && store.recovery().from_journal > 0);
        }
        for n in 0..20u8 {
            assert_eq!(store.lookup(format!("bytes-{n}")).unwrap().unwrap(), vec![n + 1; 1 + usize::from(n)]);
        }
        let mut extended: Vec<u8> = (0..2).flat_map(|round| (0..5).flat_map(move |n| [round, n])).collect();
        extended.extend(0..opening);
        assert_eq!(store.lookup("extended").unwrap().unwrap(), extended);
        let list = (0..10u8).map(|n| vec![n; 3]).chain((0..opening).map(|n| vec![n]));
        assert_eq!(store.values("list").unwrap().unwrap(), list.collect::<Vec<_>>());
        let mut keys: Vec<Vec<u8>> = store.keys().collect::<Result<_, _>>().unwrap();
        keys.sort_unstable();
        let mut expected: Vec<String> = (0..20).map(|n| format!("bytes-{n}")).collect();
        expected.extend(["extended", "list", "round-0", "round-1"].map(str::to_owned));
        expected.sort_unstable();
        assert_eq!(keys, expected.into_iter().map(String::into_bytes).collect::<Vec<_>>());
        assert_eq!(store.stats().unwrap().records, 24);
        store.extend("extended", [opening]).unwrap();
        store.append("list", [opening]).unwrap();
        // Once with a checkpoint, once without.
        match opening {
            0 => {
                store.sync().unwrap();
                for instance in 0..2 {
                    assert!(store.shared.call(instance, StoreOperation::Panic, ANSWER_WAIT).is_err());
                }
                assert!(store.close().is_err());
            }
            _ => store.close().unwrap(),
        }
    }
}

fn copy_folder(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            std::fs::create_dir(&to).unwrap();
            copy_folder(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), to).unwrap();
        }
    }
}

#[test]
fn ranges_of_an_ordered_store_are_in_order_also_after_reopen() {
    let root = tempfile::tempdir().unwrap();
    let ordered = StoreOptions { ordered: true, ..StoreOptions::default() };
    let store = EmbeddedStore::open_with(root.path(), &ordered).unwrap();
    let key = |n: u32| format!("{n:05}").into_bytes();
    // More than a page, from the last to the first.
    store.insert_many((0..10_000).rev().map(|n| (key(n), n.to_string()))).unwrap();
    store.append("list", "x").unwrap();
    let long = vec![7; 3 << 20];
    store.insert("long", long.clone()).unwrap();
    let check = |store: &EmbeddedStore| {
        let keys = |range: StoreRange| range.map(|record| record.unwrap().key).collect::<Vec<_>>();
        let mut all: Vec<Vec<u8>> = (0..10_000).map(key).collect();
        all.extend([b"list".to_vec(), b"long".to_vec()]);
        assert_eq!(keys(store.scan_range::<&str>(..)), all);
        assert_eq!(keys(store.scan_range("00500".."09500")), all[500..9500]);
        assert_eq!(keys(store.scan_range("00500"..="09500").reverse()).last(), Some(&key(500)));
        assert_eq!(keys(store.scan_range("00500"..).prefix("005")), all[500..600]);
        assert_eq!(keys(store.scan_range(.."")), [[0; 0]; 0]);
        assert_eq!(keys(store.scan_range("list".."list")), [[0; 0]; 0]);
        all.reverse();
        assert_eq!(keys(store.scan_range::<&str>(..).reverse()), all);
        let records: Vec<StoreRecord> =
            store.scan_range("09999"..).values().map(|record| record.unwrap()).collect();
        let record = |key: &str, value: Option<&[u8]>, is_list| StoreRecord {
            key: key.into(),
            value: value.map(<[u8]>::to_vec),
            is_list,
        };
        let expected = [
            record("09999", Some(b"9999"), false),
            record("list", None, true),
            record("long", Some(&long), false),
        ];
        assert!(records == expected, "{:?}", records.iter().map(|record| &record.key).collect::<Vec<_>>());
    };
    check(&store);
    store.remove(key(5000)).unwrap();
    let mut from = store.scan_range("05000"..);
    assert_eq!(from.next().unwrap().unwrap().key, key(5001));
    let mut wrong = store.scan_range("b".."a");
    assert_eq!((wrong.next(), wrong.next()), (Some(Err(StoreError::Bounds)), None));
    drop((from, wrong));
    store.close().unwrap();
    // The settings of the store are enough.
    let store = EmbeddedStore::open(root.path()).unwrap();
    assert_eq!(store.scan_range("05000"..).next().unwrap().unwrap().key, key(5001));
    store.insert(key(5000), "5000").unwrap();
    check(&store);
}

#[test]
fn order_of_a_store_is_permanent() {
    let (hashed, divided) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let store = open(hashed.path());
    assert_eq!(store.scan_range::<&str>(..).next(), Some(Err(StoreError::NotOrdered)));
    store.close().unwrap();
    let ordered = StoreOptions { ordered: true, ..StoreOptions::default() };
    let refused = EmbeddedStore::open_with(hashed.path(), &ordered).unwrap_err();
    assert!(refused.to_string().contains("no order permanently"), "{refused}");
    let partitions = Some(PartitionCount::new(2).unwrap());
    let refused =
        EmbeddedStore::open_with(divided.path(), &StoreOptions { partitions, ..ordered }).unwrap_err();
    assert!(refused.to_string().contains("2 partitions of an ordered store"), "{refused}");
}
