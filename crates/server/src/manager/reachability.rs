//! Tells the instances which nodes answer this one, so that their clients get the same answer as those of the manager.

use std::sync::Arc;

use tokio::time::{Instant, sleep};
use zerohop_control::agent::ClusterStatus;
use zerohop_placement::Reachability;

use super::clustered;
use super::shared::ManagerShared;
use crate::instance::InstanceNotice;
use crate::limits::{REACHABILITY_INTERVAL, STATS_WAIT};

/// The part of the status that decides what is served.
pub(super) fn reachability(status: &ClusterStatus) -> Reachability {
    Reachability { has_quorum: status.has_quorum, silent: status.silent.iter().copied().collect() }
}

/// Tells the instances of changes for as long as it is polled.
pub(super) async fn follow(shared: &ManagerShared) {
    if shared.cluster_handle().is_none() {
        // A standalone node decides by itself.
        return std::future::pending().await;
    }
    let mut reported = Arc::new(Reachability::ALL);
    loop {
        sleep(REACHABILITY_INTERVAL).await;
        let Some(status) = clustered::cluster_state(shared).await else { continue };
        let now = Arc::new(reachability(&status));
        if shared.instances().is_empty() || now == reported {
            continue;
        }
        let due = Instant::now() + STATS_WAIT;
        let mut have_all = true;
        for instance in shared.instances() {
            have_all &= instance.leave(InstanceNotice::Reachability(Arc::clone(&now)), due).await;
        }
        if have_all {
            reported = now;
        }
    }
}
