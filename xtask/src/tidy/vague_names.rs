//! A name says what its value is: `error`, `reply` or `pending`, and not that it was `told` or `held`.

use std::collections::BTreeSet;

use super::source::split;
use super::words::parts;
use super::{Tree, Violation};

/// Participles and verbs that name no value, neither as a name nor as a part of one.
const NAMES: [&str; 11] =
    ["told", "said", "heard", "asked", "held", "taken", "ask", "birth", "unborn", "looking", "taking"];

/// Checks the code of the tree. Comments and strings may have the words.
pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (path, text) in tree.texts().filter(|(path, _)| path.ends_with(".rs")) {
        let lower = text.to_lowercase();
        if !NAMES.iter().any(|name| lower.contains(name)) {
            continue;
        }
        for (number, line) in split(text).code.lines().enumerate() {
            for (name, part) in vague_names(line) {
                let what = format!("\"{part}\" in `{name}` does not say what the value is: rename it");
                violations.push(Violation::new(path, number + 1, what));
            }
        }
    }
    violations
}

/// The names of a line of code that have a refused part, each with that part.
fn vague_names(line: &str) -> BTreeSet<(&str, &'static str)> {
    let names = line.split(|c: char| !c.is_alphanumeric() && c != '_');
    names.filter_map(|name| part_of(name).map(|part| (name, part))).collect()
}

/// The first refused part of a name: `was_held`, `HeldLog` and `HELD_MAX` have one, `withheld` has none.
fn part_of(name: &str) -> Option<&'static str> {
    let parts = parts(name);
    NAMES.into_iter().find(|refused| parts.iter().any(|part| part == refused))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reported(path: &str, line: &str) -> Vec<String> {
        check(&Tree::of(&[(path, line)])).iter().map(Violation::to_string).collect()
    }

    #[test]
    fn vague_name_is_a_violation_in_code_only() {
        for line in ["let told = reply();", "fn told() {}", "let (_, told) = pair;", "self.told += told;"] {
            let expected =
                "crates/a/src/lib.rs:1: \"told\" in `told` does not say what the value is: rename it";
            assert_eq!(reported("crates/a/src/lib.rs", line), [expected], "{line}");
        }
        for line in
            ["// The node is told.", "let text = \"it is told\";", "let untold = withheld(overtaken);"]
        {
            assert_eq!(reported("crates/a/src/lib.rs", line), [""; 0], "{line}");
        }
        assert_eq!(reported("docs/a.md", "told"), [""; 0]);
    }

    #[test]
    fn vague_part_of_a_name_is_a_violation() {
        let lines = [
            ("let is_held = true;", "held", "is_held"),
            ("struct HeldLogs;", "held", "HeldLogs"),
            ("UnitTold(report)", "told", "UnitTold"),
            ("const TAKEN_MAX: u8", "taken", "TAKEN_MAX"),
            ("mod taken_over;", "taken", "taken_over"),
            ("let only_told2 = 1;", "told", "only_told2"),
        ];
        for (line, part, name) in lines {
            let expected = format!(
                "crates/a/src/lib.rs:1: \"{part}\" in `{name}` does not say what the value is: rename it"
            );
            assert_eq!(reported("crates/a/src/lib.rs", line), [expected], "{line}");
        }
    }
}
