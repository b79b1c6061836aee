//! All limits of a cluster map, each with its reason. Decoders check a count against these, and against the remaining bytes, before they allocate
//! memory; [`crate::ClusterMap::apply`] refuses a map that exceeds them.

pub use zerohop_wire::limits::MAP_BYTES_MAX;
use zerohop_wire::limits::{BODY_BYTES_MAX, VALUE_BYTES_MAX};

/// Maximum number of partitions of one keyspace. With three replicas, as a list, their part of an encoded map is 1.4 MiB. Every client stores it,
/// and it must fit in one frame with the parts of other keyspaces.
pub const PARTITIONS_MAX: u32 = 1 << 16;

/// Maximum number of regions of an ordered keyspace: as many as a transaction may have partitions.
pub const REGIONS_MAX: u32 = 1 << 12;

/// Numbers of regions are below this one, and none is used again: the engine's name of a partition has 24 bits for its number.
pub const REGION_NUMBERS_MAX: u32 = 1 << 24;

/// Maximum length of a separator. Keys may be longer: the beginning of a key divides as well.
pub const SEPARATOR_BYTES_MAX: usize = 256;

/// Maximum number of bytes of all separators of a keyspace: a control request or answer has them all.
pub const SEPARATORS_BYTES_MAX: usize = 512 << 10;

/// Minimum number of partitions for which a map stores what their groups have in common, instead of each group. Below, a list of groups of three
/// takes 90 KiB at most, and older programs can read it. Tests of this crate have small maps of both kinds.
pub const PLACED_PARTITIONS_MIN: u32 = if cfg!(test) { 1 << 6 } else { 1 << 12 };

/// Maximum number of nodes in a map, which lists each of them; larger clusters would need computed placement.
pub const NODES_MAX: usize = 1 << 16;

/// Maximum number of instances of a node: one per core, and their number is encoded in one byte.
pub const INSTANCES_PER_NODE_MAX: usize = 255;

/// Maximum number of keyspaces. Each adds its partition table to every client; names inside one keyspace cost nothing.
pub const KEYSPACES_MAX: usize = 1024;

/// Maximum number of tokens: each client stores the permissions of all of them. Many users can share one token, or use one for each program.
pub const TOKENS_MAX: usize = 1024;

/// Maximum number of keyspaces with separate permissions of one token: a token for more keyspaces must be valid for all.
pub const GRANTS_MAX: usize = 64;

/// Maximum number of copies of a keyspace.
pub const REPLICAS_MAX: u8 = 8;

/// Maximum number of members of a replica group: while partitions move, the copies and their successors.
pub const GROUP_MEMBERS_MAX: usize = 2 * REPLICAS_MAX as usize;

/// Maximum number of changes in one delta: every partition of a few large keyspaces.
pub const CHANGES_MAX: usize = 1 << 18;

/// Number of map changes that are kept for outdated clients; a client that is further behind gets the complete map.
pub const HISTORY_DELTAS_MAX: usize = 64;

/// Maximum size of these changes in bytes: beyond it, sending a complete map is cheaper.
pub const HISTORY_BYTES_MAX: usize = 1 << 20;

/// Maximum length of an address, `host:port`; a DNS name has at most 253 bytes, and the length is encoded in one byte.
pub const ADDRESS_BYTES_MAX: usize = 255;

/// Maximum length of a keyspace's name: it becomes part of file names, metrics and S3 bucket names (63).
pub const KEYSPACE_NAME_BYTES_MAX: usize = 63;

/// Maximum flush interval: a power failure may lose as much, so at most a minute.
pub const INTERVAL_MS_MAX: u32 = 60_000;

/// Minimum chunk size of a blob: below this, the header of a chunk is larger than its data.
pub const CHUNK_BYTES_MIN: u32 = 4 << 10;

/// Maximum chunk size of a blob: half of the maximum value length, so that a chunk with its fields fits.
pub const CHUNK_BYTES_MAX: u32 = 8 << 20;

/// Maximum time for which requests may wait for others: beyond a second the caller should batch them itself.
pub const BATCH_DELAY_US_MAX: u32 = 1_000_000;

/// Maximum size of one collected batch in bytes: half of what a frame can contain.
pub const BATCH_BYTES_MAX: u32 = 8 << 20;

/// The longest history of a keyspace: a week, as its changes are in the memory of each copy.
pub const HISTORY_KEPT_MS_MAX: u32 = 7 * 24 * 3_600_000;

/// The least memory of a partition's history: a few of the longest values that it keeps.
pub const HISTORY_KEPT_BYTES_MIN: u32 = 256 << 10;

/// The most memory of a partition's history.
pub const HISTORY_KEPT_BYTES_MAX: u32 = 1 << 30;

// The length of all addresses of a node, each with a separator, is encoded in 16 bits.
const _: () = assert!((ADDRESS_BYTES_MAX + 1) * (INSTANCES_PER_NODE_MAX + 1) - 1 <= u16::MAX as usize);
// A chunk, and a batch, fit in one frame.
const _: () =
    assert!(CHUNK_BYTES_MAX as usize * 2 <= VALUE_BYTES_MAX && BATCH_BYTES_MAX as usize <= BODY_BYTES_MAX);
