//! The file of a checkpoint round: sections of many partitions, then a directory.
//!
//! Header, 64 bytes:
//!
//! | offset | bytes | field |
//! | ---: | ---: | --- |
//! | 0 | 8 | `zerohrnd` |
//! | 8 | 4 | format version, 1 |
//! | 12 | 4 | salt of this round |
//! | 16 | 8 | number of the round |
//! | 24 | 16 | id of the log |
//! | 40 | 20 | zero |
//! | 60 | 4 | CRC-32C of bytes 0 to 60 |
//!
//! A section is the blocks of one partition, as in `docs/formats/checkpoint.md`. Only the directory says where sections are, so a file
//! without one has none: they refer to entries that need not survive a crash. `docs/formats/round.md` has the directory.

use crate::log::entry::{crc, u32_at, u64_at};
use crate::log::shared::format::{HEADER_BYTES, LogId, LogPartition, SEGMENT_NUMBER_END, salt_of, u48_at};
use crate::log::shared::local::{Creation, LogMark, MarkRow, StreamEnd, VoidRange};
use crate::log::shared::streams::LogPlace;

const MAGIC: &[u8; 8] = b"zerohrnd";
const TRAILER_MAGIC: &[u8; 4] = b"zhrt";
const VERSION: u32 = 1;
const FIXED_BYTES: usize = 3 * 12 + 3 * 8 + 8 + 4 + 4 * 4;
const SECTION_ROW_BYTES: usize = 58;
/// Bytes of the trailer.
pub const ROUND_TRAILER_BYTES: usize = 24;

/// The header of the file of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoundHeader {
    /// Its number, from 1; later rounds have higher ones.
    pub number: u64,
    /// The log.
    pub log: LogId,
}

impl RoundHeader {
    /// Xored into checksums: that of a segment of this number, with its bits turned over.
    #[must_use]
    pub fn salt(&self) -> u32 {
        !salt_of(self.log, self.number)
    }

    /// The header as bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut out = [0; HEADER_BYTES];
        out[0..8].copy_from_slice(MAGIC);
        out[8..12].copy_from_slice(&VERSION.to_le_bytes());
        out[12..16].copy_from_slice(&self.salt().to_le_bytes());
        out[16..24].copy_from_slice(&self.number.to_le_bytes());
        out[24..40].copy_from_slice(&self.log.0);
        let sum = crc(&out[..60]);
        out[60..64].copy_from_slice(&sum.to_le_bytes());
        out
    }

    /// Reads a header.
    ///
    /// # Errors
    /// In words, what is wrong with it.
    pub fn decode(bytes: &[u8]) -> Result<RoundHeader, String> {
        let Some(bytes) = bytes.first_chunk::<HEADER_BYTES>() else {
            return Err(format!("{} bytes are too few for the header of a round", bytes.len()));
        };
        if &bytes[0..8] != MAGIC {
            return Err("not a checkpoint round".into());
        }
        if crc(&bytes[..60]) != u32_at(bytes, 60) {
            return Err("the header of the round is damaged".into());
        }
        let version = u32_at(bytes, 8);
        if version != VERSION {
            return Err(format!(
                "round format {version} is not known here (known: {VERSION}); use a newer zerohop"
            ));
        }
        let mut log = LogId::default();
        log.0.copy_from_slice(&bytes[24..40]);
        let header = RoundHeader { number: u64_at(bytes, 16), log };
        let is_sound = header.salt() == u32_at(bytes, 12)
            && bytes[40..60] == [0; 20]
            && (1..SEGMENT_NUMBER_END).contains(&header.number);
        if is_sound { Ok(header) } else { Err("the header of the round contradicts itself".into()) }
    }
}

/// The checkpoint of one log partition in the file of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SectionRow {
    /// The log partition.
    pub number: LogPartition,
    /// Epoch of the entry of `commit`.
    pub epoch: u32,
    /// Every entry up to this log index is in it.
    pub commit: u64,
    /// The round whose file has it.
    pub round: u64,
    /// Where in the file it begins.
    pub offset: u64,
    /// Its length.
    pub bytes: u64,
    /// The CRC-32C of its bytes.
    pub crc: u32,
    /// Copies of compaction from here on in the cold stream are newer than its places.
    pub cold: LogPlace,
}

/// What a round says of the whole log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RoundDirectory {
    /// The ends of the streams, as in a mark.
    pub ends: [StreamEnd; 3],
    /// The first segment of each stream that has entries which no newest section covers, or that had none yet.
    pub tail: [u64; 3],
    /// A number above those of all segments so far. A segment that a crash has lost leaves no other trace, and one with its number
    /// again could be below the tail.
    pub next_segment: u64,
    /// A number above those of all log partitions so far.
    pub next_number: u32,
    /// The table of log partitions.
    pub creations: Vec<Creation>,
    /// A row of each partition, as in a mark.
    pub marks: Vec<MarkRow>,
    /// Bytes of segments that are nothing.
    pub voids: Vec<VoidRange>,
    /// The two newest sections of each partition, in this file or in earlier ones.
    pub sections: Vec<SectionRow>,
}

impl RoundDirectory {
    /// The directory as bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for end in &self.ends {
            out.extend_from_slice(&end.segment.to_le_bytes());
            out.extend_from_slice(&end.offset.to_le_bytes());
        }
        self.tail.iter().for_each(|segment| out.extend_from_slice(&segment.to_le_bytes()));
        out.extend_from_slice(&self.next_segment.to_le_bytes());
        out.extend_from_slice(&self.next_number.to_le_bytes());
        for rows in [self.creations.len(), self.marks.len(), self.voids.len(), self.sections.len()] {
            out.extend_from_slice(&(rows as u32).to_le_bytes());
        }
        out.extend_from_slice(&Creation::encode_all(&self.creations));
        self.marks.iter().for_each(|row| row.encode(&mut out));
        out.extend_from_slice(&VoidRange::encode_all(&self.voids));
        for row in &self.sections {
            out.extend_from_slice(&row.number.0.to_le_bytes());
            out.extend_from_slice(&row.epoch.to_le_bytes());
            out.extend_from_slice(&row.commit.to_le_bytes()[..6]);
            let fields = [row.round, row.offset, row.bytes];
            fields.iter().for_each(|field| out.extend_from_slice(&field.to_le_bytes()));
            out.extend_from_slice(&row.crc.to_le_bytes());
            out.extend_from_slice(&row.cold.segment.to_le_bytes());
            out.extend_from_slice(&row.cold.offset.to_le_bytes());
            out.extend_from_slice(&[0; 4]);
        }
        out
    }

    /// Reads a directory; `None` if it cannot be one.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<RoundDirectory> {
        let (fixed, rest) = bytes.split_at_checked(FIXED_BYTES)?;
        let end = |at| {
            let segment = u64_at(fixed, at);
            (segment < SEGMENT_NUMBER_END).then(|| StreamEnd { segment, offset: u32_at(fixed, at + 8) })
        };
        let count = |n: usize| u32_at(fixed, 72 + 4 * n) as usize;
        let (creations, rest) = rest.split_at_checked(count(0).checked_mul(Creation::BYTES)?)?;
        let (marks, rest) = rest.split_at_checked(count(1).checked_mul(MarkRow::BYTES)?)?;
        let (voids, rest) = rest.split_at_checked(count(2).checked_mul(VoidRange::BYTES)?)?;
        (Some(rest.len()) == count(3).checked_mul(SECTION_ROW_BYTES)).then_some(())?;
        let section = |row: &[u8]| {
            let is_sound = u32_at(row, 0) > 0 && row[54..58] == [0; 4];
            is_sound.then(|| SectionRow {
                number: LogPartition(u32_at(row, 0)),
                epoch: u32_at(row, 4),
                commit: u48_at(row, 8),
                round: u64_at(row, 14),
                offset: u64_at(row, 22),
                bytes: u64_at(row, 30),
                crc: u32_at(row, 38),
                cold: LogPlace { segment: u64_at(row, 42), offset: u32_at(row, 50) },
            })
        };
        Some(RoundDirectory {
            ends: [end(0)?, end(12)?, end(24)?],
            tail: [36, 44, 52].map(|at| u64_at(fixed, at)),
            next_segment: Some(u64_at(fixed, 60)).filter(|number| *number < SEGMENT_NUMBER_END)?,
            next_number: u32_at(fixed, 68),
            creations: Creation::decode_all(creations)?,
            marks: LogMark::decode_rows(marks)?,
            voids: VoidRange::decode_all(voids)?,
            sections: rest.chunks_exact(SECTION_ROW_BYTES).map(section).collect::<Option<_>>()?,
        })
    }
}

/// The trailer behind a directory.
#[must_use]
pub fn encode_round_trailer(salt: u32, offset: u64, directory: &[u8]) -> [u8; ROUND_TRAILER_BYTES] {
    let mut out = [0; ROUND_TRAILER_BYTES];
    out[0..8].copy_from_slice(&offset.to_le_bytes());
    out[8..12].copy_from_slice(&(directory.len() as u32).to_le_bytes());
    out[12..16].copy_from_slice(&crc(directory).to_le_bytes());
    out[16..20].copy_from_slice(TRAILER_MAGIC);
    let sum = crc(&out[..20]) ^ salt;
    out[20..24].copy_from_slice(&sum.to_le_bytes());
    out
}

/// Where the directory of a file with this trailer is, its length, and its checksum. `None` if that is no trailer: the round is
/// incomplete.
#[must_use]
pub fn decode_round_trailer(salt: u32, trailer: &[u8]) -> Option<(u64, usize, u32)> {
    let trailer = trailer.first_chunk::<ROUND_TRAILER_BYTES>()?;
    let is_sound = &trailer[16..20] == TRAILER_MAGIC && crc(&trailer[..20]) ^ salt == u32_at(trailer, 20);
    is_sound.then(|| (u64_at(trailer, 0), u32_at(trailer, 8) as usize, u32_at(trailer, 12)))
}
