//! Control requests of a node in a cluster: decided here as far as words go, then by the control group, and answered once
//! this node's instances know.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, timeout};
use zerohop_control::agent::Standing;
use zerohop_control::command::{self, Command, Keep, Move, Refusal};
use zerohop_placement::{Change, NodeState};
use zerohop_wire::admin::{
    AdminAnswer, Answer, Ask, Done, KeyspaceStatus, LossesAcknowledge, ManagersSet, NodeRemove,
    PartitionMove, PartitionRecover, REFUSED_DECIDED, REFUSED_FAILED, REFUSED_REQUEST, REFUSED_UNKNOWN,
    REFUSED_UNKNOWN_NODE, REFUSED_UNKNOWN_PARTITION,
};
use zerohop_wire::ids::{Incarnation, InstanceId, KeyspaceId, MapEpoch, NodeId, PartitionId};

use super::changes::Decided;
use super::closing;
use super::cluster::Input;
use super::jobs::decide;
use super::shared::Shared;
use super::tokens;
use crate::clock::unix_ms;
use crate::server::limits::{DROP_LOOK, MAP_WAIT};

/// Carries a change out.
pub(super) async fn change(shared: &Rc<Shared>, ask: Ask) -> AdminAnswer {
    if let Some(reason) = shared.why_not() {
        return AdminAnswer::refused(REFUSED_FAILED, format!("nothing can be changed now: {reason}"));
    }
    let changed = tokens::change(shared.history.borrow().map(), &ask, unix_ms());
    if let Some(change) = changed {
        let command = match change {
            Ok(Change::PutToken(token)) => Command::PutToken(token),
            Ok(Change::RemoveToken(id)) => Command::RemoveToken(id),
            Ok(_) => return AdminAnswer::refused(REFUSED_FAILED, "a token is nothing else"),
            Err(refused) => return refused,
        };
        return match have_decided(shared, command).await {
            Ok(done) => AdminAnswer::of(Answer::Done(Done { map_epoch: done.epoch.0, number: 0 })),
            Err(refused) => refused,
        };
    }
    match ask {
        Ask::SetNodeState(set) => {
            let state = match set.state.as_str() {
                "draining" => NodeState::Draining,
                "up" => NodeState::Up,
                other => {
                    let reason = format!("a node cannot be made {other:?}: draining, or up");
                    return AdminAnswer::refused(REFUSED_REQUEST, reason);
                }
            };
            return of_node(shared, set.node, |node, incarnation| Command::SetNodeState {
                node,
                incarnation,
                state,
            })
            .await;
        }
        Ask::RemoveNode(NodeRemove { node }) => {
            return of_node(shared, node, |node, _| Command::RemoveNode(node)).await;
        }
        Ask::SetManagers(ManagersSet { nodes }) => {
            let nodes = nodes.into_iter().map(NodeId).collect();
            let command = match of_agent(shared, |answer| Input::ManagersOn { nodes, answer }).await {
                Some(Ok(command)) => command,
                Some(Err(reason)) => return AdminAnswer::refused(REFUSED_DECIDED, reason),
                None => return AdminAnswer::refused(REFUSED_FAILED, "the node is about to end"),
            };
            return match have_decided(shared, command).await {
                Ok(done) => {
                    AdminAnswer::of(Answer::Done(Done { map_epoch: done.epoch.0, number: done.number }))
                }
                Err(refused) => refused,
            };
        }
        Ask::MovePartition(PartitionMove { keyspace, partition, node, instance }) => {
            let (to, instance) = (node.map(NodeId), instance.map(InstanceId));
            return of_partition(shared, &keyspace, partition, |keyspace, partition| {
                Command::Move(Move { keyspace, partition, to, instance })
            })
            .await;
        }
        Ask::AcknowledgeLosses(LossesAcknowledge { keyspace: name, map_epoch }) => {
            let found = shared.history.borrow().map().keyspace_named(&name).map(|(id, _)| id);
            let keyspace = match found {
                _ if name.is_empty() => KeyspaceId::NONE,
                Some(id) => id,
                None => {
                    return AdminAnswer::refused(REFUSED_UNKNOWN, format!("there is no keyspace {name:?}"));
                }
            };
            let command = Command::AcknowledgeLosses { keyspace, until: MapEpoch(map_epoch) };
            return match have_decided(shared, command).await {
                Ok(done) => {
                    AdminAnswer::of(Answer::Done(Done { map_epoch: done.epoch.0, number: done.number }))
                }
                Err(refused) => refused,
            };
        }
        Ask::RecoverPartition(PartitionRecover { keyspace, partition, keep_damaged }) => {
            let damaged = keep_damaged.map(|keeps| if keeps { Keep::Damaged } else { Keep::Follower });
            return of_partition(shared, &keyspace, partition, |keyspace, partition| Command::Recover {
                keyspace,
                partition,
                damaged,
            })
            .await;
        }
        _ => {}
    }
    let drop_wait = match &ask {
        Ask::DropKeyspace(asked) => Some(closing::wait(asked)),
        _ => None,
    };
    // The control group gives a new keyspace its number; any that is free serves to look for what is wrong.
    let free = shared.history.borrow().map().keyspaces().last().map_or(1, |(id, _)| id.0.saturating_add(1));
    let decided = match decide(shared, ask, KeyspaceId(free)) {
        Ok(decided) => decided,
        Err(refusal) => return refusal.into_answer(),
    };
    let Decided { delta, mut keyspace } = decided;
    let command = delta.and_then(|delta| delta.changes.into_iter().next()).and_then(|change| match change {
        Change::CreateKeyspace { config, .. } => Some((Command::CreateKeyspace(config), true)),
        Change::AlterKeyspace { id, config } => Some((Command::AlterKeyspace(id, config), false)),
        Change::DropKeyspace(id) => Some((Command::DropKeyspace(id), false)),
        Change::CloseKeyspace(id) => Some((Command::CloseKeyspace(id), false)),
        Change::SplitKeyspace(id) => Some((Command::SplitKeyspace(id), false)),
        _ => None,
    });
    let Some((command, is_new)) = command else {
        return match drop_wait {
            Some(wait) => await_drop(shared, keyspace, wait).await,
            None => AdminAnswer::of(Answer::Keyspace(keyspace)),
        };
    };
    let closes = matches!(command, Command::CloseKeyspace(_));
    match have_decided(shared, command).await {
        Ok(_) if closes => await_drop(shared, keyspace, drop_wait.unwrap_or_default()).await,
        Ok(done) => {
            if is_new {
                keyspace.id = u32::try_from(done.number).unwrap_or(keyspace.id);
            }
            AdminAnswer::of(Answer::Keyspace(keyspace))
        }
        Err(refused) => refused,
    }
}

/// Waits, for a while, until a keyspace that is being dropped is gone.
async fn await_drop(shared: &Rc<Shared>, keyspace: KeyspaceStatus, wait: Duration) -> AdminAnswer {
    let id = KeyspaceId(keyspace.id);
    let due = Instant::now() + wait;
    while shared.history.borrow().map().keyspace(id).is_some() {
        if Instant::now() >= due {
            let undrained =
                of_agent(shared, |answer| Input::Undrained { keyspace: id, answer }).await.flatten();
            let waits = closing::waits(shared.history.borrow().map(), id, undrained.as_deref());
            return closing::under_way(&keyspace, &waits);
        }
        sleep(DROP_LOOK).await;
    }
    AdminAnswer::of(Answer::Keyspace(keyspace))
}

/// Where operators want partitions of a keyspace, if this node's part in the control group knows; a node that stands alone has none
/// that could be elsewhere.
pub(super) async fn pins(shared: &Shared, keyspace: &str) -> Option<BTreeMap<PartitionId, InstanceId>> {
    let keyspace = shared.history.borrow().map().keyspace_named(keyspace).map(|(id, _)| id)?;
    if shared.cluster_handle().is_none() {
        return Some(BTreeMap::new());
    }
    let pins = of_agent(shared, |answer| Input::Pins { keyspace, answer }).await??;
    Some(pins.into_iter().map(|(partition, pin)| (partition, pin.to)).collect())
}

/// Where the managers of the control group listen, as far as is known; none if the node stands alone.
pub(super) async fn managers(shared: &Shared) -> Vec<String> {
    of_agent(shared, Input::Managers).await.unwrap_or_default()
}

/// How the cluster stands; `None` if the node stands alone, or is about to end.
pub(super) async fn standing(shared: &Shared) -> Option<Standing> {
    of_agent(shared, Input::Standing).await
}

/// Asks the agent something.
async fn of_agent<T>(shared: &Shared, ask: impl FnOnce(oneshot::Sender<T>) -> Input) -> Option<T> {
    let cluster = shared.cluster_handle()?;
    let (answer, answered) = oneshot::channel();
    cluster.inputs.send(ask(answer)).await.ok()?;
    answered.await.ok()
}

/// Changes a node.
async fn of_node(
    shared: &Rc<Shared>,
    node: u32,
    command: impl FnOnce(NodeId, Incarnation) -> Command,
) -> AdminAnswer {
    let id = NodeId(node);
    let found = shared.history.borrow().map().node(id).map(|found| found.incarnation());
    let Some(incarnation) = found else {
        let reason = format!("there is no node {node}: `zerohop node list` has those that there are");
        return AdminAnswer::refused(REFUSED_UNKNOWN_NODE, reason);
    };
    match have_decided(shared, command(id, incarnation)).await {
        Ok(done) => AdminAnswer::of(Answer::Done(Done { map_epoch: done.epoch.0, number: done.number })),
        Err(refused) => refused,
    }
}

/// Changes a partition.
async fn of_partition(
    shared: &Rc<Shared>,
    name: &str,
    partition: u32,
    command: impl FnOnce(KeyspaceId, PartitionId) -> Command,
) -> AdminAnswer {
    let map = shared.history.borrow().map().clone();
    let Some((id, found)) = map.keyspace_named(name) else {
        return AdminAnswer::refused(REFUSED_UNKNOWN, format!("there is no keyspace {name:?}"));
    };
    let count = found.config().partitions.get();
    if partition >= count {
        let reason = format!("keyspace {name} has {count} partitions, of which the last is {}", count - 1);
        return AdminAnswer::refused(REFUSED_UNKNOWN_PARTITION, reason);
    }
    match have_decided(shared, command(id, PartitionId(partition))).await {
        Ok(done) => AdminAnswer::of(Answer::Done(Done { map_epoch: done.epoch.0, number: done.number })),
        Err(refused) => refused,
    }
}

/// Has the control group decide, and waits until the instances of this node know.
async fn have_decided(shared: &Rc<Shared>, command: Command) -> Result<command::Done, AdminAnswer> {
    let failed = |reason: String| AdminAnswer::refused(REFUSED_FAILED, reason);
    let Some(cluster) = shared.cluster_handle() else {
        return Err(failed("there is no cluster".to_owned()));
    };
    let done = match cluster.operate(command).await {
        Ok(outcome) => outcome.result.map_err(|refusal| match refusal {
            // It may be otherwise in a moment.
            Refusal::StaleIncarnation | Refusal::StaleEpoch { .. } | Refusal::TooOld => {
                failed(refusal.to_string())
            }
            _ => AdminAnswer::refused(REFUSED_DECIDED, refusal.to_string()),
        })?,
        Err(error) => return Err(failed(error.to_string())),
    };
    match timeout(MAP_WAIT, shared.follow.reach(done.epoch)).await {
        Ok(()) => Ok(done),
        Err(_) => Err(failed(format!(
            "the change is made (map epoch {}), but not every instance of this node has followed it within {MAP_WAIT:?}",
            done.epoch
        ))),
    }
}
