//! The parts of a replica: what it knows as primary, as a follower, of former primaries, and of its own copy.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use zerohop_base::invariant::BrokenInvariant;
use zerohop_wire::ids::{InstanceId, PartitionEpoch};

use crate::entry_repair::EntryRepair;
use crate::follower_progress::Stream;
use crate::snapshot_install::SnapshotInstall;
use crate::sole_copy_corrupt::Damage;
use crate::view::{GroupChange, Member};
use crate::wait_queue::WaitQueue;
use crate::waiting_messages::WaitingMessages;

/// Whether this member's copy is complete and readable.
#[derive(Debug)]
pub(crate) struct CopyHealth {
    /// The log does not represent a complete state, so the replica must install a snapshot.
    pub(crate) needs_state: bool,
    /// The log was found without damage.
    pub(crate) is_intact: bool,
    /// The replica has found a corrupt entry that no member can repair.
    pub(crate) has_corruption: bool,
    /// The corrupt entries that are being repaired.
    pub(crate) repair: EntryRepair,
    pub(crate) damage: Damage,
    /// The broken invariant because of which the replica has stopped.
    pub(crate) broken: Option<BrokenInvariant>,
    pub(crate) break_plan: BreakPlan,
}

/// Whether a test or a simulation has asked for a broken invariant. Without debug assertions it never has, and this needs no
/// memory.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BreakPlan {
    #[cfg(debug_assertions)]
    is_requested: bool,
    #[cfg(debug_assertions)]
    is_done: bool,
}

#[cfg(debug_assertions)]
impl BreakPlan {
    /// Asks for it. Whether this build can.
    pub(crate) fn query(&mut self) -> bool {
        self.is_requested = true;
        true
    }

    /// Whether the invariant is to be broken now; this is so once.
    pub(crate) fn begin(&mut self) -> bool {
        let is_due = std::mem::take(&mut self.is_requested);
        self.is_done |= is_due;
        is_due
    }

    /// Whether the invariant was broken on purpose.
    pub(crate) fn is_done(self) -> bool {
        self.is_done
    }
}

#[cfg(not(debug_assertions))]
impl BreakPlan {
    pub(crate) const fn query(self) -> bool {
        false
    }

    pub(crate) const fn begin(self) -> bool {
        false
    }

    pub(crate) const fn is_done(self) -> bool {
        false
    }
}

impl Default for CopyHealth {
    fn default() -> CopyHealth {
        CopyHealth {
            needs_state: false,
            is_intact: true,
            has_corruption: false,
            repair: EntryRepair::default(),
            damage: Damage::default(),
            broken: None,
            break_plan: BreakPlan::default(),
        }
    }
}

/// What a replica may send of snapshots, and what it keeps for them.
#[derive(Debug)]
pub(crate) struct SendBudget {
    /// Compaction of the log is on hold.
    pub(crate) compaction_on_hold: bool,
    /// The number of the last snapshot that the replica has started to send.
    pub(crate) attempts: u64,
    /// See [`Replica::set_copy_allowance`](crate::Replica::set_copy_allowance) and
    /// [`Replica::take_copied_bytes`](crate::Replica::take_copied_bytes).
    pub(crate) copy_allowance: u64,
    pub(crate) copied_bytes: u64,
}

impl Default for SendBudget {
    fn default() -> SendBudget {
        SendBudget { compaction_on_hold: false, attempts: 0, copy_allowance: u64::MAX, copied_bytes: 0 }
    }
}

/// The state of a primary.
#[derive(Debug, Default)]
pub(crate) struct PrimaryState {
    pub(crate) streams: Vec<Stream>,
    /// The log index of the epoch marker. The primary answers once it is committed.
    pub(crate) epoch_marker: u64,
    pub(crate) pending_change: Option<PendingChange>,
    /// All members that requests of this epoch ask to admit. They may be in sync already.
    pub(crate) admitting: Vec<Member>,
    /// All members that requests of this epoch ask to remove.
    pub(crate) removing: Vec<Member>,
    pub(crate) admission_requested: Option<Member>,
    pub(crate) wait_queue: WaitQueue,
    /// They also wait at a member that is about to become primary.
    pub(crate) waiting_messages: WaitingMessages,
    /// The leases had ended at the last check.
    pub(crate) is_lapsed: bool,
}

/// A change that was requested and whose decision is not known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PendingChange {
    pub(crate) change: GroupChange,
    pub(crate) since_us: u64,
    pub(crate) sent_us: u64,
}

/// What a replica knows of primaries of older epochs, which may still be active.
#[derive(Debug)]
pub(crate) struct FormerPrimaries {
    /// For each instance, the time until which grants to it as an older primary may be in use.
    pub(crate) waits: BTreeMap<InstanceId, u64>,
    /// The same time for older primaries that this replica may not know.
    pub(crate) wait_us: u64,
    /// Primaries of epochs that may still be in use.
    pub(crate) instances: BTreeSet<InstanceId>,
    /// There may be older primaries that this replica does not know.
    pub(crate) has_unknown: bool,
    /// By instance, the newest epoch in which a former primary has reported to act.
    pub(crate) yielded: BTreeMap<InstanceId, PartitionEpoch>,
    /// The replica was primary and has not sent its `Yield` yet, because readers may rely on its read locks.
    pub(crate) yield_due: bool,
}

impl Default for FormerPrimaries {
    fn default() -> FormerPrimaries {
        FormerPrimaries {
            waits: BTreeMap::new(),
            wait_us: 0,
            instances: BTreeSet::new(),
            has_unknown: true,
            yielded: BTreeMap::new(),
            yield_due: false,
        }
    }
}

/// The state of an in-sync replica or a follower.
#[derive(Debug, Default)]
pub(crate) struct FollowerState {
    /// The log index up to which its log equals the primary's, in this epoch.
    pub(crate) matched: Option<u64>,
    /// The newest commit index that the primary has reported.
    pub(crate) reported_commit: u64,
    pub(crate) ack_due: bool,
    /// The durable index that was last reported to the primary.
    pub(crate) reported_durable: u64,
    /// When the replica last reported that it needs a snapshot.
    pub(crate) reported_us: u64,
    pub(crate) snapshot_install: Option<SnapshotInstall>,
    /// Since when its disk has been full.
    pub(crate) full_since_us: Option<u64>,
    /// When the replica last reported that to the primary; 0: it has not reported it to this primary.
    pub(crate) full_reported_us: u64,
    /// Messages of an epoch whose map has not arrived.
    pub(crate) early: VecDeque<Vec<u8>>,
}
