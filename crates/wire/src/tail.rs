//! The end of a frame that is in another buffer and is sent from there.

/// The last bytes of a frame, as consecutive pieces. No pieces: the frame is complete without a tail.
#[derive(Clone, Copy, Debug)]
pub enum Tail<'m> {
    /// The bytes are in one buffer.
    One(&'m [u8]),
    /// The bytes are in several buffers.
    Several(&'m [&'m [u8]]),
}

impl<'m> Tail<'m> {
    /// The pieces, in order.
    #[must_use]
    pub fn pieces(&self) -> &[&'m [u8]] {
        match self {
            Tail::One(piece) => std::slice::from_ref(piece),
            Tail::Several(pieces) => pieces,
        }
    }

    /// Total number of bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.pieces().iter().map(|piece| piece.len()).sum()
    }

    /// Whether there are no bytes beyond the frame itself.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pieces().iter().all(|piece| piece.is_empty())
    }

    /// Appends all but the first `skipped` bytes to `out`.
    pub fn append(&self, mut skipped: usize, out: &mut Vec<u8>) {
        for piece in self.pieces() {
            let here = skipped.min(piece.len());
            out.extend_from_slice(&piece[here..]);
            skipped -= here;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tail_can_resume_in_any_piece() {
        let pieces: [&[u8]; 4] = [b"ab", b"", b"cde", b"f"];
        for skipped in 0..=6 {
            let mut out = vec![b'-'];
            Tail::Several(&pieces).append(skipped, &mut out);
            assert_eq!(out[1..], b"abcdef"[skipped..]);
        }
        assert_eq!((Tail::Several(&pieces).len(), Tail::One(b"abc").len()), (6, 3));
        assert!(Tail::Several(&[b"", b""]).is_empty() && Tail::One(&[]).is_empty());
    }
}
