//! Metrics as text for Prometheus, in the OpenMetrics format. The manager requests the figures from the instances at each scrape and does not store
//! them.

use std::fmt::{self, Debug};

use prometheus_client::encoding::NoLabelSet;
use prometheus_client::metrics::MetricType;
use zerohop_monitoring::{Family, Labels, MetricsCollector, MetricsEncoder, encode_metrics};
use zerohop_placement::ClusterMap;
use zerohop_reactor::{CloseReason, ReactorCounters};
use zerohop_shard::{InstanceStats, KeyspaceFigures, KeyspaceWatches};
use zerohop_wire::ErrorCode;
use zerohop_wire::admin::{self, GroupsStatus};

use super::groups::GroupCounts;
use super::shared::ManagerShared;
use super::view::{ClusterView, unserved_reason};
use super::{groups, instances, status, watches};
use crate::instance::{Figures, RecoveredData, by_stage};
use crate::process::{cpu_s, resident_bytes};

/// The text; `records_waits`: with the stages in which operations wait, which are recorded for some seconds from now on. Errors: those of a
/// writer; a string never fails.
pub(super) async fn text(shared: &ManagerShared, records_waits: bool) -> Result<String, fmt::Error> {
    let figures = instances::figures_with(shared.instances(), records_waits).await;
    let mut view = ClusterView::of(shared).await;
    view.add_own_partitions(&figures);
    let instances = shared.instances().iter().zip(figures).map(|(instance, figures)| InstanceMetrics {
        id: instance.id.to_string(),
        recovered: instance.recovered.clone(),
        figures,
    });
    let instances: Vec<InstanceMetrics> = instances.collect();
    let map = shared.history.borrow().map().clone();
    let counts = groups::count(&map);
    let snapshot = MetricsSnapshot {
        keyspaces: keyspaces(&map, &instances, &counts),
        broken: broken(&map, &instances),
        nodes: nodes(&map, &view.node_view.silent),
        instances,
        map_epoch: map.epoch().0,
        uptime_s: shared.uptime.elapsed().as_secs_f64(),
        serving: unserved_reason(shared, &view).is_none(),
        troubles: status::of_node(shared).len() + view.node_view.warnings.len(),
        groups: counts.all,
        view: view.node_view,
        connections: shared.door.borrow().open(),
        refused: shared.refused.get(),
    };
    encode_metrics(snapshot)
}

/// The keyspaces of the map, by name, with the figures of this node's copies.
fn keyspaces(map: &ClusterMap, instances: &[InstanceMetrics], counts: &GroupCounts) -> Vec<KeyspaceMetrics> {
    let answered = instances.iter().filter_map(|one| one.figures.as_deref());
    let own = instances::by_keyspace(answered.clone().map(|figures| &figures.stats));
    let watches = watches::by_keyspace(answered);
    map.keyspaces()
        .map(|(id, keyspace)| KeyspaceMetrics {
            name: keyspace.config().name.to_string(),
            figures: own.get(&id).copied().unwrap_or_default(),
            groups: counts.keyspaces.get(&id).copied().unwrap_or_default(),
            watches: watches.get(&id).copied().unwrap_or_default(),
        })
        .collect()
}

/// The broken invariants of this node's partitions.
fn broken(map: &ClusterMap, instances: &[InstanceMetrics]) -> Vec<BrokenMetrics> {
    let mut all = Vec::new();
    for one in instances {
        let stats = one.figures.as_deref().map(|figures| &figures.stats);
        for (id, partition, broken) in stats.into_iter().flat_map(|stats| &stats.broken_invariants) {
            let name = map.keyspace(*id).map(|keyspace| keyspace.config().name.to_string());
            all.push(BrokenMetrics {
                instance: one.id.clone(),
                // A keyspace that was dropped meanwhile has no name.
                keyspace: name.unwrap_or_else(|| id.to_string()),
                partition: partition.to_string(),
                invariant: broken.rule,
            });
        }
    }
    all
}

/// The number of nodes in each state of [`NODE_STATES`].
fn nodes(map: &ClusterMap, silent: &[u32]) -> [u32; NODE_STATES.len()] {
    let mut counts = [0; NODE_STATES.len()];
    for node in map.nodes() {
        let state =
            if silent.contains(&node.id().0) { "silent".to_owned() } else { node.state().to_string() };
        if let Some(at) = NODE_STATES.iter().position(|one| *one == state) {
            counts[at] += 1;
        }
    }
    counts
}

/// States of nodes, as `status` has them.
const NODE_STATES: [&str; 4] = ["up", "draining", "down", "silent"];

/// A keyspace: the figures of this node's copies, and its groups in the whole cluster.
#[derive(Debug)]
struct KeyspaceMetrics {
    name: String,
    figures: KeyspaceFigures,
    groups: GroupsStatus,
    /// Of the partitions whose primary is on this node.
    watches: KeyspaceWatches,
}

/// A broken invariant of a partition.
#[derive(Debug)]
struct BrokenMetrics {
    instance: String,
    keyspace: String,
    partition: String,
    invariant: &'static str,
}

/// The figures of one scrape.
#[derive(Debug)]
struct MetricsSnapshot {
    instances: Vec<InstanceMetrics>,
    map_epoch: u64,
    uptime_s: f64,
    serving: bool,
    /// Troubles of the node itself, without those of its instances.
    troubles: usize,
    view: admin::NodeView,
    groups: GroupsStatus,
    keyspaces: Vec<KeyspaceMetrics>,
    broken: Vec<BrokenMetrics>,
    nodes: [u32; NODE_STATES.len()],
    connections: usize,
    refused: u64,
}

#[derive(Debug)]
struct InstanceMetrics {
    id: String,
    recovered: RecoveredData,
    /// `None`: the instance did not answer in time.
    figures: Option<Box<Figures>>,
}

/// A metric of each instance: name, help, and the function that reads it.
type StatMetric = (&'static str, &'static str, fn(&InstanceStats) -> u64);
type CounterMetric = (&'static str, &'static str, fn(&ReactorCounters) -> u64);
type KeyspaceMetric = (&'static str, &'static str, fn(&KeyspaceMetrics) -> u64);
type RecoveryMetric = (&'static str, &'static str, fn(&RecoveredData) -> f64);

const GAUGES: [StatMetric; 21] = [
    ("replicas", "Replicas of partitions", |stats| stats.partitions),
    ("records", "Records", |stats| stats.records),
    ("old_versions", "Older versions of records that are kept", |stats| stats.versions),
    ("log_bytes", "Bytes of all logs", |stats| stats.log_bytes),
    ("dead_bytes", "Bytes of logs that nothing refers to", |stats| {
        stats.log_bytes.saturating_sub(stats.live_bytes)
    }),
    ("segments", "Segment files", |stats| stats.segments),
    ("checkpoint_bytes", "Bytes of the newest checkpoints", |stats| stats.checkpoint_bytes),
    ("snapshot_sends", "Snapshots of partitions that are being sent to other instances", |stats| {
        stats.copies
    }),
    (
        "snapshot_send_remaining_bytes",
        "Bytes of these snapshots that remain to be sent, approximately",
        |stats| stats.copies_left_bytes,
    ),
    ("resident_log_bytes", "Bytes of logs in memory", |stats| stats.engine.resident_bytes),
    ("index_bytes", "Memory of indexes and tables", |stats| stats.overhead_bytes),
    ("journal_bytes", "Bytes of journal files", |stats| stats.engine.journal_bytes),
    ("sessions", "Sessions remembered, over all partitions", |stats| stats.sessions),
    ("staged_pieces", "Pieces that are staged for later transactions", |stats| stats.staged),
    ("staged_bytes", "Bytes of these pieces", |stats| stats.staged_bytes),
    ("waits", "Waits for a record that are pending", |stats| stats.waits),
    ("troubles", "Errors in the background, which no request has caused", |stats| stats.errors.len() as u64),
    (
        "partitions_damaged",
        "Partitions that are not served, because their only in-sync copy is here and damaged",
        |stats| stats.damaged,
    ),
    ("disk_full", "1 if its disk has no room for new entries, else 0", |stats| u64::from(stats.is_full)),
    ("disk_free_bytes", "Bytes that are free on its disk", |stats| stats.free_bytes),
    ("open_partitions", "Partitions open in the engine", |stats| stats.engine.partitions),
];

const KEYSPACES: [KeyspaceMetric; 9] = [
    (
        "keyspace_records",
        "Records of partitions whose primary is on this node; the sum over all nodes is the keyspace's",
        |keyspace| keyspace.figures.records,
    ),
    ("keyspace_replicas", "Replicas of partitions on this node", |keyspace| keyspace.figures.copies),
    ("keyspace_replicas_log_failed", "Of these replicas, those whose log has failed", |keyspace| {
        keyspace.figures.failed_copies
    }),
    ("keyspace_log_bytes", "Bytes of the logs of these replicas", |keyspace| keyspace.figures.log_bytes),
    ("keyspace_groups", "Replica groups, in the whole cluster", |keyspace| keyspace.groups.groups.into()),
    (
        "keyspace_groups_below_min_in_sync",
        "Groups with fewer copies in sync than a write needs",
        |keyspace| keyspace.groups.below_min_in_sync.into(),
    ),
    (
        "keyspace_groups_rebuilding",
        "Groups with more or fewer copies than the keyspace asks for",
        |keyspace| keyspace.groups.rebuilding.into(),
    ),
    ("keyspace_groups_lost", "Groups that are not served before a node that is down returns", |keyspace| {
        keyspace.groups.lost.into()
    }),
    (
        "keyspace_watches",
        "Watches of partitions whose primary is on this node, each counted at every instance that it asks",
        |keyspace| keyspace.watches.watches,
    ),
];

const STATS_COUNTERS: [StatMetric; 6] = [
    ("flushes", "Flushes for sync partitions, each for a whole batch", |stats| stats.flushes),
    ("segment_syncs", "Syncs of a partition's segments", |stats| stats.engine.maintenance.segment_syncs),
    ("checkpoints", "Checkpoints written", |stats| stats.engine.maintenance.checkpoints),
    ("compactions", "Compactions of a partition", |stats| stats.engine.maintenance.compactions),
    (
        "broken_invariants",
        "Invariants of partitions found broken; each such partition has stopped",
        |stats| stats.broken_invariants.len() as u64,
    ),
    ("requests_dropped", "Requests dropped because the client already has the answer", |stats| {
        stats.dropped_requests
    }),
];

const COUNTERS: [CounterMetric; 11] = [
    ("connections_accepted", "Connections accepted", |counters| counters.accepted),
    ("accept_errors", "Connections that the system could not accept", |counters| counters.accept_errors),
    ("frames_refused", "Requests refused before they were accepted", |counters| counters.refused),
    ("answers", "Answers sent", |counters| counters.answers),
    ("batches", "Turns of the event loop that did something", |counters| counters.batches),
    ("received_bytes", "Bytes received", |counters| counters.bytes_in),
    ("sent_bytes", "Bytes sent", |counters| counters.bytes_out),
    ("peer_connections_opened", "Connections opened to other instances", |counters| counters.connected),
    ("peer_messages", "Messages of other instances", |counters| counters.peer_messages),
    ("read_syscalls", "System calls that read", |counters| counters.reads),
    ("write_syscalls", "System calls that wrote", |counters| counters.writes),
];

const RECOVERY: [RecoveryMetric; 6] = [
    ("recovery_seconds", "How long opening the data took at the start", |found| found.duration.as_secs_f64()),
    ("recovered_from_checkpoint", "Entries taken from checkpoints at the start", |found| {
        found.from_checkpoint as f64
    }),
    ("recovered_from_log", "Entries read from the log at the start", |found| found.from_log as f64),
    ("recovered_from_journal", "Entries taken from the journal at the start", |found| {
        found.from_journal as f64
    }),
    ("recovered_torn_bytes", "Bytes of torn tails truncated at the start", |found| found.torn_bytes as f64),
    ("recovered_corruptions", "Corrupt places found at the start", |found| found.damaged as f64),
];

impl MetricsCollector for MetricsSnapshot {
    fn encode(&self, mut encoder: MetricsEncoder) -> fmt::Result {
        self.node(&mut encoder)?;
        self.by_keyspace(&mut encoder)?;
        for (name, help, read) in RECOVERY {
            let mut family = Family::gauge(&mut encoder, name, help)?;
            for one in &self.instances {
                family.value_of(&labels(one), read(&one.recovered))?;
            }
        }
        for (name, help, read) in GAUGES {
            let mut family = Family::gauge(&mut encoder, name, help)?;
            self.each(|one, figures| family.gauge_of(&labels(one), read(&figures.stats)))?;
            if name == "troubles" {
                family.gauge_of(&vec![("instance", "manager")], self.troubles as u64)?;
            }
        }
        let mut family = Family::gauge(&mut encoder, "connections", "Connections open")?;
        self.each(|one, figures| family.gauge_of(&labels(one), figures.connections as u64))?;
        let mut family = Family::gauge(&mut encoder, "peer_connections", "Connections to other instances")?;
        self.each(|one, figures| family.gauge_of(&labels(one), figures.links as u64))?;
        let help = "Commands of Redis clients that were run; MULTI to EXEC counts as one";
        let mut family = Family::counter(&mut encoder, "redis_commands", help)?;
        self.each(|one, figures| family.counter_of(&labels(one), figures.foreign_commands))?;
        let help = "Messages to other instances that were dropped, without room or a connection; they are sent again";
        let mut family = Family::counter(&mut encoder, "peer_messages_dropped", help)?;
        self.each(|one, figures| family.counter_of(&labels(one), figures.peer_dropped))?;
        for (name, help, read) in STATS_COUNTERS {
            let mut family = Family::counter(&mut encoder, name, help)?;
            self.each(|one, figures| family.counter_of(&labels(one), read(&figures.stats)))?;
        }
        let help = "1 for each invariant found broken, with its partition, until the process starts again";
        let mut family = Family::gauge(&mut encoder, "broken_invariant", help)?;
        for BrokenMetrics { instance, keyspace, partition, invariant } in &self.broken {
            let labels = vec![
                ("instance", &**instance),
                ("keyspace", keyspace),
                ("partition", partition),
                ("invariant", invariant),
            ];
            family.gauge_of(&labels, 1)?;
        }
        for (name, help, read) in COUNTERS {
            let mut family = Family::counter(&mut encoder, name, help)?;
            self.each(|one, figures| family.counter_of(&labels(one), read(&figures.counters)))?;
        }
        self.by_kind(&mut encoder)?;
        self.histograms(&mut encoder)
    }
}

impl MetricsSnapshot {
    /// Calls a function for each instance that has answered.
    fn each(&self, mut call: impl FnMut(&InstanceMetrics, &Figures) -> fmt::Result) -> fmt::Result {
        let answered = self.instances.iter().filter_map(|one| Some((one, one.figures.as_deref()?)));
        for (one, figures) in answered {
            call(one, figures)?;
        }
        Ok(())
    }

    fn node(&self, encoder: &mut MetricsEncoder<'_>) -> fmt::Result {
        let mut gauge = |name: &str, help: &str, value: f64| {
            encoder.encode_descriptor(name, help, None, MetricType::Gauge)?.encode_gauge(&value)
        };
        gauge("serving", "Whether the node serves", f64::from(u8::from(self.serving)))?;
        self.cluster(&mut gauge)?;
        gauge("map_epoch", "Epoch of the cluster map", self.map_epoch as f64)?;
        gauge("uptime_seconds", "Time since the start", self.uptime_s)?;
        gauge("manager_connections", "Connections open to the manager", self.connections as f64)?;
        if let Some(bytes) = resident_bytes() {
            gauge("process_resident_bytes", "Memory of the process that is resident", bytes as f64)?;
        }
        let answered = self.instances.iter().filter(|one| one.figures.is_some()).count();
        gauge("instances_answering", "Instances that reported their state in time", answered as f64)?;
        let mut counter = |name: &str, help: &str, value: f64| {
            let mut encoder = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            encoder.encode_counter::<NoLabelSet, f64, f64>(&value, None)
        };
        counter("process_cpu_seconds", "Processor time of the process", cpu_s())?;
        counter(
            "manager_connections_refused",
            "Connections refused because of their limit",
            self.refused as f64,
        )
    }

    /// The cluster as seen by this node.
    fn cluster(&self, gauge: &mut impl FnMut(&str, &str, f64) -> fmt::Result) -> fmt::Result {
        let admin::NodeView {
            quorum,
            leader,
            age_ms,
            managers,
            answering,
            silent,
            no_primary,
            stuck,
            log_failed,
            not_split,
            ..
        } = &self.view;
        let help = "Whether the control group decides, as far as this node knows";
        gauge("control_quorum", help, f64::from(u8::from(*quorum)))?;
        gauge(
            "control_leader",
            "The node that leads the control group, 0 if none is known",
            f64::from(*leader),
        )?;
        let help = "Time since a leader of the control group was known; what the map says is as old";
        gauge("control_leader_seconds", help, *age_ms as f64 / 1_000.0)?;
        gauge("control_managers", "Members of the control group", f64::from(*managers))?;
        gauge("control_managers_answering", "Of them, those that answer this node", f64::from(*answering))?;
        gauge("nodes_silent", "Nodes that the map has as up and that do not answer", silent.len() as f64)?;
        let GroupsStatus { groups, below_min_in_sync, rebuilding, moving, recovering, down, lost } =
            self.groups;
        for (name, help, count) in [
            ("groups", "Replica groups", groups),
            ("groups_without_primary", "Groups whose primary is down or silent, or not chosen", *no_primary),
            ("groups_stuck", "Groups that are blocked, because an in-sync replica does not answer", *stuck),
            (
                "groups_log_failed",
                "Groups whose primary is on this node and accepts no writes, because its log has failed",
                *log_failed,
            ),
            ("groups_not_split", "Groups whose primary is on this node and waits for its split", *not_split),
            (
                "groups_below_min_in_sync",
                "Groups with fewer copies in sync than a write needs",
                below_min_in_sync,
            ),
            ("groups_rebuilding", "Groups with more or fewer copies than the keyspace asks for", rebuilding),
            ("groups_moving", "Groups of which a copy moves", moving),
            ("groups_recovering", "Groups that choose the log to continue with", recovering),
            ("groups_down", "Groups whose primary is down", down),
            ("groups_lost", "Groups that are not served before a node that is down returns", lost),
        ] {
            gauge(name, help, f64::from(count))?;
        }
        Ok(())
    }

    fn by_keyspace(&self, encoder: &mut MetricsEncoder<'_>) -> fmt::Result {
        let mut family = Family::gauge(encoder, "build_info", "1; the labels say which program runs")?;
        family.gauge_of(&vec![("version", env!("CARGO_PKG_VERSION"))], 1)?;
        let mut family = Family::gauge(encoder, "nodes", "Nodes of the cluster, by state")?;
        for (state, count) in NODE_STATES.iter().zip(self.nodes) {
            family.gauge_of(&vec![("state", *state)], u64::from(count))?;
        }
        for (name, help, read) in KEYSPACES {
            let mut family = Family::gauge(encoder, name, help)?;
            for keyspace in &self.keyspaces {
                family.gauge_of(&vec![("keyspace", &*keyspace.name)], read(keyspace))?;
            }
        }
        let help = "Greatest time since the oldest kept change that one of these watches has not got";
        let mut family = Family::gauge(encoder, "keyspace_watch_lag_seconds", help)?;
        for keyspace in &self.keyspaces {
            let seconds = keyspace.watches.lag_ms as f64 / 1_000.0;
            family.value_of(&vec![("keyspace", &*keyspace.name)], seconds)?;
        }
        Ok(())
    }

    fn by_kind(&self, encoder: &mut MetricsEncoder<'_>) -> fmt::Result {
        let mut family = Family::counter(encoder, "requests", "Requests, by kind")?;
        self.each(|one, figures| {
            figures.stats.requests.iter().try_for_each(|(kind, count)| {
                family.counter_of(&vec![("instance", &*one.id), ("kind", kind.text())], *count)
            })
        })?;
        let mut family = Family::counter(encoder, "failures", "Requests answered with an error, by error")?;
        self.each(|one, figures| {
            figures.stats.failures.iter().try_for_each(|(code, count)| {
                let name = ErrorCode::from_number(*code).map_or("other", ErrorCode::text);
                family.counter_of(&vec![("instance", &*one.id), ("error", name)], *count)
            })
        })?;
        let mut family = Family::counter(encoder, "connections_ended", "Connections that ended, by reason")?;
        self.each(|one, figures| {
            CloseReason::ALL.iter().try_for_each(|why| {
                let labels = vec![("instance", &*one.id), ("reason", why.name())];
                family.counter_of(&labels, figures.counters.ended(*why))
            })
        })
    }

    fn histograms(&self, encoder: &mut MetricsEncoder<'_>) -> fmt::Result {
        let mut family = Family::histogram(encoder, "batch_requests", "Requests of a batch")?;
        self.each(|one, figures| {
            let (sum, count, buckets) = figures.batch_requests.parts();
            family.histogram_of(&labels(one), (sum as f64, count, &buckets))
        })?;
        let help = "From the first request of a batch to its answers";
        let mut family = Family::histogram(encoder, "batch_seconds", help)?;
        self.each(|one, figures| {
            let (sum, count, buckets) = figures.batch_us.seconds();
            family.histogram_of(&labels(one), (sum, count, &buckets))
        })?;
        let help = "From a request of a native client to its answer, by class of operation";
        let mut family = Family::histogram(encoder, "operation_seconds", help)?;
        self.each(|one, figures| {
            figures.operations_us.iter().try_for_each(|(class, histogram)| {
                let (sum, count, buckets) = histogram.seconds();
                let labels = vec![("instance", &*one.id), ("operation", class.text())];
                family.histogram_of(&labels, (sum, count, &buckets))
            })
        })?;
        let has_waits = |one: &InstanceMetrics| {
            one.figures.as_ref().is_some_and(|figures| figures.stage_waits_us.is_some())
        };
        if !self.instances.iter().any(has_waits) {
            return Ok(());
        }
        let help = "Time of operations of native clients in each stage; recorded only while it is requested";
        let mut family = Family::histogram(encoder, "stage_seconds", help)?;
        self.each(|one, figures| {
            figures.stage_waits_us.iter().flat_map(by_stage).try_for_each(|(stage, histogram)| {
                let (sum, count, buckets) = histogram.seconds();
                let labels = vec![("instance", &*one.id), ("stage", stage.text())];
                family.histogram_of(&labels, (sum, count, &buckets))
            })
        })
    }
}

fn labels(one: &InstanceMetrics) -> Labels<'_> {
    vec![("instance", &*one.id)]
}
