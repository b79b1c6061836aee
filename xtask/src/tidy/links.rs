//! What a document points to is there: every relative link of every Markdown file.

use super::{Tree, Violation};

/// Checks the links of every Markdown file.
pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (path, text) in tree.texts().filter(|(path, _)| path.ends_with(".md")) {
        for (line, target) in links(text) {
            let is_there = resolve(path, &target).is_some_and(|file| tree.has(&file));
            if !is_there {
                let what = format!("the link leads to `{target}`, which is not there: mend it");
                violations.push(Violation::new(path, line, what));
            }
        }
    }
    violations
}

/// The paths from the root to which the relative links of the document at `from` lead, with their lines.
pub(super) fn targets(from: &str, text: &str) -> Vec<(usize, String)> {
    let of = |(line, target): (usize, String)| Some((line, resolve(from, &target)?));
    links(text).into_iter().filter_map(of).collect()
}

/// The relative links in a Markdown text, with their lines, without their `#` parts; those in code are none.
fn links(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut fence: Option<&str> = None;
    for (number, line) in text.lines().enumerate() {
        let begin = line.trim_start();
        let mark = ["```", "~~~"].into_iter().find(|mark| begin.starts_with(mark));
        match (fence, mark) {
            (None, Some(mark)) => fence = Some(mark),
            (Some(open), Some(mark)) if open == mark => fence = None,
            (Some(_), _) => {}
            (None, None) => {
                let line = without_code(line);
                let targets = inline(&line).into_iter().chain(definition(&line));
                found.extend(targets.filter_map(relative).map(|target| (number + 1, target)));
            }
        }
    }
    found
}

/// The line with what stands between backticks taken out.
fn without_code(line: &str) -> String {
    let mut pieces = line.split('`');
    let mut kept = pieces.next().unwrap_or_default().to_owned();
    let rest: Vec<&str> = pieces.collect();
    for (index, piece) in rest.iter().enumerate() {
        let is_code = index % 2 == 0 && index + 1 < rest.len();
        if !is_code {
            kept.push_str(piece);
        }
    }
    kept
}

/// The targets of `[text](target)` and `![text](target "title")`.
fn inline(line: &str) -> Vec<&str> {
    let after = line.match_indices("](").map(|(at, mark)| &line[at + mark.len()..]);
    after.filter_map(|rest| rest.split_once(')')).map(|(target, _)| target).collect()
}

/// The target of `[name]: target`.
fn definition(line: &str) -> Option<&str> {
    let (name, target) = line.trim_start().strip_prefix('[')?.split_once("]:")?;
    (!name.contains(']') && !name.starts_with('^')).then_some(target)
}

/// The path in a target; `None` for other sites and places in the same document.
fn relative(target: &str) -> Option<String> {
    let target = target.split_whitespace().next()?.trim_start_matches('<').trim_end_matches('>');
    let path = target.split(['#', '?']).next()?;
    let scheme =
        path.split_once(':').is_some_and(|(scheme, _)| scheme.chars().all(|c| c.is_ascii_alphanumeric()));
    (!path.is_empty() && !scheme && !path.starts_with("//")).then(|| path.to_owned())
}

/// The path from the root that `target` means in the document at `from`; `None` when it leaves the tree.
fn resolve(from: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = match target.strip_prefix('/') {
        Some(_) => Vec::new(),
        None => from.split('/').collect(),
    };
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str) -> Vec<usize> {
        let tree = Tree::of(&[
            ("docs/guide.md", text),
            ("docs/formats/wire.md", ""),
            ("README.md", ""),
            ("crates/wire/src/lib.rs", ""),
        ]);
        check(&tree).into_iter().map(|one| one.line).collect()
    }

    #[test]
    fn links_to_files_and_folders_that_are_there_are_right() {
        let text = "[a](formats/wire.md#header) [b](../README.md) ![c](./formats/ \"title\")\n\
                    [d](/crates/wire/src/lib.rs) [e](https://example.org/x) [f](#below) [g](mailto:x@example.org)\n\
                    [name]: formats/wire.md\n[^1]: a note\n";
        assert_eq!(told(text), []);
    }

    #[test]
    fn a_link_to_nothing_is_a_violation() {
        assert_eq!(
            told("one\n[a](gone.md)\n[b]: ../gone.md#x\n[c](../../out.md)\n![d](gone.png)\n"),
            [2, 3, 4, 5]
        );
    }

    #[test]
    fn code_has_no_links() {
        assert_eq!(told("`[a](gone.md)` and\n```text\n[b](gone.md)\n~~~\n```\n"), []);
        assert_eq!(told("`code` [a](gone.md) `code`\n"), [1]);
        assert_eq!(told("an odd ` and [a](gone.md)\n"), [1]);
    }
}
