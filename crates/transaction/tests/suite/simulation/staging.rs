//! Staged pieces, and requests for them at the moment at which they expire.

use zerohop_base::time::Time;
use zerohop_transaction::limits::STAGED_US_MAX;
use zerohop_transaction::{
    Access, Attempt, DecisionFloor, Durability, ItemBody, Items, KeyspaceRange, Message, Reason, RoutingKey,
    StageId, TransactionEntry, TransactionId, TransactionItem, TransactionMessage, TransactionPart,
};
use zerohop_wire::ids::{KeyspaceId, LogIndex, PartitionEpoch, Sequence, SessionId, Timestamp};

use super::group::{LogRecord, PrimaryOutput, SimulatedPartition};
use super::store::RecordOp;

const HERE: RoutingKey = RoutingKey { keyspace: KeyspaceId(1), point: 0 };
const COORDINATOR: RoutingKey = RoutingKey { keyspace: KeyspaceId(2), point: 0 };
const SESSION: SessionId = SessionId { issued: Timestamp(1), nonce: 2 };
const PIECE: StageId = StageId { session: SESSION, sequence: Sequence(1) };

/// A partition with a piece that was staged at time 0.
fn with_a_piece() -> SimulatedPartition {
    let mut group = SimulatedPartition {
        hash_range: KeyspaceRange { keyspace: HERE.keyspace, first: 0, last: u64::MAX },
        durability: Durability::Sync,
        log: Vec::new(),
        primary: None,
        deposed: Vec::new(),
        epoch: 1,
        instance: 0,
        skew_ms: 0,
        timestamp_bound: Timestamp::ZERO,
    };
    group.begin(Time(0), Timestamp(1 << 16), false);
    let primary = group.primary.as_mut().unwrap();
    let mut effects = Vec::new();
    let staged =
        primary.transactions.stage((PIECE, RecordOp::Add(5).encode()), Durability::Sync, &mut effects);
    assert_eq!(staged, Ok(()));
    primary.perform_effects(Time(0), effects, 1);
    group.commit(Time(0), 1);
    group
}

/// A coordinator prepares a transaction that applies the piece.
fn prepare(group: &mut SimulatedPartition, now: Time, (sequence, counter): (u64, u64)) {
    let id = TransactionId { coordinator: COORDINATOR, session: SESSION, sequence: Sequence(sequence) };
    let item = TransactionItem {
        lock_key: sequence << 8,
        access: Access::Write,
        seen: None,
        body: ItemBody::Staged(PIECE),
    };
    let part =
        TransactionPart { routing_key: HERE, durability: Durability::Sync, items: Items::Inline(vec![item]) };
    let floor = DecisionFloor {
        hash_range: KeyspaceRange { keyspace: COORDINATOR.keyspace, first: 0, last: u64::MAX },
        index: LogIndex(1),
    };
    let attempt = Attempt { epoch: PartitionEpoch(1), counter };
    let what = TransactionMessage::Prepare {
        attempt,
        chain: false,
        durability: Durability::Sync,
        floor,
        parts: vec![part],
    };
    deliver_message(group, now, Message { to: HERE, from: COORDINATOR, id, what });
}

fn deliver_message(group: &mut SimulatedPartition, now: Time, message: Message) {
    let (log, mut effects) = (group.log.len(), Vec::new());
    let primary = group.primary.as_mut().unwrap();
    primary.transactions.message(now, &mut primary.records, message, &mut effects);
    primary.perform_effects(now, effects, log);
}

fn tick(group: &mut SimulatedPartition, now: Time) {
    let (log, mut effects) = (group.log.len(), Vec::new());
    let primary = group.primary.as_mut().unwrap();
    primary.transactions.tick(now, &mut primary.records, &mut effects);
    primary.perform_effects(now, effects, log);
}

/// The kinds of the appended entries.
fn appended(group: &SimulatedPartition) -> Vec<u8> {
    let kind = |logged: &LogRecord| match logged {
        LogRecord::Of(entry, _) => Some(entry.kind()),
        _ => None,
    };
    group.primary.as_ref().unwrap().appended.iter().filter_map(kind).collect()
}

/// The reasons for which transactions were refused.
fn refused(group: &mut SimulatedPartition) -> Vec<Reason> {
    let reason = |out: PrimaryOutput| match out {
        PrimaryOutput::Message(Message { what: TransactionMessage::Refused { refusal, .. }, .. }) => {
            Some(refusal.reason)
        }
        _ => None,
    };
    std::mem::take(&mut group.primary.as_mut().unwrap().out).into_iter().filter_map(reason).collect()
}

const PREPARE: u8 = 1;
const RELEASE: u8 = 2;
const EXPIRE: u8 = 9;

#[test]
fn use_of_expiring_staged_piece_is_refused() {
    let mut group = with_a_piece();
    tick(&mut group, Time(STAGED_US_MAX - 1));
    assert_eq!(appended(&group), [], "it is not its time yet");
    let late = Time(STAGED_US_MAX);
    tick(&mut group, late);
    tick(&mut group, late);
    assert_eq!(appended(&group), [EXPIRE], "once");
    prepare(&mut group, late, (2, 1));
    assert_eq!(appended(&group), [EXPIRE], "nothing is prepared over what goes");
    group.commit(late, 9);
    assert_eq!(refused(&mut group), [Reason::StagedExpired]);
    assert!(group.primary.unwrap().transactions.state().is_empty());
}

#[test]
fn staged_piece_in_use_does_not_expire() {
    let mut group = with_a_piece();
    prepare(&mut group, Time(1), (2, 1));
    assert_eq!(appended(&group), [PREPARE]);
    tick(&mut group, Time(STAGED_US_MAX));
    assert_eq!(appended(&group), [PREPARE]);
    group.commit(Time(STAGED_US_MAX), 9);
    tick(&mut group, Time(3 * STAGED_US_MAX));
    assert_eq!(appended(&group), []);
    assert!(group.primary.unwrap().transactions.state().has_staged(&PIECE));
}

#[test]
fn staged_piece_belongs_to_one_transaction_until_release() {
    let mut group = with_a_piece();
    prepare(&mut group, Time(1), (2, 1));
    prepare(&mut group, Time(1), (3, 1));
    assert_eq!(appended(&group), [PREPARE]);
    group.commit(Time(2), 9);
    assert_eq!(refused(&mut group), [Reason::Overloaded], "once what it was looked at over is committed");
    prepare(&mut group, Time(2), (3, 2));
    assert_eq!((appended(&group), refused(&mut group)), (vec![], vec![Reason::Overloaded]));
    let id = TransactionId { coordinator: COORDINATOR, session: SESSION, sequence: Sequence(2) };
    let floor = DecisionFloor {
        hash_range: KeyspaceRange { keyspace: COORDINATOR.keyspace, first: 0, last: u64::MAX },
        index: LogIndex(1),
    };
    let what =
        TransactionMessage::Release { attempt: Attempt { epoch: PartitionEpoch(1), counter: 1 }, floor };
    deliver_message(&mut group, Time(3), Message { to: HERE, from: COORDINATOR, id, what });
    assert_eq!(appended(&group), [RELEASE]);
    group.commit(Time(3), 9);
    prepare(&mut group, Time(3), (3, 3));
    assert_eq!((appended(&group), refused(&mut group)), (vec![PREPARE], vec![]));
}

#[test]
fn checkpoint_has_only_ids_of_pieces_stored_as_records() {
    use zerohop_transaction::ParticipantState;
    let mut state = ParticipantState::default();
    let entry = TransactionEntry::StagePiece { id: PIECE, bytes: 9 << 20 };
    assert_eq!(state.apply(LogIndex(3), &entry), None);
    assert_eq!((state.staged(), state.staged_record_length(&PIECE)), ((1, 9 << 20), Some(9 << 20)));
    assert!(state.bytes() < 1_000, "the bytes are not in memory");
    let entries = state.entries();
    let restored =
        ParticipantState::restore(LogIndex(3), entries.iter().map(|(index, entry)| (*index, entry)));
    assert_eq!(restored, state);
    let _ = state.apply(LogIndex(4), &TransactionEntry::Expire { ids: vec![PIECE] });
    assert!(state.is_empty());
    assert_eq!((state.staged(), state.bytes()), ((0, 0), 0));
}
