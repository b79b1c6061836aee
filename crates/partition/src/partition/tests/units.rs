//! Atomic batches: what a program sees, that all or none of its changes happen, also after a crash, and when it is answered.

use std::collections::BTreeMap;

use zerohop_base::random::Random;
use zerohop_engine::Durability;
use zerohop_engine::disk::Disk;
use zerohop_wire::Failure;
use zerohop_wire::messages::{Expiry, Query, RecordRead, RecordType, Wait, WaitUntil};

use crate::testing::{PartitionRig, insert, token};
use crate::{PartitionEvent, Program, ProgramResult, Unit};

/// A record of the model: its value or values, and its deadline.
#[derive(Clone, Debug, PartialEq, Eq)]
struct UnitValue {
    list: Option<Vec<Vec<u8>>>,
    bytes: Vec<u8>,
    deadline_ms: Option<u64>,
}

type UnitModel = BTreeMap<Vec<u8>, UnitValue>;

#[derive(Clone, Debug)]
enum UnitOp {
    Put(Vec<u8>, Vec<u8>, Expiry),
    Extend(Vec<u8>, Vec<u8>),
    Append(Vec<u8>, Vec<Vec<u8>>),
    Trim(Vec<u8>, std::ops::Range<u64>),
    Remove(Vec<u8>),
    Deadline(Vec<u8>, Option<u64>),
    Look(Vec<u8>),
}

/// Runs its operations, compares the results with the model, and ends as configured.
struct Script<'s> {
    operations: &'s [UnitOp],
    model: UnitModel,
    ends: Ends,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ends {
    Well,
    Undone,
    Failing,
}

impl Program for Script<'_> {
    fn run<D: Disk>(
        &mut self,
        unit: &mut Unit<'_, D>,
        reply: &mut Vec<u8>,
    ) -> Result<bool, Failure<'static>> {
        let now_ms = unit.now_ms();
        self.model.retain(|_, value| value.deadline_ms.is_none_or(|deadline| deadline > now_ms));
        for op in self.operations {
            self.perform(unit, op, now_ms)?;
        }
        reply.extend_from_slice(b"done");
        match self.ends {
            Ends::Well => Ok(true),
            Ends::Undone => Ok(false),
            Ends::Failing => Err(Failure::Overflow),
        }
    }
}

impl Script<'_> {
    fn perform<D: Disk>(
        &mut self,
        unit: &mut Unit<'_, D>,
        op: &UnitOp,
        now_ms: u64,
    ) -> Result<(), Failure<'static>> {
        let model = &mut self.model;
        match op {
            UnitOp::Put(key, bytes, expiry) => {
                unit.put(key, bytes, *expiry)?;
                let deadline_ms = match expiry {
                    Expiry::Unchanged => model.get(key).and_then(|value| value.deadline_ms),
                    Expiry::AfterMs(ms) => Some(now_ms + ms),
                    _ => None,
                };
                model.insert(key.clone(), UnitValue { list: None, bytes: bytes.clone(), deadline_ms });
            }
            UnitOp::Extend(key, bytes) => match model.get_mut(key) {
                Some(UnitValue { list: Some(_), .. }) => {
                    let wrong = Err(Failure::WrongType { found: RecordType::List });
                    assert_eq!(unit.extend(key, bytes), wrong);
                }
                Some(value) => {
                    unit.extend(key, bytes)?;
                    value.bytes.extend_from_slice(bytes);
                }
                None => {
                    unit.extend(key, bytes)?;
                    let value = UnitValue { list: None, bytes: bytes.clone(), deadline_ms: None };
                    model.insert(key.clone(), value);
                }
            },
            UnitOp::Append(key, values) => {
                let fresh = || UnitValue { list: Some(Vec::new()), bytes: Vec::new(), deadline_ms: None };
                let appended = unit.append(key, values.iter().map(|value| &value[..]));
                match &mut model.entry(key.clone()).or_insert_with(fresh).list {
                    Some(list) => {
                        appended?;
                        list.extend(values.iter().cloned());
                    }
                    None => assert_eq!(appended, Err(Failure::WrongType { found: RecordType::Bytes })),
                }
            }
            UnitOp::Trim(key, keep) => {
                let Some(UnitValue { list: Some(list), .. }) = model.get_mut(key) else { return Ok(()) };
                let end = keep.end.min(list.len() as u64);
                let keep = keep.start.min(end)..end;
                unit.trim(key, keep.clone())?;
                *list = list[keep.start as usize..keep.end as usize].to_vec();
                if list.is_empty() {
                    model.remove(key);
                }
            }
            UnitOp::Remove(key) => assert_eq!(unit.remove(key)?, model.remove(key).is_some()),
            UnitOp::Deadline(key, after_ms) => {
                let deadline_ms = after_ms.map(|ms| now_ms + ms);
                unit.set_deadline(key, deadline_ms)?;
                if let Some(value) = model.get_mut(key) {
                    value.deadline_ms = deadline_ms;
                }
            }
            UnitOp::Look(key) => assert_eq!(read_record(unit, key)?, model.get(key).cloned(), "{key:?}"),
        }
        Ok(())
    }
}

fn read_record<D: Disk>(unit: &mut Unit<'_, D>, key: &[u8]) -> Result<Option<UnitValue>, Failure<'static>> {
    let Some(found) = unit.inspect(key)? else { return Ok(None) };
    let (mut bytes, mut list) = (Vec::new(), None);
    match found.record {
        RecordType::List => {
            let values = list.insert(Vec::new());
            unit.values(key, 0..u64::MAX, &mut |value| {
                values.push(value.to_vec());
                true
            })?;
        }
        RecordType::Chunk => unreachable!("none is written here"),
        RecordType::Bytes => {
            unit.read(key, 0..u64::MAX, &mut bytes)?;
            let mut whole = Vec::new();
            unit.lookup(key, &mut |bytes| whole = bytes.to_vec())?;
            assert_eq!(whole, bytes);
        }
    }
    let length = list.as_ref().map_or(bytes.len(), Vec::len);
    assert_eq!(found.length, length as u64);
    Ok(Some(UnitValue { list, bytes, deadline_ms: found.deadline_ms }))
}

fn random_op(random: &mut Random) -> UnitOp {
    let key = vec![b'k', random.below(5) as u8];
    let bytes = |random: &mut Random| vec![b'v'; 1 + random.below(60) as usize];
    match random.below(14) {
        0..=2 => {
            let expiry = [Expiry::Never, Expiry::Unchanged, Expiry::AfterMs(1 + random.below(30))];
            UnitOp::Put(key, bytes(random), expiry[random.below(3) as usize])
        }
        3 => UnitOp::Extend(key, bytes(random)),
        4..=6 => UnitOp::Append(key, (0..1 + random.below(4)).map(|_| bytes(random)).collect()),
        7 => {
            let start = random.below(3);
            UnitOp::Trim(key, start..start + random.below(5))
        }
        8..=9 => UnitOp::Remove(key),
        10 => UnitOp::Deadline(key, (random.below(3) > 0).then(|| 1 + random.below(30))),
        _ => UnitOp::Look(key),
    }
}

fn run(
    rig: &mut PartitionRig,
    number: u64,
    program: &mut Script<'_>,
) -> Result<ProgramResult, Failure<'static>> {
    let mut reply = b"before ".to_vec();
    let ran = rig.partition.run(&mut rig.engine, rig.now, token(number), (program, &mut reply), &mut rig.out);
    let appended: &[u8] = if ran == Ok(ProgramResult::Now) { b"before done" } else { b"before " };
    assert_eq!(reply, appended);
    ran
}

/// The contents of all keys, compared by a program of its own.
fn check(rig: &mut PartitionRig, number: u64, model: &UnitModel) -> bool {
    struct ReadAll(UnitModel);
    impl Program for ReadAll {
        fn run<D: Disk>(
            &mut self,
            unit: &mut Unit<'_, D>,
            _reply: &mut Vec<u8>,
        ) -> Result<bool, Failure<'static>> {
            for key in (0..5u8).map(|n| vec![b'k', n]) {
                let found = read_record(unit, &key)?;
                found.and_then(|value| self.0.insert(key, value));
            }
            Ok(true)
        }
    }
    let mut all = ReadAll(UnitModel::new());
    let ran =
        rig.partition.run(&mut rig.engine, rig.now, token(number), (&mut all, &mut Vec::new()), &mut rig.out);
    if ran.expect("runs") == ProgramResult::Later {
        // The program has removed expired records.
        rig.flush();
        rig.out.replies.remove(&token(number));
    }
    let now_ms = rig.now.ms;
    let mut living = model.clone();
    living.retain(|_, value| value.deadline_ms.is_none_or(|deadline| deadline > now_ms));
    all.0 == living
}

fn run_seed(seed: u64) {
    let mut random = Random::new(seed);
    let durability = [Durability::Sync, Durability::Interval { ms: 20 }, Durability::Memory];
    let durability = durability[random.below(3) as usize];
    let mut rig = PartitionRig::new(durability);
    // The states of the records after each atomic batch, from the last one that is known to be durable.
    let mut states = vec![UnitModel::new()];
    let (mut number, mut due) = (0, Vec::new());
    for _ in 0..150 {
        number += 1;
        rig.now.ms += random.below(4);
        let operations: Vec<UnitOp> =
            (0..[1, 1, 2, 8][random.below(4) as usize]).map(|_| random_op(&mut random)).collect();
        let ends = [Ends::Well, Ends::Well, Ends::Well, Ends::Undone, Ends::Failing];
        let ends = ends[random.below(5) as usize];
        let model = states.last().cloned().unwrap_or_default();
        let mut script = Script { operations: &operations, model, ends };
        let ran = run(&mut rig, number, &mut script);
        match ends {
            Ends::Failing => assert_eq!(ran, Err(Failure::Overflow)),
            _ => assert!(ran.is_ok(), "{ran:?}"),
        }
        if ends == Ends::Well {
            states.push(script.model);
        }
        if ran == Ok(ProgramResult::Later) {
            assert_eq!(durability, Durability::Sync);
            due.push(number);
        }
        if random.chance(1, 4) {
            rig.flush();
            for number in due.drain(..) {
                assert_eq!(rig.out.replies.remove(&token(number)).as_deref(), Some(&b"done"[..]));
            }
            if durability == Durability::Sync {
                states.drain(..states.len() - 1);
            }
        }
        assert!(rig.out.replies.is_empty(), "nothing is answered before it is durable");
        if random.chance(1, 8) {
            rig.step(PartitionEvent::Tick);
        }
        if random.chance(1, 12) && durability != Durability::Memory {
            rig = rig.crash(durability);
            due.clear();
            let found = states.iter().rposition(|model| check(&mut rig, number + 1_000, model));
            let found = found.unwrap_or_else(|| panic!("seed {seed}: a part of a unit came back"));
            let model = states.swap_remove(found);
            states = vec![model];
            rig.flush();
            rig.out.replies.clear();
        }
    }
    number += 1;
    assert!(check(&mut rig, number, states.last().expect("one is kept")), "seed {seed}");
}

#[test]
fn program_sees_own_changes_and_crash_keeps_batches_atomic() {
    (0..300).for_each(run_seed);
}

#[test]
fn wait_sees_a_batch_atomically() {
    for durability in [Durability::Sync, Durability::DEFAULT] {
        let mut rig = PartitionRig::new(durability);
        let wait = |until| zerohop_wire::Message::Read {
            seen: Default::default(),
            read: RecordRead { key: b"k0", query: Query::Wait(Wait { until }) },
        };
        rig.send(token(1), 1_000, &wait(WaitUntil::Equals(b"between")));
        rig.send(token(2), 1_000, &wait(WaitUntil::Equals(b"at the end")));
        let put = |bytes: &[u8]| UnitOp::Put(b"k0".to_vec(), bytes.to_vec(), Expiry::Never);
        let operations = [put(b"between"), put(b"at the end")];
        let mut script = Script { operations: &operations, model: UnitModel::new(), ends: Ends::Well };
        assert!(run(&mut rig, 3, &mut script).is_ok());
        rig.flush();
        assert!(rig.answer(token(1)).is_none());
        assert_eq!(rig.answer(token(2)).and_then(|answer| answer.bytes()), Some(b"at the end".to_vec()));
    }
}

#[test]
fn read_only_batch_waits_for_its_dependencies() {
    let mut rig = PartitionRig::new(Durability::Sync);
    rig.write(token(1), Default::default(), b"k0", insert(b"v"));
    let value = UnitValue { list: None, bytes: b"v".to_vec(), deadline_ms: None };
    let model = UnitModel::from([(b"k0".to_vec(), value)]);
    let operations = [UnitOp::Look(b"k0".to_vec())];
    let mut script = Script { operations: &operations, model: model.clone(), ends: Ends::Well };
    assert_eq!(run(&mut rig, 2, &mut script), Ok(ProgramResult::Later));
    let operations = [UnitOp::Look(b"k1".to_vec())];
    let mut other = Script { operations: &operations, model, ends: Ends::Well };
    assert_eq!(run(&mut rig, 3, &mut other), Ok(ProgramResult::Now));
    rig.flush();
    assert_eq!(rig.out.replies.remove(&token(2)).as_deref(), Some(&b"done"[..]));
}

#[test]
fn single_change_batch_is_one_plain_entry() {
    let mut rig = PartitionRig::new(Durability::DEFAULT);
    let operations = [UnitOp::Put(b"k0".to_vec(), b"v".to_vec(), Expiry::Never)];
    let mut script = Script { operations: &operations, model: UnitModel::new(), ends: Ends::Well };
    assert_eq!(run(&mut rig, 1, &mut script), Ok(ProgramResult::Now));
    assert_eq!(rig.partition.stats().last, 1);
    let entry = rig.engine.read_entry(rig.partition.handle(), 1).expect("is there");
    assert!(!entry.head.meta.is_joined());
}
