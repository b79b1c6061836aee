//! A bench for the tests beside the operations: two copies of a partition on a simulated disk. The first commits at once, the
//! second uses `sync` durability. Both must give the same answers.

use std::collections::BTreeMap;

use zerohop_engine::disk::simulated::SimulatedDisk;
use zerohop_engine::{Durability, Engine, EngineOptions, PartitionId};
use zerohop_wire::ids::{PartitionEpoch, RequestId, Timestamp};
use zerohop_wire::messages::{
    Append, Condition, Expiry, Insert, OperationAnswer, Outcome, Query, RecordRead, RecordType, RecordWrite,
    Scan, Stamp, WriteChange,
};
use zerohop_wire::{Elements, Envelope, Failure, Message, pack};

use crate::{
    ClockSample, MemberOptions, Partition, PartitionEffect, PartitionEffects, PartitionEvent,
    PartitionFigures, RecordRequest, Token,
};

/// An answer that owns its bytes.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct OwnedAnswer(Vec<u8>);

/// The effects of a partition.
#[derive(Default)]
pub(crate) struct CollectedEffects {
    pub(crate) answers: BTreeMap<Token, OwnedAnswer>,
    pub(crate) batches: BTreeMap<Token, Vec<OwnedAnswer>>,
    pub(crate) replies: BTreeMap<Token, Vec<u8>>,
    pub(crate) dropped: Vec<Token>,
    pub(crate) wrong_owner: Vec<Token>,
    pub(crate) messages: Vec<zerohop_transaction::Message>,
    pub(crate) needs_flush: bool,
}

/// One partition, its engine, and its effects.
pub(crate) struct PartitionRig {
    pub(crate) disk: SimulatedDisk,
    pub(crate) engine: Engine<SimulatedDisk>,
    pub(crate) partition: Partition,
    pub(crate) out: CollectedEffects,
    pub(crate) now: ClockSample,
}

/// Two copies of a partition; see the module.
pub(crate) struct PartitionBench {
    pub(crate) at_once: PartitionRig,
    pub(crate) flushed: PartitionRig,
    next_request: u64,
}

fn options() -> EngineOptions {
    EngineOptions { disk_reserve_bytes: 0, starts_checkpoints: false, ..EngineOptions::default() }
}

pub(crate) fn insert(value: &[u8]) -> WriteChange<'_> {
    WriteChange::Insert(Insert { value, expiry: Expiry::Never })
}

/// An append of values that live as long as the test.
pub(crate) fn append(values: &[&[u8]]) -> WriteChange<'static> {
    let mut packed = Vec::new();
    values.iter().for_each(|value| pack(value, &mut packed).expect("fits"));
    let packed: &'static [u8] = packed.leak();
    WriteChange::Append(Append {
        values: Elements::packed(values.len() as u32, packed).expect("was packed so"),
    })
}

impl OwnedAnswer {
    pub(crate) fn of(answer: &OperationAnswer<'_>) -> OwnedAnswer {
        OwnedAnswer(crate::reply::packed(answer))
    }

    pub(crate) fn with<T>(&self, take: impl FnOnce(OperationAnswer<'_>) -> T) -> T {
        take(
            Elements::<OperationAnswer<'_>>::packed(1, &self.0)
                .expect("was packed so")
                .iter()
                .next()
                .expect("is one"),
        )
    }

    pub(crate) fn number(&self) -> Result<u64, Failure<'static>> {
        self.with(|answer| match answer {
            Ok(Outcome::Done { number, .. }) => Ok(number),
            Ok(_) => Ok(0),
            Err(failure) => Err(failure.into_owned()),
        })
    }

    pub(crate) fn counter(&self) -> Result<i64, Failure<'static>> {
        self.with(|answer| match answer {
            Ok(Outcome::Counter { value, .. }) => Ok(value),
            Ok(_) => Ok(0),
            Err(failure) => Err(failure.into_owned()),
        })
    }

    pub(crate) fn version(&self) -> Timestamp {
        self.with(|answer| match answer {
            Ok(
                Outcome::Done { version, .. }
                | Outcome::Counter { version, .. }
                | Outcome::Value { version, .. }
                | Outcome::List { version, .. }
                | Outcome::Info { version, .. },
            ) => version,
            other => panic!("no version in {other:?}"),
        })
    }

    pub(crate) fn bytes(&self) -> Option<Vec<u8>> {
        self.with(|answer| match answer {
            Ok(Outcome::Value { bytes, .. }) => Some(bytes.to_vec()),
            _ => None,
        })
    }

    pub(crate) fn list(&self) -> Option<Vec<Vec<u8>>> {
        self.with(|answer| match answer {
            Ok(Outcome::List { values, .. }) => Some(values.iter().map(<[u8]>::to_vec).collect()),
            _ => None,
        })
    }

    pub(crate) fn length(&self) -> u64 {
        self.with(|answer| match answer {
            Ok(
                Outcome::Value { length, .. } | Outcome::List { length, .. } | Outcome::Info { length, .. },
            ) => length,
            other => panic!("no length in {other:?}"),
        })
    }

    pub(crate) fn first(&self) -> u64 {
        self.with(|answer| match answer {
            Ok(Outcome::List { first, .. }) => first,
            other => panic!("no list: {other:?}"),
        })
    }

    pub(crate) fn record(&self) -> Option<RecordType> {
        self.with(|answer| match answer {
            Ok(Outcome::Info { record, .. }) => Some(record),
            _ => None,
        })
    }

    fn expires_at(&self) -> Option<u64> {
        self.with(|answer| match answer {
            Ok(Outcome::Info { expires_at_ms, .. }) => expires_at_ms,
            _ => None,
        })
    }

    pub(crate) fn keys(&self) -> Vec<Vec<u8>> {
        self.page().0
    }

    /// The keys of a page with their values.
    pub(crate) fn records(&self) -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
        self.with(|answer| match answer {
            Ok(Outcome::Page { keys, .. }) => {
                keys.iter().map(|key| (key.key.to_vec(), key.value.map(<[u8]>::to_vec))).collect()
            }
            other => panic!("no page: {other:?}"),
        })
    }

    pub(crate) fn page(&self) -> (Vec<Vec<u8>>, Vec<u8>) {
        self.with(|answer| match answer {
            Ok(Outcome::Page { next, keys }) => {
                (keys.iter().map(|key| key.key.to_vec()).collect(), next.to_vec())
            }
            other => panic!("no page: {other:?}"),
        })
    }
}

impl std::fmt::Debug for OwnedAnswer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.with(|answer| write!(f, "{answer:?}"))
    }
}

impl PartitionEffects for CollectedEffects {
    fn push(&mut self, effect: PartitionEffect<'_>) {
        match effect {
            PartitionEffect::Answer { to, message, .. } => self.answer(to, message),
            PartitionEffect::Reply { to, bytes } => {
                assert!(self.replies.insert(to, bytes.to_vec()).is_none(), "{to:?} is answered once");
            }
            PartitionEffect::WrongOwner { to } => self.wrong_owner.push(to),
            PartitionEffect::Dropped { to } => self.dropped.push(to),
            PartitionEffect::Transaction(message) => self.messages.push(message),
            PartitionEffect::UnsyncedPrepared(_) | PartitionEffect::TransactionLost { .. } => {}
            PartitionEffect::FlushWanted(_) => self.needs_flush = true,
        }
    }
}

impl CollectedEffects {
    fn answer(&mut self, to: Token, message: &Message<'_>) {
        let before = match message {
            Message::Answer(answer) => self.answers.insert(to, OwnedAnswer::of(answer)).is_some(),
            Message::BatchAnswer(answers) => self
                .batches
                .insert(to, answers.iter().map(|answer| OwnedAnswer::of(&answer)).collect())
                .is_some(),
            other => panic!("no answer: {other:?}"),
        };
        assert!(!before, "{to:?} is answered once");
    }
}

impl PartitionRig {
    pub(crate) fn new(durability: Durability) -> PartitionRig {
        PartitionRig::on(SimulatedDisk::new(1), durability, ClockSample::at_ms(1_000_000))
    }

    pub(crate) fn on(disk: SimulatedDisk, durability: Durability, now: ClockSample) -> PartitionRig {
        PartitionRig::with(disk, durability, now, options())
    }

    pub(crate) fn with(
        disk: SimulatedDisk,
        durability: Durability,
        now: ClockSample,
        options: EngineOptions,
    ) -> PartitionRig {
        PartitionRig::opened(disk, now, options, (durability, false))
    }

    /// Of `sync` durability; `is_ordered`: it keeps the order of its keys.
    pub(crate) fn synced(is_ordered: bool) -> PartitionRig {
        let now = ClockSample::at_ms(1_000_000);
        PartitionRig::opened(SimulatedDisk::new(1), now, options(), (Durability::Sync, is_ordered))
    }

    /// The same, and whether it keeps the order of its keys.
    fn opened(
        disk: SimulatedDisk,
        now: ClockSample,
        options: EngineOptions,
        (durability, is_ordered): (Durability, bool),
    ) -> PartitionRig {
        let (mut engine, _) = Engine::open(disk.clone(), options).expect("opens");
        let options = MemberOptions { durability, index_seed: 7, is_ordered, epoch: PartitionEpoch(1) };
        let (partition, restored) = Partition::open(&mut engine, PartitionId(1), options).expect("opens");
        assert!(!restored.has_lost_state);
        PartitionRig { disk, engine, partition, out: CollectedEffects::default(), now }
    }

    /// The same after a crash.
    pub(crate) fn crash(self, durability: Durability) -> PartitionRig {
        self.crash_with(durability, options())
    }

    pub(crate) fn crash_with(self, durability: Durability, options: EngineOptions) -> PartitionRig {
        let PartitionRig { disk, engine, now, .. } = self;
        drop(engine);
        disk.crash();
        PartitionRig::with(disk, durability, now, options)
    }

    /// Log index of the last entry that survives a crash.
    pub(crate) fn durable(&mut self) -> u64 {
        self.engine.durable_index(self.partition.handle()).expect("is open")
    }

    pub(crate) fn step(&mut self, event: PartitionEvent<'_>) {
        self.partition.step(&mut self.engine, self.now.without_map(), event, &mut self.out).expect("goes on");
    }

    pub(crate) fn send(&mut self, token: Token, time_out_ms: u32, message: &Message<'_>) {
        let envelope = Envelope { time_out_ms, ..Envelope::default() };
        self.step(PartitionEvent::Request(RecordRequest { token, envelope, message }));
    }

    pub(crate) fn flush(&mut self) {
        self.engine.flush().expect("flushes");
        self.step(PartitionEvent::Flushed);
    }

    pub(crate) fn write(&mut self, token: Token, stamp: Stamp, key: &[u8], change: WriteChange<'_>) {
        let write = RecordWrite { key, condition: Condition::Always, change };
        self.send(token, 0, &Message::Write { stamp, write });
    }

    pub(crate) fn answer(&mut self, token: Token) -> Option<OwnedAnswer> {
        self.out.answers.remove(&token)
    }
}

pub(crate) fn token(request: u64) -> Token {
    Token { connection: 1, request: RequestId(request) }
}

impl PartitionBench {
    /// Partitions that keep the order of their keys.
    pub(crate) fn ordered() -> PartitionBench {
        let now = ClockSample::at_ms(1_000_000);
        let at_once =
            PartitionRig::opened(SimulatedDisk::new(1), now, options(), (Durability::DEFAULT, true));
        PartitionBench { at_once, flushed: PartitionRig::synced(true), next_request: 0 }
    }

    pub(crate) fn new() -> PartitionBench {
        let (at_once, flushed) =
            (PartitionRig::new(Durability::DEFAULT), PartitionRig::new(Durability::Sync));
        PartitionBench { at_once, flushed, next_request: 0 }
    }

    pub(crate) fn write(&mut self, key: &[u8], change: WriteChange<'_>) -> OwnedAnswer {
        self.write_if(key, Condition::Always, change)
    }

    pub(crate) fn write_if(
        &mut self,
        key: &[u8],
        condition: Condition,
        change: WriteChange<'_>,
    ) -> OwnedAnswer {
        let write = RecordWrite { key, condition, change };
        self.answer_of(&Message::Write { stamp: Stamp::default(), write })
    }

    pub(crate) fn read(&mut self, key: &[u8], query: Query<'_>) -> OwnedAnswer {
        self.answer_of(&Message::Read { seen: Timestamp::ZERO, read: RecordRead { key, query } })
    }

    pub(crate) fn scan_answer(&mut self, cursor: &[u8], prefix: &[u8], keys_max: u32) -> OwnedAnswer {
        self.answer_of(&Message::Scan(Scan {
            seen: Timestamp::ZERO,
            cursor,
            prefix,
            keys_max,
            blobs: false,
            range: Default::default(),
        }))
    }

    pub(crate) fn scan(&mut self, cursor: &[u8], prefix: &[u8], keys_max: u32) -> (Vec<Vec<u8>>, Vec<u8>) {
        self.scan_answer(cursor, prefix, keys_max).page()
    }

    /// A page of the names of blobs.
    pub(crate) fn scan_blobs(
        &mut self,
        cursor: &[u8],
        prefix: &[u8],
        keys_max: u32,
    ) -> (Vec<Vec<u8>>, Vec<u8>) {
        let scan =
            Scan { seen: Timestamp::ZERO, cursor, prefix, keys_max, blobs: true, range: Default::default() };
        self.answer_of(&Message::Scan(scan)).page()
    }

    pub(crate) fn bytes(&mut self, key: &[u8]) -> Option<Vec<u8>> {
        self.read(key, Query::Lookup).bytes()
    }

    pub(crate) fn list(&mut self, key: &[u8]) -> Option<Vec<Vec<u8>>> {
        self.read(key, Query::Lookup).list()
    }

    pub(crate) fn expires_at(&mut self, key: &[u8]) -> Option<u64> {
        self.read(key, Query::Inspect).expires_at()
    }

    /// Sends a read whose answer may come later.
    pub(crate) fn send_waiting_read(&mut self, key: &[u8], query: Query<'_>, time_out_ms: u32) -> Token {
        self.send(time_out_ms, &Message::Read { seen: Timestamp::ZERO, read: RecordRead { key, query } })
    }

    /// The answer to a request, if it has arrived.
    pub(crate) fn answer(&mut self, token: Token) -> Option<OwnedAnswer> {
        let (one, other) = (self.at_once.answer(token), self.flushed.answer(token));
        assert_eq!(one, other, "both durabilities answer the same");
        one
    }

    /// Runs the engine's background maintenance, until there is nothing to do at once.
    pub(crate) fn maintain(&mut self) {
        self.each(|rig| while rig.engine.maintain(rig.now.ms).expect("goes on") {});
    }

    /// Removes dead entries.
    pub(crate) fn compact(&mut self) {
        self.each(|rig| {
            rig.partition.checkpoint(&mut rig.engine).expect("begins");
            rig.engine.finish_work(rig.partition.handle()).expect("ends");
            rig.engine.compact(rig.partition.handle()).expect("compacts");
        });
    }

    pub(crate) fn retained_version_count(&mut self) -> usize {
        let handle = self.flushed.partition.handle();
        let kept = self.flushed.engine.retained_versions(handle).expect("is open");
        let handle = self.at_once.partition.handle();
        kept.max(self.at_once.engine.retained_versions(handle).expect("is open"))
    }

    pub(crate) fn answer_of(&mut self, message: &Message<'_>) -> OwnedAnswer {
        let token = self.send(0, message);
        self.answer(token).expect("is answered at once, or once flushed")
    }

    fn send(&mut self, time_out_ms: u32, message: &Message<'_>) -> Token {
        self.next_request += 1;
        let token = token(self.next_request);
        self.at_once.send(token, time_out_ms, message);
        self.flushed.send(token, time_out_ms, message);
        self.flushed.flush();
        token
    }

    pub(crate) fn disconnect(&mut self) {
        self.each(|rig| rig.step(PartitionEvent::Disconnected { connection: 1 }));
    }

    /// Lets time pass, with a tick.
    pub(crate) fn advance_ms(&mut self, ms: u64) {
        self.skip_ms(ms);
        self.tick();
    }

    /// Lets time pass without a tick until the next request.
    pub(crate) fn skip_ms(&mut self, ms: u64) {
        self.each(|rig| {
            rig.now.ms += ms;
            rig.now.elapsed_ms += ms;
        });
    }

    pub(crate) fn tick(&mut self) {
        self.each(|rig| rig.step(PartitionEvent::Tick));
        self.flushed.flush();
    }

    pub(crate) fn now_ms(&self) -> u64 {
        self.at_once.now.ms
    }

    pub(crate) fn next_tick_ms(&self) -> Option<u64> {
        let next = self.at_once.partition.next_tick_ms();
        assert_eq!(next, self.flushed.partition.next_tick_ms());
        next
    }

    pub(crate) fn stats(&self) -> PartitionFigures {
        let stats = self.at_once.partition.stats();
        assert_eq!(stats, self.flushed.partition.stats());
        stats
    }

    pub(crate) fn records(&mut self) -> u64 {
        let handle = self.at_once.partition.handle();
        self.at_once.engine.partition_stats(handle).expect("is open").records
    }

    pub(crate) fn log_bytes(&mut self) -> u64 {
        let handle = self.at_once.partition.handle();
        self.at_once.engine.partition_stats(handle).expect("is open").log.bytes
    }

    fn each(&mut self, mut act: impl FnMut(&mut PartitionRig)) {
        act(&mut self.at_once);
        act(&mut self.flushed);
    }
}
