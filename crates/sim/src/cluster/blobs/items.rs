//! The requests of which what is done with blobs consists, as `crates/client/src/blob` makes them.

use zerohop_session::{Item, Reply, Request};
use zerohop_wire::blob::{BlobHeader, BlobStamp, chunk_key, header_key};
use zerohop_wire::ids::{KeyspaceId, Timestamp};
use zerohop_wire::messages::{BlobChange, Change, Condition, Operation, Query, Read, Write};

use super::Looked;
use crate::workload::blobs::{
    BASE_BYTES, BASE_CHUNKS, CHUNK_BITS, CHUNK_BYTES, Deed, RECORD_BYTES, attributes, edition_and_change,
    name,
};
use crate::workload::tokens::{TOKEN_BYTES, token};

/// A header as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cluster) struct Header {
    pub(in crate::cluster) version: Timestamp,
    pub(in crate::cluster) stamp: BlobStamp,
    pub(in crate::cluster) size: u64,
    pub(in crate::cluster) edition: u64,
    pub(in crate::cluster) change: u64,
}

impl Header {
    /// Rises with every cut, and from a blob to the next of its name: that has a later time than all cuts before.
    pub(in crate::cluster) fn order(&self) -> u64 {
        self.stamp.id + self.stamp.generation
    }

    /// Chunks of which there may be any.
    pub(in crate::cluster) fn chunks(&self) -> u64 {
        self.size.div_ceil(CHUNK_BYTES)
    }
}

/// What changes a blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cluster) enum Made {
    Creation,
    Write,
    Replacement,
    /// Of this chunk.
    Poke(u64),
    Append,
    Cut,
    Deletion,
}

impl Made {
    /// As it is counted.
    pub(in crate::cluster) fn name(self) -> &'static str {
        match self {
            Made::Creation => "blobs: creations",
            Made::Write => "blobs: writes of all chunks",
            Made::Replacement => "blobs: replacements",
            Made::Poke(_) => "blobs: writes of one chunk",
            Made::Append => "blobs: appends",
            Made::Cut => "blobs: cuts",
            Made::Deletion => "blobs: deletions",
        }
    }
}

/// Which blob: its keyspace, and its number.
type Whose = (KeyspaceId, u64);

/// How large a blob is with so many appended tokens.
pub(super) const fn size_after(records: u64) -> u64 {
    BASE_BYTES + records * RECORD_BYTES
}

/// The header that a lookup has brought.
pub(in crate::cluster) fn header_of(reply: &Reply) -> Option<Header> {
    let Reply::Value { version, bytes, .. } = reply else { return None };
    let BlobHeader { stamp, size, attributes, .. } = BlobHeader::decode(bytes)?;
    let (edition, change) = edition_and_change(attributes)?;
    Some(Header { version: *version, stamp, size, edition, change })
}

/// The chunk that a read has brought.
pub(in crate::cluster) fn looked_of(reply: &Reply) -> Option<Looked> {
    let Reply::Chunk { version, stamp, bytes } = reply else { return None };
    Some(Looked { version: *version, stamp: *stamp, bytes: bytes.clone() })
}

/// The key of a blob's header.
pub(in crate::cluster) fn key_of_header(blob: u64) -> Vec<u8> {
    header_key(&name(blob)).expect("is a name")
}

/// The key of one of its chunks.
pub(in crate::cluster) fn key_of_chunk(blob: u64, chunk: u64) -> Vec<u8> {
    chunk_key(&name(blob), chunk).expect("is a name")
}

/// A read of a whole chunk.
pub(in crate::cluster) const WHOLE_CHUNK: Query<'static> =
    Query::ReadChunk { offset: 0, length: CHUNK_BYTES as u32 };

pub(super) fn look_at_header(blob: Whose, limit_us: u64) -> Request {
    alone(blob.0, &read(&key_of_header(blob.1), Query::Lookup), limit_us)
}

pub(super) fn looks(blob: Whose, header: &Header, limit_us: u64) -> Vec<Request> {
    let look = |chunk| alone(blob.0, &read(&key_of_chunk(blob.1, chunk), WHOLE_CHUNK), limit_us);
    (0..header.chunks()).map(look).collect()
}

pub(super) fn confirms(
    blob: Whose,
    versions: impl Iterator<Item = Timestamp>,
    limit_us: u64,
) -> Vec<Request> {
    let confirm = |(chunk, version)| {
        alone(blob.0, &read(&key_of_chunk(blob.1, chunk), Query::Confirm { version }), limit_us)
    };
    (0..).zip(versions).map(confirm).collect()
}

pub(super) fn read_together(blob: Whose, header: &Header, limit_us: u64) -> Request {
    let mut together = Together { blob, items: Vec::new() };
    together.add(&read(&key_of_header(blob.1), Query::Lookup));
    (0..header.chunks()).for_each(|chunk| together.add(&read(&key_of_chunk(blob.1, chunk), WHOLE_CHUNK)));
    together.request(limit_us)
}

/// What makes a change of it. Without a header it is made.
pub(super) fn change(
    blob: Whose,
    header: Option<&Header>,
    (made, deed): (Made, Deed),
    limit_us: u64,
) -> Request {
    let value = deed.value;
    let own = token(value);
    let Some(header) = header else {
        let attributes = attributes(value, value);
        let create = BlobChange::Create { chunk_bits: CHUNK_BITS, attributes: &attributes };
        return alone(blob.0, &write(&key_of_header(blob.1), create), limit_us);
    };
    let (old, chunks) = (header.stamp, header.chunks());
    let next = BlobStamp { generation: old.generation + 1, ..old };
    let is_as_seen = Condition::IfVersion(header.version);
    let mut together = Together { blob, items: Vec::new() };
    match made {
        Made::Creation | Made::Write => {
            together.header(Condition::Always, BlobChange::Grow { stamp: old, size: BASE_BYTES });
            (0..BASE_CHUNKS).for_each(|chunk| together.bytes(old, chunk << CHUNK_BITS, &own));
        }
        Made::Replacement => {
            together.header(is_as_seen, BlobChange::Cut { stamp: old, size: 0 });
            together.header(Condition::Always, BlobChange::Settle { stamp: next });
            let attributes = attributes(value, value);
            together.header(Condition::Always, BlobChange::Describe { stamp: next, attributes: &attributes });
            together.header(Condition::Always, BlobChange::Grow { stamp: next, size: BASE_BYTES });
            (0..chunks).for_each(|chunk| together.cut(next, chunk));
            (0..BASE_CHUNKS).for_each(|chunk| together.bytes(next, chunk << CHUNK_BITS, &own));
        }
        Made::Poke(chunk) => {
            let length = own.len() as u32;
            let poke = BlobChange::WriteChunk { stamp: old, offset: 0, length, bytes: &own, makes: false };
            return alone(blob.0, &write(&key_of_chunk(blob.1, chunk), poke), limit_us);
        }
        Made::Append => {
            together.header(is_as_seen, BlobChange::Grow { stamp: old, size: header.size + RECORD_BYTES });
            together.bytes(old, header.size, &own);
        }
        Made::Cut => {
            together.header(is_as_seen, BlobChange::Cut { stamp: old, size: BASE_BYTES });
            (BASE_CHUNKS..chunks).for_each(|chunk| together.cut(next, chunk));
            together.header(Condition::Always, BlobChange::Settle { stamp: next });
            let attributes = attributes(header.edition, value);
            together.header(Condition::Always, BlobChange::Describe { stamp: next, attributes: &attributes });
        }
        Made::Deletion => {
            let remove = Write { key: &key_of_header(blob.1), condition: is_as_seen, change: Change::Remove };
            together.add(&Operation::Write(remove));
            for chunk in 0..chunks {
                together.add(&write(&key_of_chunk(blob.1, chunk), BlobChange::DropChunk { stamp: old }));
            }
        }
    }
    together.request(limit_us)
}

/// Items of one transaction.
struct Together {
    blob: Whose,
    items: Vec<Item>,
}

impl Together {
    fn add(&mut self, operation: &Operation<'_>) {
        self.items.push(Item::new(self.blob.0, operation, None).expect("is within bounds"));
    }

    fn header(&mut self, condition: Condition, change: BlobChange<'_>) {
        let key = key_of_header(self.blob.1);
        self.add(&Operation::Write(Write { key: &key, condition, change: Change::Blob(change) }));
    }

    fn cut(&mut self, stamp: BlobStamp, chunk: u64) {
        self.add(&write(
            &key_of_chunk(self.blob.1, chunk),
            BlobChange::CutChunk { stamp, keep: 0, marks: false },
        ));
    }

    /// A token at an offset of the blob, in one chunk or two.
    fn bytes(&mut self, stamp: BlobStamp, at: u64, bytes: &[u8]) {
        debug_assert_eq!(bytes.len(), TOKEN_BYTES, "it is a token");
        let within = at % CHUNK_BYTES;
        let first = bytes.len().min((CHUNK_BYTES - within) as usize);
        let parts = [(at, &bytes[..first]), (at + first as u64, &bytes[first..])];
        for (at, bytes) in parts.into_iter().filter(|(_, bytes)| !bytes.is_empty()) {
            let (offset, length) = ((at % CHUNK_BYTES) as u32, bytes.len() as u32);
            let change = BlobChange::WriteChunk { stamp, offset, length, bytes, makes: true };
            self.add(&write(&key_of_chunk(self.blob.1, at >> CHUNK_BITS), change));
        }
    }

    fn request(self, limit_us: u64) -> Request {
        Request::transaction(self.items, limit_us).expect("is within bounds")
    }
}

fn alone(keyspace: KeyspaceId, operation: &Operation<'_>, limit_us: u64) -> Request {
    Request::record(keyspace, operation, limit_us).expect("is within bounds")
}

fn read<'k>(key: &'k [u8], query: Query<'k>) -> Operation<'k> {
    Operation::Read(Read { key, query })
}

fn write<'k>(key: &'k [u8], change: BlobChange<'k>) -> Operation<'k> {
    Operation::Write(Write { key, condition: Condition::Always, change: Change::Blob(change) })
}
