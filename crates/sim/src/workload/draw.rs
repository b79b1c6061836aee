//! Draws the next operation: few keys, so that clients conflict, and every operation on every kind
//! of record.
//!
//! A key's name says which operations it gets. `mix` keys get all; the others get only those that
//! leave their tokens or numbers in place, so that a lost or repeated write stays visible.

use std::collections::BTreeMap;

use zerohop_base::random::Random;
use zerohop_wire::ids::{KeyspaceId, Timestamp};
use zerohop_wire::messages::{Condition, Expiry, NumberType, Operator, Range, ReturnedNumber, Transform};

use super::operation::{RecordAction, RecordCall, WaitGoal};
use super::tokens::{FILLER, token};
use crate::streams::Draw;

/// Keys of each keyspace.
pub(crate) const KEYS: [&str; 9] =
    ["mix-0", "mix-1", "mix-2", "list-0", "list-1", "count-0", "text-0", "bits-0", "soon-0"];

/// Those of them that most calls use, in a run with hot keys.
const HOT: std::ops::Range<usize> = 2..4;

/// The version of a record, and its bytes if it had bytes.
type ReadRecord = (Timestamp, Option<Vec<u8>>);

/// The properties of a run's operations.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OperationMix {
    /// Whether some values are large.
    pub(crate) has_large_values: bool,
    /// Whether some records expire.
    pub(crate) expires: bool,
    /// Whether most calls use two records.
    pub(crate) is_hot: bool,
}

/// Draws operations.
#[derive(Debug)]
pub(crate) struct OperationDraws {
    random: Random,
    tokens: u64,
    has_large_values: bool,
    expires: bool,
    is_hot: bool,
    /// The last observed state of records, for conditions and comparisons.
    seen: BTreeMap<(KeyspaceId, Box<[u8]>), ReadRecord>,
}

impl OperationDraws {
    pub(crate) fn new(random: Random, taste: OperationMix) -> Self {
        let OperationMix { has_large_values, expires, is_hot } = taste;
        Self { random, tokens: 0, has_large_values, expires, is_hot, seen: BTreeMap::new() }
    }

    /// Stores an observed state of a record.
    pub(crate) fn saw(
        &mut self,
        keyspace: KeyspaceId,
        key: &[u8],
        version: Timestamp,
        bytes: Option<Vec<u8>>,
    ) {
        self.seen.insert((keyspace, key.into()), (version, bytes));
    }

    /// The next operation of a client on this keyspace.
    pub(crate) fn operation(&mut self, keyspace: KeyspaceId) -> RecordCall {
        let among = if self.is_hot && self.random.chance(4, 5) { &KEYS[HOT] } else { &KEYS[..] };
        let key = *self.random.pick(among);
        let (class, _) = key.split_once('-').unwrap_or((key, ""));
        let seen = self.seen.get(&(keyspace, key.as_bytes().into())).cloned().unwrap_or_default();
        let act = match class {
            "list" => self.on_list(seen.0),
            "count" => self.on_count(&seen),
            "text" => self.on_text(&seen),
            "bits" => self.on_bits(),
            "soon" => self.on_soon(),
            _ => self.on_mix(&seen),
        };
        let mut operation = RecordCall::new(key.as_bytes(), act);
        if operation.is_write() && class != "count" && self.random.chance(1, 6) {
            operation.condition = match self.random.below(4) {
                0 => Condition::IfAbsent,
                1 => Condition::IfPresent,
                _ => Condition::IfVersion(seen.0),
            };
        }
        operation
    }

    fn on_list(&mut self, version: Timestamp) -> RecordAction {
        match self.random.below(8) {
            0..=3 => {
                let count = if self.random.chance(1, 5) { self.random.between(2, 5) } else { 1 };
                RecordAction::Append { values: (0..count).map(|_| self.token()).collect() }
            }
            4 => RecordAction::LookupRange { range: self.range() },
            5 => RecordAction::Wait { until: WaitGoal::Changed(version) },
            // Bounds the length of lists.
            6 => RecordAction::Trim { keep: Range { start: -20, stop: i64::MAX } },
            _ => RecordAction::Lookup,
        }
    }

    fn on_count(&mut self, seen: &ReadRecord) -> RecordAction {
        match self.random.below(8) {
            // No two sums of a few of these are equal, so a sum identifies its terms.
            0..=4 => RecordAction::Increment { delta: self.random.between(1, 1 << 40) as i64 },
            5 => RecordAction::Wait { until: WaitGoal::Differs(seen.1.clone().unwrap_or_default()) },
            _ => RecordAction::Lookup,
        }
    }

    fn on_text(&mut self, seen: &ReadRecord) -> RecordAction {
        match self.random.below(8) {
            0..=3 => RecordAction::Extend { bytes: self.token() },
            4 => RecordAction::LookupRange { range: self.range() },
            // Starts again now and then, to bound the length.
            5 if seen.1.as_ref().is_some_and(|bytes| bytes.len() > 400) => {
                RecordAction::CompareSwap { expected: seen.1.clone(), new: Some(self.token()) }
            }
            _ => RecordAction::Lookup,
        }
    }

    fn on_bits(&mut self) -> RecordAction {
        match self.random.below(8) {
            6 | 7 => self.transform(),
            0..=2 => RecordAction::SetBit { offset: self.random.below(64), on: self.random.chance(1, 2) },
            3 => RecordAction::GetBit { offset: self.random.below(80) },
            4 => RecordAction::CountBits { range: self.range() },
            _ => RecordAction::Lookup,
        }
    }

    /// Transforms unsigned numbers only: other types differ just in arithmetic, which the
    /// partition's own tests cover.
    fn transform(&mut self) -> RecordAction {
        const OPERATORS: [Operator; 7] = [
            Operator::Add,
            Operator::Multiply,
            Operator::Min,
            Operator::Max,
            Operator::And,
            Operator::Or,
            Operator::Xor,
        ];
        let number = *self.random.pick(&[NumberType::U8, NumberType::U16, NumberType::U32, NumberType::U64]);
        let operator = *self.random.pick(&OPERATORS);
        let operand = self.random.next_u64() >> (64 - 8 * number.bytes());
        let returned =
            *self.random.pick(&[ReturnedNumber::Nothing, ReturnedNumber::Old, ReturnedNumber::New]);
        RecordAction::Transform(Transform {
            operator,
            number,
            operand,
            offset: self.random.below(6),
            returns: returned,
        })
    }

    fn on_soon(&mut self) -> RecordAction {
        let expiry = match self.random.below(5) {
            _ if !self.expires => Expiry::Never,
            0 => Expiry::Never,
            1 => Expiry::Unchanged,
            _ => Expiry::AfterMs(self.random.between(1, 800)),
        };
        match self.random.below(8) {
            0..=2 => RecordAction::Insert { value: self.token(), expiry },
            3 => RecordAction::Expire { expiry },
            4 => RecordAction::Inspect,
            5 => RecordAction::Wait { until: WaitGoal::Absent },
            6 => RecordAction::Extend { bytes: self.token() },
            _ => RecordAction::Lookup,
        }
    }

    fn on_mix(&mut self, seen: &ReadRecord) -> RecordAction {
        match self.random.below(20) {
            0..=4 => RecordAction::Insert { value: self.value(), expiry: Expiry::Never },
            5 => RecordAction::Remove,
            6 => RecordAction::Take,
            7 => RecordAction::Append { values: vec![self.token()] },
            8 => RecordAction::Extend { bytes: self.token() },
            9..=11 => {
                let new = if self.random.chance(1, 5) { None } else { Some(self.token()) };
                RecordAction::CompareSwap { expected: seen.1.clone(), new }
            }
            12 => RecordAction::Increment { delta: self.random.between(1, 1000) as i64 },
            13 => RecordAction::Trim { keep: self.range() },
            14 => RecordAction::Inspect,
            15 => {
                let bytes = seen.1.clone().unwrap_or_default();
                let until = match self.random.below(5) {
                    0 => WaitGoal::Absent,
                    1 => WaitGoal::Present,
                    2 => WaitGoal::Equals(bytes),
                    3 => WaitGoal::Differs(bytes),
                    _ => WaitGoal::Changed(seen.0),
                };
                RecordAction::Wait { until }
            }
            16 => RecordAction::LookupRange { range: self.range() },
            _ => RecordAction::Lookup,
        }
    }

    fn range(&mut self) -> Range {
        let start = self.random.between(0, 12) as i64 - 6;
        let stop = if self.random.chance(1, 2) { i64::MAX } else { self.random.between(0, 30) as i64 - 6 };
        Range { start, stop }
    }

    /// A token that no other write has.
    pub(crate) fn token(&mut self) -> Vec<u8> {
        self.tokens += 1;
        token(self.tokens)
    }

    /// A token, now and then with filler behind it.
    fn value(&mut self) -> Vec<u8> {
        let mut value = self.token();
        let filler = match self.random.below(60) {
            _ if !self.has_large_values => 0,
            // Larger than what the journal itself stores.
            0 => 70 << 10,
            1..=3 => 17 << 10,
            4..=20 => 1500,
            _ => 0,
        };
        value.resize(value.len() + filler, FILLER);
        value
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use zerohop_wire::FrameKind;
    use zerohop_wire::messages::{Query, RecordOperation, WriteChange};

    use super::*;

    /// Procedures send these; the workload of blobs has them.
    const OF_PROCEDURES: [FrameKind; 3] = [FrameKind::Confirm, FrameKind::ReadChunk, FrameKind::UpdateLock];

    #[test]
    fn operations_of_the_table_are_drawn() {
        let mix = OperationMix { has_large_values: false, expires: true, is_hot: false };
        let mut draws = OperationDraws::new(Random::new(0), mix);
        // Long enough for the draw that bounds the length of texts.
        for key in KEYS {
            draws.saw(KeyspaceId(1), key.as_bytes(), Timestamp(1), Some(vec![0; 500]));
        }
        let kind_of = |operation: &RecordOperation<'_>| match operation {
            RecordOperation::Read(read) => read.kind(),
            RecordOperation::Write(write) => write.kind(),
        };
        let drawn: BTreeSet<FrameKind> =
            (0..5_000).map(|_| draws.operation(KeyspaceId(1)).with_wire(kind_of)).collect();
        for row in Query::TABLE.iter().chain(WriteChange::TABLE) {
            assert!(
                drawn.contains(&row.kind) || OF_PROCEDURES.contains(&row.kind),
                "no client of the simulator calls `{}`",
                row.kind
            );
        }
    }
}
