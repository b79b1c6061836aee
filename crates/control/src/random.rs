//! Random numbers from a seed that the caller draws: this module does not use the operating system's entropy,
//! so that a run of one seed can be repeated.

/// A stream of random numbers: splitmix64 (Steele, Lea and Flood, 2014). Not for secrets.
#[derive(Clone, Debug)]
pub(crate) struct Stream {
    state: u64,
}

impl Stream {
    pub(crate) fn new(seed: u64) -> Stream {
        Stream { state: seed }
    }

    pub(crate) fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.state)
    }

    /// From `least` up to, not including, `bound`.
    pub(crate) fn between(&mut self, least: u64, bound: u64) -> u64 {
        let span = bound.saturating_sub(least).max(1);
        least + ((u128::from(self.next_u64()) * u128::from(span)) >> 64) as u64
    }
}

impl rand_core::TryRng for Stream {
    type Error = core::convert::Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Self::Error> {
        Ok((self.next_u64() >> 32) as u32)
    }

    fn try_next_u64(&mut self) -> Result<u64, Self::Error> {
        Ok(self.next_u64())
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Self::Error> {
        for piece in bytes.chunks_mut(8) {
            piece.copy_from_slice(&self.next_u64().to_le_bytes()[..piece.len()]);
        }
        Ok(())
    }
}

/// Spreads every bit of `word` over all bits.
pub(crate) fn mix(word: u64) -> u64 {
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}
