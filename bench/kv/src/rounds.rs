//! The plan: which runs, in which order. A B C A B C, never A A B B, so that what else goes on in the machine hits all
//! contenders alike, and a ratio can be taken within each round.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::failure::Failure;
use crate::limits::{RUN_BASE, RUN_FACTOR};
use crate::process;
use crate::scenarios::{Contender, Reading, Scenario};

/// What is the same for all runs.
pub(crate) struct Plan {
    /// This program, which every run is.
    pub(crate) program: PathBuf,
    pub(crate) rounds: usize,
    pub(crate) records: u32,
    pub(crate) seconds: f64,
    pub(crate) server_core: usize,
    pub(crate) client_core: usize,
    pub(crate) nice: i32,
    /// Servers keep their files in folders of their own below this one.
    pub(crate) data: PathBuf,
}

/// One contender in one round.
pub(crate) struct Outcome {
    pub(crate) label: &'static str,
    pub(crate) round: usize,
    pub(crate) result: Result<Reading, Failure>,
}

/// What the folders of runs begin with; their driver's process id and a random part follow.
const FOLDER: &str = "run-";

impl Plan {
    /// Runs these contenders of the scenario. One that fails is reported with its reason and tried again in the next
    /// round.
    pub(crate) fn run(
        &self,
        scenario: &Scenario,
        contenders: &[&'static Contender],
        mut progress: impl FnMut(&Outcome),
    ) -> Result<Vec<Outcome>, Failure> {
        std::fs::create_dir_all(&self.data).map_err(Failure::io("creating", &self.data))?;
        remove_remains(&self.data)?;
        let mut outcomes = Vec::new();
        for round in 0..self.rounds {
            for contender in contenders {
                let result = self.run_one(scenario, contender, round);
                let outcome = Outcome { label: contender.label, round, result };
                progress(&outcome);
                outcomes.push(outcome);
            }
        }
        Ok(outcomes)
    }

    fn run_one(&self, scenario: &Scenario, contender: &Contender, round: usize) -> Result<Reading, Failure> {
        // Removed when it goes out of scope, whatever became of the run.
        let dir = tempfile::Builder::new()
            .prefix(&format!("{FOLDER}{}-", std::process::id()))
            .tempdir_in(&self.data)
            .map_err(Failure::io("creating a folder in", &self.data))?;
        let mut command = Command::new(&self.program);
        command.args(["--run", scenario.name, "--contender", contender.label]);
        command.args(["--parent", &std::process::id().to_string()]).arg("--dir").arg(dir.path());
        command.args(["--server-core", &self.server_core.to_string()]);
        command.args(["--client-core", &self.client_core.to_string(), "--nice", &self.nice.to_string()]);
        command.args(["--records", &self.records.to_string(), "--seconds", &self.seconds.to_string()]);
        command.args(["--seed", &round.to_string()]);
        let limit = RUN_BASE + Duration::from_secs_f64(self.seconds * RUN_FACTOR);
        let printed = process::output(&mut command, limit)?;
        serde_json::from_str(&printed)
            .map_err(|error| Failure::Protocol(format!("what cannot be read ({error}): {printed}")))
    }
}

/// Removes what drivers that were killed left behind.
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
    use crate::scenarios::REGISTRY;

    #[test]
    fn rounds_are_interleaved_and_leave_no_folder_behind() {
        let data = tempfile::tempdir().unwrap();
        let plan = Plan {
            program: "/bin/false".into(),
            rounds: 2,
            records: 10,
            seconds: 0.1,
            server_core: 0,
            client_core: 0,
            nice: 0,
            data: data.path().join("made"),
        };
        let scenario = &REGISTRY[0];
        let contenders = [&scenario.contenders[0], &scenario.contenders[1]];
        let outcomes = plan.run(scenario, &contenders, |_| ()).unwrap();
        let order: Vec<(&str, usize)> =
            outcomes.iter().map(|outcome| (outcome.label, outcome.round)).collect();
        let [first, second] = contenders.map(|contender| contender.label);
        assert_eq!(order, [(first, 0), (second, 0), (first, 1), (second, 1)]);
        assert!(outcomes.iter().all(|outcome| outcome.result.is_err()));
        assert_eq!(std::fs::read_dir(&plan.data).unwrap().count(), 0);
    }

    #[test]
    fn remains_of_a_killed_driver_are_removed_and_those_of_a_living_one_are_not() {
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
