//! Planted bugs and the tests that find them: `tidy/mutants.toml` names for every `Bug` of a crate's `planted.rs` the tests
//! that find it, and `docs/planted-bugs.md`, which [`page`] generates, shows both with what each bug breaks.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;

use super::{Tree, Violation};
use crate::workspace::{Failure, Workspace};

const TABLE: &str = "tidy/mutants.toml";
const PAGE: &str = "docs/planted-bugs.md";

/// Tests whose lists of bugs have seeds, `(BugPlace::Engine(engine::Bug::Name), &[1, 2])`, by their name in the table.
const SEEDED: [(&str, &str); 1] = [("clusters", "crates/sim/tests/suite/planted_cluster.rs")];

/// The content of the table.
#[derive(Default)]
struct MutantTable {
    /// File and function of each test.
    tests: BTreeMap<String, [String; 2]>,
    /// The names of tests, by crate and bug.
    found_by: BTreeMap<String, BTreeMap<String, Vec<String>>>,
}

/// A bug that a crate declares.
struct DeclaredBug<'t> {
    name: &'t str,
    /// What it breaks, in one line.
    breaks: String,
    path: &'t str,
    line: usize,
}

/// Writes the page of planted bugs.
pub fn run(workspace: &Workspace) -> Result<(), Failure> {
    let tree = Tree::read(&workspace.root)?;
    let table = read(&tree).map_err(Failure::new)?;
    let path = workspace.root.join(PAGE);
    fs::write(&path, page(&tree, &table))
        .map_err(|error| Failure::new(format!("{}: {error}", path.display())))?;
    println!("xtask: {PAGE} is written");
    Ok(())
}

/// Checks that the table has every bug and no other, that its tests exist, and that the page is current.
pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let table = match read(tree) {
        Ok(table) => table,
        Err(error) => return vec![Violation::new(TABLE, 0, error)],
    };
    let mut violations = Vec::new();
    let mut wrong = |what: String| violations.push(Violation::new(TABLE, 0, what));
    for [file, test] in table.tests.values() {
        if !tree.text(file).is_some_and(|text| text.contains(&format!("fn {test}("))) {
            wrong(format!("there is no test `{test}` in `{file}`"));
        }
    }
    let declared = declared(tree);
    for (name, bugs) in &table.found_by {
        for (bug, found_by) in bugs {
            let is_declared =
                declared.get(name.as_str()).is_some_and(|all| all.iter().any(|one| one.name == bug));
            if !is_declared {
                wrong(format!("`{bug}` cannot be planted in {name}: leave it out"));
            }
            if found_by.is_empty() {
                wrong(format!("`{bug}` of {name} is found by no test"));
            }
            for test in found_by.iter().filter(|test| !table.tests.contains_key(*test)) {
                wrong(format!("`{bug}` is found by {test:?}, which `[tests]` does not name"));
            }
        }
    }
    for (name, bugs) in &declared {
        for bug in bugs {
            if !table.found_by.get(*name).is_some_and(|listed| listed.contains_key(bug.name)) {
                let what = format!("`{TABLE}` does not say which test finds `{}` of {name}", bug.name);
                violations.push(Violation::new(bug.path, bug.line, what));
            }
        }
    }
    let is_used = !declared.is_empty() || tree.has(PAGE);
    if violations.is_empty() && is_used && tree.text(PAGE) != Some(page(tree, &table).as_str()) {
        violations.push(Violation::new(PAGE, 0, "it is not current: run `cargo xtask mutants`"));
    }
    violations
}

fn read(tree: &Tree) -> Result<MutantTable, String> {
    let Some(text) = tree.text(TABLE) else { return Ok(MutantTable::default()) };
    let mut found_by: BTreeMap<String, BTreeMap<String, Vec<String>>> =
        toml::from_str(text).map_err(|error| format!("it cannot be read: {error}"))?;
    let mut tests = BTreeMap::new();
    for (name, place) in found_by.remove("tests").unwrap_or_default() {
        let place =
            place.try_into().map_err(|_| format!("`{name}` of `[tests]` is not a file and a function"))?;
        tests.insert(name, place);
    }
    Ok(MutantTable { tests, found_by })
}

/// The text of the page.
fn page(tree: &Tree, table: &MutantTable) -> String {
    let mut out = "# Planted bugs\n\n\
        [Testing](testing.md#planted-bugs) says how bugs are planted. `cargo xtask mutants` writes this page from the declarations in\n\
        `planted.rs` of each crate, the lists of seeds, and `tidy/mutants.toml`. *Seeds* are those of simulated clusters that show the\n\
        bug. The histories of engines have theirs in their file. Other tests try seeds from 0 on, or need none.\n\n\
        | tests | file | function |\n| --- | --- | --- |\n"
        .to_owned();
    // Writing into a string does not fail.
    for (name, [file, test]) in &table.tests {
        let _ = writeln!(out, "| {name} | `{file}` | `{test}` |");
    }
    let seeds = seeds(tree);
    for (name, bugs) in declared(tree) {
        let _ = writeln!(
            out,
            "\n## {name}\n\n| bug | what it breaks | found by | seeds |\n| --- | --- | --- | --- |"
        );
        for bug in bugs {
            let found_by = table.found_by.get(name).and_then(|listed| listed.get(bug.name));
            let found_by = found_by.map(|tests| tests.join(", ")).unwrap_or_default();
            let seeds = seeds.get(&(name, bug.name)).copied().unwrap_or_default();
            let _ = writeln!(out, "| `{}` | {} | {found_by} | {seeds} |", bug.name, bug.breaks);
        }
    }
    out
}

/// The declared bugs of every crate.
fn declared(tree: &Tree) -> BTreeMap<&str, Vec<DeclaredBug<'_>>> {
    let files = tree.rust().filter_map(|(path, text)| {
        let name = path.strip_prefix("crates/")?.strip_suffix("/src/planted.rs")?;
        Some((name, bugs(path, text)))
    });
    files.filter(|(_, bugs)| !bugs.is_empty()).collect()
}

/// The variants of a file's `Bug`.
fn bugs<'t>(path: &'t str, text: &'t str) -> Vec<DeclaredBug<'t>> {
    let own = (1..).zip(text.lines()).skip_while(|(_, line)| !line.contains("pub enum Bug {"));
    let (mut bugs, mut doc) = (Vec::new(), Vec::new());
    for (line, text) in own.skip(1).take_while(|(_, line)| *line != "}") {
        if let Some(part) = text.trim().strip_prefix("///") {
            doc.push(part.trim());
        } else if let Some(name) = text.trim().strip_suffix(',') {
            bugs.push(DeclaredBug { name, breaks: doc.join(" ").replace('|', "\\|"), path, line });
            doc.clear();
        }
    }
    bugs
}

/// The seeds of the lists, by crate and bug.
fn seeds(tree: &Tree) -> BTreeMap<(&str, &str), &str> {
    let mut seeds = BTreeMap::new();
    for (_, file) in SEEDED {
        let entries = tree.text(file).unwrap_or_default().split("(BugPlace::").skip(1);
        for entry in entries {
            let parts = entry.split_once('(').and_then(|(_, rest)| rest.split_once("::Bug::"));
            let Some((name, rest)) = parts else { continue };
            let Some((bug, list)) = rest.split_once("), &[") else { continue };
            let Some((list, _)) = list.split_once(']') else { continue };
            seeds.insert((name, bug), list);
        }
    }
    seeds
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLANTED: &str =
        "//! Bugs.\npub enum Bug {\n    /// One, and\n    /// more.\n    One,\n    /// Two.\n    Two,\n}\n";

    const TESTS: &str = "[tests]\nhistories = [\"crates/engine/tests/planted.rs\", \"finds_all\"]\n";

    fn tree(table: &str, page: &str) -> Tree {
        Tree::of(&[
            ("crates/engine/src/planted.rs", PLANTED),
            ("crates/engine/tests/planted.rs", "fn finds_all() {}\n"),
            (
                "crates/sim/tests/suite/planted_cluster.rs",
                "    (BugPlace::Engine(engine::Bug::Two), &[96, 29]),\n",
            ),
            (TABLE, table),
            (PAGE, page),
        ])
    }

    fn violations(found_by: &str) -> Vec<String> {
        let table = format!("{TESTS}[engine]\n{found_by}");
        check(&tree(&table, "")).iter().map(Violation::to_string).collect()
    }

    #[test]
    fn page_has_declaration_tests_and_seeds_of_each_mutant() {
        let table = format!("{TESTS}[engine]\nOne = [\"histories\"]\nTwo = [\"histories\"]\n");
        let made = tree(&table, "");
        let text = page(&made, &read(&made).unwrap());
        for line in [
            "| histories | `crates/engine/tests/planted.rs` | `finds_all` |",
            "## engine",
            "| `One` | One, and more. | histories |  |",
            "| `Two` | Two. | histories | 96, 29 |",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}: {text}");
        }
        assert_eq!(check(&tree(&table, &text)), []);
        let stale = text.replace("96", "97");
        let reported = check(&tree(&table, &stale));
        assert_eq!(reported.len(), 1, "{reported:?}");
        assert!(reported[0].what.contains("cargo xtask mutants"), "{reported:?}");
    }

    #[test]
    fn mutant_without_test_is_a_violation() {
        let reported = violations("One = [\"histories\"]\n");
        assert_eq!(reported.len(), 1, "{reported:?}");
        assert!(reported[0].starts_with("crates/engine/src/planted.rs:7: "), "{reported:?}");
    }

    #[test]
    fn unknown_or_undetected_mutant_is_a_violation() {
        let found_by = "One = [\"histories\", \"stories\"]\nTwo = []\nThree = [\"histories\"]\n";
        let reported = violations(found_by).join("\n");
        for words in [
            "`One` is found by \"stories\"",
            "`Two` of engine is found by no",
            "`Three` cannot be planted in engine",
        ] {
            assert!(reported.contains(words), "{words}: {reported}");
        }
        let table = format!("{}[engine]\n", TESTS.replace("finds_all", "finds_more"));
        let reported = check(&tree(&table, ""));
        assert!(reported.iter().any(|one| one.what.contains("no test `finds_more`")), "{reported:?}");
    }
}
