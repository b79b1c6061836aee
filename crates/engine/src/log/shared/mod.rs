//! One log for all partitions of an instance. The engine's next format uses it; today's partitions have a log each.
//!
//! ```text
//!   SharedLog ── streams: small, large, cold, memory; one open segment each     (streams, segment)
//!     │            entry: log partition, epoch, index, key, payload             (format)
//!     │            births, marks, footers, voids                                (local)
//!     └─ Births ── which partition owns the entries of a log partition          (births)
//!
//!   recover ────── the segments of a folder to the log of each partition        (recover, scan)
//! ```

pub mod births;
mod flush;
mod flushes;
pub mod format;
mod lives;
pub mod local;
mod marks;
pub mod prefix;
pub mod recover;
pub mod rewrite;
pub mod scan;
pub(crate) mod segment;
pub mod streams;
mod tail;
#[cfg(test)]
mod tests;
