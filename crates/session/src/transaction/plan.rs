//! The plan of a transaction: its partitions in their order, and the data to stage before it starts.

use crate::invalid_transaction::InvalidTransaction;
use std::collections::BTreeMap;

use bytes::Bytes;
use zerohop_placement::{ClusterMap, Durability as KeyspaceDurability};
use zerohop_transaction::codec::{encode_items, encode_parts};
use zerohop_transaction::limits::{
    EFFECT_BYTES_MAX, INLINE_BYTES_MAX, PARTICIPANTS_MAX, STAGED_PART_BYTES_MAX,
};
use zerohop_transaction::{
    Durability, ItemBody, Items, RoutingKey, StageId, TransactionItem, TransactionPart,
};
use zerohop_wire::ids::KeyspaceId;

use super::item::CompositeItem;

/// From this length on, an operation is staged separately: otherwise the transaction would carry it from partition to partition.
const STAGE_BYTES_MIN: usize = 64 << 10;

/// Maximum size of the operations of one part that are not staged separately, in bytes. What the partition logs of them, with their keys and
/// fields, must fit its limit for log entries.
const PART_BYTES_MAX: usize = EFFECT_BYTES_MAX / 4 * 3;

/// The partitions of a transaction, according to one map.
#[derive(Clone, Debug)]
pub(super) struct TransactionPlan {
    parts: Vec<PlannedPart>,
    pieces: Vec<Piece>,
    lists: Vec<Piece>,
    /// Those that are staged.
    staged: Vec<(RoutingKey, StageId)>,
}

#[derive(Clone, Debug)]
struct PlannedPart {
    part: TransactionPart,
    /// For each item, the index of the caller's operation.
    items: Vec<usize>,
    /// Bytes of its operations that are staged.
    staged: u64,
}

/// A piece to stage: an operation (part, item of the part), or the list of a part.
#[derive(Clone, Copy, Debug)]
struct Piece {
    part: usize,
    item: usize,
}

/// The reason why there is no plan.
#[derive(Debug)]
pub(super) enum PlanFailure {
    /// The map does not have this keyspace, or the keyspace is being dropped.
    Keyspace(KeyspaceId),
    /// No map makes a plan possible.
    InvalidTransaction(InvalidTransaction),
}

impl TransactionPlan {
    /// Groups operations by partition, with the partitions in the global order that all clients and servers use.
    pub(super) fn of(map: &ClusterMap, items: &[CompositeItem]) -> Result<TransactionPlan, PlanFailure> {
        let mut parts: BTreeMap<(Durability, KeyspaceId, u64), PlannedPart> = BTreeMap::new();
        for (number, item) in items.iter().enumerate() {
            let found = map.keyspace(item.keyspace).filter(|found| !found.is_dropping());
            let found = found.ok_or(PlanFailure::Keyspace(item.keyspace))?;
            let config = found.config();
            let division = found.division();
            let points = division.points(division.partition(item.key()));
            let point = *points.expect("the division has the partition of each key").start();
            let part = TransactionPart {
                routing_key: RoutingKey { keyspace: item.keyspace, point },
                durability: match config.durability {
                    KeyspaceDurability::Memory => Durability::Memory,
                    KeyspaceDurability::Interval { .. } => Durability::Interval,
                    KeyspaceDurability::Sync => Durability::Sync,
                },
                items: Items::Inline(Vec::new()),
            };
            let order = part.order();
            let planned =
                parts.entry(order).or_insert_with(|| PlannedPart { part, items: Vec::new(), staged: 0 });
            let body = match item.ahead {
                Some((id, length)) => {
                    planned.staged += length as u64;
                    ItemBody::Staged(id)
                }
                None => ItemBody::Inline(item.packed.clone()),
            };
            planned.items.push(number);
            if let Items::Inline(sent) = &mut planned.part.items {
                let lock_key = config.hash_of(item.key());
                sent.push(TransactionItem { lock_key, access: item.access, seen: item.seen, body });
            }
        }
        let parts: Vec<PlannedPart> = parts.into_values().collect();
        if parts.len() > PARTICIPANTS_MAX {
            let (count, limit) = (parts.len(), PARTICIPANTS_MAX);
            return Err(PlanFailure::InvalidTransaction(InvalidTransaction::Partitions { count, limit }));
        }
        let mut plan = TransactionPlan { parts, pieces: Vec::new(), lists: Vec::new(), staged: Vec::new() };
        plan.choose_staged();
        let limit = STAGED_PART_BYTES_MAX;
        if let Some(most) = plan.parts.iter().map(|part| part.staged).max().filter(|most| *most > limit) {
            return Err(PlanFailure::InvalidTransaction(InvalidTransaction::PartitionBytes {
                length: most,
                limit,
            }));
        }
        Ok(plan)
    }

    /// Chooses what to stage: long operations, the longest operations of parts that are too long, and then entire lists until the rest fits in a
    /// request.
    fn choose_staged(&mut self) {
        let mut inline = Vec::with_capacity(self.parts.len());
        for (part, planned) in self.parts.iter_mut().enumerate() {
            let Items::Inline(items) = &planned.part.items else { continue };
            let mut lengths: Vec<(usize, usize)> =
                items.iter().enumerate().map(|(item, sent)| (length_of(sent), item)).collect();
            lengths.sort_unstable_by(|one, other| other.cmp(one));
            let mut left: usize = lengths.iter().map(|(length, _)| length).sum();
            for (length, item) in lengths {
                if length < STAGE_BYTES_MIN && left <= PART_BYTES_MAX {
                    break;
                }
                left -= length;
                planned.staged += length as u64;
                self.pieces.push(Piece { part, item });
            }
            inline.push((left, part));
        }
        let mut left: usize = inline.iter().map(|(bytes, _)| bytes).sum();
        inline.sort_unstable_by(|one, other| other.cmp(one));
        for (bytes, part) in inline {
            if left <= INLINE_BYTES_MAX {
                break;
            }
            left -= bytes;
            self.lists.push(Piece { part, item: 0 });
        }
    }

    /// The operations to stage, each with the routing key of the partition that refers to it.
    pub(super) fn pieces(&self) -> Vec<(RoutingKey, Bytes)> {
        let bytes = |piece: &Piece| {
            let planned = &self.parts[piece.part];
            let body = match &planned.part.items {
                Items::Inline(items) => items.get(piece.item).map(|item| &item.body),
                Items::Staged(_) => None,
            };
            match body {
                Some(ItemBody::Inline(bytes)) => Some((planned.part.routing_key, bytes.clone())),
                _ => None,
            }
        };
        self.pieces.iter().filter_map(bytes).collect()
    }

    /// The lists to stage, once the operations of [`TransactionPlan::pieces`] are staged.
    pub(super) fn lists(&self) -> Vec<(RoutingKey, Bytes)> {
        let bytes = |piece: &Piece| {
            let part = &self.parts[piece.part].part;
            match &part.items {
                Items::Inline(items) => Some((part.routing_key, encode_items(items).into())),
                Items::Staged(_) => None,
            }
        };
        self.lists.iter().filter_map(bytes).collect()
    }

    /// Records that the operation with this number is staged.
    pub(super) fn piece_is_staged(&mut self, number: usize, id: StageId) {
        let Some(piece) = self.pieces.get(number) else { return };
        self.staged.push((self.parts[piece.part].part.routing_key, id));
        if let Items::Inline(items) = &mut self.parts[piece.part].part.items
            && let Some(item) = items.get_mut(piece.item)
        {
            item.body = ItemBody::Staged(id);
        }
    }

    /// Records that the list with this number is staged.
    pub(super) fn list_is_staged(&mut self, number: usize, id: StageId) {
        if let Some(piece) = self.lists.get(number) {
            self.staged.push((self.parts[piece.part].part.routing_key, id));
            self.parts[piece.part].part.items = Items::Staged(id);
        }
    }

    /// The pieces and lists that are staged, without those that the caller has staged.
    pub(super) fn into_staged(self) -> Vec<(RoutingKey, StageId)> {
        self.staged
    }

    /// The coordinator, and the encoded parts.
    pub(super) fn encoded(&self) -> Option<(RoutingKey, Bytes)> {
        let coordinator = self.parts.last()?.part.routing_key;
        let parts: Vec<TransactionPart> = self.parts.iter().map(|planned| planned.part.clone()).collect();
        Some((coordinator, encode_parts(&parts).into()))
    }

    /// For each item in encoded order, the index of the caller's operation.
    pub(super) fn order(&self) -> impl Iterator<Item = usize> {
        self.parts.iter().flat_map(|planned| planned.items.iter().copied())
    }

    /// The index of the caller's operation for an item of a part.
    pub(super) fn item(&self, part: u32, item: u32) -> Option<usize> {
        self.parts.get(part as usize)?.items.get(item as usize).copied()
    }
}

fn length_of(item: &TransactionItem) -> usize {
    match &item.body {
        ItemBody::Inline(bytes) => bytes.len(),
        ItemBody::Staged(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use zerohop_placement::{
        Address, KeyspaceConfig, MapDelta, Node, NodeState, PartitionCount, ReplicaGroup, Separators,
    };
    use zerohop_placement::{MapChange, partition_of};
    use zerohop_transaction::codec::decode_parts;
    use zerohop_transaction::{TransactionId, TransactionRequest};
    use zerohop_wire::ids::{Incarnation, InstanceId, MapEpoch, NodeId, PartitionEpoch};
    use zerohop_wire::messages::{Condition, RecordOperation, RecordWrite, Remove, WriteChange};

    use super::*;

    fn map(durabilities: &[KeyspaceDurability]) -> ClusterMap {
        let node = Node {
            id: NodeId(1),
            state: NodeState::Up,
            incarnation: Incarnation(1),
            manager: Address::new("m:1").unwrap(),
            first_instance: InstanceId(1),
            instances: vec![Address::new("i:1").unwrap()],
        };
        let mut changes = vec![MapChange::PutNode(node)];
        for (number, durability) in (1..).zip(durabilities) {
            let name = format!("k{number}").parse().unwrap();
            let mut config = KeyspaceConfig::new(name, u64::from(number)).fitted_to(1);
            config.durability = *durability;
            config.partitions = PartitionCount::new(4).unwrap();
            let one = || ReplicaGroup::of_one(PartitionEpoch(1), InstanceId(1));
            let groups = (0..4).map(|_| one()).collect();
            changes.push(MapChange::CreateKeyspace { id: KeyspaceId(number), config, groups });
        }
        ClusterMap::default().apply(&MapDelta { from: MapEpoch(0), to: MapEpoch(1), changes }).unwrap()
    }

    #[test]
    fn plan_orders_parts_globally_and_keeps_order_of_operations() {
        let map = map(&[KeyspaceDurability::Sync, KeyspaceDurability::Memory, KeyspaceDurability::DEFAULT]);
        let keys: Vec<String> = (0..60).map(|at| format!("key-{at}")).collect();
        let items: Vec<CompositeItem> = keys
            .iter()
            .zip((1..=3).cycle())
            .map(|(key, keyspace)| {
                let write = RecordWrite {
                    key: key.as_bytes(),
                    condition: Condition::Always,
                    change: WriteChange::Remove(Remove),
                };
                CompositeItem::new(KeyspaceId(keyspace), &RecordOperation::Write(write), None).unwrap()
            })
            .collect();
        let plan = TransactionPlan::of(&map, &items).unwrap();
        let (coordinator, bytes) = plan.encoded().unwrap();
        let parts = decode_parts(&bytes).unwrap();
        let keyspaces: Vec<u32> = parts.iter().map(|part| part.routing_key.keyspace.0).collect();
        assert_eq!(keyspaces, [2, 2, 2, 2, 3, 3, 3, 3, 1, 1, 1, 1], "the most durable coordinate");
        let id = TransactionId { coordinator, ..TransactionId::default() };
        assert_eq!(TransactionRequest { id, parts: parts.clone() }.check(), Ok(()));
        for part in &parts {
            let Items::Inline(items) = &part.items else { panic!("nothing is staged") };
            let own = partition_of(part.routing_key.point, PartitionCount::new(4).unwrap());
            assert!(
                items.iter().all(|item| partition_of(item.lock_key, PartitionCount::new(4).unwrap()) == own)
            );
        }
        let order: Vec<usize> = plan.order().collect();
        assert_eq!(order.len(), 60);
        assert_eq!(plan.item(0, 0), Some(order[0]));
        assert!(plan.parts.iter().all(|part| part.items.is_sorted()));
    }

    #[test]
    fn plan_groups_items_by_region_in_the_order_of_keys() {
        let map = map(&[KeyspaceDurability::DEFAULT]);
        let config = map.keyspace(KeyspaceId(1)).unwrap().config().clone();
        let separators = Separators::new(["b", "m"]).unwrap();
        let config = KeyspaceConfig { name: "ordered".parse().unwrap(), ..config.divided_at(separators) };
        let one = || ReplicaGroup::of_one(PartitionEpoch(1), InstanceId(1));
        let create =
            MapChange::CreateKeyspace { id: KeyspaceId(2), config, groups: (0..3).map(|_| one()).collect() };
        let map = map.apply(&MapDelta { from: MapEpoch(1), to: MapEpoch(2), changes: vec![create] }).unwrap();
        let keys = ["z", "b", "a", "m", "lz", "aa"];
        let item = |key: &&str| {
            let (key, condition) = (key.as_bytes(), Condition::Always);
            let write = RecordWrite { key, condition, change: WriteChange::Remove(Remove) };
            CompositeItem::new(KeyspaceId(2), &RecordOperation::Write(write), None).unwrap()
        };
        let items: Vec<CompositeItem> = keys.iter().map(item).collect();
        let plan = TransactionPlan::of(&map, &items).unwrap();
        let regions: Vec<Vec<&str>> =
            plan.parts.iter().map(|part| part.items.iter().map(|item| keys[*item]).collect()).collect();
        assert_eq!(regions, [vec!["a", "aa"], vec!["b", "lz"], vec!["z", "m"]]);
        let division = map.keyspace(KeyspaceId(2)).unwrap().division();
        let mut lock_keys = Vec::new();
        for (part, number) in plan.parts.iter().zip(0..) {
            assert_eq!(division.partition_at(part.part.routing_key.point).get(), number);
            let Items::Inline(items) = &part.part.items else { panic!("nothing is staged") };
            lock_keys.extend(items.iter().map(|item| item.lock_key));
        }
        lock_keys.sort_unstable();
        lock_keys.dedup();
        assert_eq!(lock_keys.len(), keys.len(), "each key is locked apart");
    }

    #[test]
    fn plan_places_blob_parts_by_their_routing_keys() {
        let map = map(&[KeyspaceDurability::DEFAULT]);
        let item = |key: &[u8]| {
            let write =
                RecordWrite { key, condition: Condition::Always, change: WriteChange::Remove(Remove) };
            CompositeItem::new(KeyspaceId(1), &RecordOperation::Write(write), None).unwrap()
        };
        for name in (0..50_u32).map(u32::to_le_bytes) {
            let keys = [zerohop_wire::blob::header_key(&name), zerohop_wire::blob::chunk_key(&name, 0)];
            let items: Vec<CompositeItem> = keys.iter().map(|key| item(key.as_ref().unwrap())).collect();
            let plan = TransactionPlan::of(&map, &items).unwrap();
            assert_eq!(plan.parts.len(), 1, "header and chunk 0 lie together");
            let partition = map.keyspace(KeyspaceId(1)).unwrap().partition(items[0].key());
            let point = plan.parts[0].part.routing_key.point;
            assert_eq!(partition_of(point, PartitionCount::new(4).unwrap()), partition);
        }
    }
}
