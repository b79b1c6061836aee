//! `cargo xtask redis`: foreign Redis clients against a node, and against three of which one is
//! killed (`suites/redis`).
//!
//! Its executable `install` installs the clients, in pinned versions, into a folder of the target
//! folder. `run` starts the nodes and a redis-server to compare with, and ends all of them.

use std::process::Command;

use crate::built_artifacts;
use crate::environment::{self, Set, quietly};
use crate::workspace::{Failure, Workspace, run as run_command};

/// Installs the clients if they are missing, and runs them.
pub fn run(workspace: &Workspace) -> Result<String, Failure> {
    let suite = workspace.root.join("suites").join("redis");
    quietly(&mut Command::new(suite.join("install")), "the step `redis` needs redis-server and redis-cli")?;
    let kept = environment::install(workspace, Set::Test)?;
    let program = built_artifacts::program(workspace)?;
    run_command(
        Command::new(suite.join("run")).arg(program).arg(kept.bin().join("python")),
        "a client of Redis was not served as it expects, shown above; docs/guide/redis.md tells what works",
    )?;
    // The guide's own examples, with the same clients.
    let path = std::env::var("PATH").unwrap_or_default();
    let path = format!("{}:{path}", kept.bin().display());
    run_command(
        built_artifacts::tests(workspace, "guides::")
            .env("ZEROHOP_GUIDES", "docs/guide/redis.md docs/guide/start-redis.md")
            .env("PATH", path),
        "docs/guide/redis.md says what is not so, shown above",
    )?;
    Ok("redis-cli, redis-py, the guide".to_owned())
}
