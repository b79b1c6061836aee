//! The map, and the requests for it: the session requests it at the start, applies the changes in redirects, and requests it again when a primary
//! is unreachable.

use std::cmp::Ordering;
use std::sync::Arc;

use zerohop_placement::{ClusterMap, Division, Group, KeyOrder, Keyspace, MapDelta, NodeState};
use zerohop_wire::ids::{KeyspaceId, MapEpoch, PartitionId};
use zerohop_wire::messages::MapGet;
use zerohop_wire::{Advice, BadRequestReason, Failure};

use crate::backoff::Jitter;
use crate::error::{AttemptFailure, UnreachedPartition};
use crate::limits::{
    MAP_QUESTION_US_MIN, MAP_REFUSALS_PASSING, MAP_REPEAT_SLOW_US, MAP_REPEAT_US, MAP_REPEATS_FAST,
    PAUSE_US_MAX, ROUND_PAUSE_US_MAX, SILENT_US,
};
use crate::operation::OpenOperation;
use crate::request_kind::{HashRange, RequestKind, SnapshotTarget};
use crate::settings::SessionSettings;
use crate::slots::Handle;
use crate::timers::{Subject, Timers};
use zerohop_base::time::Time;

/// The map, and the state of the requests for it.
#[derive(Debug)]
pub(super) struct Mapping {
    map: Arc<ClusterMap>,
    /// An operation needs a newer map, or any map.
    needed: bool,
    /// The session requests no more maps.
    closed: bool,
    /// The request in flight, and when it is overdue.
    request_in_flight: Option<(Handle, Time)>,
    /// No request before this time.
    next_at: Time,
    /// Changes did not apply: the next request is for the complete map.
    needs_complete_map: bool,
    /// Counts the requests, so that each goes to another server.
    request_count: usize,
    failures: u32,
    /// Servers in a row that the session could not connect to in order to request the map, and the number of servers.
    unreached: (usize, usize),
    /// When the latest answered request was sent.
    answered_question: Option<Time>,
    /// Why the latest request, or the latest connection, failed.
    pub(super) last: Option<AttemptFailure>,
    /// Number of servers in a row that refused this client, or refused to return the map.
    refusals: usize,
    /// When the session requests the map again for operations that wait for an unreachable server, and how often in a row it did.
    repeat: (Time, u32),
}

/// Where the map places an operation.
#[derive(Debug)]
pub(super) enum MapPlace<'m> {
    /// At the primary of this group.
    Group { keyspace: &'m Keyspace, partition: PartitionId, group: Group<'m> },
    /// At any manager.
    Manager,
    /// Not in this map.
    Nowhere,
    /// In a keyspace that is not in this map.
    MissingKeyspace(KeyspaceId),
    /// No map can have it.
    Never(Failure<'static>),
    /// In several partitions of this division.
    Split(&'m Division),
}

/// Where a partition stands in the division of the map.
enum PartitionPresence {
    Present,
    /// It was split.
    Split,
    /// The caller has a newer map.
    Later,
}

/// In a hashed keyspace a number means another hash range after a split; in an ordered one no number is used again.
fn presence(division: &Division, order: KeyOrder, (partition, of): HashRange) -> PartitionPresence {
    match order {
        KeyOrder::Hashed => match division.count().cmp(&of) {
            Ordering::Greater => PartitionPresence::Split,
            Ordering::Less => PartitionPresence::Later,
            Ordering::Equal => PartitionPresence::Present,
        },
        KeyOrder::Ordered if division.position(partition).is_some() => PartitionPresence::Present,
        KeyOrder::Ordered if !division.descendants(partition).is_empty() => PartitionPresence::Split,
        KeyOrder::Ordered if division.count() >= of => PartitionPresence::Present,
        KeyOrder::Ordered => PartitionPresence::Later,
    }
}

impl Mapping {
    pub(super) fn new() -> Self {
        Self {
            map: Arc::default(),
            needed: true,
            closed: false,
            request_in_flight: None,
            next_at: Time(0),
            needs_complete_map: true,
            request_count: 0,
            failures: 0,
            unreached: (0, 1),
            answered_question: None,
            last: None,
            refusals: 0,
            repeat: (Time::NEVER, 0),
        }
    }

    pub(super) fn map(&self) -> &Arc<ClusterMap> {
        &self.map
    }

    pub(super) fn epoch(&self) -> MapEpoch {
        self.map.epoch()
    }

    /// The epoch of the map, and when the latest answer about it was requested.
    pub(super) fn version(&self) -> (MapEpoch, Option<Time>) {
        (self.map.epoch(), self.answered_question)
    }

    /// Whether the map was requested at this time or later: then an object that is not in the map does not exist.
    pub(super) fn is_newer_than(&self, time: Option<Time>) -> bool {
        self.answered_question >= time
    }

    /// The group that the map has for the partition of an operation.
    pub(super) fn group_of<T>(&self, operation: &OpenOperation<T>) -> Option<Group<'_>> {
        self.map.keyspace(operation.keyspace())?.group(operation.partition?)
    }

    /// Whether the partition of an operation has a newer group than when the operation was sent.
    pub(super) fn has_newer_group<T>(&self, operation: &OpenOperation<T>) -> bool {
        self.group_of(operation).is_some_and(|group| group.epoch > operation.epoch)
    }

    /// The partition of an operation, if no replica will serve it according to the map.
    pub(super) fn lost_partition<T>(&self, operation: &OpenOperation<T>) -> Option<PartitionId> {
        let group = self.group_of(operation)?;
        operation.partition.filter(|_| self.map.is_unavailable(group))
    }

    /// The partition of an operation and its primary, for an error.
    pub(super) fn place_of_primary<T>(&self, operation: &OpenOperation<T>) -> Option<UnreachedPartition> {
        let (group, keyspace) = (self.group_of(operation)?, self.map.keyspace(operation.keyspace())?);
        let primary = self.map.instance(group.primary)?;
        Some(UnreachedPartition {
            partition: operation.partition?,
            keyspace: keyspace.config().name.as_str().into(),
            primary: primary.addr.into(),
            node: primary.node,
            epoch: self.map.epoch(),
        })
    }

    /// Where the map places an operation.
    pub(super) fn place<T>(&self, operation: &OpenOperation<T>) -> MapPlace<'_> {
        let (keyspace, partition) = match &operation.request {
            query @ (RequestKind::Record { keyspace, .. }
            | RequestKind::Point { keyspace, .. }
            | RequestKind::Snapshot { keyspace, to: SnapshotTarget::Key, .. }) => {
                let Some(found) = self.map.keyspace(*keyspace) else {
                    return MapPlace::MissingKeyspace(*keyspace);
                };
                match operation.partition.or_else(|| query.partition_in(found)) {
                    Some(partition) => (found, partition),
                    None => return MapPlace::Nowhere,
                }
            }
            RequestKind::Scan { keyspace, hash_range: (partition, of), .. }
            | RequestKind::Chunks { keyspace, hash_range: (partition, of), .. }
            | RequestKind::Changes { keyspace, hash_range: (partition, of), .. }
            | RequestKind::Compare { keyspace, hash_range: (partition, of), .. }
            | RequestKind::Snapshot { keyspace, to: SnapshotTarget::HashRange((partition, of)), .. } => {
                let Some(found) = self.map.keyspace(*keyspace) else {
                    return MapPlace::MissingKeyspace(*keyspace);
                };
                match presence(found.division(), found.config().order, (*partition, *of)) {
                    PartitionPresence::Present => (found, *partition),
                    PartitionPresence::Split => return MapPlace::Split(found.division()),
                    PartitionPresence::Later => return MapPlace::Nowhere,
                }
            }
            RequestKind::Admin { .. } => return MapPlace::Manager,
            RequestKind::Keyspace { .. } => return MapPlace::Nowhere,
        };
        match keyspace.group(partition) {
            Some(group) => MapPlace::Group { keyspace, partition, group },
            None => MapPlace::Never(BadRequestReason::NoSuchPartition.into()),
        }
    }

    /// The address of the manager for a control request. The first choice is a server that answers, if there is one; after a failure or a lost
    /// connection, the next one.
    pub(super) fn manager(&self, pauses: u32, is_ready: impl Fn(&str) -> bool) -> Option<&str> {
        let managers = || {
            let up = self.map.nodes().filter(|node| node.state() != NodeState::Down);
            up.map(|node| node.manager())
        };
        let known = match pauses {
            0 => managers().find(|address| is_ready(address)),
            _ => None,
        };
        let turn = pauses as usize % managers().count().max(1);
        known.or_else(|| managers().nth(turn))
    }

    /// Has the session request the map at the end of this turn, or soon.
    pub(super) fn request_soon(&mut self, now: Time, timers: &mut Timers) {
        self.needed = !self.closed;
        timers.arm(Subject::Maintenance, self.next_at.max(now));
    }

    /// Has the session request the map again after a while, because operations wait for a server that cannot be reached, and the map says nothing
    /// new about it.
    pub(super) fn repeat_later(&mut self, now: Time, jitter: &mut Jitter, timers: &mut Timers) {
        let (at, repeats) = &mut self.repeat;
        if *at == Time::NEVER {
            let us = if *repeats < MAP_REPEATS_FAST { MAP_REPEAT_US } else { MAP_REPEAT_SLOW_US };
            *at = now.after_us(jitter.spread(us));
            *repeats = repeats.saturating_add(1);
        }
        timers.arm(Subject::Maintenance, *at);
    }

    /// No operation waits for an unreachable server any more.
    pub(super) fn end_repeats(&mut self) {
        self.repeat = (Time::NEVER, 0);
    }

    /// Whether the request that [`Mapping::repeat_later`] announced is due. If it must be sent later, a timer is set.
    pub(super) fn is_repeat_due(&mut self, now: Time, timers: &mut Timers) -> bool {
        let is_due = now >= self.repeat.0;
        match is_due {
            true => self.repeat.0 = Time::NEVER,
            false => timers.arm(Subject::Maintenance, self.repeat.0),
        }
        is_due
    }

    /// Lets the next request be sent at once, if one is needed.
    pub(super) fn fetch_now(&mut self, now: Time) {
        self.next_at = now;
    }

    /// A server could not be reached. The next one is tried at once, and after a round through all servers there is a pause: a server that does not
    /// run refuses within microseconds.
    pub(super) fn server_unreached(&mut self, now: Time, least_us: u64, jitter: &mut Jitter) {
        let (unreached, servers) = &mut self.unreached;
        *unreached += 1;
        let rounds = *unreached / *servers;
        let pause_us = match *unreached % *servers {
            0 => jitter.pause_us(rounds as u32, least_us, ROUND_PAUSE_US_MAX),
            _ => 0,
        };
        self.next_at = now.after_us(pause_us);
    }

    /// A server was reached.
    pub(super) fn server_reached(&mut self) {
        self.unreached.0 = 0;
    }

    /// Has the session request no more maps.
    pub(super) fn close(&mut self) {
        self.closed = true;
        self.needed = false;
    }

    /// The frame of the request in flight, if it is overdue.
    pub(super) fn overdue_request(&self, now: Time) -> Option<Handle> {
        self.request_in_flight.filter(|(_, due)| now >= *due).map(|(in_flight, _)| in_flight)
    }

    /// Whether a request must be sent now. If it must be sent later, or is in flight, a timer is set.
    pub(super) fn is_request_due(&self, now: Time, timers: &mut Timers) -> bool {
        let due = match self.request_in_flight {
            Some((_, due)) => due,
            None if !self.needed => return false,
            None if now < self.next_at => self.next_at,
            None => return true,
        };
        timers.arm(Subject::Maintenance, due);
        false
    }

    /// The number of requests before the next one, which chooses its server.
    pub(super) fn turn(&self) -> usize {
        self.request_count
    }

    /// The next request.
    pub(super) fn next_request(&mut self) -> MapGet {
        self.request_count = self.request_count.wrapping_add(1);
        MapGet { since: if self.needs_complete_map { MapEpoch(0) } else { self.map.epoch() } }
    }

    /// Records that the frame `in_flight` requests the map.
    pub(super) fn record_request(
        &mut self,
        now: Time,
        in_flight: Handle,
        attempt_us: u64,
        timers: &mut Timers,
    ) {
        // Any server answers it at once, and there are other servers.
        let due = now.after_us(attempt_us.min(2 * SILENT_US));
        self.request_in_flight = Some((in_flight, due));
        timers.arm(Subject::Maintenance, due);
    }

    /// The request in flight has ended.
    pub(super) fn end_request(&mut self) {
        self.request_in_flight = None;
    }

    /// Records a `Map` message that answers a request sent at `sent`, and that was applied.
    pub(super) fn record_answer(&mut self, now: Time, sent: Time) {
        self.needed = false;
        self.failures = 0;
        self.refusals = 0;
        self.next_at = now.after_us(MAP_QUESTION_US_MIN);
        self.answered_question = self.answered_question.max(Some(sent));
    }

    /// Records a failed request.
    pub(super) fn record_failure(&mut self, now: Time, trouble: AttemptFailure, jitter: &mut Jitter) {
        self.request_in_flight = None;
        self.failures = self.failures.saturating_add(1);
        self.last = Some(trouble);
        let rest = jitter.pause_us(self.failures, MAP_QUESTION_US_MIN, PAUSE_US_MAX);
        self.next_at = now.after_us(rest);
    }

    /// Counts a server that refuses this client. Returns whether all endpoints refuse it, and no map names other servers.
    pub(super) fn is_refused_everywhere(&mut self, failure: &Failure<'static>, endpoints: usize) -> bool {
        if self.map.epoch() != MapEpoch(0) || failure.advice() != Advice::ReportToUser {
            return false;
        }
        self.refusals += 1;
        self.refusals >= endpoints
    }

    /// Counts a server that accepts this client but refuses to return the map. A token may be newer than the map of that server, so the session
    /// repeats the request a few times. Returns whether it must stop.
    pub(super) fn is_request_hopeless(&mut self, failure: &Failure<'static>, endpoints: usize) -> bool {
        if failure.advice() != Advice::ReportToUser {
            return false;
        }
        self.refusals += 1;
        self.refusals >= endpoints + MAP_REFUSALS_PASSING
    }

    /// Has the next request ask for the complete map, because changes did not apply.
    pub(super) fn request_complete_map(&mut self) {
        self.needs_complete_map = true;
    }

    /// Applies encoded changes. Returns the map before, if they led to a newer one.
    pub(super) fn apply(&mut self, encoded: &[u8]) -> Option<Arc<ClusterMap>> {
        let next = self.map.apply(&MapDelta::decode(encoded).ok()?).ok()?;
        self.needs_complete_map = false;
        Some(std::mem::replace(&mut self.map, Arc::new(next)))
    }

    /// The address of the next known server that is not being connected to, or any if there is none, to which the session connects to request the
    /// map.
    pub(super) fn next_server(
        &mut self,
        now: Time,
        settings: &SessionSettings,
        is_known: impl Fn(&str) -> bool,
        timers: &mut Timers,
    ) -> Option<Arc<str>> {
        let nodes = self.map.nodes().flat_map(|node| {
            std::iter::once(node.manager()).chain(node.instances().map(|instance| instance.addr))
        });
        let servers: Vec<&str> = settings.endpoints.iter().map(|endpoint| &**endpoint).chain(nodes).collect();
        // If this connection does not open, or its server is silent for a while, the next server is tried: a machine that has failed or is paused
        // sends nothing at all.
        self.next_at = now.after_us(settings.connect_us.min(SILENT_US));
        timers.arm(Subject::Maintenance, self.next_at);
        let count = servers.len();
        self.unreached.1 = count.max(1);
        for step in 0..count {
            let address = servers[(self.request_count + step) % count];
            if !is_known(address) || step + 1 == count {
                self.request_count = (self.request_count + step + 1) % count;
                return Some(address.into());
            }
        }
        None
    }
}
