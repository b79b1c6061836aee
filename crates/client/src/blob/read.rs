//! Reading a blob from one end to the other, a few pieces ahead of whoever takes them.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};
use zerohop_session::{Error as Reason, Reply};
use zerohop_wire::Failure;
use zerohop_wire::messages::{Operation as WireOperation, Query, Read};

use super::{Answer, Blob, Known};
use crate::error::Error;

/// Bytes asked for at once, and how many such pieces are under way: what a reader holds in memory is their product.
const PIECE_BYTES: u64 = 1 << 20;
const PIECES_AHEAD: usize = 4;

/// The bytes of a blob, piece by piece.
#[derive(Debug)]
pub struct BlobRead<'a> {
    blob: Blob<'a>,
    header: Known,
    /// What is still to be asked for.
    next: u64,
    end: u64,
    ahead: VecDeque<(Answer, usize)>,
}

impl<'a> BlobRead<'a> {
    pub(super) fn new(blob: Blob<'a>, header: Known, offset: u64, length: u64) -> Self {
        let end = offset.saturating_add(length).min(header.size);
        Self { blob, header, next: offset, end, ahead: VecDeque::new() }
    }

    /// Bytes that are still to come.
    #[must_use]
    pub fn left(&self) -> u64 {
        let ahead: u64 = self.ahead.iter().map(|(_, length)| *length as u64).sum();
        ahead + self.end.saturating_sub(self.next)
    }

    /// The next piece; `None` at the end.
    pub async fn next_piece(&mut self) -> Result<Option<Bytes>, Error> {
        while self.ahead.len() < PIECES_AHEAD && self.next < self.end {
            self.ask()?;
        }
        let Some((answer, length)) = self.ahead.pop_front() else { return Ok(None) };
        match answer.await.unwrap_or(Err(Reason::Closed)) {
            // What is left of another blob of the name is none of this one's.
            Ok(Reply::Chunk { stamp, bytes, .. }) if stamp.id == self.header.stamp.id => {
                Ok(Some(whole(bytes, length)))
            }
            Ok(Reply::Chunk { .. }) | Err(Reason::Answer { failure: Failure::NotFound }) => {
                Ok(Some(whole(Bytes::new(), length)))
            }
            Ok(_) => Err(Error::Unexpected),
            Err(reason) => Err(Error::about(&self.blob.name, reason)),
        }
    }

    /// All that is left, in one piece: for what is known to be small.
    pub async fn read_to_end(mut self) -> Result<Bytes, Error> {
        let mut all = BytesMut::new();
        while let Some(piece) = self.next_piece().await? {
            if all.is_empty() && self.left() == 0 {
                return Ok(piece);
            }
            all.extend_from_slice(&piece);
        }
        Ok(all.freeze())
    }

    fn ask(&mut self) -> Result<(), Error> {
        let bits = self.header.chunk_bits;
        let number = self.next >> bits;
        let within = self.next - (number << bits);
        let length = (self.header.chunk_bytes() - within).min(self.end - self.next).min(PIECE_BYTES);
        let key = self.blob.chunk_key(number)?;
        let query = Query::ReadChunk { offset: within as u32, length: length as u32 };
        let answer = self.blob.start(&WireOperation::Read(Read { key: &key, query }))?;
        self.ahead.push_back((answer, length as usize));
        self.next += length;
        Ok(())
    }
}

/// A piece with the zeros that were left out at its end.
pub(crate) fn whole(bytes: Bytes, length: usize) -> Bytes {
    if bytes.len() == length {
        return bytes;
    }
    let mut all = BytesMut::from(&bytes[..]);
    all.resize(length, 0);
    all.freeze()
}
