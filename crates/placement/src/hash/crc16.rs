//! The slot of a key in Redis Cluster (its cluster specification, "Key distribution model"): CRC-16/XMODEM of the
//! key, or of its hash tag, modulo 16384.

/// Number of slots of Redis Cluster.
pub const SLOTS: u16 = 16_384;

/// Bytes processed at once, each with a table of its own ("slicing by 8").
const SLICE_BYTES: usize = 8;

/// CRC-16/XMODEM: polynomial 0x1021, initial value 0, not reflected.
pub fn crc16(bytes: &[u8]) -> u16 {
    let (slices, rest) = bytes.as_chunks::<SLICE_BYTES>();
    let mut crc = 0u16;
    for slice in slices {
        let [high, low] = crc.to_be_bytes();
        crc = TABLES[7][usize::from(slice[0] ^ high)]
            ^ TABLES[6][usize::from(slice[1] ^ low)]
            ^ TABLES[5][usize::from(slice[2])]
            ^ TABLES[4][usize::from(slice[3])]
            ^ TABLES[3][usize::from(slice[4])]
            ^ TABLES[2][usize::from(slice[5])]
            ^ TABLES[1][usize::from(slice[6])]
            ^ TABLES[0][usize::from(slice[7])];
    }
    for byte in rest {
        crc = (crc << 8) ^ TABLES[0][usize::from((crc >> 8) as u8 ^ byte)];
    }
    crc
}

/// The part of a key that Redis hashes: the bytes between the first `{` and the first `}` after it, if there are any; otherwise the complete key.
pub fn hash_tag(key: &[u8]) -> &[u8] {
    // Most keys have no tag.
    if !has_brace(key) {
        return key;
    }
    let Some(open) = key.iter().position(|byte| *byte == b'{') else { return key };
    let inside = &key[open + 1..];
    match inside.iter().position(|byte| *byte == b'}') {
        None | Some(0) => key,
        Some(length) => &inside[..length],
    }
}

/// Whether there is a `{`, checked in eight bytes at a time: a byte of a word is zero if a subtraction of one from it borrows although its top bit
/// was not set (Mycroft 1987).
fn has_brace(key: &[u8]) -> bool {
    const LOW: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let (words, rest) = key.as_chunks::<8>();
    let in_word = |word: &[u8; 8]| {
        let differs = u64::from_ne_bytes(*word) ^ (LOW * u64::from(b'{'));
        differs.wrapping_sub(LOW) & !differs & HIGH != 0
    };
    words.iter().any(in_word) || rest.contains(&b'{')
}

/// The result of `CLUSTER KEYSLOT key` in Redis.
pub fn key_slot(key: &[u8]) -> u16 {
    crc16(hash_tag(key)) % SLOTS
}

/// `TABLES[zeros][byte]` is the CRC of `byte` followed by `zeros` zero bytes.
static TABLES: [[u16; 256]; SLICE_BYTES] = {
    let mut tables = [[0; 256]; SLICE_BYTES];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = (byte as u16) << 8;
        let mut zeros = 0;
        while zeros < SLICE_BYTES {
            let mut bit = 0;
            while bit < 8 {
                crc = if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 };
                bit += 1;
            }
            tables[zeros][byte] = crc;
            zeros += 1;
        }
        byte += 1;
    }
    tables
};

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn crc16_matches_xmodem_check_value() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
        assert_eq!(crc16(b""), 0);
    }

    /// The results of `CLUSTER KEYSLOT` of Redis.
    #[test]
    fn slots_are_those_of_redis() {
        for (key, slot) in [
            (&b"foo"[..], 12_182),
            (b"bar", 5_061),
            (b"somekey", 11_058),
            (b"foo{hash_tag}", 2_515),
            (b"bar{hash_tag}", 2_515),
            (b"123456789", 12_739),
        ] {
            assert_eq!(key_slot(key), slot, "{}", key.escape_ascii());
        }
    }

    /// The examples of the specification.
    #[test]
    fn hash_tags_follow_the_specification() {
        for (key, tag) in [
            (&b"{user1000}.following"[..], &b"user1000"[..]),
            (b"foo{}{bar}", b"foo{}{bar}"),
            (b"foo{{bar}}zap", b"{bar"),
            (b"foo{bar}{zap}", b"bar"),
            (b"foo{bar", b"foo{bar"),
            (b"foo}bar{", b"foo}bar{"),
            (b"}{tag}", b"tag"),
            (b"", b""),
        ] {
            assert_eq!(hash_tag(key), tag, "{}", key.escape_ascii());
        }
    }

    proptest! {
        #[test]
        fn sliced_crc_equals_bitwise_crc(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            let by_bit = bytes.iter().fold(0u16, |crc, byte| {
                (0..8).fold(crc ^ (u16::from(*byte) << 8), |crc, _| {
                    (crc << 1) ^ if crc & 0x8000 == 0 { 0 } else { 0x1021 }
                })
            });
            prop_assert_eq!(crc16(&bytes), by_bit);
        }
    }
}
