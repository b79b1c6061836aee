//! Dependencies are chosen, not collected: each is listed in `docs/dependencies.md`, has one
//! version for all crates, and is used by the crate that names it.

use std::collections::BTreeSet;

use super::manifest::{Dependency, DependencyKind, Manifest, Manifests};
use super::{Tree, Violation, source};

/// The document with a line for each external dependency.
const DOCUMENT: &str = "docs/dependencies.md";
/// The package outside the workspace: it cannot take versions or lints from there.
const FUZZ: &str = "fuzz";

/// Checks the manifests against each other, the document and the code.
pub(super) fn check(tree: &Tree, manifests: &Manifests) -> Vec<Violation> {
    let mut violations = document(tree, manifests);
    violations.extend(unused_by_all(manifests));
    for package in &manifests.packages {
        violations.extend(in_package(tree, manifests, package));
    }
    violations
}

/// Each dependency has a line, and each line a dependency.
fn document(tree: &Tree, manifests: &Manifests) -> Vec<Violation> {
    let ours = manifests.ours();
    let of_fuzz =
        manifests.packages.iter().filter(|one| one.folder == FUZZ).flat_map(|one| &one.dependencies);
    let chosen: BTreeSet<&str> = manifests
        .shared
        .iter()
        .chain(of_fuzz)
        .filter(|one| !one.has_path && !ours.contains(one.package.as_str()))
        .map(|one| one.package.as_str())
        .collect();
    let mut listed = BTreeSet::new();
    let mut violations = Vec::new();
    for (number, line) in tree.text(DOCUMENT).unwrap_or_default().lines().enumerate() {
        let Some((name, cells)) = row(line) else { continue };
        if cells != 3 {
            violations.push(Violation::new(
                DOCUMENT,
                number + 1,
                "a row has three full cells: crate, what for, why it",
            ));
        }
        if !chosen.contains(name) {
            let what = format!("`{name}` is no longer a dependency: take its line away");
            violations.push(Violation::new(DOCUMENT, number + 1, what));
        }
        listed.insert(name);
    }
    violations.extend(chosen.difference(&listed).map(|name| {
        Violation::new(
            DOCUMENT,
            0,
            format!("`{name}` has no line in docs/dependencies.md: say what for and why it"),
        )
    }));
    violations
}

/// The crate named in a table's row, and the number of its cells with text.
fn row(line: &str) -> Option<(&str, usize)> {
    let cells: Vec<&str> =
        line.strip_prefix('|')?.trim_end().strip_suffix('|')?.split('|').map(str::trim).collect();
    let name = cells.first()?.trim_matches('`');
    let is_head = name == "crate" || name.chars().all(|c| matches!(c, '-' | ':'));
    (!is_head).then(|| (name, cells.iter().filter(|cell| !cell.is_empty()).count()))
}

fn unused_by_all(manifests: &Manifests) -> Vec<Violation> {
    let used: BTreeSet<&str> = manifests
        .packages
        .iter()
        .filter(|package| package.folder != FUZZ)
        .flat_map(|package| package.dependencies.iter().map(|one| one.key.as_str()))
        .collect();
    let idle = manifests.shared.iter().filter(|one| !one.has_path && !used.contains(one.key.as_str()));
    idle.map(|one| {
        let what = format!("no crate uses the workspace's dependency `{}`: take it out", one.key);
        Violation::new("Cargo.toml", 0, what)
    })
    .collect()
}

fn in_package(tree: &Tree, manifests: &Manifests, package: &Manifest) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut say = |what: String| violations.push(Violation::new(&package.path(), 0, what));
    if package.folder != FUZZ {
        if !package.workspace_lints {
            say("the workspace's lints hold for every crate: add `[lints]` with `workspace = true`"
                .to_owned());
        }
        for one in package.dependencies.iter().filter(|one| !one.from_workspace) {
            say(format!("`{0}` has a version of its own: write `{0}.workspace = true`", one.key));
        }
    }
    for one in &package.dependencies {
        if !is_used(tree, manifests, package, one) {
            say(format!("`{}` is not used by this crate's code: take it out", one.key));
        }
    }
    violations
}

/// Whether the code in the package's own folder names the dependency; for tests, examples in comments count too.
fn is_used(tree: &Tree, manifests: &Manifests, package: &Manifest, dependency: &Dependency) -> bool {
    let name = dependency.key.replace('-', "_");
    let inner: Vec<String> = manifests
        .packages
        .iter()
        .filter(|other| other.folder.starts_with(&format!("{}/", package.folder)))
        .map(|other| format!("{}/", other.folder))
        .collect();
    tree.below(&package.folder)
        .filter(|path| path.ends_with(".rs") && !inner.iter().any(|folder| path.starts_with(folder)))
        .filter_map(|path| tree.text(path))
        .any(|text| match dependency.kind {
            DependencyKind::Dev => source::has_word(text, &name),
            DependencyKind::Normal | DependencyKind::Build => {
                text.contains(&name) && source::has_word(&source::split(text).code, &name)
            }
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: &str =
        "[workspace.dependencies]\ncrc-fast = \"1\"\nzerohop-wire = { path = \"crates/wire\" }\n";
    const MANIFEST: &str = "[package]\nname = \"zerohop-wire\"\n[dependencies]\ncrc-fast.workspace = true\n\
                            [lints]\nworkspace = true\n";
    const CODE: &str = "//! Wire.\nuse crc_fast::checksum;\n";
    const TABLE: &str =
        "| crate | what for | why |\n| --- | --- | --- |\n| `crc-fast` | checksums | fast |\n";

    fn violations(root: &str, manifest: &str, code: &str, table: &str) -> String {
        let tree = Tree::of(&[
            ("Cargo.toml", root),
            ("crates/wire/Cargo.toml", manifest),
            ("crates/wire/src/lib.rs", code),
            (DOCUMENT, table),
        ]);
        let violations = check(&tree, &Manifests::read(&tree).unwrap());
        violations.iter().map(Violation::to_string).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn listed_and_used_dependency_is_valid() {
        assert_eq!(violations(ROOT, MANIFEST, CODE, TABLE), "");
    }

    #[test]
    fn unlisted_dependency_is_a_violation() {
        let violations = violations(ROOT, MANIFEST, CODE, "");
        assert!(violations.contains("`crc-fast` has no line in docs/dependencies.md"), "{violations}");
    }

    #[test]
    fn line_of_removed_dependency_is_a_violation() {
        let violations = violations(ROOT, MANIFEST, CODE, &format!("{TABLE}| `gone` | old | times |\n"));
        assert_eq!(
            violations,
            "docs/dependencies.md:4: `gone` is no longer a dependency: take its line away"
        );
    }

    #[test]
    fn listed_dependency_without_reason_is_a_violation() {
        let violations = violations(ROOT, MANIFEST, CODE, "| `crc-fast` | checksums | |\n");
        assert!(violations.contains("three full cells"), "{violations}");
    }

    #[test]
    fn dependency_version_outside_workspace_is_a_violation() {
        let violations =
            violations(ROOT, &MANIFEST.replace(".workspace = true\n[l", " = \"1\"\n[l"), CODE, TABLE);
        assert!(violations.contains("write `crc-fast.workspace = true`"), "{violations}");
    }

    #[test]
    fn workspace_dependency_of_no_crate_is_a_violation() {
        let violations =
            violations(ROOT, "[package]\nname = \"zerohop-wire\"\n[lints]\nworkspace = true\n", CODE, TABLE);
        assert!(violations.contains("no crate uses the workspace's dependency `crc-fast`"), "{violations}");
    }

    #[test]
    fn dependency_unused_in_code_is_a_violation() {
        let violations = violations(ROOT, MANIFEST, "//! Like crc_fast.\n", TABLE);
        assert!(violations.contains("`crc-fast` is not used by this crate's code"), "{violations}");
    }

    #[test]
    fn a_crate_without_the_lints_is_a_violation() {
        let violations = violations(ROOT, MANIFEST.split("[lints]").next().unwrap(), CODE, TABLE);
        assert!(violations.contains("the workspace's lints hold for every crate"), "{violations}");
    }
}
