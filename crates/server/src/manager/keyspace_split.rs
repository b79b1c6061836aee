//! Splits of keyspaces and regions, which wait for the primaries of their partitions.

use std::rc::Rc;

use tokio::time::{Instant, sleep};
use zerohop_control::command::ControlCommand;
use zerohop_placement::{Keyspace, PendingSplit};
use zerohop_wire::admin::{
    AdminAnswer, AdminReply, KeyspaceStatus, REFUSED_DECIDED, REFUSED_UNDECIDED, REFUSED_UNKNOWN,
};
use zerohop_wire::ids::KeyspaceId;

use super::control_decisions::{followed, have_decided};
use super::shared::ManagerShared;
use crate::limits::{SPLIT_CHECK_INTERVAL, SPLIT_WAIT};

/// How far a split is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SplitStage {
    Pending,
    Done,
    GivenUp,
}

/// The stage of a split of a keyspace that had been split so often before.
fn stage(found: &Keyspace, split: &PendingSplit, splits_before: u8) -> SplitStage {
    let is_done = match split {
        PendingSplit::Keyspace => found.splits() > splits_before,
        PendingSplit::Region { region, .. } => found.group(*region).is_none(),
    };
    match found.pending_split() {
        _ if is_done => SplitStage::Done,
        Some(pending) if pending == split => SplitStage::Pending,
        _ => SplitStage::GivenUp,
    }
}

/// Begins a split, and waits for a limited time until it is done. `keyspace` is the answer then.
pub(super) async fn split(
    shared: &Rc<ManagerShared>,
    keyspace: KeyspaceStatus,
    (id, split): (KeyspaceId, PendingSplit),
) -> AdminAnswer {
    let splits_before = shared.history.borrow().map().keyspace(id).map_or(0, Keyspace::splits);
    if let Err(refused) =
        have_decided(shared, ControlCommand::BeginSplit { keyspace: id, split: split.clone() }).await
    {
        return refused;
    }
    let due = Instant::now() + SPLIT_WAIT;
    let name = &keyspace.name;
    loop {
        let map = shared.history.borrow().map().clone();
        let Some(found) = map.keyspace(id) else {
            return AdminAnswer::refused(
                REFUSED_UNKNOWN,
                format!("keyspace {name} was dropped before its split"),
            );
        };
        match stage(found, &split, splits_before) {
            SplitStage::Done => {
                let followed = followed(shared, map.epoch()).await;
                return followed
                    .err()
                    .unwrap_or_else(|| AdminAnswer::of(AdminReply::Keyspace(Box::new(keyspace))));
            }
            SplitStage::GivenUp => {
                let reason = format!(
                    "the split of keyspace {name} was given up, and nothing was changed: not all primaries of its partitions were \
                     ready in time. `zerohop status` shows partitions that are not served; try again once all are"
                );
                return AdminAnswer::refused(REFUSED_DECIDED, reason);
            }
            SplitStage::Pending if Instant::now() >= due => {
                let reason = format!(
                    "the split of keyspace {name} is not done after {SPLIT_WAIT:?}: it waits for the primaries of its partitions. Ask \
                     again for the same split to learn how it has ended"
                );
                return AdminAnswer::refused(REFUSED_UNDECIDED, reason);
            }
            SplitStage::Pending => sleep(SPLIT_CHECK_INTERVAL).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use zerohop_placement::map::DEFAULT_KEYSPACE;
    use zerohop_placement::{Address, ClusterMap, MapChange, MapDelta, Node, NodeState};
    use zerohop_wire::ids::{Incarnation, InstanceId, NodeId};

    use super::*;

    fn after(map: &ClusterMap, change: MapChange) -> ClusterMap {
        let delta = MapDelta { from: map.epoch(), to: map.epoch().next(), changes: vec![change] };
        map.apply(&delta).unwrap()
    }

    #[test]
    fn pending_split_ends_done_or_given_up() {
        let node = Node {
            id: NodeId(1),
            state: NodeState::Up,
            incarnation: Incarnation(7),
            manager: Address::new("127.0.0.1:7400").unwrap(),
            first_instance: InstanceId(1),
            instances: vec![Address::new("127.0.0.1:7401").unwrap()],
        };
        let before = ClusterMap::of_one_node(node, 1).unwrap();
        let split = PendingSplit::Keyspace;
        let begun =
            after(&before, MapChange::BeginSplit { keyspace: DEFAULT_KEYSPACE, split: split.clone() });
        let done = after(&begun, MapChange::SplitKeyspace(DEFAULT_KEYSPACE));
        let again = after(&done, MapChange::BeginSplit { keyspace: DEFAULT_KEYSPACE, split: split.clone() });
        let given_up = after(&begun, MapChange::CancelSplit(DEFAULT_KEYSPACE));
        for (map, expected) in [
            (&begun, SplitStage::Pending),
            (&done, SplitStage::Done),
            (&again, SplitStage::Done),
            (&given_up, SplitStage::GivenUp),
        ] {
            assert_eq!(stage(map.keyspace(DEFAULT_KEYSPACE).unwrap(), &split, 0), expected);
        }
    }
}
