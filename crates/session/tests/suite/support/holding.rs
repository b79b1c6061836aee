//! What servers hold for readers of several records: who would change it is told to come again, where a real one has him wait.

use zerohop_base::time::Time;
use zerohop_wire::messages::{Message, RecordOperation};
use zerohop_wire::{Envelope, Features};

use super::server::FakeCluster;

impl FakeCluster {
    /// Holds what is read, if all of it is there. For how long.
    pub fn holds(&mut self, now: Time, envelope: &Envelope, message: &Message<'_>) -> u32 {
        assert!(!envelope.hold || self.features.has(Features::HOLD), "who does not hold is not asked to");
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

    /// Whether something is held that would be changed.
    pub fn is_held(&self, now: Time, message: &Message<'_>) -> bool {
        let is_held = |key: &[u8]| self.held.get(key).is_some_and(|until| now < *until);
        match message {
            Message::Write { write, .. } => is_held(write.key),
            Message::Batch(batch) => batch
                .operations
                .iter()
                .any(|operation| matches!(operation, RecordOperation::Write(write) if is_held(write.key))),
            // The model keeps to no partition: whatever a transaction changes is looked at.
            Message::Transact(_) => self.held.values().any(|until| now < *until),
            _ => false,
        }
    }
}

/// The records that are read, if nothing else is asked.
fn keys_of<'m>(message: &Message<'m>) -> Vec<&'m [u8]> {
    match message {
        Message::Read { read, .. } => vec![read.key],
        Message::Batch(batch) => batch.operations.iter().map(|operation| operation.key()).collect(),
        _ => Vec::new(),
    }
}
