//! The order of the runs: A B C A B C, never A A B B. So other work on the machine affects all
//! subjects alike, and ratios are computed within each round.

use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::statvfs;
use serde::de::DeserializeOwned;

use crate::child;
use crate::failure::Failure;
use crate::limits;
use crate::outcome::{ContenderRole, Outcome};
use crate::peers::Peer;
use crate::scenarios::{self, Scenario};

/// A subject as the driver sees it: a program to start.
pub(crate) struct Contender {
    /// With the number of partitions, if it has one.
    pub(crate) label: String,
    pub(crate) kind: ContenderRole,
    pub(crate) program: PathBuf,
    pub(crate) arguments: Vec<String>,
    /// It waits for the disk at every write, so it has a longer time limit.
    pub(crate) flushes: bool,
}

impl Contender {
    /// A subject written in Rust, in this program.
    pub(crate) fn subject(name: &str, partitions: Option<usize>, program: &Path) -> Contender {
        let kind = if name.starts_with("zerohop") { ContenderRole::Ours } else { ContenderRole::Mark };
        let mut arguments = vec!["--run-one".into(), name.into()];
        let label = match partitions {
            Some(partitions) => {
                arguments.extend(["--partitions".into(), partitions.to_string()]);
                format!("{name}/{partitions}")
            }
            None => name.into(),
        };
        Contender { label, kind, program: program.into(), arguments, flushes: false }
    }

    /// A variant of a scenario, in this program.
    pub(crate) fn scenario(
        scenario: &Scenario,
        partitions: usize,
        variant: &str,
        program: &Path,
    ) -> Contender {
        let mut arguments: Vec<String> = vec!["--run-scenario".into(), scenario.name.into()];
        arguments.extend(["--partitions".into(), partitions.to_string()]);
        arguments.extend(["--variant".into(), variant.into()]);
        Contender {
            label: scenarios::label(partitions, variant),
            kind: ContenderRole::Ours,
            program: program.into(),
            arguments,
            flushes: scenario.flushes,
        }
    }

    /// A library with its own program.
    pub(crate) fn peer(peer: &Peer, program: PathBuf) -> Contender {
        let arguments = match peer.variant {
            "" => Vec::new(),
            variant => vec!["--variant".into(), variant.into()],
        };
        Contender {
            label: peer.name.into(),
            kind: ContenderRole::Peer,
            program,
            arguments,
            flushes: peer.flushes,
        }
    }
}

/// The settings of all runs of a table.
pub(crate) struct Plan {
    pub(crate) records: u64,
    pub(crate) rounds: usize,
    pub(crate) cores: Vec<usize>,
    pub(crate) mixed: bool,
    /// Each run's store has its own folder below this one.
    pub(crate) data: PathBuf,
}

/// The prefix of run folders; the driver's process id and a random part follow.
const FOLDER: &str = "run-";

impl Plan {
    /// Runs everything. A failed contender is reported with its reason and runs again in the next
    /// round.
    pub(crate) fn run<R: DeserializeOwned>(
        &self,
        contenders: &[Contender],
        mut progress: impl FnMut(&Outcome<R>),
    ) -> Result<Vec<Outcome<R>>, Failure> {
        std::fs::create_dir_all(&self.data).map_err(Failure::io("creating", &self.data))?;
        self.remove_remains()?;
        let mut outcomes = Vec::new();
        for round in 0..self.rounds {
            for contender in contenders {
                self.check_space()?;
                let outcome = Outcome {
                    label: contender.label.clone(),
                    kind: contender.kind,
                    round,
                    result: self.run_one(contender, round),
                };
                progress(&outcome);
                outcomes.push(outcome);
            }
        }
        Ok(outcomes)
    }

    fn run_one<R: DeserializeOwned>(&self, contender: &Contender, round: usize) -> Result<R, Failure> {
        // Removed when it goes out of scope, also if the run fails.
        let dir = tempfile::Builder::new()
            .prefix(&format!("{FOLDER}{}-", std::process::id()))
            .tempdir_in(&self.data)
            .map_err(Failure::io("creating a folder in", &self.data))?;
        let mut command = Command::new(&contender.program);
        command.args(&contender.arguments).arg("--dir").arg(dir.path());
        command.args(["--records", &self.records.to_string(), "--seed", &round.to_string()]);
        // A panic's first line has the cause; a trace would move it out of the shown part.
        command.env("RUST_BACKTRACE", "0");
        if self.mixed {
            command.arg("--mixed");
        }
        let printed =
            child::output_on(&mut command, limits::run_limit(self.records, contender.flushes), &self.cores)?;
        let run = serde_json::from_str(&printed)
            .map_err(|error| Failure::Store(format!("its result cannot be read: {error}")))?;
        dir.close().map_err(Failure::io("removing a folder of", &self.data))?;
        Ok(run)
    }

    /// Removes folders of killed drivers: up to gigabytes each.
    fn remove_remains(&self) -> Result<(), Failure> {
        for entry in std::fs::read_dir(&self.data).map_err(Failure::io("listing", &self.data))? {
            let path = entry.map_err(Failure::io("listing", &self.data))?.path();
            let driver = path
                .file_name()
                .and_then(|name| name.to_str()?.strip_prefix(FOLDER)?.split('-').next()?.parse::<u32>().ok());
            if driver.is_some_and(|driver| !Path::new("/proc").join(driver.to_string()).exists()) {
                std::fs::remove_dir_all(&path).map_err(Failure::io("removing", &path))?;
            }
        }
        Ok(())
    }

    fn check_space(&self) -> Result<(), Failure> {
        let stat = statvfs(&self.data)
            .map_err(|error| Failure::io("asking for the free space of", &self.data)(error.into()))?;
        let free = stat.f_bavail.saturating_mul(stat.f_frsize);
        let needed = limits::disk_limit(self.records);
        if free < needed {
            return Err(Failure::TooLittleSpace { folder: self.data.clone(), free, needed });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contender(label: &str, script: &str) -> Contender {
        Contender {
            label: label.into(),
            kind: ContenderRole::Mark,
            program: "/bin/sh".into(),
            arguments: vec!["-c".into(), script.into()],
            flushes: false,
        }
    }

    fn plan(data: &Path, records: u64) -> Plan {
        Plan { records, rounds: 2, cores: Vec::new(), mixed: false, data: data.into() }
    }

    #[test]
    fn rounds_are_interleaved_and_leave_no_folder_behind() {
        let data = tempfile::tempdir().unwrap();
        let contenders = [contender("a", "exit 1"), contender("b", "echo nonsense")];
        let outcomes = plan(data.path(), 10).run(&contenders, |_: &Outcome| ()).unwrap();
        let order: Vec<(&str, usize)> =
            outcomes.iter().map(|outcome| (outcome.label.as_str(), outcome.round)).collect();
        assert_eq!(order, [("a", 0), ("b", 0), ("a", 1), ("b", 1)]);
        assert!(outcomes.iter().all(|outcome| outcome.result.is_err()));
        assert_eq!(std::fs::read_dir(data.path()).unwrap().count(), 0);
    }

    #[test]
    fn only_folders_of_dead_drivers_are_removed() {
        let data = tempfile::tempdir().unwrap();
        let ended = std::process::Command::new("true").spawn().and_then(|mut child| {
            child.wait()?;
            Ok(child.id())
        });
        let dead = data.path().join(format!("run-{}-abc", ended.unwrap()));
        let living = data.path().join(format!("run-{}-abc", std::process::id()));
        let foreign = data.path().join("notes");
        for folder in [&dead, &living, &foreign] {
            std::fs::create_dir(folder).unwrap();
        }
        plan(data.path(), 10).run(&[], |_: &Outcome| ()).unwrap();
        assert!(!dead.exists() && living.exists() && foreign.exists());
    }

    #[test]
    fn small_disk_is_reported_before_the_run() {
        let data = tempfile::tempdir().unwrap();
        let contenders = [contender("a", "exit 1")];
        let result = plan(data.path(), 1 << 50).run(&contenders, |_: &Outcome| panic!("something ran"));
        assert!(matches!(result, Err(Failure::TooLittleSpace { .. })));
    }
}
