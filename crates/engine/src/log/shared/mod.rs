//! One log for all partitions of an instance. The engine's next format uses it; today's partitions have a log each.
//!
//! ```text
//!   SharedLog ── streams: small, large, cold, memory; one open segment each     (streams, segment)
//!     │            entry: log partition, epoch, index, key, payload             (format)
//!     │            creations, marks, footers, voids                                (local)
//!     └─ Creations ── which partition owns the entries of a log partition          (creations)
//!
//!   LogRounds ──── checkpoints of many partitions in one file, what they cover  (rounds)
//!
//!   LogCompaction  copies what is live in segments that rounds cover, by the
//!     │            owner's judgement, and makes spares of them                (compact, walk, copies)
//!     └─ SegmentUse what the entries of a segment are, counted; which go next  (live, victims)
//!
//!   recover ────── the newest round and the segments behind it to the log of
//!                  each partition                                               (recover, contents, prefix, scan)
//! ```

pub mod compact;
mod compaction_scan;
mod contents;
mod copies;
pub mod creations;
pub mod failed_files;
mod flush;
mod flushes;
pub mod format;
pub mod install_run;
pub mod lifecycle;
pub mod live_bytes;
pub mod local;
mod marks;
pub mod prefix;
pub mod recover;
pub mod round;
pub mod rounds;
pub mod scan;
mod search;
pub(crate) mod segment;
pub mod streams;
mod tail;
#[cfg(test)]
mod tests;
pub(crate) mod victims;
pub(crate) mod warm_up;
