//! The hash of the sdbm library, a polynomial in 65599 over the bytes, computed in 64 bits.

/// The plain function, without seed and finaliser. For short keys its top bits are zero: use it through [`super::HashKind`].
pub const fn sdbm(key: &[u8]) -> u64 {
    const FACTOR: u64 = 65_599;
    let mut hash = 0u64;
    let mut at = 0;
    while at < key.len() {
        hash = hash.wrapping_mul(FACTOR).wrapping_add(key[at] as u64);
        at += 1;
    }
    hash
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sdbm_matches_hand_computed_values() {
        assert_eq!(sdbm(b""), 0);
        assert_eq!(sdbm(b"a"), 97);
        assert_eq!(sdbm(b"ab"), 97 * 65_599 + 98);
        assert_eq!(sdbm(b"abc"), (97 * 65_599 + 98) * 65_599 + 99);
    }

    proptest! {
        // The form in the library's source.
        #[test]
        fn equals_the_shift_form(key in proptest::collection::vec(any::<u8>(), 0..64)) {
            let shifted = key.iter().fold(0u64, |hash, byte| {
                u64::from(*byte).wrapping_add(hash << 6).wrapping_add(hash << 16).wrapping_sub(hash)
            });
            prop_assert_eq!(sdbm(&key), shifted);
        }
    }
}
