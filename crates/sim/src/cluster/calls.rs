//! The clients: their turns, their calls, and the results.

use std::sync::Arc;

use zerohop_base::time::Time;
use zerohop_session::{
    Coalescing, Collect, Reply, SessionEffect, SessionError, SessionRequest, SessionSettings,
};
use zerohop_wire::ids::{InstanceId, KeyspaceId, PartitionEpoch, PartitionId, RequestId, Timestamp};
use zerohop_wire::messages::{Hello, Message, Query, RecordRead};
use zerohop_wire::{AbortReason, DecodeResult, Decoder, Encoder, Envelope, Failure};

use super::blobs::PlainBlobRun;
use super::host::{host_and_port, instance_address};
use super::joined_deltas::are_regrouped_and_split;
use super::program_clients::ProgramClients;
use super::record_batches::RecordBatches;
use super::redis::PendingCrossPartitionUnits;
use super::scans::PUTS_FROM;
use super::transactions::OPERATION_TOKENS_FROM;
use super::watchers::Watchers;
use super::without_epochs::without_epochs;
use super::{ClusterEvent, ClusterPhase, SimulatedCluster};
use crate::client::{ClientLife, PROCEDURES_FROM};
use crate::history::{ClientCall, OperationEnd as CallEnd};
use crate::network::{LinkEnd, Opener};
use crate::node::{CLUSTER, FEATURES, carries_writes};
use crate::procedures::ClientProcedures;
use crate::streams::Draw;
use crate::workload::draw::KEYS;
use crate::workload::operation::{RecordAction, RecordCall};

const MS: u64 = 1_000;

/// While all clients use one keyspace, they rest so many times shorter.
const BUSIER: u64 = 3;

/// When extra readers start after a change of primary: while its leases may be valid, and later.
const READ_AFTER_US: [u64; 6] = [MS, 50 * MS, 120 * MS, 200 * MS, 300 * MS, 450 * MS];

/// For how long such a reader waits for its answer.
const READER_US: u64 = 1_000 * MS;

/// Outside of fault windows clients rest so many times longer.
const QUIET_PAUSE_FACTOR: u64 = 300;

impl SimulatedCluster {
    /// A client starts, as the first in its place or in place of a dead one.
    pub(super) fn begin_client(&mut self, client: usize, life: u32) {
        let now = self.now();
        let any = self.streams.client.below(self.hosts.len() as u64) as usize;
        let endpoints = [instance_address(any, 0), instance_address(0, 0), instance_address(1, 0)];
        let mut settings = SessionSettings::new(&endpoints, self.streams.client.next_u64());
        settings.attempt_us = *self.streams.client.pick(&[100 * MS, 300 * MS, 1_000 * MS]);
        settings.connect_us = *self.streams.client.pick(&[50 * MS, 500 * MS]);
        settings.quiet_us = *self.streams.client.pick(&[200 * MS, 1_000 * MS]);
        settings.backoff_us_max = 200 * MS;
        settings.window_frames = *self.streams.client.pick(&[2, 1024]);
        if self.scenario.compresses {
            settings.compress_from_bytes = Some(64);
        }
        settings.endpoints = endpoints.iter().map(|address| Arc::from(address.as_str())).collect();
        let procedures =
            ClientProcedures::new(self.streams.client.fork(u64::from(life) << 32 | client as u64));
        let begun = ClientLife::new(settings, procedures, life);
        match self.clients.get_mut(client) {
            Some(place) => *place = begun,
            None => self.clients.push(begun),
        }
        self.trace.record(now, format_args!("c{client} begins, life {life}"));
        if self.is_of_node(client) {
            return;
        }
        if self.programs.is_on() {
            return ProgramClients { world: self }.begin(client);
        }
        for _ in 0..self.scenario.depth {
            let soon = self.streams.workload.below(20 * MS);
            self.event_queue.at(now.after_us(soon), ClusterEvent::Call { client, life });
        }
    }

    /// Whether a client belongs to a node, which executes Redis commands over several partitions with it.
    fn is_of_node(&self, client: usize) -> bool {
        client >= self.scenario.clients
    }

    /// A client dies: its open calls may or may not have taken effect, and are not retried.
    pub(super) fn kill_client(&mut self, client: usize) {
        let now = self.now();
        let life = self.clients[client].life;
        self.trace.record(now, format_args!("c{client} dies"));
        for link in self.clients[client].open_links() {
            self.network.close(now, link, LinkEnd::Opener);
        }
        for call in std::mem::take(&mut self.clients[client].calls) {
            self.end_call(call, CallEnd::Unknown);
        }
        self.drop_operations(client);
        self.drop_blob_operations(client);
        self.drop_snapshots(client);
        self.compares.drop_client(client);
        self.scans.drop_client(client);
        Watchers { world: self }.drop_client(client);
        self.count_reads(client);
        self.begin_client(client, life + 1);
    }

    pub(super) fn schedule_client(&mut self, client: usize, at: Time) {
        let found = &mut self.clients[client];
        let at = at.max(found.paused_until);
        if found.turn_at.is_none_or(|turn_at| turn_at > at) {
            found.turn_at = Some(at);
            self.event_queue.at(at, ClusterEvent::RunClient(client));
        }
    }

    pub(super) fn run_client(&mut self, client: usize) {
        let now = self.now();
        let found = &mut self.clients[client];
        if found.turn_at != Some(now) {
            return;
        }
        found.turn_at = None;
        if now < found.paused_until {
            return self.schedule_client(client, now);
        }
        let before = Arc::clone(found.session.map());
        let effects = found.run_turn(now);
        if are_regrouped_and_split(&before, found.session.map()) {
            self.coverage.blob("maps: clients that learn of a group's change and its split at once");
        }
        for effect in effects {
            self.perform_effect(client, effect);
        }
        self.handle_scan_reports();
        self.handle_comparison_reports();
        Watchers { world: self }.handle_reports();
        self.handle_interactive_reports();
        self.handle_snapshot_reports();
        self.handle_blob_reports();
        PlainBlobRun { world: self }.handle_reports();
        PendingCrossPartitionUnits { world: self }.handle_replies();
        if let Some(at) = self.clients[client].next_turn_due() {
            self.schedule_client(client, at.max(now.after_us(1)));
        }
    }

    /// The instance that listens at an address, by its place among all instances.
    fn listener(&self, address: &str) -> Option<usize> {
        let (host, port) = host_and_port(address)?;
        let (host, slot) = (self.hosts.get(host)?, port.checked_sub(7401)?);
        let listens = host.is_up && host.slots.get(slot)?.instance.is_some();
        listens.then_some(host.instance_range.start + slot)
    }

    fn perform_effect(&mut self, client: usize, effect: SessionEffect<usize>) {
        let now = self.now();
        let life = self.clients[client].life;
        match effect {
            SessionEffect::Connect { connection, address } => {
                let listener = self.listener(&address);
                let link = self.network.open(now, Opener::Client { client, life, connection }, listener);
                self.trace.record(now, format_args!("c{client} opens {link} to {address}"));
                self.clients[client].opens(connection, link);
            }
            SessionEffect::Send { connection, mut head, tail } => {
                let Some(link) = self.clients[client].link(connection) else { return };
                let length = head.len();
                head.extend_from_slice(&tail);
                self.trace.record_frequent(
                    now,
                    format_args!("c{client} sends {} bytes on {link}", head.len()),
                    link.0,
                );
                if self.scenario.traits.names_no_epoch && client % 2 == 1 {
                    self.network.send(now, link, LinkEnd::Node, &without_epochs(&head));
                } else {
                    self.network.send(now, link, LinkEnd::Node, &head);
                }
                self.draw_repeats(client, self.network.instance(link), &head);
                head.truncate(length);
                self.clients[client].session.recycle(head);
            }
            SessionEffect::Close { connection } => {
                if let Some(link) = self.clients[client].closes(connection) {
                    self.trace.record(now, format_args!("c{client} closes {link}"));
                    self.network.close(now, link, LinkEnd::Opener);
                }
            }
            SessionEffect::Complete { token, result } if token >= PROCEDURES_FROM => {
                self.count_procedure_result(&result);
                self.clients[client].procedures.complete(token - PROCEDURES_FROM, result);
                let soon = self.streams.schedule.below(20);
                self.schedule_client(client, now.after_us(1 + soon));
            }
            SessionEffect::Complete { token, result } if token >= PUTS_FROM => {
                self.clients[client].calls.retain(|call| *call != token - PUTS_FROM);
                self.end_call(token - PUTS_FROM, CallEnd::of(result));
            }
            SessionEffect::Complete { token, result } if token >= OPERATION_TOKENS_FROM => {
                if let Err(SessionError::Aborted { reason: AbortReason::Unknown, .. }) = &result {
                    self.coverage.commit("unknown transactions that come after all");
                }
                self.handle_request_end(token, result)
            }
            SessionEffect::Complete { token, result } => {
                self.clients[client].calls.retain(|call| *call != token);
                self.end_call(token, CallEnd::of(result));
                self.call_again(client, life);
            }
        }
    }

    /// Counts what only the requests of procedures show.
    fn count_procedure_result(&mut self, result: &Result<Reply, SessionError>) {
        match result {
            Ok(Reply::UnconfirmedReads { is_one_moment: true, .. }) => {
                self.coverage.blob("blobs: reads locked")
            }
            Ok(Reply::UnconfirmedReads { .. }) => self.coverage.blob("blobs: reads to confirm"),
            Err(SessionError::Answer { failure: Failure::StaleBlob { .. } }) => {
                self.coverage.blob("blobs: generations refused");
            }
            Err(SessionError::Aborted { reason: AbortReason::Unknown, .. }) => {
                self.coverage.commit("unknown transactions that come after all");
            }
            _ => {}
        }
    }

    /// The keyspace that most calls use at this time.
    pub(super) fn focus(&self, now: Time) -> Option<KeyspaceId> {
        self.focus
            .filter(|(_, until)| self.phase == ClusterPhase::Faults && now < *until)
            .map(|(keyspace, _)| keyspace)
    }

    /// The next call of a client comes after a rest, or with the next fault window.
    pub(super) fn call_again(&mut self, client: usize, life: u32) {
        let now = self.now();
        let rest_us = self.streams.workload.wait(self.scenario.think_us);
        let rest_us = if self.focus(now).is_some() { rest_us / BUSIER } else { rest_us };
        let mut at = now.after_us(rest_us);
        if self.phase == ClusterPhase::Faults && !self.scenario.is_in_fault_window(at) {
            let later = now.after_us(rest_us.saturating_mul(QUIET_PAUSE_FACTOR));
            let window =
                self.scenario.next_fault_window(now).map_or(later, |window| window.after_us(rest_us));
            at = later.min(window.max(at));
        }
        self.event_queue.at(at, ClusterEvent::Call { client, life });
    }

    /// Schedules copies of some write frames, over connections of their own.
    fn draw_repeats(&mut self, client: usize, place: usize, bytes: &[u8]) {
        if self.phase != ClusterPhase::Faults || self.scenario.network.repeats == 0 || self.is_of_node(client)
        {
            return;
        }
        let decoder = Decoder::with_version(zerohop_wire::limits::VERSION_MAX, FEATURES);
        let mut rest = bytes;
        while let DecodeResult::Frame { frame, used } = decoder.decode(rest) {
            let mut scratch = Vec::new();
            let writes = frame.message(&mut scratch).is_ok_and(|message| carries_writes(&message));
            if writes && self.streams.network.chance(self.scenario.network.repeats, 1000) {
                let mut late_us = match self.streams.network.below(3) {
                    // Its partition has another primary by then.
                    0 => self.streams.network.below(4_000 * MS),
                    _ => self.streams.network.below(self.scenario.network.repeat_us + 1),
                };
                // Its session has expired by then.
                if let Some((from, until)) = self.scenario.client_pause
                    && self.now() < from
                    && self.streams.network.chance(1, 3)
                {
                    late_us += until.since_us(self.now());
                }
                let at = self.now().after_us(late_us);
                self.event_queue.at(
                    at,
                    ClusterEvent::Repeat {
                        instance_index: place,
                        frame: rest[..used].to_vec(),
                        waits: false,
                    },
                );
                // The second copy may take effect, whatever the client receives for the first.
                for call in &self.clients[client].calls {
                    self.calls_with_late_copy.insert(*call);
                }
                self.transacting.mark_may_repeat(client);
                self.blobs.mark_may_repeat(client);
            }
            rest = &rest[used..];
        }
    }

    pub(super) fn repeat(&mut self, place: usize, frame: &[u8], waits: bool) {
        let now = self.now();
        let Some((host, slot)) = self.locate_instance(place) else { return };
        if self.hosts[host].slots[slot].instance.is_none() || self.phase != ClusterPhase::Faults {
            return;
        }
        let link = self.network.open(now, Opener::CopiedFrames, Some(place));
        self.trace
            .record(now, format_args!("{link} delivers n{host}/{slot} a copy of {} bytes", frame.len()));
        let hello = Message::Hello(Hello {
            version_min: zerohop_wire::limits::VERSION_MIN,
            version_max: zerohop_wire::limits::VERSION_MAX,
            features: FEATURES,
            cluster: CLUSTER,
            map_epoch: self.watch.map.epoch(),
            proof_method: 0,
            nonce: [0; 32],
            name: "copy",
        });
        let mut bytes = Vec::new();
        let encoded = Encoder::default().encode(&Envelope::default(), &hello, &mut bytes);
        debug_assert!(encoded.is_ok(), "a greeting keeps every bound");
        bytes.extend_from_slice(frame);
        self.network.send(now, link, LinkEnd::Node, &bytes);
        if waits {
            self.event_queue.at(now.after_us(READER_US), ClusterEvent::HangUp(link));
            self.coverage.readers += 1;
        } else {
            self.network.close(now, link, LinkEnd::Opener);
            self.coverage.repeats += 1;
        }
    }

    /// A partition has a new primary: extra readers read from the old and the new one many times,
    /// as clients learn of the change late.
    pub(super) fn read_around(
        &mut self,
        (keyspace, partition): (KeyspaceId, PartitionId),
        at: &[(InstanceId, PartitionEpoch)],
    ) {
        let now = self.now();
        let key = self
            .watch
            .map
            .keyspace(keyspace)
            .and_then(|known| KEYS.into_iter().find(|key| known.partition(key.as_bytes()) == partition));
        let Some(key) = key.filter(|_| self.phase == ClusterPhase::Faults) else { return };
        let read = RecordRead { key: key.as_bytes(), query: Query::Lookup };
        let message = Message::Read { seen: Timestamp::ZERO, read };
        for (instance, epoch) in at {
            let Some((host, slot)) = self.host_of(*instance) else { continue };
            let place = self.hosts[host].instance_range.start + slot;
            for after_us in READ_AFTER_US {
                let envelope = Envelope {
                    request: RequestId(1),
                    keyspace,
                    partition,
                    partition_epoch: *epoch,
                    time_out_ms: 1_000,
                    read_lock: false,
                };
                let mut frame = Vec::new();
                let encoded = Encoder::newest_for(&message).encode(&envelope, &message, &mut frame);
                debug_assert!(encoded.is_ok(), "a short read keeps every bound");
                self.event_queue.at(
                    now.after_us(after_us),
                    ClusterEvent::Repeat { instance_index: place, frame, waits: true },
                );
            }
        }
    }

    /// A client makes a call.
    pub(super) fn call(&mut self, client: usize, life: u32) {
        if self.clients[client].life != life || self.phase >= ClusterPhase::Quiet {
            return;
        }
        let now = self.now();
        if now < self.clients[client].paused_until {
            let later = self.clients[client].paused_until;
            return self.event_queue.at(later, ClusterEvent::Call { client, life });
        }
        self.begins_compare(client);
        self.begins_scan(client);
        Watchers { world: self }.begin(client);
        RecordBatches { world: self }.begin(client);
        if self.begin_operation_if_due(client) {
            return;
        }
        let live: Vec<KeyspaceId> = self.watch.live(now).collect();
        if live.is_empty() {
            return self.event_queue.at(now.after_us(200 * MS), ClusterEvent::Call { client, life });
        }
        let keyspace = match self.scenario.is_hot && self.streams.workload.chance(1, 2) {
            true => live[0],
            false => *self.streams.workload.pick(&live),
        };
        let focus = self.focus(now).filter(|keyspace| live.contains(keyspace));
        let focus = focus.filter(|_| self.streams.workload.chance(3, 4));
        let keyspace = focus.unwrap_or(keyspace);
        let mut operation = self.draws.operation(keyspace);
        if focus.is_some() && self.streams.workload.chance(1, 3) {
            // Reads the keys that other clients write, from whichever instance this client believes
            // to be primary.
            operation = RecordCall::new(&operation.key, RecordAction::Lookup);
        }
        let limit_us = match (operation.is_wait(), self.phase) {
            (true, _) => self.streams.workload.between(20 * MS, 800 * MS),
            (_, ClusterPhase::Faults) if self.scenario.impatient && self.streams.workload.chance(1, 4) => {
                self.streams.workload.between(100, 100 * MS)
            }
            _ => self.streams.workload.between(1_500 * MS, 8_000 * MS),
        };
        let collecting = match self.scenario.batches && self.streams.workload.chance(1, 3) {
            true => Coalescing::Within(Collect { delay_us: 2_000, bytes: 2_000 }),
            false => Coalescing::AsKeyspace,
        };
        self.submit(client, keyspace, operation, (limit_us, collecting));
    }

    /// Every record is read once more, after all faults have ended.
    pub(super) fn read_everything(&mut self) {
        let now = self.now();
        let live: Vec<KeyspaceId> = self.watch.live(now).collect();
        for keyspace in live {
            for key in KEYS {
                let operation = RecordCall::new(key.as_bytes(), RecordAction::Lookup);
                self.submit(0, keyspace, operation, (8_000 * MS, Coalescing::Never));
            }
        }
        self.read_all_transactional();
    }

    fn submit(&mut self, client: usize, keyspace: KeyspaceId, operation: RecordCall, how: (u64, Coalescing)) {
        self.submit_as(0, client, keyspace, operation, how);
    }

    /// Submits a call under its number plus an offset as token.
    pub(super) fn submit_as(
        &mut self,
        tokens_from: usize,
        client: usize,
        keyspace: KeyspaceId,
        operation: RecordCall,
        (limit_us, collecting): (u64, Coalescing),
    ) {
        let now = self.now();
        let request = operation.with_wire(|wire| SessionRequest::record(keyspace, wire, limit_us));
        let Ok(request) = request else {
            return self.record_violation("world", format!("{operation} cannot be sent"));
        };
        let partition = self.watch.map.keyspace(keyspace).map(|found| found.partition(&operation.key));
        let partition = partition.unwrap_or_default();
        let call = self.history.calls.len();
        self.trace
            .record(now, format_args!("c{client} calls #{call} on {keyspace}/{partition}: {operation}"));
        let grace_us = if operation.is_wait() { zerohop_session::limits::WAIT_GRACE_US } else { 0 };
        self.coverage.called(&operation);
        self.history.calls.push(ClientCall {
            client: Some(client),
            keyspace,
            partition,
            operation,
            invoked: now,
            deadline: now.after_us(limit_us + grace_us),
            returned: None,
            end: CallEnd::Open,
            clock_ms: (0, u64::MAX),
        });
        let found = &mut self.clients[client];
        found.calls.push(call);
        found.session.submit(now, request.collecting(collecting), tokens_from + call);
        let soon = self.streams.schedule.below(20);
        self.schedule_client(client, now.after_us(soon));
    }

    fn end_call(&mut self, at: usize, end: CallEnd) {
        let now = self.now();
        let clock_ms = self.clock_bounds_ms(self.history.calls[at].invoked, now);
        let call = &mut self.history.calls[at];
        call.returned = Some(now);
        call.clock_ms = clock_ms;
        let may_repeat = self.calls_with_late_copy.remove(&at) && call.operation.is_write();
        call.end = match end {
            CallEnd::NotDone(_) if may_repeat => CallEnd::Unknown,
            end => end,
        };
        if !call.end.is_definite() {
            // It may take effect at any later time.
            call.clock_ms.1 = u64::MAX;
        }
        self.trace.record(now, format_args!("call #{at} ends: {}", call.end));
        self.coverage.operations += u64::from(call.end.is_definite());
        self.coverage.ended_call(call);
        let (keyspace, key) = (call.keyspace, &call.operation.key);
        match &call.end {
            CallEnd::Done(Reply::Value { version, length, bytes }) if *length == bytes.len() as u64 => {
                self.draws.saw(keyspace, key, *version, Some(bytes.to_vec()));
            }
            CallEnd::Done(Reply::List { version, .. }) => self.draws.saw(keyspace, key, *version, None),
            CallEnd::Failed(zerohop_wire::Failure::NotFound) => {
                self.draws.saw(keyspace, key, Default::default(), None);
            }
            _ => {}
        }
    }

    /// Whether a client is paused, and starts nothing.
    pub(super) fn is_paused(&self, client: usize) -> bool {
        self.now() < self.clients[client].paused_until
    }

    /// A client is paused until then.
    pub(super) fn pause_client(&mut self, client: usize, until: Time) {
        let now = self.now();
        self.trace.record(now, format_args!("PAUSE of c{client} until {}", until.0));
        self.clients[client].paused_until = until;
        for call in &self.clients[client].calls {
            // A paused client handles no deadline.
            let call = &mut self.history.calls[*call];
            call.deadline = call.deadline.max(until);
        }
        self.pause_operations(client, until);
        self.pause_blobs(client, until);
        self.pause_snapshots(client, until);
    }
}
