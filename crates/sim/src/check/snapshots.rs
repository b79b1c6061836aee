//! Snapshots: a snapshot never changes, and has exactly what is not later than its timestamp. Its
//! reads, metadata and listings show the same versions. It contains what was acknowledged before it was requested, and nothing that began after it was
//! open. All accounts in it add up. That each transaction is in it as a whole or not at all is also
//! checked by an order of all transactions, without real time. Of two transactions during its
//! opening, the one that began after the other had ended may have the lower timestamp, from another
//! clock.
//!
//! What is read after a partition goes on without all acknowledged writes is not checked.

use std::collections::BTreeMap;

use zerohop_base::time::Time;

use super::Violation;
use crate::cycles::{self, Anomaly, CheckedAction, Transaction, TransactionFate};
use crate::snapshots::{SnapshotHistory, SnapshotRead, SnapshotRecord, SnapshotVersion};
use crate::transaction_results::TransactionRecord;

/// Checks what was read by a time.
pub(super) fn check(snapshots: &[SnapshotHistory], until: Time, violations: &mut Vec<Violation>) {
    for seen in snapshots {
        let mut wrong = |what: String| {
            let what =
                format!("{what}\n    c{} [{} .. {}] of {}", seen.client, seen.begin.0, seen.end.0, seen.at);
            violations.push(Violation { checker: "snapshot", what });
        };
        let mut first: BTreeMap<u64, &SnapshotRead> = BTreeMap::new();
        for read in known(seen, until) {
            let SnapshotRead { when, of, found } = read;
            if let Some(why) = &found.impossible {
                wrong(format!("nothing could have brought this at {}: {why}", when.0));
            }
            if found.version > seen.at {
                wrong(format!("what it shows of {of:x} at {} is later than itself: {found:?}", when.0));
            }
            let before = first.entry(*of).or_insert(read);
            if before.found != *found {
                wrong(format!(
                    "it shows of {of:x} at {} {found:?}, and has shown at {} {:?}",
                    when.0, before.when.0, before.found
                ));
            }
        }
        let mut versions: BTreeMap<u64, SnapshotVersion> = BTreeMap::new();
        for one in seen.versions.iter().filter(|one| one.when <= until) {
            let before = versions.entry(one.of).or_insert(*one);
            if before.version != one.version || one.version > seen.at {
                wrong(format!(
                    "it shows version {} of {:x} at {}, and has shown version {} at {}",
                    one.version, one.of, one.when.0, before.version, before.when.0
                ));
            }
        }
        let mut banks: BTreeMap<u64, (usize, usize, i64)> = BTreeMap::new();
        for (bank, accounts, holds) in first.values().filter_map(|read| read.found.account) {
            let (_, count, sum) = banks.entry(bank).or_insert((accounts, 0, 0));
            (*count, *sum) = (*count + 1, *sum + holds);
        }
        for (accounts, count, sum) in banks.into_values() {
            if count == accounts && sum != 0 {
                wrong(format!("all accounts in it together hold {sum}"));
            }
        }
    }
}

/// Compares a snapshot with the writes. `is_known` says whether a client knew of the end of its
/// transaction.
pub(super) fn check_writes(
    snapshots: &[SnapshotHistory],
    (written, is_known): (&[&TransactionRecord], impl Fn(&TransactionRecord) -> bool),
    until: Time,
    violations: &mut Vec<Violation>,
) {
    for seen in snapshots.iter().filter(|seen| seen.end <= until) {
        let mut lists: BTreeMap<u64, &[u64]> = BTreeMap::new();
        let mut registers: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
        for action in known(seen, until).flat_map(|read| &read.found.actions) {
            match action {
                CheckedAction::Read { key, values } => {
                    lists.insert(*key, values);
                }
                CheckedAction::Look { key, value, version } => {
                    registers.insert(*key, (*value, *version));
                }
                _ => {}
            }
        }
        for one in written {
            let is_done = one.transaction.fate == TransactionFate::Committed && is_known(one);
            let version = one.version.filter(|_| is_done).map(|version| version.0);
            let ended = one.transaction.end.filter(|_| is_done);
            let must = ended.is_some_and(|end| end < seen.begin.0) || version.is_some_and(|at| at <= seen.at);
            let must_not = one.transaction.begin > seen.end.0 || version.is_some_and(|at| at > seen.at);
            for action in &one.transaction.actions {
                // Whether the write is in what was read, if it was read.
                let (is_in, shows) = match action {
                    CheckedAction::Append { key, value } => match lists.get(key) {
                        Some(values) => (values.contains(value), values.contains(value)),
                        None => continue,
                    },
                    CheckedAction::Write { key, value, version } => match registers.get(key) {
                        Some((shown, at)) => (version.is_none_or(|version| version <= *at), shown == value),
                        None => continue,
                    },
                    _ => continue,
                };
                let wrong = match (must && !is_in, must_not && shows) {
                    (true, _) => "it lacks what is to be in it",
                    (_, true) => "it shows what is not to be in it",
                    _ => continue,
                };
                let SnapshotHistory { client, begin, end, at, .. } = seen;
                let what = format!(
                    "{wrong}: {action:?}\n    {one}\n    c{client} [{} .. {}] of {at}",
                    begin.0, end.0
                );
                violations.push(Violation { checker: "snapshot", what });
            }
        }
    }
}

/// Checks that an order of all transactions and snapshots explains the reads of these, without real
/// time. An anomaly names the snapshot by its number, counted after the transactions.
pub(super) fn check_order(
    snapshots: &[SnapshotHistory],
    serial: &[Transaction],
    until: Time,
) -> Result<(), Anomaly> {
    let timeless = |one: &Transaction| Transaction { begin: 0, end: None, ..one.clone() };
    let mut all: Vec<Transaction> = serial.iter().map(timeless).collect();
    all.extend(snapshots.iter().filter(|seen| seen.end <= until).map(|seen| {
        let mut first: BTreeMap<u64, &SnapshotRecord> = BTreeMap::new();
        for read in known(seen, until) {
            first.entry(read.of).or_insert(&read.found);
        }
        // No transaction has written that a register is absent: the snapshot may be older than all writes.
        let is_written = |action: &CheckedAction| !matches!(action, CheckedAction::Look { version: 0, .. });
        let actions =
            first.into_values().flat_map(|found| found.actions.clone()).filter(is_written).collect();
        Transaction { begin: 0, end: None, fate: TransactionFate::Committed, actions }
    }));
    cycles::check(&all)
}

/// The snapshots that an anomaly of [`check_order`] names, and what they show.
pub(super) fn readers(
    snapshots: &[SnapshotHistory],
    transactions: usize,
    until: Time,
    anomaly: &Anomaly,
) -> String {
    let numbers = match anomaly {
        Anomaly::AbortedRead { reader, .. }
        | Anomaly::Intermediate { reader, .. }
        | Anomaly::Phantom { reader, .. }
        | Anomaly::Duplicate { reader, .. }
        | Anomaly::Internal { reader, .. } => vec![*reader],
        Anomaly::Incompatible { one, other, .. } | Anomaly::Versions { one, other, .. } => vec![*one, *other],
        Anomaly::Cycle(edges) => edges.iter().map(|(from, ..)| *from).collect(),
    };
    let ended: Vec<&SnapshotHistory> = snapshots.iter().filter(|seen| seen.end <= until).collect();
    let named = numbers.iter().filter_map(|number| ended.get(number.checked_sub(transactions)?));
    named.fold(String::new(), |mut text, seen| {
        let SnapshotHistory { client, begin, end, at, .. } = seen;
        text.push_str(&format!("\n    c{client} [{} .. {}] of {at}", begin.0, end.0));
        for SnapshotRead { when, of, found } in known(seen, until) {
            let (version, actions) = (found.version, &found.actions);
            text.push_str(&format!("\n      {of:x} at {}: version {version}, {actions:?}", when.0));
        }
        text
    })
}

fn known(seen: &SnapshotHistory, until: Time) -> impl Iterator<Item = &SnapshotRead> {
    seen.reads.iter().filter(move |read| read.when <= until)
}
