//! The session itself: its state, and its events.
//!
//! Each event only changes the state of operations. [`Session::step`] then handles what is due, packs and encodes what can be sent, and returns the
//! effects. A shell that passes in all pending events before it calls `turn` therefore makes one write per connection, however many operations it
//! carries.
//!
//! ```text
//! Session            what concerns several parts        the parts, each with its fields, methods and invariants:
//! mod        submit, step, ends of operations           operation_table    operations, their bytes and waiting lists
//! dispatch   operations to connections; losses          composite          composite operations and their results
//! receive    what connections report; answers           mapping            the map and the requests for it
//!                                                       connection_table   connections, frames in flight, output
//! transmit   queues to frames: borrows parts            numbering          windows and sessions of writes
//! answers    what an answer means for its operation     check              invariants between parts
//! ```

mod answers;
mod check;
mod coalesced_frame;
mod composite;
mod connection_table;
mod dispatch;
mod mapping;
mod numbering;
mod operation_table;
mod receive;
mod transmit;

use std::sync::Arc;

use zerohop_placement::ClusterMap;
use zerohop_wire::ids::Timestamp;
use zerohop_wire::messages::ClusterId;

use crate::backoff::Jitter;
use crate::buffer_pool::FramePool;
use crate::coalescing::Coalescing;
use crate::effect::SessionEffect;
use crate::error::{AttemptFailure, SessionError, WaitReason};
use crate::limits::{RELEASE_US_MIN, SILENT_US, WAIT_GRACE_US};
use crate::operation::{CompletionTarget, OpenOperation, OperationState};
use crate::planted::{Bug, is_planted};
use crate::reply::Reply;
use crate::request::{RequestedOperation, SessionRequest};
use crate::request_kind::RequestKind;
use crate::settings::SessionSettings;
use crate::slots::Handle;
use crate::timers::{Subject, Timers};
use crate::transaction::{Composite, CompositeStep, ItemRequest, ReadCounts};
use zerohop_base::invariant::CheckTurn;
use zerohop_base::time::Time;

use composite::{AnsweredFrame, CompositeStart, CompositeTable};
use connection_table::ConnectionTable;
use mapping::Mapping;
use numbering::WriteNumbering;
use operation_table::OperationTable;

/// The client's half of the protocol. `T` is submitted with an operation and returned with its completion.
#[derive(Debug)]
pub struct Session<T> {
    settings: SessionSettings,
    mapping: Mapping,
    cluster: ClusterId,
    /// The highest timestamp seen so far; every request carries it.
    seen: Timestamp,

    operations: OperationTable<T>,
    composites: CompositeTable<T>,
    connections: ConnectionTable,
    numbering: WriteNumbering,

    buffers: SessionBuffers,
    timers: Timers,
    jitter: Jitter,
    effects: Vec<SessionEffect<T>>,
    closed: bool,
    check_turn: CheckTurn,
}

/// Buffers that the session uses again.
#[derive(Debug, Default)]
struct SessionBuffers {
    /// Large frames that were received.
    frames: FramePool,
    /// The buffer in which batches are encoded.
    packed: Vec<u8>,
    /// The buffer into which compressed bodies are expanded.
    scratch: Vec<u8>,
}

impl<T> Session<T> {
    /// Creates a session that knows only its endpoints; it requests the map in the first turn.
    #[must_use]
    pub fn new(settings: SessionSettings) -> Self {
        let settings = settings.bounded();
        Self {
            connections: ConnectionTable::new(&settings),
            operations: OperationTable::new(&settings),
            composites: CompositeTable::new(),
            jitter: Jitter::new(settings.jitter_seed),
            settings,
            mapping: Mapping::new(),
            cluster: ClusterId::default(),
            seen: Timestamp::ZERO,
            numbering: WriteNumbering::default(),
            buffers: SessionBuffers::default(),
            timers: Timers::new(),
            effects: Vec::new(),
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
        let SessionRequest { operation, limit_us, collecting } = request;
        match operation {
            RequestedOperation::Composite(composite) => {
                self.begin_composite(now, *composite, limit_us, token);
            }
            RequestedOperation::Single(query) => self.accept_operation(
                now,
                (query, collecting, false),
                limit_us,
                CompletionTarget::Caller(token),
            ),
        }
    }

    /// Accepts an operation for which there is room.
    fn accept_operation(
        &mut self,
        now: Time,
        (query, collecting, wants_read_lock): (RequestKind, Coalescing, bool),
        limit_us: u64,
        owner: CompletionTarget<T>,
    ) {
        let grace_us =
            if matches!(query, RequestKind::Record { wait: true, .. }) { WAIT_GRACE_US } else { 0 };
        let deadline = now.after_us(limit_us).after_us(grace_us);
        let operation = OpenOperation {
            owner,
            request: query,
            collecting,
            wants_read_lock,
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
        };
        let handle = self.operations.insert(operation, &mut self.timers);
        self.dispatch(now, handle);
    }

    /// Handles what is due, sends what can be sent, and adds all effects since the last turn to `effects`.
    pub fn step(&mut self, now: Time, effects: &mut Vec<SessionEffect<T>>) {
        while let Some(subject) = self.timers.pop(now) {
            match subject {
                Subject::Operation(index) => self.operation_is_due(now, index),
                Subject::Connection(index) => self.connection_is_due(now, index),
                Subject::Composite(index) => self.composite_is_due(now, index),
                Subject::Maintenance => self.opening_is_due(now),
            }
        }
        self.run_composites(now);
        self.send_map_request(now);
        while let Some(index) = self.connections.next_dirty() {
            self.transmit(now, index);
            if !self.connections.has_dirty() && self.composites.has_results() {
                // Operations that could not be sent have ended, and composite operations may continue because of that.
                self.run_composites(now);
            }
        }
        effects.append(&mut self.effects);
        check::check_turn(self);
    }

    /// When the next turn is due if no event occurs before. The turn may find nothing to do.
    #[must_use]
    pub fn next_turn_due(&self) -> Option<Time> {
        self.timers.next()
    }

    /// Ends every operation and closes every connection. Operations that are submitted later end at once.
    pub fn shut_down(&mut self, now: Time) {
        self.closed = true;
        self.mapping.close();
        let all: Vec<Handle> = self.operations.iter().map(|(handle, _)| handle).collect();
        for handle in all {
            self.end_unanswered(now, handle, |_| SessionError::Closed, || AttemptFailure::Overdue);
        }
        for index in self.connections.indexes() {
            self.drop_connection(now, index);
        }
        self.run_composites(now);
        let composites = self.composites.handles();
        composites.into_iter().for_each(|handle| self.end_composite(now, handle, Err(SessionError::Closed)));
    }

    /// The map by which the session routes; empty until the first map has arrived.
    #[must_use]
    pub fn map(&self) -> &Arc<ClusterMap> {
        self.mapping.map()
    }

    /// Number of operations that have not ended, including the parts of composite operations.
    #[must_use]
    pub fn outstanding(&self) -> usize {
        self.operations.len() + self.composites.len()
    }

    /// Counts of the reads of several records so far.
    #[must_use]
    pub fn reads(&self) -> ReadCounts {
        self.composites.reads()
    }

    /// Returns a send buffer to the session for reuse.
    pub fn recycle(&mut self, buffer: Vec<u8>) {
        self.connections.recycle(buffer);
    }

    fn admit(&self, request: &SessionRequest) -> Result<(), SessionError> {
        match self.closed {
            true => Err(SessionError::Closed),
            false => self.operations.admit(request.bytes()),
        }
    }

    fn operation_is_due(&mut self, now: Time, index: u32) {
        let Some(handle) = self.operations.at(index) else { return };
        let Some(operation) = self.operations.get(handle) else { return };
        if now >= operation.deadline {
            return self.expire(now, handle);
        }
        match operation.state {
            OperationState::InFlight { in_flight, due, .. } if now >= due => {
                self.mark_overdue(now, in_flight);
                // Not if the connection was closed for it, because that has already sent the operation again.
                self.operation_lost(now, in_flight, handle, &AttemptFailure::Overdue);
            }
            OperationState::InFlight { in_flight, due, look } if now >= look => {
                match self.mapping.has_newer_group(operation) {
                    true => {
                        self.mark_overdue(now, in_flight);
                        self.operation_lost(now, in_flight, handle, &AttemptFailure::Overdue);
                    }
                    // The server may be alive but cut off from the nodes that have replaced it.
                    false => {
                        self.request_map_soon(now);
                        if let Some(operation) = self.operations.get_mut(handle) {
                            let look = now.after_us(SILENT_US);
                            operation.state = OperationState::InFlight { in_flight, due, look };
                        }
                    }
                }
            }
            OperationState::BackingOff { until } if now >= until => self.dispatch(now, handle),
            _ => {}
        }
        if let Some(operation) = self.operations.get(handle) {
            self.timers.arm(Subject::Operation(index), operation.due());
        }
    }

    fn expire(&mut self, now: Time, handle: Handle) {
        let Some(operation) = self.operations.get(handle) else { return };
        let waiting = self.waiting(operation);
        let (lost, place) =
            (self.mapping.lost_partition(operation), self.mapping.place_of_primary(operation));
        let waited_us = now.since_us(operation.submitted);
        if let OperationState::InFlight { in_flight, .. } = operation.state {
            self.mark_overdue(now, in_flight);
        }
        let behind = self.wait_cause(&waiting);
        let clean = |last: Option<Box<AttemptFailure>>| {
            if let Some(partition) = lost {
                return SessionError::PartitionLost { partition, waited_us };
            }
            let last = last.or_else(|| behind.map(Box::new));
            let is_unreached = match &waiting {
                WaitReason::Connection { .. } => true,
                _ => last.as_ref().is_some_and(|last| last.is_unreachable()),
            };
            let unreached = place.filter(|_| is_unreached).map(Box::new);
            SessionError::Deadline { waited_us, waiting, last, unreached }
        };
        self.end_unanswered(now, handle, clean, || AttemptFailure::Overdue);
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
        let sent = operation.may_be_executed || matches!(operation.state, OperationState::InFlight { .. });
        let error = match sent && operation.changes() && !is_planted(Bug::UnknownReportedNotDone) {
            true => SessionError::Unknown { why: last.unwrap_or_else(|| Box::new(trouble())) },
            false => clean(last),
        };
        self.finish(now, handle, Err(error), None);
    }

    /// Ends an operation. `answered`: the frame whose answer ends it.
    fn finish(
        &mut self,
        now: Time,
        handle: Handle,
        result: Result<Reply, SessionError>,
        answered: Option<AnsweredFrame>,
    ) {
        let Some(operation) = self.operations.remove(handle) else { return };
        let OpenOperation { owner, request, stamp, partition, .. } = operation;
        match owner {
            CompletionTarget::Caller(token) => self.effects.push(SessionEffect::Complete { token, result }),
            CompletionTarget::Composite { procedure, slot } => {
                self.composites.add_result(procedure, slot, result, answered);
            }
        }
        if let (Some(stamp), Some(partition)) = (stamp, partition) {
            let place = (request.keyspace(), partition);
            if self.numbering.close(place, stamp, answered.map(|frame| frame.sent)) {
                let operations = &self.operations;
                let waits = |handle| operations.is_in(handle, OperationState::WindowFull);
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
            OperationState::NoFreeConnection => WaitReason::FreeConnection,
            OperationState::AwaitingSession => WaitReason::Session,
            OperationState::WindowFull => WaitReason::Window,
            OperationState::InFlight { in_flight, .. } => {
                let address = self
                    .connections
                    .frames
                    .get(in_flight)
                    .and_then(|in_flight| address(in_flight.connection));
                address.map_or(WaitReason::Pause, |address| WaitReason::Answer { address })
            }
            OperationState::BackingOff { .. } => WaitReason::Pause,
        }
    }

    fn begin_composite(&mut self, now: Time, composite: Composite, limit_us: u64, token: T) {
        self.operations.add_bytes(composite.bytes());
        let handle = self.composites.insert(now, composite, limit_us, token);
        self.start_composite(now, handle);
    }

    /// Passes all results to the composite operations to which they belong, and continues those that waited for the map.
    fn run_composites(&mut self, now: Time) {
        let waiting = self.composites.with_new_map(&self.mapping);
        waiting.into_iter().for_each(|handle| self.start_composite(now, handle));
        self.composites.record_start(&self.mapping);
        while let Some((handle, step)) = self.composites.next_result(now, self.mapping.map()) {
            self.continue_composite(now, handle, step);
        }
    }

    fn composite_is_due(&mut self, now: Time, index: u32) {
        if let Some((handle, error)) = self.composites.expired(now, index, &self.mapping, &mut self.timers) {
            self.end_composite(now, handle, Err(error));
        }
    }

    fn start_composite(&mut self, now: Time, handle: Handle) {
        let Some(CompositeStart { step, since }) = self.composites.start(handle, &self.mapping) else {
            return;
        };
        self.continue_composite(now, handle, step);
        if let Some(since) = since {
            self.composites.wait_on(handle, since);
        }
    }

    /// Does what a composite operation requests.
    fn continue_composite(&mut self, now: Time, handle: Handle, step: CompositeStep) {
        match step {
            CompositeStep::Wait => {}
            CompositeStep::AwaitMap => {
                self.composites.await_map(now, handle, &mut self.timers);
                self.request_map_soon(now);
            }
            CompositeStep::End(result) => {
                if result.is_ok() {
                    self.composites.count_read(handle);
                }
                self.end_composite(now, handle, result);
            }
            CompositeStep::Send(sendings) => {
                let admitted = match self.closed {
                    true => Err(SessionError::Closed),
                    false => self.operations.admit_parts(sendings.len()),
                };
                if let Err(error) = admitted {
                    return self.end_composite(now, handle, Err(error));
                }
                let limit_us = self.composites.remaining_us(now, handle);
                self.accept_parts(now, handle, limit_us, sendings);
            }
        }
    }

    fn accept_parts(&mut self, now: Time, handle: Handle, limit_us: u64, sendings: Vec<ItemRequest>) {
        for sending in sendings {
            let owner = CompletionTarget::Composite { procedure: handle, slot: sending.slot };
            self.accept_operation(
                now,
                (sending.operation, sending.collecting, sending.wants_read_lock),
                limit_us,
                owner,
            );
        }
    }

    fn end_composite(&mut self, now: Time, handle: Handle, result: Result<Reply, SessionError>) {
        let releases = self.composites.releases(handle, &result);
        if !self.closed && self.operations.admit_parts(releases.len()).is_ok() {
            // Nothing waits for them: what stays staged expires.
            let limit_us = self.composites.remaining_us(now, handle).max(RELEASE_US_MIN);
            self.accept_parts(now, handle, limit_us, releases);
        }
        let Some((token, bytes)) = self.composites.remove(handle) else { return };
        self.operations.remove_bytes(bytes);
        self.effects.push(SessionEffect::Complete { token, result });
    }
}
