//! Clients append their numbers to several records at once, while messages are lost, all instances crash, and groups change their
//! primaries. In the end each number is once in each of its records, or, of an aborted transaction, in none. All records have the
//! numbers in one order. A read after an answer saw what was answered.

use std::collections::BTreeMap;

use zerohop_base::random::Random;

use super::*;
use zerohop_wire::messages::Extend;

const KEYS: usize = 6;
const CLIENTS: usize = 4;
const RETRY_MS: u64 = 400;
const PARTITIONS_MAX: u32 = 16;
const SLOW_SYNC_POLLS: u64 = 40;

struct CounterClient {
    sequence: u64,
    keys: Vec<usize>,
    parts: Vec<TransactionPart>,
    requested: (usize, u64),
    requested_ms: u64,
}

/// A read, and the numbers that were answered before it was sent.
struct CounterRead {
    key: usize,
    requested: (usize, u64),
    must_have: Vec<u64>,
}

struct CounterSimulation {
    world: InstanceNetwork,
    random: Random,
    keys: Vec<String>,
    clients: Vec<CounterClient>,
    readings: Vec<CounterRead>,
    /// The outcome of each transaction, and its keys.
    done: BTreeMap<u64, (bool, Vec<usize>)>,
    sequence: u64,
    now_ms: u64,
    copies: u32,
}

fn numbers(value: &str) -> Vec<u64> {
    value.split(',').filter(|one| !one.is_empty()).map(|one| one.parse().expect("is a number")).collect()
}

impl CounterSimulation {
    fn new(seed: u64, copies: u32) -> CounterSimulation {
        let mut world = InstanceNetwork::new(3, Durability::Sync);
        if seed % 2 == 1 {
            // A flush takes some batches.
            world.benches.iter().for_each(|bench| bench.disk.set_sync_polls_max(SLOW_SYNC_POLLS));
        }
        let mut keys: Vec<String> = world.keys();
        keys.extend((0..KEYS - 4).map(|n| format!("other-{n}")));
        if copies == 3 {
            for partition in 0..4 {
                let primary = world.holder(&keys[partition as usize]) as u32 + 1;
                world.set_group(PartitionId(partition), of_three(2, primary));
            }
            world.run_batches(1_500);
        }
        let (clients, readings, done) = (Vec::new(), Vec::new(), BTreeMap::new());
        let random = Random::new(seed);
        CounterSimulation { world, random, keys, clients, readings, done, sequence: 0, now_ms: 0, copies }
    }

    fn step(&mut self, begins: bool) {
        while begins && self.clients.len() < CLIENTS {
            self.begin();
        }
        if begins && self.random.below(3) == 0 && self.readings.len() < 8 {
            let key = self.random.below(KEYS as u64) as usize;
            let request = self.world.read(&self.keys[key]);
            let has = |(_, (is_done, keys)): &(&u64, &(bool, Vec<usize>))| *is_done && keys.contains(&key);
            let must_have = self.done.iter().filter(has).map(|(sequence, _)| *sequence).collect();
            self.readings.push(CounterRead { key, requested: request, must_have });
        }
        let ms = 5 * (1 + self.random.below(4));
        self.world.run_batches(ms);
        self.now_ms += ms;
        for client in std::mem::take(&mut self.clients) {
            self.look(client);
        }
        for reading in std::mem::take(&mut self.readings) {
            match self.world.answer(reading.requested) {
                None => self.readings.push(reading),
                Some(Ok(value)) => {
                    let found = numbers(&value);
                    let lacks = reading.must_have.iter().find(|one| !found.contains(one));
                    assert_eq!(lacks, None, "of {} in {value}", self.keys[reading.key]);
                }
                Some(Err(Failure::NotFound)) => assert_eq!(reading.must_have, [], "nothing is there"),
                Some(Err(_)) => {}
            }
        }
    }

    fn begin(&mut self) {
        self.sequence += 1;
        let first = self.random.below(KEYS as u64) as usize;
        let count = 1 + self.random.below(3) as usize;
        let keys: Vec<usize> = (0..count).map(|n| (first + n) % KEYS).collect();
        let bytes: &'static str = format!("{},", self.sequence).leak();
        let change = WriteChange::Extend(Extend { bytes: bytes.as_bytes() });
        let changes: Vec<_> = keys.iter().map(|key| (self.keys[*key].clone(), change)).collect();
        let parts = self.world.parts(PartDurability::Sync, &changes);
        let request = self.world.transact(self.sequence, &parts);
        self.clients.push(CounterClient {
            sequence: self.sequence,
            keys,
            parts,
            requested: request,
            requested_ms: self.now_ms,
        });
    }

    fn look(&mut self, mut client: CounterClient) {
        let answer = self.world.answer(client.requested);
        let is_over = match &answer {
            Some(Ok(answer)) => {
                assert!(answer.starts_with("transacted"), "{answer}");
                Some(true)
            }
            Some(Err(Failure::Aborted { .. })) => Some(false),
            Some(Err(_)) => None,
            None if self.now_ms < client.requested_ms + RETRY_MS => return self.clients.push(client),
            None => None,
        };
        match is_over {
            Some(is_done) => {
                self.done.insert(client.sequence, (is_done, client.keys));
            }
            None => {
                client.requested = self.world.transact(client.sequence, &client.parts);
                client.requested_ms = self.now_ms;
                self.clients.push(client);
            }
        }
    }

    fn disturb(&mut self) {
        match self.random.below(12) {
            0 if self.copies == 3 => {
                let partition = self.random.below(u64::from(self.world.partitions())) as u32;
                let primary = 1 + self.random.below(3) as u32;
                // Epochs of one group rise one by one.
                let keyspace = self.world.map().keyspace(KeyspaceId(KEYSPACE)).expect("is there");
                let epoch = keyspace.group(PartitionId(partition)).expect("is there").epoch.get() + 1;
                self.world.set_group(PartitionId(partition), of_three(epoch, primary));
            }
            1 if self.copies == 1 => {
                if self.random.below(2) == 0 {
                    self.world.checkpoint();
                }
                let world = std::mem::replace(
                    &mut self.world,
                    InstanceNetwork { benches: Vec::new(), loses: Box::new(|_, _| false) },
                );
                self.world = world.crash();
                self.readings.clear();
                // No answer will arrive; numbers start again.
                self.clients.iter_mut().for_each(|client| client.requested = (0, u64::MAX));
            }
            2..4 => {
                let percent = self.random.below(60);
                let mut random = Random::new(self.random.below(u64::MAX));
                self.world.loses = Box::new(move |_, _| random.below(100) < percent);
            }
            4 => self.world.loses = Box::new(|_, _| false),
            5 if self.random.below(12) == 0 && self.world.partitions() < PARTITIONS_MAX => self.world.split(),
            _ => {}
        }
    }

    fn end(mut self) -> (usize, usize) {
        self.world.loses = Box::new(|_, _| false);
        for _ in 0..4_000 {
            if self.clients.is_empty() {
                break;
            }
            self.step(false);
        }
        assert!(self.clients.is_empty(), "transactions do not end");
        self.world.run_batches(CLEANED_UP_MS + 10_000);
        for bench in &self.world.benches {
            assert!(bench.instance.transactions_are_idle(), "something is left");
        }
        let mut all = Vec::new();
        for key in self.keys.clone() {
            let value = self.world.value(&key).expect("is answered");
            all.push(numbers(&value.unwrap_or_default()));
        }
        for (sequence, (is_done, keys)) in &self.done {
            for (key, found) in all.iter().enumerate() {
                let times = found.iter().filter(|one| *one == sequence).count();
                let expected = usize::from(*is_done && keys.contains(&key));
                assert_eq!(times, expected, "{sequence} in {found:?}, key {key}");
            }
        }
        for (one, other) in all.iter().flat_map(|one| all.iter().map(move |other| (one, other))) {
            let both = |of: &[u64], with: &[u64]| -> Vec<u64> {
                of.iter().copied().filter(|number| with.contains(number)).collect()
            };
            assert_eq!(both(one, other), both(other, one), "one order of all");
        }
        let done = self.done.values().filter(|(is_done, _)| *is_done).count();
        (done, self.done.len() - done)
    }
}

pub(super) fn of_three(epoch: u64, primary: u32) -> ReplicaGroup {
    let in_sync = (1..=3).filter(|one| *one != primary).map(InstanceId).collect();
    ReplicaGroup { in_sync, ..ReplicaGroup::of_one(PartitionEpoch(epoch), InstanceId(primary)) }
}

fn run_seed(seed: u64, copies: u32) -> (usize, usize) {
    let mut play = CounterSimulation::new(seed, copies);
    for _ in 0..300 {
        play.disturb();
        play.step(true);
    }
    play.end()
}

fn run_seeds(seeds: std::ops::Range<u64>, copies: u32) {
    let (mut done, mut aborted) = (0, 0);
    for seed in seeds {
        let played = std::panic::catch_unwind(|| run_seed(seed, copies));
        let Ok(of_one) = played else { panic!("by seed {seed} with {copies} copies") };
        (done, aborted) = (done + of_one.0, aborted + of_one.1);
    }
    assert!(done > 50 && aborted < done, "{done} done, {aborted} aborted: hardly anything was tried");
}

/// `ZEROHOP_SEEDS` sets a larger number of seeds.
fn seeds() -> std::ops::Range<u64> {
    let more = std::env::var("ZEROHOP_SEEDS").ok().and_then(|seeds| seeds.parse().ok());
    0..more.unwrap_or(6)
}

#[cfg(debug_assertions)]
#[test]
fn planted_bugs_of_the_protocol_are_seen() {
    use zerohop_transaction::planted::{Bug, plant};
    for bug in [Bug::ReadsIgnoreIntents, Bug::IntentsFreedBeforeDecision] {
        plant(Some(bug));
        let seen = [1, 3].map(|copies| std::panic::catch_unwind(|| run_seeds(0..12, copies)).is_err());
        plant(None);
        assert!(seen.contains(&true), "{bug:?} is not seen");
    }
}

/// The only copies of partitions decide before anything is durable where one flush keeps the order.
#[cfg(debug_assertions)]
#[test]
fn planted_bugs_of_unflushed_parts_are_seen() {
    use zerohop_partition::planted::{Bug, plant};
    for bug in [Bug::UnsyncedPreparedSent, Bug::DecisionSeenUnflushed] {
        plant(Some(bug));
        let seen = (0..60).find(|seed| std::panic::catch_unwind(|| run_seed(*seed, 1)).is_err());
        plant(None);
        assert!(seen.is_some(), "{bug:?} is not seen");
    }
}

#[test]
fn appends_apply_once_in_order_despite_loss_and_crashes() {
    run_seeds(seeds(), 1);
}

#[test]
fn appends_apply_once_in_order_despite_loss_and_failovers() {
    run_seeds(seeds(), 3);
}
