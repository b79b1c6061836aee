//! The options of a partition, as its keyspace has them.

use zerohop_partition::MemberOptions;
use zerohop_placement::{KeyOrder, Keyspace, KeyspaceConfig};
use zerohop_wire::ids::{PartitionEpoch, PartitionId};

/// The options with which a partition of a keyspace is opened.
pub(super) fn options_of(found: &Keyspace, id: PartitionId, epoch: PartitionEpoch) -> MemberOptions {
    let config = found.config();
    MemberOptions {
        durability: durability(config),
        // Partitions of one keyspace share no pattern of collisions. Children of one partition do share it, so that a scan cursor
        // remains valid in each child; the numbers of regions do not name their parents. All members of a group have the same seed.
        index_seed: match config.order {
            KeyOrder::Hashed => {
                config.seed ^ u64::from(id.0 >> found.splits()).wrapping_mul(0x9E37_79B9_7F4A_7C15)
            }
            KeyOrder::Ordered => config.seed,
        },
        is_ordered: config.order == KeyOrder::Ordered,
        epoch,
    }
}

/// When a keyspace's entries survive a crash, as the engine's type.
pub(super) fn durability(config: &KeyspaceConfig) -> zerohop_engine::Durability {
    match config.durability {
        zerohop_placement::Durability::Memory => zerohop_engine::Durability::Memory,
        zerohop_placement::Durability::Interval { ms } => zerohop_engine::Durability::Interval { ms },
        zerohop_placement::Durability::Sync => zerohop_engine::Durability::Sync,
    }
}
