//! Sessions: the client opens one at a server when the first write needs it, and again when a partition may have forgotten it.
//!
//! A partition remembers a session for a time after its last write there. It accepts an unknown session unless that was issued long ago. Before a
//! write goes to a partition that has had no write for most of that time, the client therefore opens a newer session. So no write ends in the doubt
//! that `SessionExpired` causes.

use zerohop_wire::ids::{KeyspaceId, PartitionId, SessionId};
use zerohop_wire::messages::{Message, SessionOpen, SessionOpened};

use super::{NO_SESSION, Session, window_of};
use crate::error::{AttemptFailure, SessionError};
use crate::in_flight_frame::Cargo;
use crate::slots::Handle;
use crate::timers::Subject;
use zerohop_base::time::Time;

/// The session that was issued last.
#[derive(Clone, Copy, Debug)]
pub(super) struct IssuedSession {
    id: SessionId,
    /// When it was requested.
    requested_at: Time,
    /// Minimum time for which a partition remembers it; 0: the server does not report it.
    idle_us: u64,
}

/// Whether a partition with a write of this session at `heard` certainly still remembers it.
fn remembers(now: Time, heard: Time, idle_us: u64) -> bool {
    // A quarter of the time is reserved for the write's transmission and for clocks that run at different rates.
    idle_us == 0 || now.since_us(heard) < idle_us / 4 * 3
}

impl<T> Session<T> {
    /// Makes sure that the partition's window has a session that the partition remembers. If the client must open one first, the write waits for
    /// it, and the result is `false`.
    pub(super) fn has_session(
        &mut self,
        now: Time,
        (keyspace, partition): (KeyspaceId, PartitionId),
    ) -> bool {
        let lane = window_of(&mut self.sequence_windows, keyspace, partition);
        let issued = self.issued.filter(|issued| remembers(now, issued.requested_at, issued.idle_us));
        if lane.session != NO_SESSION && remembers(now, lane.touched, lane.idle_us) {
            return true;
        }
        match issued {
            Some(issued) => {
                lane.begin(issued.id, issued.requested_at, issued.idle_us);
                true
            }
            None => false,
        }
    }

    pub(super) fn open_session(&mut self, now: Time, index: u32) {
        if self.opening.is_none() {
            let flight =
                self.send_own_request(now, index, &Message::SessionOpen(SessionOpen), Cargo::SessionOpen);
            let due = now.after_us(self.settings.attempt_us);
            self.opening = Some((flight, due));
            self.timers.arm(Subject::Maintenance, due);
        }
    }

    pub(super) fn session_opened(&mut self, now: Time, asked: Time, opened: &SessionOpened) {
        let SessionOpened { session: id, idle_ms } = *opened;
        self.opening = None;
        if id.is_some() {
            self.issued = Some(IssuedSession { id, requested_at: asked, idle_us: u64::from(idle_ms) * 1000 });
        }
        self.dispatch_awaiting(now);
    }

    /// The opening failed: the writes that wait request a session again, each from its own server.
    pub(super) fn opening_failed(&mut self, now: Time) {
        self.opening = None;
        self.dispatch_awaiting(now);
    }

    /// The server does not open a session; `Some` if the refusal is final.
    pub(super) fn opening_refused(&mut self, now: Time, error: Option<SessionError>) {
        self.opening = None;
        for handle in std::mem::take(&mut self.awaiting_session) {
            match &error {
                Some(error) => {
                    self.end_unanswered(now, handle, |_| error.clone(), || AttemptFailure::Overdue)
                }
                None => self.pause(now, handle, 0),
            }
        }
    }

    pub(super) fn opening_is_due(&mut self, now: Time) {
        match self.opening {
            Some((flight, due)) if now >= due => {
                self.mark_overdue(now, flight);
                self.opening_failed(now);
            }
            Some((_, due)) => self.timers.arm(Subject::Maintenance, due),
            None => {}
        }
    }

    /// Handles a partition that has forgotten this session.
    pub(super) fn handle_forgotten(&mut self, session: SessionId, place: (KeyspaceId, PartitionId)) {
        let lane = window_of(&mut self.sequence_windows, place.0, place.1);
        if lane.session == session {
            lane.session = NO_SESSION;
        }
        if self.issued.is_some_and(|issued| issued.id == session) {
            self.issued = None;
        }
    }

    fn dispatch_awaiting(&mut self, now: Time) {
        let awaiting: Vec<Handle> = std::mem::take(&mut self.awaiting_session);
        self.dispatch_all(now, awaiting);
    }
}
