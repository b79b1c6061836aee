//! The cluster: nodes, their clocks, replica groups, keyspaces.

use zerohop_client::ClientTls;
use zerohop_wire::admin::{DamagedPartition, GroupsStatus, KeyspaceStatus, NodeStatus, NodeView, Status};
use zerohop_wire::limits::CLOCK_AHEAD_MS_MAX;
use zerohop_wire::plurals::{by_number, counted};

use super::clock::{self, ManagerHealth};
use super::finding::Finding;
use super::objects;
use crate::common::descriptors::{self, NodeDescriptors};
use crate::common::disk::{self, NodeDisk};
use crate::common::{damaged, view};
use crate::keyspace::divided_at;

/// The most nodes whose clocks are asked; in larger clusters a sample is enough.
const NODES_QUERIED_MAX: usize = 128;

/// Why the advice is to start the missing nodes.
const NOTHING_CHANGES: &str = "without a quorum no node joins, and no setting changes";

/// Half of the clock skew that servers tolerate.
const CLOCK_WARNING_MS: u64 = CLOCK_AHEAD_MS_MAX / 2;

/// Checks the cluster, which answers; asks each node's manager for its time.
pub(super) async fn check_cluster(
    status: Status,
    answers: Finding,
    damaged: &[DamagedPartition],
    tls: Option<&ClientTls>,
) -> Vec<Finding> {
    // Problems of the whole cluster come first.
    let mut findings = check_view(&status);
    findings.push(answers);
    let descriptors =
        status.nodes.iter().filter_map(|one| Some((one.id, NodeDescriptors::of(&status, one.id)?)));
    let files: Vec<Finding> = descriptors.map(|(id, found)| check_descriptors(id, found)).collect();
    let quorum = view::has_quorum(&status);
    let Status { nodes, keyspaces, groups, view, .. } = status;
    let view = view.unwrap_or_default();
    findings.extend(nodes.iter().flat_map(|one| node(one, view.node, quorum)));
    findings.extend(files);
    let up = nodes.iter().filter(|node| node.state != "down").take(NODES_QUERIED_MAX);
    let queries: Vec<_> = up
        .map(|node| {
            let (address, tls) = (node.manager.clone(), tls.cloned());
            (node.id, tokio::spawn(async move { clock::query_manager(&address, tls.as_ref()).await }))
        })
        .collect();
    for (id, health) in queries {
        let health = health.await.unwrap_or_else(|error| Err(error.to_string()));
        findings.extend(check_manager(id, health, &view));
    }
    if view.no_primary + view.stuck == 0 {
        findings.push(check_groups(&groups.unwrap_or_default(), &nodes));
    }
    findings.extend(damaged.iter().map(check_damaged));
    let is_present = |node: &&NodeStatus| node.state != "down" && node.state != "silent";
    let present = nodes.iter().filter(is_present).count();
    findings.extend(keyspaces.iter().flat_map(|keyspace| check_keyspace(keyspace, present, quorum)));
    findings.extend(objects::check_objects(&keyspaces));
    findings
}

/// What the node that was asked reports of the whole cluster, before everything else.
fn check_view(status: &Status) -> Vec<Finding> {
    let Some(view) = &status.view else { return Vec::new() };
    let about = view::seen(status).unwrap_or_default();
    let mut findings = Vec::new();
    for warning in &view.warnings {
        let check = match warning {
            one if one.starts_with("no quorum") => "quorum",
            one if one.starts_with("no answer") => "nodes",
            _ => "partitions",
        };
        let (found, advice) = warning.split_once(": ").unwrap_or((warning, "look again in a moment"));
        findings.push(Finding::problem(check, &about, found, advice));
    }
    if view.managers == 0 && view.node != 0 {
        findings.push(Finding::ok("quorum", &about, "it is a cluster of its own, and decides alone"));
    }
    if view.quorum && view.managers > 0 {
        let found = format!(
            "{} of {} of the control group {}",
            view.answering,
            counted(view.managers, "manager"),
            by_number(view.answering, "answers", "answer")
        );
        let missing = view.answering < view.managers;
        findings.push(match missing {
            false => Finding::ok("quorum", about, found),
            true => Finding::warning(
                "quorum",
                about,
                found,
                "start the others again; `zerohop node managers` names them",
            ),
        });
    }
    findings
}

fn node(node: &NodeStatus, reporter: u32, quorum: bool) -> Vec<Finding> {
    let about = format!("node {}", node.id);
    let state = match node.state.as_str() {
        "down" => Finding::problem(
            "nodes",
            &about,
            format!("is down; its manager listened at {}", node.manager),
            match quorum {
                true => format!(
                    "start it again with its data folder, or replace it: `zerohop node remove {}` after another has joined",
                    node.id
                ),
                false => format!("start it again with its data folder: {NOTHING_CHANGES}"),
            },
        ),
        "silent" => Finding::problem(
            "nodes",
            &about,
            format!("does not answer node {reporter}; its manager listened at {}", node.manager),
            "see whether its process and its machine run; start it again with its data folder",
        ),
        other => Finding::ok("nodes", &about, format!("is {other}")),
    };
    let trouble = |text: &String| {
        let advice = "it goes from this list when its cause ends; the log of the node names the cause";
        Finding::problem("nodes", &about, text.clone(), advice)
    };
    let disk = NodeDisk::of(node).map(|disk| check_disk(&about, disk));
    std::iter::once(state).chain(node.troubles.iter().map(trouble)).chain(disk).collect()
}

/// Judges the descriptors that a node reports.
fn check_descriptors(node: u32, found: NodeDescriptors) -> Finding {
    let (check, about) = ("open-files", format!("node {node}"));
    match found {
        _ if found.are_short() => {
            Finding::problem(check, about, found.words(), descriptors::advice_for_node())
        }
        _ if found.is_limit_low() => {
            Finding::warning(check, about, found.words(), descriptors::advice_for_node())
        }
        _ => Finding::ok(check, about, found.words()),
    }
}

/// Judges the room on the disk that a node reports.
fn check_disk(about: &str, disk: NodeDisk) -> Finding {
    let found = disk.words();
    match disk {
        _ if disk.is_full() => Finding::problem("disk-space", about, found, disk::ADVICE),
        _ if disk.is_low() => Finding::warning("disk-space", about, found, disk::ADVICE),
        _ => Finding::ok("disk-space", about, found),
    }
}

fn check_manager(id: u32, health: Result<ManagerHealth, String>, view: &NodeView) -> Vec<Finding> {
    let about = format!("node {id}");
    let ManagerHealth { serves, ahead_ms } = match health {
        Ok(health) => health,
        Err(why) => {
            let advice = match (view.silent.contains(&id), view.node) {
                (true, reporter) => format!("node {reporter} has no answer from it either: start it again"),
                (false, 0) => "see whether its process and its machine run".to_owned(),
                (false, reporter) if reporter == id => {
                    "it has just answered this program: is its manager's port reached by HTTP from here?"
                        .to_owned()
                }
                (false, reporter) => format!(
                    "it answers node {reporter}, which says that it is up: is there a firewall between it and this machine?"
                ),
            };
            return vec![Finding::problem(
                "reach",
                about,
                format!("cannot be reached from here: {why}"),
                advice,
            )];
        }
    };
    let advice = match view.warnings.is_empty() {
        true => "its /health over HTTP says why; it may be starting or stopping",
        false => "the problems of the whole cluster say why, as its /health over HTTP does",
    };
    let mut findings = vec![match serves {
        true => Finding::ok("reach", &about, "its manager is reached from here, and serves"),
        false => Finding::warning("reach", &about, "answers, and does not serve", advice),
    }];
    let Some(ahead) = ahead_ms else { return findings };
    let found = match ahead.unsigned_abs() {
        off if off < 50 => "its clock and this machine's agree".to_owned(),
        off if ahead > 0 => format!("its clock is {off} ms ahead of this machine's"),
        off => format!("its clock is {off} ms behind this machine's"),
    };
    let advice = "have all machines keep time by NTP or chrony: what has seen a time more than half a second ahead is refused";
    findings.push(match ahead.unsigned_abs() {
        off if off > CLOCK_AHEAD_MS_MAX => Finding::problem("clock", about, found, advice),
        off if off > CLOCK_WARNING_MS => Finding::warning("clock", about, found, advice),
        _ => Finding::ok("clock", about, found),
    });
    findings
}

fn check_groups(groups: &GroupsStatus, nodes: &[NodeStatus]) -> Finding {
    let GroupsStatus { groups, below_min_in_sync, rebuilding, moving, recovering, down, lost } = *groups;
    let (check, about) = ("partitions", "");
    if lost > 0 {
        let found = format!(
            "{lost} of {groups} {} lost: no node serves {} before nodes that are down return",
            by_number(lost, "is", "are"),
            by_number(lost, "it", "them")
        );
        return Finding::problem(
            check,
            about,
            found,
            "start those nodes again; `zerohop recover` lists the partitions",
        );
    }
    if below_min_in_sync > 0 || down > 0 || recovering > 0 {
        let found = format!(
            "of {groups}, {below_min_in_sync} {} too few copies to accept writes, {down} {} a primary that is down, {recovering} {} recovering",
            by_number(below_min_in_sync, "has", "have"),
            by_number(down, "has", "have"),
            by_number(recovering, "is", "are")
        );
        return Finding::problem(
            check,
            about,
            found,
            "bring nodes back, or add some; look again in a minute: groups repair themselves",
        );
    }
    if rebuilding > 0 {
        let found = format!(
            "{rebuilding} of {groups} {} fewer copies than the keyspace asks for",
            by_number(rebuilding, "has", "have")
        );
        let advice =
            "the cluster makes new copies, if there are nodes to copy to: look again later, or add nodes";
        return Finding::warning(check, about, found, advice);
    }
    if let Some(found) = absent_copies(groups, nodes) {
        let advice = "start the node again; after half a minute the cluster makes its copies on other nodes, if there are any: \
                      `zerohop node list` shows them";
        return Finding::warning(check, about, found, advice);
    }
    Finding::ok(
        check,
        about,
        format!("all {groups} have their copies; {moving} {} moving", by_number(moving, "is", "are")),
    )
}

/// The copies on nodes that do not answer. Groups count them as their copies until others take their place.
fn absent_copies(groups: u32, nodes: &[NodeStatus]) -> Option<String> {
    let has_copies = |node: &&NodeStatus| {
        let copies = node.primaries + node.in_sync + node.following;
        copies > 0 && matches!(node.state.as_str(), "down" | "silent")
    };
    let of = |node: &NodeStatus| {
        let copies = node.primaries + node.in_sync + node.following;
        format!("{copies} of {groups} have a copy on node {}, which does not answer", node.id)
    };
    let absent: Vec<String> = nodes.iter().filter(has_copies).map(of).collect();
    (!absent.is_empty()).then(|| format!("{}: writes since then are not in it", absent.join("; ")))
}

fn check_damaged(one: &DamagedPartition) -> Finding {
    let DamagedPartition { keyspace, partition, instance, .. } = one;
    let about = format!("{keyspace}/{partition}");
    let found = format!(
        "its only in-sync copy, of instance {instance}, is damaged, and the partition is not served: {}",
        damaged::lacking(one)
    );
    let advice = format!(
        "`zerohop recover {keyspace}/{partition}` lists the copies to continue with, and what each of them lacks"
    );
    Finding::problem("partitions", about, found, advice)
}

fn check_keyspace(keyspace: &KeyspaceStatus, nodes: usize, quorum: bool) -> Vec<Finding> {
    let KeyspaceStatus { name, replicas, min_in_sync, separators, .. } = keyspace;
    let (check, about) = ("keyspaces", format!("keyspace {name}"));
    let alter = |copies: usize| match quorum {
        true => format!("start more nodes, or `zerohop keyspace alter {name} --replicas {copies}`"),
        false => format!("start the missing nodes again: {NOTHING_CHANGES}"),
    };
    if *min_in_sync as usize > nodes {
        let found = format!(
            "needs {} of a write, and {} {} up: it accepts no writes",
            counted(*min_in_sync, "copy"),
            counted(nodes, "node"),
            by_number(nodes, "is", "are")
        );
        return vec![Finding::problem(check, about, found, alter(nodes))];
    }
    if *replicas as usize > nodes {
        let found = format!(
            "has {replicas} copies of everything as its setting, and {} {} up",
            counted(nodes, "node"),
            by_number(nodes, "is", "are")
        );
        return vec![Finding::warning(check, about, found, alter(nodes))];
    }
    if *replicas == 1 && nodes > 1 {
        let found = "has one copy of everything: what a node has is gone while it is down";
        return vec![Finding::warning(
            check,
            about,
            found,
            format!("`zerohop keyspace alter {name} --replicas 3 --min-in-sync 2`"),
        )];
    }
    let regions = match &separators[..] {
        [] => String::new(),
        some => format!("; {}", divided_at(some)),
    };
    vec![Finding::ok(
        check,
        about,
        format!("{}, {min_in_sync} of which must have a write{regions}", counted(*replicas, "copy")),
    )]
}

#[cfg(test)]
mod tests {
    use super::super::finding::Severity;
    use super::*;

    #[test]
    fn clock_skew_verdict_depends_on_server_limits() {
        for (ahead, verdict) in [
            (0, Severity::Ok),
            (-200, Severity::Ok),
            (300, Severity::Warning),
            (-400, Severity::Warning),
            (501, Severity::Problem),
            (-60_000, Severity::Problem),
        ] {
            let findings = check_manager(
                1,
                Ok(ManagerHealth { serves: true, ahead_ms: Some(ahead) }),
                &NodeView::default(),
            );
            assert_eq!(findings.last().map(|one| one.verdict), Some(verdict), "{ahead}");
        }
        assert_eq!(
            check_manager(1, Err("refused".to_owned()), &NodeView::default())[0].verdict,
            Severity::Problem
        );
        assert_eq!(
            check_manager(1, Ok(ManagerHealth { serves: false, ahead_ms: None }), &NodeView::default())[0]
                .verdict,
            Severity::Warning
        );
    }

    #[test]
    fn groups_are_judged_by_the_worst_of_them() {
        let of = |change: fn(&mut GroupsStatus)| {
            let mut groups = GroupsStatus { groups: 256, ..GroupsStatus::default() };
            change(&mut groups);
            check_groups(&groups, &[]).verdict
        };
        assert_eq!(of(|_| {}), Severity::Ok);
        assert_eq!(of(|groups| groups.moving = 3), Severity::Ok);
        assert_eq!(of(|groups| groups.rebuilding = 3), Severity::Warning);
        for worse in [
            (|groups| groups.below_min_in_sync = 1) as fn(&mut GroupsStatus),
            |groups| groups.lost = 1,
            |groups| groups.down = 1,
            |groups| groups.recovering = 1,
        ] {
            assert_eq!(of(worse), Severity::Problem);
        }
    }

    #[test]
    fn copies_on_absent_nodes_are_not_reported_as_present() {
        let groups = GroupsStatus { groups: 256, ..GroupsStatus::default() };
        for (state, is_absent) in [("up", false), ("draining", false), ("down", true), ("silent", true)] {
            let node = NodeStatus {
                id: 3,
                state: state.to_owned(),
                following: 200,
                in_sync: 7,
                ..Default::default()
            };
            let finding = check_groups(&groups, &[NodeStatus { id: 1, ..Default::default() }, node]);
            assert_eq!(finding.verdict == Severity::Warning, is_absent, "{finding}");
            let words = "207 of 256 have a copy on node 3, which does not answer";
            assert_eq!(finding.found.starts_with(words), is_absent, "{finding}");
            assert_eq!(finding.found.contains("all 256 have their copies"), !is_absent, "{finding}");
        }
        // A keyspace without copies loses nothing.
        let empty = NodeStatus { id: 3, state: "down".to_owned(), ..Default::default() };
        assert_eq!(check_groups(&groups, &[empty]).verdict, Severity::Ok);
    }

    #[test]
    fn keyspace_verdict_depends_on_live_nodes() {
        let judge = |replicas, min_in_sync, nodes| {
            let keyspace = KeyspaceStatus { replicas, min_in_sync, ..KeyspaceStatus::default() };
            check_keyspace(&keyspace, nodes, true)[0].verdict
        };
        assert_eq!((judge(1, 1, 1), judge(3, 2, 3)), (Severity::Ok, Severity::Ok));
        assert_eq!((judge(3, 2, 2), judge(1, 1, 3)), (Severity::Warning, Severity::Warning));
        assert_eq!(judge(3, 2, 1), Severity::Problem);
    }

    #[test]
    fn nothing_is_advised_that_needs_a_quorum_where_there_is_none() {
        let keyspace = KeyspaceStatus { replicas: 3, min_in_sync: 2, ..KeyspaceStatus::default() };
        let down = NodeStatus { id: 2, state: "down".to_owned(), ..NodeStatus::default() };
        for quorum in [true, false] {
            let of_keyspace = check_keyspace(&keyspace, 1, quorum)[0].to_string();
            let of_node = node(&down, 1, quorum)[0].to_string();
            assert_eq!(of_keyspace.contains("keyspace alter"), quorum, "{of_keyspace}");
            assert_eq!(of_node.contains("node remove"), quorum, "{of_node}");
        }
        let warnings = vec!["no quorum: 1 of 3 managers answers".to_owned()];
        let view = NodeView { node: 1, warnings, ..NodeView::default() };
        let unserved = ManagerHealth { serves: false, ahead_ms: None };
        let of_manager = check_manager(1, Ok(unserved), &view)[0].to_string();
        assert!(!of_manager.contains("starting or stopping"), "{of_manager}");
    }
}
