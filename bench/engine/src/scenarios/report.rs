//! Medians over rounds, ratios within each round, and verdicts on targets, in Markdown for
//! documents.

use std::fmt::{self, Write};

use serde::Serialize;

use super::{Bound, Scenario, ScenarioReading, Target};
use crate::outcome::Outcome;
use bench_common::{Spread, table};

/// Everything measured of one scenario.
#[derive(Serialize)]
pub(crate) struct ScenarioSummary {
    pub(crate) scenario: &'static str,
    pub(crate) about: &'static str,
    pub(crate) records: u64,
    pub(crate) rounds: usize,
    pub(crate) cases: Vec<CaseSummary>,
    pub(crate) verdicts: Vec<Verdict>,
    pub(crate) failures: Vec<String>,
    /// Raw values: label, round, figures.
    pub(crate) readings: Vec<(String, usize, ScenarioReading)>,
}

/// One case over all its rounds.
#[derive(Serialize)]
pub(crate) struct CaseSummary {
    pub(crate) label: String,
    pub(crate) figures: Vec<(String, Spread)>,
}

/// The verdict of a target.
#[derive(Serialize)]
pub(crate) struct Verdict {
    pub(crate) what: String,
    pub(crate) figure: Spread,
    pub(crate) bound: Bound,
    /// Whether the median meets it.
    pub(crate) is_met: bool,
}

impl ScenarioSummary {
    pub(crate) fn of(
        scenario: &Scenario,
        records: u64,
        rounds: usize,
        partitions: &[usize],
        outcomes: Vec<Outcome<ScenarioReading>>,
    ) -> ScenarioSummary {
        let (mut readings, mut failures) = (Vec::new(), Vec::new());
        let mut labels: Vec<String> = Vec::new();
        for Outcome { label, round, result, .. } in outcomes {
            if !labels.contains(&label) {
                labels.push(label.clone());
            }
            match result {
                Ok(reading) => readings.push((label, round, reading)),
                Err(error) => failures.push(format!("{label} in round {}: {error}", round + 1)),
            }
        }
        let targets = (scenario.targets)(partitions);
        ScenarioSummary {
            scenario: scenario.name,
            about: scenario.about,
            records,
            rounds,
            cases: labels.iter().map(|label| CaseSummary::of(label, &readings)).collect(),
            verdicts: targets.iter().filter_map(|target| Verdict::of(target, &readings)).collect(),
            failures,
            readings,
        }
    }
}

impl CaseSummary {
    fn of(label: &str, readings: &[(String, usize, ScenarioReading)]) -> CaseSummary {
        let own: Vec<&ScenarioReading> =
            readings.iter().filter(|(of, ..)| of == label).map(|(.., reading)| reading).collect();
        let names = own.first().map_or(&[][..], |first| &first.figures);
        let spread = |name: &str| Spread::of(own.iter().filter_map(|reading| reading.get(name)));
        CaseSummary {
            label: label.into(),
            figures: names
                .iter()
                .filter_map(|figure| Some((figure.name.clone(), spread(&figure.name)?)))
                .collect(),
        }
    }
}

impl Verdict {
    /// `None` if its cases gave no figures.
    fn of(target: &Target, readings: &[(String, usize, ScenarioReading)]) -> Option<Verdict> {
        let in_round = |label: &str, round: usize| {
            let mut of_it = readings.iter().filter(|(of, at, _)| of == label && *at == round);
            of_it.next()?.2.get(target.figure)
        };
        let rounds = readings.iter().filter(|(label, ..)| *label == target.of).map(|(_, round, _)| *round);
        let figure = Spread::of(rounds.filter_map(|round| {
            let own = in_round(&target.of, round)?;
            match &target.over {
                Some(over) => Some(own / in_round(over, round)?),
                None => Some(own),
            }
        }))?;
        let over = target.over.as_ref().map_or(String::new(), |over| format!(" over {over}"));
        Some(Verdict {
            what: format!("{}: {}{over}", target.figure, target.of),
            figure,
            bound: target.bound,
            is_met: match target.bound {
                Bound::AtLeast(bound) => figure.median >= bound,
                Bound::Below(bound) => figure.median < bound,
            },
        })
    }
}

/// Columns of a table; more cases give several tables.
const CASES_PER_TABLE: usize = 4;

/// Prints one summary into `out`.
pub(crate) fn write(out: &mut String, summary: &ScenarioSummary) -> fmt::Result {
    let ScenarioSummary { scenario, about, records, rounds, .. } = summary;
    writeln!(
        out,
        "\n# {scenario}: {records} records, 15-byte keys, 132-byte values, {rounds} rounds\n\n{about}"
    )?;
    for cases in summary.cases.chunks(CASES_PER_TABLE) {
        let mut rows = vec![
            std::iter::once("partitions")
                .chain(cases.iter().map(|case| case.label.as_str()))
                .map(String::from)
                .collect::<Vec<_>>(),
        ];
        let names = cases.iter().map(|case| &case.figures).max_by_key(|figures| figures.len());
        for (name, _) in names.into_iter().flatten() {
            let cell = |figures: &[(String, Spread)]| {
                figures.iter().find(|(of, _)| of == name).map_or("-".into(), |(_, spread)| spread.to_string())
            };
            rows.push(
                std::iter::once(name.clone()).chain(cases.iter().map(|case| cell(&case.figures))).collect(),
            );
        }
        table(out, &rows)?;
    }
    writeln!(out)?;
    for Verdict { what, figure, bound, is_met } in &summary.verdicts {
        let bound = match bound {
            Bound::AtLeast(bound) => format!("at least {bound}"),
            Bound::Below(bound) => format!("below {bound}"),
        };
        writeln!(out, "- {what}: {}, {bound}: {}", figure, if *is_met { "met" } else { "MISSED" })?;
    }
    for failure in &summary.failures {
        writeln!(out, "- FAILED {failure}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Failure;
    use crate::outcome::ContenderRole;
    use crate::scenarios::Figure;

    const SCENARIO: Scenario = Scenario {
        name: "sync",
        about: "how",
        records: 10,
        rounds: 3,
        flushes: false,
        variants: &[""],
        run: |_| Ok(ScenarioReading::default()),
        targets: |_| {
            let ratio = |bound| Target { figure: "rate", of: "256".into(), over: Some("1".into()), bound };
            vec![ratio(Bound::AtLeast(0.8)), ratio(Bound::Below(0.5))]
        },
    };

    fn outcomes() -> Vec<Outcome<ScenarioReading>> {
        // Ratios of 0.5, 0.9, 1.0.
        let rates = [(100.0, 50.0), (1000.0, 900.0), (10.0, 10.0)];
        let outcome = |label: &str, round, value| Outcome {
            label: label.into(),
            kind: ContenderRole::Ours,
            round,
            result: Ok(ScenarioReading { figures: vec![Figure { name: "rate".into(), value }] }),
        };
        let of_round = |(round, (one, many))| [outcome("1", round, one), outcome("256", round, many)];
        rates.into_iter().enumerate().flat_map(of_round).collect()
    }

    #[test]
    fn a_target_is_judged_by_the_median_of_ratios_within_rounds() {
        let summary = ScenarioSummary::of(&SCENARIO, 10, 3, &[1, 256], outcomes());
        let verdicts = &summary.verdicts;
        assert_eq!(verdicts[0].figure, Spread { median: 0.9, least: 0.5, greatest: 1.0 });
        assert!(verdicts[0].is_met && !verdicts[1].is_met);
        let mut out = String::new();
        write(&mut out, &summary).unwrap();
        assert!(out.contains("256 over 1: 0.90 [0.50-1.00], at least 0.8: met"), "{out}");
        assert!(out.contains("below 0.5: MISSED"), "{out}");
        assert!(out.contains("| rate       | 100 [10-1000] | 50.0 [10.0-900.0] |"), "{out}");
    }

    #[test]
    fn round_with_failed_case_gives_no_ratio() {
        let mut outcomes = outcomes();
        outcomes[0].result = Err(Failure::Store("full".into()));
        let summary = ScenarioSummary::of(&SCENARIO, 10, 3, &[1, 256], outcomes);
        assert_eq!(summary.verdicts[0].figure.least, 0.9);
        assert!(summary.failures[0].contains("1 in round 1") && summary.failures[0].contains("full"));
    }
}
