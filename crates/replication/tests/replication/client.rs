//! A client with one request at a time, which it repeats under the same number until it is answered.

use zerohop_base::random::Random;
use zerohop_partition::Token;
use zerohop_wire::ids::{InstanceId, RequestId, Sequence, SessionId, Timestamp};
use zerohop_wire::messages::{
    Append, Condition, Expiry, Increment, Insert, OperationAnswer, Outcome, Query, RecordRead, RecordWrite,
    Stamp, WriteChange,
};
use zerohop_wire::{Elements, Encoder, Failure, Message};

use super::check::Checker;
use super::control::Map;
use super::host::envelope;

const TIME_OUT_US: u64 = 120_000;

#[derive(Clone, Debug)]
enum ClientOperation {
    Append { key: String, value: u64 },
    Count { key: String },
    Lock { key: String },
    ReadList { key: String },
    ReadLock { key: String },
}

#[derive(Debug)]
pub struct SimulatedClient {
    pub number: u64,
    session: SessionId,
    sequences: Vec<u64>,
    seen: Timestamp,
    random: Random,
    map: Map,
    doing: Option<(usize, ClientOperation)>,
    begun: u64,
    sent: u64,
    attempt: u64,
    next_at: u64,
    next_value: u64,
    pub done: u64,
    pub is_stopping: bool,
}

impl SimulatedClient {
    pub fn new(number: u64, random: Random, map: Map) -> SimulatedClient {
        // Issued long before the run starts.
        let session = SessionId { issued: Timestamp::from_millis(1_600_000_000_000 + number), nonce: number };
        SimulatedClient {
            number,
            session,
            sequences: vec![0; map.groups.len()],
            seen: Timestamp::ZERO,
            random,
            map,
            doing: None,
            begun: 0,
            sent: 0,
            attempt: 0,
            next_at: 0,
            next_value: number << 32,
            done: 0,
            is_stopping: false,
        }
    }

    /// One client is patient, so that a failover is complete when it retries.
    fn time_out_us(&self) -> u64 {
        if self.number == 3 { 7 * TIME_OUT_US } else { TIME_OUT_US }
    }

    pub fn is_idle(&self) -> bool {
        self.doing.is_none()
    }

    /// The frame to send now, if any, and its receiver.
    pub fn poll(&mut self, now: u64, map: &Map, check: &mut Checker) -> Option<(InstanceId, Token, Vec<u8>)> {
        if self.doing.is_none() {
            if self.is_stopping || now < self.next_at {
                return None;
            }
            self.begin(now, check);
            // Some clients learn of a change at once, others follow an old map.
            if self.number <= 2 && self.random.chance(1, 4) {
                self.map = map.clone();
            }
        } else if now < self.sent + self.time_out_us() {
            return None;
        } else {
            // The silent instance may not be the primary.
            self.map = map.clone();
        }
        self.send(now)
    }

    fn begin(&mut self, now: u64, check: &mut Checker) {
        let partition = self.random.below(self.sequences.len() as u64) as usize;
        let key = |sort: &str, n: u64| format!("{sort}{n}");
        // Fresh keys are used as time goes on; older keys are read for a while.
        let of_late = now.saturating_sub(self.random.below(3) * 900_000);
        let n = of_late / 3_000_000 * 3 + self.random.below(3);
        // The last client only reads, so it never learns that its map is old while any instance answers.
        let sort = if self.number == 4 { 3 + 6 * self.random.below(2) } else { self.random.below(10) };
        let doing = match sort {
            0..=2 => {
                self.next_value += 1;
                ClientOperation::Append { key: key("list", n), value: self.next_value }
            }
            3..=5 => ClientOperation::ReadList { key: key("list", n) },
            6 | 7 => ClientOperation::Count { key: key("count", n) },
            8 => ClientOperation::Lock { key: key("lock", of_late / 300_000) },
            _ => ClientOperation::ReadLock { key: key("lock", of_late / 300_000) },
        };
        if let ClientOperation::Append { key, value } = &doing {
            check.append_sent(partition, key, *value, now);
        }
        if !matches!(doing, ClientOperation::ReadList { .. } | ClientOperation::ReadLock { .. }) {
            self.sequences[partition] += 1;
        }
        self.doing = Some((partition, doing));
        self.begun = now;
    }

    fn send(&mut self, now: u64) -> Option<(InstanceId, Token, Vec<u8>)> {
        let (partition, doing) = self.doing.as_ref()?;
        self.attempt += 1;
        self.sent = now;
        let sequence = Sequence(self.sequences[*partition]);
        let stamp = Stamp { session: self.session, sequence, lowest_unanswered: sequence, seen: self.seen };
        let write =
            |key, condition, change| Message::Write { stamp, write: RecordWrite { key, condition, change } };
        let read = |key| Message::Read { seen: self.seen, read: RecordRead { key, query: Query::Lookup } };
        let text;
        let values: [&[u8]; 1];
        let message = match doing {
            ClientOperation::Append { key, value } => {
                // Long enough to fill segments.
                text = format!("{value:>100}");
                values = [text.as_bytes()];
                let change = WriteChange::Append(Append { values: Elements::from_slice(&values) });
                write(key.as_bytes(), Condition::Always, change)
            }
            ClientOperation::Count { key } => {
                write(key.as_bytes(), Condition::Always, WriteChange::Increment(Increment { delta: 1 }))
            }
            ClientOperation::Lock { key } => {
                let change = WriteChange::Insert(Insert { value: b"held", expiry: Expiry::Never });
                write(key.as_bytes(), Condition::IfAbsent, change)
            }
            ClientOperation::ReadList { key } | ClientOperation::ReadLock { key } => read(key.as_bytes()),
        };
        let group = self.map.groups.get(*partition)?;
        let request = RequestId(self.attempt);
        let envelope = zerohop_wire::Envelope { request, ..envelope(*partition, group.epoch) };
        let mut frame = Vec::new();
        Encoder::default().encode(&envelope, &message, &mut frame).expect("fits");
        let token = Token { connection: self.number, request };
        Some((group.primary.instance, token, frame))
    }

    /// The instance does not serve the partition. The client retries soon, with a new map.
    pub fn refused(&mut self, now: u64, token: Token) {
        if token.request.0 == self.attempt {
            self.sent = now.saturating_sub(self.time_out_us()) + 5_000;
        }
    }

    pub fn take(&mut self, now: u64, token: Token, answer: &OperationAnswer<'_>, check: &mut Checker) {
        if token.request.0 != self.attempt {
            return;
        }
        let Some((partition, doing)) = &self.doing else { return };
        let (partition, span) = (*partition, (self.begun, now));
        match answer {
            Err(
                Failure::Unavailable { .. }
                | Failure::TimedOut { .. }
                | Failure::Busy { .. }
                | Failure::ClockAhead { .. }
                | Failure::DataCorrupt
                | Failure::DiskFull
                | Failure::DiskFailed,
            ) => {
                self.refused(now, token);
                return;
            }
            Ok(outcome) => {
                let (Outcome::Done { version, .. }
                | Outcome::Counter { version, .. }
                | Outcome::Value { version, .. }
                | Outcome::List { version, .. }) = outcome
                else {
                    panic!("not asked for: {outcome:?}")
                };
                self.seen = self.seen.max(*version);
            }
            Err(_) => {}
        }
        if !matches!(doing, ClientOperation::ReadList { .. } | ClientOperation::ReadLock { .. })
            && let Ok(Outcome::Done { version, .. } | Outcome::Counter { version, .. }) = answer
        {
            check.wrote(partition, *version, span);
        }
        match (doing, answer) {
            (ClientOperation::Append { key, value }, Ok(_)) => {
                check.append_done(partition, key, *value, span)
            }
            (ClientOperation::Count { key }, Ok(Outcome::Counter { value, .. })) => {
                check.counted(partition, key, *value, span);
            }
            (ClientOperation::Lock { key }, Ok(_)) => {
                let by = self.number << 32 | self.sequences[partition];
                check.lock_there(partition, key, Some(by), span);
            }
            (ClientOperation::Lock { key }, Err(Failure::ConditionFailed { .. })) => {
                check.lock_there(partition, key, None, span);
            }
            (ClientOperation::ReadList { key }, Ok(Outcome::List { version, values, length, .. })) => {
                let list = values.iter().map(|value| {
                    std::str::from_utf8(value).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
                });
                let list: Vec<u64> = list.collect();
                if list.len() as u64 == *length {
                    check.list_read(partition, key, &list, *version, span);
                }
            }
            (ClientOperation::ReadList { key }, Err(Failure::NotFound)) => {
                check.list_read(partition, key, &[], Timestamp::ZERO, span);
            }
            (ClientOperation::ReadLock { key }, Ok(_)) => check.lock_there(partition, key, None, span),
            (ClientOperation::ReadLock { key }, Err(Failure::NotFound)) => {
                check.lock_absent(partition, key, span)
            }
            // After a loss that an operator has accepted, the outcomes of a session may be forgotten.
            (_, Err(Failure::SessionExpired { .. })) => self.session.issued = self.seen.next(),
            (doing, answer) => panic!("client {}: {answer:?} to {doing:?}", self.number),
        }
        check.operations += 1;
        self.done += 1;
        self.doing = None;
        self.next_at = now + self.random.below(8_000);
    }
}
