//! Control requests of a node in a cluster: this node checks the request, the control group decides it, and the node answers once its instances
//! have applied the change.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{Instant, sleep};
use zerohop_control::agent::ClusterStatus;
use zerohop_control::command::{ControlCommand, MovePartition, RecoverySource};
use zerohop_placement::{KeyOrder, MapChange, NodeState, PendingSplit};
use zerohop_system::clock::unix_ms;
use zerohop_wire::admin::{
    AdminAnswer, AdminDone, AdminQuestion, AdminReply, KeyspaceStatus, LossesAcknowledge, ManagersSet,
    NodeRemove, PartitionMove, PartitionRecover, REFUSED_DECIDED, REFUSED_FAILED, REFUSED_REQUEST,
    REFUSED_UNKNOWN, REFUSED_UNKNOWN_NODE, REFUSED_UNKNOWN_PARTITION,
};
use zerohop_wire::escaped::quoted;
use zerohop_wire::ids::{Incarnation, InstanceId, KeyspaceId, MapEpoch, NodeId, PartitionId};
use zerohop_wire::plurals::counted;

use super::changes::DecidedChange;
use super::cluster_handle::Input;
use super::control_decisions::have_decided;
use super::keyspace_commands::decide;
use super::shared::ManagerShared;
use super::{keyspace_drop, keyspace_split, tokens};
use crate::limits::DROP_CHECK_INTERVAL;

/// Executes a change.
pub(super) async fn change(shared: &Rc<ManagerShared>, query: AdminQuestion) -> AdminAnswer {
    if let Some(reason) = shared.unserved_reason() {
        return AdminAnswer::refused(REFUSED_FAILED, format!("nothing can be changed now: {reason}"));
    }
    let changed = tokens::change(shared.history.borrow().map(), &query, unix_ms());
    if let Some(change) = changed {
        let command = match change {
            Ok(MapChange::PutToken(token)) => ControlCommand::PutToken(token),
            Ok(MapChange::RemoveToken(id)) => ControlCommand::RemoveToken(id),
            Ok(_) => return AdminAnswer::refused(REFUSED_FAILED, "a token is nothing else"),
            Err(refused) => return refused,
        };
        return match have_decided(shared, command).await {
            Ok(done) => AdminAnswer::of(AdminReply::Done(AdminDone { map_epoch: done.epoch.0, number: 0 })),
            Err(refused) => refused,
        };
    }
    match query {
        AdminQuestion::SetNodeState(set) => {
            let state = match set.state.as_str() {
                "draining" => NodeState::Draining,
                "up" => NodeState::Up,
                other => {
                    let reason =
                        format!("a node cannot be made {}: draining, or up", quoted(other.as_bytes()));
                    return AdminAnswer::refused(REFUSED_REQUEST, reason);
                }
            };
            return of_node(shared, set.node, |node, incarnation| ControlCommand::SetNodeState {
                node,
                incarnation,
                state,
            })
            .await;
        }
        AdminQuestion::RemoveNode(NodeRemove { node }) => {
            return of_node(shared, node, |node, _| ControlCommand::RemoveNode(node)).await;
        }
        AdminQuestion::SetManagers(ManagersSet { nodes }) => {
            let nodes = nodes.into_iter().map(NodeId).collect();
            let command = match of_agent(shared, |answer| Input::ManagersOn { nodes, answer }).await {
                Some(Ok(command)) => command,
                Some(Err(reason)) => return AdminAnswer::refused(REFUSED_DECIDED, reason),
                None => return AdminAnswer::refused(REFUSED_FAILED, "the node is about to end"),
            };
            return match have_decided(shared, command).await {
                Ok(done) => AdminAnswer::of(AdminReply::Done(AdminDone {
                    map_epoch: done.epoch.0,
                    number: done.number,
                })),
                Err(refused) => refused,
            };
        }
        AdminQuestion::MovePartition(PartitionMove { keyspace, partition, node, instance }) => {
            let (to, instance) = (node.map(NodeId), instance.map(InstanceId));
            return of_partition(shared, &keyspace, partition, |keyspace, partition| {
                ControlCommand::Move(MovePartition { keyspace, partition, to, instance })
            })
            .await;
        }
        AdminQuestion::AcknowledgeLosses(LossesAcknowledge { keyspace: name, map_epoch }) => {
            let found = shared.history.borrow().map().keyspace_named(&name).map(|(id, _)| id);
            let keyspace = match found {
                _ if name.is_empty() => KeyspaceId::NONE,
                Some(id) => id,
                None => {
                    return AdminAnswer::refused(
                        REFUSED_UNKNOWN,
                        format!("there is no keyspace {}", quoted(name.as_bytes())),
                    );
                }
            };
            let command = ControlCommand::AcknowledgeLosses { keyspace, until: MapEpoch(map_epoch) };
            return match have_decided(shared, command).await {
                Ok(done) => AdminAnswer::of(AdminReply::Done(AdminDone {
                    map_epoch: done.epoch.0,
                    number: done.number,
                })),
                Err(refused) => refused,
            };
        }
        AdminQuestion::RecoverPartition(PartitionRecover { keyspace, partition, keep_damaged }) => {
            let damaged = keep_damaged
                .map(|keeps| if keeps { RecoverySource::Damaged } else { RecoverySource::Follower });
            return of_partition(shared, &keyspace, partition, |keyspace, partition| {
                ControlCommand::Recover { keyspace, partition, damaged }
            })
            .await;
        }
        _ => {}
    }
    let drop_wait = match &query {
        AdminQuestion::DropKeyspace(request) => Some(keyspace_drop::wait(request)),
        _ => None,
    };
    // The control group assigns the id of a new keyspace; for the check any free id is sufficient.
    let free = shared.history.borrow().map().keyspaces().last().map_or(1, |(id, _)| id.0.saturating_add(1));
    let decided = match decide(shared, query, KeyspaceId(free)) {
        Ok(decided) => decided,
        Err(refusal) => return refusal.into_answer(),
    };
    let DecidedChange { delta, mut keyspace } = decided;
    let command = delta.and_then(|delta| delta.changes.into_iter().next()).and_then(|change| match change {
        MapChange::CreateKeyspace { config, .. } => Some((ControlCommand::CreateKeyspace(config), true)),
        MapChange::AlterKeyspace { id, config } => Some((ControlCommand::AlterKeyspace(id, config), false)),
        MapChange::DropKeyspace(id) => Some((ControlCommand::DropKeyspace(id), false)),
        MapChange::BeginDropKeyspace(id) => Some((ControlCommand::BeginDropKeyspace(id), false)),
        MapChange::SplitKeyspace(keyspace) => {
            Some((ControlCommand::BeginSplit { keyspace, split: PendingSplit::Keyspace }, false))
        }
        MapChange::SplitRegion { keyspace, region, separator, share } => {
            let split = PendingSplit::Region { region, separator, share };
            Some((ControlCommand::BeginSplit { keyspace, split }, false))
        }
        _ => None,
    });
    let Some((command, is_new)) = command else {
        return match drop_wait {
            Some(wait) => await_drop(shared, keyspace, wait).await,
            None => AdminAnswer::of(AdminReply::Keyspace(Box::new(keyspace))),
        };
    };
    let closes = matches!(command, ControlCommand::BeginDropKeyspace(_));
    if let ControlCommand::BeginSplit { keyspace: id, split } = command {
        return keyspace_split::split(shared, keyspace, (id, split)).await;
    }
    match have_decided(shared, command).await {
        Ok(_) if closes => await_drop(shared, keyspace, drop_wait.unwrap_or_default()).await,
        Ok(done) => {
            if is_new {
                keyspace.id = u32::try_from(done.number).unwrap_or(keyspace.id);
            }
            AdminAnswer::of(AdminReply::Keyspace(Box::new(keyspace)))
        }
        Err(refused) => refused,
    }
}

/// Waits for a limited time until a keyspace that is being dropped is gone.
async fn await_drop(shared: &Rc<ManagerShared>, keyspace: KeyspaceStatus, wait: Duration) -> AdminAnswer {
    let id = KeyspaceId(keyspace.id);
    let due = Instant::now() + wait;
    while shared.history.borrow().map().keyspace(id).is_some() {
        if Instant::now() >= due {
            let undrained =
                of_agent(shared, |answer| Input::Undrained { keyspace: id, answer }).await.flatten();
            let waits = keyspace_drop::waits(shared.history.borrow().map(), id, undrained.as_deref());
            return keyspace_drop::under_way(&keyspace, &waits);
        }
        sleep(DROP_CHECK_INTERVAL).await;
    }
    AdminAnswer::of(AdminReply::Keyspace(Box::new(keyspace)))
}

/// The pinned partitions of a keyspace, if this node's Raft manager knows them. A standalone node has none.
pub(super) async fn pins(
    shared: &ManagerShared,
    keyspace: &str,
) -> Option<BTreeMap<PartitionId, InstanceId>> {
    let keyspace = shared.history.borrow().map().keyspace_named(keyspace).map(|(id, _)| id)?;
    if shared.cluster_handle().is_none() {
        return Some(BTreeMap::new());
    }
    let pins = of_agent(shared, |answer| Input::Pins { keyspace, answer }).await??;
    Some(pins.into_iter().map(|(partition, pin)| (partition, pin.to)).collect())
}

/// The addresses of the control group's managers, as far as known. A standalone node decides by itself, so that it is its own control group.
pub(super) async fn managers(shared: &ManagerShared) -> Vec<String> {
    if shared.cluster_handle().is_none() {
        let map = shared.history.borrow().map().clone();
        return map.node(shared.node.get()).map(|own| own.manager().to_owned()).into_iter().collect();
    }
    of_agent(shared, Input::Managers).await.unwrap_or_default()
}

/// The state of the cluster; `None` if the node is standalone, or is about to end.
pub(super) async fn cluster_state(shared: &ManagerShared) -> Option<ClusterStatus> {
    of_agent(shared, Input::ClusterState).await
}

/// Sends a query to the agent.
async fn of_agent<T>(shared: &ManagerShared, query: impl FnOnce(oneshot::Sender<T>) -> Input) -> Option<T> {
    let cluster = shared.cluster_handle()?;
    let (answer, answered) = oneshot::channel();
    cluster.inputs.send(query(answer)).await.ok()?;
    answered.await.ok()
}

/// Changes the state of a node.
async fn of_node(
    shared: &Rc<ManagerShared>,
    node: u32,
    command: impl FnOnce(NodeId, Incarnation) -> ControlCommand,
) -> AdminAnswer {
    let id = NodeId(node);
    let found = shared.history.borrow().map().node(id).map(|found| found.incarnation());
    let Some(incarnation) = found else {
        let reason = format!("there is no node {node}: `zerohop node list` has those that there are");
        return AdminAnswer::refused(REFUSED_UNKNOWN_NODE, reason);
    };
    match have_decided(shared, command(id, incarnation)).await {
        Ok(done) => {
            AdminAnswer::of(AdminReply::Done(AdminDone { map_epoch: done.epoch.0, number: done.number }))
        }
        Err(refused) => refused,
    }
}

/// Changes a partition.
async fn of_partition(
    shared: &Rc<ManagerShared>,
    name: &str,
    partition: u32,
    command: impl FnOnce(KeyspaceId, PartitionId) -> ControlCommand,
) -> AdminAnswer {
    let map = shared.history.borrow().map().clone();
    let Some((id, found)) = map.keyspace_named(name) else {
        return AdminAnswer::refused(
            REFUSED_UNKNOWN,
            format!("there is no keyspace {}", quoted(name.as_bytes())),
        );
    };
    if found.group(PartitionId(partition)).is_none() {
        let count = found.config().partitions.get();
        let reason = match found.config().order {
            KeyOrder::Hashed => format!(
                "keyspace {name} has {}, of which the last is {}",
                counted(count, "partition"),
                count - 1
            ),
            KeyOrder::Ordered => {
                format!(
                    "keyspace {name} has no region {partition}: `zerohop region list {name}` has those that there are"
                )
            }
        };
        return AdminAnswer::refused(REFUSED_UNKNOWN_PARTITION, reason);
    }
    match have_decided(shared, command(id, PartitionId(partition))).await {
        Ok(done) => {
            AdminAnswer::of(AdminReply::Done(AdminDone { map_epoch: done.epoch.0, number: done.number }))
        }
        Err(refused) => refused,
    }
}
