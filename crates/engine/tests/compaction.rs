//! What compaction must leave as it was.

use zerohop_engine::disk::simulated::SimulatedDisk;
use zerohop_engine::{
    Durability, Engine, EngineOptions, FLAG_LIST, Handle, Kind, PartitionId, PartitionOptions,
};

type Store = Engine<SimulatedDisk>;

fn open(disk: &SimulatedDisk) -> (Store, Handle) {
    let options = EngineOptions { segment_bytes: 4 << 10, disk_reserve_bytes: 0, ..EngineOptions::default() };
    let (mut engine, report) = Engine::open(disk.clone(), options).expect("opens");
    assert_eq!(report.damage().map(ToString::to_string).next(), None);
    engine.commit_all().expect("commits");
    let options = PartitionOptions { durability: Durability::DEFAULT, index_seed: 7 };
    let p = engine.partition(PartitionId(1), options).expect("opens");
    (engine, p)
}

fn write(engine: &mut Store, p: Handle, kind: Kind, flags: u8, key: &[u8], payload: &[u8]) -> u64 {
    engine.write(p, kind, flags, 1, key, payload).expect("is accepted")
}

/// A segment's worth of entries, of which all but the last are dead.
fn fill(engine: &mut Store, p: Handle) {
    for _ in 0..5 {
        write(engine, p, Kind::Put, 0, b"other", &[7; 1000]);
    }
}

/// Compaction ends after any of its runs, so that any one of the entries can be gone and the others still there.
#[test]
fn appends_of_changing_kinds_come_back_as_the_last_record() {
    for operations in 0..200 {
        let disk = SimulatedDisk::new(operations);
        let (mut engine, p) = open(&disk);
        write(&mut engine, p, Kind::Append, FLAG_LIST, b"k", b"\x01\0\0\0first");
        // The segment where the first stands has the least dead: it is rewritten last.
        write(&mut engine, p, Kind::Put, 0, b"alive", &[7; 3900]);
        fill(&mut engine, p);
        write(&mut engine, p, Kind::Append, 0, b"k", b"bytes");
        assert_eq!(engine.lookup_whole(p, b"k").expect("reads").as_deref(), Some(&b"bytes"[..]));
        fill(&mut engine, p);
        write(&mut engine, p, Kind::Append, FLAG_LIST, b"k", b"\x03\0\0\0second");
        fill(&mut engine, p);
        if operations % 2 == 0 {
            let to = engine.trim_point(p, b"k", 2).expect("reads").expect("some are left");
            write(&mut engine, p, Kind::Trim, FLAG_LIST, b"k", &to.encode());
        }
        fill(&mut engine, p);
        engine.sync().expect("syncs");
        disk.cut_power_after(operations);
        drop(engine.compact(p));
        drop(engine);
        disk.crash();
        let (mut engine, p) = open(&disk);
        let record = engine.inspect(p, b"k").expect("reads").expect("is there");
        assert_eq!((record.is_list, record.units), (true, 1 + 2 * (operations % 2)), "{operations}");
        assert_eq!(engine.lookup_whole(p, b"k").expect("reads").as_deref(), Some(&b"second"[..]));
    }
}
