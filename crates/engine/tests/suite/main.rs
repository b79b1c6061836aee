//! The guarantees of the engine, tested through its interface: by cases, by random histories, and
//! by the corpus of its files.
//!
//! One test binary: linking each file separately took most of a minute.

mod background;
mod basics;
mod chunks;
mod compaction;
mod failures;
mod file_size_limit;
mod formats;
mod full_disk;
mod intervals;
mod journal;
mod log_formats;
mod maintenance;
mod model;
mod planted;
mod recovery;
mod repair;
mod scarce;
mod shared_compaction;
mod shared_log;
mod support;
mod taking;
mod taking_random;
mod torn_marks;
mod upper_layers;
