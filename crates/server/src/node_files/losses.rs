//! What a standalone node may have lost because its process was not shut down cleanly: `docs/formats/node-folder.md`, "`losses`". In a cluster the
//! control group keeps this record.

use std::collections::BTreeMap;

use zerohop_control::state::{Loss, Losses};
use zerohop_placement::{ClusterMap, Durability};
use zerohop_wire::checksum::crc32c;
use zerohop_wire::ids::{KeyspaceId, MapEpoch, NodeId};

const MAGIC: [u8; 8] = *b"zerohopx";
const VERSION: u32 = 1;
/// Magic number, version, number of keyspaces.
const HEADER_BYTES: usize = 8 + 4 + 4;
/// Keyspace id, map epoch.
const ENTRY_BYTES: usize = 4 + 8;
const CHECKSUM_BYTES: usize = 4;
/// Maximum length of the file in bytes: far more keyspaces than a map has.
pub(crate) const LOSSES_BYTES_MAX: usize = 1 << 20;

/// The keyspaces with a loss that the operator has not acknowledged, each with the first map epoch of the start that found it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SavedLosses(BTreeMap<KeyspaceId, MapEpoch>);

impl SavedLosses {
    /// Records that the process before this start was not shut down cleanly. `map` is the first one of this start.
    pub(crate) fn record(&mut self, map: &ClusterMap) {
        self.0.retain(|keyspace, _| map.keyspace(*keyspace).is_some());
        for (keyspace, found) in map.keyspaces() {
            if found.config().durability != Durability::Sync {
                self.0.insert(keyspace, map.epoch());
            }
        }
    }

    /// The losses by partition. All copies of a standalone node are its own.
    pub(crate) fn by_partition(&self, map: &ClusterMap, node: NodeId) -> Losses {
        let mut losses = Losses::new();
        for (keyspace, epoch) in &self.0 {
            let partitions =
                map.keyspace(*keyspace).into_iter().flat_map(|found| found.division().partitions());
            for partition in partitions {
                losses.insert((*keyspace, partition), Loss { epoch: *epoch, nodes: [node].into() });
            }
        }
        losses
    }

    /// The operator acknowledges the losses of a keyspace, or of all ([`KeyspaceId::NONE`]), up to the map that the operator has seen. Returns the
    /// number of partitions that are not reported any more.
    pub(crate) fn acknowledge(&mut self, map: &ClusterMap, keyspace: KeyspaceId, until: MapEpoch) -> u64 {
        let mut count = 0;
        self.0.retain(|id, epoch| {
            let is_known = (keyspace == KeyspaceId::NONE || keyspace == *id) && *epoch <= until;
            if is_known {
                count += map.keyspace(*id).map_or(0, |found| u64::from(found.config().partitions.get()));
            }
            !is_known
        });
        count
    }

    /// The bytes of the file.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER_BYTES + ENTRY_BYTES * self.0.len() + CHECKSUM_BYTES);
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&(self.0.len() as u32).to_le_bytes());
        for (keyspace, epoch) in &self.0 {
            bytes.extend_from_slice(&keyspace.get().to_le_bytes());
            bytes.extend_from_slice(&epoch.0.to_le_bytes());
        }
        let checksum = crc32c(&bytes);
        bytes.extend_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// `None`: the bytes are corrupt, or of a version that this program does not know.
    pub(crate) fn decode(bytes: &[u8]) -> Option<SavedLosses> {
        let (body, checksum) = bytes.split_last_chunk::<4>()?;
        let (magic, rest) = body.split_first_chunk::<8>()?;
        let (version, rest) = rest.split_first_chunk::<4>()?;
        let (count, rest) = rest.split_first_chunk::<4>()?;
        let is_whole = *magic == MAGIC
            && u32::from_le_bytes(*version) == VERSION
            && u32::from_le_bytes(*checksum) == crc32c(body)
            && rest.len() == (u32::from_le_bytes(*count) as usize).checked_mul(ENTRY_BYTES)?;
        if !is_whole {
            return None;
        }
        let mut losses = SavedLosses::default();
        for entry in rest.chunks_exact(ENTRY_BYTES) {
            let (keyspace, epoch) = entry.split_first_chunk::<4>()?;
            let epoch = u64::from_le_bytes(*epoch.first_chunk::<8>()?);
            losses.0.insert(KeyspaceId(u32::from_le_bytes(*keyspace)), MapEpoch(epoch));
        }
        Some(losses)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::super::persisted::tests::sample;
    use super::*;

    /// The file of version 1, byte by byte.
    const PINNED: &[u8] = include_bytes!("../../tests/corpus/v1/losses");

    pub(crate) fn losses() -> SavedLosses {
        SavedLosses([(KeyspaceId(6), MapEpoch(0x0102_0304_0506_0708)), (KeyspaceId(7), MapEpoch(9))].into())
    }

    #[test]
    fn version_1_bytes_decode_and_encode_unchanged() {
        assert_eq!(losses().encode(), PINNED);
        assert_eq!(SavedLosses::decode(PINNED), Some(losses()));
        assert_eq!(SavedLosses::decode(&SavedLosses::default().encode()), Some(SavedLosses::default()));
    }

    #[test]
    fn acknowledgement_covers_only_losses_seen_by_operator() {
        let map = sample().map;
        let keyspace = KeyspaceId(6);
        let mut recorded = SavedLosses([(KeyspaceId(5), MapEpoch(1))].into());
        recorded.record(&map);
        assert_eq!(recorded, SavedLosses([(keyspace, map.epoch())].into()), "keyspace 5 is gone");
        let by_partition = recorded.by_partition(&map, NodeId(1));
        assert!(
            by_partition.len() == 2 && by_partition.values().all(|loss| loss.nodes == [NodeId(1)].into())
        );
        let older = MapEpoch(map.epoch().0 - 1);
        assert_eq!(
            recorded.acknowledge(&map, keyspace, older),
            0,
            "the loss is newer than the operator's map"
        );
        assert_eq!(recorded.acknowledge(&map, KeyspaceId(8), map.epoch()), 0, "another keyspace");
        assert_eq!(recorded.acknowledge(&map, KeyspaceId::NONE, map.epoch()), 2);
        assert_eq!(recorded, SavedLosses::default());
    }

    proptest! {
        #[test]
        fn any_single_change_is_noticed(at in 0..PINNED.len(), bit in 0..8) {
            let mut bytes = PINNED.to_vec();
            bytes[at] ^= 1u8 << bit;
            prop_assert_eq!(SavedLosses::decode(&bytes), None);
            prop_assert_eq!(SavedLosses::decode(&PINNED[..at]), None);
        }
    }
}
