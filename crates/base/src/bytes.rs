//! Reads little-endian fields from the front of bytes that are not trusted.

/// A position in bytes. Each field is `None` if the bytes end too soon, and then nothing is read.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
    length: usize,
}

impl<'a> Reader<'a> {
    /// A reader at the beginning of `bytes`.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes, length: bytes.len() }
    }

    /// Whether all bytes are read.
    #[must_use]
    pub const fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }

    /// How many bytes are read.
    #[must_use]
    pub const fn position(&self) -> usize {
        self.length - self.rest.len()
    }

    /// The bytes that are not yet read.
    #[must_use]
    pub const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// The next `length` bytes.
    #[inline]
    pub fn bytes(&mut self, length: usize) -> Option<&'a [u8]> {
        let (front, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(front)
    }

    /// The next `N` bytes.
    #[inline]
    pub fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (front, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(*front)
    }

    /// One byte.
    #[inline]
    pub fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_le_bytes)
    }

    /// Two bytes.
    #[inline]
    pub fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    /// Four bytes.
    #[inline]
    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    /// Eight bytes.
    #[inline]
    pub fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// A count (4 bytes) of elements of at least `bytes_min` bytes each: `None` if it is above `limit`, or above what the
    /// rest can contain. A decoder may allocate this many elements.
    ///
    /// # Panics
    /// If `bytes_min` is 0.
    #[inline]
    pub fn count(&mut self, bytes_min: usize, limit: usize) -> Option<usize> {
        let mut ahead = self.clone();
        let count = ahead.u32()? as usize;
        if count > limit || count > ahead.rest.len() / bytes_min {
            return None;
        }
        *self = ahead;
        Some(count)
    }
}

#[cfg(test)]
mod tests {
    use super::Reader;

    #[test]
    fn fields_are_read_in_order_and_truncated_field_consumes_nothing() {
        let bytes = [1, 2, 0, 3, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 9, 9];
        let mut reader = Reader::new(&bytes);
        assert_eq!(
            (reader.u8(), reader.u16(), reader.u32(), reader.u64()),
            (Some(1), Some(2), Some(3), Some(4))
        );
        assert_eq!((reader.u32(), reader.position(), reader.rest()), (None, 15, &[9, 9][..]));
        assert_eq!((reader.bytes(3), reader.bytes(2), reader.is_at_end()), (None, Some(&[9, 9][..]), true));
    }

    #[test]
    fn count_is_bounded_by_limit_and_remaining_bytes() {
        let bytes = [2, 0, 0, 0, 1, 1, 1, 1];
        assert_eq!(Reader::new(&bytes).count(2, 2), Some(2));
        assert_eq!(Reader::new(&bytes).count(2, 1), None);
        let mut reader = Reader::new(&bytes);
        assert_eq!((reader.count(3, 9), reader.position()), (None, 0));
        assert_eq!(Reader::new(&bytes[..3]).count(1, 9), None);
    }
}
