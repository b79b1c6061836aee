//! The requests of blob operations, as `crates/client/src/blob` makes them.

use zerohop_session::{CompositeItem, Reply, SessionRequest};
use zerohop_wire::blob::{BlobHeader, BlobStamp, FillState, chunk_key, header_key};
use zerohop_wire::ids::{KeyspaceId, Timestamp};
use zerohop_wire::messages::{
    BlobChange, Condition, Confirm, NumberType, Operator, Query, ReadChunk, RecordOperation, RecordRead,
    RecordWrite, Remove, ReturnedNumber, Transform, WriteChange,
};

use super::ChunkRead;
use crate::cycles::CheckedAction;
use crate::workload::blobs::{
    BASE_BYTES, BASE_CHUNKS, BlobContents, BlobOperationPlan, CHUNK_BITS, CHUNK_BYTES, MARKS, NUMBERS,
    RECORD_BYTES, SHARES, attributes, header_id, name, read_attributes,
};
use crate::workload::tokens::token;
use zerohop_wire::Failure;

/// A header that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cluster) struct ReadHeader {
    pub(in crate::cluster) version: Timestamp,
    pub(in crate::cluster) stamp: BlobStamp,
    pub(in crate::cluster) size: u64,
    /// End of the bytes that are truncated but still present, or staged; 0 if there are none.
    pub(in crate::cluster) pending_truncation_end: u64,
    pub(in crate::cluster) is_staged_append: FillState,
    pub(in crate::cluster) edition: u64,
    pub(in crate::cluster) change: u64,
    /// Number of changes of the blob.
    pub(in crate::cluster) count: u64,
}

impl ReadHeader {
    /// Rises with every change. A later blob of the same name starts above all changes of the
    /// earlier one.
    pub(in crate::cluster) fn order(&self) -> u64 {
        self.stamp.id + self.count
    }

    /// The read of the header that a dependent transaction records.
    pub(in crate::cluster) fn seen(&self, blob: u64) -> CheckedAction {
        CheckedAction::Look { key: header_id(blob), value: self.change, version: self.order() }
    }

    /// Number of chunks that a reader may find.
    pub(in crate::cluster) fn chunks(&self) -> u64 {
        self.size.div_ceil(CHUNK_BYTES)
    }

    /// Number of chunks that may exist, staged and truncated ones included.
    pub(in crate::cluster) fn all_chunks(&self) -> u64 {
        self.size.max(self.pending_truncation_end).div_ceil(CHUNK_BYTES)
    }
}

/// A change of a blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cluster) enum HeaderChange {
    Creation,
    /// Creation with contents.
    Making,
    Write,
    Replacement,
    /// Removal and creation with contents in one transaction.
    Renewal,
    /// A write to this chunk alone.
    Poke(u64),
    Append,
    Truncate,
    Deletion,
    /// Adds an amount to one of the shares and subtracts it from another, in different chunks.
    Share {
        amount: i32,
        is_float: bool,
    },
    /// Sets this mark in one chunk, or in both.
    Mark(Option<u64>, u32),
    /// Announces that so many records are staged.
    StageAppend(u64),
    /// Publishes so many staged records.
    Publication(u64),
    /// Writes all chunks, if nothing has changed.
    Rewrite,
    /// Truncates the tail to so many records, if nothing has changed.
    TruncateTail(u64),
    /// Removes another client's staged bytes.
    RemoveStaged,
    /// Declares a truncation finished.
    Settling,
}

impl HeaderChange {
    /// Whether it is a single operation, not a transaction.
    pub(in crate::cluster) fn is_single_operation(self) -> bool {
        matches!(
            self,
            HeaderChange::Creation
                | HeaderChange::Poke(_)
                | HeaderChange::Mark(Some(_), _)
                | HeaderChange::StageAppend(_)
                | HeaderChange::Publication(_)
                | HeaderChange::RemoveStaged
                | HeaderChange::Settling
        )
    }

    /// The name under which it is counted.
    pub(in crate::cluster) fn name(self) -> &'static str {
        match self {
            HeaderChange::Creation => "blobs: creations",
            HeaderChange::Making => "blobs: made with all that is in them",
            HeaderChange::Renewal => "blobs: removed and made again",
            HeaderChange::Write => "blobs: writes of all chunks",
            HeaderChange::Replacement => "blobs: replacements",
            HeaderChange::Poke(_) => "blobs: writes of one chunk",
            HeaderChange::Append => "blobs: appends",
            HeaderChange::Truncate => "blobs: cuts",
            HeaderChange::Deletion => "blobs: deletions",
            HeaderChange::Share { .. } => "blobs: shares moved",
            HeaderChange::Mark(Some(_), _) => "blobs: marks of one chunk",
            HeaderChange::Mark(None, _) => "blobs: marks of both chunks",
            HeaderChange::StageAppend(_) => "blobs: fillings begun",
            HeaderChange::Publication(_) => "blobs: fillings published",
            HeaderChange::Rewrite => "blobs: writes of what has not changed",
            HeaderChange::TruncateTail(_) => "blobs: cuts in the midst",
            HeaderChange::RemoveStaged => "blobs: fillings cut off",
            HeaderChange::Settling => "blobs: cuts finished for others",
        }
    }
}

/// Keyspace and number of a blob.
type BlobKey = (KeyspaceId, u64);

/// Size in bytes of a blob with so many appended tokens.
pub(super) const fn size_after(records: u64) -> u64 {
    BASE_BYTES + records * RECORD_BYTES
}

/// The header in the reply of a lookup.
pub(in crate::cluster) fn header_of(reply: &Reply) -> Option<ReadHeader> {
    let Reply::Value { version, bytes, .. } = reply else { return None };
    let BlobHeader {
        stamp,
        size,
        pending_truncation_end: truncation_end,
        is_staged_append: filling,
        attributes,
        ..
    } = BlobHeader::decode(bytes)?;
    let (edition, change, count) = read_attributes(attributes)?;
    Some(ReadHeader {
        version: *version,
        stamp,
        size,
        pending_truncation_end: truncation_end,
        is_staged_append: filling,
        edition,
        change,
        count,
    })
}

/// The chunk in the reply of a read.
pub(in crate::cluster) fn chunk_in(reply: &Reply) -> Option<ChunkRead> {
    let Reply::Chunk { version, stamp, bytes } = reply else { return None };
    Some(ChunkRead { version: *version, stamp: *stamp, bytes: bytes.clone() })
}

/// The key of a blob's header.
pub(in crate::cluster) fn key_of_header(blob: u64) -> Vec<u8> {
    header_key(&name(blob)).expect("is a name")
}

/// The key of a blob's chunk.
pub(in crate::cluster) fn key_of_chunk(blob: u64, chunk: u64) -> Vec<u8> {
    chunk_key(&name(blob), chunk).expect("is a name")
}

/// A read of a whole chunk.
pub(in crate::cluster) const WHOLE_CHUNK: Query<'static> =
    Query::ReadChunk(ReadChunk { offset: 0, length: CHUNK_BYTES as u32 });

pub(super) fn read_header_request(blob: BlobKey, limit_us: u64) -> SessionRequest {
    single_request(blob.0, &read(&key_of_header(blob.1), Query::Lookup), limit_us)
}

pub(super) fn chunk_read_requests(blob: BlobKey, header: &ReadHeader, limit_us: u64) -> Vec<SessionRequest> {
    let look = |chunk| single_request(blob.0, &read(&key_of_chunk(blob.1, chunk), WHOLE_CHUNK), limit_us);
    (0..header.chunks()).map(look).collect()
}

/// Reads all chunks in one request; the reply says whether they were read at one moment.
pub(super) fn read_all_request(blob: BlobKey, header: &ReadHeader, limit_us: u64) -> SessionRequest {
    let mut together = BlobItems { blob, items: Vec::new() };
    (0..header.chunks()).for_each(|chunk| together.add(&read(&key_of_chunk(blob.1, chunk), WHOLE_CHUNK)));
    SessionRequest::read_unconfirmed(together.items, limit_us)
        .expect("a few reads are no transaction's worth")
}

pub(super) fn confirms(
    blob: BlobKey,
    versions: impl Iterator<Item = Timestamp>,
    limit_us: u64,
) -> Vec<SessionRequest> {
    let confirm = |(chunk, version)| {
        single_request(
            blob.0,
            &read(&key_of_chunk(blob.1, chunk), Query::Confirm(Confirm { version })),
            limit_us,
        )
    };
    (0..).zip(versions).map(confirm).collect()
}

pub(super) fn read_together(blob: BlobKey, header: &ReadHeader, limit_us: u64) -> SessionRequest {
    let mut together = BlobItems { blob, items: Vec::new() };
    together.add(&read(&key_of_header(blob.1), Query::Lookup));
    (0..header.chunks()).for_each(|chunk| together.add(&read(&key_of_chunk(blob.1, chunk), WHOLE_CHUNK)));
    together.request(limit_us)
}

/// Writes the staged records, chunk by chunk, under the previous generation.
pub(super) fn stage_requests(
    blob: BlobKey,
    header: &ReadHeader,
    bytes: &[u8],
    limit_us: u64,
) -> Vec<SessionRequest> {
    let parts = parts(header.size, bytes);
    let fill = |(chunk, offset, bytes): (u64, u32, &[u8])| {
        let length = bytes.len() as u32;
        let change = BlobChange::WriteChunk { stamp: header.stamp, offset, length, bytes, makes: true };
        single_request(blob.0, &write(&key_of_chunk(blob.1, chunk), change), limit_us)
    };
    parts.map(fill).collect()
}

/// Truncates behind the end, chunk by chunk.
pub(super) fn truncate_requests(blob: BlobKey, header: &ReadHeader, limit_us: u64) -> Vec<SessionRequest> {
    let (stamp, marks) = (header.stamp, header.is_staged_append == FillState::CutOff);
    let cut = |chunk| {
        let keep = header.size.saturating_sub(chunk << CHUNK_BITS) as u32;
        let change = BlobChange::CutChunk { stamp, keep, creates_absent: marks };
        single_request(blob.0, &write(&key_of_chunk(blob.1, chunk), change), limit_us)
    };
    (header.size >> CHUNK_BITS..header.pending_truncation_end.div_ceil(CHUNK_BYTES)).map(cut).collect()
}

/// The request of a change, which may depend on the versions of chunks. Without a header it creates
/// the blob.
pub(super) fn change(
    blob: BlobKey,
    header: Option<&ReadHeader>,
    (made, plan, seen): (HeaderChange, BlobOperationPlan, &[Timestamp]),
    limit_us: u64,
) -> SessionRequest {
    let value = plan.value;
    let own = token(value);
    let Some(header) = header else {
        if made == HeaderChange::Making {
            let mut together = BlobItems { blob, items: Vec::new() };
            together.make(value);
            // Depends on the blob's absence, which was read.
            together.items[0].add_read_dependency(Timestamp::ZERO);
            return together.request(limit_us);
        }
        let attributes = attributes(value, value, 0);
        let create = BlobChange::Create { chunk_bits: CHUNK_BITS, attributes: &attributes };
        return single_request(blob.0, &write(&key_of_header(blob.1), create), limit_us);
    };
    let (old, chunks) = (header.stamp, header.chunks());
    let next = BlobStamp { generation: old.generation + 1, ..old };
    let is_as_seen = Condition::IfVersion(header.version);
    let mut together = BlobItems { blob, items: Vec::new() };
    (0..).zip(seen).for_each(|(chunk, version)| together.depend_on(chunk, *version));
    match made {
        HeaderChange::Creation | HeaderChange::Making | HeaderChange::Write => {
            together.header(Condition::Always, BlobChange::Grow { stamp: old, size: BASE_BYTES });
            together.base(old, &own);
        }
        HeaderChange::Replacement => {
            together.header(is_as_seen, BlobChange::Cut { stamp: old, size: 0 });
            together.header(Condition::Always, BlobChange::Settle { stamp: next });
            let attributes = attributes(value, value, header.count + 1);
            together.header(Condition::Always, BlobChange::Describe { stamp: next, attributes: &attributes });
            together.header(Condition::Always, BlobChange::Grow { stamp: next, size: BASE_BYTES });
            (0..chunks).for_each(|chunk| together.truncate_chunk(next, (chunk, 0)));
            together.base(next, &own);
        }
        HeaderChange::Poke(chunk) => {
            let length = own.len() as u32;
            let poke = BlobChange::WriteChunk { stamp: old, offset: 0, length, bytes: &own, makes: false };
            return single_request(blob.0, &write(&key_of_chunk(blob.1, chunk), poke), limit_us);
        }
        HeaderChange::Append => {
            together.header(is_as_seen, BlobChange::Grow { stamp: old, size: header.size + RECORD_BYTES });
            together.bytes(old, header.size, &own);
        }
        HeaderChange::Truncate | HeaderChange::TruncateTail(_) => {
            let size =
                if let HeaderChange::TruncateTail(records) = made { size_after(records) } else { BASE_BYTES };
            together.header(is_as_seen, BlobChange::Cut { stamp: old, size });
            for chunk in size >> CHUNK_BITS..chunks {
                together.truncate_chunk(next, (chunk, size.saturating_sub(chunk << CHUNK_BITS) as u32));
            }
            together.header(Condition::Always, BlobChange::Settle { stamp: next });
            let attributes = attributes(header.edition, value, header.count + 1);
            together.header(Condition::Always, BlobChange::Describe { stamp: next, attributes: &attributes });
        }
        HeaderChange::Rewrite => {
            together.header(is_as_seen, BlobChange::Grow { stamp: old, size: BASE_BYTES });
            together.base(old, &own);
        }
        HeaderChange::Deletion | HeaderChange::Renewal => {
            let remove = RecordWrite {
                key: &key_of_header(blob.1),
                condition: is_as_seen,
                change: WriteChange::Remove(Remove),
            };
            together.add(&RecordOperation::Write(remove));
            if made == HeaderChange::Renewal || value % 2 == 1 {
                // As part of a larger transaction that has read the header.
                together.items[0].add_read_dependency(header.version);
            }
            for chunk in 0..header.all_chunks() {
                together.add(&write(&key_of_chunk(blob.1, chunk), BlobChange::DropChunk { stamp: old }));
            }
            if made == HeaderChange::Renewal {
                together.make(value);
            }
        }
        HeaderChange::Share { amount, is_float } => {
            together.header(Condition::Always, BlobChange::Grow { stamp: old, size: BASE_BYTES });
            for (chunk, amount) in NUMBERS.zip([amount, -amount]) {
                together.transform(old, chunk, added(amount, is_float));
            }
        }
        HeaderChange::Mark(chunk, mark) => {
            let transform = Transform {
                operator: Operator::Xor,
                number: NumberType::U32,
                operand: 1 << mark,
                offset: u64::from(MARKS),
                returns: if plan.value.is_multiple_of(2) {
                    ReturnedNumber::Old
                } else {
                    ReturnedNumber::Nothing
                },
            };
            if let Some(chunk) = chunk {
                let change = BlobChange::TransformChunk { stamp: old, transform, makes: false };
                return single_request(blob.0, &write(&key_of_chunk(blob.1, chunk), change), limit_us);
            }
            together.header(Condition::Always, BlobChange::Grow { stamp: old, size: BASE_BYTES });
            NUMBERS.for_each(|chunk| together.transform(old, chunk, transform));
        }
        HeaderChange::StageAppend(records) => {
            let until = header.size + records * RECORD_BYTES;
            return conditional_request(blob, is_as_seen, BlobChange::Fill { stamp: old, until }, limit_us);
        }
        HeaderChange::Publication(records) => {
            let size = header.size + records * RECORD_BYTES;
            let publish = BlobChange::Publish { stamp: next, size };
            return conditional_request(blob, Condition::Always, publish, limit_us);
        }
        HeaderChange::RemoveStaged => {
            let cut = BlobChange::Cut { stamp: old, size: header.size };
            return conditional_request(blob, is_as_seen, cut, limit_us);
        }
        HeaderChange::Settling => {
            return conditional_request(blob, Condition::Always, BlobChange::Settle { stamp: old }, limit_us);
        }
    }
    together.request(limit_us)
}

/// The increment of a share.
fn added(amount: i32, is_float: bool) -> Transform {
    let (number, operand) = match is_float {
        true => (NumberType::F64, f64::from(amount).to_bits()),
        false => (NumberType::I64, i64::from(amount) as u64),
    };
    let offset = u64::from(SHARES[usize::from(is_float)]);
    Transform { operator: Operator::Add, number, operand, offset, returns: ReturnedNumber::Nothing }
}

/// The items of one transaction.
struct BlobItems {
    blob: BlobKey,
    items: Vec<CompositeItem>,
}

impl BlobItems {
    fn add(&mut self, operation: &RecordOperation<'_>) {
        self.items.push(CompositeItem::new(self.blob.0, operation, None).expect("is within bounds"));
    }

    fn header(&mut self, condition: Condition, change: BlobChange<'_>) {
        let key = key_of_header(self.blob.1);
        self.add(&RecordOperation::Write(RecordWrite {
            key: &key,
            condition,
            change: WriteChange::Blob(change),
        }));
    }

    fn truncate_chunk(&mut self, stamp: BlobStamp, (chunk, keep): (u64, u32)) {
        self.add(&write(
            &key_of_chunk(self.blob.1, chunk),
            BlobChange::CutChunk { stamp, keep, creates_absent: false },
        ));
    }

    fn transform(&mut self, stamp: BlobStamp, chunk: u64, transform: Transform) {
        let change = BlobChange::TransformChunk { stamp, transform, makes: true };
        self.add(&write(&key_of_chunk(self.blob.1, chunk), change));
    }

    /// Creates the blob with contents. Its id is the transaction's timestamp, known only at commit.
    fn make(&mut self, value: u64) {
        let own = BlobStamp { id: BlobStamp::OWN, generation: 0 };
        let attributes = attributes(value, value, 1);
        let create = BlobChange::Create { chunk_bits: CHUNK_BITS, attributes: &attributes };
        self.header(Condition::Always, create);
        self.header(Condition::Always, BlobChange::Grow { stamp: own, size: BASE_BYTES });
        self.base(own, &token(value));
    }

    /// Writes a token into each base chunk, and initial values into the chunks of numbers.
    fn base(&mut self, stamp: BlobStamp, token: &[u8]) {
        (0..BASE_CHUNKS).for_each(|chunk| self.bytes(stamp, chunk << CHUNK_BITS, token));
        NUMBERS.for_each(|chunk| self.transform(stamp, chunk, added(0, false)));
    }

    /// Writes bytes at an offset of the blob.
    fn bytes(&mut self, stamp: BlobStamp, at: u64, bytes: &[u8]) {
        for (chunk, offset, bytes) in parts(at, bytes) {
            let length = bytes.len() as u32;
            let change = BlobChange::WriteChunk { stamp, offset, length, bytes, makes: true };
            self.add(&write(&key_of_chunk(self.blob.1, chunk), change));
        }
    }

    /// Depends on the version of a chunk.
    fn depend_on(&mut self, chunk: u64, version: Timestamp) {
        let key = key_of_chunk(self.blob.1, chunk);
        self.add(&read(&key, Query::Inspect));
        self.items.last_mut().expect("it was added").add_read_dependency(version);
    }

    fn request(self, limit_us: u64) -> SessionRequest {
        SessionRequest::transaction(self.items, limit_us).expect("is within bounds")
    }
}

/// Splits bytes at an offset of a blob by chunk: chunk, offset in the chunk, bytes.
fn parts(at: u64, bytes: &[u8]) -> impl Iterator<Item = (u64, u32, &[u8])> {
    let (mut at, mut rest) = (at, bytes);
    std::iter::from_fn(move || {
        let (chunk, within) = (at >> CHUNK_BITS, at % CHUNK_BYTES);
        let (part, behind) = rest.split_at(rest.len().min((CHUNK_BYTES - within) as usize));
        (at, rest) = (at + part.len() as u64, behind);
        (!part.is_empty()).then_some((chunk, within as u32, part))
    })
}

fn conditional_request(
    blob: BlobKey,
    condition: Condition,
    change: BlobChange<'_>,
    limit_us: u64,
) -> SessionRequest {
    let key = key_of_header(blob.1);
    single_request(
        blob.0,
        &RecordOperation::Write(RecordWrite { key: &key, condition, change: WriteChange::Blob(change) }),
        limit_us,
    )
}

fn single_request(keyspace: KeyspaceId, operation: &RecordOperation<'_>, limit_us: u64) -> SessionRequest {
    SessionRequest::record(keyspace, operation, limit_us).expect("is within bounds")
}

fn read<'k>(key: &'k [u8], query: Query<'k>) -> RecordOperation<'k> {
    RecordOperation::Read(RecordRead { key, query })
}

fn write<'k>(key: &'k [u8], change: BlobChange<'k>) -> RecordOperation<'k> {
    RecordOperation::Write(RecordWrite {
        key,
        condition: Condition::Always,
        change: WriteChange::Blob(change),
    })
}

/// The contents of a blob by its header and chunks. Bytes of an earlier blob of the same name do
/// not count.
pub(in crate::cluster) fn contents<'l>(
    blob: u64,
    header: &ReadHeader,
    looked: &'l [Option<ChunkRead>],
) -> BlobContents<'l> {
    let chunk = |one: &'l Option<ChunkRead>| match one {
        Some(one) if one.stamp.id == header.stamp.id => (one.version.0, &one.bytes[..]),
        _ => (0, &[][..]),
    };
    let ReadHeader { edition, change, count, size, .. } = *header;
    let chunks = looked.iter().map(chunk).collect();
    BlobContents { blob, edition, change, order: header.order(), count, size, chunks }
}

/// Whether a failure says that the header has changed.
pub(super) fn is_of_other(failure: &Failure<'_>) -> bool {
    matches!(failure, Failure::StaleBlob { .. } | Failure::ConditionFailed { .. } | Failure::NotFound)
}
