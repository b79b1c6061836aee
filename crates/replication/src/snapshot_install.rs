//! Snapshot install: first the primary's log segments, then the changes that it keeps for readers, and the state beside its records. Parts are accepted in order. The
//! installed state counts once all of it is durable.

use zerohop_engine::disk::Disk;
use zerohop_engine::{EngineError, EngineResult};
use zerohop_wire::messages::{EntryName, FollowerReport, PeerBody, StatePart};

use super::limits::{HISTORY_BYTES_MAX, INSTALL_TIME_OUT_US, STATE_BYTES_MAX, STEP_PAUSE_US_MIN};
use super::{Context, Replica, ReplicaEffects, Role};

/// A snapshot install in progress.
#[derive(Debug)]
pub(super) struct SnapshotInstall {
    as_of: EntryName,
    attempt: u64,
    /// Parts accepted so far.
    parts: u32,
    /// The cursor of the last of them.
    cursor: Vec<u8>,
    history: Vec<u8>,
    state: Vec<u8>,
    is_installed: bool,
    /// When the last part was accepted.
    part_accepted_us: u64,
}

impl SnapshotInstall {
    /// When the install is given up, unless all parts have arrived.
    pub(super) fn ends_us(&self) -> u64 {
        if self.is_installed { u64::MAX } else { self.part_accepted_us + INSTALL_TIME_OUT_US }
    }

    /// When it needs a step without a message.
    pub(super) fn due_us(&self, now_us: u64) -> u64 {
        if self.is_installed { now_us + STEP_PAUSE_US_MIN } else { self.ends_us() }
    }
}

impl Replica {
    /// Handles a part of the primary's snapshot.
    pub(super) fn handle_snapshot_part<D: Disk>(
        &mut self,
        context: &mut Context<'_, D>,
        (as_of, attempt): (EntryName, u64),
        (part, cursor, holds): (u32, &[u8], &StatePart<'_>),
        effects: &mut dyn ReplicaEffects,
    ) -> EngineResult<()> {
        if !matches!(self.role, Role::InSync | Role::Follower) {
            return Ok(());
        }
        let has_it = self.follow.matched.is_some_and(|matched| matched >= as_of.index.0);
        if self.follow.snapshot_install.is_none()
            && !self.health.needs_state
            && !self.health.has_corruption
            && has_it
        {
            // The acknowledgement of the last part was lost, or the part belongs to an old snapshot.
            self.acknowledge_parts((as_of, attempt), (part + 1, cursor), effects);
            return Ok(());
        }
        if self.follow.snapshot_install.is_none() && part > 0 {
            self.acknowledge_parts((as_of, attempt), (0, &[]), effects);
            return Ok(());
        }
        if self.role == Role::InSync {
            // Its log may be the only copy of acknowledged entries. It must be removed from the in-sync set first.
            effects.send(
                self.view.primary,
                self.view.epoch,
                &PeerBody::ReplicateAck(FollowerReport::NeedsState),
            );
            return Ok(());
        }
        let known = self
            .follow
            .snapshot_install
            .as_ref()
            .map(|install| (install.as_of, install.attempt, install.parts));
        match known {
            Some((of, this, parts)) if (of, this, parts) == (as_of, attempt, part) => {}
            // Of another attempt only the first part of a later attempt is accepted.
            Some((_, this, _)) if this >= attempt || part > 0 => {
                return self.answer_part(context, (as_of, attempt), effects);
            }
            _ => self.begin_install(context, (as_of, attempt))?,
        }
        match self.accept_part_bytes(context, as_of, holds) {
            Ok(()) => {}
            // The primary sends the part again, and there may be room then.
            Err(
                EngineError::DiskFull { .. } | EngineError::Scarce { .. } | EngineError::MemoryFull { .. },
            ) => return Ok(()),
            // A part that was sent again ends elsewhere than the first time: the primary begins again.
            Err(EngineError::NotNext { .. }) if matches!(holds, StatePart::Log { .. }) => {
                self.follow.snapshot_install = None;
                self.acknowledge_parts((as_of, attempt), (0, &[]), effects);
                return Ok(());
            }
            Err(error) => {
                self.follow.snapshot_install = None;
                return Err(error);
            }
        }
        if let Some(install) = &mut self.follow.snapshot_install {
            install.parts = part + 1;
            install.cursor = cursor.to_vec();
            install.part_accepted_us = context.now_us;
        }
        self.answer_part(context, (as_of, attempt), effects)
    }

    fn begin_install<D: Disk>(
        &mut self,
        context: &mut Context<'_, D>,
        (as_of, attempt): (EntryName, u64),
    ) -> EngineResult<()> {
        self.health.needs_state = true;
        self.follow.matched = None;
        self.follow.reported_durable = 0;
        self.follow.snapshot_install = None;
        self.health.repair.begin_again(true);
        self.partition.wipe(context.engine, (self.id, self.options))?;
        self.sending.compaction_on_hold = false;
        self.partition.begin_install(context.engine)?;
        let grew_us = context.now_us;
        let (history, state) = (Vec::new(), Vec::new());
        self.follow.snapshot_install = Some(SnapshotInstall {
            as_of,
            attempt,
            parts: 0,
            cursor: Vec::new(),
            history,
            state,
            is_installed: false,
            part_accepted_us: grew_us,
        });
        Ok(())
    }

    fn accept_part_bytes<D: Disk>(
        &mut self,
        context: &mut Context<'_, D>,
        as_of: EntryName,
        holds: &StatePart<'_>,
    ) -> EngineResult<()> {
        let Some(install) = &mut self.follow.snapshot_install else { return Ok(()) };
        match *holds {
            StatePart::Log { begins, bytes } => self.partition.install_run(context.engine, begins, bytes),
            StatePart::History { bytes } => {
                // No sender keeps more. The changes are for readers only, so the snapshot is complete without them.
                if install.history.len() + bytes.len() <= HISTORY_BYTES_MAX {
                    install.history.extend_from_slice(bytes);
                }
                Ok(())
            }
            StatePart::State { is_last, bytes } => {
                if install.state.len() + bytes.len() > STATE_BYTES_MAX {
                    return Err(EngineError::Limit { what: "bytes of a partition's state (64 MiB)" });
                }
                // If there was no room for the checkpoint, the last part is sent again. The parts before it are already
                // installed.
                if !install.is_installed {
                    let installed_bytes = install.state.len();
                    install.state.extend_from_slice(bytes);
                    if !is_last {
                        return Ok(());
                    }
                    let installed =
                        self.partition.finish_install(context.engine, (as_of.epoch, as_of.index.0));
                    if installed.is_err() {
                        install.state.truncate(installed_bytes);
                        return installed;
                    }
                    if self.partition.install(context.engine, &install.state).is_err() {
                        let reason = "a state that cannot be read".into();
                        return Err(EngineError::Stopped { reason });
                    }
                    self.partition.install_history(&install.history);
                    install.is_installed = true;
                    (install.history, install.state) = (Vec::new(), Vec::new());
                    self.counts.snapshots_installed += 1;
                }
                self.partition.checkpoint(context.engine)
            }
        }
    }

    /// Acknowledges the accepted parts. The last part is acknowledged only once the state survives a restart, because the log
    /// does not contain the state.
    fn answer_part<D: Disk>(
        &mut self,
        context: &mut Context<'_, D>,
        (as_of, attempt): (EntryName, u64),
        effects: &mut dyn ReplicaEffects,
    ) -> EngineResult<()> {
        let is_it = |install: &SnapshotInstall| (install.as_of, install.attempt) == (as_of, attempt);
        let Some(install) = self.follow.snapshot_install.as_ref().filter(|install| is_it(install)) else {
            return Ok(());
        };
        if install.is_installed {
            return self.end_install(context, effects);
        }
        self.acknowledge_parts((as_of, attempt), (install.parts, &install.cursor), effects);
        Ok(())
    }

    /// Checks whether the installed state is durable. If so, it counts, and the primary is notified.
    pub(super) fn end_install<D: Disk>(
        &mut self,
        context: &mut Context<'_, D>,
        effects: &mut dyn ReplicaEffects,
    ) -> EngineResult<()> {
        let Some(install) = self.follow.snapshot_install.as_ref().filter(|install| install.is_installed)
        else {
            return Ok(());
        };
        let (as_of, attempt, parts) = (install.as_of, install.attempt, install.parts);
        let cursor = install.cursor.clone();
        // An empty log has no checkpoint and needs none, because it is already complete.
        let reaches_disk = self.partition.reaches_disk() && as_of.index.0 > 0;
        if reaches_disk && context.engine.partition_stats(self.partition.handle())?.checkpoint_bytes == 0 {
            return self.partition.checkpoint(context.engine);
        }
        context.engine.end_install(self.partition.handle())?;
        self.health.needs_state = false;
        self.health.has_corruption = false;
        self.health.is_intact = true;
        self.clear_damage();
        self.follow.matched = Some(as_of.index.0);
        self.follow.snapshot_install = None;
        self.acknowledge_parts((as_of, attempt), (parts, &cursor), effects);
        Ok(())
    }

    fn acknowledge_parts(
        &self,
        (as_of, attempt): (EntryName, u64),
        (parts, cursor): (u32, &[u8]),
        effects: &mut dyn ReplicaEffects,
    ) {
        let body = PeerBody::StateAck { as_of, attempt, parts, cursor };
        effects.send(self.view.primary, self.view.epoch, &body);
    }
}
