//! One instance: its disk, clocks, engine, replicas and leases.

use zerohop_engine::disk::simulated::SimulatedDisk;
use zerohop_engine::disk::{Disk, DiskResult, OpenMode};
use zerohop_engine::{Durability, Engine, EngineError, EngineOptions, PartitionId};
use zerohop_partition::FlushNeed;
use zerohop_partition::{ClockSample, MapView, MemberOptions, PartitionEffect, RecordRequest, Token};
use zerohop_replication::{
    Context, GroupChange, GroupView, Leases, LogEnd, PartitionKey, Replica, ReplicaEffect, ReplicaEffects,
    ReplicaEvent, ReplicaTable, TableEffects,
};
use zerohop_wire::ids::{MapEpoch, PartitionEpoch, Timestamp};
use zerohop_wire::messages::{Member, PeerBody, PeerMessage};
use zerohop_wire::{DecodeResult, Decoder, Encoder, Envelope, Features, Message};

use super::control::Map;

/// Simulated time starts here, so that clocks may be set back.
const UNIX_BASE_MS: u64 = 1_700_000_000_000;
const TIMESTAMP_BOUND: &str = "bound";

/// An output of an instance.
#[derive(Debug)]
pub enum HostOutput {
    Peer(Member, Vec<u8>),
    /// An answer, with the epoch of the group that answers, and whether the group has the copies that it must have.
    Answer(Token, usize, (PartitionEpoch, bool), Vec<u8>),
    WrongOwner(Token),
    Propose(usize, PartitionEpoch, GroupChange),
    FetchMap,
    /// The contents of a member differ from those of the others.
    Differs(usize, Member),
}

pub struct SimulatedHost {
    pub me: Member,
    pub disk: SimulatedDisk,
    pub live: Option<LiveHost>,
    pub paused_until_us: u64,
    /// Parts per million by which its clock is fast.
    pub rate_ppm: i64,
    pub offset_ms: i64,
    /// Its disk has failed, so the process must end.
    pub has_failed: bool,
    /// Its block memory is so small that most blocks are read from the disk.
    pub is_short_of_memory: bool,
    durability: Durability,
    partitions: usize,
}

pub struct LiveHost {
    pub engine: Engine<SimulatedDisk>,
    pub replicas: ReplicaTable,
    pub leases: Leases,
    pub map: Map,
    unix_ms: u64,
    /// The first start of this instance that its disk has survived. An empty disk is not an intact one.
    disk_since: u64,
}

struct Gather<'o> {
    partition: usize,
    epoch: (PartitionEpoch, bool),
    me: Member,
    map: &'o Map,
    out: &'o mut Vec<HostOutput>,
    flush_need: FlushNeed,
}

impl zerohop_partition::PartitionEffects for Gather<'_> {
    fn push(&mut self, effect: PartitionEffect<'_>) {
        match effect {
            PartitionEffect::Answer { to, message, .. } => {
                let mut bytes = Vec::new();
                let envelope = Envelope { request: to.request, ..Envelope::default() };
                Encoder::default().encode(&envelope, message, &mut bytes).expect("fits");
                self.out.push(HostOutput::Answer(to, self.partition, self.epoch, bytes));
            }
            PartitionEffect::WrongOwner { to } => self.out.push(HostOutput::WrongOwner(to)),
            PartitionEffect::FlushWanted(need) => self.flush_need = self.flush_need.max(need),
            PartitionEffect::Dropped { .. } => {}
            PartitionEffect::Reply { .. }
            | PartitionEffect::Transaction(_)
            | PartitionEffect::UnsyncedPrepared(_)
            | PartitionEffect::TransactionLost { .. } => {
                unreachable!("no client runs atomic batches or transactions here")
            }
        }
    }
}

impl TableEffects for Gather<'_> {
    fn of(&mut self, (_, partition): PartitionKey, epoch: PartitionEpoch) {
        let partition = partition.0 as usize;
        let group = self.map.groups.get(partition).filter(|group| group.epoch == epoch);
        let has_copies = group.is_some_and(|group| group.copies() >= usize::from(group.min_in_sync));
        (self.partition, self.epoch) = (partition, (epoch, has_copies));
        self.flush_need = FlushNeed::Nothing;
    }

    fn flush_need(&self) -> FlushNeed {
        self.flush_need
    }
}

impl ReplicaEffects for Gather<'_> {
    fn push_replica(&mut self, effect: ReplicaEffect<'_>) {
        self.out.push(match effect {
            ReplicaEffect::Send { to, epoch, body } => {
                let envelope = envelope(self.partition, epoch);
                HostOutput::Peer(to, peer_frame(&envelope, self.me, to, body))
            }
            ReplicaEffect::ProposeChange { epoch, change } => {
                HostOutput::Propose(self.partition, epoch, change)
            }
            ReplicaEffect::Differs { who, .. } => HostOutput::Differs(self.partition, who),
            ReplicaEffect::FetchMap { .. } => HostOutput::FetchMap,
            ReplicaEffect::InvariantBroken(broken) => panic!("{broken}"),
        });
    }
}

/// The key of a partition of this simulation, which has one keyspace.
pub fn key_of(partition: usize) -> PartitionKey {
    (zerohop_wire::ids::KeyspaceId(1), zerohop_wire::ids::PartitionId(partition as u32))
}

pub fn envelope(partition: usize, partition_epoch: PartitionEpoch) -> Envelope {
    let partition = zerohop_wire::ids::PartitionId(partition as u32);
    Envelope { partition, partition_epoch, ..Envelope::default() }
}

fn peer_frame(envelope: &Envelope, from: Member, to: Member, body: &PeerBody<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let message = Message::Peer(PeerMessage { from, to, body: body.clone() });
    Encoder::default().encode(envelope, &message, &mut bytes).expect("fits");
    bytes
}

pub fn with_frame<T>(bytes: &[u8], take: impl FnOnce(Envelope, &Message<'_>) -> T) -> T {
    let decoder = Decoder::with_version(zerohop_wire::GREETING_VERSION, Features::default());
    let DecodeResult::Frame { frame, .. } = decoder.decode(bytes) else { panic!("not a frame") };
    let mut scratch = Vec::new();
    let message = frame.message(&mut scratch).expect("was encoded so");
    take(frame.envelope, &message)
}

impl SimulatedHost {
    pub fn new(me: Member, seed: u64, durability: Durability, partitions: usize) -> SimulatedHost {
        SimulatedHost {
            me,
            disk: SimulatedDisk::new(seed),
            live: None,
            paused_until_us: 0,
            rate_ppm: 0,
            offset_ms: 0,
            has_failed: false,
            is_short_of_memory: false,
            durability,
            partitions,
        }
    }

    /// Its monotonic clock, in microseconds.
    pub fn clock_us(&self, now_us: u64) -> u64 {
        (i128::from(now_us) * (1_000_000 + i128::from(self.rate_ppm)) / 1_000_000) as u64 + 1_000_000
    }

    fn day_ms(&self, now_us: u64) -> u64 {
        (UNIX_BASE_MS as i64 + self.offset_ms + (self.clock_us(now_us) / 1_000) as i64) as u64
    }

    /// The process starts, with another incarnation.
    pub fn start(&mut self, now_us: u64) {
        self.me.incarnation.0 += 1;
        let options = EngineOptions {
            disk_reserve_bytes: 0,
            starts_checkpoints: false,
            // Blocks of 64 KiB may be freed, and must then be read again. The other instances have so many segments that members
            // without data are sent snapshots of them.
            segment_bytes: if self.is_short_of_memory { 256 << 10 } else { 8 << 10 },
            checkpoint_tail_bytes: 64 << 10,
            collect_every_ms: 500,
            memory_bytes: if self.is_short_of_memory { 128 << 10 } else { 64 << 20 },
            // Segments are synced, and may then become corrupt, when the journal is cut.
            journal_file_bytes: if self.is_short_of_memory { 16 << 10 } else { 16 << 20 },
            ..EngineOptions::default()
        };
        let (mut engine, _) = Engine::open(self.disk.clone(), options).expect("opens");
        let (timestamp_bound, disk_since) =
            read_timestamp_bound(engine.disk()).unwrap_or((Timestamp::ZERO, self.me.incarnation.0));
        let options = MemberOptions {
            durability: self.durability,
            index_seed: 7,
            is_ordered: false,
            epoch: PartitionEpoch(1),
        };
        let mut replicas = ReplicaTable::default();
        for id in 0..self.partitions {
            let partition = PartitionId(id as u64);
            let replica = Replica::open(&mut engine, self.me, partition, options).expect("opens");
            replicas.insert(key_of(id), replica);
        }
        let leases = Leases::new(self.me, self.clock_us(now_us), timestamp_bound);
        self.live = Some(LiveHost {
            engine,
            replicas,
            leases,
            map: Map::default(),
            unix_ms: self.day_ms(now_us),
            disk_since,
        });
        self.paused_until_us = 0;
        self.has_failed = false;
    }

    /// Its log index report to the control group.
    pub fn log_ends(&self) -> Vec<(LogEnd, u64)> {
        let Some(live) = &self.live else { return Vec::new() };
        live.replicas.iter().map(|(_, replica)| (replica.log_end(), live.disk_since)).collect()
    }

    /// The control group has sent a map.
    pub fn apply_map(&mut self, now_us: u64, map: &Map, out: &mut Vec<HostOutput>) {
        let Some(live) = &mut self.live else { return };
        if map.epoch <= live.map.epoch {
            return;
        }
        live.map = map.clone();
        live.leases.set_map(MapEpoch(map.epoch));
        for partition in 0..self.partitions {
            let view = GroupView { map_epoch: MapEpoch(map.epoch), ..map.groups[partition].clone() };
            self.step(now_us, partition, ReplicaEvent::Group(view), out);
        }
        self.end_of_batch(now_us, out);
    }

    /// Handles a frame of another instance.
    pub fn take_frame(&mut self, now_us: u64, bytes: &[u8], out: &mut Vec<HostOutput>) {
        let clock_us = self.clock_us(now_us);
        let me = self.me;
        with_frame(bytes, |envelope, message| {
            let Message::Peer(PeerMessage { from, to, body }) = message else { panic!("of no peer") };
            let Some(live) = &mut self.live else { return };
            if *to != me {
                return;
            }
            if let PeerBody::LeaseQuery { map_epoch, .. } | PeerBody::LeaseGrant { map_epoch, .. } = body {
                if *map_epoch > live.leases.map_epoch() {
                    out.push(HostOutput::FetchMap);
                }
                if let Some(answer) = live.leases.handle_message(clock_us, *from, body) {
                    out.push(HostOutput::Peer(*from, peer_frame(&envelope, me, *from, &answer)));
                }
                return;
            }
            let partition = envelope.partition.0 as usize;
            let event = ReplicaEvent::Peer { from: *from, epoch: envelope.partition_epoch, body };
            self.step(now_us, partition, event, out);
        });
        self.end_of_batch(now_us, out);
    }

    /// Handles a client's request.
    pub fn take_request(&mut self, now_us: u64, token: Token, bytes: &[u8], out: &mut Vec<HostOutput>) {
        with_frame(bytes, |envelope, message| {
            let request = RecordRequest { token, envelope, message };
            self.step(now_us, envelope.partition.0 as usize, ReplicaEvent::Request(request), out);
        });
        self.end_of_batch(now_us, out);
    }

    /// The control group requests the admission of a follower.
    pub fn request_admission(
        &mut self,
        now_us: u64,
        partition: usize,
        member: Member,
        out: &mut Vec<HostOutput>,
    ) {
        self.step(now_us, partition, ReplicaEvent::AdmissionRequested(member), out);
    }

    /// A few milliseconds have passed.
    pub fn tick(&mut self, now_us: u64, out: &mut Vec<HostOutput>) {
        let (clock_us, me) = (self.clock_us(now_us), self.me);
        let day_ms = self.day_ms(now_us);
        let Some(live) = &mut self.live else { return };
        live.unix_ms = live.unix_ms.max(day_ms);
        live.leases.raise_wanted_timestamp_bound(live.unix_ms, live.replicas.newest());
        if let Some(timestamp_bound) = live.leases.to_sync() {
            // With a full or failing disk the write is tried again.
            if write_timestamp_bound(live.engine.disk(), timestamp_bound, live.disk_since).is_ok() {
                live.leases.synced(timestamp_bound);
            }
        }
        live.engine.check_disk_space();
        let newest = live.replicas.newest();
        for (to, body) in live.leases.lease_requests(clock_us, newest, live.replicas.lease_granters()) {
            out.push(HostOutput::Peer(to, peer_frame(&Envelope::default(), me, to, &body)));
        }
        if let Err(error) = live.engine.maintain(clock_us / 1_000) {
            self.handle_error(&error);
        }
        self.end_of_batch(now_us, out);
    }

    fn end_of_batch(&mut self, now_us: u64, out: &mut Vec<HostOutput>) {
        let Some(live) = &mut self.live else { return };
        let keys = live.replicas.take_unflushed();
        let event = match live.engine.flush() {
            Ok(()) => ReplicaEvent::Flushed,
            Err(EngineError::DiskFull { .. }) => {
                live.replicas.put_unflushed(keys);
                return self.end_batch(now_us, out);
            }
            Err(error) => {
                self.handle_error(&error);
                ReplicaEvent::FlushFailed
            }
        };
        for partition in keys {
            self.step(now_us, partition.1.0 as usize, event.clone(), out);
        }
        self.end_batch(now_us, out);
    }

    fn end_batch(&mut self, now_us: u64, out: &mut Vec<HostOutput>) {
        let mut errors = Vec::new();
        self.with_replicas(now_us, out, |replicas, context, gather| {
            replicas.end_batch(context, gather, |_, error| errors.push(error));
        });
        errors.iter().for_each(|error| self.handle_error(error));
    }

    fn step(&mut self, now_us: u64, partition: usize, event: ReplicaEvent<'_>, out: &mut Vec<HostOutput>) {
        let mut result = Ok(());
        self.with_replicas(now_us, out, |replicas, context, gather| {
            result = replicas.step(key_of(partition), context, event, gather);
        });
        if let Err(error) = result {
            self.handle_error(&error);
        }
    }

    /// Corruption is repaired, and space becomes free. After any other error nothing more can be made durable.
    fn handle_error(&mut self, error: &EngineError) {
        self.has_failed |= !matches!(
            error,
            EngineError::Corrupt { .. } | EngineError::DiskFull { .. } | EngineError::Scarce { .. }
        );
    }

    fn with_replicas(
        &mut self,
        now_us: u64,
        out: &mut Vec<HostOutput>,
        act: impl FnOnce(&mut ReplicaTable, &mut Context<'_, SimulatedDisk>, &mut Gather<'_>),
    ) {
        let (clock_us, day_ms, me) = (self.clock_us(now_us), self.day_ms(now_us), self.me);
        let Some(live) = &mut self.live else { return };
        live.unix_ms = live.unix_ms.max(day_ms);
        let epoch = (PartitionEpoch(0), false);
        let mut gather =
            Gather { partition: 0, epoch, me, map: &live.map, out, flush_need: FlushNeed::Nothing };
        let mut context = Context {
            engine: &mut live.engine,
            now: ClockSample::at_ms(live.unix_ms),
            now_us: clock_us,
            leases: &live.leases,
            map: MapView::NONE,
        };
        act(&mut live.replicas, &mut context, &mut gather);
    }
}

fn read_timestamp_bound(disk: &mut SimulatedDisk) -> Option<(Timestamp, u64)> {
    let file = disk.open(TIMESTAMP_BOUND, OpenMode::Existing).ok()?;
    let mut numbers = [[0; 8]; 2];
    for (at, number) in numbers.iter_mut().enumerate() {
        disk.read_at(file, 8 * at as u64, number).expect("was written whole");
    }
    disk.close(file);
    let [timestamp_bound, since] = numbers.map(u64::from_le_bytes);
    Some((Timestamp(timestamp_bound), since))
}

fn write_timestamp_bound(disk: &mut SimulatedDisk, timestamp_bound: Timestamp, since: u64) -> DiskResult<()> {
    let _ = disk.remove("bound.tmp");
    let file = disk.open("bound.tmp", OpenMode::Create)?;
    let written =
        [timestamp_bound.0, since].iter().try_for_each(|word| disk.append(file, &word.to_le_bytes()));
    let synced = written.and_then(|()| disk.sync(file));
    disk.close(file);
    synced?;
    disk.rename("bound.tmp", TIMESTAMP_BOUND)?;
    disk.sync_dir("")
}
