//! The bounds of the demo, each with its reason.

use std::time::Duration;

/// Larger files are stored as blobs, with chunks of this size: partitions share a large file.
pub(super) const RECORD_BYTES_MAX: usize = 1 << 20;

/// Bytes of one read of a large file.
pub(super) const READ_BYTES: usize = 4 << 20;

/// Files that one task writes or reads together, so that they share frames and a flush.
pub(super) const GROUP_FILES_MAX: usize = 64;

/// Bytes of small files that one task writes together; the last file may exceed it.
pub(super) const GROUP_BYTES_MAX: usize = 4 << 20;

/// Tasks that store and check concurrently. Each has a group in memory.
pub(super) const CONCURRENT_GROUPS: usize = 16;

/// Files below the folder: their paths are kept in memory.
pub(super) const FILES_MAX: usize = 4 << 20;

/// Time limit of an operation: longer than the killed node needs to come back.
pub(super) const DEADLINE: Duration = Duration::from_secs(120);

/// How often a write with an unknown outcome is repeated.
pub(super) const REPEATS_MAX: u32 = 5;

/// Ports of the demo's node: its manager's, and one for each instance that it may have.
pub(super) const PORTS: u16 = 1 + zerohop_server::limits::INSTANCES_DEFAULT_MAX as u16;

/// The interval of progress updates.
pub(super) const PROGRESS_EVERY: Duration = Duration::from_millis(100);

/// Faults that the text report names; the JSON names all that were kept.
pub(super) const FAULTS_SHOWN_MAX: usize = 20;

/// Faults that are kept; further faults are only counted.
pub(super) const FAULTS_STORED_MAX: usize = 1000;

/// Partitions of each keyspace: many for each instance, yet few to open at the repeated starts of
/// the node.
pub(super) const PARTITIONS: u32 = 64;
