//! Fixed fields: little-endian integers at fixed offsets, and bytes that must be zero.
//!
//! Writer and reader know their length at compile time. Positions therefore become constants, and one length check covers all the fields of a
//! message.

use crate::error::{BadRequestReason, Failure};

/// Returns `N` bytes of fields that `fill` writes one after the other. Panics if they do not add up to `N`; the first test of each message would
/// show that.
#[inline(always)]
pub fn layout<const N: usize>(fill: impl FnOnce(FieldWriter<'_>) -> FieldWriter<'_>) -> [u8; N] {
    let mut bytes = [0; N];
    let left = fill(FieldWriter { remaining: &mut bytes }).remaining.len();
    assert!(left == 0, "the fields of this message add up to another length than its table says");
    bytes
}

/// Writes fields one after the other.
// It has a slice instead of the array with a position: the compiler then sees every offset as a constant, and a frame takes a third of the time.
pub struct FieldWriter<'b> {
    remaining: &'b mut [u8],
}

impl<'b> FieldWriter<'b> {
    /// Appends these bytes.
    #[inline(always)]
    pub fn bytes<const W: usize>(self, value: [u8; W]) -> Self {
        let (to, rest) = self.remaining.split_at_mut(W);
        to.copy_from_slice(&value);
        Self { remaining: rest }
    }

    /// Appends a byte.
    #[inline(always)]
    pub fn u8(self, value: u8) -> Self {
        self.bytes([value])
    }

    /// Appends 2 bytes.
    #[inline(always)]
    pub fn u16(self, value: u16) -> Self {
        self.bytes(value.to_le_bytes())
    }

    /// Appends 4 bytes.
    #[inline(always)]
    pub fn u32(self, value: u32) -> Self {
        self.bytes(value.to_le_bytes())
    }

    /// Appends 8 bytes.
    #[inline(always)]
    pub fn u64(self, value: u64) -> Self {
        self.bytes(value.to_le_bytes())
    }

    /// Appends 8 bytes, signed.
    #[inline(always)]
    pub fn i64(self, value: i64) -> Self {
        self.bytes(value.to_le_bytes())
    }

    /// Leaves `count` bytes zero.
    #[inline(always)]
    pub fn zeros(self, count: usize) -> Self {
        Self { remaining: &mut self.remaining[count..] }
    }
}

/// Reads exactly `N` bytes of fields, one after the other.
pub struct FieldReader<'a, const N: usize> {
    bytes: &'a [u8; N],
    at: usize,
    zero: u8,
}

impl<'a, const N: usize> FieldReader<'a, N> {
    /// Splits the fixed fields off a body. Errors: `FieldsCut` if the body is shorter.
    #[inline(always)]
    pub fn split(body: &'a [u8]) -> Result<(Self, &'a [u8]), Failure<'static>> {
        match body.split_first_chunk::<N>() {
            Some((bytes, rest)) => Ok((Self { bytes, at: 0, zero: 0 }, rest)),
            None => Err(BadRequestReason::FieldsCut.into()),
        }
    }

    /// The next `W` bytes.
    #[inline(always)]
    pub fn bytes<const W: usize>(&mut self) -> [u8; W] {
        let mut value = [0; W];
        value.copy_from_slice(&self.bytes[self.at..self.at + W]);
        self.at += W;
        value
    }

    /// The next byte.
    #[inline(always)]
    pub fn u8(&mut self) -> u8 {
        u8::from_le_bytes(self.bytes())
    }

    /// The next 2 bytes.
    #[inline(always)]
    pub fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.bytes())
    }

    /// The next 4 bytes.
    #[inline(always)]
    pub fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.bytes())
    }

    /// The next 8 bytes.
    #[inline(always)]
    pub fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.bytes())
    }

    /// The next 8 bytes, signed.
    #[inline(always)]
    pub fn i64(&mut self) -> i64 {
        i64::from_le_bytes(self.bytes())
    }

    /// Skips `count` bytes that must be zero; [`Self::done`] reports it if they are not.
    #[inline(always)]
    pub fn zeros(&mut self, count: usize) {
        for byte in &self.bytes[self.at..self.at + count] {
            self.zero |= byte;
        }
        self.at += count;
    }

    /// Ends the reading. Errors: `Reserved` if a byte that must be zero was not.
    #[inline(always)]
    pub fn done(self) -> Result<(), Failure<'static>> {
        assert!(self.at == N, "the fields of this message add up to another length than its table says");
        if self.zero == 0 { Ok(()) } else { Err(BadRequestReason::Reserved.into()) }
    }
}

/// Splits `length` bytes off the front of a payload. Errors: `Lengths` if the payload is shorter.
#[inline(always)]
pub fn split(payload: &[u8], length: usize) -> Result<(&[u8], &[u8]), Failure<'static>> {
    payload.split_at_checked(length).ok_or_else(|| BadRequestReason::Lengths.into())
}

/// Removes a `u32` length and the bytes that follow it from the front of `bytes`.
#[inline(always)]
pub fn take_length_prefixed<'a>(bytes: &mut &'a [u8]) -> Result<&'a [u8], Failure<'static>> {
    let (length, rest) = bytes.split_first_chunk::<4>().ok_or(BadRequestReason::Lengths)?;
    let (value, rest) = split(rest, u32::from_le_bytes(*length) as usize)?;
    *bytes = rest;
    Ok(value)
}

/// A payload that must be empty. Errors: `Lengths` if it is not.
#[inline(always)]
pub fn nothing_left(payload: &[u8]) -> Result<(), Failure<'static>> {
    if payload.is_empty() { Ok(()) } else { Err(BadRequestReason::Lengths.into()) }
}
