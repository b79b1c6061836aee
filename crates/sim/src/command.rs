//! `zerohop sim`: runs seeds of clusters, reports their coverage, and shrinks a failing one.

use std::fmt::Write as _;

use crate::cluster::Limits;
use crate::coverage::{BATCH_SEEDS, Coverage};
use crate::kinds::{FaultKind, Kinds, SCENARIOS};
use crate::limits::CLUSTER_OPERATIONS_MIN;
use crate::run::{RunReport, run, run_cluster};
use crate::trace::LineRetention;

/// The arguments of the command line.
#[derive(Clone, Debug, clap::Args)]
pub struct SimArguments {
    /// Runs this seed, or starts with it.
    #[arg(long, value_name = "S")]
    pub seed: Option<u64>,
    /// The number of seeds to run.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seeds: u64,
    /// Runs few seeds that together show every counted case, and more only until all were seen, at
    /// most as many as `--seeds`.
    #[arg(long, hide = true)]
    pub until_covered: bool,
    /// Which faults may occur: all, none, replication, partitions, disks, clocks, moves, control,
    /// redis; or single: one node.
    #[arg(long, value_name = "NAME", default_value = "all")]
    pub scenario: String,
    /// Shrinks a seed that fails: removes everything without which it still fails, and prints the
    /// rest.
    #[arg(long)]
    pub shrink: bool,
    /// Prints the result as one line of JSON.
    #[arg(long)]
    pub json: bool,
    /// Prints every event of the only seed that is run.
    #[arg(long)]
    pub events: bool,
    /// Continues after a seed that fails.
    #[arg(long)]
    pub keep_going: bool,
    /// Each instance has one log of all its partitions.
    #[arg(long, hide = true)]
    pub shared_log: bool,
    /// The faults that may occur at all, as printed by a shrink.
    #[arg(long, value_name = "BITS", value_parser = parse_bits, hide = true)]
    pub kinds: Option<u64>,
    /// The highest number of clients, as printed by a shrink.
    #[arg(long, value_name = "N", hide = true)]
    pub clients: Option<usize>,
    /// The highest number of fault windows, as printed by a shrink.
    #[arg(long, value_name = "N", hide = true)]
    pub fault_windows: Option<usize>,
}

fn parse_bits(text: &str) -> Result<u64, String> {
    u64::from_str_radix(text, 16).map_err(|error| format!("{text:?} is not a hexadecimal number: {error}"))
}

/// The result of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandEnd {
    /// No invariant was violated, and the required coverage was reached.
    Passed,
    /// An invariant was violated, or coverage is missing.
    Failed,
    /// No scenario has this name.
    NoScenario,
}

/// The settings of one run.
#[derive(Clone, Copy, Debug)]
struct RunSettings<'a> {
    scenario: &'a str,
    limits: Limits,
}

impl RunSettings<'_> {
    fn run_seed(self, seed: u64, keep: LineRetention) -> RunReport {
        match self.scenario {
            "single" => run(seed, keep),
            _ => run_cluster(seed, self.limits, keep),
        }
    }

    /// The command line that repeats a seed.
    fn line(self, seed: u64) -> String {
        let mut line = format!("zerohop sim --seed {seed} --scenario {}", self.scenario);
        let Limits { kinds, clients, fault_windows, shared_log } = self.limits;
        let allowed = kinds_of(self.scenario).unwrap_or(Kinds::ALL);
        let mut add = |text: std::fmt::Arguments<'_>| {
            let written = line.write_fmt(text);
            debug_assert!(written.is_ok(), "a string takes what is written");
        };
        if kinds != allowed {
            add(format_args!(" --kinds {:x}", kinds.bits()));
        }
        if clients != usize::MAX {
            add(format_args!(" --clients {clients}"));
        }
        if fault_windows != usize::MAX {
            add(format_args!(" --fault-windows {fault_windows}"));
        }
        if shared_log {
            add(format_args!(" --shared-log"));
        }
        line
    }
}

fn kinds_of(scenario: &str) -> Option<Kinds> {
    if scenario == "single" {
        return Some(Kinds::ALL);
    }
    SCENARIOS.iter().find(|(name, _)| *name == scenario).map(|(_, kinds)| *kinds)
}

/// Runs the command, and reports line by line.
pub fn simulate(arguments: &SimArguments, say: &mut dyn FnMut(&str)) -> CommandEnd {
    let Some(allowed) = kinds_of(&arguments.scenario) else {
        let names: Vec<&str> = SCENARIOS.iter().map(|(name, _)| *name).chain(["single"]).collect();
        say(&format!("there is no scenario {:?}: use one of {}", arguments.scenario, names.join(", ")));
        return CommandEnd::NoScenario;
    };
    let limits = Limits {
        kinds: arguments.kinds.map_or(allowed, |bits| Kinds::from_bits(bits).and(allowed)),
        clients: arguments.clients.unwrap_or(usize::MAX),
        fault_windows: arguments.fault_windows.unwrap_or(usize::MAX),
        shared_log: arguments.shared_log,
    };
    let play = RunSettings { scenario: &arguments.scenario, limits };
    let first = arguments.seed.unwrap_or(0);
    let keep = if arguments.events { LineRetention::All } else { LineRetention::Nothing };
    let mut coverage = Coverage::default();
    let mut failed = Vec::new();
    let mut played = 0;
    for seed in seeds_to_run(first, arguments) {
        let run = play.run_seed(seed, keep);
        played += 1;
        coverage.add(&run.coverage);
        let is_covered = arguments.until_covered && coverage.missing_in_clusters(BATCH_SEEDS).is_empty();
        if arguments.events {
            run.lines.iter().for_each(|line| say(line));
        }
        if run.violations.is_empty() {
            if is_covered && played >= COVERING_SEEDS.len() as u64 {
                break;
            }
            continue;
        }
        failed.push(seed);
        if !arguments.json {
            run.violations.iter().take(VIOLATIONS_SHOWN).for_each(|violation| say(&violation.to_string()));
            say(&format!("seed {seed} FAILED: replay it with: {}", play.line(seed)));
        }
        if arguments.shrink {
            let (smallest, tries) = shrink(play, seed, &run);
            say(&format!("after {tries} tries it still fails as: {}", smallest.line(seed)));
            let kinds: Vec<&str> = smallest.limits.kinds.iter().map(FaultKind::name).collect();
            say(&format!("with: {}", kinds.join(", ")));
        }
        if !arguments.keep_going {
            break;
        }
    }
    let is_whole = arguments.scenario == "all" && play.limits == Limits::default();
    let required = if arguments.until_covered { played.max(BATCH_SEEDS) } else { played };
    let missing = if is_whole { coverage.missing_in_clusters(required) } else { Vec::new() };
    match arguments.json {
        true => say(&json(&arguments.scenario, played, &failed, &missing, &coverage)),
        false => {
            say(&format!("{played} seeds of {}, {} failed: {coverage}", arguments.scenario, failed.len()));
            if !missing.is_empty() {
                say(&format!("in none of them was there: {}", missing.join(", ")));
            }
        }
    }
    if failed.is_empty() && missing.is_empty() { CommandEnd::Passed } else { CommandEnd::Failed }
}

/// Seeds that together show every counted case, for `--until-covered`. A change that shifts the draws
/// makes some of them stale; others are run then, until every case was seen.
const COVERING_SEEDS: [u64; 23] =
    [5, 52, 8, 19, 15, 47, 16, 59, 22, 9, 27, 23, 17, 10, 45, 24, 36, 0, 1, 2, 4, 7, 12];

/// The seeds of a command, in order.
fn seeds_to_run(first: u64, arguments: &SimArguments) -> impl Iterator<Item = u64> {
    let covering: &'static [u64] = if arguments.until_covered { &COVERING_SEEDS } else { &[] };
    let others = (first..=u64::MAX).filter(move |seed| !covering.contains(seed));
    let count = usize::try_from(arguments.seeds.max(1)).unwrap_or(usize::MAX);
    covering.iter().copied().chain(others).take(count)
}

/// Violations shown of one seed: the first ones say most.
const VIOLATIONS_SHOWN: usize = 5;

/// Removes kinds of faults, clients and fault windows as long as the same checker still finds a
/// violation.
fn shrink<'a>(play: RunSettings<'a>, seed: u64, failed: &RunReport) -> (RunSettings<'a>, usize) {
    let checkers: Vec<&str> = failed.violations.iter().map(|violation| violation.checker).collect();
    let mut smallest = play;
    let mut tries = 0;
    let still_fails = |limits: Limits, tries: &mut usize| {
        *tries += 1;
        let run = RunSettings { limits, ..play }.run_seed(seed, LineRetention::Nothing);
        run.violations.iter().any(|violation| checkers.contains(&violation.checker))
    };
    for fault_windows in 1..FAULT_WINDOWS_TRIED {
        let limits = Limits { fault_windows, ..smallest.limits };
        if still_fails(limits, &mut tries) {
            smallest.limits = limits;
            break;
        }
    }
    for kind in play.limits.kinds.iter() {
        let limits = Limits { kinds: smallest.limits.kinds.without(kind), ..smallest.limits };
        if still_fails(limits, &mut tries) {
            smallest.limits = limits;
        }
    }
    for clients in 1..CLIENTS_TRIED {
        let limits = Limits { clients, ..smallest.limits };
        if still_fails(limits, &mut tries) {
            smallest.limits = limits;
            break;
        }
    }
    (smallest, tries)
}

/// No run has more fault windows and clients than these.
const FAULT_WINDOWS_TRIED: usize = 8;
const CLIENTS_TRIED: usize = 7;

fn json(scenario: &str, played: u64, failed: &[u64], missing: &[&str], coverage: &Coverage) -> String {
    let numbers: Vec<String> = failed.iter().map(u64::to_string).collect();
    let quoted = |text: &str| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
    let missing: Vec<String> = missing.iter().map(|text| quoted(text)).collect();
    let counts: Vec<String> =
        coverage.counts().into_iter().map(|(name, count)| format!("{}: {count}", quoted(name))).collect();
    format!(
        "{{\"scenario\": {}, \"seeds\": {played}, \"failed\": [{}], \"missing\": [{}], \"operations_each_min\": {CLUSTER_OPERATIONS_MIN}, \"coverage\": {{{}}}}}",
        quoted(scenario),
        numbers.join(", "),
        missing.join(", "),
        counts.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_line_replays_its_run() {
        let play = RunSettings {
            scenario: "moves",
            limits: Limits { kinds: kinds_of("moves").unwrap(), ..Limits::default() },
        };
        assert_eq!(play.line(7), "zerohop sim --seed 7 --scenario moves");
        let limits =
            Limits { kinds: Kinds::of(&[FaultKind::Loss]), clients: 2, fault_windows: 1, shared_log: false };
        assert_eq!(
            RunSettings { limits, ..play }.line(7),
            "zerohop sim --seed 7 --scenario moves --kinds 1 --clients 2 --fault-windows 1"
        );
    }

    #[test]
    fn covering_run_begins_with_its_seeds_and_runs_none_twice() {
        let arguments = |until_covered, seeds| SimArguments {
            seed: None,
            seeds,
            until_covered,
            scenario: "all".to_owned(),
            shrink: false,
            json: false,
            events: false,
            keep_going: false,
            kinds: None,
            clients: None,
            fault_windows: None,
            shared_log: false,
        };
        let seeds: Vec<u64> = seeds_to_run(0, &arguments(true, BATCH_SEEDS)).collect();
        let first = COVERING_SEEDS.len();
        assert_eq!(seeds[..first], COVERING_SEEDS);
        assert_eq!(seeds.len() as u64, BATCH_SEEDS);
        let different: std::collections::BTreeSet<u64> = seeds.iter().copied().collect();
        assert_eq!(different.len(), seeds.len());
        assert!(seeds_to_run(7, &arguments(false, 3)).eq([7, 8, 9]));
    }

    #[test]
    fn unknown_scenario_is_answered_with_known_ones() {
        let mut printed = Vec::new();
        let arguments = SimArguments {
            seed: None,
            seeds: 1,
            until_covered: false,
            scenario: "unknown".to_owned(),
            shrink: false,
            json: false,
            events: false,
            keep_going: false,
            kinds: None,
            clients: None,
            fault_windows: None,
            shared_log: false,
        };
        assert_eq!(simulate(&arguments, &mut |line| printed.push(line.to_owned())), CommandEnd::NoScenario);
        assert!(printed[0].contains("replication"), "{printed:?}");
    }
}
