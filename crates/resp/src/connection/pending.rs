//! Pending replies, which are sent in the order of their commands.

use std::collections::VecDeque;

/// A reply that is missing, or waits for an earlier one.
#[derive(Debug)]
struct ReplySlot {
    number: u64,
    is_ready: bool,
    is_silent: bool,
    bytes: Vec<u8>,
    /// Bytes of the command, until it is replied to.
    command_bytes: usize,
}

/// Capacity up to which a buffer is kept for the next reply.
const BUFFER_RETAINED_BYTES: usize = 4 << 10;

/// Most buffers that are kept.
const BUFFERS_RETAINED_MAX: usize = 32;

/// See the module. The first slot never has its reply yet.
#[derive(Debug, Default)]
pub(super) struct PendingReplies {
    slots: VecDeque<ReplySlot>,
    next: u64,
    waiting_reply_bytes: usize,
    pending_command_bytes: usize,
    pooled: Vec<Vec<u8>>,
}

impl PendingReplies {
    pub(super) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// The number of the first command whose reply is missing.
    pub(super) fn front(&self) -> Option<u64> {
        self.slots.front().map(|slot| slot.number)
    }

    /// Whether the first missing reply is wanted.
    pub(super) fn is_front_expected(&self) -> bool {
        self.slots.front().is_some_and(|slot| !slot.is_silent)
    }

    /// Whether this is the last number given out.
    pub(super) fn is_newest(&self, number: u64) -> bool {
        self.next == number
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Bytes of replies that wait for an earlier one.
    pub(super) fn waiting_reply_bytes(&self) -> usize {
        self.waiting_reply_bytes
    }

    /// Bytes of commands that are not replied to.
    pub(super) fn pending_command_bytes(&self) -> usize {
        self.pending_command_bytes
    }

    /// A number for the next command, higher than all before.
    #[inline]
    pub(super) fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Writes a reply that may be ready at once, straight into `out` if none before it is missing.
    /// `write` returns whether it has written one.
    #[inline]
    pub(super) fn write<R>(
        &mut self,
        out: &mut Vec<u8>,
        is_silent: bool,
        write: impl FnOnce(&mut Vec<u8>) -> (bool, R),
    ) -> R {
        let Some(last) = self.slots.back_mut() else {
            let begin = out.len();
            let (_, result) = write(out);
            if is_silent {
                out.truncate(begin);
            }
            return result;
        };
        if last.is_ready {
            let begin = last.bytes.len();
            let (_, result) = write(&mut last.bytes);
            if is_silent {
                last.bytes.truncate(begin);
            }
            self.waiting_reply_bytes += last.bytes.len() - begin;
            return result;
        }
        let mut bytes = self.pooled.pop().unwrap_or_default();
        let (is_ready, result) = write(&mut bytes);
        if is_ready && !is_silent {
            self.waiting_reply_bytes += bytes.len();
            let number = self.number();
            self.slots.push_back(ReplySlot { number, is_ready, is_silent, bytes, command_bytes: 0 });
        } else {
            self.recycle(bytes);
        }
        result
    }

    /// Adds a slot for a later reply to a command of so many bytes.
    #[inline]
    pub(super) fn push(&mut self, number: u64, is_silent: bool, command_bytes: usize) {
        let bytes = self.pooled.pop().unwrap_or_default();
        self.pending_command_bytes += command_bytes;
        self.slots.push_back(ReplySlot { number, is_ready: false, is_silent, bytes, command_bytes });
    }

    /// Sets a reply, and appends to `out` all that can now be sent. A number that is not pending
    /// changes nothing.
    pub(super) fn fulfil(&mut self, number: u64, write: impl FnOnce(&mut Vec<u8>), out: &mut Vec<u8>) {
        let Ok(place) = self.slots.binary_search_by_key(&number, |slot| slot.number) else { return };
        let slot = &mut self.slots[place];
        if slot.is_ready {
            return;
        }
        slot.is_ready = true;
        self.pending_command_bytes -= std::mem::take(&mut slot.command_bytes);
        if place > 0 {
            if !slot.is_silent {
                write(&mut slot.bytes);
                self.waiting_reply_bytes += slot.bytes.len();
            }
            return;
        }
        if !slot.is_silent {
            write(out);
        }
        while self.slots.front().is_some_and(|slot| slot.is_ready) {
            let Some(slot) = self.slots.pop_front() else { return };
            self.waiting_reply_bytes -= slot.bytes.len();
            out.extend_from_slice(&slot.bytes);
            self.recycle(slot.bytes);
        }
    }

    fn recycle(&mut self, mut bytes: Vec<u8>) {
        if (1..=BUFFER_RETAINED_BYTES).contains(&bytes.capacity()) && self.pooled.len() < BUFFERS_RETAINED_MAX
        {
            bytes.clear();
            self.pooled.push(bytes);
        }
    }
}
