//! Random requests, retries, flushes and crashes, checked against the model step by step. A seed replays its run.

use std::collections::BTreeMap;

use zerohop_base::random::Random;
use zerohop_engine::disk::simulated::SimulatedDisk;
use zerohop_engine::{Durability, EngineOptions};
use zerohop_wire::ids::{Sequence, SessionId, Timestamp};
use zerohop_wire::messages::{
    Condition, Confirm, CountBits, Expiry, GetBit, LookupRange, NumberType, OperationBatch, Operator, Query,
    Range, RecordOperation, RecordRead, ReturnedNumber, Scan, Stamp, Transform, Wait,
};
use zerohop_wire::{Elements, Failure, Message};

use super::model::{ExpectedAnswer, ModelHistory};
use super::requests::{BatchItem, ClientWrite, OwnedWaitUntil, WriteOp, with_write};
use crate::testing::{OwnedAnswer, PartitionRig, token};
use crate::{ClockSample, PartitionEvent, Token};

/// A client: its writes by sequence, and which of them are answered.
struct WritingClient {
    session: SessionId,
    sent: BTreeMap<u64, ClientWrite>,
    answered: BTreeMap<u64, bool>,
}

struct QueuedWait {
    key: Vec<u8>,
    until: OwnedWaitUntil,
    deadline_ms: u64,
}

struct RandomRun {
    rig: PartitionRig,
    durability: Durability,
    random: Random,
    history: ModelHistory,
    clients: Vec<WritingClient>,
    next_token: u64,
    /// Answers that must arrive once the log is committed up to their index.
    due: BTreeMap<Token, Vec<(u64, OwnedAnswer)>>,
    /// For each token: the writes of clients that its answer acknowledges.
    acknowledges: BTreeMap<Token, Vec<(usize, u64)>>,
    queued: BTreeMap<Token, QueuedWait>,
}

impl WritingClient {
    fn lowest(&self) -> u64 {
        let open = self.answered.iter().find(|(_, answered)| !**answered).map(|(sequence, _)| *sequence);
        open.unwrap_or(self.next())
    }

    fn next(&self) -> u64 {
        self.answered.keys().next_back().map_or(1, |last| last + 1)
    }

    fn stamp(&self, sequence: u64) -> Stamp {
        let lowest_unanswered = Sequence(self.lowest().min(sequence));
        Stamp {
            session: self.session,
            sequence: Sequence(sequence),
            lowest_unanswered,
            seen: Timestamp::ZERO,
        }
    }
}

fn options() -> EngineOptions {
    EngineOptions {
        segment_bytes: 4 << 10,
        journal_file_bytes: 8 << 10,
        disk_reserve_bytes: 0,
        starts_checkpoints: false,
        ..EngineOptions::default()
    }
}

impl RandomRun {
    fn new(seed: u64) -> RandomRun {
        let mut random = Random::new(seed);
        let durability =
            [Durability::Sync, Durability::Sync, Durability::Interval { ms: 20 }, Durability::Memory]
                [random.below(4) as usize];
        let now = ClockSample::at_ms(1_000_000);
        let rig = PartitionRig::with(SimulatedDisk::new(seed), durability, now, options());
        let client = |nonce| WritingClient {
            session: SessionId { issued: Timestamp::from_millis(900_000 + nonce), nonce },
            sent: BTreeMap::new(),
            answered: BTreeMap::new(),
        };
        RandomRun {
            rig,
            durability,
            random,
            history: ModelHistory::new(now.ms),
            clients: (0..3).map(client).collect(),
            next_token: 0,
            due: BTreeMap::new(),
            acknowledges: BTreeMap::new(),
            queued: BTreeMap::new(),
        }
    }

    fn token(&mut self) -> Token {
        self.next_token += 1;
        token(self.next_token)
    }

    fn key(&mut self) -> Vec<u8> {
        vec![b'a' + self.random.below(5) as u8]
    }

    fn value(&mut self) -> Vec<u8> {
        match self.random.below(8) {
            0 => Vec::new(),
            1..4 => (self.random.below(3) as i64 - 1).to_string().into_bytes(),
            4 => i64::MAX.to_string().into_bytes(),
            5..7 => vec![b'x'; self.random.below(3) as usize],
            _ => vec![b'y'; self.random.below(900) as usize],
        }
    }

    fn maybe_value(&mut self) -> Option<Vec<u8>> {
        if self.random.chance(1, 4) { None } else { Some(self.value()) }
    }

    fn expiry(&mut self) -> Expiry {
        match self.random.below(6) {
            0..3 => Expiry::Never,
            3 => Expiry::AfterMs(self.random.below(60)),
            4 => Expiry::AtMs(self.history.now_ms + self.random.below(80) - 10),
            _ => Expiry::Unchanged,
        }
    }

    fn range(&mut self) -> Range {
        let mut end = || self.random.below(9) as i64 - 4;
        let (start, stop) = (end(), end());
        Range { start, stop: if self.random.chance(1, 2) { i64::MAX } else { stop } }
    }

    /// The present version of a record, or another.
    fn version(&mut self, key: &[u8]) -> Timestamp {
        let version = self.history.now.records.get(key).map(|record| record.version).unwrap_or_default();
        if self.random.chance(1, 4) { Timestamp(version.0 + self.random.below(2)) } else { version }
    }

    fn operation(&mut self) -> ClientWrite {
        let key = self.key();
        let condition = match self.random.below(8) {
            0 => Condition::IfAbsent,
            1 => Condition::IfPresent,
            2 => Condition::IfVersion(self.version(&key)),
            _ => Condition::Always,
        };
        let op = match self.random.below(13) {
            0..2 => WriteOp::Insert(self.value(), self.expiry()),
            2 => WriteOp::Remove,
            3..6 => WriteOp::Append((0..self.random.below(4)).map(|_| self.value()).collect()),
            6 => WriteOp::Extend(self.value()),
            7 => WriteOp::CompareSwap(self.maybe_value(), self.maybe_value()),
            8 => WriteOp::Increment(self.random.below(5) as i64 - 2),
            9 => WriteOp::SetBit(self.random.below(40), self.random.chance(1, 2)),
            10 => WriteOp::Expire(self.expiry()),
            11 => WriteOp::Transform(self.transform()),
            _ => WriteOp::Trim(self.range()),
        };
        ClientWrite { key, condition, op }
    }

    fn transform(&mut self) -> Transform {
        Transform {
            operator: Operator::Add,
            number: NumberType::I64,
            operand: self.random.below(3),
            offset: self.random.below(6),
            returns: ReturnedNumber::ALL[self.random.below(3) as usize],
        }
    }

    fn until(&mut self, key: &[u8]) -> OwnedWaitUntil {
        match self.random.below(5) {
            0 => OwnedWaitUntil::Equals(self.value()),
            1 => OwnedWaitUntil::Differs(self.value()),
            2 => OwnedWaitUntil::Absent,
            3 => OwnedWaitUntil::Present,
            _ => OwnedWaitUntil::Changed(self.version(key)),
        }
    }

    /// A request was stepped. The answers that are due have arrived, and the others have not.
    fn expect(&mut self, token: Token, due: Vec<ExpectedAnswer>) {
        assert_eq!(
            self.rig.partition.stats().last,
            self.history.now.last,
            "the log is as long as it must be"
        );
        let answers: Vec<(u64, OwnedAnswer)> = due.into_iter().map(|due| (due.index, due.answer)).collect();
        self.due.insert(token, answers);
        if self.durability != Durability::Sync {
            self.commit_through(self.history.now.last);
        }
        self.collect();
    }

    /// The log is committed up to this index: wakes the waits in the model that each entry wakes.
    fn commit_through(&mut self, through: u64) {
        for index in self.history.commit + 1..=through {
            let model = self.history.at(index);
            let woken = self.queued.iter().filter(|(_, wait)| {
                model.was_touched_last(&wait.key) && model.is_satisfied(&wait.key, &wait.until.until())
            });
            let woken: Vec<Token> = woken.map(|(token, _)| *token).collect();
            for token in woken {
                let wait = self.queued.remove(&token).expect("is blocked");
                self.due.insert(token, vec![(index, model.lookup(&wait.key, Range::ALL))]);
            }
        }
        self.history.commit = self.history.commit.max(through);
    }

    /// Collects the answers that have arrived, which must be exactly those that are due.
    fn collect(&mut self) {
        let ready: Vec<Token> = self
            .due
            .iter()
            .filter(|(_, answers)| answers.iter().all(|(index, _)| *index <= self.history.commit))
            .map(|(token, _)| *token)
            .collect();
        for token in ready {
            let expected: Vec<OwnedAnswer> =
                self.due.remove(&token).expect("is due").into_iter().map(|(_, answer)| answer).collect();
            let got = match self.rig.out.batches.remove(&token) {
                Some(answers) => answers,
                None => vec![self.rig.answer(token).unwrap_or_else(|| panic!("{token:?} has no answer"))],
            };
            assert_eq!(got, expected, "answer of {token:?}");
            for (client, sequence) in self.acknowledges.remove(&token).unwrap_or_default() {
                self.clients[client].answered.insert(sequence, true);
            }
        }
        assert!(self.rig.out.answers.is_empty(), "too early: {:?}", self.rig.out.answers);
        assert!(self.rig.out.batches.is_empty(), "too early: {:?}", self.rig.out.batches);
    }

    fn send_plain_write(&mut self) {
        let (token, sent) = (self.token(), self.operation());
        let due = with_write(&sent, |write| {
            self.rig.send(token, 0, &Message::Write { stamp: Stamp::default(), write });
            self.history.write(&Stamp::default(), 0, &write)
        });
        self.expect(token, vec![due.expect("has no session to drop it for")]);
    }

    /// A new write of a client, or a repeated one.
    fn send_write(&mut self) {
        let client = self.random.below(3) as usize;
        let next = self.clients[client].next();
        let again = self.random.chance(1, 3) && next > 1;
        let sequence = if again { next - 1 - self.random.below((next - 1).min(6)) } else { next };
        if !again {
            let sent = self.operation();
            self.clients[client].sent.insert(sequence, sent);
            self.clients[client].answered.insert(sequence, false);
        }
        let sent = self.clients[client].sent[&sequence].clone();
        let stamp = self.clients[client].stamp(sequence);
        let token = self.token();
        let due = with_write(&sent, |write| {
            self.rig.send(token, 0, &Message::Write { stamp, write });
            self.history.write(&stamp, sequence, &write)
        });
        match due {
            Some(due) => {
                self.acknowledges.insert(token, vec![(client, sequence)]);
                self.expect(token, vec![due]);
            }
            None => assert_eq!(self.rig.out.dropped.pop(), Some(token)),
        }
    }

    fn query(&mut self) -> Query<'static> {
        match self.random.below(7) {
            0..2 => Query::Lookup,
            6 => Query::Confirm(Confirm { version: Timestamp(self.random.below(2)) }),
            2 => Query::LookupRange(LookupRange { range: self.range() }),
            3 => Query::Inspect,
            4 => Query::GetBit(GetBit { offset: self.random.below(40) }),
            _ => Query::CountBits(CountBits { range: self.range() }),
        }
    }

    fn send_read(&mut self) {
        let (token, key, query) = (self.token(), self.key(), self.query());
        let read = RecordRead { key: &key, query };
        self.rig.send(token, 0, &Message::Read { seen: Timestamp::ZERO, read });
        let due = self.history.read(&read).expect("is no wait");
        self.expect(token, vec![due]);
    }

    fn send_wait(&mut self) {
        let (token, key) = (self.token(), self.key());
        let until = self.until(&key);
        let time_out_ms = 1 + self.random.below(100) as u32;
        let read = RecordRead { key: &key, query: Query::Wait(Wait { until: until.until() }) };
        self.rig.send(token, time_out_ms, &Message::Read { seen: Timestamp::ZERO, read });
        match self.history.read(&read) {
            Some(due) => self.expect(token, vec![due]),
            None => {
                // The key of the wait may have expired. That entry is committed before the wait is queued, or wakes it later.
                if self.durability != Durability::Sync {
                    self.commit_through(self.history.now.last);
                }
                let deadline_ms = self.history.now_ms + u64::from(time_out_ms);
                self.queued.insert(token, QueuedWait { key, until, deadline_ms });
                self.collect();
            }
        }
    }

    /// A batch of reads and of a client's writes, new or repeated.
    fn send_batch(&mut self) {
        let client = self.random.below(3) as usize;
        let next = self.clients[client].next();
        let again = self.random.chance(1, 3) && next > 1;
        let begin = if again { next - 1 - self.random.below((next - 1).min(4)) } else { next };
        let stamp = self.clients[client].stamp(begin);
        let (mut sequence, mut items) = (begin, Vec::new());
        for _ in 0..1 + self.random.below(5) {
            if self.random.chance(1, 3) {
                items.push(Err((self.key(), self.query())));
                continue;
            }
            let sent = match self.clients[client].sent.get(&sequence) {
                Some(sent) => sent.clone(),
                None => self.operation(),
            };
            self.clients[client].sent.insert(sequence, sent.clone());
            self.clients[client].answered.entry(sequence).or_insert(false);
            items.push(Ok((sequence, sent)));
            sequence += 1;
        }
        if sequence == begin {
            return;
        }
        let token = self.token();
        self.send_items(token, stamp, &items);
        if self.history.is_answered(&stamp) {
            assert_eq!(self.rig.out.dropped.pop(), Some(token));
            return;
        }
        let due = items.iter().map(|item| match item {
            Ok((sequence, sent)) => with_write(sent, |write| self.history.write(&stamp, *sequence, &write)),
            Err((key, query)) => self.history.read(&RecordRead { key, query: *query }),
        });
        let due: Option<Vec<ExpectedAnswer>> = due.collect();
        self.acknowledges.insert(token, (begin..sequence).map(|sequence| (client, sequence)).collect());
        self.expect(token, due.expect("each item is answered"));
    }

    fn send_items(&mut self, token: Token, stamp: Stamp, items: &[BatchItem]) {
        let mut packed = Vec::new();
        for item in items {
            match item {
                Ok((_, sent)) => with_write(sent, |write| {
                    zerohop_wire::pack(&RecordOperation::Write(write), &mut packed).expect("fits");
                }),
                Err((key, query)) => {
                    let read = RecordOperation::Read(RecordRead { key, query: *query });
                    zerohop_wire::pack(&read, &mut packed).expect("fits");
                }
            }
        }
        let operations = Elements::packed(items.len() as u32, &packed).expect("was packed so");
        self.rig.send(token, 0, &Message::Batch(OperationBatch { stamp, operations }));
    }

    fn scan(&mut self) {
        let token = self.token();
        let scan = Scan {
            seen: Timestamp::ZERO,
            cursor: b"",
            prefix: b"",
            keys_max: 100,
            blobs: false,
            range: Default::default(),
        };
        self.rig.send(token, 0, &Message::Scan(scan));
        let mut keys = self.rig.answer(token).expect("is answered at once").keys();
        keys.sort();
        let committed = self.history.at(self.history.commit);
        let is_due = |deadline: Option<u64>| deadline.is_some_and(|deadline| deadline <= self.history.now_ms);
        let there = committed.records.iter().filter(|(_, record)| !is_due(record.deadline));
        assert_eq!(keys, there.map(|(key, _)| key.clone()).collect::<Vec<_>>());
    }

    fn flush(&mut self) {
        let loses_power = self.durability == Durability::Sync && self.random.chance(1, 12);
        if loses_power {
            self.rig.disk.cut_power_after(self.random.below(4));
        }
        match self.rig.engine.flush() {
            // The entries are durable, though no client was answered.
            Ok(()) if loses_power => {
                self.history.commit = self.history.now.last;
                self.crash();
            }
            Ok(()) => {
                self.rig.step(PartitionEvent::Flushed);
                self.commit_through(self.history.now.last);
                self.collect();
            }
            Err(_) => {
                self.rig.step(PartitionEvent::FlushFailed);
                let failed = std::mem::take(&mut self.rig.out.answers);
                let doubt = Err(Failure::DiskFailed);
                assert!(failed.values().all(|answer| answer.number() == doubt), "{failed:?}");
                self.crash();
            }
        }
    }

    fn advance_time(&mut self) {
        self.rig.now.ms += self.random.below(40);
        self.history.now_ms = self.rig.now.ms;
        if self.random.chance(1, 2) {
            // Uncommitted deadlines may be due and are not checked; the model does not cover that.
            self.flush();
            self.history.now_ms = self.rig.now.ms;
            let commit = self.history.at(self.history.commit);
            self.rig.step(PartitionEvent::Tick);
            let overdue = self.queued.iter().filter(|(_, wait)| wait.deadline_ms <= self.rig.now.ms);
            for token in overdue.map(|(token, _)| *token).collect::<Vec<_>>() {
                let wait = self.queued.remove(&token).expect("is blocked");
                let version = commit.records.get(&wait.key).map(|record| record.version).unwrap_or_default();
                let answer = OwnedAnswer::of(&Err(Failure::TimedOut { version }));
                self.due.insert(token, vec![(0, answer)]);
            }
            self.history.tick();
            if self.durability != Durability::Sync {
                self.commit_through(self.history.now.last);
            }
            self.collect();
        }
    }

    fn maintain(&mut self) {
        if self.random.chance(1, 3) {
            self.rig.partition.checkpoint(&mut self.rig.engine).expect("begins");
        }
        for _ in 0..self.random.below(30) {
            self.rig.engine.maintain(self.rig.now.ms).expect("goes on");
        }
        if self.random.chance(1, 10) && self.durability != Durability::Memory {
            self.rig.engine.compact(self.rig.partition.handle()).expect("compacts");
        }
    }

    fn crash(&mut self) {
        let disk = SimulatedDisk::new(0);
        let rig = std::mem::replace(
            &mut self.rig,
            PartitionRig::with(disk, self.durability, ClockSample::at_ms(0), options()),
        );
        self.rig = rig.crash_with(self.durability, options());
        let last = self.rig.partition.stats().last;
        if self.durability == Durability::Sync {
            assert!(
                last >= self.history.commit,
                "acknowledged entries are there: {last} of {}",
                self.history.commit
            );
        }
        assert!(last <= self.history.now.last);
        self.history.truncate_to(last);
        self.history.commit = last;
        (self.due, self.acknowledges, self.queued) = Default::default();
        if self.durability != Durability::Sync {
            // Acknowledged writes may be lost, and no client repeats them.
            for client in &mut self.clients {
                client.answered.values_mut().for_each(|answered| *answered = true);
                client.session.nonce += 10;
                client.sent.clear();
                client.answered.clear();
            }
        }
        self.check();
    }

    /// All records must equal those of the model.
    fn check(&mut self) {
        for key in [b"a", b"b", b"c", b"d", b"e"] {
            let token = self.token();
            let read = RecordRead { key, query: Query::Lookup };
            self.rig.send(token, 0, &Message::Read { seen: Timestamp::ZERO, read });
            let due = self.history.read(&read).expect("is no wait");
            self.expect(token, vec![due]);
        }
        self.flush_all();
        self.scan();
    }

    fn flush_all(&mut self) {
        self.rig.flush();
        self.commit_through(self.history.now.last);
        self.collect();
    }

    fn step(&mut self) {
        match self.random.below(40) {
            0..7 => self.send_plain_write(),
            7..17 => self.send_write(),
            17..24 => self.send_read(),
            24..27 => self.send_wait(),
            27..30 => self.send_batch(),
            30 => self.scan(),
            31..35 => self.flush(),
            35..37 => self.advance_time(),
            37..39 => self.maintain(),
            _ if self.random.chance(1, 3) => self.crash(),
            _ => self.retry_all(),
        }
        self.history.remove_below(self.history.commit.min(self.rig.durable()));
    }

    /// A client repeats every request without an answer.
    fn retry_all(&mut self) {
        for client in 0..self.clients.len() {
            let open = self.clients[client].answered.iter().filter(|(_, answered)| !**answered);
            for sequence in open.map(|(sequence, _)| *sequence).collect::<Vec<_>>() {
                let sent = self.clients[client].sent[&sequence].clone();
                let (stamp, token) = (self.clients[client].stamp(sequence), self.token());
                let due = with_write(&sent, |write| {
                    self.rig.send(token, 0, &Message::Write { stamp, write });
                    self.history.write(&stamp, sequence, &write)
                });
                self.acknowledges.insert(token, vec![(client, sequence)]);
                self.expect(token, vec![due.expect("is not answered")]);
            }
        }
    }
}

fn run(seeds: std::ops::Range<u64>) {
    for seed in seeds {
        let ran = std::panic::catch_unwind(|| {
            let mut world = RandomRun::new(seed);
            for _ in 0..200 {
                world.step();
            }
            world.retry_all();
            world.check();
        });
        assert!(ran.is_ok(), "seed {seed}");
    }
}

#[test]
fn partition_matches_model_through_retries_flushes_and_crashes() {
    run(0..600);
}
