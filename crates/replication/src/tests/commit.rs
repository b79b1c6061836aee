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
