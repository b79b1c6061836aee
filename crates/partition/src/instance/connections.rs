//! What is remembered of connections: how new a map their clients have.

use std::collections::BTreeMap;

use zerohop_wire::ids::MapEpoch;

/// The epoch that each client has, by what it said in `Hello` and what it was sent since. Entries go with their
/// connections, which the owner bounds.
#[derive(Debug, Default)]
pub(super) struct Connections {
    epochs: BTreeMap<u64, MapEpoch>,
}

impl Connections {
    /// A client has told its epoch, or was sent a map of this one.
    pub(super) fn has(&mut self, connection: u64, epoch: MapEpoch) {
        self.epochs.insert(connection, epoch);
    }

    /// The epoch that a client has; zero if it has not said.
    pub(super) fn epoch(&self, connection: u64) -> MapEpoch {
        self.epochs.get(&connection).copied().unwrap_or_default()
    }

    pub(super) fn forget(&mut self, connection: u64) {
        self.epochs.remove(&connection);
    }
}
