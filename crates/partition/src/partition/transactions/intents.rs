//! How requests for single records wait for intents. A read waits for the intents that existed when it arrived. A write, or
//! another request that may change a record, waits behind all earlier ones. A waiting request is kept as a frame, and evaluated
//! again.

use zerohop_engine::Engine;
use zerohop_engine::disk::Disk;
use zerohop_transaction::{Admission, Ticket};
use zerohop_wire::messages::{Query, RecordOperation, UpdateLock};
use zerohop_wire::{DecodeResult, Decoder, Encoder, Envelope, Failure, Features, Message};

use crate::event::{PartitionEffects, RecordRequest, Token};
use crate::hash_range::HashRange;
use crate::intents::Intents;
use crate::limits::{BUSY_RETRY_MS, INTENT_WAIT_BYTES_MAX, INTENT_WAIT_MS};
use crate::partition::Partition;
use crate::planted::{Bug, is_planted};

/// A request that owns its bytes.
#[derive(Debug)]
pub(super) struct BlockedRequest {
    token: Token,
    envelope: Envelope,
    frame: Vec<u8>,
    /// How many of its keys it has waited for; for a scan, which has no keys, 1 once it has waited.
    passed: usize,
    until_ms: u64,
}

impl BlockedRequest {
    pub(super) fn fail(self, failure: &Failure<'static>, effects: &mut dyn PartitionEffects) {
        effects.answer(self.token, &Message::Answer(Err(failure.clone())));
    }

    fn with<T>(&self, take: impl FnOnce(&RecordRequest<'_>) -> T) -> Option<T> {
        let decoder = Decoder::with_version(zerohop_wire::GREETING_VERSION, Features::default());
        let DecodeResult::Frame { frame, .. } = decoder.decode(&self.frame) else { return None };
        let mut scratch = Vec::new();
        let message: Message<'_> = frame.message(&mut scratch).ok()?;
        Some(take(&RecordRequest { token: self.token, envelope: self.envelope, message: &message }))
    }
}

/// The records of a request, and whether it may change any; `None`: it never waits for intents.
fn keys_of<'m>(message: &Message<'m>) -> Option<(Vec<&'m [u8]>, bool)> {
    let waits =
        |query: &Query<'_>| !matches!(query, Query::Confirm(_) | Query::UpdateLock(UpdateLock::Release(_)));
    match message {
        Message::Read { read, .. } => waits(&read.query).then(|| (vec![read.key], false)),
        Message::Write { write, .. } => Some((vec![write.key], true)),
        Message::Batch(batch) => {
            let of = |operation| match operation {
                RecordOperation::Read(read) => waits(&read.query).then_some((read.key, false)),
                RecordOperation::Write(write) => Some((write.key, true)),
            };
            let keys: Vec<(&[u8], bool)> = batch.operations.iter().filter_map(of).collect();
            let changes = keys.iter().any(|(_, changes)| *changes);
            Some((keys.into_iter().map(|(key, _)| key).collect(), changes))
        }
        Message::Scan(_) | Message::Chunks(_) => Some((Vec::new(), false)),
        _ => None,
    }
}

impl super::PrimaryTransactions {
    /// The intents that an atomic batch checks; `None`: there are none.
    pub(in crate::partition) fn intents(&self, hash_range: Option<HashRange>) -> Option<Intents<'_>> {
        Intents::of(&self.transactions, hash_range)
    }
}

impl Partition {
    fn intents(&self) -> Option<Intents<'_>> {
        self.transacting.as_deref()?.intents(self.hash_range())
    }

    /// Whether atomic batches may run. They may not while the intents are not known.
    pub(in crate::partition) fn knows_intents(&mut self) -> bool {
        !self.has_transactions() || self.open_transactions()
    }

    /// Whether a request may change a record that can be read-locked. An expired record was never read-locked.
    pub(in crate::partition) fn may_change(message: &Message<'_>) -> bool {
        keys_of(message).is_some_and(|(_, changes)| changes) || matches!(message, Message::Transact(_))
    }

    /// Whether a record may be removed now because its deadline has come.
    pub(in crate::partition) fn may_expire(&self, key: &[u8]) -> bool {
        match &self.transacting {
            Some(_) => self.intents().is_none_or(|intents| !intents.are_in_the_way(key)),
            None => self.state.transacted.is_none(),
        }
    }

    /// Whether a transaction is about to change a record.
    pub(in crate::partition) fn has_intent(&self, key: &[u8]) -> bool {
        match &self.transacting {
            Some(_) => self.intents().is_some_and(|intents| intents.has_intent(key)),
            None => self.state.transacted.is_some(),
        }
    }

    /// Queues a request that must wait. `passed`: the number of its keys that it has waited for. `true`: it waits, or is
    /// answered.
    pub(in crate::partition) fn waits_for_intents(
        &mut self,
        request: &RecordRequest<'_>,
        passed: usize,
        effects: &mut dyn PartitionEffects,
    ) -> bool {
        // A page may show any record.
        let is_scan = matches!(request.message, Message::Scan(_) | Message::Chunks(_));
        if self.transacting.as_deref().is_some_and(|one| one.transactions.is_free()) {
            return false;
        }
        let Some((keys, changes)) = keys_of(request.message) else { return false };
        if is_planted(Bug::IntentsIgnored) && !changes {
            return false;
        }
        let busy = Message::Answer(Err(Failure::Busy { retry_after_ms: BUSY_RETRY_MS }));
        if !self.open_transactions() {
            effects.answer(request.token, &busy);
            return true;
        }
        let Some(hash_range) = self.hash_range() else { return false };
        let is_due = |key: &&[u8]| self.is_due(key);
        // A request that finds an expired record removes it.
        let changes = changes || keys.iter().any(is_due);
        let now_ms = self.clock.now_ms();
        let Some(transacting) = self.transacting.as_deref_mut() else { return false };
        if transacting.transactions.is_free() {
            return false;
        }
        let lock_keys: Vec<u64> = keys.iter().map(|key| hash_range.lock_key(key)).collect();
        let ticket = transacting.ticket();
        let mut at = passed;
        let go = if changes {
            transacting.transactions.write(ticket, &lock_keys)
        } else if is_scan && at == 0 {
            at = 1;
            transacting.transactions.scan(ticket)
        } else {
            loop {
                let Some(lock_key) = lock_keys.get(at) else { break Ok(Admission::Now) };
                at += 1;
                match transacting.transactions.read(ticket, *lock_key) {
                    Ok(Admission::Now) => {}
                    other => break other,
                }
            }
        };
        if go == Ok(Admission::Now) {
            return false;
        }
        let mut frame = Vec::new();
        let RecordRequest { token, envelope, message } = *request;
        let has_room = go.is_ok()
            && transacting.queued_bytes < INTENT_WAIT_BYTES_MAX
            && Encoder::default().encode(&envelope, message, &mut frame).is_ok();
        if !has_room {
            // Its place in the lock queue remains, and is skipped when its turn comes.
            effects.answer(token, &busy);
            return true;
        }
        let wait_ms = match envelope.time_out_ms {
            0 => INTENT_WAIT_MS,
            ms => INTENT_WAIT_MS.min(u64::from(ms)),
        };
        transacting.queued_bytes += frame.len();
        let blocked = BlockedRequest { token, envelope, frame, passed: at, until_ms: now_ms + wait_ms };
        transacting.queued.insert(ticket, blocked);
        true
    }

    fn take_queued(&mut self, ticket: Ticket) -> Option<BlockedRequest> {
        let transacting = self.transacting.as_deref_mut()?;
        let blocked = transacting.queued.remove(&ticket)?;
        transacting.queued_bytes -= blocked.frame.len();
        Some(blocked)
    }

    /// The intents that a read waited for are gone.
    pub(super) fn read_now<D: Disk>(
        &mut self,
        engine: &mut Engine<D>,
        ticket: Ticket,
        effects: &mut dyn PartitionEffects,
    ) {
        let Some(blocked) = self.take_queued(ticket) else { return };
        blocked.with(|request| {
            if !self.waits_for_intents(request, blocked.passed, effects) {
                self.evaluate_unblocked(engine, request, effects);
            }
        });
    }

    /// A write has the locks that it requested.
    pub(super) fn write_now<D: Disk>(
        &mut self,
        engine: &mut Engine<D>,
        ticket: Ticket,
        effects: &mut dyn PartitionEffects,
    ) {
        let Some(blocked) = self.take_queued(ticket) else { return };
        if !self.terms.has_copies {
            // Copies were lost while it waited. It is not started, since it would be acknowledged with too few copies.
            let retry_after_ms = crate::limits::UNAVAILABLE_RETRY_MS;
            return blocked.fail(&Failure::Unavailable { retry_after_ms }, effects);
        }
        blocked.with(|request| self.evaluate_unblocked(engine, request, effects));
    }

    /// Answers requests that have waited too long. Nothing was done for them.
    pub(super) fn time_out_queued(&mut self, effects: &mut dyn PartitionEffects) {
        let now_ms = self.clock.now_ms();
        let Some(transacting) = self.transacting.as_deref_mut() else { return };
        let late = transacting.queued.iter().filter(|(_, blocked)| blocked.until_ms <= now_ms);
        let late: Vec<Ticket> = late.map(|(ticket, _)| *ticket).collect();
        for ticket in late {
            if let Some(blocked) = self.take_queued(ticket) {
                blocked.fail(&Failure::Unavailable { retry_after_ms: BUSY_RETRY_MS }, effects);
            }
        }
    }

    /// A connection has closed: its requests need no answers.
    pub(in crate::partition) fn disconnect_transactions(&mut self, connection: u64) {
        let Some(transacting) = self.transacting.as_deref_mut() else { return };
        transacting.clients.retain(|_, client| client.token.connection != connection);
        transacting.queued.retain(|_, blocked| blocked.token.connection != connection);
        transacting.queued_bytes = transacting.queued.values().map(|blocked| blocked.frame.len()).sum();
    }

    /// Whether a request of some connection waits here.
    pub(in crate::partition) fn has_queued(&self) -> bool {
        self.transacting.as_ref().is_some_and(|one| !one.queued.is_empty() || !one.clients.is_empty())
    }
}
