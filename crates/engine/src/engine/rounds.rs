//! Checkpoints of partitions over a shared log: sections of rounds, in small steps.
//!
//! ```text
//!   queue ──> begin ──> walk (a page a step), next section ... ──> end: log flush, file sync
//! ```

use std::collections::VecDeque;

use super::{Engine, Handle, store_of};
use crate::disk::Disk;
use crate::error::EngineResult;
use crate::io::Io;
use crate::limits::CHECKPOINTS_RETAINED;
use crate::log::shared::rounds::RoundState;
use crate::store::section::SectionWrite;

/// Sections that are to be written, and the round that is being written.
#[derive(Default)]
pub(super) struct RoundWork {
    queue: VecDeque<SectionWork>,
    walking: Option<SectionWork>,
    done: Vec<SectionWork>,
    /// Its sections are complete: what is queued is for the next round.
    is_ending: bool,
}

struct SectionWork {
    handle: Handle,
    section: SectionWrite,
    /// Bytes of log behind the checkpoint before it.
    tail_bytes: u64,
}

impl RoundWork {
    /// Whether no section has locations yet, and is not complete.
    pub(super) fn is_between_sections(&self) -> bool {
        self.walking.is_none()
    }

    /// Whether there is nothing to do.
    pub(super) fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.walking.is_none() && self.done.is_empty()
    }
}

impl<D: Disk> Engine<D> {
    /// Puts a section of a partition's present state into the next round; also a second one of the same commit index, if
    /// `wants_two`.
    pub(super) fn queue_section(
        &mut self,
        handle: Handle,
        extra: &[u8],
        wants_two: bool,
    ) -> EngineResult<()> {
        let (io, store) = self.store(handle)?;
        if let Some(section) = store.begin_section(io, extra, wants_two)? {
            let tail_bytes = store.checkpoints.tail_bytes;
            self.maintenance.round.queue.push_back(SectionWork { handle, section, tail_bytes });
        }
        Ok(())
    }

    /// Does a step of the round. Returns whether there is more to do at once. If it fails, its sections do not count.
    pub(super) fn step_round(&mut self, wait: bool) -> EngineResult<bool> {
        match self.drive_round(wait) {
            Ok(has_more) => Ok(has_more),
            Err(error) => {
                self.forget_round();
                if error.is_out_of_space() { Ok(false) } else { Err(self.shared_failed(error)) }
            }
        }
    }

    /// Ends the round that has this partition's section, if one has or will have it.
    pub(super) fn finish_round(&mut self, handle: Handle) -> EngineResult<()> {
        while self.store(handle)?.1.checkpoints.is_in_round {
            self.step_round(true)?;
        }
        Ok(())
    }

    fn drive_round(&mut self, wait: bool) -> EngineResult<bool> {
        if self.maintenance.round.is_idle() {
            return Ok(false);
        }
        self.settle_moved()?;
        let Engine { io, partitions, maintenance, .. } = self;
        let round = &mut maintenance.round;
        if let Some(mut work) = round.walking.take() {
            let Some(store) = store_of(partitions, work.handle).ok().filter(|store| !store.is_stopped())
            else {
                round.done.push(work);
                self.forget_round();
                return Ok(true);
            };
            if !work.section.step(store, &io.logs) {
                round.walking = Some(work);
                return Ok(true);
            }
            if let Some(shared) = io.logs.shared_mut() {
                shared.rounds.append_section(work.section.bytes());
                round.done.push(work);
                shared.rounds.end_section(&mut io.disk)?;
            }
            return Ok(true);
        }
        let Some(shared) = io.logs.shared_mut() else { return Ok(false) };
        if !shared.rounds.is_writing() {
            shared.rounds.begin(&shared.log, &mut io.disk)?;
            return Ok(true);
        }
        if !round.is_ending
            && let Some(work) = round.queue.pop_front()
        {
            let is_open = store_of(partitions, work.handle).is_ok();
            if let Some(slot) = is_open.then(|| shared.slot(work.handle.0)).flatten() {
                let (commit, epoch) = (work.section.commit(), work.section.epoch());
                shared.rounds.begin_section(&shared.log, slot, commit, epoch);
                round.walking = Some(work);
            }
            return Ok(true);
        }
        round.is_ending = true;
        if shared.rounds.has_flush_to_begin() {
            self.mark_commits()?;
        }
        let Io { disk, logs, .. } = &mut self.io;
        let Some(shared) = logs.shared_mut() else { return Ok(false) };
        match shared.rounds.end(&mut shared.log, disk, wait)? {
            RoundState::Running => {}
            RoundState::Abandoned => self.forget_round(),
            RoundState::Done => self.round_done(),
        }
        Ok(true)
    }

    fn round_done(&mut self) {
        self.maintenance.round.is_ending = false;
        for work in std::mem::take(&mut self.maintenance.round.done) {
            let Ok(store) = store_of(&mut self.partitions, work.handle) else { continue };
            let checkpoints = &mut store.checkpoints;
            checkpoints.is_in_round = false;
            checkpoints.retained.push_back((work.section.commit(), work.section.bytes().len() as u64));
            if checkpoints.retained.len() > CHECKPOINTS_RETAINED {
                checkpoints.retained.pop_front();
            }
            checkpoints.tail_bytes = checkpoints.tail_bytes.saturating_sub(work.tail_bytes);
            checkpoints.check_at_bytes = 0;
            self.maintenance.counts.checkpoints += 1;
        }
    }

    /// Forgets the round that is being written, and what was to be in it or in the next.
    fn forget_round(&mut self) {
        let Engine { io, partitions, maintenance, .. } = self;
        let RoundWork { queue, walking, done, .. } = std::mem::take(&mut maintenance.round);
        for work in queue.into_iter().chain(walking).chain(done) {
            if let Ok(store) = store_of(partitions, work.handle) {
                store.checkpoints.is_in_round = false;
            }
        }
        if let Some(shared) = io.logs.shared_mut() {
            shared.rounds.abandon(&mut io.disk);
        }
    }
}
