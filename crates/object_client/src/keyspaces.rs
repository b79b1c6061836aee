//! The keyspaces of objects.

use zerohop_placement::KeyOrder;
use zerohop_wire::admin::KeyspaceSettings;

/// The keyspace of the names of objects, unless a program names another one.
pub const OBJECTS: &str = "objects";

/// A write is on the disk when it is acknowledged: a name must not survive its bytes.
const DURABILITY: &str = "sync";

/// The name of the keyspace with the bodies of objects, beside that of their names.
#[must_use]
pub fn bodies_of(names: &str) -> String {
    format!("{names}-bodies")
}

/// The settings of a keyspace for objects: first those that a manager is asked for, then those for nodes without a disk, which
/// have no such durability. The keyspace of names is ordered.
#[must_use]
pub fn new_keyspace(name: &str, is_ordered: bool) -> [KeyspaceSettings; 2] {
    [Some(DURABILITY), None].map(|durability| KeyspaceSettings {
        name: name.to_owned(),
        hash: is_ordered.then(|| KeyOrder::ORDERED.to_owned()),
        durability: durability.map(str::to_owned),
        ..KeyspaceSettings::default()
    })
}
