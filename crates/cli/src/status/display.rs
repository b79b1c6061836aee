//! The output of `zerohop status`, as JSON and as text.

use std::fmt;
use std::num::{NonZeroU32, NonZeroU64};

use serde::Serialize;
use zerohop_wire::admin::{DamagedPartition, GroupsStatus, InstanceStatus, NodeStatus, Status};
use zerohop_wire::plurals::{by_number, counted};

use super::verdict::{StatusTotals, StatusVerdict, judge};
use crate::common::descriptors::{self, NodeDescriptors};
use crate::common::disk::{self, NodeDisk};
use crate::common::quantity::format_bytes;
use crate::common::view::{self, ViewOutput};
use crate::keyspace::KeyspaceOutput;
use crate::layer::LayerSurvey;

/// The JSON. `nodes` and `keyspaces` and their first fields are a contract; others may be added.
#[derive(Debug, Serialize)]
pub(super) struct StatusOutput {
    /// Whether everything is served and complete.
    verdict: StatusVerdict,
    totals: StatusTotals,
    nodes: Vec<StatusNode>,
    keyspaces: Vec<KeyspaceOutput>,
    #[serde(flatten)]
    layers: LayerSurvey,
    map_epoch: u64,
    /// The cluster id, in hexadecimal digits.
    cluster: String,
    groups: GroupCountsOutput,
    /// The node whose view this is, and the age of the view.
    view: ViewOutput,
    /// The sentence of the verdict.
    #[serde(skip)]
    verdict_line: String,
    #[serde(skip)]
    first: Vec<String>,
    #[serde(skip)]
    seen: Option<String>,
    /// Warnings for an operator, beside the troubles of nodes.
    warnings: Vec<String>,
}

/// Replica groups, over all keyspaces.
#[derive(Debug, Serialize)]
struct GroupCountsOutput {
    total: u32,
    below_min_in_sync: u32,
    rebuilding: u32,
    moving: u32,
    recovering: u32,
    down: u32,
    lost: u32,
}

#[derive(Debug, Serialize)]
struct StatusNode {
    id: u32,
    state: String,
    /// `None`: the node has not answered. `version` and the figures are then not known either.
    pid: Option<NonZeroU32>,
    manager: String,
    instances: Vec<InstanceOutput>,
    /// `None`: the node has not answered.
    version: Option<String>,
    started_ms: Option<NonZeroU64>,
    troubles: Vec<String>,
    primaries: u32,
    in_sync: u32,
    following: u32,
    /// It is a manager of the control group.
    in_control: bool,
    /// Partitions whose only in-sync copy is damaged.
    damaged: Vec<DamagedReplicaOutput>,
    /// `None`: the node has not reported them.
    descriptors: Option<NodeDescriptors>,
    #[serde(flatten)]
    disk: DiskOutput,
}

/// Free and all bytes of the disk of a node's data folder; null: not reported, or it has no data folder.
#[derive(Debug, Serialize)]
struct DiskOutput {
    disk_free_bytes: Option<u64>,
    disk_total_bytes: Option<u64>,
    #[serde(skip)]
    known: Option<NodeDisk>,
}

impl DiskOutput {
    fn of(node: &NodeStatus) -> Self {
        let known = NodeDisk::of(node);
        DiskOutput {
            disk_free_bytes: known.map(|_| node.disk_free_bytes),
            disk_total_bytes: known.map(|_| node.disk_total_bytes),
            known,
        }
    }
}

/// A damaged copy of a partition.
#[derive(Debug, Serialize)]
struct DamagedReplicaOutput {
    keyspace: String,
    partition: u32,
    instance: u32,
    /// Number of places.
    found: u64,
    /// The first of them, in words.
    named: Vec<String>,
}

#[derive(Debug, Serialize)]
struct InstanceOutput {
    id: u32,
    addr: String,
    #[serde(flatten)]
    figures: InstanceFigures,
}

/// The figures of an instance; null in JSON if its node has not answered.
#[derive(Debug, Default, Serialize)]
struct InstanceFigures {
    partitions: Option<u32>,
    entries: Option<u64>,
    log_bytes: Option<u64>,
    resident_bytes: Option<u64>,
    connections: Option<u32>,
}

impl StatusOutput {
    /// What a status says, and what the queues and logs of the cluster have.
    pub(super) fn new(status: Status, layers: LayerSurvey) -> Self {
        let totals = StatusTotals::of(&status);
        let without_keyspaces = Status { keyspaces: Vec::new(), ..status.clone() };
        let (first, seen) = (view::first(&status), view::seen(&status));
        let view = status.view.as_ref().map(ViewOutput::of).unwrap_or_default();
        let GroupsStatus { groups, below_min_in_sync, rebuilding, moving, recovering, down, lost } =
            status.groups.unwrap_or_default();
        let keyspaces: Vec<KeyspaceOutput> =
            status.keyspaces.into_iter().map(KeyspaceOutput::in_status).collect();
        let gone: Vec<u32> =
            status.nodes.iter().filter(|node| node.state == "down").map(|node| node.id).collect();
        // Problems of the whole cluster come first.
        let mut warnings = first.clone();
        warnings.extend(gone.iter().map(|id| format!("node {id} is down")));
        let disks = status.nodes.iter().filter_map(|node| Some((node.id, NodeDisk::of(node)?)));
        warnings.extend(
            disks
                .filter(|(_, disk)| disk.is_low())
                .map(|(id, disk)| format!("of the disk of node {id} {}: {}", disk.words(), disk::ADVICE)),
        );
        let descriptors: Vec<_> =
            status.nodes.iter().map(|node| NodeDescriptors::of(&without_keyspaces, node.id)).collect();
        let short = status.nodes.iter().zip(&descriptors);
        warnings.extend(
            short.filter_map(|(node, found)| Some((node.id, found.filter(|one| one.are_short())?))).map(
                |(id, found)| format!("node {id} {}: {}", found.words(), descriptors::advice_for_node()),
            ),
        );
        warnings.extend(keyspaces.iter().flat_map(|keyspace| keyspace.warnings(status.nodes.len())));
        let (verdict, verdict_line) = judge(&without_keyspaces, warnings.len());
        StatusOutput {
            verdict,
            totals,
            verdict_line,
            groups: GroupCountsOutput {
                total: groups,
                below_min_in_sync,
                rebuilding,
                moving,
                recovering,
                down,
                lost,
            },
            nodes: status.nodes.into_iter().zip(descriptors).map(Into::into).collect(),
            keyspaces,
            layers,
            view,
            first,
            seen,
            warnings,
            map_epoch: status.map_epoch,
            cluster: status.cluster.iter().map(|byte| format!("{byte:02x}")).collect(),
        }
    }
}

impl From<(NodeStatus, Option<NodeDescriptors>)> for StatusNode {
    fn from((status, descriptors): (NodeStatus, Option<NodeDescriptors>)) -> Self {
        let disk = DiskOutput::of(&status);
        let NodeStatus { id, state, pid, manager, instances, version, started_ms, troubles, .. } = status;
        let NodeStatus { primaries, in_sync, following, in_control, damaged, .. } = status;
        let pid = NonZeroU32::new(pid);
        let instances = instances.into_iter().map(|one| InstanceOutput::of(one, pid.is_some())).collect();
        StatusNode {
            id,
            state,
            pid,
            manager,
            instances,
            version: pid.map(|_| version),
            started_ms: NonZeroU64::new(started_ms),
            troubles,
            primaries,
            in_sync,
            following,
            in_control,
            damaged: damaged.into_iter().map(Into::into).collect(),
            descriptors,
            disk,
        }
    }
}

impl From<DamagedPartition> for DamagedReplicaOutput {
    fn from(status: DamagedPartition) -> Self {
        let DamagedPartition { keyspace, partition, instance, found, named, .. } = status;
        DamagedReplicaOutput { keyspace, partition, instance, found, named }
    }
}

impl InstanceOutput {
    /// An instance, with its figures if its node has answered: zeros would be wrong.
    fn of(status: InstanceStatus, has_answered: bool) -> Self {
        let InstanceStatus { id, addr, partitions, entries, log_bytes, resident_bytes, connections } = status;
        let figures = InstanceFigures {
            partitions: Some(partitions),
            entries: Some(entries),
            log_bytes: Some(log_bytes),
            resident_bytes: Some(resident_bytes),
            connections: Some(connections),
        };
        InstanceOutput { id, addr, figures: if has_answered { figures } else { InstanceFigures::default() } }
    }
}

impl fmt::Display for InstanceFigures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { partitions, entries, log_bytes, resident_bytes, connections } = self;
        let (Some(partitions), Some(entries), Some(log_bytes)) = (partitions, entries, log_bytes) else {
            return Ok(());
        };
        write!(
            f,
            ", {}, {entries} {}, log {} ({} in memory), {}",
            counted(*partitions, "partition"),
            by_number(*entries, "record or version", "records and versions"),
            format_bytes(*log_bytes),
            format_bytes(resident_bytes.unwrap_or_default()),
            counted(connections.unwrap_or_default(), "connection")
        )
    }
}

impl fmt::Display for StatusOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.first.iter().try_for_each(|line| writeln!(f, "{line}"))?;
        if let Some(seen) = self.seen.as_ref().filter(|_| !self.first.is_empty()) {
            writeln!(f, "What follows is {seen}.")?;
        }
        writeln!(f, "{}", self.verdict_line)?;
        writeln!(f, "{}", self.totals.line(self.nodes.len()))?;
        for node in &self.nodes {
            let StatusNode { id, state, pid, manager, version, primaries, in_sync, following, .. } = node;
            match (pid, version) {
                (Some(pid), Some(version)) => {
                    write!(f, "node {id}: {state}, process {pid}, manager {manager}, zerohop {version}")?;
                }
                // The node has not answered.
                _ => write!(f, "node {id}: {state}, manager {manager}")?,
            }
            if self.nodes.len() > 1 {
                write!(
                    f,
                    "; primary of {primaries}, in sync in {in_sync}, following in {}",
                    counted(*following, "partition")
                )?;
            }
            writeln!(f)?;
            for InstanceOutput { id, addr, figures } in &node.instances {
                writeln!(f, "  instance {id}: {addr}{figures}")?;
            }
            if let Some(disk) = node.disk.known {
                writeln!(f, "  disk: {}", disk.words())?;
            }
            node.troubles.iter().try_for_each(|trouble| writeln!(f, "  TROUBLE: {trouble}"))?;
        }
        self.keyspaces.iter().try_for_each(|keyspace| writeln!(f, "keyspace {keyspace}"))?;
        write!(f, "{}", self.layers)?;
        match &self.seen {
            Some(seen) => writeln!(f, "map epoch {}, {seen}", self.map_epoch)?,
            None => writeln!(f, "map epoch {}", self.map_epoch)?,
        }
        let GroupCountsOutput { total, below_min_in_sync, rebuilding, moving, recovering, down, lost } =
            self.groups;
        for (count, one, several) in [
            (below_min_in_sync, "has", "have fewer copies in sync than a write needs"),
            (rebuilding, "has", "have more or fewer copies than the keyspace asks for"),
            (moving, "is", "are moving"),
            (recovering, "is", "are recovering and not served"),
            (down, "has", "have a primary that is down"),
            (lost, "is", "are lost: not served before nodes that are down return"),
        ] {
            let (verb, rest) = several.split_once(' ').unwrap_or((several, ""));
            if count > 0 {
                let all = counted(total, "partition");
                writeln!(f, "{count} of {all} {} {rest}", by_number(count, one, verb))?;
            }
        }
        // The first warnings are printed at the top already.
        let rest = self.warnings.iter().skip(self.first.len());
        rest.clone().try_for_each(|warning| writeln!(f, "WARNING: {warning}"))
    }
}
