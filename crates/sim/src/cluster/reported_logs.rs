//! I1, its second half. A group whose in-sync replicas have all restarted continues only after all of them have reported.
//! It continues with the longest log.
//!
//! ```text
//!   instance ── report of its log ──> kept, with the process that sent it
//!   map: the group recovers no more ──> judged by the reports and by the processes that this map names
//! ```

use std::collections::BTreeMap;

use zerohop_control::command::{LogEnd, LogReport};
use zerohop_placement::{ClusterMap, NodeState};
use zerohop_wire::ids::{Incarnation, InstanceId, KeyspaceId, PartitionId};

/// A report of a log, and the process that sent it.
#[derive(Clone, Copy, Debug)]
struct SentReport {
    by: Incarnation,
    end: LogEnd,
    is_intact: bool,
}

/// The reports of logs in the present recovery of each group.
#[derive(Debug, Default)]
pub(super) struct ReportedLogs {
    reports: BTreeMap<(KeyspaceId, PartitionId), BTreeMap<InstanceId, SentReport>>,
}

/// What is known of a member of a group at the time of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct MemberReport {
    instance: InstanceId,
    is_down: bool,
    /// The end that its present process has reported.
    end: Option<LogEnd>,
}

impl ReportedLogs {
    pub(super) fn report(&mut self, by: Incarnation, log: &LogReport) {
        let sent = SentReport { by, end: log.end, is_intact: log.intact };
        self.reports.entry((log.keyspace, log.partition)).or_default().insert(log.instance, sent);
    }

    /// Whether this process of an instance has reported its log.
    pub(super) fn has_reported(
        &self,
        place: (KeyspaceId, PartitionId),
        instance: InstanceId,
        process: Incarnation,
    ) -> bool {
        let sent = self.reports.get(&place).and_then(|reports| reports.get(&instance));
        sent.is_some_and(|sent| sent.by == process)
    }

    /// Judges the end of a recovery without a log that certainly has everything. `map` is the first map that shows this end. If it has
    /// several changes since `before`, a replica that is down there may have been up when the recovery ended.
    pub(super) fn end(
        &mut self,
        place: (KeyspaceId, PartitionId),
        (before, map): (&ClusterMap, &ClusterMap),
        (in_sync, chosen): (&[InstanceId], InstanceId),
    ) -> Result<(), String> {
        let reports = self.reports.remove(&place).unwrap_or_default();
        let present = |instance: InstanceId| {
            let process = map.instance(instance).map(|known| known.incarnation);
            reports.get(&instance).filter(|sent| Some(sent.by) == process)
        };
        // Under `sync` an intact log of an in-sync replica has everything.
        if in_sync.contains(&chosen)
            && present(chosen).is_some_and(|sent| sent.is_intact)
            && is_sync(map, place.0)
        {
            return Ok(());
        }
        let is_end = map.epoch().0 <= before.epoch().0 + 1;
        let is_down = |instance: InstanceId| {
            let node = map.nodes().find(|node| node.instances().any(|one| one.id == instance));
            node.is_none_or(|node| node.state() == NodeState::Down)
        };
        let members: Vec<MemberReport> = in_sync
            .iter()
            .filter(|instance| map.instance(**instance).is_some())
            .map(|instance| MemberReport {
                instance: *instance,
                is_down: is_end && is_down(*instance),
                end: present(*instance).map(|sent| sent.end),
            })
            .collect();
        judge(&members, (chosen, present(chosen).map(|sent| sent.end)))
    }

    /// A recovery has ended that needs no reports.
    pub(super) fn forget(&mut self, place: (KeyspaceId, PartitionId)) {
        self.reports.remove(&place);
    }
}

fn is_sync(map: &ClusterMap, keyspace: KeyspaceId) -> bool {
    map.keyspace(keyspace)
        .is_some_and(|known| known.config().durability == zerohop_placement::Durability::Sync)
}

fn judge(in_sync: &[MemberReport], (chosen, its_end): (InstanceId, Option<LogEnd>)) -> Result<(), String> {
    let Some(its_end) = its_end else {
        return Err(format!("goes on with the log of {chosen}, which has not reported it"));
    };
    for member in in_sync {
        let other = member.instance;
        match member.end {
            _ if member.is_down => {
                return Err(format!("goes on with the log of {chosen}, though {other}, in sync, is down"));
            }
            None => {
                return Err(format!(
                    "goes on with the log of {chosen}, though {other}, in sync, has not reported"
                ));
            }
            Some(end) if end > its_end => {
                return Err(format!(
                    "goes on with the log of {chosen} up to {its_end:?}, though that of {other}, in sync, ends at {end:?}"
                ));
            }
            Some(_) => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use zerohop_wire::ids::LogIndex;

    use super::*;

    const A: InstanceId = InstanceId(1);
    const B: InstanceId = InstanceId(2);

    fn at(epoch: u64, index: u64) -> Option<LogEnd> {
        Some(LogEnd { epoch, index: LogIndex(index) })
    }

    fn member(instance: InstanceId, end: Option<LogEnd>) -> MemberReport {
        MemberReport { instance, is_down: false, end }
    }

    #[test]
    fn all_in_sync_replicas_have_reported_and_the_highest_log_is_chosen() {
        let both = [member(A, at(2, 5)), member(B, at(3, 4))];
        assert_eq!(judge(&both, (B, at(3, 4))), Ok(()));
        assert!(judge(&both, (A, at(2, 5))).is_err(), "the end of a newer epoch is higher");
        assert!(judge(&[member(A, None), both[1]], (B, at(3, 4))).is_err(), "one has not reported");
        let dead = MemberReport { is_down: true, ..both[0] };
        assert!(judge(&[dead, both[1]], (B, at(3, 4))).is_err(), "one has died again");
        assert!(judge(&both, (B, None)).is_err(), "the chosen one has reported in an earlier start only");
    }
}
