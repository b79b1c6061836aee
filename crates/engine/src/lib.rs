//! Storage for the partitions of one instance: one log, an index, a journal, over a small [`disk::Disk`].
//!
//! The engine is driven by its owner and does nothing on its own: no thread, no clock, no file but through the
//! disk it was given.

pub mod disk;
pub mod random;
