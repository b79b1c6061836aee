//! `unsafe` occurs only in listed files, and each block states why it is sound.

use super::source::{has_word, split};
use super::{Tree, Violation};

/// Checks every Rust file; those in `exceptions` (path, reason) may contain `unsafe`, and must.
pub(super) fn check(tree: &Tree, exceptions: &[(&str, &str)]) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (path, text) in tree.rust() {
        let excepted = exceptions.iter().any(|(excepted, _)| *excepted == path);
        let split = split(text);
        let code: Vec<&str> = split.code.lines().collect();
        let comments: Vec<&str> = split.comments.lines().collect();
        let places: Vec<usize> = (0..code.len()).filter(|&at| has_word(code[at], "unsafe")).collect();
        for &at in &places {
            if !excepted {
                let what = "`unsafe` stands only in files that are named, with a reason, in \
                            xtask/src/tidy/exceptions.rs (UNSAFE_FILES)";
                violations.push(Violation::new(path, at + 1, what));
            }
            if promises(&code, at) && !has_safety_comment(&code, &comments, at) {
                let what = "say with `// SAFETY:` right above why this `unsafe` is sound";
                violations.push(Violation::new(path, at + 1, what));
            }
        }
        if excepted && places.is_empty() {
            violations.push(Violation::new(path, 0, "has no `unsafe` any more: take it out of UNSAFE_FILES"));
        }
    }
    for (path, _) in exceptions.iter().filter(|(path, _)| tree.text(path).is_none()) {
        violations.push(Violation::new(path, 0, "is no file: take it out of UNSAFE_FILES"));
    }
    violations
}

/// Whether the `unsafe` in line `at` promises something (a block, an impl) and does not only
/// require it (a function).
fn promises(code: &[&str], at: usize) -> bool {
    code[at].split("unsafe").skip(1).enumerate().any(|(index, rest)| {
        let is_last = index + 1 == code[at].matches("unsafe").count();
        let rest = rest.trim_start();
        let rest = if rest.is_empty() && is_last {
            code.get(at + 1).map_or("", |next| next.trim_start())
        } else {
            rest
        };
        rest.starts_with('{') || has_word(rest.get(..5).unwrap_or_default(), "impl")
    })
}

/// Whether a comment with `SAFETY:` is in line `at` or above the statement that it belongs to.
fn has_safety_comment(code: &[&str], comments: &[&str], at: usize) -> bool {
    if comments[at].contains("SAFETY:") {
        return true;
    }
    for above in (0..at).rev() {
        let (code, comment) = (code[above].trim(), comments[above].trim());
        if comment.contains("SAFETY:") {
            return true;
        }
        let is_attribute = code.starts_with("#[");
        let begins_before = !code.is_empty() && !code.ends_with([';', '{', '}']);
        let is_comment = code.is_empty() && !comment.is_empty();
        if !(is_attribute || begins_before || is_comment) {
            return false;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    const LISTED: &[(&str, &str)] = &[("a.rs", "it speaks to the kernel")];

    fn violations(text: &str, exceptions: &[(&str, &str)]) -> Vec<usize> {
        check(&Tree::of(&[("a.rs", text)]), exceptions).into_iter().map(|one| one.line).collect()
    }

    #[test]
    fn unsafe_outside_a_listed_file_is_a_violation() {
        let text = "// SAFETY: fine.\nlet x = unsafe { f() };\n";
        assert_eq!(violations(text, &[]), [2]);
        assert_eq!(violations(text, LISTED), [0_usize; 0]);
        assert_eq!(violations("unsafe fn f() {}\n", &[]), [1]);
    }

    #[test]
    fn the_word_in_strings_comments_and_lints_is_free() {
        assert_eq!(
            violations("//! unsafe { }\n#![deny(unsafe_code)]\nlet x = \"unsafe {\";\n", &[]),
            [0_usize; 0]
        );
    }

    #[test]
    fn unsafe_block_without_reason_is_a_violation() {
        assert_eq!(violations("let x = 1;\nlet y = unsafe { f() };\n", LISTED), [2]);
        assert_eq!(violations("// SAFETY: of another.\nlet x = 1;\nunsafe { f() };\n", LISTED), [3]);
        assert_eq!(violations("struct S;\nunsafe impl Send for S {}\n", LISTED), [2]);
        assert_eq!(violations("unsafe\n{ f() }\n", LISTED), [1]);
    }

    #[test]
    fn safety_comment_may_precede_statement() {
        assert_eq!(
            violations(
                "// SAFETY: long,\n// and longer.\n#[inline]\nlet x = g(\n    unsafe { f() },\n);\n",
                LISTED
            ),
            [0_usize; 0]
        );
        assert_eq!(violations("unsafe { f() } // SAFETY: fine.\n", LISTED), [0_usize; 0]);
        assert_eq!(violations("unsafe fn f() {}\nunsafe extern \"C\" {}\n", LISTED), [0_usize; 0]);
    }

    #[test]
    fn unneeded_listed_file_is_a_violation() {
        assert_eq!(violations("let x = 1;\n", LISTED), [0]);
        assert_eq!(check(&Tree::of(&[]), LISTED).len(), 1);
    }
}
