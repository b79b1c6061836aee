//! A pool of buffers for large received frames. The session reuses a buffer once no reference to it is left, because the operating system clears
//! memory that is freed and allocated again.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

use crate::limits::{REUSED_BYTES_MAX, REUSED_BYTES_MIN};

/// Large frames that were passed to callers, the latest last.
#[derive(Debug, Default)]
pub(crate) struct FramePool {
    frames: VecDeque<Bytes>,
    bytes: usize,
}

impl FramePool {
    /// Adds a frame that callers also refer to. If the pool is full, earlier frames are dropped from it.
    pub(crate) fn add(&mut self, frame: Bytes) {
        if !(REUSED_BYTES_MIN..=REUSED_BYTES_MAX).contains(&frame.len()) {
            return;
        }
        self.bytes += frame.len();
        self.frames.push_back(frame);
        while self.bytes > REUSED_BYTES_MAX
            && let Some(oldest) = self.frames.pop_front()
        {
            self.bytes -= oldest.len();
        }
    }

    /// Moves the received part of a frame of `needed` bytes into an unreferenced buffer of the pool, if the pool has one of sufficient size.
    pub(crate) fn make_room(&mut self, needed: usize, input: &mut BytesMut) {
        if needed < REUSED_BYTES_MIN || input.capacity() >= needed {
            return;
        }
        let fits = |frame: &Bytes| (needed..=2 * needed).contains(&frame.len()) && frame.is_unique();
        let Some(at) = self.frames.iter().position(fits) else { return };
        let Some(frame) = self.frames.remove(at) else { return };
        self.bytes -= frame.len();
        if let Ok(mut buffer) = frame.try_into_mut() {
            buffer.clear();
            buffer.extend_from_slice(input);
            *input = buffer;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffer_is_reused_once_unreferenced() {
        let mut pool = FramePool::default();
        let frame = BytesMut::zeroed(REUSED_BYTES_MIN + 10).freeze();
        let (at, part) = (frame.as_ptr(), frame.slice(5..9));
        pool.add(frame);
        let begun = || BytesMut::from(&b"begun"[..]);
        let room = |pool: &mut FramePool, needed| {
            let mut input = begun();
            pool.make_room(needed, &mut input);
            assert_eq!(input, begun());
            (input.as_ptr() == at).then_some(input)
        };
        assert!(room(&mut pool, REUSED_BYTES_MIN).is_none(), "a part of it is in use");
        drop(part);
        assert!(room(&mut pool, REUSED_BYTES_MIN + 11).is_none(), "it is too short");
        assert!(room(&mut pool, REUSED_BYTES_MIN / 2 + 1).is_none(), "it is much too long");
        let again = room(&mut pool, REUSED_BYTES_MIN).expect("it is free");
        assert!(again.capacity() >= REUSED_BYTES_MIN);
        assert_eq!((pool.frames.len(), pool.bytes), (0, 0));
    }

    #[test]
    fn buffer_pool_keeps_limited_bytes_for_reuse() {
        let mut pool = FramePool::default();
        for length in [REUSED_BYTES_MIN - 1, REUSED_BYTES_MAX + 1] {
            pool.add(BytesMut::zeroed(length).freeze());
            assert_eq!(pool.bytes, 0);
        }
        for _ in 0..100 {
            pool.add(BytesMut::zeroed(REUSED_BYTES_MAX / 4 - 1).freeze());
        }
        assert_eq!((pool.frames.len(), pool.bytes), (4, 4 * (REUSED_BYTES_MAX / 4 - 1)));
    }
}
