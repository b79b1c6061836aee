//! A whole state for a member that the log cannot bring up.

use zerohop_engine::{Kind, Meta};

use super::*;
use crate::note::Mark;

/// Adds fillers up to a log index, as members before the first release did for entries that a whole state came without.
fn fill(node: &mut Node, through: u64) {
    let mut payload = Vec::new();
    Mark::Filler.encode(Timestamp::ZERO, &mut payload);
    for index in node.replica.last() + 1..=through {
        let meta = Meta { kind: Kind::Mark, flags: 0, epoch: 1, index, timestamp: 0 };
        node.replica.partition.receive(&mut node.engine, &meta, &[], &payload).expect("is taken");
    }
}

/// A took a whole state from B, with fillers in place of the entries that B had no more. C comes with an empty log: what A has in
/// their place is no log, and C would have neither the sessions nor the deadlines that the entries told of.
#[test]
fn fillers_are_never_passed_on_as_what_they_stand_for() {
    let mut node = Node::new(1);
    fill(&mut node, 3);
    node.tell(Told::Group(view(2, 1, &[], &[3])));
    node.granted_by(3);
    node.tell(Told::Tick);
    node.said();
    node.hear(3, 2, &Call::ReplicateAck(Report::Differs { at: name(0, 0) }));
    node.tell(Told::Tick);
    let said = node.said();
    assert!(said.iter().any(|one| one.starts_with("StatePart")), "{said:?}");
    assert!(!said.iter().any(|one| one.starts_with("after 0")), "{said:?}");
}
