//! Passes every change of the map to the instances, in order, however slow an instance is: the agent does not wait for them. An instance
//! that has not confirmed a change gets the complete map again, until it does; so long the node has a trouble.

use std::rc::Rc;
use std::sync::Arc;

use tokio::time::timeout;
use tracing::warn;
use zerohop_placement::{ClusterMap, MapDelta};
use zerohop_wire::ids::{InstanceId, MapEpoch};

use super::super::instances::{apply_map_change, are_behind, repeat_map};
use super::super::shared::{ManagerShared, NodePhase};
use crate::limits::{MAP_REPEAT, MAP_WAIT};

/// Passes on changes for as long as it is polled.
pub(in crate::manager) async fn follow(shared: &Rc<ManagerShared>) {
    let mut wakes = shared.map_changes.change_signal.subscribe();
    loop {
        // The shared state has the sender.
        let changed = match are_behind(shared.instances()) {
            true => timeout(MAP_REPEAT, wakes.changed()).await,
            false => Ok(wakes.changed().await),
        };
        match changed {
            Ok(Ok(())) => {}
            Ok(Err(_)) => return,
            Err(_) => repeat(shared).await,
        }
        while let Some((delta, map)) = next(shared) {
            let faults = apply_map_change(shared.instances(), &delta, &map, MAP_WAIT).await;
            if shared.phase() != NodePhase::Serving {
                // Instances that are stopping follow no more changes.
                return std::future::pending().await;
            }
            report(shared, &faults, map.epoch());
            shared.map_changes.applied_epoch.send_replace(map.epoch());
        }
    }
}

/// Sends the map again to the instances that have not confirmed it. A newer map than the instances know reaches them as the next change.
async fn repeat(shared: &ManagerShared) {
    let map = Arc::clone(shared.history.borrow().map());
    if shared.phase() != NodePhase::Serving || map.epoch() != *shared.map_changes.applied_epoch.borrow() {
        return;
    }
    let faults = repeat_map(shared.instances(), &map, MAP_WAIT).await;
    if shared.phase() == NodePhase::Serving {
        report(shared, &faults, map.epoch());
    }
}

/// Records the instances that have not followed the map, and ends the troubles of those that have.
fn report(shared: &ManagerShared, faults: &[(InstanceId, String)], epoch: MapEpoch) {
    for instance in shared.instances() {
        let trouble = format!("instance {} has not followed the map: ", instance.id);
        let Some((_, reason)) = faults.iter().find(|(id, _)| *id == instance.id) else {
            shared.end_alerts(&trouble);
            continue;
        };
        let alert = format!("{trouble}{reason}");
        if !shared.troubles().contains(&alert) {
            warn!(instance = instance.id.0, reason, epoch = epoch.0, "an instance has not followed the map");
        }
        shared.end_alerts(&trouble);
        shared.record_alert(alert);
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

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use tokio::sync::mpsc;
    use zerohop_placement::MapHistory;
    use zerohop_reactor::Inbox;
    use zerohop_wire::ids::{Incarnation, NodeId};
    use zerohop_wire::messages::ClusterId;

    use super::super::super::NodeIdentity;
    use super::super::super::instances::InstanceHandle;
    use super::*;
    use crate::instance::RecoveredData;

    #[test]
    fn trouble_of_instance_ends_once_it_follows_the_map() {
        let about = NodeIdentity {
            cluster: ClusterId([1; 16]),
            node: NodeId(1),
            incarnation: Incarnation(7),
            started_ms: 0,
            in_memory: true,
            data: None,
            warning: None,
            secret: None,
            tls: None,
            connections: Default::default(),
            http_names: Vec::new(),
        };
        let shared = ManagerShared::new(about, MapHistory::default(), mpsc::channel(1).0);
        let handle = |id| {
            let (mailbox, _) = Inbox::new(Waker::noop().clone());
            InstanceHandle::new(InstanceId(id), mailbox, RecoveredData::default())
        };
        assert!(shared.instances.set([1, 11].map(handle).into()).is_ok());
        let fault = |id, reason: &str| (InstanceId(id), reason.to_owned());
        let alert = |id, reason| format!("instance {id} has not followed the map: {reason}");
        report(&shared, &[fault(1, "slow"), fault(11, "slow")], MapEpoch(2));
        assert_eq!(shared.troubles(), [alert(1, "slow"), alert(11, "slow")]);
        // One line for each instance, and none for one that follows.
        report(&shared, &[fault(11, "ended")], MapEpoch(3));
        assert_eq!(shared.troubles(), [alert(11, "ended")]);
        report(&shared, &[], MapEpoch(4));
        assert_eq!(shared.troubles(), [""; 0]);
    }
}
