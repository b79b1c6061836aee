//! When other members learn the commit index.

use super::*;
use crate::limits::COMMIT_US;

#[test]
fn what_is_committed_is_told_with_the_next_entry_or_a_little_later_by_itself() {
    let mut a = TestNode::new(1);
    a.tell(ReplicaEvent::Group(view(1, 1, &[2], &[])));
    a.granted_by(2);
    a.tell(ReplicaEvent::Tick);
    // Its epoch marker.
    a.hear(2, 1, &holds(0));
    a.hear(2, 1, &holds(1));
    a.now_us += COMMIT_US;
    a.granted_by(2);
    a.tell(ReplicaEvent::Tick);
    a.said();

    a.write(1, b"key", b"one");
    a.tell(ReplicaEvent::Tick);
    assert_eq!(a.said(), ["after 1 1: 1"]);
    a.hear(2, 1, &holds(2));
    a.tell(ReplicaEvent::Tick);
    assert_eq!(a.out.answered, [(1, true)]);
    a.now_us += COMMIT_US - 1;
    a.tell(ReplicaEvent::Tick);
    assert_eq!(a.said(), Vec::<String>::new(), "the next entry may come, and tells it");
    a.write(2, b"key", b"two");
    a.tell(ReplicaEvent::Tick);
    assert_eq!(a.said(), ["after 2 2: 1"]);
    a.hear(2, 1, &holds(3));
    a.now_us += COMMIT_US;
    a.granted_by(2);
    a.tell(ReplicaEvent::Tick);
    assert_eq!(a.said(), ["after 3 3: 0"]);
}
