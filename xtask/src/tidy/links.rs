//! Link targets exist: those of every relative link in every Markdown file, and every heading in
//! them.

use std::collections::BTreeSet;

use super::{Tree, Violation};

/// Checks the links of every Markdown file.
pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (path, text) in tree.texts().filter(|(path, _)| path.ends_with(".md")) {
        for (line, Link { target, heading }) in links(text) {
            let file = if target.is_empty() { Some(path.to_owned()) } else { resolve(path, &target) };
            let Some(file) = file.filter(|file| tree.has(file)) else {
                let what = format!("the link leads to `{target}`, which is not there: repair it");
                violations.push(Violation::new(path, line, what));
                continue;
            };
            let Some(heading) = heading.filter(|_| file.ends_with(".md")) else { continue };
            let there = tree.texts().find(|(path, _)| *path == file);
            if there.is_some_and(|(_, text)| !headings(text).contains(&heading)) {
                let what =
                    format!("the link leads to `#{heading}`, which is no heading of `{file}`: repair it");
                violations.push(Violation::new(path, line, what));
            }
        }
    }
    violations
}

/// The paths from the root to which the relative links of the document at `from` lead, with their lines.
pub(super) fn targets(from: &str, text: &str) -> Vec<(usize, String)> {
    let others = links(text).into_iter().filter(|(_, link)| !link.target.is_empty());
    others.filter_map(|(line, link)| Some((line, resolve(from, &link.target)?))).collect()
}

/// The target of a relative link.
#[derive(Debug)]
struct Link {
    /// The path; empty for the document itself.
    target: String,
    /// The part after its `#`.
    heading: Option<String>,
}

/// The relative links in a Markdown text, with their lines, except in code.
fn links(text: &str) -> Vec<(usize, Link)> {
    let mut found = Vec::new();
    for (number, line) in prose(text) {
        let line = without_code(line);
        let targets = inline(&line).into_iter().chain(definition(&line));
        found.extend(targets.filter_map(relative).map(|link| (number, link)));
    }
    found
}

/// The lines of a Markdown text outside code blocks, with their numbers.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fence: Option<&str> = None;
    text.lines().enumerate().filter_map(move |(number, line)| {
        let begin = line.trim_start();
        let mark = ["```", "~~~"].into_iter().find(|mark| begin.starts_with(mark));
        match (fence, mark) {
            (None, Some(mark)) => fence = Some(mark),
            (Some(open), Some(mark)) if open == mark => fence = None,
            (Some(_), _) => {}
            (None, None) => return Some((number + 1, line)),
        }
        None
    })
}

/// The anchors of the headings of a Markdown text: letters, digits, `_` and `-`, in lower case,
/// with `-` for each space. A repeated anchor has a number appended.
fn headings(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (_, line) in prose(text) {
        let Some((marks, title)) = line.split_once(' ') else { continue };
        if !(1..=6).contains(&marks.len()) || marks.bytes().any(|mark| mark != b'#') {
            continue;
        }
        let small = title.trim().chars().flat_map(char::to_lowercase);
        let kept = small.filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        let name: String = kept.map(|c| if c == ' ' { '-' } else { c }).collect();
        let again = (1..).map(|number| format!("{name}-{number}"));
        let free = std::iter::once(name.clone()).chain(again).find(|name| !found.contains(name));
        found.extend(free);
    }
    found
}

/// The line without its text in backticks.
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

/// The relative target; `None` for other sites.
fn relative(target: &str) -> Option<Link> {
    let target = target.split_whitespace().next()?.trim_start_matches('<').trim_end_matches('>');
    let (path, heading) =
        target.split_once('#').map_or((target, None), |(path, behind)| (path, Some(behind)));
    let path = path.split('?').next()?;
    let scheme =
        path.split_once(':').is_some_and(|(scheme, _)| scheme.chars().all(|c| c.is_ascii_alphanumeric()));
    let is_ours = !scheme && !path.starts_with("//") && (!path.is_empty() || heading.is_some());
    is_ours.then(|| Link { target: path.to_owned(), heading: heading.map(str::to_owned) })
}

/// The path from the root that `target` names in the document at `from`; `None` when it leaves the
/// tree.
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

    fn violations(text: &str) -> Vec<usize> {
        let tree = Tree::of(&[
            ("docs/guide.md", text),
            (
                "docs/formats/wire.md",
                "# The wire\n\n## Header\n## Header\n```text\n# none\n```\n### `zerohop` and *more*, too\n",
            ),
            ("README.md", ""),
            ("crates/wire/src/lib.rs", ""),
        ]);
        check(&tree).into_iter().map(|one| one.line).collect()
    }

    #[test]
    fn links_to_existing_files_and_folders_are_valid() {
        let text = "# Below\n[a](formats/wire.md#header) [b](../README.md) ![c](./formats/ \"title\")\n\
                    [d](/crates/wire/src/lib.rs) [e](https://example.org/x) [f](#below) [g](mailto:x@example.org)\n\
                    [name]: formats/wire.md\n[^1]: a note\n";
        assert_eq!(violations(text), [0_usize; 0]);
    }

    #[test]
    fn link_to_missing_file_is_a_violation() {
        assert_eq!(
            violations("one\n[a](gone.md)\n[b]: ../gone.md#x\n[c](../../out.md)\n![d](gone.png)\n"),
            [2, 3, 4, 5]
        );
    }

    #[test]
    fn link_to_missing_heading_is_a_violation() {
        let text = "[a](formats/wire.md#header-1)\n[b](formats/wire.md#zerohop-and-more-too)\n[c](formats/wire.md#header-2)\n\
                    [d](formats/wire.md#none)\n[e](#here)\n# Here\n[f](#there)\n[g](../crates/wire/src/lib.rs#L1)\n";
        assert_eq!(violations(text), [3, 4, 7]);
    }

    #[test]
    fn code_has_no_links() {
        assert_eq!(violations("`[a](gone.md)` and\n```text\n[b](gone.md)\n~~~\n```\n"), [0_usize; 0]);
        assert_eq!(violations("`code` [a](gone.md) `code`\n"), [1]);
        assert_eq!(violations("an odd ` and [a](gone.md)\n"), [1]);
    }
}
