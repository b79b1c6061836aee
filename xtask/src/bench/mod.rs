//! `cargo xtask bench NAME`: one side-by-side benchmark, with its peers installed first.
//!
//! A benchmark is a package `bench-NAME` in `bench/NAME`. If that folder has an executable
//! `install`, it is run first. It installs the peers quietly and can be run again. If some are not
//! available, it names them and exits with a nonzero code. The benchmark then runs all the same and
//! must list those peers as missing in its table.
//!
//! A benchmark that starts the project's programs finds them beside its own: [`PROGRAMS`] are built
//! with it.
//!
//! ```text
//!   results   bench/results/NAME.json, written by `bench NAME --record`
//!   report    docs/performance.md, written by `bench report` from those
//! ```

pub mod report;
mod results;

use std::fs;
use std::path::Path;
use std::process::Command;

use results::Results;

use crate::environment::{self, Set};
use crate::python;
use crate::workspace::{Failure, Workspace, run as run_command};

/// Benchmarks, each with a package whose program it starts.
const PROGRAMS: &[(&str, &str)] = &[
    ("blob", "zerohop"),
    ("cluster", "zerohop"),
    ("kv", "zerohop"),
    ("monitor", "zerohop"),
    ("resp", "zerohop"),
    ("tpcc", "zerohop"),
    ("ycsb", "zerohop"),
];

/// Runs the benchmark that the first of `words` names, with the rest as its arguments; without
/// words, lists all benchmarks.
pub fn run(workspace: &Workspace, words: &[&str]) -> Result<(), Failure> {
    let known = known(&workspace.root.join("bench"))?;
    let Some((name, args)) = words.split_first() else {
        println!("{}", list(&known));
        return Ok(());
    };
    if *name == "report" {
        return report::run(workspace);
    }
    if !known.iter().any(|one| one == name) {
        return Err(Failure::new(format!("there is no benchmark `{name}`\n{}", list(&known))));
    }
    let install = workspace.root.join("bench").join(name).join("install");
    if install.is_file() {
        let advice = "some peer could not be installed: the table will show it as missing";
        if let Err(failure) = run_command(Command::new(&install).current_dir(&workspace.root), advice) {
            eprintln!("xtask: {failure}");
        }
    }
    for (_, package) in PROGRAMS.iter().filter(|(bench, _)| bench == name) {
        let mut cargo = workspace.cargo();
        cargo.args(["build", "--release", "--locked", "--quiet", "--package", package]);
        run_command(&mut cargo, "what went wrong is shown above")?;
    }
    if *name == "python" {
        python::install_wheel(workspace, &environment::install(workspace, Set::Clients)?)?;
    }
    let (is_recorded, args): (Vec<&str>, Vec<&str>) = args.iter().partition(|word| **word == "--record");
    let written = workspace.target.join(format!("bench-{name}.json"));
    let mut cargo = workspace.cargo();
    cargo
        .args(["run", "--release", "--locked", "--quiet", "--package", &format!("bench-{name}"), "--"])
        .args(&args);
    if !is_recorded.is_empty() {
        cargo.arg("--json").arg(&written);
    }
    run_command(&mut cargo, "what went wrong is shown above")?;
    if !is_recorded.is_empty() {
        let path = Results::keep(workspace, name, &args, &written)?;
        println!(
            "xtask: {} has the results; `cargo xtask bench report` writes them into {}",
            path.display(),
            report::DOCUMENT
        );
    }
    Ok(())
}

/// The names of the packages in the folder `bench`, sorted; none when there is no such folder.
fn known(bench: &Path) -> Result<Vec<String>, Failure> {
    if !bench.is_dir() {
        return Ok(Vec::new());
    }
    let unreadable = |error| Failure::new(format!("{} cannot be read: {error}", bench.display()));
    let mut names = Vec::new();
    for entry in fs::read_dir(bench).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        if entry.path().join("Cargo.toml").is_file() {
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    names.sort();
    Ok(names)
}

fn list(known: &[String]) -> String {
    if known.is_empty() {
        return "no benchmark exists yet: each is a package `bench-NAME` in bench/NAME".to_owned();
    }
    let lines: Vec<String> = known.iter().map(|name| format!("  cargo xtask bench {name}")).collect();
    format!("benchmarks:\n{}", lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_folders_with_manifest_are_benchmarks() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["kv", "engine", "results"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        for name in ["kv", "engine"] {
            fs::write(folder.path().join(name).join("Cargo.toml"), "").unwrap();
        }
        assert_eq!(known(folder.path()).unwrap(), ["engine", "kv"]);
        assert_eq!(known(&folder.path().join("nowhere")).unwrap(), [""; 0]);
    }

    #[test]
    fn the_folder_of_results_is_no_member_of_the_workspace() {
        // Cargo refuses a workspace in which `bench/*` matches a folder without a manifest.
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let manifest = fs::read_to_string(root.join("Cargo.toml")).unwrap();
        let exclude = manifest.lines().find(|line| line.starts_with("exclude = ")).unwrap();
        assert!(exclude.contains("\"bench/results\""), "{exclude}");
    }

    #[test]
    fn listed_programs_belong_to_existing_benchmarks() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let known = known(&root.join("bench")).unwrap();
        assert!(PROGRAMS.iter().all(|(bench, _)| known.iter().any(|one| one == bench)), "{known:?}");
    }

    #[test]
    fn unknown_benchmark_is_answered_with_known_ones() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("bench/kv")).unwrap();
        fs::write(folder.path().join("bench/kv/Cargo.toml"), "").unwrap();
        let workspace = Workspace { root: folder.path().to_path_buf(), target: folder.path().join("target") };
        let failure = run(&workspace, &["vk"]).unwrap_err().to_string();
        assert!(failure.contains("`vk`") && failure.contains("bench kv"), "{failure}");
    }
}
