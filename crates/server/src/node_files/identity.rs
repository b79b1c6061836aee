//! The encoding of a cluster member's saved state: `docs/formats/node-folder.md`. Everything except the ids is a hint: the node starts its search
//! for the cluster with the map and the contacts.

use std::sync::Arc;

use zerohop_control::limits::MANAGERS_MAX;
use zerohop_placement::{Address, ClusterMap};
use zerohop_wire::checksum::crc32c;
use zerohop_wire::ids::{MapEpoch, NodeId};
use zerohop_wire::limits::MAP_BYTES_MAX;
use zerohop_wire::messages::ClusterId;

const MAGIC: [u8; 8] = *b"zerohopm";
const VERSION: u32 = 1;
/// Magic number, version, node, cluster, number of contacts, length of the map.
const HEADER_BYTES: usize = 8 + 4 + 4 + 16 + 4 + 4;
/// Maximum number of stored contacts: the control group, and those that the operator has named.
pub(crate) const CONTACTS_MAX: usize = 2 * MANAGERS_MAX + 16;

/// Maximum length of the file in bytes.
pub(crate) const MEMBER_BYTES_MAX: usize = HEADER_BYTES + CONTACTS_MAX * 256 + MAP_BYTES_MAX + 4;

/// The saved state; see the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SavedMember {
    /// The cluster of which it is a member.
    pub(crate) cluster: ClusterId,
    /// The node's id, once it has joined.
    pub(crate) node: Option<NodeId>,
    /// The managers to contact first.
    pub(crate) contacts: Vec<Address>,
    /// The newest map that it knows.
    pub(crate) map: Arc<ClusterMap>,
}

impl SavedMember {
    /// The bytes of the file.
    pub(crate) fn encode(&self) -> Vec<u8> {
        // A map that was never received is encoded as no bytes.
        let map = if self.map.epoch() == MapEpoch(0) { Vec::new() } else { self.map.encode() };
        let contacts = &self.contacts[..self.contacts.len().min(CONTACTS_MAX)];
        let mut bytes = Vec::with_capacity(HEADER_BYTES + contacts.len() * 32 + map.len() + 4);
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&self.node.map_or(0, NodeId::get).to_le_bytes());
        bytes.extend_from_slice(&self.cluster.0);
        bytes.extend_from_slice(&(contacts.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&(map.len() as u32).to_le_bytes());
        for contact in contacts {
            // An address has at most 255 bytes.
            bytes.push(contact.as_str().len() as u8);
            bytes.extend_from_slice(contact.as_str().as_bytes());
        }
        bytes.extend_from_slice(&map);
        let checksum = crc32c(&bytes);
        bytes.extend_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Decodes the output of [`SavedMember::encode`].
    ///
    /// # Errors
    /// What is wrong, in words.
    pub(crate) fn decode(bytes: &[u8]) -> Result<SavedMember, &'static str> {
        const DAMAGED: &str =
            "it is damaged: bring it back from a copy, or start this node with an empty folder";
        let Some((body, checksum)) = bytes.split_last_chunk::<4>() else { return Err(DAMAGED) };
        if body.len() < HEADER_BYTES || body[..8] != MAGIC {
            return Err(DAMAGED);
        }
        let number = |at: usize| u32::from_le_bytes([body[at], body[at + 1], body[at + 2], body[at + 3]]);
        if number(8) != VERSION {
            return Err("it is of another format: use the zerohop that wrote it");
        }
        if crc32c(body) != u32::from_le_bytes(*checksum) {
            return Err(DAMAGED);
        }
        let mut cluster = [0; 16];
        cluster.copy_from_slice(&body[16..32]);
        let (count, map_bytes) = (number(32) as usize, number(36) as usize);
        if count > CONTACTS_MAX {
            return Err(DAMAGED);
        }
        let (mut contacts, mut rest) = (Vec::new(), &body[HEADER_BYTES..]);
        for _ in 0..count {
            let (length, behind) = rest.split_first().ok_or(DAMAGED)?;
            let (text, behind) = behind.split_at_checked(usize::from(*length)).ok_or(DAMAGED)?;
            let text = std::str::from_utf8(text).map_err(|_| DAMAGED)?;
            contacts.push(Address::new(text).map_err(|_| DAMAGED)?);
            rest = behind;
        }
        if rest.len() != map_bytes {
            return Err(DAMAGED);
        }
        let map = match rest {
            [] => ClusterMap::default(),
            rest => ClusterMap::decode(rest).map_err(|_| DAMAGED)?,
        };
        let node = Some(NodeId(number(12))).filter(|node| node.get() != 0);
        Ok(SavedMember { cluster: ClusterId(cluster), node, contacts, map: Arc::new(map) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node_files::persisted::tests::sample as alone;

    fn sample() -> SavedMember {
        let address = |text: &str| Address::new(text).unwrap();
        SavedMember {
            cluster: ClusterId([3; 16]),
            node: Some(NodeId(7)),
            contacts: vec![address("127.0.0.1:7400"), address("node-2:7400")],
            map: alone().map,
        }
    }

    #[test]
    fn saved_identity_roundtrips_and_changed_bytes_are_refused() {
        let new = SavedMember { node: None, contacts: Vec::new(), map: Arc::default(), ..sample() };
        for saved in [sample(), new] {
            let bytes = saved.encode();
            assert_eq!(SavedMember::decode(&bytes), Ok(saved));
            for at in 0..bytes.len() {
                let mut other = bytes.clone();
                other[at] ^= 1;
                assert!(SavedMember::decode(&other).is_err(), "{at}");
                assert!(SavedMember::decode(&bytes[..at]).is_err(), "{at}");
            }
        }
    }
}
