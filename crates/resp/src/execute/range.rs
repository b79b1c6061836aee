//! Ranges whose ends may count from the end, clipped as in Redis.

use std::ops::Range;

/// Both ends included, within so many bytes; empty if nothing is in between.
pub(super) fn clip_bytes(start: i64, end: i64, length: u64) -> Range<u64> {
    // Redis: two negative ends in the wrong order are an empty range, even if both clip to the
    // first byte.
    if start < 0 && end < 0 && start > end {
        return 0..0;
    }
    clip_bits(start, end, length)
}

/// The same without that rule: an end before the first bit becomes the first.
pub(super) fn clip_bits(start: i64, end: i64, length: u64) -> Range<u64> {
    clip(start, end.max(-(length as i64)), length)
}

/// Both ends included, within so many values: an end before the first makes the range empty.
pub(super) fn clip(start: i64, end: i64, length: u64) -> Range<u64> {
    let length = length as i64;
    let start = if start < 0 { (start + length).max(0) } else { start };
    let end = if end < 0 { end + length } else { end.min(length - 1) };
    if start > end || start >= length { 0..0 } else { start as u64..end as u64 + 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_clipped_as_redis_does() {
        let cases = [
            ((0i64, -1i64, 5u64), 0u64..5, 0u64..5),
            ((1, 3, 5), 1..4, 1..4),
            ((-3, -1, 5), 2..5, 2..5),
            ((-100, 100, 5), 0..5, 0..5),
            ((4, 2, 5), 0..0, 0..0),
            ((5, 10, 5), 0..0, 0..0),
            ((0, -6, 5), 0..1, 0..0),
            ((-1, -3, 5), 0..0, 0..0),
            ((0, 0, 0), 0..0, 0..0),
            ((i64::MIN, i64::MAX, 5), 0..5, 0..5),
            ((i64::MAX, i64::MIN, 5), 0..0, 0..0),
        ];
        for ((start, end, length), bytes, values) in cases {
            assert_eq!(clip_bytes(start, end, length), bytes, "{start} {end} {length}");
            assert_eq!(clip(start, end, length), values, "{start} {end} {length}");
        }
    }
}
