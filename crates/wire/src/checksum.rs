//! CRC-32C, the checksum of headers and bodies.
//!
//! It finds every change of up to three bits, and every burst of up to 32, in a frame of any length allowed here.

use crc_fast::{CrcAlgorithm, Digest};

/// CRC-32C (Castagnoli; reflected, initial value and final exclusive-or all ones) of `bytes`.
#[must_use]
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(bytes)
}

/// CRC-32C of `first` followed by `second`, for bodies whose payload lies elsewhere.
#[must_use]
pub(crate) fn crc32c_of_two(first: &[u8], second: &[u8]) -> u32 {
    if second.is_empty() {
        return crc32c(first);
    }
    let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
    digest.update(first);
    digest.update(second);
    digest.finalize() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_check_value_of_the_catalogue_comes_out() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        for cut in 0..=9 {
            let (a, b) = b"123456789".split_at(cut);
            assert_eq!(crc32c_of_two(a, b), 0xe306_9283);
        }
    }
}
