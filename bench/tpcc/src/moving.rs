//! Splits and moves regions of CUSTOMER while the terminals run, by the program's commands.
//!
//! ```text
//!   0 ────────── 1/3 ── split each region ── move one region after the other ── 2/3 ────────── 1
//!      before                            while moved                                 after
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use bench_common::failure::Failure;
use bench_common::limits::STATUS_POLL;
use bench_common::process::{now, pause};
use bench_common::servers::Cluster;
use serde::Serialize;
use serde_json::Value;

use crate::keys::DistrictKey;
use crate::limits;
use crate::population::DISTRICTS;

/// What a mark of a picture shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum MarkKind {
    Split,
    Move,
}

/// A command, in seconds of the measured time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Mark {
    pub(crate) kind: MarkKind,
    pub(crate) from: f64,
    pub(crate) until: f64,
    pub(crate) what: String,
}

/// Mean rates of transactions, in transactions per second; `None` without a slot.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct PhaseRates {
    pub(crate) before: Option<f64>,
    pub(crate) during: Option<f64>,
    pub(crate) after: Option<f64>,
}

/// The keyspace whose regions are moved.
const KEYSPACE: &str = "customer";

/// Splits the regions of these warehouses in their middle, and moves regions in turn until two thirds of the time have passed.
pub(crate) fn run(
    cluster: &Cluster,
    warehouses: u32,
    started: Instant,
    seconds: u64,
) -> Result<Vec<Mark>, Failure> {
    let third = Duration::from_secs(seconds) / 3;
    let mut marks = Vec::new();
    pause((started + third).saturating_duration_since(now()));
    let mut command = |kind: MarkKind, line: &str| {
        let from = (now() - started).as_secs_f64();
        cluster.command_within(line, limits::MOVE)?;
        let until = (now() - started).as_secs_f64();
        marks.push(Mark { kind, from, until, what: line.to_owned() });
        Ok::<(), Failure>(())
    };
    for warehouse in 1..=warehouses.min(limits::SPLIT_WAREHOUSES) {
        command(MarkKind::Split, &format!("region split {KEYSPACE} --at {}", middle_of(warehouse)))?;
    }
    for turn in 0.. {
        if now() >= started + third * 2 {
            break;
        }
        let regions = cluster.command_within(&format!("region list {KEYSPACE} --json"), limits::MOVE)?;
        let status = cluster.command_within("status --json", limits::MOVE)?;
        let Some((region, node)) = next_move(&regions, &status, turn)? else {
            pause(STATUS_POLL);
            continue;
        };
        command(MarkKind::Move, &format!("partition move {KEYSPACE}/{region} --to {node} --json"))?;
    }
    Ok(marks)
}

/// The first key of the second half of a warehouse's districts, in the terms of the command line.
fn middle_of(warehouse: u32) -> String {
    let middle = DistrictKey { warehouse, district: DISTRICTS / 2 + 1 };
    middle.prefix().iter().map(|byte| format!("\\x{byte:02x}")).collect()
}

/// The region of this turn, and the next node behind that of its primary without a copy of it, from the JSON of `region list` and `status`. `None` if
/// every node has a copy: one of them is about to leave.
fn next_move(regions: &str, status: &str, turn: usize) -> Result<Option<(u64, u64)>, Failure> {
    let wrong = |what: &str| Failure::Protocol(format!("nothing about {what}: {regions} {status}"));
    let regions: Vec<Value> = regions.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let region = regions.get(turn % regions.len().max(1)).ok_or_else(|| wrong("regions"))?;
    let number = region["region"].as_u64().ok_or_else(|| wrong("regions"))?;
    let status: Value = serde_json::from_str(status).map_err(|_| wrong("nodes"))?;
    let nodes = status["nodes"].as_array().ok_or_else(|| wrong("nodes"))?;
    // Each node has one instance.
    let node_of: BTreeMap<u64, u64> = nodes
        .iter()
        .filter_map(|node| Some((node["instances"].get(0)?["id"].as_u64()?, node["id"].as_u64()?)))
        .collect();
    let primary = region["primary"].as_u64().ok_or_else(|| wrong("a primary"))?;
    let listed = |what: &str| region[what].as_array().into_iter().flatten().filter_map(Value::as_u64);
    let copies: BTreeSet<u64> = listed("in_sync").chain(listed("followers")).chain([primary]).collect();
    let mut behind = node_of.range(primary + 1..).chain(node_of.range(..=primary));
    Ok(behind.find(|(instance, _)| !copies.contains(instance)).map(|(_, node)| (number, *node)))
}

/// Rates before the first mark, until the last one ends, and after it, from the transactions of each slot. A slot that a mark touches counts as
/// disturbed.
pub(crate) fn phase_rates(slots: &[u64], slot_seconds: u64, marks: &[Mark]) -> PhaseRates {
    let slot_of = |second: f64| (second / slot_seconds as f64) as usize;
    let first = marks.first().map_or(slots.len(), |mark| slot_of(mark.from)).min(slots.len());
    let behind = marks.last().map_or(slots.len(), |mark| slot_of(mark.until) + 1).clamp(first, slots.len());
    let mean = |slots: &[u64]| {
        let seconds = slots.len() as f64 * slot_seconds as f64;
        (!slots.is_empty()).then(|| slots.iter().sum::<u64>() as f64 / seconds)
    };
    PhaseRates {
        before: mean(&slots[..first]),
        during: mean(&slots[first..behind]),
        after: mean(&slots[behind..]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REGIONS: &str = r#"{"region":0,"primary":2,"in_sync":[],"followers":[]}
{"region":5,"primary":7,"in_sync":[9],"followers":[]}
{"region":6,"primary":7,"in_sync":[9],"followers":[2]}"#;
    const STATUS: &str = r#"{"nodes":[{"id":1,"instances":[{"id":2}]},{"id":3,"instances":[{"id":7}]},{"id":4,"instances":[{"id":9}]}]}"#;

    #[test]
    fn regions_move_in_turn_to_the_next_node_without_a_copy() {
        let moves: Vec<Option<(u64, u64)>> =
            (0..4).map(|turn| next_move(REGIONS, STATUS, turn).unwrap()).collect();
        assert_eq!(moves, [Some((0, 3)), Some((5, 1)), None, Some((0, 3))]);
        assert!(next_move("", STATUS, 0).is_err());
        assert!(next_move(REGIONS, "{}", 0).is_err());
    }

    #[test]
    fn warehouse_is_split_at_its_sixth_district() {
        assert_eq!(middle_of(258), "\\x00\\x00\\x01\\x02\\x06");
    }

    #[test]
    fn rates_are_those_before_while_and_after_the_marks() {
        let mark = |from, until| Mark { kind: MarkKind::Move, from, until, what: String::new() };
        let slots = [100, 100, 10, 30, 20, 90];
        let rates = phase_rates(&slots, 2, &[mark(4.5, 5.0), mark(6.0, 8.1)]);
        assert_eq!(rates, PhaseRates { before: Some(50.0), during: Some(10.0), after: Some(45.0) });
        let late = phase_rates(&slots, 2, &[mark(4.0, 99.0)]);
        assert_eq!((late.during, late.after), (Some(18.75), None));
        assert_eq!(phase_rates(&slots, 2, &[]).during, None);
    }
}
