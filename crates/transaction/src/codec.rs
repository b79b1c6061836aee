//! Encoding of messages and log entries: integers little-endian, lists and bytes behind their lengths. The layouts are in
//! `docs/protocols/transactions.md`.
//!
//! Decoding accepts any bytes: it never panics, and allocates at most a small multiple of the input.

use std::fmt;

use bytes::Bytes;
use zerohop_base::bytes::Reader;
use zerohop_wire::ids::{KeyspaceId, LogIndex, PartitionEpoch, Sequence, SessionId, Timestamp};

use crate::id::{Attempt, DecisionFloor, Durability, KeyspaceRange, RoutingKey, StageId, TransactionId};
use crate::item::{Access, ItemBody, Items, TransactionItem, TransactionPart};
use crate::limits::{EXPIRED_PER_ENTRY_MAX, ITEMS_MAX};
use crate::reason::{Reason, Refusal};

/// The version in which messages and entries are written. Entries of the version before are read too: their decisions name
/// no slices.
pub const VERSION: u8 = 2;

/// The version of client data: parts, and staged lists of items.
pub const PARTS_VERSION: u8 = 1;

/// The first byte of a request that ends staged pieces: no list and no operation begins with it.
const RELEASE_KIND: u8 = 0xff;

/// Why bytes are not a valid message, entry or list of items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodecError {
    /// A version that is not known here.
    Version {
        /// The version.
        found: u8,
    },
    /// A kind that is not known in this version.
    Kind {
        /// The kind.
        found: u8,
    },
    /// More than a limit allows.
    TooLong,
    /// The bytes end too soon, are too many, or contradict each other.
    Damaged,
}

impl fmt::Display for CodecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CodecError::Version { found } => {
                write!(
                    f,
                    "version {found} of transactions is not known here (known: {VERSION}); use a newer zerohop"
                )
            }
            CodecError::Kind { found } => write!(f, "kind {found} of transactions is not known"),
            CodecError::TooLong => write!(f, "a message or entry of a transaction is longer than allowed"),
            CodecError::Damaged => write!(f, "a message or entry of a transaction is damaged"),
        }
    }
}

impl std::error::Error for CodecError {}

/// Bytes being written.
#[derive(Debug, Default)]
pub(crate) struct CodecWriter {
    pub(crate) out: Vec<u8>,
}

impl CodecWriter {
    pub(crate) fn u8(&mut self, value: u8) {
        self.out.push(value);
    }

    pub(crate) fn u32(&mut self, value: u32) {
        self.out.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn u64(&mut self, value: u64) {
        self.out.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn count(&mut self, count: usize) {
        // All lengths were checked against the limits, which are all below.
        self.u32(u32::try_from(count).unwrap_or(u32::MAX));
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.count(bytes.len());
        self.out.extend_from_slice(bytes);
    }

    pub(crate) fn routing_key(&mut self, place: RoutingKey) {
        self.u32(place.keyspace.0);
        self.u64(place.point);
    }

    pub(crate) fn id(&mut self, id: TransactionId) {
        self.routing_key(id.coordinator);
        self.stage(StageId { session: id.session, sequence: id.sequence });
    }

    pub(crate) fn stage(&mut self, id: StageId) {
        self.u64(id.session.issued.0);
        self.u64(id.session.nonce);
        self.u64(id.sequence.0);
    }

    pub(crate) fn stages(&mut self, ids: &[StageId]) {
        self.count(ids.len());
        ids.iter().for_each(|id| self.stage(*id));
    }

    pub(crate) fn attempt(&mut self, attempt: Attempt) {
        self.u64(attempt.epoch.0);
        self.u64(attempt.counter);
    }

    pub(crate) fn hash_range(&mut self, hash_range: KeyspaceRange) {
        self.u32(hash_range.keyspace.0);
        self.u64(hash_range.first);
        self.u64(hash_range.last);
    }

    pub(crate) fn floor(&mut self, floor: DecisionFloor) {
        self.hash_range(floor.hash_range);
        self.u64(floor.index.0);
    }

    pub(crate) fn durability(&mut self, durability: Durability) {
        self.u8(durability as u8);
    }

    pub(crate) fn refusal(&mut self, refusal: Refusal) {
        self.u8(refusal.reason.number());
        self.u32(refusal.item);
    }

    pub(crate) fn access(&mut self, access: Access) {
        let (number, kind) = match access {
            Access::Read => (0, 0),
            Access::Write => (1, 0),
            Access::Transform(kind) => (2, kind),
        };
        self.u8(number);
        self.u8(kind);
    }

    pub(crate) fn item(&mut self, item: &TransactionItem) {
        self.u64(item.lock_key);
        self.access(item.access);
        self.u8(u8::from(item.seen.is_some()) | if matches!(item.body, ItemBody::Staged(_)) { 2 } else { 0 });
        if let Some(seen) = item.seen {
            self.u64(seen.0);
        }
        match &item.body {
            ItemBody::Inline(bytes) => self.bytes(bytes),
            ItemBody::Staged(id) => self.stage(*id),
        }
    }

    pub(crate) fn parts(&mut self, parts: &[TransactionPart]) {
        self.count(parts.len());
        for part in parts {
            self.routing_key(part.routing_key);
            self.durability(part.durability);
            match &part.items {
                Items::Inline(items) => {
                    self.u8(0);
                    self.count(items.len());
                    items.iter().for_each(|item| self.item(item));
                }
                Items::Staged(id) => {
                    self.u8(1);
                    self.stage(*id);
                }
            }
        }
    }
}

/// Bytes being read. Each field is `None` if the bytes end too soon.
pub(crate) struct CodecReader<'a> {
    fields: Reader<'a>,
}

impl<'a> CodecReader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> CodecReader<'a> {
        CodecReader { fields: Reader::new(bytes) }
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.fields.is_at_end()
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.fields.u8()
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.fields.u32()
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.fields.u64()
    }

    /// A count of elements of at least `bytes_min` bytes each: at most what the bytes can hold, and at most the limit.
    pub(crate) fn count(&mut self, bytes_min: usize, limit: usize) -> Option<usize> {
        self.fields.count(bytes_min, limit)
    }

    pub(crate) fn bytes(&mut self, limit: usize) -> Option<Bytes> {
        let length = self.count(1, limit)?;
        self.fields.bytes(length).map(Bytes::copy_from_slice)
    }

    pub(crate) fn list<T>(
        &mut self,
        (bytes_min, limit): (usize, usize),
        mut one: impl FnMut(&mut Self) -> Option<T>,
    ) -> Option<Vec<T>> {
        let count = self.count(bytes_min, limit)?;
        (0..count).map(|_| one(self)).collect()
    }

    pub(crate) fn index(&mut self) -> Option<LogIndex> {
        self.u64().map(LogIndex)
    }

    pub(crate) fn timestamp(&mut self) -> Option<Timestamp> {
        self.u64().map(Timestamp)
    }

    pub(crate) fn routing_key(&mut self) -> Option<RoutingKey> {
        Some(RoutingKey { keyspace: KeyspaceId(self.u32()?), point: self.u64()? })
    }

    pub(crate) fn id(&mut self) -> Option<TransactionId> {
        let coordinator = self.routing_key()?;
        let StageId { session, sequence } = self.stage()?;
        Some(TransactionId { coordinator, session, sequence })
    }

    pub(crate) fn stage(&mut self) -> Option<StageId> {
        let session = SessionId { issued: self.timestamp()?, nonce: self.u64()? };
        Some(StageId { session, sequence: Sequence(self.u64()?) })
    }

    pub(crate) fn stages(&mut self, limit: usize) -> Option<Vec<StageId>> {
        self.list((24, limit), Self::stage)
    }

    pub(crate) fn attempt(&mut self) -> Option<Attempt> {
        Some(Attempt { epoch: PartitionEpoch(self.u64()?), counter: self.u64()? })
    }

    pub(crate) fn hash_range(&mut self) -> Option<KeyspaceRange> {
        let hash_range =
            KeyspaceRange { keyspace: KeyspaceId(self.u32()?), first: self.u64()?, last: self.u64()? };
        (hash_range.first <= hash_range.last).then_some(hash_range)
    }

    pub(crate) fn floor(&mut self) -> Option<DecisionFloor> {
        Some(DecisionFloor { hash_range: self.hash_range()?, index: self.index()? })
    }

    pub(crate) fn durability(&mut self) -> Option<Durability> {
        match self.u8()? {
            0 => Some(Durability::Memory),
            1 => Some(Durability::Interval),
            2 => Some(Durability::Sync),
            _ => None,
        }
    }

    pub(crate) fn refusal(&mut self) -> Option<Refusal> {
        Some(Refusal { reason: Reason::from_number(self.u8()?)?, item: self.u32()? })
    }

    pub(crate) fn access(&mut self) -> Option<Access> {
        match (self.u8()?, self.u8()?) {
            (0, 0) => Some(Access::Read),
            (1, 0) => Some(Access::Write),
            (2, kind) => Some(Access::Transform(kind)),
            _ => None,
        }
    }

    pub(crate) fn item(&mut self) -> Option<TransactionItem> {
        let (lock_key, access, flags) = (self.u64()?, self.access()?, self.u8()?);
        (flags & !3 == 0).then_some(())?;
        let seen = if flags & 1 != 0 { Some(self.timestamp()?) } else { None };
        let body = match flags & 2 {
            0 => ItemBody::Inline(self.bytes(crate::limits::INLINE_BYTES_MAX)?),
            _ => ItemBody::Staged(self.stage()?),
        };
        Some(TransactionItem { lock_key, access, seen, body })
    }

    /// Parts, of at most [`ITEMS_MAX`] items in total.
    pub(crate) fn parts(&mut self) -> Option<Vec<TransactionPart>> {
        let mut left = ITEMS_MAX;
        self.list((18, crate::limits::PARTICIPANTS_MAX), |from| {
            let (place, durability) = (from.routing_key()?, from.durability()?);
            let items = match from.u8()? {
                0 => Items::Inline(from.list((ITEM_BYTES_MIN, left), Self::item)?),
                1 => Items::Staged(from.stage()?),
                _ => return None,
            };
            if let Items::Inline(items) = &items {
                left -= items.len();
            }
            Some(TransactionPart { routing_key: place, durability, items })
        })
    }
}

/// Lock key, access, flags, and the length of an empty body.
const ITEM_BYTES_MIN: usize = 15;

/// The parts of a transaction as its client sends them: version (1), parts.
#[must_use]
pub fn encode_parts(parts: &[TransactionPart]) -> Vec<u8> {
    let bytes = 5 + parts.iter().map(TransactionPart::estimated_bytes).sum::<usize>();
    let mut out = CodecWriter { out: Vec::with_capacity(bytes) };
    out.u8(PARTS_VERSION);
    out.parts(parts);
    out.out
}

/// Reads the parts of a transaction. [`crate::TransactionRequest::check`] checks their order.
///
/// # Errors
/// See [`CodecError`].
pub fn decode_parts(bytes: &[u8]) -> Result<Vec<TransactionPart>, CodecError> {
    if bytes.len() > crate::limits::ENCODED_BYTES_MAX {
        return Err(CodecError::TooLong);
    }
    let mut from = versioned(bytes)?;
    let parts = from.parts();
    parts.filter(|_| from.is_at_end()).ok_or(CodecError::Damaged)
}

/// A staged list of items, for a list that is too long to be sent with the transaction: version (1), number (4), items.
#[must_use]
pub fn encode_items(items: &[TransactionItem]) -> Vec<u8> {
    let mut out = CodecWriter::default();
    out.u8(PARTS_VERSION);
    out.count(items.len());
    items.iter().for_each(|item| out.item(item));
    out.out
}

/// Reads a staged list of items.
///
/// # Errors
/// See [`CodecError`].
pub fn decode_items(bytes: &[u8]) -> Result<Vec<TransactionItem>, CodecError> {
    if bytes.len() > crate::limits::STAGED_ITEMS_BYTES_MAX {
        return Err(CodecError::TooLong);
    }
    let mut from = versioned(bytes)?;
    let items = from.list((ITEM_BYTES_MIN, ITEMS_MAX), CodecReader::item);
    items.filter(|_| from.is_at_end()).ok_or(CodecError::Damaged)
}

/// Encodes the sequence numbers of staged pieces that their session needs no more; at most
/// [`EXPIRED_PER_ENTRY_MAX`].
#[must_use]
pub fn encode_release(pieces: &[Sequence]) -> Vec<u8> {
    let mut out = CodecWriter::default();
    out.u8(RELEASE_KIND);
    out.count(pieces.len());
    pieces.iter().for_each(|piece| out.u64(piece.0));
    out.out
}

/// Reads the pieces of [`encode_release`]. `None`: the bytes are a piece themselves.
///
/// # Errors
/// See [`CodecError`].
pub fn decode_release(bytes: &[u8]) -> Result<Option<Vec<Sequence>>, CodecError> {
    let mut from = CodecReader::new(bytes);
    if from.u8() != Some(RELEASE_KIND) {
        return Ok(None);
    }
    let pieces = from.list((8, EXPIRED_PER_ENTRY_MAX), |from| from.u64().map(Sequence));
    pieces.filter(|_| from.is_at_end()).map(Some).ok_or(CodecError::Damaged)
}

/// The bytes behind the version.
fn versioned(bytes: &[u8]) -> Result<CodecReader<'_>, CodecError> {
    let mut from = CodecReader::new(bytes);
    match from.u8() {
        Some(PARTS_VERSION) => Ok(from),
        Some(found) => Err(CodecError::Version { found }),
        None => Err(CodecError::Damaged),
    }
}
