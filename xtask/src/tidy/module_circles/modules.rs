//! The modules of one crate, and which of them uses which.

use std::collections::BTreeMap;

use super::scan::{ChildModule, ModuleText, Segments, scan};
use crate::tidy::Tree;

/// The most imports that are followed for one path; more of them import each other.
const IMPORTS_MAX: usize = 16;

/// The index of a module in [`CrateModules`].
type ModuleIndex = usize;

/// The module of the crate itself.
const ROOT: ModuleIndex = 0;

/// Two sibling modules, as paths such as `state::nodes`: the first uses the second.
pub(super) type SiblingPair = (String, String);

/// Where one module uses a sibling.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SiblingUse {
    /// The file, relative to the root of the tree.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The path that the line has.
    pub path: String,
}

/// One module.
struct CrateModule {
    /// Its path below the crate, such as `state::nodes`; empty for the crate itself.
    path: String,
    file: String,
    parent: Option<ModuleIndex>,
    children: BTreeMap<String, ModuleIndex>,
    text: ModuleText,
}

/// The modules of one crate. A parent comes before its children.
pub(super) struct CrateModules {
    modules: Vec<CrateModule>,
}

impl CrateModules {
    /// The modules below the file `root` of `tree`.
    pub(super) fn read(tree: &Tree, root: &str) -> Self {
        let mut this = Self { modules: Vec::new() };
        let folder = root.rsplit_once('/').map_or("", |(folder, _)| folder);
        if let Some(text) = tree.text(root) {
            this.add(tree, None, "", root, folder, scan(text));
        }
        this
    }

    /// Adds a module of `file`, whose children have their files in `folder`, and all modules below it.
    fn add(
        &mut self,
        tree: &Tree,
        parent: Option<ModuleIndex>,
        name: &str,
        file: &str,
        folder: &str,
        mut text: ModuleText,
    ) -> ModuleIndex {
        let before = parent.map_or("", |parent| &self.modules[parent].path);
        let path = if before.is_empty() { name.to_owned() } else { format!("{before}::{name}") };
        let index = self.modules.len();
        let declared = std::mem::take(&mut text.children);
        let children = BTreeMap::new();
        self.modules.push(CrateModule { path, file: file.to_owned(), parent, children, text });
        for (name, child) in declared {
            let own_folder = format!("{folder}/{name}");
            let found = match child {
                ChildModule::Inline(text) => Some((file.to_owned(), own_folder, text)),
                ChildModule::File => {
                    [format!("{own_folder}.rs"), format!("{own_folder}/mod.rs")].into_iter().find_map(
                        |path| tree.text(&path).map(|text| (path.clone(), own_folder.clone(), scan(text))),
                    )
                }
                ChildModule::FileAt(path) => {
                    let beside = file.rsplit_once('/').map_or("", |(folder, _)| folder);
                    let path = format!("{beside}/{path}");
                    let below = path.rsplit_once('/').map_or("", |(folder, _)| folder).to_owned();
                    tree.text(&path).map(|text| (path.clone(), below, scan(text)))
                }
            };
            if let Some((file, folder, text)) = found {
                let child = self.add(tree, Some(index), &name, &file, &folder, text);
                self.modules[index].children.insert(name, child);
            }
        }
        index
    }

    /// Every use of a sibling module, or of what is below it, by a module or by what is below that.
    pub(super) fn sibling_uses(&self) -> BTreeMap<SiblingPair, Vec<SiblingUse>> {
        let mut uses: BTreeMap<SiblingPair, Vec<SiblingUse>> = BTreeMap::new();
        for (user, module) in self.modules.iter().enumerate() {
            let paths = module.text.paths.iter().cloned().chain(self.words_of_globs(user));
            for (path, line) in paths {
                let Some(target) = self.target(user, user, &path, 0) else { continue };
                let Some((from, to)) = self.siblings(user, target) else { continue };
                let pair = (self.modules[from].path.clone(), self.modules[to].path.clone());
                let path = path.join("::");
                let place = SiblingUse { file: module.file.clone(), line, path };
                uses.entry(pair).or_default().push(place);
            }
        }
        uses
    }

    /// The words of a module that a glob import of an ancestor binds, as paths.
    fn words_of_globs(&self, user: ModuleIndex) -> impl Iterator<Item = (Segments, usize)> {
        let text = &self.modules[user].text;
        text.globs.iter().flat_map(move |glob| {
            let ancestor = self.exact(user, glob).filter(|module| self.is_ancestor(*module, user));
            let words = text.words.iter().filter(move |(word, _)| {
                ancestor.is_some_and(|ancestor| self.binds(ancestor, word))
                    && !text.imports.contains_key(*word)
                    && !text.items.contains(*word)
                    && !self.modules[user].children.contains_key(*word)
            });
            words.map(move |(word, line)| {
                let mut path = glob.clone();
                path.push(word.clone());
                (path, *line)
            })
        })
    }

    fn binds(&self, module: ModuleIndex, name: &str) -> bool {
        let module = &self.modules[module];
        module.text.imports.contains_key(name) || module.children.contains_key(name)
    }

    /// The module that `path`, written in `start`, leads to for the module `user`. Imports of the
    /// ancestors of `user` are followed; a path that leaves them ends at the first other module.
    fn target(
        &self,
        user: ModuleIndex,
        start: ModuleIndex,
        path: &[String],
        depth: usize,
    ) -> Option<ModuleIndex> {
        if depth > IMPORTS_MAX {
            return None;
        }
        let (mut at, rest) = match path.first()?.as_str() {
            "crate" => (ROOT, &path[1..]),
            "self" => (start, &path[1..]),
            "super" => (self.modules[start].parent?, &path[1..]),
            name if self.binds(start, name) => (start, path),
            _ => return None,
        };
        for segment in rest {
            if !self.is_ancestor(at, user) {
                return Some(at);
            }
            let module = &self.modules[at];
            if segment == "super" {
                at = module.parent?;
            } else if let Some(child) = module.children.get(segment) {
                at = *child;
            } else if let Some(import) = module.text.imports.get(segment) {
                return self.target(user, at, import, depth + 1);
            } else if module.text.items.contains(segment) {
                return Some(at);
            } else {
                let globs = module.text.globs.iter().filter_map(|glob| self.exact(at, glob));
                let mut from = globs.filter(|from| self.modules[*from].text.items.contains(segment));
                return Some(from.next().unwrap_or(at));
            }
        }
        Some(at)
    }

    /// The module that `path`, written in `start`, names without imports.
    fn exact(&self, start: ModuleIndex, path: &[String]) -> Option<ModuleIndex> {
        let mut at = if path.first()? == "crate" { ROOT } else { start };
        for segment in path {
            at = match segment.as_str() {
                "crate" | "self" => at,
                "super" => self.modules[at].parent?,
                name => *self.modules[at].children.get(name)?,
            };
        }
        Some(at)
    }

    /// A module and its ancestors, from the root.
    fn line_of(&self, module: ModuleIndex) -> Vec<ModuleIndex> {
        let mut line: Vec<ModuleIndex> =
            std::iter::successors(Some(module), |at| self.modules[*at].parent).collect();
        line.reverse();
        line
    }

    /// Whether `above` is `module` or one of its ancestors.
    fn is_ancestor(&self, above: ModuleIndex, module: ModuleIndex) -> bool {
        std::iter::successors(Some(module), |at| self.modules[*at].parent).any(|at| at == above)
    }

    /// The siblings that `user` and `target` are or are below; `None` if either is above the other.
    fn siblings(&self, user: ModuleIndex, target: ModuleIndex) -> Option<(ModuleIndex, ModuleIndex)> {
        let (from, to) = (self.line_of(user), self.line_of(target));
        from.into_iter().zip(to).find(|(from, to)| from != to)
    }
}
