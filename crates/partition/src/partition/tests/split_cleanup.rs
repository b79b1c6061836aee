//! The cleanup after a split: in short steps, and again from the start if its entries are lost.

use zerohop_wire::Failure;

use crate::PartitionEvent;
use crate::hash_range::HashRange;
use crate::limits::{SPLIT_CLEANUP_KEYS_MAX, SPLIT_CLEANUP_WALKED_MAX};
use crate::testing::{PartitionRig, insert, token};

const RECORDS: usize = 3_000;
// Several steps walk over keys of the partition alone.
const _: () = assert!(RECORDS > 2 * SPLIT_CLEANUP_WALKED_MAX);

fn key(n: usize) -> Vec<u8> {
    format!("{n:04}").into_bytes()
}

/// A child of a partition with records of both siblings; a region if `end` is given.
fn child(end: Option<&[u8]>) -> (PartitionRig, HashRange) {
    let mut rig = PartitionRig::synced(end.is_some());
    for n in 0..RECORDS {
        rig.write(token(n as u64), Default::default(), &key(n), insert(b"value"));
    }
    rig.flush();
    let range = HashRange::half(end);
    rig.partition.set_hash_range(range.clone());
    (rig, range)
}

/// The next step of the cleanup. Returns the number of new entries.
fn step(rig: &mut PartitionRig) -> u64 {
    let before = rig.partition.last_name().1;
    rig.now.ms += 10;
    rig.now.elapsed_ms += 10;
    rig.step(PartitionEvent::Tick);
    rig.partition.last_name().1 - before
}

/// Steps until all entries of the cleanup are in the log.
fn run(rig: &mut PartitionRig) {
    let mut steps = 0;
    while rig.partition.next_split_cleanup_ms().is_some() {
        step(rig);
        rig.flush();
        steps += 1;
        assert!(steps < RECORDS, "it ends");
    }
}

fn records(rig: &mut PartitionRig) -> usize {
    rig.engine.records(rig.partition.handle()).expect("is open") as usize
}

fn for_both(check: impl Fn(PartitionRig, HashRange)) {
    for end in [None, Some(&b"1500"[..])] {
        let (rig, range) = child(end);
        check(rig, range);
    }
}

#[test]
fn cleanup_removes_the_records_of_the_sibling_in_short_steps() {
    for_both(|mut rig, range| {
        let own = (0..RECORDS).filter(|n| range.owns(&key(*n))).count();
        assert!(own > RECORDS / 3 && own < RECORDS / 3 * 2);
        let mut steps = 0;
        while rig.partition.foreign().is_some() {
            let entries = step(&mut rig) as usize;
            assert!(entries <= SPLIT_CLEANUP_KEYS_MAX + 2, "{entries} removals in a step");
            rig.flush();
            steps += 1;
        }
        let fewest =
            if range.region().is_some() { (RECORDS - own) / SPLIT_CLEANUP_KEYS_MAX } else { RECORDS / 80 };
        assert!((fewest..fewest + 30).contains(&steps), "{steps} steps, {fewest} expected");
        assert_eq!(records(&mut rig), own);
    });
}

#[test]
fn cleanup_begins_again_when_its_removals_are_lost() {
    for_both(|mut rig, range| {
        let own = (0..RECORDS).filter(|n| range.owns(&key(*n))).count();
        // Everything is logged and nothing is committed.
        let committed = rig.partition.applied();
        for _ in 0..12 {
            step(&mut rig);
        }
        assert!(rig.partition.last_name().1 > committed + 300);
        rig.partition.step_down(&Failure::Unavailable { retry_after_ms: 1 }, &mut rig.out);
        rig.partition.truncate_after(&mut rig.engine, committed).expect("truncates");
        assert_eq!(records(&mut rig), RECORDS);
        run(&mut rig);
        assert!(rig.partition.foreign().is_none());
        assert_eq!(records(&mut rig), own);
    });
}
