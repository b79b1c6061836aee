//! The record that an instance's disk keeps of its past, beside its data: the process starts that it has recorded, and the timestamp bound, below
//! which all timestamps ever used are. `docs/formats/node-folder.md` specifies the bytes, `docs/protocols/replication.md` has the reasons.

use std::fmt;

use zerohop_wire::checksum::crc32c;
use zerohop_wire::ids::{Incarnation, Timestamp};

/// Number of starts that an instance's disk records. A group that names an older one treats the instance as new: its log is compared with the
/// primary's, and nothing is lost.
pub(crate) const STARTS_MAX: usize = 64;

const MAGIC: [u8; 8] = *b"zerohopl";
const VERSION: u32 = 1;
const HEADER_BYTES: usize = 24;

/// Maximum length of the file in bytes.
pub(crate) const LIFE_BYTES_MAX: usize = HEADER_BYTES + 8 * STARTS_MAX + 4;

/// The record; see the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LifeRecord {
    /// The timestamp bound: every used timestamp is below.
    pub(crate) timestamp_bound: Timestamp,
    /// The last starts, oldest first.
    pub(crate) starts: Vec<Incarnation>,
}

/// The reason why bytes are not a valid record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LifeError {
    /// The magic number is wrong, the length is impossible, or the checksum does not match.
    Damaged,
    /// Another version of the format.
    Version {
        /// The version.
        found: u32,
    },
}

impl LifeRecord {
    /// Adds a start.
    pub(crate) fn begin(&mut self, incarnation: Incarnation) {
        if self.starts.len() >= STARTS_MAX {
            self.starts.remove(0);
        }
        self.starts.push(incarnation);
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        assert!(self.starts.len() <= STARTS_MAX, "more starts are kept than fit");
        let mut bytes = Vec::with_capacity(LIFE_BYTES_MAX);
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&(self.starts.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&self.timestamp_bound.0.to_le_bytes());
        for start in &self.starts {
            bytes.extend_from_slice(&start.0.to_le_bytes());
        }
        let checksum = crc32c(&bytes);
        bytes.extend_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Decodes the output of [`LifeRecord::encode`].
    ///
    /// # Errors
    /// [`LifeError`].
    pub(crate) fn decode(bytes: &[u8]) -> Result<LifeRecord, LifeError> {
        let damaged = LifeError::Damaged;
        if bytes.len() < HEADER_BYTES + 4 || bytes.len() > LIFE_BYTES_MAX || bytes[..8] != MAGIC {
            return Err(damaged);
        }
        let found = u32::from_le_bytes(array(&bytes[8..12]));
        if found != VERSION {
            return Err(LifeError::Version { found });
        }
        let (body, checksum) = bytes.split_at(bytes.len() - 4);
        let starts = &body[HEADER_BYTES..];
        let count = u32::from_le_bytes(array(&body[12..16])) as usize;
        if crc32c(body) != u32::from_le_bytes(array(checksum)) || starts.len() != 8 * count {
            return Err(damaged);
        }
        let timestamp_bound = Timestamp(u64::from_le_bytes(array(&body[16..24])));
        let start = |bytes: &[u8]| Incarnation(u64::from_le_bytes(array(bytes)));
        Ok(LifeRecord { timestamp_bound, starts: starts.chunks_exact(8).map(start).collect() })
    }
}

/// The array of a slice of exactly this length.
fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut array = [0; N];
    array.copy_from_slice(bytes);
    array
}

impl fmt::Display for LifeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LifeError::Damaged => f.write_str(
                "it is damaged, so the timestamps that the node used are not known: restore it from a copy, or start this \
                 node with an empty folder",
            ),
            LifeError::Version { found } => {
                write!(f, "it is of format {found}, this program knows format {VERSION}: use the zerohop that wrote it")
            }
        }
    }
}

impl std::error::Error for LifeError {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The file of version 1, byte by byte.
    const PINNED: &[u8] = include_bytes!("../../tests/corpus/v1/life");

    fn sample() -> LifeRecord {
        LifeRecord {
            timestamp_bound: Timestamp::new(1_700_000_000_123, 7),
            starts: vec![Incarnation(5), Incarnation(u64::MAX)],
        }
    }

    #[test]
    fn version_1_bytes_decode_and_encode_unchanged() {
        assert_eq!(sample().encode(), PINNED);
        assert_eq!(LifeRecord::decode(PINNED), Ok(sample()));
        let mut newer = PINNED.to_vec();
        newer[8] = 2;
        assert_eq!(LifeRecord::decode(&newer), Err(LifeError::Version { found: 2 }));
    }

    #[test]
    fn oldest_start_is_dropped_first() {
        let mut life = LifeRecord::default();
        for start in 0..STARTS_MAX as u64 + 3 {
            life.begin(Incarnation(start));
        }
        assert_eq!((life.starts.len(), life.starts[0]), (STARTS_MAX, Incarnation(3)));
        assert_eq!(life.encode().len(), LIFE_BYTES_MAX);
    }

    proptest! {
        #[test]
        fn life_record_roundtrips(timestamp_bound: u64, starts in prop::collection::vec(any::<u64>(), 0..=STARTS_MAX)) {
            let starts = starts.into_iter().map(Incarnation).collect();
            let life = LifeRecord { timestamp_bound: Timestamp(timestamp_bound), starts };
            prop_assert_eq!(LifeRecord::decode(&life.encode()), Ok(life));
        }

        #[test]
        fn any_change_or_truncation_is_detected(at in 0..PINNED.len(), bit in 0..8) {
            let mut bytes = PINNED.to_vec();
            bytes[at] ^= 1u8 << bit;
            prop_assert!(LifeRecord::decode(&bytes).is_err());
            prop_assert!(LifeRecord::decode(&PINNED[..at]).is_err());
        }
    }
}
