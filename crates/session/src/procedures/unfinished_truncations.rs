//! How far truncations of blobs came whose call ended early, as at its deadline. The next call of the same client goes on from there, so that
//! several calls together complete what takes longer than one.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use zerohop_placement::Division;
use zerohop_wire::blob::BlobStamp;
use zerohop_wire::ids::{KeyspaceId, PartitionId};

use super::limits::BLOB_UNFINISHED_TRUNCATIONS_MAX;

/// The partitions that have not listed all their chunks yet, each with the cursor of its next page.
#[derive(Clone, Debug)]
pub(super) struct ChunkWalk {
    pub(super) division: Division,
    pub(super) left: VecDeque<(PartitionId, Bytes)>,
}

impl ChunkWalk {
    pub(super) fn new(division: Division) -> Self {
        let left = division.partitions().map(|id| (id, Bytes::new())).collect();
        Self { division, left }
    }
}

/// How far a change of many chunks has come.
#[derive(Clone, Debug)]
pub(super) struct ChunkProgress {
    /// The first of the numbers that are visited in any case and not changed yet.
    pub(super) next: u64,
    /// Numbers that were listed and are not changed yet.
    pub(super) listed: Vec<u64>,
    /// The rest of the list; `None` before it begins.
    pub(super) walk: Option<ChunkWalk>,
}

impl ChunkProgress {
    pub(super) fn from(first: u64) -> Self {
        Self { next: first, listed: Vec::new(), walk: None }
    }
}

/// A truncation of chunks: the blob stamp that the chunks get, and their numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TruncationName {
    pub(super) keyspace: KeyspaceId,
    pub(super) contents: Bytes,
    pub(super) stamp: BlobStamp,
    pub(super) numbers: (u64, u64),
    pub(super) creates_absent: bool,
}

/// The truncations that calls of this client began and did not complete, the oldest first.
#[derive(Debug, Default)]
pub(super) struct UnfinishedTruncations(Mutex<VecDeque<(TruncationName, ChunkProgress)>>);

impl UnfinishedTruncations {
    /// Begins the truncation, or goes on where an earlier call of this client ended.
    pub(super) fn begin(&self, name: TruncationName) -> TruncationHandle<'_> {
        let progress = self.take(&name).unwrap_or_else(|| ChunkProgress::from(name.numbers.0));
        TruncationHandle { unfinished: self, name, progress, is_complete: false }
    }

    fn take(&self, name: &TruncationName) -> Option<ChunkProgress> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = kept.iter().position(|(kept, _)| kept == name)?;
        kept.remove(at).map(|(_, progress)| progress)
    }

    fn keep(&self, name: TruncationName, progress: ChunkProgress) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|(kept, _)| *kept != name);
        if kept.len() >= BLOB_UNFINISHED_TRUNCATIONS_MAX {
            kept.pop_front();
        }
        kept.push_back((name, progress));
    }
}

/// A truncation in progress. Unless it is complete, its progress is kept when this is dropped, also with a caller that waits no longer.
#[derive(Debug)]
pub(super) struct TruncationHandle<'u> {
    unfinished: &'u UnfinishedTruncations,
    name: TruncationName,
    progress: ChunkProgress,
    is_complete: bool,
}

impl TruncationHandle<'_> {
    pub(super) fn progress(&mut self) -> &mut ChunkProgress {
        &mut self.progress
    }

    /// All chunks are changed.
    pub(super) fn complete(mut self) {
        self.is_complete = true;
    }
}

impl Drop for TruncationHandle<'_> {
    fn drop(&mut self) {
        if !self.is_complete {
            self.unfinished.keep(self.name.clone(), self.progress.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(number: u64) -> TruncationName {
        TruncationName {
            keyspace: KeyspaceId(1),
            contents: Bytes::from_static(b"b"),
            stamp: BlobStamp { id: 7, generation: number },
            numbers: (3, 9_000),
            creates_absent: false,
        }
    }

    #[test]
    fn progress_is_kept_until_the_truncation_is_complete() {
        let unfinished = UnfinishedTruncations::default();
        let mut begun = unfinished.begin(name(1));
        assert_eq!(begun.progress().next, 3);
        begun.progress().next = 5;
        drop(begun);
        // Another generation is another truncation.
        unfinished.begin(name(2)).complete();
        let mut begun = unfinished.begin(name(1));
        assert_eq!(begun.progress().next, 5);
        begun.complete();
        assert_eq!(unfinished.begin(name(1)).progress().next, 3);
    }

    #[test]
    fn progress_of_the_oldest_truncation_is_forgotten_beyond_the_limit() {
        let unfinished = UnfinishedTruncations::default();
        for number in 0..=BLOB_UNFINISHED_TRUNCATIONS_MAX as u64 {
            unfinished.begin(name(number)).progress().next = 5;
        }
        assert_eq!(unfinished.begin(name(0)).progress().next, 3);
        assert_eq!(unfinished.begin(name(2)).progress().next, 5);
    }
}
