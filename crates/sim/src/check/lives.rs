//! Blobs that are created and removed under one name: no operation finds a blob absent while it
//! exists, nor finds a removed one, and later blobs have higher ids.

use std::collections::BTreeMap;

use super::Violation;
use crate::cycles::TransactionFate;
use crate::transacted::{BlobLife, TransactionRecord};

/// The observations of one name.
#[derive(Default)]
struct Name<'h> {
    seen: Vec<(u64, &'h TransactionRecord)>,
    absent: Vec<&'h TransactionRecord>,
    /// Removals that may have taken effect.
    ended: Vec<(u64, &'h TransactionRecord)>,
}

/// Checks the transactions. `is_known` says whether a client knew of the end of its transaction.
pub(super) fn check(
    known: &[&TransactionRecord],
    is_known: impl Fn(&TransactionRecord) -> bool,
    violations: &mut Vec<Violation>,
) {
    let mut names: BTreeMap<u64, Name<'_>> = BTreeMap::new();
    for one in known {
        let is_done = one.transaction.fate == TransactionFate::Committed && is_known(one);
        for (blob, life) in &one.lives {
            let name = names.entry(*blob).or_default();
            match life {
                BlobLife::Seen(id) if is_done => name.seen.push((*id, one)),
                BlobLife::Absent if is_done => name.absent.push(one),
                BlobLife::Ended(id)
                    if is_done || one.transaction.fate != TransactionFate::Aborted || !is_known(one) =>
                {
                    name.ended.push((*id, one));
                }
                _ => {}
            }
        }
    }
    for name in names.values() {
        let mut wrong = |what: &str, one: &TransactionRecord, other: &TransactionRecord| {
            violations.push(Violation { checker: "lives", what: format!("{what}\n    {one}\n    {other}") });
        };
        let done =
            |one: &TransactionRecord| one.transaction.fate == TransactionFate::Committed && is_known(one);
        for (id, one) in &name.seen {
            let gone = name.ended.iter().find(|(ended, by)| ended == id && done(by) && ends_before(by, one));
            if let Some((_, by)) = gone {
                wrong("a blob is there that was removed", by, one);
            }
            if let Some((_, by)) = latest_before(&name.seen, one).filter(|(latest, _)| latest > id) {
                wrong("a blob is there after one that was made later", by, one);
            }
        }
        for one in &name.absent {
            let Some((latest, by)) = latest_before(&name.seen, one) else { continue };
            let end = one.transaction.end.unwrap_or(u64::MAX);
            let may_be_gone =
                |(id, removal): &(u64, &TransactionRecord)| *id >= latest && removal.transaction.begin <= end;
            if !name.ended.iter().any(may_be_gone) {
                wrong("a blob is not there, though nobody has removed it", by, one);
            }
        }
    }
}

fn ends_before(one: &TransactionRecord, other: &TransactionRecord) -> bool {
    one.transaction.end.is_some_and(|end| end < other.transaction.begin)
}

/// The latest blob that was known to exist before a transaction began, and the transaction that
/// shows it.
fn latest_before<'h>(
    seen: &[(u64, &'h TransactionRecord)],
    one: &TransactionRecord,
) -> Option<(u64, &'h TransactionRecord)> {
    seen.iter().filter(|(_, other)| ends_before(other, one)).max_by_key(|(id, _)| *id).copied()
}
