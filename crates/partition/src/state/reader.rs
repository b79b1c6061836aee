//! Reads fields from the front of untrusted bytes.

use zerohop_wire::ids::{SessionId, Timestamp};

/// A reader of little-endian fields. Each is `None` if the bytes end too soon.
pub(crate) struct StateReader<'a> {
    bytes: &'a [u8],
}

impl<'a> StateReader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> StateReader<'a> {
        StateReader { bytes }
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(crate) fn left(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn bytes(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(length)?;
        self.bytes = rest;
        Some(taken)
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_le_bytes)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    pub(crate) fn session(&mut self) -> Option<SessionId> {
        Some(SessionId { issued: Timestamp(self.u64()?), nonce: self.u64()? })
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.bytes.split_first_chunk()?;
        self.bytes = rest;
        Some(*taken)
    }
}
