//! The session itself: its state, and its events.
//!
//! Each event only changes the state of operations. [`Session::step`] then handles what is due, packs and encodes what can be sent, and returns the
//! effects. A shell that passes in all pending events before it calls `turn` therefore makes one write per connection, however many operations it
//! carries.

mod answers;
mod check;
mod coalesced_frame;
mod composite;
mod connection_table;
mod connections;
mod dispatch;
mod mapping;
mod numbering;
mod receive;
mod transmit;

use std::collections::VecDeque;
use std::sync::Arc;

use zerohop_placement::ClusterMap;
use zerohop_wire::ids::{MapEpoch, PartitionId, Timestamp};
use zerohop_wire::messages::ClusterId;

use crate::backoff::Jitter;
use crate::buffer_pool::FramePool;
use crate::effect::SessionEffect;
use crate::error::{AttemptFailure, SessionError, WaitReason};
use crate::limits::{READ_LOCK_USABLE_NINTHS, SILENT_US, WAIT_GRACE_US};
use crate::operation::{CompletionTarget, OpenOperation, OperationState};
use crate::planted::{Bug, is_planted};
use crate::reply::Reply;
use crate::request::{Coalescing, RequestKind, SessionRequest};
use crate::settings::SessionSettings;
use crate::slots::{Handle, Slots};
use crate::timers::{Subject, Timers};
use crate::transaction::ReadCounts;
use zerohop_base::invariant::CheckTurn;
use zerohop_base::time::Time;

use composite::Procedure;
use connection_table::ConnectionTable;
use mapping::Mapping;
use numbering::WriteNumbering;

/// The client's half of the protocol. `T` is submitted with an operation and returned with its completion.
#[derive(Debug)]
pub struct Session<T> {
    settings: SessionSettings,
    map: Arc<ClusterMap>,
    mapping: Mapping,
    cluster: ClusterId,
    /// The highest timestamp seen so far; every request carries it.
    seen: Timestamp,

    operations: Slots<OpenOperation<T>>,
    /// The composite operations.
    together: Slots<Procedure<T>>,
    /// Counts of the composite operations that read.
    reads: ReadCounts,
    /// Results of their operations that have not been passed on yet.
    ended: VecDeque<EndedOperation>,
    /// The duration of the read lock in the frame, or the part of a frame, that is being processed.
    read_lock_us: u32,
    /// The map, and the latest answer about it, with which the composite operations that wait for a map were last started.
    together_map: (MapEpoch, Option<Time>),
    operation_bytes: usize,
    /// Operations that the map does not place.
    unrouted: Vec<Handle>,
    /// Operations for which no connection is available.
    starved: Vec<Handle>,

    connections: ConnectionTable,
    numbering: WriteNumbering,

    frame_pool: FramePool,
    timers: Timers,
    jitter: Jitter,
    effects: Vec<SessionEffect<T>>,
    /// The buffer in which batches are encoded.
    packed: Vec<u8>,
    /// The buffer into which compressed bodies are expanded.
    scratch: Vec<u8>,
    closed: bool,
    check_turn: CheckTurn,
}

/// The result of an operation of a composite operation.
#[derive(Debug)]
struct EndedOperation {
    procedure: Handle,
    slot: u32,
    result: Result<Reply, SessionError>,
    /// Until when a read lock protects what was read; `None`: no lock.
    read_locked_until: Option<Time>,
}

impl<T> Session<T> {
    /// Creates a session that knows only its endpoints; it requests the map in the first turn.
    #[must_use]
    pub fn new(settings: SessionSettings) -> Self {
        let settings = settings.bounded();
        Self {
            connections: ConnectionTable::new(&settings),
            jitter: Jitter::new(settings.jitter_seed),
            settings,
            map: Arc::default(),
            mapping: Mapping::new(),
            cluster: ClusterId::default(),
            seen: Timestamp::ZERO,
            operations: Slots::new(),
            together: Slots::new(),
            reads: ReadCounts::default(),
            ended: VecDeque::new(),
            read_lock_us: 0,
            together_map: (MapEpoch(0), None),
            operation_bytes: 0,
            unrouted: Vec::new(),
            starved: Vec::new(),
            numbering: WriteNumbering::default(),
            frame_pool: FramePool::default(),
            timers: Timers::new(),
            effects: Vec::new(),
            packed: Vec::new(),
            scratch: Vec::new(),
            closed: false,
            check_turn: CheckTurn::default(),
        }
    }

    /// Accepts an operation. It ends with an [`SessionEffect::Complete`] that contains its token, at its deadline at the latest.
    pub fn submit(&mut self, now: Time, request: SessionRequest, token: T) {
        if let Err(error) = self.admit(&request) {
            self.effects.push(SessionEffect::Complete { token, result: Err(error) });
            return;
        }
        self.operation_bytes += request.bytes();
        let SessionRequest { operation: ask, limit_us, collecting } = request;
        match ask {
            RequestKind::Together(together) => self.begin_together(now, *together, limit_us, token),
            ask => self.accept_operation(
                now,
                (ask, collecting, false),
                limit_us,
                CompletionTarget::Caller(token),
            ),
        }
    }

    /// Accepts an operation for which there is room.
    fn accept_operation(
        &mut self,
        now: Time,
        (ask, collecting, hold): (RequestKind, Coalescing, bool),
        limit_us: u64,
        owner: CompletionTarget<T>,
    ) {
        let grace_us = if matches!(ask, RequestKind::Record { wait: true, .. }) { WAIT_GRACE_US } else { 0 };
        let deadline = now.after_us(limit_us).after_us(grace_us);
        let handle = self.operations.insert(OpenOperation {
            owner,
            request: ask,
            collecting,
            wants_read_lock: hold,
            submitted: now,
            deadline,
            state: OperationState::Unrouted,
            partition: None,
            epoch: Default::default(),
            stamp: None,
            may_be_executed: false,
            attempts: 0,
            redirects: 0,
            pauses: 0,
            last: None,
        });
        self.timers.arm(Subject::Operation(handle.index), deadline);
        self.dispatch(now, handle);
    }

    /// Handles what is due, sends what can be sent, and adds all effects since the last turn to `effects`.
    pub fn step(&mut self, now: Time, effects: &mut Vec<SessionEffect<T>>) {
        while let Some(subject) = self.timers.pop(now) {
            match subject {
                Subject::Operation(index) => self.operation_is_due(now, index),
                Subject::Connection(index) => self.connection_is_due(now, index),
                Subject::Together(index) => self.together_is_due(now, index),
                Subject::Maintenance => self.opening_is_due(now),
            }
        }
        self.run_together(now);
        self.send_map_request(now);
        while let Some(index) = self.connections.next_dirty() {
            self.transmit(now, index);
            if !self.connections.has_dirty() && !self.ended.is_empty() {
                // Operations that could not be sent have ended, and composite operations may continue because of that.
                self.run_together(now);
            }
        }
        effects.append(&mut self.effects);
        self.end_step();
    }

    /// When the next turn is due if no event occurs before. The turn may find nothing to do.
    #[must_use]
    pub fn next_turn_due(&self) -> Option<Time> {
        self.timers.next()
    }

    /// Ends every operation and closes every connection. Operations that are submitted later end at once.
    pub fn shut_down(&mut self, now: Time) {
        self.closed = true;
        let all: Vec<Handle> = self.operations.iter().map(|(handle, _)| handle).collect();
        for handle in all {
            self.end_unanswered(now, handle, |_| SessionError::Closed, || AttemptFailure::Overdue);
        }
        for index in self.connections.indexes() {
            self.drop_connection(now, index);
        }
        self.mapping.needed = false;
        self.close_together(now);
    }

    /// The map by which the session routes; empty until the first map has arrived.
    #[must_use]
    pub fn map(&self) -> &Arc<ClusterMap> {
        &self.map
    }

    /// Number of operations that have not ended, including the parts of composite operations.
    #[must_use]
    pub fn outstanding(&self) -> usize {
        self.operations.len() + self.together.len()
    }

    /// Counts of the reads of several records so far.
    #[must_use]
    pub fn reads(&self) -> ReadCounts {
        self.reads
    }

    /// Returns a send buffer to the session for reuse.
    pub fn recycle(&mut self, buffer: Vec<u8>) {
        self.connections.recycle(buffer);
    }

    fn admit(&self, request: &SessionRequest) -> Result<(), SessionError> {
        let limit = self.settings.operations_max;
        if self.closed {
            return Err(SessionError::Closed);
        }
        if self.operations.len() >= limit {
            return Err(SessionError::TooManyOperations { limit });
        }
        let limit = self.settings.operation_bytes_max;
        // A single operation always fits; otherwise a value above a low limit could never be written.
        if self.operation_bytes > 0 && self.operation_bytes + request.bytes() > limit {
            return Err(SessionError::TooManyBytes { limit });
        }
        Ok(())
    }

    fn operation_is_due(&mut self, now: Time, index: u32) {
        let Some(handle) = self.operations.at(index) else { return };
        let Some(operation) = self.operations.get(handle) else { return };
        if now >= operation.deadline {
            return self.expire(now, handle);
        }
        match operation.state {
            OperationState::Flying { flight, due, .. } if now >= due => {
                self.mark_overdue(now, flight);
                // Not if the connection was closed for it, because that has already sent the operation again.
                self.operation_lost(now, flight, handle, &AttemptFailure::Overdue);
            }
            OperationState::Flying { flight, due, look } if now >= look => {
                match self.has_another_owner(handle) {
                    true => {
                        self.mark_overdue(now, flight);
                        self.operation_lost(now, flight, handle, &AttemptFailure::Overdue);
                    }
                    // The server may be alive but cut off from the nodes that have replaced it.
                    false => {
                        self.request_map_soon(now);
                        if let Some(operation) = self.operations.get_mut(handle) {
                            let look = now.after_us(SILENT_US);
                            operation.state = OperationState::Flying { flight, due, look };
                        }
                    }
                }
            }
            OperationState::Resting { until } if now >= until => self.dispatch(now, handle),
            _ => {}
        }
        if let Some(operation) = self.operations.get(handle) {
            self.timers.arm(Subject::Operation(index), operation.due());
        }
    }

    /// Whether the partition of an operation has a newer group than when the operation was sent.
    fn has_another_owner(&self, handle: Handle) -> bool {
        let Some(operation) = self.operations.get(handle) else { return false };
        let (keyspace, partition) = (operation.keyspace(), operation.partition);
        self.map
            .keyspace(keyspace)
            .zip(partition)
            .and_then(|(found, partition)| found.group(partition))
            .is_some_and(|group| group.epoch > operation.epoch)
    }

    fn expire(&mut self, now: Time, handle: Handle) {
        let Some(operation) = self.operations.get(handle) else { return };
        let waiting = self.waiting(operation);
        let lost = self.lost_partition(operation);
        let waited_us = now.since_us(operation.submitted);
        if let OperationState::Flying { flight, .. } = operation.state {
            self.mark_overdue(now, flight);
        }
        let behind = self.wait_cause(&waiting);
        let clean = |last: Option<Box<AttemptFailure>>| {
            if let Some(partition) = lost {
                return SessionError::PartitionLost { partition, waited_us };
            }
            let last = last.or_else(|| behind.map(Box::new));
            SessionError::Deadline { waited_us, waiting, last }
        };
        self.end_unanswered(now, handle, clean, || AttemptFailure::Overdue);
    }

    /// The partition of an operation, if no replica will serve it according to the map.
    fn lost_partition(&self, operation: &OpenOperation<T>) -> Option<PartitionId> {
        let partition = operation.partition?;
        let group = self.map.keyspace(operation.keyspace())?.group(partition)?;
        self.map.is_unavailable(group).then_some(partition)
    }

    /// The cause why a wait lasts, if the session has seen one.
    fn wait_cause(&self, waiting: &WaitReason) -> Option<AttemptFailure> {
        match waiting {
            WaitReason::Map => self.mapping.last.clone(),
            WaitReason::Connection { address } => {
                let index = self.connections.at_address(address)?;
                self.connections.get(index)?.last.clone()
            }
            _ => None,
        }
    }

    /// Ends an operation without a server's answer: with `clean` if it cannot have been done.
    fn end_unanswered(
        &mut self,
        now: Time,
        handle: Handle,
        clean: impl FnOnce(Option<Box<AttemptFailure>>) -> SessionError,
        trouble: impl FnOnce() -> AttemptFailure,
    ) {
        let Some(operation) = self.operations.get_mut(handle) else { return };
        let last = operation.last.take();
        let sent = operation.may_be_executed || matches!(operation.state, OperationState::Flying { .. });
        let error = match sent && operation.changes() && !is_planted(Bug::DoubtDenied) {
            true => SessionError::Unknown { why: last.unwrap_or_else(|| Box::new(trouble())) },
            false => clean(last),
        };
        self.finish(now, handle, Err(error), None);
    }

    /// Ends an operation. `answered`: when the frame was sent whose answer ends it.
    fn finish(
        &mut self,
        now: Time,
        handle: Handle,
        result: Result<Reply, SessionError>,
        answered: Option<Time>,
    ) {
        let Some(operation) = self.operations.remove(handle) else { return };
        let OpenOperation { owner, request: ask, stamp, partition, .. } = operation;
        let request = SessionRequest { operation: ask, limit_us: 0, collecting: Default::default() };
        self.operation_bytes -= request.bytes();
        match owner {
            CompletionTarget::Caller(token) => self.effects.push(SessionEffect::Complete { token, result }),
            CompletionTarget::Together { procedure, slot } => {
                // The lock counts from the time of the request, by this clock: the server read the record later, so its lock lasts longer.
                let held_us = u64::from(self.read_lock_us) * READ_LOCK_USABLE_NINTHS / 9;
                let held_until = answered.filter(|_| held_us > 0).map(|sent| sent.after_us(held_us));
                self.ended.push_back(EndedOperation {
                    procedure,
                    slot,
                    result,
                    read_locked_until: held_until,
                });
            }
        }
        if let (Some(stamp), Some(partition)) = (stamp, partition) {
            let place = (request.operation.keyspace(), partition);
            if self.numbering.close(place, stamp, answered) {
                let operations = &self.operations;
                let waits = |handle: Handle| {
                    operations.get(handle).is_some_and(|found| found.state == OperationState::WindowFull)
                };
                let admitted = self.numbering.admitted(place, waits);
                self.dispatch_all(now, admitted);
            }
        }
    }

    fn waiting(&self, operation: &OpenOperation<T>) -> WaitReason {
        let address = |index: u32| self.connections.get(index).map(|one| one.address.clone());
        match operation.state {
            OperationState::Unrouted => WaitReason::Map,
            OperationState::Queued { connection } => match self.connections.get(connection) {
                Some(found) if found.is_ready() => WaitReason::FreeFrame { address: found.address.clone() },
                Some(found) => WaitReason::Connection { address: found.address.clone() },
                None => WaitReason::Map,
            },
            OperationState::Starved => WaitReason::FreeConnection,
            OperationState::AwaitingSession => WaitReason::Session,
            OperationState::WindowFull => WaitReason::Window,
            OperationState::Flying { flight, .. } => {
                let address =
                    self.connections.frames.get(flight).and_then(|flight| address(flight.connection));
                address.map_or(WaitReason::Pause, |address| WaitReason::Answer { address })
            }
            OperationState::Resting { .. } => WaitReason::Pause,
        }
    }

    /// Whether an operation in a queue of this connection still waits there.
    fn waits_at(&self, handle: Handle, connection: u32) -> bool {
        self.operations
            .get(handle)
            .is_some_and(|operation| operation.state == OperationState::Queued { connection })
    }

    fn record_version(&mut self, version: Timestamp) {
        self.seen = self.seen.max(version);
    }
}
