//! Crates depend downward only, and nothing that a client compiles reaches a storage engine or a server.

use std::collections::BTreeMap;

use super::Violation;
use super::manifest::{Dependency, DependencyKind, Manifest, Manifests};

/// The floors, from the bottom; `*` stands for one folder name.
const FLOORS: [&[&str]; 13] = [
    &["crates/base"],
    &["crates/record", "crates/engine", "crates/busy_poll", "crates/monitoring", "crates/layers/procedure"],
    &["crates/wire"],
    &["crates/placement", "crates/resp", "crates/tls", "crates/transaction", "crates/system"],
    &["crates/partition", "crates/control", "crates/reactor", "crates/disk"],
    &["crates/replication"],
    &["crates/shard", "crates/session"],
    &["crates/relay"],
    &["crates/server", "crates/sim", "crates/client", "crates/embedded"],
    &["crates/layers/*", "crates/backup", "crates/ycsb"],
    &["crates/object_client", "crates/log_client", "crates/queue_client"],
    &["crates/gateways/*"],
    &["crates/cli", "python"],
];

/// Crates that run in a client's process.
const CLIENT_SIDE: [&str; 9] = [
    "crates/session",
    "crates/client",
    "crates/backup",
    "crates/layers/*",
    "crates/object_client",
    "crates/log_client",
    "crates/queue_client",
    "crates/ycsb",
    "python",
];

/// Crates that a client never compiles.
const SERVER_ONLY: [&str; 9] = [
    "crates/engine",
    "crates/partition",
    "crates/replication",
    "crates/shard",
    "crates/relay",
    "crates/reactor",
    "crates/disk",
    "crates/embedded",
    "crates/server",
];

/// Outside the floors: they may depend on anything, also on each other, and no crate on a floor
/// depends on them.
const OUTSIDE: [&str; 4] = ["bench/*", "suites/*", "xtask", "fuzz"];

/// The position of a crate.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CratePlace {
    Floor(usize),
    Outside,
}

/// Checks the position of each crate and every dependency between crates of the tree.
pub(super) fn check(manifests: &Manifests) -> Vec<Violation> {
    let mut violations = Vec::new();
    for package in &manifests.packages {
        let Some(place) = place(&package.folder) else {
            violations.push(Violation::new(
                &package.path(),
                0,
                "this crate stands on no floor: give it one in xtask/src/tidy/arrows.rs (FLOORS)",
            ));
            continue;
        };
        let (package_names, package_path) = (arrows(manifests, package), package.path());
        violations.extend(package_names.into_iter().filter_map(|(_, to)| {
            arrow_is_wrong(place, to).map(|why| Violation::new(&package_path, 0, why))
        }));
        if any_matches(&CLIENT_SIDE, &package.folder)
            && let Some(way) = way_to_server(manifests, package)
        {
            violations.push(Violation::new(
                &package.path(),
                0,
                format!(
                    "a client never compiles a server, but {}: cut one of these arrows",
                    way.join(" -> ")
                ),
            ));
        }
    }
    violations
}

fn arrow_is_wrong(from: CratePlace, to: &Manifest) -> Option<String> {
    match (from, place(&to.folder)?) {
        (CratePlace::Floor(_), CratePlace::Outside) => {
            Some(format!("no part may depend on `{}`: it is a tool", to.name))
        }
        (CratePlace::Floor(from), CratePlace::Floor(below)) if below >= from => Some(format!(
            "crates depend downward only, but `{}` stands on floor {below} and this crate on floor {from}: \
             move what is shared down (xtask/src/tidy/arrows.rs has the floors)",
            to.name
        )),
        _ => None,
    }
}

/// The crates of the tree that `package` is built with.
fn arrows<'a>(manifests: &'a Manifests, package: &'a Manifest) -> Vec<(&'a Dependency, &'a Manifest)> {
    let built = package.dependencies.iter().filter(|one| one.kind != DependencyKind::Dev);
    built.filter_map(|one| manifests.named(&one.package).map(|to| (one, to))).collect()
}

/// The shortest path from `package` to a server crate over normal dependencies.
fn way_to_server(manifests: &Manifests, package: &Manifest) -> Option<Vec<String>> {
    let mut came_from: BTreeMap<&str, &str> = BTreeMap::new();
    let mut queue = std::collections::VecDeque::from([package]);
    while let Some(here) = queue.pop_front() {
        if any_matches(&SERVER_ONLY, &here.folder) {
            let mut way = vec![here.name.clone()];
            let mut name = here.name.as_str();
            while let Some(before) = came_from.get(name) {
                way.insert(0, (*before).to_owned());
                name = before;
            }
            return Some(way);
        }
        for (_, next) in
            arrows(manifests, here).into_iter().filter(|(one, _)| one.kind == DependencyKind::Normal)
        {
            if next.name != package.name && !came_from.contains_key(next.name.as_str()) {
                came_from.insert(&next.name, &here.name);
                queue.push_back(next);
            }
        }
    }
    None
}

fn place(folder: &str) -> Option<CratePlace> {
    if any_matches(&OUTSIDE, folder) {
        return Some(CratePlace::Outside);
    }
    FLOORS.iter().position(|floor| any_matches(floor, folder)).map(CratePlace::Floor)
}

fn any_matches(patterns: &[&str], folder: &str) -> bool {
    patterns.iter().any(|pattern| match pattern.strip_suffix('*') {
        Some(prefix) => {
            folder.strip_prefix(prefix).is_some_and(|rest| !rest.is_empty() && !rest.contains('/'))
        }
        None => *pattern == folder,
    })
}

#[cfg(test)]
mod tests {
    use super::super::Tree;
    use super::*;

    /// The violations of a tree with packages, each given as its folder and its manifest's dependency tables.
    fn violations_of(packages: &[(&str, &str)]) -> String {
        let texts: Vec<(String, String)> = packages
            .iter()
            .map(|(folder, tables)| {
                let name = folder.rsplit('/').next().unwrap();
                (format!("{folder}/Cargo.toml"), format!("[package]\nname = \"zerohop-{name}\"\n{tables}"))
            })
            .collect();
        let files: Vec<(&str, &str)> =
            texts.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
        let manifests = Manifests::read(&Tree::of(&files)).unwrap();
        check(&manifests).iter().map(Violation::to_string).collect::<Vec<_>>().join("\n")
    }

    const ON_WIRE: &str = "[dependencies]\nzerohop-wire.workspace = true\n";
    const ON_SERVER: &str = "[dependencies]\nzerohop-server.workspace = true\n";

    #[test]
    fn downward_arrows_are_right() {
        let violations = violations_of(&[
            ("crates/wire", ""),
            ("crates/server", ON_WIRE),
            ("crates/cli", ON_SERVER),
            ("crates/layers/log", ON_WIRE),
            ("xtask", ON_SERVER),
            ("bench/kv", ON_SERVER),
        ]);
        assert_eq!(violations, "");
    }

    #[test]
    fn upward_and_level_arrows_are_violations() {
        let violations = violations_of(&[("crates/wire", ON_SERVER), ("crates/server", "")]);
        assert!(violations.contains("crates/wire/Cargo.toml: crates depend downward only"), "{violations}");
        let violations = violations_of(&[("crates/wire", ""), ("crates/engine", ON_WIRE)]);
        assert!(violations.contains("crates/engine/Cargo.toml: crates depend downward only"), "{violations}");
        let violations =
            violations_of(&[("crates/wire", &ON_SERVER.replace("dep", "build-dep")), ("crates/server", "")]);
        assert!(violations.contains("downward"), "{violations}");
    }

    #[test]
    fn tests_may_look_up() {
        assert_eq!(
            violations_of(&[("crates/wire", &ON_SERVER.replace("dep", "dev-dep")), ("crates/server", "")]),
            ""
        );
    }

    #[test]
    fn no_part_depends_on_a_tool() {
        let violations = violations_of(&[
            ("xtask", ""),
            ("crates/cli", "[dependencies]\nzerohop-xtask.path = \"../x\"\n"),
        ]);
        assert!(violations.contains("no part may depend on `zerohop-xtask`"), "{violations}");
        assert_eq!(
            violations_of(&[("xtask", ""), ("fuzz", "[dependencies]\nzerohop-xtask.path = \"../xtask\"\n")]),
            ""
        );
    }

    #[test]
    fn an_unknown_crate_is_a_violation() {
        for folder in ["crates/misc", "crates/layers/log/inner", "bench"] {
            let violations = violations_of(&[(folder, "")]);
            assert!(violations.contains("stands on no floor"), "{folder}: {violations}");
        }
    }

    #[test]
    fn violation_shows_dependency_path_from_client_to_server_crate() {
        let violations = violations_of(&[
            ("crates/engine", ""),
            ("crates/placement", "[dependencies]\nzerohop-engine.workspace = true\n"),
            ("crates/session", "[dependencies]\nzerohop-placement.workspace = true\n"),
        ]);
        assert!(
            violations.contains("zerohop-session -> zerohop-placement -> zerohop-engine"),
            "{violations}"
        );
        let built_only = violations_of(&[
            ("crates/engine", ""),
            ("crates/session", "[build-dependencies]\nzerohop-engine.workspace = true\n"),
        ]);
        assert_eq!(built_only, "");
    }
}
