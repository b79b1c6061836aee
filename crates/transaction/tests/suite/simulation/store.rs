//! The records of one simulated partition, every version of them, and the operations on them.

use std::collections::BTreeMap;

use bytes::{BufMut, Bytes, BytesMut};
use zerohop_transaction::{Access, EvaluatedPart, ItemBody, Reason, Refusal, StageId, TransactionItem};
use zerohop_wire::ids::Timestamp;

/// The value of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CellValue {
    /// A list with appended values.
    List(Vec<u64>),
    /// A number, which operations add to or set.
    Number(i64),
}

/// The operation of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CellOp {
    Lookup,
    Append(u64),
    Add(i64),
    Set(i64),
}

/// Cells with this bit are lists, the others numbers.
pub const LIST: u64 = 1 << 59;

impl CellOp {
    pub fn encode(self) -> Bytes {
        let (number, value) = match self {
            CellOp::Lookup => (0, 0),
            CellOp::Append(value) => (1, value),
            CellOp::Add(value) => (2, value as u64),
            CellOp::Set(value) => (3, value as u64),
        };
        let mut out = BytesMut::new();
        out.put_u8(number);
        out.put_u64_le(value);
        out.freeze()
    }

    pub fn decode(bytes: &[u8]) -> CellOp {
        let value = u64::from_le_bytes(bytes[1..9].try_into().unwrap());
        match bytes[0] {
            0 => CellOp::Lookup,
            1 => CellOp::Append(value),
            2 => CellOp::Add(value as i64),
            _ => CellOp::Set(value as i64),
        }
    }

    pub fn item(self, cell: u64, seen: Option<Timestamp>) -> TransactionItem {
        let access = match self {
            CellOp::Lookup => Access::Read,
            CellOp::Add(_) => Access::Transform(1),
            CellOp::Append(_) | CellOp::Set(_) => Access::Write,
        };
        TransactionItem { lock_key: cell, access, seen, body: ItemBody::Inline(self.encode()) }
    }
}

/// The value of a record that was never written.
fn nothing(cell: u64) -> CellValue {
    if cell & LIST != 0 { CellValue::List(Vec::new()) } else { CellValue::Number(0) }
}

/// All versions of all records as of a commit index, including entries that only the primary has
/// appended.
#[derive(Clone, Debug, Default)]
pub struct VersionStore {
    cells: BTreeMap<u64, BTreeMap<Timestamp, CellValue>>,
    pub staged: BTreeMap<StageId, Bytes>,
    /// A violation of the order of versions.
    pub wrong: Option<String>,
}

impl VersionStore {
    pub fn newest(&self, cell: u64) -> (Timestamp, CellValue) {
        self.below(cell, Timestamp::MAX)
    }

    /// The value at a time.
    pub fn below(&self, cell: u64, at: Timestamp) -> (Timestamp, CellValue) {
        let versions = self.cells.get(&cell).and_then(|versions| versions.range(..=at).next_back());
        versions.map_or_else(|| (Timestamp::ZERO, nothing(cell)), |(at, value)| (*at, value.clone()))
    }

    pub fn change(&mut self, cell: u64, op: CellOp, at: Timestamp) {
        let (newest, value) = self.newest(cell);
        let is_wrong = match op {
            CellOp::Add(_) => at < newest,
            _ => at <= newest,
        };
        if is_wrong {
            self.wrong = Some(format!("version {at} of {cell:x} comes after {newest}: {op:?}"));
        }
        let value = match (value, op) {
            (CellValue::List(mut list), CellOp::Append(value)) => {
                list.push(value);
                CellValue::List(list)
            }
            (CellValue::Number(number), CellOp::Add(value)) => CellValue::Number(number + value),
            (_, CellOp::Set(value)) => CellValue::Number(value),
            (value, op) => panic!("{op:?} of {value:?}"),
        };
        self.cells.entry(cell).or_default().insert(at.max(newest), value);
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
            match CellOp::decode(bytes) {
                CellOp::Lookup => result.push(self.newest(item.lock_key).1),
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
            let cell = u64::from_le_bytes(change[..8].try_into().unwrap());
            if !owns(cell) {
                continue;
            }
            // One transaction may append to a list twice.
            self.change_within(cell, CellOp::decode(&change[8..]), at);
        }
    }

    fn change_within(&mut self, cell: u64, op: CellOp, at: Timestamp) {
        match op {
            CellOp::Append(value) if self.newest(cell).0 == at && self.newest(cell).1 != nothing(cell) => {
                let Some(CellValue::List(list)) = self.cells.get_mut(&cell).and_then(|one| one.get_mut(&at))
                else {
                    return;
                };
                list.push(value);
            }
            op => self.change(cell, op, at),
        }
    }

    pub fn all(&self) -> impl Iterator<Item = (u64, &CellValue)> {
        self.cells.iter().filter_map(|(cell, versions)| Some((*cell, versions.last_key_value()?.1)))
    }
}

pub fn encode_values(values: &[CellValue]) -> Bytes {
    let mut out = BytesMut::new();
    for value in values {
        match value {
            CellValue::List(list) => {
                out.put_u64_le(list.len() as u64);
                list.iter().for_each(|value| out.put_u64_le(*value));
            }
            CellValue::Number(number) => {
                out.put_u64_le(u64::MAX);
                out.put_i64_le(*number);
            }
        }
    }
    out.freeze()
}

pub fn decode_values(bytes: &[u8]) -> Vec<CellValue> {
    let words: Vec<u64> = bytes.chunks(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect();
    let (mut values, mut at) = (Vec::new(), 0);
    while at < words.len() {
        if words[at] == u64::MAX {
            values.push(CellValue::Number(words[at + 1] as i64));
            at += 2;
        } else {
            let end = at + 1 + words[at] as usize;
            values.push(CellValue::List(words[at + 1..end].to_vec()));
            at = end;
        }
    }
    values
}
