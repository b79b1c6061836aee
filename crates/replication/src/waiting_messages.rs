//! Transaction messages that have reached this member before it may act on them as primary. Their senders repeat them only after
//! a fifth of a second, in which their transactions would keep what they have locked.
//!
//! ```text
//!   message ──> may the primary answer? ──yes──> partition
//!                     └──no──> it is primary, or the sender knows a newer epoch ──> here ──> partition, once it may answer
//! ```
//!
//! Losing one does no harm, and neither does acting on a late one.

use zerohop_transaction::Message as ProtocolMessage;
use zerohop_wire::ids::PartitionEpoch;

use super::limits::{WAITING_MESSAGE_BYTES_MAX, WAITING_MESSAGES_MAX};

/// The encoded messages in order of arrival, each with the epoch that its sender knew.
#[derive(Debug, Default)]
pub(super) struct WaitingMessages {
    messages: Vec<(PartitionEpoch, Vec<u8>)>,
    bytes: usize,
}

impl WaitingMessages {
    /// Keeps a message. Without room it is dropped.
    pub(super) fn push(&mut self, epoch: PartitionEpoch, message: &ProtocolMessage) {
        if self.messages.len() >= WAITING_MESSAGES_MAX || self.bytes >= WAITING_MESSAGE_BYTES_MAX {
            return;
        }
        let encoded = message.encode();
        self.bytes += encoded.len();
        self.messages.push((epoch, encoded));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Removes and returns all messages.
    pub(super) fn take_all(&mut self) -> Vec<ProtocolMessage> {
        let all = std::mem::take(self);
        all.messages.iter().filter_map(|(_, encoded)| ProtocolMessage::decode(encoded).ok()).collect()
    }

    /// This member is not primary in this epoch: drops the messages to a primary of it, or of an earlier one.
    pub(super) fn drop_through(&mut self, epoch: PartitionEpoch) {
        self.messages.retain(|(of, _)| *of > epoch);
        self.bytes = self.messages.iter().map(|(_, encoded)| encoded.len()).sum();
    }
}
