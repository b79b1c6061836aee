//! Work that depends on time: time-outs, expiry, forgotten sessions, checkpoints.

use zerohop_engine::disk::Disk;
use zerohop_engine::{Engine, EngineError, EngineResult, EntryKind};
use zerohop_wire::Failure;
use zerohop_wire::ids::{SessionId, Timestamp};

use super::Partition;
use super::changes::PartitionChanges;
use super::update_locks::PartitionUpdateLocks;
use crate::entry_metadata::Mark;
use crate::event::PartitionEffects;
use crate::limits::{EVICTED_PER_ENTRY_MAX, EXPIRED_PER_TICK_MAX, SESSION_IDLE_MS, SESSION_SWEEP_MS};
use crate::log_writer::NewLogEntry;
use crate::map_view::MapView;

impl Partition {
    pub(super) fn tick<D: Disk>(
        &mut self,
        engine: &mut Engine<D>,
        map: MapView<'_>,
        effects: &mut dyn PartitionEffects,
    ) -> EngineResult<()> {
        let now_ms = self.clock.now_ms();
        while let Some(wait) = self.waits.take_overdue(now_ms) {
            self.time_out(engine, &wait, effects);
        }
        PartitionUpdateLocks { partition: self }.tick(engine, effects);
        PartitionChanges { partition: self }.time_out(engine, now_ms, effects);
        self.expire_due(engine, effects)?;
        self.tick_transactions(engine, map, effects);
        self.free_read_locks();
        if now_ms >= self.sweep_at_ms && !self.overlay.is_evicting() {
            self.evict_idle(engine, effects)?;
        }
        self.clean_up_split(engine, effects)?;
        self.tick_snapshots(engine, effects)?;
        self.append_if_pressed(engine, effects)?;
        if engine.checkpoint_is_due(self.handle())? {
            self.checkpoint(engine)?;
        }
        Ok(())
    }

    /// Starts a checkpoint of the engine that carries the state, if the partition reaches a disk. A single-copy partition waits
    /// until all entries are committed, so that the next start reads no log. A group of several members always has entries in
    /// flight, so its state and engine are as of the commit index. The caller continues with [`Engine::maintain`].
    ///
    /// # Errors
    /// As [`Engine::checkpoint_begin`].
    pub fn checkpoint<D: Disk>(&mut self, engine: &mut Engine<D>) -> EngineResult<()> {
        let commit = engine.partition_stats(self.handle())?.commit;
        if !self.log_writer.reaches_disk()
            || commit != self.state.applied
            || self.log_writer.is_single_copy() && self.state.applied != self.log_writer.last()
        {
            return Ok(());
        }
        engine.checkpoint_begin(self.handle(), &self.state.encode())
    }

    fn expire_due<D: Disk>(
        &mut self,
        engine: &mut Engine<D>,
        effects: &mut dyn PartitionEffects,
    ) -> EngineResult<()> {
        let due = self.state.deadlines.due(self.clock.now_ms());
        let may = |key: &&std::sync::Arc<[u8]>| !self.has_transactions() || self.may_expire(key);
        let due: Vec<_> = due.filter(may).take(EXPIRED_PER_TICK_MAX).cloned().collect();
        for key in due {
            match self.expire_if_due(engine, &key, effects) {
                Ok(_) => {}
                // The record stays, and its removal is tried again. Clients do not see it meanwhile.
                Err(Failure::DiskFull | Failure::MemoryFull | Failure::Busy { .. }) => break,
                Err(failure) => return Err(EngineError::Stopped { reason: failure.to_string() }),
            }
        }
        Ok(())
    }

    /// Forgets sessions that were not used for long, by a log entry that raises the session mark.
    fn evict_idle<D: Disk>(
        &mut self,
        engine: &mut Engine<D>,
        effects: &mut dyn PartitionEffects,
    ) -> EngineResult<()> {
        let since_ms = self.clock.now_ms().saturating_sub(SESSION_IDLE_MS);
        let (sessions, mark) = self.state.sessions.idle(since_ms, EVICTED_PER_ENTRY_MAX);
        if sessions.len() < EVICTED_PER_ENTRY_MAX {
            self.sweep_at_ms = self.clock.now_ms() + SESSION_SWEEP_MS;
        }
        if sessions.is_empty() {
            return Ok(());
        }
        self.append_eviction(engine, (sessions, mark), effects)
    }

    /// Appends an entry without effect, an eviction of no session. The engine needs a later log index for its next checkpoint,
    /// without which it cannot free dead space.
    fn append_if_pressed<D: Disk>(
        &mut self,
        engine: &mut Engine<D>,
        effects: &mut dyn PartitionEffects,
    ) -> EngineResult<()> {
        // An entry that is not committed yet has the later index. Without this check, a primary whose members are down fills its
        // disk with entries.
        let has_uncommitted = self.log_writer.last() > self.state.applied;
        if has_uncommitted || !engine.needs_entry(self.handle())? || self.overlay.is_evicting() {
            return Ok(());
        }
        match self.append_eviction(engine, (Vec::new(), Timestamp::default()), effects) {
            // A later tick tries again.
            Err(
                EngineError::DiskFull { .. } | EngineError::Scarce { .. } | EngineError::MemoryFull { .. },
            ) => Ok(()),
            appended => appended,
        }
    }

    fn append_eviction<D: Disk>(
        &mut self,
        engine: &mut Engine<D>,
        (sessions, mark): (Vec<SessionId>, Timestamp),
        effects: &mut dyn PartitionEffects,
    ) -> EngineResult<()> {
        let at = self.clock.next();
        let eviction = Mark::Eviction { mark, sessions };
        let mut payload = Vec::new();
        eviction.encode(at, &mut payload);
        let entry =
            NewLogEntry { kind: EntryKind::Mark, flags: 0, at, key: &[], payload: &payload, hint: None };
        let meta = self.log_writer.append(engine, &entry)?;
        if self.log_writer.commits_at_once() {
            self.apply(&meta, &[], &payload);
        } else if let Mark::Eviction { mark, sessions } = eviction {
            self.overlay.add_eviction(meta.index, &sessions, mark);
            effects.request_flush();
        }
        Ok(())
    }
}
