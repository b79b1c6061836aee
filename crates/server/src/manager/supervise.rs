//! The life of the node: it serves until it is stopped or an instance ends, and then stops all instances. After SIGTERM,
//! SIGINT or SIGHUP, it first has other nodes take over its primaries. After a failure, it announces its end to the other nodes without waiting for them.

use std::io;
use std::rc::Rc;
use std::sync::Arc;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::spawn_local;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tracing::{error, info, warn};
use zerohop_disk::FileSizeLimit;
use zerohop_placement::NodeState;
use zerohop_wire::ids::InstanceId;

use super::cluster_handle::Input;
use super::instances::notify_all;
use super::shared::{ManagerShared, NodePhase};
use super::{ManagerInput, Serve};
use crate::error::ServeError;
use crate::instance::{InstanceExit, InstanceNotice};
use crate::limits::{
    END_CLIENTS_WAIT, HAND_OVER_CHECK_INTERVAL, HAND_OVER_LINGER, HAND_OVER_WAIT, STOP_WAIT, YIELD_WAIT,
};
use crate::process::is_signal_ignored;

/// Returns once the node has ended.
pub(super) async fn run(
    shared: &Rc<ManagerShared>,
    mut control: mpsc::Receiver<ManagerInput>,
    stop: &Arc<Notify>,
    mut over: oneshot::Receiver<ServeError>,
) -> Result<(), ServeError> {
    let leave = Arc::new(Notify::new());
    let mut over_error = None;
    let mut ended: Vec<InstanceExit> = Vec::new();
    let why = loop {
        let input = tokio::select! {
            input = control.recv() => input,
            () = stop.notified() => break NodePhase::Stopping,
            () = leave.notified() => {
                tokio::select! {
                    () = leave_in_order(shared) => {}
                    () = stop.notified() => {}
                    () = leave.notified() => {}
                }
                break NodePhase::Stopping;
            }
            // The sender is dropped only with the manager.
            Ok(error) = &mut over => {
                let reason = error.to_string();
                error!(reason, "{}", end_words(&error));
                over_error = Some(error);
                break NodePhase::Failed(reason);
            }
        };
        match input {
            Some(ManagerInput::Serve(serving)) => serve(shared, serving).await,
            Some(ManagerInput::Signals(requester)) => {
                if let Some(limit) = FileSizeLimit::in_effect().filter(|_| !shared.about.in_memory) {
                    warn!("{limit}");
                }
                drop(requester.try_send(stop_on_signals(stop, &leave)));
            }
            Some(ManagerInput::Ended(one)) => {
                let reason = match &one.how {
                    Ok(()) => "ended without a request".to_owned(),
                    Err(reason) => reason.clone(),
                };
                let text = format!("instance {} has ended: {reason}", id(shared, one.instance_index));
                error!(reason = text, "the node cannot continue, and stops");
                ended.push(one);
                break NodePhase::Failed(text);
            }
            // The server ended without a message.
            None => break NodePhase::Stopping,
        }
    };
    if matches!(why, NodePhase::Failed(_)) {
        // Its instances may need seconds to stop, and other nodes would consider it alive until then.
        announce_end(shared).await;
    }
    info!(phase = why.name(), "stopping");
    shared.phase.replace(why);
    let stopped = stop_all(shared, &mut control, ended).await;
    match over_error {
        Some(error) => Err(error),
        None => stopped,
    }
}

/// The log line about the end of the agent. Only a node with no place in the cluster has lost its membership.
fn end_words(error: &ServeError) -> &'static str {
    match error {
        ServeError::NoPlace { .. } => "the node is no longer a member of the cluster, and stops",
        _ => "the node cannot continue, and stops",
    }
}

async fn serve(shared: &Rc<ManagerShared>, serving: Serve) {
    let Serve { handles: instances, epoch, is_intact, is_closed, executed } = serving;
    for instance in &instances {
        for damage in &instance.recovered.damage {
            shared.record_alert(format!("instance {}: {damage}", instance.id));
        }
        let named = instance.recovered.damage.len();
        if instance.recovered.damaged > named {
            let more = instance.recovered.damaged - named;
            shared.record_alert(format!("instance {}: {more} more pieces of damage", instance.id));
        }
    }
    // This is set only once.
    drop(shared.instances.set(instances));
    shared.phase.replace(NodePhase::Serving);
    executed.try_send(()).ok();
    info!(map_epoch = shared.history.borrow().map().epoch().0, "serving");
    shared.map_changes.opened(epoch);
    if let Some(cluster) = shared.cluster_handle() {
        // The agent accepts every input, and the channel has room for this one; if the agent has ended, so does the node.
        drop(cluster.inputs.send(Input::Opened { intact: is_intact, closed: is_closed }).await);
    }
}

/// Stops the running instances, and waits for them.
async fn stop_all(
    shared: &Rc<ManagerShared>,
    control: &mut mpsc::Receiver<ManagerInput>,
    mut ended: Vec<InstanceExit>,
) -> Result<(), ServeError> {
    let due = Instant::now() + STOP_WAIT;
    let instances = shared.instances();
    for (place, instance) in instances.iter().enumerate() {
        if !ended.iter().any(|one| one.instance_index == place) {
            instance.leave(InstanceNotice::Stop, due).await;
        }
    }
    while ended.len() < instances.len() {
        match timeout_at(due, control.recv()).await {
            Ok(Some(ManagerInput::Ended(one))) => ended.push(one),
            Ok(Some(_)) => {}
            Ok(None) | Err(_) => break,
        }
    }
    for one in &ended {
        if let Err(reason) = &one.how {
            return Err(ServeError::Instance {
                instance: id(shared, one.instance_index),
                reason: reason.clone(),
            });
        }
    }
    let is_missing = |place: &usize| !ended.iter().any(|one| one.instance_index == *place);
    match (0..instances.len()).find(is_missing) {
        Some(place) => Err(ServeError::Overdue { instance: id(shared, place), waited: STOP_WAIT }),
        None => Ok(()),
    }
}

fn id(shared: &ManagerShared, place: usize) -> InstanceId {
    let map = shared.history.borrow().map().clone();
    let node = map.node(shared.node.get());
    let found = node.and_then(|node| node.instances().nth(place));
    found.map_or(InstanceId(0), |instance| instance.id)
}

/// Has other nodes take over, and then answers the pending commands of Redis clients.
async fn leave_in_order(shared: &Rc<ManagerShared>) {
    if shared.phase() != NodePhase::Serving {
        return;
    }
    hand_over_primaries(shared).await;
    if !notify_all(shared.instances(), InstanceNotice::EndClients, END_CLIENTS_WAIT).await {
        warn!(waited = ?END_CLIENTS_WAIT, "not all commands of Redis clients could be answered before the end");
    }
}

/// Has other nodes take over the primaries of this node, while it still serves; with a time limit, because there may be no other nodes.
async fn hand_over_primaries(shared: &Rc<ManagerShared>) {
    let Some(cluster) = shared.cluster_handle() else { return };
    let me = shared.node.get();
    let map = || Arc::clone(shared.history.borrow().map());
    let has_others = map().nodes().any(|node| node.id() != me && node.state() != NodeState::Down);
    if !has_others {
        return;
    }
    info!("handing over to the other nodes");
    let handed_over = async {
        // Writes that are pending when other nodes take over would end with an unknown outcome.
        notify_all(shared.instances(), InstanceNotice::Yield, YIELD_WAIT).await;
        if cluster.inputs.send(Input::Leave).await.is_err() {
            return;
        }
        loop {
            let map = map();
            if map.node(me).is_none_or(|node| node.state() == NodeState::Down) {
                shared.map_changes.reach(map.epoch()).await;
                return sleep(HAND_OVER_LINGER).await;
            }
            sleep(HAND_OVER_CHECK_INTERVAL).await;
        }
    };
    if timeout(HAND_OVER_WAIT, handed_over).await.is_err() {
        warn!(waited = ?HAND_OVER_WAIT, "no other node has taken over");
    }
}

/// Has the agent announce to the other nodes that this node ends. It waits for no takeover.
async fn announce_end(shared: &Rc<ManagerShared>) {
    if let Some(cluster) = shared.cluster_handle() {
        // An agent that has ended announces nothing.
        drop(timeout(HAND_OVER_LINGER, cluster.inputs.send(Input::Leave)).await);
    }
}

/// Stops the node after a hand-over on SIGTERM (from the system), SIGINT (from a terminal) and SIGHUP (from a terminal that is closed), unless the
/// process was started with SIGHUP ignored, as by `nohup`. SIGQUIT stops it without a hand-over: the process that stops all nodes of a local
/// cluster sends it.
fn stop_on_signals(stop: &Arc<Notify>, leave: &Arc<Notify>) -> io::Result<()> {
    let hang_up = (!is_signal_ignored(rustix::process::Signal::HUP)).then_some((SignalKind::hangup(), leave));
    let others =
        [(SignalKind::terminate(), leave), (SignalKind::interrupt(), leave), (SignalKind::quit(), stop)];
    for (kind, notify) in others.into_iter().chain(hang_up) {
        let mut signals = signal(kind)?;
        let stop = Arc::clone(notify);
        spawn_local(async move {
            while signals.recv().await.is_some() {
                info!(signal = kind.as_raw_value(), "received a signal to stop");
                stop.notify_one();
            }
        });
    }
    // Under a limit of file sizes, which batch systems set, the system would end the process at a write. With a handler for the signal, the write
    // fails instead, as on a full disk.
    drop(signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw()))?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::cluster::MembershipEnd;
    use super::*;

    #[test]
    fn node_whose_control_log_cannot_be_written_stays_a_member() {
        let error = ServeError::from(MembershipEnd::Store("control.log: I/O error".to_owned()));
        assert_eq!(end_words(&error), "the node cannot continue, and stops");
        let reason = error.to_string();
        assert!(
            reason.contains("control.log: I/O error") && reason.contains("stays a member of the cluster"),
            "{reason}"
        );
        let removed = ServeError::NoPlace { reason: "node 4 was removed from the cluster".to_owned() };
        assert_eq!(end_words(&removed), "the node is no longer a member of the cluster, and stops");
    }
}
