//! The targets of the log: a table of `docs/operations.md` has each crate that logs, with its levels. The target of an event is
//! the crate and the module that logs it.

use std::collections::{BTreeMap, BTreeSet};

use super::source::split;
use super::{Tree, Violation};

const DOCUMENT: &str = "docs/operations.md";
const HEAD: &str = "| target | levels |";
/// The levels, the gravest first.
const LEVELS: [&str; 5] = ["error", "warn", "info", "debug", "trace"];

/// Checks the table.
pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let logged = logged(tree);
    let text = tree.texts().find(|(path, _)| *path == DOCUMENT).map_or("", |(_, text)| text);
    let rows = rows(text);
    let mut violations = Vec::new();
    for (target, levels) in &logged {
        let what = match rows.get(target) {
            Some((_, stated)) if stated == levels => continue,
            Some(_) => format!("`{target}` logs at the levels {levels}: correct its row"),
            None => format!("the table of log targets has no `{target}`: add a row with the levels {levels}"),
        };
        violations.push(Violation::new(DOCUMENT, rows.get(target).map_or(0, |(line, _)| *line), what));
    }
    for (target, (line, _)) in rows.iter().filter(|(target, _)| !logged.contains_key(*target)) {
        let what = format!("no crate logs under the target `{target}`: remove its row");
        violations.push(Violation::new(DOCUMENT, *line, what));
    }
    violations
}

/// The levels of each target, as the table states them.
fn logged(tree: &Tree) -> BTreeMap<String, String> {
    let mut found: BTreeMap<String, BTreeSet<usize>> = BTreeMap::new();
    for (path, text) in tree.rust() {
        let Some((folder, file)) = path.split_once("/src/").filter(|_| path.starts_with("crates/")) else {
            continue;
        };
        if file.contains("tests") {
            continue;
        }
        let product = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        let code = split(product).code;
        let levels = LEVELS.iter().enumerate().filter(|(_, level)| logs(&code, level));
        let levels: Vec<usize> = levels.map(|(place, _)| place).collect();
        if !levels.is_empty() {
            let package = folder.rsplit('/').next().unwrap_or_default();
            found.entry(format!("zerohop_{package}")).or_default().extend(levels);
        }
    }
    let text =
        |levels: BTreeSet<usize>| levels.iter().map(|level| LEVELS[*level]).collect::<Vec<_>>().join(", ");
    found.into_iter().map(|(target, levels)| (target, text(levels))).collect()
}

/// Whether the code has an event of this level.
fn logs(code: &str, level: &str) -> bool {
    code.match_indices(&format!("{level}!(")).any(|(at, _)| {
        let before = code[..at].chars().next_back();
        before.is_none_or(|before| !before.is_alphanumeric() && before != '_')
    })
}

/// The levels of each row of the table, with its line.
fn rows(text: &str) -> BTreeMap<String, (usize, String)> {
    let lines = (1..).zip(text.lines()).skip_while(|(_, line)| !line.starts_with(HEAD)).skip(2);
    let rows = lines.take_while(|(_, line)| line.starts_with('|')).map(|(number, line)| {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let levels = cells.get(1).copied().unwrap_or_default().to_owned();
        (cells[0].trim_matches('`').to_owned(), (number, levels))
    });
    rows.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOGS: &str =
        "//! Logs.\nfn f() {\n    warn!(\"it is slow\"); // error!(\n    tracing::info!(\"ready\");\n}\n";

    fn reported(rows: &str, source: &str) -> Vec<String> {
        let text = format!("# Logs\n\n| target | levels | reports |\n| --- | --- | --- |\n{rows}");
        let tree = Tree::of(&[(DOCUMENT, &text), ("crates/gateways/s3/src/lib.rs", source)]);
        check(&tree).iter().map(Violation::to_string).collect()
    }

    #[test]
    fn table_with_each_crate_that_logs_is_valid() {
        assert_eq!(reported("| `zerohop_s3` | warn, info | requests |\n", LOGS), [""; 0]);
        let silent = "//! Logs nothing.\nfn f() { my_error!(1) }\n#[cfg(test)]\nmod tests {\n    fn g() { error!(1) }\n}\n";
        assert_eq!(reported("", silent), [""; 0]);
    }

    #[test]
    fn missing_wrong_or_needless_row_is_a_violation() {
        let missing = "docs/operations.md: the table of log targets has no `zerohop_s3`: add a row with the levels warn, info";
        assert_eq!(reported("", LOGS), [missing]);
        let wrong = "docs/operations.md:5: `zerohop_s3` logs at the levels warn, info: correct its row";
        assert_eq!(reported("| `zerohop_s3` | warn | requests |\n", LOGS), [wrong]);
        let needless = "docs/operations.md:6: no crate logs under the target `zerohop_wire`: remove its row";
        let rows = "| `zerohop_s3` | warn, info | requests |\n| `zerohop_wire` | warn | frames |\n";
        assert_eq!(reported(rows, LOGS), [needless]);
    }
}
