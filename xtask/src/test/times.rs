//! The time of each job in the previous run, so that the longest starts first:
//! `target/xtask/times.json`.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use crate::runner::job::EndedJob;
use crate::workspace::{Failure, Workspace};

fn file(shop: &Workspace) -> PathBuf {
    shop.target.join("xtask").join("times.json")
}

/// The stored times, by the jobs' labels; empty in a fresh checkout.
pub(super) fn load(shop: &Workspace) -> BTreeMap<String, Duration> {
    let text = fs::read_to_string(file(shop)).unwrap_or_default();
    let milliseconds: BTreeMap<String, u64> = serde_json::from_str(&text).unwrap_or_default();
    milliseconds.into_iter().map(|(label, one)| (label, Duration::from_millis(one))).collect()
}

/// Stores the times of these jobs, and keeps those of others.
pub(super) fn save(shop: &Workspace, jobs: &[EndedJob]) -> Result<(), Failure> {
    let mut all = load(shop);
    all.extend(jobs.iter().filter(|one| one.failure.is_none()).map(|one| (one.label(), one.took)));
    let milliseconds: BTreeMap<&str, u64> = all
        .iter()
        .map(|(label, took)| (label.as_str(), u64::try_from(took.as_millis()).unwrap_or(u64::MAX)))
        .collect();
    let file = file(shop);
    let failed = |error| Failure::new(format!("{} cannot be written: {error}", file.display()));
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder).map_err(failed)?;
    }
    fs::write(&file, serde_json::json!(milliseconds).to_string()).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn saved_times_replace_only_those_of_same_job() {
        let folder = tempfile::tempdir().unwrap();
        let shop = Workspace { root: folder.path().to_owned(), target: folder.path().join("target") };
        assert!(load(&shop).is_empty());
        for (name, seconds) in [("a", 1), ("b", 2), ("a", 3)] {
            let job = EndedJob {
                group: "tests",
                program: "p".to_owned(),
                name: name.to_owned(),
                took: Duration::from_secs(seconds),
                cost: Duration::ZERO,
                failure: None,
                skipped: None,
                output: String::new(),
            };
            save(&shop, &[job]).unwrap();
        }
        let expected =
            [("p a".to_owned(), Duration::from_secs(3)), ("p b".to_owned(), Duration::from_secs(2))];
        assert_eq!(load(&shop), BTreeMap::from(expected));
    }
}
