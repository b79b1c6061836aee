//! What clients know after they have changed a blob, and the creation of blobs that are absent.

use zerohop_session::Reply;
use zerohop_wire::Failure;

use super::super::SimulatedCluster;
use super::items::HeaderChange;
use super::{BlobStage, OpenBlobOperation};
use crate::cycles::{CheckedAction, TransactionFate};
use crate::transacted::{BlobLife, TransactionFailure, TransactionRecord};
use crate::workload::blobs::{BASE_CHUNKS, NUMBERS, chunk_id, header_id, mark_reads};

impl SimulatedCluster {
    /// The blob is absent: it is created, empty or with contents.
    pub(super) fn create_blob(&mut self, number: usize, made: HeaderChange) {
        let Some(open) = self.blobs.open.get_mut(&number) else { return };
        // The blob of the cached header is gone.
        open.header = None;
        let (blob, value) = (open.operation.blob, open.operation.value);
        let register = |key| CheckedAction::Write { key, value, version: None };
        let chunks = if made == HeaderChange::Making { 0..BASE_CHUNKS } else { 0..0 };
        let chunks = chunks.map(|chunk| register(chunk_id(value, chunk)));
        let actions = std::iter::once(register(header_id(blob))).chain(chunks).collect();
        self.send_blob_requests(number, BlobStage::Change(made), actions);
    }
}

impl OpenBlobOperation {
    /// Records the reply to a change. Returns whether the change has succeeded.
    pub(super) fn blob_changed(
        &self,
        entry: &mut TransactionRecord,
        made: HeaderChange,
        reply: &Reply,
    ) -> bool {
        let (blob, value) = (self.operation.blob, self.operation.value);
        let may_lack = matches!(made, HeaderChange::Rewrite | HeaderChange::TruncateTail(_));
        // `NotFound` is correct for a chunk that the read found absent.
        let is_well = |one: &Result<_, _>| one.is_ok() || may_lack && *one == Err(Failure::NotFound);
        let version = match reply {
            Reply::Transacted { version, answers } if answers.iter().all(is_well) => *version,
            Reply::Done { version, .. } if made.is_single_operation() => *version,
            other => {
                entry.failure = Some(TransactionFailure::Impossible(format!("{other:?}")));
                return false;
            }
        };
        entry.transaction.fate = TransactionFate::Committed;
        entry.version = Some(version);
        let order = match (made, reply) {
            (HeaderChange::Creation, Reply::Done { number, .. }) => Some(*number),
            // Its creation time is the transaction's version, and its contents are its first
            // change.
            (HeaderChange::Making | HeaderChange::Renewal, _) => Some(version.0 + 1),
            _ => self.header.as_ref().map(|header| header.order() + 1),
        };
        for action in &mut entry.transaction.actions {
            if let CheckedAction::Write { key, version: told, .. } = action {
                *told = if *key == header_id(blob) { order } else { Some(version.0) };
            }
        }
        debug_assert!(value > 0, "it has a value of its own");
        if let (HeaderChange::Mark(chunk, _), Some(header), 0) = (made, &self.header, value % 2) {
            // The reply returns the marks before the change.
            let numbers = match reply {
                Reply::Done { number, .. } => vec![*number],
                Reply::Transacted { answers, .. } => {
                    // Skips the answer about the header.
                    let number = |one: &Result<Reply, _>| match one {
                        Ok(Reply::Done { number, .. }) => *number,
                        _ => 0,
                    };
                    answers.iter().skip(1).map(number).collect()
                }
                _ => Vec::new(),
            };
            let shown = (chunk.unwrap_or(NUMBERS.start)..).zip(numbers);
            let shown = shown.flat_map(|(chunk, marks)| mark_reads(header.edition, chunk, marks as u32));
            entry.transaction.actions.splice(0..0, shown);
        }
        match (made, reply, &self.header) {
            (HeaderChange::Creation, Reply::Done { number, .. }, _) => {
                entry.lives.push((blob, BlobLife::Seen(*number)))
            }
            (HeaderChange::Making, ..) => {
                entry.lives.extend([BlobLife::Absent, BlobLife::Seen(version.0)].map(|life| (blob, life)))
            }
            (HeaderChange::Renewal, _, Some(header)) => {
                entry.lives.extend([header.stamp.id, version.0].map(|id| (blob, BlobLife::Seen(id))));
            }
            (HeaderChange::Deletion, ..) | (_, _, None) => {}
            (_, _, Some(header)) => entry.lives.push((blob, BlobLife::Seen(header.stamp.id))),
        }
        true
    }
}
