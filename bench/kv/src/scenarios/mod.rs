//! The scenarios: contenders and targets.
//!
//! ```text
//!   main ── rounds ── process ──▶ bench-kv --run SCENARIO --contender LABEL      work/*.rs, one server each
//!              └── report ◀────── a line of JSON each: figures by name
//! ```

mod registry;

use bench_common::failure::Failure;
use bench_common::reading::Target;

pub(crate) use registry::REGISTRY;

use crate::subjects::Subject;
use crate::work::Work;

/// Contenders with the same work, each in its own process with its own server.
pub(crate) struct Scenario {
    /// Name on the command line.
    pub(crate) name: &'static str,
    /// Description, printed above the table.
    pub(crate) about: &'static str,
    pub(crate) contenders: &'static [Contender],
    /// The targets of the figures.
    pub(crate) targets: fn() -> Vec<Target>,
}

/// One column of a table.
#[derive(Clone, Copy)]
pub(crate) struct Contender {
    pub(crate) label: &'static str,
    pub(crate) subject: Subject,
    pub(crate) work: Work,
}

/// This contender in this scenario.
pub(crate) fn find(scenario: &str, label: &str) -> Result<&'static Contender, Failure> {
    REGISTRY
        .iter()
        .filter(|found| found.name == scenario)
        .flat_map(|found| found.contenders)
        .find(|contender| contender.label == label)
        .ok_or_else(|| Failure::Usage(format!("scenario {scenario} has no contender {label}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_distinct_and_targets_name_contenders_of_their_scenario() {
        let names: BTreeSet<&str> = REGISTRY.iter().map(|scenario| scenario.name).collect();
        assert_eq!(names.len(), REGISTRY.len());
        for scenario in REGISTRY {
            let labels: BTreeSet<&str> = scenario.contenders.iter().map(|one| one.label).collect();
            assert_eq!(labels.len(), scenario.contenders.len(), "{}", scenario.name);
            for target in (scenario.targets)() {
                let mut named = target.over.iter().chain([&target.of]);
                assert!(named.all(|label| labels.contains(label)), "{}: {}", scenario.name, target.figure);
            }
        }
    }
}
