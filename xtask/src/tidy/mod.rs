//! The rules of the project, each a function over the text of the tree that returns violations.
//!
//! ```text
//! tree          the files: paths and texts          source       Rust text, as code and comments
//! manifest      the Cargo.toml files, parsed        exceptions   exceptions, with reasons
//!
//! arrows        crates depend downward only         headers      Rust files start with their idea
//! dependencies  chosen, listed, used                length       files have a limited length
//! fuzz_targets  file, [[bin]] and seeds agree       unsafe_code  only where listed, each with its SAFETY
//! text          what must not be written anywhere   links        link targets in documents exist
//! book          docs/SUMMARY.md names every page     plants       each mutant has tests and a row
//! names         a type's name says what it is        words        the field's word for each thing
//! large_types   a type has few files and few fields
//! log_targets   the crates that log are listed
//! module_circles  sibling modules use each other in one direction
//! vague_names   a name says what its value is          paths        files that documents name exist
//! ```

mod arrows;
mod book;
mod dependencies;
pub mod exceptions;
mod fuzz_targets;
mod headers;
mod large_types;
mod length;
mod links;
mod log_targets;
mod manifest;
mod module_circles;
mod names;
mod paths;
pub mod plants;
pub mod source;
mod text;
mod tree;
mod unsafe_code;
mod vague_names;
mod words;

use std::fmt;

use crate::workspace::{Failure, Workspace};
use manifest::Manifests;
pub use tree::Tree;

/// A violation of a rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Violation {
    /// The file, relative to the root.
    pub path: String,
    /// The line, from 1; 0 for the file as a whole.
    pub line: usize,
    /// The rule, and what to do.
    pub what: String,
}

impl Violation {
    /// A violation at `line` (from 1, or 0 for the whole file) of `path`.
    pub fn new(path: &str, line: usize, what: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, what: what.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.path, self.what),
            line => write!(f, "{}:{line}: {}", self.path, self.what),
        }
    }
}

/// Checks the tree of `workspace`; the failure lists every violation.
pub fn run(workspace: &Workspace) -> Result<String, Failure> {
    let tree = Tree::read(&workspace.root)?;
    let violations = check(&tree);
    if violations.is_empty() {
        return Ok(format!("{} files", tree.len()));
    }
    let lines: Vec<String> = violations.iter().map(Violation::to_string).collect();
    Err(Failure::new(format!(
        "{}\n{} places break the project's rules; each line says what to do",
        lines.join("\n"),
        lines.len()
    )))
}

/// Every violation in `tree`, sorted by place.
pub fn check(tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    match Manifests::read(tree) {
        Ok(manifests) => {
            violations.extend(arrows::check(&manifests));
            violations.extend(dependencies::check(tree, &manifests));
            violations.extend(fuzz_targets::check(tree, &manifests));
        }
        Err(violation) => violations.push(violation),
    }
    violations.extend(headers::check(tree));
    violations.extend(length::check(tree, exceptions::LONG_FILES));
    violations.extend(unsafe_code::check(tree, exceptions::UNSAFE_FILES));
    violations.extend(text::check(tree));
    violations.extend(links::check(tree));
    violations.extend(paths::check(tree));
    violations.extend(book::check(tree));
    violations.extend(log_targets::check(tree));
    violations.extend(plants::check(tree));
    violations.extend(names::check(tree));
    violations.extend(words::check(tree));
    violations.extend(vague_names::check(tree));
    violations.extend(large_types::check(tree));
    violations.extend(module_circles::check(tree));
    violations.sort();
    violations
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn violation_names_its_file_and_line() {
        assert_eq!(Violation::new("a.rs", 3, "repair it").to_string(), "a.rs:3: repair it");
        assert_eq!(Violation::new("a.rs", 0, "repair it").to_string(), "a.rs: repair it");
    }

    #[test]
    fn every_rule_is_checked() {
        let tree = Tree::of(&[
            (
                "Cargo.toml",
                "[workspace.dependencies]\nclap = \"4\"\nzerohop-wire = { path = \"crates/wire\" }\n\
                 zerohop-server = { path = \"crates/server\" }\n",
            ),
            (
                "crates/wire/Cargo.toml",
                "[package]\nname = \"zerohop-wire\"\n[dependencies]\nzerohop-server.workspace = true\n\
                 [lints]\nworkspace = true\n",
            ),
            ("crates/server/Cargo.toml", "[package]\nname = \"zerohop-server\"\n[lints]\nworkspace = true\n"),
            ("crates/wire/src/lib.rs", "use zerohop_server as _;\nfn f() { unsafe { g() } } \n"),
            ("crates/wire/src/long.rs", &format!("//! Long.\n{}", "\n".repeat(700))),
            ("docs/README.md", "[gone](gone.md)\n"),
            ("docs/SUMMARY.md", "# Summary\n"),
            ("docs/page.md", "A page.\n"),
            ("crates/wire/src/planted.rs", "//! Bugs.\npub enum Bug {\n    One,\n}\n"),
            ("fuzz/Cargo.toml", "[package]\nname = \"zerohop-fuzz\"\n"),
            ("fuzz/targets/frame.rs", "//! Frames.\n"),
            ("crates/wire/src/told.rs", "//! Told.\nstruct Told;\nfn held() {\n    warn!(\"told\");\n}\n"),
            ("tidy/words.toml", "told = \"reported\"\n"),
            ("tidy/large_types.toml", "[\"crates/wire\"]\nFrame = { files = 4 }\n"),
            ("tidy/module_circles.toml", "\"crates/wire\" = [\"header -> frame\"]\n"),
        ]);
        let reported: Vec<String> = check(&tree).iter().map(Violation::to_string).collect();
        let reported = reported.join("\n");
        for mark in [
            "downward",
            "docs/dependencies.md",
            "[[bin]]",
            "`//!`",
            "600 lines",
            "`unsafe`",
            "trailing space",
            "gone.md",
            "the book does not have this page",
            "which test finds `One`",
            "does not say what it is",
            "not a word of the field",
            "\"held\" in `held`",
            "has no `Frame` with files",
            "closes no circle",
            "the table of log targets",
        ] {
            assert!(reported.contains(mark), "no {mark} in:\n{reported}");
        }
    }
}
