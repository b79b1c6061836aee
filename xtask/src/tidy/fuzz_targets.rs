//! Each fuzz target is a file, a `[[bin]]` of the same name, and a folder of seeds.

use std::collections::BTreeSet;

use super::manifest::Manifests;
use super::{Tree, Violation};

const MANIFEST: &str = "fuzz/Cargo.toml";

/// Checks that files, `[[bin]]`s and seeds agree.
pub(super) fn check(tree: &Tree, manifests: &Manifests) -> Vec<Violation> {
    let Some(package) = manifests.packages.iter().find(|one| one.folder == "fuzz") else {
        return Vec::new();
    };
    let files: BTreeSet<&str> = tree.below("fuzz/targets").filter(|path| path.ends_with(".rs")).collect();
    let mut violations = Vec::new();
    for (name, path) in &package.bins {
        if *path != format!("targets/{name}.rs") || !files.contains(format!("fuzz/{path}").as_str()) {
            let what = format!("the [[bin]] `{name}` is not the file targets/{name}.rs: name them alike");
            violations.push(Violation::new(MANIFEST, 0, what));
        }
    }
    for file in files {
        let name = file.trim_start_matches("fuzz/targets/").trim_end_matches(".rs");
        if !package.bins.iter().any(|(bin, _)| bin == name) {
            let what = format!(
                "has no [[bin]] in {MANIFEST}: add one with name `{name}` and path targets/{name}.rs"
            );
            violations.push(Violation::new(file, 0, what));
        }
        if !tree.has(&format!("fuzz/corpus/{name}")) {
            violations.push(Violation::new(
                file,
                0,
                format!("has no seeds: put a few valid inputs in fuzz/corpus/{name}/"),
            ));
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::*;

    fn violations(bins: &str, files: &[&str]) -> String {
        let manifest = format!("[package]\nname = \"zerohop-fuzz\"\n{bins}");
        let mut all = vec![(MANIFEST, manifest.as_str())];
        all.extend(files.iter().map(|path| (*path, "")));
        let tree = Tree::of(&all);
        let violations = check(&tree, &Manifests::read(&tree).unwrap());
        violations.iter().map(Violation::to_string).collect::<Vec<_>>().join("\n")
    }

    const BIN: &str = "[[bin]]\nname = \"frame\"\npath = \"targets/frame.rs\"\n";

    #[test]
    fn target_with_file_bin_and_seeds_is_valid() {
        assert_eq!(violations(BIN, &["fuzz/targets/frame.rs", "fuzz/corpus/frame/empty"]), "");
    }

    #[test]
    fn each_missing_part_is_a_violation() {
        assert!(
            violations("", &["fuzz/targets/frame.rs", "fuzz/corpus/frame/empty"]).contains("has no [[bin]]")
        );
        assert!(violations(BIN, &["fuzz/targets/frame.rs"]).contains("has no seeds"));
        assert!(violations(BIN, &[]).contains("is not the file targets/frame.rs"));
        let renamed = BIN.replace("targets/frame.rs", "targets/other.rs");
        let files = ["fuzz/targets/frame.rs", "fuzz/corpus/frame/empty"];
        assert!(violations(&renamed, &files).contains("name them alike"));
    }
}
