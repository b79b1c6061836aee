//! The records of one simulated partition, every version of them, and the operations on them.

use std::collections::BTreeMap;

use bytes::{BufMut, Bytes, BytesMut};
use zerohop_transaction::{Access, EvaluatedPart, ItemBody, Reason, Refusal, StageId, TransactionItem};
use zerohop_wire::ids::Timestamp;

/// The value of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordValue {
    /// A list with appended values.
    List(Vec<u64>),
    /// A number, which operations add to or set.
    Number(i64),
}

/// The operation of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordOp {
    Lookup,
    Append(u64),
    Add(i64),
    Set(i64),
}

/// Lock keys with this bit are lists, the others numbers.
pub const LIST: u64 = 1 << 59;

impl RecordOp {
    pub fn encode(self) -> Bytes {
        let (number, value) = match self {
            RecordOp::Lookup => (0, 0),
            RecordOp::Append(value) => (1, value),
            RecordOp::Add(value) => (2, value as u64),
            RecordOp::Set(value) => (3, value as u64),
        };
        let mut out = BytesMut::new();
        out.put_u8(number);
        out.put_u64_le(value);
        out.freeze()
    }

    pub fn decode(bytes: &[u8]) -> RecordOp {
        let value = u64::from_le_bytes(bytes[1..9].try_into().unwrap());
        match bytes[0] {
            0 => RecordOp::Lookup,
            1 => RecordOp::Append(value),
            2 => RecordOp::Add(value as i64),
            _ => RecordOp::Set(value as i64),
        }
    }

    pub fn item(self, lock_key: u64, seen: Option<Timestamp>) -> TransactionItem {
        let access = match self {
            RecordOp::Lookup => Access::Read,
            RecordOp::Add(_) => Access::Transform(1),
            RecordOp::Append(_) | RecordOp::Set(_) => Access::Write,
        };
        TransactionItem { lock_key, access, seen, body: ItemBody::Inline(self.encode()) }
    }
}

/// The value of a record that was never written.
fn nothing(lock_key: u64) -> RecordValue {
    if lock_key & LIST != 0 { RecordValue::List(Vec::new()) } else { RecordValue::Number(0) }
}

/// All versions of all records as of a commit index, including entries that only the primary has
/// appended.
#[derive(Clone, Debug, Default)]
pub struct VersionStore {
    values: BTreeMap<u64, BTreeMap<Timestamp, RecordValue>>,
    pub staged: BTreeMap<StageId, Bytes>,
    /// A violation of the order of versions.
    pub wrong: Option<String>,
}

impl VersionStore {
    pub fn newest(&self, lock_key: u64) -> (Timestamp, RecordValue) {
        self.below(lock_key, Timestamp::MAX)
    }

    /// The value at a time.
    pub fn below(&self, lock_key: u64, at: Timestamp) -> (Timestamp, RecordValue) {
        let versions = self.values.get(&lock_key).and_then(|versions| versions.range(..=at).next_back());
        versions.map_or_else(|| (Timestamp::ZERO, nothing(lock_key)), |(at, value)| (*at, value.clone()))
    }

    pub fn change(&mut self, lock_key: u64, op: RecordOp, at: Timestamp) {
        let (newest, value) = self.newest(lock_key);
        let is_wrong = match op {
            RecordOp::Add(_) => at < newest,
            _ => at <= newest,
        };
        if is_wrong {
            self.wrong = Some(format!("version {at} of {lock_key:x} comes after {newest}: {op:?}"));
        }
        let value = match (value, op) {
            (RecordValue::List(mut list), RecordOp::Append(value)) => {
                list.push(value);
                RecordValue::List(list)
            }
            (RecordValue::Number(number), RecordOp::Add(value)) => RecordValue::Number(number + value),
            (_, RecordOp::Set(value)) => RecordValue::Number(value),
            (value, op) => panic!("{op:?} of {value:?}"),
        };
        self.values.entry(lock_key).or_default().insert(at.max(newest), value);
    }

    pub fn evaluate(
        &self,
        items: &[TransactionItem],
        owns: impl Fn(u64) -> bool,
    ) -> Result<EvaluatedPart, Refusal> {
        let (mut effect, mut result) = (BytesMut::new(), Vec::new());
        for item in items {
            if !owns(item.lock_key) {
                return Err(Reason::Misplaced.into());
            }
            let bytes = match &item.body {
                ItemBody::Inline(bytes) => bytes,
                ItemBody::Staged(id) => &self.staged[id],
            };
            match RecordOp::decode(bytes) {
                RecordOp::Lookup => result.push(self.newest(item.lock_key).1),
                op => {
                    effect.put_u64_le(item.lock_key);
                    effect.put(op.encode());
                }
            }
        }
        Ok(EvaluatedPart { effect: effect.freeze(), result: encode_values(&result) })
    }

    pub fn install(&mut self, effect: &[u8], at: Timestamp, owns: impl Fn(u64) -> bool) {
        for change in effect.chunks(17) {
            let lock_key = u64::from_le_bytes(change[..8].try_into().unwrap());
            if !owns(lock_key) {
                continue;
            }
            // One transaction may append to a list twice.
            self.change_within(lock_key, RecordOp::decode(&change[8..]), at);
        }
    }

    fn change_within(&mut self, lock_key: u64, op: RecordOp, at: Timestamp) {
        match op {
            RecordOp::Append(value)
                if self.newest(lock_key).0 == at && self.newest(lock_key).1 != nothing(lock_key) =>
            {
                let Some(RecordValue::List(list)) =
                    self.values.get_mut(&lock_key).and_then(|one| one.get_mut(&at))
                else {
                    return;
                };
                list.push(value);
            }
            op => self.change(lock_key, op, at),
        }
    }

    pub fn all(&self) -> impl Iterator<Item = (u64, &RecordValue)> {
        self.values.iter().filter_map(|(lock_key, versions)| Some((*lock_key, versions.last_key_value()?.1)))
    }
}

pub fn encode_values(values: &[RecordValue]) -> Bytes {
    let mut out = BytesMut::new();
    for value in values {
        match value {
            RecordValue::List(list) => {
                out.put_u64_le(list.len() as u64);
                list.iter().for_each(|value| out.put_u64_le(*value));
            }
            RecordValue::Number(number) => {
                out.put_u64_le(u64::MAX);
                out.put_i64_le(*number);
            }
        }
    }
    out.freeze()
}

pub fn decode_values(bytes: &[u8]) -> Vec<RecordValue> {
    let words: Vec<u64> = bytes.chunks(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect();
    let (mut values, mut at) = (Vec::new(), 0);
    while at < words.len() {
        if words[at] == u64::MAX {
            values.push(RecordValue::Number(words[at + 1] as i64));
            at += 2;
        } else {
            let end = at + 1 + words[at] as usize;
            values.push(RecordValue::List(words[at + 1..end].to_vec()));
            at = end;
        }
    }
    values
}
