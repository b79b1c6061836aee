//! The locks that a participant releases when a decision does not match its prepared part.

use bytes::Bytes;
use zerohop_base::time::Time;
use zerohop_transaction::{
    Access, Attempt, DecisionFloor, Durability, EvaluatedPart, Install, ItemBody, Items, KeyspaceRange,
    Message, ParticipantState, PartitionHost, Refusal, RoutingKey, SessionKnowledge, StageId,
    TransactionEffect, TransactionEntry, TransactionId, TransactionItem, TransactionMessage, TransactionPart,
    Transactions,
};
use zerohop_wire::ids::{KeyspaceId, LogIndex, PartitionEpoch, Sequence, SessionId, Timestamp};

const LOCK_KEY: u64 = 3;

/// A partition without records, in which times rise by one.
#[derive(Default)]
struct EmptyHost(u64);

impl PartitionHost for EmptyHost {
    fn propose(&mut self) -> Timestamp {
        self.0 += 1;
        Timestamp(self.0)
    }

    fn raise(&mut self, to: Timestamp) {
        self.0 = self.0.max(to.0);
    }

    fn is_ahead(&self, _timestamp: Timestamp) -> bool {
        false
    }

    fn version(&self, _item: &TransactionItem) -> Timestamp {
        Timestamp::ZERO
    }

    fn evaluate(&self, _items: &[TransactionItem]) -> Result<EvaluatedPart, Refusal> {
        Ok(EvaluatedPart::default())
    }

    fn install(&mut self, _install: &Install) {}

    fn staged(&self, _id: &StageId) -> Option<Bytes> {
        None
    }

    fn known(&self, _id: &TransactionId) -> SessionKnowledge {
        SessionKnowledge::Unknown
    }
}

fn routing_key(keyspace: u32, point: u64) -> RoutingKey {
    RoutingKey { keyspace: KeyspaceId(keyspace), point }
}

fn id() -> TransactionId {
    let session = SessionId { issued: Timestamp(1), nonce: 2 };
    TransactionId { coordinator: routing_key(2, 0), session, sequence: Sequence(1) }
}

fn attempt(counter: u64) -> Attempt {
    Attempt { epoch: PartitionEpoch(1), counter }
}

fn floor() -> DecisionFloor {
    DecisionFloor {
        hash_range: KeyspaceRange { keyspace: KeyspaceId(2), first: 0, last: u64::MAX },
        index: LogIndex(0),
    }
}

/// The participant, and its messages and entries since the last check.
struct ParticipantBench {
    transactions: Transactions,
    host: EmptyHost,
    index: u64,
    effects: Vec<TransactionEffect>,
}

impl ParticipantBench {
    fn new() -> ParticipantBench {
        let hash_range = KeyspaceRange { keyspace: KeyspaceId(1), first: 0, last: u64::MAX };
        let transactions =
            Transactions::new(Time(0), (hash_range, None), PartitionEpoch(1), ParticipantState::default());
        ParticipantBench { transactions, host: EmptyHost::default(), index: 0, effects: Vec::new() }
    }

    fn receive(&mut self, what: TransactionMessage) {
        let message = Message { to: routing_key(1, LOCK_KEY), from: id().coordinator, id: id(), what };
        self.transactions.message(Time(1), &mut self.host, message, &mut self.effects);
    }

    fn prepare(&mut self, counter: u64) {
        let body = ItemBody::Inline(Bytes::from_static(b"op"));
        let items = Items::Inline(vec![TransactionItem {
            lock_key: LOCK_KEY,
            access: Access::Write,
            seen: None,
            body,
        }]);
        let durability = Durability::Interval;
        let parts = vec![TransactionPart { routing_key: routing_key(1, LOCK_KEY), durability, items }];
        self.receive(TransactionMessage::Prepare {
            attempt: attempt(counter),
            chain: false,
            durability,
            floor: floor(),
            parts,
        });
    }

    /// Sends a decision about an attempt and the index of its `Prepare` entry.
    fn decide(&mut self, counter: u64, prepared: u64) {
        self.receive(TransactionMessage::Commit {
            attempt: attempt(counter),
            prepared: LogIndex(prepared),
            timestamp: Timestamp(50),
            decision: LogIndex(70),
            durability: Durability::Interval,
            floor: floor(),
        });
    }

    /// Commits the entries that it wants to log, and returns them.
    fn log(&mut self) -> Vec<TransactionEntry> {
        let (logged, sent): (Vec<_>, Vec<_>) = std::mem::take(&mut self.effects)
            .into_iter()
            .partition(|effect| matches!(effect, TransactionEffect::Append { .. }));
        self.effects = sent;
        let entries: Vec<TransactionEntry> = logged
            .into_iter()
            .filter_map(|effect| match effect {
                TransactionEffect::Append { entry, .. } => Some(entry),
                _ => None,
            })
            .collect();
        for entry in &entries {
            self.index += 1;
            let index = LogIndex(self.index);
            self.transactions.committed(Time(2), &mut self.host, index, entry, &mut self.effects);
        }
        entries
    }

    /// Its messages since the last check.
    fn sent_messages(&mut self) -> Vec<TransactionMessage> {
        let sent = std::mem::take(&mut self.effects).into_iter();
        sent.filter_map(|effect| match effect {
            TransactionEffect::Send(message) => Some(message.what),
            _ => None,
        })
        .collect()
    }
}

fn prepared() -> ParticipantBench {
    let mut one = ParticipantBench::new();
    one.prepare(1);
    assert!(matches!(one.log()[..], [TransactionEntry::Prepare { .. }]));
    assert!(matches!(one.sent_messages()[..], [TransactionMessage::Prepared { .. }]));
    assert!(!one.transactions.may_write(LOCK_KEY));
    one
}

/// A decision does not match the prepared part: the participant releases that once, and answers
/// that it cannot apply the decision.
fn is_released_once(mut one: ParticipantBench, (counter, index): (u64, u64)) {
    one.decide(counter, index);
    // The coordinator repeats the decision until it has another answer.
    one.decide(counter, index);
    let released = one.log();
    let is_it = |entry: &TransactionEntry| matches!(entry, TransactionEntry::Release { attempt: of, .. } if *of == attempt(1));
    assert!(released.len() == 1 && is_it(&released[0]), "{released:?}");
    let sent = one.sent_messages();
    assert!(sent.iter().any(|what| matches!(what, TransactionMessage::NotPrepared { .. })), "{sent:?}");
    assert!(one.transactions.may_write(LOCK_KEY), "its intent would stay permanently");
    assert!(one.transactions.is_idle(), "nothing of it is left");
}

/// Under interval durability a crash loses a release and the prepare of the second attempt: the
/// first attempt is prepared again.
#[test]
fn earlier_attempt_is_released() {
    is_released_once(prepared(), (2, 3));
}

/// The same attempt was prepared again after its first entry was lost; the decision names the lost
/// entry.
#[test]
fn part_prepared_at_other_index_is_released() {
    is_released_once(prepared(), (1, 9));
}

#[test]
fn decided_transaction_is_applied() {
    let mut one = prepared();
    one.decide(1, 1);
    let logged = one.log();
    assert!(matches!(logged[..], [TransactionEntry::Apply { .. }]), "{logged:?}");
    assert!(one.transactions.may_write(LOCK_KEY));
}
