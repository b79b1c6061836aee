//! Members that compare their contents on request.

use zerohop_wire::messages::{Append, Compare};

use super::audit::{exchange, pair};
use super::*;
use crate::limits::{AUDIT_ROUND_US, COMPARE_US, COMPARES_MAX};

fn compare(from: &[u8]) -> Message<'_> {
    Message::Compare(Compare { from })
}

/// Has all ranges compared; `meanwhile` is called before each.
fn all(
    a: &mut TestNode,
    b: &mut TestNode,
    mut meanwhile: impl FnMut(&mut TestNode, u64),
) -> Vec<ComparisonAnswer> {
    let (mut found, mut from): (Vec<ComparisonAnswer>, _) = (Vec::new(), Vec::new());
    loop {
        meanwhile(a, found.len() as u64);
        a.send_request(9_000, &compare(&from));
        meanwhile(a, 500 + found.len() as u64);
        exchange(a, b);
        assert_eq!(a.out.compared.len(), 1, "range {}", found.len());
        found.append(&mut a.out.compared);
        from = found[found.len() - 1].next.clone();
        if from.is_empty() {
            return found;
        }
    }
}

fn sum(found: &[ComparisonAnswer], of: impl Fn(&ComparisonAnswer) -> u64) -> u64 {
    found.iter().map(of).sum()
}

#[test]
fn every_record_is_read_once_in_every_copy_though_more_is_written_meanwhile() {
    let (mut a, mut b) = pair();
    for n in 0..1_000u64 {
        a.write(n, format!("more{n}").as_bytes(), &[n as u8; 100]);
    }
    exchange(&mut a, &mut b);
    // The same keys with values of the same length, so that the expected result is known.
    let again = |a: &mut TestNode, n: u64| a.write(n, format!("more{}", n % 7).as_bytes(), &[n as u8; 100]);
    let found = all(&mut a, &mut b, again);
    assert!(found.len() >= 4, "{found:?}");
    assert_eq!((sum(&found, |one| one.records), sum(&found, |one| one.bytes)), (1_040, 100_000 + 40 * 20));
    assert!(found.iter().all(|one| one.copies == 2 && one.differing.is_empty()), "{found:?}");
    assert_eq!((a.replica.counts().differed, b.replica.counts().differed), (0, 0));
}

#[test]
fn different_contents_are_found_and_reported() {
    let (mut a, mut b) = pair();
    let handle = b.replica.partition.handle();
    let last = b.replica.log_end().last;
    a.write(500, b"key7", &[1; 20]);
    a.out.sent.clear();
    let other = LogEntry {
        name: name(1, last.index.0 + 1),
        timestamp: a.replica.newest(),
        key: b"key7",
        payload: &[77; 20],
        ..entry(1, 1)
    };
    b.entries(1, 1, (last, last.index.0 + 1), &[other]);
    b.engine.commit(handle, u64::MAX).expect("commits");
    a.receive(2, 1, &acknowledge_call(last.index.0 + 1));
    let heads = a.engine.inspect(handle, b"key7").expect("reads").map(|one| (one.timestamp, one.units));
    assert_eq!(
        heads,
        b.engine.inspect(handle, b"key7").expect("reads").map(|one| (one.timestamp, one.units))
    );
    let found = all(&mut a, &mut b, |_, _| {});
    let differing: Vec<InstanceId> = found.iter().flat_map(|one| one.differing.clone()).collect();
    assert_eq!(differing, [InstanceId(2)]);
    assert_eq!(a.out.differing, [member(2)]);
    assert_eq!(a.out.proposals.last(), Some(&GroupChange::Remove(member(2))));
}

#[test]
fn comparison_too_large_for_one_step_uses_smaller_hash_ranges() {
    let (mut a, mut b) = pair();
    let value = vec![3; 1 << 20];
    for n in 0..24u64 {
        let values: [&[u8]; 1] = [&value];
        let change = wire::WriteChange::Append(Append { values: Elements::from_slice(&values) });
        let key = format!("list{}", n % 6);
        let write = RecordWrite { key: key.as_bytes(), condition: Condition::Always, change };
        a.send_request(1_000 + n, &Message::Write { stamp: Stamp::default(), write });
        exchange(&mut a, &mut b);
    }
    let found = all(&mut a, &mut b, |_, _| {});
    let bytes = sum(&found, |one| one.bytes);
    assert_eq!((sum(&found, |one| one.records), bytes), (46, 40 * 20 + 24 * ((1 << 20) + 4)));
    assert!(found.iter().all(|one| one.bytes < 18 << 20 && one.differing.is_empty()), "{found:?}");
}

#[test]
fn silent_member_is_left_out_after_a_wait() {
    let (mut a, _) = pair();
    a.send_request(9_000, &compare(b""));
    let began_us = a.now_us;
    while a.out.compared.is_empty() {
        let wake_us = a.tick_due_us();
        assert!(wake_us > a.now_us && a.now_us < began_us + 2 * COMPARE_US);
        a.now_us = wake_us;
        a.granted_by(2);
        a.out.sent.clear();
        a.handle_event(ReplicaEvent::Tick);
    }
    assert!(a.now_us >= began_us + COMPARE_US);
    assert_eq!((a.out.compared[0].copies, a.out.compared[0].differing.len()), (1, 0));
    assert!(a.out.differing.is_empty());
}

/// A partition may have one range, and there are hundreds of partitions: five seconds for each would be many minutes.
#[test]
fn comparison_does_not_wait_for_stuck_follower() {
    let (mut a, mut b) = pair();
    for node in [&mut a, &mut b] {
        node.handle_event(ReplicaEvent::Group(view(2, 1, &[], &[2])));
    }
    exchange(&mut a, &mut b);
    a.send_request(9_000, &compare(b""));
    exchange(&mut a, &mut b);
    assert_eq!(a.out.compared.pop().unwrap().copies, 2, "it is where the primary is");

    a.write(700, b"key7", &[1; 20]);
    a.out.sent.clear();
    a.now_us += 2 * AUDIT_ROUND_US;
    let began_us = a.now_us;
    a.send_request(9_001, &compare(b""));
    while a.out.compared.is_empty() {
        let wake_us = a.tick_due_us();
        assert!(wake_us > a.now_us && a.now_us < began_us + AUDIT_ROUND_US, "it is waited for");
        a.now_us = wake_us;
        a.out.sent.clear();
        a.handle_event(ReplicaEvent::Tick);
    }
    assert_eq!((a.out.compared[0].copies, a.out.compared[0].differing.len()), (1, 0));
}

#[test]
fn logs_with_other_hash_seed_are_not_compared() {
    for is_primary in [true, false] {
        let (mut a, mut b) = pair();
        (if is_primary { &mut a } else { &mut b }).replica.options.index_seed = 8;
        let began_us = a.now_us;
        let found = all(&mut a, &mut b, |_, _| {});
        assert_eq!(sum(&found, |one| one.records), 40);
        assert!(found.iter().all(|one| one.copies == 1 && one.differing.is_empty()), "{found:?}");
        assert!(a.now_us < began_us + 200_000 && a.out.differing.is_empty());
    }
}

#[test]
fn waiting_comparisons_are_bounded_and_dropped() {
    let (mut a, _) = pair();
    a.out.answered.clear();
    for n in 0..COMPARES_MAX as u64 {
        a.send_request(n, &compare(b""));
    }
    assert!(a.out.answered.is_empty() && a.replica.has_waits());
    a.send_request(100, &compare(b""));
    assert_eq!(a.out.answered, [(100, false)]);
    a.handle_event(ReplicaEvent::Disconnected { connection: 1 });
    assert!(!a.replica.has_waits());
    a.send_request(101, &compare(b""));
    a.handle_event(ReplicaEvent::Group(view(2, 2, &[1], &[])));
    assert_eq!((a.out.wrong_owner, a.replica.has_waits()), (1, false));
    a.send_request(102, &compare(b""));
    assert_eq!(a.out.wrong_owner, 2, "it is not the primary");
}

#[test]
fn primary_with_unreadable_data_redirects_the_client() {
    let (mut a, _) = pair();
    a.out.answered.clear();
    a.send_request(1, &compare(b""));
    assert!(a.out.answered.is_empty(), "it waits for the other");
    a.replica.give_up_repair();
    a.now_us += 3_000;
    a.granted_by(2);
    a.handle_event(ReplicaEvent::Tick);
    a.send_request(2, &compare(b""));
    assert_eq!(a.out.answered, [(1, false), (2, false)]);
    assert!(!a.replica.has_waits() && a.out.compared.is_empty());
}
