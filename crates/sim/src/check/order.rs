//! Versions rise: if a write to a partition is submitted after another one was answered, it has the
//! higher version. Exceptions are a crash between them that may have lost the first write, and in a
//! cluster a loss together with the timestamp bound above which the next primary begins.

use std::collections::BTreeMap;

use zerohop_base::time::Time;
use zerohop_placement::Durability;
use zerohop_wire::ids::{KeyspaceId, PartitionId, Timestamp};

use super::Violation;
use super::linear::made_version;
use crate::history::{ClientCall, Loss, RunHistory};

/// A call, the version that it made, and the time of its answer.
type VersionedCall<'h> = (&'h ClientCall, Timestamp, Time);

pub(super) fn check(history: &RunHistory, violations: &mut Vec<Violation>) {
    let mut by_partition: BTreeMap<(KeyspaceId, PartitionId), Vec<VersionedCall<'_>>> = BTreeMap::new();
    for call in &history.calls {
        if let (Some(version), Some(returned)) = (made_version(call), call.returned) {
            by_partition.entry((call.keyspace, call.partition)).or_default().push((call, version, returned));
        }
    }
    for (place, mut writes) in by_partition {
        let forgets = |loss: &Loss| !loss.keeps_timestamp_bound;
        let loss_between =
            |first: Time, second: Time| loss_within(history, place, (first, Some(second)), forgets);
        let mut by_return = writes.clone();
        by_return.sort_by_key(|(_, _, returned)| *returned);
        writes.sort_by_key(|(call, _, _)| call.invoked);
        // The highest version answered before the present write was submitted, among those that no
        // loss may have removed.
        let mut answered = by_return.into_iter().peekable();
        let mut highest: Option<VersionedCall<'_>> = None;
        for (call, version, _) in writes {
            while let Some(next) = answered.next_if(|(_, _, returned)| *returned < call.invoked) {
                if highest
                    .is_none_or(|(before, known, _)| next.1 > known || loss_between(before.invoked, next.2))
                {
                    highest = Some(next);
                }
            }
            if let Some((before, known, _)) = highest
                && version <= known
                && !loss_between(before.invoked, call.returned.unwrap_or(call.invoked))
            {
                let what = format!("a later write has no higher version\n    {before}\n    {call}");
                violations.push(Violation { checker: "order", what });
            }
        }
    }
}

/// Whether an outage between two times may have lost writes.
pub(super) fn loss_between(
    history: &RunHistory,
    place: (KeyspaceId, PartitionId),
    times: (Time, Option<Time>),
) -> bool {
    loss_within(history, place, times, |_| true)
}

/// The same; in a cluster, only losses that count.
fn loss_within(
    history: &RunHistory,
    (keyspace, partition): (KeyspaceId, PartitionId),
    (from, to): (Time, Option<Time>),
    counts: impl Fn(&Loss) -> bool,
) -> bool {
    if history.is_cluster {
        return history.losses.iter().filter(|loss| counts(loss)).any(|loss| {
            let is_its = (loss.keyspace, loss.partition) == (keyspace, partition);
            is_its && loss.up >= from && to.is_none_or(|to| loss.down <= to)
        });
    }
    let Some(known) = history.keyspace(keyspace) else { return false };
    history.outages.iter().any(|outage| {
        let within = outage.up >= from && to.is_none_or(|to| outage.down <= to);
        within && known.durability_at(outage.down) != Durability::Sync
    })
}
