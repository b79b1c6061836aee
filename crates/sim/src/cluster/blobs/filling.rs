//! Staged appends and their publication, changes that depend on a read, and removal of other
//! clients' bytes behind the end.

use zerohop_wire::blob::FillState;

use super::super::SimulatedCluster;
use super::BlobStage;
use super::items::contents;
use super::items::{HeaderChange, ReadHeader};
use crate::cycles::CheckedAction;
use crate::workload::blobs::{BASE_CHUNKS, BlobChangeKind, BlobOperationPlan, chunk_id, header_id, tail_id};

/// An operation removes bytes behind the end at most so often and is then abandoned: other clients
/// stage new ones each time.
const COMPLETED_TRUNCATIONS_MAX: u32 = 3;

impl BlobOperationPlan {
    /// The tokens of the first `count` records of the staged append.
    pub(super) fn records(&self, count: u64) -> &[u64] {
        &self.tokens[..count as usize]
    }
}

impl SimulatedCluster {
    /// Before a write: removes another client's staged append, or finishes its truncation.
    pub(super) fn complete_truncation(&mut self, number: usize, header: ReadHeader) {
        let Some(open) = self.blobs.open.get_mut(&number) else { return };
        open.truncations_done += 1;
        if open.truncations_done > COMPLETED_TRUNCATIONS_MAX {
            let client = open.client;
            self.blobs.open.remove(&number);
            let life = self.clients[client].life;
            return self.call_again(client, life);
        }
        let is_filled = header.is_staged_append == FillState::UnderWay;
        open.header = Some(header);
        let stage = if is_filled {
            BlobStage::Change(HeaderChange::RemoveStaged)
        } else {
            BlobStage::TruncatesChunks
        };
        self.send_blob_requests(number, stage, Vec::new());
    }

    /// All records of the staged append are written: publishes them.
    pub(super) fn publish_blob(&mut self, number: usize, records: u64) {
        let Some(open) = self.blobs.open.get(&number) else { return };
        let Some(header) = &open.header else { return };
        let key = tail_id(header.change);
        let values = open.operation.records(records).iter();
        let actions = values.map(|value| CheckedAction::Append { key, value: *value }).collect();
        self.send_blob_requests(number, BlobStage::Change(HeaderChange::Publication(records)), actions);
    }

    /// The whole blob was read, and is changed in a transaction that depends on all versions that
    /// were read.
    pub(super) fn change_whole_blob(&mut self, number: usize, header: ReadHeader) {
        let Some(open) = self.blobs.open.get_mut(&number) else { return };
        let (client, BlobOperationPlan { blob, value, kind, .. }) = (open.client, open.operation);
        let read = contents(blob, &header, &open.chunks_read);
        let (Ok(mut actions), Ok(tail)) = (read.actions(), read.tail()) else {
            // The read has already reported impossible contents; after a partition has lost the end
            // of its log they may be correct.
            self.blobs.open.remove(&number);
            let life = self.clients[client].life;
            return self.call_again(client, life);
        };
        let register = |key| CheckedAction::Write { key, value, version: None };
        let made = if kind == (BlobChangeKind::ReadAndChange { cuts: true }) && !tail.is_empty() {
            let kept = value as usize % tail.len();
            actions.push(register(header_id(blob)));
            actions.extend(
                tail[..kept].iter().map(|old| CheckedAction::Append { key: tail_id(value), value: *old }),
            );
            HeaderChange::TruncateTail(kept as u64)
        } else {
            let edition = header.edition;
            actions.extend((0..BASE_CHUNKS).map(|chunk| register(chunk_id(edition, chunk))));
            HeaderChange::Rewrite
        };
        open.header = Some(header);
        self.send_blob_requests(number, BlobStage::Change(made), actions);
    }
}
