//! The changes that one transaction makes to the bytes of a blob, in order, and their effect on bytes that were read.

use bytes::Bytes;
use zerohop_wire::messages::Transform;

/// Changes of bytes, in the order in which the commit applies them.
#[derive(Debug, Default)]
pub(crate) struct BlobWrites(Vec<BlobWrite>);

#[derive(Debug)]
enum BlobWrite {
    /// These bytes, at an offset.
    Write(u64, Bytes),
    /// A transform of a number at an offset.
    Transform(u64, Transform),
    /// Zeros from an offset on.
    Truncate(u64),
}

impl BlobWrites {
    pub(crate) fn write(&mut self, offset: u64, bytes: Bytes) {
        self.0.push(BlobWrite::Write(offset, bytes));
    }

    pub(crate) fn transform(&mut self, offset: u64, transform: Transform) {
        self.0.push(BlobWrite::Transform(offset, transform));
    }

    /// Drops the changes that lie completely behind the new end.
    pub(crate) fn truncate(&mut self, size: u64) {
        self.0.retain_mut(|edit| match edit {
            BlobWrite::Write(at, bytes) => {
                bytes.truncate(usize::try_from(size.saturating_sub(*at)).unwrap_or(usize::MAX));
                !bytes.is_empty()
            }
            BlobWrite::Transform(at, _) | BlobWrite::Truncate(at) => *at < size,
        });
        self.0.push(BlobWrite::Truncate(size));
    }

    /// The range to read so that this range can be computed: it includes every number that lies partly in it.
    pub(crate) fn widened(&self, (mut from, mut end): (u64, u64)) -> (u64, u64) {
        if from >= end {
            return (from, end);
        }
        loop {
            let before = (from, end);
            for edit in &self.0 {
                let BlobWrite::Transform(at, transform) = edit else { continue };
                let to = at + transform.number.bytes() as u64;
                if *at < end && from < to {
                    (from, end) = (from.min(*at), end.max(to));
                }
            }
            if (from, end) == before {
                return before;
            }
        }
    }

    /// Applies all changes to the bytes that were read from an offset on. The range must come from [`BlobWrites::widened`].
    pub(crate) fn apply_over(&self, from: u64, found: &mut [u8]) {
        let end = from + found.len() as u64;
        for edit in &self.0 {
            match edit {
                BlobWrite::Write(at, bytes) => {
                    let (begin, to) = (from.max(*at), end.min(at + bytes.len() as u64));
                    if begin < to {
                        let own = &bytes[(begin - at) as usize..(to - at) as usize];
                        found[(begin - from) as usize..(to - from) as usize].copy_from_slice(own);
                    }
                }
                BlobWrite::Transform(at, transform) => {
                    let width = transform.number.bytes();
                    if *at >= from && at + width as u64 <= end {
                        let place = (at - from) as usize;
                        change_number(&mut found[place..place + width], transform);
                    }
                }
                BlobWrite::Truncate(size) => {
                    let begin = (*size).clamp(from, end);
                    found[(begin - from) as usize..].fill(0);
                }
            }
        }
    }
}

/// Changes a number; returns its old and new value.
pub(crate) fn change_number(number: &mut [u8], transform: &Transform) -> (u64, u64) {
    let mut old = [0; 8];
    old[..number.len()].copy_from_slice(number);
    let old = u64::from_le_bytes(old);
    let new = transform.operator.applied(transform.number, old, transform.operand);
    let width = number.len();
    number.copy_from_slice(&new.to_le_bytes()[..width]);
    (old, new)
}

#[cfg(test)]
mod tests {
    use zerohop_wire::messages::{Number, ReturnedNumber};

    use super::*;
    use crate::procedures::transform;

    fn add<N: Number>(operand: N) -> Transform {
        transform::Transform::add(operand).parts(ReturnedNumber::Nothing).1
    }

    fn over(edits: &BlobWrites, range: (u64, u64), found: &[u8]) -> Vec<u8> {
        let (from, end) = edits.widened(range);
        let mut all = found[from as usize..end as usize].to_vec();
        edits.apply_over(from, &mut all);
        all[(range.0 - from) as usize..(range.1 - from) as usize].to_vec()
    }

    #[test]
    fn later_edits_overlay_earlier_ones() {
        let found: Vec<u8> = (0..32).collect();
        let mut edits = BlobWrites::default();
        edits.write(4, Bytes::from_static(&[255; 4]));
        edits.transform(6, add(1_u32));
        edits.transform(8, add(256_u16));
        // Bytes 6 to 9 were 255, 255, 8, 9.
        assert_eq!(over(&edits, (5, 11), &found), [255, 0, 0, 9, 10, 10]);
        edits.truncate(9);
        edits.transform(8, add(1_u16));
        assert_eq!(over(&edits, (4, 12), &found), [255, 255, 0, 0, 10, 0, 0, 0]);
    }

    /// Every part of the result equals that part of the complete result, wherever numbers cross its ends.
    #[test]
    fn partial_read_equals_that_part_of_complete_read() {
        let found: Vec<u8> = (100..140).collect();
        let mut edits = BlobWrites::default();
        for at in [3, 5, 7, 9, 20, 17, 14] {
            edits.transform(at, add(0x0102_0304_u32 << (at % 8)));
            edits.write(at + 9, Bytes::from_static(b"xy"));
        }
        edits.truncate(30);
        edits.transform(28, add(u64::MAX));
        let whole = over(&edits, (0, 40), &found);
        for from in 0..40 {
            for end in from..40 {
                let part = over(&edits, (from, end), &found);
                assert_eq!(part, whole[from as usize..end as usize], "{from} to {end}");
            }
        }
        assert_eq!(edits.widened((7, 7)), (7, 7));
    }
}
