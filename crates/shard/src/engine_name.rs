//! The names by which the engine stores the partitions of an instance.

use zerohop_wire::ids::{KeyspaceId, PartitionId};

/// Bits of the engine's partition name that contain the partition number; above them is the number of splits of its keyspace.
const NUMBER_BITS: u32 = 24;
const _: () = assert!(zerohop_placement::limits::PARTITIONS_MAX <= 1 << NUMBER_BITS);

/// The engine's name for a partition of a keyspace that was split so often. For a keyspace without splits it is the same as
/// before splits existed.
pub(super) fn engine_id(
    keyspace: KeyspaceId,
    splits: u8,
    partition: PartitionId,
) -> zerohop_engine::PartitionId {
    let number = u64::from(splits) << NUMBER_BITS | u64::from(partition.0);
    zerohop_engine::PartitionId(u64::from(keyspace.0) << 32 | number)
}

/// Keyspace, splits and number of a partition from the engine's name.
pub(super) fn named(id: zerohop_engine::PartitionId) -> (KeyspaceId, u8, PartitionId) {
    let number = id.0 as u32;
    let partition = PartitionId(number & ((1 << NUMBER_BITS) - 1));
    (KeyspaceId((id.0 >> 32) as u32), (number >> NUMBER_BITS) as u8, partition)
}
