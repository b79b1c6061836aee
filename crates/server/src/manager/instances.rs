//! The manager's side of the channel to the instances: messages to them, and answers with a time limit.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, timeout_at};
use zerohop_placement::{ClusterMap, MapDelta, MapError};
use zerohop_reactor::{NoticeError, ReactorMailbox};
use zerohop_shard::{InstanceStats, KeyspaceFigures, MapChangeError};
use zerohop_wire::ids::{InstanceId, KeyspaceId};

use crate::instance::{Figures, InstanceNotice, RecoveredData};
use crate::limits::{INBOX_FULL_PAUSE, STATS_WAIT};

/// The manager's handle of one instance.
#[derive(Debug)]
pub(crate) struct InstanceHandle {
    pub(crate) id: InstanceId,
    pub(crate) mailbox: ReactorMailbox<InstanceNotice>,
    pub(crate) recovered: RecoveredData,
    /// The instance has not confirmed the last change of the map: its next change is a complete map.
    behind: Cell<bool>,
}

impl InstanceHandle {
    pub(crate) fn new(
        id: InstanceId,
        mailbox: ReactorMailbox<InstanceNotice>,
        recovered: RecoveredData,
    ) -> Self {
        InstanceHandle { id, mailbox, recovered, behind: Cell::new(false) }
    }

    /// Sends a notice, and waits for room until `due`. `false`: there was none, or the instance has ended.
    pub(crate) async fn leave(&self, mut notice: InstanceNotice, due: Instant) -> bool {
        loop {
            notice = match self.mailbox.leave(notice) {
                Ok(()) => return true,
                Err(NoticeError::Ended(_)) => return false,
                Err(NoticeError::Full(notice)) if Instant::now() < due => notice,
                Err(NoticeError::Full(_)) => return false,
            };
            sleep(INBOX_FULL_PAUSE).await;
        }
    }
}

/// The figures of keyspaces, summed over instances.
pub(super) fn by_keyspace<'f>(
    instances: impl Iterator<Item = &'f InstanceStats>,
) -> BTreeMap<KeyspaceId, KeyspaceFigures> {
    let mut sums: BTreeMap<KeyspaceId, KeyspaceFigures> = BTreeMap::new();
    for (id, figures) in instances.flat_map(|stats| &stats.keyspaces) {
        let sum = sums.entry(*id).or_default();
        sum.copies += figures.copies;
        sum.records += figures.records;
        sum.log_bytes += figures.log_bytes;
        sum.failed_copies += figures.failed_copies;
        sum.failed_primaries += figures.failed_primaries;
    }
    sums
}

/// Sends a change of the map to every instance, and waits until they have applied it, within a time limit. Returns the problems in words.
pub(super) async fn apply_map_change(
    instances: &[InstanceHandle],
    delta: &Arc<MapDelta>,
    map: &ClusterMap,
    wait: Duration,
) -> Vec<(InstanceId, String)> {
    send_map(instances.iter(), delta, map, wait).await
}

/// Whether an instance has not confirmed the last change of the map.
pub(super) fn are_behind(instances: &[InstanceHandle]) -> bool {
    instances.iter().any(|instance| instance.behind.get())
}

/// Sends the complete map to the instances that have not confirmed the last change. Returns the problems in words.
pub(super) async fn repeat_map(
    instances: &[InstanceHandle],
    map: &ClusterMap,
    wait: Duration,
) -> Vec<(InstanceId, String)> {
    let behind = instances.iter().filter(|instance| instance.behind.get());
    send_map(behind, &Arc::new(map.to_delta()), map, wait).await
}

async fn send_map(
    instances: impl Iterator<Item = &InstanceHandle>,
    delta: &Arc<MapDelta>,
    map: &ClusterMap,
    wait: Duration,
) -> Vec<(InstanceId, String)> {
    let due = Instant::now() + wait;
    let mut waits = Vec::new();
    for instance in instances {
        let was_behind = instance.behind.get();
        let whole = was_behind.then(|| Arc::new(map.to_delta()));
        let (done, answer) = oneshot::channel();
        let notice = InstanceNotice::Map { delta: whole.unwrap_or_else(|| Arc::clone(delta)), done };
        instance.behind.set(true);
        waits.push((instance, was_behind, instance.leave(notice, due).await.then_some(answer)));
    }
    let mut faults = Vec::new();
    for (instance, was_behind, answer) in waits {
        let reason = match answer {
            None => format!("it takes no message for {wait:?}, or has ended"),
            Some(answer) => match timeout_at(due, answer).await {
                Ok(Ok(Ok(()))) => {
                    instance.behind.set(false);
                    continue;
                }
                // The instance has confirmed this map too late, so it got the complete one again.
                Ok(Ok(Err(MapChangeError::Map(MapError::NotNewer { .. })))) if was_behind => {
                    instance.behind.set(false);
                    continue;
                }
                Ok(Ok(Err(error @ MapChangeError::Partition(_)))) => {
                    // The instance has the map; the error is about a partition that it could not open or remove.
                    instance.behind.set(false);
                    error.to_string()
                }
                Ok(Ok(Err(error))) => error.to_string(),
                Ok(Err(_)) => "it has ended".to_owned(),
                Err(_) => format!(
                    "it has not answered for {wait:?}: its disk is slow or stuck, or it gets no processor time"
                ),
            },
        };
        faults.push((instance.id, reason));
    }
    faults
}

/// Sends a notice to every instance and waits until each has confirmed it. `false`: not all have, within this time.
pub(super) async fn notify_all(
    instances: &[InstanceHandle],
    notice: impl Fn(oneshot::Sender<()>) -> InstanceNotice,
    wait: Duration,
) -> bool {
    let due = Instant::now() + wait;
    let mut waits = Vec::with_capacity(instances.len());
    for instance in instances {
        let (done, answer) = oneshot::channel();
        waits.push(instance.leave(notice(done), due).await.then_some(answer));
    }
    let mut are_done = true;
    for answer in waits {
        are_done &= match answer {
            Some(answer) => matches!(timeout_at(due, answer).await, Ok(Ok(()))),
            None => false,
        };
    }
    are_done
}

/// The figures of an instance; `None`: it did not answer in time.
pub(super) type InstanceFigures = Option<Box<Figures>>;

/// Requests the figures of every instance.
pub(super) async fn figures(instances: &[InstanceHandle]) -> Vec<InstanceFigures> {
    figures_with(instances, false).await
}

/// The same; `records_waits`: every instance records where operations wait, for some seconds from now on, and reports it.
pub(super) async fn figures_with(instances: &[InstanceHandle], records_waits: bool) -> Vec<InstanceFigures> {
    let due = Instant::now() + STATS_WAIT;
    let mut waits = Vec::with_capacity(instances.len());
    for instance in instances {
        let (requester, answer) = oneshot::channel();
        let notice = InstanceNotice::Figures { records_waits, reply_to: requester };
        waits.push(instance.leave(notice, due).await.then_some(answer));
    }
    let mut figures = Vec::with_capacity(waits.len());
    for answer in waits {
        figures.push(match answer {
            Some(answer) => timeout_at(due, answer).await.ok().and_then(Result::ok),
            None => None,
        });
    }
    figures
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use tokio::task::yield_now;
    use zerohop_placement::{Address, KeyspaceConfig, MapChange, Node, NodeState};
    use zerohop_wire::ids::{Incarnation, NodeId};

    use super::*;
    use zerohop_reactor::Inbox;

    const WAIT: Duration = Duration::from_millis(30);

    fn map() -> ClusterMap {
        let address = |text: &str| Address::new(text).unwrap();
        let node = Node {
            id: NodeId(1),
            state: NodeState::Up,
            incarnation: Incarnation(7),
            manager: address("127.0.0.1:7400"),
            first_instance: InstanceId(1),
            instances: vec![address("127.0.0.1:7401")],
        };
        ClusterMap::of_one_node(node, 1).unwrap()
    }

    /// The next map, by an arbitrary change.
    fn next(map: &ClusterMap) -> (Arc<MapDelta>, ClusterMap) {
        let (id, keyspace) = map.keyspaces().next().unwrap();
        let batch_bytes = keyspace.config().batch_bytes + 1;
        let config = KeyspaceConfig { batch_bytes, ..keyspace.config().clone() };
        let changes = vec![MapChange::AlterKeyspace { id, config }];
        let delta = MapDelta { from: map.epoch(), to: map.epoch().next(), changes };
        let map = map.apply(&delta).unwrap();
        (Arc::new(delta), map)
    }

    async fn take_map_change(
        inbox: &Inbox<InstanceNotice>,
    ) -> (bool, oneshot::Sender<Result<(), MapChangeError>>) {
        loop {
            match inbox.take() {
                Some(InstanceNotice::Map { delta, done }) => return (delta.is_complete(), done),
                Some(other) => panic!("another notice: {other:?}"),
                None => yield_now().await,
            }
        }
    }

    #[test]
    fn complete_map_is_repeated_to_instances_that_have_not_confirmed() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let mailboxes = [1, 2].map(|_| Inbox::new(Waker::noop().clone()));
            let [(slow, from_slow), (other, from_other)] = mailboxes;
            let handle = |id, mailbox| InstanceHandle::new(InstanceId(id), mailbox, RecoveredData::default());
            let instances = [handle(1, slow), handle(2, other)];
            assert!(!are_behind(&instances));
            let (delta, first) = next(&map());
            let follow = async {
                take_map_change(&from_other).await.1.send(Ok(())).unwrap();
            };
            let (faults, ()) = tokio::join!(apply_map_change(&instances, &delta, &first, WAIT), follow);
            assert_eq!(faults.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [InstanceId(1)]);
            assert!(are_behind(&instances));
            take_map_change(&from_slow).await;
            let follow = async {
                let (is_whole, done) = take_map_change(&from_slow).await;
                // It has followed the change after all, so this is the answer of its map.
                let error = first.apply(&first.to_delta()).unwrap_err();
                done.send(Err(MapChangeError::Map(error))).unwrap();
                is_whole
            };
            let (faults, is_whole) = tokio::join!(repeat_map(&instances, &first, WAIT), follow);
            assert!(faults.is_empty() && is_whole && !are_behind(&instances), "{faults:?}");
            assert!(from_other.take().is_none(), "it has confirmed before");
        });
    }

    #[test]
    fn instance_that_missed_a_change_gets_the_complete_map() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let (mailbox, inbox) = Inbox::new(Waker::noop().clone());
            let instances = [InstanceHandle::new(InstanceId(1), mailbox, RecoveredData::default())];
            let (delta, first) = next(&map());
            let faults = apply_map_change(&instances, &delta, &first, WAIT).await;
            assert!(faults[0].1.contains("has not answered for 30ms"), "{faults:?}");
            // The notice is processed too late: the sender no longer waits for the answer.
            assert!(!take_map_change(&inbox).await.0);

            let (delta, second) = next(&first);
            let follow = async {
                let (is_whole, done) = take_map_change(&inbox).await;
                done.send(Ok(())).unwrap();
                is_whole
            };
            let (faults, is_whole) =
                tokio::join!(apply_map_change(&instances, &delta, &second, WAIT), follow);
            assert!(faults.is_empty() && is_whole, "{faults:?}");

            let (delta, third) = next(&second);
            let refuse = async {
                let (is_whole, done) = take_map_change(&inbox).await;
                let error = zerohop_placement::MapError::NotNewer { map: third.epoch(), to: delta.to };
                done.send(Err(MapChangeError::Map(error))).unwrap();
                is_whole
            };
            let (faults, is_whole) = tokio::join!(apply_map_change(&instances, &delta, &third, WAIT), refuse);
            assert!(!is_whole && faults.len() == 1, "{faults:?}");
            drop(inbox);
            let (delta, fourth) = next(&third);
            let faults = apply_map_change(&instances, &delta, &fourth, WAIT).await;
            assert!(faults[0].1.contains("has ended"), "{faults:?}");
        });
    }
}
