//! When other members learn the commit index.

use super::*;
use crate::limits::COMMIT_US;

#[test]
fn commit_index_is_sent_with_next_entry_or_soon_after() {
    let mut a = TestNode::new(1);
    a.handle_event(ReplicaEvent::Group(view(1, 1, &[2], &[])));
    a.granted_by(2);
    a.handle_event(ReplicaEvent::Tick);
    // Its epoch marker.
    a.receive(2, 1, &acknowledge_call(0));
    a.receive(2, 1, &acknowledge_call(1));
    a.now_us += COMMIT_US;
    a.granted_by(2);
    a.handle_event(ReplicaEvent::Tick);
    a.sent_messages();

    a.write(1, b"key", b"one");
    a.handle_event(ReplicaEvent::Tick);
    assert_eq!(a.sent_messages(), ["after 1 1: 1"]);
    a.receive(2, 1, &acknowledge_call(2));
    a.handle_event(ReplicaEvent::Tick);
    assert_eq!(a.out.answered, [(1, true)]);
    a.now_us += COMMIT_US - 1;
    a.handle_event(ReplicaEvent::Tick);
    assert_eq!(a.sent_messages(), Vec::<String>::new(), "the next entry may come, and tells it");
    a.write(2, b"key", b"two");
    a.handle_event(ReplicaEvent::Tick);
    assert_eq!(a.sent_messages(), ["after 2 2: 1"]);
    a.receive(2, 1, &acknowledge_call(3));
    a.now_us += COMMIT_US;
    a.granted_by(2);
    a.handle_event(ReplicaEvent::Tick);
    assert_eq!(a.sent_messages(), ["after 3 3: 0"]);
}

#[cfg(debug_assertions)]
#[test]
fn broken_invariant_ends_the_step_with_its_name() {
    let broken = |damage: fn(&mut Replica), invariant: &str| {
        let mut a = TestNode::new(1);
        a.handle_event(ReplicaEvent::Group(view(1, 1, &[2], &[])));
        damage(&mut a.replica);
        let step =
            std::panic::AssertUnwindSafe(|| a.handle_event(ReplicaEvent::Disconnected { connection: 1 }));
        let panic = std::panic::catch_unwind(step).expect_err(invariant);
        let text = panic.downcast_ref::<String>().expect("is a text");
        assert!(text.contains(invariant), "{text}");
    };
    broken(|replica| replica.lead.streams.clear(), "a primary has a stream for each other member");
    broken(|replica| replica.lead.epoch_marker = 99, "the epoch marker is in the log");
    broken(|replica| replica.role = Role::Follower, "only a primary sends its log");
    broken(|replica| replica.lead.streams[0].matched = 99, "no member has entries that were not sent");
}
