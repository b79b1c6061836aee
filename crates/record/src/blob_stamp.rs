//! The fence of a blob: which creation and which truncation of it a chunk belongs to.

/// The blob stamp: id and generation of a blob. Every chunk write has it, and is refused where a later one is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlobStamp {
    /// The timestamp of the blob's creation.
    pub id: u64,
    /// How often the blob was truncated.
    pub generation: u64,
}

impl BlobStamp {
    /// Replaces the id for a blob that the same transaction creates. The id is the transaction's version, which only the commit determines; no blob
    /// has this value as its id.
    pub const OWN: u64 = u64::MAX;

    /// Encodes it as the fence of a chunk.
    #[must_use]
    pub fn encode(self) -> [u8; 16] {
        let mut out = [0; 16];
        out[..8].copy_from_slice(&self.id.to_le_bytes());
        out[8..].copy_from_slice(&self.generation.to_le_bytes());
        out
    }

    /// Decodes the fence of a chunk.
    #[must_use]
    pub fn decode(bytes: &[u8; 16]) -> Self {
        let (id, generation) = bytes.split_at(8);
        let number = |bytes: &[u8]| bytes.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
        Self { id: number(id), generation: number(generation) }
    }
}
