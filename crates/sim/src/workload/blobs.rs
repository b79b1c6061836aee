//! The clients' operations on blobs: a few small blobs over several chunks. Each chunk identifies
//! its last writer.
//!
//! ```text
//!   header      attributes: the edition (the last write that replaced all), and the last change of
//!               the attributes, which always raises the blob's generation or begins a new blob
//!   chunks 0-2  begin with the token of the last write of all of them, or of that chunk alone
//!   chunks 3-4  numbers that are transformed in place: two shares, whose sum over both chunks is
//!               always zero, and marks, bits that are inverted once each
//!   tail        added tokens, one per RECORD_BYTES, so that some lie across two chunks; a
//!               staged token is followed by its copy
//! ```

use zerohop_base::random::Random;

use super::tokens::{TOKEN_BYTES, token};
use crate::cycles::CheckedAction;
use crate::streams::Draw;

/// Bytes of a chunk, as a power of two: the smallest.
pub(crate) const CHUNK_BITS: u8 = 12;
/// The same in bytes.
pub(crate) const CHUNK_BYTES: u64 = 1 << CHUNK_BITS;
/// Chunks that are written together.
pub(crate) const BASE_CHUNKS: u64 = 3;
/// After them, chunks of numbers.
pub(crate) const NUMBERS: std::ops::Range<u64> = BASE_CHUNKS..BASE_CHUNKS + 2;
/// The start of the tail.
pub(crate) const BASE_BYTES: u64 = NUMBERS.end << CHUNK_BITS;
/// Distance of added tokens: the third lies across two chunks.
pub(crate) const RECORD_BYTES: u64 = 2_043;
/// Number of tokens that are added before the tail is truncated: reads return all of it.
pub(crate) const RECORDS_MAX: u64 = 5;
/// Offsets of the shares in a chunk: an integer of 8 bytes, and a float of 8.
pub(crate) const SHARES: [u32; 2] = [64, 72];
/// Offset of the marks.
pub(crate) const MARKS: u32 = 128;
/// Number of marks of a chunk.
pub(crate) const MARKS_MAX: u32 = u32::BITS;
/// The largest amount added to a share at a time, so that a float has the exact sum of all.
const AMOUNT_MAX: u64 = 1 << 20;
/// Number of blobs.
pub(crate) const BLOBS: u64 = 2;

/// A blob's name.
pub(crate) fn name(blob: u64) -> Vec<u8> {
    format!("blob-{blob}").into_bytes()
}

/// A change of a blob, or a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BlobChangeKind {
    /// Writes all chunks before the numbers at once.
    Write,
    /// Replaces all of it in one transaction, so that nothing is left of the old contents.
    Replace,
    /// Puts it, in place of an existing blob or only if there is none.
    Put { replaces: bool, end: PutEnd },
    /// Writes one chunk alone.
    Poke { chunk: u64 },
    /// Adds a token to the end, or truncates if there are enough.
    Extend,
    /// Truncates the tail.
    Truncate,
    /// Moves an amount of one of the shares from one chunk to the other, in one transaction.
    Share { amount: i32, is_float: bool },
    /// Sets a mark of one chunk alone, or of both in one transaction.
    Mark { chunk: Option<u64> },
    /// Stages one or two tokens behind the end, and publishes them.
    StageExtension { records: u64 },
    /// Reads all of it, and then writes it or truncates the middle of the tail, if nothing has
    /// changed since.
    ReadAndChange { cuts: bool },
    /// Removes it.
    Delete,
    /// Reads all of it.
    Read(BlobReadKind),
    /// Lists the names of all blobs.
    List,
}

/// How a put ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PutEnd {
    /// It is published.
    Published,
    /// Its client removes what it has sent.
    Discarded,
    /// Its client is gone.
    Abandoned,
}

impl PutEnd {
    /// The end of the put of this value: one of four is not published.
    fn of(value: u64) -> PutEnd {
        match value % 8 {
            0 => PutEnd::Discarded,
            4 => PutEnd::Abandoned,
            _ => PutEnd::Published,
        }
    }
}

/// How a blob is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BlobReadKind {
    /// At once, with the versions.
    Whole,
    /// As a stream.
    Stream,
    /// In a transaction.
    InTransaction,
}

/// One operation on one blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlobOperationPlan {
    pub(crate) blob: u64,
    pub(crate) kind: BlobChangeKind,
    /// The value that it writes; it is unique.
    pub(crate) value: u64,
    /// The tokens that it stages; they are unique too.
    pub(crate) tokens: [u64; 2],
    /// Its client treats the blob as a large one: a put stages its bytes, and a stream reads a
    /// snapshot.
    pub(crate) is_large: bool,
}

impl BlobOperationPlan {
    /// Draws an operation, with values of its own.
    pub(crate) fn draw(random: &mut Random, value: u64, tokens: [u64; 2]) -> BlobOperationPlan {
        let kind = match random.below(100) {
            0..16 => BlobChangeKind::Write,
            16..24 => BlobChangeKind::Replace,
            24..37 => BlobChangeKind::Poke { chunk: random.below(BASE_CHUNKS) },
            37..48 => BlobChangeKind::Extend,
            48..52 => BlobChangeKind::Truncate,
            52..56 => BlobChangeKind::Delete,
            56..63 => {
                let amount = random.between(1, AMOUNT_MAX) as i32;
                let amount = if random.chance(1, 2) { amount } else { -amount };
                BlobChangeKind::Share { amount, is_float: random.chance(1, 2) }
            }
            63..70 => BlobChangeKind::Mark {
                chunk: (!random.chance(1, 3)).then(|| random.between(NUMBERS.start, NUMBERS.end - 1)),
            },
            70..76 => BlobChangeKind::StageExtension { records: random.between(1, 2) },
            76..82 => BlobChangeKind::ReadAndChange { cuts: random.chance(1, 2) },
            82..87 => BlobChangeKind::Put { replaces: random.chance(2, 3), end: PutEnd::of(value) },
            87 => BlobChangeKind::List,
            _ => BlobChangeKind::Read(match random.below(8) {
                0 => BlobReadKind::InTransaction,
                1..4 => BlobReadKind::Stream,
                _ => BlobReadKind::Whole,
            }),
        };
        BlobOperationPlan { blob: random.below(BLOBS), kind, value, tokens, is_large: random.chance(1, 3) }
    }

    /// A read of every blob.
    pub(crate) fn reads() -> impl Iterator<Item = BlobOperationPlan> {
        let kind = BlobChangeKind::Read(BlobReadKind::Whole);
        (0..BLOBS).map(move |blob| BlobOperationPlan {
            blob,
            kind,
            value: 0,
            tokens: [0; 2],
            is_large: false,
        })
    }
}

/// A random blob.
pub(crate) fn any(random: &mut Random) -> u64 {
    random.between(0, BLOBS - 1)
}

/// The attributes in a header: the edition, and the last change.
pub(crate) fn attributes(edition: u64, change: u64) -> Vec<u8> {
    [token(edition), token(change)].concat()
}

/// Decodes these attributes.
pub(crate) fn read_attributes(attributes: &[u8]) -> Option<(u64, u64)> {
    let (edition, change) = attributes.split_at_checked(TOKEN_BYTES)?;
    Some((number_of(edition)?, number_of(change)?))
}

/// The number of a token.
pub(crate) fn number_of(token: &[u8]) -> Option<u64> {
    let digits = token.strip_prefix(b"<")?.strip_suffix(b">")?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// Keys of checkers begin here: those of other workloads have at most 17 bits.
const KIND_SHIFT: u32 = 48;

/// The register of the last change of a blob's header.
pub(crate) fn header_id(blob: u64) -> u64 {
    1 << KIND_SHIFT | blob
}

/// The register of a chunk in one edition: writes of an earlier generation are not among its
/// values.
pub(crate) fn chunk_id(edition: u64, chunk: u64) -> u64 {
    2 << KIND_SHIFT | edition << 4 | chunk
}

/// The list of a blob's tail, from one truncation to the next.
pub(crate) fn tail_id(change: u64) -> u64 {
    3 << KIND_SHIFT | change
}

/// The list of a mark of a chunk, in one edition: empty, or [`MARKED`] once.
pub(crate) fn mark_id(edition: u64, chunk: u64, mark: u32) -> u64 {
    4 << KIND_SHIFT | edition << 9 | chunk << 5 | u64::from(mark)
}

/// Whether a key is the list of a mark.
pub(crate) fn is_mark(id: u64) -> bool {
    id >> KIND_SHIFT == 4
}

/// The value in the list of a mark that was set.
pub(crate) const MARKED: u64 = 1;

/// What a write has changed whose place its client does not know: the call of a procedure failed, or
/// it has repeated itself on another edition of the blob. The reads that show its value tell the place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum BlobPlace {
    /// A chunk with a token.
    Chunk(u64),
    /// A mark of a chunk.
    Mark(u64, u32),
    /// The tail.
    Tail,
}

/// The key of a write whose place is not known.
pub(crate) fn unplaced_id(blob: u64, place: BlobPlace) -> u64 {
    let place = match place {
        BlobPlace::Chunk(chunk) => chunk << 5,
        BlobPlace::Mark(chunk, mark) => 1 << 16 | chunk << 5 | u64::from(mark),
        BlobPlace::Tail => 2 << 16,
    };
    5 << KIND_SHIFT | blob << 32 | place
}

/// The place that such a key stands for, with the number of the blob.
pub(crate) fn unplaced(id: u64) -> Option<(u64, BlobPlace)> {
    if id >> KIND_SHIFT != 5 {
        return None;
    }
    let (blob, chunk, mark) = (id >> 32 & 0xFFFF, id >> 5 & 0xF, (id & 0x1F) as u32);
    Some((
        blob,
        match id >> 16 & 0xF {
            0 => BlobPlace::Chunk(chunk),
            1 => BlobPlace::Mark(chunk, mark),
            _ => BlobPlace::Tail,
        },
    ))
}

/// The key of a place in an edition, or for the tail in the list since this change.
pub(crate) fn placed_id(place: BlobPlace, (edition, change): (u64, u64)) -> u64 {
    match place {
        BlobPlace::Chunk(chunk) => chunk_id(edition, chunk),
        BlobPlace::Mark(chunk, mark) => mark_id(edition, chunk, mark),
        BlobPlace::Tail => tail_id(change),
    }
}

impl BlobPlace {
    /// Whether a key is of this place, in any edition.
    pub(crate) fn is_at(self, id: u64) -> bool {
        match (self, id >> KIND_SHIFT) {
            (BlobPlace::Chunk(chunk), 2) => id & 0xF == chunk,
            (BlobPlace::Mark(chunk, mark), 4) => (id >> 5 & 0xF, id & 0x1F) == (chunk, u64::from(mark)),
            (BlobPlace::Tail, 3) => true,
            _ => false,
        }
    }
}

/// The blob of a header's register.
pub(crate) fn blob_of_header(id: u64) -> Option<u64> {
    (id >> KIND_SHIFT == 1).then_some(id & 0xFFFF)
}

/// The edition of a mark.
pub(crate) fn edition_of_mark(id: u64) -> Option<u64> {
    is_mark(id).then_some((id & ((1 << KIND_SHIFT) - 1)) >> 9)
}

/// The bytes of one added token.
pub(crate) fn record_bytes(value: u64) -> Vec<u8> {
    let mut bytes = token(value);
    bytes.resize(RECORD_BYTES as usize, 0);
    bytes
}

/// Bytes that write a token into each chunk before the numbers.
pub(crate) fn base_bytes(value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    for chunk in 0..BASE_CHUNKS {
        bytes.resize((chunk * CHUNK_BYTES) as usize, 0);
        bytes.extend(token(value));
    }
    bytes
}

/// The contents of a new blob: tokens, numbers that are zero, and no tail.
pub(crate) fn new_bytes(value: u64) -> Vec<u8> {
    let mut bytes = base_bytes(value);
    bytes.resize(BASE_BYTES as usize, 0);
    bytes
}

/// Number of bytes of a blob with so many added tokens.
pub(crate) fn size_after(records: u64) -> u64 {
    BASE_BYTES + records * RECORD_BYTES
}

/// The reads that all marks of a chunk show.
pub(crate) fn mark_reads(edition: u64, chunk: u64, marks: u32) -> impl Iterator<Item = CheckedAction> {
    (0..MARKS_MAX).map(move |mark| {
        let is_set = marks >> mark & 1 == 1;
        CheckedAction::Read {
            key: mark_id(edition, chunk, mark),
            values: if is_set { vec![MARKED] } else { vec![] },
        }
    })
}

/// The bytes of staged tokens, from the start of the first to where the next would start.
pub(crate) fn staged_bytes(values: &[u64]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (record, value) in (1..).zip(values) {
        bytes.extend(token(*value).repeat(2));
        bytes.resize(record * RECORD_BYTES as usize, 0);
    }
    bytes
}

/// A blob as it was read: its header and chunks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BlobContents<'c> {
    pub(crate) blob: u64,
    pub(crate) edition: u64,
    pub(crate) change: u64,
    /// Generation plus creation time: rises with every change of the attributes, and over deletion
    /// too.
    pub(crate) order: u64,
    pub(crate) size: u64,
    /// Versions and bytes, without zeros at the end.
    pub(crate) chunks: Vec<(u64, &'c [u8])>,
}

impl BlobContents<'_> {
    /// The reads that it shows, or an error for contents that no client has written.
    pub(crate) fn actions(&self) -> Result<Vec<CheckedAction>, String> {
        let (key, value, version) = (header_id(self.blob), self.change, self.order);
        let mut actions = vec![CheckedAction::Look { key, value, version }];
        let front = self.chunks.get(..NUMBERS.end as usize).ok_or("it lacks chunks")?;
        let (base, numbers) = front.split_at(BASE_CHUNKS as usize);
        let strange = |number: u64, bytes: &[u8]| {
            format!("chunk {number} holds {}", super::tokens::display_bytes(bytes))
        };
        for (number, (version, bytes)) in (0..).zip(base) {
            let value = bytes.split_at_checked(TOKEN_BYTES);
            let value = value.filter(|(_, rest)| rest.iter().all(|byte| *byte == 0));
            let value = value.and_then(|(first, _)| number_of(first));
            let value = value.ok_or_else(|| strange(number, bytes))?;
            actions.push(CheckedAction::Look {
                key: chunk_id(self.edition, number),
                value,
                version: *version,
            });
        }
        let mut shares = (0_i64, 0.0_f64);
        for (number, (_, bytes)) in NUMBERS.zip(numbers) {
            let chunk = Numbers::read(bytes).ok_or_else(|| strange(number, bytes))?;
            actions.extend(mark_reads(self.edition, number, chunk.marks));
            shares = (shares.0.wrapping_add(chunk.shares.0), shares.1 + chunk.shares.1);
        }
        if shares.0 != 0 || shares.1 != 0.0 {
            return Err(format!("the shares of both chunks together are {} and {}", shares.0, shares.1));
        }
        actions.push(CheckedAction::Read { key: tail_id(self.change), values: self.tail()? });
        Ok(actions)
    }

    /// The tokens of the tail.
    pub(crate) fn tail(&self) -> Result<Vec<u64>, String> {
        let records = self.size.checked_sub(BASE_BYTES).filter(|tail| tail.is_multiple_of(RECORD_BYTES));
        let records =
            records.ok_or_else(|| format!("no client makes it {} bytes long", self.size))? / RECORD_BYTES;
        let mut all = Vec::new();
        for (_, bytes) in self.chunks.get(NUMBERS.end as usize..).unwrap_or_default() {
            all.extend_from_slice(bytes);
            all.resize(all.len() + CHUNK_BYTES as usize - bytes.len(), 0);
        }
        let values: Option<Vec<u64>> = (0..records)
            .map(|record| {
                let (from, to) = (record * RECORD_BYTES, (record + 1) * RECORD_BYTES);
                let bytes = all.get(from as usize..all.len().min(to as usize))?;
                let (token, rest) = bytes.split_at_checked(TOKEN_BYTES)?;
                let zeros = rest.strip_prefix(token).unwrap_or(rest);
                number_of(token).filter(|_| zeros.iter().all(|byte| *byte == 0))
            })
            .collect();
        values.ok_or_else(|| format!("a tail of {records} holds {}", super::tokens::display_bytes(&all)))
    }
}

/// The contents of a chunk of numbers.
struct Numbers {
    shares: (i64, f64),
    marks: u32,
}

impl Numbers {
    /// `None`: no client can have written these bytes.
    fn read(bytes: &[u8]) -> Option<Numbers> {
        let mut whole = bytes.to_vec();
        whole.resize(CHUNK_BYTES as usize, 0);
        let mut take = |at: u32, length: usize| -> Vec<u8> {
            let range = at as usize..at as usize + length;
            whole.splice(range, std::iter::repeat_n(0, length)).collect()
        };
        let integer = i64::from_le_bytes(take(SHARES[0], 8).try_into().ok()?);
        let float = f64::from_le_bytes(take(SHARES[1], 8).try_into().ok()?);
        let marks = u32::from_le_bytes(take(MARKS, 4).try_into().ok()?);
        whole.iter().all(|byte| *byte == 0).then_some(Numbers { shares: (integer, float), marks })
    }
}

#[cfg(test)]
#[path = "blobs_tests.rs"]
mod tests;
