//! Grants: which member may use which, and what has been waited out.
//!
//! Time is left out. What a grant is worth is when it ends, and the clocks' part (a grant counts from when it was asked
//! for, a granter waits an eighth longer from when it gave it) is one sentence: *when a granter has waited, the holder can
//! use that grant no more*. So a grant ends at any moment, and a member that waits has waited once it has ended.
//!
//! A member at the map of epoch e may be taken to have just granted all members, so such grants are not kept; when it goes
//! on to a newer map, or starts again, what it has given stays behind, until it ends.

use crate::model::Model;
use crate::rules::ReplicationRule;
use crate::world::{EPOCHS, MEMBERS, MemberSet, ReplicaWorld, STARTS, each, has, only};

/// A set of map epochs below one.
fn below(epoch: u8) -> u8 {
    ((1_u16 << epoch) - 1) as u8
}

impl Model {
    /// Whether a holder can have a grant of this member, as its present group names it, that it may use now.
    pub(crate) fn may_have_lease(&self, world: &ReplicaWorld, holder: usize, granter: usize) -> bool {
        let (me, other) = (&world.members[holder], &world.members[granter]);
        let start = world.view(holder).starts[granter];
        let is_usable = other.known <= me.known || !self.follows(ReplicationRule::NewerGrantsWait);
        if other.start == start && is_usable {
            return true;
        }
        let place = usize::from(start);
        let kept = world.grants[granter][place][holder] | world.late[granter][place][holder];
        kept & below(me.known + 1) != 0
    }

    /// Whether it can have those of all members that it needs.
    pub(crate) fn may_have_all_leases(&self, world: &ReplicaWorld, holder: usize) -> bool {
        !self.follows(ReplicationRule::LeaseBeforeAnswers)
            || each(self.needed(world, holder)).all(|granter| self.may_have_lease(world, holder, granter))
    }

    /// Whether no member can use a grant any more that this member has to wait out.
    pub(crate) fn has_waited(&self, world: &ReplicaWorld, me: usize) -> bool {
        let member = &world.members[me];
        if !self.follows(ReplicationRule::GrantsWaitedOut) {
            return true;
        }
        let start = usize::from(member.start);
        let earlier = |holder: usize| {
            self.follows(ReplicationRule::StartIsAGrant)
                && (0..start).any(|start| world.grants[me][start][holder] != 0)
        };
        let own = |holder: usize| world.grants[me][start][holder] & below(member.promoted) != 0;
        let is_in_use = each(member.waits).any(|holder| own(holder) || earlier(holder));
        let start_is_in_use = member.waits_start && (0..MEMBERS).any(earlier);
        !is_in_use && !start_is_in_use
    }

    /// A member goes on to another map, or starts again: what it has given may be in use for a while.
    pub(crate) fn leave_grants(&self, world: &mut ReplicaWorld, granter: usize) {
        let member = world.members[granter];
        for holder in (0..MEMBERS).filter(|holder| *holder != granter) {
            world.grants[granter][usize::from(member.start)][holder] |= 1 << member.known;
        }
    }

    /// A process that has ended uses no grants, and its next one was given none.
    pub(crate) fn drop_grants_to(&self, world: &mut ReplicaWorld, holder: usize) {
        for by_start in world.grants.iter_mut().chain(&mut world.late).flatten() {
            by_start[holder] = 0;
        }
    }

    /// Time passes, until this member has waited. Grants without a waiting member need not end: no member has to use them.
    pub(crate) fn wait(&self, world: &mut ReplicaWorld, me: usize) -> Option<()> {
        let member = world.members[me];
        let start = usize::from(member.start);
        for holder in 0..MEMBERS {
            let is_waited_for = has(member.waits, holder);
            if is_waited_for {
                world.grants[me][start][holder] &= !below(member.promoted);
            }
            if (is_waited_for || member.waits_start) && self.follows(ReplicationRule::StartIsAGrant) {
                for earlier in 0..start {
                    world.grants[me][earlier][holder] = 0;
                }
            }
        }
        Some(())
    }

    /// Forgets grants that no member can ever use: they might as well have ended.
    pub(crate) fn forget_useless_grants(&self, world: &mut ReplicaWorld) {
        for granter in 0..MEMBERS {
            for start in 0..STARTS {
                for holder in 0..MEMBERS {
                    let useful = self.useful_maps(world, (granter, start as u8), holder);
                    world.grants[granter][start][holder] &= useful;
                    world.late[granter][start][holder] &= useful;
                }
            }
        }
    }

    /// Under which maps a grant could yet let a holder answer.
    fn useful_maps(&self, world: &ReplicaWorld, (granter, start): (usize, u8), holder: usize) -> u8 {
        let (me, other) = (&world.members[holder], &world.members[granter]);
        let is_present = other.start == start;
        // What it needs at epochs that the granter has not passed, the granter gives it again.
        let last = if is_present && other.known > 0 { other.known - 1 } else { world.control.epoch };
        let acts = (me.known.max(1)..=last).rev().find(|epoch| {
            let group = world.group(*epoch);
            let members = group.copies() | group.followers;
            group.primary() == holder
                && group.starts[holder] == me.start
                && group.starts[granter] == start
                && has(members & !only(holder), granter)
        });
        let is_named = !is_present && world.present().starts[granter] == start;
        match acts {
            _ if is_named => u8::MAX,
            Some(epoch) => below(epoch + 1),
            None => 0,
        }
    }

    /// The epochs of which a late grant may come, where a rule is left out.
    pub(crate) fn late_grants(&self, world: &ReplicaWorld, granter: usize) -> impl Iterator<Item = u8> {
        let known = world.members[granter].known.min(EPOCHS as u8 - 1);
        1..known
    }

    /// All whose copies and grants count for a primary.
    pub(crate) fn needed(&self, world: &ReplicaWorld, primary: usize) -> MemberSet {
        let member = &world.members[primary];
        let mut needed = world.view(primary).in_sync;
        if !self.follows(ReplicationRule::UndecidedRemovalWaits) {
            needed &= !member.removing;
        }
        if self.follows(ReplicationRule::UndecidedAdmissionCounts) {
            needed |= member.admitting;
        }
        needed & !only(primary)
    }
}
