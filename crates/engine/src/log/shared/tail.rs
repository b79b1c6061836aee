//! The end of a log partition that is open for appending.

use super::flushes::FlushCount;
use super::format::{LogPartition, LogStream};
use crate::PartitionId;

/// A partition whose log begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewLogPartition {
    /// The partition.
    pub partition: PartitionId,
    /// Its index seed.
    pub seed: u64,
    /// The log partition that it continues, through which index, and the epoch of that entry.
    pub continues: Option<(LogPartition, u64, u32)>,
    /// It is incomplete: indexes may be left out, entries come in any order, and the partition has no present number because of it.
    pub is_incoming: bool,
    /// It is never written to a file.
    pub is_in_memory: bool,
}

impl NewLogPartition {
    /// A partition that continues nothing.
    #[must_use]
    pub fn first(partition: PartitionId, seed: u64) -> Self {
        NewLogPartition { partition, seed, continues: None, is_incoming: false, is_in_memory: false }
    }
}

/// See the module. Fields of every append come first.
#[repr(C)]
#[derive(Clone, Debug)]
pub(super) struct PartitionTail {
    /// Epoch and index of the last entry.
    pub(super) last: (u32, u64),
    pub(super) number: LogPartition,
    pub(super) is_in_memory: bool,
    pub(super) is_incoming: bool,
    /// The next mark has a row of it.
    pub(super) is_changed: bool,
    /// How many flushes had begun at the last append.
    last_flush: u64,
    /// The run of each stream in its open segment: the low half of the segment's number, and the place among its runs. 0: none.
    runs: [(u32, u32); 4],
    /// Entries up to this index were appended before that flush began.
    before: u64,
    before_flush: u64,
    /// Entries up to this index survive a crash.
    known_durable: u64,
    pub(super) commit: u64,
    pub(super) covered: u64,
}

impl PartitionTail {
    /// The end of a log that begins. What it continues survives a crash, unless `continued` is the end of that.
    pub(super) fn new(
        number: LogPartition,
        new: &NewLogPartition,
        continued: Option<&PartitionTail>,
    ) -> PartitionTail {
        let (through, epoch) = new.continues.map_or((0, 0), |(_, through, epoch)| (through, epoch));
        let (last_flush, before, before_flush, known_durable) = match continued {
            Some(tail) => (tail.last_flush, tail.before, tail.before_flush, tail.known_durable),
            None => (0, through, 0, through),
        };
        PartitionTail {
            last: (epoch, through),
            number,
            is_in_memory: new.is_in_memory,
            is_incoming: new.is_incoming,
            is_changed: false,
            last_flush,
            runs: [(0, 0); 4],
            before: before.min(through),
            before_flush,
            known_durable: known_durable.min(through),
            commit: continued.map_or(0, |tail| tail.commit.min(through)),
            // What compaction has left out of the continued log is left out of this one.
            covered: continued.map_or(0, |tail| tail.covered.min(through)),
        }
    }

    /// The log goes on behind this entry, which survives a crash.
    pub(super) fn adopt(&mut self, last: (u32, u64)) {
        self.last = last;
        (self.before, self.known_durable) = (last.1, last.1);
    }

    /// Records that an entry was appended.
    #[inline]
    pub(super) fn appended(&mut self, last: (u32, u64), count: FlushCount) {
        if self.last_flush != count.begun {
            self.known_durable = self.known_durable(count);
            (self.before, self.before_flush, self.last_flush) = (self.last.1, count.begun, count.begun);
        }
        self.last = last;
    }

    /// Log index up to which the entries survive a crash. A flush covers what was appended before it began.
    pub(super) fn durable(&self, count: FlushCount) -> u64 {
        if self.is_in_memory { 0 } else { self.known_durable(count) }
    }

    /// The same of a log that is written to files.
    #[inline]
    fn known_durable(&self, count: FlushCount) -> u64 {
        if self.last_flush < count.done {
            self.last.1
        } else if self.before_flush <= count.done {
            self.before
        } else {
            self.known_durable
        }
    }

    /// The place of its run among those of this segment, if it has one there.
    #[inline]
    pub(super) fn run_in(&self, stream: LogStream, segment: u64) -> Option<usize> {
        let (known, run) = self.runs[stream as usize];
        (known == segment as u32).then_some(run as usize)
    }

    pub(super) fn begin_run(&mut self, stream: LogStream, segment: u64, run: usize) {
        self.runs[stream as usize] = (segment as u32, run as u32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_durable_stays_so_while_a_later_flush_runs() {
        let new = NewLogPartition::first(PartitionId(1), 0);
        let mut tail = PartitionTail::new(LogPartition(1), &new, None);
        let count = |begun, done| FlushCount { begun, done };
        tail.appended((1, 1), count(0, 0));
        tail.appended((1, 2), count(1, 0));
        assert_eq!((tail.durable(count(1, 0)), tail.durable(count(1, 1))), (0, 1));
        // Another partition has had a flush, and the next one runs.
        assert_eq!(tail.durable(count(3, 2)), 2);
        tail.appended((1, 3), count(3, 2));
        assert_eq!((tail.durable(count(3, 2)), tail.durable(count(3, 3))), (2, 2));
        assert_eq!(tail.durable(count(4, 4)), 3);
    }
}
