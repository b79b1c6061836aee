//! Simulated clients: their requests, and how they process the answers.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use zerohop_transaction::codec::encode_items;
use zerohop_transaction::{
    Durability, Items, Reason, RoutingKey, StageId, TransactionId, TransactionItem, TransactionOutcome,
    TransactionPart, TransactionRequest,
};
use zerohop_wire::ids::{KeyspaceId, Sequence, SessionId, Timestamp};

use super::cycles::{CheckedAction, Transaction, TransactionFate};
use super::group::ClientAnswer;
use super::random::Random;
use super::store::{LIST, RecordOp, RecordValue, decode_values};

/// A request of a client to a partition.
#[derive(Clone, Debug)]
pub enum ClientRequest {
    Transaction { request: TransactionRequest, lowest: u64, after: Timestamp },
    Read { lock_key: u64, at: Option<Timestamp> },
    Confirm { items: Vec<TransactionItem> },
    Local { session: SessionId, sequence: u64, lock_key: u64, op: RecordOp },
    Stage { id: StageId, bytes: Bytes },
}

/// The present task of a client.
#[derive(Clone, Debug)]
enum Goal {
    /// A transaction with these operations; it reads the lock keys of `read_first` before.
    Transaction { ops: Vec<(u64, RecordOp)>, read_first: Vec<u64>, is_staged: bool },
    /// A confirmed read of several lock keys.
    Confirmed { lock_keys: Vec<u64>, tries: u32 },
    /// A snapshot read of several lock keys.
    Snapshot { lock_keys: Vec<u64>, at: Timestamp },
    /// A single read or write.
    Single { lock_key: u64, op: RecordOp },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClientPhase {
    Reading,
    Confirming,
    Staging,
    Committing,
}

/// A client: a session that runs one task after another.
pub struct TransactionClient {
    pub process: usize,
    session: SessionId,
    sequences: BTreeMap<usize, u64>,
    after: Timestamp,
    goal: Option<Goal>,
    phase: ClientPhase,
    /// Requests in flight: call, a hash of the partition, request.
    pub pending: BTreeMap<u64, (u64, ClientRequest)>,
    /// Calls that were never sent.
    pub unsent: Vec<u64>,
    got: BTreeMap<u64, (Timestamp, RecordValue)>,
    has_refusal: bool,
    /// The order of the lock keys of lookups in the results, by part.
    lookups: Vec<u64>,
    /// The index of the present transaction in the history.
    entry: usize,
    begin: u64,
    pub done: u32,
}

/// The observations of all clients.
#[derive(Default)]
pub struct ClientsHistory {
    pub history: Vec<Transaction>,
    /// Timestamps of committed transactions, by index in the history.
    pub timestamps: BTreeMap<usize, Timestamp>,
    /// Values of snapshot reads: the lock key, the time of the snapshot, and the value.
    pub snapshots: Vec<(u64, Timestamp, RecordValue)>,
    pub wrong: Vec<String>,
    pub counts: BTreeMap<&'static str, u64>,
    next_value: u64,
    next_call: u64,
    next_process: usize,
}

impl ClientsHistory {
    pub fn count(&mut self, what: &'static str) {
        self.add(what, 1);
    }

    pub fn add(&mut self, what: &'static str, count: u64) {
        *self.counts.entry(what).or_default() += count;
    }
}

/// The partitions as clients know them.
pub struct Map {
    pub durabilities: Vec<Durability>,
    /// The first hashes of their ranges, as far as clients know them.
    pub firsts: BTreeSet<u64>,
}

impl Map {
    pub fn group_of(lock_key: u64) -> usize {
        (lock_key >> 60) as usize
    }

    /// The first hash of the partition of a lock key.
    fn part_of(&self, lock_key: u64) -> u64 {
        self.firsts.range(..=lock_key).next_back().copied().unwrap_or_default()
    }

    pub fn routing_key(&self, lock_key: u64) -> RoutingKey {
        let keyspace = if self.durabilities[Map::group_of(lock_key)] == Durability::Memory { 9 } else { 1 };
        RoutingKey { keyspace: KeyspaceId(keyspace), point: lock_key }
    }
}

impl TransactionClient {
    pub fn new(seen: &mut ClientsHistory) -> TransactionClient {
        seen.next_process += 1;
        let process = seen.next_process;
        TransactionClient {
            process,
            session: SessionId { issued: Timestamp(process as u64), nonce: process as u64 },
            sequences: BTreeMap::new(),
            after: Timestamp::ZERO,
            goal: None,
            phase: ClientPhase::Reading,
            pending: BTreeMap::new(),
            unsent: Vec::new(),
            got: BTreeMap::new(),
            has_refusal: false,
            lookups: Vec::new(),
            entry: usize::MAX,
            begin: 0,
            done: 0,
        }
    }

    pub fn is_free(&self) -> bool {
        self.goal.is_none()
    }

    fn send_request(&mut self, seen: &mut ClientsHistory, point: u64, query: ClientRequest) {
        seen.next_call += 1;
        self.pending.insert(seen.next_call, (point, query));
        self.unsent.push(seen.next_call);
    }

    /// Starts a task. `now` orders events; `wall` is the physical time.
    pub fn begin(
        &mut self,
        seen: &mut ClientsHistory,
        map: &Map,
        random: &mut Random,
        (now, wall): (u64, Timestamp),
    ) {
        let groups = map.durabilities.len() as u64;
        let list = |random: &mut Random| random.below(groups) << 60 | LIST | random.below(2) << 58;
        let accounts: Vec<u64> = (0..groups).flat_map(|group| [group << 60, group << 60 | 1 << 58]).collect();
        let value = |seen: &mut ClientsHistory| {
            seen.next_value += 1;
            seen.next_value
        };
        self.begin = now;
        self.got.clear();
        self.entry = usize::MAX;
        let goal = match random.below(100) {
            0..25 => {
                let mut ops = Vec::new();
                for _ in 0..1 + random.below(4) {
                    let lock_key = list(random);
                    let op =
                        if random.chance(400) { RecordOp::Lookup } else { RecordOp::Append(value(seen)) };
                    ops.push((lock_key, op));
                }
                Goal::Transaction { ops, read_first: Vec::new(), is_staged: random.chance(100) }
            }
            25..45 => {
                let mut read_first: Vec<u64> = (0..1 + random.below(2)).map(|_| list(random)).collect();
                read_first.dedup();
                let lock_key = if random.chance(500) { read_first[0] } else { list(random) };
                Goal::Transaction {
                    ops: vec![(lock_key, RecordOp::Append(value(seen)))],
                    read_first,
                    is_staged: false,
                }
            }
            45..60 => {
                let (one, other) = (random.below(accounts.len() as u64), random.below(accounts.len() as u64));
                let amount = 1 + random.below(9) as i64;
                let (one, other) = (accounts[one as usize], accounts[other as usize]);
                let mut ops = vec![(one, RecordOp::Add(-amount)), (other, RecordOp::Add(amount))];
                if random.chance(200) {
                    ops.push((list(random), RecordOp::Append(value(seen))));
                }
                Goal::Transaction { ops, read_first: Vec::new(), is_staged: false }
            }
            60..65 => {
                let ops = accounts.iter().map(|lock_key| (*lock_key, RecordOp::Lookup)).collect();
                Goal::Transaction { ops, read_first: Vec::new(), is_staged: false }
            }
            65..75 => {
                let lock_keys = (0..2 + random.below(2)).map(|_| list(random)).collect();
                Goal::Confirmed { lock_keys, tries: 0 }
            }
            75..80 => Goal::Confirmed { lock_keys: accounts, tries: 0 },
            80..85 => {
                let at = Timestamp::from_millis(wall.millis().saturating_sub(random.below(3) * 20));
                let mut lock_keys = accounts;
                lock_keys.extend((0..2).map(|_| list(random)));
                Goal::Snapshot { lock_keys, at }
            }
            85..94 => Goal::Single { lock_key: list(random), op: RecordOp::Lookup },
            _ => Goal::Single { lock_key: list(random), op: RecordOp::Append(value(seen)) },
        };
        self.goal = Some(goal.clone());
        match goal {
            Goal::Transaction { ops, read_first, .. } => {
                if read_first.is_empty() {
                    self.commit(seen, map, &ops, &[]);
                } else {
                    self.read(seen, &read_first, None);
                }
            }
            Goal::Confirmed { lock_keys, .. } => self.read(seen, &lock_keys, None),
            Goal::Snapshot { lock_keys, at } => self.read(seen, &lock_keys, Some(at)),
            Goal::Single { lock_key, op: RecordOp::Lookup } => self.read(seen, &[lock_key], None),
            Goal::Single { lock_key, op } => {
                self.phase = ClientPhase::Committing;
                self.record_transaction(seen, &[(lock_key, op)], TransactionFate::Unknown);
                let sequence = self.next_sequence(Map::group_of(lock_key));
                self.send_request(
                    seen,
                    lock_key,
                    ClientRequest::Local { session: self.session, sequence, lock_key, op },
                );
            }
        }
    }

    fn next_sequence(&mut self, group: usize) -> u64 {
        let sequence = self.sequences.entry(group).or_default();
        *sequence += 1;
        *sequence
    }

    fn read(&mut self, seen: &mut ClientsHistory, lock_keys: &[u64], at: Option<Timestamp>) {
        self.phase = ClientPhase::Reading;
        for lock_key in lock_keys {
            self.send_request(seen, *lock_key, ClientRequest::Read { lock_key: *lock_key, at });
        }
    }

    /// Adds the transaction to the history, with its reads so far.
    fn record_transaction(
        &mut self,
        seen: &mut ClientsHistory,
        ops: &[(u64, RecordOp)],
        fate: TransactionFate,
    ) {
        let mut actions: Vec<CheckedAction> = self
            .got
            .iter()
            .filter_map(|(lock_key, (_, value))| match value {
                RecordValue::List(values) => {
                    Some(CheckedAction::Read { key: *lock_key, values: values.clone() })
                }
                RecordValue::Number(_) => None,
            })
            .collect();
        actions.extend(ops.iter().filter_map(|(lock_key, op)| match op {
            RecordOp::Append(value) => Some(CheckedAction::Append { key: *lock_key, value: *value }),
            _ => None,
        }));
        self.entry = seen.history.len();
        seen.history.push(Transaction { begin: self.begin, end: None, fate, actions });
    }

    fn commit(&mut self, seen: &mut ClientsHistory, map: &Map, ops: &[(u64, RecordOp)], read_first: &[u64]) {
        self.record_transaction(seen, ops, TransactionFate::Unknown);
        let mut parts: BTreeMap<u64, Vec<TransactionItem>> = BTreeMap::new();
        // Lookups come first, so that they return the earlier values.
        for (lock_key, op) in ops.iter().filter(|(_, op)| *op == RecordOp::Lookup) {
            parts.entry(map.part_of(*lock_key)).or_default().push(op.item(*lock_key, None));
        }
        for lock_key in read_first {
            let seen = self.got.get(lock_key).map(|(version, _)| *version);
            let item = TransactionItem {
                access: zerohop_transaction::Access::Read,
                ..RecordOp::Lookup.item(*lock_key, seen)
            };
            parts.entry(map.part_of(*lock_key)).or_default().push(item);
        }
        for (lock_key, op) in ops.iter().filter(|(_, op)| *op != RecordOp::Lookup) {
            parts.entry(map.part_of(*lock_key)).or_default().push(op.item(*lock_key, None));
        }
        let mut parts: Vec<TransactionPart> = parts
            .into_iter()
            .map(|(first, items)| TransactionPart {
                routing_key: map.routing_key(items[0].lock_key),
                durability: map.durabilities[Map::group_of(first)],
                items: Items::Inline(items),
            })
            .collect();
        parts.sort_by_key(TransactionPart::order);
        self.lookups.clear();
        for part in &parts {
            let Items::Inline(items) = &part.items else { continue };
            let lookups = items.iter().filter(|item| item.access == zerohop_transaction::Access::Read);
            self.lookups.extend(lookups.map(|item| item.lock_key));
        }
        let is_staged = matches!(self.goal, Some(Goal::Transaction { is_staged: true, .. }));
        if is_staged {
            self.phase = ClientPhase::Staging;
            for part in &mut parts {
                let group = Map::group_of(part.routing_key.point);
                let id = StageId { session: self.session, sequence: Sequence(self.next_sequence(group)) };
                let Items::Inline(items) = &part.items else { continue };
                let bytes = Bytes::from(encode_items(items));
                self.send_request(seen, part.routing_key.point, ClientRequest::Stage { id, bytes });
                part.items = Items::Staged(id);
            }
        }
        let coordinator = parts[parts.len() - 1].routing_key;
        let group = Map::group_of(coordinator.point);
        let sequence = self.next_sequence(group);
        let id = TransactionId { coordinator, session: self.session, sequence: Sequence(sequence) };
        let query = ClientRequest::Transaction {
            request: TransactionRequest { id, parts },
            lowest: sequence,
            after: self.after,
        };
        if is_staged {
            // The request has call 0 until everything is staged.
            self.pending.insert(0, (coordinator.point, query));
        } else {
            self.phase = ClientPhase::Committing;
            self.send_request(seen, coordinator.point, query);
        }
    }

    /// Processes an answer.
    pub fn handle_answer(
        &mut self,
        seen: &mut ClientsHistory,
        map: &Map,
        (call, answer): (u64, ClientAnswer),
        now: u64,
    ) {
        let Some((_, query)) = self.pending.remove(&call) else { return };
        match (query, answer) {
            (ClientRequest::Read { lock_key, .. }, ClientAnswer::Value(version, value)) => {
                self.got.insert(lock_key, (version, value));
            }
            (ClientRequest::Confirm { .. }, ClientAnswer::Confirmed(is)) => self.has_refusal |= !is,
            (ClientRequest::Stage { .. }, ClientAnswer::Staged) => {}
            (ClientRequest::Transaction { .. }, ClientAnswer::Outcome(outcome)) => {
                return self.ended(seen, outcome, now);
            }
            (ClientRequest::Local { .. }, ClientAnswer::Written(at)) => {
                let outcome = TransactionOutcome::Committed { timestamp: at, results: Vec::new() };
                return self.ended(seen, outcome, now);
            }
            (query, answer) => panic!("{answer:?} for {query:?}"),
        }
        if self.pending.keys().any(|call| *call != 0) {
            return;
        }
        let Some(goal) = self.goal.clone() else { return };
        match (self.phase, goal) {
            (ClientPhase::Staging, _) => {
                if let Some((point, query)) = self.pending.remove(&0) {
                    self.phase = ClientPhase::Committing;
                    self.send_request(seen, point, query);
                }
            }
            (ClientPhase::Reading, Goal::Transaction { ops, read_first, .. }) => {
                self.commit(seen, map, &ops, &read_first);
            }
            (ClientPhase::Reading, Goal::Confirmed { lock_keys, .. }) => {
                self.phase = ClientPhase::Confirming;
                self.has_refusal = false;
                let mut parts: BTreeMap<u64, Vec<TransactionItem>> = BTreeMap::new();
                for lock_key in &lock_keys {
                    let item = RecordOp::Lookup.item(*lock_key, Some(self.got[lock_key].0));
                    parts.entry(map.part_of(*lock_key)).or_default().push(item);
                }
                for items in parts.into_values() {
                    self.send_request(seen, items[0].lock_key, ClientRequest::Confirm { items });
                }
            }
            (ClientPhase::Confirming, Goal::Confirmed { lock_keys, tries }) => {
                if !self.has_refusal {
                    seen.count("reads confirmed");
                    self.finish_read(seen, now);
                } else if tries == 0 {
                    self.goal = Some(Goal::Confirmed { lock_keys: lock_keys.clone(), tries: 1 });
                    self.read(seen, &lock_keys, None);
                } else {
                    // After two failures the read becomes a transaction.
                    seen.count("reads as transactions");
                    self.got.clear();
                    let ops: Vec<(u64, RecordOp)> =
                        lock_keys.iter().map(|lock_key| (*lock_key, RecordOp::Lookup)).collect();
                    let goal =
                        Goal::Transaction { ops: ops.clone(), read_first: Vec::new(), is_staged: false };
                    self.goal = Some(goal);
                    self.commit(seen, map, &ops, &[]);
                }
            }
            (ClientPhase::Reading, Goal::Snapshot { at, .. }) => {
                seen.count("snapshots");
                self.check_accounts(seen, map);
                let got = std::mem::take(&mut self.got);
                seen.snapshots.extend(got.into_iter().map(|(lock_key, (_, value))| (lock_key, at, value)));
                self.pause();
            }
            (ClientPhase::Reading, Goal::Single { .. }) => {
                seen.count("reads of one");
                self.finish_read(seen, now);
            }
            (phase, goal) => panic!("{phase:?} of {goal:?}"),
        }
        if matches!(self.goal, Some(Goal::Confirmed { .. })) && self.pending.is_empty() {
            self.check_accounts(seen, map);
            self.pause();
        }
    }

    /// A read outside of transactions counts as a transaction by itself.
    fn finish_read(&mut self, seen: &mut ClientsHistory, now: u64) {
        self.record_transaction(seen, &[], TransactionFate::Committed);
        let entry = self.entry;
        seen.history[entry].end = Some(now);
        if matches!(self.goal, Some(Goal::Single { .. })) {
            self.pause();
        }
    }

    /// If all accounts were read, their sum must be zero.
    fn check_accounts(&self, seen: &mut ClientsHistory, map: &Map) {
        let numbers: Vec<i64> = self
            .got
            .values()
            .filter_map(|(_, value)| match value {
                RecordValue::Number(number) => Some(*number),
                RecordValue::List(_) => None,
            })
            .collect();
        if numbers.len() == 2 * map.durabilities.len() && numbers.iter().sum::<i64>() != 0 {
            seen.wrong
                .push(format!("accounts do not add up, as read by process {}: {:?}", self.process, self.got));
        }
    }

    fn ended(&mut self, seen: &mut ClientsHistory, outcome: TransactionOutcome, now: u64) {
        let entry = self.entry;
        seen.history[entry].end = Some(now);
        match outcome {
            TransactionOutcome::Committed { timestamp, results } => {
                seen.count("committed");
                seen.history[entry].fate = TransactionFate::Committed;
                seen.timestamps.insert(entry, timestamp);
                if timestamp <= self.after && !results.is_empty() {
                    seen.wrong.push(format!("{timestamp} after {} in one session", self.after));
                }
                self.after = self.after.max(timestamp);
                let values: Vec<RecordValue> =
                    results.iter().flat_map(|result| decode_values(result)).collect();
                let has_reads = !self.got.is_empty();
                for (lock_key, value) in self.lookups.iter().zip(values) {
                    match &value {
                        RecordValue::List(values) if !has_reads => {
                            let read = CheckedAction::Read { key: *lock_key, values: values.clone() };
                            // The value from before the transaction.
                            seen.history[entry].actions.insert(0, read);
                        }
                        RecordValue::List(values) => {
                            if self
                                .got
                                .get(lock_key)
                                .is_some_and(|got| got.1 != RecordValue::List(values.clone()))
                            {
                                seen.wrong.push("a read that was checked is another".to_owned());
                            }
                        }
                        RecordValue::Number(_) => {}
                    }
                }
                let numbers: Vec<i64> = results
                    .iter()
                    .flat_map(|result| decode_values(result))
                    .filter_map(|value| match value {
                        RecordValue::Number(number) => Some(number),
                        RecordValue::List(_) => None,
                    })
                    .collect();
                if !numbers.is_empty() && numbers.iter().sum::<i64>() != 0 {
                    seen.wrong.push(format!("accounts do not add up in a transaction: {numbers:?}"));
                }
            }
            TransactionOutcome::Aborted { refusal, .. } => {
                seen.count(match refusal.reason {
                    Reason::ReadChanged => "aborted: read changed",
                    Reason::Unknown => "aborted: unknown",
                    Reason::TimedOut => "aborted: timed out",
                    Reason::Misplaced => "aborted: misplaced",
                    _ => "aborted: other",
                });
                seen.history[entry].fate = TransactionFate::Aborted;
            }
        }
        self.pause();
    }

    fn pause(&mut self) {
        self.goal = None;
        self.pending.clear();
        self.got.clear();
        self.done += 1;
    }
}
