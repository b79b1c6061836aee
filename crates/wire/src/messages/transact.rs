//! Transactions as clients request them, and their answers: `docs/protocols/transactions.md`.
//!
//! The parts of a transaction describe it, in the encoding of the transaction protocol: for this crate they are bytes, like a map.

use super::session::Stamp;
use crate::elements::{Element, Elements};
use crate::error::Failure;
use crate::fields::{FieldReader, layout};
use crate::ids::Timestamp;
use crate::limits::{STAGED_PIECE_BYTES_MAX, TRANSACTION_ITEMS_MAX};
use zerohop_record::answer::OperationAnswer;

/// A transaction, sent to its coordinator: the partition of its last part. Answers `Transacted`, or `Aborted`.
///
/// The stamp (40), and the parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transact<'a> {
    /// Its write identity among the session's writes to the coordinator's partition.
    pub stamp: Stamp,
    /// The requests to each partition, in the global order of partitions.
    pub parts: &'a [u8],
}

/// Bytes that a transaction will refer to by the session and the sequence number of this stamp, sent to the partition of the part that refers to
/// them. Answers `Done`, number 0, once the bytes are stored.
///
/// The stamp (40), and the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StageBytes<'a> {
    /// Its write identity, and the name of the piece.
    pub stamp: Stamp,
    /// An operation, a list of items, or the names of pieces that are no longer needed; at most `STAGED_PIECE_BYTES_MAX`.
    pub piece: &'a [u8],
}

/// A transaction was committed at this version. 16 bytes: version (8), number of answers (4), zero (4); then the answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransactionDone<'a> {
    /// The version of all records that it changed.
    pub version: Timestamp,
    /// The answers to its items, part by part, in the order of the request. In an answer, a version of `Timestamp::MAX` stands for that of the
    /// transaction, which was not known when the item was evaluated.
    pub answers: Elements<'a, ItemAnswer<'a>>,
}

/// The answer to one item of a transaction: as in the answer to a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ItemAnswer<'a>(pub OperationAnswer<'a>);

impl<'a> Element<'a> for ItemAnswer<'a> {
    const COUNT_MAX: u32 = TRANSACTION_ITEMS_MAX;

    fn put(&self, out: &mut Vec<u8>) -> Result<&[u8], Failure<'static>> {
        self.0.put(out)
    }

    fn take(bytes: &mut &'a [u8]) -> Result<Self, Failure<'static>> {
        <OperationAnswer<'a> as Element<'a>>::take(bytes).map(Self)
    }
}

impl<'a> Transact<'a> {
    pub(crate) fn put(&self, out: &mut Vec<u8>) -> Result<&'a [u8], Failure<'static>> {
        out.extend_from_slice(&self.stamp.encode()?);
        Ok(self.parts)
    }

    pub(crate) fn decode_body(body: &'a [u8]) -> Result<Self, Failure<'static>> {
        let (stamp, parts) = Stamp::split(body)?;
        Ok(Self { stamp, parts })
    }
}

impl<'a> StageBytes<'a> {
    pub(crate) fn put(&self, out: &mut Vec<u8>) -> Result<&'a [u8], Failure<'static>> {
        check_piece(self.piece)?;
        out.extend_from_slice(&self.stamp.encode()?);
        Ok(self.piece)
    }

    pub(crate) fn decode_body(body: &'a [u8]) -> Result<Self, Failure<'static>> {
        let (stamp, piece) = Stamp::split(body)?;
        check_piece(piece)?;
        Ok(Self { stamp, piece })
    }
}

impl<'a> TransactionDone<'a> {
    pub(crate) fn put(&self, out: &mut Vec<u8>) -> Result<&'a [u8], Failure<'static>> {
        let fields: [u8; 16] = layout(|to| to.u64(self.version.0).u32(self.answers.count()).zeros(4));
        out.extend_from_slice(&fields);
        self.answers.put(out)
    }

    pub(crate) fn decode_body(body: &'a [u8]) -> Result<Self, Failure<'static>> {
        let (mut fields, rest) = FieldReader::<16>::split(body)?;
        let (version, count) = (Timestamp(fields.u64()), fields.u32());
        fields.zeros(4);
        fields.done()?;
        Ok(Self { version, answers: Elements::packed(count, rest)? })
    }
}

/// Errors: the piece is longer than `STAGED_PIECE_BYTES_MAX`.
fn check_piece(piece: &[u8]) -> Result<(), Failure<'static>> {
    if piece.len() > STAGED_PIECE_BYTES_MAX {
        let (length, limit) = (piece.len() as u64, STAGED_PIECE_BYTES_MAX as u32);
        return Err(Failure::ValueTooLong { length, limit });
    }
    Ok(())
}
