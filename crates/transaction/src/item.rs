//! What a transaction asks for: items, grouped by the partition that holds them.

use std::collections::BTreeSet;

use bytes::Bytes;
use zerohop_wire::ids::{KeyspaceId, Timestamp};
use zerohop_wire::messages::{
    BlobChange, Brings, Condition, RecordOperation, RecordWrite, Transform, WriteChange,
};

use crate::id::{Durability, RoutingKey, StageId, TransactionId};
use crate::limits::{INLINE_BYTES_MAX, ITEMS_MAX, PARTICIPANTS_MAX, STAGED_ITEM_US, TRANSACTION_US_MAX};
use crate::reason::Reason;

/// The kind of transform that makes a blob larger; the others are the numbers of operators.
const GROWS: u8 = 64;

/// What an item does to what it names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Access {
    /// Looks only.
    Read,
    /// May change it, in a way that depends on what it is, or returns something.
    Write,
    /// Changes it by a transform of this kind that returns nothing: those of one kind commute.
    Transform(u8),
}

impl Access {
    /// How an operation on a record is locked; clients and participants agree on it.
    #[must_use]
    pub fn of(operation: &RecordOperation<'_>) -> Access {
        match operation {
            RecordOperation::Read(_) => Access::Read,
            RecordOperation::Write(RecordWrite { condition: Condition::Always, change, .. }) => {
                match change {
                    WriteChange::Transform(Transform { brings: Brings::Nothing, operator, .. }) => {
                        Access::Transform(operator.number())
                    }
                    // A maximum too: whoever writes past the end of a blob, or checks its generation, is in nobody's way.
                    WriteChange::Blob(BlobChange::Grow { .. }) => Access::Transform(GROWS),
                    _ => Access::Write,
                }
            }
            RecordOperation::Write(_) => Access::Write,
        }
    }
}

/// The bytes of an operation, opaque here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ItemBody {
    /// As they travel.
    Inline(Bytes),
    /// As they were staged at the partition.
    Staged(StageId),
}

/// One operation on one cell: a record, a chunk, or a number in one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransactionItem {
    /// The hash under which it is locked. Two cells of one hash only wait for each other needlessly.
    pub cell: u64,
    /// How it is locked.
    pub access: Access,
    /// The version that the client has read, which must still be the newest; [`Timestamp::ZERO`]: it saw nothing there.
    pub seen: Option<Timestamp>,
    /// What to do, for [`crate::PartitionHost::evaluate`].
    pub body: ItemBody,
}

/// The items of one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Items {
    /// As they travel.
    Inline(Vec<TransactionItem>),
    /// Their encoding ([`crate::codec`]) was staged at the partition.
    Staged(StageId),
}

/// What a transaction asks of one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransactionPart {
    /// Which.
    pub place: RoutingKey,
    /// How durable its keyspace is.
    pub durability: Durability,
    /// What.
    pub items: Items,
}

impl TransactionPart {
    /// Where it stands in the one order of all partitions, in which chains go and whose last one decides. The most durable
    /// come last: a part is undone if what decided it is lost, so that nothing hangs on what is less durable than itself.
    #[must_use]
    pub fn order(&self) -> (Durability, KeyspaceId, u64) {
        (self.durability, self.place.keyspace, self.place.point)
    }

    /// Not less than it has as bytes, and little more.
    pub(crate) fn bytes_about(&self) -> usize {
        const PART_BYTES: usize = 18 + 24;
        const ITEM_BYTES: usize = 23 + 24;
        match &self.items {
            Items::Inline(items) => {
                PART_BYTES + items.iter().map(|item| ITEM_BYTES + inline_bytes(item)).sum::<usize>()
            }
            Items::Staged(_) => PART_BYTES,
        }
    }
}

/// A transaction as its client sends it to the coordinator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransactionRequest {
    /// Its name.
    pub id: TransactionId,
    /// Its parts, in the order of [`TransactionPart::order`]; the last is the coordinator's.
    pub parts: Vec<TransactionPart>,
}

impl TransactionRequest {
    /// The most that any of its partitions asks for.
    #[must_use]
    pub fn durability(&self) -> Durability {
        self.parts.iter().map(|part| part.durability).max().unwrap_or_default()
    }

    /// How long it may take until it is decided, in microseconds.
    #[must_use]
    pub fn limit_us(&self) -> u64 {
        let staged = |part: &TransactionPart| match &part.items {
            Items::Inline(items) => {
                items.iter().filter(|item| matches!(item.body, ItemBody::Staged(_))).count()
            }
            // What the list names is not known here.
            Items::Staged(_) => ITEMS_MAX / PARTICIPANTS_MAX,
        };
        let staged: usize = self.parts.iter().map(staged).sum();
        TRANSACTION_US_MAX + staged.min(ITEMS_MAX) as u64 * STAGED_ITEM_US
    }

    /// Checks order and limits. Errors: `Malformed`, `TooLong`.
    pub fn check(&self) -> Result<(), Reason> {
        let Some(own) = self.parts.last() else { return Err(Reason::Malformed) };
        let is_ordered = self.parts.windows(2).all(|pair| pair[0].order() < pair[1].order());
        if !is_ordered || own.place != self.id.coordinator {
            return Err(Reason::Malformed);
        }
        let (items, bytes) = self.parts.iter().fold((0, 0), |sum, part| match &part.items {
            Items::Inline(items) => {
                (sum.0 + items.len(), sum.1 + items.iter().map(inline_bytes).sum::<usize>())
            }
            Items::Staged(_) => sum,
        });
        let fits = self.parts.len() <= PARTICIPANTS_MAX && items <= ITEMS_MAX && bytes <= INLINE_BYTES_MAX;
        if fits { Ok(()) } else { Err(Reason::TooLong) }
    }
}

fn inline_bytes(item: &TransactionItem) -> usize {
    match &item.body {
        ItemBody::Inline(bytes) => bytes.len(),
        ItemBody::Staged(_) => 0,
    }
}

/// The staged pieces that these items refer to.
pub(crate) fn staged_in(items: &[TransactionItem]) -> BTreeSet<StageId> {
    let staged = items.iter().filter_map(|item| match &item.body {
        ItemBody::Staged(id) => Some(*id),
        ItemBody::Inline(_) => None,
    });
    staged.collect()
}

#[cfg(test)]
mod tests {
    use zerohop_wire::messages::{NumberType, Operator, Query, RecordRead};

    use super::*;

    #[test]
    fn only_transforms_that_bring_nothing_and_depend_on_nothing_stand_side_by_side() {
        let add = Transform {
            operator: Operator::Add,
            number: NumberType::I64,
            operand: 1,
            offset: 0,
            brings: Brings::Nothing,
        };
        let access = |condition, change| {
            Access::of(&RecordOperation::Write(RecordWrite { key: b"k", condition, change }))
        };
        assert_eq!(access(Condition::Always, WriteChange::Transform(add)), Access::Transform(1));
        assert_eq!(access(Condition::IfPresent, WriteChange::Transform(add)), Access::Write);
        let tells = Transform { brings: Brings::Old, ..add };
        assert_eq!(access(Condition::Always, WriteChange::Transform(tells)), Access::Write);
        assert_eq!(access(Condition::Always, WriteChange::Remove), Access::Write);
        let read = RecordOperation::Read(RecordRead { key: b"k", query: Query::Lookup });
        assert_eq!(Access::of(&read), Access::Read);
    }
}
