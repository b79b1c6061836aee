//! Pops messages of a partition: each is leased to one consumer at a time.
//!
//! 1. The ready entries are scanned, and those of leases and delays that have ended.
//! 2. A transaction moves entries behind the end of the lease, and writes what the pop has got. A pop that is repeated under
//!    its number gets these messages.

use zerohop_layer_procedure::{Effect, OptimisticTransaction, Procedure, Record, Writes};

use crate::dead::bury;
use crate::error::QueueError;
use crate::group_order::GroupChanges;
use crate::keys::{self, RecordKey};
use crate::limits::LEASES_MAX;
use crate::planted::{Bug, is_planted};
use crate::procedure::{QueueEvent, QueuePause, QueueProcedure, QueueReads, QueueStep};
use crate::records::{ConsumerId, ConsumerRecord, EntryRecord, Lease, MessageId, MessageRecord};
use crate::settle::Receipt;

/// The most messages of a pop.
const MESSAGES_MAX: u32 = 256;
/// The bytes of entries that end a scan.
const SCAN_BYTES: usize = 1 << 20;
/// How often a pop looks for messages while other consumers take those that it has found.
const SCANS_MAX: u32 = 8;

/// A pop.
#[derive(Clone, Debug)]
pub struct PopRequest {
    /// The partition.
    pub partition: u32,
    /// The consumer.
    pub consumer: ConsumerId,
    /// The number of the pop among those of the consumer in this partition: above that of the one before, or the same to
    /// repeat it.
    pub number: u64,
    /// The pop may have been done before.
    pub is_repeat: bool,
    /// The most messages.
    pub messages: u32,
    /// The most bytes of messages; one message may have more.
    pub bytes: u64,
    /// How long the lease lasts, in milliseconds.
    pub lease: u64,
    /// How often a message is leased before it becomes a dead letter; 0: without limit.
    pub tries: u32,
    /// Leases and delays that have ended are looked for too, although there are ready messages.
    pub looks_at_due: bool,
    /// The pop chooses among 2^`spread` times as many messages by `random`, so that consumers do not meet.
    pub spread: u32,
    /// A random number.
    pub random: u64,
}

/// A message that was popped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoppedMessage {
    /// The lease.
    pub receipt: Receipt,
    /// The message.
    pub message: MessageRecord,
}

/// What a pop has got.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PopOutcome {
    /// The messages.
    pub messages: Vec<PoppedMessage>,
    /// If there was none: when a lease or a delay ends next, in milliseconds since 1970.
    pub next_due: Option<u64>,
    /// Other consumers took messages that this pop had found.
    pub is_contended: bool,
}

/// An entry that a scan has found.
#[derive(Clone, Debug)]
struct Candidate {
    key: RecordKey,
    message: MessageId,
    bytes: u32,
}

enum PopState {
    Idle,
    ScanningReady,
    ScanningTimed(Vec<Candidate>),
    Leasing(Box<dyn QueueProcedure<Output = PopOutcome> + Send>),
}

/// A pop under way.
pub struct PopQueue {
    request: PopRequest,
    scans: u32,
    next_due: Option<u64>,
    is_contended: bool,
    state: PopState,
}

impl PopQueue {
    /// The pop of a request.
    #[must_use]
    pub fn new(mut request: PopRequest) -> Self {
        request.messages = request.messages.clamp(1, MESSAGES_MAX);
        Self { request, scans: 0, next_due: None, is_contended: false, state: PopState::Idle }
    }

    fn scan_ready(&mut self) -> QueueStep<PopOutcome> {
        self.scans += 1;
        self.state = PopState::ScanningReady;
        let (from, to) = keys::all_ready(self.request.partition);
        let limit = (self.request.messages as usize) << self.request.spread.min(8);
        QueueStep::Effect(Effect::Scan { from, to, limit, bytes: SCAN_BYTES })
    }

    fn scan_timed(&mut self, ready: Vec<Candidate>) -> QueueStep<PopOutcome> {
        self.state = PopState::ScanningTimed(ready);
        let (from, to) = keys::all_timed(self.request.partition);
        let limit = self.request.messages as usize + 1;
        QueueStep::Effect(Effect::Scan { from, to, limit, bytes: SCAN_BYTES })
    }

    /// Takes a window of the ready messages, so that consumers that scan at the same time take others.
    fn choose(&self, mut ready: Vec<Candidate>) -> Vec<Candidate> {
        let spare = ready.len().saturating_sub(self.request.messages as usize);
        if spare > 0 {
            let mixed = self.request.random.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
            let mixed = mixed.wrapping_add(u64::from(self.scans));
            ready.drain(..(mixed % (spare as u64 + 1)) as usize);
            ready.truncate(self.request.messages as usize);
        }
        ready
    }

    fn lease(&mut self, now: u64, candidates: Vec<Candidate>) -> QueueStep<PopOutcome> {
        if candidates.is_empty() && !self.request.is_repeat {
            return self.done(PopOutcome::default());
        }
        let mut candidates = candidates;
        let mut bytes = 0;
        let fits = |candidate: &Candidate| {
            bytes += u64::from(candidate.bytes);
            bytes <= self.request.bytes
        };
        let count = candidates.iter().map(fits).take_while(|fits| *fits).count().max(1);
        candidates.truncate(count.min(self.request.messages as usize));
        let work: Box<dyn QueueProcedure<Output = PopOutcome> + Send> =
            Box::new(OptimisticTransaction::new(lease_decision(self.request.clone(), candidates)));
        self.leased(now, work, QueueEvent::Start)
    }

    fn leased(
        &mut self,
        now: u64,
        mut work: Box<dyn QueueProcedure<Output = PopOutcome> + Send>,
        event: QueueEvent,
    ) -> QueueStep<PopOutcome> {
        match work.step(now, event) {
            QueueStep::Effect(effect) => {
                self.state = PopState::Leasing(work);
                QueueStep::Effect(effect)
            }
            QueueStep::Done(Err(error)) => QueueStep::fail(error),
            QueueStep::Done(Ok(outcome)) => {
                self.is_contended |= outcome.is_contended;
                // Only others have got messages, or only dead letters were found.
                if outcome.messages.is_empty() && outcome.is_contended && self.scans < SCANS_MAX {
                    self.request.spread = (self.request.spread + 1).min(6);
                    return self.scan_ready();
                }
                self.done(outcome)
            }
        }
    }

    fn done(&self, outcome: PopOutcome) -> QueueStep<PopOutcome> {
        let next_due = if outcome.messages.is_empty() { self.next_due } else { None };
        QueueStep::Done(Ok(PopOutcome { next_due, is_contended: self.is_contended, ..outcome }))
    }
}

fn candidates(entries: Vec<(RecordKey, Vec<u8>)>) -> Result<Vec<(u64, Candidate)>, QueueError> {
    let candidate = |(key, value): (RecordKey, Vec<u8>)| {
        let found = keys::time_and_message(&key).zip(EntryRecord::decode(&value));
        match found {
            Some(((time, message), entry)) => Ok((time, Candidate { key, message, bytes: entry.bytes })),
            None => Err(QueueError::Corrupt(key)),
        }
    };
    entries.into_iter().map(candidate).collect()
}

impl Procedure<QueueError> for PopQueue {
    type Output = PopOutcome;

    fn step(&mut self, now: u64, event: QueueEvent) -> QueueStep<PopOutcome> {
        match (std::mem::replace(&mut self.state, PopState::Idle), event) {
            (PopState::Idle, QueueEvent::Start) if self.request.lease == 0 => {
                QueueStep::fail(QueueError::BadLease)
            }
            (PopState::Idle, QueueEvent::Start) => self.scan_ready(),
            (PopState::ScanningReady, QueueEvent::Page { entries, .. }) => match candidates(entries) {
                Err(error) => QueueStep::fail(error),
                Ok(found) => {
                    let is_enough = found.len() >= self.request.messages as usize;
                    let ready = self.choose(found.into_iter().map(|(_, candidate)| candidate).collect());
                    if is_enough && !self.request.looks_at_due {
                        self.lease(now, ready)
                    } else {
                        self.scan_timed(ready)
                    }
                }
            },
            (PopState::ScanningTimed(ready), QueueEvent::Page { entries, .. }) => match candidates(entries) {
                Err(error) => QueueStep::fail(error),
                Ok(found) => {
                    self.next_due = found.iter().map(|(due, _)| *due).find(|due| *due > now);
                    let due =
                        found.into_iter().filter(|(due, _)| *due <= now).map(|(_, candidate)| candidate);
                    self.lease(now, due.chain(ready).collect())
                }
            },
            (PopState::Leasing(work), event) => self.leased(now, work, event),
            (_, event) => QueueStep::unexpected(&event),
        }
    }
}

/// Leases those of the candidates that are still there, or finds what the pop has got before.
fn lease_decision(
    request: PopRequest,
    candidates: Vec<Candidate>,
) -> impl FnMut(u64, &mut QueueReads, &mut Writes) -> Result<PopOutcome, QueuePause> + Send {
    move |now, reads, writes| {
        let PopRequest { partition, consumer, number, .. } = request;
        let consumer_key = keys::consumer(partition, consumer);
        let found =
            candidates.iter().flat_map(|one| [one.key.clone(), keys::message(partition, one.message)]);
        reads.require([consumer_key.clone()].into_iter().chain(found))?;
        let mut record: ConsumerRecord = reads.get(&consumer_key)?.unwrap_or_default();
        if record.number > number {
            return Err(QueueError::OldPop { number: record.number }.into());
        }
        if record.number == number && !is_planted(Bug::RepeatedPopTakesMore) {
            return repeated(reads, &request, &record);
        }
        let lapsed = record.leases.iter().map(|lease| lease.due).filter(|due| *due < now);
        record.lapsed = lapsed.max().unwrap_or(0).max(record.lapsed);
        record.leases.retain(|lease| lease.due >= now);
        if record.leases.len() + candidates.len() > LEASES_MAX {
            return Err(QueueError::TooManyLeased.into());
        }
        let mut outcome = PopOutcome::default();
        let mut changes = GroupChanges::new(partition, now);
        for candidate in &candidates {
            let Some(entry) = reads.get::<EntryRecord>(&candidate.key)? else {
                outcome.is_contended = true;
                continue;
            };
            let message_key = keys::message(partition, candidate.message);
            let Some(message) = reads.get::<MessageRecord>(&message_key)? else {
                return Err(QueueError::Corrupt(message_key).into());
            };
            let is_last = request.tries > 0 && entry.tries >= request.tries;
            if !(is_planted(Bug::LeasedEntryStays) && entry.tries == 0) {
                writes.remove(candidate.key.clone());
            }
            if is_last && !is_planted(Bug::DeadLetterLeased) {
                bury(reads, writes, &mut changes, (partition, now), candidate.message, &entry)?;
                // The next scan may find others.
                outcome.is_contended = true;
                continue;
            }
            let (tries, due) = (entry.tries.saturating_add(1), now.saturating_add(request.lease));
            let leased = EntryRecord { tries, consumer: Some(consumer), ..entry };
            writes.put(keys::timed(partition, due, candidate.message), &leased);
            record.leases.push(Lease { pop: number, due, message: candidate.message, tries });
            let receipt = Receipt { message: candidate.message, due, tries };
            outcome.messages.push(PoppedMessage { receipt, message });
        }
        changes.write(writes);
        if !outcome.messages.is_empty() {
            record.number = number;
            record.used = now;
            writes.put(consumer_key, &record);
        }
        Ok(outcome)
    }
}

/// What a pop has got before. Messages that were settled since are missing.
fn repeated(
    reads: &mut QueueReads,
    request: &PopRequest,
    record: &ConsumerRecord,
) -> Result<PopOutcome, QueuePause> {
    let leases: Vec<Lease> =
        record.leases.iter().filter(|lease| lease.pop == request.number).copied().collect();
    reads.require(leases.iter().map(|lease| keys::message(request.partition, lease.message)))?;
    let mut outcome = PopOutcome::default();
    for Lease { due, message: id, tries, .. } in leases {
        // Another consumer may have processed it after the end of the lease.
        if let Some(message) = reads.get::<MessageRecord>(&keys::message(request.partition, id))? {
            outcome.messages.push(PoppedMessage { receipt: Receipt { message: id, due, tries }, message });
        }
    }
    Ok(outcome)
}
