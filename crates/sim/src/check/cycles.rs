//! Strict serializability of histories of transactions that append to lists and read them, by looking for cycles, in the
//! manner of Elle (Kingsbury and Alvaro, "Elle: Inferring Isolation Anomalies from Experimental Observations", 2020).
//!
//! Every value is appended once, so a list that was read tells in which order its values were written. From that follow
//! edges: *ww* from who wrote a value to who wrote the next, *wr* from who wrote the last value of a list to who read it,
//! *rw* from who read a list to who wrote the value behind it; and *real time* from who had ended to who began after. If
//! they lead in a circle there is no order in which the transactions could have happened one after another. A history
//! without a circle may still be wrong where nobody read; so it ends with a read of all lists.
//!
//! This file needs nothing but the standard library: the tests of `crates/transaction` take it in as it stands.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// How a transaction ended, as its client knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is done.
    Committed,
    /// It is not done, and never will be.
    Aborted,
    /// The client was never told.
    Unknown,
}

/// What a transaction does to a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Appends a value that nobody else appends.
    Append {
        /// Which list.
        key: u64,
        /// The value.
        value: u64,
    },
    /// Reads the list as it was before the transaction.
    Read {
        /// Which list.
        key: u64,
        /// Its values.
        values: Vec<u64>,
    },
}

/// One transaction of a history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transaction {
    /// When it was asked for.
    pub begin: u64,
    /// When its client knew of its end.
    pub end: Option<u64>,
    /// How it ended.
    pub fate: Fate,
    /// What it did. Reads of one that is not known to be committed are not looked at.
    pub actions: Vec<Action>,
}

/// Why one transaction must come before another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    /// It wrote the value before the other's.
    WriteWrite,
    /// The other has read what it wrote.
    WriteRead,
    /// It has not read what the other wrote.
    ReadWrite,
    /// It had ended when the other began.
    RealTime,
}

/// That one comes before the other, by their numbers in the history.
pub type Edge = (usize, usize, Why);

/// What no order explains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Anomaly {
    /// A value was read that an aborted transaction has written.
    AbortedRead {
        /// By whom.
        reader: usize,
        /// Which value.
        value: u64,
    },
    /// A value was read that nobody has written to this list.
    Phantom {
        /// By whom.
        reader: usize,
        /// Which value.
        value: u64,
    },
    /// A value stands twice in a list.
    Duplicate {
        /// Who has read it.
        reader: usize,
        /// Which value.
        value: u64,
    },
    /// Neither of two lists that were read is the beginning of the other.
    Incompatible {
        /// Who has read one.
        one: usize,
        /// Who has read the other.
        other: usize,
        /// Which list.
        key: u64,
    },
    /// Each must come before the next, and the last before the first.
    Cycle(Vec<Edge>),
}

/// The edges that follow from what was read, without those of real time.
///
/// # Errors
/// What needs no cycle to be wrong.
pub fn dependencies(history: &[Transaction]) -> Result<Vec<Edge>, Anomaly> {
    let mut writers: BTreeMap<(u64, u64), usize> = BTreeMap::new();
    for (number, transaction) in history.iter().enumerate() {
        for action in &transaction.actions {
            if let Action::Append { key, value } = action {
                writers.insert((*key, *value), number);
            }
        }
    }
    let reads: Vec<(usize, u64, &[u64])> = history
        .iter()
        .enumerate()
        .filter(|(_, transaction)| transaction.fate == Fate::Committed)
        .flat_map(|(number, transaction)| {
            transaction.actions.iter().filter_map(move |action| match action {
                Action::Read { key, values } => Some((number, *key, values.as_slice())),
                Action::Append { .. } => None,
            })
        })
        .collect();
    let mut longest: BTreeMap<u64, (usize, &[u64])> = BTreeMap::new();
    for (reader, key, values) in &reads {
        let mut seen = BTreeSet::new();
        for value in *values {
            let Some(writer) = writers.get(&(*key, *value)) else {
                return Err(Anomaly::Phantom { reader: *reader, value: *value });
            };
            if history[*writer].fate == Fate::Aborted {
                return Err(Anomaly::AbortedRead { reader: *reader, value: *value });
            }
            if !seen.insert(*value) {
                return Err(Anomaly::Duplicate { reader: *reader, value: *value });
            }
        }
        let known = longest.entry(*key).or_insert((*reader, values));
        let (short, long) =
            if known.1.len() < values.len() { (known.1, *values) } else { (*values, known.1) };
        if !long.starts_with(short) {
            return Err(Anomaly::Incompatible { one: known.0, other: *reader, key: *key });
        }
        if known.1.len() < values.len() {
            *known = (*reader, values);
        }
    }
    let mut edges = BTreeSet::new();
    let mut edge = |from: usize, to: usize, why: Why| {
        if from != to {
            edges.insert((from, to, why));
        }
    };
    for (key, (_, values)) in &longest {
        for pair in values.windows(2) {
            edge(writers[&(*key, pair[0])], writers[&(*key, pair[1])], Why::WriteWrite);
        }
    }
    // Of whom anything was read, nothing may be missing, whatever its client was told.
    let mut happened: BTreeSet<usize> = longest
        .iter()
        .flat_map(|(key, (_, values))| values.iter().map(|value| writers[&(*key, *value)]))
        .collect();
    happened.extend((0..history.len()).filter(|one| history[*one].fate == Fate::Committed));
    // What is committed and not in the longest list comes behind it.
    let mut unseen: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
    for ((key, value), writer) in &writers {
        let is_seen = longest.get(key).is_some_and(|(_, values)| values.contains(value));
        if !is_seen && happened.contains(writer) {
            unseen.entry(*key).or_default().push(*writer);
            if let Some(last) = longest.get(key).and_then(|(_, values)| values.last()) {
                edge(writers[&(*key, *last)], *writer, Why::WriteWrite);
            }
        }
    }
    for (reader, key, values) in &reads {
        if let Some(last) = values.last() {
            edge(writers[&(*key, *last)], *reader, Why::WriteRead);
        }
        if let Some(next) = longest[key].1.get(values.len()) {
            edge(*reader, writers[&(*key, *next)], Why::ReadWrite);
        }
        for writer in unseen.get(key).into_iter().flatten() {
            edge(*reader, *writer, Why::ReadWrite);
        }
    }
    Ok(edges.into_iter().collect())
}

/// Checks that some order of the transactions explains what all have read, and respects real time.
///
/// # Errors
/// What cannot be explained; of a cycle one of the shortest.
pub fn check(history: &[Transaction]) -> Result<(), Anomaly> {
    let mut edges = dependencies(history)?;
    edges.extend(real_time(history));
    let mut next: Vec<Vec<(usize, Why)>> = vec![Vec::new(); history.len()];
    for (from, to, why) in edges {
        next[from].push((to, why));
    }
    let on_cycles = on_cycles(&next);
    let cycles = on_cycles.into_iter().filter_map(|start| shortest_cycle(&next, start));
    match cycles.min_by_key(Vec::len) {
        Some(cycle) => Err(Anomaly::Cycle(cycle)),
        None => Ok(()),
    }
}

/// Edges of real time, without those that follow from others.
fn real_time(history: &[Transaction]) -> Vec<Edge> {
    let mut edges = Vec::new();
    for (number, transaction) in history.iter().enumerate().filter(|(_, one)| one.fate != Fate::Aborted) {
        let ended = |one: &&Transaction| {
            one.fate == Fate::Committed && one.end.is_some_and(|end| end < transaction.begin)
        };
        let Some(last_begin) = history.iter().filter(ended).map(|one| one.begin).max() else { continue };
        for (before, one) in history.iter().enumerate().filter(|(_, one)| ended(one)) {
            if one.end.is_some_and(|end| end >= last_begin) {
                edges.push((before, number, Why::RealTime));
            }
        }
    }
    edges
}

/// Who is left when those are taken away, again and again, who come before nobody or after nobody.
fn on_cycles(next: &[Vec<(usize, Why)>]) -> Vec<usize> {
    let mut before: Vec<Vec<usize>> = vec![Vec::new(); next.len()];
    for (from, tos) in next.iter().enumerate() {
        tos.iter().for_each(|(to, _)| before[*to].push(from));
    }
    let mut incoming: Vec<usize> = before.iter().map(Vec::len).collect();
    let mut outgoing: Vec<usize> = next.iter().map(Vec::len).collect();
    let mut gone = vec![false; next.len()];
    let mut queue: Vec<usize> =
        (0..next.len()).filter(|one| incoming[*one] == 0 || outgoing[*one] == 0).collect();
    while let Some(one) = queue.pop() {
        if std::mem::replace(&mut gone[one], true) {
            continue;
        }
        for (to, _) in &next[one] {
            incoming[*to] -= 1;
            if incoming[*to] == 0 {
                queue.push(*to);
            }
        }
        for from in &before[one] {
            outgoing[*from] -= 1;
            if outgoing[*from] == 0 {
                queue.push(*from);
            }
        }
    }
    (0..next.len()).filter(|one| !gone[*one]).collect()
}

fn shortest_cycle(next: &[Vec<(usize, Why)>], start: usize) -> Option<Vec<Edge>> {
    let mut came: BTreeMap<usize, Edge> = BTreeMap::new();
    let mut queue = VecDeque::from([start]);
    while let Some(from) = queue.pop_front() {
        for (to, why) in &next[from] {
            if *to == start {
                let mut cycle = vec![(from, start, *why)];
                while cycle[0].0 != start {
                    cycle.insert(0, came[&cycle[0].0]);
                }
                return Some(cycle);
            }
            if !came.contains_key(to) {
                came.insert(*to, (from, *to, *why));
                queue.push_back(*to);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const X: u64 = 1;
    const Y: u64 = 2;

    fn append(key: u64, value: u64) -> Action {
        Action::Append { key, value }
    }

    fn read(key: u64, values: &[u64]) -> Action {
        Action::Read { key, values: values.to_vec() }
    }

    fn committed(begin: u64, end: u64, actions: &[Action]) -> Transaction {
        Transaction { begin, end: Some(end), fate: Fate::Committed, actions: actions.to_vec() }
    }

    fn cycle_of(history: &[Transaction]) -> Vec<Why> {
        match check(history) {
            Err(Anomaly::Cycle(edges)) => {
                let mut why: Vec<Why> = edges.into_iter().map(|(_, _, why)| why).collect();
                why.sort_unstable();
                why
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_serial_history_is_right() {
        let history = [
            committed(0, 1, &[append(X, 1), append(Y, 2)]),
            committed(2, 3, &[read(X, &[1]), append(Y, 3)]),
            committed(4, 5, &[read(X, &[1]), read(Y, &[2, 3])]),
        ];
        assert_eq!(check(&history), Ok(()));
    }

    #[test]
    fn concurrent_transactions_may_have_happened_in_any_order() {
        let history = [
            committed(0, 9, &[append(X, 1)]),
            committed(0, 9, &[read(X, &[])]),
            committed(0, 9, &[read(X, &[1])]),
        ];
        assert_eq!(check(&history), Ok(()));
    }

    #[test]
    fn a_read_of_less_than_had_been_written_before_it_began_is_found() {
        let history = [committed(0, 1, &[append(X, 1)]), committed(2, 3, &[read(X, &[])])];
        assert_eq!(cycle_of(&history), [Why::ReadWrite, Why::RealTime]);
    }

    #[test]
    fn a_lost_update_is_found() {
        let history = [
            committed(0, 9, &[read(X, &[]), append(X, 1)]),
            committed(0, 9, &[read(X, &[]), append(X, 2)]),
            committed(10, 11, &[read(X, &[1, 2])]),
        ];
        assert_eq!(cycle_of(&history), [Why::WriteWrite, Why::ReadWrite]);
    }

    #[test]
    fn half_of_a_transaction_that_is_read_is_found() {
        let history =
            [committed(0, 9, &[append(X, 1), append(Y, 2)]), committed(0, 9, &[read(X, &[1]), read(Y, &[])])];
        assert_eq!(cycle_of(&history), [Why::WriteRead, Why::ReadWrite]);
    }

    #[test]
    fn write_skew_is_found() {
        let history = [
            committed(0, 9, &[read(X, &[]), append(Y, 1)]),
            committed(0, 9, &[read(Y, &[]), append(X, 2)]),
            committed(10, 11, &[read(X, &[2]), read(Y, &[1])]),
        ];
        assert_eq!(cycle_of(&history), [Why::ReadWrite, Why::ReadWrite]);
    }

    #[test]
    fn writers_that_two_lists_order_otherwise_are_found() {
        let history = [
            committed(0, 9, &[append(X, 1), append(Y, 2)]),
            committed(0, 9, &[append(X, 3), append(Y, 4)]),
            committed(10, 11, &[read(X, &[1, 3]), read(Y, &[4, 2])]),
        ];
        assert_eq!(cycle_of(&history), [Why::WriteWrite, Why::WriteWrite]);
    }

    #[test]
    fn what_was_seen_by_one_and_not_by_a_later_one_is_found() {
        let writer =
            Transaction { end: None, fate: Fate::Unknown, ..committed(0, 0, &[append(X, 1), append(Y, 2)]) };
        let history = [writer, committed(1, 2, &[read(X, &[1])]), committed(3, 4, &[read(Y, &[])])];
        assert_eq!(cycle_of(&history), [Why::WriteRead, Why::ReadWrite, Why::RealTime]);
    }

    #[test]
    fn an_acknowledged_write_that_nobody_ever_sees_is_found() {
        let history = [
            committed(0, 1, &[append(X, 1)]),
            committed(2, 3, &[append(X, 2)]),
            committed(4, 5, &[read(X, &[2])]),
        ];
        assert_eq!(cycle_of(&history), [Why::WriteWrite, Why::RealTime]);
    }

    #[test]
    fn what_needs_no_cycle_is_told() {
        let aborted = Transaction { fate: Fate::Aborted, ..committed(0, 1, &[append(X, 1)]) };
        let history = [aborted, committed(2, 3, &[read(X, &[1])])];
        assert_eq!(check(&history), Err(Anomaly::AbortedRead { reader: 1, value: 1 }));
        let history = [committed(2, 3, &[read(X, &[7])])];
        assert_eq!(check(&history), Err(Anomaly::Phantom { reader: 0, value: 7 }));
        let history = [committed(0, 1, &[append(X, 1)]), committed(2, 3, &[read(X, &[1, 1])])];
        assert_eq!(check(&history), Err(Anomaly::Duplicate { reader: 1, value: 1 }));
        let writer = committed(0, 9, &[append(X, 1), append(X, 2)]);
        let history = [writer, committed(0, 9, &[read(X, &[1])]), committed(0, 9, &[read(X, &[2])])];
        assert_eq!(check(&history), Err(Anomaly::Incompatible { one: 1, other: 2, key: X }));
    }

    #[test]
    fn transactions_that_never_were_leave_no_trace() {
        let unknown = Transaction { end: None, fate: Fate::Unknown, ..committed(0, 0, &[append(X, 1)]) };
        let aborted = Transaction { fate: Fate::Aborted, ..committed(0, 1, &[append(X, 2)]) };
        let history = [unknown, aborted, committed(2, 3, &[read(X, &[])])];
        assert_eq!(check(&history), Ok(()));
    }
}
