//! The pure instance as the service of a reactor.

use std::collections::BTreeMap;
use std::net::IpAddr;

use tokio::sync::mpsc;
use tracing::{error, info, warn};
use zerohop_control::agent::LogEndQuery;
use zerohop_control::command::{LogEnd, LogReport};
use zerohop_disk::{FileShortage, FileSizeLimit};
use zerohop_engine::disk::Disk;
use zerohop_monitoring::Histogram;
use zerohop_partition::Token;
use zerohop_placement::{ClusterMap, Durability};
use zerohop_reactor::NodeAddresses;
use zerohop_reactor::{
    ClockSample, CloseReason, ConnectionId, Flow, ForeignResult, Maintenance, ReactorCounters, Replies,
    RequestToken, Service,
};
use zerohop_shard::{ClockReading, Identity, Instance};
use zerohop_wire::auth::Access;
use zerohop_wire::ids::{KeyspaceId, PartitionEpoch, RequestId};
use zerohop_wire::messages::{Admin, EntryName, Hello, HelloAck, PeerBody, PeerMessage};
use zerohop_wire::{AuthFault, BadRequestReason, Envelope, Failure, Message};

use super::gateway::{Gateway, InstanceContext};
use super::latencies::{OperationClass, OperationLatencies};
use super::links::Links;
use super::notice::{Figures, InstanceMessage, InstanceNotice};
use super::outlet::{Outlet, OutletEffects};
use super::shares::{TokenShares, waits};
use super::stage_waits::StageWaits;
use super::timestamp_bounds::TimestampBounds;
use super::watches::ClientWatch;
use crate::access::permits_request;
use crate::control_job::{ControlJob, ReplyTo};
use crate::limits::{FAILED_LOGS_SEARCH_INTERVAL_MS, JOBS_RETRY_MS, REFUSALS_LOG_INTERVAL_MS};

/// The service; see the module.
#[derive(Debug)]
pub(crate) struct InstanceService<D: Disk> {
    instance: Instance<D>,
    /// The index of this instance in the node, from zero.
    instance_index: usize,
    gateway: Box<dyn Gateway<D>>,
    outlet: Outlet,
    manager: mpsc::Sender<ControlJob>,
    /// Control requests that the manager has not answered, by the number of the forwarded request.
    forwarded: BTreeMap<u64, RequestToken>,
    next_request_number: u64,
    batch: BatchFigures,
    refusals: Refusals,
    disk_log: DiskLog,
    /// The time of the last batch, on the reactor's clock.
    now_ms: u64,
    nodes: NodeAddresses,
    /// The shares of tokens in limited resources.
    shares: TokenShares,
    #[cfg(debug_assertions)]
    test_break: super::test_break::TestBreak,
}

/// The requests of this batch, and those of all batches with their times.
#[derive(Debug)]
struct BatchFigures {
    requests: u64,
    all_requests: Histogram,
    all_us: Histogram,
}

/// The reply to a Redis client whose token was revoked, before its connection is closed.
const TOKEN_REVOKED: &[u8] =
    b"-NOAUTH the token was revoked: ask the cluster's administrator for another one\r\n";
/// The reply to a Redis client whose token has expired.
const TOKEN_EXPIRED: &[u8] =
    b"-NOAUTH the token has expired: ask the cluster's administrator for another one\r\n";

/// Maximum number of flushes in one turn: units that waited continue with what the first flush has made durable, and may write.
const FLUSHES_PER_TURN_MAX: usize = 4;

impl<D: Disk> InstanceService<D> {
    pub(crate) fn new(
        instance: Instance<D>,
        (place, gateway): (usize, Box<dyn Gateway<D>>),
        timestamp_bounds: TimestampBounds,
        (manager, words): (mpsc::Sender<ControlJob>, Option<mpsc::Sender<InstanceMessage>>),
    ) -> Self {
        let Identity { cluster, instance: me, .. } = instance.identity();
        let outlet = Outlet {
            answered: Vec::new(),
            links: Links::new(cluster, me),
            timestamp_bounds,
            manager_messages: words,
            jobs: manager.clone(),
            this_member: me,
            latencies: OperationLatencies::new(),
            stage_waits: StageWaits::default(),
        };
        InstanceService {
            instance,
            instance_index: place,
            gateway,
            outlet,
            manager,
            forwarded: BTreeMap::new(),
            next_request_number: 0,
            batch: BatchFigures { requests: 0, all_requests: Histogram::new(), all_us: Histogram::new() },
            refusals: Refusals::default(),
            disk_log: DiskLog::default(),
            now_ms: 0,
            nodes: NodeAddresses::default(),
            shares: TokenShares::default(),
            #[cfg(debug_assertions)]
            test_break: super::test_break::TestBreak::from_environment(),
        }
    }

    /// Calls the gateway with this instance.
    fn with_gateway<R>(
        &mut self,
        now: ClockSample,
        replies: &mut Replies<'_>,
        call: impl FnOnce(&mut dyn Gateway<D>, &mut InstanceContext<'_, '_, D>) -> R,
    ) -> R {
        let InstanceService { instance, outlet, gateway, .. } = self;
        call(&mut **gateway, &mut InstanceContext { instance, now, replies, outlet })
    }

    /// Announces that units may soon have keys in several partitions.
    pub(crate) fn await_cross_partition(&mut self) {
        self.gateway.await_cross_partition();
    }

    pub(crate) fn into_instance(self) -> Instance<D> {
        self.instance
    }

    /// Forwards a control request to the manager, which answers it by [`InstanceNotice::Admin`].
    fn forward(&mut self, token: RequestToken, encoded: &[u8], replies: &mut Replies<'_>) {
        let reply = ReplyTo::Instance {
            instance_index: self.instance_index,
            request_number: self.next_request_number,
        };
        let access = replies.access(token.connection);
        match self.manager.try_send(ControlJob { encoded: encoded.to_vec(), access, reply }) {
            Ok(()) => {
                self.forwarded.insert(self.next_request_number, token);
                self.next_request_number += 1;
            }
            Err(_) => replies.fail(token, PartitionEpoch(0), Failure::Busy { retry_after_ms: JOBS_RETRY_MS }),
        }
    }

    /// The ends of the requested logs; zero for a log that is not the complete state.
    fn log_ends(&mut self, requested: &[LogEndQuery]) -> Vec<LogReport> {
        let keys: Vec<_> = requested.iter().map(|one| (one.keyspace, one.partition)).collect();
        let ends: BTreeMap<_, _> = self.instance.log_ends(&keys).into_iter().collect();
        let of = |one: &LogEndQuery| {
            let found = ends.get(&(one.keyspace, one.partition))?;
            let last = if found.is_complete { found.last } else { EntryName::default() };
            Some(LogReport {
                keyspace: one.keyspace,
                partition: one.partition,
                epoch: one.epoch,
                instance: one.instance,
                end: LogEnd { epoch: u64::from(last.epoch), index: last.index },
                intact: found.is_intact,
            })
        };
        requested.iter().filter_map(of).collect()
    }

    fn figures(&mut self, records_waits: bool, now: ClockSample, replies: &Replies<'_>) -> Box<Figures> {
        let mut watches = self.instance.watches(time(now));
        Box::new(Figures {
            stats: self.instance.stats(),
            watches: ClientWatch::all(&mut watches, replies),
            keyspace_watches: watches.keyspaces,
            counters: replies.counters().clone(),
            foreign_commands: self.gateway.commands(),
            connections: replies.connections(),
            links: self.outlet.links.open(),
            peer_dropped: self.outlet.links.dropped(),
            batch_requests: self.batch.all_requests,
            batch_us: self.batch.all_us,
            operations_us: self.outlet.latencies.histograms(),
            stage_waits_us: records_waits.then(|| self.outlet.stage_waits.record(now.elapsed_ms)),
        })
    }
}

impl<D: Disk> Service for InstanceService<D> {
    type Notice = InstanceNotice;

    fn turn_begins(&mut self, now: ClockSample) -> u64 {
        self.outlet.stage_waits.turn_begins(now.elapsed_ms)
    }

    fn connection_begins(&mut self, arrived_us: u64) {
        self.outlet.stage_waits.connection_begins(arrived_us);
    }

    fn answers_sent(&mut self, replies: &Replies<'_>) {
        let has_unsent = |connection| replies.has_unsent(ConnectionId::from_u64(connection));
        self.outlet.stage_waits.answers_sent(has_unsent);
    }

    fn hello(
        &mut self,
        connection: ConnectionId,
        hello: &Hello<'_>,
        now: ClockSample,
    ) -> Result<HelloAck, Failure<'static>> {
        self.instance.hello(connection.to_u64(), hello, time(now))
    }

    fn request(
        &mut self,
        token: RequestToken,
        envelope: &Envelope,
        message: Message<'_>,
        now: ClockSample,
        replies: &mut Replies<'_>,
    ) {
        if self.batch.requests == 0 {
            self.outlet.latencies.begin_batch();
        }
        self.batch.requests += 1;
        let access = replies.access(token.connection);
        if access != Access::All
            && let Err(failure) = permits_request(self.instance.map(), access, envelope.keyspace, &message)
        {
            return replies.fail(token, PartitionEpoch(0), failure);
        }
        if access != Access::All
            && let Err(failure) = self.shares.consume(access, envelope, &message, now.elapsed_ms)
        {
            return replies.fail(token, PartitionEpoch(0), failure);
        }
        if let Some((bytes, count)) = waits(&message)
            && !replies.may_wait(token, bytes, count)
        {
            return replies.fail(token, PartitionEpoch(0), BadRequestReason::TooMuchWaits.into());
        }
        if let Message::Admin(admin) = message {
            return self.forward(token, admin.encoded, replies);
        }
        let to = Token { connection: token.connection.to_u64(), request: token.request };
        let class = OperationClass::of(&message);
        self.outlet.latencies.begin(to, class);
        let map = self.instance.map();
        self.outlet.stage_waits.begin(to, class, || is_synced(map, envelope.keyspace));
        let mut effects = OutletEffects { replies, outlet: &mut self.outlet, now };
        self.instance.request(time(now), to, envelope, &message, &mut effects);
        self.outlet.latencies.end_call();
        self.outlet.stage_waits.end_step();
    }

    fn is_node(&mut self, address: IpAddr) -> bool {
        self.nodes.has(self.instance.map(), address)
    }

    fn time_matters(&self) -> bool {
        self.instance.time_matters()
    }

    fn peer(
        &mut self,
        connection: ConnectionId,
        envelope: &Envelope,
        message: Message<'_>,
        now: ClockSample,
        replies: &mut Replies<'_>,
    ) {
        if let Message::Peer(PeerMessage { from, body, .. }) = &message {
            match body {
                PeerBody::UnitQuery(query) => {
                    return self.with_gateway(now, replies, |gateway, at| {
                        gateway.handle_unit_piece((connection, *from), envelope, query, at)
                    });
                }
                PeerBody::UnitReply(outcome) => {
                    return self.with_gateway(now, replies, |gateway, at| {
                        gateway.handle_outcome_piece((connection, *from), outcome, at)
                    });
                }
                _ => {}
            }
        }
        // No client is answered: the token names no connection.
        let to = Token { connection: u64::MAX >> 1, request: RequestId(0) };
        self.outlet.stage_waits.set_peer_message(true);
        let mut effects = OutletEffects { replies, outlet: &mut self.outlet, now };
        self.instance.request(time(now), to, envelope, &message, &mut effects);
        self.outlet.stage_waits.set_peer_message(false);
    }

    fn peer_connected(
        &mut self,
        connection: ConnectionId,
        answer: Result<&HelloAck, Failure<'_>>,
        _now: ClockSample,
        replies: &mut Replies<'_>,
    ) {
        self.outlet.links.peer_connected(connection, answer, replies);
    }

    fn notice(&mut self, notice: InstanceNotice, now: ClockSample, replies: &mut Replies<'_>) -> Flow {
        match notice {
            InstanceNotice::Map { delta, done } => {
                let mut effects = OutletEffects { replies, outlet: &mut self.outlet, now };
                let result = self.instance.apply_map(time(now), &delta, &mut effects);
                self.outlet.links.follow(self.instance.map(), replies);
                self.with_gateway(now, replies, |gateway, at| gateway.map_changed(at));
                // Requests that wait with a token that is no longer valid end now, not when they are answered.
                let map = self.instance.map();
                replies.end_tokens(|id| match map.token(id) {
                    Ok(_) => None,
                    Err(AuthFault::TokenExpired) => Some(TOKEN_EXPIRED),
                    Err(_) => Some(TOKEN_REVOKED),
                });
                self.shares.follow(map);
                // A caller that has stopped waiting learns this from its next query.
                drop(done.send(result));
            }
            InstanceNotice::Figures { records_waits, reply_to: requester } => {
                drop(requester.send(self.figures(records_waits, now, replies)))
            }
            InstanceNotice::LogEnds { logs: requested, reply_to: requester } => {
                drop(requester.send(self.log_ends(&requested)))
            }
            InstanceNotice::Admin { request_number: query, encoded } => {
                // The request is gone if this instance has answered it itself, before its end.
                if let Some(token) = self.forwarded.remove(&query) {
                    let answer = Message::AdminAnswer(Admin { encoded: &encoded });
                    replies.answer(token, PartitionEpoch(0), &answer);
                }
            }
            InstanceNotice::Siblings(siblings, newest) => {
                self.instance.not_before(newest);
                self.gateway.set_siblings(siblings);
            }
            InstanceNotice::Reachability(reachability) => self.gateway.set_reachability(reachability),
            InstanceNotice::Run(units) => {
                self.with_gateway(now, replies, |gateway, at| gateway.run_units(&units, at))
            }
            InstanceNotice::Ran(replied) => {
                self.with_gateway(now, replies, |gateway, at| gateway.units_completed(&replied, at))
            }
            InstanceNotice::CrossPartitionRunner(cross_partition) => {
                self.gateway.set_cross_partition(cross_partition)
            }
            InstanceNotice::CrossPartitionReply { connection, ticket, reply } => {
                self.with_gateway(now, replies, |gateway, at| {
                    gateway.cross_partition_reply((connection, ticket), &reply, at)
                });
            }
            InstanceNotice::Yield(done) => self.gateway.yield_writes(done, now),
            InstanceNotice::EndClients(done) => self.gateway.end(done, replies),
            InstanceNotice::Stop => return Flow::Stop,
            #[cfg(test)]
            InstanceNotice::Panic => panic!("a fault planted by a test"),
        }
        Flow::Continue
    }

    fn next_deadline_ms(&self) -> Option<u64> {
        let has_answers = !self.outlet.answered.is_empty();
        let clients_ms =
            if has_answers { Some(self.now_ms) } else { self.gateway.next_deadline_ms(self.now_ms) };
        let clients_ms = clients_ms.unwrap_or(u64::MAX);
        Some(self.instance.next_tick_ms().min(clients_ms))
    }

    fn tick(&mut self, now: ClockSample, replies: &mut Replies<'_>) {
        // Due work is done at the end of the batch, which this call starts.
        self.refusals.log_refusals(now, replies.counters());
    }

    fn end_of_batch(&mut self, now: ClockSample, replies: &mut Replies<'_>) {
        self.now_ms = now.elapsed_ms;
        if let Some(timestamp_bound) = self.outlet.timestamp_bounds.take_synced_bound() {
            self.instance.timestamp_bound_synced(timestamp_bound);
        }
        #[cfg(debug_assertions)]
        self.test_break.check_file(now.elapsed_ms, &mut self.instance);
        self.with_gateway(now, replies, |gateway, at| gateway.step(at));
        for _ in 0..FLUSHES_PER_TURN_MAX {
            let mut effects = OutletEffects { replies, outlet: &mut self.outlet, now };
            self.instance.end_of_batch(time(now), &mut effects);
            if !self.with_gateway(now, replies, |gateway, at| gateway.send_answers(at)) {
                break;
            }
        }
        self.disk_log.report(now, &self.instance);
        self.with_gateway(now, replies, |gateway, at| gateway.send(at));
        self.outlet.links.call(self.instance.map(), now, replies);
        let requests = std::mem::take(&mut self.batch.requests);
        if requests > 0 || self.outlet.latencies.has_ended() {
            let duration_us = self.outlet.latencies.end_batch();
            if requests > 0 {
                self.batch.all_requests.count(requests);
                self.batch.all_us.count(duration_us);
            }
        }
    }

    fn maintain(&mut self, now: ClockSample) -> Maintenance {
        if self.instance.maintain(time(now)) { Maintenance::More } else { Maintenance::Done }
    }

    fn closed(&mut self, connection: ConnectionId) {
        self.outlet.links.closed(connection, self.now_ms);
        self.outlet.latencies.closed(connection.to_u64());
        self.outlet.stage_waits.closed(connection.to_u64());
        self.instance.disconnected(connection.to_u64());
        self.gateway.closed(connection, &mut self.instance, self.now_ms);
    }

    fn stopping(&mut self, now: ClockSample, replies: &mut Replies<'_>) {
        for (_, token) in std::mem::take(&mut self.forwarded) {
            // Not `Unavailable`, because the client would repeat the request, which may well be done.
            replies.fail(token, PartitionEpoch(0), Failure::TimedOut { version: Default::default() });
        }
        let mut effects = OutletEffects { replies, outlet: &mut self.outlet, now };
        self.instance.stop(time(now), &mut effects);
        self.with_gateway(now, replies, |gateway, at| gateway.send_answers(at));
        self.with_gateway(now, replies, |gateway, at| gateway.stop(at));
    }

    fn foreign(
        &mut self,
        connection: ConnectionId,
        bytes: &[u8],
        now: ClockSample,
        replies: &mut Replies<'_>,
        out: &mut Vec<u8>,
    ) -> ForeignResult {
        if self.batch.requests == 0 {
            self.outlet.latencies.begin_batch();
        }
        self.batch.requests += 1;
        self.with_gateway(now, replies, |gateway, at| gateway.receive(connection, bytes, at, out))
    }
}

/// Logs the state of the disk when it changes.
#[derive(Debug, Default)]
struct DiskLog {
    /// The log says that the disk is full.
    is_full: bool,
    /// The log says that the disk has failed: once, since nothing but a start ends that.
    has_failed: bool,
    /// [`Instance::disk_failures`] at the latest search for failed logs.
    failures: u64,
    search_again_ms: u64,
}

impl DiskLog {
    fn report<D: Disk>(&mut self, now: ClockSample, instance: &Instance<D>) {
        let is_full = !instance.has_disk_space();
        if std::mem::replace(&mut self.is_full, is_full) != is_full {
            let instance = instance.identity().instance.0;
            let limit = FileSizeLimit::that_refused().map(|limit| limit.to_string());
            let limit = limit.or_else(|| FileShortage::now().map(|shortage| shortage.to_string()));
            match (is_full, limit) {
                (true, None) => warn!(
                    instance,
                    "the disk is full: this instance refuses new writes; other replicas take over where possible"
                ),
                (true, Some(limit)) => warn!(
                    instance,
                    "this instance refuses new writes; other replicas take over where possible: {limit}"
                ),
                (false, _) => info!(instance, "the disk has room again"),
            }
        }
        let failures = instance.disk_failures();
        if self.has_failed || failures == self.failures || now.elapsed_ms < self.search_again_ms {
            return;
        }
        self.failures = failures;
        self.search_again_ms = now.elapsed_ms + FAILED_LOGS_SEARCH_INTERVAL_MS;
        let Some(failed) = instance.failed_logs() else { return };
        self.has_failed = true;
        error!(
            instance = instance.identity().instance.0,
            keyspace = failed.keyspace.0,
            partition = failed.partition.0,
            copies = failed.copies,
            reason = failed.reason,
            "the disk has failed: copies whose log cannot be written accept no writes before the node is started again"
        );
    }
}

/// Logs connections that were refused or closed because of their behaviour: seldom, so that their clients cannot fill the log.
#[derive(Debug, Default)]
struct Refusals {
    logged: u64,
    log_again_ms: u64,
}

impl Refusals {
    fn log_refusals(&mut self, now: ClockSample, counters: &ReactorCounters) {
        if now.elapsed_ms < self.log_again_ms {
            return;
        }
        let endings = [
            CloseReason::Misbehaved,
            CloseReason::TooMany,
            CloseReason::Displaced,
            CloseReason::NotProved,
            CloseReason::HelloTimeOut,
            CloseReason::FrameTimeOut,
            CloseReason::SendTimeOut,
            CloseReason::Flooded,
        ];
        let refused = endings.iter().map(|why| counters.ended(*why)).sum();
        if refused > self.logged {
            warn!(
                connections = refused - self.logged,
                misbehaved = counters.ended(CloseReason::Misbehaved),
                too_many = counters.ended(CloseReason::TooMany),
                displaced = counters.ended(CloseReason::Displaced),
                not_proved = counters.ended(CloseReason::NotProved),
                "connections were refused or closed for what they did; counts by reason are since the start"
            );
            self.logged = refused;
            self.log_again_ms = now.elapsed_ms + REFUSALS_LOG_INTERVAL_MS;
        }
    }
}

/// Whether answers of a keyspace wait for flushes.
fn is_synced(map: &ClusterMap, keyspace: KeyspaceId) -> bool {
    map.keyspace(keyspace).is_some_and(|found| found.config().durability == Durability::Sync)
}

fn time(now: ClockSample) -> ClockReading {
    ClockReading { unix_ms: now.unix_ms, elapsed_ms: now.elapsed_ms }
}
