//! The records of body sets and of bodies of uploads.

use zerohop_base::bytes::Reader;

use super::{PartRecord, Record, only_format, read_flag, read_list, write_list};
use crate::ids::BodyRange;

/// A body set.
///
/// `Pending` and `Open` become `Live` when an object first names the set. `Live` becomes `Dead` with its last reference, `Pending`
/// becomes `Dead` when its time is over, `Open` when its upload is aborted. A dead set never lives again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetRecord {
    /// The only body is being written. No byte of it is written after `until`.
    Pending {
        /// The last moment, in milliseconds since 1970.
        until: u64,
    },
    /// The set of an upload in progress.
    Open,
    /// Objects and copied parts name it.
    Live {
        /// How many.
        references: u64,
        /// It was an upload, and has a manifest.
        in_parts: bool,
    },
    /// Nothing names it. A timer deletes it.
    Dead {
        /// It was an upload.
        in_parts: bool,
        /// Readers may read it until then, in milliseconds since 1970; 0 until a sweep sets the time.
        until: u64,
    },
}

impl Record for SetRecord {
    fn write(&self, into: &mut Vec<u8>) {
        match self {
            Self::Pending { until } => {
                into.push(0);
                into.extend_from_slice(&until.to_le_bytes());
            }
            Self::Open => into.push(1),
            Self::Live { references, in_parts } => {
                into.push(2);
                into.extend_from_slice(&references.to_le_bytes());
                into.push(u8::from(*in_parts));
            }
            Self::Dead { in_parts, until } => {
                into.extend_from_slice(&[3, u8::from(*in_parts)]);
                into.extend_from_slice(&until.to_le_bytes());
            }
        }
    }

    fn read(format: u8, reader: &mut Reader<'_>) -> Option<Self> {
        only_format(format)?;
        Some(match reader.u8()? {
            0 => Self::Pending { until: reader.u64()? },
            1 => Self::Open,
            2 => Self::Live { references: reader.u64()?, in_parts: read_flag(reader)? },
            3 => Self::Dead { in_parts: read_flag(reader)?, until: reader.u64()? },
            _ => return None,
        })
    }
}

/// A body of an upload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyRecord {
    /// It is being written. No byte of it is written after `until`.
    Pending {
        /// The last moment, in milliseconds since 1970.
        until: u64,
    },
    /// The record of a part names it.
    Live {
        /// The number of the part.
        part: u16,
    },
    /// Nothing names it.
    Dead,
}

impl Record for BodyRecord {
    fn write(&self, into: &mut Vec<u8>) {
        match self {
            Self::Pending { until } => {
                into.push(0);
                into.extend_from_slice(&until.to_le_bytes());
            }
            Self::Live { part } => {
                into.push(1);
                into.extend_from_slice(&part.to_le_bytes());
            }
            Self::Dead => into.push(2),
        }
    }

    fn read(format: u8, reader: &mut Reader<'_>) -> Option<Self> {
        only_format(format)?;
        Some(match reader.u8()? {
            0 => Self::Pending { until: reader.u64()? },
            1 => Self::Live { part: reader.u16()? },
            2 => Self::Dead,
            _ => return None,
        })
    }
}

/// The parts of a completed upload, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Manifest {
    /// The parts.
    pub parts: Vec<PartRecord>,
}

impl Manifest {
    /// The places of `length` bytes from `offset` on.
    #[must_use]
    pub fn ranges(&self, offset: u64, length: u64) -> Vec<BodyRange> {
        cut(self.parts.iter().flat_map(|part| &part.ranges), offset, length)
    }
}

/// The places of `length` bytes from `offset` on, in the concatenation of `ranges`.
pub(crate) fn cut<'a>(
    ranges: impl IntoIterator<Item = &'a BodyRange>,
    offset: u64,
    length: u64,
) -> Vec<BodyRange> {
    let (mut skip, mut left) = (offset, length);
    let mut found = Vec::new();
    for range in ranges {
        let skipped = skip.min(range.length);
        skip -= skipped;
        let length = (range.length - skipped).min(left);
        if length > 0 {
            left -= length;
            found.push(BodyRange { offset: range.offset.saturating_add(skipped), length, ..*range });
        }
    }
    found
}

impl Record for Manifest {
    fn write(&self, into: &mut Vec<u8>) {
        write_list(into, &self.parts, |into, part| part.write(into));
    }

    fn read(format: u8, reader: &mut Reader<'_>) -> Option<Self> {
        only_format(format)?;
        Some(Self { parts: read_list(reader, 1, |reader| PartRecord::read(format, reader))? })
    }
}
