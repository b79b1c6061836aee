//! Update locks: clients that are going to update a record read it one after another.
//!
//! ```text
//!   take ──> no holder ──> holder until now + UPDATE_LOCK_MS ──> answered as a lookup
//!              └──a holder──> waits
//!   record changes, holder releases it or is gone, or its time is over ──> the first that waits is the next holder
//! ```
//!
//! The locks are advisory, and known to this process only: a lost one costs a conflict.

use zerohop_engine::Engine;
use zerohop_engine::disk::Disk;
use zerohop_record::operations::UpdateLock;
use zerohop_wire::messages::Query;

use super::{AnswerTarget, Partition};
use crate::event::PartitionEffects;
use crate::limits::{UPDATE_LOCK_CHANGE_MS, UPDATE_LOCK_MS, UPDATE_LOCK_WAIT_MS, WAIT_DEFAULT_MS};
use crate::operations::RecordInput;
use crate::planted::{Bug, is_planted};
use crate::update_locks::LockHolder;
use crate::view::RecordView;
use crate::waits::{Wait, WaitCondition};

/// The part of a partition that grants update locks.
pub(super) struct PartitionUpdateLocks<'p> {
    pub(super) partition: &'p mut Partition,
}

impl PartitionUpdateLocks<'_> {
    /// Executes a request for a lock. `true`: it waits; otherwise it is now answered like a lookup.
    pub(super) fn request<D: Disk>(
        &mut self,
        engine: &mut Engine<D>,
        (key, lock): (&[u8], UpdateLock),
        time_out_ms: u32,
        to: &AnswerTarget<'_>,
        effects: &mut dyn PartitionEffects,
    ) -> bool {
        let partition = &mut *self.partition;
        let (connection, now_ms) = (to.token().connection, partition.clock.now_ms());
        match lock {
            UpdateLock::Take(number) => {
                if !partition.waits.update_locks.has(key) {
                    let holder = LockHolder { connection, number };
                    partition.waits.update_locks.give(key, holder, now_ms + UPDATE_LOCK_MS);
                    return false;
                }
                let time_out_ms = if time_out_ms == 0 { WAIT_DEFAULT_MS } else { time_out_ms };
                let deadline_ms = now_ms + u64::from(time_out_ms).min(UPDATE_LOCK_WAIT_MS);
                let requester = (partition.wait_target(to), connection);
                // At the limits it is answered without the lock.
                partition
                    .waits
                    .enqueue(key, WaitCondition::UpdateLock(number), requester, deadline_ms)
                    .is_ok()
            }
            UpdateLock::Release(number) => {
                if partition.waits.update_locks.is_of(key, LockHolder { connection, number }) {
                    self.end(engine, key, effects);
                }
                false
            }
        }
    }

    /// Ends the lock of a record that has just been committed, if it has one.
    pub(super) fn changed<D: Disk>(
        &mut self,
        engine: &mut Engine<D>,
        key: &[u8],
        effects: &mut dyn PartitionEffects,
    ) {
        if self.partition.waits.update_locks.remove(key) && !is_planted(Bug::UpdateLockNotPassed) {
            self.pass(engine, key, effects);
        }
    }

    /// Ends the locks whose time is over.
    pub(super) fn tick<D: Disk>(&mut self, engine: &mut Engine<D>, effects: &mut dyn PartitionEffects) {
        let now_ms = self.partition.clock.now_ms();
        while let Some(key) = self.partition.waits.update_locks.first_ended(now_ms) {
            self.end(engine, &key, effects);
        }
    }

    /// Ends the locks of a connection with the next tick: only then is it certain that this member may answer the requests that wait.
    pub(super) fn disconnect(&mut self, connection: u64) {
        let now_ms = self.partition.clock.now_ms();
        let locks = &mut self.partition.waits.update_locks;
        for key in locks.of_connection(connection) {
            locks.set_end(&key, now_ms);
        }
    }

    /// Ends a lock before its record has changed.
    fn end<D: Disk>(&mut self, engine: &mut Engine<D>, key: &[u8], effects: &mut dyn PartitionEffects) {
        if self.partition.has_intent(key) && !is_planted(Bug::UpdateLockIgnoresIntents) {
            // A transaction is about to change the record. The next holder reads it after that.
            let until_ms = self.partition.clock.now_ms() + UPDATE_LOCK_CHANGE_MS;
            self.partition.waits.update_locks.set_end(key, until_ms);
            return;
        }
        self.partition.waits.update_locks.remove(key);
        self.pass(engine, key, effects);
    }

    /// Gives the lock to the first request that waits for it.
    fn pass<D: Disk>(&mut self, engine: &mut Engine<D>, key: &[u8], effects: &mut dyn PartitionEffects) {
        let waits = &mut self.partition.waits;
        let next = waits.of(key).into_iter().find_map(|at| {
            let wait = waits.get(at)?;
            match wait.awaited {
                WaitCondition::UpdateLock(number) => {
                    Some((at, LockHolder { connection: wait.connection, number }))
                }
                _ => None,
            }
        });
        let Some((at, holder)) = next else { return };
        let until_ms = self.partition.clock.now_ms() + UPDATE_LOCK_MS;
        self.partition.waits.update_locks.give(key, holder, until_ms);
        if let Some(wait) = self.partition.waits.take(at) {
            self.answer(engine, &wait, effects);
        }
    }

    /// Answers a request that has waited, by committed data: what was the state of the record since the request arrived. It
    /// waited for the intents that existed then, so a transaction that is about to change the record is concurrent with it.
    pub(super) fn answer<D: Disk>(
        &mut self,
        engine: &mut Engine<D>,
        wait: &Wait,
        effects: &mut dyn PartitionEffects,
    ) {
        let Partition { state, log_writer, buffers, .. } = &mut *self.partition;
        let view =
            RecordView { engine, handle: log_writer.handle(), overlay: None, deadlines: &state.deadlines };
        let mut contents = std::mem::take(&mut buffers.contents);
        contents.clear();
        let mut found = RecordInput::find(view, &wait.key);
        let answer = match &mut found {
            Ok(record) => Query::Lookup.answer(&wait.key, record, &mut contents),
            Err(failure) => Err(failure.clone()),
        };
        self.partition.deliver_wait(wait.requester, &answer, effects);
        self.partition.buffers.contents = contents;
    }
}
