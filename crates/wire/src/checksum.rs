//! CRC-32C, the checksum of headers and bodies.
//!
//! It detects every change of up to three bits, and every burst of up to 32, in frames of any permitted length.

use crc_fast::{CrcAlgorithm, Digest};

/// CRC-32C (Castagnoli; reflected, initial value and final exclusive-or all ones) of `bytes`.
#[must_use]
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(bytes)
}

/// CRC-32C of `first` followed by `behind`, for bodies whose payload is in another buffer.
#[must_use]
pub(crate) fn crc32c_of(first: &[u8], behind: &[&[u8]]) -> u32 {
    if behind.iter().all(|piece| piece.is_empty()) {
        return crc32c(first);
    }
    let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
    digest.update(first);
    behind.iter().for_each(|piece| digest.update(piece));
    digest.finalize() as u32
}

/// CRC-32C of two consecutive parts, from their checksums and the length of the second.
pub(crate) fn crc32c_joined(first: u32, second: u32, second_bytes: u64) -> u32 {
    times(power(&FORWARD, second_bytes), first) ^ second
}

/// CRC-32C of the bytes between these, if the checksum of all together is `whole`: bytes that are already in a checksum need not be read again.
#[must_use]
pub fn crc32c_of_middle(whole: u32, before: &[u8], middle_bytes: u64, behind: &[u8]) -> u32 {
    let without_end = times(power(&BACK, behind.len() as u64), whole ^ crc32c(behind));
    without_end ^ times(power(&FORWARD, middle_bytes), crc32c(before))
}

/// The polynomial, with bits in the order of the checksum: the highest bit is the coefficient of the power zero.
const POLYNOMIAL: u32 = 0x82f6_3b78;

/// The powers of x, and of its inverse, with the exponents 8, 16, 32 and so on: each moves a checksum over twice as many bytes as the one before.
/// The initial value and the final exclusive-or are both all ones. A checksum still moves over bytes as if both were zero, if the checksum of those
/// bytes is added.
const FORWARD: [u32; 40] = eighth_powers(1 << 30);
const BACK: [u32; 40] = eighth_powers(((POLYNOMIAL ^ (1 << 31)) << 1) | 1);

const fn eighth_powers(of: u32) -> [u32; 40] {
    let mut powers = [0; 40];
    let mut next = times(of, of);
    next = times(next, next);
    next = times(next, next);
    let mut at = 0;
    while at < powers.len() {
        powers[at] = next;
        next = times(next, next);
        at += 1;
    }
    powers
}

/// The product of those powers whose indices are the one bits of a number of bytes.
fn power(powers: &[u32; 40], bytes: u64) -> u32 {
    let ones = (0..powers.len()).filter(|place| bytes >> place & 1 == 1);
    ones.fold(1 << 31, |product, place| times(product, powers[place]))
}

/// The product of two polynomials modulo the checksum's.
const fn times(a: u32, mut b: u32) -> u32 {
    let (mut product, mut bit) = (0, 32);
    while bit > 0 {
        bit -= 1;
        if a >> bit & 1 == 1 {
            product ^= b;
        }
        b = (b >> 1) ^ (POLYNOMIAL * (b & 1));
    }
    product
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn checksums_of_parts_and_whole_are_derivable_from_each_other(
            bytes in prop::collection::vec(any::<u8>(), 0..3_000), cuts: (prop::sample::Index, prop::sample::Index)
        ) {
            let (a, b) = (cuts.0.index(bytes.len() + 1), cuts.1.index(bytes.len() + 1));
            let (before, rest) = bytes.split_at(a.min(b));
            let (middle, behind) = rest.split_at(a.max(b) - a.min(b));
            let whole = crc32c(&bytes);
            prop_assert_eq!(crc32c_of_middle(whole, before, middle.len() as u64, behind), crc32c(middle));
            prop_assert_eq!(crc32c_joined(crc32c(before), crc32c(rest), rest.len() as u64), whole);
        }
    }

    #[test]
    fn checksums_move_over_many_bytes() {
        let zeros = vec![0; 20 << 20];
        let whole = crc32c(&[b"before", &zeros[..], b"behind"].concat());
        assert_eq!(crc32c_of_middle(whole, b"before", zeros.len() as u64, b"behind"), crc32c(&zeros));
    }

    #[test]
    fn crc32c_matches_published_check_value() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        for cut in 0..=9 {
            let (a, b) = b"123456789".split_at(cut);
            assert_eq!(crc32c_of(a, &[b]), 0xe306_9283);
            let (b, c) = b.split_at(b.len() / 2);
            assert_eq!(crc32c_of(a, &[b, c]), 0xe306_9283);
        }
    }
}
