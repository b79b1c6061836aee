//! One instance on its simulated disk, with its connections: the counterpart of `reactor`.

use std::collections::BTreeMap;

use zerohop_engine::EngineOptions;
use zerohop_engine::disk::simulated::SimulatedDisk;
use zerohop_partition::Token;
use zerohop_placement::{MapDelta, MapHistory};
use zerohop_shard::{
    AnswerOrigin, ClockReading, Identity, Instance, InstanceEffect, InstanceEffects, InstanceOpenError,
    InstanceOptions,
};
use zerohop_wire::ids::{KeyspaceId, PartitionEpoch, PartitionId, RequestId};
use zerohop_wire::messages::{RecordOperation as Wire, RecordRead};
use zerohop_wire::{Envelope, Message};

use super::port::{Port, PortFrame};
use crate::network::{LinkArrival, LinkId};

/// An instance, or its disk while the node is down.
#[derive(Debug)]
pub(crate) struct NodeSlot {
    pub(crate) disk: SimulatedDisk,
    /// Boxed: it has some kilobytes and is moved for every turn.
    pub(crate) instance: Option<Box<Instance<SimulatedDisk>>>,
    ports: BTreeMap<LinkId, Port>,
    /// Arrivals since the last turn, in order.
    inbox: Vec<(LinkId, LinkArrival)>,
    /// The time of its next turn.
    pub(crate) turn_at: Option<zerohop_base::time::Time>,
    /// It works until then, as disk operations take time.
    pub(crate) busy_until: zerohop_base::time::Time,
    /// Power is lost in the middle of one of its next disk operations.
    pub(crate) is_doomed: bool,
    /// Power is lost in the next turn with so many arrivals of requests, after so many disk
    /// operations.
    pub(crate) power_cut_at_requests: Option<(usize, u64)>,
    scratch: Vec<u8>,
}

/// The effects of a turn.
#[derive(Debug, Default)]
pub(crate) struct SlotTurn {
    pub(crate) sent: Vec<(LinkId, Vec<u8>)>,
    pub(crate) closed: Vec<LinkId>,
    /// More background maintenance is due at once.
    pub(crate) has_more: bool,
}

/// Passes answers to the ports, and keeps the answer of a final read.
struct Answers<'s> {
    ports: &'s mut BTreeMap<LinkId, Port>,
    audit: Option<&'s mut dyn FnMut(&Message<'_>)>,
}

/// The pseudo connection of reads after a restart.
const AUDIT: u64 = u64::MAX;

impl InstanceEffects for Answers<'_> {
    fn push(&mut self, effect: InstanceEffect<'_>) {
        match effect {
            InstanceEffect::Answer { to, place, message } => self.answer(to, place, message),
            InstanceEffect::Reply { .. } => {
                unreachable!("simulated clients speak the native protocol, which runs no units")
            }
            InstanceEffect::Dropped { to } => self.drop_request(to),
            InstanceEffect::InvariantBroken { keyspace, partition, broken } => {
                unreachable!("keyspace {keyspace}, partition {partition}: {broken}")
            }
            InstanceEffect::Send { .. }
            | InstanceEffect::ProposeChange { .. }
            | InstanceEffect::FetchMap
            | InstanceEffect::SyncTimestampBound(_)
            | InstanceEffect::Drained { .. }
            | InstanceEffect::SplitRegion(_)
            | InstanceEffect::Flush(_) => {}
        }
    }
}

impl Answers<'_> {
    fn answer(&mut self, to: Token, place: AnswerOrigin, message: &Message<'_>) {
        if to.connection == AUDIT {
            if let Some(audit) = &mut self.audit {
                audit(message);
            }
            return;
        }
        let Some(port) = self.ports.get_mut(&LinkId(to.connection)) else { return };
        let envelope = Envelope {
            request: to.request,
            keyspace: place.keyspace,
            partition: place.partition,
            partition_epoch: place.epoch,
            time_out_ms: place.read_lock_us,
            read_lock: false,
        };
        port.answer(&envelope, message);
    }

    fn drop_request(&mut self, to: Token) {
        if let Some(port) = self.ports.get_mut(&LinkId(to.connection)) {
            port.remove_request(to.request);
        }
    }
}

impl NodeSlot {
    pub(crate) fn new(disk: SimulatedDisk) -> Self {
        Self {
            disk,
            instance: None,
            ports: BTreeMap::new(),
            inbox: Vec::new(),
            turn_at: None,
            busy_until: zerohop_base::time::Time(0),
            is_doomed: false,
            power_cut_at_requests: None,
            scratch: Vec::new(),
        }
    }

    pub(crate) fn open(
        &mut self,
        identity: Identity,
        engine: EngineOptions,
        history: MapHistory,
        now: ClockReading,
    ) -> Result<(), InstanceOpenError> {
        let options = InstanceOptions { identity, engine };
        let (instance, _) = Instance::open(self.disk.clone(), options, history, now)?;
        self.instance = Some(Box::new(instance));
        Ok(())
    }

    /// The process is gone.
    pub(crate) fn die(&mut self) {
        self.instance = None;
        self.ports.clear();
        self.inbox.clear();
        self.turn_at = None;
        self.is_doomed = false;
        self.power_cut_at_requests = None;
    }

    /// Stores an arrival for the next turn.
    pub(crate) fn arrive(&mut self, link: LinkId, what: LinkArrival) {
        if self.instance.is_some() {
            self.inbox.push((link, what));
        }
    }

    /// Handles everything that is due now.
    pub(crate) fn run_turn(&mut self, now: ClockReading) -> SlotTurn {
        let mut turned = SlotTurn::default();
        let Some(mut instance) = self.instance.take() else { return turned };
        for (link, what) in std::mem::take(&mut self.inbox) {
            match what {
                LinkArrival::Opened => drop(self.ports.insert(link, Port::new())),
                LinkArrival::Bytes(bytes) => {
                    if let Some(port) = self.ports.get_mut(&link) {
                        port.receive(&bytes);
                    }
                    self.handle_frames(&mut instance, link, now);
                }
                LinkArrival::Disconnected | LinkArrival::Refused => {
                    if self.ports.remove(&link).is_some() {
                        instance.disconnected(link.0);
                    }
                }
            }
        }
        instance.end_of_batch(now, &mut Answers { ports: &mut self.ports, audit: None });
        turned.has_more = instance.maintain(now);
        self.instance = Some(instance);
        self.collect_output(&mut turned);
        turned
    }

    /// Applies a change of the map.
    pub(crate) fn apply_map(&mut self, now: ClockReading, delta: &MapDelta) -> (SlotTurn, Option<String>) {
        let mut turned = SlotTurn::default();
        let Some(instance) = &mut self.instance else { return (turned, None) };
        let mut answers = Answers { ports: &mut self.ports, audit: None };
        let trouble = instance.apply_map(now, delta, &mut answers).err().map(|error| error.to_string());
        instance.end_of_batch(now, &mut answers);
        self.collect_output(&mut turned);
        (turned, trouble)
    }

    /// Shuts down cleanly: answers pending requests and closes the engine. Returns a failure, if there
    /// was one.
    pub(crate) fn stop(&mut self, now: ClockReading) -> (SlotTurn, Option<String>) {
        let mut turned = SlotTurn::default();
        let Some(mut instance) = self.instance.take() else { return (turned, None) };
        instance.stop(now, &mut Answers { ports: &mut self.ports, audit: None });
        self.collect_output(&mut turned);
        let trouble = instance.close().err().map(|error| error.to_string());
        (turned, trouble)
    }

    /// The number of arrivals of requests in its next turn.
    pub(crate) fn pieces(&self) -> usize {
        self.inbox.iter().filter(|(_, what)| matches!(what, LinkArrival::Bytes(_))).count()
    }

    /// Reads a record without a connection.
    pub(crate) fn audit(
        &mut self,
        now: ClockReading,
        (keyspace, partition, epoch): (KeyspaceId, PartitionId, PartitionEpoch),
        read: &RecordRead<'_>,
        mut on_answer: impl FnMut(&Message<'_>),
    ) {
        let Some(instance) = &mut self.instance else { return };
        let to = Token { connection: AUDIT, request: RequestId(0) };
        let request = to.request;
        let envelope =
            Envelope { request, keyspace, partition, partition_epoch: epoch, ..Envelope::default() };
        let message = Message::Read { seen: Default::default(), read: *read };
        let mut answers = Answers { ports: &mut self.ports, audit: Some(&mut on_answer) };
        instance.request(now, to, &envelope, &message, &mut answers);
        instance.local().end_of_batch(now, &mut answers);
    }

    fn handle_frames(&mut self, instance: &mut Instance<SimulatedDisk>, link: LinkId, now: ClockReading) {
        let mut scratch = std::mem::take(&mut self.scratch);
        while let Some(port) = self.ports.get_mut(&link)
            && let Some(frame) = port.next_frame()
        {
            match port.handle_frame(&frame, &mut scratch) {
                None => {}
                Some(PortFrame::Hello(envelope, hello)) => {
                    let ack = instance.hello(link.0, &hello, now);
                    port.handle_hello(&envelope, &hello, ack);
                }
                Some(PortFrame::Requests(requests)) => {
                    for (envelope, message) in requests {
                        let to = Token { connection: link.0, request: envelope.request };
                        let mut answers = Answers { ports: &mut self.ports, audit: None };
                        instance.request(now, to, &envelope, &message, &mut answers);
                    }
                }
            }
        }
        self.scratch = scratch;
    }

    fn collect_output(&mut self, turned: &mut SlotTurn) {
        for (link, port) in &mut self.ports {
            let out = port.take_output();
            if !out.is_empty() {
                turned.sent.push((*link, out));
            }
            if port.is_closing {
                turned.closed.push(*link);
            }
        }
        for link in &turned.closed {
            self.ports.remove(link);
            if let Some(instance) = &mut self.instance {
                instance.disconnected(link.0);
            }
        }
    }
}

/// Whether a frame has writes, so that a copy of it is worth sending.
pub(crate) fn carries_writes(message: &Message<'_>) -> bool {
    match message {
        Message::Write { .. } | Message::Transact(_) | Message::Stage(_) => true,
        Message::Batch(batch) => batch.operations.iter().any(|one| matches!(one, Wire::Write(_))),
        Message::Gather(requests) => {
            requests.iter().any(|one| one.message().is_ok_and(|message| carries_writes(&message)))
        }
        _ => false,
    }
}
