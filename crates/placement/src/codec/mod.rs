//! The encoding of maps and deltas: one format, because a complete map is a delta from epoch zero. The layout, with offsets, is in
//! `docs/formats/cluster-map.md`; a golden test checks it.
//!
//! The bytes may come from an untrusted sender. Every count is checked against its limit and the remaining bytes before memory is allocated for it.
//! Decoding therefore needs memory in proportion to the received bytes.

use zerohop_wire::ids::{KeyspaceId, MapEpoch, PartitionId};

use crate::hash::HashKind;
use crate::keyspace::{Durability, KeyOrder, KeyspaceConfig};
use crate::layout::CHANGE_BYTES_MIN;
use crate::limits::CHANGES_MAX;
use crate::map::{
    ClusterMap, Group, GroupShape, GroupState, MapChange, MapDelta, Members, Node, NodeState, PendingSplit,
};
use crate::regions::RegionTable;

#[cfg(test)]
mod documented;
mod error;
mod group_runs;
mod read;
#[cfg(test)]
mod tests;

pub use error::DecodeError;

const MAGIC: [u8; 4] = *b"ZHMD";
/// The encoder uses the lowest version that can express the contents, so that older programs can decode them as long as possible.
const VERSION: u16 = 1;
/// Adds states of groups, and splits of keyspaces.
const VERSION_GROUP_STATES: u16 = 2;
/// Adds the number of past splits, in complete maps.
const VERSION_HAS_SPLIT: u16 = 3;
/// Adds keyspaces whose groups are placed, with exceptions.
const VERSION_PLACED: u16 = 4;
/// Adds tokens.
const VERSION_TOKENS: u16 = 5;
/// Adds keyspaces that are being dropped.
const VERSION_DROPPING: u16 = 6;
/// Adds tokens that expire.
const VERSION_EXPIRY: u16 = 7;
/// Adds ordered keyspaces.
const VERSION_ORDERED: u16 = 8;
/// Adds ordered keyspaces with separators.
const VERSION_SEPARATORS: u16 = 9;
/// Adds regions that were split.
const VERSION_REGIONS: u16 = 10;
/// Adds pending splits.
const VERSION_PENDING_SPLITS: u16 = 11;
/// Adds keyspaces with a history.
const VERSION_HISTORY: u16 = 12;

const PUT_NODE: u8 = 1;
const REMOVE_NODE: u8 = 2;
const CREATE_KEYSPACE: u8 = 3;
const ALTER_KEYSPACE: u8 = 4;
const DROP_KEYSPACE: u8 = 5;
const SET_GROUP: u8 = 6;
const SPLIT_KEYSPACE: u8 = 7;
const HAS_SPLIT: u8 = 8;
const CREATE_PLACED: u8 = 9;
const PUT_TOKEN: u8 = 10;
const REMOVE_TOKEN: u8 = 11;
const BEGIN_DROP_KEYSPACE: u8 = 12;
const PUT_EXPIRING: u8 = 13;
const SPLIT_REGION: u8 = 14;
const HAS_REGIONS: u8 = 15;
const BEGIN_SPLIT_KEYSPACE: u8 = 16;
const BEGIN_SPLIT_REGION: u8 = 17;
const CANCEL_SPLIT: u8 = 18;

/// How the members of placed groups are encoded.
const ROWS: u8 = 0;
const RING: u8 = 1;

/// From this bit on, the byte with the number of followers also has the state of the group.
const GROUP_STATE_SHIFT: u32 = 6;
const GROUP_STATES: [(u8, GroupState); 3] =
    [(0, GroupState::Stable), (1, GroupState::Admitting), (2, GroupState::Recovering)];
const _: () = assert!(crate::limits::GROUP_MEMBERS_MAX < 1 << GROUP_STATE_SHIFT);

/// Numbers in the format; they never change.
const HASHES: [(u8, HashKind); 5] = [
    (0, HashKind::Xxh3),
    (1, HashKind::Fnv1a),
    (2, HashKind::Jenkins),
    (3, HashKind::Sdbm),
    (4, HashKind::Crc16),
];
const STATES: [(u8, NodeState); 3] = [(0, NodeState::Up), (1, NodeState::Draining), (2, NodeState::Down)];
/// The bit of a configuration's hash that says that the keyspace is ordered.
const ORDERED: u8 = 0x80;
/// The bit that says that an ordered keyspace has separators.
const SEPARATED: u8 = 0x40;
/// The bit that says that the keyspace has a history.
const WITH_HISTORY: u8 = 0x20;
const MEMORY: u8 = 0;
const INTERVAL: u8 = 1;
const SYNC: u8 = 2;

impl ClusterMap {
    /// The complete map, encoded as a delta from epoch zero; `docs/formats/cluster-map.md`.
    pub fn encode(&self) -> Vec<u8> {
        self.to_delta().encode()
    }

    /// Decodes the output of [`ClusterMap::encode`]. For any other bytes it returns an error that says what is wrong.
    pub fn decode(bytes: &[u8]) -> Result<ClusterMap, DecodeError> {
        Ok(ClusterMap::default().apply(&MapDelta::decode(bytes)?)?)
    }
}

impl MapDelta {
    /// Encodes the delta; the format is in `docs/formats/cluster-map.md`.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&version_needed(&self.changes).to_le_bytes());
        bytes.extend_from_slice(&[group_runs::form_needed(&self.changes), 0]);
        bytes.extend_from_slice(&self.from.get().to_le_bytes());
        bytes.extend_from_slice(&self.to.get().to_le_bytes());
        group_runs::write_items(&mut bytes, &self.changes);
        bytes
    }

    /// Decodes the output of [`MapDelta::encode`]. For any other bytes it returns an error that says what is wrong. Only [`ClusterMap::apply`] can
    /// check whether the changes are valid.
    pub fn decode(bytes: &[u8]) -> Result<MapDelta, DecodeError> {
        let mut reader = read::MapReader::new(bytes)?;
        if reader.array()? != MAGIC {
            return Err(DecodeError::Magic);
        }
        let version = u16::from_le_bytes(reader.array()?);
        if !(VERSION..=VERSION_HISTORY).contains(&version) {
            return Err(DecodeError::Version { found: version });
        }
        let [form, 0] = reader.array()? else { return Err(DecodeError::Reserved) };
        if form > group_runs::FORM_RUNS {
            return Err(DecodeError::Unknown { what: "form of a delta", number: u32::from(form) });
        }
        let (from, to) = (MapEpoch(reader.u64()?), MapEpoch(reader.u64()?));
        let count = reader.count("changes", CHANGES_MAX, CHANGE_BYTES_MIN)?;
        // A change is larger in memory than its shortest encoding, so the vector grows with the decoded bytes.
        let mut changes = Vec::new();
        for left in (0..count).rev() {
            match reader.u8()? {
                group_runs::SET_GROUPS if form == group_runs::FORM_RUNS => {
                    let room = CHANGES_MAX.saturating_sub(changes.len() + left);
                    group_runs::read_run(&mut reader, room, &mut changes)?;
                }
                kind => changes.push(read::change(kind, &mut reader)?),
            }
        }
        reader.end()?;
        if version != version_needed(&changes) {
            return Err(DecodeError::VersionNeeded { found: version });
        }
        let delta = MapDelta { from, to, changes };
        // Lists of members may occur twice, and numbers in more bytes than they need.
        let is_one_form = match form {
            group_runs::FORM_LISTED => group_runs::form_needed(&delta.changes) == form,
            _ => delta.encode() == bytes,
        };
        if !is_one_form {
            return Err(DecodeError::Run { what: "the delta has another form than its changes need" });
        }
        Ok(delta)
    }
}

fn version_needed(changes: &[MapChange]) -> u16 {
    let configs = || {
        changes.iter().filter_map(|change| match change {
            MapChange::CreateKeyspace { config, .. } | MapChange::AlterKeyspace { config, .. } => {
                Some(config)
            }
            _ => None,
        })
    };
    let splits_regions =
        |change: &MapChange| matches!(change, MapChange::SplitRegion { .. } | MapChange::HasRegions { .. });
    let is_of_pending =
        |change: &MapChange| matches!(change, MapChange::BeginSplit { .. } | MapChange::CancelSplit(_));
    if configs().any(|config| !config.history.is_none()) {
        return VERSION_HISTORY;
    }
    if changes.iter().any(is_of_pending) {
        return VERSION_PENDING_SPLITS;
    }
    if changes.iter().any(splits_regions) {
        return VERSION_REGIONS;
    }
    if configs().any(|config| !config.separators.is_empty()) {
        return VERSION_SEPARATORS;
    }
    if configs().any(|config| config.order == KeyOrder::Ordered) {
        return VERSION_ORDERED;
    }
    let expires = |change: &MapChange| matches!(change, MapChange::PutToken(token) if token.expiry.is_some());
    if changes.iter().any(expires) {
        return VERSION_EXPIRY;
    }
    if changes.iter().any(|change| matches!(change, MapChange::BeginDropKeyspace(_))) {
        return VERSION_DROPPING;
    }
    if changes.iter().any(|change| matches!(change, MapChange::PutToken(_) | MapChange::RemoveToken(_))) {
        return VERSION_TOKENS;
    }
    let placed = |change: &MapChange| match change {
        MapChange::CreateKeyspace { groups, .. } => groups.table().parts().0.is_some(),
        _ => false,
    };
    if changes.iter().any(placed) {
        return VERSION_PLACED;
    }
    if changes.iter().any(|change| matches!(change, MapChange::HasSplit { .. })) {
        return VERSION_HAS_SPLIT;
    }
    let old = changes.iter().all(|change| match change {
        MapChange::CreateKeyspace { groups, .. } => {
            groups.table().parts().1.all(|(_, group)| group.state == GroupState::Stable)
        }
        MapChange::SetGroup { group, .. } => group.state == GroupState::Stable,
        MapChange::SplitKeyspace(_) => false,
        _ => true,
    });
    if old { VERSION } else { VERSION_GROUP_STATES }
}

fn write_change(bytes: &mut Vec<u8>, change: &MapChange) {
    match change {
        MapChange::PutNode(node) => write_node(bytes, node),
        MapChange::RemoveNode(id) => {
            bytes.push(REMOVE_NODE);
            bytes.extend_from_slice(&id.get().to_le_bytes());
        }
        MapChange::CreateKeyspace { id, config, groups } => {
            let (placed, listed) = groups.table().parts();
            bytes.push(if placed.is_some() { CREATE_PLACED } else { CREATE_KEYSPACE });
            bytes.extend_from_slice(&id.get().to_le_bytes());
            write_config(bytes, config);
            if let Some(placed) = placed {
                write_placed(bytes, placed);
            }
            for (partition, group) in listed {
                if placed.is_some() {
                    bytes.extend_from_slice(&partition.get().to_le_bytes());
                }
                write_group(bytes, group);
            }
        }
        MapChange::AlterKeyspace { id, config } => {
            bytes.push(ALTER_KEYSPACE);
            bytes.extend_from_slice(&id.get().to_le_bytes());
            write_config(bytes, config);
        }
        MapChange::DropKeyspace(id) => {
            bytes.push(DROP_KEYSPACE);
            bytes.extend_from_slice(&id.get().to_le_bytes());
        }
        MapChange::SetGroup { keyspace, partition, group } => {
            bytes.push(SET_GROUP);
            bytes.extend_from_slice(&keyspace.get().to_le_bytes());
            bytes.extend_from_slice(&partition.get().to_le_bytes());
            write_group(bytes, group.as_group());
        }
        MapChange::SplitKeyspace(id) => {
            bytes.push(SPLIT_KEYSPACE);
            bytes.extend_from_slice(&id.get().to_le_bytes());
        }
        MapChange::HasSplit { keyspace, splits } => {
            bytes.push(HAS_SPLIT);
            bytes.extend_from_slice(&keyspace.get().to_le_bytes());
            bytes.push(*splits);
        }
        MapChange::SplitRegion { keyspace, region, separator, share } => {
            bytes.push(SPLIT_REGION);
            write_region_split(bytes, (*keyspace, *region), separator, *share);
        }
        MapChange::HasRegions { keyspace, table } => {
            bytes.push(HAS_REGIONS);
            bytes.extend_from_slice(&keyspace.get().to_le_bytes());
            write_regions(bytes, table);
        }
        MapChange::BeginDropKeyspace(id) => {
            bytes.push(BEGIN_DROP_KEYSPACE);
            bytes.extend_from_slice(&id.get().to_le_bytes());
        }
        MapChange::BeginSplit { keyspace, split: PendingSplit::Keyspace } => {
            bytes.push(BEGIN_SPLIT_KEYSPACE);
            bytes.extend_from_slice(&keyspace.get().to_le_bytes());
        }
        MapChange::BeginSplit { keyspace, split: PendingSplit::Region { region, separator, share } } => {
            bytes.push(BEGIN_SPLIT_REGION);
            write_region_split(bytes, (*keyspace, *region), separator, *share);
        }
        MapChange::CancelSplit(id) => {
            bytes.push(CANCEL_SPLIT);
            bytes.extend_from_slice(&id.get().to_le_bytes());
        }
        MapChange::PutToken(token) => {
            bytes.push(if token.expiry.is_some() { PUT_EXPIRING } else { PUT_TOKEN });
            bytes.extend_from_slice(&token.id.to_le_bytes());
            if let Some(expiry) = token.expiry {
                bytes.extend_from_slice(&expiry.at_ms.to_le_bytes());
                bytes.push(u8::from(expiry.has_passed));
            }
            write_text(bytes, token.name.as_str());
            bytes.push(byte(token.grants().len(), "a token has at most 64 grants"));
            for grant in token.grants() {
                bytes.extend_from_slice(&grant.keyspace.get().to_le_bytes());
                bytes.push(grant.permissions.bits());
            }
        }
        MapChange::RemoveToken(id) => {
            bytes.push(REMOVE_TOKEN);
            bytes.extend_from_slice(&id.to_le_bytes());
        }
    }
}

fn write_region_split(
    bytes: &mut Vec<u8>,
    (keyspace, region): (KeyspaceId, PartitionId),
    separator: &[u8],
    share: u8,
) {
    bytes.extend_from_slice(&keyspace.get().to_le_bytes());
    bytes.extend_from_slice(&region.get().to_le_bytes());
    bytes.push(share);
    bytes.push(byte(separator.len() - 1, "a separator has 1 to 256 bytes"));
    bytes.extend_from_slice(separator);
}

fn write_regions(bytes: &mut Vec<u8>, table: &RegionTable) {
    bytes.extend_from_slice(&table.next().to_le_bytes());
    for count in [table.live().len(), table.retired().len()] {
        let count = u32::try_from(count).expect("numbers of regions have 24 bits");
        bytes.extend_from_slice(&count.to_le_bytes());
    }
    for region in table.live() {
        bytes.extend_from_slice(&region.number.to_le_bytes());
        bytes.push(region.generation);
        bytes.extend_from_slice(&region.first.to_le_bytes());
    }
    for region in table.retired() {
        bytes.extend_from_slice(&region.number.to_le_bytes());
        bytes.extend_from_slice(&region.first.to_le_bytes());
        bytes.extend_from_slice(&region.last.to_le_bytes());
    }
}

fn write_placed(bytes: &mut Vec<u8>, placed: &GroupShape) {
    bytes.extend_from_slice(&placed.epoch.get().to_le_bytes());
    bytes.extend_from_slice(&[placed.in_sync, placed.followers]);
    match &placed.members {
        Members::Rows(rows) => {
            bytes.push(ROWS);
            bytes.extend(rows.iter().flat_map(|member| member.get().to_le_bytes()));
        }
        Members::Ring(ring, _) => {
            bytes.push(RING);
            for number in [ring.first.get(), ring.count, ring.step, ring.first_position] {
                bytes.extend_from_slice(&number.to_le_bytes());
            }
            bytes.push(ring.splits);
        }
    }
    let count = u32::try_from(placed.changed.len()).expect("a keyspace has fewer than 2^32 partitions");
    bytes.extend_from_slice(&count.to_le_bytes());
}

fn write_node(bytes: &mut Vec<u8>, node: &Node) {
    bytes.push(PUT_NODE);
    bytes.extend_from_slice(&node.id.get().to_le_bytes());
    bytes.extend_from_slice(&node.incarnation.get().to_le_bytes());
    bytes.extend_from_slice(&node.first_instance.get().to_le_bytes());
    bytes.push(number_of(&STATES, node.state));
    bytes.push(byte(node.instances.len(), "a node has at most 255 instances"));
    write_text(bytes, node.manager.as_str());
    for instance in &node.instances {
        write_text(bytes, instance.as_str());
    }
}

fn write_config(bytes: &mut Vec<u8>, config: &KeyspaceConfig) {
    let (durability, interval_ms) = match config.durability {
        Durability::Memory => (MEMORY, 0),
        Durability::Interval { ms } => (INTERVAL, ms),
        Durability::Sync => (SYNC, 0),
    };
    write_text(bytes, config.name.as_str());
    // The regions of an ordered keyspace are counted by its separators.
    let (bits, order) = match config.order {
        KeyOrder::Hashed => (config.partitions.bits() as u8, 0),
        KeyOrder::Ordered if config.separators.is_empty() => (0, ORDERED),
        KeyOrder::Ordered => (0, ORDERED | SEPARATED),
    };
    bytes.push(bits);
    let history = if config.history.is_none() { 0 } else { WITH_HISTORY };
    bytes.push(number_of(&HASHES, config.hash) | order | history);
    bytes.extend_from_slice(&config.seed.to_le_bytes());
    bytes.extend_from_slice(&[config.replicas, config.min_in_sync, durability]);
    for number in [interval_ms, config.chunk_bytes, config.batch_delay_us, config.batch_bytes] {
        bytes.extend_from_slice(&number.to_le_bytes());
    }
    if history != 0 {
        bytes.extend_from_slice(&config.history.ms.to_le_bytes());
        bytes.extend_from_slice(&config.history.bytes.to_le_bytes());
    }
    if !config.separators.is_empty() {
        let count = u16::try_from(config.separators.len()).expect("there are fewer than 4096 separators");
        bytes.extend_from_slice(&count.to_le_bytes());
        for separator in config.separators.iter() {
            bytes.push(byte(separator.len() - 1, "a separator has 1 to 256 bytes"));
            bytes.extend_from_slice(separator);
        }
    }
}

fn write_group(bytes: &mut Vec<u8>, group: Group<'_>) {
    bytes.extend_from_slice(&group.epoch.get().to_le_bytes());
    write_roles(bytes, group);
}

/// The group without its epoch.
fn write_roles(bytes: &mut Vec<u8>, group: Group<'_>) {
    bytes.push(byte(group.in_sync.len(), "a group has at most 16 members"));
    let state = number_of(&GROUP_STATES, group.state) << GROUP_STATE_SHIFT;
    bytes.push(byte(group.followers.len(), "a group has at most 16 members") | state);
    for member in group.members() {
        bytes.extend_from_slice(&member.get().to_le_bytes());
    }
}

fn write_text(bytes: &mut Vec<u8>, text: &str) {
    bytes.push(byte(text.len(), "names and addresses have at most 255 bytes"));
    bytes.extend_from_slice(text.as_bytes());
}

/// A delta with a larger number was never valid: truncating the number would write wrong bytes.
fn byte(number: usize, invariant: &str) -> u8 {
    u8::try_from(number).expect(invariant)
}

fn number_of<T: PartialEq>(numbers: &[(u8, T)], value: T) -> u8 {
    numbers
        .iter()
        .find(|(_, known)| *known == value)
        .map(|(number, _)| *number)
        .expect("every variant has a number")
}
