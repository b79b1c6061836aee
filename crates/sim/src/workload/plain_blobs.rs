//! The operations of clients on the plain blob.

use std::time::Duration;

use zerohop_base::random::Random;

use crate::plain_blobs::{PLAIN_CHUNK_BYTES, PLAIN_CHUNKS, PlainBlobAct};
use crate::streams::Draw;

/// Its name, which listings of the other blobs leave out.
pub(crate) const PLAIN_NAME: &[u8] = b"plain";

/// A power of two: [`PLAIN_CHUNK_BYTES`].
pub(crate) const PLAIN_CHUNK_BITS: u8 = 12;

/// Limits of the time after which a client that removes or truncates the blob in steps is gone: a step takes from half a millisecond to as long
/// as faults last.
const CUT_SHORT_US: [u64; 4] = [2_000, 6_000, 20_000, 60_000];

/// A call on the plain blob.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlainBlobPlan {
    pub(crate) act: PlainBlobAct,
    /// The client is gone after this time.
    pub(crate) cut_short: Option<Duration>,
}

impl PlainBlobPlan {
    /// Draws a call that writes this unique value, if it writes one. `has_steps`: most truncations are in steps.
    pub(crate) fn draw(random: &mut Random, value: u64, has_steps: bool) -> PlainBlobPlan {
        let mut cut_short = None;
        let cut_off = |random: &mut Random| {
            let limit_us = *random.pick(&CUT_SHORT_US);
            Duration::from_micros(random.below(limit_us))
        };
        let act = match random.below(100) {
            0..12 => PlainBlobAct::Create { value },
            12..24 => PlainBlobAct::Describe { value },
            24..42 => {
                let halves = random.between(0, 2 * PLAIN_CHUNKS as u64);
                let in_steps = has_steps && random.chance(3, 4);
                cut_short = (in_steps && random.chance(3, 5)).then(|| cut_off(random));
                PlainBlobAct::Truncate { size: halves * PLAIN_CHUNK_BYTES / 2, in_steps }
            }
            42..66 => PlainBlobAct::Write { chunk: random.below(PLAIN_CHUNKS as u64) as usize, value },
            66..76 => PlainBlobAct::Stat,
            76..88 => PlainBlobAct::Read,
            _ => {
                let in_steps = random.chance(3, 4);
                cut_short = (in_steps && random.chance(3, 5)).then(|| cut_off(random));
                PlainBlobAct::Remove { in_steps }
            }
        };
        PlainBlobPlan { act, cut_short }
    }
}
