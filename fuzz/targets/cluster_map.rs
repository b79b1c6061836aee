//! Any bytes as a cluster map and as a delta: refused, or decoded into what encodes to the same bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use zerohop_placement::{ClusterMap, MapDelta};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(map) = ClusterMap::decode(bytes) {
        assert_eq!(map.encode(), bytes);
    }
    if let Ok(delta) = MapDelta::decode(bytes) {
        assert_eq!(delta.encode(), bytes);
    }
});
