//! The clients: their turns, their calls, and the results.

use std::sync::Arc;

use zerohop_base::time::Time;
use zerohop_partition::limits::SESSION_IDLE_MS;
use zerohop_session::{Coalescing, Collect, SessionEffect, SessionRequest, SessionSettings};
use zerohop_wire::ids::KeyspaceId;
use zerohop_wire::messages::{Hello, Message};
use zerohop_wire::{DecodeResult, Decoder, Encoder, Envelope};

use super::{NodeWorld, NodeWorldEvent, RunPhase};
use crate::client::ClientLife;
use crate::history::{ClientCall, OperationEnd as CallEnd};
use crate::network::{LinkEnd, Opener};
use crate::node::{CLUSTER, FEATURES, Manager, carries_writes};
use crate::procedures::ClientProcedures;
use crate::streams::Draw;
use crate::workload::draw::KEYS;
use crate::workload::operation::{RecordAction, RecordCall};

const MS: u64 = 1_000;

impl NodeWorld {
    /// A client starts, as the first in its place or in place of a dead one.
    pub(super) fn begin_client(&mut self, client: usize, life: u32) {
        let now = self.now();
        let endpoints = [Manager::address(0)];
        let mut settings = SessionSettings::new(&endpoints, self.streams.client.next_u64());
        settings.attempt_us = *self.streams.client.pick(&[30 * MS, 200 * MS, 1_000 * MS]);
        settings.connect_us = *self.streams.client.pick(&[50 * MS, 500 * MS]);
        settings.quiet_us = *self.streams.client.pick(&[100 * MS, 1_000 * MS]);
        settings.backoff_us_max = 200 * MS;
        settings.window_frames = *self.streams.client.pick(&[2, 1024]);
        if self.scenario.compresses {
            settings.compress_from_bytes = Some(64);
        }
        // Any instance will do as the first address; the manager does not listen here.
        let any = self.streams.client.below(self.scenario.instances.into()) as u32;
        settings.endpoints = [Manager::address(any), Manager::address(0)]
            .iter()
            .map(|address| Arc::from(address.as_str()))
            .collect();
        let procedures =
            ClientProcedures::new(self.streams.client.fork(u64::from(life) << 32 | client as u64));
        let begun = ClientLife::new(settings, procedures, life);
        match self.clients.get_mut(client) {
            Some(place) => *place = begun,
            None => self.clients.push(begun),
        }
        self.trace.record(now, format_args!("c{client} begins, life {life}"));
        for _ in 0..self.scenario.depth {
            let soon = self.streams.workload.below(20 * MS);
            self.event_queue.at(now.after_us(soon), NodeWorldEvent::Call { client, life });
        }
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
        self.begin_client(client, life + 1);
    }

    pub(super) fn schedule_client(&mut self, client: usize, at: Time) {
        let found = &mut self.clients[client];
        let at = at.max(found.paused_until);
        if found.turn_at.is_none_or(|turn_at| turn_at > at) {
            found.turn_at = Some(at);
            self.event_queue.at(at, NodeWorldEvent::RunClient(client));
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
        for effect in found.run_turn(now) {
            self.perform_effect(client, effect);
        }
        if let Some(at) = self.clients[client].session.next_turn_due() {
            self.schedule_client(client, at.max(now.after_us(1)));
        }
    }

    fn perform_effect(&mut self, client: usize, effect: SessionEffect<usize>) {
        let now = self.now();
        let life = self.clients[client].life;
        match effect {
            SessionEffect::Connect { connection, address } => {
                let listener = self.manager.instance_at(&address).filter(|_| self.node.down.is_none());
                let link = self.network.open(now, Opener::Client { client, life, connection }, listener);
                self.trace.record(now, format_args!("c{client} opens {link} to {address}"));
                self.clients[client].opens(connection, link);
            }
            SessionEffect::Send { connection, mut head, tail } => {
                let Some(link) = self.clients[client].link(connection) else { return };
                let length = head.len();
                head.extend_from_slice(&tail);
                self.trace.record(now, format_args!("c{client} sends {} bytes on {link}", head.len()));
                self.network.send(now, link, LinkEnd::Node, &head);
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
            SessionEffect::Complete { token, result } => {
                self.clients[client].calls.retain(|call| *call != token);
                self.end_call(token, CallEnd::of(result));
                let slower = if self.phase == RunPhase::Faults { 1 } else { 4 };
                let rest_us = self.streams.workload.wait(self.scenario.think_us * slower);
                let at = match self.scenario.burst_us {
                    0 => now.0 + rest_us,
                    burst_us => (now.0 + rest_us).next_multiple_of(burst_us),
                };
                self.event_queue.at(Time(at), NodeWorldEvent::Call { client, life });
            }
        }
    }

    /// Schedules copies of some write frames, over connections of their own.
    fn draw_repeats(&mut self, client: usize, instance: usize, bytes: &[u8]) {
        if self.phase != RunPhase::Faults || self.scenario.network.repeats == 0 {
            return;
        }
        let decoder = Decoder::with_version(zerohop_wire::limits::VERSION_MAX, FEATURES);
        let mut rest = bytes;
        while let DecodeResult::Frame { frame, used } = decoder.decode(rest) {
            let mut scratch = Vec::new();
            let writes = frame.message(&mut scratch).is_ok_and(|message| carries_writes(&message));
            if writes && self.streams.network.chance(self.scenario.network.repeats, 1000) {
                let mut late_us = self.streams.network.below(self.scenario.network.repeat_us + 1);
                if self.scenario.client_pause_us > 0 && self.streams.network.chance(1, 3) {
                    late_us =
                        self.scenario.client_pause_us - self.streams.network.below(SESSION_IDLE_MS * MS / 10);
                }
                let at = self.now().after_us(late_us);
                self.event_queue.at(at, NodeWorldEvent::Repeat { instance, frame: rest[..used].to_vec() });
                // The second copy may take effect, whatever the client receives for the first.
                for call in &self.clients[client].calls {
                    self.calls_with_late_copy.insert(*call);
                }
            }
            rest = &rest[used..];
        }
    }

    pub(super) fn repeat(&mut self, instance: usize, frame: &[u8]) {
        let now = self.now();
        if self.node.down.is_some() || self.phase != RunPhase::Faults {
            return;
        }
        let link = self.network.open(now, Opener::CopiedFrames, Some(instance));
        self.trace.record(now, format_args!("{link} delivers i{instance} a copy of {} bytes", frame.len()));
        let hello = Message::Hello(Hello {
            version_min: zerohop_wire::limits::VERSION_MIN,
            version_max: zerohop_wire::limits::VERSION_MAX,
            features: FEATURES,
            cluster: CLUSTER,
            map_epoch: self.manager.map().epoch(),
            proof_method: 0,
            nonce: [0; 32],
            name: "copy",
        });
        let mut bytes = Vec::new();
        let encoded = Encoder::default().encode(&Envelope::default(), &hello, &mut bytes);
        debug_assert!(encoded.is_ok(), "a greeting keeps every bound");
        bytes.extend_from_slice(frame);
        self.network.send(now, link, LinkEnd::Node, &bytes);
        self.network.close(now, link, LinkEnd::Opener);
        self.coverage.repeats += 1;
    }

    /// A client makes a call.
    pub(super) fn call(&mut self, client: usize, life: u32) {
        if self.clients[client].life != life || self.phase >= RunPhase::Quiet {
            return;
        }
        let now = self.now();
        if now < self.clients[client].paused_until {
            let later = self.clients[client].paused_until;
            return self.event_queue.at(later, NodeWorldEvent::Call { client, life });
        }
        let live: Vec<KeyspaceId> = self
            .keyspaces
            .iter()
            .filter(|one| one.dropped.is_none_or(|dropped| now < dropped.after_us(500 * MS)))
            .map(|one| one.id)
            .collect();
        let keyspace = match self.scenario.is_hot && self.streams.workload.chance(2, 3) {
            true => live[0],
            false => *self.streams.workload.pick(&live),
        };
        let operation = self.draws.operation(keyspace);
        let limit_us = match (operation.is_wait(), self.phase) {
            (true, _) => self.streams.workload.between(20 * MS, 800 * MS),
            (_, RunPhase::Faults) if self.scenario.client.impatient && self.streams.workload.chance(1, 4) => {
                self.streams.workload.between(100, 100 * MS)
            }
            _ => self.streams.workload.between(2_000 * MS, 8_000 * MS),
        };
        let collecting = match self.scenario.batches && self.streams.workload.chance(1, 3) {
            true => Coalescing::Within(Collect { delay_us: 2_000, bytes: 2_000 }),
            false => Coalescing::AsKeyspace,
        };
        self.submit(client, keyspace, operation, (limit_us, collecting));
    }

    /// Every record is read once more, after all faults have ended.
    pub(super) fn read_everything(&mut self) {
        let live: Vec<KeyspaceId> =
            self.keyspaces.iter().filter(|one| one.dropped.is_none()).map(|one| one.id).collect();
        for keyspace in live {
            for key in KEYS {
                let operation = RecordCall::new(key.as_bytes(), RecordAction::Lookup);
                self.submit(0, keyspace, operation, (5_000 * MS, Coalescing::Never));
            }
        }
    }

    fn submit(
        &mut self,
        client: usize,
        keyspace: KeyspaceId,
        operation: RecordCall,
        (limit_us, collecting): (u64, Coalescing),
    ) {
        let now = self.now();
        let request = operation.with_wire(|wire| SessionRequest::record(keyspace, wire, limit_us));
        let Ok(request) = request else {
            return self.record_violation(format!("{operation} cannot be sent"));
        };
        let partition = self.manager.slice(keyspace, &operation.key).unwrap_or_default();
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
        found.session.submit(now, request.collecting(collecting), call);
        let soon = self.streams.schedule.below(20);
        self.schedule_client(client, now.after_us(soon));
    }

    fn end_call(&mut self, at: usize, end: CallEnd) {
        let now = self.now();
        let call = &mut self.history.calls[at];
        call.returned = Some(now);
        call.clock_ms = self.clock.bounds_ms(call.invoked, now);
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
        self.coverage.ended_call(call);
        use zerohop_session::Reply;
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
}
