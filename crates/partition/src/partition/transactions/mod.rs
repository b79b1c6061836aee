//! Transactions over several partitions, as this partition takes part in them: the protocol is `zerohop_transaction`'s, which
//! this lends records, clock, log and session table, and whose effects this carries out.
//!
//! ```text
//!   Transact, Stage ──> requests ──┐                            ┌── Append ──> log: one mark, with what records become
//!   Transaction (a message) ───────┼──> Transactions ──effects──┼── Send ──> at once, or held until all is committed
//!   Tick ──────────────────────────┤        ▲                   └── Read, Write ──> intents: what was parked goes on
//!   commit index moves ────────────┘        └── host: evaluation over engine and overlay
//! ```
//!
//! A partition that no transaction concerns holds a null pointer for all this. What stands in the log is in the state, as
//! of the commit index, on all members; what is under way is the primary's alone, and is lost with it.

mod evaluate;
mod host;
mod intents;
mod log;
mod requests;
mod staged;

use std::collections::{BTreeMap, VecDeque};

use zerohop_engine::Engine;
use zerohop_engine::disk::Disk;
use zerohop_transaction::{
    Message as Told, ParticipantState, Ticket, Time, TransactionEffect, TransactionEntry, TransactionMessage,
    TransactionOutcome, Transactions,
};
use zerohop_wire::Failure;
use zerohop_wire::ids::{KeyspaceId, LogIndex, PartitionEpoch, Sequence, SessionId, Timestamp};

use super::Partition;
use crate::event::{PartitionEffects, Token};
use crate::limits::TRANSACTIONS_TICK_MS;
use crate::pending_replies::Reply;
use crate::planted::{Bug, is_planted};
use crate::state::TransactionEvent as CommittedTold;

use host::HostRecords;
use intents::ParkedRequest;

pub(super) use evaluate::take_back;
pub(crate) use intents::Intents;
pub(super) use log::is_let_in_mark;

/// What the primary has under way.
#[derive(Debug)]
pub(super) struct PrimaryTransactions {
    transactions: Transactions,
    /// Entries that are committed, and that it has not been told of.
    committed: VecDeque<(u64, TransactionEntry)>,
    /// Clients that wait for the end of their transaction, with its parts' places.
    clients: BTreeMap<Ticket, WaitingClient>,
    /// Requests that wait for intents.
    parked: BTreeMap<Ticket, ParkedRequest>,
    parked_bytes: usize,
    tickets: u64,
    /// Of requests that are not in the log: the lowest sequence without an answer that their client has told, and whom to answer.
    asked: BTreeMap<(SessionId, Sequence), (u64, Ticket)>,
    tick_at_ms: u64,
    /// Nothing but holds for readers has been in it.
    pub(super) has_holds_alone: bool,
}

/// Who is to be answered.
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

    /// Whether time changes nothing.
    fn is_idle(&self) -> bool {
        self.transactions.is_idle() && self.parked.is_empty()
    }

    /// Holds a cell for readers until then, unless somebody may change it.
    pub(super) fn hold(&mut self, cell: u64, until_ms: u64) -> bool {
        is_planted(Bug::HoldIgnored) || self.transactions.hold(cell, until_ms)
    }

    /// Until when the first hold lasts.
    pub(super) fn first_lapse(&self) -> Option<u64> {
        self.transactions.first_lapse()
    }

    /// Whether nothing but holds has been in it, and none is.
    pub(super) fn is_over(&self) -> bool {
        self.has_holds_alone && self.is_idle() && self.clients.is_empty() && self.asked.is_empty()
    }
}

impl Partition {
    /// Whether transactions may concern what is asked: one look, of all that comes.
    #[inline]
    pub(super) fn has_transactions(&self) -> bool {
        self.transacting.is_some() || self.state.transacted.is_some()
    }

    /// Takes up what the log says, if that was not done. `false`: not yet, as entries are on their way that it may say more in.
    pub(super) fn open_transactions(&mut self) -> bool {
        if self.transacting.is_some() {
            return true;
        }
        let Some(slice) = self.slice().filter(|_| self.state.applied >= self.transactions_after) else {
            return false;
        };
        let state = match &self.state.transacted {
            Some(transacted) => transacted.state.clone(),
            None => ParticipantState::restore(LogIndex(self.state.applied), []),
        };
        self.clock.witness(state.newest());
        // Attempts are numbered under it: above those of any primary before, also of this epoch, before a restart.
        let epoch = PartitionEpoch(self.clock.next().0);
        let transactions = Transactions::new(self.transactions_now(), slice.span(), epoch, state);
        self.transacting = Some(Box::new(PrimaryTransactions {
            transactions,
            committed: VecDeque::new(),
            clients: BTreeMap::new(),
            parked: BTreeMap::new(),
            parked_bytes: 0,
            tickets: 0,
            asked: BTreeMap::new(),
            tick_at_ms: self.clock.now_ms() + TRANSACTIONS_TICK_MS,
            has_holds_alone: false,
        }));
        true
    }

    /// Whether nothing of a transaction is under way here, nor may be in what is not committed yet. Where the keyspace is being
    /// dropped it remains so, whoever is primary.
    pub(crate) fn is_drained(&self) -> bool {
        !self.may_hold()
            && self.group.last() == self.state.applied
            && self.state.transacted.as_ref().is_none_or(|one| one.state.is_quiet())
            && self.transacting.as_ref().is_none_or(|one| one.transactions.is_drained())
    }

    /// Whether a transaction may yet change something here at or below a time; none that begins later does.
    pub(super) fn may_commit_by(&mut self, at: Timestamp) -> bool {
        if !self.has_transactions() {
            return false;
        }
        let is_open = self.open_transactions();
        !is_open || self.transacting.as_ref().is_some_and(|one| one.transactions.may_commit_by(at))
    }

    fn transactions_now(&self) -> Time {
        Time(self.clock.now_ms().saturating_mul(1_000))
    }

    /// Another partition says something about a transaction. It is let lie where it cannot be taken up: it comes again.
    pub(super) fn transaction<D: Disk>(
        &mut self,
        engine: &mut Engine<D>,
        message: &Told,
        effects: &mut dyn PartitionEffects,
    ) {
        let is_ours = self.slice().is_some_and(|slice| slice.span().has(message.to));
        // Whoever has prepared was in the way of every hold.
        let may_be_held =
            self.has_unknown_holds() && matches!(message.what, TransactionMessage::Prepare { .. });
        if is_ours && !may_be_held && !self.held.is_full() && self.open_transactions() {
            let message = message.clone();
            if let Some(transacting) = self.transacting.as_deref_mut() {
                transacting.has_holds_alone = false;
                if effects.is_closing(message.to.keyspace) {
                    transacting.transactions.close();
                }
            }
            self.act(engine, effects, |transactions, now, host, told| {
                transactions.message(now, host, message, told);
            });
        }
    }

    /// What is overdue is sent again, asked, given up.
    pub(super) fn tick_transactions<D: Disk>(
        &mut self,
        engine: &mut Engine<D>,
        effects: &mut dyn PartitionEffects,
    ) {
        if !self.has_transactions() || !self.has_copies || !self.open_transactions() {
            return;
        }
        let now_ms = self.clock.now_ms();
        let Some(transacting) = self.transacting.as_deref_mut() else { return };
        if transacting.is_idle() || now_ms < transacting.tick_at_ms {
            return;
        }
        transacting.tick_at_ms = now_ms + TRANSACTIONS_TICK_MS;
        self.time_out_parked(effects);
        let others = self.transacting.as_ref().map(|one| one.transactions.others()).unwrap_or_default();
        let missing: Vec<KeyspaceId> = others.into_iter().filter(|one| !effects.has_keyspace(*one)).collect();
        self.act(engine, effects, |transactions, now, host, told| {
            transactions.tick(now, host, told);
            transactions.without(now, &missing, told);
        });
    }

    /// When that has something to do.
    pub(crate) fn next_transactions_ms(&self) -> Option<u64> {
        match &self.transacting {
            Some(transacting) => {
                // Nobody is woken for a hold that nobody waits for.
                let lapse = transacting.first_lapse().filter(|_| transacting.transactions.has_queue());
                let left = lapse.map(|until_ms| until_ms.saturating_sub(self.clock.elapsed_ms()));
                let tick_at_ms = (!transacting.is_idle()).then_some(transacting.tick_at_ms);
                left.map(|left_ms| self.clock.now_ms() + left_ms).into_iter().chain(tick_at_ms).min()
            }
            None => self.state.transacted.is_some().then(|| self.clock.now_ms()),
        }
    }

    /// Asks the transactions something, and does what they want done.
    fn act<D: Disk>(
        &mut self,
        engine: &mut Engine<D>,
        effects: &mut dyn PartitionEffects,
        ask: impl FnOnce(&mut Transactions, Time, &mut HostRecords<'_, D>, &mut Vec<TransactionEffect>),
    ) {
        let wanted = self.ask(engine, ask);
        self.carry_out(engine, wanted, effects);
        self.tell_committed(engine, effects);
    }

    fn ask<D: Disk>(
        &mut self,
        engine: &mut Engine<D>,
        ask: impl FnOnce(&mut Transactions, Time, &mut HostRecords<'_, D>, &mut Vec<TransactionEffect>),
    ) -> Vec<TransactionEffect> {
        let mut wanted = Vec::new();
        let (now, slice) = (self.transactions_now(), self.slice());
        let Some(mut transacting) = self.transacting.take() else { return wanted };
        let mut staged = self.buffers.staged.take().unwrap_or_default();
        let mut records = HostRecords::of(
            engine,
            (&mut self.group, &mut self.overlay, &self.state),
            (&mut self.clock, &mut staged),
            slice,
        );
        ask(&mut transacting.transactions, now, &mut records, &mut wanted);
        self.buffers.staged = Some(staged);
        self.transacting = Some(transacting);
        wanted
    }

    /// Whoever waits for holds that have lapsed goes on.
    pub(super) fn lapse<D: Disk>(&mut self, engine: &mut Engine<D>, effects: &mut dyn PartitionEffects) {
        let now_ms = self.clock.elapsed_ms();
        let first = self.transacting.as_deref().and_then(PrimaryTransactions::first_lapse);
        if first.is_some_and(|until_ms| until_ms <= now_ms) {
            self.act(engine, effects, |transactions, now, host, told| {
                transactions.lapse(now, host, now_ms, told);
            });
        }
    }

    /// Tells the transactions which of their entries are committed.
    pub(super) fn tell_committed<D: Disk>(
        &mut self,
        engine: &mut Engine<D>,
        effects: &mut dyn PartitionEffects,
    ) {
        while let Some((index, entry)) = self.transacting.as_mut().and_then(|one| one.committed.pop_front()) {
            let wanted = self.ask(engine, |transactions, now, host, told| {
                transactions.committed(now, host, LogIndex(index), &entry, told);
            });
            self.carry_out(engine, wanted, effects);
        }
    }

    /// An entry is committed that says something to transactions.
    pub(super) fn note_committed(&mut self, index: u64, told: CommittedTold) {
        let Some(transacting) = self.transacting.as_deref_mut() else { return };
        match told {
            CommittedTold::Transaction(entry) => {
                if let TransactionEntry::Expire { ids } = &entry {
                    self.staged_expired += ids.len() as u64;
                }
                transacting.committed.push_back((index, entry));
            }
            CommittedTold::Evicted(sessions) => transacting.transactions.evict(&sessions),
            CommittedTold::Nothing => {}
        }
    }

    /// Does what the transactions want done, in this order.
    fn carry_out<D: Disk>(
        &mut self,
        engine: &mut Engine<D>,
        wanted: Vec<TransactionEffect>,
        effects: &mut dyn PartitionEffects,
    ) {
        for effect in wanted {
            if self.transacting.is_none() {
                // An entry could not be appended: all that was under way is forgotten, and what the log says taken up again.
                return;
            }
            match effect {
                TransactionEffect::Append { entry, .. } => {
                    if self.log_transaction(engine, entry, effects).is_err() {
                        self.lose_transactions(effects);
                    }
                }
                TransactionEffect::Send(message) => self.send_transaction(message, effects),
                TransactionEffect::Answer { ticket, outcome } => {
                    self.answer_transaction(ticket, &outcome, effects)
                }
                TransactionEffect::Read(ticket) => self.read_now(engine, ticket, effects),
                TransactionEffect::Write(ticket) => {
                    self.write_now(engine, ticket, effects);
                    let more = self.ask(engine, |transactions, now, host, told| {
                        transactions.leave(now, host, ticket, told);
                    });
                    self.carry_out(engine, more, effects);
                }
                TransactionEffect::Loss { id, place } => effects.transaction_lost(id, place),
            }
        }
    }

    /// What asks, and decisions, which are committed, leave at once; answers rest on all that is appended.
    fn send_transaction(&mut self, message: Told, effects: &mut dyn PartitionEffects) {
        // Whoever has too few copies promises nothing: it is asked again.
        if !self.has_copies {
            return;
        }
        let rests_on_nothing = matches!(
            message.what,
            TransactionMessage::Prepare { .. }
                | TransactionMessage::Release { .. }
                | TransactionMessage::Commit { .. }
                | TransactionMessage::Ask { .. }
        );
        let last = self.group.last();
        if rests_on_nothing || last <= self.state.applied || is_planted(Bug::AnswersBeforeFlush) {
            effects.transaction(message);
        } else {
            self.held.push(last, Token::default(), Reply::Transaction(Box::new(message)), effects);
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
        if self.has_copies {
            requests::answer_ended(token, outcome, &places, effects);
        } else {
            // Too few hold it to say so. It is in the log: whoever asks again may be told then.
            effects.answer(token, &requests::in_doubt());
        }
    }

    /// What is under way is forgotten: it is primary no more, or could not write down what had to be. What the log says, and is
    /// still on its way to being committed, is taken up again once that is.
    pub(super) fn forget_transactions(
        &mut self,
        failure: &Failure<'static>,
        effects: &mut dyn PartitionEffects,
    ) {
        let Some(transacting) = self.transacting.take() else { return };
        self.lose_holds();
        self.transactions_after = self.group.last();
        for client in transacting.clients.into_values() {
            effects.answer(client.token, &requests::in_doubt());
        }
        for parked in transacting.parked.into_values() {
            parked.fail(failure, effects);
        }
    }

    fn lose_transactions(&mut self, effects: &mut dyn PartitionEffects) {
        let retry_after_ms = crate::limits::UNAVAILABLE_RETRY_MS;
        self.forget_transactions(&Failure::Unavailable { retry_after_ms }, effects);
    }
}
