//! A type's name is a noun of the field and has one meaning: one type per crate, and rarely more
//! than three in the tree.

use std::collections::BTreeMap;

use super::source::split;
use super::words::parts;
use super::{Tree, Violation};

/// Names of more types than [`TREE_MAX`], each with a reason.
const EXCEPTIONS: &str = "tidy/names.toml";

/// The highest number of crates with a type of the same name without a reason.
const TREE_MAX: usize = 3;

/// Pronouns, question words, bare participles and metaphors: they do not say what the type is.
const REFUSED: &str = "
    About Act Against Agenda All Alone Answered Apart Applied Aside Ask Asked At Awaited Before Begun Beside Blocking
    Brings Broken Brought Built Calm Cell Chance Changed Come Coming Committed Compared Configured Counted Covered
    Dead Deaf Decided Decoded Digested Do Doing Done Drawn Due Effected Ended Ending Evaluated Expected Expired Feed
    Filled Fixed Flaw Follow Foreign Forwarded Found Founding Frozen Gathered Gathering Given Go Got Grown Handed
    Heard Hears Held Here Holding How In Inner Inserted Inspected Installing Issued Joined Judged Kept Known Laid
    Learnt Left Leftover Listed Listening Loaded Local Logged Look Looked Lost Made Measured Merged Met Moved Named
    Naming Need Newest Next No Noted Nothing Of One Opened Opening Optimistic Outgoing Outstanding Over Overdue
    Oversized Owed Own Owned Paced Packed Parked Parsed Pinned Placed Planned Played Pointed Prepared Present Printed
    Promised Pulse Queued Quiet Ran Reading Received Recent Recovered Refused Regrouped Releasing Remembered Removed
    Replied Restored Room Rooms Running Said Says Scheduled Scrubbed Secured Seen Sending Sent Served Settled Shared
    Shown Shows Signed Skipped Spent Staged Stamped Standing Stops Stored Summed Swapped Synced Taken Taking Tell
    Telling Tells Then Timed To Together Told Transacted Transacting Transit Turned Uncommitted Unflushed Unread
    Unsent Until Versioned Waiting Walked Wanted Was Watched Way Went What When Whereto Who Whole Whose Why Within
    Woken Word Writing Written";

/// Participles that say what was done with a thing instead of what it is, as the first part of a name.
const PREFIXES: [&str; 13] = [
    "shown", "given", "wanted", "judged", "begun", "known", "found", "ended", "listed", "seen", "parked",
    "kept", "learnt",
];

/// Files and lines that define a type, by crate.
type TypeLocations<'t> = BTreeMap<&'t str, Vec<(&'t str, usize)>>;

/// Checks the names of all types.
pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut places: BTreeMap<String, TypeLocations<'_>> = BTreeMap::new();
    for (path, text) in tree.rust() {
        let code = split(text).code;
        for (number, line) in code.lines().enumerate() {
            let definition = defined(line);
            for name in definition.into_iter().chain(defined_by_macro(line)).chain(aliases(line)) {
                if is_refused(name) {
                    violations.push(Violation::new(path, number + 1, refusal(name)));
                }
            }
            let Some(name) = definition else { continue };
            places
                .entry(name.to_owned())
                .or_default()
                .entry(crate_folder(path))
                .or_default()
                .push((path, number + 1));
        }
    }
    for (path, text) in tree.texts().filter(|(path, _)| path.ends_with(".py") || path.ends_with(".pyi")) {
        for (number, line) in text.lines().enumerate() {
            if let Some(name) = defined_in_python(line).filter(|name| is_refused(name)) {
                violations.push(Violation::new(path, number + 1, refusal(name)));
            }
        }
    }
    let excepted = exceptions(tree, &mut violations);
    for (name, crates) in &places {
        for places in crates.values().filter(|places| places.len() > 1) {
            for (path, line) in places {
                let what = format!(
                    "`{name}` is the name of {} types of this crate: each wants its own",
                    places.len()
                );
                violations.push(Violation::new(path, *line, what));
            }
        }
        if crates.len() > TREE_MAX && !excepted.contains_key(name) {
            let (path, line) =
                crates.values().next().and_then(|places| places.first()).copied().unwrap_or_default();
            let what = format!(
                "`{name}` is a type of {} crates, more than {TREE_MAX}: find a narrower name, or give a reason in {EXCEPTIONS}",
                crates.len()
            );
            violations.push(Violation::new(path, line, what));
        }
    }
    for name in excepted.keys() {
        if places.get(name).is_none_or(|crates| crates.len() <= TREE_MAX) {
            let what = format!("`{name}` is a type of at most {TREE_MAX} crates: take it out");
            violations.push(Violation::new(EXCEPTIONS, 0, what));
        }
    }
    violations
}

/// Whether a name does not say what its type is.
fn is_refused(name: &str) -> bool {
    let first = || parts(name).into_iter().next().unwrap_or_default();
    REFUSED.split_whitespace().any(|refused| refused == name) || PREFIXES.contains(&first().as_str())
}

fn refusal(name: &str) -> String {
    format!("`{name}` does not say what it is: name the thing, by a noun of docs/glossary.md")
}

/// The class that a line of Python defines.
fn defined_in_python(line: &str) -> Option<&str> {
    let rest = line.trim_start().strip_prefix("class ")?;
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
    matches!(rest.as_bytes().get(end), Some(b':' | b'(' | b'[')).then(|| rest[..end].trim_start_matches('_'))
}

/// Names with reasons.
fn exceptions(tree: &Tree, violations: &mut Vec<Violation>) -> BTreeMap<String, String> {
    let Some(text) = tree.text(EXCEPTIONS) else { return BTreeMap::new() };
    toml::from_str(text).unwrap_or_else(|error| {
        violations.push(Violation::new(EXCEPTIONS, 0, format!("it cannot be read: {error}")));
        BTreeMap::new()
    })
}

/// The type that a line of code defines. Names of associated types are ignored, as their traits
/// give them.
pub(super) fn defined(line: &str) -> Option<&str> {
    let is_inside = line.starts_with(' ');
    let mut rest = line.trim_start();
    if let Some(after) = rest.strip_prefix("pub") {
        rest = after.trim_start();
        if rest.starts_with('(') {
            rest = rest.split_once(')')?.1.trim_start();
        }
    }
    let (keyword, rest) = rest.split_once(' ')?;
    let defines = match keyword {
        "struct" | "enum" | "trait" | "union" => true,
        "type" => !is_inside,
        _ => false,
    };
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
    (defines && rest.starts_with(char::is_uppercase)).then(|| &rest[..end])
}

/// The type that a line of `numbered!` defines: `Name: u16 {`.
fn defined_by_macro(line: &str) -> Option<&str> {
    let (name, rest) = line.trim_start().split_once(": u")?;
    let is_name = name.starts_with(char::is_uppercase) && name.chars().all(char::is_alphanumeric);
    (is_name && rest.trim_start_matches(char::is_numeric) == " {").then_some(name)
}

/// The names that an import gives to types: `use a::{B as Name};`.
fn aliases(line: &str) -> impl Iterator<Item = &str> {
    line.split(" as ").skip(1).filter_map(|rest| {
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        let is_of_import = matches!(rest.as_bytes().get(end), Some(b',' | b';' | b'}'));
        (is_of_import && rest.starts_with(char::is_uppercase)).then(|| &rest[..end])
    })
}

/// The crate that a file belongs to, by its folder.
pub(super) fn crate_folder(path: &str) -> &str {
    let depth = match path.split('/').next() {
        Some("crates") if path.starts_with("crates/gateways/") || path.starts_with("crates/layers/") => 3,
        Some("crates" | "bench" | "suites") => 2,
        _ => 1,
    };
    path.match_indices('/').nth(depth - 1).map_or(path, |(at, _)| &path[..at])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn violations(files: &[(&str, &str)]) -> Vec<String> {
        check(&Tree::of(files)).iter().map(Violation::to_string).collect()
    }

    #[test]
    fn meaningless_type_name_is_a_violation_with_any_visibility() {
        for line in [
            "struct Told;",
            "pub enum Whose {",
            "    pub(super) trait Asked: Sized {",
            "type Wanted<'a> = &'a str;",
            "    What: u32 {",
            "use b::{Answer as Told, Question};",
            "    Answer as Told,",
            "struct ShownThing;",
            "enum Given {",
            "pub(crate) struct ParkedThing<'a> {",
            "type FoundThing = u8;",
        ] {
            assert_eq!(violations(&[("crates/a/src/lib.rs", line)]).len(), 1, "{line}");
        }
        for line in [
            "// struct Told;",
            "    type Wanted = u8;",
            "let told = \"struct Told;\";",
            "struct ToldLater;",
            "struct Founder;",
            "struct ThingShown;",
            "use b::Told as Answer;",
            "    Told: u8,",
        ] {
            assert_eq!(violations(&[("crates/a/src/lib.rs", line)]), [""; 0], "{line}");
        }
    }

    #[test]
    fn meaningless_class_name_is_a_violation_in_python() {
        for line in ["class GivenPath:", "    class _Told(Base):", "class Seen[T]:"] {
            assert_eq!(violations(&[("python/package/a.py", line)]).len(), 1, "{line}");
        }
        for line in ["# class GivenPath:", "class Path:", "a class Given by name"] {
            assert_eq!(violations(&[("python/package/a.py", line)]), [""; 0], "{line}");
        }
    }

    #[test]
    fn a_name_is_given_once_in_a_crate() {
        let both = [("crates/a/src/lib.rs", "struct Slot;\n"), ("crates/a/src/b.rs", "\nenum Slot {}\n")];
        assert_eq!(violations(&both).len(), 2);
        assert!(violations(&both)[0].starts_with("crates/a/src/b.rs:2: `Slot`"));
        let apart =
            [("crates/a/src/lib.rs", "struct Slot;\n"), ("crates/gateways/a/src/lib.rs", "struct Slot;\n")];
        assert_eq!(violations(&apart), [""; 0]);
    }

    #[test]
    fn a_name_of_many_crates_needs_a_reason_and_a_reason_needs_many_crates() {
        let paths: Vec<String> =
            (0..=TREE_MAX).map(|number| format!("crates/c{number}/src/lib.rs")).collect();
        let mut files: Vec<(&str, &str)> =
            paths.iter().map(|path| (path.as_str(), "struct Clock;\n")).collect();
        assert_eq!(violations(&files).len(), 1);
        files.push((EXCEPTIONS, "Clock = \"each crate has its own unit\"\n"));
        assert_eq!(violations(&files), [""; 0]);
        files.remove(0);
        assert_eq!(violations(&files).len(), 1);
    }
}
