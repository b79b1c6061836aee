//! From runs to figures: medians over rounds, and ratios computed within each round before their
//! median.

use serde::Serialize;

use crate::crash_safety::CrashSafe;
use crate::outcome::{ContenderRole, Outcome};
use crate::reading::{Phase, Run};
use bench_common::Spread;

/// Everything measured at one number of records.
#[derive(Serialize)]
pub(crate) struct Summary {
    pub(crate) records: u64,
    pub(crate) rounds: usize,
    pub(crate) subjects: Vec<SubjectInfo>,
    pub(crate) phases: Vec<PhaseSummary>,
    pub(crate) failures: Vec<FailureLine>,
    /// Raw values, for other evaluations.
    pub(crate) runs: Vec<RawRun>,
}

/// The properties of a subject.
#[derive(Serialize)]
pub(crate) struct SubjectInfo {
    pub(crate) label: String,
    pub(crate) version: String,
    pub(crate) mode: String,
    pub(crate) crash_safe: CrashSafe,
    pub(crate) harness_ns: Spread,
}

/// One phase of all subjects.
#[derive(Serialize)]
pub(crate) struct PhaseSummary {
    pub(crate) phase: String,
    pub(crate) rows: Vec<Row>,
    pub(crate) ratios: Vec<Ratio>,
}

/// One phase of one subject over all its rounds.
#[derive(Serialize)]
pub(crate) struct Row {
    pub(crate) label: String,
    pub(crate) ops_per_s: Spread,
    pub(crate) settled_ops_per_s: Spread,
    pub(crate) p50_us: Spread,
    pub(crate) p99_us: Spread,
    pub(crate) p999_us: Spread,
    pub(crate) longest_us: Spread,
    pub(crate) cpu_us_per_op: Spread,
    pub(crate) disk_bytes_per_key: Spread,
    pub(crate) rss_bytes_per_key: Spread,
    pub(crate) anonymous_bytes_per_key: Spread,
    pub(crate) own_memory_bytes_per_key: Option<Spread>,
}

/// Zerohop relative to the best of some peers, which is chosen separately in each round.
#[derive(Serialize)]
pub(crate) struct Ratio {
    pub(crate) ours: String,
    pub(crate) against: PeerChoice,
    /// The peer with the best median.
    pub(crate) best: String,
    pub(crate) ops_per_s: Spread,
    pub(crate) settled_ops_per_s: Spread,
    /// Operations per second of CPU time: the most stable of the three on a machine with other
    /// work.
    pub(crate) ops_per_cpu_s: Spread,
}

/// The peers of a ratio.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum PeerChoice {
    BestPeer,
    /// The peers that survive at least a killed process.
    BestCrashSafePeer,
}

/// A run that gave no figures.
#[derive(Serialize)]
pub(crate) struct FailureLine {
    pub(crate) label: String,
    pub(crate) round: usize,
    pub(crate) reason: String,
}

/// A successful run.
#[derive(Serialize)]
pub(crate) struct RawRun {
    pub(crate) label: String,
    pub(crate) round: usize,
    pub(crate) kind: ContenderRole,
    pub(crate) run: Run,
}

impl Summary {
    /// The summary of all outcomes at one number of records.
    pub(crate) fn of(records: u64, rounds: usize, outcomes: Vec<Outcome>) -> Summary {
        let (mut runs, mut failures) = (Vec::new(), Vec::new());
        for Outcome { label, kind, round, result } in outcomes {
            match result {
                Ok(run) => runs.push(RawRun { label, round, kind, run }),
                Err(error) => failures.push(FailureLine { label, round, reason: error.to_string() }),
            }
        }
        let labels = distinct(runs.iter().map(|raw| raw.label.as_str()));
        let phases = distinct(runs.iter().flat_map(|raw| &raw.run.phases).map(|phase| phase.name.as_str()));
        Summary {
            records,
            rounds,
            subjects: labels.iter().filter_map(|label| SubjectInfo::of(label, &runs)).collect(),
            phases: phases
                .iter()
                .map(|phase| PhaseSummary {
                    phase: phase.clone(),
                    rows: labels.iter().filter_map(|label| Row::of(label, phase, records, &runs)).collect(),
                    ratios: ratios(phase, &labels, &runs),
                })
                .collect(),
            failures,
            runs,
        }
    }
}

impl SubjectInfo {
    fn of(label: &str, runs: &[RawRun]) -> Option<SubjectInfo> {
        let run = &runs.iter().find(|raw| raw.label == label)?.run;
        let all = runs.iter().filter(|raw| raw.label == label);
        Some(SubjectInfo {
            label: label.into(),
            version: run.version.clone(),
            mode: run.mode.clone(),
            crash_safe: run.crash_safe,
            harness_ns: Spread::of(all.map(|raw| raw.run.harness_ns))?,
        })
    }
}

impl Row {
    fn of(label: &str, phase: &str, records: u64, runs: &[RawRun]) -> Option<Row> {
        let rounds: Vec<&Phase> =
            runs.iter().filter(|raw| raw.label == label).filter_map(|raw| raw.run.phase(phase)).collect();
        let spread = |figure: &dyn Fn(&Phase) -> f64| Spread::of(rounds.iter().map(|phase| figure(phase)));
        let per_key = |bytes: u64| bytes as f64 / records as f64;
        Some(Row {
            label: label.into(),
            ops_per_s: spread(&Phase::rate)?,
            settled_ops_per_s: spread(&Phase::sustainable_rate)?,
            p50_us: spread(&|phase| f64::from(phase.p50_ns) / 1e3)?,
            p99_us: spread(&|phase| f64::from(phase.p99_ns) / 1e3)?,
            p999_us: spread(&|phase| f64::from(phase.p999_ns) / 1e3)?,
            longest_us: spread(&|phase| f64::from(phase.longest_ns) / 1e3)?,
            cpu_us_per_op: spread(&Phase::cpu_us)?,
            disk_bytes_per_key: spread(&|phase| per_key(phase.disk_bytes))?,
            rss_bytes_per_key: spread(&|phase| per_key(phase.rss_bytes))?,
            anonymous_bytes_per_key: spread(&|phase| per_key(phase.anonymous_bytes))?,
            own_memory_bytes_per_key: Spread::of(
                rounds.iter().filter_map(|phase| phase.own_memory_bytes).map(per_key),
            ),
        })
    }
}

fn ratios(phase: &str, labels: &[String], runs: &[RawRun]) -> Vec<Ratio> {
    let ours = labels
        .iter()
        .filter(|label| runs.iter().any(|raw| raw.label == **label && raw.kind == ContenderRole::Ours));
    let both = |label: &String| {
        let label = label.clone();
        [PeerChoice::BestPeer, PeerChoice::BestCrashSafePeer]
            .into_iter()
            .filter_map(move |against| Ratio::of(&label, against, phase, labels, runs))
    };
    ours.flat_map(both).collect()
}

impl Ratio {
    fn of(ours: &str, against: PeerChoice, phase: &str, labels: &[String], runs: &[RawRun]) -> Option<Ratio> {
        let counts = |raw: &RawRun| {
            raw.kind == ContenderRole::Peer
                && (against == PeerChoice::BestPeer || raw.run.crash_safe != CrashSafe::None)
        };
        let peers: Vec<&RawRun> = runs.iter().filter(|raw| counts(raw)).collect();
        let median_of = |label: &str| {
            let own = peers.iter().filter(|raw| raw.label == label);
            Spread::of(own.filter_map(|raw| raw.run.phase(phase)).map(Phase::rate))
                .map(|spread| spread.median)
        };
        let best = labels
            .iter()
            .filter_map(|label| Some((label, median_of(label)?)))
            .max_by(|a, b| a.1.total_cmp(&b.1))?
            .0;
        let within_rounds = |rate: fn(&Phase) -> f64| {
            let own = runs.iter().filter(|raw| raw.label == ours);
            Spread::of(own.filter_map(|raw| {
                let in_round = peers.iter().filter(|peer| peer.round == raw.round);
                let best = in_round.filter_map(|peer| peer.run.phase(phase)).map(rate).reduce(f64::max)?;
                Some(rate(raw.run.phase(phase)?) / best)
            }))
        };
        Some(Ratio {
            ours: ours.into(),
            against,
            best: best.clone(),
            ops_per_s: within_rounds(Phase::rate)?,
            settled_ops_per_s: within_rounds(Phase::sustainable_rate)?,
            ops_per_cpu_s: within_rounds(|phase| 1e6 / phase.cpu_us())?,
        })
    }
}

/// In order of first appearance.
fn distinct<'a>(names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut distinct: Vec<String> = Vec::new();
    for name in names {
        if !distinct.iter().any(|seen| seen == name) {
            distinct.push(name.into());
        }
    }
    distinct
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::failure::Failure;

    /// A run of one phase of 1000 operations; settling takes as long as the operations.
    pub(crate) fn outcome(
        label: &str,
        kind: ContenderRole,
        crash_safe: CrashSafe,
        round: usize,
        rate: f64,
    ) -> Outcome {
        let phase = Phase {
            name: "insert".into(),
            ops: 1000,
            seconds: 1000.0 / rate,
            settle_seconds: 1000.0 / rate,
            p50_ns: 500,
            p99_ns: 2000,
            p999_ns: 9000,
            longest_ns: 10_000,
            cpu_seconds: 0.001,
            settle_cpu_seconds: 0.001,
            disk_bytes: 180_000,
            rss_bytes: 24_000,
            anonymous_bytes: 12_000,
            own_memory_bytes: None,
        };
        let run = Run {
            subject: label.into(),
            version: "1.2.3".into(),
            mode: "as it comes".into(),
            crash_safe,
            records: 1000,
            partitions: 1,
            harness_ns: 50.0,
            phases: vec![phase],
        };
        Outcome { label: label.into(), kind, round, result: Ok(run) }
    }

    /// Zerohop: 100, 200, 400 K/s; an unsafe peer: 100, 100, 100; a safe one: 50, 400, 50. The best
    /// changes.
    pub(crate) fn three_rounds() -> Vec<Outcome> {
        let rates = [(100.0, 100.0, 50.0), (200.0, 100.0, 400.0), (400.0, 100.0, 50.0)];
        rates
            .into_iter()
            .enumerate()
            .flat_map(|(round, (ours, quick, safe))| {
                [
                    outcome("zerohop/1", ContenderRole::Ours, CrashSafe::Power, round, ours * 1e3),
                    outcome("quick", ContenderRole::Peer, CrashSafe::None, round, quick * 1e3),
                    outcome("safe", ContenderRole::Peer, CrashSafe::Process, round, safe * 1e3),
                    outcome("mark", ContenderRole::Mark, CrashSafe::Power, round, 9e6),
                ]
            })
            .collect()
    }

    #[test]
    fn ratio_compares_with_best_peer_of_same_round() {
        let summary = Summary::of(1000, 3, three_rounds());
        let ratios = &summary.phases[0].ratios;
        assert_eq!(ratios.len(), 2);
        assert_eq!((ratios[0].against, ratios[0].best.as_str()), (PeerChoice::BestPeer, "quick"));
        assert_eq!(ratios[0].ops_per_s, Spread { median: 1.0, least: 0.5, greatest: 4.0 });
        assert_eq!((ratios[1].against, ratios[1].best.as_str()), (PeerChoice::BestCrashSafePeer, "safe"));
        assert_eq!(ratios[1].ops_per_s, Spread { median: 2.0, least: 0.5, greatest: 8.0 });
        assert_eq!(ratios[1].ops_per_cpu_s.median, 1.0);
    }

    #[test]
    fn figures_are_per_operation_and_per_key() {
        let summary = Summary::of(1000, 3, three_rounds());
        let row = &summary.phases[0].rows[0];
        assert_eq!(row.ops_per_s.median, 200_000.0);
        assert_eq!(row.settled_ops_per_s.median, 100_000.0);
        assert_eq!((row.p50_us.median, row.p999_us.median), (0.5, 9.0));
        assert_eq!(row.cpu_us_per_op.median, 2.0);
        assert_eq!((row.disk_bytes_per_key.median, row.rss_bytes_per_key.median), (180.0, 24.0));
    }

    #[test]
    fn failed_run_is_listed_and_does_not_affect_others() {
        let mut outcomes = three_rounds();
        outcomes[1].result = Err(Failure::Store("full".into()));
        let summary = Summary::of(1000, 3, outcomes);
        assert_eq!(summary.failures.len(), 1);
        assert!(summary.failures[0].reason.contains("full"));
        // In the first round only the safe peer, at 50, is left.
        assert_eq!(summary.phases[0].ratios[0].ops_per_s.least, 0.5);
        assert_eq!(summary.phases[0].ratios[0].ops_per_s.median, 2.0);
    }
}
