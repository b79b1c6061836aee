//! Passes every change of the map to the instances, in order, however slow an instance is: the agent does not wait for them.

use std::rc::Rc;
use std::sync::Arc;

use tracing::warn;
use zerohop_placement::{ClusterMap, MapDelta};
use zerohop_wire::ids::MapEpoch;

use super::super::instances::apply_map_change;
use super::super::shared::{ManagerShared, NodePhase};
use crate::limits::MAP_WAIT;

/// Passes on changes for as long as it is polled.
pub(in crate::manager) async fn follow(shared: &Rc<ManagerShared>) {
    let mut wakes = shared.map_changes.change_signal.subscribe();
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
            shared.map_changes.applied_epoch.send_replace(map.epoch());
        }
    }
}

/// The next change for the instances, and their map after it.
fn next(shared: &ManagerShared) -> Option<(Arc<MapDelta>, Arc<ClusterMap>)> {
    let map_changes = &shared.map_changes;
    let applied = *map_changes.applied_epoch.borrow();
    if shared.instances().is_empty() || applied == MapEpoch(0) {
        return None;
    }
    let newest = Arc::clone(shared.history.borrow().map());
    let mut joined = None::<Arc<MapDelta>>;
    for delta in map_changes.changes.borrow_mut().drain(..).filter(|delta| delta.to > applied) {
        // If a change does not follow the previous one, the result stays behind the newest map.
        joined = match joined.take() {
            None if delta.from == applied => Some(delta),
            None => None,
            Some(before) => MapDelta::clone(&before).join(&delta).ok().map(Arc::new),
        };
    }
    match joined {
        Some(delta) if delta.to == newest.epoch() => Some((delta, newest)),
        _ if newest.epoch() > applied => Some((Arc::new(newest.to_delta()), newest)),
        _ => None,
    }
}
