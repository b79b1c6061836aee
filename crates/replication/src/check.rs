//! The invariants of a replica, checked at the end of every step in builds with debug assertions: tests and simulations.

use super::role_change::NO_EPOCH_MARKER;
use super::{Replica, Role};

impl Replica {
    /// Asserts the invariants; see [`Replica::broken_invariant`].
    ///
    /// # Panics
    /// With debug assertions, if one is broken.
    pub(super) fn check(&self) {
        if cfg!(debug_assertions)
            && let Some(invariant) = self.broken_invariant()
        {
            panic!("an invariant of a replica is broken: {invariant}: {self:?}");
        }
    }

    /// The first broken invariant. The cost is some comparisons for each member.
    fn broken_invariant(&self) -> Option<&'static str> {
        let (last, applied) = (self.last(), self.partition.applied());
        let is_primary = self.role == Role::Primary;
        let (lead, follow) = (&self.lead, &self.follow);
        let has_marker = lead.epoch_marker != NO_EPOCH_MARKER;
        let streams_are_members = || {
            lead.streams.len() == self.view.others().count()
                && self.view.others().all(|member| lead.streams.iter().any(|one| one.member == member))
        };
        let rules = [
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
            (!is_primary || streams_are_members(), "a primary has a stream for each other member"),
            (!is_primary || !has_marker || lead.epoch_marker <= last, "the epoch marker is in the log"),
            (
                lead.streams.iter().all(|one| one.matched <= last && one.matched < one.next),
                "no member has entries that were not sent, or that the primary does not have",
            ),
            (
                follow.matched.is_none_or(|matched| is_primary || matched <= last),
                "a member has the entries that match those of its primary",
            ),
        ];
        rules.into_iter().find(|(is_kept, _)| !is_kept).map(|(_, invariant)| invariant)
    }
}
