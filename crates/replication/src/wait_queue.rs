//! The wait queue: requests that wait until their partition may answer. It is bounded, and each request has a time-out.

use std::collections::VecDeque;

use zerohop_wire::ids::Timestamp;
use zerohop_wire::{DecodeResult, Decoder, Encoder, Envelope, Features, Message};

use super::limits::{QUEUED_BYTES_MAX, QUEUED_REQUESTS_MAX, QUEUED_US};
use zerohop_partition::{RecordRequest, Token};

/// The requests in order of arrival.
#[derive(Debug, Default)]
pub(super) struct WaitQueue {
    queue: VecDeque<QueuedRequest>,
    bytes: usize,
    writes: usize,
    /// The highest timestamp that any queued request has seen since the queue was empty.
    seen: Timestamp,
}

/// A request that owns its bytes.
#[derive(Debug)]
pub(super) struct QueuedRequest {
    pub(super) token: Token,
    pub(super) envelope: Envelope,
    pub(super) is_write: bool,
    pub(super) seen: Timestamp,
    /// The request waits for the repair of corrupt entries.
    pub(super) repairs: bool,
    pub(super) until_us: u64,
    frame: Vec<u8>,
}

impl WaitQueue {
    /// Queues a request. `false`: there is no room.
    pub(super) fn push(
        &mut self,
        request: &RecordRequest<'_>,
        is_write: bool,
        seen: Timestamp,
        now_us: u64,
    ) -> bool {
        let time_out_us = match request.envelope.time_out_ms {
            0 => QUEUED_US,
            ms => QUEUED_US.min(u64::from(ms) * 1_000),
        };
        self.push_until(request, (is_write, false), seen, now_us + time_out_us)
    }

    /// Queues a request that only reads until its data is repaired.
    pub(super) fn push_to_repair(&mut self, request: &RecordRequest<'_>, until_us: u64) -> bool {
        self.push_until(request, (false, true), Timestamp::ZERO, until_us)
    }

    fn push_until(
        &mut self,
        request: &RecordRequest<'_>,
        (is_write, repairs): (bool, bool),
        seen: Timestamp,
        until_us: u64,
    ) -> bool {
        if self.queue.len() >= QUEUED_REQUESTS_MAX || self.bytes >= QUEUED_BYTES_MAX {
            return false;
        }
        let mut frame = Vec::new();
        let RecordRequest { token, envelope, message } = *request;
        if Encoder::default().encode(&envelope, message, &mut frame).is_err() {
            return false;
        }
        self.bytes += frame.len();
        self.writes += usize::from(is_write);
        self.seen = self.seen.max(seen);
        self.queue.push_back(QueuedRequest { token, envelope, is_write, seen, repairs, until_us, frame });
        true
    }

    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }

    /// A timestamp at or above all that queued requests have seen.
    pub(super) fn seen(&self) -> Timestamp {
        self.seen
    }

    pub(super) fn has_writes(&self) -> bool {
        self.writes > 0
    }

    /// Removes and returns the first request that is admissible.
    pub(super) fn take_first(&mut self, may: impl Fn(&QueuedRequest) -> bool) -> Option<QueuedRequest> {
        let at = self.queue.iter().position(may)?;
        self.remove_at(at)
    }

    /// Removes and returns a request whose time-out has passed.
    pub(super) fn take_overdue(&mut self, now_us: u64) -> Option<QueuedRequest> {
        let at = self.queue.iter().position(|one| one.until_us <= now_us)?;
        self.remove_at(at)
    }

    pub(super) fn disconnect(&mut self, connection: u64) {
        self.queue.retain(|one| one.token.connection != connection);
        self.bytes = self.queue.iter().map(|one| one.frame.len()).sum();
        self.writes = self.queue.iter().filter(|one| one.is_write).count();
    }

    fn remove_at(&mut self, at: usize) -> Option<QueuedRequest> {
        let one = self.queue.remove(at)?;
        self.bytes -= one.frame.len();
        self.writes -= usize::from(one.is_write);
        if self.queue.is_empty() {
            self.seen = Timestamp::ZERO;
        }
        Some(one)
    }
}

impl QueuedRequest {
    /// Passes the decoded request to a function.
    pub(super) fn with<T>(&self, take: impl FnOnce(&RecordRequest<'_>) -> T) -> Option<T> {
        let decoder = Decoder::with_version(zerohop_wire::GREETING_VERSION, Features::default());
        let DecodeResult::Frame { frame, .. } = decoder.decode(&self.frame) else { return None };
        let mut scratch = Vec::new();
        let message: Message<'_> = frame.message(&mut scratch).ok()?;
        Some(take(&RecordRequest { token: self.token, envelope: self.envelope, message: &message }))
    }
}
