//! Limits of a node's partitions.

/// The live bytes above which a region of an ordered keyspace is split, unless the operator sets others: 256 MiB.
const REGION_BYTES_DEFAULT: u64 = 256 << 20;

/// Limits of the partitions of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartitionLimits {
    /// Bulk copy throttle: the bytes that all instances together send per second in snapshot installs, for moves and for lost copies; 0: as fast as
    /// possible without delaying requests.
    pub copy_bytes_per_s: u64,
    /// The live bytes above which a region of an ordered keyspace is split, if its primary is here; `None`: no region is split by its size.
    pub region_bytes: Option<u64>,
}

impl Default for PartitionLimits {
    fn default() -> PartitionLimits {
        PartitionLimits { copy_bytes_per_s: 0, region_bytes: Some(REGION_BYTES_DEFAULT) }
    }
}

impl PartitionLimits {
    /// The limits of each of so many instances.
    pub(crate) fn of_instance(self, instances: usize) -> PartitionLimits {
        PartitionLimits { copy_bytes_per_s: self.copy_bytes_per_s.div_ceil(instances.max(1) as u64), ..self }
    }
}
