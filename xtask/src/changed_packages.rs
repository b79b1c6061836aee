//! The extent of a change: the packages with changed files, and all that depend on them.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::Value;

use crate::workspace::{Failure, Workspace, cannot_start};

/// Files outside all packages that affect every build.
const OF_ALL: [&str; 6] = ["Cargo.toml", "Cargo.lock", "clippy.toml", "rustfmt.toml", ".cargo/", ".ci/"];

/// Folders outside packages, and the steps or packages that read them.
const READERS: [(&str, &[&str]); 19] = [
    ("suites/redis/", &["redis"]),
    ("suites/s3/", &["s3"]),
    ("suites/slurm/", &["slurm"]),
    ("suites/environment.toml", &["redis", "s3", "python"]),
    ("fuzz/", &["suite-decoders"]),
    ("docs/formats/segment.md", &["zerohop-engine"]),
    ("docs/formats/journal.md", &["zerohop-engine"]),
    ("docs/formats/checkpoint.md", &["zerohop-engine"]),
    ("docs/formats/cluster-map.md", &["zerohop-placement"]),
    ("docs/formats/control-log.md", &["zerohop-control"]),
    ("docs/formats/node-folder.md", &["zerohop-server"]),
    ("docs/formats/logs.md", &["zerohop-layer-log"]),
    ("docs/formats/queues.md", &["zerohop-layer-queue"]),
    ("docs/formats/partition-state.md", &["zerohop-partition"]),
    ("docs/formats/backup.md", &["zerohop-backup"]),
    (
        "crates/engine/src/documented/tables.rs",
        &[
            "zerohop-placement",
            "zerohop-control",
            "zerohop-server",
            "zerohop-partition",
            "zerohop-backup",
            "zerohop-layer-log",
            "zerohop-layer-queue",
        ],
    ),
    ("docs/guide/batch.md", &["slurm", "zerohop"]),
    ("docs/guide/", &["zerohop", "python", "redis"]),
    ("README.md", &["zerohop", "python"]),
];

/// The package of the program, which the suites of other languages start.
const PROGRAM: &str = "zerohop";
/// The package of the simulator.
const SIMULATOR: &str = "zerohop-sim";
/// The package of the Python module.
const PYTHON: &str = "zerohop-python";

/// The extent of a change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangedPackages {
    packages: Vec<String>,
    steps: BTreeSet<String>,
}

impl ChangedPackages {
    /// The packages to build and test, benchmarks left out.
    pub fn packages(&self) -> &[String] {
        &self.packages
    }

    /// Whether a step is affected.
    pub fn touches(&self, step: &str) -> bool {
        self.steps.contains(step)
    }

    /// The differences between the commit `base` and the work tree, including new files.
    pub fn since(workspace: &Workspace, base: &str) -> Result<Self, Failure> {
        let mut files = git(workspace, &["diff", "--name-only", base])?;
        files.extend(git(workspace, &["ls-files", "--others", "--exclude-standard"])?);
        let mut cargo = workspace.cargo();
        cargo.args(["metadata", "--format-version", "1", "--no-deps", "--locked"]);
        let text = output(&mut cargo)?;
        let metadata: Value = serde_json::from_str(&text)
            .map_err(|error| Failure::new(format!("`cargo metadata` is not read: {error}")))?;
        let root = workspace.root.to_string_lossy().into_owned();
        Ok(Self::of(&files, &packages(&metadata, &root)))
    }

    fn of(files: &[String], packages: &[Package]) -> Self {
        let mut touched: BTreeSet<&str> = BTreeSet::new();
        let mut steps: BTreeSet<String> = ["format", "tidy"].map(str::to_owned).into();
        for file in files {
            if OF_ALL.iter().any(|one| file == one || (one.ends_with('/') && file.starts_with(one))) {
                touched.extend(packages.iter().map(|one| one.name.as_str()));
                continue;
            }
            let readers = READERS.iter().find(|(place, _)| file.starts_with(place));
            for reader in readers.map_or(&[][..], |(_, readers)| readers) {
                match packages.iter().find(|one| one.name == *reader) {
                    Some(package) => drop(touched.insert(&package.name)),
                    None => drop(steps.insert((*reader).to_owned())),
                }
            }
            let owners = packages.iter().filter(|one| file.starts_with(&format!("{}/", one.folder)));
            touched.extend(owners.max_by_key(|one| one.folder.len()).map(|one| one.name.as_str()));
        }
        let touched = with_dependants(touched, packages);
        let mut begin = |names: &[&str]| steps.extend(names.iter().map(|one| (*one).to_owned()));
        if !touched.is_empty() {
            begin(&["lint", "docs", "build", "tests", "processes"]);
        }
        if touched.contains(PROGRAM) {
            begin(&["redis", "s3", "slurm", "python"]);
        }
        if touched.contains(SIMULATOR) {
            begin(&["simulation"]);
        }
        if touched.contains(PYTHON) {
            begin(&["python"]);
        }
        let packages = touched.into_iter().filter(|name| !name.starts_with("bench-"));
        Self { packages: packages.map(str::to_owned).collect(), steps }
    }
}

/// A package of the workspace.
#[derive(Clone, Debug)]
struct Package {
    name: String,
    /// From the root of the tree.
    folder: String,
    /// The names of its dependencies, including those of its tests.
    dependencies: Vec<String>,
}

fn packages(metadata: &Value, root: &str) -> Vec<Package> {
    let all = metadata["packages"].as_array().into_iter().flatten();
    all.filter_map(|package| {
        let manifest = package["manifest_path"].as_str()?;
        let dependencies = package["dependencies"].as_array()?.iter();
        Some(Package {
            name: package["name"].as_str()?.to_owned(),
            folder: manifest
                .strip_prefix(root)?
                .strip_suffix("/Cargo.toml")?
                .trim_start_matches('/')
                .to_owned(),
            dependencies: dependencies.filter_map(|one| Some(one["name"].as_str()?.to_owned())).collect(),
        })
    })
    .collect()
}

fn with_dependants<'a>(mut touched: BTreeSet<&'a str>, packages: &'a [Package]) -> BTreeSet<&'a str> {
    let dependants: BTreeMap<&str, Vec<&str>> = packages.iter().fold(BTreeMap::new(), |mut map, package| {
        for dependency in &package.dependencies {
            map.entry(dependency.as_str()).or_insert_with(Vec::new).push(package.name.as_str());
        }
        map
    });
    let mut next: Vec<&str> = touched.iter().copied().collect();
    while let Some(one) = next.pop() {
        next.extend(dependants.get(one).into_iter().flatten().filter(|name| touched.insert(name)));
    }
    touched
}

fn git(workspace: &Workspace, words: &[&str]) -> Result<Vec<String>, Failure> {
    let text = output(Command::new("git").args(words).current_dir(&workspace.root))?;
    Ok(text.lines().map(str::to_owned).collect())
}

fn output(command: &mut Command) -> Result<String, Failure> {
    let output = command.output().map_err(|error| cannot_start(command, &error))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(Failure::new(String::from_utf8_lossy(&output.stderr).trim_end().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree() -> Vec<Package> {
        let package = |name: &str, folder: &str, dependencies: &[&str]| Package {
            name: name.to_owned(),
            folder: folder.to_owned(),
            dependencies: dependencies.iter().map(|one| (*one).to_owned()).collect(),
        };
        vec![
            package("zerohop-wire", "crates/wire", &["bytes"]),
            package("zerohop-engine", "crates/engine", &[]),
            package("zerohop-sim", "crates/sim", &["zerohop-engine", "zerohop-wire"]),
            package("zerohop", "crates/cli", &["zerohop-sim"]),
            package("bench-kv", "bench/kv", &["zerohop-wire"]),
            package("xtask", "xtask", &["toml"]),
        ]
    }

    fn of(files: &[&str]) -> ChangedPackages {
        let files: Vec<String> = files.iter().map(|one| (*one).to_owned()).collect();
        ChangedPackages::of(&files, &tree())
    }

    #[test]
    fn changed_crate_selects_only_its_dependents() {
        let changed = of(&["crates/engine/src/lib.rs"]);
        assert_eq!(changed.packages(), ["zerohop", "zerohop-engine", "zerohop-sim"]);
        assert!(["lint", "tests", "simulation", "redis"].iter().all(|step| changed.touches(step)));
        let changed = of(&["xtask/src/main.rs"]);
        assert_eq!(changed.packages(), ["xtask"]);
        assert!(changed.touches("tests") && !changed.touches("simulation") && !changed.touches("redis"));
    }

    #[test]
    fn changed_document_selects_packages_that_read_it() {
        assert_eq!(of(&["docs/reliability.md"]).packages(), [""; 0]);
        assert!(!of(&["docs/reliability.md"]).touches("lint"));
        assert_eq!(of(&["docs/guide/redis.md"]).packages(), ["zerohop"]);
        assert!(of(&["docs/guide/redis.md"]).touches("redis"));
        assert!(of(&["docs/formats/segment.md"]).packages().contains(&"zerohop-engine".to_owned()));
    }

    #[test]
    fn changed_lock_file_selects_all_packages_except_benchmarks() {
        let changed = of(&["Cargo.lock"]);
        assert_eq!(changed.packages().len(), 5);
        assert!(!changed.packages().iter().any(|name| name.starts_with("bench")));
    }
}
