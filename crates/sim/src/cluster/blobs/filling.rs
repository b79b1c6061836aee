//! Staged appends and their publication, changes that depend on a read, and removal of other
//! clients' bytes behind the end.

use zerohop_wire::blob::FillState;

use super::super::SimulatedCluster;
use super::items::{HeaderChange, ReadHeader};
use super::{BlobStage, contents};
use crate::check::cycles::CheckedAction;
use crate::workload::blobs::{BASE_CHUNKS, BlobChangeKind, BlobOperationPlan, chunk_id, header_id, tail_id};

/// An operation removes bytes behind the end at most so often and is then abandoned: other clients
/// stage new ones each time.
const SETTLED_MAX: u32 = 3;

impl BlobOperationPlan {
    /// The tokens of the first `count` records of the staged append.
    pub(super) fn records(&self, count: u64) -> &[u64] {
        &self.tokens[..count as usize]
    }
}

impl SimulatedCluster {
    /// Before a write: removes another client's staged append, or finishes its truncation.
    pub(super) fn settle_blob(&mut self, number: usize, header: ReadHeader) {
        let Some(open) = self.blobs.open.get_mut(&number) else { return };
        open.settled += 1;
        if open.settled > SETTLED_MAX {
            let client = open.client;
            self.blobs.open.remove(&number);
            let life = self.clients[client].life;
            return self.call_again(client, life);
        }
        let is_filled = header.filling == FillState::UnderWay;
        open.header = Some(header);
        let stage = if is_filled { BlobStage::Change(HeaderChange::FillingCut) } else { BlobStage::Cuts };
        self.ask_of_blob(number, stage, Vec::new());
    }

    /// All records of the staged append are written: publishes them.
    pub(super) fn publish_blob(&mut self, number: usize, records: u64) {
        let Some(open) = self.blobs.open.get(&number) else { return };
        let Some(header) = &open.header else { return };
        let key = tail_id(header.change);
        let values = open.deed.records(records).iter();
        let actions = values.map(|value| CheckedAction::Append { key, value: *value }).collect();
        self.ask_of_blob(number, BlobStage::Change(HeaderChange::Publication(records)), actions);
    }

    /// The whole blob was read, and is changed in a transaction that depends on all versions that
    /// were read.
    pub(super) fn blob_rests(&mut self, number: usize, header: ReadHeader) {
        let Some(open) = self.blobs.open.get_mut(&number) else { return };
        let (client, BlobOperationPlan { blob, value, kind, .. }) = (open.client, open.deed);
        let read = contents(blob, &header, &open.looked);
        let (Ok(mut actions), Ok(tail)) = (read.actions(), read.tail()) else {
            // The read has already reported impossible contents; after a partition has lost the end
            // of its log they may be correct.
            self.blobs.open.remove(&number);
            let life = self.clients[client].life;
            return self.call_again(client, life);
        };
        let register = |key| CheckedAction::Write { key, value, version: None };
        let made = if kind == (BlobChangeKind::Rest { cuts: true }) && !tail.is_empty() {
            let kept = value as usize % tail.len();
            actions.push(register(header_id(blob)));
            actions.extend(
                tail[..kept].iter().map(|old| CheckedAction::Append { key: tail_id(value), value: *old }),
            );
            HeaderChange::PartCut(kept as u64)
        } else {
            let edition = header.edition;
            actions.extend((0..BASE_CHUNKS).map(|chunk| register(chunk_id(edition, chunk))));
            HeaderChange::Rewrite
        };
        open.header = Some(header);
        self.ask_of_blob(number, BlobStage::Change(made), actions);
    }
}
