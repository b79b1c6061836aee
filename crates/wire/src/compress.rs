//! LZ4 for bodies: `u32` length of the uncompressed body, then an LZ4 block.

use lz4_flex::block::{compress_into, decompress_into, get_maximum_output_size};

use crate::error::{BadRequestReason, Failure};
use crate::limits::{BODY_BYTES_MAX, COMPRESS_RATIO_MAX};

const LENGTH_BYTES: usize = 4;

/// Compresses `out` from `start` on, in place. Returns `false`, with `out` unchanged, if that would not make it shorter.
pub(crate) fn compress_from(out: &mut Vec<u8>, start: usize) -> bool {
    let end = out.len();
    let plain_len = end - start;
    let Ok(claim) = u32::try_from(plain_len) else {
        return false;
    };
    out.resize(end + LENGTH_BYTES + get_maximum_output_size(plain_len), 0);
    let (before, scratch) = out.split_at_mut(end);
    scratch[..LENGTH_BYTES].copy_from_slice(&claim.to_le_bytes());
    let packed_len = match compress_into(&before[start..], &mut scratch[LENGTH_BYTES..]) {
        Ok(block_len) => LENGTH_BYTES + block_len,
        Err(_) => usize::MAX,
    };
    if packed_len >= plain_len {
        out.truncate(end);
        return false;
    }
    out.copy_within(end..end + packed_len, start);
    out.truncate(start + packed_len);
    true
}

/// Expands a body into `scratch`, whose former contents are lost. The function checks the claimed length against the limit of a body and against
/// what LZ4 can expand, before it allocates memory. Errors: `Compressed`, `FrameTooLong`.
pub(crate) fn expand<'s>(body: &[u8], scratch: &'s mut Vec<u8>) -> Result<&'s [u8], Failure<'static>> {
    let (claim, block) = body.split_first_chunk::<LENGTH_BYTES>().ok_or(BadRequestReason::Compressed)?;
    let claim = u32::from_le_bytes(*claim) as usize;
    if claim > BODY_BYTES_MAX {
        return Err(Failure::FrameTooLong { length: claim as u64, limit: BODY_BYTES_MAX as u32 });
    }
    if claim > block.len().saturating_mul(COMPRESS_RATIO_MAX) {
        return Err(BadRequestReason::Compressed.into());
    }
    scratch.clear();
    scratch.resize(claim, 0);
    match decompress_into(block, scratch) {
        Ok(length) if length == claim => Ok(scratch),
        _ => Err(BadRequestReason::Compressed.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compressed_data_expands_to_original() {
        let plain: Vec<u8> = (0..5000u32).flat_map(|i| (i / 64).to_le_bytes()).collect();
        let mut out = b"head".to_vec();
        out.extend_from_slice(&plain);
        assert!(compress_from(&mut out, 4));
        assert!(out.len() < plain.len() / 4 && out.starts_with(b"head"));
        assert_eq!(expand(&out[4..], &mut Vec::new()), Ok(&plain[..]));
    }

    #[test]
    fn incompressible_data_is_left_unchanged() {
        let mut noise: Vec<u8> = Vec::new();
        let mut state = 1u64;
        while noise.len() < 4096 {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            noise.extend_from_slice(&state.to_be_bytes()[..4]);
        }
        let before = noise.clone();
        assert!(!compress_from(&mut noise, 0));
        assert_eq!(noise, before);
    }

    #[test]
    fn false_lengths_are_refused_before_allocation() {
        let mut scratch = Vec::new();
        let mut claim = |length: u32, block: &[u8]| {
            let body = [&length.to_le_bytes()[..], block].concat();
            let refused = expand(&body, &mut scratch).map(<[u8]>::len);
            (refused, scratch.capacity())
        };
        let limit = BODY_BYTES_MAX as u32;
        assert_eq!(
            claim(u32::MAX, &[0; 64]),
            (Err(Failure::FrameTooLong { length: u32::MAX.into(), limit }), 0)
        );
        assert_eq!(claim(64 * 255 + 1, &[0; 64]), (Err(BadRequestReason::Compressed.into()), 0));
        assert_eq!(claim(100, &[0x10, 0x61]).0, Err(BadRequestReason::Compressed.into()));
    }
}
