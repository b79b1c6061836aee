//! How much a check goes through.

use crate::rules::ReplicationRule;
use crate::world::MemberSet;

/// What may happen, and how often: everything within is tried.
#[derive(Clone, Debug)]
pub struct Bounds {
    /// The highest epoch that a group may reach; it begins with 1.
    pub epochs: u8,
    /// Writes that clients make.
    pub writes: u8,
    /// Starts of processes, in all; each member starts again at most once.
    pub restarts: u8,
    /// Whether a restart may find an empty disk.
    pub disks_lost: bool,
    /// The keyspace's durability is `sync`; otherwise a restart may lose any end of a log.
    pub is_sync: bool,
    /// See the keyspace's setting.
    pub min_in_sync: u8,
    /// The members that are in sync at first, beside member 0, the primary; the others follow.
    pub in_sync: MemberSet,
    /// Nodes may be declared dead, rightly or wrongly.
    pub verdicts: bool,
    /// Primaries may ask for admissions, removals, and to keep the group.
    pub may_propose: bool,
    /// The control group may promote and demote by its own plans.
    pub plans: bool,
    /// A rule that no member follows.
    pub without: Option<ReplicationRule>,
}

impl Bounds {
    /// A group of three of which two are in sync, at least two wanted; everything but restarts may happen.
    #[must_use]
    pub fn new(epochs: u8, writes: u8) -> Bounds {
        Bounds {
            epochs,
            writes,
            restarts: 0,
            disks_lost: false,
            is_sync: false,
            min_in_sync: 2,
            in_sync: 0b010,
            verdicts: true,
            may_propose: true,
            plans: true,
            without: None,
        }
    }

    /// Without requests of primaries.
    #[must_use]
    pub fn without_proposals(self) -> Bounds {
        Bounds { may_propose: false, ..self }
    }

    /// Without plans of the control group.
    #[must_use]
    pub fn unplanned(self) -> Bounds {
        Bounds { plans: false, ..self }
    }

    /// With so many restarts, that may lose any end of a log.
    #[must_use]
    pub fn restarting(self, restarts: u8) -> Bounds {
        Bounds { restarts, ..self }
    }

    /// Under `sync`: restarts lose nothing that was synced, but perhaps the disk.
    #[must_use]
    pub fn synced(self) -> Bounds {
        Bounds { is_sync: true, disks_lost: true, ..self }
    }

    /// With all three in sync.
    #[must_use]
    pub fn all_in_sync(self) -> Bounds {
        Bounds { in_sync: 0b110, ..self }
    }

    /// Whether a rule is followed.
    #[must_use]
    pub fn follows(&self, rule: ReplicationRule) -> bool {
        self.without != Some(rule)
    }
}
