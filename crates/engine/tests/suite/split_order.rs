//! Splits of a partition that keeps the order of its keys: the children have it too, and no key is read for it.

use std::collections::BTreeSet;
use std::ops::Bound;

use zerohop_engine::disk::simulated::{DiskOperation, SimulatedDisk};
use zerohop_engine::{
    Durability, Engine, EngineOptions, EntryKind, Handle, KeyRange, PartitionId, PartitionOptions,
};

use crate::full_disk::{INTERVAL, key, options, partition};
use crate::support::TestEngine as Store;

const CHILDREN: [PartitionId; 2] = [PartitionId(2), PartitionId(3)];

fn keys_of(engine: &mut Store, p: Handle) -> BTreeSet<Vec<u8>> {
    let all = KeyRange { from: Bound::Unbounded, to: Bound::Unbounded, is_reverse: false };
    let found = engine.key_order(p).expect("is open").keys(all, usize::MAX, None).expect("is kept");
    assert!(!found.has_more && found.keys.is_sorted());
    found.keys.into_iter().collect()
}

#[test]
fn children_have_the_order_of_their_parent_without_reading_its_keys() {
    for durability in [Durability::Memory, INTERVAL, Durability::Sync] {
        let disk = SimulatedDisk::new(1);
        // Most records that reach the disk are on it only.
        let memory_bytes = if durability == Durability::Memory { 1 << 20 } else { options(0).memory_bytes };
        let options = EngineOptions { memory_bytes, ..options(0) };
        let (mut engine, _) = Engine::open(disk.clone(), options).expect("opens");
        let p = partition(&mut engine, durability);
        engine.key_order(p).expect("is open").keep().expect("is empty");
        let write = |engine: &mut Store, p, kind, n| {
            engine.write(p, kind, 0, 1_000, &key(n), b"value").expect("there is room");
            engine.flush().expect("there is room");
        };
        (0..800).for_each(|n| write(&mut engine, p, EntryKind::Put, n));
        (0..100).for_each(|n| write(&mut engine, p, EntryKind::Remove, 7 * n));
        let expected = keys_of(&mut engine, p);
        assert_eq!(expected.len(), 700);
        engine.split_partition(PartitionId(1), &CHILDREN, None).expect("splits");
        let reads = disk.counts().of(DiskOperation::ReadAt);
        let children = CHILDREN.map(|child| {
            let child =
                engine.partition(child, PartitionOptions { durability, index_seed: 7 }).expect("opens");
            engine.key_order(child).expect("is open").keep().expect("is kept");
            assert_eq!(keys_of(&mut engine, child), expected, "{durability:?}");
            child
        });
        assert_eq!(disk.counts().of(DiskOperation::ReadAt), reads, "{durability:?}");
        // Each goes on by itself.
        write(&mut engine, children[0], EntryKind::Put, 0);
        write(&mut engine, children[1], EntryKind::Remove, 1);
        let of = children.map(|child| keys_of(&mut engine, child));
        assert_eq!(of[0].difference(&expected).collect::<Vec<_>>(), [&key(0)]);
        assert_eq!(expected.difference(&of[1]).collect::<Vec<_>>(), [&key(1)]);
        assert_eq!((of[0].len(), of[1].len()), (701, 699));
    }
}
