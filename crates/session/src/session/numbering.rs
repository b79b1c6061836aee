//! The numbers of writes: a sequence window for each partition, and the sessions in which the windows count.
//!
//! The client opens a session at a server when the first write needs it, and again when a partition may have forgotten it.
//!
//! A partition remembers a session for a time after its last write there. It accepts an unknown session unless that was issued long ago. Before a
//! write goes to a partition that has had no write for most of that time, the client therefore opens a newer session. So no write ends in the doubt
//! that `SessionExpired` causes.
//!
//! After a split, a child partition has the session table of its parent, so numbers continue in each child. A write keeps the number
//! under which it was sent, so that the partition that has done it recognizes it. Only the numbers of a child's own writes are open in its window.
//! Numbers of writes to its sibling would hold back the child's lowest open number for no reason.

use std::collections::BTreeMap;

use zerohop_base::invariant::{BrokenInvariant, check_rules};
use zerohop_placement::Division;
use zerohop_wire::ids::{KeyspaceId, PartitionId, SessionId, Timestamp};
use zerohop_wire::messages::{Message, SessionOpen, SessionOpened, Stamp};

use super::check::SESSION;
use super::connection_table::ConnectionTable;
use super::operation_table::{OpenNumbers, OperationTable};
use crate::in_flight_frame::FrameContents;
use crate::operation::{AssignedSequence, OpenOperation, OperationState};
use crate::planted::{Bug, is_planted};
use crate::sequence_window::SequenceWindow;
use crate::slots::Handle;
use crate::timers::{Subject, Timers};
use zerohop_base::time::Time;

/// A session id that is never issued: the value of a window without a session.
const NO_SESSION: SessionId = SessionId::NONE;

/// A partition of a keyspace.
pub(super) type PartitionPlace = (KeyspaceId, PartitionId);

/// The session's numbers of writes.
#[derive(Debug, Default)]
pub(super) struct WriteNumbering {
    windows: BTreeMap<KeyspaceId, BTreeMap<PartitionId, SequenceWindow>>,
    issued: Option<IssuedSession>,
    /// The frame that requests a session, and when it is overdue.
    opening: Option<(Handle, Time)>,
    /// Writes that wait for a session.
    awaiting: Vec<Handle>,
}

/// The session that was issued last.
#[derive(Clone, Copy, Debug)]
struct IssuedSession {
    id: SessionId,
    /// When it was requested.
    requested_at: Time,
    /// Minimum time for which a partition remembers it; 0: the server does not report it.
    idle_us: u64,
}

/// What a write without a number waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NumberWait {
    /// A session, which the client must open if it is not opening one already.
    Session,
    /// Room in the window of its partition.
    Window,
}

/// Whether a partition with a write of this session at `written_at` certainly still remembers it.
fn remembers(now: Time, written_at: Time, idle_us: u64) -> bool {
    // A quarter of the time is reserved for the write's transmission and for clocks that run at different rates.
    idle_us == 0 || now.since_us(written_at) < idle_us / 4 * 3
}

impl WriteNumbering {
    /// The write identity of a write, with a newly assigned number if it has none; that of a read is empty. Errors: the write waits, and its state
    /// says for what.
    pub(super) fn stamp<T>(
        &mut self,
        now: Time,
        seen: Timestamp,
        handle: Handle,
        operation: &mut OpenOperation<T>,
    ) -> Result<Stamp, NumberWait> {
        let Some(partition) = operation.partition.filter(|_| operation.request.is_numbered()) else {
            return Ok(Stamp::default());
        };
        let place = (operation.keyspace(), partition);
        if let Some(AssignedSequence { session, sequence, lowest }) = operation.stamp {
            let window = self.window(place);
            let lowest_unanswered = if window.session == session { window.lowest_open() } else { lowest };
            return Ok(Stamp { session, sequence, lowest_unanswered, seen });
        }
        if !self.has_session(now, place) {
            operation.state = OperationState::AwaitingSession;
            self.awaiting.push(handle);
            return Err(NumberWait::Session);
        }
        let window = self.window(place);
        if window.free_numbers() == 0 {
            window.waiting_writes.push_back(handle);
            operation.state = OperationState::WindowFull;
            return Err(NumberWait::Window);
        }
        let (session, sequence, lowest) = (window.session, window.next_number(), window.lowest_open());
        operation.stamp = Some(AssignedSequence { session, sequence, lowest });
        Ok(Stamp { session, sequence, lowest_unanswered: lowest, seen })
    }

    /// Closes the number of a write that has ended. `answered`: when the frame was sent whose answer ended it. Returns whether writes wait for the
    /// room.
    pub(super) fn close(
        &mut self,
        place: PartitionPlace,
        stamp: AssignedSequence,
        answered: Option<Time>,
    ) -> bool {
        let window = self.window(place);
        window.close(stamp.session, stamp.sequence);
        if let Some(sent) = answered.filter(|_| window.session == stamp.session) {
            window.touched = window.touched.max(sent);
        }
        !window.waiting_writes.is_empty()
    }

    /// Removes and returns as many waiting writes as the window has room for, except those that no longer wait according to `waits`.
    pub(super) fn admitted(&mut self, place: PartitionPlace, waits: impl Fn(Handle) -> bool) -> Vec<Handle> {
        let window = self.window(place);
        let room = window.free_numbers() as usize;
        let mut admitted = Vec::new();
        while admitted.len() < room
            && let Some(handle) = window.waiting_writes.pop_front()
        {
            if waits(handle) {
                admitted.push(handle);
            }
        }
        admitted
    }

    /// The frame that requests a session, if it is overdue.
    pub(super) fn overdue_opening(&self, now: Time, timers: &mut Timers) -> Option<Handle> {
        let (in_flight, due) = self.opening?;
        if now < due {
            timers.arm(Subject::Maintenance, due);
            return None;
        }
        Some(in_flight)
    }

    /// Accepts a session that was requested at `requested_at`.
    pub(super) fn accept(&mut self, requested_at: Time, opened: &SessionOpened) {
        let SessionOpened { session: id, idle_ms } = *opened;
        if id.is_some() {
            self.issued = Some(IssuedSession { id, requested_at, idle_us: u64::from(idle_ms) * 1000 });
        }
    }

    /// Ends the request for a session, answered or not. Returns the writes that waited for it.
    pub(super) fn end_opening(&mut self) -> Vec<Handle> {
        self.opening = None;
        std::mem::take(&mut self.awaiting)
    }

    /// Handles a partition that has forgotten this session.
    pub(super) fn forget(&mut self, session: SessionId, place: PartitionPlace) {
        let window = self.window(place);
        if window.session == session {
            window.session = NO_SESSION;
        }
        if self.issued.is_some_and(|issued| issued.id == session) {
            self.issued = None;
        }
    }

    /// Splits the windows of partitions that have become several; `open` are the numbers that are open in each child. Returns the writes that waited
    /// for room.
    pub(super) fn split(
        &mut self,
        keyspace: KeyspaceId,
        (before, now): (&Division, &Division),
        open: &OpenNumbers,
    ) -> Vec<Handle> {
        let mut waiting: Vec<Handle> = Vec::new();
        let Some(windows) = self.windows.remove(&keyspace) else { return waiting };
        let mut divided = BTreeMap::new();
        for (partition, mut window) in windows {
            let children = now.successors(partition, before);
            if children[..] == [partition] {
                divided.insert(partition, window);
                continue;
            }
            waiting.extend(std::mem::take(&mut window.waiting_writes));
            for partition in children {
                let open = open.get(&partition).map_or(&[][..], Vec::as_slice);
                let of_window = open.iter().filter(|(session, _)| *session == window.session);
                let child = window.split(of_window.map(|(_, sequence)| *sequence));
                let restarts = is_planted(Bug::NumbersRestartAfterSplit);
                divided.insert(partition, if restarts { SequenceWindow::new() } else { child });
            }
        }
        self.windows.insert(keyspace, divided);
        waiting
    }

    /// Requests a session at the server of this connection, if none is requested already.
    pub(super) fn request_session(
        &mut self,
        now: Time,
        index: u32,
        attempt_us: u64,
        connections: &mut ConnectionTable,
        timers: &mut Timers,
    ) {
        if self.opening.is_none() {
            let request = Message::SessionOpen(SessionOpen);
            let in_flight = connections.send_own(now, index, &request, FrameContents::SessionOpen, timers);
            let due = now.after_us(attempt_us);
            self.opening = Some((in_flight, due));
            timers.arm(Subject::Maintenance, due);
        }
    }

    /// Checks all windows against the operations.
    ///
    /// # Errors
    /// The broken invariant.
    pub(super) fn check_all<T>(&self, operations: &OperationTable<T>) -> Result<(), BrokenInvariant> {
        let is_bounded = self.windows.values().flat_map(BTreeMap::values).all(SequenceWindow::is_bounded);
        let has_open_number = operations.iter().all(|(_, operation)| self.has_open_number(operation));
        check_rules(
            SESSION,
            [
                (is_bounded, "a window begins with an open number and is bounded"),
                (has_open_number, "the number of a write is open until the write ends"),
            ],
        )
    }

    /// Whether the number of this operation, if it has one, is open in its window.
    fn has_open_number<T>(&self, operation: &OpenOperation<T>) -> bool {
        let Some((stamp, partition)) = operation.stamp.zip(operation.partition) else { return true };
        let windows = self.windows.get(&operation.keyspace());
        let window = windows.and_then(|windows| windows.get(&partition));
        window.is_some_and(|window| window.session != stamp.session || window.is_open(stamp.sequence))
    }

    /// The sequence window of a partition.
    pub(super) fn window(&mut self, (keyspace, partition): PartitionPlace) -> &mut SequenceWindow {
        // Partitions come from the map, which limits their number. Numbers of regions may be far apart.
        let windows = self.windows.entry(keyspace).or_default();
        windows.entry(partition).or_insert_with(SequenceWindow::new)
    }

    /// Makes sure that the partition's window has a session that the partition remembers. If the client must open one first, the result is `false`.
    fn has_session(&mut self, now: Time, place: PartitionPlace) -> bool {
        let issued = self.issued.filter(|issued| remembers(now, issued.requested_at, issued.idle_us));
        let window = self.window(place);
        if window.session != NO_SESSION && remembers(now, window.touched, window.idle_us) {
            return true;
        }
        match issued {
            Some(issued) => {
                window.begin(issued.id, issued.requested_at, issued.idle_us);
                true
            }
            None => false,
        }
    }
}
