//! The checkers of snapshots and blobs on hand-written histories.

use zerohop_base::time::Time;
use zerohop_wire::ids::{KeyspaceId, Timestamp};

use super::check;
use crate::cycles::{CheckedAction, TransactionFate};
use crate::history::{Loss, RunHistory};
use crate::snapshots::{SnapshotHistory, SnapshotRead, SnapshotRecord};
use crate::transaction_results::{BlobLife, TransactionRecord};
use crate::workload::blobs::chunk_id;

/// A history under construction.
#[derive(Default)]
struct BlobHistory(RunHistory);

impl BlobHistory {
    fn done(mut self, from: u64, to: u64, actions: Vec<CheckedAction>, lives: &[BlobLife]) -> BlobHistory {
        let mut one = TransactionRecord::begun(0, Time(from), Time(to), actions);
        (one.transaction.end, one.transaction.fate) = (Some(to), TransactionFate::Committed);
        one.version = one.transaction.actions.iter().find_map(|action| match action {
            CheckedAction::Write { version, .. } => version.map(Timestamp),
            _ => None,
        });
        one.lives = lives.iter().map(|life| (0, *life)).collect();
        self.0.transactions.push(one);
        self
    }

    fn lives(self, from: u64, to: u64, life: BlobLife) -> BlobHistory {
        self.done(from, to, Vec::new(), &[life])
    }

    /// Changes the fate of the last transaction.
    fn ends_as(mut self, fate: TransactionFate) -> BlobHistory {
        self.0.transactions.last_mut().unwrap().transaction.fate = fate;
        self
    }

    /// A snapshot that was requested and open at these times, and its reads from 100 on.
    fn snapshot(mut self, begin: u64, end: u64, at: u64, reads: Vec<(u64, SnapshotRecord)>) -> BlobHistory {
        let read = |(when, (of, found))| SnapshotRead { when: Time(when), of, found };
        let reads = (100..).zip(reads).map(read).collect();
        self.0.snapshots.push(SnapshotHistory {
            client: 1,
            at,
            begin: Time(begin),
            end: Time(end),
            reads,
            versions: Vec::new(),
        });
        self
    }

    fn loss(mut self, down: u64) -> BlobHistory {
        let (keyspace, partition) = (KeyspaceId(1), zerohop_wire::ids::PartitionId(0));
        self.0.transactional = vec![keyspace];
        self.0.losses.push(Loss {
            keyspace,
            partition,
            partitions: 1,
            down: Time(down),
            up: Time(down),
            survives_until: Time(0),
            keeps_timestamp_bound: true,
        });
        self
    }

    fn found(mut self) -> Vec<&'static str> {
        // Snapshots are read only where there are transactions.
        self = self.done(0, 0, Vec::new(), &[]);
        self.0.ended = Time(1_000);
        check(&self.0).violations.iter().map(|violation| violation.checker).collect()
    }

    #[track_caller]
    fn good(self) {
        assert_eq!(self.found(), Vec::<&str>::new());
    }

    #[track_caller]
    fn bad(self, checker: &str) {
        let found = self.found();
        assert!(found.contains(&checker), "{found:?}");
    }
}

fn write(key: u64, value: u64, version: u64) -> CheckedAction {
    CheckedAction::Write { key, value, version: Some(version) }
}

fn read_action(key: u64, value: u64, version: u64) -> CheckedAction {
    CheckedAction::Look { key, value, version }
}

fn shows(key: u64, value: u64, version: u64) -> (u64, SnapshotRecord) {
    (
        key,
        SnapshotRecord {
            version,
            actions: vec![read_action(key, value, version)],
            ..SnapshotRecord::nothing()
        },
    )
}

fn counter_record(key: u64, holds: i64) -> (u64, SnapshotRecord) {
    (key, SnapshotRecord { version: 1, account: Some((5, 2, holds)), ..SnapshotRecord::nothing() })
}

#[test]
fn snapshot_contents_never_change() {
    let two = || {
        BlobHistory::default().done(1, 2, vec![write(7, 71, 10)], &[]).done(
            30,
            31,
            vec![write(7, 72, 30)],
            &[],
        )
    };
    two().snapshot(10, 12, 20, vec![shows(7, 71, 10), shows(7, 71, 10)]).good();
    two().snapshot(10, 12, 20, vec![shows(7, 71, 10), shows(7, 72, 30)]).bad("snapshot");
    // It was there, and is gone later.
    two().snapshot(10, 12, 20, vec![shows(7, 71, 10), (7, SnapshotRecord::nothing())]).bad("snapshot");
}

#[test]
fn snapshot_shows_no_later_write_and_no_impossible_value() {
    let one = || BlobHistory::default().done(1, 2, vec![write(7, 71, 10)], &[]);
    one().snapshot(10, 12, 10, vec![shows(7, 71, 10)]).good();
    one().snapshot(10, 12, 9, vec![shows(7, 71, 10)]).bad("snapshot");
    one()
        .snapshot(10, 12, 20, vec![(7, SnapshotRecord::impossible("half of it".to_owned()))])
        .bad("snapshot");
}

#[test]
fn snapshot_shows_one_moment_between_its_start_and_opening() {
    let both = |from, to| {
        let first = vec![write(7, 70, 1), write(8, 80, 1)];
        BlobHistory::default().done(0, 0, first, &[]).done(
            from,
            to,
            vec![write(7, 71, 10), write(8, 81, 10)],
            &[],
        )
    };
    let before = |key| shows(key, key * 10, 1);
    let after = |key| shows(key, key * 10 + 1, 10);
    // A transaction during its opening is in it by its version, as a whole or not at all.
    both(11, 13).snapshot(10, 14, 20, vec![after(7), after(8)]).good();
    both(11, 13).snapshot(10, 14, 9, vec![before(7), before(8)]).good();
    both(11, 13).snapshot(10, 14, 20, vec![after(7), before(8)]).bad("snapshot");
    both(11, 13).snapshot(10, 14, 20, vec![before(7), before(8)]).bad("snapshot");
    // Also if no client knows its version.
    let unknown = || both(11, 13).ends_as(TransactionFate::Unknown);
    unknown().snapshot(10, 14, 20, vec![after(7), after(8)]).good();
    unknown().snapshot(10, 14, 20, vec![before(7), before(8)]).good();
    // Another read has shown its version.
    let seen = || unknown().done(40, 41, vec![read_action(8, 81, 10)], &[]);
    seen().snapshot(10, 14, 20, vec![after(7), before(8)]).bad("snapshot");
    // A transaction that had ended is in it; one that began later is not, whatever its version.
    both(1, 2).snapshot(10, 14, 9, vec![before(7)]).bad("snapshot");
    both(20, 30).snapshot(10, 14, 20, vec![after(7)]).bad("snapshot");
}

#[test]
fn snapshot_may_include_only_later_of_two_concurrent_transactions() {
    let two = || {
        let first = vec![write(7, 70, 1), write(8, 80, 1)];
        let history = BlobHistory::default().done(0, 0, first, &[]);
        history.done(11, 12, vec![write(7, 71, 30)], &[]).done(13, 14, vec![write(8, 81, 10)], &[])
    };
    two().snapshot(10, 15, 20, vec![shows(7, 70, 1), shows(8, 81, 10)]).good();
    two().snapshot(10, 15, 30, vec![shows(7, 70, 1), shows(8, 81, 10)]).bad("snapshot");
}

#[test]
fn all_accounts_in_a_snapshot_add_up() {
    BlobHistory::default().snapshot(1, 2, 9, vec![counter_record(7, -4), counter_record(8, 4)]).good();
    BlobHistory::default()
        .snapshot(1, 2, 9, vec![counter_record(7, -4), counter_record(8, 5)])
        .bad("snapshot");
    // One account is unknown.
    BlobHistory::default().snapshot(1, 2, 9, vec![counter_record(7, -4)]).good();
}

#[test]
fn snapshot_is_not_checked_after_loss() {
    let changes = || vec![shows(7, 71, 10), (7, SnapshotRecord::nothing())];
    let one = || BlobHistory::default().done(1, 2, vec![write(7, 71, 10)], &[]);
    one().snapshot(10, 12, 20, changes()).loss(200).bad("snapshot");
    one().snapshot(10, 12, 20, changes()).loss(100).good();
}

#[test]
fn blob_exists_from_creation_to_removal() {
    let made = || BlobHistory::default().lives(1, 5, BlobLife::Seen(50));
    made().lives(6, 7, BlobLife::Seen(50)).good();
    BlobHistory::default().lives(1, 2, BlobLife::Absent).good();
    made().lives(4, 6, BlobLife::Absent).good();
    made().lives(6, 7, BlobLife::Absent).bad("lives");
    let removed = || made().lives(10, 20, BlobLife::Removed);
    removed().lives(15, 16, BlobLife::Absent).lives(25, 26, BlobLife::Absent).good();
    removed().lives(15, 16, BlobLife::Seen(50)).good();
    removed().lives(21, 22, BlobLife::Seen(50)).bad("lives");
    removed().lives(21, 22, BlobLife::Seen(60)).good();
    // Another blob is there by then.
    removed().lives(21, 22, BlobLife::Seen(60)).lives(23, 24, BlobLife::Absent).bad("lives");
    removed().lives(21, 22, BlobLife::Seen(60)).lives(23, 24, BlobLife::Seen(50)).bad("lives");
}

#[test]
fn put_ends_earlier_blob_and_listing_shows_existing_one() {
    let put = || BlobHistory::default().lives(1, 5, BlobLife::Seen(50)).lives(10, 20, BlobLife::Put);
    put().lives(15, 16, BlobLife::Seen(50)).lives(21, 22, BlobLife::Seen(60)).good();
    put().lives(21, 22, BlobLife::Seen(50)).bad("lives");
    put().lives(21, 22, BlobLife::Absent).bad("lives");
    put().lives(21, 25, BlobLife::Removed).lives(26, 27, BlobLife::Absent).good();
    put().lives(6, 9, BlobLife::Removed).lives(21, 22, BlobLife::Absent).bad("lives");
    let removed = || put().lives(30, 40, BlobLife::Removed);
    removed().lives(35, 50, BlobLife::Listed).good();
    removed().lives(41, 50, BlobLife::Listed).bad("lives");
    removed().lives(43, 44, BlobLife::Put).lives(41, 50, BlobLife::Listed).good();
    removed()
        .lives(43, 44, BlobLife::Put)
        .ends_as(TransactionFate::Unknown)
        .lives(50, 51, BlobLife::Listed)
        .good();
    put().lives(21, 22, BlobLife::Listed).lives(25, 26, BlobLife::Absent).bad("lives");
}

#[test]
fn aborted_removal_has_no_effect_and_unknown_one_may() {
    let created = |fate| {
        BlobHistory::default().lives(1, 5, BlobLife::Seen(50)).lives(10, 20, BlobLife::Removed).ends_as(fate)
    };
    created(TransactionFate::Aborted).lives(25, 26, BlobLife::Absent).bad("lives");
    created(TransactionFate::Unknown).lives(25, 26, BlobLife::Absent).good();
    created(TransactionFate::Unknown).lives(25, 26, BlobLife::Seen(50)).good();
    created(TransactionFate::Unknown).lives(6, 8, BlobLife::Absent).bad("lives");
}

#[test]
fn a_write_of_an_edition_before_and_a_mixed_read_of_a_blob_are_found() {
    let (first, second) = (chunk_id(3, 0), chunk_id(3, 1));
    let written = || {
        let all = |value, version| vec![write(first, value, version), write(second, value, version)];
        BlobHistory::default().done(1, 2, all(30, 10), &[]).done(3, 9, all(31, 20), &[])
    };
    written().done(4, 8, vec![read_action(first, 31, 20), read_action(second, 31, 20)], &[]).good();
    written().done(4, 8, vec![read_action(first, 31, 20), read_action(second, 30, 10)], &[]).bad("serial");
    written().done(10, 11, vec![read_action(first, 30, 10), read_action(second, 30, 10)], &[]).bad("serial");
    // A value that was written to another edition shows in this one.
    written().done(4, 8, vec![read_action(chunk_id(4, 0), 31, 20)], &[]).bad("serial");
}
