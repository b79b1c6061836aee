//! Text that must not be written anywhere: unfinished code, skipped tests, paths of a developer's
//! machine, stray spaces.

use super::source::{Split, split};
use super::{Tree, Violation};

/// Macros that mean "not yet".
const MACROS: [&str; 3] = ["todo", "unimplemented", "dbg"];

/// Folders of one machine, in two parts so that this file does not break its own rule.
const MACHINE_FOLDERS: [(&str, &str); 3] = [("/ro", "ot/"), ("/wo", "rk/"), ("/ho", "me/")];

/// Checks every text.
pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (path, text) in tree.texts() {
        for (line, what) in in_any(text) {
            violations.push(Violation::new(path, line, what));
        }
        if path.ends_with(".rs") {
            for (line, what) in in_rust(&split(text)) {
                violations.push(Violation::new(path, line, what));
            }
        }
    }
    violations
}

/// The lines of any text that break a rule.
fn in_any(text: &str) -> Vec<(usize, String)> {
    let mut reported = Vec::new();
    for (number, line) in text.split('\n').enumerate() {
        if line.ends_with([' ', '\t', '\r']) {
            reported.push((number + 1, "take away the trailing space".to_owned()));
        }
        for (begin, end) in MACHINE_FOLDERS {
            let folder = format!("{begin}{end}");
            if line.match_indices(&folder).any(|(at, _)| begins_a_path(&line[..at])) {
                reported.push((
                    number + 1,
                    format!("`{folder}` is a folder of one machine: say it relative to the tree"),
                ));
            }
        }
    }
    if !text.is_empty() && !text.ends_with('\n') {
        reported.push((text.lines().count(), "end the file with a line feed".to_owned()));
    }
    reported
}

/// Whether a slash after `before` is the first of a path.
fn begins_a_path(before: &str) -> bool {
    !before.ends_with(|c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '~' | '}' | ')' | '*'))
}

/// The lines of a Rust text that break a rule.
fn in_rust(split: &Split) -> Vec<(usize, String)> {
    let mut reported = Vec::new();
    for (number, line) in split.code.lines().enumerate() {
        for name in MACROS {
            if line.match_indices(&format!("{name}!")).any(|(at, _)| !line[..at].ends_with(is_word)) {
                reported.push((
                    number + 1,
                    format!("`{name}!` is not finished code: finish it, or leave it out"),
                ));
            }
        }
        let plain: String = line.chars().filter(|c| !c.is_whitespace()).collect();
        let skips = ["#[ignore]", "#[ignore=", "#![ignore]"].iter().any(|mark| plain.contains(mark))
            || (plain.contains("cfg_attr(") && (plain.contains(",ignore)") || plain.contains(",ignore=")));
        if skips {
            reported
                .push((number + 1, "a skipped test proves nothing: repair it, or take it out".to_owned()));
        }
    }
    for (number, line) in split.comments.lines().enumerate() {
        if line.contains("```ignore") {
            reported.push((
                number + 1,
                "a skipped example proves nothing: let it compile, or say `text`".to_owned(),
            ));
        }
    }
    reported
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn violations(path: &str, text: &str) -> Vec<usize> {
        check(&Tree::of(&[(path, text)])).into_iter().map(|one| one.line).collect()
    }

    #[test]
    fn unfinished_code_is_a_violation_only_in_code() {
        assert_eq!(
            violations("a.rs", "fn f() {\n    todo!()\n}\nfn g() { unimplemented!(\"x\") }\ndbg!(1);\n"),
            [2, 4, 5]
        );
        assert_eq!(violations("a.rs", "// todo!()\nlet x = \"dbg!\";\nnot_a_todo!();\n"), [0_usize; 0]);
        assert_eq!(violations("a.md", "todo!()\n"), [0_usize; 0]);
    }

    #[test]
    fn a_skipped_test_is_a_violation() {
        assert_eq!(violations("a.rs", "#[ignore]\nfn a() {}\n#[ignore = \"slow\"]\nfn b() {}\n"), [1, 3]);
        assert_eq!(violations("a.rs", "#[cfg_attr(miri, ignore)]\n/// ```ignore\n"), [1, 2]);
    }

    #[test]
    fn machine_specific_path_is_a_violation_everywhere() {
        for (begin, end) in MACHINE_FOLDERS {
            let folder = format!("{begin}{end}");
            assert_eq!(violations("a.md", &format!("see {folder}x\n")), [1], "{folder}");
            assert_eq!(
                violations("a.rs", &format!("let x = \"{folder}x\";\n// `{folder}y`\n")),
                [1, 2],
                "{folder}"
            );
            assert_eq!(violations("a.md", &format!("see net{folder}x\n")), [0_usize; 0], "{folder}");
        }
    }

    #[test]
    fn stray_spaces_and_a_missing_line_feed_are_violations() {
        assert_eq!(violations("a.toml", "a = 1 \nb = 2\t\nc = 3\r\nd = 4"), [1, 2, 3, 4]);
        assert_eq!(violations("a.toml", "a = 1\n"), [0_usize; 0]);
        assert_eq!(violations("empty", ""), [0_usize; 0]);
    }
}
