//! Groups, their members and what they have committed.

use zerohop_base::bytes::Reader;
use zerohop_layer_procedure::Record;
use zerohop_layer_procedure::record::{only_format, read_list, write_list};

/// The name of a member: random, drawn by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemberId(pub [u8; 16]);

/// A member and the partitions that it reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupMember {
    /// The member.
    pub id: MemberId,
    /// Its first partition.
    pub first: u32,
    /// The number of its partitions.
    pub count: u32,
}

/// A group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupRecord {
    /// It rises with each change of the members or of their partitions.
    pub generation: u64,
    /// The number of partitions that are assigned.
    pub partitions: u32,
    /// The members, in the order of their ids.
    pub members: Vec<GroupMember>,
}

/// Until when a member counts as alive, in a record of its own: a heartbeat changes no other one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeartbeatRecord {
    /// The moment, in milliseconds since 1970.
    pub until: u64,
}

/// What a group has committed in a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffsetRecord {
    /// The offset of the next record to read.
    pub offset: u64,
    /// The generation of the member that committed it; 0 without one.
    pub generation: u64,
    /// When it was committed, in milliseconds since 1970.
    pub committed: u64,
}

impl Record for GroupRecord {
    fn write(&self, into: &mut Vec<u8>) {
        into.extend_from_slice(&self.generation.to_le_bytes());
        into.extend_from_slice(&self.partitions.to_le_bytes());
        write_list(into, &self.members, |into, member| {
            into.extend_from_slice(&member.id.0);
            into.extend_from_slice(&member.first.to_le_bytes());
            into.extend_from_slice(&member.count.to_le_bytes());
        });
    }

    fn read(format: u8, reader: &mut Reader<'_>) -> Option<Self> {
        only_format(format)?;
        Some(Self {
            generation: reader.u64()?,
            partitions: reader.u32()?,
            members: read_list(reader, 24, |reader| {
                Some(GroupMember {
                    id: MemberId(reader.array()?),
                    first: reader.u32()?,
                    count: reader.u32()?,
                })
            })?,
        })
    }
}

impl Record for HeartbeatRecord {
    fn write(&self, into: &mut Vec<u8>) {
        into.extend_from_slice(&self.until.to_le_bytes());
    }

    fn read(format: u8, reader: &mut Reader<'_>) -> Option<Self> {
        only_format(format)?;
        Some(Self { until: reader.u64()? })
    }
}

impl Record for OffsetRecord {
    fn write(&self, into: &mut Vec<u8>) {
        for number in [self.offset, self.generation, self.committed] {
            into.extend_from_slice(&number.to_le_bytes());
        }
    }

    fn read(format: u8, reader: &mut Reader<'_>) -> Option<Self> {
        only_format(format)?;
        Some(Self { offset: reader.u64()?, generation: reader.u64()?, committed: reader.u64()? })
    }
}
