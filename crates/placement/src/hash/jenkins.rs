//! Bob Jenkins' lookup3 in its 64-bit form, `hashlittle2` (burtleburtle.net/bob/c/lookup3.c, public domain). It reads byte by byte, so that the
//! result is the same on every machine.
//!
//! It is preferable to his older one-at-a-time hash, which is 32 bits wide and slower: `hashlittle2` returns two words and has two initial values,
//! as a seeded 64-bit hash needs them.

/// Bytes processed in one round of the function.
const BLOCK_BYTES: usize = 12;

/// The seeded 64-bit hash. The word that the author calls better mixed (`*pc`) is the upper half; the seed's lower half is the initial value of the
/// same word.
pub fn lookup3(seed: u64, key: &[u8]) -> u64 {
    let (first, second) = hashlittle2(key, seed as u32, (seed >> 32) as u32);
    u64::from(first) << 32 | u64::from(second)
}

fn hashlittle2(key: &[u8], first_initial: u32, second_initial: u32) -> (u32, u32) {
    // The reference truncates the length to 32 bits as well.
    let start = 0xdead_beef_u32.wrapping_add(key.len() as u32).wrapping_add(first_initial);
    let mut state = [start, start, start.wrapping_add(second_initial)];
    if key.is_empty() {
        return (state[2], state[1]);
    }
    // The last block, of 1 to 12 bytes, goes to the final step without mixing.
    let last_at = (key.len() - 1) / BLOCK_BYTES * BLOCK_BYTES;
    let (whole, last) = key.split_at(last_at);
    for block in whole.chunks_exact(BLOCK_BYTES) {
        absorb(&mut state, block);
        mix(&mut state);
    }
    let mut padded = [0; BLOCK_BYTES];
    padded[..last.len()].copy_from_slice(last);
    absorb(&mut state, &padded);
    finish(&mut state);
    (state[2], state[1])
}

fn absorb(state: &mut [u32; 3], block: &[u8]) {
    for (word, bytes) in state.iter_mut().zip(block.chunks_exact(4)) {
        *word = word.wrapping_add(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]));
    }
}

fn mix([a, b, c]: &mut [u32; 3]) {
    fn step(x: &mut u32, y: &mut u32, z: &mut u32, bits: u32) {
        *x = x.wrapping_sub(*z) ^ z.rotate_left(bits);
        *z = z.wrapping_add(*y);
    }
    step(a, b, c, 4);
    step(b, c, a, 6);
    step(c, a, b, 8);
    step(a, b, c, 16);
    step(b, c, a, 19);
    step(c, a, b, 4);
}

fn finish([a, b, c]: &mut [u32; 3]) {
    fn step(x: &mut u32, y: &u32, bits: u32) {
        *x = (*x ^ *y).wrapping_sub(y.rotate_left(bits));
    }
    step(c, b, 14);
    step(a, c, 11);
    step(b, a, 25);
    step(c, b, 16);
    step(a, c, 4);
    step(b, a, 14);
    step(c, b, 24);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The results that `driver5` of the reference prints.
    #[test]
    fn jenkins_matches_published_values() {
        let text = b"Four score and seven years ago";
        for (key, first_initial, second_initial, first, second) in [
            (&b""[..], 0, 0, 0xdead_beef, 0xdead_beef),
            (b"", 0, 0xdead_beef, 0xbd5b_7dde, 0xdead_beef),
            (b"", 0xdead_beef, 0xdead_beef, 0x9c09_3ccd, 0xbd5b_7dde),
            (text, 0, 0, 0x1777_0551, 0xce72_26e6),
            (text, 0, 1, 0xe360_7cae, 0xbd37_1de4),
            (text, 1, 0, 0xcd62_8161, 0x6cbe_a4b3),
        ] {
            assert_eq!(hashlittle2(key, first_initial, second_initial), (first, second));
        }
        assert_eq!(lookup3(1, text), 0xcd62_8161_6cbe_a4b3);
        assert_eq!(lookup3(1 << 32, text), 0xe360_7cae_bd37_1de4);
    }

    #[test]
    fn every_length_and_every_byte_counts() {
        let key: Vec<u8> = (1..=40).collect();
        let mut seen = std::collections::BTreeSet::new();
        for length in 0..=key.len() {
            assert!(seen.insert(lookup3(0, &key[..length])));
            for changed in 0..length {
                let mut other = key[..length].to_vec();
                other[changed] ^= 0x80;
                assert!(seen.insert(lookup3(0, &other)), "byte {changed} of {length}");
            }
        }
    }
}
