//! Transactions end without leftovers, even if a partition has lost a decision, or its keyspace is
//! gone.

use bytes::Bytes;
use zerohop_base::time::Time;
use zerohop_transaction::limits::{CLEANUP_QUERY_US, FLOORS_US, KEYSPACE_GONE_US, LOSS_US, RESEND_US};
use zerohop_transaction::{
    Access, Admission, Attempt, DecisionFloor, Durability, EvaluatedPart, Install, ItemBody, Items,
    KeyspaceRange, Message, ParticipantState, PartitionHost, Refusal, RoutingKey, SessionKnowledge, StageId,
    Ticket, TransactionEffect, TransactionId, TransactionItem, TransactionMessage, TransactionPart,
    TransactionRequest, Transactions,
};
use zerohop_wire::ids::{KeyspaceId, LogIndex, PartitionEpoch, Sequence, SessionId, Timestamp};

const PARTICIPANT: RoutingKey = RoutingKey { keyspace: KeyspaceId(1), point: 0 };
const COORDINATOR: RoutingKey = RoutingKey { keyspace: KeyspaceId(2), point: 0 };
const ID: TransactionId = TransactionId {
    coordinator: COORDINATOR,
    session: SessionId { issued: Timestamp(1), nonce: 1 },
    sequence: Sequence(1),
};

fn hash_range(of: RoutingKey) -> KeyspaceRange {
    KeyspaceRange { keyspace: of.keyspace, first: 0, last: u64::MAX }
}

/// Records without contents; only the time is known.
#[derive(Default)]
struct ClockOnlyHost(Timestamp);

impl PartitionHost for ClockOnlyHost {
    fn propose(&mut self) -> Timestamp {
        self.0 = self.0.next();
        self.0
    }

    fn raise(&mut self, to: Timestamp) {
        self.0 = self.0.max(to);
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

/// One primary whose entries are committed at once.
struct SinglePrimary {
    transactions: Transactions,
    host: ClockOnlyHost,
    now: Time,
    last: u64,
    sent: Vec<TransactionMessage>,
    /// The recipients of the last messages.
    sent_to: Vec<RoutingKey>,
    losses: Vec<RoutingKey>,
    reads: Vec<Ticket>,
}

impl SinglePrimary {
    fn of(place: RoutingKey) -> SinglePrimary {
        let transactions = Transactions::new(
            Time(0),
            (hash_range(place), None),
            PartitionEpoch(1),
            ParticipantState::default(),
        );
        SinglePrimary {
            transactions,
            host: ClockOnlyHost::default(),
            now: Time(0),
            last: 0,
            sent: Vec::new(),
            sent_to: Vec::new(),
            losses: Vec::new(),
            reads: Vec::new(),
        }
    }

    fn query(
        &mut self,
        query: impl FnOnce(&mut Transactions, Time, &mut ClockOnlyHost, &mut Vec<TransactionEffect>),
    ) {
        let mut effects = Vec::new();
        query(&mut self.transactions, self.now, &mut self.host, &mut effects);
        while !effects.is_empty() {
            let mut more = Vec::new();
            for effect in effects {
                match effect {
                    TransactionEffect::Append { entry, .. } => {
                        self.last += 1;
                        let index = LogIndex(self.last);
                        self.transactions.committed(self.now, &mut self.host, index, &entry, &mut more);
                    }
                    TransactionEffect::Send(message) => {
                        self.sent_to.push(message.to);
                        self.sent.push(message.what);
                    }
                    TransactionEffect::Loss { routing_key: place, .. } => self.losses.push(place),
                    TransactionEffect::Read(ticket) => self.reads.push(ticket),
                    TransactionEffect::Answer { .. } | TransactionEffect::Write(_) => {}
                }
            }
            effects = more;
        }
    }

    fn receive(&mut self, to: RoutingKey, from: RoutingKey, what: TransactionMessage) {
        self.receive_about(ID, to, from, what);
    }

    fn receive_about(
        &mut self,
        id: TransactionId,
        to: RoutingKey,
        from: RoutingKey,
        what: TransactionMessage,
    ) {
        self.query(|transactions, now, host, decisions| {
            transactions.message(now, host, Message { to, from, id, what }, decisions);
        });
    }

    /// Lets this time pass, while the map does not have these keyspaces.
    fn advance_us(&mut self, us: u64, missing: &[KeyspaceId]) {
        let until = self.now.after_us(us);
        while self.now < until {
            self.now = self.now.after_us(RESEND_US);
            self.query(|transactions, now, host, decisions| {
                transactions.tick(now, host, decisions);
                transactions.without(now, missing, decisions);
            });
        }
    }
}

fn part(place: RoutingKey) -> TransactionPart {
    let item = TransactionItem {
        lock_key: 7,
        access: Access::Write,
        seen: None,
        body: ItemBody::Inline(Bytes::new()),
    };
    TransactionPart { routing_key: place, durability: Durability::Sync, items: Items::Inline(vec![item]) }
}

/// A coordinator that has decided, and whose participant has not confirmed that it has applied the
/// transaction.
fn decided() -> (SinglePrimary, LogIndex) {
    let mut world = SinglePrimary::of(COORDINATOR);
    let request = TransactionRequest { id: ID, parts: vec![part(PARTICIPANT), part(COORDINATOR)] };
    world.query(|transactions, now, host, decisions| {
        transactions.request(now, host, (Ticket(1), request), decisions).expect("is taken");
    });
    let Some(TransactionMessage::Prepare { attempt, .. }) = world.sent.pop() else {
        panic!("asks the participant")
    };
    let (proposal, prepared, result) = (Timestamp(9), LogIndex(3), Bytes::new());
    let what = TransactionMessage::Prepared {
        attempt,
        proposal,
        prepared,
        hash_range: hash_range(PARTICIPANT),
        result,
    };
    world.receive(COORDINATOR, PARTICIPANT, what);
    let Some(TransactionMessage::Commit { decision, .. }) = world.sent.pop() else {
        panic!("tells the decision")
    };
    assert!(!world.transactions.state().is_quiet());
    (world, decision)
}

/// A participant that is prepared, and receives no decision.
fn prepared() -> (SinglePrimary, Attempt) {
    let mut world = SinglePrimary::of(PARTICIPANT);
    let attempt = Attempt { epoch: PartitionEpoch(1), counter: 1 };
    let what = TransactionMessage::Prepare {
        attempt,
        chain: false,
        durability: Durability::Sync,
        floor: DecisionFloor { hash_range: hash_range(COORDINATOR), index: LogIndex(1) },
        parts: vec![part(PARTICIPANT)],
    };
    world.receive(PARTICIPANT, COORDINATOR, what);
    assert!(matches!(world.sent.pop(), Some(TransactionMessage::Prepared { .. })));
    (world, attempt)
}

#[test]
fn lost_prepared_part_is_reported_and_decision_ends() {
    let (mut world, decision) = decided();
    let not_prepared = |world: &mut SinglePrimary| {
        world.receive(
            COORDINATOR,
            PARTICIPANT,
            TransactionMessage::NotPrepared { decision, hash_range: hash_range(PARTICIPANT) },
        );
    };
    while world.now < Time(LOSS_US) {
        assert!(!world.transactions.state().is_quiet(), "a deposed primary may say so");
        not_prepared(&mut world);
        world.advance_us(RESEND_US, &[]);
    }
    not_prepared(&mut world);
    assert_eq!(world.losses, [PARTICIPANT], "one notification");
    assert!(world.transactions.state().is_quiet());
    world.advance_us(RESEND_US, &[]);
    assert!(world.transactions.is_idle(), "nothing is left");
}

/// The participant was split three times since it prepared, and each of its eight children has lost
/// the decision.
#[test]
fn lost_split_participant_ends_in_one_period() {
    let (mut world, decision) = decided();
    let part_of = |point: u64| KeyspaceRange {
        first: point >> 61 << 61,
        last: point | u64::MAX >> 3,
        ..hash_range(PARTICIPANT)
    };
    while !world.transactions.state().is_quiet() {
        assert!(world.now < Time(LOSS_US).after_us(20 * RESEND_US), "lost so far: {:?}", world.losses);
        world.advance_us(RESEND_US, &[]);
        while let Some(to) = world.sent_to.pop().filter(|to| to.keyspace == PARTICIPANT.keyspace) {
            world.receive(
                COORDINATOR,
                to,
                TransactionMessage::NotPrepared { decision, hash_range: part_of(to.point) },
            );
        }
    }
    assert!(world.now >= Time(LOSS_US), "a deposed primary may say so");
    assert_eq!(world.losses.len(), 8, "each once: {:?}", world.losses);
    world.advance_us(RESEND_US, &[]);
    assert!(world.transactions.is_idle(), "nothing is left");
}

#[test]
fn decision_is_kept_if_loss_reports_are_rare() {
    let (mut world, decision) = decided();
    for _ in 0..10 {
        world.receive(
            COORDINATOR,
            PARTICIPANT,
            TransactionMessage::NotPrepared { decision, hash_range: hash_range(PARTICIPANT) },
        );
        world.advance_us(LOSS_US / 5, &[]);
    }
    assert!(!world.transactions.state().is_quiet());
}

#[test]
fn decision_ends_with_participant_keyspace() {
    let (mut world, _) = decided();
    assert_eq!(world.transactions.others(), [PARTICIPANT.keyspace].into());
    world.advance_us(KEYSPACE_GONE_US / 2, &[PARTICIPANT.keyspace]);
    // The keyspace existed all the time: only an old map did not have it yet.
    world.advance_us(RESEND_US, &[]);
    world.advance_us(KEYSPACE_GONE_US - RESEND_US, &[PARTICIPANT.keyspace]);
    assert!(!world.transactions.state().is_quiet());
    world.advance_us(KEYSPACE_GONE_US, &[PARTICIPANT.keyspace]);
    assert!(world.transactions.is_idle() && world.losses.is_empty(), "what it changed there is gone anyway");
}

#[test]
fn prepared_part_ends_with_coordinator_keyspace() {
    let (mut world, _) = prepared();
    let read = world.transactions.read(Ticket(5), 7);
    assert_eq!(read, Ok(Admission::Later), "an intent stands");
    assert_eq!(world.transactions.scan(Ticket(6)), Ok(Admission::Later));
    world.advance_us(KEYSPACE_GONE_US - RESEND_US, &[COORDINATOR.keyspace]);
    assert!(world.reads.is_empty() && world.losses.is_empty());
    world.advance_us(3 * RESEND_US, &[COORDINATOR.keyspace]);
    assert_eq!(world.losses, [COORDINATOR], "the decision is lost: the operator is notified");
    assert_eq!(world.reads, [Ticket(6), Ticket(5)]);
    assert!(world.transactions.is_idle());
}

#[test]
fn applied_part_is_dropped_with_coordinator_keyspace() {
    let (mut world, attempt) = prepared();
    let commit = TransactionMessage::Commit {
        attempt,
        prepared: LogIndex(1),
        timestamp: Timestamp(9),
        decision: LogIndex(4),
        durability: Durability::Sync,
        floor: DecisionFloor { hash_range: hash_range(COORDINATOR), index: LogIndex(1) },
    };
    world.receive(PARTICIPANT, COORDINATOR, commit);
    assert!(world.transactions.state().is_quiet() && !world.transactions.is_idle());
    world.advance_us(KEYSPACE_GONE_US + 2 * RESEND_US, &[COORDINATOR.keyspace]);
    assert!(world.transactions.is_idle() && world.losses.is_empty());
}

/// The routing key of one of two coordinators that share a keyspace, and its hash range.
fn half(is_upper: bool) -> (RoutingKey, KeyspaceRange) {
    let keyspace = COORDINATOR.keyspace;
    let (first, last) = if is_upper { (1 << 63, u64::MAX) } else { (0, (1 << 63) - 1) };
    (RoutingKey { keyspace, point: first }, KeyspaceRange { keyspace, first, last })
}

/// A participant applies a transaction of a coordinator, with its decision at this index.
fn apply(
    world: &mut SinglePrimary,
    (coordinator, hash_range): (RoutingKey, KeyspaceRange),
    decision: u64,
) -> TransactionId {
    let id = TransactionId { coordinator, sequence: Sequence(decision), ..ID };
    let attempt = Attempt { epoch: PartitionEpoch(1), counter: decision };
    let (floor, durability) = (DecisionFloor { hash_range, index: LogIndex(1) }, Durability::Sync);
    let parts = vec![part(PARTICIPANT)];
    let prepare = TransactionMessage::Prepare { attempt, chain: false, durability, floor, parts };
    world.receive_about(id, PARTICIPANT, coordinator, prepare);
    let Some(TransactionMessage::Prepared { prepared, proposal, .. }) = world.sent.pop() else {
        panic!("is free")
    };
    let (timestamp, decision) = (proposal, LogIndex(decision));
    let commit = TransactionMessage::Commit { attempt, prepared, timestamp, decision, durability, floor };
    world.receive_about(id, PARTICIPANT, coordinator, commit);
    assert!(matches!(world.sent.pop(), Some(TransactionMessage::Applied { .. })));
    id
}

#[test]
fn one_entry_drops_finished_transactions_of_several_coordinators() {
    let mut world = SinglePrimary::of(PARTICIPANT);
    let (lower, upper) = (half(false), half(true));
    for (coordinator, decision) in [(lower, 4), (lower, 6), (upper, 5)] {
        apply(&mut world, coordinator, decision);
    }
    let before = world.last;
    let finished =
        |world: &mut SinglePrimary, (coordinator, hash_range): (RoutingKey, KeyspaceRange), below| {
            let floor = DecisionFloor { hash_range, index: LogIndex(below) };
            world.receive_about(
                TransactionId { coordinator, ..ID },
                PARTICIPANT,
                coordinator,
                TransactionMessage::Drop { floor },
            );
        };
    finished(&mut world, lower, 5);
    finished(&mut world, upper, 8);
    // An older message that arrives late.
    finished(&mut world, upper, 2);
    world.advance_us(FLOORS_US + RESEND_US, &[]);
    assert_eq!(world.last, before + 1, "one entry");
    assert!(!world.transactions.is_idle(), "that of 6 is not known to be finished");
    assert_eq!(world.transactions.state().entries().len(), 1);
    finished(&mut world, lower, 7);
    world.advance_us(FLOORS_US + RESEND_US, &[]);
    assert!(world.transactions.is_idle());
}

#[test]
fn each_coordinator_gets_one_cleanup_query() {
    let mut world = SinglePrimary::of(PARTICIPANT);
    let (lower, upper) = (half(false), half(true));
    for (coordinator, decision) in [(lower, 4), (lower, 9), (lower, 6), (upper, 5)] {
        apply(&mut world, coordinator, decision);
    }
    world.sent.clear();
    world.advance_us(CLEANUP_QUERY_US, &[]);
    let queried: Vec<u64> = std::mem::take(&mut world.sent)
        .into_iter()
        .map(|what| match what {
            TransactionMessage::Applied { decision, .. } => decision.0,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(queried, [9, 5], "each about its newest");
    // No answer arrives, so the coordinator is asked again.
    world.advance_us(CLEANUP_QUERY_US, &[]);
    assert_eq!(world.sent.len(), 2);
}
