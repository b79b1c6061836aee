//! Sibling modules of a crate do not use each other in a circle.
//!
//! - Siblings are the modules that one parent declares: the top-level modules of a crate, and the modules of
//!   each folder. A module stands for everything below it.
//! - A module uses a sibling if a `use` or a path that begins with `crate`, `super` or `self` leads from the
//!   one, or from below it, to the other, or below that.
//! - A module and its ancestors are one part: uses between them are not counted. A name that an ancestor
//!   imports or re-exports counts as a use of the module that defines it.
//! - Code of tests is not counted.
//!
//! ```text
//! scan      one text: modules, imports, paths       modules   one crate: which sibling uses which
//! ```

mod modules;
mod scan;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::names::crate_folder;
use super::{Tree, Violation};
use modules::{CrateModules, SiblingPair, SiblingUse};

/// Uses that close a circle, by crate: each as `from -> to`. The list may only shrink.
const EXCEPTIONS: &str = "tidy/module_circles.toml";

/// The uses between siblings of one crate.
type SiblingUses = BTreeMap<SiblingPair, Vec<SiblingUse>>;

/// Checks the modules of every crate.
pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut excepted = exceptions(tree, &mut violations);
    let mut crates: BTreeMap<&str, Vec<SiblingUses>> = BTreeMap::new();
    for (path, _) in tree.rust().filter(|(path, _)| is_root(path)) {
        crates.entry(crate_folder(path)).or_default().push(CrateModules::read(tree, path).sibling_uses());
    }
    for (crate_folder, roots) in &crates {
        let listed = excepted.remove(*crate_folder).unwrap_or_default();
        for uses in roots {
            let left = uses.keys().filter(|pair| !listed.contains(*pair));
            violations.extend(circles(&graph(left)).iter().map(|circle| report(circle, uses)));
        }
        for pair in &listed {
            let is_needed = roots.iter().any(|uses| {
                let left = uses.keys().filter(|other| !listed.contains(*other));
                uses.contains_key(pair) && way(&graph(left), &pair.1, &pair.0).is_some()
            });
            if !is_needed {
                let what =
                    format!("`{} -> {}` of {crate_folder} closes no circle: take it out", pair.0, pair.1);
                violations.push(Violation::new(EXCEPTIONS, 0, what));
            }
        }
    }
    for crate_folder in excepted.into_keys() {
        violations.push(Violation::new(
            EXCEPTIONS,
            0,
            format!("there is no crate {crate_folder}: take it out"),
        ));
    }
    violations
}

/// Whether a file is the root of a library or program.
fn is_root(path: &str) -> bool {
    let below = path.strip_prefix(crate_folder(path)).unwrap_or(path);
    match below.strip_prefix("/src/") {
        Some("lib.rs" | "main.rs") => true,
        Some(file) => file.strip_prefix("bin/").is_some_and(|program| !program.contains('/')),
        None => false,
    }
}

/// The uses in the list of exceptions, by crate.
fn exceptions(tree: &Tree, violations: &mut Vec<Violation>) -> BTreeMap<String, BTreeSet<SiblingPair>> {
    let Some(text) = tree.text(EXCEPTIONS) else { return BTreeMap::new() };
    let listed: BTreeMap<String, Vec<String>> = toml::from_str(text).unwrap_or_else(|error| {
        violations.push(Violation::new(EXCEPTIONS, 0, format!("it cannot be read: {error}")));
        BTreeMap::new()
    });
    let mut pairs: BTreeMap<String, BTreeSet<SiblingPair>> = BTreeMap::new();
    for (crate_folder, entries) in listed {
        let of_crate = pairs.entry(crate_folder).or_default();
        for entry in entries {
            let Some((from, to)) = entry.split_once(" -> ") else {
                violations.push(Violation::new(EXCEPTIONS, 0, format!("`{entry}` is not `from -> to`")));
                continue;
            };
            if !of_crate.insert((from.to_owned(), to.to_owned())) {
                violations.push(Violation::new(EXCEPTIONS, 0, format!("`{entry}` is listed twice")));
            }
        }
    }
    pairs
}

/// The siblings that each module uses.
type SiblingGraph<'u> = BTreeMap<&'u str, Vec<&'u str>>;

fn graph<'u>(pairs: impl Iterator<Item = &'u SiblingPair>) -> SiblingGraph<'u> {
    let mut graph = SiblingGraph::new();
    for (from, to) in pairs {
        graph.entry(from).or_default().push(to);
    }
    graph
}

/// A shortest circle of each group of modules that reach each other, as the modules in their order.
fn circles<'u>(graph: &SiblingGraph<'u>) -> Vec<Vec<&'u str>> {
    let pairs = graph.iter().flat_map(|(from, all)| all.iter().map(|to| (*from, *to)));
    let mut shortest: Vec<Vec<&str>> = pairs.filter_map(|(from, to)| way(graph, to, from)).collect();
    shortest.sort_by_key(Vec::len);
    let mut circles: Vec<Vec<&str>> = Vec::new();
    for circle in shortest {
        let is_known = circles.iter().any(|known| {
            known[0] == circle[0]
                || (way(graph, known[0], circle[0]).is_some() && way(graph, circle[0], known[0]).is_some())
        });
        if !is_known {
            circles.push(circle);
        }
    }
    circles
}

/// The modules of a shortest way from `from` to `to`, which are different ones; both are included.
fn way<'u>(graph: &SiblingGraph<'u>, from: &'u str, to: &'u str) -> Option<Vec<&'u str>> {
    let mut came_from: BTreeMap<&str, &str> = BTreeMap::new();
    let mut queue = VecDeque::from([from]);
    while let Some(here) = queue.pop_front() {
        for next in graph.get(here).into_iter().flatten() {
            if *next != from && !came_from.contains_key(next) {
                came_from.insert(next, here);
                queue.push_back(next);
            }
        }
    }
    came_from.get(to)?;
    let mut way: Vec<&str> = std::iter::successors(Some(to), |at| came_from.get(at).copied()).collect();
    way.reverse();
    Some(way)
}

/// The violation for a circle: every use in it, with its first place.
fn report(circle: &[&str], uses: &SiblingUses) -> Violation {
    let nexts = circle.iter().cycle().skip(1);
    let pairs = circle.iter().zip(nexts).map(|(from, to)| ((*from).to_owned(), (*to).to_owned()));
    let steps: Vec<(SiblingPair, &SiblingUse, usize)> = pairs
        .filter_map(|pair| {
            let places = uses.get(&pair)?;
            Some((pair, places.first()?, places.len()))
        })
        .collect();
    let shown: Vec<String> = steps
        .iter()
        .map(|((from, to), place, count)| {
            let SiblingUse { file, line, path } = place;
            format!("`{from}` uses `{to}` in {count} places, first at {file}:{line} (`{path}`)")
        })
        .collect();
    let (file, line) = steps.first().map_or(("", 0), |(_, place, _)| (place.file.as_str(), place.line));
    let what = format!(
        "modules use each other in a circle: {}; move what they share into a module of its own, or a function \
         to its user",
        shown.join("; ")
    );
    Violation::new(file, line, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn violations(files: &[(&str, &str)]) -> Vec<String> {
        check(&Tree::of(files)).iter().map(Violation::to_string).collect()
    }

    const ROOT: (&str, &str) = ("crates/a/src/lib.rs", "mod left;\nmod right;\nmod top;\nmod types;\n");
    const TYPES: (&str, &str) = ("crates/a/src/types.rs", "pub struct T;\n");
    const LEFT: (&str, &str) = ("crates/a/src/left.rs", "use crate::types::T;\npub struct L;\n");
    const RIGHT_IN_CIRCLE: (&str, &str) =
        ("crates/a/src/right.rs", "use super::types::T;\n\nfn f() { crate::top::g() }\npub struct R;\n");
    const TOP: (&str, &str) = ("crates/a/src/top.rs", "use crate::{left::L, right::R};\npub fn g() {}\n");

    #[test]
    fn a_tree_of_modules_is_right() {
        let right = ("crates/a/src/right.rs", "use super::types::T;\npub struct R;\n");
        assert_eq!(violations(&[ROOT, TYPES, LEFT, right, TOP]), [""; 0]);
    }

    #[test]
    fn circle_is_shown_with_the_places_of_its_uses() {
        let reported = violations(&[ROOT, TYPES, LEFT, RIGHT_IN_CIRCLE, TOP]);
        assert_eq!(reported.len(), 1, "{reported:?}");
        for words in [
            "`right` uses `top` in 1 places, first at crates/a/src/right.rs:3 (`crate::top::g`)",
            "`top` uses `right` in 1 places, first at crates/a/src/top.rs:1 (`crate::right::R`)",
        ] {
            assert!(reported[0].contains(words), "{words}: {reported:?}");
        }
        assert!(!reported[0].contains("left"), "{reported:?}");
    }

    #[test]
    fn circle_of_three_is_one_violation() {
        let reported = violations(&[
            ("crates/a/src/lib.rs", "mod a;\nmod b;\nmod c;\n"),
            ("crates/a/src/a.rs", "use crate::b::B;\n"),
            ("crates/a/src/b.rs", "use crate::c::C;\n"),
            ("crates/a/src/c.rs", "use crate::a::A;\n"),
        ]);
        assert_eq!(reported.len(), 1, "{reported:?}");
        assert!(reported[0].contains("`a` uses `b`") && reported[0].contains("`c` uses `a`"), "{reported:?}");
    }

    #[test]
    fn circles_in_folders_and_programs_are_found() {
        let reported = violations(&[
            ("crates/a/src/main.rs", "mod folder;\n"),
            ("crates/a/src/folder/mod.rs", "mod b;\nmod c { use super::b::B; }\n"),
            ("crates/a/src/folder/b.rs", "mod below;\n"),
            ("crates/a/src/folder/b/below.rs", "use crate::folder::c;\n"),
        ]);
        assert_eq!(reported.len(), 1, "{reported:?}");
        assert!(reported[0].contains("`folder::b` uses `folder::c`"), "{reported:?}");
        assert!(reported[0].contains("crates/a/src/folder/b/below.rs:1"), "{reported:?}");
    }

    #[test]
    fn module_and_its_ancestors_are_one_part() {
        let files = [
            ("crates/a/src/lib.rs", "mod folder;\npub struct T;\n"),
            ("crates/a/src/folder/mod.rs", "mod b;\nuse b::B;\npub struct F;\n"),
            ("crates/a/src/folder/b.rs", "use super::F;\nuse crate::T;\npub struct B;\n"),
        ];
        assert_eq!(violations(&files), [""; 0]);
    }

    #[test]
    fn imports_of_ancestors_are_followed_to_their_module() {
        for use_of_b in ["use super::B;\n", "use crate::folder::B;\n", "use super::*;\ntype X = B;\n"] {
            for import in ["pub use b::B;", "use self::b::{B};", "pub use b::*;"] {
                let parent = format!("mod b;\nmod c;\n{import}\npub use c::C;\n");
                let files = [
                    ("crates/a/src/lib.rs", "mod folder;\n"),
                    ("crates/a/src/folder/mod.rs", parent.as_str()),
                    ("crates/a/src/folder/b.rs", "use super::C;\npub struct B;\n"),
                    ("crates/a/src/folder/c.rs", use_of_b),
                ];
                let is_twice_glob = use_of_b.contains('*') && import.contains('*');
                assert_eq!(violations(&files).len(), usize::from(!is_twice_glob), "{use_of_b} {import}");
            }
        }
    }

    #[test]
    fn uses_in_tests_close_no_circle() {
        let right = "use super::types::T;\n#[cfg(test)]\nmod tests { use crate::top::g; }\n";
        assert_eq!(violations(&[ROOT, TYPES, LEFT, ("crates/a/src/right.rs", right), TOP]), [""; 0]);
        let test = ("crates/a/src/lib.rs", "mod a;\n#[cfg(test)]\nmod b;\n");
        let files =
            [test, ("crates/a/src/a.rs", "use crate::b::B;\n"), ("crates/a/src/b.rs", "use crate::a::A;\n")];
        assert_eq!(violations(&files), [""; 0]);
    }

    #[test]
    fn exception_must_close_a_circle() {
        let listed = (EXCEPTIONS, "\"crates/a\" = [\"right -> top\"]\n");
        assert_eq!(violations(&[ROOT, TYPES, LEFT, RIGHT_IN_CIRCLE, TOP, listed]), [""; 0]);
        let right = ("crates/a/src/right.rs", "use super::types::T;\npub struct R;\n");
        let reported = violations(&[ROOT, TYPES, LEFT, right, TOP, listed]);
        assert_eq!(
            reported,
            [format!("{EXCEPTIONS}: `right -> top` of crates/a closes no circle: take it out")]
        );
        let both = (EXCEPTIONS, "\"crates/a\" = [\"right -> top\", \"top -> left\"]\n");
        let reported = violations(&[ROOT, TYPES, LEFT, RIGHT_IN_CIRCLE, TOP, both]);
        assert_eq!(
            reported,
            [format!("{EXCEPTIONS}: `top -> left` of crates/a closes no circle: take it out")]
        );
    }

    #[test]
    fn list_of_exceptions_has_crates_and_pairs_of_modules() {
        let listed = (EXCEPTIONS, "\"crates/b\" = []\n\"crates/a\" = [\"left\"]\n");
        let reported = violations(&[ROOT, TYPES, LEFT, listed]).join("\n");
        assert!(
            reported.contains("there is no crate crates/b") && reported.contains("`left` is not"),
            "{reported}"
        );
        let reported = violations(&[ROOT, (EXCEPTIONS, "crates\n")]).join("\n");
        assert!(reported.contains("cannot be read"), "{reported}");
    }
}
