//! FNV-1a, 64 bits, as its authors publish it (`draft-eastlake-fnv`).

/// The plain function, without seed and finaliser. Its top 16 bits hardly depend on the last byte: use it through [`super::HashKind`].
pub const fn fnv1a(key: &[u8]) -> u64 {
    const OFFSET_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    let mut hash = OFFSET_BASIS;
    let mut at = 0;
    while at < key.len() {
        hash = (hash ^ key[at] as u64).wrapping_mul(PRIME);
        at += 1;
    }
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fnv1a_matches_published_values() {
        assert_eq!(fnv1a(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(fnv1a(b"foo"), 0xdcb2_7518_fed9_d577);
        assert_eq!(fnv1a(b"foobar"), 0x8594_4171_f739_67e8);
    }
}
