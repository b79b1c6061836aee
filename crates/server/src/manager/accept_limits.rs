//! Limits of the connections to the manager's port: they are counted, and closed when newer connections need their place.
//!
//! A connection is unauthenticated until its greeting, and in a cluster with a secret until its proof. An HTTP connection is unauthenticated until
//! it has sent the bearer token, and in a cluster without a secret for its entire duration. Unauthenticated connections have a separate limit
//! ([`UnprovenConnections`]), so that HTTP never uses the places of nodes and clients.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use tokio::task::AbortHandle;
use zerohop_placement::ClusterMap;
use zerohop_reactor::{
    CertificateRefusals, NodeAddresses, Origin, UnprovenBounds, UnprovenConnections, UnprovenSlot,
};

use crate::limits::ConnectionLimits;
use crate::limits::MANAGER_NODE_CONNECTIONS_MAX;

/// The connections to the manager's port; see the module.
#[derive(Debug)]
pub(super) struct AcceptLimits {
    most: usize,
    open: usize,
    next: u64,
    unproven: UnprovenConnections<u64>,
    /// For each unauthenticated connection, the handle that ends its task, and its place.
    tasks: BTreeMap<u64, (AbortHandle, UnprovenSlot)>,
    /// Displaced unauthenticated connections whose tasks have not been dropped yet: they no longer count.
    displaced: BTreeSet<u64>,
    nodes: NodeAddresses,
    /// The log lines about clients that were refused because of their certificates.
    pub(super) certificates_refused: CertificateRefusals,
}

/// The result of a new connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AcceptResult {
    /// It is served, under this key and in this place.
    Open(u64, UnprovenSlot),
    /// All places are in use by authenticated connections.
    Full,
}

impl AcceptLimits {
    pub(super) fn new(limits: &ConnectionLimits) -> AcceptLimits {
        let bounds =
            UnprovenBounds { all_max: limits.unproven_max, origin_max: limits.unproven_per_address_max };
        AcceptLimits {
            most: limits.manager_max,
            open: 0,
            next: 0,
            unproven: UnprovenConnections::new(bounds),
            tasks: BTreeMap::new(),
            displaced: BTreeSet::new(),
            nodes: NodeAddresses::default(),
            certificates_refused: CertificateRefusals::default(),
        }
    }

    /// Number of open connections.
    pub(super) fn open(&self) -> usize {
        self.open
    }

    /// Admits a connection from this address. Unauthenticated connections that lose their place are closed.
    pub(super) fn enter(&mut self, address: Option<IpAddr>, map: &ClusterMap) -> AcceptResult {
        let is_node = address.is_some_and(|address| self.nodes.has(map, address));
        // Other nodes find a place where clients do not.
        let most = if is_node { self.most + MANAGER_NODE_CONNECTIONS_MAX } else { self.most };
        if self.open - self.unproven.count() >= most {
            return AcceptResult::Full;
        }
        let origin = Origin::of(address, is_node);
        let displaced = self.unproven.connection_to_close(origin);
        if let Some(displaced) = displaced.or_else(|| self.unproven.oldest().filter(|_| self.open >= most))
            && let Some((task, place)) = self.tasks.remove(&displaced)
        {
            // The task ends later, and other connections may arrive before: they must not displace it again.
            self.unproven.leave(place);
            self.displaced.insert(displaced);
            self.open -= 1;
            task.abort();
        }
        let key = self.next;
        self.next += 1;
        self.open += 1;
        AcceptResult::Open(key, self.unproven.enter(key, origin))
    }

    /// Sets the task that must end if the place of a connection is needed.
    pub(super) fn is_served_by(&mut self, (key, place): (u64, UnprovenSlot), task: AbortHandle) {
        self.tasks.insert(key, (task, place));
    }

    /// Records that a connection has ended.
    pub(super) fn leave(&mut self, key: u64, place: UnprovenSlot) {
        if !self.displaced.remove(&key) {
            self.open -= 1;
        }
        self.is_known(key, place);
    }

    /// Records that a connection is authenticated.
    pub(super) fn is_known(&mut self, key: u64, place: UnprovenSlot) {
        self.unproven.leave(place);
        self.tasks.remove(&key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unproven_connections_are_evicted_and_proven_are_not() {
        let limits = ConnectionLimits {
            manager_max: 4,
            unproven_max: 2,
            unproven_per_address_max: 2,
            ..ConnectionLimits::default()
        };
        let (mut door, map) = (AcceptLimits::new(&limits), ClusterMap::default());
        let address = Some([10, 0, 0, 1].into());
        let enter = |door: &mut AcceptLimits| match door.enter(address, &map) {
            AcceptResult::Open(key, place) => (key, place),
            AcceptResult::Full => panic!("there is room"),
        };
        let known: Vec<(u64, UnprovenSlot)> = (0..3)
            .map(|_| {
                let (key, place) = enter(&mut door);
                door.is_known(key, place);
                (key, place)
            })
            .collect();
        assert_eq!((known.len(), door.unproven.count()), (3, 0));
        let (first, _) = enter(&mut door);
        assert_eq!(door.unproven.oldest(), Some(first));
        // All four places are in use: the unauthenticated connection is displaced, although two would be permitted.
        let (second, place) = enter(&mut door);
        assert_eq!((second, door.open()), (first + 1, 5), "the first has not left yet");
        door.is_known(second, place);
        assert_eq!(door.enter(address, &map), AcceptResult::Full, "four are known");
    }
}
