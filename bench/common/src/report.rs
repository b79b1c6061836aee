//! Medians over rounds, ratios within each round, and verdicts on targets, in Markdown for
//! documents.

use std::fmt::{self, Write};

use serde::Serialize;

use crate::reading::{Bound, Measurement, Target};
use crate::rounds::Outcome;
use crate::{Spread, table};

/// Everything measured of one scenario.
#[derive(Serialize)]
pub struct Summary {
    /// Its name.
    pub scenario: &'static str,
    /// The description of its work.
    pub about: &'static str,
    /// The number of rounds.
    pub rounds: usize,
    /// In the order in which they ran.
    pub contenders: Vec<ContenderSummary>,
    /// The verdict of each target.
    pub verdicts: Vec<Verdict>,
    /// Failed runs, with their reasons.
    pub failures: Vec<String>,
    /// Raw values: label, round, figures.
    pub readings: Vec<(&'static str, usize, Measurement)>,
}

/// One contender over all its rounds.
#[derive(Serialize)]
pub struct ContenderSummary {
    /// Its name.
    pub label: &'static str,
    /// By name.
    pub figures: Vec<(String, Spread)>,
}

/// The verdict of a target.
#[derive(Serialize)]
pub struct Verdict {
    /// The figure, its contender and the divisor.
    pub what: String,
    /// `None` without values.
    pub figure: Option<Spread>,
    /// The bound to reach.
    pub bound: Bound,
    /// Whether the median meets it.
    pub is_met: bool,
}

impl Summary {
    /// The summary of the scenario with this name and description.
    pub fn of(
        (scenario, about): (&'static str, &'static str),
        targets: &[Target],
        rounds: usize,
        outcomes: Vec<Outcome>,
    ) -> Summary {
        let (mut readings, mut failures) = (Vec::new(), Vec::new());
        let mut labels: Vec<&'static str> = Vec::new();
        for Outcome { label, round, result } in outcomes {
            if !labels.contains(&label) {
                labels.push(label);
            }
            match result {
                Ok(reading) => readings.push((label, round, reading)),
                Err(error) => failures.push(format!("{label} in round {}: {error}", round + 1)),
            }
        }
        Summary {
            scenario,
            about,
            rounds,
            contenders: labels.iter().map(|label| ContenderSummary::of(label, &readings)).collect(),
            verdicts: targets.iter().map(|target| Verdict::of(target, &readings)).collect(),
            failures,
            readings,
        }
    }
}

impl ContenderSummary {
    fn of(label: &'static str, readings: &[(&'static str, usize, Measurement)]) -> ContenderSummary {
        let own: Vec<&Measurement> =
            readings.iter().filter(|(of, ..)| *of == label).map(|(.., reading)| reading).collect();
        let names = own.first().map_or(&[][..], |first| &first.figures);
        let spread = |name: &str| Spread::of(own.iter().filter_map(|reading| reading.get(name)));
        let figures = names.iter().filter_map(|figure| Some((figure.name.clone(), spread(&figure.name)?)));
        ContenderSummary { label, figures: figures.collect() }
    }
}

impl Verdict {
    fn of(target: &Target, readings: &[(&'static str, usize, Measurement)]) -> Verdict {
        let in_round = |label: &str, round: usize| {
            let mut of_it = readings.iter().filter(|(of, at, _)| *of == label && *at == round);
            of_it.next()?.2.get(&target.figure)
        };
        let rounds = readings.iter().filter(|(label, ..)| *label == target.of).map(|(_, round, _)| *round);
        let figure = Spread::of(rounds.filter_map(|round| {
            let own = in_round(target.of, round)?;
            if target.over.is_empty() {
                return Some(own);
            }
            let others: Option<Vec<f64>> = target.over.iter().map(|label| in_round(label, round)).collect();
            Some(own / others?.into_iter().reduce(f64::max)?)
        }));
        let over = match target.over {
            [] => String::new(),
            [one] => format!(" over {one}"),
            several => format!(" over the better of {}", several.join(" and ")),
        };
        Verdict {
            what: format!("{}: {}{over}", target.figure, target.of),
            figure,
            bound: target.bound,
            is_met: figure.is_some_and(|figure| match target.bound {
                Bound::AtLeast(bound) => figure.median >= bound,
                Bound::AtMost(bound) => figure.median <= bound,
                Bound::None => true,
            }),
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bound = match self.bound {
            Bound::AtLeast(bound) => format!("at least {bound}"),
            Bound::AtMost(bound) => format!("at most {bound}"),
            Bound::None => "no bound".to_owned(),
        };
        match (self.figure, self.is_met) {
            (Some(figure), _) if self.bound == Bound::None => write!(f, "{}: {figure}", self.what),
            (None, _) => write!(f, "{}: {bound}: not measured", self.what),
            (Some(figure), true) => write!(f, "{}: {}, {bound}: met", self.what, figure),
            (Some(figure), false) => write!(f, "{}: {}, {bound}: MISSED", self.what, figure),
        }
    }
}

/// Columns of a table; more contenders give several tables.
const COLUMNS: usize = 4;

/// Prints one summary into `out`.
///
/// # Errors Only those of `out`.
pub fn write(out: &mut String, summary: &Summary) -> fmt::Result {
    let Summary { scenario, about, rounds, .. } = summary;
    writeln!(out, "\n# {scenario}: {rounds} rounds\n\n{about}")?;
    for contenders in summary.contenders.chunks(COLUMNS) {
        let labels = contenders.iter().map(|contender| contender.label.to_owned());
        let mut rows = vec![std::iter::once(String::new()).chain(labels).collect::<Vec<_>>()];
        let names = contenders.iter().map(|contender| &contender.figures).max_by_key(|figures| figures.len());
        for (name, _) in names.into_iter().flatten() {
            let cell = |figures: &[(String, Spread)]| {
                figures.iter().find(|(of, _)| of == name).map_or("-".into(), |(_, spread)| spread.to_string())
            };
            let cells = contenders.iter().map(|contender| cell(&contender.figures));
            rows.push(std::iter::once(name.clone()).chain(cells).collect());
        }
        table(out, &rows)?;
    }
    writeln!(out)?;
    for verdict in &summary.verdicts {
        writeln!(out, "- {verdict}")?;
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
    use crate::reading::Figure;

    fn summary(outcomes: Vec<Outcome>) -> Summary {
        let target = |over, bound| Target { figure: "rate".into(), of: "ours", over, bound };
        let targets = [
            target(&["one", "two"], Bound::AtLeast(0.9)),
            target(&["one"], Bound::AtMost(0.5)),
            target(&[], Bound::AtLeast(300.0)),
            target(&["absent"], Bound::AtLeast(0.0)),
            target(&["two"], Bound::None),
            target(&["absent"], Bound::None),
        ];
        Summary::of(("loop", "how"), &targets, 3, outcomes)
    }

    /// Ratios to the better peer: 0.5, 0.9, 1.0.
    fn outcomes() -> Vec<Outcome> {
        let rates = [(50.0, 100.0, 10.0), (900.0, 600.0, 1000.0), (300.0, 300.0, 1.0)];
        let outcome = |label, round, value| {
            let figures = vec![Figure { name: "rate".into(), value }];
            Outcome { label, round, result: Ok(Measurement { figures }) }
        };
        let of_round = |(round, (ours, one, two))| {
            [outcome("ours", round, ours), outcome("one", round, one), outcome("two", round, two)]
        };
        rates.into_iter().enumerate().flat_map(of_round).collect()
    }

    #[test]
    fn target_verdict_uses_median_ratio_to_best_of_each_round() {
        let summary = summary(outcomes());
        let verdicts = &summary.verdicts;
        assert_eq!(verdicts[0].figure, Some(Spread { median: 0.9, least: 0.5, greatest: 1.0 }));
        let met: Vec<bool> = verdicts[..4].iter().map(|one| one.is_met).collect();
        assert_eq!(met, [true, false, true, false]);
        let mut out = String::new();
        write(&mut out, &summary).unwrap();
        let expected = "rate: ours over the better of one and two: 0.90 [0.50-1.00], at least 0.9: met";
        assert!(out.contains(expected), "{out}");
        assert!(out.contains("rate: ours over one: 1.00 [0.50-1.50], at most 0.5: MISSED"), "{out}");
        assert!(out.contains("over absent: at least 0: not measured"), "{out}");
        assert!(out.contains("- rate: ours over two: 5.00 [0.90-300.00]\n"), "{out}");
        assert!(out.contains("- rate: ours over absent: no bound: not measured\n"), "{out}");
        assert!(out.contains("| rate | 300 [50-900] | 300 [100-600] | 10.0 [1.0-1000.0] |"), "{out}");
    }

    #[test]
    fn round_with_failed_subject_gives_no_ratio_to_it() {
        let mut outcomes = outcomes();
        outcomes[1].result = Err(Failure::Protocol("no".into()));
        let summary = summary(outcomes);
        assert_eq!(summary.verdicts[0].figure.unwrap().least, 0.9);
        assert!(summary.failures[0].contains("one in round 1") && summary.failures[0].contains("no"));
    }
}
