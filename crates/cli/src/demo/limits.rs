//! The bounds of the demo, each with its reason.

use std::time::Duration;

/// Files above this size are stored as blobs, whose chunks are as large: partitions share a large file.
pub(super) const RECORD_BYTES_MAX: usize = 1 << 20;

/// Bytes of a large file that are read at a time.
pub(super) const READ_BYTES: usize = 4 << 20;

/// Files written or read at a time by one lane, so that they travel together and share a flush.
pub(super) const GROUP_FILES_MAX: usize = 64;

/// Bytes of small files written at a time by one lane, the last not counted.
pub(super) const GROUP_BYTES_MAX: usize = 4 << 20;

/// Lanes that store and check side by side. Each holds a group in memory.
pub(super) const LANES: usize = 16;

/// Files below the folder: their paths are kept in memory.
pub(super) const FILES_MAX: usize = 4 << 20;

/// How long an operation is tried: longer than the killed node needs to be back.
pub(super) const DEADLINE: Duration = Duration::from_secs(120);

/// How often a write is repeated whose outcome was lost with the node.
pub(super) const REPEATS_MAX: u32 = 5;

/// Ports of the demo's node: its manager's, and one for each instance that it may have.
pub(super) const PORTS: u16 = 1 + zerohop_node::server::limits::INSTANCES_DEFAULT_MAX as u16;

/// How often the progress is drawn.
pub(super) const PROGRESS_EVERY: Duration = Duration::from_millis(100);

/// Faults that the report for people names; the JSON names all that were kept.
pub(super) const FAULTS_SHOWN_MAX: usize = 20;

/// Faults that are kept; beyond it they are only counted.
pub(super) const FAULTS_KEPT_MAX: usize = 1000;

/// Partitions of each keyspace: many for each instance, and few to open when the node is started again and again.
pub(super) const PARTITIONS: u32 = 64;
