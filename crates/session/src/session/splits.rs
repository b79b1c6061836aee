//! Splits of keyspaces: operations and sequence numbers continue in the child partitions.
//!
//! A child has the session table of its parent, so numbers continue in each child. A write keeps the number under which it was sent, so that the
//! partition that has done it recognizes it. Only the numbers of a child's own writes are open in its window. Numbers of writes to its sibling
//! would hold back the child's lowest open number for no reason.

use std::collections::BTreeMap;

use zerohop_placement::ClusterMap;
use zerohop_wire::ids::{KeyspaceId, PartitionId, SessionId};

use super::Session;
use crate::operation::OperationState;
use crate::planted::{Bug, is_planted};
use crate::sequence_window::SequenceWindow;
use crate::slots::Handle;

/// The open numbers of each session, by partition.
type OpenNumbers = BTreeMap<PartitionId, Vec<(SessionId, u64)>>;

impl<T> Session<T> {
    /// Handles the change from the map `before` to the current one.
    pub(super) fn follow_splits(&mut self, before: &ClusterMap) {
        let map = std::sync::Arc::clone(&self.map);
        for (keyspace, found) in map.keyspaces() {
            let Some(old) = before.keyspace(keyspace) else { continue };
            if let Some(further) = found.splits().checked_sub(old.splits()).filter(|further| *further > 0) {
                let open = self.reassign_operations(keyspace, found);
                self.split_windows(keyspace, further, &open);
            }
        }
    }

    /// Recomputes the partition of every operation on a record. Returns the open numbers of each partition.
    fn reassign_operations(
        &mut self,
        keyspace: KeyspaceId,
        found: &zerohop_placement::Keyspace,
    ) -> OpenNumbers {
        let mut open = OpenNumbers::new();
        for operation in self.operations.iter_mut() {
            if operation.keyspace() != keyspace || operation.partition.is_none() {
                continue;
            }
            let Some(partition) = operation.request.partition_in(found) else { continue };
            operation.partition = Some(partition);
            if let Some(stamp) = operation.stamp {
                open.entry(partition).or_default().push((stamp.session, stamp.sequence.0));
            }
        }
        open
    }

    fn split_windows(&mut self, keyspace: KeyspaceId, further: u8, open: &OpenNumbers) {
        let Some(lanes) = self.sequence_windows.remove(&keyspace) else { return };
        let mut parked: Vec<Handle> = Vec::new();
        let mut children = Vec::with_capacity(lanes.len() << further);
        for mut lane in lanes {
            parked.extend(std::mem::take(&mut lane.waiting_writes));
            for _ in 0..1u32 << further {
                let partition = PartitionId(children.len() as u32);
                let open = open.get(&partition).map_or(&[][..], Vec::as_slice);
                let of_lane = open.iter().filter(|(session, _)| *session == lane.session);
                let child = lane.split(of_lane.map(|(_, sequence)| *sequence));
                children.push(if is_planted(Bug::LanesBeginAgain) { SequenceWindow::new() } else { child });
            }
        }
        self.sequence_windows.insert(keyspace, children);
        // They wait for room in the window of their new partition.
        for handle in parked {
            let Some(operation) = self.operations.get_mut(handle) else { continue };
            if operation.state == OperationState::WindowFull {
                operation.state = OperationState::Unrouted;
                self.unrouted.push(handle);
            }
        }
    }
}
