//! The table of composite operations. Each requests operations, which the session submits, and receives their results.

use std::collections::VecDeque;

use zerohop_placement::ClusterMap;
use zerohop_wire::ids::MapEpoch;

use super::mapping::Mapping;
use crate::error::{SessionError, WaitReason};
use crate::limits::READ_LOCK_USABLE_NINTHS;
use crate::reply::Reply;
use crate::slots::{Handle, Slots};
use crate::timers::{Subject, Timers};
use crate::transaction::{Composite, CompositeStep, ItemRequest, ReadCounts};
use zerohop_base::time::Time;

/// The composite operations of a session.
#[derive(Debug)]
pub(super) struct CompositeTable<T> {
    procedures: Slots<Procedure<T>>,
    /// Results of their operations that have not been passed on yet.
    ended: VecDeque<CompletedOperation>,
    /// The map, and the latest answer about it, with which those that wait for a map were last started.
    started_with: (MapEpoch, Option<Time>),
    /// Counts of those that read.
    reads: ReadCounts,
}

/// A composite operation and the receiver of its result.
#[derive(Debug)]
struct Procedure<T> {
    token: T,
    composite: Composite,
    bytes: usize,
    submitted: Time,
    deadline: Time,
    /// It waits for a map that was requested at this time or later.
    awaits_map: Option<Time>,
}

/// The result of an operation of a composite operation.
#[derive(Debug)]
struct CompletedOperation {
    procedure: Handle,
    slot: u32,
    result: Result<Reply, SessionError>,
    /// Until when a read lock protects what was read; `None`: no lock.
    read_locked_until: Option<Time>,
}

/// The frame that answered an operation.
#[derive(Clone, Copy, Debug)]
pub(super) struct AnsweredFrame {
    /// When its request was sent.
    pub(super) sent: Time,
    /// The duration of the read lock in the answer; 0: no lock.
    pub(super) read_lock_us: u32,
}

/// The first step of a composite operation with a map.
#[derive(Debug)]
pub(super) struct CompositeStart {
    pub(super) step: CompositeStep,
    /// If it goes on waiting for a map: since when.
    pub(super) since: Option<Time>,
}

impl<T> CompositeTable<T> {
    pub(super) fn new() -> Self {
        Self {
            procedures: Slots::new(),
            ended: VecDeque::new(),
            started_with: (MapEpoch(0), None),
            reads: ReadCounts::default(),
        }
    }

    pub(super) fn insert(&mut self, now: Time, composite: Composite, limit_us: u64, token: T) -> Handle {
        let deadline = now.after_us(limit_us);
        let bytes = composite.bytes();
        self.procedures.insert(Procedure {
            token,
            composite,
            bytes,
            submitted: now,
            deadline,
            awaits_map: None,
        })
    }

    /// Requests that end what was staged in vain for a composite operation with this result.
    pub(super) fn releases(
        &mut self,
        handle: Handle,
        result: &Result<Reply, SessionError>,
    ) -> Vec<ItemRequest> {
        let Some(procedure) = self.procedures.get_mut(handle) else { return Vec::new() };
        // A transaction in doubt may still pin what it names.
        let has_failed = matches!(result, Err(error) if !matches!(error, SessionError::Unknown { .. }));
        procedure.composite.releases(has_failed)
    }

    /// Removes a composite operation. Returns its token and its bytes.
    pub(super) fn remove(&mut self, handle: Handle) -> Option<(T, usize)> {
        let Procedure { token, bytes, .. } = self.procedures.remove(handle)?;
        Some((token, bytes))
    }

    pub(super) fn len(&self) -> usize {
        self.procedures.len()
    }

    /// The sum of their bytes.
    pub(super) fn bytes(&self) -> usize {
        self.procedures.iter().map(|(_, procedure)| procedure.bytes).sum()
    }

    pub(super) fn handles(&self) -> Vec<Handle> {
        self.procedures.iter().map(|(handle, _)| handle).collect()
    }

    /// The time that a composite operation has left, in microseconds.
    pub(super) fn remaining_us(&self, now: Time, handle: Handle) -> u64 {
        self.procedures.get(handle).map_or(0, |procedure| procedure.deadline.since_us(now))
    }

    pub(super) fn reads(&self) -> ReadCounts {
        self.reads
    }

    /// Counts a composite operation that has succeeded.
    pub(super) fn count_read(&mut self, handle: Handle) {
        if let Some(procedure) = self.procedures.get(handle) {
            self.reads.count(&procedure.composite);
        }
    }

    /// Accepts the result of one of the operations of a composite operation.
    pub(super) fn add_result(
        &mut self,
        procedure: Handle,
        slot: u32,
        result: Result<Reply, SessionError>,
        answered: Option<AnsweredFrame>,
    ) {
        // The lock counts from the time of the request, by this clock: the server read the record later, so its lock lasts longer.
        let read_locked_until = answered.and_then(|AnsweredFrame { sent, read_lock_us }| {
            let usable_us = u64::from(read_lock_us) * READ_LOCK_USABLE_NINTHS / 9;
            (usable_us > 0).then(|| sent.after_us(usable_us))
        });
        self.ended.push_back(CompletedOperation { procedure, slot, result, read_locked_until });
    }

    /// Whether there are results to pass on.
    pub(super) fn has_results(&self) -> bool {
        !self.ended.is_empty()
    }

    /// Passes on the next result to its composite operation, if that has not ended. Returns the next step of that operation.
    pub(super) fn next_result(&mut self, now: Time, map: &ClusterMap) -> Option<(Handle, CompositeStep)> {
        while let Some(CompletedOperation { procedure: handle, slot, result, read_locked_until }) =
            self.ended.pop_front()
        {
            // Another of its operations may have ended it.
            if let Some(procedure) = self.procedures.get_mut(handle) {
                // All results arrived before the time of this turn.
                let step = procedure.composite.ended((map, now), slot, (result, read_locked_until));
                return Some((handle, step));
            }
        }
        None
    }

    /// Those that wait for a map, if it has changed since they were last started, or an answer has confirmed it.
    pub(super) fn with_new_map(&self, mapping: &Mapping) -> Vec<Handle> {
        if self.started_with == mapping.version() || self.procedures.len() == 0 {
            return Vec::new();
        }
        let waits = |(handle, one): (Handle, &Procedure<T>)| one.awaits_map.map(|_| handle);
        self.procedures.iter().filter_map(waits).collect()
    }

    /// Records that those that wait for a map were started with this one.
    pub(super) fn record_start(&mut self, mapping: &Mapping) {
        self.started_with = mapping.version();
    }

    /// Starts a composite operation, possibly again.
    pub(super) fn start(&mut self, handle: Handle, mapping: &Mapping) -> Option<CompositeStart> {
        let procedure = self.procedures.get_mut(handle)?;
        let since = procedure.awaits_map.take();
        let is_newest = mapping.is_newer_than(Some(since.unwrap_or(procedure.submitted)));
        let step = procedure.composite.begin(mapping.map(), is_newest);
        Some(CompositeStart { step, since: since.filter(|_| !is_newest) })
    }

    /// Lets a composite operation wait for a map that is requested now or later.
    pub(super) fn await_map(&mut self, now: Time, handle: Handle, timers: &mut Timers) {
        if let Some(procedure) = self.procedures.get_mut(handle) {
            procedure.awaits_map = Some(now);
            timers.arm(Subject::Composite(handle.index), procedure.deadline);
        }
    }

    /// Lets a composite operation that waits for a map wait for the request that it has waited for since then: that is not repeated with every map
    /// that arrives.
    pub(super) fn wait_on(&mut self, handle: Handle, since: Time) {
        if let Some(procedure) = self.procedures.get_mut(handle)
            && procedure.awaits_map.is_some()
        {
            procedure.awaits_map = Some(since);
        }
    }

    /// The composite operation at this position and its error, if it has waited for a map until its deadline.
    pub(super) fn expired(
        &mut self,
        now: Time,
        index: u32,
        mapping: &Mapping,
        timers: &mut Timers,
    ) -> Option<(Handle, SessionError)> {
        let handle = self.procedures.at(index)?;
        let procedure = self.procedures.get(handle).filter(|one| one.awaits_map.is_some())?;
        if now < procedure.deadline {
            timers.arm(Subject::Composite(index), procedure.deadline);
            return None;
        }
        let waited_us = now.since_us(procedure.submitted);
        let last = mapping.last.clone().map(Box::new);
        Some((handle, SessionError::Deadline { waited_us, waiting: WaitReason::Map, last, unreached: None }))
    }
}
