//! Changes of the map on the way to the instances.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::Arc;

use tokio::sync::watch;
use zerohop_placement::MapDelta;
use zerohop_wire::ids::MapEpoch;

/// Maximum number of changes that wait for the instances; beyond it they get the complete map.
const CHANGES_MAX: usize = 256;

/// Changes on the way to the instances.
#[derive(Debug)]
pub(super) struct MapChangeQueue {
    pub(super) changes: RefCell<VecDeque<Arc<MapDelta>>>,
    pub(super) change_signal: watch::Sender<u64>,
    /// The epoch that all instances have applied, or have failed to apply.
    pub(super) applied_epoch: watch::Sender<MapEpoch>,
}

impl MapChangeQueue {
    pub(super) fn new() -> MapChangeQueue {
        let (change_signal, applied_epoch) = (watch::Sender::new(0), watch::Sender::new(MapEpoch(0)));
        MapChangeQueue { changes: RefCell::default(), change_signal, applied_epoch }
    }

    /// Records a change of the map: this delta, or an unknown one.
    pub(super) fn changed(&self, delta: Option<Arc<MapDelta>>) {
        let mut changes = self.changes.borrow_mut();
        match delta {
            Some(delta) if changes.len() < CHANGES_MAX => changes.push_back(delta),
            _ => changes.clear(),
        }
        self.change_signal.send_modify(|count| *count += 1);
    }

    /// Records that the instances serve, with a map of this epoch.
    pub(super) fn opened(&self, epoch: MapEpoch) {
        self.applied_epoch.send_replace(epoch);
        self.change_signal.send_modify(|count| *count += 1);
    }

    /// Waits until the instances of this node have a map of this epoch.
    pub(super) async fn reach(&self, epoch: MapEpoch) {
        // This struct has the sender, so the channel is open.
        drop(self.applied_epoch.subscribe().wait_for(|applied| *applied >= epoch).await);
    }
}
