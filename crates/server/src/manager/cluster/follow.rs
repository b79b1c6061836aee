//! Passes every change of the map to the instances, in order, however slow an instance is: the agent does not wait for them.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

use tokio::sync::watch;
use tracing::warn;
use zerohop_placement::{ClusterMap, MapDelta};
use zerohop_wire::ids::MapEpoch;

use super::super::instances::apply_map_change;
use super::super::shared::{ManagerShared, NodePhase};
use crate::server::limits::MAP_WAIT;

/// Maximum number of changes that wait for the instances; beyond it they get the complete map.
const CHANGES_MAX: usize = 256;

/// Changes on the way to the instances.
#[derive(Debug)]
pub(in crate::manager) struct Follow {
    changes: RefCell<VecDeque<Arc<MapDelta>>>,
    change_signal: watch::Sender<u64>,
    /// The epoch that all instances have applied, or have failed to apply.
    applied_epoch: watch::Sender<MapEpoch>,
}

impl Follow {
    pub(in crate::manager) fn new() -> Follow {
        let (wakes, told) = (watch::Sender::new(0), watch::Sender::new(MapEpoch(0)));
        Follow { changes: RefCell::default(), change_signal: wakes, applied_epoch: told }
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
    pub(in crate::manager) fn opened(&self, epoch: MapEpoch) {
        self.applied_epoch.send_replace(epoch);
        self.change_signal.send_modify(|count| *count += 1);
    }

    /// Waits until the instances of this node have a map of this epoch.
    pub(in crate::manager) async fn reach(&self, epoch: MapEpoch) {
        // This struct has the sender, so the channel is open.
        drop(self.applied_epoch.subscribe().wait_for(|told| *told >= epoch).await);
    }
}

/// Passes on changes for as long as it is polled.
pub(in crate::manager) async fn follow(shared: &Rc<ManagerShared>) {
    let mut wakes = shared.follow.change_signal.subscribe();
    loop {
        // The shared state has the sender.
        if wakes.changed().await.is_err() {
            return;
        }
        while let Some((delta, map)) = next(shared) {
            let faults = apply_map_change(shared.instances(), &delta, &map, MAP_WAIT).await;
            if shared.phase() != NodePhase::Serving {
                // Instances that are stopping follow no more changes.
                return std::future::pending().await;
            }
            for (instance, reason) in faults {
                warn!(
                    instance = instance.0,
                    reason,
                    epoch = map.epoch().0,
                    "an instance has not followed the map"
                );
                shared.record_alert(format!("instance {instance} has not followed the map: {reason}"));
            }
            shared.follow.applied_epoch.send_replace(map.epoch());
        }
    }
}

/// The next change for the instances, and their map after it.
fn next(shared: &ManagerShared) -> Option<(Arc<MapDelta>, Arc<ClusterMap>)> {
    let follow = &shared.follow;
    let told = *follow.applied_epoch.borrow();
    if shared.instances().is_empty() || told == MapEpoch(0) {
        return None;
    }
    let newest = Arc::clone(shared.history.borrow().map());
    let mut joined = None::<Arc<MapDelta>>;
    for delta in follow.changes.borrow_mut().drain(..).filter(|delta| delta.to > told) {
        // If a change does not follow the previous one, the result stays behind the newest map.
        joined = match joined.take() {
            None if delta.from == told => Some(delta),
            None => None,
            Some(before) => MapDelta::clone(&before).join(&delta).ok().map(Arc::new),
        };
    }
    match joined {
        Some(delta) if delta.to == newest.epoch() => Some((delta, newest)),
        _ if newest.epoch() > told => Some((Arc::new(newest.to_delta()), newest)),
        _ => None,
    }
}
