//! What must hold in every state, and what must be seen in some.

use stateright::Property;

use crate::bounds::Bounds;
use crate::model::Model;
use crate::world::{MEMBERS, Member, ReplicaWorld, Role};

/// The properties of a check within these bounds, by name.
pub(crate) fn properties(bounds: &Bounds) -> Vec<Property<Model>> {
    let mut properties = vec![
        Property::always("I1: a member that answers has everything that was acknowledged", nothing_is_lost),
        Property::always("I4: at most one member answers", one_answers),
        Property::always("logs with the same entry are the same up to it", logs_match),
        Property::always("what two members have committed is the same", commits_agree),
        Property::always("nothing committed is cut", |_, world: &ReplicaWorld| !world.broken.is_commit_cut),
        Property::always("acknowledged is what enough members hold", |_, world: &ReplicaWorld| {
            !world.broken.is_thin
        }),
        Property::always("what a member has is not given up", |_, world: &ReplicaWorld| {
            !world.broken.is_lost_needlessly
        }),
        Property::sometimes("a write is acknowledged in a later epoch", is_written_later),
    ];
    if bounds.verdicts || bounds.plans || !bounds.is_sync {
        properties.push(Property::sometimes("another primary answers", another_answers));
    }
    if bounds.restarts > 0 && (bounds.may_propose || bounds.is_sync) {
        properties
            .push(Property::sometimes("a member that has started again is in sync again", is_readmitted));
    }
    properties
}

fn is_written_later(_: &Model, world: &ReplicaWorld) -> bool {
    world.members.iter().any(|one| {
        let last = one.log.at(one.applied);
        last.is_some_and(|entry| entry.epoch > 1 && entry.write > 0)
    })
}

fn another_answers(model: &Model, world: &ReplicaWorld) -> bool {
    (1..MEMBERS).any(|me| model.may_answer(world, me))
}

fn is_readmitted(model: &Model, world: &ReplicaWorld) -> bool {
    (0..MEMBERS).any(|me| {
        let member = &world.members[me];
        member.start > 0 && member.applied > 1 && model.role(world, me) == Role::InSync
    })
}

fn nothing_is_lost(model: &Model, world: &ReplicaWorld) -> bool {
    (0..MEMBERS)
        .filter(|me| model.may_answer(world, *me))
        .all(|me| world.acknowledged & !answered_over(&world.members[me]) == 0)
}

/// The writes that a primary's answers show: what it has committed, and what it has logged itself since its mark.
fn answered_over(member: &Member) -> u8 {
    let own = member.log.writes() & !member.log.writes_up_to(member.mark);
    member.log.writes_up_to(member.applied) | own
}

fn one_answers(model: &Model, world: &ReplicaWorld) -> bool {
    (0..MEMBERS).filter(|me| model.may_answer(world, *me)).count() <= 1
}

fn logs_match(_: &Model, world: &ReplicaWorld) -> bool {
    pairs().all(|(one, other)| {
        let (one, other) = (&world.members[one].log, &world.members[other].log);
        let last = one.last().min(other.last());
        let common = (1..=last).rev().find(|index| one.epoch_at(*index) == other.epoch_at(*index));
        common.is_none_or(|index| one.agrees(other, index))
    })
}

fn commits_agree(_: &Model, world: &ReplicaWorld) -> bool {
    world.is_loss_reported
        || pairs().all(|(one, other)| {
            let (one, other) = (&world.members[one], &world.members[other]);
            one.log.agrees(&other.log, one.applied.min(other.applied))
        })
}

fn pairs() -> impl Iterator<Item = (usize, usize)> {
    (0..MEMBERS).flat_map(|one| (0..one).map(move |other| (one, other)))
}
