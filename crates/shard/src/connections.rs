//! The map epoch of each connection's client.

use std::collections::BTreeMap;

use zerohop_wire::ids::MapEpoch;

/// The epoch that each client has, from its `Hello` and from the maps that it was sent since. Entries end with their connections,
/// whose number the owner bounds.
#[derive(Debug, Default)]
pub(super) struct Connections {
    epochs: BTreeMap<u64, MapEpoch>,
}

impl Connections {
    /// A client has reported its epoch, or was sent a map of this epoch.
    pub(super) fn has(&mut self, connection: u64, epoch: MapEpoch) {
        self.epochs.insert(connection, epoch);
    }

    /// The epoch that a client has; zero if it has not reported one.
    pub(super) fn epoch(&self, connection: u64) -> MapEpoch {
        self.epochs.get(&connection).copied().unwrap_or_default()
    }

    pub(super) fn remove(&mut self, connection: u64) {
        self.epochs.remove(&connection);
    }
}
