//! The graph: edges of real time, and the search for cycles, the simplest class first.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::{CycleClass, Edge, EdgeReason, Transaction, TransactionFate};

/// The search starts at so many transactions on cycles; more would give no better cycle.
const STARTS_MAX: usize = 64;

/// Edges of real time, without those that follow from others. Each transaction has an edge from
/// every transaction that ended before it began, unless a third one lies fully between them. There
/// are at most as many per transaction as were concurrent.
pub(super) fn real_time(history: &[Transaction]) -> Vec<Edge> {
    let mut moments: Vec<(u64, bool, usize)> = Vec::with_capacity(history.len() * 2);
    for (number, one) in history.iter().enumerate().filter(|(_, one)| one.fate != TransactionFate::Aborted) {
        // A transaction that ends when another begins has not ended before it.
        moments.push((one.begin, false, number));
        if let (TransactionFate::Committed, Some(end)) = (one.fate, one.end) {
            moments.push((end, true, number));
        }
    }
    moments.sort_unstable();
    let mut edges = Vec::new();
    let mut ended: BTreeSet<usize> = BTreeSet::new();
    let mut before: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (_, is_end, number) in moments {
        if is_end {
            for earlier in before.remove(&number).unwrap_or_default() {
                ended.remove(&earlier);
            }
            ended.insert(number);
        } else {
            edges.extend(ended.iter().map(|earlier| (*earlier, number, EdgeReason::RealTime)));
            before.insert(number, ended.iter().copied().collect());
        }
    }
    edges
}

/// A cycle of the simplest class that exists, among so many transactions.
pub(super) fn cycle(count: usize, edges: &[Edge]) -> Option<Vec<Edge>> {
    let among = |is_in: &dyn Fn(EdgeReason) -> bool| {
        let mut next: Vec<Vec<(usize, EdgeReason)>> = vec![Vec::new(); count];
        edges.iter().filter(|edge| is_in(edge.2)).for_each(|(from, to, why)| next[*from].push((*to, *why)));
        next
    };
    let all = among(&|_| true);
    if on_cycles(&all).is_empty() {
        return None;
    }
    let without_rw = among(&|why| why != EdgeReason::ReadWrite);
    shortest(&among(&|why| matches!(why, EdgeReason::WriteWrite | EdgeReason::RealTime)))
        .or_else(|| shortest(&without_rw))
        .or_else(|| shortest_with_one(edges, &without_rw))
        .or_else(|| shortest(&all))
}

/// The shortest cycle from a few starting points on cycles.
fn shortest(next: &[Vec<(usize, EdgeReason)>]) -> Option<Vec<Edge>> {
    let starts = on_cycles(next).into_iter().take(STARTS_MAX);
    starts.filter_map(|start| path(next, start, start)).min_by_key(Vec::len)
}

/// The shortest cycle with one read of an overwritten value, from a few such edges.
fn shortest_with_one(edges: &[Edge], next: &[Vec<(usize, EdgeReason)>]) -> Option<Vec<Edge>> {
    let reads = edges.iter().filter(|(_, _, why)| *why == EdgeReason::ReadWrite);
    let cycles = reads.filter_map(|edge| {
        let mut cycle = path(next, edge.1, edge.0)?;
        cycle.push(*edge);
        Some(cycle)
    });
    let cycle = cycles.take(STARTS_MAX).min_by_key(Vec::len);
    debug_assert!(
        cycle.as_ref().is_none_or(|cycle| CycleClass::of(cycle) == CycleClass::GSingle),
        "it has one"
    );
    cycle
}

/// The transactions that remain when those without predecessor or successor are removed repeatedly.
fn on_cycles(next: &[Vec<(usize, EdgeReason)>]) -> Vec<usize> {
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

/// The shortest path of at least one edge.
fn path(next: &[Vec<(usize, EdgeReason)>], start: usize, goal: usize) -> Option<Vec<Edge>> {
    let mut came: BTreeMap<usize, Edge> = BTreeMap::new();
    let mut queue = VecDeque::from([start]);
    while let Some(from) = queue.pop_front() {
        for (to, why) in &next[from] {
            if *to == goal {
                let mut way = vec![(from, goal, *why)];
                while way[0].0 != start {
                    way.insert(0, came[&way[0].0]);
                }
                return Some(way);
            }
            if !came.contains_key(to) && *to != start {
                came.insert(*to, (from, *to, *why));
                queue.push_back(*to);
            }
        }
    }
    None
}
