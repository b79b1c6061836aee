//! The read locks of servers. A write to a locked record is refused with a retry, where a real
//! server lets it wait.

use zerohop_base::time::Time;
use zerohop_wire::messages::{Message, RecordOperation};
use zerohop_wire::{Envelope, Features};

use super::server::FakeCluster;

impl FakeCluster {
    /// Read-locks the records of a read, if all exist. Returns the microseconds of the lock.
    pub fn grant_read_lock(&mut self, now: Time, envelope: &Envelope, message: &Message<'_>) -> u32 {
        assert!(
            !envelope.read_lock || self.features.has(Features::READ_LOCKS),
            "no read lock without the feature"
        );
        let records = &self.partitions[envelope.partition.get() as usize].records;
        let keys: Vec<Vec<u8>> = keys_of(message).into_iter().map(<[u8]>::to_vec).collect();
        let is_all = keys.iter().all(|key| records.contains_key(key));
        if !envelope.read_lock || !is_all || !self.random.chance(self.read_lock_settings) {
            return if self.claims_read_locks { self.read_lock_us } else { 0 };
        }
        let until = now.after_us(self.read_lock_us.into());
        self.read_locks.extend(keys.into_iter().map(|key| (key, until)));
        self.read_lock_us
    }

    /// Whether a message would change a locked record.
    pub fn changes_locked_record(&self, now: Time, message: &Message<'_>) -> bool {
        let is_locked = |key: &[u8]| self.read_locks.get(key).is_some_and(|until| now < *until);
        match message {
            Message::Write { write, .. } => is_locked(write.key),
            Message::Batch(batch) => batch
                .operations
                .iter()
                .any(|operation| matches!(operation, RecordOperation::Write(write) if is_locked(write.key))),
            // This model does not locate the parts of a transaction: any locked record counts.
            Message::Transact(_) => self.read_locks.values().any(|until| now < *until),
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
