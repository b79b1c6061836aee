//! Running a program as one unit: its changes are appended, committed together and answered then, or are taken back.

use zerohop_engine::disk::Disk;
use zerohop_engine::{Engine, EngineResult, Meta};
use zerohop_wire::Failure;
use zerohop_wire::ids::Timestamp;

use super::Partition;
use crate::event::{Effects, Now, Token};
use crate::failure::failure_of;
use crate::held::Reply;
use crate::limits::BUSY_RETRY_MS;
use crate::operations::OrFail;
use crate::planted::{Bug, is_planted};
use crate::unit::{Program, Ran, Staged, Unit};
use crate::view::View;

impl Partition {
    /// Runs a program over the records. After [`Ran::Now`] its reply stands at the end of `reply`; after [`Ran::Later`]
    /// it comes as [`Effects::reply`], or as an answer with a failure if its changes cannot be committed.
    ///
    /// # Errors
    /// What the program or the partition says: nothing has changed (after `DiskFailed`: perhaps), nothing was appended to
    /// `reply`, and nothing comes later.
    pub fn run<D: Disk, P: Program>(
        &mut self,
        engine: &mut Engine<D>,
        now: Now,
        token: Token,
        (program, reply): (&mut P, &mut Vec<u8>),
        effects: &mut dyn Effects,
    ) -> Result<Ran, Failure<'static>> {
        self.clock.advance(now);
        if self.held.is_full() {
            return Err(Failure::Busy { retry_after_ms: BUSY_RETRY_MS });
        }
        let (begin, end) = (reply.len(), self.group.end());
        let mut staged = std::mem::take(&mut self.buffers.staged);
        let mut unit = {
            let Partition { group, overlay, state, clock, .. } = self;
            Unit::new(engine, (group, overlay, &state.deadlines), clock, &mut staged)
        };
        let ran = program.run(&mut unit, reply);
        let (newest, appended) = (unit.newest, unit.appended);
        let at = if appended > 0 { unit.at() } else { Timestamp::ZERO };
        let result = match ran {
            Ok(true) if !staged.is_some && appended == 0 => Ok(newest),
            Ok(true) => match self.append_last(engine, appended, at, &mut staged) {
                Ok(meta) => self.appended(engine, &meta, appended, &mut staged, effects),
                Err(error) => self.take_back(engine, end).and(Err(failure_of(&error))),
            },
            // What it has seen of others must be committed before it is told.
            Ok(false) => self.take_back(engine, end).map(|()| newest.min(end.1)),
            Err(failure) => self.take_back(engine, end).and(Err(failure)),
        };
        staged.clear();
        self.buffers.staged = staged;
        self.buffers.shrink();
        match result {
            Ok(index) if index <= self.state.applied || is_planted(Bug::ReadsUncommitted) => Ok(Ran::Now),
            Ok(index) => {
                let bytes = reply.split_off(begin);
                self.held.push(index, token, Reply::Raw(bytes), effects);
                Ok(Ran::Later)
            }
            Err(failure) => {
                reply.truncate(begin);
                Err(failure)
            }
        }
    }

    /// Appends the last entry of a unit, of which so many are in the log.
    fn append_last<D: Disk>(
        &mut self,
        engine: &mut Engine<D>,
        appended: usize,
        at: Timestamp,
        staged: &mut Staged,
    ) -> EngineResult<Meta> {
        if appended == 0 {
            return self.group.append(engine, &staged.entry());
        }
        if !staged.is_some {
            staged.set_end(at);
        }
        self.group.append_only(engine, &staged.entry())
    }

    /// All of a unit is in the log: it is committed now, or lies over the records until it is.
    fn appended<D: Disk>(
        &mut self,
        engine: &mut Engine<D>,
        meta: &Meta,
        appended: usize,
        staged: &mut Staged,
        effects: &mut dyn Effects,
    ) -> Result<u64, Failure<'static>> {
        let at_once = self.group.commits_at_once();
        if at_once && appended == 0 {
            self.apply(meta, &staged.key, &staged.payload);
            if self.waits.has(&staged.key) {
                self.wake(engine, &staged.key, effects);
            }
            return Ok(meta.index);
        }
        if at_once {
            staged.noted.push(meta, &staged.key, &staged.payload);
            // What fails here is the disk, and the partition takes nothing more.
            engine.commit(self.handle(), meta.index).map_err(|error| failure_of(&error))?;
            for (meta, key, note) in staged.noted.iter() {
                self.apply(meta, key, note);
            }
            // Where all is committed at once, nothing else is in it.
            self.overlay.clear_records();
            if !self.waits.is_empty() {
                // A unit is seen as a whole.
                for (_, key, _) in staged.noted.iter() {
                    if self.waits.has(key) {
                        self.wake(engine, key, effects);
                    }
                }
            }
            return Ok(meta.index);
        }
        if let Some((change, before)) = staged.change.take() {
            self.overlay.change(meta.index, &staged.key, change, before);
        }
        effects.flush_wanted();
        Ok(meta.index)
    }

    /// Takes back what was appended after `end`.
    fn take_back<D: Disk>(
        &mut self,
        engine: &mut Engine<D>,
        end: (u32, u64),
    ) -> Result<(), Failure<'static>> {
        if self.group.end() == end {
            return Ok(());
        }
        // If the disk fails here the engine takes nothing more for this log, and its next start cuts it.
        let cut = self.group.give_up(engine, end);
        for key in self.overlay.given_up(end.1) {
            let mut view =
                View { engine, handle: self.group.handle(), overlay: None, deadlines: &self.state.deadlines };
            let base = view.shape(&key).or_fail()?;
            self.overlay.rebase(&key, base);
        }
        cut.or_fail()
    }
}
