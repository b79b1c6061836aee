//! Maintenance of the map: the session requests it at the start, applies the changes in redirects, and requests it again when a primary is
//! unreachable.

use std::sync::Arc;

use zerohop_placement::MapDelta;
use zerohop_wire::ids::MapEpoch;
use zerohop_wire::messages::{Map, MapGet, Message};
use zerohop_wire::{Advice, Failure};

use super::Session;
use crate::error::{AttemptFailure, SessionError};
use crate::in_flight_frame::Cargo;
use crate::limits::{MAP_QUESTION_US_MIN, MAP_REFUSALS_PASSING, REST_US_MAX, SILENT_US};
use crate::operation::OperationState;
use crate::slots::Handle;
use crate::timers::Subject;
use zerohop_base::time::Time;

/// The state of the requests for the map.
#[derive(Debug)]
pub(super) struct Mapping {
    /// An operation needs a newer map, or any map.
    pub(super) needed: bool,
    /// The request in flight, and when it is overdue.
    asking: Option<(Handle, Time)>,
    /// No request before this time.
    pub(super) next_at: Time,
    /// Changes did not apply: the next request is for the complete map.
    whole: bool,
    /// Counts the requests, so that each goes to another server.
    turn: usize,
    failures: u32,
    /// When the latest answered request was sent.
    pub(super) answered_question: Option<Time>,
    pub(super) last: Option<AttemptFailure>,
    /// Number of endpoints in a row that refused this client, while the session has no map.
    refusals: usize,
}

impl Mapping {
    pub(super) fn new() -> Self {
        Self {
            needed: true,
            asking: None,
            next_at: Time(0),
            whole: true,
            turn: 0,
            failures: 0,
            answered_question: None,
            last: None,
            refusals: 0,
        }
    }
}

impl<T> Session<T> {
    /// Has the session request the map at the end of this turn, or soon.
    pub(super) fn want_map(&mut self, now: Time) {
        self.mapping.needed = !self.closed;
        self.timers.arm(Subject::Upkeep, self.mapping.next_at.max(now));
    }

    pub(super) fn ask_for_map(&mut self, now: Time) {
        if let Some((flight, due)) = self.mapping.asking {
            if now < due {
                return self.timers.arm(Subject::Upkeep, due);
            }
            self.mark_overdue(now, flight);
            self.map_question_failed(now, AttemptFailure::Overdue);
        }
        if !self.mapping.needed {
            return;
        }
        if now < self.mapping.next_at {
            return self.timers.arm(Subject::Upkeep, self.mapping.next_at);
        }
        match self.next_ready() {
            Some(index) => {
                let since = if self.mapping.whole { MapEpoch(0) } else { self.map.epoch() };
                let flight = self.ask(now, index, &Message::MapGet(MapGet { since }), Cargo::Map);
                // Any server answers it at once, and there are other servers.
                let due = now.after_us(self.settings.attempt_us.min(2 * SILENT_US));
                self.mapping.asking = Some((flight, due));
                self.timers.arm(Subject::Upkeep, due);
            }
            None => self.open_for_map(now),
        }
    }

    /// Handles a `Map` message that answers a request sent at `sent`.
    pub(super) fn map_came(&mut self, now: Time, sent: Time, map: &Map<'_>) {
        self.mapping.asking = None;
        if !map.encoded.is_empty() && !self.apply(map.encoded) && self.map.epoch() < map.epoch {
            self.mapping.whole = true;
            return self.map_question_failed(now, AttemptFailure::Damaged);
        }
        self.mapping.needed = false;
        self.mapping.failures = 0;
        self.mapping.refusals = 0;
        self.mapping.next_at = now.after_us(MAP_QUESTION_US_MIN);
        self.mapping.answered_question = self.mapping.answered_question.max(Some(sent));
        self.dispatch_waiting(now);
    }

    pub(super) fn map_question_failed(&mut self, now: Time, trouble: AttemptFailure) {
        self.mapping.asking = None;
        self.mapping.failures = self.mapping.failures.saturating_add(1);
        self.mapping.last = Some(trouble);
        let rest = self.jitter.rest_us(self.mapping.failures, MAP_QUESTION_US_MIN, REST_US_MAX);
        self.mapping.next_at = now.after_us(rest);
        self.want_map(now);
    }

    /// Handles a server that refuses this client. If all endpoints refuse it, and no map names other servers, operations that wait for a map end.
    pub(super) fn map_refused(&mut self, now: Time, address: &Arc<str>, failure: &Failure<'static>) {
        if self.map.epoch() != MapEpoch(0) || failure.advice() != Advice::GiveUp {
            return;
        }
        self.mapping.refusals += 1;
        if self.mapping.refusals >= self.settings.endpoints.len() {
            self.refuse_unrouted(now, address, failure);
        }
    }

    /// Handles a server that accepts this client but refuses to return the map. A token may be newer than the map of that server, so the session
    /// repeats the request a few times. After that, operations that wait for a map end, whether or not the session has an older one.
    pub(super) fn map_question_refused(&mut self, now: Time, index: u32, failure: Failure<'static>) {
        let address = Arc::clone(&self.connection_mut(index).address);
        self.map_question_failed(now, AttemptFailure::Answered { failure: failure.clone() });
        if failure.advice() != Advice::GiveUp {
            return;
        }
        self.mapping.refusals += 1;
        if self.mapping.refusals >= self.settings.endpoints.len() + MAP_REFUSALS_PASSING {
            self.refuse_unrouted(now, &address, &failure);
        }
    }

    /// Ends all operations that wait for a map.
    fn refuse_unrouted(&mut self, now: Time, address: &Arc<str>, failure: &Failure<'static>) {
        let mut waiting = std::mem::take(&mut self.unrouted);
        waiting.retain(|handle| {
            self.operations.get(*handle).is_some_and(|operation| operation.state == OperationState::Unrouted)
        });
        for handle in waiting {
            let refused = SessionError::Refused { address: Arc::clone(address), failure: failure.clone() };
            self.give_up(now, handle, |_| refused, || AttemptFailure::Answered { failure: failure.clone() });
        }
    }

    /// Handles the changes in a redirect, which lead to a map of this epoch.
    pub(super) fn map_moved(&mut self, now: Time, epoch: MapEpoch, delta: &[u8]) {
        if epoch <= self.map.epoch() {
            return;
        }
        match !delta.is_empty() && self.apply(delta) {
            true => self.dispatch_waiting(now),
            false => self.want_map(now),
        }
    }

    /// Applies encoded changes. Returns whether they led to a newer map.
    fn apply(&mut self, encoded: &[u8]) -> bool {
        let next = match MapDelta::decode(encoded) {
            Ok(delta) => self.map.apply(&delta),
            Err(_) => return false,
        };
        let Ok(next) = next else { return false };
        let before = std::mem::replace(&mut self.map, Arc::new(next));
        self.follow_splits(&before);
        self.mapping.whole = false;
        // Addresses may have changed: they are looked up again as operations need them.
        self.by_instance.clear();
        true
    }

    /// The next connection that could answer, another than the last time.
    fn next_ready(&mut self) -> Option<u32> {
        let ready = || {
            let found = self.connections.iter().zip(0u32..);
            found.filter_map(|(found, index)| found.as_ref().filter(|one| one.is_ready()).map(|_| index))
        };
        let count = ready().count();
        if count == 0 {
            return None;
        }
        let index = ready().nth(self.mapping.turn % count);
        self.mapping.turn = self.mapping.turn.wrapping_add(1);
        index
    }

    /// Opens a connection to the next known server that is not being connected to, to request the map.
    fn open_for_map(&mut self, now: Time) {
        let map = Arc::clone(&self.map);
        let nodes = map.nodes().flat_map(|node| {
            std::iter::once(node.manager()).chain(node.instances().map(|instance| instance.addr))
        });
        let endpoints = self.settings.endpoints.clone();
        let known: Vec<&str> = endpoints.iter().map(|endpoint| &**endpoint).chain(nodes).collect();
        // If this connection does not open, or its server is silent for a while, the next server is tried: a machine that has failed or is paused
        // sends nothing at all.
        self.mapping.next_at = now.after_us(self.settings.connect_us.min(SILENT_US));
        self.timers.arm(Subject::Upkeep, self.mapping.next_at);
        let count = known.len();
        for step in 0..count {
            let address = known[(self.mapping.turn + step) % count];
            if !self.by_address.contains_key(address) || step + 1 == count {
                self.mapping.turn = (self.mapping.turn + step + 1) % count;
                if let Some(index) = self.connection_to(now, address) {
                    self.connection_mut(index).for_map = true;
                }
                return;
            }
        }
    }
}
