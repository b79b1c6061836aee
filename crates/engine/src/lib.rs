//! Storage for the partitions of one instance: one log, an index, a journal, over a small [`disk::Disk`].
//!
//! ```text
//!   Engine ── journal (sync partitions: one flush a batch)
//!     │
//!     └─ partition ── log: segments ── disk
//!                 ├── hash index: the position of the newest version of a key
//!                 ├── order of the keys, if the partition keeps it
//!                 ├── side table: lists, chunks, older versions
//!                 └── checkpoint, compaction: in small steps, when the owner calls `maintain`
//! ```
//!
//! Durability, replication, moves and compaction all work on the log. The index only stores the position of
//! the newest version of a key in the log, and can always be rebuilt from it. The engine succeeds NoVoHT (ZHT
//! journal paper, section 2.8).
//!
//! The owner drives the engine, which does nothing on its own: it has no thread and no clock, and it accesses
//! files only through its disk. One thread owns it; nothing in it is locked.

mod ballast;
pub mod checkpoint;
mod damage;
pub mod disk;
#[cfg(test)]
mod documented;
mod engine;
pub mod error;
mod ids;
pub mod index;
mod io;
pub mod journal;
pub mod limits;
pub mod log;
mod logs;
mod options;
mod overflow;
pub mod planted;
mod resources;
mod store;

pub use damage::{Damage, DamageKind};
pub use engine::key_order::KeyOrderView;
pub use engine::report::{EngineStats, MaintenanceCounts, PartitionStats, RecoveryReport};
pub use engine::write::{NewEntry, chunk_pieces};
pub use engine::{Engine, SegmentFile};
pub use error::{EngineError, EngineResult};
pub use ids::{Handle, PartitionId};
pub use index::cursor::{Cursor, CursorFault};
pub use index::key_order::{KeyRange, KeysOfRange};
pub use log::chunk_head::{CHUNK_HEAD_BYTES, ChunkHead, ChunkStamp, copy_part_over};
pub use log::chunk_read::ChecksumParts;
pub use log::entry::{
    EntryKind, EntryMeta, FLAG_CHUNK, FLAG_JOINED, FLAG_LIST, FLAG_TRAILER, FLAGS_FOR_UPPER_LAYERS,
    split_trailer,
};
pub use log::segment_run::{LogRun, RunPlace};
pub use log::{EntryRef, LogSizes};
pub use options::{Durability, EngineOptions, PartitionOptions};
pub use overflow::chains::TrimPoint;
pub use overflow::part::ChainPart;
pub use resources::ReserveShare;
pub use store::chunk::ChunkState;
pub use store::record::{Hint, PartRange, Parts, RecordBody, RecordShape, StoredRecord};
pub use store::recount::SegmentRecount;
pub use store::recover::PartitionReport;
pub use store::scrub::{CorruptEntry, ScrubPosition, ScrubStep};
