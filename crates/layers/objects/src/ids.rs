//! Ids of body sets and bodies.

/// The name of a body set: random, drawn by the caller. The set of a multipart upload has the upload's id.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SetId(pub [u8; 16]);

impl SetId {
    /// The id that its hexadecimal text names.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.as_bytes();
        if text.len() != 32 {
            return None;
        }
        let mut bytes = [0; 16];
        for (byte, pair) in bytes.iter_mut().zip(text.chunks_exact(2)) {
            *byte = digit(pair[0])? << 4 | digit(pair[1])?;
        }
        Some(Self(bytes))
    }

    /// Random bytes for the id of the version that first names the set.
    pub(crate) fn draw(self) -> [u8; 8] {
        let mut draw = [0; 8];
        draw.copy_from_slice(&self.0[8..]);
        draw
    }
}

impl std::fmt::Display for SetId {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(formatter, "{byte:02x}"))
    }
}

impl std::fmt::Debug for SetId {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "SetId({self})")
    }
}

/// The name of a body. No two bodies ever have the same: a retry of a part draws a new number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BodyId {
    /// The set of the body.
    pub set: SetId,
    /// [`WHOLE_OBJECT`] for the body of an object that is put whole; else a random number above it.
    pub number: u64,
}

/// The number of the only body of a set without parts. A timer with number 0 is one of the whole set.
pub const WHOLE_OBJECT: u64 = 1;

impl BodyId {
    /// The name of the blob that has the body's bytes.
    #[must_use]
    pub fn blob_name(self) -> String {
        format!("{}-{:016x}", self.set, self.number)
    }
}

/// A part of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BodyRange {
    /// The body.
    pub body: BodyId,
    /// The first byte.
    pub offset: u64,
    /// The number of bytes.
    pub length: u64,
}

fn digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::SetId;

    #[test]
    fn text_of_an_id_names_it_and_other_text_names_none() {
        let id = SetId(*b"\x00\x01\xff0456789abcdef");
        assert_eq!(SetId::parse(&id.to_string()), Some(id));
        for text in ["", "0", "zz010203040506070809101112131415", "é0010203040506070809101112131415"] {
            assert_eq!(SetId::parse(text), None, "{text}");
        }
    }
}
