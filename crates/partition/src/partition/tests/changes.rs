//! Readers that watch a keyspace get each committed change once, in order, and marks that no later change undercuts.

use zerohop_engine::Durability;
use zerohop_placement::ChangeHistory;
use zerohop_wire::ids::Timestamp;
use zerohop_wire::messages::{
    AFTER_NOW, ChangeCause, Expiry, Increment, Insert, Outcome, ReadChanges, RecordType, Remove, Stamp,
    WriteChange,
};
use zerohop_wire::{BadRequestReason, Failure, Message};

use crate::planted::{Bug, plant};
use crate::testing::{OwnedAnswer, PartitionRig, append, insert, token};
use crate::{PartitionEvent, WatchLag};

const HISTORY: ChangeHistory = ChangeHistory { ms: 60_000, bytes: 1 << 20 };
const READ: ReadChanges<'static> = ReadChanges {
    seen: Timestamp::ZERO,
    after: 0,
    newest: Timestamp(u64::MAX),
    wait_ms: 0,
    changes_max: 100,
    bytes_max: 0,
    values: true,
    from: b"",
    to: b"",
    prefix: b"",
};

/// A change: the key, the value, whether there was a record before, and whether there is one now.
type ChangeSummary = (String, Option<String>, bool, bool);

#[derive(Debug, PartialEq)]
struct ChangesRead {
    next: u64,
    newest: Timestamp,
    through: Timestamp,
    changes: Vec<ChangeSummary>,
    causes: Vec<ChangeCause>,
}

fn rig(durability: Durability) -> PartitionRig {
    let mut rig = PartitionRig::new(durability);
    rig.partition.begin_history(HISTORY);
    rig
}

fn write(rig: &mut PartitionRig, request: u64, key: &str, change: WriteChange<'_>) {
    rig.write(token(request), Stamp::default(), key.as_bytes(), change);
}

/// Writes, and commits.
fn written(rig: &mut PartitionRig, request: u64, key: &str, change: WriteChange<'_>) -> OwnedAnswer {
    write(rig, request, key, change);
    rig.flush();
    rig.answer(token(request)).expect("is committed")
}

fn page(answer: &OwnedAnswer) -> Result<ChangesRead, Failure<'static>> {
    answer.with(|answer| match answer {
        Ok(Outcome::Changes { next, newest, through, changes }) => {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            let shown = changes.iter().map(|one| {
                let value = one.value.map(text);
                (text(one.key), value, one.before != Timestamp::ZERO, one.record.is_some())
            });
            let causes = changes.iter().map(|one| one.cause).collect();
            Ok(ChangesRead { next, newest, through, changes: shown.collect(), causes })
        }
        Ok(other) => panic!("{other:?}"),
        Err(failure) => Err(failure.into_owned()),
    })
}

fn read(
    rig: &mut PartitionRig,
    request: u64,
    query: ReadChanges<'_>,
) -> Option<Result<ChangesRead, Failure<'static>>> {
    rig.send(token(request), 0, &Message::Changes(query));
    rig.answer(token(request)).map(|answer| page(&answer))
}

fn shown(key: &str, value: Option<&str>, was: bool, is: bool) -> ChangeSummary {
    (key.to_owned(), value.map(str::to_owned), was, is)
}

#[test]
fn each_change_is_returned_once_and_in_order() {
    for durability in [Durability::Memory, Durability::DEFAULT, Durability::Sync] {
        let mut rig = rig(durability);
        written(&mut rig, 1, "a", insert(b"one"));
        written(&mut rig, 2, "n", WriteChange::Increment(Increment { delta: 7 }));
        written(&mut rig, 3, "a", insert(b"two"));
        written(&mut rig, 4, "l", append(&[b"x"]));
        written(&mut rig, 5, "a", WriteChange::Remove(Remove));
        written(&mut rig, 6, "none", WriteChange::Remove(Remove));
        let first = read(&mut rig, 10, ReadChanges { changes_max: 2, ..READ }).unwrap().unwrap();
        assert_eq!(
            first.changes,
            [shown("a", Some("one"), false, true), shown("n", Some("7"), false, true)],
            "{durability:?}"
        );
        assert_eq!(first.through, Timestamp::ZERO, "more changes follow");
        let rest = read(&mut rig, 11, ReadChanges { after: first.next, ..READ }).unwrap().unwrap();
        let expected = [
            shown("a", Some("two"), true, true),
            shown("l", None, false, true),
            shown("a", None, true, false),
        ];
        assert_eq!(rest.changes, expected, "{durability:?}");
        let end = read(&mut rig, 12, ReadChanges { after: rest.next, ..READ }).unwrap().unwrap();
        assert_eq!((end.next, end.changes.len()), (rest.next, 0));
        assert!(end.through > rest.through, "time goes on");
    }
}

#[test]
fn an_uncommitted_change_is_not_returned_and_holds_the_mark_back() {
    let mut rig = rig(Durability::Sync);
    written(&mut rig, 1, "a", insert(b"one"));
    write(&mut rig, 2, "b", insert(b"two"));
    let found = read(&mut rig, 3, READ).unwrap().unwrap();
    assert_eq!(found.changes, [shown("a", Some("one"), false, true)]);
    rig.flush();
    let version = rig.answer(token(2)).unwrap().version();
    assert!(found.through < version, "{:?} {version:?}", found.through);
    let found = read(&mut rig, 4, ReadChanges { after: found.next, ..READ }).unwrap().unwrap();
    assert_eq!(found.changes, [shown("b", Some("two"), false, true)]);
    assert!(found.through >= version);
    let later = written(&mut rig, 5, "c", insert(b"three")).version();
    assert!(later > found.through);
}

#[test]
fn a_waiting_reader_is_answered_by_the_next_wanted_change() {
    let mut rig = rig(Durability::Sync);
    let begun = read(&mut rig, 1, ReadChanges { after: AFTER_NOW, ..READ }).unwrap().unwrap();
    let query = ReadChanges { after: begun.next, wait_ms: 1_000, prefix: b"b", ..READ };
    assert_eq!(read(&mut rig, 2, query), None);
    assert!(rig.partition.has_waits());
    written(&mut rig, 3, "a", insert(b"one"));
    assert!(rig.answer(token(2)).is_none(), "another key");
    write(&mut rig, 4, "b", insert(b"two"));
    assert!(rig.answer(token(2)).is_none(), "not committed");
    rig.flush();
    let found = page(&rig.answer(token(2)).unwrap()).unwrap();
    assert_eq!(found.changes, [shown("b", Some("two"), false, true)]);
    assert_eq!(rig.partition.stats().waits, 0);
}

/// The readers of the partition: prefix, changes behind, lag, whether it is gone.
fn watches(rig: &PartitionRig) -> Vec<(&[u8], WatchLag)> {
    rig.partition.watches(rig.now.ms).map(|watch| (&*watch.selection.prefix, watch.lag)).collect()
}

#[test]
fn readers_are_listed_with_how_far_they_are_behind() {
    let mut rig = rig(Durability::Sync);
    assert_eq!(watches(&rig), []);
    read(&mut rig, 1, ReadChanges { after: AFTER_NOW, ..READ }).unwrap().unwrap();
    let follows = ReadChanges { wait_ms: 1_000, prefix: b"b", ..READ };
    assert_eq!(read(&mut rig, 2, follows), None);
    written(&mut rig, 3, "a", insert(b"one"));
    let by_ms = |rig: &mut PartitionRig, ms| {
        rig.now.ms += ms;
        rig.now.elapsed_ms += ms;
    };
    by_ms(&mut rig, 70);
    let lag = |changes, lag_ms| WatchLag { changes, lag_ms, is_gone: false };
    let expected: [(&[u8], _); 2] = [(b"", lag(1, 70)), (b"b", lag(0, 0))];
    assert_eq!(watches(&rig), expected, "a request that waits has all changes");
    written(&mut rig, 4, "b", insert(b"two"));
    by_ms(&mut rig, 30);
    assert!(rig.answer(token(2)).is_some());
    let expected: [(&[u8], _); 2] = [(b"", lag(2, 100)), (b"b", lag(1, 30))];
    assert_eq!(watches(&rig), expected, "the answer is not yet with the reader");
    let found = read(&mut rig, 5, READ).unwrap().unwrap();
    read(&mut rig, 6, ReadChanges { after: found.next, prefix: b"b", ..READ }).unwrap().unwrap();
    assert_eq!(watches(&rig)[1].1, lag(0, 0));
    rig.step(PartitionEvent::Disconnected { connection: 2 });
    assert_eq!(watches(&rig).len(), 2);
    assert!(rig.partition.has_waits(), "the end of the connection matters");
    rig.step(PartitionEvent::Disconnected { connection: 1 });
    assert_eq!((watches(&rig), rig.partition.has_waits()), (Vec::new(), false));
}

#[test]
fn a_member_that_steps_down_forgets_its_readers() {
    let mut rig = rig(Durability::Sync);
    read(&mut rig, 1, READ).unwrap().unwrap();
    assert_eq!(watches(&rig).len(), 1);
    let failure = Failure::Unavailable { retry_after_ms: 1 };
    rig.partition.step_down(&failure, &mut rig.out);
    assert_eq!(watches(&rig), []);
}

#[test]
fn a_wait_ends_without_a_change() {
    let mut rig = rig(Durability::DEFAULT);
    written(&mut rig, 1, "a", insert(b"one"));
    let query = ReadChanges { after: 1, wait_ms: 500, ..READ };
    assert_eq!(read(&mut rig, 2, query), None);
    assert_eq!(rig.partition.next_tick_ms(), Some(rig.now.ms + 500));
    rig.now.ms += 500;
    rig.now.elapsed_ms += 500;
    rig.step(PartitionEvent::Tick);
    let found = page(&rig.answer(token(2)).unwrap()).unwrap();
    assert_eq!((found.next, found.changes.len()), (1, 0));
    assert_eq!(read(&mut rig, 3, query), None);
    rig.step(PartitionEvent::Disconnected { connection: 1 });
    assert!(!rig.partition.has_waits());
}

#[test]
fn a_record_that_expires_is_a_change_of_that_cause() {
    let mut rig = rig(Durability::DEFAULT);
    let value = Insert { value: b"v", expiry: Expiry::AfterMs(100) };
    written(&mut rig, 1, "a", WriteChange::Insert(value));
    rig.now.ms += 100;
    rig.now.elapsed_ms += 100;
    rig.step(PartitionEvent::Tick);
    rig.flush();
    let found = read(&mut rig, 2, READ).unwrap().unwrap();
    assert_eq!(found.changes, [shown("a", Some("v"), false, true), shown("a", None, true, false)]);
    assert_eq!(found.causes, [ChangeCause::Write, ChangeCause::Expiry]);
}

#[test]
fn a_wait_ends_when_what_tokens_permit_changes() {
    let mut rig = rig(Durability::DEFAULT);
    assert_eq!(read(&mut rig, 1, ReadChanges { wait_ms: 30_000, ..READ }), None);
    rig.step(PartitionEvent::TokensChanged);
    // The client sends the request again, which is judged by what tokens permit now.
    let ended = rig.answer(token(1)).expect("the wait has ended");
    assert!(matches!(ended.number(), Err(Failure::Busy { .. })), "{ended:?}");
}

#[test]
fn positions_that_are_not_kept_are_refused() {
    let mut rig = PartitionRig::new(Durability::DEFAULT);
    assert_eq!(read(&mut rig, 1, READ), Some(Err(BadRequestReason::NoHistory.into())));
    written(&mut rig, 2, "a", insert(b"one"));
    rig.partition.begin_history(HISTORY);
    assert_eq!(read(&mut rig, 3, READ), Some(Err(Failure::HistoryGone { oldest: 1 })));
    written(&mut rig, 4, "a", insert(b"two"));
    let found = read(&mut rig, 5, ReadChanges { after: 1, ..READ }).unwrap().unwrap();
    assert_eq!(found.changes, [shown("a", Some("two"), true, true)]);
    rig.now.ms += 60_001;
    rig.now.elapsed_ms += 60_001;
    let gone = read(&mut rig, 6, ReadChanges { after: 1, ..READ });
    assert_eq!(gone, Some(Err(Failure::HistoryGone { oldest: 2 })), "it was kept for a minute");
    let beyond = read(&mut rig, 7, ReadChanges { after: 3, ..READ });
    assert_eq!(beyond, Some(Err(Failure::HistoryGone { oldest: 2 })), "no entry has this index");
}

/// What a reader is answered that knows a log of three entries, by a partition in which a later entry took the place of the last one. It is committed
/// before or after the request.
fn answer_of_another_log(is_committed: bool) -> Result<ChangesRead, Failure<'static>> {
    let mut lost = rig(Durability::Sync);
    for request in 1..=3 {
        written(&mut lost, request, "a", insert(b"lost"));
    }
    let known = read(&mut lost, 9, READ).unwrap().unwrap();
    assert_eq!(known.next, 3);
    let same = ReadChanges { after: known.next, newest: known.newest, ..READ };
    assert_eq!(read(&mut lost, 10, same).unwrap().unwrap().changes, []);
    let mut rig = rig(Durability::Sync);
    for request in 1..=2 {
        written(&mut rig, request, "a", insert(b"kept"));
    }
    rig.now.ms += 1_000;
    write(&mut rig, 3, "b", insert(b"missed"));
    if is_committed {
        rig.flush();
        return read(&mut rig, 4, same).unwrap();
    }
    // What is committed says nothing about the place that the reader has reached.
    assert_eq!(read(&mut rig, 4, same).unwrap().unwrap().newest, known.newest);
    assert_eq!(read(&mut rig, 5, ReadChanges { wait_ms: 1_000, ..same }), None);
    rig.flush();
    page(&rig.answer(token(5)).expect("the reader is answered"))
}

#[test]
fn reader_of_a_lost_log_is_refused() {
    for is_committed in [true, false] {
        assert_eq!(answer_of_another_log(is_committed), Err(Failure::HistoryGone { oldest: 3 }));
    }
}

#[test]
fn a_history_that_ends_answers_its_readers() {
    let mut rig = rig(Durability::DEFAULT);
    assert_eq!(read(&mut rig, 1, ReadChanges { wait_ms: 1_000, ..READ }), None);
    write(&mut rig, 2, "a", insert(b"one"));
    assert!(rig.answer(token(2)).is_none(), "it waits for its commit");
    rig.partition.alter_history(&mut rig.engine, ChangeHistory::NONE, &mut rig.out).unwrap();
    assert!(rig.answer(token(2)).is_some());
    let found = page(&rig.answer(token(1)).unwrap()).unwrap();
    assert_eq!(found.changes, [shown("a", Some("one"), false, true)]);
    write(&mut rig, 3, "a", insert(b"two"));
    assert!(rig.answer(token(3)).is_some(), "entries are committed when they are appended");
    rig.partition.alter_history(&mut rig.engine, HISTORY, &mut rig.out).unwrap();
    assert_eq!(read(&mut rig, 4, ReadChanges { after: 2, wait_ms: 1_000, ..READ }), None);
    rig.partition.alter_history(&mut rig.engine, ChangeHistory::NONE, &mut rig.out).unwrap();
    assert_eq!(page(&rig.answer(token(4)).unwrap()), Err(BadRequestReason::NoHistory.into()));
}

#[test]
fn the_type_of_a_record_is_that_after_the_change() {
    let mut rig = rig(Durability::DEFAULT);
    written(&mut rig, 1, "l", append(&[b"x", b"y"]));
    rig.send(token(2), 0, &Message::Changes(READ));
    let answer = rig.answer(token(2)).unwrap();
    let record = answer.with(|answer| match answer {
        Ok(Outcome::Changes { changes, .. }) => changes.iter().next().and_then(|one| one.record),
        other => panic!("{other:?}"),
    });
    assert_eq!(record, Some(RecordType::List));
}

/// Whether a waiting reader is answered by a change, whether a page that ends early says so, whether a reader that is too late is refused, and whether
/// that of a lost log is.
fn readers_are_answered() -> [bool; 4] {
    let mut rig = rig(Durability::DEFAULT);
    assert_eq!(read(&mut rig, 1, ReadChanges { wait_ms: 1_000, ..READ }), None);
    written(&mut rig, 2, "a", insert(b"one"));
    let is_woken = rig.answer(token(1)).is_some();
    written(&mut rig, 3, "a", insert(b"two"));
    let page = read(&mut rig, 4, ReadChanges { changes_max: 1, ..READ }).unwrap().unwrap();
    let is_marked = page.through == Timestamp::ZERO;
    rig.now.ms += 60_001;
    rig.now.elapsed_ms += 60_001;
    let is_refused =
        read(&mut rig, 5, ReadChanges { after: 1, ..READ }).is_some_and(|answer| answer.is_err());
    [is_woken, is_marked, is_refused, answer_of_another_log(true).is_err()]
}

#[test]
fn bugs_planted_in_histories_are_found() {
    assert_eq!(readers_are_answered(), [true; 4]);
    let bugs =
        [Bug::WatchesNotWoken, Bug::MarkOvertakesPage, Bug::HistoryEndForgotten, Bug::LostLogForgotten];
    for (place, bug) in bugs.into_iter().enumerate() {
        plant(Some(bug));
        let found = readers_are_answered();
        plant(None);
        assert!(!found[place], "{bug:?}");
    }
}
