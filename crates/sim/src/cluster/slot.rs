//! One instance on its simulated disk, with its inbox and the effects of its turns: the counterpart
//! of `reactor`.

use std::collections::BTreeMap;

use zerohop_engine::EngineOptions;
use zerohop_engine::disk::simulated::SimulatedDisk;
use zerohop_partition::Token;
use zerohop_placement::{Durability, KeyOrder, MapDelta, MapHistory};
use zerohop_replication as replica;
use zerohop_shard::{ClockReading, Identity, Instance, InstanceOpenError, InstanceOptions, OpenReport};
use zerohop_wire::ids::{Incarnation, KeyspaceId, PartitionEpoch, PartitionId, RequestId, Timestamp};
use zerohop_wire::messages::PeerBody;
use zerohop_wire::{DecodeResult, Decoder, Envelope, Features, Message};

use super::committed_entries::{AppliedEntries, COMPARED_ENTRIES_MAX, MemberLog};
use super::instance_turn::{BrokenReport, ClusterTurn, Collect, PEERS};
use super::record::{self, LifeFile};
use super::redis::{RedisArrival, RedisSide};
use crate::network::{LinkArrival, LinkId};
use crate::node::port::{Port, PortFrame};

/// An instance, or its disk while its process is down.
#[derive(Debug)]
pub(crate) struct ClusterSlot {
    pub(crate) disk: SimulatedDisk,
    /// The disk of the instance's own file, beside the engine's folder on the same machine.
    pub(crate) instance_file_disk: SimulatedDisk,
    /// Boxed: it has some kilobytes and is moved for every turn.
    pub(crate) instance: Option<Box<Instance<SimulatedDisk>>>,
    pub(crate) record: LifeFile,
    ports: BTreeMap<LinkId, Port>,
    inbox: Vec<SlotArrival>,
    pub(crate) turn_at: Option<zerohop_base::time::Time>,
    pub(crate) busy_until: zerohop_base::time::Time,
    scratch: Vec<u8>,
    /// The highest index that each of its partitions had applied after the last turn.
    applied: BTreeMap<(KeyspaceId, PartitionId), u64>,
    /// Its partitions that have stopped, because an invariant is broken.
    pub(crate) broken: Vec<BrokenReport>,
    /// Its Redis clients; none in runs without any.
    pub(crate) redis: Option<Box<RedisSide>>,
}

/// An arrival since the last turn.
#[derive(Debug)]
enum SlotArrival {
    OverLink(LinkId, LinkArrival),
    /// Frames of another instance.
    FromPeer(Vec<u8>),
}

/// What a disk knows about an earlier start.
pub(crate) struct FormerStart {
    /// The disk was in use during that start.
    pub(crate) has_lived_through: bool,
    /// That start was the last one, and has shut down cleanly.
    pub(crate) was_closed: bool,
}

impl ClusterSlot {
    pub(crate) fn new((disk, notes): (SimulatedDisk, SimulatedDisk)) -> Self {
        Self {
            disk,
            instance_file_disk: notes,
            instance: None,
            record: LifeFile::default(),
            ports: BTreeMap::new(),
            inbox: Vec::new(),
            turn_at: None,
            busy_until: zerohop_base::time::Time(0),
            scratch: Vec::new(),
            applied: BTreeMap::new(),
            broken: Vec::new(),
            redis: None,
        }
    }

    /// Opens the disk's contents, and records this start on the disk.
    pub(crate) fn open(
        &mut self,
        identity: Identity,
        engine: EngineOptions,
        history: MapHistory,
        now: ClockReading,
    ) -> Result<OpenReport, InstanceOpenError> {
        let (mut instance, opened) =
            Instance::open(self.disk.clone(), InstanceOptions { identity, engine }, history, now)?;
        instance.begin_above(now, self.record.timestamp_bound);
        self.instance = Some(Box::new(instance));
        Ok(opened)
    }

    /// Sets the size above which regions are split; `None`: they are not split by their size.
    pub(crate) fn set_region_limit(&mut self, bytes: Option<u64>) {
        if let Some(instance) = &mut self.instance {
            instance.set_region_limit(bytes);
        }
    }

    /// Reads what the disk knows about that earlier start, and records this one.
    pub(crate) fn remember(
        &mut self,
        incarnation: Incarnation,
        earlier: Option<Incarnation>,
    ) -> Result<FormerStart, zerohop_engine::disk::DiskError> {
        self.record = record::read(&mut self.instance_file_disk);
        let has_lived_through = earlier.is_none_or(|earlier| self.record.starts.contains(&earlier));
        let was_closed = earlier.is_some() && self.record.closed == earlier;
        // Written before the data is opened: a crash during this start must not leave the
        // clean-shutdown mark of an earlier one.
        self.record.begin(incarnation);
        record::write(&mut self.instance_file_disk, &self.record)?;
        Ok(FormerStart { has_lived_through, was_closed })
    }

    /// The process is gone.
    pub(crate) fn die(&mut self) {
        self.instance = None;
        self.ports.clear();
        self.inbox.clear();
        self.turn_at = None;
        self.applied.clear();
        self.broken.clear();
        self.redis = None;
    }

    pub(crate) fn arrive_redis(&mut self, what: RedisArrival) {
        if let Some(redis) = self.redis.as_mut().filter(|_| self.instance.is_some()) {
            redis.arrive(what);
        }
    }

    pub(crate) fn arrive(&mut self, link: LinkId, what: LinkArrival) {
        if self.instance.is_some() {
            self.inbox.push(SlotArrival::OverLink(link, what));
        }
    }

    pub(crate) fn receive_frames(&mut self, frames: Vec<u8>) {
        if self.instance.is_some() {
            self.inbox.push(SlotArrival::FromPeer(frames));
        }
    }

    /// The total time of its disk operations so far, in microseconds.
    pub(crate) fn worked_us(&self) -> u64 {
        self.disk.elapsed_us() + self.instance_file_disk.elapsed_us()
    }

    /// Handles everything that is due now.
    pub(crate) fn run_turn(&mut self, now: ClockReading) -> ClusterTurn {
        let mut turned = ClusterTurn::default();
        let Some(mut instance) = self.instance.take() else { return turned };
        let mut timestamp_bound = None;
        for come in std::mem::take(&mut self.inbox) {
            match come {
                SlotArrival::OverLink(link, LinkArrival::Opened) => {
                    drop(self.ports.insert(link, Port::new()))
                }
                SlotArrival::OverLink(link, LinkArrival::Bytes(bytes)) => {
                    if let Some(port) = self.ports.get_mut(&link) {
                        port.receive(&bytes);
                    }
                    self.handle_frames(&mut instance, link, now, (&mut turned, &mut timestamp_bound));
                }
                SlotArrival::OverLink(link, LinkArrival::Disconnected | LinkArrival::Refused) => {
                    if self.ports.remove(&link).is_some() {
                        instance.disconnected(link.0);
                    }
                }
                SlotArrival::FromPeer(bytes) => {
                    self.handle_peer_frames(&mut instance, &bytes, now, (&mut turned, &mut timestamp_bound));
                }
            }
        }
        let mut collect =
            Collect { ports: &mut self.ports, output: &mut turned, timestamp_bound: &mut timestamp_bound };
        match &mut self.redis {
            Some(redis) => redis.run_turn(&mut instance, now, &mut collect),
            None => instance.end_of_batch(now, &mut collect),
        }
        self.sync_timestamp_bound(&mut instance, timestamp_bound);
        turned.has_more = instance.maintain(now);
        self.see_applied(&mut instance, &[], &mut turned);
        self.instance = Some(instance);
        self.collect_output(&mut turned);
        turned
    }

    /// Applies a change of the map.
    pub(crate) fn apply_map(&mut self, now: ClockReading, delta: &MapDelta) -> (ClusterTurn, Option<String>) {
        let mut turned = ClusterTurn::default();
        let Some(mut instance) = self.instance.take() else { return (turned, None) };
        let mut timestamp_bound = None;
        // It finishes what it has begun before it follows the map: what this applies belongs to
        // earlier epochs.
        let before: Vec<_> =
            instance.replicas().map(|(keyspace, partition, of)| (keyspace, partition, seen_in(of))).collect();
        let mut collect =
            Collect { ports: &mut self.ports, output: &mut turned, timestamp_bound: &mut timestamp_bound };
        let partitions_before = partitions_of(&instance);
        let trouble = instance.apply_map(now, delta, &mut collect).err().map(|error| error.to_string());
        if !self.broken.is_empty() {
            let partitions = partitions_of(&instance);
            self.broken.retain(|one| {
                // A child of a split, or a member that comes back, is another replica.
                partitions.get(&one.keyspace) == partitions_before.get(&one.keyspace)
                    && instance.replicas().any(|(keyspace, partition, replica)| {
                        (keyspace, partition) == (one.keyspace, one.partition)
                            && replica.role() != replica::Role::Removed
                    })
            });
        }
        self.see_applied(&mut instance, &before, &mut turned);
        let mut collect =
            Collect { ports: &mut self.ports, output: &mut turned, timestamp_bound: &mut timestamp_bound };
        match &mut self.redis {
            Some(redis) => {
                let is_split = partitions_of(&instance)
                    .iter()
                    .any(|(id, count)| partitions_before.get(id).is_some_and(|before| before < count));
                redis.map_changed(is_split, &mut instance, now, &mut collect);
                redis.run_turn(&mut instance, now, &mut collect);
            }
            None => instance.end_of_batch(now, &mut collect),
        }
        self.sync_timestamp_bound(&mut instance, timestamp_bound);
        self.see_applied(&mut instance, &[], &mut turned);
        self.instance = Some(instance);
        self.collect_output(&mut turned);
        (turned, trouble)
    }

    /// Collects what its partitions have applied since the last turn. A partition that is new here,
    /// or has begun a snapshot install, counts from its present index. `were_in` has the epochs of
    /// partitions at the start of the turn.
    fn see_applied(
        &mut self,
        instance: &mut Instance<SimulatedDisk>,
        were_in: &[(KeyspaceId, PartitionId, (PartitionEpoch, bool))],
        turned: &mut ClusterTurn,
    ) {
        let mut new = Vec::new();
        let unflushed = durable_of_lone(instance);
        for (keyspace, partition, replica) in instance.replicas() {
            let durable = unflushed.get(&(keyspace, partition));
            let upto = durable.map_or(replica.applied(), |durable| replica.applied().min(*durable));
            let known = self.applied.entry((keyspace, partition)).or_insert(upto);
            let before = std::mem::replace(known, upto);
            if upto > before {
                let (epoch, is_primary) = seen_in(replica);
                let was = were_in.iter().find(|was| (was.0, was.1) == (keyspace, partition)).map(|was| was.2);
                let led_in = was.and_then(|(epoch, is_primary)| is_primary.then_some(epoch));
                let entries = Vec::new();
                new.push((
                    AppliedEntries {
                        keyspace,
                        partition,
                        epoch,
                        is_primary,
                        primary_epoch: led_in,
                        upto,
                        entries,
                    },
                    before,
                ));
            }
        }
        for (mut applied, before) in new {
            let from = (before + 1).max(applied.upto.saturating_sub(COMPARED_ENTRIES_MAX - 1));
            for index in from..=applied.upto {
                let found = instance.entry_epoch((applied.keyspace, applied.partition), index);
                applied.entries.extend(found.ok().flatten().map(|epoch| (index, epoch)));
            }
            turned.applied.push(applied);
        }
    }

    /// What it has of a partition; none if it has no such member.
    pub(crate) fn member_contents(
        &mut self,
        keyspace: KeyspaceId,
        partition: PartitionId,
    ) -> Option<MemberLog> {
        let instance = self.instance.as_mut()?;
        let durable = instance.durable_index(keyspace, partition).ok().flatten()?;
        let replica = instance.replicas().find(|one| (one.0, one.1) == (keyspace, partition))?.2;
        let is_member = replica.role() != replica::Role::Removed;
        is_member.then(|| MemberLog {
            epoch: replica.view().epoch,
            last: replica.log_end().last.index.0,
            durable,
        })
    }

    /// Shuts down cleanly: answers pending requests and closes the engine. Returns a failure, if there
    /// was one.
    pub(crate) fn stop(&mut self, now: ClockReading) -> (ClusterTurn, Option<String>) {
        self.stop_after(now, |_| ())
    }

    /// The same; passes the instance to `read` when it has stopped, before it is closed.
    pub(crate) fn stop_after(
        &mut self,
        now: ClockReading,
        read: impl FnOnce(&mut Instance<SimulatedDisk>),
    ) -> (ClusterTurn, Option<String>) {
        let mut turned = ClusterTurn::default();
        let Some(mut instance) = self.instance.take() else { return (turned, None) };
        let mut timestamp_bound = None;
        let mut collect =
            Collect { ports: &mut self.ports, output: &mut turned, timestamp_bound: &mut timestamp_bound };
        instance.stop(now, &mut collect);
        if let Some(redis) = &mut self.redis {
            redis.stop(&mut instance, now, &mut collect);
        }
        self.collect_output(&mut turned);
        read(&mut instance);
        let trouble = instance.close().err().map(|error| error.to_string());
        if trouble.is_none() {
            let record = LifeFile { closed: self.record.starts.last().copied(), ..self.record.clone() };
            // Without the mark, the group must assume at the next start that this instance may have
            // lost writes.
            if record::write(&mut self.instance_file_disk, &record).is_ok() {
                self.record = record;
            }
        }
        (turned, trouble)
    }

    /// Writes the timestamp bound; if that fails, the instance does not use it.
    fn sync_timestamp_bound(
        &mut self,
        instance: &mut Instance<SimulatedDisk>,
        timestamp_bound: Option<Timestamp>,
    ) {
        let Some(timestamp_bound) = timestamp_bound else { return };
        let record = LifeFile {
            timestamp_bound: timestamp_bound.max(self.record.timestamp_bound),
            ..self.record.clone()
        };
        if record::write(&mut self.instance_file_disk, &record).is_ok() {
            self.record = record;
            instance.timestamp_bound_synced(timestamp_bound);
        }
    }

    fn handle_peer_frames(
        &mut self,
        instance: &mut Instance<SimulatedDisk>,
        bytes: &[u8],
        now: ClockReading,
        (turned, timestamp_bound): (&mut ClusterTurn, &mut Option<Timestamp>),
    ) {
        let decoder = Decoder::with_version(zerohop_wire::GREETING_VERSION, Features::default());
        let mut rest = bytes;
        while let DecodeResult::Frame { frame, used } = decoder.decode(rest) {
            let mut scratch = std::mem::take(&mut self.scratch);
            if let Ok(message) = frame.message(&mut scratch) {
                let to = Token { connection: PEERS, request: RequestId(0) };
                let mut collect = Collect {
                    ports: &mut self.ports,
                    output: &mut *turned,
                    timestamp_bound: &mut *timestamp_bound,
                };
                instance.request(now, to, &frame.envelope, &message, &mut collect);
            }
            self.scratch = scratch;
            rest = &rest[used..];
        }
    }

    fn handle_frames(
        &mut self,
        instance: &mut Instance<SimulatedDisk>,
        link: LinkId,
        now: ClockReading,
        (turned, timestamp_bound): (&mut ClusterTurn, &mut Option<Timestamp>),
    ) {
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
                        let mut collect = Collect {
                            ports: &mut self.ports,
                            output: &mut *turned,
                            timestamp_bound: &mut *timestamp_bound,
                        };
                        instance.request(now, to, &envelope, &message, &mut collect);
                    }
                }
            }
        }
        self.scratch = scratch;
    }

    fn collect_output(&mut self, turned: &mut ClusterTurn) {
        if let Some(redis) = &mut self.redis {
            turned.redis = redis.take_turn();
        }
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

/// The number of partitions of each hashed keyspace, by the map of an instance: another number means other partitions of the same numbers.
fn partitions_of(instance: &Instance<SimulatedDisk>) -> BTreeMap<KeyspaceId, u32> {
    let hashed = instance.map().keyspaces().filter(|(_, found)| found.config().order == KeyOrder::Hashed);
    hashed.map(|(id, found)| (id, found.config().partitions.get())).collect()
}

/// The durable log index of each partition here whose only copy may apply entries of transactions before they are durable.
fn durable_of_lone(instance: &mut Instance<SimulatedDisk>) -> BTreeMap<(KeyspaceId, PartitionId), u64> {
    let is_sync = |keyspace| {
        let found = instance.map().keyspace(keyspace);
        found.is_some_and(|found| found.config().durability == Durability::Sync)
    };
    let lone = instance.replicas().filter(|(keyspace, _, replica)| replica.is_lone() && is_sync(*keyspace));
    let lone: Vec<_> = lone.map(|(keyspace, partition, _)| (keyspace, partition)).collect();
    let durable = |key: (KeyspaceId, PartitionId)| {
        instance.durable_index(key.0, key.1).ok().flatten().map(|index| (key, index))
    };
    lone.into_iter().filter_map(durable).collect()
}

/// The epoch of a member, and whether it is the primary.
fn seen_in(replica: &replica::Replica) -> (PartitionEpoch, bool) {
    (replica.view().epoch, replica.role() == replica::Role::Primary)
}

/// Frames of instances, formatted for traces.
pub(crate) struct DescribedFrames<'b>(pub(crate) &'b [u8]);

impl std::fmt::Display for DescribedFrames<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let decoder = Decoder::with_version(zerohop_wire::GREETING_VERSION, Features::default());
        let mut rest = self.0;
        while let DecodeResult::Frame { frame, used } = decoder.decode(rest) {
            let mut scratch = Vec::new();
            if let Ok(Message::Peer(peer)) = frame.message(&mut scratch) {
                let Envelope { keyspace, partition, partition_epoch, .. } = frame.envelope;
                let body = match &peer.body {
                    PeerBody::Transaction(bytes) => match zerohop_transaction::Message::decode(bytes) {
                        Ok(message) => format!("{:?} of {:?}", message.what, message.id),
                        Err(error) => format!("Transaction that is none: {error:?}"),
                    },
                    body => format!("{body:?}"),
                };
                write!(f, " {keyspace}/{partition}@{partition_epoch} {body:.240}")?;
            }
            rest = &rest[used..];
        }
        Ok(())
    }
}
