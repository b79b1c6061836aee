//! What clients do with blobs: a few of them, small, over several chunks, each of which tells whose write it is.
//!
//! ```text
//!   header      attributes: the edition (the last write that replaced all), and what has changed the header last
//!   chunks 0-2  begin with the token of the last write of all of them, or of that chunk alone
//!   tail        behind them appended tokens, RECORD_BYTES from one to the next, so that some lie across two chunks
//! ```

use zerohop_engine::random::Random;

use super::tokens::{TOKEN_BYTES, token};
use crate::check::cycles::Action;
use crate::streams::Draw;

/// Bytes of a chunk, as a power of two: the smallest.
pub(crate) const CHUNK_BITS: u8 = 12;
/// The same in bytes.
pub(crate) const CHUNK_BYTES: u64 = 1 << CHUNK_BITS;
/// Chunks that are written as one.
pub(crate) const BASE_CHUNKS: u64 = 3;
/// Where the tail begins.
pub(crate) const BASE_BYTES: u64 = BASE_CHUNKS << CHUNK_BITS;
/// From one appended token to the next: the third lies across two chunks.
pub(crate) const RECORD_BYTES: u64 = 2_043;
/// So many are appended before a tail is cut off: reads bring all of it.
pub(crate) const RECORDS_MAX: u64 = 5;
/// How many blobs there are.
const BLOBS: u64 = 2;

/// A blob's name.
pub(crate) fn name(blob: u64) -> Vec<u8> {
    format!("blob-{blob}").into_bytes()
}

/// What is done to a blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// All chunks in front of the tail, in one transaction.
    Write,
    /// All of it, so that nothing is left of what there was, in one transaction.
    Replace,
    /// One chunk by itself.
    Poke { chunk: u64 },
    /// A token at the end, or a cut if there are enough.
    Append,
    /// The tail goes.
    Cut,
    /// All of it goes.
    Delete,
    /// All of it is read and confirmed, or by a transaction.
    Read { together: bool },
}

/// One thing done to one blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Deed {
    pub(crate) blob: u64,
    pub(crate) kind: Kind,
    /// What it writes: no other has it.
    pub(crate) value: u64,
    /// It begins with the header as its client has seen it last.
    pub(crate) recalls: bool,
}

impl Deed {
    /// Draws one.
    pub(crate) fn draw(random: &mut Random, value: u64) -> Deed {
        let kind = match random.below(100) {
            0..22 => Kind::Write,
            22..32 => Kind::Replace,
            32..52 => Kind::Poke { chunk: random.below(BASE_CHUNKS) },
            52..68 => Kind::Append,
            68..73 => Kind::Cut,
            73..77 => Kind::Delete,
            _ => Kind::Read { together: random.chance(1, 4) },
        };
        Deed { blob: random.below(BLOBS), kind, value, recalls: random.chance(2, 3) }
    }

    /// A read of every blob.
    pub(crate) fn reads() -> impl Iterator<Item = Deed> {
        let read = |blob| Deed { blob, kind: Kind::Read { together: false }, value: 0, recalls: false };
        (0..BLOBS).map(read)
    }
}

/// One of all.
pub(crate) fn any(random: &mut Random) -> u64 {
    random.between(0, BLOBS - 1)
}

/// What a header keeps: the edition, and what has changed it last.
pub(crate) fn attributes(edition: u64, change: u64) -> Vec<u8> {
    [token(edition), token(change)].concat()
}

/// The same, read.
pub(crate) fn edition_and_change(attributes: &[u8]) -> Option<(u64, u64)> {
    let (edition, change) = attributes.split_at_checked(TOKEN_BYTES)?;
    Some((number_of(edition)?, number_of(change)?))
}

/// The number of a token.
pub(crate) fn number_of(token: &[u8]) -> Option<u64> {
    let digits = token.strip_prefix(b"<")?.strip_suffix(b">")?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// Numbers of what checkers look at are no keys of others: those have at most 17 bits.
const KIND_SHIFT: u32 = 48;

/// The register of what has changed a blob's header last.
pub(crate) fn header_id(blob: u64) -> u64 {
    1 << KIND_SHIFT | blob
}

/// The register of one of its chunks, in one edition: whatever is written by a generation before is none of its values.
pub(crate) fn chunk_id(edition: u64, chunk: u64) -> u64 {
    2 << KIND_SHIFT | edition << 4 | chunk
}

/// The list of its tail, from one cut to the next.
pub(crate) fn tail_id(change: u64) -> u64 {
    3 << KIND_SHIFT | change
}

/// A blob as it was read: what its header tells, and its chunks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Contents<'c> {
    pub(crate) blob: u64,
    pub(crate) edition: u64,
    pub(crate) change: u64,
    /// How often it has changed, and from which time on: rises with every change, and over deletion too.
    pub(crate) order: u64,
    pub(crate) size: u64,
    /// Versions and bytes, without zeros at the end.
    pub(crate) chunks: Vec<(u64, &'c [u8])>,
}

impl Contents<'_> {
    /// What reading it has shown, or what is in it that nobody can have written.
    pub(crate) fn actions(&self) -> Result<Vec<Action>, String> {
        let (key, value, version) = (header_id(self.blob), self.change, self.order);
        let mut actions = vec![Action::Look { key, value, version }];
        if self.size == 0 {
            return Ok(actions);
        }
        let records = self.size.checked_sub(BASE_BYTES).filter(|tail| tail.is_multiple_of(RECORD_BYTES));
        let records =
            records.ok_or_else(|| format!("nobody makes it {} bytes long", self.size))? / RECORD_BYTES;
        let (base, tail) = self.chunks.split_at_checked(BASE_CHUNKS as usize).ok_or("it lacks chunks")?;
        for (number, (version, bytes)) in (0..).zip(base) {
            let value = bytes.split_at_checked(TOKEN_BYTES);
            let value = value.filter(|(_, rest)| rest.iter().all(|byte| *byte == 0));
            let value = value.and_then(|(first, _)| number_of(first));
            let value =
                value.ok_or_else(|| format!("chunk {number} holds {}", super::tokens::shown(bytes)))?;
            actions.push(Action::Look { key: chunk_id(self.edition, number), value, version: *version });
        }
        let mut all = Vec::new();
        for (_, bytes) in tail {
            all.extend_from_slice(bytes);
            all.resize(all.len() + CHUNK_BYTES as usize - bytes.len(), 0);
        }
        let at = |record: u64| all.get((record * RECORD_BYTES) as usize..)?.get(..TOKEN_BYTES);
        let values: Option<Vec<u64>> = (0..records).map(|record| number_of(at(record)?)).collect();
        let values =
            values.ok_or_else(|| format!("a tail of {records} holds {}", super::tokens::shown(&all)))?;
        actions.push(Action::Read { key: tail_id(self.change), values });
        Ok(actions)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contents<'c>(size: u64, chunks: Vec<(u64, &'c [u8])>) -> Contents<'c> {
        Contents { blob: 1, edition: 7, change: 9, order: 100, size, chunks }
    }

    #[test]
    fn a_blob_that_was_read_tells_whose_writes_it_shows() {
        let (first, second) = (token(3), token(4));
        let mut tail = vec![0; 2 * CHUNK_BYTES as usize];
        for (record, value) in (0..).zip([21, 22, 23]) {
            let at = record * RECORD_BYTES as usize;
            tail[at..at + TOKEN_BYTES].copy_from_slice(&token(value));
        }
        let (one, other) = tail.split_at(CHUNK_BYTES as usize);
        let chunks = vec![(5, &first[..]), (6, &second[..]), (5, &first[..]), (8, one), (8, &other[..2])];
        let read = contents(BASE_BYTES + 3 * RECORD_BYTES, chunks).actions().unwrap();
        assert_eq!(read[0], Action::Look { key: header_id(1), value: 9, version: 100 });
        assert_eq!(read[2], Action::Look { key: chunk_id(7, 1), value: 4, version: 6 });
        assert_eq!(read[4], Action::Read { key: tail_id(9), values: vec![21, 22, 23] });
    }

    #[test]
    fn what_nobody_can_have_written_is_noticed() {
        let (whole, torn) = (token(3), &token(3)[..5]);
        assert!(contents(0, Vec::new()).actions().is_ok());
        assert!(contents(1, Vec::new()).actions().is_err(), "no such size");
        let of = |last| contents(BASE_BYTES, vec![(5, &whole[..]), (5, &whole[..]), (5, last)]).actions();
        assert!(of(&whole[..]).is_ok());
        assert!(of(torn).is_err() && of(&[]).is_err(), "some of a token, and none");
        let lacks = vec![(5, &whole[..]), (5, &whole[..]), (5, &whole[..]), (6, torn)];
        assert!(contents(BASE_BYTES + RECORD_BYTES, lacks).actions().is_err(), "some of an appended one");
    }

    #[test]
    fn editions_and_changes_come_back() {
        assert_eq!(edition_and_change(&attributes(12, 34)), Some((12, 34)));
        assert_eq!(edition_and_change(b"<0000000012>"), None);
    }
}
