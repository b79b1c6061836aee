//! The items of a transaction, grouped by the partition that owns them.

use std::collections::BTreeSet;

use bytes::Bytes;
use zerohop_wire::ids::{KeyspaceId, Timestamp};
use zerohop_wire::messages::{Condition, RecordOperation, RecordWrite};

use crate::id::{Durability, RoutingKey, StageId, TransactionId};
use crate::limits::{INLINE_BYTES_MAX, ITEMS_MAX, PARTICIPANTS_MAX, STAGED_ITEM_US, TRANSACTION_US_MAX};
use crate::reason::Reason;

/// The effect of an item on the record that it names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Access {
    /// Reads only.
    Read,
    /// May change it, in a way that depends on its contents, or returns something.
    Write,
    /// Changes it by a transform of this kind that returns nothing: transforms of one kind commute.
    Transform(u8),
}

impl Access {
    /// The access of an operation on a record; clients and participants must compute the same.
    #[must_use]
    pub fn of(operation: &RecordOperation<'_>) -> Access {
        match operation {
            RecordOperation::Read(_) => Access::Read,
            RecordOperation::Write(RecordWrite { condition: Condition::Always, change, .. }) => {
                change.commutes().map_or(Access::Write, Access::Transform)
            }
            RecordOperation::Write(_) => Access::Write,
        }
    }
}

/// The bytes of an operation, opaque here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ItemBody {
    /// Sent inline.
    Inline(Bytes),
    /// Staged at the partition.
    Staged(StageId),
}

/// One operation on a record, a chunk, or a number in one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransactionItem {
    /// The hash under which it is locked. Two records with the same hash only wait for each other needlessly.
    pub lock_key: u64,
    /// Its access.
    pub access: Access,
    /// The version that the client has read, which must still be the newest; [`Timestamp::ZERO`]: the client found no
    /// record.
    pub seen: Option<Timestamp>,
    /// The operation, for [`crate::PartitionHost::evaluate`].
    pub body: ItemBody,
}

/// The items of one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Items {
    /// Sent inline.
    Inline(Vec<TransactionItem>),
    /// Their encoding ([`crate::codec`]) was staged at the partition.
    Staged(StageId),
}

/// The part of a transaction for one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransactionPart {
    /// The partition.
    pub routing_key: RoutingKey,
    /// The durability of its keyspace.
    pub durability: Durability,
    /// The items.
    pub items: Items,
}

impl TransactionPart {
    /// Its position in the global order of all partitions, in which chains go and whose last one decides. The most durable
    /// come last: a part is undone if its decision is lost, so that no part depends on a log that is less durable than its
    /// own.
    #[must_use]
    pub fn order(&self) -> (Durability, KeyspaceId, u64) {
        (self.durability, self.routing_key.keyspace, self.routing_key.point)
    }

    /// An upper bound of its encoded length, and only a little above it.
    pub(crate) fn estimated_bytes(&self) -> usize {
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
    /// Its id.
    pub id: TransactionId,
    /// Its parts, in the order of [`TransactionPart::order`]; the last is the coordinator's.
    pub parts: Vec<TransactionPart>,
}

impl TransactionRequest {
    /// The highest durability of its partitions.
    #[must_use]
    pub fn durability(&self) -> Durability {
        self.parts.iter().map(|part| part.durability).max().unwrap_or_default()
    }

    /// Time limit for its decision, in microseconds.
    #[must_use]
    pub fn limit_us(&self) -> u64 {
        let staged = |part: &TransactionPart| match &part.items {
            Items::Inline(items) => {
                items.iter().filter(|item| matches!(item.body, ItemBody::Staged(_))).count()
            }
            // The items of a staged list are not known here.
            Items::Staged(_) => ITEMS_MAX / PARTICIPANTS_MAX,
        };
        let staged: usize = self.parts.iter().map(staged).sum();
        TRANSACTION_US_MAX + staged.min(ITEMS_MAX) as u64 * STAGED_ITEM_US
    }

    /// Checks order and limits. Errors: `Malformed`, `TooLong`.
    pub fn check(&self) -> Result<(), Reason> {
        let Some(own) = self.parts.last() else { return Err(Reason::Malformed) };
        let is_ordered = self.parts.windows(2).all(|pair| pair[0].order() < pair[1].order());
        if !is_ordered || own.routing_key != self.id.coordinator {
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
    use zerohop_wire::messages::{
        NumberType, Operator, Query, RecordRead, Remove, ReturnedNumber, Transform, WriteChange,
    };

    use super::*;

    #[test]
    fn only_unconditional_transforms_without_result_share_intents() {
        let add = Transform {
            operator: Operator::Add,
            number: NumberType::I64,
            operand: 1,
            offset: 0,
            returns: ReturnedNumber::Nothing,
        };
        let access = |condition, change| {
            Access::of(&RecordOperation::Write(RecordWrite { key: b"k", condition, change }))
        };
        assert_eq!(access(Condition::Always, WriteChange::Transform(add)), Access::Transform(1));
        assert_eq!(access(Condition::IfPresent, WriteChange::Transform(add)), Access::Write);
        let tells = Transform { returns: ReturnedNumber::Old, ..add };
        assert_eq!(access(Condition::Always, WriteChange::Transform(tells)), Access::Write);
        assert_eq!(access(Condition::Always, WriteChange::Remove(Remove)), Access::Write);
        let read = RecordOperation::Read(RecordRead { key: b"k", query: Query::Lookup });
        assert_eq!(Access::of(&read), Access::Read);
    }
}
