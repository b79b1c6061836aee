//! The encoded state, for a manager that starts or has fallen behind; `docs/formats/control-log.md`.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use prost::Message;
use zerohop_placement::{Address, ClusterMap, MapHistory};
use zerohop_wire::ids::{InstanceId, KeyspaceId, LogIndex, MapEpoch, NodeId, PartitionId};

use super::requests::Requests;
use super::{ControlState, Loss, NodeRecord, PlacementOverride, PrimaryReports, Recovery};
use crate::command::{self, CommandOutcome, LogEnd, RequestId};
use crate::limits::APPLIED_MAX;

/// The version of the format.
const VERSION: u32 = 1;

#[derive(Clone, PartialEq, Message)]
struct SnapshotProto {
    #[prost(uint32, tag = "1")]
    version: u32,
    /// Empty if there is no map yet.
    #[prost(bytes, tag = "2")]
    map: Vec<u8>,
    #[prost(message, repeated, tag = "3")]
    facts: Vec<NodeFacts>,
    #[prost(message, required, tag = "4")]
    managers: command::proto::Managers,
    #[prost(message, repeated, tag = "5")]
    recoveries: Vec<GroupRecovery>,
    #[prost(uint64, tag = "6")]
    applied: u64,
    #[prost(message, repeated, tag = "7")]
    outcomes: Vec<OutcomeEntryProto>,
    #[prost(uint32, tag = "8")]
    next_keyspace: u32,
    #[prost(uint32, tag = "9")]
    next_node: u32,
    #[prost(uint32, tag = "10")]
    next_instance: u32,
    #[prost(message, repeated, tag = "11")]
    placement_overrides: Vec<PlacementOverrideProto>,
    #[prost(message, repeated, tag = "12")]
    dropping: Vec<DroppingProto>,
    #[prost(message, repeated, tag = "13")]
    places: Vec<AddressProto>,
    #[prost(message, repeated, tag = "14")]
    losses: Vec<LossRecord>,
}

#[derive(Clone, PartialEq, Message)]
struct LossRecord {
    #[prost(uint32, tag = "1")]
    keyspace: u32,
    #[prost(uint32, tag = "2")]
    partition: u32,
    #[prost(uint64, tag = "3")]
    epoch: u64,
    #[prost(uint32, repeated, tag = "4")]
    nodes: Vec<u32>,
}

#[derive(Clone, PartialEq, Message)]
struct AddressProto {
    #[prost(string, tag = "1")]
    manager: String,
    #[prost(uint32, tag = "2")]
    node: u32,
}

/// The reports about a keyspace that is being dropped or split.
#[derive(Clone, PartialEq, Message)]
struct DroppingProto {
    #[prost(uint32, tag = "1")]
    keyspace: u32,
    #[prost(uint64, tag = "2")]
    since: u64,
    #[prost(uint32, repeated, tag = "3")]
    drained: Vec<u32>,
}

#[derive(Clone, PartialEq, Message)]
struct PlacementOverrideProto {
    #[prost(uint32, tag = "1")]
    keyspace: u32,
    #[prost(uint32, tag = "2")]
    partition: u32,
    #[prost(uint32, tag = "3")]
    to: u32,
    #[prost(uint32, tag = "4")]
    from: u32,
}

#[derive(Clone, PartialEq, Message)]
struct NodeFacts {
    #[prost(uint32, tag = "1")]
    node: u32,
    #[prost(uint32, tag = "2")]
    domain: u32,
    #[prost(uint32, tag = "3")]
    capacity: u32,
    #[prost(bool, tag = "4")]
    draining: bool,
    #[prost(bool, tag = "5")]
    unconfirmed: bool,
    #[prost(bool, tag = "6")]
    closed: bool,
}

#[derive(Clone, PartialEq, Message)]
struct GroupRecovery {
    #[prost(uint32, tag = "1")]
    keyspace: u32,
    #[prost(uint32, tag = "2")]
    partition: u32,
    #[prost(uint32, repeated, tag = "3")]
    restarted: Vec<u32>,
    #[prost(message, repeated, tag = "4")]
    reports: Vec<LogReportProto>,
    #[prost(bool, tag = "5")]
    accept_loss: bool,
    #[prost(bool, tag = "6")]
    keeps_primary: bool,
}

#[derive(Clone, PartialEq, Message)]
struct LogReportProto {
    #[prost(uint32, tag = "1")]
    instance: u32,
    #[prost(uint64, tag = "2")]
    end_epoch: u64,
    #[prost(uint64, tag = "3")]
    end_index: u64,
    #[prost(bool, tag = "4")]
    intact: bool,
}

#[derive(Clone, PartialEq, Message)]
struct OutcomeEntryProto {
    #[prost(fixed64, tag = "1")]
    origin: u64,
    #[prost(uint64, tag = "2")]
    number: u64,
    #[prost(message, required, tag = "3")]
    outcome: command::proto::OutcomeProto,
}

/// Bytes that are not a valid state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateError {
    what: String,
}

impl fmt::Display for StateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not a snapshot of the control group's state: {}", self.what)
    }
}

impl std::error::Error for StateError {}

fn wrong(what: impl fmt::Display) -> StateError {
    StateError { what: what.to_string() }
}

impl ControlState {
    /// Encodes the state. The bytes do not contain the history of the map: a manager that starts from them
    /// answers with complete maps at first.
    pub fn encode(&self) -> Vec<u8> {
        let map = self.map();
        let recoveries = self.recoveries.iter().map(|((keyspace, partition), recovery)| GroupRecovery {
            keyspace: keyspace.get(),
            partition: partition.get(),
            restarted: recovery.restarted.iter().map(|instance| instance.get()).collect(),
            reports: recovery
                .reports
                .iter()
                .map(|(instance, (end, intact))| LogReportProto {
                    instance: instance.get(),
                    end_epoch: end.epoch,
                    end_index: end.index.get(),
                    intact: *intact,
                })
                .collect(),
            accept_loss: recovery.accept_loss,
            keeps_primary: recovery.continues_with_primary,
        });
        let facts = self.facts.iter().map(|(node, facts)| NodeFacts {
            node: node.get(),
            domain: facts.domain,
            capacity: facts.capacity,
            draining: facts.draining,
            unconfirmed: facts.unconfirmed,
            closed: facts.closed,
        });
        let placement_overrides =
            self.placement_overrides.iter().map(|((keyspace, partition), pin)| PlacementOverrideProto {
                keyspace: keyspace.get(),
                partition: partition.get(),
                to: pin.to.get(),
                from: pin.from.get(),
            });
        let dropping = self.reported_keyspaces().map(|(keyspace, reports)| DroppingProto {
            keyspace: keyspace.get(),
            since: reports.since.get(),
            drained: reports.ready.iter().map(|instance| instance.get()).collect(),
        });
        let places = self
            .expected_nodes
            .iter()
            .map(|(manager, node)| AddressProto { manager: manager.as_str().to_owned(), node: node.get() });
        let losses = self.losses.iter().map(|((keyspace, partition), loss)| LossRecord {
            keyspace: keyspace.get(),
            partition: partition.get(),
            epoch: loss.epoch.get(),
            nodes: loss.nodes.iter().map(|node| node.get()).collect(),
        });
        let outcomes = self.requests.all().map(|(id, outcome)| OutcomeEntryProto {
            origin: id.origin,
            number: id.number,
            outcome: outcome.to_proto(),
        });
        SnapshotProto {
            version: VERSION,
            map: if map.epoch().get() == 0 { Vec::new() } else { map.encode() },
            facts: facts.collect(),
            managers: command::write_managers(&self.managers),
            recoveries: recoveries.collect(),
            applied: self.requests.applied_count(),
            outcomes: outcomes.collect(),
            next_keyspace: self.next_keyspace,
            next_node: self.next_node,
            next_instance: self.next_instance,
            placement_overrides: placement_overrides.collect(),
            dropping: dropping.collect(),
            places: places.collect(),
            losses: losses.collect(),
        }
        .encode_to_vec()
    }

    /// Reads what [`ControlState::encode`] wrote.
    ///
    /// # Errors
    /// If the bytes are not a valid state, or were written by a later program.
    pub fn decode(bytes: &[u8]) -> Result<ControlState, StateError> {
        let snapshot = SnapshotProto::decode(bytes).map_err(wrong)?;
        if snapshot.version != VERSION {
            return Err(wrong(format!("version {}, and this program reads {VERSION}", snapshot.version)));
        }
        if snapshot.applied > APPLIED_MAX {
            return Err(wrong(format!("{} commands were applied, which cannot be", snapshot.applied)));
        }
        let map = match &snapshot.map[..] {
            [] => ClusterMap::default(),
            bytes => ClusterMap::decode(bytes).map_err(wrong)?,
        };
        let facts = snapshot.facts.into_iter().map(|facts| {
            let NodeFacts { node, domain, capacity, draining, unconfirmed, closed } = facts;
            (NodeId(node), NodeRecord { domain, capacity, draining, unconfirmed, closed })
        });
        let mut outcomes = Vec::new();
        for one in snapshot.outcomes {
            let id = RequestId { origin: one.origin, number: one.number };
            outcomes.push((id, CommandOutcome::from_proto(one.outcome).map_err(wrong)?));
        }
        let mut places = BTreeMap::new();
        for AddressProto { manager, node } in snapshot.places {
            places.insert(Address::new(&manager).map_err(wrong)?, NodeId(node));
        }
        Ok(ControlState {
            history: MapHistory::new(Arc::new(map)),
            facts: facts.collect(),
            managers: command::read_managers(&snapshot.managers).map_err(wrong)?,
            recoveries: snapshot.recoveries.into_iter().map(read_recovery).collect(),
            placement_overrides: snapshot.placement_overrides.iter().map(read_pin).collect(),
            primary_reports: snapshot.dropping.into_iter().map(read_reports).collect(),
            losses: Arc::new(snapshot.losses.into_iter().map(read_loss).collect()),
            requests: Requests::restored(snapshot.applied, outcomes),
            next_keyspace: snapshot.next_keyspace,
            next_node: snapshot.next_node,
            next_instance: snapshot.next_instance,
            expected_nodes: places,
        })
    }
}

fn read_reports(one: DroppingProto) -> (KeyspaceId, PrimaryReports) {
    let ready = one.drained.into_iter().map(InstanceId).collect();
    (KeyspaceId(one.keyspace), PrimaryReports { since: MapEpoch(one.since), ready })
}

fn read_loss(one: LossRecord) -> ((KeyspaceId, PartitionId), Loss) {
    let nodes = one.nodes.into_iter().map(NodeId).collect();
    ((KeyspaceId(one.keyspace), PartitionId(one.partition)), Loss { epoch: MapEpoch(one.epoch), nodes })
}

fn read_pin(one: &PlacementOverrideProto) -> ((KeyspaceId, PartitionId), PlacementOverride) {
    let pin = PlacementOverride { to: InstanceId(one.to), from: InstanceId(one.from) };
    ((KeyspaceId(one.keyspace), PartitionId(one.partition)), pin)
}

fn read_recovery(one: GroupRecovery) -> ((KeyspaceId, PartitionId), Recovery) {
    let reports: BTreeMap<_, _> = one
        .reports
        .into_iter()
        .map(|report| {
            let end = LogEnd { epoch: report.end_epoch, index: LogIndex(report.end_index) };
            (InstanceId(report.instance), (end, report.intact))
        })
        .collect();
    let recovery = Recovery {
        restarted: one.restarted.into_iter().map(InstanceId).collect(),
        reports,
        accept_loss: one.accept_loss,
        continues_with_primary: one.keeps_primary,
        chosen_may_lack_end: false,
    };
    ((KeyspaceId(one.keyspace), PartitionId(one.partition)), recovery)
}
