//! The files of the tree: all paths, and the texts of those that are text.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use crate::workspace::Failure;

/// Output of tools, which the rules ignore. (In a second work tree `.git` is a file.)
const PASSED_OVER: [&str; 8] = [
    ".git",
    "target",
    "fuzz/found",
    "fuzz/artifacts",
    "node_modules",
    "__pycache__",
    ".venv",
    "python/zerohop.data",
];

/// Files with arbitrary bytes: listed, not read.
const SEEDS: &str = "fuzz/corpus";

/// Larger files are data and not text.
const TEXT_BYTES_MAX: u64 = 1 << 20;

/// The files of the tree, by path relative to its root, with `/` between folders.
#[derive(Debug, Default)]
pub struct Tree {
    paths: BTreeSet<String>,
    texts: BTreeMap<String, String>,
}

impl Tree {
    /// Reads the files below `root`.
    pub fn read(root: &Path) -> Result<Self, Failure> {
        let mut tree = Self::default();
        tree.read_folder(root, "")?;
        Ok(tree)
    }

    /// A tree of the given paths and texts.
    pub fn of(files: &[(&str, &str)]) -> Self {
        let mut tree = Self::default();
        for (path, text) in files {
            tree.paths.insert((*path).to_owned());
            tree.texts.insert((*path).to_owned(), (*text).to_owned());
        }
        tree
    }

    /// The number of files.
    pub fn len(&self) -> usize {
        self.paths.len()
    }

    /// Whether there is no file at all.
    pub fn is_empty(&self) -> bool {
        self.paths.is_empty()
    }

    /// The text of one file.
    pub fn text(&self, path: &str) -> Option<&str> {
        self.texts.get(path).map(String::as_str)
    }

    /// All texts with their paths, sorted.
    pub fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.texts.iter().map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// The Rust files with their texts, sorted.
    pub fn rust(&self) -> impl Iterator<Item = (&str, &str)> {
        self.texts().filter(|(path, _)| path.ends_with(".rs"))
    }

    /// Whether `path` is a file, or a folder with a file in it; the empty path is the root.
    pub fn has(&self, path: &str) -> bool {
        path.is_empty() || self.paths.contains(path) || self.below(path).next().is_some()
    }

    /// The paths below the folder `folder`.
    pub fn below<'a>(&'a self, folder: &str) -> impl Iterator<Item = &'a str> {
        let prefix = format!("{folder}/");
        let from = prefix.clone();
        self.paths.range(from..).take_while(move |path| path.starts_with(&prefix)).map(String::as_str)
    }

    fn read_folder(&mut self, root: &Path, folder: &str) -> Result<(), Failure> {
        let here = root.join(folder);
        let unreadable = |error| Failure::new(format!("{} cannot be read: {error}", here.display()));
        for entry in fs::read_dir(&here).map_err(unreadable)? {
            let entry = entry.map_err(unreadable)?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
            // Links are not followed: they could lead out of the tree, or form a cycle.
            let kind = entry.file_type().map_err(unreadable)?;
            let passed_over = PASSED_OVER.contains(&name.as_str()) || PASSED_OVER.contains(&path.as_str());
            if path == SEEDS {
                self.list_folder(root, &path)?;
            } else if kind.is_dir() && !passed_over {
                self.read_folder(root, &path)?;
            } else if kind.is_file() && !passed_over {
                self.read_file(root, path)?;
            }
        }
        Ok(())
    }

    /// Adds the paths below `folder`, but no texts.
    fn list_folder(&mut self, root: &Path, folder: &str) -> Result<(), Failure> {
        let here = root.join(folder);
        let unreadable = |error| Failure::new(format!("{} cannot be read: {error}", here.display()));
        for entry in fs::read_dir(&here).map_err(unreadable)? {
            let entry = entry.map_err(unreadable)?;
            let path = format!("{folder}/{}", entry.file_name().to_string_lossy());
            if entry.file_type().map_err(unreadable)?.is_dir() {
                self.list_folder(root, &path)?;
            } else {
                self.paths.insert(path);
            }
        }
        Ok(())
    }

    fn read_file(&mut self, root: &Path, path: String) -> Result<(), Failure> {
        let file = root.join(&path);
        let unreadable = |error| Failure::new(format!("{} cannot be read: {error}", file.display()));
        if fs::metadata(&file).map_err(unreadable)?.len() <= TEXT_BYTES_MAX {
            let bytes = fs::read(&file).map_err(unreadable)?;
            if !bytes.contains(&0)
                && let Ok(text) = String::from_utf8(bytes)
            {
                self.texts.insert(path.clone(), text);
            }
        }
        self.paths.insert(path);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_seeds_are_only_listed_and_built_things_passed_over() {
        let root = tempfile::tempdir().unwrap();
        for (path, bytes) in [
            ("README.md", &b"text\n"[..]),
            ("crates/wire/src/lib.rs", b"//! Wire.\n"),
            ("docs/picture.png", b"\x89PNG\0"),
            ("fuzz/corpus/frame/seed", b"odd \n"),
            ("fuzz/found/frame/1", b"odd \n"),
            ("target/debug/x.rs", b"x"),
        ] {
            let file = root.path().join(path);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, bytes).unwrap();
        }
        let tree = Tree::read(root.path()).unwrap();
        let texts: Vec<&str> = tree.texts().map(|(path, _)| path).collect();
        assert_eq!(texts, ["README.md", "crates/wire/src/lib.rs"]);
        assert!(tree.has("docs/picture.png") && tree.has("docs") && tree.has("fuzz/corpus/frame/seed"));
        assert!(!tree.has("target") && !tree.has("fuzz/found") && !tree.has("doc"));
    }
}
