//! Random numbers from a seed, the same on every machine: this module does not use the operating system's entropy.
//!
//! A generator is xoshiro256** (Blackman and Vigna, 2018), seeded through splitmix64. [`Random::fork`] gives independent
//! streams of one seed, so that drawing more from one (for example faults) does not shift another (for example the
//! schedule).

/// A deterministic stream of random numbers. Not for secrets.
#[derive(Clone, Debug)]
pub struct Random {
    state: [u64; 4],
}

impl Random {
    /// The stream that belongs to `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut splitmix = SplitMix64::new(seed);
        Random { state: std::array::from_fn(|_| splitmix.next_u64()) }
    }

    /// Another stream, determined by this one's present position and by `stream`. Does not advance this one.
    #[must_use]
    pub fn fork(&self, stream: u64) -> Self {
        let mixed = self.state.iter().fold(stream, |mixed, word| word ^ SplitMix64::new(mixed).next_u64());
        Random::new(mixed)
    }

    /// The next 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        let result = self.state[1].wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let shifted = self.state[1] << 17;
        self.state[2] ^= self.state[0];
        self.state[3] ^= self.state[1];
        self.state[1] ^= self.state[2];
        self.state[0] ^= self.state[3];
        self.state[2] ^= shifted;
        self.state[3] = self.state[3].rotate_left(45);
        result
    }

    /// A number in `0..bound`, each equally likely (Lemire's multiplication with rejection).
    ///
    /// # Panics
    /// If `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "no number is below 0");
        let unfair = bound.wrapping_neg() % bound;
        loop {
            let product = u128::from(self.next_u64()) * u128::from(bound);
            if product as u64 >= unfair {
                return (product >> 64) as u64;
            }
        }
    }

    /// True `numerator` times in `denominator`. Draws nothing when the answer is certain.
    ///
    /// # Panics
    /// If `denominator` is 0.
    pub fn chance(&mut self, numerator: u64, denominator: u64) -> bool {
        assert!(denominator > 0, "a chance is out of at least one");
        numerator > 0 && (numerator >= denominator || self.below(denominator) < numerator)
    }

    /// Fills `into` with random bytes.
    pub fn fill(&mut self, into: &mut [u8]) {
        for chunk in into.chunks_mut(8) {
            let bytes = self.next_u64().to_le_bytes();
            chunk.copy_from_slice(&bytes[..chunk.len()]);
        }
    }
}

/// A stream of 8 bytes of state: splitmix64 (Steele, Lea and Flood, 2014). Not for secrets.
#[derive(Clone, Debug)]
pub struct SplitMix64 {
    state: u64,
}

impl SplitMix64 {
    /// The stream that belongs to `seed`.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The next 64 random bits.
    pub const fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix64(self.state)
    }

    /// A number from `least` up to, not including, `bound`; `least` if there is none. Not exactly even: the bias is below
    /// `bound / 2^64`.
    pub fn between(&mut self, least: u64, bound: u64) -> u64 {
        let span = bound.saturating_sub(least).max(1);
        least + ((u128::from(self.next_u64()) * u128::from(span)) >> 64) as u64
    }
}

/// Spreads every bit of `word` over all bits (the finalizer of splitmix64).
#[must_use]
pub const fn mix64(word: u64) -> u64 {
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splitmix64_agrees_with_its_published_vector() {
        let mut stream = SplitMix64::new(1_234_567);
        let drawn: Vec<u64> = (0..3).map(|_| stream.next_u64()).collect();
        assert_eq!(drawn, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }

    #[test]
    fn xoshiro_agrees_with_its_published_vector() {
        let mut random = Random { state: [1, 2, 3, 4] };
        let drawn: Vec<u64> = (0..4).map(|_| random.next_u64()).collect();
        assert_eq!(drawn, [11520, 0, 1_509_978_240, 1_215_971_899_390_074_240]);
    }

    #[test]
    fn a_seed_and_a_stream_fix_the_numbers_and_forking_does_not_advance() {
        let mut parent = Random::new(7);
        let untouched = parent.clone();
        let (mut first, mut again, mut other) = (parent.fork(1), parent.fork(1), parent.fork(2));
        assert_eq!(first.next_u64(), again.next_u64());
        assert_ne!(first.next_u64(), other.next_u64());
        assert_eq!(parent.next_u64(), untouched.clone().next_u64());
    }

    #[test]
    fn below_reaches_every_number_about_equally_often() {
        let mut random = Random::new(1);
        let mut seen = [0u32; 6];
        for _ in 0..6000 {
            seen[random.below(6) as usize] += 1;
        }
        assert!(seen.iter().all(|&times| (850..1150).contains(&times)), "{seen:?}");
    }

    #[test]
    fn chances_of_zero_and_one_draw_no_random_number() {
        let mut random = Random::new(3);
        let mut untouched = random.clone();
        assert!((0..100).all(|_| !random.chance(0, 5) && random.chance(5, 5)));
        assert_eq!(random.next_u64(), untouched.next_u64());
    }

    #[test]
    fn between_stays_in_bounds_and_empty_range_gives_its_start() {
        let mut stream = SplitMix64::new(5);
        assert!((0..1000).all(|_| (10..13).contains(&stream.between(10, 13))));
        assert_eq!((stream.between(7, 7), stream.between(7, 3)), (7, 7));
    }

    #[test]
    fn fill_leaves_no_byte_out() {
        let mut random = Random::new(9);
        let mut ever_set = [0u8; 13];
        for _ in 0..64 {
            let mut bytes = [0u8; 13];
            random.fill(&mut bytes);
            ever_set.iter_mut().zip(bytes).for_each(|(seen, byte)| *seen |= byte);
        }
        assert_eq!(ever_set, [0xff; 13]);
    }
}
