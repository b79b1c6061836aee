//! Every bound of a cluster map, with its reason. Decoders compare a count with these, and with the bytes that are
//! left, before they allocate; [`crate::ClusterMap::apply`] refuses a map beyond them.

pub use zerohop_wire::limits::MAP_BYTES_MAX;
use zerohop_wire::limits::{BODY_BYTES_MAX, VALUE_BYTES_MAX};

/// Most partitions of one keyspace. With three replicas, listed, their part of an encoded map is 1.4 MiB, which every client
/// holds and which must travel in one frame with others.
pub const PARTITIONS_MAX: u32 = 1 << 16;

/// Fewest partitions of a keyspace of which a map tells what their groups have in common, rather than each. Below, a list of
/// groups of three takes 90 KiB at most, and programs of before read it. Tests of this crate have small maps of both kinds.
pub const PLACED_PARTITIONS_MIN: u32 = if cfg!(test) { 1 << 6 } else { 1 << 12 };

/// Most nodes in a map that lists each of them; larger clusters need placement that is computed.
pub const NODES_MAX: usize = 1 << 16;

/// Most instances of a node: one per core, and their number travels in one byte.
pub const INSTANCES_PER_NODE_MAX: usize = 255;

/// Most keyspaces. Each costs every client its partitions' table; names beneath one keyspace are free.
pub const KEYSPACES_MAX: usize = 1024;

/// Most tokens: each client holds what all permit. Those who are many share one, or have one for each program.
pub const TOKENS_MAX: usize = 1024;

/// Most keyspaces of which a token tells apart what it permits: more are granted by one that is for all.
pub const GRANTS_MAX: usize = 64;

/// Most copies that a keyspace may ask for.
pub const REPLICAS_MAX: u8 = 8;

/// Most members of a replica group: while partitions move, the copies and their successors.
pub const GROUP_MEMBERS_MAX: usize = 2 * REPLICAS_MAX as usize;

/// Most changes in one delta: every partition of a few large keyspaces.
pub const CHANGES_MAX: usize = 1 << 18;

/// Changes of the map remembered for stale clients; whoever is further behind gets the whole map.
pub const HISTORY_DELTAS_MAX: usize = 64;

/// Bytes of the changes remembered so: beyond it a whole map is cheaper than keeping them.
pub const HISTORY_BYTES_MAX: usize = 1 << 20;

/// Longest address, `host:port`; a DNS name has at most 253 bytes, and the length travels in one byte.
pub const ADDRESS_BYTES_MAX: usize = 255;

/// Longest name of a keyspace: it becomes part of file names, metrics and S3 bucket names (63).
pub const KEYSPACE_NAME_BYTES_MAX: usize = 63;

/// Longest flush interval: what a power cut may take away, so at most a minute.
pub const INTERVAL_MS_MAX: u32 = 60_000;

/// Smallest chunk of a blob: below this the header of a chunk outweighs its bytes.
pub const CHUNK_BYTES_MIN: u32 = 4 << 10;

/// Largest chunk of a blob: half of the longest value, so that one with its fields fits.
pub const CHUNK_BYTES_MAX: u32 = 8 << 20;

/// Longest time for which requests may be collected: beyond a second it is the caller who should batch.
pub const BATCH_DELAY_US_MAX: u32 = 1_000_000;

/// Most bytes collected into one batch: half of what a frame carries.
pub const BATCH_BYTES_MAX: u32 = 8 << 20;

// All addresses of a node, each with a separator, are measured in 16 bits.
const _: () = assert!((ADDRESS_BYTES_MAX + 1) * (INSTANCES_PER_NODE_MAX + 1) - 1 <= u16::MAX as usize);
// A chunk, and a batch, fit what one frame carries.
const _: () =
    assert!(CHUNK_BYTES_MAX as usize * 2 <= VALUE_BYTES_MAX && BATCH_BYTES_MAX as usize <= BODY_BYTES_MAX);
