//! The invariants of a replica, checked at the end of every step. Builds with debug assertions, which are tests and
//! simulations, check all of them. Others check those that cost the same whatever the size of the group.

use zerohop_base::invariant::{BrokenInvariant, check_rules};
use zerohop_engine::disk::Disk;
use zerohop_partition::planted::{Bug, is_planted};

use super::role_change::NO_EPOCH_MARKER;
use super::{Context, Replica, ReplicaEffects, Role};

/// The owner of these invariants.
const REPLICA: &str = "a replica";

impl Replica {
    /// The end of a step: checks the invariants of the replica and of its log. If one is broken, the replica stops.
    ///
    /// # Panics
    /// With debug assertions, if one is broken, unless a planted bug asks for what a release build does.
    #[inline]
    pub(super) fn end_step<D: Disk>(
        &mut self,
        context: &mut Context<'_, D>,
        effects: &mut dyn ReplicaEffects,
    ) {
        if is_planted(Bug::InvariantBroken) {
            self.break_epoch_marker();
        }
        if self.health.break_plan.begin() {
            self.break_members();
        }
        if let Err(broken) = self.check().and_then(|()| context.engine.check(self.partition.handle())) {
            self.report_broken(context, broken, effects);
        }
    }

    /// The end of a write at a lone replica, which changes only the partition and its log. Returns whether an invariant is broken.
    #[inline]
    pub(super) fn end_lone_write<D: Disk>(
        &mut self,
        context: &mut Context<'_, D>,
        effects: &mut dyn ReplicaEffects,
    ) -> bool {
        if cfg!(debug_assertions) || is_planted(Bug::InvariantBroken) {
            self.end_step(context, effects);
            return self.health.broken.is_some();
        }
        let Err(broken) = context.engine.check(self.partition.handle()) else { return false };
        self.report_broken(context, broken, effects);
        true
    }

    #[cold]
    fn report_broken<D: Disk>(
        &mut self,
        context: &mut Context<'_, D>,
        broken: BrokenInvariant,
        effects: &mut dyn ReplicaEffects,
    ) {
        if self.health.broken.is_some() {
            return;
        }
        let is_on_purpose = is_planted(Bug::InvariantBroken) || self.health.break_plan.is_done();
        assert!(!cfg!(debug_assertions) || is_on_purpose, "{broken}: {self:?}");
        if is_planted(Bug::BrokenServesOn) {
            return effects.invariant_broken(broken);
        }
        self.stop_broken(context, broken, effects);
    }

    /// Planted bug: breaks an invariant of a primary.
    fn break_epoch_marker(&mut self) {
        if self.role == Role::Primary && self.health.broken.is_none() {
            self.lead.epoch_marker = self.last() + 1;
        }
    }

    /// Breaks an invariant of a primary at the end of its next step, as a fault of the program would. The primary then
    /// counts an unsent entry as matched by each other member. For tests and simulations. Returns whether it
    /// will: this member is a primary whose invariants hold, in a build with debug assertions.
    pub fn break_invariant(&mut self) -> bool {
        self.role == Role::Primary && self.health.broken.is_none() && self.health.break_plan.query()
    }

    fn break_members(&mut self) {
        let next = self.last() + 1;
        for stream in &mut self.lead.streams {
            (stream.matched, stream.durable, stream.next) = (next, next, next + 1);
        }
        if self.lead.streams.is_empty() {
            self.break_epoch_marker();
        }
    }

    /// Checks the invariants.
    ///
    /// # Errors
    /// The first broken one.
    #[inline]
    pub(super) fn check(&self) -> Result<(), BrokenInvariant> {
        self.check_constant_part()?;
        // Some comparisons for each member.
        if cfg!(debug_assertions) { self.check_members() } else { Ok(()) }
    }

    /// The part of the check that release builds have: some comparisons.
    #[inline]
    fn check_constant_part(&self) -> Result<(), BrokenInvariant> {
        let (last, applied) = (self.last(), self.partition.applied());
        let is_primary = self.role == Role::Primary;
        let (lead, follow) = (&self.lead, &self.follow);
        let has_marker = lead.epoch_marker != NO_EPOCH_MARKER;
        check_rules(
            REPLICA,
            [
                (
                    follow.snapshot_install.is_some() || applied <= last,
                    "no entry is applied that is not in the log",
                ),
                (
                    !self.is_lone || is_primary && lead.streams.is_empty(),
                    "a lone replica is primary and has no streams",
                ),
                (
                    !self.is_lone || self.view.others().next().is_none(),
                    "the group of a lone replica has one member",
                ),
                (is_primary || lead.streams.is_empty(), "only a primary sends its log"),
                (is_primary || lead.wait_queue.len() == 0, "requests wait only at a primary"),
                (!is_primary || !has_marker || lead.epoch_marker <= last, "the epoch marker is in the log"),
                (
                    follow.matched.is_none_or(|matched| is_primary || matched <= last),
                    "a member has the entries that match those of its primary",
                ),
            ],
        )
    }

    fn check_members(&self) -> Result<(), BrokenInvariant> {
        let (last, lead) = (self.last(), &self.lead);
        let streams_are_members = || {
            lead.streams.len() == self.view.others().count()
                && self.view.others().all(|member| lead.streams.iter().any(|one| one.member == member))
        };
        check_rules(
            REPLICA,
            [
                (
                    self.role != Role::Primary || streams_are_members(),
                    "a primary has a stream for each other member",
                ),
                (
                    lead.streams.iter().all(|one| one.matched <= last && one.matched < one.next),
                    "no member has entries that were not sent, or that the primary does not have",
                ),
            ],
        )
    }
}
