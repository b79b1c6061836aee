//! Maintenance of the map: the session requests it at the start, applies the changes in redirects, and requests it again when a primary is
//! unreachable.

use std::sync::Arc;

use zerohop_placement::{ClusterMap, Keyspace, MapDelta};
use zerohop_wire::ids::{KeyspaceId, MapEpoch};
use zerohop_wire::messages::{Map, MapGet, Message};
use zerohop_wire::{Advice, Failure};

use super::Session;
use super::numbering::OpenNumbers;
use crate::error::{AttemptFailure, SessionError};
use crate::in_flight_frame::Cargo;
use crate::limits::{MAP_QUESTION_US_MIN, MAP_REFUSALS_PASSING, PAUSE_US_MAX, SILENT_US};
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
    request_in_flight: Option<(Handle, Time)>,
    /// No request before this time.
    pub(super) next_at: Time,
    /// Changes did not apply: the next request is for the complete map.
    needs_complete_map: bool,
    /// Counts the requests, so that each goes to another server.
    request_count: usize,
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
            request_in_flight: None,
            next_at: Time(0),
            needs_complete_map: true,
            request_count: 0,
            failures: 0,
            answered_question: None,
            last: None,
            refusals: 0,
        }
    }
}

impl<T> Session<T> {
    /// Has the session request the map at the end of this turn, or soon.
    pub(super) fn request_map_soon(&mut self, now: Time) {
        self.mapping.needed = !self.closed;
        self.timers.arm(Subject::Maintenance, self.mapping.next_at.max(now));
    }

    pub(super) fn send_map_request(&mut self, now: Time) {
        if let Some((flight, due)) = self.mapping.request_in_flight {
            if now < due {
                return self.timers.arm(Subject::Maintenance, due);
            }
            self.mark_overdue(now, flight);
            self.map_question_failed(now, AttemptFailure::Overdue);
        }
        if !self.mapping.needed {
            return;
        }
        if now < self.mapping.next_at {
            return self.timers.arm(Subject::Maintenance, self.mapping.next_at);
        }
        match self.connections.ready(self.mapping.request_count) {
            Some(index) => {
                self.mapping.request_count = self.mapping.request_count.wrapping_add(1);
                let since = if self.mapping.needs_complete_map { MapEpoch(0) } else { self.map.epoch() };
                let flight = self.connections.send_own(
                    now,
                    index,
                    &Message::MapGet(MapGet { since }),
                    Cargo::Map,
                    &mut self.timers,
                );
                // Any server answers it at once, and there are other servers.
                let due = now.after_us(self.settings.attempt_us.min(2 * SILENT_US));
                self.mapping.request_in_flight = Some((flight, due));
                self.timers.arm(Subject::Maintenance, due);
            }
            None => self.open_for_map(now),
        }
    }

    /// Handles a `Map` message that answers a request sent at `sent`.
    pub(super) fn map_came(&mut self, now: Time, sent: Time, map: &Map<'_>) {
        self.mapping.request_in_flight = None;
        if !map.encoded.is_empty() && !self.apply(map.encoded) && self.map.epoch() < map.epoch {
            self.mapping.needs_complete_map = true;
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
        self.mapping.request_in_flight = None;
        self.mapping.failures = self.mapping.failures.saturating_add(1);
        self.mapping.last = Some(trouble);
        let rest = self.jitter.pause_us(self.mapping.failures, MAP_QUESTION_US_MIN, PAUSE_US_MAX);
        self.mapping.next_at = now.after_us(rest);
        self.request_map_soon(now);
    }

    /// Handles a server that refuses this client. If all endpoints refuse it, and no map names other servers, operations that wait for a map end.
    pub(super) fn map_refused(&mut self, now: Time, address: &Arc<str>, failure: &Failure<'static>) {
        if self.map.epoch() != MapEpoch(0) || failure.advice() != Advice::ReportToUser {
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
        let address = self.connections.address(index);
        self.map_question_failed(now, AttemptFailure::Answered { failure: failure.clone() });
        if failure.advice() != Advice::ReportToUser {
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
            self.end_unanswered(
                now,
                handle,
                |_| refused,
                || AttemptFailure::Answered { failure: failure.clone() },
            );
        }
    }

    /// Handles the changes in a redirect, which lead to a map of this epoch.
    pub(super) fn map_moved(&mut self, now: Time, epoch: MapEpoch, delta: &[u8]) {
        if epoch <= self.map.epoch() {
            return;
        }
        match !delta.is_empty() && self.apply(delta) {
            true => self.dispatch_waiting(now),
            false => self.request_map_soon(now),
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
        self.mapping.needs_complete_map = false;
        // Addresses may have changed: they are looked up again as operations need them.
        self.connections.forget_instances();
        true
    }

    /// Handles the splits between the map `before` and the current one: operations and sequence numbers continue in the child partitions.
    fn follow_splits(&mut self, before: &ClusterMap) {
        let map = Arc::clone(&self.map);
        for (keyspace, found) in map.keyspaces() {
            let Some(old) = before.keyspace(keyspace) else { continue };
            if let Some(further) = found.splits().checked_sub(old.splits()).filter(|further| *further > 0) {
                let open = self.reassign_operations(keyspace, found);
                // They wait for room in the window of their new partition.
                for handle in self.numbering.split(keyspace, further, &open) {
                    let Some(operation) = self.operations.get_mut(handle) else { continue };
                    if operation.state == OperationState::WindowFull {
                        operation.state = OperationState::Unrouted;
                        self.unrouted.push(handle);
                    }
                }
            }
        }
    }

    /// Recomputes the partition of every operation on a record. Returns the open numbers of each partition.
    fn reassign_operations(&mut self, keyspace: KeyspaceId, found: &Keyspace) -> OpenNumbers {
        let mut open = OpenNumbers::new();
        for operation in self.operations.iter_mut() {
            if operation.keyspace() != keyspace || operation.partition.is_none() {
                continue;
            }
            let Some(partition) = operation.request.partition_in(found) else { continue };
            operation.partition = Some(partition);
            if let Some(stamp) = operation.stamp {
                open.entry(partition).or_default().push((stamp.session, stamp.sequence.0));
            }
        }
        open
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
        self.timers.arm(Subject::Maintenance, self.mapping.next_at);
        let count = known.len();
        for step in 0..count {
            let address = known[(self.mapping.request_count + step) % count];
            if self.connections.at_address(address).is_none() || step + 1 == count {
                self.mapping.request_count = (self.mapping.request_count + step + 1) % count;
                if let Some(index) = self.connection_to(now, address) {
                    self.connections.existing(index).for_map = true;
                }
                return;
            }
        }
    }
}
