//! Mutants are listed with the tests that find them: `docs/testing.md` has a row for every `Bug` of
//! a crate's `planted.rs` and for nothing else, and the tests that it names exist.

use std::collections::{BTreeMap, BTreeSet};

use super::{Tree, Violation};

const TABLE: &str = "docs/testing.md";

/// Checks both tables: of tests (name, file, function), and of mutants (crate, mutant, names of
/// tests).
pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let planted: BTreeMap<(&str, &str), (&str, usize)> = tree
        .rust()
        .filter_map(|(path, text)| {
            let name = path.strip_prefix("crates/")?.strip_suffix("/src/planted.rs")?;
            Some(bugs(text).map(move |(line, bug)| ((name, bug), (path, line))))
        })
        .flatten()
        .collect();
    let rows: Vec<(usize, [&str; 3])> = tree.text(TABLE).into_iter().flat_map(rows).collect();
    let (mut tests, mut listed, mut violations) = (BTreeSet::new(), BTreeSet::new(), Vec::new());
    for (line, [name, file, test]) in &rows {
        let Some((file, test)) = quoted(file).zip(quoted(test)).filter(|(file, _)| file.ends_with(".rs"))
        else {
            continue;
        };
        tests.insert(*name);
        if !tree.text(file).is_some_and(|text| text.contains(&format!("fn {test}("))) {
            violations.push(Violation::new(TABLE, *line, format!("there is no test `{test}` in `{file}`")));
        }
    }
    for (line, [name, bug, found_by]) in &rows {
        let Some(bug) = quoted(bug).filter(|bug| !bug.ends_with(".rs")) else { continue };
        let mut wrong = |what: String| violations.push(Violation::new(TABLE, *line, what));
        if !planted.contains_key(&(*name, bug)) {
            if tree.has(&format!("crates/{name}/src/planted.rs")) {
                wrong(format!("`{bug}` cannot be planted in {name}: leave it out"));
            }
            continue;
        }
        if !listed.insert((*name, bug)) {
            wrong(format!("`{bug}` of {name} has a row already"));
        }
        for test in found_by.split(", ").filter(|test| !tests.contains(test)) {
            wrong(format!("`{bug}` is found by {test:?}, of which the table of tests says nothing"));
        }
    }
    for ((name, bug), (path, line)) in planted.iter().filter(|(key, _)| !listed.contains(*key)) {
        let what = format!("no row of `{TABLE}` says which test finds `{bug}`: | {name} | `{bug}` | … |");
        violations.push(Violation::new(path, *line, what));
    }
    violations
}

/// The variants of a file's `Bug`, with their lines.
fn bugs(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let own = (1..).zip(text.lines()).skip_while(|(_, line)| !line.contains("pub enum Bug {"));
    let own = own.skip(1).take_while(|(_, line)| *line != "}");
    own.filter_map(|(number, line)| Some((number, line.trim().strip_suffix(',')?)))
}

/// The rows of a document's tables that have three cells, with their lines.
fn rows(text: &str) -> impl Iterator<Item = (usize, [&str; 3])> {
    (1..).zip(text.lines()).filter_map(|(number, line)| {
        let cells = line.strip_prefix("| ")?.strip_suffix(" |")?;
        let cells: Vec<&str> = cells.split(" | ").collect();
        Some((number, cells.try_into().ok()?))
    })
}

/// The text in backticks, if a cell has nothing else.
fn quoted(cell: &str) -> Option<&str> {
    cell.strip_prefix('`')?.strip_suffix('`').filter(|inner| !inner.contains('`'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLANTED: &str =
        "//! Bugs.\npub enum Bug {\n    /// One, and\n    /// more.\n    One,\n    Two,\n}\n";

    fn violations(planted: &str, table: &str) -> Vec<String> {
        let files = [
            ("crates/engine/src/planted.rs", planted),
            ("crates/engine/tests/planted.rs", "fn finds_all() {}\n"),
            ("docs/testing.md", table),
        ];
        check(&Tree::of(&files)).iter().map(Violation::to_string).collect()
    }

    const TESTS: &str = "| histories | `crates/engine/tests/planted.rs` | `finds_all` |\n";

    #[test]
    fn a_row_for_every_bug_is_well() {
        let table = format!("{TESTS}\n| engine | `One` | histories |\n| engine | `Two` | histories |\n");
        assert_eq!(violations(PLANTED, &table), [""; 0]);
        assert_eq!(
            violations("//! None.\n", "| elsewhere | `One` | c |\n"),
            [""; 0],
            "a table of something else"
        );
    }

    #[test]
    fn mutant_without_table_row_is_a_violation() {
        let table = format!("{TESTS}\n| engine | `One` | histories |\n");
        let said = violations(PLANTED, &table);
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(said[0].starts_with("crates/engine/src/planted.rs:6: no row"), "{said:?}");
    }

    #[test]
    fn unknown_duplicate_or_undetected_mutant_row_is_a_violation() {
        let table = format!(
            "{TESTS}| gone | `crates/engine/tests/planted.rs` | `finds_more` |\n\
             | engine | `One` | histories |\n| engine | `One` | histories, stories |\n\
             | engine | `Two` | histories |\n| engine | `Three` | histories |\n"
        );
        let said = violations(PLANTED, &table).join("\n");
        for words in [
            ":2: there is no test `finds_more`",
            ":4: `One` of engine has a row already",
            ":4: `One` is found by \"stories\"",
            ":6: `Three` cannot be planted in engine",
        ] {
            assert!(said.contains(words), "{words}: {said}");
        }
    }
}
