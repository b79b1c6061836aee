//! The names on a disk that separates issued changes from changes that would survive a crash.
//!
//! ```text
//!   create, rename, remove ──> issued tree          what every operation sees
//!                         └──> pending changes      in the order they were issued
//!                                  │ needed_by(folder), settle
//!                                  v
//!                              durable tree         what a crash leaves
//! ```
//!
//! The model is a journaling file system: a change survives only if every earlier change in any of its folders does. Making
//! a folder counts as a change in that folder too, and so does removing it. Thus a name never outlives its folder, and a
//! folder with a name in it is never removed. A rename from folder to folder shows the file under exactly one of its names.

use std::collections::{BTreeMap, BTreeSet};

use super::path::{check, check_folder, join, split};
use super::{DiskError, DiskResult};
use zerohop_base::random::Random;

/// The target of a name: the number of a file or of a folder. Numbers are never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameTarget {
    /// A file.
    File(u64),
    /// A folder.
    Folder(u64),
}

/// One change of names; folders are given by number.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are the operands, in the order one would say them")]
pub enum NameChange {
    /// An empty folder was made.
    MakeFolder { within: u64, name: String, folder: u64 },
    /// An empty file was made.
    Create { within: u64, name: String, file: u64 },
    /// A file was renamed, and replaced the file of that name.
    Rename { from: u64, from_name: String, to: u64, to_name: String },
    /// A file was removed.
    RemoveFile { within: u64, name: String },
    /// An empty folder was removed.
    RemoveFolder { within: u64, name: String, folder: u64 },
}

/// The number of the top folder.
pub const TOP: u64 = 0;

/// The issued and the durable names of one disk.
#[derive(Clone, Debug)]
pub struct DiskNames {
    issued: Tree,
    durable: Tree,
    pending: BTreeMap<u64, NameChange>,
    next_number: u64,
}

impl Default for DiskNames {
    fn default() -> Self {
        DiskNames {
            issued: Tree::default(),
            durable: Tree::default(),
            pending: BTreeMap::new(),
            next_number: TOP + 1,
        }
    }
}

impl DiskNames {
    /// The target of `path`, if it exists.
    #[must_use]
    pub fn find(&self, path: &str) -> Option<NameTarget> {
        self.issued.find(path)
    }

    /// The number of the file under `path`.
    ///
    /// # Errors
    /// [`DiskError::NotFound`], also for a folder.
    pub fn file(&self, path: &str, operation: &'static str) -> DiskResult<u64> {
        check(path, operation)?;
        match self.find(path) {
            Some(NameTarget::File(file)) => Ok(file),
            _ => Err(not_found(path)),
        }
    }

    /// Gives a new file a name, with the folders above it, and returns its number.
    ///
    /// # Errors
    /// [`DiskError::AlreadyExists`] with the existing path.
    pub fn create(&mut self, path: &str) -> DiskResult<u64> {
        check(path, "open")?;
        self.check_nothing_in_the_way(path)?;
        let (folder, name) = split(path);
        let within = self.make_folders(folder);
        let file = self.number();
        self.issue(NameChange::Create { within, name: name.to_owned(), file });
        Ok(file)
    }

    /// Makes a folder and those above it, and returns its number; an existing folder is left unchanged.
    ///
    /// # Errors
    /// [`DiskError::AlreadyExists`] if there is a file of that name.
    pub fn create_folder(&mut self, path: &str) -> DiskResult<u64> {
        check(path, "make folder")?;
        if let Some(NameTarget::Folder(folder)) = self.find(path) {
            return Ok(folder);
        }
        self.check_nothing_in_the_way(path)?;
        Ok(self.make_folders(path))
    }

    /// Renames a file. Returns the file that it replaced.
    ///
    /// # Errors
    /// [`DiskError::NotFound`] if there is no such file or no target folder; [`DiskError::AlreadyExists`] if the target is a
    /// folder.
    pub fn rename(&mut self, from: &str, to: &str) -> DiskResult<Option<u64>> {
        check(to, "rename")?;
        self.file(from, "rename")?;
        let (from_folder, from_name) = split(from);
        let (to_folder, to_name) = split(to);
        let (Some(NameTarget::Folder(from_folder)), Some(NameTarget::Folder(to_folder))) =
            (self.find(from_folder), self.find(to_folder))
        else {
            return Err(not_found(to));
        };
        if let Some(NameTarget::Folder(_)) = self.find(to) {
            return Err(DiskError::AlreadyExists { path: to.to_owned() });
        }
        if from == to {
            return Ok(None);
        }
        Ok(self.issue(NameChange::Rename {
            from: from_folder,
            from_name: from_name.to_owned(),
            to: to_folder,
            to_name: to_name.to_owned(),
        }))
    }

    /// Gives a file a new name, with the folders above it, and returns its number.
    ///
    /// # Errors
    /// [`DiskError::NotFound`] if there is no such file; [`DiskError::AlreadyExists`] with the existing path.
    pub fn recycle(&mut self, from: &str, path: &str) -> DiskResult<u64> {
        check(path, "open")?;
        let file = self.file(from, "open")?;
        self.check_nothing_in_the_way(path)?;
        let (folder, name) = split(path);
        self.make_folders(folder);
        // The folders exist now, and nothing is replaced.
        self.rename(from, path)?;
        debug_assert!(self.find(path) == Some(NameTarget::File(file)), "{name} is the renamed file");
        Ok(file)
    }

    /// Removes a file, whose number is returned, or an empty folder.
    ///
    /// # Errors
    /// [`DiskError::NotFound`]; [`DiskError::Failed`] if the folder is not empty.
    pub fn remove(&mut self, path: &str) -> DiskResult<Option<u64>> {
        check(path, "remove")?;
        let (within, name) = split(path);
        let (Some(NameTarget::Folder(within)), Some(named)) = (self.find(within), self.find(path)) else {
            return Err(not_found(path));
        };
        let name = name.to_owned();
        match named {
            NameTarget::File(_) => Ok(self.issue(NameChange::RemoveFile { within, name })),
            NameTarget::Folder(folder) => {
                if !self.issued.folders[&folder].entries.is_empty() {
                    let reason = "the folder is not empty".to_owned();
                    return Err(DiskError::Failed { path: path.to_owned(), operation: "remove", reason });
                }
                Ok(self.issue(NameChange::RemoveFolder { within, name, folder }))
            }
        }
    }

    /// The names in a folder, sorted; none if there is no such folder.
    ///
    /// # Errors
    /// [`DiskError::Failed`] if the path is malformed.
    pub fn list(&self, folder: &str) -> DiskResult<impl Iterator<Item = (&str, NameTarget)>> {
        check_folder(folder, "list")?;
        let entries = match self.find(folder) {
            Some(NameTarget::Folder(folder)) => Some(&self.issued.folders[&folder].entries),
            _ => None,
        };
        Ok(entries.into_iter().flatten().map(|(name, &named)| (name.as_str(), named)))
    }

    /// All files that have a name, by path, in no particular order. Slow: for errors and for whole-disk sweeps.
    #[must_use]
    pub fn files(&self) -> Vec<(String, u64)> {
        let mut files = Vec::new();
        for (&folder, contents) in &self.issued.folders {
            for (name, named) in &contents.entries {
                if let NameTarget::File(file) = named {
                    files.push((join(&self.issued.path_of(folder), name), *file));
                }
            }
        }
        files
    }

    /// The pending changes, in order, that a sync of `folder` has to make durable: all those in it, and every earlier one
    /// that they depend on.
    ///
    /// # Errors
    /// [`DiskError::NotFound`].
    pub fn needed_by(&self, folder: &str) -> DiskResult<Vec<u64>> {
        check_folder(folder, "sync_dir")?;
        let Some(NameTarget::Folder(folder)) = self.find(folder) else {
            return Err(not_found(folder));
        };
        // Going backwards, a folder once reached needs all its earlier changes.
        let mut reached = BTreeSet::from([folder]);
        let mut needed = Vec::new();
        for (&change, what) in self.pending.iter().rev() {
            let folders = what.folders();
            if folders.iter().flatten().any(|folder| reached.contains(folder)) {
                reached.extend(folders.into_iter().flatten());
                needed.push(change);
            }
        }
        needed.reverse();
        Ok(needed)
    }

    /// A pending change, by its number from [`DiskNames::needed_by`].
    #[must_use]
    pub fn pending(&self, change: u64) -> Option<&NameChange> {
        self.pending.get(&change)
    }

    /// The path, among the durable names, of a name in a folder.
    #[must_use]
    pub fn durable_path(&self, folder: u64, name: &str) -> String {
        join(&self.durable.path_of(folder), name)
    }

    /// The path of a folder among the durable names, if it is durable.
    #[must_use]
    pub fn durable_folder(&self, folder: u64) -> Option<String> {
        self.durable.folders.contains_key(&folder).then(|| self.durable.path_of(folder))
    }

    /// Makes one pending change durable. Returns the file that lost its last name through it: its bytes are gone.
    ///
    /// # Panics
    /// If the changes that it depends on were not settled before it.
    pub fn make_durable(&mut self, change: u64) -> Option<u64> {
        let change = self.pending.remove(&change)?;
        self.durable.apply(&change)
    }

    /// Makes every pending change durable, and returns the files whose bytes are gone as a result.
    pub fn make_all_durable(&mut self) -> Vec<u64> {
        let changes: Vec<u64> = self.pending.keys().copied().collect();
        changes.into_iter().filter_map(|change| self.make_durable(change)).collect()
    }

    /// Keeps a random prefix of the pending changes of every folder and discards the rest.
    pub fn crash(&mut self, random: &mut Random) {
        let mut left: BTreeMap<u64, u64> = BTreeMap::new();
        for folder in self.pending.values().flat_map(NameChange::folders).flatten() {
            *left.entry(folder).or_default() += 1;
        }
        for count in left.values_mut() {
            *count = random.below(*count + 1);
        }
        for change in std::mem::take(&mut self.pending).into_values() {
            let folders = change.folders();
            if folders.iter().flatten().all(|folder| left[folder] > 0) {
                folders.iter().flatten().for_each(|folder| *left.entry(*folder).or_default() -= 1);
                self.durable.apply(&change);
            } else {
                // A discarded change discards all later changes in its folders.
                left.extend(folders.into_iter().flatten().map(|folder| (folder, 0)));
            }
        }
        self.issued = self.durable.clone();
    }

    fn check_nothing_in_the_way(&self, path: &str) -> DiskResult<()> {
        if self.find(path).is_some() {
            return Err(DiskError::AlreadyExists { path: path.to_owned() });
        }
        for (end, _) in path.match_indices('/') {
            if let Some(NameTarget::File(_)) = self.find(&path[..end]) {
                return Err(DiskError::AlreadyExists { path: path[..end].to_owned() });
            }
        }
        Ok(())
    }

    fn make_folders(&mut self, path: &str) -> u64 {
        let mut within = TOP;
        for name in path.split('/').filter(|name| !name.is_empty()) {
            within = match self.issued.folders[&within].entries.get(name) {
                Some(NameTarget::Folder(folder)) => *folder,
                _ => {
                    let folder = self.number();
                    self.issue(NameChange::MakeFolder { within, name: name.to_owned(), folder });
                    folder
                }
            };
        }
        within
    }

    fn issue(&mut self, change: NameChange) -> Option<u64> {
        let displaced = self.issued.apply(&change);
        let order = self.number();
        self.pending.insert(order, change);
        displaced
    }

    fn number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number - 1
    }
}

impl NameChange {
    /// The folders whose order of changes includes this change.
    fn folders(&self) -> [Option<u64>; 2] {
        match *self {
            NameChange::MakeFolder { within, folder, .. }
            | NameChange::RemoveFolder { within, folder, .. } => [Some(within), Some(folder)],
            NameChange::Rename { from, to, .. } if from != to => [Some(from), Some(to)],
            NameChange::Rename { from: within, .. }
            | NameChange::Create { within, .. }
            | NameChange::RemoveFile { within, .. } => [Some(within), None],
        }
    }
}

#[derive(Clone, Debug)]
struct Tree {
    folders: BTreeMap<u64, DiskFolder>,
}

#[derive(Clone, Debug, Default)]
struct DiskFolder {
    above: Option<u64>,
    name: String,
    entries: BTreeMap<String, NameTarget>,
}

impl Default for Tree {
    fn default() -> Self {
        Tree { folders: BTreeMap::from([(TOP, DiskFolder::default())]) }
    }
}

impl Tree {
    fn find(&self, path: &str) -> Option<NameTarget> {
        let mut at = NameTarget::Folder(TOP);
        for name in path.split('/').filter(|name| !name.is_empty()) {
            let NameTarget::Folder(folder) = at else { return None };
            at = *self.folders[&folder].entries.get(name)?;
        }
        Some(at)
    }

    fn path_of(&self, folder: u64) -> String {
        let folder = self.entry_of(folder);
        folder.above.map_or_else(String::new, |above| join(&self.path_of(above), &folder.name))
    }

    /// Carries a change out. Returns the file that lost its name through it.
    fn apply(&mut self, change: &NameChange) -> Option<u64> {
        let displaced = match change {
            NameChange::MakeFolder { within, name, folder } => {
                let made = DiskFolder { above: Some(*within), name: name.clone(), entries: BTreeMap::new() };
                self.folders.insert(*folder, made);
                self.entries(*within).insert(name.clone(), NameTarget::Folder(*folder))
            }
            NameChange::Create { within, name, file } => {
                self.entries(*within).insert(name.clone(), NameTarget::File(*file))
            }
            NameChange::Rename { from, from_name, to, to_name } => {
                let moved = self.entries(*from).remove(from_name);
                let moved = moved.expect("a file is created before it is renamed");
                self.entries(*to).insert(to_name.clone(), moved)
            }
            NameChange::RemoveFile { within, name } => self.entries(*within).remove(name),
            NameChange::RemoveFolder { within, name, folder } => {
                self.folders.remove(folder);
                self.entries(*within).remove(name)
            }
        };
        match displaced {
            Some(NameTarget::File(file)) => Some(file),
            _ => None,
        }
    }

    fn entries(&mut self, folder: u64) -> &mut BTreeMap<String, NameTarget> {
        &mut self.folders.get_mut(&folder).expect("a folder is made before what is in it").entries
    }

    fn entry_of(&self, folder: u64) -> &DiskFolder {
        self.folders.get(&folder).expect("a folder stands while changes name it")
    }
}

fn not_found(path: &str) -> DiskError {
    DiskError::NotFound { path: path.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names_of(names: &DiskNames) -> Vec<String> {
        let mut paths: Vec<String> = names.files().into_iter().map(|(path, _)| path).collect();
        paths.sort();
        paths
    }

    fn sync(names: &mut DiskNames, folder: &str) {
        for change in names.needed_by(folder).unwrap() {
            names.make_durable(change);
        }
    }

    #[test]
    fn folder_sync_covers_only_its_path_in_parent_folders() {
        for seed in 0..200 {
            let mut names = DiskNames::default();
            names.create("a/b/c").unwrap();
            names.create("a/later").unwrap();
            sync(&mut names, "a/b");
            assert_eq!(names.pending.len(), 1, "a/later is not covered");
            names.crash(&mut Random::new(seed));
            assert!(names_of(&names).contains(&"a/b/c".to_owned()));
        }
    }

    #[test]
    fn changes_of_one_folder_survive_a_crash_as_a_prefix() {
        let mut seen = BTreeSet::new();
        for seed in 0..200 {
            let mut names = DiskNames::default();
            names.create("one").unwrap();
            names.create("two").unwrap();
            names.rename("one", "three").unwrap();
            names.remove("two").unwrap();
            names.crash(&mut Random::new(seed));
            seen.insert(names_of(&names).join(" "));
        }
        let expected = ["", "one", "one two", "three two", "three"];
        assert_eq!(seen, expected.map(str::to_owned).into());
    }

    #[test]
    fn rename_between_folders_leaves_exactly_one_name() {
        let mut seen = BTreeSet::new();
        for seed in 0..200 {
            let mut names = DiskNames::default();
            names.create("a/x").unwrap();
            sync(&mut names, "a");
            names.create("b/other").unwrap();
            names.rename("a/x", "b/x").unwrap();
            names.crash(&mut Random::new(seed));
            let found = names_of(&names);
            assert_eq!(found.iter().filter(|path| path.ends_with("/x")).count(), 1, "{found:?}");
            seen.insert(found.join(" "));
        }
        assert_eq!(seen, ["a/x", "a/x b/other", "b/other b/x"].map(str::to_owned).into());
    }

    #[test]
    fn rename_is_durable_once_target_folder_is_synced() {
        for seed in 0..100 {
            let mut names = DiskNames::default();
            names.create("a/x").unwrap();
            names.create("b/y").unwrap();
            names.rename("a/x", "b/y").unwrap();
            sync(&mut names, "b");
            names.crash(&mut Random::new(seed));
            assert_eq!(names_of(&names), ["b/y"]);
        }
    }

    #[test]
    fn removed_folder_keeps_other_names() {
        for seed in 0..200 {
            let mut names = DiskNames::default();
            names.create("a/x").unwrap();
            sync(&mut names, "a");
            names.remove("a/x").unwrap();
            names.remove("a").unwrap();
            names.create("a/y").unwrap();
            names.crash(&mut Random::new(seed));
            assert!(["a/x", "a/y", ""].contains(&names_of(&names).join(" ").as_str()));
        }
    }

    #[test]
    fn replaced_file_keeps_bytes_until_durable_rename() {
        let mut names = DiskNames::default();
        let old = names.create("x").unwrap();
        names.create("new").unwrap();
        sync(&mut names, "");
        assert_eq!(names.rename("new", "x"), Ok(Some(old)));
        let changes = names.needed_by("").unwrap();
        assert_eq!(
            changes.into_iter().filter_map(|change| names.make_durable(change)).collect::<Vec<_>>(),
            [old]
        );
    }
}
