//! The table of connections, with the frames in flight on them, and the output that waits for the end of the turn.
//!
//! The table knows no operations: its queues and frames name them by handles. What happens to the operations of a connection that opens, ends or
//! is lost is decided by the session.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use zerohop_base::invariant::{BrokenInvariant, check_rules};
use zerohop_wire::ids::{InstanceId, RequestId};
use zerohop_wire::messages::Message;
use zerohop_wire::{Encoder, Envelope, Failure};

use super::check::SESSION;
use crate::coalescing::Collect;
use crate::connection::{Connection, ConnectionId, ConnectionPhase};
use crate::error::AttemptFailure;
use crate::in_flight_frame::{FrameContents, InFlightFrame, request_id};
use crate::limits::{FRAMES_IN_FLIGHT_MAX, POOLED_BUFFER_BYTES_MAX, POOLED_BUFFERS_MAX};
use crate::settings::SessionSettings;
use crate::slots::{Handle, Slots};
use crate::timers::{Subject, Timers};
use zerohop_base::time::Time;

/// The connections of a session.
#[derive(Debug)]
pub(super) struct ConnectionTable {
    limits: ConnectionLimits,
    places: Vec<Option<Connection>>,
    free: Vec<u32>,
    by_address: BTreeMap<Arc<str>, u32>,
    /// Valid for the current map only.
    by_instance: BTreeMap<InstanceId, u32>,
    /// The serial number of the latest opening.
    serial: u32,
    /// Connections with something to send, or with room to send it.
    dirty: Vec<u32>,
    pub(super) frames: Slots<InFlightFrame>,
    /// Send buffers for reuse.
    spare_buffers: Vec<Vec<u8>>,
}

/// The settings that concern connections; [`SessionSettings`] describes them.
#[derive(Clone, Copy, Debug)]
struct ConnectionLimits {
    connect_us: u64,
    quiet_us: u64,
    connections_max: usize,
    window_frames: u32,
}

/// Whether there is room for one more connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConnectionRoom {
    Free,
    /// Once the connection at this position, which is idle, is dropped.
    AfterDrop(u32),
    /// A connection drains, or all of them are needed.
    Full,
}

/// The state of a connection that the turn visits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConnectionVisit {
    /// It has been removed.
    Gone,
    /// It is drained, so that another connection can use its place.
    Drained,
    Open,
}

/// What a connection was before it was lost.
#[derive(Clone, Copy, Debug)]
pub(super) struct LostConnection {
    pub(super) was_ready: bool,
    pub(super) was_for_map: bool,
}

impl ConnectionTable {
    pub(super) fn new(settings: &SessionSettings) -> Self {
        let SessionSettings { connect_us, quiet_us, connections_max, window_frames, .. } = *settings;
        Self {
            limits: ConnectionLimits { connect_us, quiet_us, connections_max, window_frames },
            places: Vec::new(),
            free: Vec::new(),
            by_address: BTreeMap::new(),
            by_instance: BTreeMap::new(),
            serial: 0,
            dirty: Vec::new(),
            frames: Slots::new(),
            spare_buffers: Vec::new(),
        }
    }

    /// The positions of all connections, in order.
    pub(super) fn indexes(&self) -> Vec<u32> {
        self.places.iter().zip(0u32..).filter_map(|(found, index)| found.as_ref().map(|_| index)).collect()
    }

    #[inline]
    pub(super) fn get(&self, index: u32) -> Option<&Connection> {
        self.places[index as usize].as_ref()
    }

    #[inline]
    pub(super) fn get_mut(&mut self, index: u32) -> Option<&mut Connection> {
        self.places[index as usize].as_mut()
    }

    /// # Panics
    /// If there is no connection at this position.
    #[inline]
    pub(super) fn existing(&mut self, index: u32) -> &mut Connection {
        self.get_mut(index).expect("only connections that are there are named")
    }

    /// The address of the server of the connection at this position.
    pub(super) fn address(&mut self, index: u32) -> Arc<str> {
        Arc::clone(&self.existing(index).address)
    }

    /// Whether operations wait for a server that has not accepted the client yet, or no longer.
    pub(super) fn is_server_awaited(&self) -> bool {
        self.places
            .iter()
            .flatten()
            .any(|one| !one.is_ready() && (!one.queue.is_empty() || !one.collected.is_empty()))
    }

    /// The position of a connection with this id that is open or being opened.
    pub(super) fn live(&self, id: ConnectionId) -> Option<u32> {
        let connection = self.places.get(id.index as usize)?.as_ref()?;
        let open = !matches!(connection.phase, ConnectionPhase::BackingOff { .. });
        (open && connection.serial == id.serial).then_some(id.index)
    }

    /// The position of the connection to this address.
    pub(super) fn at_address(&self, address: &str) -> Option<u32> {
        self.by_address.get(address).copied()
    }

    /// Whether the server at this address has completed the greeting, so that requests can be sent at once.
    pub(super) fn is_ready_at(&self, address: &str) -> bool {
        let found = self.at_address(address).and_then(|index| self.get(index));
        found.is_some_and(Connection::is_ready)
    }

    /// The connection on which requests to this instance are sent.
    pub(super) fn serving(&self, instance: InstanceId) -> Option<u32> {
        self.by_instance.get(&instance).copied()
    }

    pub(super) fn record_serving(&mut self, instance: InstanceId, index: u32) {
        self.by_instance.insert(instance, index);
    }

    /// Forgets which connections serve which instances, because the map has changed.
    pub(super) fn forget_instances(&mut self) {
        self.by_instance.clear();
    }

    /// The `turn`th of the connections that accept requests, counted around.
    pub(super) fn ready(&self, turn: usize) -> Option<u32> {
        let ready = || {
            let found = self.places.iter().zip(0u32..);
            found.filter_map(|(found, index)| found.as_ref().filter(|one| one.is_ready()).map(|_| index))
        };
        let count = ready().count();
        ready().nth(turn.checked_rem(count)?)
    }

    /// Whether there is room for one more connection. If necessary, the connection that has been idle for longest must be dropped. If all are in
    /// use, the least recently used one begins to drain.
    pub(super) fn make_room(&mut self) -> ConnectionRoom {
        if self.has_room() {
            return ConnectionRoom::Free;
        }
        if self.places.iter().flatten().any(|connection| connection.draining) {
            return ConnectionRoom::Full;
        }
        let found =
            self.places.iter().zip(0u32..).filter_map(|(found, index)| Some((found.as_ref()?, index)));
        let oldest = found
            .filter(|(connection, _)| !connection.for_map)
            .min_by_key(|(one, index)| {
                (!one.is_idle(), one.phase != ConnectionPhase::Ready, one.used, *index)
            })
            .map(|(connection, index)| (connection.is_idle(), index));
        match oldest {
            Some((true, index)) => ConnectionRoom::AfterDrop(index),
            Some((false, index)) => {
                self.existing(index).draining = true;
                // Later operations find it only by its address, where they wait.
                self.by_instance.retain(|_, place| *place != index);
                ConnectionRoom::Full
            }
            None => ConnectionRoom::Full,
        }
    }

    /// Whether the session may have another connection.
    pub(super) fn has_room(&self) -> bool {
        self.by_address.len() < self.limits.connections_max
    }

    /// Adds a connection to this address, which is not open yet.
    pub(super) fn add(&mut self, now: Time, address: &str) -> u32 {
        let address: Arc<str> = address.into();
        let connection = Connection::new(Arc::clone(&address), now);
        let index = match self.free.pop() {
            Some(index) => {
                self.places[index as usize] = Some(connection);
                index
            }
            None => {
                self.places.push(Some(connection));
                // The limit is `connections_max`.
                (self.places.len() - 1) as u32
            }
        };
        self.by_address.insert(address, index);
        index
    }

    /// Removes a connection without frames in flight.
    pub(super) fn remove(&mut self, index: u32) {
        let Some(connection) = self.places[index as usize].take() else { return };
        self.free.push(index);
        self.by_address.remove(&connection.address);
        self.by_instance.retain(|_, place| *place != index);
    }

    /// Begins the next opening of a connection. Returns its id, and the address to which the shell connects.
    pub(super) fn open(&mut self, now: Time, index: u32, timers: &mut Timers) -> (ConnectionId, Arc<str>) {
        self.serial = self.serial.wrapping_add(1);
        let (serial, due) = (self.serial, now.after_us(self.limits.connect_us));
        let connection = self.existing(index);
        connection.serial = serial;
        connection.phase = ConnectionPhase::Connecting { due };
        timers.arm(Subject::Connection(index), due);
        (ConnectionId { index, serial }, Arc::clone(&connection.address))
    }

    /// Records that the shell has opened the connection: the greeting begins.
    pub(super) fn greet(&mut self, now: Time, index: u32, timers: &mut Timers) {
        let due = now.after_us(self.limits.connect_us);
        self.existing(index).phase = ConnectionPhase::Greeting { due };
        timers.arm(Subject::Connection(index), due);
    }

    /// Drops the output of a connection. Returns its id if it is open, so that the shell must close it.
    pub(super) fn close(&mut self, index: u32) -> Option<ConnectionId> {
        let connection = self.existing(index);
        if matches!(connection.phase, ConnectionPhase::BackingOff { .. }) {
            return None;
        }
        // Output for this opening must not be sent in the next one.
        connection.out.clear();
        connection.open = None;
        Some(ConnectionId { index, serial: connection.serial })
    }

    /// Lets a lost connection rest, for a time that `pause` computes from its number of failures.
    pub(super) fn begin_pause(
        &mut self,
        now: Time,
        index: u32,
        trouble: &AttemptFailure,
        pause_us: impl FnOnce(u32) -> u64,
        timers: &mut Timers,
    ) -> Option<LostConnection> {
        let connection = self.get_mut(index)?;
        let was_ready = connection.phase == ConnectionPhase::Ready;
        connection.failures = connection.failures.saturating_add(1);
        let until = now.after_us(pause_us(connection.failures));
        connection.phase = ConnectionPhase::BackingOff { until };
        connection.protocol.reset();
        connection.out.clear();
        connection.open = None;
        connection.last = Some(trouble.clone());
        let was_for_map = std::mem::take(&mut connection.for_map);
        timers.arm(Subject::Connection(index), until);
        Some(LostConnection { was_ready, was_for_map })
    }

    /// Sets the timer of a connection to when the session must visit it next.
    pub(super) fn arm(&self, index: u32, timers: &mut Timers) {
        if let Some(connection) = self.get(index) {
            timers.arm(Subject::Connection(index), connection.due(self.limits.quiet_us));
        }
    }

    /// Has the turn visit a connection.
    pub(super) fn mark_dirty(&mut self, index: u32) {
        let Some(connection) = self.places[index as usize].as_mut() else { return };
        if !std::mem::replace(&mut connection.dirty, true) {
            self.dirty.push(index);
        }
    }

    /// Removes and returns the position of a connection that the turn must visit.
    pub(super) fn next_dirty(&mut self) -> Option<u32> {
        self.dirty.pop()
    }

    /// Begins the visit of a connection that was marked.
    pub(super) fn visit(&mut self, index: u32) -> ConnectionVisit {
        let Some(connection) = self.get_mut(index) else { return ConnectionVisit::Gone };
        connection.dirty = false;
        match connection.draining && connection.is_idle() {
            true => ConnectionVisit::Drained,
            false => ConnectionVisit::Open,
        }
    }

    pub(super) fn has_dirty(&self) -> bool {
        !self.dirty.is_empty()
    }

    /// Adds an operation of so many bytes to the queue of a connection, or to the operations that it collects. Returns how many there were before.
    pub(super) fn enqueue(
        &mut self,
        now: Time,
        index: u32,
        (handle, bytes): (Handle, usize),
        collect: Option<Collect>,
        timers: &mut Timers,
    ) -> usize {
        let Some(connection) = self.get_mut(index) else { return 0 };
        connection.used = now;
        let length = connection.queue.len() + connection.collected.len();
        match collect {
            None => connection.queue.push_back(handle),
            Some(collect) => {
                if let Some(due) = connection.collected.push(now, handle, bytes, collect) {
                    timers.arm(Subject::Connection(index), due);
                }
            }
        }
        self.mark_dirty(index);
        length
    }

    /// Removes the operations from the queues of a connection that no longer wait there.
    pub(super) fn retain_waiting(&mut self, index: u32, waits: impl Fn(&Handle) -> bool) {
        if let Some(connection) = self.get_mut(index) {
            connection.queue.retain(&waits);
            connection.collected.retain(&waits);
        }
    }

    /// Registers a frame that is about to be written.
    pub(super) fn register_frame(
        &mut self,
        now: Time,
        index: u32,
        contents: FrameContents,
        timers: &mut Timers,
    ) -> Handle {
        let quiet_us = self.limits.quiet_us;
        let connection = self.existing(index);
        connection.unanswered.add(now);
        timers.arm(Subject::Connection(index), connection.due(quiet_us));
        self.frames.insert(InFlightFrame { connection: index, sent: now, contents, overdue: false })
    }

    /// Removes a frame from the frames in flight: it was answered, or lost with its connection.
    pub(super) fn take_frame(&mut self, handle: Handle) -> Option<InFlightFrame> {
        let in_flight = self.frames.remove(handle)?;
        let index = in_flight.connection;
        let connection = self.existing(index);
        connection.unanswered.remove(in_flight.overdue);
        if !connection.queue.is_empty() || !connection.collected.is_empty() || connection.draining {
            self.mark_dirty(index);
        }
        Some(in_flight)
    }

    /// Removes the request that an answer names, if it is still in flight on this connection: a frame, or a request in a coalesced frame.
    pub(super) fn take_request_frame(
        &mut self,
        index: u32,
        request: RequestId,
    ) -> Option<(Handle, InFlightFrame)> {
        let (handle, place) = Handle::unpack(request.0);
        let in_flight = self.frames.get_mut(handle).filter(|in_flight| in_flight.connection == index)?;
        if place == 0 {
            return Some((handle, self.take_frame(handle)?));
        }
        let sent = in_flight.sent;
        let FrameContents::Coalesced(gather) = &mut in_flight.contents else { return None };
        let request =
            InFlightFrame { connection: index, sent, contents: gather.take(place)?, overdue: false };
        if gather.is_answered() {
            self.take_frame(handle);
        }
        Some((handle, request))
    }

    /// The frames in flight on this connection.
    pub(super) fn frames_on(&self, index: u32) -> Vec<Handle> {
        let batch_handles =
            |(handle, in_flight): (Handle, &InFlightFrame)| (in_flight.connection == index).then_some(handle);
        self.frames.iter().filter_map(batch_handles).collect()
    }

    /// Records that no operation waits for this frame's answer any more. Returns the position of its connection if that now has too many such
    /// frames.
    pub(super) fn mark_overdue(&mut self, handle: Handle) -> Option<u32> {
        let in_flight = self.frames.get_mut(handle)?;
        if std::mem::replace(&mut in_flight.overdue, true) {
            return None;
        }
        let index = in_flight.connection;
        let window = self.limits.window_frames;
        let connection = self.existing(index);
        connection.unanswered.add_overdue();
        (connection.unanswered.overdue() > window / 2).then_some(index)
    }

    /// Whether a connection has room for another request.
    pub(super) fn may_send_more(&self, index: u32) -> bool {
        let Some(connection) = self.get(index) else { return false };
        let another = connection.unanswered.count() < self.limits.window_frames
            && self.frames.len() < FRAMES_IN_FLIGHT_MAX;
        another || self.has_room_in_open(connection)
    }

    /// Whether the server of this connection has agreed to read locks.
    pub(super) fn supports_read_locks(&self, index: u32) -> bool {
        self.get(index).is_some_and(|one| one.protocol.supports_read_locks)
    }

    /// Sends a request of the session itself on a connection, ahead of the operations in its queue.
    pub(super) fn send_own(
        &mut self,
        now: Time,
        index: u32,
        message: &Message<'_>,
        contents: FrameContents,
        timers: &mut Timers,
    ) -> Handle {
        let in_flight = self.register_frame(now, index, contents, timers);
        let envelope = Envelope { request: request_id(in_flight, 0), ..Envelope::default() };
        self.write(index, &envelope, message).expect("the session's own requests keep every bound");
        self.mark_dirty(index);
        in_flight
    }

    /// Adds a frame to the connection's output of this turn. Errors: a limit is exceeded, and nothing was added.
    pub(super) fn write(
        &mut self,
        index: u32,
        envelope: &Envelope,
        message: &Message<'_>,
    ) -> Result<(), Failure<'static>> {
        let (out, encoder) = self.buffer(index);
        encoder.encode(envelope, message, out)
    }

    /// The buffer for the next frame of a connection, after the complete frames.
    pub(super) fn buffer(&mut self, index: u32) -> (&mut Vec<u8>, Encoder) {
        self.end_open(index);
        let connection = self.places[index as usize].as_mut().expect("only what is there is written to");
        if connection.out.capacity() == 0
            && let Some(buffer) = self.spare_buffers.pop()
        {
            connection.out = buffer;
        }
        (&mut connection.out, connection.protocol.encoder)
    }

    /// Removes and returns the complete frames of a connection, unless neither they nor `tail` have bytes.
    pub(super) fn take_output(&mut self, index: u32, tail: &Bytes) -> Option<(ConnectionId, Vec<u8>)> {
        self.end_open(index);
        let connection = self.get_mut(index)?;
        if connection.out.is_empty() && tail.is_empty() {
            return None;
        }
        let head = std::mem::take(&mut connection.out);
        Some((ConnectionId { index, serial: connection.serial }, head))
    }

    /// Accepts a send buffer for reuse.
    pub(super) fn recycle(&mut self, mut buffer: Vec<u8>) {
        if self.spare_buffers.len() < POOLED_BUFFERS_MAX && buffer.capacity() <= POOLED_BUFFER_BYTES_MAX {
            buffer.clear();
            self.spare_buffers.push(buffer);
        }
    }

    /// Checks what costs the same for every table.
    ///
    /// # Errors
    /// The broken invariant.
    pub(super) fn check(&self) -> Result<(), BrokenInvariant> {
        let places = self.by_address.len() + self.free.len();
        check_rules(
            SESSION,
            [
                (self.places.len() == places, "each place of a connection has an address or is free"),
                (self.dirty.is_empty(), "a turn visits each connection that has something to send"),
            ],
        )
    }

    /// Checks all connections and frames.
    ///
    /// # Errors
    /// The broken invariant.
    pub(super) fn check_all(&self) -> Result<(), BrokenInvariant> {
        self.check()?;
        let mut frames: BTreeMap<u32, (u32, u32)> = BTreeMap::new();
        for (_, in_flight) in self.frames.iter() {
            let (all, overdue) = frames.entry(in_flight.connection).or_default();
            (*all, *overdue) = (*all + 1, *overdue + u32::from(in_flight.overdue));
        }
        let counts_frames = self.places.iter().zip(0..).all(|(connection, index)| {
            let counted =
                connection.as_ref().map_or((0, 0), |one| (one.unanswered.count(), one.unanswered.overdue()));
            counted == frames.get(&index).copied().unwrap_or_default()
        });
        check_rules(SESSION, [(counts_frames, "each connection counts its frames in flight")])
    }
}

#[cfg(test)]
mod tests {
    use zerohop_placement::Address;

    use super::*;

    /// The rules that are broken after this change to a table of one connection with one frame: of the check of every turn, and of all.
    fn broken_by(change: impl FnOnce(&mut ConnectionTable)) -> (Option<&'static str>, Option<&'static str>) {
        let endpoint = Address::new("127.0.0.1:7400").expect("is an address");
        let mut table = ConnectionTable::new(&SessionSettings::new(&[endpoint], 1));
        let index = table.add(Time(1), "127.0.0.1:7400");
        table.register_frame(Time(1), index, FrameContents::Ping, &mut Timers::new());
        assert_eq!(table.check_all(), Ok(()));
        change(&mut table);
        let rule = |checked: Result<(), BrokenInvariant>| checked.err().map(|broken| broken.rule);
        (rule(table.check()), rule(table.check_all()))
    }

    #[test]
    fn each_invariant_of_connections_is_named() {
        let both = |rule| (Some(rule), Some(rule));
        let found = broken_by(|table| table.by_address.clear());
        assert_eq!(found, both("each place of a connection has an address or is free"));
        let found = broken_by(|table| table.mark_dirty(0));
        assert_eq!(found, both("a turn visits each connection that has something to send"));
        let miscounted = (None, Some("each connection counts its frames in flight"));
        assert_eq!(broken_by(|table| table.existing(0).unanswered.add(Time(1))), miscounted);
        assert_eq!(broken_by(|table| table.existing(0).unanswered.add_overdue()), miscounted);
    }
}
