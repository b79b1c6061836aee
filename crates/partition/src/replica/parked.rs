//! Requests that wait until their partition may answer: bounded, and each with a time-out.

use std::collections::VecDeque;

use zerohop_wire::ids::Timestamp;
use zerohop_wire::{Decoded, Decoder, Encoder, Envelope, Features, Message};

use super::limits::{PARKED_BYTES_MAX, PARKED_MAX, PARKED_US};
use crate::event::{Request, Token};

/// In the order in which they came.
#[derive(Debug, Default)]
pub(super) struct Parked {
    queue: VecDeque<One>,
    bytes: usize,
}

/// A request that owns its bytes.
#[derive(Debug)]
pub(super) struct One {
    pub(super) token: Token,
    pub(super) envelope: Envelope,
    pub(super) is_write: bool,
    pub(super) seen: Timestamp,
    until_us: u64,
    frame: Vec<u8>,
}

impl Parked {
    /// Keeps a request. `false`: there is no room.
    pub(super) fn push(
        &mut self,
        request: &Request<'_>,
        is_write: bool,
        seen: Timestamp,
        now_us: u64,
    ) -> bool {
        if self.queue.len() >= PARKED_MAX || self.bytes >= PARKED_BYTES_MAX {
            return false;
        }
        let mut frame = Vec::new();
        let Request { token, envelope, message } = *request;
        if Encoder::default().encode(&envelope, message, &mut frame).is_err() {
            return false;
        }
        let time_out_us = match envelope.time_out_ms {
            0 => PARKED_US,
            ms => PARKED_US.min(u64::from(ms) * 1_000),
        };
        self.bytes += frame.len();
        self.queue.push_back(One { token, envelope, is_write, seen, until_us: now_us + time_out_us, frame });
        true
    }

    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }

    /// The highest timestamp that any of them has seen.
    pub(super) fn seen(&self) -> Timestamp {
        self.queue.iter().map(|one| one.seen).max().unwrap_or_default()
    }

    pub(super) fn has_writes(&self) -> bool {
        self.queue.iter().any(|one| one.is_write)
    }

    /// Takes out the first that may be let in.
    pub(super) fn take_first(&mut self, may: impl Fn(&One) -> bool) -> Option<One> {
        let at = self.queue.iter().position(may)?;
        self.take_at(at)
    }

    /// Takes out one whose time is up.
    pub(super) fn take_overdue(&mut self, now_us: u64) -> Option<One> {
        let at = self.queue.iter().position(|one| one.until_us <= now_us)?;
        self.take_at(at)
    }

    pub(super) fn disconnect(&mut self, connection: u64) {
        self.queue.retain(|one| one.token.connection != connection);
        self.bytes = self.queue.iter().map(|one| one.frame.len()).sum();
    }

    fn take_at(&mut self, at: usize) -> Option<One> {
        let one = self.queue.remove(at)?;
        self.bytes -= one.frame.len();
        Some(one)
    }
}

impl One {
    /// Hands the request over again.
    pub(super) fn with<T>(&self, take: impl FnOnce(&Request<'_>) -> T) -> Option<T> {
        let decoder = Decoder::agreed(zerohop_wire::GREETING_VERSION, Features::default());
        let Decoded::Frame { frame, .. } = decoder.decode(&self.frame) else { return None };
        let mut scratch = Vec::new();
        let message: Message<'_> = frame.message(&mut scratch).ok()?;
        Some(take(&Request { token: self.token, envelope: self.envelope, message: &message }))
    }
}
