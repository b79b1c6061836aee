//! The invariants of a partition's transactions, checked at the end of every step in builds with debug assertions: tests and
//! simulations.

use std::collections::BTreeSet;

use zerohop_base::invariant::{BrokenInvariant, check_rules};

use super::{OwnPart, Transactions};

/// Everything is checked at one of so many steps.
const ALL_EVERY: u32 = 32;

/// The owner of these invariants.
const TRANSACTIONS: &str = "the transactions of a partition";

impl Transactions {
    /// The end of a step.
    ///
    /// # Panics
    /// With debug assertions, if an invariant is broken.
    pub(super) fn end_step(&mut self) {
        if !cfg!(debug_assertions) || crate::planted::is_any_planted() {
            return;
        }
        let checked = if self.check_turn.is_due(ALL_EVERY) { self.check_all() } else { self.check() };
        if let Err(broken) = checked {
            panic!("{broken}");
        }
    }

    /// Checks what costs the same for every number of transactions.
    ///
    /// # Errors
    /// The broken invariant.
    pub(crate) fn check(&self) -> Result<(), BrokenInvariant> {
        self.state.check()?;
        self.intents.check()?;
        let found = self.prepared.len() + self.writes.len();
        check_rules(
            TRANSACTIONS,
            [
                (
                    found <= self.intents.holders(),
                    "each prepared transaction and each admitted write has a holder",
                ),
                (self.queued.len() <= self.intents.waiting().0, "each queued transaction is in the queue"),
                (self.deferred.len() <= self.prepared.len(), "only prepared transactions are deferred"),
                (self.next.len() <= self.prepared.len(), "a higher attempt waits for a prepared one"),
                (
                    self.released.len() == self.released_order.len(),
                    "each released attempt has one place in their order",
                ),
            ],
        )
    }

    /// Checks all transactions, intents and staged pieces.
    ///
    /// # Errors
    /// The broken invariant.
    pub(crate) fn check_all(&self) -> Result<(), BrokenInvariant> {
        self.check()?;
        self.state.check_all()?;
        self.intents.check_all()?;
        let own_holders = self.running.values().filter_map(|running| match &running.own {
            OwnPart::Prepared { holder, .. } => Some(*holder),
            _ => None,
        });
        let holders = self.prepared.values().map(|found| found.holder).chain(self.writes.values().copied());
        let holders: Vec<_> = holders.chain(own_holders).collect();
        let distinct: BTreeSet<_> = holders.iter().collect();
        // A transaction that is being decided has left the queue, or leaves it with the decision.
        let undecided = self.running.values().filter(|running| !running.is_deciding);
        let own_queued = undecided.filter_map(|running| match running.own {
            OwnPart::Queued(arrival) => Some(arrival),
            _ => None,
        });
        let mut arrivals = self.queued.values().map(|queued| queued.arrival).chain(own_queued);
        let is_prepared = |id| self.prepared.contains_key(id);
        check_rules(
            TRANSACTIONS,
            [
                (
                    holders.iter().all(|holder| self.intents.has_holder(*holder)),
                    "the intents of each prepared transaction and each admitted write are held",
                ),
                (distinct.len() == holders.len(), "no two transactions share a holder"),
                (
                    self.intents.holders() == holders.len() + self.intents.read_locks(),
                    "each holder belongs to a transaction, a write or a read lock",
                ),
                (arrivals.all(|arrival| self.intents.has_waiter(arrival)), "each queued transaction waits"),
                (!self.queued.keys().any(is_prepared), "no transaction is both prepared and queued"),
                (
                    self.deferred
                        .iter()
                        .all(|id| self.prepared.get(id).is_some_and(|found| found.decided.is_some())),
                    "a deferred transaction is prepared and decided",
                ),
                (self.next.keys().all(is_prepared), "a higher attempt waits for a prepared one"),
                (
                    self.running.values().all(|running| running.answers.len() <= running.others().len()),
                    "no more participants have answered than there are",
                ),
            ],
        )
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use zerohop_base::time::Time;
    use zerohop_wire::ids::{KeyspaceId, LogIndex, PartitionEpoch, Sequence, SessionId, Timestamp};

    use super::super::{DecidedTransaction, HoldStage, QueuedTransaction};
    use super::*;
    use crate::effect::Ticket;
    use crate::entry::TransactionEntry;
    use crate::id::{Attempt, DecisionFloor, Durability, KeyspaceRange, RoutingKey, StageId, TransactionId};
    use crate::intents::{Holder, QueueEntry};
    use crate::item::Access;
    use crate::message::{Message, TransactionMessage};
    use crate::state::ParticipantState;

    const HERE: KeyspaceRange = KeyspaceRange { keyspace: KeyspaceId(1), first: 0, last: u64::MAX };

    fn id(sequence: u64) -> TransactionId {
        let session = SessionId { issued: Timestamp(1), nonce: 1 };
        let coordinator = RoutingKey { keyspace: KeyspaceId(2), point: 0 };
        TransactionId { coordinator, session, sequence: Sequence(sequence) }
    }

    fn staged(sequence: u64) -> StageId {
        StageId { session: id(0).session, sequence: Sequence(sequence) }
    }

    fn prepare(sequence: u64) -> TransactionEntry {
        TransactionEntry::Prepare {
            id: id(sequence),
            attempt: Attempt { epoch: PartitionEpoch(1), counter: 1 },
            routing_key: RoutingKey { keyspace: KeyspaceId(1), point: 0 },
            durability: Durability::Memory,
            proposal: Timestamp(5),
            locks: vec![(sequence, Access::Write)],
            pinned: Vec::new(),
            effect: Bytes::from_static(b"effect"),
            result: Bytes::new(),
        }
    }

    /// Two prepared transactions, one that queues, and a staged piece.
    fn transactions() -> Transactions {
        let mut state = ParticipantState::default();
        let stage = TransactionEntry::Stage { id: staged(1), bytes: Bytes::from_static(b"piece") };
        for (index, entry) in (1..).zip([stage, prepare(1), prepare(2)]) {
            assert!(state.apply(LogIndex(index), &entry).is_none());
        }
        let mut one = Transactions::new(Time(1), (HERE, None), PartitionEpoch(1), state);
        let arrival = one.intents.queue(QueueEntry::Chain(id(3)), vec![(1, Access::Write)]);
        let routing_key = RoutingKey { keyspace: KeyspaceId(1), point: 0 };
        let floor = DecisionFloor { hash_range: HERE, index: LogIndex(1) };
        let what = TransactionMessage::Drop { floor };
        let message = Message { to: routing_key, from: id(3).coordinator, id: id(3), what };
        one.queued.insert(id(3), Box::new(QueuedTransaction { arrival, message, query_at: Time(9) }));
        assert!(one.intents.add_read_lock(7, 100));
        one
    }

    /// The rules that are broken after this change: of the check of every step, and of all.
    fn broken_by(change: impl FnOnce(&mut Transactions)) -> (Option<&'static str>, Option<&'static str>) {
        let mut one = transactions();
        assert_eq!(one.check_all(), Ok(()));
        change(&mut one);
        let rule = |checked: Result<(), BrokenInvariant>| checked.err().map(|broken| broken.rule);
        (rule(one.check()), rule(one.check_all()))
    }

    fn both(rule: &'static str) -> (Option<&'static str>, Option<&'static str>) {
        (Some(rule), Some(rule))
    }

    fn only_all(rule: &'static str) -> (Option<&'static str>, Option<&'static str>) {
        (None, Some(rule))
    }

    fn message(one: &Transactions) -> Message {
        one.queued[&id(3)].message.clone()
    }

    #[test]
    fn step_check_names_each_broken_invariant() {
        let found = broken_by(|one| {
            one.writes.extend((10..13).map(|number| (Ticket(number), Holder::of_test(number))));
        });
        assert_eq!(found, both("each prepared transaction and each admitted write has a holder"));
        let found = broken_by(|one| drop(one.intents.unqueue(one.queued[&id(3)].arrival)));
        assert_eq!(found, both("each queued transaction is in the queue"));
        let found = broken_by(|one| one.deferred.extend([id(1), id(2), id(3)]));
        assert_eq!(found, both("only prepared transactions are deferred"));
        let found = broken_by(|one| {
            let message = message(one);
            one.next.extend([1, 2, 3].map(|number| (id(number), message.clone())));
        });
        assert_eq!(found, both("a higher attempt waits for a prepared one"));
        let found = broken_by(|one| one.released_order.push_back(id(9)));
        assert_eq!(found, both("each released attempt has one place in their order"));
    }

    #[test]
    fn full_check_names_each_broken_invariant() {
        let take = |one: &mut Transactions, number| one.prepared.remove(&id(number)).expect("is prepared");
        let found = broken_by(|one| {
            one.prepared.get_mut(&id(1)).expect("is prepared").holder = Holder::of_test(1_000);
        });
        assert_eq!(
            found,
            only_all("the intents of each prepared transaction and each admitted write are held")
        );
        let found = broken_by(|one| {
            let holder = one.prepared[&id(1)].holder;
            one.prepared.get_mut(&id(2)).expect("is prepared").holder = holder;
        });
        assert_eq!(found, only_all("no two transactions share a holder"));
        let found = broken_by(|one| drop(take(one, 2)));
        assert_eq!(found, only_all("each holder belongs to a transaction, a write or a read lock"));
        let found = broken_by(|one| one.queued.get_mut(&id(3)).expect("is queued").arrival += 1_000);
        assert_eq!(found, only_all("each queued transaction waits"));
        let found = broken_by(|one| {
            let queued = one.queued.remove(&id(3)).expect("is queued");
            one.queued.insert(id(2), queued);
        });
        assert_eq!(found, only_all("no transaction is both prepared and queued"));
        let found = broken_by(|one| one.deferred.extend([id(1)]));
        assert_eq!(found, only_all("a deferred transaction is prepared and decided"));
        let found = broken_by(|one| {
            let message = message(one);
            one.next.insert(id(3), message);
        });
        assert_eq!(found, only_all("a higher attempt waits for a prepared one"));
    }

    #[test]
    fn decided_deferred_transaction_violates_no_invariant() {
        let found = broken_by(|one| {
            let found = one.prepared.get_mut(&id(1)).expect("is prepared");
            let HoldStage::Prepared(prepared) = found.stage else { panic!("{:?}", found.stage) };
            let (timestamp, decision) = (Timestamp(9), LogIndex(4));
            found.decided = Some(DecidedTransaction { timestamp, decision, prepared });
            one.deferred.insert(id(1));
        });
        assert_eq!(found, (None, None));
    }

    #[test]
    fn broken_state_and_intents_are_named() {
        let found = broken_by(|one| one.state.break_count_of_decisions());
        assert_eq!(found, both("each open decision has its own index"));
        let found = broken_by(|one| one.state.break_bytes(1));
        assert_eq!(found, only_all("the memory of prepared transactions and staged pieces is counted"));
        let found = broken_by(|one| one.state.break_staged_bytes(1));
        assert_eq!(found, only_all("the bytes of staged pieces are counted"));
        let found = broken_by(|one| one.intents.break_changing());
        assert_eq!(found, both("only holders change records"));
        let found = broken_by(|one| one.intents.break_entry(1));
        assert_eq!(found, only_all("the lock keys of a holder name it"));
        let found = broken_by(|one| one.intents.break_queue_of_entry(1));
        assert_eq!(found, only_all("the lock keys of a waiter name it"));
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(
        expected = "the transactions of a partition is broken: only prepared transactions are deferred"
    )]
    fn a_step_ends_with_a_check() {
        let mut one = transactions();
        one.deferred.extend([id(1), id(2), id(3)]);
        one.evict(&[]);
    }
}
