//! Replies about a keyspace that is being dropped: what the drop waits for, and what the user can do.

use std::time::Duration;

use zerohop_placement::{ClusterMap, Group};
use zerohop_wire::admin::{
    AdminAnswer, AdminRefusal, AdminReply, KeyspaceDrop, KeyspaceStatus, REFUSED_DROPPING,
};
use zerohop_wire::ids::{KeyspaceId, PartitionId};

use super::change_refusal::{ChangeRefusal, refusal as refuse};
use crate::limits::DROP_WAIT;

/// Maximum number of partitions that a reply names; it counts the others.
const NAMED_MAX: usize = 4;

/// How long a request to drop a keyspace waits for its end.
pub(super) fn wait(request: &KeyspaceDrop) -> Duration {
    request.wait_ms.map_or(DROP_WAIT, |ms| DROP_WAIT.min(Duration::from_millis(ms.into())))
}

/// The reply for a keyspace whose drop is in progress.
pub(super) fn under_way(keyspace: &KeyspaceStatus, waits: &str) -> AdminAnswer {
    let (code, reason) = (REFUSED_DROPPING.to_owned(), reason(&keyspace.name, waits));
    AdminAnswer::of(AdminReply::Refused(AdminRefusal { code, reason, keyspace: keyspace.id }))
}

/// The refusal for a keyspace that is being dropped: it cannot be changed, and its name cannot be reused.
pub(super) fn refusal(name: &str) -> ChangeRefusal {
    refuse(REFUSED_DROPPING, reason(name, ""))
}

fn reason(name: &str, waits: &str) -> String {
    let waits = if waits.is_empty() { String::new() } else { format!(" It waits for {waits}.") };
    format!(
        "keyspace {name} is being dropped. It accepts no new work. The drop ends when its open transactions end.{waits} That takes \
         seconds, unless one of their partitions is not served (`zerohop recover` shows these). `zerohop keyspace drop {name}` waits for \
         the end. With --at-once the keyspace is removed now, which may undo acknowledged writes of its transactions in other keyspaces"
    )
}

/// The partitions that the drop of a keyspace waits for, if that is known; otherwise those without service.
pub(super) fn waits(map: &ClusterMap, id: KeyspaceId, undrained: Option<&[PartitionId]>) -> String {
    let Some(found) = map.keyspace(id) else { return String::new() };
    let is_open = |(id, group): &(PartitionId, Group<'_>)| match undrained {
        Some(undrained) => undrained.binary_search(id).is_ok(),
        None => map.is_unavailable(*group),
    };
    let open: Vec<(PartitionId, Group<'_>)> = found.groups().filter(is_open).collect();
    let named = open.iter().take(NAMED_MAX).map(|(id, group)| {
        let why = match (map.is_unavailable(*group), map.instance(group.primary)) {
            (true, _) => "lost: not served before nodes that are down return".to_owned(),
            (false, Some(primary)) => format!("instance {} of node {}", group.primary, primary.node),
            (false, None) => format!("instance {}", group.primary),
        };
        format!("partition {id} ({why})")
    });
    let named = named.collect::<Vec<_>>().join(", ");
    match open.len().saturating_sub(NAMED_MAX) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}
