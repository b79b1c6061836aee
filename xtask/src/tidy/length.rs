//! A file has one idea. Past [`LINES_MAX`] lines it has a second one.

use super::{Tree, Violation};

/// The most lines a Rust or Python file may have.
pub(super) const LINES_MAX: usize = 600;

/// Checks the length of every Rust and Python file; those in `exceptions` (path, reason) may be longer, and must be.
pub(super) fn check(tree: &Tree, exceptions: &[(&str, &str)]) -> Vec<Violation> {
    let mut violations = Vec::new();
    let has_code = |path: &str| path.ends_with(".rs") || path.ends_with(".py");
    for (path, text) in tree.texts().filter(|(path, _)| has_code(path)) {
        let lines = text.lines().count();
        if lines > LINES_MAX && !exceptions.iter().any(|(excepted, _)| *excepted == path) {
            let what = format!(
                "{lines} lines, more than {LINES_MAX} lines: look for the second idea in it, or name it with a reason in \
                 xtask/src/tidy/exceptions.rs"
            );
            violations.push(Violation::new(path, 0, what));
        }
    }
    for (path, _) in exceptions {
        if tree.text(path).is_none_or(|text| text.lines().count() <= LINES_MAX) {
            let what = "is not longer than others: take it out of LONG_FILES in xtask/src/tidy/exceptions.rs";
            violations.push(Violation::new(path, 0, what));
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_over_line_limit_is_a_violation_unless_excepted() {
        let tree = Tree::of(&[
            ("a.rs", &"\n".repeat(LINES_MAX)),
            ("b.rs", &"\n".repeat(LINES_MAX + 1)),
            ("c.md", &"\n".repeat(LINES_MAX + 1)),
            ("d.py", &"\n".repeat(LINES_MAX)),
            ("e.py", &"\n".repeat(LINES_MAX + 1)),
        ]);
        let violations = check(&tree, &[]);
        assert_eq!(violations.iter().map(|one| one.path.as_str()).collect::<Vec<_>>(), ["b.rs", "e.py"]);
        assert_eq!(check(&tree, &[("b.rs", "a table"), ("e.py", "a table")]), []);
    }

    #[test]
    fn unneeded_length_exception_is_a_violation() {
        let tree = Tree::of(&[("a.rs", "")]);
        assert_eq!(check(&tree, &[("a.rs", "was long"), ("gone.rs", "was long")]).len(), 2);
    }
}
