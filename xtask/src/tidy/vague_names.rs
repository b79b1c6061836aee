//! A name says what its value is: `error`, `reply` or `pending`, and not that somebody `told` or `held` it.

use super::source::{has_word, split};
use super::{Tree, Violation};

/// A refused name, and the areas that still have it. A list of areas may only shrink.
type VagueName = (&'static str, &'static [&'static str]);

/// Participles that name no value.
const NAMES: [VagueName; 3] = [
    ("told", &["crates/session/src/procedures/blob/", "crates/sim/"]),
    ("held", &["crates/sim/"]),
    ("taken", &["crates/sim/"]),
];

/// Checks the code of the tree. Comments and strings may have the words.
pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    check_names(tree, &NAMES)
}

fn check_names(tree: &Tree, names: &[VagueName]) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut used = vec![Vec::new(); names.len()];
    for (path, text) in tree.texts().filter(|(path, _)| path.ends_with(".rs")) {
        if !names.iter().any(|(name, _)| text.contains(name)) {
            continue;
        }
        let code = split(text).code;
        for ((name, areas), used) in names.iter().zip(&mut used) {
            let area = areas.iter().find(|area| path.starts_with(**area));
            for (number, _) in code.lines().enumerate().filter(|(_, line)| has_word(line, name)) {
                match area {
                    Some(area) => used.push(*area),
                    None => {
                        let what = format!("the name `{name}` does not say what the value is: rename it");
                        violations.push(Violation::new(path, number + 1, what));
                    }
                }
            }
        }
    }
    for ((name, areas), used) in names.iter().zip(used) {
        let is_there = |area: &&str| tree.texts().any(|(path, _)| path.starts_with(*area));
        for area in areas.iter().filter(|area| !used.contains(area) && is_there(area)) {
            let what = format!("no code has the name `{name}` any more: take the area out of vague_names.rs");
            violations.push(Violation::new(area, 0, what));
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::*;

    const LISTED: [VagueName; 1] = [("told", &["crates/later/"])];

    fn reported(files: &[(&str, &str)]) -> Vec<String> {
        check_names(&Tree::of(files), &LISTED).iter().map(Violation::to_string).collect()
    }

    #[test]
    fn vague_name_is_a_violation_in_code_only() {
        let later = ("crates/later/src/lib.rs", "let told = 1;");
        for line in ["let told = reply();", "fn told() {}", "let (_, told) = pair;", "self.told += 1;"] {
            let found = reported(&[later, ("crates/a/src/lib.rs", line)]);
            let expected = "crates/a/src/lib.rs:1: the name `told` does not say what the value is: rename it";
            assert_eq!(found, [expected], "{line}");
        }
        for line in ["// The node is told.", "let text = \"it is told\";", "let untold = told_apart();"] {
            assert_eq!(reported(&[later, ("crates/a/src/lib.rs", line)]), [""; 0], "{line}");
        }
        assert_eq!(reported(&[later, ("docs/a.md", "told")]), [""; 0]);
    }

    #[test]
    fn area_without_the_name_is_a_violation() {
        let found = reported(&[("crates/later/src/lib.rs", "let reply = 1; // told")]);
        let expected =
            "crates/later/: no code has the name `told` any more: take the area out of vague_names.rs";
        assert_eq!(found, [expected]);
    }
}
