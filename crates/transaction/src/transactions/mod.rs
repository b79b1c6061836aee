//! The primary's view of a partition's transactions: the committed state ([`ParticipantState`]), and the work in progress.
//!
//! Everything outside the state is lost with the primary, and no answer depends on it. A participant answers what is
//! committed in its log. A coordinator sends decisions that are committed in its own log.

mod check;
mod coordinator;
mod decision_notices;
mod dropped_keyspaces;
mod participant;
mod read_locks;
mod reads;
mod recovery;
mod staging;
mod timers;

pub use reads::Admission;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use zerohop_wire::ids::{KeyspaceId, LogIndex, PartitionEpoch, PartitionId, SessionId, Timestamp};

use crate::effect::{Ticket, TransactionEffect};
use crate::entry::TransactionEntry;
use crate::host::PartitionHost;
use crate::id::{Attempt, DecisionFloor, Durability, KeyspaceRange, RoutingKey, StageId, TransactionId};
use crate::intents::{Holder, Intents, Locks, QueueEntry};
use crate::item::{Items, TransactionItem, TransactionPart, TransactionRequest};
use crate::limits::FLOORS_US;
use crate::message::{Message, TransactionMessage};
use crate::reason::{Reason, Refusal};
use crate::state::ParticipantState;
use zerohop_base::invariant::CheckTurn;
use zerohop_base::time::Time;

use decision_notices::DecisionNotice;

/// See the module.
#[derive(Debug)]
pub struct Transactions {
    hash_range: KeyspaceRange,
    epoch: PartitionEpoch,
    /// Number of attempts in this epoch.
    attempts: u64,
    state: ParticipantState,
    intents: Intents,

    // As a participant.
    prepared: BTreeMap<TransactionId, Box<HoldingTransaction>>,
    queued: BTreeMap<TransactionId, Box<QueuedTransaction>>,
    /// A `Prepare` of a higher attempt, which waits until the lower one is released.
    next: BTreeMap<TransactionId, Message>,
    /// Decided transactions that wait because another holder may commit below on one of their lock keys.
    deferred: BTreeSet<TransactionId>,
    released: BTreeMap<TransactionId, Attempt>,
    released_order: VecDeque<TransactionId>,
    /// When to ask whether an applied transaction may be forgotten, the earliest first; some have been forgotten meanwhile.
    cleanup_queries: VecDeque<(Time, TransactionId)>,
    /// Floors of coordinators that are not logged.
    floors: BTreeMap<KeyspaceRange, LogIndex>,
    /// When these are logged next.
    floors_at: Time,
    /// When staged pieces expire, unless they are pinned then.
    expire_at: BTreeMap<StageId, Time>,
    /// Staged pieces whose `Expire` is appended: a transaction that needs one now is too late.
    expiring: BTreeSet<StageId>,
    writes: BTreeMap<Ticket, Holder>,

    // As a coordinator.
    running: BTreeMap<TransactionId, Box<RunningTransaction>>,
    /// Unknown transactions with queries, being logged as aborted.
    unknown: BTreeMap<TransactionId, StatusWaiters>,
    decision_notices: BTreeMap<TransactionId, Box<DecisionNotice>>,
    /// Decisions in the log that a sibling sends: this partition was split off from their coordinator.
    of_siblings: Vec<TransactionId>,
    releasing: BTreeMap<TransactionId, ReleasedAttempt>,

    /// Keyspaces that are missing in the map, and since when.
    missing: BTreeMap<KeyspaceId, Time>,
    /// No new transaction is prepared here any more: the keyspace is being dropped.
    is_closed: bool,
    check_turn: CheckTurn,
}

/// A transaction that holds intents here.
#[derive(Debug)]
struct HoldingTransaction {
    holder: Holder,
    attempt: Attempt,
    /// The routing key that the coordinator has used.
    routing_key: RoutingKey,
    /// All that was prepared is in this slice; otherwise a sibling, of which this partition was split off, has the rest.
    is_whole: bool,
    durability: Durability,
    proposal: Timestamp,
    result: Bytes,
    /// Staged pieces that it depends on.
    pinned: Vec<StageId>,
    stage: HoldStage,
    /// Its changes include a transform that may run beside others.
    has_transform: bool,
    /// In a chain: the parts to pass it on to.
    onward: Option<(DecisionFloor, Vec<TransactionPart>)>,
    decided: Option<DecidedTransaction>,
    query_at: Time,
    /// `Commit` was repeated while it was being applied.
    is_repeated: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HoldStage {
    /// The `Prepare` entry is appended.
    Preparing,
    /// The entry is committed.
    Prepared(LogIndex),
    /// The entry that ends it is appended.
    Ending,
}

#[derive(Clone, Copy, Debug)]
struct DecidedTransaction {
    timestamp: Timestamp,
    decision: LogIndex,
    prepared: LogIndex,
}

/// A transaction that waits in the queue.
#[derive(Debug)]
struct QueuedTransaction {
    arrival: u64,
    message: Message,
    query_at: Time,
}

/// A transaction that is being decided here.
#[derive(Debug)]
struct RunningTransaction {
    request: Arc<TransactionRequest>,
    ticket: Option<Ticket>,
    attempt: Attempt,
    chain: bool,
    answers: BTreeMap<RoutingKey, PrepareAnswer>,
    own: OwnPart,
    /// The entry with the decision is appended.
    is_deciding: bool,
    ends_at: Time,
    resend_at: Time,
}

#[derive(Clone, Debug)]
struct PrepareAnswer {
    proposal: Timestamp,
    prepared: LogIndex,
    hash_range: KeyspaceRange,
    result: Bytes,
    /// The entry may be lost in a crash unless a later one of the coordinator's log survives.
    is_unsynced: bool,
}

/// The coordinator's own part, of which nothing is logged before the decision.
#[derive(Debug)]
enum OwnPart {
    Free,
    Queued(u64),
    Prepared { holder: Holder, proposal: Timestamp, effect: Bytes, result: Bytes, pinned: Vec<StageId> },
}

/// The participants that have queried an unknown transaction.
#[derive(Debug, Default)]
struct StatusWaiters {
    routing_keys: BTreeSet<RoutingKey>,
    ticket: Option<Ticket>,
}

/// An attempt that has failed, and the participants that may still hold it.
#[derive(Debug)]
struct ReleasedAttempt {
    attempt: Attempt,
    routing_keys: BTreeSet<RoutingKey>,
    resend_at: Time,
}

/// The needs of a part: its items, its locks, and the staged pieces that it pins.
struct ParticipantRequirements<'p> {
    items: Cow<'p, [TransactionItem]>,
    locks: Locks,
    pinned: Vec<StageId>,
}

impl Transactions {
    /// `region` is the number of the partition in an ordered keyspace, where lock keys are no points.
    ///
    /// Made by a primary, once the mark of its epoch is committed: `state` is that of all entries up to it. Holds the
    /// intents of all prepared transactions, and continues to send decisions.
    #[must_use]
    pub fn new(
        now: Time,
        (hash_range, region): (KeyspaceRange, Option<PartitionId>),
        epoch: PartitionEpoch,
        state: ParticipantState,
    ) -> Transactions {
        let mut one = Transactions {
            hash_range,
            epoch,
            attempts: 0,
            intents: Intents::of(region),
            prepared: BTreeMap::new(),
            queued: BTreeMap::new(),
            next: BTreeMap::new(),
            deferred: BTreeSet::new(),
            released: BTreeMap::new(),
            released_order: VecDeque::new(),
            cleanup_queries: VecDeque::new(),
            floors: BTreeMap::new(),
            floors_at: now.after_us(FLOORS_US),
            expire_at: BTreeMap::new(),
            expiring: BTreeSet::new(),
            writes: BTreeMap::new(),
            running: BTreeMap::new(),
            unknown: BTreeMap::new(),
            decision_notices: BTreeMap::new(),
            of_siblings: Vec::new(),
            releasing: BTreeMap::new(),
            missing: BTreeMap::new(),
            is_closed: false,
            check_turn: CheckTurn::default(),
            state,
        };
        one.resume(now);
        one
    }

    /// Handles a message for this partition. Messages for others are ignored, as are answers that no transaction waits for.
    pub fn message(
        &mut self,
        now: Time,
        host: &mut impl PartitionHost,
        message: Message,
        effects: &mut Vec<TransactionEffect>,
    ) {
        self.message_of(now, host, (message, false), effects);
    }

    /// As [`Transactions::message`], for a `Prepared` whose entry is not durable yet. The caller ensures that no `Commit` entry
    /// appended here from now on survives a crash without it, or calls [`Transactions::forget_unsynced`] first.
    pub fn unsynced_prepared(
        &mut self,
        now: Time,
        host: &mut impl PartitionHost,
        message: Message,
        effects: &mut Vec<TransactionEffect>,
    ) {
        debug_assert!(matches!(message.what, TransactionMessage::Prepared { .. }));
        self.message_of(now, host, (message, true), effects);
    }

    fn message_of(
        &mut self,
        now: Time,
        host: &mut impl PartitionHost,
        (message, is_unsynced): (Message, bool),
        effects: &mut Vec<TransactionEffect>,
    ) {
        if !self.hash_range.has(message.to) {
            return;
        }
        if let Some(floor) = message.what.floor() {
            self.record_floor(floor);
        }
        let Message { to, from, id, what } = message;
        match what {
            TransactionMessage::Prepare { .. } => {
                self.prepare(now, host, Message { to, from, id, what }, effects)
            }
            TransactionMessage::Release { attempt, .. } => self.release(to, id, attempt, effects),
            TransactionMessage::Commit { attempt, prepared, timestamp, decision, .. } => {
                host.raise(timestamp);
                let decided = DecidedTransaction { timestamp, decision, prepared };
                self.commit((to, id), attempt, decided, effects);
            }
            TransactionMessage::Drop { .. } => self.drop_prepared(to, id, effects),
            TransactionMessage::Prepared { attempt, proposal, prepared, hash_range, result } => {
                let answer = PrepareAnswer { proposal, prepared, hash_range, result, is_unsynced };
                self.prepared(now, host, (from, id, attempt), answer, effects);
            }
            TransactionMessage::Busy { attempt } => self.busy(now, (from, id, attempt), effects),
            TransactionMessage::Refused { attempt, refusal } => {
                self.refused((from, id, attempt), refusal, effects)
            }
            TransactionMessage::Released { attempt } => self.released(from, id, attempt),
            TransactionMessage::Applied { decision, hash_range } => {
                self.acknowledged((from, hash_range), id, decision, effects)
            }
            TransactionMessage::NotPrepared { decision, hash_range } => {
                self.handle_not_prepared(now, (from, hash_range), id, decision, effects)
            }
            TransactionMessage::Query { attempt } => {
                self.handle_status_query(host, (from, id, attempt), effects)
            }
        }
        self.pump(now, host, effects);
        self.end_step();
    }

    /// An entry of an [`TransactionEffect::Append`] is committed, at this index of the log.
    pub fn committed(
        &mut self,
        now: Time,
        host: &mut impl PartitionHost,
        index: LogIndex,
        entry: &TransactionEntry,
        effects: &mut Vec<TransactionEffect>,
    ) {
        let install = self.state.apply(index, entry);
        if let Some(install) = &install {
            host.raise(install.timestamp);
            host.install(install);
        }
        match entry {
            TransactionEntry::Prepare { id, attempt, .. } => {
                self.is_prepared(now, index, (*id, *attempt), effects)
            }
            TransactionEntry::Release { id, attempt } => {
                self.is_released(now, host, (*id, *attempt), effects)
            }
            TransactionEntry::Apply { id, decision, timestamp, .. } => {
                self.is_applied(now, host, (*id, *decision, *timestamp), install.as_ref(), effects);
            }
            TransactionEntry::Commit { .. } => self.is_decided(now, entry, effects),
            TransactionEntry::Abort { id, by, refusal } => {
                self.is_aborted(now, *id, (*by, *refusal), effects)
            }
            TransactionEntry::Finish { id } => {
                self.decision_notices.remove(id);
            }
            TransactionEntry::DropBelow { .. } | TransactionEntry::DropBelowAll { .. } => {}
            TransactionEntry::Stage { id, .. } | TransactionEntry::StagePiece { id, .. } => {
                self.is_staged(now, *id)
            }
            TransactionEntry::Expire { ids } => ids.iter().for_each(|id| {
                self.expire_at.remove(id);
                self.expiring.remove(id);
            }),
        }
        self.pump(now, host, effects);
        self.end_step();
    }

    /// An entry by which the session table forgets these sessions is committed.
    pub fn evict(&mut self, sessions: &[SessionId]) {
        self.state.evict(sessions);
        self.decision_notices.retain(|id, _| self.state.decisions.contains_key(id));
        self.end_step();
    }

    /// The state from the committed log.
    #[must_use]
    pub fn state(&self) -> &ParticipantState {
        &self.state
    }

    /// Whether nothing is held, queued, running or remembered.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.state.is_empty()
            && self.intents.is_empty()
            && self.running.is_empty()
            && self.unknown.is_empty()
            && self.decision_notices.is_empty()
            && self.releasing.is_empty()
    }

    /// No part of a transaction starts here any more, as the keyspace is being dropped. Work in progress continues to its
    /// end. The caller must itself stop requests of which this partition is the coordinator.
    pub fn close(&mut self) {
        self.is_closed = true;
    }

    /// Whether no transaction is prepared, running, or decided and not finished. Once closed it remains so.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        self.state.is_quiet()
            && self.prepared.is_empty()
            && self.queued.is_empty()
            && self.running.is_empty()
            && self.unknown.is_empty()
            && self.decision_notices.is_empty()
            && self.releasing.is_empty()
    }

    /// Whether no transaction is being decided here. Of a coordinator's own part nothing is logged before its decision.
    #[must_use]
    pub fn decides_none(&self) -> bool {
        self.running.is_empty() && self.unknown.is_empty()
    }

    /// Whether there is no intent and no waiter: then accesses to records need no check.
    #[must_use]
    pub fn is_free(&self) -> bool {
        self.intents.is_empty()
    }

    /// Whether a holder is about to change a record: a read there now may not return the newest version.
    #[must_use]
    pub fn has_change_pending(&self, lock_key: u64) -> bool {
        self.intents.has_change_pending(lock_key)
    }

    /// Whether a holder is about to change any record: a list or a count of all records may not be the newest.
    #[must_use]
    pub fn has_changes_pending(&self) -> bool {
        self.intents.has_changes_pending()
    }

    /// Whether a transaction that is prepared here may commit at or below a time. Later proposals are above it once the host
    /// was raised to it.
    #[must_use]
    pub fn may_commit_by(&self, at: Timestamp) -> bool {
        self.intents.may_commit_by(at)
    }

    /// The lowest time at which a transaction that is prepared here may commit; `None`: none is.
    #[must_use]
    pub fn lowest_commit(&self) -> Option<Timestamp> {
        self.intents.lowest_commit()
    }

    /// Whether nothing conflicts with a write of a record that cannot wait.
    #[must_use]
    pub fn may_write(&self, lock_key: u64) -> bool {
        self.intents.are_free(&vec![(lock_key, crate::item::Access::Write)])
    }

    fn floor(&self) -> DecisionFloor {
        DecisionFloor { hash_range: self.hash_range, index: self.state.oldest_unfinished() }
    }

    fn release_intents(
        &mut self,
        holder: Holder,
        at: Option<Timestamp>,
        effects: &mut Vec<TransactionEffect>,
    ) {
        effects.extend(self.intents.release(holder, at).into_iter().map(TransactionEffect::Read));
    }

    /// Gives free intents to the first entries of the queue.
    fn pump(&mut self, now: Time, host: &mut impl PartitionHost, effects: &mut Vec<TransactionEffect>) {
        while let Some((who, locks)) = self.intents.pop_ready() {
            match who {
                QueueEntry::Chain(id) => {
                    if let Some(queued) = self.queued.remove(&id) {
                        self.acquire_queued(now, host, &queued.message, effects);
                    }
                }
                QueueEntry::Own(id) => self.own_part_first(host, id, effects),
                QueueEntry::Write(ticket) => {
                    let holder = self.intents.acquire(locks, Timestamp::ZERO);
                    self.writes.insert(ticket, holder);
                    effects.push(TransactionEffect::Write(ticket));
                }
            }
        }
    }

    /// Items, locks and staged pieces of a part.
    fn needs<'p>(
        &self,
        host: &impl PartitionHost,
        (id, part): (TransactionId, &'p TransactionPart),
    ) -> Result<ParticipantRequirements<'p>, Refusal> {
        let mut pinned = BTreeSet::new();
        let items = match &part.items {
            Items::Inline(items) => Cow::Borrowed(items.as_slice()),
            Items::Staged(list) => {
                let bytes = host.staged(list).ok_or(Reason::StagedExpired)?;
                pinned.insert(*list);
                Cow::Owned(crate::codec::decode_items(&bytes).map_err(|_| Reason::Malformed)?)
            }
        };
        pinned.extend(crate::item::staged_in(&items));
        self.may_pin(id, &pinned)?;
        let locks = crate::intents::locks_of(&items);
        Ok(ParticipantRequirements { items, locks, pinned: pinned.into_iter().collect() })
    }

    /// Checks what the client has read, and evaluates.
    fn evaluate(
        &self,
        host: &impl PartitionHost,
        items: &[TransactionItem],
    ) -> Result<(Bytes, Bytes), Refusal> {
        if !crate::planted::is_planted(crate::planted::Bug::ReadVersionsNotChecked) {
            for (number, item) in items.iter().enumerate() {
                if item.seen.is_some_and(|seen| host.version(item) != seen) {
                    return Err(Refusal { reason: Reason::ReadChanged, item: number as u32 });
                }
            }
        }
        let evaluated = host.evaluate(items)?;
        let fits = evaluated.effect.len() <= crate::limits::EFFECT_BYTES_MAX
            && evaluated.result.len() <= crate::limits::RESULT_BYTES_MAX;
        if fits { Ok((evaluated.effect, evaluated.result)) } else { Err(Reason::TooLong.into()) }
    }
}

/// An effect that sends a message.
fn send(to: RoutingKey, from: RoutingKey, id: TransactionId, what: TransactionMessage) -> TransactionEffect {
    TransactionEffect::Send(Message { to, from, id, what })
}
