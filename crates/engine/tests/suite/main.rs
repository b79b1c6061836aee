//! What the engine promises, tried from outside: by cases, by random histories, and by the pinned bytes of its files.
//!
//! One program: to link each file by itself took the larger part of a minute.

mod background;
mod basics;
mod chunks;
mod compaction;
mod failures;
mod formats;
mod full_disk;
mod intervals;
mod journal;
mod model;
mod planted;
mod recovery;
mod repair;
mod support;
mod taking;
mod taking_random;
mod torn_marks;
mod upkeep;
mod upper_layers;
