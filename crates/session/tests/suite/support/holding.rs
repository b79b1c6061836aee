//! The read locks of servers. A write to a locked record is refused with a retry, where a real
//! server lets it wait.

use zerohop_base::time::Time;
use zerohop_wire::messages::{Message, RecordOperation};
use zerohop_wire::{Envelope, Features};

use super::server::FakeCluster;

impl FakeCluster {
    /// Read-locks the records of a read, if all exist. Returns the microseconds of the lock.
    pub fn holds(&mut self, now: Time, envelope: &Envelope, message: &Message<'_>) -> u32 {
        assert!(!envelope.hold || self.features.has(Features::HOLD), "no read lock without the feature");
        let records = &self.partitions[envelope.partition.get() as usize].records;
        let keys: Vec<Vec<u8>> = keys_of(message).into_iter().map(<[u8]>::to_vec).collect();
        let is_all = keys.iter().all(|key| records.contains_key(key));
        if !envelope.hold || !is_all || !self.random.chance(self.hold) {
            return if self.says_held { self.held_us } else { 0 };
        }
        let until = now.after_us(self.held_us.into());
        self.held.extend(keys.into_iter().map(|key| (key, until)));
        self.held_us
    }

    /// Whether a message would change a locked record.
    pub fn is_held(&self, now: Time, message: &Message<'_>) -> bool {
        let is_held = |key: &[u8]| self.held.get(key).is_some_and(|until| now < *until);
        match message {
            Message::Write { write, .. } => is_held(write.key),
            Message::Batch(batch) => batch
                .operations
                .iter()
                .any(|operation| matches!(operation, RecordOperation::Write(write) if is_held(write.key))),
            // This model does not locate the parts of a transaction: any locked record counts.
            Message::Transact(_) => self.held.values().any(|until| now < *until),
            _ => false,
        }
    }
}

/// The keys of a message that only reads.
fn keys_of<'m>(message: &Message<'m>) -> Vec<&'m [u8]> {
    match message {
        Message::Read { read, .. } => vec![read.key],
        Message::Batch(batch) => batch.operations.iter().map(|operation| operation.key()).collect(),
        _ => Vec::new(),
    }
}
