//! The bytes of a backup: a manifest, and parts of entries. This module does no I/O, and checks
//! every length before use. Integers are little-endian. `docs/formats/backup.md` has the tables.

#[cfg(test)]
mod documented;
pub mod manifest;
pub mod part;

use zerohop_base::bytes::Reader;

/// The version of manifests and parts.
pub const VERSION: u32 = 1;

/// Bytes that violate the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FormatError(pub &'static str);

/// Reads fields one after the other, and says what is wrong if it cannot.
pub(crate) struct FieldsReader<'a>(Reader<'a>);

/// The error of bytes that are too short.
const CUT: FormatError = FormatError("it ends before its fields do");

impl<'a> FieldsReader<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self(Reader::new(bytes))
    }

    pub(crate) fn bytes(&mut self, length: usize) -> Result<&'a [u8], FormatError> {
        self.0.bytes(length).ok_or(CUT)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], FormatError> {
        self.0.array().ok_or(CUT)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, FormatError> {
        self.0.u8().ok_or(CUT)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, FormatError> {
        self.0.u32().ok_or(CUT)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, FormatError> {
        self.0.u64().ok_or(CUT)
    }

    /// A length (4 bytes) and as many bytes.
    pub(crate) fn counted(&mut self) -> Result<&'a [u8], FormatError> {
        let length = self.u32()? as usize;
        self.bytes(length)
    }

    pub(crate) fn text(&mut self) -> Result<String, FormatError> {
        let text = std::str::from_utf8(self.counted()?).map_err(|_| FormatError("a text is not UTF-8"))?;
        Ok(text.to_owned())
    }

    pub(crate) fn rest(&mut self) -> &'a [u8] {
        std::mem::replace(&mut self.0, Reader::new(&[])).rest()
    }

    pub(crate) fn end(&self) -> Result<(), FormatError> {
        if self.0.is_at_end() { Ok(()) } else { Err(FormatError("it goes on behind its fields")) }
    }
}

pub(crate) fn put_counted(bytes: &[u8], out: &mut Vec<u8>) {
    // The wire protocol bounds keys, names and values far below this.
    out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    out.extend_from_slice(bytes);
}

/// CRC-32C.
#[must_use]
pub fn checksum(bytes: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(bytes)
}
