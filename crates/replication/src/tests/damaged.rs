//! The only in-sync copy, found damaged at a start.

use super::repair::{VALUE, corruption};
use super::*;

/// A primary alone with some followers, which was shut down in order. Its first value has become corrupt since, and only its log
/// has it.
fn corrupt_disk() -> SimulatedDisk {
    let mut a = TestNode::new(1);
    a.handle_event(ReplicaEvent::Group(view(1, 1, &[], &[3])));
    a.now_us += LEASE_WAIT_US;
    a.handle_event(ReplicaEvent::Tick);
    a.write(1, b"key", &VALUE);
    for round in 2..100u64 {
        a.write(round, format!("other{round}").as_bytes(), &[7; 200]);
    }
    assert!(a.out.answered.iter().all(|(_, is_done)| *is_done) && a.out.answered.len() == 99);
    a.engine.close().expect("closes");
    corruption(&mut a.disk);
    a.disk
}

/// Restarted as the only in-sync copy; it needs to wait for no older primary any more.
fn started_again(disk: &SimulatedDisk, epoch: u64) -> TestNode {
    let mut a = TestNode::with(1, disk.clone(), 64 << 20);
    a.handle_event(ReplicaEvent::Group(view(epoch, 1, &[], &[3])));
    a.now_us += LEASE_WAIT_US;
    a.handle_event(ReplicaEvent::Tick);
    a
}

/// The group during recovery.
fn recovering(epoch: u64) -> GroupView {
    let primary = Member { incarnation: Incarnation(0), ..member(1) };
    GroupView { primary, ..view(epoch, 1, &[], &[]) }
}

fn lookup(node: &mut TestNode, request: u64, key: &[u8]) -> Option<bool> {
    let read = RecordRead { key, query: Query::Lookup };
    node.send_request(request, &Message::Read { seen: Timestamp::ZERO, read });
    node.out.answered.iter().find(|(of, _)| *of == request).map(|(_, is_done)| *is_done)
}

#[test]
fn damaged_sole_copy_reports_and_does_not_serve() {
    let mut a = started_again(&corrupt_disk(), 3);
    let damaged = a.replica.sole_copy_damage().expect("it is");
    assert_eq!(damaged.found, 1);
    assert!(damaged.named[0].contains("\"key\"") && damaged.named[0].contains("corrupt"), "{damaged:?}");
    assert_eq!(lookup(&mut a, 500, b"other7"), Some(false));
    a.write(501, b"new", b"value");
    assert_eq!(a.out.answered.last(), Some(&(501, false)));
    // This holds whatever time passes, and whatever other epochs follow.
    a.handle_event(ReplicaEvent::Group(view(4, 1, &[], &[])));
    a.now_us += LEASE_WAIT_US;
    a.handle_event(ReplicaEvent::Tick);
    assert!(a.replica.sole_copy_damage().is_some());
    assert!(!a.replica.log_end().is_complete && a.replica.loss_accepted().is_none());
}

#[test]
fn damaged_copy_continues_on_operator_command() {
    let disk = corrupt_disk();
    let mut a = started_again(&disk, 3);
    a.handle_event(ReplicaEvent::Group(recovering(4)));
    assert!(a.replica.sole_copy_damage().is_none() && !a.replica.log_end().is_complete);
    a.handle_event(ReplicaEvent::Group(view(5, 1, &[], &[])));
    a.now_us += LEASE_WAIT_US;
    a.handle_event(ReplicaEvent::Tick);
    assert_eq!(a.replica.loss_accepted().map(|given_up| given_up.found), Some(1));
    assert_eq!(lookup(&mut a, 500, b"other7"), Some(true));
    // Lost records are answered as corrupt, until they are written again.
    assert_eq!(lookup(&mut a, 501, b"key"), Some(false));
    a.write(502, b"new", b"value");
    assert_eq!(a.out.answered.last(), Some(&(502, true)));
    a.handle_event(ReplicaEvent::Tick);
    a.engine.finish_work(a.replica.partition.handle()).expect("ends");
    a.engine.close().expect("closes");
    let mut again = started_again(&disk, 7);
    assert!(again.replica.sole_copy_damage().is_none());
    assert_eq!(
        (lookup(&mut again, 600, b"other7"), lookup(&mut again, 601, b"new")),
        (Some(true), Some(true))
    );
}

#[test]
fn damaged_copy_continues_only_on_operator_command() {
    let disk = corrupt_disk();
    // The recovery that its start has begun chose it; no operator has given a command.
    let mut a = TestNode::with(1, disk.clone(), 64 << 20);
    a.handle_event(ReplicaEvent::Group(recovering(3)));
    a.handle_event(ReplicaEvent::Group(view(4, 1, &[], &[])));
    assert!(a.replica.sole_copy_damage().is_some());
    // Another member was chosen, and this one became primary again later. It never received the entries that it lacks.
    a.handle_event(ReplicaEvent::Group(recovering(5)));
    a.handle_event(ReplicaEvent::Group(view(6, 3, &[], &[1])));
    assert!(a.replica.sole_copy_damage().is_none());
    a.handle_event(ReplicaEvent::Group(view(7, 1, &[], &[])));
    assert!(a.replica.sole_copy_damage().is_some());
}
