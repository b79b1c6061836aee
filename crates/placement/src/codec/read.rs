//! Decoding, field by field. This code trusts no number that it has read.

use zerohop_base::bytes::Reader;
use zerohop_wire::ids::{Incarnation, InstanceId, KeyspaceId, NodeId, PartitionEpoch, PartitionId};

use super::{
    ALTER_KEYSPACE, BEGIN_DROP_KEYSPACE, BEGIN_SPLIT_KEYSPACE, BEGIN_SPLIT_REGION, CANCEL_SPLIT,
    CREATE_KEYSPACE, CREATE_PLACED, DROP_KEYSPACE, DecodeError, GROUP_STATE_SHIFT, GROUP_STATES, HAS_REGIONS,
    HAS_SPLIT, HASHES, INTERVAL, MEMORY, ORDERED, PUT_EXPIRING, PUT_NODE, PUT_TOKEN, REMOVE_NODE,
    REMOVE_TOKEN, RING, ROWS, SEPARATED, SET_GROUP, SPLIT_KEYSPACE, SPLIT_REGION, STATES, SYNC, WITH_HISTORY,
};
use crate::keyspace::{ChangeHistory, Durability, KeyOrder, KeyspaceConfig, KeyspaceName};
use crate::layout::{
    EXCEPTION_BYTES, GRANT_BYTES, GROUP_BYTES_MIN, LIVE_REGION_BYTES, RETIRED_REGION_BYTES,
    SEPARATOR_BYTES_MIN,
};
use crate::limits::{
    GROUP_MEMBERS_MAX, INSTANCES_PER_NODE_MAX, MAP_BYTES_MAX, PLACED_PARTITIONS_MIN, REGIONS_MAX,
};
use crate::map::{
    Address, Grant, GroupFault, GroupShape, Groups, MapChange, Members, Node, PendingSplit, Permissions,
    ReplicaGroup, Ring, Table, TokenEntry, TokenExpiry,
};
use crate::partitions::PartitionCount;
use crate::regions::{LiveRegion, RegionTable, RetiredRegion};
use crate::separators::Separators;

/// A position in the bytes.
pub(super) struct MapReader<'a> {
    fields: Reader<'a>,
}

impl<'a> MapReader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Result<MapReader<'a>, DecodeError> {
        match bytes.len() {
            length if length > MAP_BYTES_MAX => Err(DecodeError::TooLong { bytes: length }),
            _ => Ok(MapReader { fields: Reader::new(bytes) }),
        }
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        self.fields.array().ok_or_else(|| self.cut())
    }

    pub(super) fn u64(&mut self) -> Result<u64, DecodeError> {
        self.array().map(u64::from_le_bytes)
    }

    /// A 32-bit count of elements that have at least `bytes_min` bytes each.
    pub(super) fn count(
        &mut self,
        what: &'static str,
        limit: usize,
        bytes_min: usize,
    ) -> Result<usize, DecodeError> {
        let count = self.u32()? as usize;
        if count > limit {
            return Err(DecodeError::TooMany { what, count, limit });
        }
        self.check_count(count, bytes_min)?;
        Ok(count)
    }

    pub(super) fn end(&self) -> Result<(), DecodeError> {
        match self.fields.rest().len() {
            0 => Ok(()),
            bytes => Err(DecodeError::Trailing { bytes }),
        }
    }

    pub(super) fn u32(&mut self) -> Result<u32, DecodeError> {
        self.array().map(u32::from_le_bytes)
    }

    pub(super) fn u8(&mut self) -> Result<u8, DecodeError> {
        self.array().map(|[byte]| byte)
    }

    fn text(&mut self) -> Result<&'a str, DecodeError> {
        let length = usize::from(self.u8()?);
        let at = self.fields.position();
        let bytes = self.fields.bytes(length).ok_or_else(|| self.cut())?;
        std::str::from_utf8(bytes).map_err(|_| DecodeError::Text { at })
    }

    fn known<T: Copy>(&mut self, what: &'static str, numbers: &[(u8, T)]) -> Result<T, DecodeError> {
        known(what, self.u8()?, numbers)
    }

    /// The check before memory is allocated for `count` elements.
    fn check_count(&self, count: usize, bytes_min: usize) -> Result<(), DecodeError> {
        match self.fields.rest().len() / bytes_min {
            room if room < count => Err(self.cut()),
            _ => Ok(()),
        }
    }

    /// The error of bytes that end before their fields do: `at` is their end.
    fn cut(&self) -> DecodeError {
        DecodeError::Truncated { at: self.fields.position() + self.fields.rest().len() }
    }
}

/// The change of this kind, which is read already.
pub(super) fn change(kind: u8, reader: &mut MapReader<'_>) -> Result<MapChange, DecodeError> {
    Ok(match kind {
        PUT_NODE => MapChange::PutNode(node(reader)?),
        REMOVE_NODE => MapChange::RemoveNode(NodeId(reader.u32()?)),
        CREATE_KEYSPACE => {
            let id = KeyspaceId(reader.u32()?);
            let config = config(reader)?;
            reader.check_count(config.partitions.get() as usize, GROUP_BYTES_MIN)?;
            let groups = (0..config.partitions.get())
                .map(|at| group(reader, PartitionId(at)))
                .collect::<Result<Vec<_>, _>>()?;
            MapChange::CreateKeyspace { id, config, groups: Groups::of_table(Table::listed(&groups)) }
        }
        CREATE_PLACED => {
            let id = KeyspaceId(reader.u32()?);
            let config = config(reader)?;
            let groups = placed(reader, config.partitions.get())?;
            MapChange::CreateKeyspace { id, config, groups }
        }
        ALTER_KEYSPACE => MapChange::AlterKeyspace { id: KeyspaceId(reader.u32()?), config: config(reader)? },
        DROP_KEYSPACE => MapChange::DropKeyspace(KeyspaceId(reader.u32()?)),
        SET_GROUP => {
            let keyspace = KeyspaceId(reader.u32()?);
            let partition = PartitionId(reader.u32()?);
            MapChange::SetGroup { keyspace, partition, group: group(reader, partition)? }
        }
        SPLIT_KEYSPACE => MapChange::SplitKeyspace(KeyspaceId(reader.u32()?)),
        HAS_SPLIT => MapChange::HasSplit { keyspace: KeyspaceId(reader.u32()?), splits: reader.u8()? },
        SPLIT_REGION => {
            let (keyspace, split) = region_split(reader)?;
            split.into_change(keyspace)
        }
        HAS_REGIONS => {
            let keyspace = KeyspaceId(reader.u32()?);
            MapChange::HasRegions { keyspace, table: Box::new(regions(reader)?) }
        }
        BEGIN_DROP_KEYSPACE => MapChange::BeginDropKeyspace(KeyspaceId(reader.u32()?)),
        BEGIN_SPLIT_KEYSPACE => {
            MapChange::BeginSplit { keyspace: KeyspaceId(reader.u32()?), split: PendingSplit::Keyspace }
        }
        BEGIN_SPLIT_REGION => {
            let (keyspace, split) = region_split(reader)?;
            MapChange::BeginSplit { keyspace, split }
        }
        CANCEL_SPLIT => MapChange::CancelSplit(KeyspaceId(reader.u32()?)),
        PUT_TOKEN => MapChange::PutToken(token(reader, false)?),
        PUT_EXPIRING => MapChange::PutToken(token(reader, true)?),
        REMOVE_TOKEN => MapChange::RemoveToken(reader.u64()?),
        number => return Err(DecodeError::Unknown { what: "kind of change", number: u32::from(number) }),
    })
}

fn region_split(reader: &mut MapReader<'_>) -> Result<(KeyspaceId, PendingSplit), DecodeError> {
    let (keyspace, region) = (KeyspaceId(reader.u32()?), PartitionId(reader.u32()?));
    let [share, below] = reader.array()?;
    let separator = reader.fields.bytes(usize::from(below) + 1).ok_or_else(|| reader.cut())?.into();
    Ok((keyspace, PendingSplit::Region { region, separator, share }))
}

fn token(reader: &mut MapReader<'_>, expires: bool) -> Result<TokenEntry, DecodeError> {
    let id = reader.u64()?;
    let expiry = if expires { Some(expiry(reader)?) } else { None };
    let name = KeyspaceName::new(reader.text()?).map_err(DecodeError::Name)?;
    let count = usize::from(reader.u8()?);
    reader.check_count(count, GRANT_BYTES)?;
    let mut grants = Vec::new();
    for _ in 0..count {
        let keyspace = KeyspaceId(reader.u32()?);
        let bits = reader.u8()?;
        let unknown = DecodeError::Unknown { what: "set of permissions", number: u32::from(bits) };
        grants.push(Grant { keyspace, permissions: Permissions::from_bits(bits).ok_or(unknown)? });
    }
    let is_sorted = grants.is_sorted();
    let mut token = TokenEntry::new(id, name, grants).filter(|_| is_sorted).ok_or(DecodeError::Token)?;
    token.expiry = expiry;
    Ok(token)
}

fn expiry(reader: &mut MapReader<'_>) -> Result<TokenExpiry, DecodeError> {
    let at_ms = reader.u64()?;
    match reader.u8()? {
        passed @ 0..=1 => Ok(TokenExpiry { at_ms, has_passed: passed == 1 }),
        number => Err(DecodeError::Unknown { what: "state of a token", number: u32::from(number) }),
    }
}

fn regions(reader: &mut MapReader<'_>) -> Result<RegionTable, DecodeError> {
    let next = reader.u32()?;
    let (live, retired) = (reader.u32()? as usize, reader.u32()? as usize);
    reader.check_count(live, LIVE_REGION_BYTES)?;
    reader.check_count(retired, RETIRED_REGION_BYTES)?;
    let live = (0..live).map(|_| {
        let (number, generation, first) = (reader.u32()?, reader.u8()?, reader.u64()?);
        Ok(LiveRegion { number, generation, first })
    });
    let live = live.collect::<Result<Vec<_>, DecodeError>>()?;
    let retired = (0..retired).map(|_| {
        let (number, first, last) = (reader.u32()?, reader.u64()?, reader.u64()?);
        Ok(RetiredRegion { number, first, last })
    });
    let retired = retired.collect::<Result<Vec<_>, DecodeError>>()?;
    RegionTable::new(live, retired, next).map_err(|_| DecodeError::Regions)
}

fn placed(reader: &mut MapReader<'_>, partitions: u32) -> Result<Groups, DecodeError> {
    let epoch = PartitionEpoch(reader.u64()?);
    let [in_sync, followers, layout] = reader.array()?;
    let members = 1 + usize::from(in_sync) + usize::from(followers);
    if members > GROUP_MEMBERS_MAX {
        return Err(DecodeError::Group { partition: PartitionId(0), fault: GroupFault::TooMany { members } });
    }
    if partitions < PLACED_PARTITIONS_MIN {
        return Err(DecodeError::Placed { what: "of so few partitions each group is listed" });
    }
    let layout = match layout {
        ROWS => {
            let count = partitions as usize * members;
            reader.check_count(count, size_of::<InstanceId>())?;
            let rows = (0..count).map(|_| reader.u32().map(InstanceId)).collect::<Result<_, _>>()?;
            Members::Rows(rows)
        }
        RING => {
            let first = InstanceId(reader.u32()?);
            let (count, step, turn) = (reader.u32()?, reader.u32()?, reader.u32()?);
            let ring = Ring { first, count, step, first_position: turn, splits: reader.u8()? };
            if !ring.is_valid(members, partitions) {
                return Err(DecodeError::Placed { what: "there is no such ring" });
            }
            Members::Ring(ring, [].into())
        }
        number => {
            return Err(DecodeError::Unknown { what: "way to tell members", number: u32::from(number) });
        }
    };
    let limit = partitions as usize / 2;
    let count = reader.count("exceptions", limit, EXCEPTION_BYTES + GROUP_BYTES_MIN)?;
    let (mut changed, mut exceptions) = (Vec::new(), Vec::new());
    for _ in 0..count {
        let partition = reader.u32()?;
        let is_next = changed.last().is_none_or(|last| *last < partition) && partition < partitions;
        let exception = group(reader, PartitionId(partition))?;
        if !is_next || exception.epoch < epoch {
            return Err(DecodeError::Placed {
                what: "exceptions are out of order, or older than the others",
            });
        }
        changed.push(partition);
        exceptions.push(exception);
    }
    let placed = GroupShape { partitions, epoch, in_sync, followers, members: layout, changed };
    Ok(Groups::of_table(Table::placed(placed, &exceptions)))
}

fn node(reader: &mut MapReader<'_>) -> Result<Node, DecodeError> {
    let id = NodeId(reader.u32()?);
    let incarnation = Incarnation(reader.u64()?);
    let first_instance = InstanceId(reader.u32()?);
    let state = reader.known("state of a node", &STATES)?;
    let count = usize::from(reader.u8()?);
    const { assert!(INSTANCES_PER_NODE_MAX == u8::MAX as usize) };
    let manager = address(reader)?;
    reader.check_count(count, 1)?;
    let instances = (0..count).map(|_| address(reader)).collect::<Result<_, _>>()?;
    Ok(Node { id, state, incarnation, manager, first_instance, instances })
}

fn address(reader: &mut MapReader<'_>) -> Result<Address, DecodeError> {
    Address::new(reader.text()?).map_err(DecodeError::Address)
}

fn config(reader: &mut MapReader<'_>) -> Result<KeyspaceConfig, DecodeError> {
    let name = KeyspaceName::new(reader.text()?).map_err(DecodeError::Name)?;
    let partitions = partitions(reader.u8()?)?;
    let byte = reader.u8()?;
    let (has_history, byte) = (byte & WITH_HISTORY != 0, byte & !WITH_HISTORY);
    let (order, is_separated, hash) = match byte & ORDERED {
        0 => (KeyOrder::Hashed, false, byte),
        _ => (KeyOrder::Ordered, byte & SEPARATED != 0, byte & !(ORDERED | SEPARATED)),
    };
    let hash = known("hash function", hash, &HASHES)?;
    let seed = reader.u64()?;
    let [replicas, min_in_sync, durability] = reader.array()?;
    let interval_ms = reader.u32()?;
    let mut config = KeyspaceConfig {
        name,
        partitions,
        order,
        separators: Separators::NONE,
        hash,
        seed,
        replicas,
        min_in_sync,
        durability: match durability {
            INTERVAL => Durability::Interval { ms: interval_ms },
            // Each value has only one encoding: an unused field is zero.
            MEMORY | SYNC if interval_ms != 0 => return Err(DecodeError::Reserved),
            MEMORY => Durability::Memory,
            SYNC => Durability::Sync,
            number => return Err(DecodeError::Unknown { what: "durability", number: u32::from(number) }),
        },
        chunk_bytes: reader.u32()?,
        batch_delay_us: reader.u32()?,
        batch_bytes: reader.u32()?,
        history: match has_history {
            true => ChangeHistory { ms: reader.u32()?, bytes: reader.u32()? },
            false => ChangeHistory::NONE,
        },
    };
    if has_history && config.history.is_none() {
        // Each value has only one encoding: without a history the bit is not set.
        return Err(DecodeError::Reserved);
    }
    config.check().map_err(DecodeError::Config)?;
    if is_separated {
        config = config.divided_at(separators(reader)?);
    }
    Ok(config)
}

fn separators(reader: &mut MapReader<'_>) -> Result<Separators, DecodeError> {
    let count = usize::from(u16::from_le_bytes(reader.array()?));
    let limit = REGIONS_MAX as usize - 1;
    match count {
        // Each value has only one encoding: without separators the bit is not set.
        0 => return Err(DecodeError::Reserved),
        count if count > limit => return Err(DecodeError::TooMany { what: "separators", count, limit }),
        _ => reader.check_count(count, SEPARATOR_BYTES_MIN)?,
    }
    let mut keys = Vec::new();
    for _ in 0..count {
        let length = usize::from(reader.u8()?) + 1;
        keys.push(reader.fields.bytes(length).ok_or_else(|| reader.cut())?);
    }
    Separators::new(keys).map_err(|error| DecodeError::Config(error.into()))
}

/// The value that has this number in the format.
fn known<T: Copy>(what: &'static str, number: u8, numbers: &[(u8, T)]) -> Result<T, DecodeError> {
    let found = numbers.iter().find(|(known, _)| *known == number).map(|(_, value)| *value);
    found.ok_or(DecodeError::Unknown { what, number: u32::from(number) })
}

fn partitions(bits: u8) -> Result<PartitionCount, DecodeError> {
    let requested = 1u32.checked_shl(u32::from(bits)).unwrap_or(u32::MAX);
    PartitionCount::new(requested).map_err(DecodeError::Partitions)
}

fn group(reader: &mut MapReader<'_>, partition: PartitionId) -> Result<ReplicaGroup, DecodeError> {
    let epoch = PartitionEpoch(reader.u64()?);
    roles(reader, partition, epoch)
}

/// The group of this epoch, which is read already.
pub(super) fn roles(
    reader: &mut MapReader<'_>,
    partition: PartitionId,
    epoch: PartitionEpoch,
) -> Result<ReplicaGroup, DecodeError> {
    let (in_sync, byte) = (usize::from(reader.u8()?), reader.u8()?);
    let number = byte >> GROUP_STATE_SHIFT;
    let followers = usize::from(byte & ((1 << GROUP_STATE_SHIFT) - 1));
    let state = GROUP_STATES
        .iter()
        .find(|(known, _)| *known == number)
        .map(|(_, state)| *state)
        .ok_or(DecodeError::Unknown { what: "state of a group", number: u32::from(number) })?;
    let members = 1 + in_sync + followers;
    if members > GROUP_MEMBERS_MAX {
        return Err(DecodeError::Group { partition, fault: GroupFault::TooMany { members } });
    }
    let primary = InstanceId(reader.u32()?);
    let mut some = |count| (0..count).map(|_| reader.u32().map(InstanceId)).collect::<Result<Vec<_>, _>>();
    Ok(ReplicaGroup { epoch, primary, in_sync: some(in_sync)?, followers: some(followers)?, state })
}
