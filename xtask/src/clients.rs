//! `cargo xtask clients [NAME]`: the wide set of foreign clients and programs, each with nodes of
//! its own.
//!
//! Their versions are those of `suites/environment.toml`. A client is a script in `suites/clients`,
//! or tests of the Python package that are marked `wide`. The table says for each whether all its
//! operations succeed.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::built_artifacts;
use crate::client_node::{ClientNode, S3_VARIABLES};
use crate::environment::{self, Environment, Set};
use crate::python;
use crate::workspace::{Failure, Workspace, cannot_start};

/// How a client is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClientRun {
    /// A script in `suites`, given the ports of a node's instances.
    Script(&'static str),
    /// A script in `suites`, given the endpoint of a gateway of S3.
    S3(&'static str),
    /// The tests of the Python package whose names contain this word.
    Pytest(&'static str),
    /// The package's first steps, with an older Python, which needs a wheel of its own.
    Python,
}

/// A foreign client.
#[derive(Clone, Copy, Debug)]
struct OutsideClient {
    name: &'static str,
    /// The source of its version: a package of the environment, or a program of the system; the version of an older Python.
    version: &'static str,
    run: ClientRun,
}

/// The wide set.
const CLIENTS: [OutsideClient; 21] = [
    OutsideClient {
        name: "redis-benchmark",
        version: "redis-benchmark",
        run: ClientRun::Script("clients/redis-benchmark.sh"),
    },
    OutsideClient { name: "redis-py", version: "redis", run: ClientRun::Script("redis/clients.py") },
    OutsideClient { name: "ioredis", version: "ioredis", run: ClientRun::Script("clients/ioredis.js") },
    OutsideClient { name: "pandas", version: "pandas", run: ClientRun::Pytest("pandas") },
    OutsideClient { name: "pyarrow", version: "pyarrow", run: ClientRun::Pytest("parquet") },
    OutsideClient { name: "zarr", version: "zarr", run: ClientRun::Pytest("zarr") },
    OutsideClient { name: "xarray", version: "xarray", run: ClientRun::Pytest("xarray") },
    OutsideClient { name: "dask", version: "dask", run: ClientRun::Pytest("dask") },
    OutsideClient { name: "python3.9", version: "3.9", run: ClientRun::Python },
    OutsideClient { name: "boto3", version: "boto3", run: ClientRun::S3("s3/clients.py") },
    OutsideClient { name: "aws", version: "awscli", run: ClientRun::S3("clients/s3_awscli.py") },
    OutsideClient { name: "s3fs", version: "s3fs", run: ClientRun::S3("clients/s3_s3fs.py") },
    OutsideClient { name: "fsspec", version: "fsspec", run: ClientRun::S3("clients/s3_fsspec.py") },
    OutsideClient { name: "rclone", version: "rclone", run: ClientRun::S3("clients/s3_rclone.py") },
    OutsideClient { name: "s3cmd", version: "s3cmd", run: ClientRun::S3("clients/s3_s3cmd.py") },
    OutsideClient { name: "restic", version: "restic", run: ClientRun::S3("clients/s3_restic.py") },
    OutsideClient { name: "duckdb", version: "duckdb", run: ClientRun::S3("clients/s3_duckdb.py") },
    OutsideClient { name: "polars", version: "polars", run: ClientRun::S3("clients/s3_polars.py") },
    OutsideClient { name: "pyarrow-s3", version: "pyarrow", run: ClientRun::S3("clients/s3_pyarrow.py") },
    OutsideClient { name: "object_store", version: "obstore", run: ClientRun::S3("clients/s3_obstore.py") },
    OutsideClient { name: "deltalake", version: "deltalake", run: ClientRun::S3("clients/s3_deltalake.py") },
];

/// The result of one client.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ClientRow {
    name: &'static str,
    version: String,
    /// The line that describes the failure best; `None` after success.
    failure: Option<String>,
}

/// Runs the named clients, or all, and prints a row for each.
pub fn run(workspace: &Workspace, names: &[&str]) -> Result<(), Failure> {
    if let Some(unknown) = names.iter().find(|name| CLIENTS.iter().all(|one| one.name != **name)) {
        let known: Vec<&str> = CLIENTS.iter().map(|one| one.name).collect();
        return Err(Failure::new(format!("there is no client `{unknown}`; there are {}", known.join(", "))));
    }
    let requested: Vec<&OutsideClient> =
        CLIENTS.iter().filter(|one| names.is_empty() || names.contains(&one.name)).collect();
    environment::system(workspace)?;
    if requested.iter().any(|one| matches!(one.run, ClientRun::S3(_))) {
        let mut install = Command::new(workspace.root.join("suites").join("clients").join("install"));
        environment::quietly(&mut install, "the clients of S3 need rclone and restic")?;
    }
    let kept = environment::install(workspace, Set::Clients)?;
    built_artifacts::program(workspace)?;
    let needs_wheel = requested.iter().any(|one| matches!(one.run, ClientRun::Pytest(_)));
    let python = if needs_wheel { Some(python::install(workspace, &kept)?) } else { None };
    let mut rows = Vec::new();
    for client in requested {
        println!("xtask: {} …", client.name);
        let failure = match client.run {
            ClientRun::Script(script) => run_script(workspace, &kept, script)?,
            ClientRun::S3(script) => run_s3_script(workspace, &kept, script)?,
            ClientRun::Pytest(word) => pytest(workspace, python.as_deref(), word)?,
            ClientRun::Python => first_steps(workspace, &kept, client.version)?,
        };
        let version = match client.run {
            ClientRun::Python => client.version.to_owned(),
            _ => version(&kept, client.version),
        };
        rows.push(ClientRow { name: client.name, version, failure });
    }
    print!("{}", table(&rows));
    match rows.iter().filter(|row| row.failure.is_some()).count() {
        0 => Ok(()),
        failed => {
            Err(Failure::new(format!("{failed} of {} clients were not served as they expect", rows.len())))
        }
    }
}

fn table(rows: &[ClientRow]) -> String {
    let line = |row: &ClientRow| match &row.failure {
        None => format!("{:16} {:12} passed\n", row.name, row.version),
        Some(failure) => format!("{:16} {:12} FAILED  {failure}\n", row.name, row.version),
    };
    rows.iter().map(line).collect()
}

/// Runs a script against an in-memory node of three instances; returns its last output if it
/// failed.
fn run_script(workspace: &Workspace, kept: &Environment, script: &str) -> Result<Option<String>, Failure> {
    let node = ClientNode::start(workspace, false)?;
    let path = workspace.root.join("suites").join(script);
    let mut command = match path.extension().and_then(|end| end.to_str()) {
        Some("py") => Command::new(kept.bin().join("python")),
        Some("js") => Command::new("node"),
        _ => Command::new("bash"),
    };
    command.arg(&path).args(&node.ports).env("NODE_PATH", kept.home.join("node_modules"));
    first_failure(&mut command)
}

/// Runs a script against the gateway of S3 of an in-memory node; returns its last output if it failed.
pub fn run_s3_script(
    workspace: &Workspace,
    kept: &Environment,
    script: &str,
) -> Result<Option<String>, Failure> {
    let node = ClientNode::start(workspace, true)?;
    let mut command = Command::new(kept.bin().join("python"));
    command.arg(workspace.root.join("suites").join(script)).args(&node.s3).envs(S3_VARIABLES);
    first_failure(&mut command)
}

fn pytest(workspace: &Workspace, python: Option<&Path>, word: &str) -> Result<Option<String>, Failure> {
    let Some(python) = python else { return Ok(Some("there is no wheel".to_owned())) };
    let mut command = Command::new(python);
    command
        .args(["-m", "pytest", "-m", "wide", "-k", word])
        .current_dir(workspace.root.join("python"))
        .env_remove("ZEROHOP_PROGRAM");
    first_failure(&mut command)
}

/// Builds and installs the wheel of this version of Python, and runs each kind of operation once.
fn first_steps(workspace: &Workspace, kept: &Environment, version: &str) -> Result<Option<String>, Failure> {
    let python = match python::install_for_version(workspace, kept, version) {
        Ok(python) => python,
        // The other clients have their rows all the same.
        Err(failure) => return Ok(Some(failure.to_string())),
    };
    let script = workspace.root.join("suites").join("clients").join("first_steps.py");
    first_failure(Command::new(python).arg(script).env_remove("ZEROHOP_PROGRAM"))
}

/// Runs a command, prints its output if it failed, and returns the most informative line.
fn first_failure(command: &mut Command) -> Result<Option<String>, Failure> {
    let output = command.stdin(Stdio::null()).output().map_err(|error| cannot_start(command, &error))?;
    if output.status.success() {
        return Ok(None);
    }
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    eprintln!("{}", text.trim_end());
    let is_error = |line: &&str| ["Error", "FAILED", "error"].iter().any(|word| line.contains(word));
    let error_line = text.lines().find(is_error).or_else(|| text.lines().last());
    Ok(Some(error_line.unwrap_or("it said nothing").trim().to_owned()))
}

/// The version of a package of the environment, or of a program of the system.
fn version(kept: &Environment, name: &str) -> String {
    let package = kept.home.join("node_modules").join(name).join("package.json");
    let of_node =
        std::fs::read_to_string(package).ok().and_then(|text| serde_json::from_str::<Value>(&text).ok());
    if let Some(version) = of_node.as_ref().and_then(|json| json["version"].as_str()) {
        return version.to_owned();
    }
    let prefix = format!("{}-", name.replace('-', "_"));
    let folders = kept.site_packages().ok().and_then(|folder| std::fs::read_dir(folder).ok());
    let of_python = folders.into_iter().flatten().flatten().find_map(|entry| {
        let file = entry.file_name().to_string_lossy().into_owned();
        Some(file.strip_prefix(&prefix)?.strip_suffix(".dist-info")?.to_owned())
    });
    let of_system = || {
        let output = Command::new(name).arg("--version").output().ok()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.split_whitespace()
            .find(|word| word.starts_with(|one: char| one.is_ascii_digit()))
            .map(str::to_owned)
    };
    of_python.or_else(of_system).unwrap_or_else(|| "unknown".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_client_is_answered_with_known_ones() {
        let text = run(&Workspace::find().unwrap(), &["redis-pie"]).unwrap_err().to_string();
        assert!(text.contains("`redis-pie`") && text.contains("redis-py"), "{text}");
    }

    #[test]
    fn each_client_script_exists() {
        let workspace = Workspace::find().unwrap();
        for client in CLIENTS {
            let script = match client.run {
                ClientRun::Script(script) | ClientRun::S3(script) => script,
                ClientRun::Python => "clients/first_steps.py",
                ClientRun::Pytest(_) => continue,
            };
            assert!(workspace.root.join("suites").join(script).is_file(), "{script}");
        }
    }

    #[test]
    fn client_row_has_name_version_and_first_failure() {
        let row = |failure: Option<&str>| ClientRow {
            name: "zarr",
            version: "3.1".to_owned(),
            failure: failure.map(str::to_owned),
        };
        let text = table(&[row(None), row(Some("KeyError: 1"))]);
        assert!(text.contains("zarr             3.1          passed\n"), "{text}");
        assert!(text.contains("FAILED  KeyError: 1\n"), "{text}");
    }

    #[test]
    fn first_failure_is_error_line() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo begin; echo 'ValueError: no'; echo end; exit 1"]);
        assert_eq!(first_failure(&mut command).unwrap().as_deref(), Some("ValueError: no"));
        assert_eq!(first_failure(&mut Command::new("true")).unwrap(), None);
    }
}
