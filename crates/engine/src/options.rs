//! Options of an engine and of a partition, with safe and fast defaults.

use crate::limits;
use crate::log::shared::format::LogId;

const DEFAULT_INTERVAL_MS: u32 = 100;

/// When an acknowledged entry survives a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Never: nothing reaches a disk.
    Memory,
    /// After at most so many milliseconds, if [`crate::Engine::maintain`] is called.
    Interval {
        /// How long an entry may stay unsynced. Every partition has its own interval.
        ms: u32,
    },
    /// Before it is acknowledged: [`crate::Engine::flush`] has returned.
    Sync,
}

impl Durability {
    /// The default of a partition: ten flushes a second, which any disk can sustain.
    pub const DEFAULT: Durability = Durability::Interval { ms: DEFAULT_INTERVAL_MS };

    /// How long data that no request waits for may stay unsynced: entries of an `interval` partition, and the
    /// marks in the segments of a `sync` partition, which the journal does not hold.
    pub(crate) fn sync_after_ms(self) -> u32 {
        match self {
            Durability::Interval { ms } => ms,
            Durability::Memory | Durability::Sync => DEFAULT_INTERVAL_MS,
        }
    }
}

impl Default for Durability {
    fn default() -> Durability {
        Durability::DEFAULT
    }
}

/// Options of one engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EngineOptions {
    /// Memory for log blocks: the newest entries are read from there, older ones from disk. Indexes come on top.
    pub memory_bytes: u64,
    /// A segment is sealed when it has this much.
    pub segment_bytes: u64,
    /// A journal file is closed when it has this much.
    pub journal_file_bytes: u64,
    /// Log bytes, over all partitions, that recovery may have to read behind the checkpoints.
    pub checkpoint_tail_bytes: u64,
    /// Dead share of a partition's log, in percent, above which it is compacted.
    pub dead_percent_max: u64,
    /// Dead share of all logs together, in percent, above which maintenance does not return before compaction
    /// has made some steps: the owner accepts less, and dead space does not grow. Not counted: entries that
    /// are not durable or not committed, and up to 256 KiB of each partition. 100 is no bound. Writers lose
    /// at most a quarter of their time by it. If that is not enough, dead space continues to grow, up to a
    /// sixteenth of the free space of the disk.
    pub dead_percent_bound: u64,
    /// Dead bytes, over all logs, for which no writer waits whatever their share: an owner that removes
    /// almost everything would otherwise wait for a log that is small anyway.
    pub dead_bytes_allowed: u64,
    /// If at least so many `interval` partitions are due to be synced together, the journal makes their
    /// entries durable instead.
    pub journal_from_due: usize,
    /// How often a partition is checked for dead space below that share, in milliseconds.
    pub collect_every_ms: u64,
    /// A partition is checked for work that is worthwhile after so many bytes were written to it. No checkpoint
    /// is taken, and no open segment sealed for compaction, for less. Smaller only in tests with small logs.
    pub check_after_bytes: u64,
    /// See [`limits::DISK_RESERVE_BYTES`].
    pub disk_reserve_bytes: u64,
    /// Whether the engine starts checkpoints itself. An upper layer with state of its own starts them with
    /// that state.
    pub starts_checkpoints: bool,
    /// With an id, a new folder gets one log for all partitions, and a folder with such a log is opened. The id of a log that
    /// exists stays. Not for use yet: such logs are not compacted, transferred or split.
    pub shared_log: Option<LogId>,
}

impl Default for EngineOptions {
    fn default() -> Self {
        EngineOptions {
            memory_bytes: 1 << 30,
            segment_bytes: 16 << 20,
            journal_file_bytes: 64 << 20,
            checkpoint_tail_bytes: 256 << 20,
            dead_percent_max: 50,
            dead_percent_bound: 60,
            dead_bytes_allowed: 256 << 20,
            journal_from_due: 4,
            collect_every_ms: 60_000,
            check_after_bytes: limits::CHECK_AFTER_BYTES,
            disk_reserve_bytes: limits::DISK_RESERVE_BYTES,
            starts_checkpoints: true,
            shared_log: None,
        }
    }
}

impl EngineOptions {
    /// The same with every field within its bounds, on a disk whose files have at most so many bytes.
    pub(crate) fn bounded(self, file_bytes_max: u64) -> EngineOptions {
        // Marks and the footer come on top of a segment's entries, and a batch on top of a journal file.
        let half = (file_bytes_max / 2).max(limits::SEGMENT_BYTES_MIN);
        let segment_bytes_max = limits::SEGMENT_BYTES_MAX.min(half);
        EngineOptions {
            segment_bytes: self.segment_bytes.clamp(limits::SEGMENT_BYTES_MIN, segment_bytes_max),
            journal_file_bytes: self.journal_file_bytes.max(limits::SEGMENT_BYTES_MIN).min(half),
            dead_percent_max: self.dead_percent_max.clamp(1, 99),
            dead_percent_bound: self.dead_percent_bound.clamp(self.dead_percent_max.clamp(1, 99), 100),
            collect_every_ms: self.collect_every_ms.max(1),
            check_after_bytes: self.check_after_bytes.clamp(1, limits::CHECK_AFTER_BYTES),
            ..self
        }
    }
}

/// Options of one partition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PartitionOptions {
    /// When its entries survive a crash.
    pub durability: Durability,
    /// Seed of its index hash. A partition found on disk keeps the seed that it was created with.
    pub index_seed: u64,
}
