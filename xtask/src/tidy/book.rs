//! The documents are a book: `docs/SUMMARY.md` names every page below `docs` once, and nothing
//! else. Its pages link to no document or source outside `docs`, as the book does not contain them.

use std::collections::BTreeMap;

use super::links::targets;
use super::{Tree, Violation};

const FOLDER: &str = "docs/";
const SUMMARY: &str = "docs/SUMMARY.md";

/// Checks the book.
pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let pages: Vec<&str> = tree
        .texts()
        .map(|(path, _)| path)
        .filter(|path| path.starts_with(FOLDER) && path.ends_with(".md") && *path != SUMMARY)
        .collect();
    let Some((_, summary)) = tree.texts().find(|(path, _)| *path == SUMMARY) else {
        let what = "there are pages and no `docs/SUMMARY.md`, which orders them as a book: write it";
        return if pages.is_empty() { Vec::new() } else { vec![Violation::new(SUMMARY, 0, what)] };
    };
    let mut violations = Vec::new();
    let mut named: BTreeMap<String, usize> = BTreeMap::new();
    for (line, path) in targets(SUMMARY, summary) {
        if let Some(first) = named.insert(path.clone(), line) {
            let what = format!("`{path}` is named in line {first} too: the book has each page once");
            violations.push(Violation::new(SUMMARY, line, what));
        } else if !pages.contains(&path.as_str()) {
            let what = format!("`{path}` is no page below `docs`: leave it out of the book");
            violations.push(Violation::new(SUMMARY, line, what));
        }
    }
    for (page, text) in tree.texts().filter(|(path, _)| pages.contains(path)) {
        for (line, target) in targets(page, text) {
            if !target.starts_with(FOLDER) {
                let what = format!("the book does not have `{target}`: name it without a link");
                violations.push(Violation::new(page, line, what));
            }
        }
    }
    for page in pages.into_iter().filter(|page| !named.contains_key(*page)) {
        let what = "the book does not have this page: name it in `docs/SUMMARY.md`, where it is to be read";
        violations.push(Violation::new(page, 0, what));
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::*;

    fn violations(files: &[(&str, &str)]) -> Vec<String> {
        check(&Tree::of(files)).iter().map(Violation::to_string).collect()
    }

    #[test]
    fn book_with_every_page_once_is_valid() {
        let files = [
            ("docs/SUMMARY.md", "# Summary\n\n[Front](README.md)\n\n- [A](a.md)\n  - [B](deep/b.md)\n"),
            ("docs/README.md", "front"),
            ("docs/a.md", "a"),
            ("docs/deep/b.md", "[a](../a.md), [elsewhere](https://example.org/x)"),
            ("README.md", "elsewhere"),
        ];
        assert_eq!(violations(&files), [""; 0]);
        assert_eq!(violations(&[("README.md", "x")]), [""; 0], "no documents, no book");
    }

    #[test]
    fn link_out_of_book_is_a_violation() {
        let files = [
            ("docs/SUMMARY.md", "- [A](a.md)\n"),
            ("docs/a.md", "one\n[r](../README.md)\n"),
            ("README.md", "elsewhere"),
        ];
        assert_eq!(
            violations(&files),
            ["docs/a.md:2: the book does not have `README.md`: name it without a link"]
        );
    }

    #[test]
    fn missing_duplicate_or_foreign_page_is_a_violation() {
        let files = [
            ("docs/SUMMARY.md", "- [A](a.md)\n- [A](a.md)\n- [R](../README.md)\n- [Gone](gone.md)\n"),
            ("docs/a.md", "a"),
            ("docs/forgotten.md", "f"),
            ("README.md", "r"),
        ];
        let reported = violations(&files).join("\n");
        for words in [
            "SUMMARY.md:2: `docs/a.md` is named in line 1",
            ":3: `README.md` is no page",
            ":4: `docs/gone.md`",
            "docs/forgotten.md: the book does not have",
        ] {
            assert!(reported.contains(words), "{words}: {reported}");
        }
        assert!(super::check(&Tree::of(&[("docs/a.md", "a")]))[0].what.contains("no `docs/SUMMARY.md`"));
    }
}
