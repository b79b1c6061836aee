//! Every bound of the engine, in one place, each with its reason.

/// The longest key, in bytes: 64 KiB, as the wire allows.
pub const KEY_BYTES_MAX: usize = 64 << 10;

/// Bytes of keys that one page of a walk reads before it ends, a little beyond: pages of the index hold up to 1,100 keys of up
/// to 64 KiB, and a walk must let others be served in between.
pub const SCAN_KEY_BYTES_MAX: usize = 64 << 10;

/// The longest payload of one entry, in bytes: a value of 16 MiB and room for what upper layers put around it.
pub const PAYLOAD_BYTES_MAX: usize = (16 << 20) + (64 << 10);

/// Memory of a segment is held, written and given back in blocks of this many bytes. Large enough that a write
/// costs little beside its copy, small enough that no operation waits long for one.
pub const BLOCK_BYTES: usize = 64 << 10;

/// Blocks that are written to a file by one call at most: 1 MiB. The system does for larger writes once what it does for each of
/// smaller ones, and keeps them in larger pieces; a call should find what it copies in the cache still.
pub const WRITE_BLOCKS_MAX: usize = 16;

/// From this length on the checksum of a chunk's bytes is told as following from that of their entry: to sum up fewer costs less.
pub const SUMMED_BYTES_MIN: u64 = 64 << 10;

/// The memory of a dead entry is given back at once if it has at least this many bytes: four blocks, of which it is then certain to
/// fill three alone. What is shorter goes with its segment.
pub const LET_GO_BYTES_MIN: u64 = 4 * BLOCK_BYTES as u64;

/// The largest segment file: offsets are kept in 27 bits (see [`crate::index::location`]).
pub const SEGMENT_FILE_BYTES_MAX: u64 = 1 << 27;

/// The largest value for [`crate::EngineOptions::segment_bytes`]: one entry of the largest size must still fit
/// behind it in [`SEGMENT_FILE_BYTES_MAX`], footer included.
pub const SEGMENT_BYTES_MAX: u64 = 64 << 20;

/// The smallest segment size: below it, headers and footers would be a share worth speaking of.
pub const SEGMENT_BYTES_MIN: u64 = 4 << 10;

/// Segments of one partition: their slots are kept in 20 bits.
pub const SEGMENTS_MAX: usize = 1 << 20;

/// A sealed segment remembers the place of every so many entries, to find one by its log index: 8 bytes each, so
/// half a byte an entry, and at most this many entries to step over.
pub const SAMPLE_EVERY: u32 = 16;

/// Beside the samples, the place of an entry is remembered in memory that stands at least so far behind the last one that is: 8 bytes for
/// each 4 KiB at most, so that one of long entries is found at its first look.
pub const PLACE_EVERY_BYTES: u32 = 4 << 10;

/// Of the segment that is appended to, the places of the last entries are known: those in flight to other members of a partition
/// that is not busy, and the one before them. 8 bytes each.
pub const RECENT_ENTRIES: usize = 4;

/// An entry above this size goes to its segment once; the journal then holds its head only.
pub const JOURNAL_INLINE_BYTES_MAX: usize = 64 << 10;

/// The largest extra state an upper layer may add to a checkpoint, in bytes.
pub const CHECKPOINT_EXTRA_BYTES_MAX: usize = 112 << 20;

/// Checkpoints kept of each partition: the newest, and one before it in case the newest is corrupt.
pub const CHECKPOINTS_KEPT: usize = 2;

/// Bytes kept free on the disk for what the engine itself must still write when it refuses new entries: what is
/// accepted and not yet written, checkpoints, and compaction, which is how space comes back. Removals may eat into
/// half of it: a full store must still be able to be emptied.
pub const DISK_RESERVE_BYTES: u64 = 64 << 20;

/// Free space is asked for again after this many bytes were accepted.
pub const FREE_SPACE_CHECK_BYTES: u64 = 4 << 20;

/// A disk that was full has room again once so much, and an eighth of the reserve, is free beside the reserve: else whoever waits for
/// it would be told so with every file that compaction frees, and that it is full with the next write.
pub const ROOM_AGAIN_BYTES: u64 = 64 << 10;

/// Blocks of one partition that hold repaired entries and stay in memory until their segment is rewritten: 4 MiB. More corruption
/// than that is better repaired by taking the whole state again.
pub const REPAIRED_BLOCKS_MAX: usize = 64;

/// Longest mark that is let in where memory or the disk is full: those of epochs and evictions are shorter, what transactions keep
/// in marks is not.
pub const LET_IN_BYTES_MAX: usize = 4 << 10;
