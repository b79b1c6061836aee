//! Every limit of the engine, in one place, each with its reason.

/// The longest key, in bytes: 64 KiB, as the wire allows.
pub const KEY_BYTES_MAX: usize = 64 << 10;

/// Bytes of keys that one page of a scan reads before it ends, or slightly more. Pages of the index hold up to 1,100 keys of
/// up to 64 KiB, and a scan must let the instance serve other requests in between.
pub const SCAN_KEY_BYTES_MAX: usize = 64 << 10;

/// The longest payload of one entry, in bytes: a value of 16 MiB and room for what upper layers put around it.
pub const PAYLOAD_BYTES_MAX: usize = (16 << 20) + (64 << 10);

/// Memory of a segment is allocated, written and evicted in blocks of this many bytes. Large enough that a write costs
/// little beside its copy, small enough that no operation waits long for a block.
pub const BLOCK_BYTES: usize = 64 << 10;

/// Blocks that one call writes to a file at most: 1 MiB. Larger writes save the system's cost per call, and the system
/// caches them in larger pieces; the data that a call copies should still be in the processor's cache.
pub const WRITE_BLOCKS_MAX: usize = 16;

/// From this length on the checksum of a chunk's bytes is derived from that of their entry: summing fewer bytes costs less.
pub const SUMMED_BYTES_MIN: u64 = 64 << 10;

/// The memory of a dead entry is released at once if it has at least this many bytes: four blocks, of which it is then
/// certain to fill three alone. Shorter entries are released with their segment.
pub const EVICT_DEAD_BYTES_MIN: u64 = 4 * BLOCK_BYTES as u64;

/// The largest segment file: offsets are kept in 27 bits (see [`crate::index::location`]).
pub const SEGMENT_FILE_BYTES_MAX: u64 = 1 << 27;

/// The largest value for [`crate::EngineOptions::segment_bytes`]: one entry of the largest size must still fit behind it in
/// [`SEGMENT_FILE_BYTES_MAX`], footer included.
pub const SEGMENT_BYTES_MAX: u64 = 64 << 20;

/// The smallest segment size: below it, headers and footers would be a considerable share.
pub const SEGMENT_BYTES_MIN: u64 = 4 << 10;

/// A store is opened only if a file may have so many bytes. Entries without which upper layers cannot continue have up
/// to 1.3 MiB, and the journal needs space for a batch.
pub const FILE_BYTES_MIN: u64 = 2 << 20;

/// Room in a segment's file for all that is not an entry, if the segment has one entry: header, marks, footer and trailer.
pub const SEGMENT_FRAME_BYTES: u64 = 4 << 10;

/// Segments of one partition: their slots are stored in 20 bits.
pub const SEGMENTS_MAX: usize = 1 << 20;

/// A sealed segment stores the position of one of so many entries, to find one by its log index. That takes 8 bytes
/// each, so half a byte an entry, and a search steps over at most this many entries.
pub const SAMPLE_EVERY: u32 = 16;

/// Beside the samples, memory holds the position of each entry that is at least so far behind the last recorded one: 8 bytes
/// for each 4 KiB at most. A long entry is then found at the first lookup.
pub const POSITION_EVERY_BYTES: u32 = 4 << 10;

/// Number of last entries of the open segment whose positions are known, 8 bytes each. It covers those in flight to
/// other members of a partition that is not busy, and the one before them.
pub const RECENT_ENTRIES: usize = 4;

/// A journal file takes at most this part of the free bytes at its creation: an instance has up to three, and a disk serves several
/// instances.
pub const JOURNAL_OF_FREE: u64 = 32;

/// A journal file is not closed for lack of room below this size, and a full disk does not remove a smaller one that is written.
pub const JOURNAL_FILE_BYTES_MIN: u64 = 1 << 20;

/// An entry above this size is written to its segment only; the journal then holds just its head.
pub const JOURNAL_INLINE_BYTES_MAX: usize = 64 << 10;

/// The default of [`crate::EngineOptions::check_after_bytes`]: a checkpoint or a rewritten segment costs some syncs, which
/// less log is not worth.
pub const CHECK_AFTER_BYTES: u64 = 256 << 10;

/// The largest payload that an upper layer may add to a checkpoint, in bytes.
pub const CHECKPOINT_EXTRA_BYTES_MAX: usize = 128 << 20;

/// Checkpoints kept of each partition: the newest, and one before it in case the newest is corrupt.
pub const CHECKPOINTS_RETAINED: usize = 2;

/// Bytes kept free on the disk for the engine's own writes after it refuses new entries: accepted and unwritten data,
/// checkpoints, and compaction, which frees space. Removals may use half of it: it must be possible to empty a full store.
pub const DISK_RESERVE_BYTES: u64 = 64 << 20;

/// Room that each engine of a node holds in a file, beside the reserve: another program that fills the disk takes the reserve, and
/// not this. Half of it is for some ten thousand removals, and half for checkpoints of small partitions.
pub const BALLAST_BYTES: u64 = 4 << 20;

/// Free space is read again after this many bytes were accepted.
pub const FREE_SPACE_CHECK_BYTES: u64 = 4 << 20;

/// A disk that was full has room again once so much, and an eighth of the reserve, is free beside the reserve. Otherwise
/// waiting writers would be notified with every file that compaction frees, and be refused with the next write.
pub const DISK_FULL_END_BYTES: u64 = 64 << 10;

/// Blocks of one partition that hold repaired entries and stay in memory until their segment is rewritten: 4 MiB. More
/// corruption than that is better repaired by a new snapshot install.
pub const REPAIRED_BLOCKS_MAX: usize = 64;

/// Longest mark that is accepted if memory or the disk is full: marks of epochs and evictions are shorter, marks with
/// transaction state are longer.
pub const ADMITTED_MARK_BYTES_MAX: usize = 4 << 10;
