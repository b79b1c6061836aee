//! The paths of code that documents name exist: a file that moves takes its mentions with it.

use super::{Tree, Violation};

/// The folders with code, below the root.
const ROOTS: [&str; 6] = ["bench/", "crates/", "fuzz/", "python/", "suites/", "xtask/"];

/// What stands for any name, and folders that a run makes.
const OTHERS: [&str; 4] = ["NAME", "vN", "fuzz/artifacts", "fuzz/found"];

/// Documents that say what was.
const PAST: [&str; 2] = ["docs/history/", "CHANGELOG.md"];

/// Checks every Markdown file.
pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let documents = tree.texts().filter(|(path, _)| path.ends_with(".md"));
    let present = documents.filter(|(path, _)| !PAST.iter().any(|past| path.starts_with(past)));
    let mut violations = Vec::new();
    for (document, text) in present {
        for (number, line) in text.lines().enumerate() {
            // Every second piece is in backquotes.
            for path in line.split('`').skip(1).step_by(2).filter(|code| is_path(code)) {
                let path = path.trim_end_matches('/');
                if !tree.has(path) {
                    let what = format!("there is no `{path}`: name the file or folder that has this now");
                    violations.push(Violation::new(document, number + 1, what));
                }
            }
        }
    }
    violations
}

fn is_path(code: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_/.-".contains(c);
    ROOTS.iter().any(|root| code.starts_with(root))
        && code.chars().all(is_plain)
        && !OTHERS.iter().any(|other| code.contains(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reported(text: &str) -> Vec<String> {
        let files =
            [("crates/a/src/lib.rs", ""), ("docs/page.md", text), ("docs/history/old.md", "`crates/gone`")];
        check(&Tree::of(&files)).iter().map(Violation::to_string).collect()
    }

    #[test]
    fn named_files_and_folders_exist() {
        for line in [
            "`crates/a/src/lib.rs`, `crates/a/` and `crates/a/src`",
            "`crates/NAME/src`, `crates/{a,b}/src` and `cargo run crates/b`",
            "crates/gone, not in code",
        ] {
            assert_eq!(reported(line), [""; 0], "{line}");
        }
        let expected =
            |path| format!("docs/page.md:2: there is no `{path}`: name the file or folder that has this now");
        for path in ["crates/a/src/gone.rs", "crates/b", "crates/a/sr"] {
            assert_eq!(reported(&format!("A\n`x` `{path}`")), [expected(path)]);
        }
    }
}
