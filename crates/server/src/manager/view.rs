//! The cluster as seen by this node, for every report: the control group, nodes that do not answer, and groups without progress.

use zerohop_control::agent::ClusterStatus;
use zerohop_placement::{ClusterMap, Group, GroupService, GroupState};
use zerohop_wire::admin;
use zerohop_wire::ids::NodeId;
use zerohop_wire::plurals::{by_number, counted};

use super::clustered;
use super::groups;
use super::instances::InstanceFigures;
use super::reachability::reachability;
use super::shared::{ManagerShared, NodePhase};

/// The state of a node that runs in a cluster that cannot serve most partitions.
pub(super) const UNSERVED: &str = "unserved";

/// The view; see the module.
#[derive(Clone, Debug, Default)]
pub(super) struct ClusterView {
    pub(super) node_view: admin::NodeView,
    /// The numbers of replica groups by the map.
    groups: admin::GroupsStatus,
    /// Those with their primary on this node.
    primaries_here: u32,
    /// Of the groups without a primary, the number for which a log is being chosen.
    choosing: u32,
    /// The number that no replica can serve.
    lost: u32,
}

impl ClusterView {
    /// The current view.
    pub(super) async fn of(shared: &ManagerShared) -> ClusterView {
        let map = shared.history.borrow().map().clone();
        let status = clustered::cluster_state(shared).await;
        ClusterView::from(&map, status, shared.node.get())
    }

    fn from(map: &ClusterMap, status: Option<ClusterStatus>, node: NodeId) -> ClusterView {
        let groups = groups::count(map).all;
        let Some(status) = status else {
            // A standalone node decides by itself.
            let node_view = admin::NodeView {
                node: node.0,
                leader: node.0,
                quorum: true,
                managers: 1,
                answering: 1,
                ..admin::NodeView::default()
            };
            return ClusterView { node_view, groups, primaries_here: groups.groups, choosing: 0, lost: 0 };
        };
        let reachability = reachability(&status);
        let has_none = |group: &Group<'_>| reachability.service(map, group).lacks_primary();
        let no_primary = count(map, has_none);
        let stuck = count(map, |group| reachability.service(map, group) == GroupService::Stuck);
        let choosing =
            count(map, |group| group.state == GroupState::Recovering && !map.is_unavailable(*group));
        let is_here = |group: &Group<'_>| map.instance(group.primary).is_some_and(|found| found.node == node);
        let primaries_here = count(map, is_here);
        let (answering, managers) = status.answering();
        let mut node_view = admin::NodeView {
            node: status.node.map_or(0, |node| node.0),
            leader: status.leader_node.map_or(0, |node| node.0),
            age_ms: status.leaderless_ms,
            quorum: reachability.has_quorum,
            managers: managers as u32,
            answering: answering as u32,
            silent: reachability.silent.iter().map(|node| node.0).collect(),
            no_primary,
            stuck,
            waits_for: status.waits_for.clone().unwrap_or_default(),
            warnings: Vec::new(),
            log_failed: 0,
            not_split: 0,
        };
        let lost = count(map, |group| has_none(group) && map.is_unavailable(*group));
        node_view.warnings = warnings(map, &status, &node_view, (groups.groups, lost));
        ClusterView { node_view, groups, primaries_here, choosing, lost }
    }

    /// Adds the partitions with their primary on this node that accept no writes, as its log has failed, or that wait for their
    /// split. Only the instances know them.
    pub(super) fn add_own_partitions(&mut self, figures: &[InstanceFigures]) {
        let keyspaces = figures.iter().flatten().flat_map(|figures| figures.stats.keyspaces.values());
        let failed: u64 = keyspaces.map(|keyspace| keyspace.failed_primaries).sum();
        let failed = u32::try_from(failed).unwrap_or(u32::MAX).min(self.groups.groups);
        self.node_view.log_failed = failed;
        let not_split: u64 =
            figures.iter().flatten().map(|figures| figures.stats.splits_pending.primaries).sum();
        self.node_view.not_split = u32::try_from(not_split).unwrap_or(u32::MAX).min(self.groups.groups);
        if failed > 0 {
            let warning = log_failed_warning(failed, self.groups.groups, self.node_view.node);
            self.node_view.warnings.push(warning);
        }
    }

    /// How many partitions are served.
    pub(super) fn service(&self) -> PartitionService {
        let admin::NodeView { quorum, no_primary, stuck, log_failed, not_split, .. } = self.node_view;
        let Self { primaries_here, choosing, lost, .. } = *self;
        let admin::GroupsStatus { groups, below_min_in_sync, .. } = self.groups;
        let unserved = self.node_view.unserved(&self.groups);
        PartitionService {
            quorum,
            groups,
            unserved,
            no_primary,
            stuck,
            below_min_in_sync,
            primaries_here,
            log_failed,
            not_split,
            choosing,
            lost,
        }
    }

    /// The reason why too little is served, if that will not change by itself.
    pub(super) fn unserved_reason(&self) -> Option<String> {
        self.service().is_too_little().then(|| self.node_view.warnings.join("; "))
    }
}

/// The numbers of partitions by their service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PartitionService {
    quorum: bool,
    pub(super) groups: u32,
    /// As the status counts them, those without writes too.
    unserved: u32,
    pub(super) no_primary: u32,
    pub(super) stuck: u32,
    pub(super) below_min_in_sync: u32,
    /// With their primary on this node.
    primaries_here: u32,
    /// Those of them that accept no writes.
    pub(super) log_failed: u32,
    /// Those of them that wait for their split.
    pub(super) not_split: u32,
    choosing: u32,
    lost: u32,
}

impl PartitionService {
    /// Number of partitions that serve all requests.
    pub(super) fn served(self) -> u32 {
        self.groups.saturating_sub(self.unserved)
    }

    /// Whether no partition is served at all, or most are not, and that will not change by itself: without a quorum no partition gets another primary, and
    /// with one, all but the lost partitions get one within a moment. Also whether most partitions of this node accept no writes: only a new start of
    /// the node changes that.
    fn is_too_little(self) -> bool {
        let is_most_of = |count: u32, all: u32| u64::from(count) * 2 > u64::from(all);
        let is_most = |count: u32| is_most_of(count, self.groups);
        if self.log_failed > 0 && is_most_of(self.log_failed, self.primaries_here) {
            return true;
        }
        match self.quorum {
            false => self.groups == 0 || is_most(self.no_primary + self.stuck),
            true => {
                // Partitions with too few copies in sync serve reads.
                let stopped = self.no_primary + self.stuck + self.log_failed;
                is_most(self.lost) || (self.groups > 0 && stopped >= self.groups && self.choosing == 0)
            }
        }
    }
}

/// The most important warnings, each with what the operator can do.
fn warnings(
    map: &ClusterMap,
    status: &ClusterStatus,
    node_view: &admin::NodeView,
    (groups, lost): (u32, u32),
) -> Vec<String> {
    let mut warnings = Vec::new();
    if !node_view.quorum {
        warnings.push(format!(
            "{status}: the map is as old. No node takes over from nodes that fail, and nothing can be changed. Start the missing \
             managers again, with their folders. If more than half of them are permanently lost: stop this node, and run \
             `zerohop recover --control-group DIR` on its folder (docs/operations.md)"
        ));
    }
    let silent: Vec<String> = node_view
        .silent
        .iter()
        .filter_map(|id| map.node(NodeId(*id)).map(|node| format!("node {id} ({})", node.manager())))
        .collect();
    if !silent.is_empty() {
        let by = node_view.node;
        let it = by_number(silent.len(), "it", "them");
        let advice = match node_view.quorum {
            true => format!(
                "the control group will mark {it} as down; start {it} again with {} folder, or see whether the network between the two \
                 works: `zerohop node list` shows when {} up",
                by_number(silent.len(), "its", "their"),
                by_number(silent.len(), "it is", "they are")
            ),
            false => format!(
                "the map has {it} as up, because the control group cannot decide: start the managers again that `zerohop node managers` \
                 lists"
            ),
        };
        warnings.push(format!("no answer from {} to node {by}: {advice}", silent.join(", ")));
    }
    if node_view.no_primary > 0 {
        let advice = advice_without_primary(node_view.quorum, node_view.no_primary, lost);
        warnings.push(format!(
            "no primary for {} of {}: {advice}",
            node_view.no_primary,
            counted(groups, "partition")
        ));
    }
    if node_view.stuck > 0 {
        warnings.push(format!(
            "{} of {} {} blocked although the primary is up, because an in-sync replica does not answer: {}",
            node_view.stuck,
            counted(groups, "partition"),
            by_number(node_view.stuck, "is", "are"),
            match node_view.quorum {
                true =>
                    "that ends when its node is marked as down, usually within seconds; start the node again that `zerohop node list` \
                     shows as silent",
                false => "start the managers again that `zerohop node managers` lists: then the control group decides without it",
            }
        ));
    }
    warnings
}

/// The warning about partitions whose log has failed on this node.
fn log_failed_warning(failed: u32, groups: u32, node: u32) -> String {
    format!(
        "{failed} of {} {} no writes: {} log on node {node} has failed. Repair the disk of node {node}, and start the node again",
        counted(groups, "partition"),
        by_number(failed, "accepts", "accept"),
        by_number(failed, "its", "their")
    )
}

/// When partitions without a primary are served again, of which some are lost.
fn advice_without_primary(quorum: bool, no_primary: u32, lost: u32) -> String {
    let (are, them) = (by_number(lost, "is", "are"), by_number(lost, "it", "them"));
    match lost {
        _ if !quorum => {
            let they = by_number(no_primary, "it is", "they are");
            format!(
                "{they} not served before the control group decides again: start the managers again that `zerohop node managers` lists"
            )
        }
        0 => {
            let they = by_number(no_primary, "it is", "they are");
            format!("{they} served again as soon as another copy takes over, usually within seconds")
        }
        all if all == no_primary => format!(
            "{} lost, and not served before a node with an in-sync copy returns; `zerohop recover` lists {them}",
            by_number(lost, "it is", "all of them are")
        ),
        some => format!(
            "{some} of them {are} lost, and not served before a node with an in-sync copy returns (`zerohop recover` lists {them}); the others \
             are served again as soon as another copy takes over, usually within seconds"
        ),
    }
}

fn count(map: &ClusterMap, is_so: impl Fn(&Group<'_>) -> bool) -> u32 {
    let groups = map.keyspaces().flat_map(|(_, keyspace)| keyspace.groups());
    groups.filter(|(_, group)| is_so(group)).count() as u32
}

/// The reason why the node does not serve, with a name for it; `None` if it does.
pub(super) fn unserved_reason(shared: &ManagerShared, view: &ClusterView) -> Option<(&'static str, String)> {
    let phase = shared.phase();
    if phase == NodePhase::Recovering
        && let Some(waits_for) = shared.waits.borrow().as_ref()
    {
        return Some(("waiting", format!("the node waits for {waits_for}")));
    }
    if let Some(reason) = phase.unserved_reason() {
        return Some((phase.name(), reason));
    }
    view.unserved_reason().map(|reason| (UNSERVED, reason))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_is_unhealthy_once_most_partitions_cannot_be_served() {
        let all = PartitionService {
            quorum: true,
            groups: 256,
            unserved: 0,
            no_primary: 0,
            stuck: 0,
            below_min_in_sync: 0,
            primaries_here: 256,
            log_failed: 0,
            not_split: 0,
            choosing: 0,
            lost: 0,
        };
        assert!(!all.is_too_little());
        let headless = PartitionService { quorum: false, ..all };
        assert!(!headless.is_too_little(), "everything is served, and will be until a node fails");
        // One partition with all its copies on the surviving node hides nothing.
        for (no_primary, stuck, expected) in
            [(255, 0, true), (100, 155, true), (129, 0, true), (128, 0, false)]
        {
            let some = PartitionService { no_primary, stuck, ..headless };
            assert_eq!(some.is_too_little(), expected, "{some:?}");
            let soon = PartitionService { quorum: true, ..some };
            assert!(!soon.is_too_little(), "other copies take over");
        }
        let lost = |lost| PartitionService { no_primary: 200, lost, ..all };
        assert!(lost(129).is_too_little() && !lost(128).is_too_little());
        assert!(PartitionService { stuck: 256, ..all }.is_too_little());
        let failed = |log_failed| PartitionService { log_failed, ..all };
        assert!(failed(255).is_too_little() && failed(129).is_too_little() && !failed(128).is_too_little());
        let third = |log_failed| PartitionService { primaries_here: 85, ..failed(log_failed) };
        assert!(third(43).is_too_little() && !third(42).is_too_little(), "most of its own");
        assert!(!PartitionService { no_primary: 256, choosing: 1, ..all }.is_too_little());
        assert!(PartitionService { quorum: false, groups: 0, ..all }.is_too_little(), "no map is known");
        assert!(!PartitionService { groups: 0, ..all }.is_too_little(), "there is no keyspace");
    }

    #[test]
    fn partitions_without_writes_are_not_served_and_make_no_node_unhealthy() {
        let view = |groups, node_view| ClusterView { groups, node_view, ..ClusterView::default() };
        let all = admin::GroupsStatus { groups: 256, ..admin::GroupsStatus::default() };
        let quorum = admin::NodeView { quorum: true, ..admin::NodeView::default() };
        assert_eq!(view(all, quorum.clone()).service().served(), 256);
        let restarted = admin::GroupsStatus { below_min_in_sync: 256, ..all };
        let restarted = view(restarted, quorum.clone());
        assert_eq!((restarted.service().served(), restarted.unserved_reason()), (0, None));
        let stopped = admin::NodeView { no_primary: 2, stuck: 3, log_failed: 4, ..quorum };
        let some = admin::GroupsStatus { below_min_in_sync: 7, recovering: 2, ..all };
        assert_eq!(view(some, stopped).service().served(), 247, "one group may be in several of these sets");
    }

    #[test]
    fn advice_distinguishes_partitions_without_primary_from_lost_ones() {
        let soon = "served again as soon as another copy takes over, usually within seconds";
        assert_eq!(advice_without_primary(true, 3, 0), format!("they are {soon}"));
        assert_eq!(advice_without_primary(true, 1, 0), format!("it is {soon}"));
        let all = advice_without_primary(true, 256, 256);
        assert!(
            all.starts_with("all of them are lost, and not served before") && !all.contains("seconds"),
            "{all}"
        );
        let one = advice_without_primary(true, 1, 1);
        assert!(one.starts_with("it is lost") && one.ends_with("`zerohop recover` lists it"), "{one}");
        let some = advice_without_primary(true, 5, 2);
        assert!(some.starts_with("2 of them are lost, ") && some.ends_with(soon), "{some}");
        assert!(advice_without_primary(true, 5, 1).starts_with("1 of them is lost, "));
        for lost in [0, 2, 5] {
            let advice = advice_without_primary(false, 5, lost);
            let start =
                "they are not served before the control group decides again: start the managers again";
            assert!(advice.starts_with(start) && advice.contains("`zerohop node managers`"), "{advice}");
        }
    }
}
