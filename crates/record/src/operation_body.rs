//! The bytes of an operation in a frame: the fields that every read or write begins with, and the means to read those behind them.

use crate::error::{BadRequestReason, Failure};
use crate::fields::{FieldReader, layout, nothing_left, split};
use crate::record::{Condition, check_key};

/// The fields that every write begins with, for sending.
#[derive(Clone, Copy, Debug)]
pub struct WriteHead<'a> {
    /// The key of the record.
    pub key: &'a [u8],
    key_len: u32,
    condition: (u8, u64),
}

impl<'a> WriteHead<'a> {
    /// Errors: the key is too long.
    pub fn new(key: &'a [u8], condition: Condition) -> Result<Self, Failure<'static>> {
        Ok(Self { key, key_len: check_key(key)?, condition: condition.numbers() })
    }

    /// The 16 bytes; `detail` is the operation's own.
    #[inline(always)]
    pub fn fields(&self, detail: u8) -> [u8; 16] {
        let (condition, version) = self.condition;
        layout(|to| to.u32(self.key_len).u8(condition).u8(detail).zeros(2).u64(version))
    }
}

/// The fields that every read begins with, for sending.
#[derive(Clone, Copy, Debug)]
pub struct ReadHead<'a> {
    /// The key of the record.
    pub key: &'a [u8],
    key_len: u32,
}

impl<'a> ReadHead<'a> {
    /// Errors: the key is too long.
    pub fn new(key: &'a [u8]) -> Result<Self, Failure<'static>> {
        Ok(Self { key, key_len: check_key(key)? })
    }

    /// The 8 bytes; `detail` is the operation's own.
    #[inline(always)]
    pub fn fields(&self, detail: u8) -> [u8; 8] {
        layout(|to| to.u32(self.key_len).u8(detail).zeros(3))
    }
}

/// The body of a received operation behind the fields that all begin with.
#[derive(Debug)]
pub struct OperationBody<'a> {
    pub(crate) key_len: usize,
    pub(crate) detail: u8,
    pub(crate) rest: &'a [u8],
}

impl<'a> OperationBody<'a> {
    /// The detail byte of an operation that has one.
    #[inline(always)]
    pub fn detail(&self) -> u8 {
        self.detail
    }

    /// Errors: the operation has no detail, and the byte is not zero.
    #[inline(always)]
    pub fn no_detail(&self) -> Result<(), Failure<'static>> {
        if self.detail == 0 { Ok(()) } else { Err(BadRequestReason::Detail.into()) }
    }

    /// Reads `N` bytes of fields. Errors: there are fewer.
    #[inline(always)]
    pub fn fields<const N: usize>(&mut self) -> Result<FieldReader<'a, N>, Failure<'static>> {
        let (fields, rest) = FieldReader::split(self.rest)?;
        self.rest = rest;
        Ok(fields)
    }

    /// Key and payload, which are all that is left. Errors: the key is too long, or cut.
    #[inline(always)]
    pub fn key_and_payload(&self) -> Result<(&'a [u8], &'a [u8]), Failure<'static>> {
        let (key, payload) = split(self.rest, self.key_len)?;
        check_key(key)?;
        Ok((key, payload))
    }

    /// The key of an operation without a payload. Errors: as before, or there is a payload.
    #[inline(always)]
    pub fn only_key(&self) -> Result<&'a [u8], Failure<'static>> {
        let (key, payload) = self.key_and_payload()?;
        nothing_left(payload)?;
        Ok(key)
    }
}
