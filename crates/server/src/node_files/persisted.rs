//! The encoding of the saved state of a standalone node: `docs/formats/node-folder.md`.

use std::fmt;
use std::sync::Arc;

use zerohop_placement::{ClusterMap, DecodeError};
use zerohop_wire::checksum::crc32c;
use zerohop_wire::ids::{KeyspaceId, NodeId};
use zerohop_wire::limits::MAP_BYTES_MAX;
use zerohop_wire::messages::ClusterId;

const MAGIC: [u8; 8] = *b"zerohnod";
const VERSION: u32 = 1;
/// Magic number, version, node, cluster, next keyspace, length of the map.
const HEADER_BYTES: usize = 8 + 4 + 4 + 16 + 4 + 4;
const CHECKSUM_BYTES: usize = 4;

/// Maximum length of the file in bytes.
pub const SAVED_BYTES_MAX: usize = HEADER_BYTES + MAP_BYTES_MAX + CHECKSUM_BYTES;

/// The saved state of a standalone node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedNode {
    /// The cluster of which it is a member.
    pub cluster: ClusterId,
    /// The node's id in the map.
    pub node: NodeId,
    /// The id of the next keyspace to be created: above all ids that were ever used, including those of dropped keyspaces.
    pub next_keyspace: KeyspaceId,
    /// The newest decided map.
    pub map: Arc<ClusterMap>,
}

/// The reason why bytes are not a valid saved state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SavedError {
    /// The magic number is wrong.
    Magic,
    /// An unknown version of the format.
    Version {
        /// The version.
        found: u32,
    },
    /// The length differs from the stated one, or is impossible.
    Length {
        /// The length in bytes.
        bytes: usize,
    },
    /// The checksum does not match.
    Checksum,
    /// The map in it cannot be read.
    Map(DecodeError),
    /// The map has no such node.
    NoSuchNode {
        /// The node.
        node: NodeId,
    },
    /// The next keyspace id is in use in the map, or is zero.
    NextKeyspace {
        /// The id.
        next: KeyspaceId,
    },
}

impl SavedNode {
    /// The bytes of the file.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let map = self.map.encode();
        let mut bytes = Vec::with_capacity(HEADER_BYTES + map.len() + CHECKSUM_BYTES);
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&self.node.get().to_le_bytes());
        bytes.extend_from_slice(&self.cluster.0);
        bytes.extend_from_slice(&self.next_keyspace.get().to_le_bytes());
        let map_bytes = u32::try_from(map.len()).expect("a map has at most 16 MiB");
        bytes.extend_from_slice(&map_bytes.to_le_bytes());
        bytes.extend_from_slice(&map);
        let checksum = crc32c(&bytes);
        bytes.extend_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Decodes the output of [`SavedNode::encode`]. For any other bytes it returns an error that says what is wrong.
    ///
    /// # Errors
    /// [`SavedError`].
    pub fn decode(bytes: &[u8]) -> Result<SavedNode, SavedError> {
        let wrong_length = || SavedError::Length { bytes: bytes.len() };
        let Some((magic, rest)) = bytes.split_first_chunk::<8>() else { return Err(wrong_length()) };
        if *magic != MAGIC {
            return Err(SavedError::Magic);
        }
        let (version, rest) = split_u32(rest).ok_or_else(wrong_length)?;
        if version != VERSION {
            return Err(SavedError::Version { found: version });
        }
        let (node, rest) = split_u32(rest).ok_or_else(wrong_length)?;
        let (cluster, rest) = rest.split_first_chunk::<16>().ok_or_else(wrong_length)?;
        let (next_keyspace, rest) = split_u32(rest).ok_or_else(wrong_length)?;
        let (map_bytes, rest) = split_u32(rest).ok_or_else(wrong_length)?;
        let (map, checksum) = rest.split_at_checked(map_bytes as usize).ok_or_else(wrong_length)?;
        let (checksum, []) = split_u32(checksum).ok_or_else(wrong_length)? else {
            return Err(wrong_length());
        };
        if crc32c(&bytes[..HEADER_BYTES + map.len()]) != checksum {
            return Err(SavedError::Checksum);
        }
        let map = Arc::new(ClusterMap::decode(map).map_err(SavedError::Map)?);
        let (node, next_keyspace) = (NodeId(node), KeyspaceId(next_keyspace));
        if map.node(node).is_none() {
            return Err(SavedError::NoSuchNode { node });
        }
        let is_above = map.keyspaces().all(|(id, _)| id < next_keyspace);
        if !is_above || next_keyspace == KeyspaceId::NONE {
            return Err(SavedError::NextKeyspace { next: next_keyspace });
        }
        Ok(SavedNode { cluster: ClusterId(*cluster), node, next_keyspace, map })
    }
}

fn split_u32(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let (number, rest) = bytes.split_first_chunk::<4>()?;
    Some((u32::from_le_bytes(*number), rest))
}

impl fmt::Display for SavedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SavedError::Magic => f.write_str("this is not the state file of a zerohop node"),
            SavedError::Version { found } => write!(
                f,
                "the state file is of format {found}, this program knows format {VERSION}: use the zerohop that \
                 wrote it"
            ),
            SavedError::Length { bytes } => {
                write!(f, "the state file has {bytes} bytes, which is not the length that it states")
            }
            SavedError::Checksum => f.write_str("the state file does not match its checksum"),
            SavedError::Map(error) => write!(f, "the state file is damaged: {error}"),
            SavedError::NoSuchNode { node } => {
                write!(f, "the state file is damaged: it is of node {node}, which its map does not have")
            }
            SavedError::NextKeyspace { next } => {
                write!(f, "the state file is damaged: the id {next} for the next keyspace is taken")
            }
        }
    }
}

impl std::error::Error for SavedError {}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;
    use zerohop_placement::{
        Address, KeyspaceConfig, MapChange, MapDelta, Node, NodeState, PartitionCount, ReplicaGroup,
    };
    use zerohop_wire::ids::{Incarnation, InstanceId, MapEpoch};

    use super::*;

    /// Version 1, byte by byte: later programs must be able to read it.
    const PINNED: &[u8] = include_bytes!("../../tests/corpus/v1/state");

    pub(crate) fn sample() -> SavedNode {
        let node = Node {
            id: NodeId(1),
            state: NodeState::Up,
            incarnation: Incarnation(0x1122_3344_5566_7788),
            manager: Address::new("127.0.0.1:7400").unwrap(),
            first_instance: InstanceId(1),
            instances: vec![Address::new("127.0.0.1:7401").unwrap(), Address::new("127.0.0.1:7402").unwrap()],
        };
        let config = KeyspaceConfig {
            partitions: PartitionCount::new(2).unwrap(),
            ..KeyspaceConfig::new("papers".parse().unwrap(), 0x00c0_ffee).fitted_to(1)
        };
        let groups = ReplicaGroup::spread(&config, &node);
        let create = MapChange::CreateKeyspace { id: KeyspaceId(6), config, groups: groups.into() };
        let changes = vec![MapChange::PutNode(node), create];
        let delta = MapDelta { from: MapEpoch(0), to: MapEpoch(9), changes };
        SavedNode {
            cluster: ClusterId(*b"sixteen bytes id"),
            node: NodeId(1),
            next_keyspace: KeyspaceId(7),
            map: Arc::new(ClusterMap::default().apply(&delta).unwrap()),
        }
    }

    #[test]
    fn version_1_bytes_decode_and_encode_unchanged() {
        let saved = sample();
        assert_eq!(saved.encode(), PINNED);
        assert_eq!(SavedNode::decode(PINNED), Ok(saved));
    }

    #[test]
    fn invalid_bytes_are_refused_with_message() {
        let bytes = sample().encode();
        let changed = |at: usize, to: u8| {
            let mut bytes = bytes.clone();
            bytes[at] = to;
            SavedNode::decode(&bytes).unwrap_err()
        };
        assert_eq!(changed(0, b'Z'), SavedError::Magic);
        assert_eq!(changed(8, 2), SavedError::Version { found: 2 });
        assert!(changed(8, 2).to_string().contains("use the zerohop that wrote it"));
        assert_eq!(changed(20, b'S'), SavedError::Checksum);
        assert_eq!(changed(bytes.len() - 1, !bytes[bytes.len() - 1]), SavedError::Checksum);
        let length = SavedError::Length { bytes: bytes.len() };
        assert_eq!(changed(36, bytes[36] ^ 1), length);
        let other = SavedNode { node: NodeId(2), ..sample() };
        assert_eq!(SavedNode::decode(&other.encode()), Err(SavedError::NoSuchNode { node: NodeId(2) }));
        let next = KeyspaceId(6);
        let other = SavedNode { next_keyspace: next, ..sample() };
        assert_eq!(SavedNode::decode(&other.encode()), Err(SavedError::NextKeyspace { next }));
        assert_eq!(SavedNode::decode(&[]), Err(SavedError::Length { bytes: 0 }));
    }

    #[test]
    fn truncated_or_extended_file_is_refused() {
        let bytes = sample().encode();
        for cut in 0..bytes.len() {
            assert!(SavedNode::decode(&bytes[..cut]).is_err(), "{cut}");
        }
        assert!(SavedNode::decode(&[&bytes[..], b"x"].concat()).is_err());
    }

    proptest! {
        #[test]
        fn any_single_change_is_noticed(at in 0..PINNED.len(), bit in 0..8) {
            let mut bytes = PINNED.to_vec();
            bytes[at] ^= 1u8 << bit;
            prop_assert!(SavedNode::decode(&bytes).is_err());
        }
    }
}
