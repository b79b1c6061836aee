//! Digests of members' contents. They are equal at equal log indexes, however the logs are laid out.

use std::collections::BTreeSet;

use xxhash_rust::xxh3::{Xxh3, xxh3_64};
use zerohop_engine::disk::Disk;
use zerohop_engine::{Cursor, Engine, EngineError, Handle, RecordShape, split_trailer};

use crate::limits::DIGEST_BYTES_MAX;
use crate::state::Deadlines;
use crate::view::Values;

/// Values of a list that are looked up at a time.
const LIST_VALUES: u64 = 4096;

/// The digest of some records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordDigest {
    /// The number of records.
    pub records: u64,
    /// Bytes of contents that were read.
    pub bytes: u64,
    /// The sum over all records, in any order.
    pub sum: u64,
    /// Not all contents were read, because it would have taken too long while other requests wait.
    pub is_incomplete: bool,
}

/// Why there is no digest.
#[derive(Debug)]
pub enum DigestError {
    /// There are too many records, or they are in too many pages of the index.
    TooMany,
    /// Something is corrupt; the key if it is known.
    Corrupt(Option<Vec<u8>>),
    /// Anything else.
    Engine(EngineError),
}

/// The digest of the records whose keys are from a cursor to another, or to the end: keys, kinds, lengths and versions. The version of a list is
/// left out, since it may be that of a trim which some members have dropped. With `contents` the digest includes contents in key
/// order, up to [`DIGEST_BYTES_MAX`]. Members with the same contents stop at the same place.
pub(crate) fn of_slice<D: Disk>(
    engine: &mut Engine<D>,
    (handle, deadlines): (Handle, &Deadlines),
    range: (&Cursor, Option<&Cursor>),
    (most, contents): (usize, bool),
) -> Result<RecordDigest, DigestError> {
    let keys = match engine.keys_of_range(handle, range, most) {
        Ok(Some(keys)) => keys.into_iter().collect::<BTreeSet<_>>(),
        Ok(None) => return Err(DigestError::TooMany),
        Err(error) => return Err(DigestError::of(error, None)),
    };
    let mut digested = RecordDigest { records: keys.len() as u64, ..RecordDigest::default() };
    for key in keys {
        let found = engine.inspect(handle, &key).map_err(|error| DigestError::of(error, Some(&key)))?;
        let Some(found) = found else { continue };
        let mut sum = hash(u64::from(found.is_list), &key);
        sum = hash(sum, &found.units.to_le_bytes());
        if !found.is_list {
            sum = hash(sum, &found.timestamp.to_le_bytes());
        }
        if contents {
            let contents_hash = hash_of_contents(engine, handle, &key, (&found, &mut digested));
            sum =
                hash(sum, &contents_hash.map_err(|error| DigestError::of(error, Some(&key)))?.to_le_bytes());
            sum = hash(sum, &deadlines.get(&key).unwrap_or(0).to_le_bytes());
        }
        digested.sum = digested.sum.wrapping_add(sum);
    }
    Ok(digested)
}

/// The hash of a record's contents; `digested` counts its bytes.
fn hash_of_contents<D: Disk>(
    engine: &mut Engine<D>,
    handle: Handle,
    key: &[u8],
    (found, digested): (&RecordShape, &mut RecordDigest),
) -> Result<u64, EngineError> {
    if digested.bytes >= DIGEST_BYTES_MAX {
        digested.is_incomplete = true;
        return Ok(0);
    }
    if found.is_list {
        return hash_of_list(engine, handle, key, (found, digested));
    }
    if found.is_chunk {
        return hash_of_chunk(engine, handle, key, digested);
    }
    let bytes = engine.lookup_assembled(handle, key)?.unwrap_or_default();
    digested.bytes += bytes.len() as u64;
    Ok(xxh3_64(&bytes))
}

fn hash_of_chunk<D: Disk>(
    engine: &mut Engine<D>,
    handle: Handle,
    key: &[u8],
    digested: &mut RecordDigest,
) -> Result<u64, EngineError> {
    let mut hasher = Xxh3::new();
    // Read without a copy, if that is possible.
    let at_once = engine.chunk_at_once(handle, key, 0..u64::MAX, |piece| hasher.update(piece))?;
    let state = match at_once {
        Some((state, _)) => state,
        None => {
            let Some(state) = engine.chunk_state(handle, key)? else { return Ok(0) };
            let mut bytes = Vec::new();
            engine.read_chunk(handle, key, 0..state.end, &mut bytes)?;
            hasher.reset();
            hasher.update(&bytes);
            state
        }
    };
    digested.bytes += state.end;
    Ok(hash(hasher.digest(), &state.stamp))
}

fn hash_of_list<D: Disk>(
    engine: &mut Engine<D>,
    handle: Handle,
    key: &[u8],
    (found, digested): (&RecordShape, &mut RecordDigest),
) -> Result<u64, EngineError> {
    let mut hasher = Xxh3::new();
    let mut at = 0;
    while at < found.units {
        let parts = engine.parts_of(handle, key, at..found.units.min(at + LIST_VALUES))?;
        let (mut skip, before) = (parts.skip as usize, at);
        for part in parts.parts {
            let entry = engine.read_entry(handle, part.index)?;
            let (body, _) = split_trailer(entry.head.meta.flags, entry.payload);
            for value in Values(body.get(4..).unwrap_or(&[])).skip(std::mem::take(&mut skip)) {
                if digested.bytes >= DIGEST_BYTES_MAX {
                    digested.is_incomplete = true;
                    return Ok(hasher.digest());
                }
                // Each value includes its length, so that the boundaries of values count too.
                hasher.update(value);
                (at, digested.bytes) = (at + 1, digested.bytes + value.len() as u64);
            }
        }
        if at == before {
            break;
        }
    }
    Ok(hasher.digest())
}

impl DigestError {
    fn of(error: EngineError, key: Option<&[u8]>) -> Self {
        match error {
            EngineError::Corrupt { .. } => Self::Corrupt(key.map(<[u8]>::to_vec)),
            error => Self::Engine(error),
        }
    }
}

/// FNV-1a with a final step that spreads every bit, so that sums of hashes do not cancel.
pub fn hash(seed: u64, bytes: &[u8]) -> u64 {
    let mut sum = 0xCBF2_9CE4_8422_2325 ^ seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    for byte in bytes.iter().chain(&(bytes.len() as u64).to_le_bytes()) {
        sum = (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3);
    }
    sum ^= sum >> 32;
    sum = sum.wrapping_mul(0xD6E8_FEB8_6659_FD93);
    sum ^ (sum >> 32)
}
