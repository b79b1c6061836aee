//! The state of the flush of a shared log.

use super::format::LogStream;
use super::local::StreamEnd;
use crate::disk::SyncTicket;

/// How many flushes have begun and ended. One runs at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct FlushCount {
    pub(super) begun: u64,
    pub(super) done: u64,
}

/// The flush that runs, if one does.
#[derive(Debug, Default)]
pub(super) struct Flushes {
    pub(super) count: FlushCount,
    /// The last flush that has ended and was of the cold stream too.
    pub(super) cold_done: u64,
    /// Those that have not ended.
    pub(super) syncs: Vec<SegmentSync>,
    /// It flushes the cold stream too.
    pub(super) with_cold: bool,
    /// A file has failed, and what it had stands in another one: more syncs must begin.
    pub(super) again: bool,
    /// Entries are accepted once a flush has ended: it has what recovery found void.
    pub(super) is_first_due: bool,
    /// The ends of the streams once it is done.
    pub(super) ends: [StreamEnd; 3],
}

/// The sync of a segment, as a part of a flush.
#[derive(Clone, Copy, Debug)]
pub(super) struct SegmentSync {
    pub(super) segment: u64,
    pub(super) stream: LogStream,
    pub(super) ticket: SyncTicket,
    /// The length that it covers.
    pub(super) bytes: u64,
}
