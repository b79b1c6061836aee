//! Lists: a list that was read gives the order of all its values.

use std::collections::{BTreeMap, BTreeSet};

use super::{Anomaly, CheckedAction, Edge, EdgeReason, HistoryIndex};

/// The reads of lists.
pub(super) struct Lists<'h> {
    /// Per list, each reader and the values without those that the reader has appended itself.
    reads: BTreeMap<u64, Vec<(usize, &'h [u64])>>,
    /// Per list, the longest values that were read.
    longest: BTreeMap<u64, &'h [u64]>,
}

impl<'h> Lists<'h> {
    pub(super) fn of(known: &mut HistoryIndex<'h>) -> Result<Lists<'h>, Anomaly> {
        let mut reads: BTreeMap<u64, Vec<(usize, &'h [u64])>> = BTreeMap::new();
        let mut longest: BTreeMap<u64, (usize, &'h [u64])> = BTreeMap::new();
        for (reader, transaction) in known.committed() {
            let mut own: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
            for action in &transaction.actions {
                let (key, values) = match action {
                    CheckedAction::Append { key, value } => {
                        own.entry(*key).or_default().push(*value);
                        continue;
                    }
                    CheckedAction::Read { key, values } => (*key, values.as_slice()),
                    _ => continue,
                };
                let appended = own.get(&key).map_or(&[][..], Vec::as_slice);
                let Some(before) = values.strip_suffix(appended) else {
                    return Err(Anomaly::Internal { reader, key });
                };
                may_have_values(known, reader, (key, values), before.len())?;
                let entry = longest.entry(key).or_insert((reader, values));
                let (short, long) =
                    if entry.1.len() < values.len() { (entry.1, values) } else { (values, entry.1) };
                if !long.starts_with(short) {
                    return Err(Anomaly::Incompatible { one: entry.0, other: reader, key });
                }
                if entry.1.len() < values.len() {
                    *entry = (reader, values);
                }
                reads.entry(key).or_default().push((reader, before));
            }
        }
        let longest = longest.into_iter().map(|(key, (_, values))| (key, values)).collect();
        Ok(Lists { reads, longest })
    }

    pub(super) fn edges(&self, known: &HistoryIndex<'h>, add: &mut impl FnMut(Edge)) {
        let writer = |key: u64, value: u64| known.writers[&(key, value)].0;
        // A value of a committed transaction that is not in the longest read comes after it.
        let mut seen: BTreeMap<u64, BTreeSet<u64>> = BTreeMap::new();
        for (key, values) in &self.longest {
            seen.entry(*key).or_default().extend(*values);
            for pair in values.windows(2) {
                add((writer(*key, pair[0]), writer(*key, pair[1]), EdgeReason::WriteWrite));
            }
        }
        let mut unseen: BTreeMap<u64, BTreeSet<usize>> = BTreeMap::new();
        for (number, transaction) in known.history.iter().enumerate() {
            let has_happened = known.happened.contains(&number);
            for action in transaction.actions.iter().filter(|_| has_happened) {
                if let CheckedAction::Append { key, value } = action
                    && seen.get(key).is_none_or(|values| !values.contains(value))
                {
                    unseen.entry(*key).or_default().insert(number);
                }
            }
        }
        for (key, writers) in &unseen {
            if let Some(last) = self.longest.get(key).and_then(|values| values.last()) {
                writers.iter().for_each(|number| add((writer(*key, *last), *number, EdgeReason::WriteWrite)));
            }
        }
        for (key, reads) in &self.reads {
            let longest = self.longest[key];
            for (reader, values) in reads {
                if let Some(last) = values.last() {
                    add((writer(*key, *last), *reader, EdgeReason::WriteRead));
                }
                match next(longest, values.len(), |value| writer(*key, value) != *reader) {
                    Some(next) => add((*reader, writer(*key, next), EdgeReason::ReadWrite)),
                    // The other transactions follow, as they come before the writer of the last
                    // value.
                    None => unseen
                        .get(key)
                        .into_iter()
                        .flatten()
                        .for_each(|number| add((*reader, *number, EdgeReason::ReadWrite))),
                }
            }
        }
    }
}

/// The first value from an index on that another transaction has written.
fn next(values: &[u64], from: usize, is_other: impl Fn(u64) -> bool) -> Option<u64> {
    values.get(from..)?.iter().copied().find(|value| is_other(*value))
}

/// Whether a list may have these values: at first `foreign` values of other transactions.
fn may_have_values(
    known: &mut HistoryIndex<'_>,
    reader: usize,
    (key, values): (u64, &[u64]),
    foreign: usize,
) -> Result<(), Anomaly> {
    let mut seen = BTreeSet::new();
    for (at, value) in values.iter().enumerate() {
        known.writer(reader, (key, *value), at + 1 == foreign)?;
        if !seen.insert(*value) {
            return Err(Anomaly::Duplicate { reader, value: *value });
        }
    }
    Ok(())
}
