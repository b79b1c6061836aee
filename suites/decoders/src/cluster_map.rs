//! Any bytes as a cluster map and as a delta: refused, or decoded into what encodes to the same bytes; a map, which may have been
//! built from changes that undo each other, to bytes that are the same map.

use zerohop_placement::{ClusterMap, MapDelta};

/// Goes through any input; panics where it breaks a promise.
pub fn run(bytes: &[u8]) {
    if let Ok(map) = ClusterMap::decode(bytes) {
        let again = map.encode();
        assert_eq!(ClusterMap::decode(&again).map(|map| map.encode()), Ok(again));
    }
    if let Ok(delta) = MapDelta::decode(bytes) {
        assert_eq!(delta.encode(), bytes);
    }
}
