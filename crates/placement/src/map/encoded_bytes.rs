//! The size of an encoded map, which its limit is about.

use zerohop_wire::ids::InstanceId;

use super::{ClusterMap, Members, PendingSplit};
use crate::layout::{
    BEGIN_DROP_KEYSPACE_BYTES, BEGIN_SPLIT_KEYSPACE_BYTES, BEGIN_SPLIT_REGION_BYTES_FIXED, CHANGE_BYTES_MIN,
    CONFIG_BYTES_MIN, EXCEPTION_BYTES, EXPIRY_BYTES, GRANT_BYTES, GROUP_BYTES_MIN, HAS_REGIONS_BYTES_MIN,
    HAS_SPLIT_BYTES, HEADER_BYTES, LIVE_REGION_BYTES, NODE_BYTES_FIXED, PLACED_BYTES, RETIRED_REGION_BYTES,
    RING_BYTES, SEPARATOR_BYTES_MIN, SEPARATOR_COUNT_BYTES, TOKEN_BYTES_FIXED,
};

/// Number of bytes of [`ClusterMap::encode`], without encoding.
pub(super) fn of_map(map: &ClusterMap) -> usize {
    let (nodes, addresses) = map.nodes_encoded();
    let keyspaces = map.keyspaces().map(|(_, keyspace)| {
        let (listed, members) = keyspace.table().list_counts();
        let groups = listed * (GROUP_BYTES_MIN - size_of::<InstanceId>()) + members * size_of::<InstanceId>();
        let placed = keyspace.table().parts().0.map_or(0, |placed| {
            let layout = match &placed.members {
                Members::Rows(rows) => size_of_val(&rows[..]),
                Members::Ring(..) => RING_BYTES,
            };
            PLACED_BYTES + layout + placed.changed.len() * EXCEPTION_BYTES
        });
        let groups = groups + placed;
        let has_split = if keyspace.splits() > 0 { HAS_SPLIT_BYTES } else { 0 };
        let has_regions = keyspace.division().regions().table().map_or(0, |table| {
            HAS_REGIONS_BYTES_MIN
                + table.live().len() * LIVE_REGION_BYTES
                + table.retired().len() * RETIRED_REGION_BYTES
        });
        let close = if keyspace.is_dropping() { BEGIN_DROP_KEYSPACE_BYTES } else { 0 };
        let begin = match keyspace.pending_split() {
            None => 0,
            Some(PendingSplit::Keyspace) => BEGIN_SPLIT_KEYSPACE_BYTES,
            Some(PendingSplit::Region { separator, .. }) => BEGIN_SPLIT_REGION_BYTES_FIXED + separator.len(),
        };
        let separators = match &keyspace.config().separators {
            none if none.is_empty() => 0,
            some => SEPARATOR_COUNT_BYTES + some.len() * (SEPARATOR_BYTES_MIN - 1) + some.bytes(),
        };
        CHANGE_BYTES_MIN
            + CONFIG_BYTES_MIN
            + separators
            + keyspace.config().name.as_str().len()
            + groups
            + has_split
            + has_regions
            + close
            + begin
    });
    let tokens = map.tokens().map(|token| {
        let expiry = if token.expiry.is_some() { EXPIRY_BYTES } else { 0 };
        TOKEN_BYTES_FIXED + token.name.as_str().len() + token.grants().len() * GRANT_BYTES + expiry
    });
    HEADER_BYTES + nodes * NODE_BYTES_FIXED + addresses + keyspaces.sum::<usize>() + tokens.sum::<usize>()
}
