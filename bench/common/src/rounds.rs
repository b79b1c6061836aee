//! The order of the runs: A B C A B C, never A A B B. So other work on the machine affects all
//! contenders alike, and ratios are computed within each round.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::failure::Failure;
use crate::process;
use crate::reading::Measurement;

/// The settings of all runs.
pub struct Plan {
    /// This program, which also executes the runs.
    pub program: PathBuf,
    /// How often each contender runs.
    pub rounds: usize,
    /// The arguments of every run, beside its scenario, contender, folder and seed.
    pub arguments: Vec<String>,
    /// Time limit of a run.
    pub limit: Duration,
    /// Each run's servers have their own folder below this one.
    pub data: PathBuf,
}

/// One contender in one round.
pub struct Outcome {
    /// The contender.
    pub label: &'static str,
    /// From zero.
    pub round: usize,
    /// What it measured.
    pub result: Result<Measurement, Failure>,
}

/// The prefix of run folders; the driver's process id and a random part follow.
const FOLDER: &str = "run-";

impl Plan {
    /// Runs these contenders of the scenario. A failed one is reported with its reason and runs
    /// again in the next round.
    ///
    /// # Errors There is no folder for their files.
    pub fn run(
        &self,
        scenario: &str,
        contenders: &[&'static str],
        mut progress: impl FnMut(&Outcome),
    ) -> Result<Vec<Outcome>, Failure> {
        std::fs::create_dir_all(&self.data).map_err(Failure::io("creating", &self.data))?;
        remove_remains(&self.data)?;
        let mut outcomes = Vec::new();
        for round in 0..self.rounds {
            for contender in contenders {
                let result = self.run_one(scenario, contender, round);
                let outcome = Outcome { label: contender, round, result };
                progress(&outcome);
                outcomes.push(outcome);
            }
        }
        Ok(outcomes)
    }

    fn run_one(&self, scenario: &str, contender: &str, round: usize) -> Result<Measurement, Failure> {
        // Removed when it goes out of scope, also if the run fails.
        let dir = tempfile::Builder::new()
            .prefix(&format!("{FOLDER}{}-", std::process::id()))
            .tempdir_in(&self.data)
            .map_err(Failure::io("creating a folder in", &self.data))?;
        let mut command = Command::new(&self.program);
        command.args(["--run", scenario, "--contender", contender]);
        command.args(["--parent", &std::process::id().to_string()]).arg("--dir").arg(dir.path());
        command.args(&self.arguments).args(["--seed", &round.to_string()]);
        let printed = process::output(&mut command, self.limit)?;
        serde_json::from_str(&printed)
            .map_err(|error| Failure::Protocol(format!("what cannot be read ({error}): {printed}")))
    }
}

/// Removes folders of killed drivers.
fn remove_remains(data: &Path) -> Result<(), Failure> {
    for entry in std::fs::read_dir(data).map_err(Failure::io("listing", data))? {
        let path = entry.map_err(Failure::io("listing", data))?.path();
        let driver = path
            .file_name()
            .and_then(|name| name.to_str()?.strip_prefix(FOLDER)?.split('-').next()?.parse::<u32>().ok());
        if driver.is_some_and(|driver| !Path::new("/proc").join(driver.to_string()).exists()) {
            std::fs::remove_dir_all(&path).map_err(Failure::io("removing", &path))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_are_interleaved_and_leave_no_folder_behind() {
        let data = tempfile::tempdir().unwrap();
        let plan = Plan {
            program: "/bin/false".into(),
            rounds: 2,
            arguments: Vec::new(),
            limit: Duration::from_secs(30),
            data: data.path().join("made"),
        };
        let outcomes = plan.run("scenario", &["one", "two"], |_| ()).unwrap();
        let order: Vec<(&str, usize)> =
            outcomes.iter().map(|outcome| (outcome.label, outcome.round)).collect();
        assert_eq!(order, [("one", 0), ("two", 0), ("one", 1), ("two", 1)]);
        assert!(outcomes.iter().all(|outcome| outcome.result.is_err()));
        assert_eq!(std::fs::read_dir(&plan.data).unwrap().count(), 0);
    }

    #[test]
    fn only_folders_of_dead_drivers_are_removed() {
        let data = tempfile::tempdir().unwrap();
        let ended = Command::new("true").spawn().and_then(|mut child| {
            child.wait()?;
            Ok(child.id())
        });
        let dead = data.path().join(format!("run-{}-abc", ended.unwrap()));
        let living = data.path().join(format!("run-{}-abc", std::process::id()));
        let foreign = data.path().join("notes");
        for folder in [&dead, &living, &foreign] {
            std::fs::create_dir(folder).unwrap();
        }
        remove_remains(data.path()).unwrap();
        assert!(!dead.exists() && living.exists() && foreign.exists());
    }
}
