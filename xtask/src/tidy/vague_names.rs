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
            violations.extend(vague_names(line).into_iter().map(|found| violation(path, number, found)));
        }
    }
    for (path, text) in tree.texts().filter(|(path, _)| path.ends_with(".py") || path.ends_with(".pyi")) {
        for (number, line) in text.lines().enumerate() {
            let names = bound_in_python(line).map(vague_names).unwrap_or_default();
            violations.extend(names.into_iter().map(|found| violation(path, number, found)));
        }
    }
    violations
}

fn violation(path: &str, number: usize, (name, part): (&str, &str)) -> Violation {
    let what = format!("\"{part}\" in `{name}` does not say what the value is: rename it");
    Violation::new(path, number + 1, what)
}

/// The part of a line of Python that binds names: those of a function, a class, an assignment or a loop.
fn bound_in_python(line: &str) -> Option<&str> {
    let code = line.trim_start();
    let code = code.strip_prefix("async ").unwrap_or(code);
    if code.starts_with("def ") || code.starts_with("class ") {
        return code.split('(').next();
    }
    if let Some(rest) = code.strip_prefix("for ") {
        return rest.split_once(" in ").map(|(names, _)| names);
    }
    let (names, _) = code.split_once(" = ")?;
    let names = names.split(": ").next()?;
    let is_target = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | ',' | ' ' | '(' | ')');
    (names.chars().all(is_target) && (names.contains(',') || !names.contains(' '))).then_some(names)
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
    fn vague_name_is_a_violation_in_python() {
        for line in [
            "told = 1",
            "    told: list[int] = []",
            "def _told(self) -> int:",
            "for told, b in c:",
            "a, told = pair()",
        ] {
            assert_eq!(reported("python/package/a.py", line).len(), 1, "{line}");
        }
        for line in ["# told = 1", "It is told = 1", "untold = 1", "print(told)", "told"] {
            assert_eq!(reported("python/package/a.py", line), [""; 0], "{line}");
        }
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
