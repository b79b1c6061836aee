//! One word for each thing, that of the field: the project's former words are refused.

use std::collections::BTreeMap;

use super::{Tree, Violation};

/// Former words, with their replacements.
const TABLE: &str = "tidy/words.toml";

/// Texts that may mention the former words, and data that is no prose.
const PASSED_OVER: [&str; 9] = [
    "CHANGELOG.md",
    "Cargo.lock",
    "LICENSE",
    "bench/results/",
    "crates/resp/tests/recorded/",
    "docs/glossary.md",
    "docs/history/",
    "tidy/words.toml",
    "xtask/src/tidy/",
];

/// Checks names, comments and prose of the tree.
pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let Some(table) = tree.text(TABLE) else {
        return vec![Violation::new(TABLE, 0, "the table of the former words is missing")];
    };
    let words: BTreeMap<String, String> = match toml::from_str(table) {
        Ok(words) => words,
        Err(error) => return vec![Violation::new(TABLE, 0, format!("it cannot be read: {error}"))],
    };
    let is_ours = |path: &str| !PASSED_OVER.iter().any(|start| path.starts_with(start));
    let mut violations = Vec::new();
    for (path, text) in tree.texts().filter(|(path, _)| is_ours(path)) {
        for (number, line) in text.lines().enumerate() {
            for old in parts(line) {
                if let Some(new) = words.get(&old) {
                    let what =
                        format!("\"{old}\" is not a word of the field: write \"{new}\" (docs/glossary.md)");
                    violations.push(Violation::new(path, number + 1, what));
                }
            }
        }
    }
    violations
}

/// The words of a line in lower case. Names are split: `RetriesAnew`, `lay_anew` and `LAID_ANEW`
/// are two words each.
pub(super) fn parts(line: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut before = ' ';
    for (at, c) in line.char_indices() {
        let next_is_small = line[at + c.len_utf8()..].starts_with(char::is_lowercase);
        let begins = c.is_uppercase() && (before.is_lowercase() || (before.is_uppercase() && next_is_small));
        if begins || !c.is_alphabetic() {
            parts.push(String::new());
        }
        if let Some(part) = parts.last_mut().filter(|_| c.is_alphabetic()) {
            part.extend(c.to_lowercase());
        }
        before = c;
    }
    parts.retain(|part| !part.is_empty());
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_word_is_found_in_identifiers_but_not_inside_words() {
        for line in [
            "begun anew.",
            "fn lay_anew() {",
            "Bug::RetriesAnew,",
            "const LAID_ANEW_MAX: u8",
            "`anew`",
            "ANEWThing",
        ] {
            let tree = Tree::of(&[(TABLE, "anew = \"again\"\n"), ("crates/a/src/lib.rs", line)]);
            assert_eq!(check(&tree).len(), 1, "{line}: {:?}", parts(line));
        }
        for line in ["a nanewt", "fn manewer() {", "an ew"] {
            let tree = Tree::of(&[(TABLE, "anew = \"again\"\n"), ("crates/a/src/lib.rs", line)]);
            assert_eq!(check(&tree), [], "{line}");
        }
    }

    #[test]
    fn every_text_is_checked_and_a_missing_table_is_a_violation() {
        for path in [".ci/run", "docs/protocols/a.proto", "suites/a/install", "a.js", "crates/a/tests/b.txt"]
        {
            assert_eq!(check(&Tree::of(&[(TABLE, "anew = \"again\"\n"), (path, "anew")])).len(), 1, "{path}");
        }
        let reported: Vec<String> =
            check(&Tree::of(&[("docs/a.md", "anew")])).iter().map(Violation::to_string).collect();
        assert_eq!(reported, ["tidy/words.toml: the table of the former words is missing"]);
    }

    #[test]
    fn history_documents_may_use_old_words() {
        let files =
            [(TABLE, "anew = \"again\"\n"), ("docs/history/a.md", "anew"), ("docs/a.md", "good\nanew")];
        let reported: Vec<String> = check(&Tree::of(&files)).iter().map(Violation::to_string).collect();
        assert_eq!(
            reported,
            ["docs/a.md:2: \"anew\" is not a word of the field: write \"again\" (docs/glossary.md)"]
        );
    }
}
