//! `cargo xtask slurm`: nodes inside jobs of a Slurm cluster of three hosts, and the job script of
//! the guide (`suites/slurm`).
//!
//! Its executable `install` installs the daemons from the system's packages; `run` starts a private
//! Slurm, and ends all of it.

use std::process::Command;

use crate::built_artifacts;
use crate::workspace::{Failure, Workspace, run as run_command};

/// Installs Slurm if it is missing, and runs the jobs.
pub fn run(workspace: &Workspace) -> Result<String, Failure> {
    let suite = workspace.root.join("suites").join("slurm");
    run_command(
        &mut Command::new(suite.join("install")),
        "Slurm could not be had, as is said above; the step `slurm` needs it",
    )?;
    let program = built_artifacts::program(workspace)?;
    let guide = workspace.root.join("docs").join("guide").join("batch.md");
    run_command(
        Command::new(suite.join("run")).arg(program).arg(guide),
        "nodes inside a job of Slurm did not do what docs/guide/batch.md says, shown above",
    )?;
    Ok("srun, sbatch".to_owned())
}
