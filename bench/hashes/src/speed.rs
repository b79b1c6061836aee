//! Nanoseconds per hash: independent hashes of cached keys, with interleaved functions in each
//! round.
#![expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use std::hint::black_box;
use std::time::Instant;

use serde::Serialize;

use crate::{Candidate, keys};

const KEY_BYTES: [usize; 3] = [15, 64, 1024];
/// As in a keyspace; any value will do.
const SEED: u64 = 0x7a65_726f_686f_7073;
/// At most 256 KiB together: they stay in the second-level cache.
const KEYS: usize = 256;
/// Approximate bytes hashed by one function in one round; 2 to 20 ms.
const ROUND_BYTES: usize = 16 << 20;
/// Most hashes in one round, so that short keys do not take longer than long ones.
const ROUND_HASHES_MAX: usize = 1 << 19;

/// One function on keys of one length.
#[derive(Serialize)]
pub(crate) struct Speed {
    pub(crate) hash: &'static str,
    pub(crate) key_bytes: usize,
    pub(crate) median_ns: f64,
    pub(crate) lowest_ns: f64,
    pub(crate) highest_ns: f64,
    pub(crate) rounds: u16,
}

pub(crate) fn measure(candidates: &[Candidate], rounds: u16) -> Vec<Speed> {
    let mut speeds = Vec::new();
    for key_bytes in KEY_BYTES {
        let keys = keys::random_text(KEYS, key_bytes);
        let mut figures = vec![Vec::new(); candidates.len()];
        // The first round is a warm-up and is discarded.
        for round in 0..=rounds {
            for (candidate, figures) in candidates.iter().zip(&mut figures) {
                let figure = one_round(candidate, &keys, key_bytes);
                if round > 0 {
                    figures.push(figure);
                }
            }
        }
        for (candidate, mut figures) in candidates.iter().zip(figures) {
            figures.sort_by(f64::total_cmp);
            speeds.push(Speed {
                hash: candidate.name,
                key_bytes,
                median_ns: figures[figures.len() / 2],
                lowest_ns: figures[0],
                highest_ns: figures[figures.len() - 1],
                rounds,
            });
        }
    }
    speeds
}

fn one_round(candidate: &Candidate, keys: &[Vec<u8>], key_bytes: usize) -> f64 {
    let passes = (ROUND_BYTES / key_bytes).min(ROUND_HASHES_MAX) / keys.len();
    let start = Instant::now();
    for _ in 0..passes {
        for key in black_box(keys) {
            black_box((candidate.hash)(SEED, key));
        }
    }
    start.elapsed().as_secs_f64() * 1e9 / (passes * keys.len()) as f64
}
