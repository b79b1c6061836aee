//! Unauthenticated connections, whose places newer connections get when no place is free.
//!
//! A connection is unauthenticated from its accept until its greeting, and in a cluster with a secret until its proof. Such connections have limits
//! of their own: over all addresses, and for each remote address. At a limit the oldest of them is closed and the new one is served. A client with
//! a credential therefore only needs one undisturbed round trip, and never waits for other connections to time out. Connections from addresses of
//! the cluster's nodes have a separate limit, so that links of nodes do not compete with others.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use zerohop_placement::ClusterMap;
use zerohop_wire::ids::MapEpoch;

/// The origin of a connection for these limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Origin {
    /// A node of the cluster has this address.
    is_node: bool,
    /// An IPv4 address; for an IPv6 address its network, because a host may use all addresses of its network.
    network: u128,
}

/// The limits of unauthenticated connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnprovenBounds {
    /// Total from addresses of no node; the same number applies to addresses of nodes.
    pub all_max: usize,
    /// From one address.
    pub origin_max: usize,
}

/// The unauthenticated connections; see the module. `K` identifies a connection.
#[derive(Debug)]
pub struct UnprovenConnections<K> {
    bounds: UnprovenBounds,
    /// The number of the next connection: an older connection has a lower number.
    next: u64,
    /// From addresses of no node, and of nodes; by age.
    by_age: [BTreeMap<u64, (K, Origin)>; 2],
    by_origin: BTreeMap<Origin, BTreeSet<u64>>,
}

/// The place of one unauthenticated connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnprovenSlot {
    number: u64,
    is_node: bool,
}

impl Origin {
    /// The origin of a peer at this address; `None`: the address is unknown, for example because the peer has gone.
    pub fn of(address: Option<IpAddr>, is_node: bool) -> Origin {
        let network = match address.map(|address| address.to_canonical()) {
            None => 0,
            Some(IpAddr::V4(address)) => u128::from(address.to_bits()),
            // No IPv4 address has such a high value: the first bits of a unicast address are not all zero.
            Some(IpAddr::V6(address)) => address.to_bits() >> 64 << 64 | 1 << 63,
        };
        Origin { is_node, network }
    }
}

/// The addresses of the nodes of a map, cached until the map changes.
#[derive(Debug, Default)]
pub struct NodeAddresses {
    of: MapEpoch,
    addresses: BTreeSet<IpAddr>,
}

impl NodeAddresses {
    /// Whether a node of this map is at an address.
    pub fn has(&mut self, map: &ClusterMap, address: IpAddr) -> bool {
        if self.of != map.epoch() {
            let texts = map.nodes().flat_map(|node| {
                node.instances().map(|instance| instance.addr).chain(std::iter::once(node.manager()))
            });
            let address = |text: &str| Some(text.parse::<SocketAddr>().ok()?.ip().to_canonical());
            *self = NodeAddresses { of: map.epoch(), addresses: texts.filter_map(address).collect() };
        }
        self.addresses.contains(&address.to_canonical())
    }
}

impl<K: Copy> UnprovenConnections<K> {
    /// Without connections, with these limits.
    pub fn new(bounds: UnprovenBounds) -> Self {
        UnprovenConnections { bounds, next: 0, by_age: Default::default(), by_origin: BTreeMap::new() }
    }

    /// The number of connections.
    pub fn count(&self) -> usize {
        self.by_age.iter().map(BTreeMap::len).sum()
    }

    /// The unauthenticated connection to close before another one from this origin enters.
    pub fn connection_to_close(&self, to: Origin) -> Option<K> {
        let of_class = &self.by_age[usize::from(to.is_node)];
        let of_origin = self.by_origin.get(&to).filter(|all| all.len() >= self.bounds.origin_max);
        let oldest = match of_origin.and_then(BTreeSet::first) {
            Some(number) => of_class.get(number),
            None if of_class.len() >= self.bounds.all_max => of_class.values().next(),
            None => None,
        };
        oldest.map(|(key, _)| *key)
    }

    /// The oldest of all, from addresses of no node if there is any.
    pub fn oldest(&self) -> Option<K> {
        self.by_age.iter().flat_map(BTreeMap::values).next().map(|(key, _)| *key)
    }

    /// Adds an unauthenticated connection.
    pub fn enter(&mut self, key: K, origin: Origin) -> UnprovenSlot {
        let place = UnprovenSlot { number: self.next, is_node: origin.is_node };
        self.next += 1;
        self.by_age[usize::from(origin.is_node)].insert(place.number, (key, origin));
        self.by_origin.entry(origin).or_default().insert(place.number);
        place
    }

    /// Removes a connection that is closed or authenticated.
    pub fn leave(&mut self, UnprovenSlot { number, is_node }: UnprovenSlot) {
        let Some((_, origin)) = self.by_age[usize::from(is_node)].remove(&number) else { return };
        if let Some(of_origin) = self.by_origin.get_mut(&origin) {
            of_origin.remove(&number);
            if of_origin.is_empty() {
                self.by_origin.remove(&origin);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: UnprovenBounds = UnprovenBounds { all_max: 4, origin_max: 2 };

    fn at(text: &str) -> Origin {
        Origin::of(Some(text.parse().unwrap()), false)
    }

    #[test]
    fn oldest_connection_of_same_address_is_closed_before_others() {
        let mut unproven = UnprovenConnections::new(BOUNDS);
        let mut places = Vec::new();
        for (key, from) in [(1, "10.0.0.1"), (2, "10.0.0.1")] {
            assert_eq!(unproven.connection_to_close(at(from)), None);
            places.push(unproven.enter(key, at(from)));
        }
        assert_eq!(unproven.connection_to_close(at("10.0.0.1")), Some(1), "one address has two places");
        assert_eq!(
            unproven.connection_to_close(at("10.0.0.2")),
            None,
            "another address has places of its own"
        );
        for (key, from) in [(3, "10.0.0.2"), (4, "10.0.0.3")] {
            places.push(unproven.enter(key, at(from)));
        }
        assert_eq!(unproven.connection_to_close(at("10.0.0.4")), Some(1), "all four places are in use");
        assert_eq!(unproven.connection_to_close(at("10.0.0.2")), Some(1));
        unproven.leave(places[0]);
        unproven.leave(places[0]);
        assert_eq!((unproven.count(), unproven.connection_to_close(at("10.0.0.1"))), (3, None));
        assert_eq!(unproven.oldest(), Some(2));
        places.into_iter().for_each(|place| unproven.leave(place));
        assert_eq!((unproven.count(), unproven.oldest(), unproven.by_origin.len()), (0, None, 0));
    }

    #[test]
    fn connections_from_nodes_do_not_compete_with_others() {
        let mut unproven = UnprovenConnections::new(BOUNDS);
        let node = Origin::of(Some("10.0.0.9".parse().unwrap()), true);
        for key in 0..4 {
            unproven.enter(key, at(&format!("10.0.1.{key}")));
        }
        assert_eq!(unproven.connection_to_close(node), None, "a link of a node finds a place");
        unproven.enter(9, node);
        unproven.enter(10, node);
        assert_eq!(unproven.connection_to_close(node), Some(9));
        assert_eq!(
            unproven.connection_to_close(at("10.0.2.1")),
            Some(0),
            "unproven connections never displace a node's link"
        );
        assert_eq!(unproven.oldest(), Some(0));
    }

    #[test]
    fn ipv6_addresses_of_one_network_share_an_origin() {
        assert_eq!(at("2001:db8:1:2::3"), at("2001:db8:1:2:ffff::4"));
        assert_ne!(at("2001:db8:1:2::3"), at("2001:db8:1:3::3"));
        assert_eq!(at("::ffff:10.0.0.1"), at("10.0.0.1"));
        assert_ne!(at("::1"), at("0.0.0.1"));
        assert_ne!(Origin::of(None, false), at("::"));
    }
}
