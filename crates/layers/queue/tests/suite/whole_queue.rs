//! Pops of a queue with many partitions over a store that counts its calls, while others push and pop between any two calls.

use std::collections::{BTreeMap, BTreeSet};

use zerohop_base::random::Random;
use zerohop_layer_procedure::{Addition, Version, VersionedRecord};
use zerohop_layer_queue::keys::{self, RecordKey};
use zerohop_layer_queue::planted::{Bug, plant};
use zerohop_layer_queue::{
    ConsumeOutcome, ConsumeQueue, ConsumeRequest, ConsumerId, ConsumerState, CreateQueue, MessageId,
    NewMessage, ProducerId, PushRequest, QueueEffect, QueueError, QueueEvent, QueueProcedure, QueueStep,
    create_queue, push,
};

const PARTITIONS: u32 = 16;
const LEASE: u64 = 1 << 40;

/// Calls of the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Calls {
    scans: u64,
    /// Reads of the counts of all partitions.
    counts: u64,
    other_reads: u64,
    transactions: u64,
}

/// The records of a queue.
#[derive(Default)]
struct CountedStore {
    now: u64,
    version: u64,
    records: BTreeMap<RecordKey, (u64, Vec<u8>)>,
    calls: Calls,
    pushed: u64,
}

impl CountedStore {
    fn new() -> Self {
        let mut store = Self { now: 1_000_000, ..Self::default() };
        let create = CreateQueue { id: [7; 16], partitions: PARTITIONS, lease: LEASE, tries: 0, names: 0 };
        store.run(create_queue(create)).expect("the queue is created");
        store
    }

    fn read(&self, key: &RecordKey) -> Option<VersionedRecord> {
        let (version, value) = self.records.get(key)?;
        Some(VersionedRecord { version: Version(*version), value: value.clone() })
    }

    fn perform(&mut self, effect: QueueEffect) -> QueueEvent {
        match effect {
            QueueEffect::Read(keys) => {
                let is_counts = keys.len() == PARTITIONS as usize && keys[0] == keys::counts(0);
                *if is_counts { &mut self.calls.counts } else { &mut self.calls.other_reads } += 1;
                QueueEvent::Values(keys.iter().map(|key| self.read(key)).collect())
            }
            QueueEffect::Scan { from, to, limit, .. } => {
                self.calls.scans += 1;
                let mut found =
                    self.records.range(from..to).map(|(key, (_, value))| (key.clone(), value.clone()));
                let entries = found.by_ref().take(limit).collect();
                QueueEvent::Page { entries, next: found.next().map(|(key, _)| key) }
            }
            QueueEffect::Transact { conditions, writes, additions } => {
                self.calls.transactions += 1;
                if conditions.iter().any(|(key, seen)| self.read(key).map(|read| read.version) != *seen) {
                    return QueueEvent::Conflict;
                }
                self.version += 1;
                for write in writes {
                    match write.value {
                        Some(value) => self.records.insert(write.key, (self.version, value)),
                        None => self.records.remove(&write.key),
                    };
                }
                for Addition { key, offset, by } in additions {
                    let (version, value) = self.records.get_mut(&key).expect("a number to add to");
                    *version = self.version;
                    let place = offset as usize..offset as usize + 8;
                    let number = u64::from_le_bytes(value[place.clone()].try_into().expect("8 bytes"));
                    value[place].copy_from_slice(&number.wrapping_add_signed(by).to_le_bytes());
                }
                QueueEvent::Committed
            }
            QueueEffect::Own(never) => match never {},
        }
    }

    fn run<P: QueueProcedure>(&mut self, procedure: P) -> Result<P::Output, QueueError> {
        self.run_between(procedure, |_| {})
    }

    /// Runs a procedure. `other` is called before each of its effects is carried out.
    fn run_between<P: QueueProcedure>(
        &mut self,
        mut procedure: P,
        mut other: impl FnMut(&mut Self),
    ) -> Result<P::Output, QueueError> {
        let mut event = QueueEvent::Start;
        loop {
            match procedure.step(self.now, event) {
                QueueStep::Done(result) => return result,
                QueueStep::Effect(effect) => {
                    other(self);
                    event = self.perform(effect);
                }
            }
        }
    }

    fn push(&mut self, partition: u32, delay: u64) {
        self.pushed += 1;
        let request = PushRequest {
            partition,
            producer: ProducerId([9; 16]),
            first: self.pushed,
            messages: vec![NewMessage { value: vec![1], delay, ..NewMessage::default() }],
            names: 0,
            is_remembered: false,
        };
        self.run(push(request)).expect("the message is pushed");
    }

    /// The ready messages, and the ends of leases and delays.
    fn entries(&self) -> (BTreeSet<MessageId>, Vec<u64>) {
        let in_ranges = |range: fn(u32) -> (RecordKey, RecordKey)| {
            let ranges = (0..PARTITIONS).map(range);
            let keys = ranges.flat_map(|(from, to)| self.records.range(from..to).map(|(key, _)| key));
            keys.map(|key| keys::time_and_message(key).expect("the key of an entry")).collect::<Vec<_>>()
        };
        let ready = in_ranges(keys::all_ready).into_iter().map(|(_, message)| message).collect();
        (ready, in_ranges(keys::all_timed).into_iter().map(|(due, _)| due).collect())
    }

    fn is_unchanged(&self, counts: &[(RecordKey, Version)]) -> bool {
        counts.iter().all(|(key, version)| self.read(key).map(|read| read.version) == Some(*version))
    }
}

fn consumer(number: u8) -> ConsumerState {
    ConsumerState::new(ConsumerId([number; 16]), PARTITIONS)
}

fn request(random: u64, waits: bool) -> ConsumeRequest {
    ConsumeRequest { messages: 1, bytes: 1 << 20, lease: LEASE, tries: 0, waits, random }
}

fn pop(store: &mut CountedStore, consumer: &mut ConsumerState, random: u64) -> ConsumeOutcome {
    store.run(ConsumeQueue::new(consumer, request(random, false))).expect("a pop succeeds")
}

#[test]
fn idle_pop_scans_two_partitions_and_reads_all_counts_once() {
    let (mut store, mut idle, mut random) = (CountedStore::new(), consumer(1), Random::new(1));
    for _ in 0..100 {
        store.now += 10;
        store.calls = Calls::default();
        let outcome = pop(&mut store, &mut idle, random.next_u64());
        assert!(outcome.messages.is_empty() && outcome.next_due.is_none(), "{outcome:?}");
        // Of each partition the ready messages, and the leases and delays that have ended.
        assert_eq!(store.calls, Calls { scans: 4, counts: 1, ..Calls::default() });
    }
    // A consumer that was woken begins with the counts, and goes to the message.
    store.now += 1000;
    store.push(11, 0);
    store.calls = Calls::default();
    idle.note_woken();
    let outcome = pop(&mut store, &mut idle, random.next_u64());
    assert_eq!((outcome.partition, outcome.messages.len()), (11, 1));
    assert_eq!(store.calls, Calls { scans: 2, counts: 1, other_reads: 1, transactions: 1 });
    // A hint of a push names the partition.
    store.push(5, 0);
    idle.note_pushed(5, 1);
    store.calls = Calls::default();
    assert_eq!(pop(&mut store, &mut idle, random.next_u64()).partition, 5);
    assert!(store.calls.scans <= 4 && store.calls.counts == 0, "{:?}", store.calls);
}

#[test]
fn busy_pop_scans_one_partition_and_all_partitions_take_turns() {
    let (mut store, mut busy, mut random) = (CountedStore::new(), consumer(1), Random::new(2));
    for _ in 0..50 {
        (0..PARTITIONS).for_each(|partition| store.push(partition, 0));
    }
    pop(&mut store, &mut busy, random.next_u64());
    store.calls = Calls::default();
    let mut popped: BTreeMap<u32, u32> = BTreeMap::new();
    for _ in 0..320 {
        let outcome = pop(&mut store, &mut busy, random.next_u64());
        assert_eq!(outcome.messages.len(), 1);
        *popped.entry(outcome.partition).or_default() += 1;
    }
    assert_eq!(popped.len() as u32, PARTITIONS);
    assert!(popped.values().all(|count| *count == 20), "{popped:?}");
    // The first pop of a partition looks for leases that have ended too.
    let Calls { scans, counts, other_reads, transactions } = store.calls;
    assert!(scans <= 320 + u64::from(PARTITIONS), "{scans} scans");
    assert_eq!((counts, other_reads, transactions), (1, 320, 320));
}

#[test]
fn message_in_any_partition_is_found() {
    let mut random = Random::new(3);
    for partition in (0..PARTITIONS).cycle().take(200) {
        let (mut store, mut fresh) = (CountedStore::new(), consumer(1));
        store.push(partition, 0);
        let outcome = pop(&mut store, &mut fresh, random.next_u64());
        assert_eq!((outcome.partition, outcome.messages.len()), (partition, 1));
    }
}

#[test]
fn message_of_another_partition_is_popped_although_one_has_always_messages() {
    let (mut store, mut busy, mut random) = (CountedStore::new(), consumer(1), Random::new(4));
    for _ in 0..100 {
        store.push(3, 0);
    }
    for _ in 0..2 {
        pop(&mut store, &mut busy, random.next_u64());
    }
    store.push(12, 0);
    let found = (0..80).any(|_| {
        store.now += 50;
        store.push(3, 0);
        pop(&mut store, &mut busy, random.next_u64()).partition == 12
    });
    assert!(found, "the message waits while another partition has some");
}

/// A consumer pops while others push and pop. The error says which message it has missed.
fn pops_among_others(seed: u64) -> Result<(), String> {
    let mut random = Random::new(seed);
    let (mut store, mut own, mut contender) = (CountedStore::new(), consumer(1), consumer(2));
    for _ in 0..150 {
        store.now += random.below(300);
        let (ready_before, _) = store.entries();
        let waits = random.chance(1, 2);
        let drawn = random.next_u64();
        let outcome = store.run_between(ConsumeQueue::new(&mut own, request(drawn, waits)), |store| {
            store.now += random.below(3);
            if random.chance(1, 20) {
                let delay = if random.chance(1, 3) { 1 + random.below(500) } else { 0 };
                store.push(random.below(PARTITIONS.into()) as u32, delay);
            }
            if random.chance(1, 30) {
                pop(store, &mut contender, random.next_u64());
            }
        });
        let outcome = outcome.map_err(|error| error.to_string())?;
        if !outcome.messages.is_empty() || outcome.is_contended {
            continue;
        }
        let (ready, timed) = store.entries();
        if let Some(missed) = ready_before.intersection(&ready).next() {
            return Err(format!("{missed} was there from the beginning"));
        }
        let is_asleep =
            store.is_unchanged(&outcome.counts) && outcome.next_due.is_none_or(|due| due > store.now);
        if !waits || !is_asleep {
            continue;
        }
        if let Some(missed) = ready.first() {
            return Err(format!("nothing wakes the consumer for {missed}"));
        }
        let first_end = timed.into_iter().min();
        if first_end.is_some_and(|end| outcome.next_due.is_none_or(|due| due > end)) {
            return Err(format!("it sleeps until {:?}, and a delay ends at {first_end:?}", outcome.next_due));
        }
    }
    Ok(())
}

#[test]
fn pop_without_a_message_has_missed_none() {
    for seed in 0..60 {
        pops_among_others(seed).unwrap_or_else(|missed| panic!("seed {seed}: {missed}"));
    }
}

#[test]
fn bugs_planted_in_pops_of_many_partitions_are_found() {
    for bug in [Bug::OnlyDrawnLookedAt, Bug::LookedBeforeCounts] {
        plant(Some(bug));
        let found = (0..60).find_map(|seed| pops_among_others(seed).err());
        plant(None);
        assert!(found.is_some(), "{bug:?} is not found");
    }
}

/// An answer is lost: the consumer gets the messages of this pop first, and no others are leased for it.
#[test]
fn pop_without_an_answer_is_repeated_in_its_partition() {
    let (mut store, mut own) = (CountedStore::new(), consumer(1));
    (0..PARTITIONS).for_each(|partition| store.push(partition, 0));
    for seed in 0..PARTITIONS {
        let mut procedure =
            ConsumeQueue::new(&mut own, request(u64::from(seed) << 33 | u64::from(seed), false));
        let mut event = QueueEvent::Start;
        while let QueueStep::Effect(effect) =
            zerohop_layer_procedure::Procedure::step(&mut procedure, store.now, event)
        {
            let is_commit = matches!(effect, QueueEffect::Transact { .. });
            event = store.perform(effect);
            if is_commit {
                event = QueueEvent::Failed(QueueError::Unavailable("the answer is lost".to_owned()));
            }
        }
        let (left, _) = store.entries();
        let outcome = pop(&mut store, &mut own, 1);
        assert_eq!((outcome.messages.len(), store.entries().0), (1, left), "pop {seed}");
    }
    assert!(store.entries().0.is_empty());
}
