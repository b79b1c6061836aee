//! The guarantees of the engine, tested through its interface: by cases, by random histories, and
//! by the corpus of its files.
//!
//! One test binary: linking each file separately took most of a minute.

mod awaited_room;
mod background;
mod ballast;
mod basics;
mod chunks;
mod chunks_in_place;
mod compaction;
mod failures;
mod file_shortage;
mod file_size_limit;
mod formats;
mod full_disk;
mod intervals;
mod journal;
mod journal_first;
mod journal_room;
mod log_formats;
mod maintenance;
mod model;
mod no_descriptors;
mod planted;
mod recovery;
mod repair;
mod shared_compaction;
mod shared_install;
mod shared_log;
mod shared_stores;
mod snapshot_install;
mod snapshot_install_random;
mod split_order;
mod split_room;
mod support;
mod torn_marks;
mod upper_layers;
