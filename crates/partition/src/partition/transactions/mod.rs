//! Transactions over several partitions, as this partition takes part in them. The protocol is implemented in
//! `zerohop_transaction`. This module provides records, clock, log and session table to it, and carries out its effects.
//!
//! ```text
//!   Transact, Stage ──> requests ──┐                            ┌── Append ──> log: one mark, with the changes of records
//!   Transaction (a message) ───────┼──> Transactions ──effects──┼── Send ──> at once, or pending until all is committed
//!   Tick ──────────────────────────┤        ▲                   └── Read, Write ──> intents: queued requests continue
//!   commit index moves ────────────┘        └── host: evaluation over engine and overlay
//! ```
//!
//! A partition without transactions has only a null pointer for all this. What the log contains is in the state, as of the commit
//! index, on all members. What is in progress is known to the primary alone, and is lost with it.

mod evaluate;
mod evaluation_context;
mod host;
mod intents;
mod log;
mod requests;
mod staged;

use std::collections::{BTreeMap, VecDeque};

use zerohop_base::time::Time;
use zerohop_engine::Engine;
use zerohop_engine::disk::Disk;
use zerohop_transaction::{
    KeyspaceRange, Message as ProtocolMessage, ParticipantState, Ticket, TransactionEffect, TransactionEntry,
    TransactionId, TransactionMessage, TransactionOutcome, Transactions,
};
use zerohop_wire::Failure;
use zerohop_wire::ids::{KeyspaceId, LogIndex, PartitionEpoch, Sequence, SessionId, Timestamp};

use super::Partition;
use crate::event::{FlushNeed, PartitionEffect, PartitionEffects, Token};
use crate::limits::TRANSACTIONS_TICK_MS;
use crate::map_view::MapView;
use crate::planted::{Bug, is_planted};
use crate::reply::Reply;
use crate::state::TransactionEvent as CommittedEvent;

use host::HostRecords;
use intents::BlockedRequest;

pub(super) use evaluate::undo_entries;
pub(super) use log::is_mark_admitted_when_full;

/// The transactions in progress on the primary.
#[derive(Debug)]
pub(super) struct PrimaryTransactions {
    transactions: Transactions,
    /// Committed entries of which the protocol has not been notified.
    committed: VecDeque<(u64, TransactionEntry)>,
    /// Clients that wait for the end of their transaction, with the routing keys of its parts.
    clients: BTreeMap<Ticket, WaitingClient>,
    /// Requests that wait for intents.
    queued: BTreeMap<Ticket, BlockedRequest>,
    queued_bytes: usize,
    tickets: u64,
    /// For requests that are not in the log: the lowest unanswered sequence that their client has reported, and the ticket to
    /// answer.
    unlogged_requests: BTreeMap<(SessionId, Sequence), (u64, Ticket)>,
    tick_at_ms: u64,
    /// It has only ever contained read locks.
    pub(super) has_only_read_locks: bool,
}

/// The client to be answered.
#[derive(Debug)]
struct WaitingClient {
    token: Token,
    places: Vec<zerohop_transaction::RoutingKey>,
}

impl PrimaryTransactions {
    fn ticket(&mut self) -> Ticket {
        self.tickets += 1;
        Ticket(self.tickets)
    }

    /// Whether the passing of time changes nothing.
    fn is_idle(&self) -> bool {
        self.transactions.is_idle() && self.queued.is_empty()
    }

    /// Read-locks a lock key until then, unless a request may change its record.
    pub(super) fn add_read_lock(&mut self, lock_key: u64, until_ms: u64) -> bool {
        is_planted(Bug::ReadLockIgnored) || self.transactions.add_read_lock(lock_key, until_ms)
    }

    /// When the first read lock ends.
    pub(super) fn first_read_lock_end_ms(&self) -> Option<u64> {
        self.transactions.first_read_lock_end()
    }

    /// Whether it has only ever contained read locks, and none is left.
    pub(super) fn is_over(&self) -> bool {
        self.has_only_read_locks
            && self.is_idle()
            && self.clients.is_empty()
            && self.unlogged_requests.is_empty()
    }
}

impl Partition {
    /// Whether transactions may affect requests. Every request makes this check.
    #[inline]
    pub(super) fn has_transactions(&self) -> bool {
        self.transacting.is_some() || self.state.transacted.is_some()
    }

    /// Resumes the transactions that the log contains, if that was not done. `false`: not yet, since entries in flight may
    /// contain more.
    pub(super) fn open_transactions(&mut self) -> bool {
        if self.transacting.is_some() {
            return true;
        }
        let Some(hash_range) = self.hash_range().filter(|_| self.state.applied >= self.transactions_after)
        else {
            return false;
        };
        let state = match &self.state.transacted {
            Some(transacted) => transacted.state.clone(),
            None => ParticipantState::restore(LogIndex(self.state.applied), []),
        };
        self.clock.witness(state.newest());
        // Attempts are numbered under this value. It is above those of all earlier primaries, also of this epoch before a
        // restart.
        let epoch = PartitionEpoch(self.clock.next().0);
        let transactions = Transactions::new(
            self.transactions_now(),
            (hash_range.keyspace_range(), hash_range.region()),
            epoch,
            state,
        );
        self.transacting = Some(Box::new(PrimaryTransactions {
            transactions,
            committed: VecDeque::new(),
            clients: BTreeMap::new(),
            queued: BTreeMap::new(),
            queued_bytes: 0,
            tickets: 0,
            unlogged_requests: BTreeMap::new(),
            tick_at_ms: self.clock.now_ms() + TRANSACTIONS_TICK_MS,
            has_only_read_locks: false,
        }));
        true
    }

    /// Whether no transaction is in progress here, nor may be in uncommitted entries. While the keyspace is being dropped this
    /// remains so, whichever member is primary.
    pub fn is_drained(&self) -> bool {
        !self.may_have_read_locks()
            && self.log_writer.last() == self.state.applied
            && self.state.transacted.as_ref().is_none_or(|one| one.state.is_quiet())
            && self.transacting.as_ref().is_none_or(|one| one.transactions.is_drained())
    }

    /// The last log index, unless a transaction is being decided here. While the map has a pending split of the partition, no later
    /// entry has keys that the split divides.
    pub fn split_barrier(&self) -> Option<u64> {
        let decides_none = self.transacting.as_ref().is_none_or(|one| one.transactions.decides_none());
        decides_none.then(|| self.log_writer.last())
    }

    /// Whether a transaction may still change a record here at or below a time. No transaction that starts later does.
    pub(super) fn may_commit_by(&mut self, at: Timestamp) -> bool {
        if !self.has_transactions() {
            return false;
        }
        let is_open = self.open_transactions();
        !is_open || self.transacting.as_ref().is_some_and(|one| one.transactions.may_commit_by(at))
    }

    /// The lowest timestamp at which a transaction that is prepared here may commit; `None`: none is. Zero while that is not known.
    pub(super) fn lowest_commit(&mut self) -> Option<Timestamp> {
        if !self.has_transactions() {
            return None;
        }
        match self.open_transactions() {
            true => self.transacting.as_ref().and_then(|one| one.transactions.lowest_commit()),
            false => Some(Timestamp::ZERO),
        }
    }

    fn transactions_now(&self) -> Time {
        Time(self.clock.now_ms().saturating_mul(1_000))
    }

    /// Handles a transaction message of another partition. If that is not possible now it is dropped, and its sender repeats it.
    pub(super) fn transaction<D: Disk>(
        &mut self,
        engine: &mut Engine<D>,
        (message, is_unsynced): (&ProtocolMessage, bool),
        map: MapView<'_>,
        effects: &mut dyn PartitionEffects,
    ) {
        let is_ours = self.hash_range().is_some_and(|hash_range| hash_range.keyspace_range().has(message.to));
        // A prepared transaction has blocked every read lock.
        let may_be_locked =
            self.has_unknown_read_locks() && matches!(message.what, TransactionMessage::Prepare { .. });
        let counts = !is_unsynced || self.log_writer.keeps_order(engine);
        if is_ours && counts && !may_be_locked && !self.pending_replies.is_full() && self.open_transactions()
        {
            let message = message.clone();
            if let Some(transacting) = self.transacting.as_deref_mut() {
                transacting.has_only_read_locks = false;
                if map.is_dropping(message.to.keyspace) {
                    transacting.transactions.close();
                }
            }
            self.act(engine, effects, |transactions, now, host, requested| match is_unsynced {
                true => transactions.unsynced_prepared(now, host, message, requested),
                false => transactions.message(now, host, message, requested),
            });
        }
    }

    /// Parts of other partitions, and entries of this one, count only once they are durable.
    pub(super) fn forget_unsynced(&mut self) {
        self.log_writer.set_lone(false);
        if let Some(transacting) = self.transacting.as_deref_mut() {
            transacting.transactions.forget_unsynced();
        }
    }

    /// Repeats overdue messages and queries, and aborts overdue transactions.
    pub(super) fn tick_transactions<D: Disk>(
        &mut self,
        engine: &mut Engine<D>,
        map: MapView<'_>,
        effects: &mut dyn PartitionEffects,
    ) {
        if !self.has_transactions() || !self.terms.has_copies || !self.open_transactions() {
            return;
        }
        let now_ms = self.clock.now_ms();
        let Some(transacting) = self.transacting.as_deref_mut() else { return };
        if transacting.is_idle() || now_ms < transacting.tick_at_ms {
            return;
        }
        transacting.tick_at_ms = now_ms + TRANSACTIONS_TICK_MS;
        self.time_out_queued(effects);
        let others = self.transacting.as_ref().map(|one| one.transactions.others()).unwrap_or_default();
        let missing: Vec<KeyspaceId> = others.into_iter().filter(|one| !map.has_keyspace(*one)).collect();
        self.act(engine, effects, |transactions, now, host, requested| {
            transactions.tick(now, host, requested);
            transactions.without(now, &missing, requested);
        });
    }

    /// Whether a transaction is in progress at this primary.
    #[must_use]
    pub fn is_transacting(&self) -> bool {
        self.transacting.as_deref().is_some_and(|transacting| !transacting.is_idle())
    }

    /// Sends again what the former primary of a range may not have got.
    pub(super) fn send_again<D: Disk>(
        &mut self,
        engine: &mut Engine<D>,
        range: KeyspaceRange,
        effects: &mut dyn PartitionEffects,
    ) {
        if self.is_transacting() && self.terms.has_copies {
            self.act(engine, effects, |transactions, now, _, requested| {
                transactions.primary_moved(now, range, requested);
            });
        }
    }

    /// When a tick has something to do for transactions, in milliseconds since 1970.
    pub fn next_transactions_ms(&self) -> Option<u64> {
        match &self.transacting {
            Some(transacting) => {
                // No tick is needed for a read lock that no request waits for.
                let lapse =
                    transacting.first_read_lock_end_ms().filter(|_| transacting.transactions.has_queue());
                let left = lapse.map(|until_ms| until_ms.saturating_sub(self.clock.elapsed_ms()));
                let tick_at_ms = (!transacting.is_idle()).then_some(transacting.tick_at_ms);
                left.map(|left_ms| self.clock.now_ms() + left_ms).into_iter().chain(tick_at_ms).min()
            }
            None => self.state.transacted.is_some().then(|| self.clock.now_ms()),
        }
    }

    /// Passes an input to the transactions, and carries out the resulting effects.
    fn act<D: Disk>(
        &mut self,
        engine: &mut Engine<D>,
        effects: &mut dyn PartitionEffects,
        query: impl FnOnce(&mut Transactions, Time, &mut HostRecords<'_, D>, &mut Vec<TransactionEffect>),
    ) {
        let requested = self.begin_transaction(engine, query);
        self.apply_effects(engine, requested, effects);
        self.notify_committed(engine, effects);
    }

    fn begin_transaction<D: Disk>(
        &mut self,
        engine: &mut Engine<D>,
        query: impl FnOnce(&mut Transactions, Time, &mut HostRecords<'_, D>, &mut Vec<TransactionEffect>),
    ) -> Vec<TransactionEffect> {
        let mut requested = Vec::new();
        let (now, hash_range) = (self.transactions_now(), self.hash_range());
        let Some(mut transacting) = self.transacting.take() else { return requested };
        let mut staged = self.buffers.staged.take().unwrap_or_default();
        let mut records = HostRecords::of(
            engine,
            (&mut self.log_writer, &mut self.overlay, &self.state),
            (&mut self.clock, &mut staged),
            hash_range,
        );
        query(&mut transacting.transactions, now, &mut records, &mut requested);
        self.buffers.staged = Some(staged);
        self.transacting = Some(transacting);
        requested
    }

    /// Requests that wait for read locks which have expired continue.
    pub(super) fn resume_after_read_locks<D: Disk>(
        &mut self,
        engine: &mut Engine<D>,
        effects: &mut dyn PartitionEffects,
    ) {
        let now_ms = self.clock.elapsed_ms();
        let first = self.transacting.as_deref().and_then(PrimaryTransactions::first_read_lock_end_ms);
        if first.is_some_and(|until_ms| until_ms <= now_ms) {
            self.act(engine, effects, |transactions, now, host, requested| {
                transactions.expire_read_locks(now, host, now_ms, requested);
            });
        }
    }

    /// Notifies the transactions of their committed entries.
    pub(super) fn notify_committed<D: Disk>(
        &mut self,
        engine: &mut Engine<D>,
        effects: &mut dyn PartitionEffects,
    ) {
        while let Some((index, entry)) = self.transacting.as_mut().and_then(|one| one.committed.pop_front()) {
            let requested = self.begin_transaction(engine, |transactions, now, host, requested| {
                transactions.committed(now, host, LogIndex(index), &entry, requested);
            });
            self.apply_effects(engine, requested, effects);
        }
    }

    /// A committed entry has an event for transactions.
    pub(super) fn record_committed(&mut self, index: u64, event: CommittedEvent) {
        let Some(transacting) = self.transacting.as_deref_mut() else { return };
        match event {
            CommittedEvent::Transaction(entry) => {
                if let TransactionEntry::Expire { ids } = &entry {
                    self.counts.staged_expired += ids.len() as u64;
                }
                transacting.committed.push_back((index, entry));
            }
            CommittedEvent::Evicted(sessions) => transacting.transactions.evict(&sessions),
            CommittedEvent::Nothing => {}
        }
    }

    /// Carries out the effects of the transactions, in this order.
    fn apply_effects<D: Disk>(
        &mut self,
        engine: &mut Engine<D>,
        requested: Vec<TransactionEffect>,
        effects: &mut dyn PartitionEffects,
    ) {
        for effect in requested {
            if self.transacting.is_none() {
                // An entry could not be appended. All transactions in progress were forgotten, and those in the log are resumed.
                return;
            }
            match effect {
                TransactionEffect::Append { entry, .. } => {
                    let prepared = match &entry {
                        TransactionEntry::Prepare { id, .. } => Some(*id),
                        _ => None,
                    };
                    let before = self.log_writer.last();
                    let needs_no_flush = self.needs_no_flush(engine, &entry);
                    let mut deferred = |effect: PartitionEffect<'_>| match effect {
                        PartitionEffect::FlushWanted(_) => {
                            effects.push(PartitionEffect::FlushWanted(FlushNeed::Later));
                        }
                        other => effects.push(other),
                    };
                    let logged = match &entry {
                        TransactionEntry::Apply { .. } if needs_no_flush => {
                            self.log_transaction(engine, entry, &mut deferred)
                        }
                        _ => self.log_transaction(engine, entry, effects),
                    };
                    if needs_no_flush && logged.is_ok() {
                        self.log_writer.commits_unflushed_after(before);
                    }
                    if logged.is_err() {
                        self.lose_transactions(effects);
                    } else if let Some(id) = prepared
                        && self.log_writer.last() == before + 1
                    {
                        self.answer_unsynced(engine, id, effects);
                    }
                }
                TransactionEffect::Send(message) => self.send_transaction(engine, message, effects),
                TransactionEffect::Answer { ticket, outcome } => {
                    self.answer_transaction(ticket, &outcome, effects)
                }
                TransactionEffect::Read(ticket) => self.read_now(engine, ticket, effects),
                TransactionEffect::Write(ticket) => {
                    self.write_now(engine, ticket, effects);
                    let more = self.begin_transaction(engine, |transactions, now, host, requested| {
                        transactions.leave(now, host, ticket, requested);
                    });
                    self.apply_effects(engine, more, effects);
                }
                TransactionEffect::Loss { id, routing_key: place } => {
                    effects.transaction_effect_missing(id, place)
                }
            }
        }
    }

    /// Whether an entry counts before it is durable, because nothing that depends on it alone leaves the partition before.
    /// A decided part: its `Prepare` and the decision are durable, so a restart applies it again at the same time. A prepared
    /// part: it changes no record, and the answer to its coordinator waits for the flush. Not where readers follow the changes:
    /// after a restart, another log index may have them.
    fn needs_no_flush<D: Disk>(&self, engine: &mut Engine<D>, entry: &TransactionEntry) -> bool {
        let is_such = match entry {
            TransactionEntry::Prepare { .. } | TransactionEntry::Apply { .. } => true,
            TransactionEntry::Commit { .. } => is_planted(Bug::DecisionSeenUnflushed),
            _ => false,
        };
        is_such && !self.feed.is_kept() && self.log_writer.keeps_order(engine)
    }

    /// A coordinator in the same engine need not wait for the flush of the last entry, which prepares a part.
    fn answer_unsynced<D: Disk>(
        &mut self,
        engine: &mut Engine<D>,
        id: TransactionId,
        effects: &mut dyn PartitionEffects,
    ) {
        if !self.terms.has_copies || !self.log_writer.keeps_order(engine) {
            return;
        }
        let index = LogIndex(self.log_writer.last());
        let transacting = self.transacting.as_deref();
        if let Some(message) = transacting.and_then(|one| one.transactions.unsynced_answer(id, index)) {
            effects.unsynced_prepared(message);
        }
    }

    /// Queries, and decisions, which are committed, are sent at once. Answers depend on all appended entries.
    fn send_transaction<D: Disk>(
        &mut self,
        engine: &mut Engine<D>,
        message: ProtocolMessage,
        effects: &mut dyn PartitionEffects,
    ) {
        // A primary with too few copies promises nothing; the sender asks again.
        if !self.terms.has_copies {
            return;
        }
        let rests_on_nothing = matches!(
            message.what,
            TransactionMessage::Prepare { .. }
                | TransactionMessage::Release { .. }
                | TransactionMessage::Commit { .. }
                | TransactionMessage::Query { .. }
        );
        let last = self.log_writer.last();
        // A log whose durable part is unknown has failed, and promises nothing.
        let is_settled = last <= self.state.applied
            && self.log_writer.durable(engine).is_ok_and(|durable| last <= durable);
        if rests_on_nothing || is_settled || is_planted(Bug::AnswersBeforeFlush) {
            effects.transaction(message);
        } else {
            self.pending_replies.push(last, Token::default(), Reply::Transaction(Box::new(message)), effects);
        }
    }

    fn answer_transaction(
        &mut self,
        ticket: Ticket,
        outcome: &TransactionOutcome,
        effects: &mut dyn PartitionEffects,
    ) {
        let Some(transacting) = self.transacting.as_deref_mut() else { return };
        let Some(WaitingClient { token, places }) = transacting.clients.remove(&ticket) else { return };
        if self.terms.has_copies {
            requests::answer_ended(token, outcome, &places, effects);
        } else {
            // Too few members have the entry to report the end. It is in the log, and a client that asks again may get it then.
            effects.answer(token, &requests::unknown_outcome());
        }
    }

    /// Forgets the transactions in progress, because the member is primary no more, or could not log an entry that it had to.
    /// Transactions in the log, even uncommitted ones, are resumed once their entries are committed.
    pub(super) fn drop_transactions(
        &mut self,
        failure: &Failure<'static>,
        effects: &mut dyn PartitionEffects,
    ) {
        let Some(transacting) = self.transacting.take() else { return };
        self.lose_read_locks();
        self.transactions_after = self.log_writer.last();
        for client in transacting.clients.into_values() {
            effects.answer(client.token, &requests::unknown_outcome());
        }
        for blocked in transacting.queued.into_values() {
            blocked.fail(failure, effects);
        }
    }

    fn lose_transactions(&mut self, effects: &mut dyn PartitionEffects) {
        let retry_after_ms = crate::limits::UNAVAILABLE_RETRY_MS;
        self.drop_transactions(&Failure::Unavailable { retry_after_ms }, effects);
    }
}
