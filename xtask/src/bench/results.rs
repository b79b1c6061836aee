//! Stored results: `bench/results/NAME.json`, the newest run of each benchmark, with the commit
//! that was measured, and its pictures beside it. The scenarios of `engine` are in `engine-scenarios.json`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Map, Value, json};

use crate::workspace::{Failure, Workspace};

/// The folder, from the root of the tree.
pub(super) const FOLDER: &str = "bench/results";

/// Single measurements of each round: too many to store.
const LEFT_OUT: [&str; 2] = ["readings", "runs"];

/// One benchmark's newest run.
#[derive(Clone, Debug, PartialEq)]
pub struct Results {
    /// The benchmark.
    pub name: String,
    /// The commit that was measured, followed by `-dirty` if files differed from it.
    pub commit: String,
    /// Arguments of the benchmark.
    pub arguments: Vec<String>,
    /// The benchmark's output.
    pub report: Value,
}

impl Results {
    /// Reads all stored results, by name.
    pub fn read_all(root: &Path) -> Result<Vec<Results>, Failure> {
        let folder = root.join(FOLDER);
        let Ok(entries) = fs::read_dir(&folder) else { return Ok(Vec::new()) };
        let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
        paths.retain(|path| path.extension().is_some_and(|end| end == "json"));
        paths.sort();
        paths.iter().map(|path| Results::read(path)).collect()
    }

    fn read(path: &Path) -> Result<Results, Failure> {
        let broken = |why: String| Failure::new(format!("{}: {why}", path.display()));
        let text = fs::read_to_string(path).map_err(|error| broken(error.to_string()))?;
        let value: Value = serde_json::from_str(&text).map_err(|error| broken(error.to_string()))?;
        Results::from_json(&value).ok_or_else(|| broken("a field is missing".to_owned()))
    }

    fn from_json(value: &Value) -> Option<Results> {
        let text = |name: &str| Some(value.get(name)?.as_str()?.to_owned());
        let arguments = value.get("arguments")?.as_array()?;
        Some(Results {
            name: text("benchmark")?,
            commit: text("commit")?,
            arguments: arguments.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
            report: value.get("report")?.clone(),
        })
    }

    /// Stores a benchmark's output from `written`, in place of its previous run.
    pub fn keep(
        workspace: &Workspace,
        name: &str,
        arguments: &[&str],
        written: &Path,
    ) -> Result<PathBuf, Failure> {
        let path = workspace.root.join(FOLDER).join(file_name(name, arguments));
        let failed = |error: std::io::Error| Failure::new(format!("{}: {error}", path.display()));
        let text = fs::read_to_string(written).map_err(failed)?;
        let mut report: Value = serde_json::from_str(&text)
            .map_err(|error| Failure::new(format!("{}: {error}", written.display())))?;
        leave_out(&mut report);
        let results = json!({ "benchmark": name, "commit": commit(&workspace.root)?, "arguments": arguments, "report": report });
        fs::create_dir_all(workspace.root.join(FOLDER)).map_err(failed)?;
        for picture in pictures(&results["report"]) {
            let (from, to) = (written.with_file_name(picture), path.with_file_name(picture));
            fs::copy(&from, &to)
                .map_err(|error| Failure::new(format!("copying {}: {error}", from.display())))?;
        }
        fs::write(&path, format!("{results:#}\n")).map_err(failed)?;
        Ok(path)
    }
}

/// The names of a report's pictures, which the benchmark has written beside it.
fn pictures(report: &Value) -> impl Iterator<Item = &str> {
    report["pictures"].as_array().into_iter().flatten().filter_map(Value::as_str)
}

/// The file of a run. The scenarios of the engine have their own, beside its comparison with libraries.
fn file_name(name: &str, arguments: &[&str]) -> String {
    let has_scenarios = arguments.iter().any(|word| *word == "--scenario" || word.starts_with("--scenario="));
    if name == "engine" && has_scenarios { format!("{name}-scenarios.json") } else { format!("{name}.json") }
}

/// The commit that is checked out.
fn commit(root: &Path) -> Result<String, Failure> {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").arg("-C").arg(root).args(arguments).output();
        let output = output.map_err(|error| Failure::new(format!("git does not run: {error}")))?;
        Ok::<String, Failure>(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let commit = git(&["rev-parse", "--short=10", "HEAD"])?;
    let changed = git(&["status", "--porcelain", "--untracked-files=no"])?;
    Ok(if changed.is_empty() { commit } else { format!("{commit}-dirty") })
}

fn leave_out(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            let kept =
                std::mem::take(fields).into_iter().filter(|(name, _)| !LEFT_OUT.contains(&name.as_str()));
            *fields = kept.collect::<Map<_, _>>();
            fields.values_mut().for_each(leave_out);
        }
        Value::Array(values) => values.iter_mut().for_each(leave_out),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_results_are_read_without_single_measurements() {
        let folder = tempfile::tempdir().unwrap();
        let workspace = Workspace { root: folder.path().to_path_buf(), target: folder.path().join("target") };
        let written = folder.path().join("written.json");
        fs::write(&written, r#"{"machine":{"cpu":"x"},"scenarios":[{"scenario":"set","readings":[1,2]}]}"#)
            .unwrap();
        Results::keep(&workspace, "kv", &["--rounds", "3"], &written).unwrap();
        let all = Results::read_all(&workspace.root).unwrap();
        assert_eq!(all.len(), 1);
        assert_eq!(
            (all[0].name.as_str(), &all[0].arguments[..]),
            ("kv", &["--rounds".to_owned(), "3".to_owned()][..])
        );
        assert_eq!(all[0].report, json!({ "machine": { "cpu": "x" }, "scenarios": [{ "scenario": "set" }] }));
    }

    #[test]
    fn pictures_are_stored_beside_the_results() {
        let folder = tempfile::tempdir().unwrap();
        let workspace = Workspace { root: folder.path().to_path_buf(), target: folder.path().join("target") };
        let written = folder.path().join("written.json");
        fs::write(&written, r#"{"pictures":["a.svg"]}"#).unwrap();
        let missing = Results::keep(&workspace, "tpcc", &[], &written).unwrap_err().to_string();
        assert!(missing.contains("a.svg"), "{missing}");
        fs::write(folder.path().join("a.svg"), "<svg/>").unwrap();
        Results::keep(&workspace, "tpcc", &[], &written).unwrap();
        assert_eq!(fs::read_to_string(folder.path().join(FOLDER).join("a.svg")).unwrap(), "<svg/>");
    }

    #[test]
    fn scenarios_of_the_engine_do_not_replace_its_comparison() {
        assert_eq!(file_name("engine", &["--rounds", "3"]), "engine.json");
        assert_eq!(file_name("engine", &["--scenario", "all"]), "engine-scenarios.json");
        assert_eq!(file_name("kv", &["--scenario", "deep"]), "kv.json");
    }

    #[test]
    fn missing_results_are_empty_and_broken_file_is_named() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(Results::read_all(folder.path()).unwrap(), []);
        fs::create_dir_all(folder.path().join(FOLDER)).unwrap();
        for (text, why) in [("{", "EOF"), ("{}", "a field is missing")] {
            fs::write(folder.path().join(FOLDER).join("kv.json"), text).unwrap();
            let failure = Results::read_all(folder.path()).unwrap_err().to_string();
            assert!(failure.contains("kv.json") && failure.contains(why), "{failure}");
        }
    }
}
