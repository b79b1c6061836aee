//! Removes what no longer counts: names whose time is over, and clients that are gone.

use zerohop_layer_procedure::{Effect, OptimisticTransaction, Procedure, Record, Writes};

use crate::error::QueueError;
use crate::keys::{self, RecordKey};
use crate::planted::{Bug, is_planted};
use crate::procedure::{QueueEvent, QueueProcedure, QueueReads, QueueStep};
use crate::records::{ConsumerId, ConsumerRecord, NameRecord, ProducerId, ProducerRecord};

/// A client that has done nothing for so long is forgotten, in milliseconds: it does not repeat a push or a pop any more.
const CLIENT_AGE: u64 = 24 * 60 * 60 * 1000;
/// The records of a page.
const PAGE_RECORDS: usize = 256;
/// The bytes of records that end a page.
const PAGE_BYTES: usize = 1 << 20;

/// What is looked through, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Names,
    Consumers,
    Producers,
}

enum SweepState {
    Idle,
    Scanning(Kind),
    Removing(Kind, Option<RecordKey>, Box<dyn QueueProcedure<Output = u64> + Send>),
}

/// A sweep of a partition. Result: the number of records that it has removed.
pub struct Sweep {
    partition: u32,
    removed: u64,
    state: SweepState,
}

impl Sweep {
    /// Of a partition.
    #[must_use]
    pub const fn new(partition: u32) -> Self {
        Self { partition, removed: 0, state: SweepState::Idle }
    }

    fn scan(&mut self, now: u64, kind: Kind, from: Option<RecordKey>) -> QueueStep<u64> {
        let (start, to) = match kind {
            Kind::Names if is_planted(Bug::NameSweptEarly) => keys::ended_names(self.partition, now + 1000),
            Kind::Names => keys::ended_names(self.partition, now),
            Kind::Consumers => keys::all_consumers(self.partition),
            Kind::Producers => keys::all_producers(self.partition),
        };
        self.state = SweepState::Scanning(kind);
        let from = from.unwrap_or(start);
        QueueStep::Effect(Effect::Scan { from, to, limit: PAGE_RECORDS, bytes: PAGE_BYTES })
    }

    fn remove(
        &mut self,
        now: u64,
        kind: Kind,
        entries: Vec<(RecordKey, Vec<u8>)>,
        next: Option<RecordKey>,
    ) -> QueueStep<u64> {
        let partition = self.partition;
        let found: Vec<RecordKey> = match kind {
            Kind::Names => entries.into_iter().map(|(key, _)| key).collect(),
            Kind::Consumers | Kind::Producers => {
                let is_old = |(_, value): &(RecordKey, Vec<u8>)| is_gone(now, kind, value);
                entries.into_iter().filter(is_old).map(|(key, _)| key).collect()
            }
        };
        if found.is_empty() {
            return self.go_on(now, kind, next);
        }
        let work: Box<dyn QueueProcedure<Output = u64> + Send> = if kind == Kind::Names {
            Box::new(remove_names(found))
        } else {
            Box::new(remove_clients(partition, kind, found))
        };
        self.removing(now, kind, next, work, QueueEvent::Start)
    }

    fn removing(
        &mut self,
        now: u64,
        kind: Kind,
        next: Option<RecordKey>,
        mut work: Box<dyn QueueProcedure<Output = u64> + Send>,
        event: QueueEvent,
    ) -> QueueStep<u64> {
        match work.step(now, event) {
            QueueStep::Effect(effect) => {
                self.state = SweepState::Removing(kind, next, work);
                QueueStep::Effect(effect)
            }
            QueueStep::Done(Err(error)) => QueueStep::fail(error),
            QueueStep::Done(Ok(removed)) => {
                self.removed += removed;
                self.go_on(now, kind, next)
            }
        }
    }

    fn go_on(&mut self, now: u64, kind: Kind, next: Option<RecordKey>) -> QueueStep<u64> {
        match (next, kind) {
            (Some(next), kind) => self.scan(now, kind, Some(next)),
            (None, Kind::Names) => self.scan(now, Kind::Consumers, None),
            (None, Kind::Consumers) => self.scan(now, Kind::Producers, None),
            (None, Kind::Producers) => QueueStep::Done(Ok(self.removed)),
        }
    }
}

/// Whether a client has done nothing for long. A record that cannot be read stays for those that use it.
fn is_gone(now: u64, kind: Kind, value: &[u8]) -> bool {
    let used = match kind {
        Kind::Consumers => ConsumerRecord::decode(value).map(|record| {
            let due = record.leases.iter().map(|lease| lease.due).max().unwrap_or(0);
            record.used.max(due)
        }),
        _ => ProducerRecord::decode(value).map(|record| record.used),
    };
    used.is_some_and(|used| used.saturating_add(CLIENT_AGE) < now)
}

fn remove_names(ends: Vec<RecordKey>) -> impl QueueProcedure<Output = u64> + Send {
    OptimisticTransaction::new(move |_, reads: &mut QueueReads, writes: &mut Writes| {
        let names = ends.iter().filter_map(|end| keys::name_of_end(end));
        reads.require(ends.iter().cloned().chain(names))?;
        let mut removed = 0;
        for end in &ends {
            let Some(key) = keys::name_of_end(end) else {
                return Err(QueueError::Corrupt(end.clone()).into());
            };
            // The name may have been pushed again, with another end.
            let until = end.get(5..13).and_then(|until| until.try_into().ok()).map(u64::from_be_bytes);
            let name = reads.get::<NameRecord>(&key)?;
            if name.is_some_and(|name| Some(name.until) == until) {
                writes.remove(key);
            }
            writes.remove(end.clone());
            removed += 1;
        }
        Ok(removed)
    })
}

fn remove_clients(
    partition: u32,
    kind: Kind,
    found: Vec<RecordKey>,
) -> impl QueueProcedure<Output = u64> + Send {
    OptimisticTransaction::new(move |now: u64, reads: &mut QueueReads, writes: &mut Writes| {
        reads.require(found.iter().cloned())?;
        let mut removed = 0;
        for key in &found {
            let id = keys::id_of(key).ok_or_else(|| QueueError::Corrupt(key.clone()))?;
            let (own, value) = if kind == Kind::Consumers {
                let key = keys::consumer(partition, ConsumerId(id));
                let value = reads.get::<ConsumerRecord>(&key)?.map(|record| record.encode());
                (key, value)
            } else {
                let key = keys::producer(partition, ProducerId(id));
                let value = reads.get::<ProducerRecord>(&key)?.map(|record| record.encode());
                (key, value)
            };
            if value.is_some_and(|value| is_gone(now, kind, &value)) {
                writes.remove(own);
                removed += 1;
            }
        }
        Ok(removed)
    })
}

impl Procedure<QueueError> for Sweep {
    type Output = u64;

    fn step(&mut self, now: u64, event: QueueEvent) -> QueueStep<u64> {
        match (std::mem::replace(&mut self.state, SweepState::Idle), event) {
            (SweepState::Idle, QueueEvent::Start) => self.scan(now, Kind::Names, None),
            (SweepState::Scanning(kind), QueueEvent::Page { entries, next }) => {
                self.remove(now, kind, entries, next)
            }
            (SweepState::Removing(kind, next, work), event) => self.removing(now, kind, next, work, event),
            (_, event) => QueueStep::unexpected(&event),
        }
    }
}
