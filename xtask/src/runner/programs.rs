//! Builds the test programs of the workspace and lists their tests.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::job::{BUSY, Job, WAITING};
use crate::workspace::{Failure, Workspace, cannot_start};

/// Packages that are built for benchmarks only, beside their peers.
pub const BENCHMARKS: &str = "bench-*";

/// Packages whose integration tests start processes and wait for them most of the time.
const WAITING_PACKAGES: [&str; 4] = ["zerohop", "zerohop-server", "zerohop-redis", "zerohop-client"];

/// Packages whose integration tests store the data of nodes in memory. A real disk costs these tests
/// more than their nodes do: files that are made and removed by the thousand, and syncs that are
/// waited for. Disks are tested by the other packages, [`ON_DISK`], and the suites of foreign clients.
const IN_MEMORY: [&str; 2] = ["zerohop", "zerohop-redis"];

/// Modules of these packages that use the disk nevertheless: nodes that are killed or stopped under
/// load.
const ON_DISK: [&str; 2] = ["kill::", "cluster::closed::"];

/// A folder in memory that all Linux systems have, and the variable for the folder of a test's files.
const MEMORY: &str = "/dev/shm";
const TEMPORARY: &str = "TMPDIR";

/// The bytes that must be free there: several times of what the tests that run at once store.
const MEMORY_BYTES: u64 = 4 << 30;

/// A test program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// The package that it tests.
    pub package: String,
    /// The target: `lib` and `bin` for unit tests, else the name of the file or folder in `tests`.
    pub target: String,
    /// Its path.
    pub path: PathBuf,
    /// The folder of the package, in which it runs.
    pub folder: PathBuf,
}

impl Program {
    /// Its name.
    pub fn label(&self) -> String {
        format!("{} {}", self.package, self.target)
    }

    /// Whether it starts nodes, and so waits most of the time.
    fn is_waiting(&self) -> bool {
        !matches!(self.target.as_str(), "lib" | "bin") && WAITING_PACKAGES.contains(&self.package.as_str())
    }

    /// Whether a test may store the data of its nodes in memory.
    fn is_in_memory(&self, test: &str) -> bool {
        self.is_waiting()
            && IN_MEMORY.contains(&self.package.as_str())
            && !ON_DISK.iter().any(|module| test.starts_with(module))
    }

    /// The budget row of its tests.
    pub fn group(&self) -> &'static str {
        if self.is_waiting() { "processes" } else { "tests" }
    }

    /// The names of its tests.
    pub fn tests(&self) -> Result<Vec<String>, Failure> {
        let mut command = self.command();
        command.args(["--list", "--format", "terse"]);
        let output = command.output().map_err(|error| cannot_start(&command, &error))?;
        if !output.status.success() {
            return Err(Failure::new(format!(
                "{} does not list its tests: {}",
                self.label(),
                String::from_utf8_lossy(&output.stderr)
            )));
        }
        Ok(listed(&String::from_utf8_lossy(&output.stdout)))
    }

    /// One of its tests, as a job.
    pub fn job(&self, test: &str) -> Job {
        let mut command = self.command();
        // The output of a test that passes is checked too.
        command.args(["--exact", test, "--show-output"]);
        if self.is_in_memory(test) && std::env::var_os(TEMPORARY).is_none() && has_memory() {
            command.env(TEMPORARY, MEMORY);
        }
        Job {
            group: self.group(),
            program: self.label(),
            name: test.to_owned(),
            weight: if self.is_waiting() { WAITING } else { BUSY },
            command,
            check: Some(one_has_run),
            lingers: std::time::Duration::ZERO,
        }
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.path);
        command.current_dir(&self.folder).env("CARGO_MANIFEST_DIR", &self.folder);
        command
    }
}

/// Whether the machine has room for the files of tests in memory.
fn has_memory() -> bool {
    let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let free = rustix::fs::statvfs(MEMORY).map_or(0, |disk| disk.f_bavail * disk.f_frsize);
    // The folder may be larger than the memory.
    free.min(available_bytes(&meminfo)) >= MEMORY_BYTES
}

/// The available memory that `/proc/meminfo` reports.
fn available_bytes(meminfo: &str) -> u64 {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kibibytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kibibytes.unwrap_or_default() << 10
}

fn listed(terse: &str) -> Vec<String> {
    terse.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect()
}

/// Without this check, a test that no longer exists would pass.
fn one_has_run(output: &str) -> Result<(), String> {
    if output.contains("test result: ok. 1 passed;") {
        Ok(())
    } else {
        Err("its program ended well without having run it".to_owned())
    }
}

/// Builds all test programs, and the programs that they start; only those of `packages`, if any are
/// named.
pub fn build(workspace: &Workspace, packages: &[String]) -> Result<Vec<Program>, Failure> {
    let mut cargo = workspace.cargo();
    // Without the examples, which clippy has checked. `test --no-run` would leave out the library of
    // the Python package, and another command would build a third of the workspace again for it.
    cargo.args(["build", "--lib", "--bins", "--tests"]);
    cargo.args(["--locked", "--message-format", "json-render-diagnostics"]);
    if packages.is_empty() {
        cargo.args(["--workspace", "--exclude", BENCHMARKS]);
    }
    for package in packages {
        cargo.args(["--package", package]);
    }
    cargo.stdin(Stdio::null()).stderr(Stdio::inherit());
    if !std::io::IsTerminal::is_terminal(&std::io::stderr()) {
        cargo.arg("--quiet");
    }
    let output = cargo.output().map_err(|error| cannot_start(&cargo, &error))?;
    if !output.status.success() {
        return Err(Failure::new("the tests do not compile, as is said above"));
    }
    let mut programs: Vec<Program> = String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .filter_map(|message| program(&message))
        .collect();
    programs.sort_by_key(Program::label);
    if programs.is_empty() {
        return Err(Failure::new("cargo built no test program"));
    }
    Ok(programs)
}

/// The test program in one of cargo's messages, if any.
fn program(message: &Value) -> Option<Program> {
    if message["reason"] != "compiler-artifact" || message["profile"]["test"] != true {
        return None;
    }
    let manifest = PathBuf::from(message["manifest_path"].as_str()?);
    let kind = message["target"]["kind"][0].as_str()?;
    let target = match kind {
        "test" => message["target"]["name"].as_str()?,
        "bin" => "bin",
        _ => "lib",
    };
    Some(Program {
        package: package_name(message["package_id"].as_str()?).to_owned(),
        target: target.to_owned(),
        path: PathBuf::from(message["executable"].as_str()?),
        folder: manifest.parent()?.to_owned(),
    })
}

/// The name in a package id such as `path+file:///tree/crates/cli#zerohop@0.1.0` or `path+file:///tree/xtask#0.1.0`.
fn package_name(id: &str) -> &str {
    let (place, name) = id.rsplit_once('#').unwrap_or((id, ""));
    match name.split_once('@') {
        Some((name, _)) => name,
        None => place.rsplit('/').next().unwrap_or(place),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_have_names_in_both_forms_of_their_ids() {
        assert_eq!(package_name("path+file:///tree/crates/cli#zerohop@0.1.0"), "zerohop");
        assert_eq!(package_name("path+file:///tree/xtask#0.1.0"), "xtask");
    }

    #[test]
    fn only_tests_of_nodes_store_data_in_memory() {
        let program = |package: &str, target: &str| Program {
            package: package.to_owned(),
            target: target.to_owned(),
            path: PathBuf::new(),
            folder: PathBuf::new(),
        };
        assert!(program("zerohop", "suite").is_in_memory("cluster::a_node_ends"));
        assert!(!program("zerohop", "suite").is_in_memory("kill::acknowledged_writes_survive"));
        assert!(!program("zerohop", "bin").is_in_memory("a_word"));
        assert!(!program("zerohop-disk", "suite").is_in_memory("kill::a_killed_writer"));
        assert!(!program("zerohop-server", "suite").is_in_memory("server::restart"));
    }

    #[test]
    fn available_memory_is_read() {
        assert_eq!(available_bytes("MemTotal: 9 kB\nMemAvailable:   24028 kB\nBuffers: 1 kB\n"), 24028 << 10);
        assert_eq!(available_bytes("MemTotal: 9 kB\n"), 0);
    }

    #[test]
    fn tests_are_listed_and_benchmarks_are_not() {
        assert_eq!(listed("a::b: test\nc: benchmark\n\n2 tests, 1 benchmarks\nd: test\n"), ["a::b", "d"]);
    }

    #[test]
    fn only_messages_about_test_programs_are_read() {
        let message = serde_json::json!({
            "reason": "compiler-artifact",
            "package_id": "path+file:///tree/crates/cli#zerohop@0.1.0",
            "manifest_path": "/tree/crates/cli/Cargo.toml",
            "target": { "kind": ["test"], "name": "suite" },
            "profile": { "test": true },
            "executable": "/tree/target/debug/deps/suite-1",
        });
        let read = program(&message).unwrap();
        assert_eq!((read.label().as_str(), read.group()), ("zerohop suite", "processes"));
        assert_eq!(read.folder, PathBuf::from("/tree/crates/cli"));
        let mut library = message.clone();
        library["profile"]["test"] = false.into();
        assert_eq!(program(&library), None);
    }

    #[test]
    fn test_that_did_not_run_is_not_passed() {
        assert_eq!(one_has_run("test result: ok. 1 passed; 0 failed; 0 ignored"), Ok(()));
        assert!(one_has_run("test result: ok. 0 passed; 0 failed; 0 ignored; 9 filtered out").is_err());
        assert!(one_has_run("test result: ok. 0 passed; 0 failed; 1 ignored").is_err());
    }
}
