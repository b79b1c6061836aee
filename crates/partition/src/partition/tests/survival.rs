//! The state after a crash: records, deadlines, outcomes, marks, and timestamps that rise above all earlier ones.

use zerohop_engine::disk::simulated::SimulatedDisk;
use zerohop_engine::disk::{Disk, OpenMode};
use zerohop_engine::{Durability, Engine, EngineOptions, EntryKind, PartitionId, PartitionOptions};
use zerohop_wire::Failure;
use zerohop_wire::ids::{PartitionEpoch, Timestamp};
use zerohop_wire::messages::{Expire, Expiry, Increment, Insert, Stamp, WriteChange};

use super::stamp;
use crate::state::PartitionState;
use crate::testing::{PartitionRig, append, insert, token};
use crate::{MemberOptions, Partition, PartitionEvent, PartitionOpenError};

/// Runs background maintenance until a started checkpoint is complete.
fn checkpoint(rig: &mut PartitionRig) {
    rig.partition.checkpoint(&mut rig.engine).expect("begins");
    for ms in 0..500 {
        rig.engine.maintain(ms).expect("goes on");
    }
}

fn counter(rig: &mut PartitionRig, request: u64, stamp: Stamp) -> Option<Result<i64, Failure<'static>>> {
    rig.write(token(request), stamp, b"n", WriteChange::Increment(Increment { delta: 1 }));
    rig.flush();
    rig.answer(token(request)).map(|answer| answer.counter())
}

#[test]
fn state_is_recovered_from_log_and_from_checkpoint() {
    for with_checkpoint in [false, true] {
        let mut rig = PartitionRig::new(Durability::Sync);
        assert_eq!(counter(&mut rig, 1, stamp(1, 1)), Some(Ok(1)));
        let expiry = Expiry::AfterMs(1_000);
        rig.write(token(2), stamp(2, 1), b"k", WriteChange::Insert(Insert { value: b"v", expiry }));
        rig.write(token(3), Stamp::default(), b"list", append(&[b"a"]));
        rig.write(token(4), Stamp::default(), b"list", WriteChange::Expire(Expire { expiry }));
        rig.flush();
        if with_checkpoint {
            checkpoint(&mut rig);
        }
        rig.write(token(5), stamp(3, 1), b"k", WriteChange::Expire(Expire { expiry: Expiry::AfterMs(500) }));
        assert_eq!(counter(&mut rig, 6, stamp(4, 1)), Some(Ok(2)));
        let before = rig.partition.state.clone();
        let mut rig = rig.crash(Durability::Sync);
        assert_eq!(rig.partition.state, before, "with checkpoint: {with_checkpoint}");
        assert_eq!(counter(&mut rig, 7, stamp(1, 1)), Some(Ok(1)));
        assert_eq!(counter(&mut rig, 8, stamp(4, 1)), Some(Ok(2)));
        assert_eq!(counter(&mut rig, 9, stamp(5, 1)), Some(Ok(3)));
        rig.now.ms += 500;
        rig.step(PartitionEvent::Tick);
        rig.flush();
        let deadlines = rig.partition.stats().deadlines;
        assert_eq!(deadlines, 1, "the shorter deadline has come");
    }
}

#[test]
fn checkpoint_waits_until_all_entries_are_committed() {
    let mut rig = PartitionRig::new(Durability::Sync);
    rig.write(token(1), stamp(1, 1), b"k", insert(b"v"));
    checkpoint(&mut rig);
    let handle = rig.partition.handle();
    assert_eq!(rig.engine.partition_stats(handle).map(|s| s.checkpoint_bytes), Ok(0));
    rig.flush();
    checkpoint(&mut rig);
    assert!(rig.engine.partition_stats(handle).is_ok_and(|s| s.checkpoint_bytes > 0));
}

#[test]
fn outcomes_survive_compaction() {
    let mut rig = PartitionRig::new(Durability::DEFAULT);
    let large = vec![1; 64 << 10];
    let mut sequence = 0;
    for _ in 0..4 {
        for _ in 0..600 {
            sequence += 1;
            rig.write(token(sequence), stamp(sequence, 1), b"k", insert(&large));
            rig.answer(token(sequence));
        }
        rig.engine.sync().expect("syncs");
        checkpoint(&mut rig);
        rig.engine.compact(rig.partition.handle()).expect("compacts");
    }
    let handle = rig.partition.handle();
    let bytes = rig.engine.partition_stats(handle).expect("is open").log.bytes;
    assert!(bytes < 2 * 600 * (64 << 10), "dead entries behind two checkpoints are gone: {bytes}");
    let before = rig.partition.state.clone();
    let rig = rig.crash(Durability::DEFAULT);
    assert_eq!(rig.partition.state, before);
}

#[test]
fn versions_increase_after_clock_went_back() {
    let mut rig = PartitionRig::new(Durability::Sync);
    rig.write(token(1), Stamp::default(), b"k", insert(b"v"));
    rig.flush();
    let before = rig.answer(token(1)).map(|a| a.version()).unwrap_or_default();
    rig.now.ms -= 10_000;
    let mut rig = rig.crash(Durability::Sync);
    rig.write(token(2), Stamp::default(), b"k", insert(b"w"));
    rig.flush();
    assert!(rig.answer(token(2)).is_some_and(|answer| answer.version() > before));
}

/// An embedded store of an earlier program had an engine without partitions above it, which started checkpoints itself.
#[test]
fn log_of_an_engine_without_partitions_opens_behind_its_checkpoint() {
    let disk = SimulatedDisk::new(1);
    let alone = EngineOptions { disk_reserve_bytes: 0, ..EngineOptions::default() };
    let (mut engine, _) = Engine::open(disk.clone(), alone).expect("opens");
    let own = PartitionOptions { durability: Durability::Sync, index_seed: 7 };
    let log = engine.partition(PartitionId(1), own).expect("opens");
    let newest = Timestamp::from_millis(3_000_000).0;
    engine.write(log, EntryKind::Put, 0, newest - 1, b"old", b"1").expect("is accepted");
    let disk_then = engine.close().expect("closes with a checkpoint");
    let (mut engine, _) = Engine::open(disk_then, alone).expect("opens");
    let log = engine.partition(PartitionId(1), own).expect("opens");
    engine.commit_all().expect("commits");
    engine.write(log, EntryKind::Put, 0, newest, b"new", b"2").expect("is accepted");
    engine.flush().expect("has room");
    drop(engine);
    disk.crash();
    let (mut engine, _) =
        Engine::open(disk, EngineOptions { starts_checkpoints: false, ..alone }).expect("opens");
    let options = MemberOptions {
        durability: Durability::Sync,
        index_seed: 7,
        is_ordered: false,
        epoch: PartitionEpoch(1),
    };
    let (partition, restored) = Partition::open(&mut engine, PartitionId(1), options).expect("opens");
    assert_eq!((restored.from_checkpoint, restored.from_log, restored.has_lost_state), (1, 1, false));
    assert_eq!((partition.applied(), partition.newest()), (2, Timestamp(newest)));
    for (key, value) in [(b"old", b"1"), (b"new", b"2")] {
        assert_eq!(engine.lookup_assembled(partition.handle(), key), Ok(Some(value.to_vec())));
    }
}

/// Otherwise no checkpoint would be made of it, and its dead space would stay.
#[test]
fn log_on_disk_that_is_opened_in_memory_still_reaches_the_disk() {
    let mut rig = PartitionRig::new(Durability::Sync);
    assert_eq!(counter(&mut rig, 1, stamp(1, 1)), Some(Ok(1)));
    let rig = rig.crash(Durability::Memory);
    assert!(rig.partition.reaches_disk());
}

#[test]
fn where_entries_are_missing_all_sessions_are_expired() {
    let disk = SimulatedDisk::new(1);
    let mut rig = PartitionRig::on(disk.clone(), Durability::Sync, crate::ClockSample::at_ms(1_000_000));
    assert_eq!(counter(&mut rig, 1, stamp(1, 1)), Some(Ok(1)));
    rig.engine.sync().expect("syncs");
    assert_eq!(counter(&mut rig, 2, stamp(2, 1)), Some(Ok(2)));
    rig.engine.sync().expect("syncs");
    drop(rig);
    // The value of the first write becomes corrupt; its outcome was beside it.
    let path = format!("p-{:016x}/{:016x}-{:08x}.seg", 1, 1, 0);
    let mut reader = disk.clone();
    let file = reader.open(&path, OpenMode::Existing).expect("is there");
    let mut bytes = vec![0; reader.bytes(file).expect("is open") as usize];
    reader.read_at(file, 0, &mut bytes).expect("reads");
    let session = super::SESSION.issued.0.to_le_bytes();
    let at = bytes.windows(8).position(|eight| eight == session).expect("stands in the first entry");
    disk.corrupt_at(&path, at as u64, 0xFF).expect("is there");
    let options =
        EngineOptions { disk_reserve_bytes: 0, starts_checkpoints: false, ..EngineOptions::default() };
    let (mut engine, report) = Engine::open(disk, options).expect("opens");
    assert!(report.damage().next().is_some());
    let options = MemberOptions {
        durability: Durability::Sync,
        index_seed: 7,
        is_ordered: false,
        epoch: PartitionEpoch(1),
    };
    let (partition, restored) = Partition::open(&mut engine, PartitionId(1), options).expect("opens");
    assert!(restored.has_lost_state);
    assert_eq!(partition.stats().sessions, 0);
    assert!(partition.state.sessions.session_mark() > Timestamp::from_millis(1_000_000));
}

#[test]
fn a_log_of_a_later_epoch_and_entries_of_a_later_program_are_refused() {
    let disk = SimulatedDisk::new(1);
    let (mut engine, _) = Engine::open(disk, EngineOptions::default()).expect("opens");
    let options = PartitionOptions::default();
    let handle = engine.partition(PartitionId(1), options).expect("opens");
    let meta = zerohop_engine::EntryMeta { kind: EntryKind::Put, flags: 0, epoch: 3, index: 1, timestamp: 1 };
    engine.append(handle, &meta, b"k", b"v").expect("is accepted");
    let open = |engine: &mut _, epoch| {
        let epoch = PartitionEpoch(epoch);
        let options =
            MemberOptions { durability: Durability::DEFAULT, index_seed: 0, is_ordered: false, epoch };
        Partition::open(engine, PartitionId(1), options).map(|(partition, _)| partition)
    };
    let refused = open(&mut engine, 2).err();
    assert_eq!(refused, Some(PartitionOpenError::Epoch { found: 3, given: PartitionEpoch(2) }));
    let partition = open(&mut engine, 4).expect("opens");
    assert_eq!(partition.epoch(), PartitionEpoch(4));
    engine.write(handle, EntryKind::Mark, 0, 2, b"", &[99]).expect("is accepted");
    assert_eq!(open(&mut engine, 4).err(), Some(PartitionOpenError::Entry { index: 2 }));
}

#[test]
fn entries_have_the_epoch_of_the_current_group() {
    let mut rig = PartitionRig::new(Durability::DEFAULT);
    rig.write(token(1), Stamp::default(), b"k", insert(b"v"));
    rig.engine.sync().expect("syncs");
    let PartitionRig { disk, engine, .. } = rig;
    drop(engine);
    for (epoch, durability) in [(5, Durability::DEFAULT), (7, Durability::Sync)] {
        let (mut engine, _) = Engine::open(disk.clone(), EngineOptions::default()).expect("opens");
        let options =
            MemberOptions { durability, index_seed: 7, is_ordered: false, epoch: PartitionEpoch(epoch) };
        let (mut partition, _) = Partition::open(&mut engine, PartitionId(1), options).expect("opens");
        let mut out = crate::testing::CollectedEffects::default();
        for n in 0..3u8 {
            let write = zerohop_wire::messages::RecordWrite {
                key: &[n],
                condition: Default::default(),
                change: insert(b"w"),
            };
            let message = zerohop_wire::Message::Write { stamp: Stamp::default(), write };
            let request = crate::RecordRequest {
                token: token(u64::from(n)),
                envelope: Default::default(),
                message: &message,
            };
            let now = crate::ClockSample::at_ms(2_000_000);
            partition
                .step(&mut engine, now.without_map(), PartitionEvent::Request(request), &mut out)
                .expect("goes on");
        }
        let last = engine.partition_stats(partition.handle()).expect("is open").last;
        assert_eq!(last.0, epoch as u32);
        engine.sync().expect("syncs");
    }
}

#[test]
fn checkpoint_payload_roundtrips() {
    let mut rig = PartitionRig::new(Durability::DEFAULT);
    for sequence in 1..50 {
        let expiry = Expiry::AfterMs(sequence);
        let change = WriteChange::Insert(Insert { value: b"v", expiry });
        rig.write(token(sequence), stamp(sequence, sequence.saturating_sub(5)), &[sequence as u8], change);
    }
    let state = &rig.partition.state;
    assert_eq!(PartitionState::decode(&state.encode()).as_ref(), Ok(state));
}
