//! The invariants of a finished run.

use super::cycles::{self, CheckedAction, EdgeReason, Transaction, TransactionFate};
use super::group::owns;
use super::store::RecordValue;
use super::world::TransactionWorld;

/// The violations.
pub fn check(world: &mut TransactionWorld) -> Vec<String> {
    let mut wrong = std::mem::take(&mut world.seen.wrong);
    if !world.has_ended() {
        wrong.push("I5: not everything has ended".to_owned());
        for group in &world.groups {
            wrong.extend(
                group
                    .primary
                    .as_ref()
                    .map(|one| format!("{:?}", one.transactions).chars().take(3000).collect()),
            );
        }
    }
    let faults = &world.faults;
    let is_quiet = faults.message_loss + faults.late + faults.failover_ms == 0;
    if is_quiet && world.seen.counts.contains_key("aborted: timed out") {
        wrong.push("I5: a transaction was not decided in time, and nothing kept it from being".to_owned());
    }
    let stores =
        || world.groups.iter().filter_map(|group| group.primary.as_ref()).map(|one| &one.records.store);
    wrong.extend(stores().filter_map(|store| store.wrong.clone()));
    let numbers = stores().flat_map(|store| store.all()).filter_map(|(_, value)| match value {
        RecordValue::Number(number) => Some(*number),
        RecordValue::List(_) => None,
    });
    let sum: i64 = numbers.sum();
    if sum != 0 {
        wrong.push(format!("accounts add up to {sum} in the end"));
    }
    for (lock_key, at, value) in &world.seen.snapshots {
        let holder = world.groups.iter().find(|group| owns(group.hash_range)(*lock_key));
        let store = holder.and_then(|group| group.primary.as_ref()).map(|one| &one.records.store);
        let was = store.map(|store| store.below(*lock_key, *at).1);
        if was.as_ref() != Some(value) {
            wrong.push(format!("a snapshot of {lock_key:x} at {at} has shown {value:?}, and it was {was:?}"));
        }
    }
    // At the end all records are read.
    let lists = stores().flat_map(|store| store.all()).filter_map(|(key, value)| match value {
        RecordValue::List(values) => Some(CheckedAction::Read { key, values: values.clone() }),
        RecordValue::Number(_) => None,
    });
    let actions = lists.collect();
    let end = u64::MAX;
    let last = Transaction { begin: end - 1, end: Some(end), fate: TransactionFate::Committed, actions };
    let mut history = world.seen.history.clone();
    history.push(last);
    if let Err(anomaly) = cycles::check(&history) {
        let about = |number: &usize| format!("{number}: {:?}", history[*number]);
        let names: Vec<String> = match &anomaly {
            cycles::Anomaly::Cycle(edges) => edges.iter().map(|(from, _, _)| about(from)).collect(),
            _ => Vec::new(),
        };
        wrong.push(format!("no order explains it: {anomaly:?} {names:#?}"));
    }
    // The timestamps must be in an order that explains the history too.
    for (from, to, why) in cycles::dependencies(&history).unwrap_or_default() {
        let of = |number: usize| world.seen.timestamps.get(&number);
        if let (Some(one), Some(other)) = (of(from), of(to))
            && (one > other || one == other && why != EdgeReason::ReadWrite)
        {
            wrong.push(format!("{from} comes before {to} ({why:?}), but {one} is not before {other}"));
        }
    }
    wrong
}
