//! Sizes in bytes of the parts of an encoded map; `docs/formats/cluster-map.md` has their fields.

/// Magic number, version, reserved, from, to, number of changes.
pub(crate) const HEADER_BYTES: usize = 4 + 2 + 2 + 8 + 8 + 4;
/// A group of one: epoch, two counts, the primary.
pub(crate) const GROUP_BYTES_MIN: usize = 8 + 1 + 1 + 4;
/// A configuration whose name is empty.
pub(crate) const CONFIG_BYTES_MIN: usize = 1 + 1 + 1 + 8 + 1 + 1 + 1 + 4 + 4 + 4 + 4;
/// The number of separators, of a configuration that has any.
pub(crate) const SEPARATOR_COUNT_BYTES: usize = 2;
/// A separator of one byte: its length and the byte.
pub(crate) const SEPARATOR_BYTES_MIN: usize = 1 + 1;
/// The smallest change, a removal: kind and id.
pub(crate) const CHANGE_BYTES_MIN: usize = 1 + 4;
/// A node beside its addresses, with the kind.
pub(crate) const NODE_BYTES_FIXED: usize = 1 + 4 + 8 + 4 + 1 + 1;
/// Kind, keyspace, splits.
pub(crate) const HAS_SPLIT_BYTES: usize = 1 + 4 + 1;
/// Kind, keyspace, next number, and the numbers of regions and of retired regions.
pub(crate) const HAS_REGIONS_BYTES_MIN: usize = 1 + 4 + 4 + 4 + 4;
/// Number, generation, first point.
pub(crate) const LIVE_REGION_BYTES: usize = 4 + 1 + 8;
/// Number, first and last point.
pub(crate) const RETIRED_REGION_BYTES: usize = 4 + 8 + 8;
/// Kind, number, length of the name, number of grants.
pub(crate) const TOKEN_BYTES_FIXED: usize = 1 + 8 + 1 + 1;
/// Keyspace, permissions.
pub(crate) const GRANT_BYTES: usize = 4 + 1;
/// Kind, keyspace.
pub(crate) const BEGIN_DROP_KEYSPACE_BYTES: usize = 1 + 4;
/// Kind, keyspace.
pub(crate) const BEGIN_SPLIT_KEYSPACE_BYTES: usize = 1 + 4;
/// Kind, keyspace, region, share, and the length of the separator.
pub(crate) const BEGIN_SPLIT_REGION_BYTES_FIXED: usize = 1 + 4 + 4 + 1 + 1;
/// The time of expiry, and whether the token has expired.
pub(crate) const EXPIRY_BYTES: usize = 8 + 1;
/// First, count, step, turn, splits.
pub(crate) const RING_BYTES: usize = 4 + 4 + 4 + 4 + 1;
/// The common values of placed groups: epoch, two counts, encoding of members, and the number of exceptions.
pub(crate) const PLACED_BYTES: usize = 8 + 1 + 1 + 1 + 4;
/// An exception's partition.
pub(crate) const EXCEPTION_BYTES: usize = 4;
/// A group of a run: steps of the partition and of the epoch, and the number of its members' list.
pub(crate) const RUN_GROUP_BYTES_MIN: usize = 1 + 1 + 1;
