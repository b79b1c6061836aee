//! Any bytes as datagrams of gossip: a node that receives them goes on.

use zerohop_base::time::Time;
use zerohop_control::gossip::{Gossip, GossipSettings, Name};
use zerohop_placement::ClusterMap;
use zerohop_wire::ids::{Incarnation, MapEpoch, NodeId};

/// Goes through any input; panics where it breaks a promise.
pub fn run(bytes: &[u8]) {
    let name = Name { node: NodeId(1), incarnation: Incarnation(2), since: MapEpoch(3), renewals: 0 };
    let mut gossip = Gossip::new(Time(0), name, GossipSettings::default(), 1);
    for (at, bytes) in (1..).zip([bytes, bytes]) {
        let now = Time(at * 200_000);
        gossip.receive(now, bytes);
        gossip.tick(now, &ClusterMap::default());
    }
}
