//! The pieces that a transaction has staged before its commit.

use std::collections::BTreeMap;

use zerohop_transaction::limits::EXPIRED_PER_ENTRY_MAX;
use zerohop_wire::ids::{KeyspaceId, PartitionId};

use crate::procedures::cluster_handle::ClusterHandle;
use crate::{SessionRequest, StageId};

/// A hash and the partition to which it belongs.
pub(super) type Cell = (u64, PartitionId);

/// The pieces of a transaction. When it is dropped, the servers are notified that the session needs them no more: without
/// that, they occupy space until they expire.
#[derive(Debug, Default)]
pub(super) struct StagedPieces {
    client: Option<ClusterHandle>,
    pieces: Vec<(KeyspaceId, Cell, StageId)>,
}

impl StagedPieces {
    /// Adds a piece at the partition of a hash.
    pub(super) fn add(&mut self, client: &ClusterHandle, keyspace: KeyspaceId, cell: Cell, id: StageId) {
        self.client.get_or_insert_with(|| client.clone());
        self.pieces.push((keyspace, cell, id));
    }

    /// The transaction has used them, or may still use them.
    pub(super) fn keep(mut self) {
        self.pieces.clear();
    }
}

impl Drop for StagedPieces {
    fn drop(&mut self) {
        let Some(client) = self.client.take() else { return };
        let mut partitions: BTreeMap<_, (u64, Vec<StageId>)> = BTreeMap::new();
        for (keyspace, (hash, partition), id) in self.pieces.drain(..) {
            partitions.entry((keyspace, partition)).or_insert((hash, Vec::new())).1.push(id);
        }
        for ((keyspace, _), (hash, ids)) in partitions {
            for ids in ids.chunks(EXPIRED_PER_ENTRY_MAX) {
                // Nothing waits for the answer: what stays staged expires.
                drop(client.submit(SessionRequest::release_staged(keyspace, hash, ids, client.limit_us())));
            }
        }
    }
}
