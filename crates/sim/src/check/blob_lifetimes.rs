//! Blobs that are put and removed under one name. No operation finds a blob absent while it exists, nor finds one that
//! was removed or replaced. Later blobs have higher ids.

use std::collections::BTreeMap;

use super::Violation;
use crate::cycles::TransactionFate;
use crate::transaction_results::{BlobLife, TransactionRecord};

/// The observations of one name.
#[derive(Default)]
struct Name<'h> {
    seen: Vec<(u64, &'h TransactionRecord)>,
    listed: Vec<&'h TransactionRecord>,
    absent: Vec<&'h TransactionRecord>,
    /// Removals and puts that may have taken effect, and whether they are known to have.
    removed: Vec<(&'h TransactionRecord, bool)>,
    put: Vec<(&'h TransactionRecord, bool)>,
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
        let may_be_done = is_done || one.transaction.fate != TransactionFate::Aborted || !is_known(one);
        for (blob, life) in &one.lives {
            let name = names.entry(*blob).or_default();
            match life {
                BlobLife::Seen(id) if is_done => name.seen.push((*id, one)),
                BlobLife::Listed if is_done => name.listed.push(one),
                BlobLife::Absent if is_done => name.absent.push(one),
                BlobLife::Removed if may_be_done => name.removed.push((one, is_done)),
                BlobLife::Put if may_be_done => name.put.push((one, is_done)),
                _ => {}
            }
        }
    }
    for name in names.values() {
        let mut wrong = |what: &str, one: &TransactionRecord, other: &TransactionRecord| {
            violations.push(Violation { checker: "lives", what: format!("{what}\n    {one}\n    {other}") });
        };
        let ends = name.removed.iter().chain(&name.put).filter(|(_, is_done)| *is_done);
        // The latest blob that a removal or a put has certainly ended.
        let gone: Vec<(u64, &TransactionRecord)> =
            ends.filter_map(|(by, _)| latest_before(&name.seen, by).map(|(id, _)| (id, *by))).collect();
        for (id, one) in &name.seen {
            if let Some((_, by)) = gone.iter().find(|(gone, by)| gone >= id && ends_before(by, one)) {
                wrong("a blob is there that was removed or replaced", by, one);
            }
            if let Some((_, by)) = latest_before(&name.seen, one).filter(|(latest, _)| latest > id) {
                wrong("a blob is there after one that was made later", by, one);
            }
        }
        for one in &name.absent {
            if let Some(by) = name.latest_sign_of_life_before(one)
                && !name.removed.iter().any(|(removal, _)| may_come_between(removal, by, one))
            {
                wrong("a blob is not there, though no client has removed it", by, one);
            }
        }
        for one in &name.listed {
            let removals =
                name.removed.iter().filter(|(removal, is_done)| *is_done && ends_before(removal, one));
            let last = removals.map(|(removal, _)| *removal).max_by_key(|removal| removal.transaction.begin);
            if let Some(by) = last
                && !name.put.iter().any(|(put, _)| may_come_between(put, by, one))
            {
                wrong("a blob is listed, though no client has made one since its removal", by, one);
            }
        }
    }
}

impl<'h> Name<'h> {
    /// The operation that shows the blob's existence and began latest, of those that had ended when
    /// another began.
    fn latest_sign_of_life_before(&self, one: &TransactionRecord) -> Option<&'h TransactionRecord> {
        let seen = self.seen.iter().map(|(_, by)| *by).chain(self.listed.iter().copied());
        let put = self.put.iter().filter(|(_, is_done)| *is_done).map(|(by, _)| *by);
        seen.chain(put).filter(|by| ends_before(by, one)).max_by_key(|by| by.transaction.begin)
    }
}

fn ends_before(one: &TransactionRecord, other: &TransactionRecord) -> bool {
    one.transaction.end.is_some_and(|end| end < other.transaction.begin)
}

/// Whether the effect of an operation may come after that of one and before that of another.
fn may_come_between(middle: &TransactionRecord, one: &TransactionRecord, other: &TransactionRecord) -> bool {
    // An unknown end is no bound: the operation may take effect later.
    let is_past = middle.transaction.fate == TransactionFate::Committed && ends_before(middle, one);
    !is_past && middle.transaction.begin <= other.transaction.end.unwrap_or(u64::MAX)
}

/// The latest blob that was known to exist before a transaction began, and the transaction that
/// shows it.
fn latest_before<'h>(
    seen: &[(u64, &'h TransactionRecord)],
    one: &TransactionRecord,
) -> Option<(u64, &'h TransactionRecord)> {
    seen.iter().filter(|(_, other)| ends_before(other, one)).max_by_key(|(id, _)| *id).copied()
}
