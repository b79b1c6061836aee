//! Transactions: an order of them explains every read and respects real time, their versions are in
//! that order, the sum of all accounts stays the same, and every one ends.
//!
//! After a partition goes on without all acknowledged writes, later transactions are checked only
//! for their end: in a transaction over several keyspaces each keeps what its own durability
//! promises.

use std::collections::BTreeMap;

use zerohop_base::time::Time;
use zerohop_wire::ids::KeyspaceId;

use super::Violation;
use super::{blob_lifetimes, snapshots};
use crate::cycles::{self, Anomaly, CheckedAction, CycleClass, EdgeReason, Transaction, TransactionFate};
use crate::history::RunHistory;
use crate::limits::{CLUSTER_HEALING_US, DEADLINE_MARGIN_US};
use crate::transaction_results::{TransactionFailure, TransactionRecord};

/// Checks all transactions, and returns their number.
pub(super) fn check(history: &RunHistory, violations: &mut Vec<Violation>) -> usize {
    let all = &history.transactions;
    if all.is_empty() {
        return 0;
    }
    let lost = history.losses.iter().filter(|loss| history.transactional.contains(&loss.keyspace));
    let until = lost.map(|loss| loss.down).min().unwrap_or(Time::NEVER);
    let (known, serial) = before(all.iter(), until);
    snapshots::check(&history.snapshots, until, violations);
    let written = (&known[..], |one: &TransactionRecord| is_known(one, until));
    snapshots::check_writes(&history.snapshots, written, until, violations);
    blob_lifetimes::check(&known, |one| is_known(one, until), violations);
    let mut wrong = |checker, what| violations.push(Violation { checker, what });
    for one in all {
        if let Some(what) = ends(history, one) {
            wrong("progress", format!("{what}\n    {one}"));
        }
    }
    for one in &known {
        if let Some(TransactionFailure::Impossible(_)) = &one.failure {
            wrong("serial", format!("nothing could have brought this\n    {one}"));
        }
        if one.sum.is_some_and(|sum| sum != 0) && is_known(one, until) {
            wrong("bank", format!("all accounts together do not hold nothing\n    {one}"));
        }
    }
    for what in lists_of_two_versions(&known, until) {
        wrong("serial", what);
    }
    if let Err(anomaly) = cycles::check(&serial) {
        wrong("serial", anomaly_text(&anomaly, &known));
        return all.len();
    }
    if let Err(anomaly) = snapshots::check_order(&history.snapshots, &serial, until) {
        let readers = snapshots::readers(&history.snapshots, serial.len(), until, &anomaly);
        wrong("snapshot", format!("no order explains all that snapshots show: {anomaly:?}{readers}"));
    }
    // The versions are in a valid order too. A read of several records has no version.
    let version = |number: usize| known[number].version.filter(|_| is_known(known[number], until));
    for (from, to, why) in cycles::dependencies(&serial).unwrap_or_default() {
        if let (Some(one), Some(other)) = (version(from), version(to))
            && (one > other || one == other && why != EdgeReason::ReadWrite)
        {
            let (from, to) = (known[from], known[to]);
            wrong("serial", format!("versions are not in the order of {why:?}\n    {from}\n    {to}"));
        }
    }
    all.len()
}

/// Whether its client knew of its end by then.
fn is_known(one: &TransactionRecord, until: Time) -> bool {
    one.end().is_some_and(|end| end <= until)
}

/// The transactions that had begun by a time, as they were known then.
fn before<'h>(
    all: impl Iterator<Item = &'h TransactionRecord>,
    until: Time,
) -> (Vec<&'h TransactionRecord>, Vec<Transaction>) {
    let known: Vec<&TransactionRecord> = all.filter(|one| one.begin() <= until).collect();
    let serial = known.iter().map(|one| {
        let mut transaction = one.transaction.clone();
        if !is_known(one, until) {
            (transaction.fate, transaction.end) = (TransactionFate::Unknown, None);
        }
        if transaction.fate == TransactionFate::Unknown {
            // Versions that no client had learned of by then.
            for action in &mut transaction.actions {
                if let CheckedAction::Write { version, .. } = action {
                    *version = None;
                }
            }
        }
        transaction
    });
    let serial = serial.collect();
    (known, serial)
}

/// Every operation ends by its deadline; once faults have ended it succeeds, or conflicts with
/// others.
fn ends(history: &RunHistory, one: &TransactionRecord) -> Option<&'static str> {
    let late = one.deadline.after_us(DEADLINE_MARGIN_US);
    match one.end() {
        None if history.ended >= late && !one.is_left => {
            return Some("a transaction has not ended by its deadline");
        }
        Some(end) if end > late => return Some("a transaction has ended after its deadline"),
        _ => {}
    }
    let is_healthy = history.healed.is_some_and(|healed| one.begin() >= healed.after_us(CLUSTER_HEALING_US));
    let dropped =
        |keyspace: &KeyspaceId| history.keyspace(*keyspace).is_some_and(|one| one.dropped.is_some());
    match &one.failure {
        Some(TransactionFailure::Other(why))
            if why.contains("keyspace") && history.transactional.iter().any(dropped) =>
        {
            None
        }
        // A partition with only a corrupt copy serves no client.
        Some(TransactionFailure::Other(_)) if !history.corrupt.is_empty() => None,
        // A client that has seen the time of a fast clock is refused until that time.
        Some(TransactionFailure::Other(why))
            if is_healthy && !(history.clocks_were_set && why.contains("clock")) =>
        {
            Some("a transaction was not done though nothing was in its way any more")
        }
        _ => None,
    }
}

/// A list that ends with a given value has one version, for all readers and for the transaction
/// that appended the value.
fn lists_of_two_versions(known: &[&TransactionRecord], until: Time) -> Vec<String> {
    let mut versions = BTreeMap::new();
    let mut wrong = Vec::new();
    for one in
        known.iter().filter(|one| is_known(one, until) && one.transaction.fate == TransactionFate::Committed)
    {
        let mut last = BTreeMap::new();
        for action in &one.transaction.actions {
            if let CheckedAction::Append { key, value } = action {
                last.insert(*key, *value);
            }
        }
        let made = last.into_iter().filter_map(|(key, value)| Some((key, value, one.version?)));
        for (key, value, version) in made.chain(one.lists.iter().copied()) {
            let (first, by) = *versions.entry((key, value)).or_insert((version, *one));
            if first != version {
                wrong.push(format!(
                    "list {key:x} that ends with {value} has two versions, {first} and {version}\n    {by}\n    {one}"
                ));
            }
        }
    }
    wrong
}

/// The description of an anomaly, with the transactions that show it.
fn anomaly_text(anomaly: &Anomaly, known: &[&TransactionRecord]) -> String {
    let (what, who) = match anomaly {
        Anomaly::Cycle(edges) => {
            let mut text = format!("no order explains it, {:?}:", CycleClass::of(edges));
            for (from, _, why) in edges {
                text.push_str(&format!("\n    {}\n      {why:?}", known[*from]));
            }
            return text;
        }
        Anomaly::AbortedRead { reader, value } => {
            (format!("{value} was read, and its transaction was not done (G1a)"), vec![*reader])
        }
        Anomaly::Intermediate { reader, value } => {
            (format!("{value} is from the midst of a transaction (G1b)"), vec![*reader])
        }
        Anomaly::Phantom { reader, value } => (format!("{value} was never written there"), vec![*reader]),
        Anomaly::Duplicate { reader, value } => (format!("{value} stands twice in a list"), vec![*reader]),
        Anomaly::Incompatible { one, other, key } => {
            (format!("two reads of list {key:x} contradict each other"), vec![*one, *other])
        }
        Anomaly::Internal { reader, key } => {
            (format!("it does not read what it has written to {key:x} itself"), vec![*reader])
        }
        Anomaly::Versions { one, other, key } => {
            (format!("versions of register {key:x} contradict each other"), vec![*one, *other])
        }
    };
    let writes = |one: &&&TransactionRecord| {
        match anomaly {
        Anomaly::AbortedRead { value: read, .. } | Anomaly::Duplicate { value: read, .. } => {
            one.transaction.actions.iter().any(|action| {
                matches!(action, CheckedAction::Append { value, .. } | CheckedAction::Write { value, .. } if value == read)
            })
        }
        _ => false,
    }
    };
    let who = who.into_iter().map(|number| &known[number]).chain(known.iter().filter(writes));
    who.fold(what, |text, one| format!("{text}\n    {one}"))
}
