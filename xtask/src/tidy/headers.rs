//! Every Rust file opens with a `//!` paragraph: its idea, before any code.

use super::{Tree, Violation};

/// Checks the first line of every Rust file.
pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let without = tree.rust().filter(|(_, text)| !has_description(text));
    without
        .map(|(path, _)| Violation::new(path, 1, "begin with a `//!` line that says the file's idea"))
        .collect()
}

fn has_description(text: &str) -> bool {
    let first = text.lines().next().unwrap_or_default();
    first.strip_prefix("//!").is_some_and(|idea| !idea.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_without_header_comment_is_a_violation() {
        let tree = Tree::of(&[
            ("crates/wire/src/good.rs", "//! Frames.\n"),
            ("crates/wire/src/mute.rs", "//!\n"),
            ("crates/wire/src/late.rs", "use std::fmt;\n//! Frames.\n"),
            ("bench/kv/src/main.rs", ""),
            ("docs/notes.md", "no code\n"),
        ]);
        let paths: Vec<String> = check(&tree).into_iter().map(|one| one.path).collect();
        assert_eq!(paths, ["bench/kv/src/main.rs", "crates/wire/src/late.rs", "crates/wire/src/mute.rs"]);
    }
}
