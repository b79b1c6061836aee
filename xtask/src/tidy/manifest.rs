//! The `Cargo.toml` files of the tree, as far as the rules need them.

use std::collections::BTreeSet;

use toml::{Table, Value};

use super::{Tree, Violation};

/// The purpose of a dependency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DependencyKind {
    Normal,
    Build,
    Dev,
}

/// One line of a `[…dependencies]` table.
#[derive(Clone, Debug)]
pub(super) struct Dependency {
    /// The name under which it is used.
    pub(super) key: String,
    /// The name of the package, if `package = …` gives another.
    pub(super) package: String,
    pub(super) kind: DependencyKind,
    /// Whether the workspace sets the version.
    pub(super) from_workspace: bool,
    /// Whether it is in this tree, by a path of its own.
    pub(super) has_path: bool,
}

/// One package.
#[derive(Clone, Debug)]
pub(super) struct Manifest {
    /// Its folder, relative to the root.
    pub(super) folder: String,
    pub(super) name: String,
    pub(super) dependencies: Vec<Dependency>,
    /// Whether it inherits the workspace's lints.
    pub(super) workspace_lints: bool,
    /// Name and path of each `[[bin]]`.
    pub(super) bins: Vec<(String, String)>,
}

impl Manifest {
    /// The path of the file.
    pub(super) fn path(&self) -> String {
        format!("{}/Cargo.toml", self.folder)
    }
}

/// All manifests of the tree.
#[derive(Clone, Debug)]
pub(super) struct Manifests {
    /// `[workspace.dependencies]`.
    pub(super) shared: Vec<Dependency>,
    /// The packages, by folder, including the fuzz targets, which are a separate workspace.
    pub(super) packages: Vec<Manifest>,
}

impl Manifests {
    /// Reads every manifest of `tree`.
    pub(super) fn read(tree: &Tree) -> Result<Self, Violation> {
        let root = parse("Cargo.toml", tree.text("Cargo.toml").unwrap_or_default())?;
        let shared = root
            .get("workspace")
            .and_then(|workspace| workspace.get("dependencies"))
            .map(|table| dependencies(table, DependencyKind::Normal))
            .unwrap_or_default();
        let mut packages = Vec::new();
        for (path, text) in tree.texts() {
            if let Some(folder) = path.strip_suffix("/Cargo.toml") {
                packages.push(package(folder, &parse(path, text)?));
            }
        }
        Ok(Self { shared, packages })
    }

    /// The names of the packages in this tree.
    pub(super) fn ours(&self) -> BTreeSet<&str> {
        self.packages.iter().map(|package| package.name.as_str()).collect()
    }

    /// The package of that name.
    pub(super) fn named(&self, name: &str) -> Option<&Manifest> {
        self.packages.iter().find(|package| package.name == name)
    }
}

fn parse(path: &str, text: &str) -> Result<Table, Violation> {
    text.parse::<Table>().map_err(|error| {
        let line =
            error.span().map_or(0, |span| text[..span.start.min(text.len())].matches('\n').count() + 1);
        Violation::new(path, line, format!("is not TOML: {}", error.message()))
    })
}

fn package(folder: &str, table: &Table) -> Manifest {
    let mut found = Vec::new();
    let targets = table.get("target").and_then(Value::as_table);
    let tables =
        std::iter::once(table).chain(targets.into_iter().flat_map(Table::values).filter_map(Value::as_table));
    for table in tables {
        for (name, kind) in [
            ("dependencies", DependencyKind::Normal),
            ("build-dependencies", DependencyKind::Build),
            ("dev-dependencies", DependencyKind::Dev),
        ] {
            found.extend(table.get(name).map(|table| dependencies(table, kind)).unwrap_or_default());
        }
    }
    let bins = table.get("bin").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    Manifest {
        folder: folder.to_owned(),
        name: table.get("package").map(|package| string(package, "name")).unwrap_or_default(),
        dependencies: found,
        workspace_lints: table.get("lints").is_some_and(|lints| flag(lints, "workspace")),
        bins: bins.iter().map(|bin| (string(bin, "name"), string(bin, "path"))).collect(),
    }
}

fn dependencies(table: &Value, kind: DependencyKind) -> Vec<Dependency> {
    let read = |(key, value): (&String, &Value)| Dependency {
        key: key.clone(),
        package: value.get("package").and_then(Value::as_str).unwrap_or(key).to_owned(),
        kind,
        from_workspace: flag(value, "workspace"),
        has_path: value.get("path").is_some(),
    };
    table.as_table().map(|table| table.iter().map(read).collect()).unwrap_or_default()
}

fn string(value: &Value, key: &str) -> String {
    value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn flag(value: &Value, key: &str) -> bool {
    value.get(key).and_then(Value::as_bool).unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_dependency_is_seen() {
        let tree = Tree::of(&[
            ("Cargo.toml", "[workspace.dependencies]\nclap = \"4\"\nours = { path = \"crates/ours\" }\n"),
            (
                "crates/ours/Cargo.toml",
                "[package]\nname = \"ours\"\n[dependencies]\nclap.workspace = true\n\
                 [build-dependencies]\ncc = \"1\"\n[dev-dependencies]\nnick = { package = \"real\", version = \"1\" }\n\
                 [target.'cfg(unix)'.dependencies]\nlibc = \"0.2\"\n",
            ),
        ]);
        let manifests = Manifests::read(&tree).unwrap();
        assert_eq!(manifests.shared.len(), 2);
        let package = manifests.named("ours").unwrap();
        let seen: Vec<(&str, &str, DependencyKind, bool)> = package
            .dependencies
            .iter()
            .map(|one| (one.key.as_str(), one.package.as_str(), one.kind, one.from_workspace))
            .collect();
        assert_eq!(
            seen,
            [
                ("clap", "clap", DependencyKind::Normal, true),
                ("cc", "cc", DependencyKind::Build, false),
                ("nick", "real", DependencyKind::Dev, false),
                ("libc", "libc", DependencyKind::Normal, false),
            ]
        );
    }

    #[test]
    fn broken_manifest_is_reported_with_its_line() {
        let violation = Manifests::read(&Tree::of(&[("Cargo.toml", "[workspace]\nx = \n")])).unwrap_err();
        assert_eq!((violation.path.as_str(), violation.line), ("Cargo.toml", 2));
    }
}
