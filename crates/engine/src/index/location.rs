//! The location of the newest version of a key, in 8 bytes.
//!
//! ```text
//!  bit 63      62       61 .. 54      53 .. 47   46 .. 27        26 .. 0
//!   older?   chain = 0  size class     unused    segment slot    offset        an entry in the log
//!   older?   chain = 1               unused               31 .. 0  chain id    parts in the side table
//! ```

/// A place in the log, or an id in the side table.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Location(pub u64);

const OLDER: u64 = 1 << 63;
const CHAIN: u64 = 1 << 62;
const CLASS_AT: u32 = 54;
const SLOT_AT: u32 = 27;
const SLOT_MASK: u64 = (1 << 20) - 1;
const OFFSET_MASK: u64 = (1 << 27) - 1;

/// The content of a [`Location`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryPlace {
    /// One entry.
    Entry(Position),
    /// A record of several parts.
    Chain(u32),
}

/// A position in one segment, and the maximum number of bytes to read there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The segment of the partition, by its slot in memory.
    pub slot: u32,
    /// Offset in its file.
    pub offset: u32,
    /// Upper bound of the entry's length, at most an eighth too large.
    pub bytes_max: u32,
}

impl Location {
    /// An entry of that length at that position.
    pub fn entry(slot: u32, offset: u32, entry_bytes: usize) -> Location {
        debug_assert!(u64::from(slot) <= SLOT_MASK && u64::from(offset) <= OFFSET_MASK);
        Location(
            u64::from(class_of(entry_bytes)) << CLASS_AT | u64::from(slot) << SLOT_AT | u64::from(offset),
        )
    }

    /// A chain in the side table.
    pub fn chain(id: u32) -> Location {
        Location(CHAIN | u64::from(id))
    }

    /// The decoded content.
    pub fn decode(self) -> EntryPlace {
        if self.0 & CHAIN != 0 {
            return EntryPlace::Chain(self.0 as u32);
        }
        EntryPlace::Entry(Position {
            slot: (self.0 >> SLOT_AT & SLOT_MASK) as u32,
            offset: (self.0 & OFFSET_MASK) as u32,
            bytes_max: class_bytes((self.0 >> CLASS_AT) as u8),
        })
    }

    /// The same place in another slot: a checkpoint's slots are not those of the process that reads it.
    pub fn in_slot(self, slot: u32) -> Location {
        Location(self.0 & !(SLOT_MASK << SLOT_AT) | u64::from(slot) << SLOT_AT)
    }

    /// Whether older versions of this record are in the side table.
    pub fn has_older(self) -> bool {
        self.0 & OLDER != 0
    }

    /// The same place, with or without that mark.
    pub fn with_older(self, older: bool) -> Location {
        if older { Location(self.0 | OLDER) } else { Location(self.0 & !OLDER) }
    }

    /// Whether two locations name the same place.
    pub fn is_same_entry(self, other: Location) -> bool {
        (self.0 ^ other.0) & !OLDER == 0
    }
}

impl std::fmt::Debug for Location {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}{}", self.decode(), if self.has_older() { " (older versions)" } else { "" })
    }
}

/// A floating number of 5 bits of exponent and 3 of mantissa, rounded up.
fn class_of(bytes: usize) -> u8 {
    let mut exponent = usize::BITS.saturating_sub(4 + bytes.leading_zeros());
    let mut mantissa = bytes.div_ceil(1 << exponent);
    if mantissa == 16 {
        exponent += 1;
        mantissa = 8;
    }
    debug_assert!((8..16).contains(&mantissa) && exponent < 32, "{bytes}");
    (exponent as u8) << 3 | (mantissa as u8 - 8)
}

/// The length of the longest entry whose location names the same length as one of this length.
pub(crate) fn longest_like(bytes: u32) -> u32 {
    class_bytes(class_of(bytes as usize))
}

fn class_bytes(class: u8) -> u32 {
    (8 + u32::from(class & 7)) << (class >> 3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_class_is_never_too_small_and_at_most_an_eighth_too_large() {
        for bytes in (8..70_000).chain([1 << 20, (1 << 24) + 70_000, (1 << 24) + (1 << 17) + 28]) {
            let bound = class_bytes(class_of(bytes)) as usize;
            assert!(bound >= bytes && bound - bytes <= bytes / 8, "{bytes} -> {bound}");
        }
    }

    #[test]
    fn location_round_trips() {
        let at = Location::entry((1 << 20) - 1, (1 << 27) - 1, 175);
        let expected = Position { slot: (1 << 20) - 1, offset: (1 << 27) - 1, bytes_max: 176 };
        assert_eq!(at.decode(), EntryPlace::Entry(expected));
        assert!(!at.has_older() && at.with_older(true).has_older());
        assert_eq!(at.with_older(true).decode(), EntryPlace::Entry(expected));
        assert!(at.is_same_entry(at.with_older(true)));
        assert_eq!(Location::chain(u32::MAX).decode(), EntryPlace::Chain(u32::MAX));
    }
}
