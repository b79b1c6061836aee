//! The results: figures of each run for the table, and everything as JSON.

use bench_common::Machine;
use bench_common::histogram::Histogram;
use bench_common::reading::Measurement;
use bench_common::report::Summary;
use serde::Serialize;

use crate::conditions::ConditionResult;
use crate::inputs::TransactionKind;
use crate::modes::{AFTER_MOVES, Mode, NEW_ORDERS, SERVERS_CPU, System, TRANSACTIONS, WHILE_MOVED, response};
use crate::moving::{Mark, MarkKind, PhaseRates, phase_rates};
use crate::picture::{Band, Curve, Panel, Picture};
use crate::run::RunMeasurement;
use crate::terminals::{Latencies, Orders, TerminalCounts};

/// The output of `--json`.
#[derive(Serialize)]
pub(crate) struct Report {
    pub(crate) machine: Machine,
    pub(crate) setting: Setting,
    pub(crate) missing: Vec<String>,
    /// One of each mode.
    pub(crate) scenarios: Vec<Summary>,
    /// The names of the pictures, in the folder of the file.
    pub(crate) pictures: Vec<String>,
    pub(crate) runs: Vec<RunReport>,
}

/// The arguments of all runs.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Setting {
    pub(crate) warehouses: u32,
    pub(crate) customers_per_district: u32,
    pub(crate) items: u32,
    pub(crate) terminals: u32,
    pub(crate) seconds: u64,
    pub(crate) rounds: u64,
    pub(crate) seed: u64,
    pub(crate) cores: Vec<usize>,
}

/// One run.
#[derive(Serialize)]
pub(crate) struct RunReport {
    pub(crate) mode: &'static str,
    pub(crate) system: &'static str,
    pub(crate) version: String,
    /// From zero.
    pub(crate) round: u64,
    pub(crate) figures: Measurement,
    pub(crate) transactions: Vec<KindReport>,
    pub(crate) slots: Vec<SlotReport>,
    pub(crate) marks: Vec<Mark>,
    pub(crate) errors: Vec<String>,
    pub(crate) conditions: Vec<ConditionResult>,
}

/// The counts of one kind of transaction.
#[derive(Serialize)]
pub(crate) struct KindReport {
    pub(crate) name: &'static str,
    pub(crate) committed: u64,
    pub(crate) rolled_back: u64,
    pub(crate) retries: u64,
    pub(crate) failed: u64,
    pub(crate) unknown: u64,
}

/// A part of the measured time.
#[derive(Serialize)]
pub(crate) struct SlotReport {
    /// Its begin.
    pub(crate) second: u64,
    pub(crate) transactions_per_second: f64,
    /// Of each kind, in the order of the mix; `None` without a transaction.
    pub(crate) p50_ms: Vec<Option<f64>>,
    pub(crate) p90_ms: Vec<Option<f64>>,
}

impl RunReport {
    pub(crate) fn new(
        (mode, system, round): (Mode, System, u64),
        orders: Orders,
        measured: RunMeasurement,
    ) -> RunReport {
        let figures = figures(orders, &measured);
        let RunMeasurement { version, counts, conditions, marks, .. } = measured;
        RunReport {
            mode: mode.name,
            system: system.label(),
            version,
            round,
            figures,
            transactions: TransactionKind::MIX
                .iter()
                .map(|(kind, _)| KindReport::of(&counts, *kind))
                .collect(),
            slots: (0..).zip(&counts.slots).map(|(at, slot)| SlotReport::of(slot, at, orders)).collect(),
            marks,
            errors: counts.errors,
            conditions,
        }
    }

    /// Violated conditions, and transactions that were not done.
    pub(crate) fn problems(&self) -> Vec<String> {
        let RunReport { system, round, .. } = self;
        let place = format!("{system} in round {}", round + 1);
        let violated = self.conditions.iter().filter(|condition| condition.violations > 0);
        let violated = violated.map(|ConditionResult { number, about, violations, examples }| {
            format!(
                "{place}: condition {number}, {about}: VIOLATED {violations} times: {}",
                examples.join("; ")
            )
        });
        let failed = self.transactions.iter().filter(|kind| kind.failed + kind.unknown > 0);
        let failed = failed.map(|KindReport { name, failed, unknown, .. }| {
            format!(
                "{place}: {name}: {failed} failed, {unknown} with unknown outcome: {}",
                self.errors.join("; ")
            )
        });
        violated.chain(failed).collect()
    }

    /// The line of a run that has ended.
    pub(crate) fn progress(&self) -> String {
        let figure = |name: &str| self.figures.get(name).unwrap_or(f64::NAN);
        let retries: u64 = self.transactions.iter().map(|kind| kind.retries).sum();
        format!(
            "{}, round {}: {}: {:.1} {TRANSACTIONS}, {:.0} {NEW_ORDERS}, {retries} retries, {} problems",
            self.mode,
            self.round + 1,
            self.version,
            figure(TRANSACTIONS),
            figure(NEW_ORDERS),
            self.problems().len()
        )
    }
}

fn figures(orders: Orders, measured: &RunMeasurement) -> Measurement {
    let RunMeasurement { counts, servers, terminals, marks, .. } = measured;
    let seconds = orders.seconds as f64;
    let ended = counts.ended();
    let per_transaction = |time: std::time::Duration| time.as_secs_f64() * 1e6 / ended.max(1) as f64;
    let mut figures = Measurement::default();
    figures.put(TRANSACTIONS, ended as f64 / seconds);
    let new_orders = counts.latencies(TransactionKind::NewOrder).count();
    figures.put(NEW_ORDERS, new_orders as f64 * 60.0 / seconds);
    for (kind, _) in TransactionKind::MIX {
        let latencies = counts.latencies(kind);
        for (name, part) in [("p50", 0.5), ("p90", 0.9), ("p99", 0.99)] {
            figures.put(&response(kind, name), ms(&latencies, part));
        }
    }
    let retries: u64 = counts.kinds.iter().map(|kind| kind.retries).sum();
    figures.put("retries of 100 transactions", retries as f64 * 100.0 / ended.max(1) as f64);
    figures.put(SERVERS_CPU, per_transaction(servers.ran));
    figures.put("servers kept waiting us/transaction", per_transaction(servers.waited));
    figures.put("terminals' CPU us/transaction", per_transaction(*terminals));
    if !marks.is_empty() {
        put_phases(&mut figures, counts, orders, marks);
    }
    figures
}

fn put_phases(figures: &mut Measurement, counts: &TerminalCounts, orders: Orders, marks: &[Mark]) {
    let slots: Vec<u64> = counts.slots.iter().map(ended).collect();
    let PhaseRates { before, during, after } = phase_rates(&slots, orders.slot_seconds(), marks);
    let of = |kind: MarkKind| marks.iter().filter(|mark| mark.kind == kind).count() as f64;
    figures.put("splits", of(MarkKind::Split));
    figures.put("moves", of(MarkKind::Move));
    for (name, ratio, rate) in [
        ("transactions/s before", None, before),
        ("transactions/s while moved", Some(WHILE_MOVED), during),
        ("transactions/s after", Some(AFTER_MOVES), after),
    ] {
        let Some(rate) = rate else { continue };
        figures.put(name, rate);
        if let (Some(ratio), Some(before)) = (ratio, before.filter(|before| *before > 0.0)) {
            figures.put(ratio, rate / before);
        }
    }
}

impl KindReport {
    fn of(measured: &TerminalCounts, kind: TransactionKind) -> KindReport {
        let counts = measured.of(kind);
        KindReport {
            name: kind.name(),
            committed: counts.committed,
            rolled_back: counts.rolled_back,
            retries: counts.retries,
            failed: counts.failed,
            unknown: counts.unknown,
        }
    }
}

impl SlotReport {
    fn of(slot: &Latencies, at: u64, orders: Orders) -> SlotReport {
        let second = at * orders.slot_seconds();
        // The last slot may be shorter.
        let seconds = orders.slot_seconds().min(orders.seconds - second);
        let of_kinds = |part: f64| slot.iter().map(|of| (of.count() > 0).then(|| ms(of, part))).collect();
        SlotReport {
            second,
            transactions_per_second: ended(slot) as f64 / seconds as f64,
            p50_ms: of_kinds(0.5),
            p90_ms: of_kinds(0.9),
        }
    }
}

fn ended(slot: &Latencies) -> u64 {
    slot.iter().map(Histogram::count).sum()
}

fn ms(latencies: &Histogram, part: f64) -> f64 {
    latencies.percentile(part) as f64 / 1e6
}

/// The picture of a mode: throughput and response times over time, of the round with the median throughput of each system.
pub(crate) fn picture(mode: Mode, seconds: u64, runs: &[RunReport]) -> Option<Picture> {
    let shown: Vec<&RunReport> =
        System::ALL.iter().filter_map(|system| median_run(mode, *system, runs)).collect();
    let slot_seconds = shown.first()?.slots.get(1).map_or(seconds, |slot| slot.second) as f64;
    let curves = |value: &dyn Fn(&SlotReport) -> Option<f64>| -> Vec<Curve> {
        let points = |run: &&RunReport| {
            // A value is shown in the middle of its slot.
            let middle = |slot: &SlotReport| (slot.second as f64 + slot_seconds / 2.0).min(seconds as f64);
            run.slots.iter().filter_map(|slot| Some((middle(slot), value(slot)?))).collect()
        };
        shown.iter().enumerate().map(|(name, run)| Curve { name, points: points(run) }).collect()
    };
    let mut panels = vec![Panel {
        title: TRANSACTIONS.to_owned(),
        curves: curves(&|slot| Some(slot.transactions_per_second)),
    }];
    panels.extend(TransactionKind::MIX.map(|(kind, _)| Panel {
        title: response(kind, "p90"),
        curves: curves(&|slot| slot.p90_ms[kind as usize]),
    }));
    let marks: Vec<&Mark> = shown.iter().flat_map(|run| &run.marks).collect();
    let of = |kind: MarkKind| marks.iter().filter(|mark| mark.kind == kind).count();
    let moved = format!(
        "bands: regions of CUSTOMER are split ({}) and moved ({}) in {}",
        of(MarkKind::Split),
        of(MarkKind::Move),
        System::ZerohopMoving.label()
    );
    let mut notes = vec![format!("seconds; {}; no result of TPC-C by its rules", mode.about)];
    notes.extend((!marks.is_empty()).then_some(moved));
    Some(Picture {
        title: format!("TPC-C, {}: the round of the median throughput of each system", mode.name),
        seconds: seconds as f64,
        names: shown.iter().map(|run| format!("{} ({})", run.system, run.version)).collect(),
        panels,
        bands: marks
            .iter()
            .map(|mark| Band { from: mark.from, until: mark.until, about: mark.what.clone() })
            .collect(),
        notes,
    })
}

/// The run of a system with the median throughput, the lower one of two.
fn median_run(mode: Mode, system: System, runs: &[RunReport]) -> Option<&RunReport> {
    let is_it = |run: &&RunReport| run.mode == mode.name && run.system == system.label();
    let mut runs: Vec<&RunReport> = runs.iter().filter(is_it).collect();
    let rate = |run: &RunReport| run.figures.get(TRANSACTIONS).unwrap_or(0.0);
    runs.sort_by(|left, right| rate(left).total_cmp(&rate(right)));
    runs.get(runs.len().checked_sub(1)? / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::modes::MODES;
    use crate::population::Scale;
    use bench_common::usage::Cpu;
    use std::time::Duration;

    const SCALE: Scale = Scale { warehouses: 1, customers: 10, items: 20 };
    const ORDERS: Orders = Orders { scale: SCALE, terminals: 1, seconds: 6, seed: 1, time: 0 };

    fn report(change: impl FnOnce(&mut RunMeasurement)) -> RunReport {
        let mut counts = TerminalCounts::new(ORDERS);
        for (at, slot) in counts.slots.iter_mut().enumerate() {
            slot[TransactionKind::NewOrder as usize]
                .record(2_000_000, if (2..4).contains(&at) { 5 } else { 10 });
        }
        let mut measured = RunMeasurement {
            version: "x 1".into(),
            counts,
            servers: Cpu { ran: Duration::from_millis(50), waited: Duration::ZERO },
            terminals: Duration::ZERO,
            conditions: Vec::new(),
            marks: Vec::new(),
        };
        change(&mut measured);
        RunReport::new((MODES[0], System::ZerohopMoving, 0), ORDERS, measured)
    }

    #[test]
    fn figures_are_rates_of_the_measured_time() {
        let report = report(|_| ());
        let figure = |name: &str| report.figures.get(name).unwrap();
        assert_eq!(
            (figure(TRANSACTIONS), figure(NEW_ORDERS), figure(SERVERS_CPU)),
            (50.0 / 6.0, 500.0, 1000.0)
        );
        assert!((1.9..2.1).contains(&figure("New-Order p90 ms")));
        assert_eq!(report.figures.get(WHILE_MOVED), None);
        assert_eq!((report.slots[2].transactions_per_second, report.slots[2].p50_ms[1]), (5.0, None));
        assert_eq!(report.problems(), [""; 0]);
    }

    #[test]
    fn rates_around_moves_are_ratios_to_the_rate_before() {
        let mark = |kind, from, until| Mark { kind, from, until, what: String::new() };
        let report = report(|measured| {
            measured.marks = vec![mark(MarkKind::Split, 2.0, 2.5), mark(MarkKind::Move, 2.5, 3.9)];
        });
        let figure = |name: &str| report.figures.get(name).unwrap();
        assert_eq!((figure("splits"), figure("moves")), (1.0, 1.0));
        assert_eq!((figure(WHILE_MOVED), figure(AFTER_MOVES)), (0.5, 1.0));
    }

    #[test]
    fn picture_shows_the_median_round_with_its_marks() {
        let run = |round: usize, count: u64| {
            let mut run = report(|measured| {
                measured.counts.slots[0][0].record(1, count);
                let what = format!("move {round}");
                measured.marks = vec![Mark { kind: MarkKind::Move, from: 2.0, until: 3.0, what }];
            });
            run.round = round as u64;
            run
        };
        let runs = [run(0, 60), run(1, 600), run(2, 6)];
        let picture = picture(MODES[0], 6, &runs).unwrap();
        assert_eq!(picture.bands[0].about, "move 0");
        assert_eq!(picture.panels[0].curves[0].points[..2], [(0.5, 70.0), (1.5, 10.0)]);
        // No Payment ended.
        assert_eq!((picture.panels.len(), picture.panels[2].curves[0].points.len()), (6, 0));
        assert!(super::picture(MODES[1], 6, &runs).is_none());
    }

    #[test]
    fn violated_condition_and_failed_transaction_are_problems() {
        let report = report(|measured| {
            measured.counts.kinds[1].unknown = 1;
            measured.counts.errors.push("gone".into());
            measured.conditions.push(ConditionResult {
                number: 4,
                about: "a = b",
                violations: 2,
                examples: vec!["district 1.2".into()],
            });
        });
        let problems = report.problems();
        assert!(problems[0].contains("condition 4") && problems[0].contains("district 1.2"), "{problems:?}");
        assert!(problems[1].contains("Payment") && problems[1].contains("gone"), "{problems:?}");
    }
}
