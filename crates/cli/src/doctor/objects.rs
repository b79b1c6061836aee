//! The keyspaces of the objects of S3: whether names outlive bodies, or bodies names.

use zerohop_placement::{Durability, KeyOrder};
use zerohop_wire::admin::KeyspaceStatus;
use zerohop_wire::plurals::counted;

use super::finding::Finding;
use crate::s3::keyspaces::{OBJECTS, bodies_of};

const CHECK: &str = "objects";

/// Checks the keyspaces with names of objects, each with that of the bodies: `objects`, and others that look like such a pair.
pub(super) fn check_objects(keyspaces: &[KeyspaceStatus]) -> Vec<Finding> {
    let find = |name: &str| keyspaces.iter().find(|keyspace| keyspace.name == name && !keyspace.dropping);
    let mut findings = match (find(OBJECTS), find(&bodies_of(OBJECTS))) {
        (None, None) => Vec::new(),
        (None, Some(bodies)) => vec![check_bodies_alone(bodies)],
        (Some(names), bodies) if !is_ordered(names) => vec![check_unordered(names, bodies)],
        (Some(names), Some(bodies)) => check_pair(names, bodies),
        (Some(names), None) => check_names_alone(names).into_iter().collect(),
    };
    for names in keyspaces.iter().filter(|names| names.name != OBJECTS && is_ordered(names)) {
        if let Some(bodies) = find(&bodies_of(&names.name)) {
            findings.extend(check_pair(names, bodies));
        }
    }
    findings
}

fn is_ordered(keyspace: &KeyspaceStatus) -> bool {
    keyspace.hash == KeyOrder::ORDERED
}

/// How long after its acknowledgement a write may be lost with the power, in milliseconds; the most for one that is never on a disk.
fn at_risk_ms(durability: &str) -> Option<u64> {
    Some(match durability.parse().ok()? {
        Durability::Memory => u64::MAX,
        Durability::Interval { ms } => ms.into(),
        Durability::Sync => 0,
    })
}

fn check_pair(names: &KeyspaceStatus, bodies: &KeyspaceStatus) -> Vec<Finding> {
    let about = format!("keyspace {}", bodies.name);
    let mut findings = Vec::new();
    if at_risk_ms(&bodies.durability) > at_risk_ms(&names.durability) {
        let found = format!(
            "has the bodies of objects with the durability {}, and {} has their names with {}: after a loss of power an object may \
             lack its bytes",
            bodies.durability, names.name, names.durability
        );
        let advice = format!("`zerohop keyspace alter {} --durability {}`", bodies.name, names.durability);
        findings.push(Finding::problem(CHECK, &about, found, advice));
    }
    if bodies.replicas < names.replicas {
        let found = format!(
            "has {} of the bodies of objects, and {} has {} of their names: a failure may take the bytes of objects alone",
            counted(bodies.replicas, "copy"),
            names.name,
            counted(names.replicas, "copy")
        );
        let advice = format!(
            "`zerohop keyspace alter {} --replicas {} --min-in-sync {}`",
            bodies.name, names.replicas, names.min_in_sync
        );
        findings.push(Finding::warning(CHECK, &about, found, advice));
    }
    if findings.is_empty() {
        let found = format!(
            "has names of objects ({}), and {} their bodies ({})",
            names.durability, bodies.name, bodies.durability
        );
        findings.push(Finding::ok(CHECK, format!("keyspace {}", names.name), found));
    }
    findings
}

fn check_bodies_alone(bodies: &KeyspaceStatus) -> Finding {
    let found = format!(
        "has the bodies of objects, and there is no keyspace {OBJECTS} with their names: no client finds them"
    );
    let advice = format!(
        "restore {OBJECTS} from a backup (`zerohop restore`) before a gateway creates an empty one; if nothing needs the objects, \
         `zerohop keyspace drop {}`",
        bodies.name
    );
    Finding::problem(CHECK, format!("keyspace {}", bodies.name), found, advice)
}

fn check_unordered(names: &KeyspaceStatus, bodies: Option<&KeyspaceStatus>) -> Finding {
    let about = format!("keyspace {}", names.name);
    let found = "is not ordered: no gateway of S3 can list objects in it, so that `zerohop s3` does not start with it";
    match bodies {
        Some(bodies) => {
            let advice = format!(
                "drop it if nothing needs its records, and restore the names that belong to {} from a backup; or name another keyspace \
                 with `zerohop s3 --keyspace NAME`",
                bodies.name
            );
            Finding::problem(CHECK, about, found, advice)
        }
        // It may be there for something else.
        None => Finding::ok(CHECK, about, format!("{found}; gateways need another one (--keyspace)")),
    }
}

fn check_names_alone(names: &KeyspaceStatus) -> Option<Finding> {
    // A gateway creates the other keyspace when it starts.
    let found = format!(
        "has {}, and there is no keyspace {} with the bytes of its objects",
        counted(names.records, "record"),
        bodies_of(&names.name)
    );
    let advice = format!(
        "if it has names of objects, restore {} from a backup (`zerohop restore`); else leave it, and name another keyspace with \
         `zerohop s3 --keyspace NAME`",
        bodies_of(&names.name)
    );
    (names.records > 0).then(|| Finding::warning(CHECK, format!("keyspace {}", names.name), found, advice))
}

#[cfg(test)]
mod tests {
    use super::super::finding::Severity::{self, Ok, Problem, Warning};
    use super::*;

    fn keyspace(name: &str, hash: &str, durability: &str) -> KeyspaceStatus {
        KeyspaceStatus {
            name: name.to_owned(),
            hash: hash.to_owned(),
            durability: durability.to_owned(),
            replicas: 3,
            min_in_sync: 2,
            ..KeyspaceStatus::default()
        }
    }

    fn verdicts(keyspaces: &[KeyspaceStatus]) -> Vec<(Severity, String)> {
        let findings = check_objects(keyspaces).into_iter();
        findings.map(|one| (one.verdict, format!("{one}"))).collect()
    }

    /// The only finding has this verdict and these words.
    #[track_caller]
    fn only(keyspaces: &[KeyspaceStatus], verdict: Severity, words: &[&str]) {
        match &verdicts(keyspaces)[..] {
            [(found, text)] => {
                assert!(*found == verdict && words.iter().all(|word| text.contains(word)), "{text}");
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn bodies_are_at_least_as_durable_as_names() {
        for (names, bodies, verdict) in [
            ("sync", "sync", Ok),
            ("sync", "interval:100ms", Problem),
            ("sync", "memory", Problem),
            ("interval:100ms", "interval:50ms", Ok),
            ("interval:100ms", "interval:200ms", Problem),
            ("interval:100ms", "memory", Problem),
            ("memory", "memory", Ok),
            ("memory", "sync", Ok),
        ] {
            for name in [OBJECTS, "pictures"] {
                let both = [
                    keyspace(name, "ordered", names),
                    keyspace(&bodies_of(name), "xxh3", bodies),
                    keyspace("default", "xxh3", "memory"),
                ];
                only(&both, verdict, &[name, names, bodies]);
            }
        }
        let altered = "keyspace alter objects-bodies --durability sync";
        let both = [keyspace(OBJECTS, "ordered", "sync"), keyspace("objects-bodies", "xxh3", "memory")];
        only(&both, Problem, &[altered, "may lack its bytes"]);
    }

    #[test]
    fn bodies_with_fewer_copies_than_names_are_a_warning() {
        let mut both = [keyspace(OBJECTS, "ordered", "sync"), keyspace("objects-bodies", "xxh3", "sync")];
        both[1].replicas = 1;
        only(&both, Warning, &["--replicas 3 --min-in-sync 2", "1 copy"]);
    }

    #[test]
    fn names_and_bodies_without_each_other_are_reported() {
        only(
            &[keyspace("objects-bodies", "xxh3", "sync")],
            Problem,
            &["no keyspace objects", "zerohop restore"],
        );
        let mut names = keyspace(OBJECTS, "ordered", "sync");
        assert_eq!(verdicts(&[names.clone()]), []);
        names.records = 7;
        only(&[names], Warning, &["7 records", "no keyspace objects-bodies"]);
        // The keyspace is as good as gone.
        let mut dropping = keyspace(OBJECTS, "ordered", "sync");
        dropping.dropping = true;
        only(&[dropping, keyspace("objects-bodies", "xxh3", "sync")], Problem, &["no keyspace objects"]);
    }

    #[test]
    fn names_without_order_are_reported() {
        let names = keyspace(OBJECTS, "xxh3", "sync");
        only(std::slice::from_ref(&names), Ok, &["is not ordered", "--keyspace"]);
        only(
            &[names, keyspace("objects-bodies", "xxh3", "sync")],
            Problem,
            &["is not ordered", "--keyspace"],
        );
        // Keyspaces of other names are not those of a gateway.
        assert_eq!(
            verdicts(&[keyspace("papers", "xxh3", "sync"), keyspace("papers-bodies", "xxh3", "memory")]),
            []
        );
    }
}
