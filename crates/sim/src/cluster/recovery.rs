//! I1: a group that has lost all in-sync replicas goes on with the log of one that still has
//! everything, if there is one. If there is none, the checker computes what may be missing.
//!
//! The judgement is made when a recovered group names a primary. Its only inputs are the replicas
//! that had everything before, and their later fate.

use zerohop_base::time::Time;
use zerohop_placement::Durability;
use zerohop_wire::ids::InstanceId;

use crate::limits::{CLOCK_RATE_MIN, CLOCK_RATE_TRUE, INTERVAL_MARGIN_US};

/// A replica that had all acknowledged writes in the last group that did not recover.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Holder {
    pub(super) instance: InstanceId,
    /// The end of its process; none while it runs.
    pub(super) end: Option<ProcessExit>,
}

/// The end of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ProcessExit {
    pub(super) at: Time,
    /// The last time at which its disks and the process worked.
    pub(super) sound_until: Time,
    /// It shut down cleanly, with working disks.
    pub(super) is_clean: bool,
    /// Its disks were lost, then or later.
    pub(super) has_lost_disks: bool,
}

/// The verdict on a group that goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RecoveryVerdict {
    /// Its log has everything.
    Complete,
    /// The end of its log may be missing: what was acknowledged before this time is there.
    MayLack(Time),
    /// It must not go on with this log: the named instance was in sync and has everything.
    MustNotContinue(InstanceId),
}

/// Judges with which log a group goes on.
pub(super) fn check_chosen_log(
    durability: Durability,
    holders: &[Holder],
    chosen: InstanceId,
) -> RecoveryVerdict {
    let holds_all = |holder: &&Holder| match holder.end {
        None => true,
        Some(end) => durability == Durability::Sync && !end.has_lost_disks,
    };
    if holders.iter().filter(holds_all).any(|holder| holder.instance == chosen) {
        return RecoveryVerdict::Complete;
    }
    // A running replica comes before one that has ended and kept its disk.
    let runs = holders.iter().find(|holder| holder.end.is_none());
    if let Some(passed) = runs.or(holders.iter().find(holds_all)) {
        return RecoveryVerdict::MustNotContinue(passed.instance);
    }
    let survives = |end: ProcessExit| match durability {
        Durability::Interval { .. } if end.has_lost_disks => Time(0),
        Durability::Interval { .. } if end.is_clean => end.at,
        Durability::Interval { ms } => {
            // The node measures the interval by its own clock, which may run slow.
            let bound_us = u64::from(ms) * 1_000 * CLOCK_RATE_TRUE / CLOCK_RATE_MIN + INTERVAL_MARGIN_US;
            Time(end.at.min(end.sound_until).0.saturating_sub(bound_us))
        }
        _ => Time(0),
    };
    let ends = holders.iter().filter_map(|holder| holder.end);
    RecoveryVerdict::MayLack(ends.map(survives).max().unwrap_or(Time(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: InstanceId = InstanceId(1);
    const B: InstanceId = InstanceId(2);
    const C: InstanceId = InstanceId(3);
    const INTERVAL: Durability = Durability::Interval { ms: 100 };
    const SECOND: u64 = 1_000_000;

    fn runs(instance: InstanceId) -> Holder {
        Holder { instance, end: None }
    }

    fn ended(instance: InstanceId, at_s: u64) -> Holder {
        let end = ProcessExit {
            at: Time(at_s * SECOND),
            sound_until: Time::NEVER,
            is_clean: false,
            has_lost_disks: false,
        };
        Holder { instance, end: Some(end) }
    }

    fn with(mut holder: Holder, change: fn(&mut ProcessExit)) -> Holder {
        holder.end.iter_mut().for_each(change);
        holder
    }

    #[test]
    fn running_member_is_chosen() {
        for durability in [Durability::Memory, INTERVAL, Durability::Sync] {
            assert_eq!(check_chosen_log(durability, &[ended(A, 5), runs(B)], B), RecoveryVerdict::Complete);
        }
        assert_eq!(
            check_chosen_log(INTERVAL, &[ended(A, 5), runs(B)], A),
            RecoveryVerdict::MustNotContinue(B)
        );
        assert_eq!(
            check_chosen_log(INTERVAL, &[ended(A, 5), runs(B)], C),
            RecoveryVerdict::MustNotContinue(B),
            "a follower"
        );
        // Its log may be as long, and under `sync` it is; any in-sync replica is as good as
        // another.
        assert_eq!(check_chosen_log(Durability::Sync, &[ended(A, 5), runs(B)], A), RecoveryVerdict::Complete);
    }

    #[test]
    fn sync_disk_has_everything_unless_lost() {
        let lost = |holder| with(holder, |end| end.has_lost_disks = true);
        assert_eq!(
            check_chosen_log(Durability::Sync, &[ended(A, 5), ended(B, 6)], A),
            RecoveryVerdict::Complete
        );
        assert_eq!(
            check_chosen_log(Durability::Sync, &[ended(A, 5), ended(B, 6)], C),
            RecoveryVerdict::MustNotContinue(A)
        );
        assert_eq!(
            check_chosen_log(Durability::Sync, &[lost(ended(A, 5)), ended(B, 6)], A),
            RecoveryVerdict::MustNotContinue(B)
        );
        assert_eq!(
            check_chosen_log(Durability::Sync, &[lost(ended(A, 5)), ended(B, 6)], B),
            RecoveryVerdict::Complete
        );
        assert_eq!(
            check_chosen_log(Durability::Sync, &[lost(ended(A, 5)), lost(ended(B, 6))], A),
            RecoveryVerdict::MayLack(Time(0))
        );
    }

    #[test]
    fn recovery_without_sync_may_lack_only_recent_writes() {
        // 100 ms by a clock that may run slow, and some slack.
        let bound = 125_000 + INTERVAL_MARGIN_US;
        let both = [ended(A, 5), ended(B, 9)];
        assert_eq!(check_chosen_log(INTERVAL, &both, A), RecoveryVerdict::MayLack(Time(9 * SECOND - bound)));
        assert_eq!(check_chosen_log(INTERVAL, &both, C), RecoveryVerdict::MayLack(Time(9 * SECOND - bound)));
        assert_eq!(check_chosen_log(Durability::Memory, &both, B), RecoveryVerdict::MayLack(Time(0)));
        let clean = with(ended(B, 9), |end| end.is_clean = true);
        assert_eq!(
            check_chosen_log(INTERVAL, &[ended(A, 5), clean], B),
            RecoveryVerdict::MayLack(Time(9 * SECOND))
        );
        let troubled = with(ended(B, 9), |end| end.sound_until = Time(3 * SECOND));
        assert_eq!(
            check_chosen_log(INTERVAL, &[troubled], B),
            RecoveryVerdict::MayLack(Time(3 * SECOND - bound))
        );
        let lost = with(ended(B, 9), |end| (end.has_lost_disks, end.is_clean) = (true, true));
        assert_eq!(check_chosen_log(INTERVAL, &[lost], B), RecoveryVerdict::MayLack(Time(0)));
    }
}
