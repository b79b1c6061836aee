//! The watches of the node, for operators.

use std::collections::BTreeMap;

use zerohop_placement::ClusterMap;
use zerohop_shard::KeyspaceWatches;
use zerohop_wire::admin::{AdminAnswer, AdminReply, REFUSED_UNKNOWN, WatchList, WatchStatus, Watches};
use zerohop_wire::auth::Access;
use zerohop_wire::escaped::quoted;
use zerohop_wire::ids::{InstanceId, KeyspaceId};

use super::instances::{self, InstanceFigures};
use super::shared::ManagerShared;
use crate::instance::{ClientWatch, Figures};
use crate::limits::WATCHES_ANSWER_BYTES_MAX;

/// Bytes of a listed watch in an answer, beside its names and keys: numbers and an address.
const WATCH_BYTES: usize = 120;

/// Requests the figures of every instance, with a time limit, and lists the watches.
pub(super) async fn list(shared: &ManagerShared, WatchList { keyspace }: &WatchList) -> AdminAnswer {
    let map = shared.history.borrow().map().clone();
    let wanted = match map.keyspace_named(keyspace) {
        Some((id, _)) => Some(id),
        None if keyspace.is_empty() => None,
        None => {
            let reason = format!("there is no keyspace {}", quoted(keyspace.as_bytes()));
            return AdminAnswer::refused(REFUSED_UNKNOWN, reason);
        }
    };
    let figures = instances::figures(shared.instances()).await;
    let ids = shared.instances().iter().map(|instance| instance.id);
    let has_secret = shared.about.secret.is_some();
    AdminAnswer::of(AdminReply::Watches(answer((&map, has_secret), ids.zip(&figures), wanted)))
}

/// The watches of instances; `has_secret`: the cluster has one.
fn answer<'f>(
    (map, has_secret): (&ClusterMap, bool),
    figures: impl Iterator<Item = (InstanceId, &'f InstanceFigures)>,
    wanted: Option<KeyspaceId>,
) -> Watches {
    let is_wanted = |keyspace: KeyspaceId| wanted.is_none_or(|wanted| wanted == keyspace);
    let mut found = Watches::default();
    for (instance, figures) in figures {
        let Some(figures) = figures else {
            found.unreported.push(instance.0);
            continue;
        };
        let counted = figures.keyspace_watches.iter().filter(|(keyspace, _)| is_wanted(**keyspace));
        found.total += counted.map(|(_, counted)| counted.watches).sum::<u64>();
        let listed = figures.watches.iter().filter(|one| is_wanted(one.watch.keyspace));
        found.watches.extend(listed.map(|one| status((map, has_secret), instance, one)));
    }
    found.watches.sort_by_key(|one| std::cmp::Reverse((one.lag_ms, one.changes_behind)));
    let mut bytes = 0;
    let with_room = found.watches.iter().take_while(|one| {
        bytes += WATCH_BYTES + one.keyspace.len() + one.token.as_ref().map_or(0, String::len);
        bytes += one.from.len() + one.to.len() + one.prefix.len();
        bytes <= WATCHES_ANSWER_BYTES_MAX
    });
    let listed = with_room.count();
    found.watches.truncate(listed);
    found
}

fn status((map, has_secret): (&ClusterMap, bool), instance: InstanceId, one: &ClientWatch) -> WatchStatus {
    let ClientWatch { watch, access, peer } = one;
    let token = match access {
        // A token that was revoked a moment ago has no name.
        Access::Token(id) => Some(
            map.tokens()
                .find(|token| token.id == *id)
                .map_or_else(|| format!("{id:016x}"), |token| token.name.to_string()),
        ),
        Access::All => None,
    };
    WatchStatus {
        instance: instance.0,
        // A keyspace that was dropped meanwhile is shown by its id.
        keyspace: map
            .keyspace(watch.keyspace)
            .map_or_else(|| watch.keyspace.to_string(), |found| found.config().name.to_string()),
        has_secret: has_secret && token.is_none(),
        token,
        address: peer.map(|peer| peer.to_string()).unwrap_or_default(),
        from: watch.selection.from.to_vec(),
        to: watch.selection.to.to_vec(),
        prefix: watch.selection.prefix.to_vec(),
        partitions: watch.progress.partitions,
        changes_behind: watch.progress.changes_behind,
        lag_ms: watch.progress.lag_ms,
        gone: watch.progress.gone,
    }
}

/// The watches of the node by keyspace, added up over its instances.
pub(super) fn by_keyspace<'f>(
    figures: impl Iterator<Item = &'f Figures>,
) -> BTreeMap<KeyspaceId, KeyspaceWatches> {
    let mut sums: BTreeMap<KeyspaceId, KeyspaceWatches> = BTreeMap::new();
    for (id, watches) in figures.flat_map(|figures| &figures.keyspace_watches) {
        let sum = sums.entry(*id).or_default();
        sum.watches += watches.watches;
        sum.lag_ms = sum.lag_ms.max(watches.lag_ms);
    }
    sums
}
