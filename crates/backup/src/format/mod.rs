//! The bytes of a backup: a manifest, and parts of entries. This module does no I/O, and checks
//! every length before use. Integers are little-endian. `docs/formats/backup.md` has the tables.

#[cfg(test)]
mod documented;
pub mod manifest;
pub mod part;

/// The version of manifests and parts.
pub const VERSION: u32 = 1;

/// Bytes that violate the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

/// Reads fields in sequence.
pub(crate) struct FieldsReader<'a>(pub(crate) &'a [u8]);

impl<'a> FieldsReader<'a> {
    pub(crate) fn bytes(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let (bytes, rest) =
            self.0.split_at_checked(length).ok_or(Malformed("it ends before its fields do"))?;
        self.0 = rest;
        Ok(bytes)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let mut array = [0; N];
        array.copy_from_slice(self.bytes(N)?);
        Ok(array)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Malformed> {
        Ok(self.array::<1>()?[0])
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Malformed> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Malformed> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// A length (4 bytes) and as many bytes.
    pub(crate) fn counted(&mut self) -> Result<&'a [u8], Malformed> {
        let length = self.u32()? as usize;
        self.bytes(length)
    }

    pub(crate) fn text(&mut self) -> Result<String, Malformed> {
        let text = std::str::from_utf8(self.counted()?).map_err(|_| Malformed("a text is not UTF-8"))?;
        Ok(text.to_owned())
    }

    pub(crate) fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }

    pub(crate) fn end(&self) -> Result<(), Malformed> {
        if self.0.is_empty() { Ok(()) } else { Err(Malformed("it goes on behind its fields")) }
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
