//! Encoded commands and outcomes. Nodes and keyspace configurations are encoded as changes of the map, in the
//! map's own format, so that each has one encoding.

use std::fmt;

use prost::Message;
use zerohop_placement::{Address, KeyspaceConfig, MapChange, MapDelta, Node, NodeState};
use zerohop_wire::ids::{
    Incarnation, InstanceId, KeyspaceId, LogIndex, MapEpoch, NodeId, PartitionEpoch, PartitionId,
};

use super::{
    CommandOutcome, CommandRefusal, CommandRequest, CommandResult, ControlCommand, GroupStep, JoinNode,
    KeyspaceDrained, LogEnd, LogIndexReport, LogReport, ManagerId, ManagerInfo, MovePartition,
    RecoverySource, RegionSplit, Regroup, RegroupOrigin, RequestId, proto,
};
use crate::limits::{COMMAND_BYTES_MAX, MANAGERS_MAX, REFUSAL_BYTES_MAX, REPORTED_LOGS_MAX};

/// Bytes that are not a valid command or outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandError {
    what: String,
}

impl CommandError {
    pub(super) fn new(what: impl Into<String>) -> CommandError {
        CommandError { what: what.into() }
    }
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not a command of the control group: {}", self.what)
    }
}

impl std::error::Error for CommandError {}

const STATES: [NodeState; 3] = [NodeState::Up, NodeState::Draining, NodeState::Down];

impl CommandRequest {
    /// The bytes; `docs/protocols/control.proto`.
    pub fn encode(&self) -> Vec<u8> {
        let command = match &self.command {
            ControlCommand::Join(join) => proto::CommandProto::Join(proto::JoinProto {
                node: one(MapChange::PutNode(Node {
                    id: join.node.unwrap_or_default(),
                    state: NodeState::Up,
                    incarnation: join.incarnation,
                    manager: join.manager.clone(),
                    first_instance: InstanceId(0),
                    instances: join.instances.clone(),
                })),
                known: join.node.is_some(),
                replaces: join.replaces.get(),
                domain: join.domain,
                capacity: join.capacity,
                intact: join.intact,
                closed: join.closed,
            }),
            ControlCommand::SetNodeState { node, incarnation, state } => {
                let number = STATES.iter().position(|known| known == state).unwrap_or_default();
                proto::CommandProto::SetNodeState(proto::SetNodeState {
                    node: node.get(),
                    incarnation: incarnation.get(),
                    state: number as u32,
                })
            }
            ControlCommand::RemoveNode(node) => proto::CommandProto::RemoveNode(node.get()),
            ControlCommand::CreateKeyspace(config) => {
                proto::CommandProto::CreateKeyspace(alter(KeyspaceId(0), config))
            }
            ControlCommand::AlterKeyspace(id, config) => {
                proto::CommandProto::AlterKeyspace(alter(*id, config))
            }
            ControlCommand::DropKeyspace(id) => proto::CommandProto::DropKeyspace(id.get()),
            ControlCommand::BeginDropKeyspace(id) => proto::CommandProto::BeginDropKeyspace(id.get()),
            ControlCommand::Drained(KeyspaceDrained { keyspace, instance, map }) => {
                let (keyspace, instance, map) = (keyspace.get(), instance.get(), map.get());
                proto::CommandProto::Drained(proto::DrainedProto { keyspace, instance, map })
            }
            ControlCommand::SplitKeyspace(id) => proto::CommandProto::SplitKeyspace(id.get()),
            ControlCommand::Regroup(regroup) => proto::CommandProto::Regroup(write_regroup(regroup)),
            ControlCommand::ReportLogs(report) => {
                proto::CommandProto::LogIndexes(proto::LogIndexReportProto {
                    node: report.node.get(),
                    incarnation: report.incarnation.get(),
                    logs: report.logs.iter().map(write_log_report).collect(),
                })
            }
            ControlCommand::Recover { keyspace, partition, damaged } => {
                proto::CommandProto::Recover(proto::Recover {
                    keyspace: keyspace.get(),
                    partition: partition.get(),
                    damaged: match damaged {
                        None => 0,
                        Some(RecoverySource::Damaged) => 1,
                        Some(RecoverySource::Follower) => 2,
                    },
                })
            }
            ControlCommand::AcknowledgeLosses { keyspace, until } => {
                let (keyspace, until) = (keyspace.get(), until.get());
                proto::CommandProto::AcknowledgeLosses(proto::AcknowledgeLosses { keyspace, until })
            }
            ControlCommand::Move(one) => proto::CommandProto::Move(proto::MoveProto {
                place: write_partition(one.keyspace, one.partition),
                to: one.to.map(NodeId::get),
                instance: one.instance.map(InstanceId::get),
            }),
            ControlCommand::SplitRegion(RegionSplit { keyspace, region, separator, share }) => {
                let (keyspace, region, separator) = (*keyspace, *region, separator.clone());
                let change = MapChange::SplitRegion { keyspace, region, separator, share: *share };
                proto::CommandProto::SplitRegion(one(change))
            }
            ControlCommand::BeginSplit { keyspace, split } => {
                let (keyspace, split) = (*keyspace, split.clone());
                proto::CommandProto::BeginSplit(one(MapChange::BeginSplit { keyspace, split }))
            }
            ControlCommand::CancelSplit(id) => proto::CommandProto::CancelSplit(id.get()),
            ControlCommand::PutToken(token) => {
                proto::CommandProto::PutToken(one(MapChange::PutToken(token.clone())))
            }
            ControlCommand::RemoveToken(id) => proto::CommandProto::RemoveToken(*id),
            ControlCommand::ExpireToken { token, at_ms } => {
                proto::CommandProto::ExpireToken(proto::ExpireToken { token: *token, at_ms: *at_ms })
            }
            ControlCommand::SetManagers(managers) => {
                proto::CommandProto::SetManagers(write_managers(managers))
            }
        };
        let CommandRequest { id, after, .. } = self;
        proto::RequestProto {
            origin: id.origin,
            number: id.number,
            after: *after,
            command: Some(command),
            batch: Vec::new(),
        }
        .encode_to_vec()
    }

    /// Reads what [`CommandRequest::encode`] wrote, and reports what is wrong with other bytes.
    ///
    /// # Errors
    /// If the bytes are not a valid request.
    pub fn decode(bytes: &[u8]) -> Result<CommandRequest, CommandError> {
        if bytes.len() > COMMAND_BYTES_MAX {
            return Err(CommandError::new(format!("{} bytes, of at most {COMMAND_BYTES_MAX}", bytes.len())));
        }
        let request =
            proto::RequestProto::decode(bytes).map_err(|error| CommandError::new(error.to_string()))?;
        CommandRequest::from_proto(request)
    }

    pub(super) fn from_proto(request: proto::RequestProto) -> Result<CommandRequest, CommandError> {
        if !request.batch.is_empty() {
            return Err(CommandError::new("a batch of requests, where one is expected"));
        }
        let command = match request.command.ok_or(CommandError::new("it asks for nothing known"))? {
            proto::CommandProto::Join(join) => ControlCommand::Join(read_join(join)?),
            proto::CommandProto::SetNodeState(set) => ControlCommand::SetNodeState {
                node: NodeId(set.node),
                incarnation: Incarnation(set.incarnation),
                state: *STATES.get(set.state as usize).ok_or(CommandError::new("no state of a node"))?,
            },
            proto::CommandProto::RemoveNode(node) => ControlCommand::RemoveNode(NodeId(node)),
            proto::CommandProto::CreateKeyspace(bytes) => {
                ControlCommand::CreateKeyspace(read_alter(&bytes)?.1)
            }
            proto::CommandProto::AlterKeyspace(bytes) => {
                let (id, config) = read_alter(&bytes)?;
                ControlCommand::AlterKeyspace(id, config)
            }
            proto::CommandProto::DropKeyspace(id) => ControlCommand::DropKeyspace(KeyspaceId(id)),
            proto::CommandProto::BeginDropKeyspace(id) => ControlCommand::BeginDropKeyspace(KeyspaceId(id)),
            proto::CommandProto::Drained(proto::DrainedProto { keyspace, instance, map }) => {
                ControlCommand::Drained(KeyspaceDrained {
                    keyspace: KeyspaceId(keyspace),
                    instance: InstanceId(instance),
                    map: MapEpoch(map),
                })
            }
            proto::CommandProto::SplitKeyspace(id) => ControlCommand::SplitKeyspace(KeyspaceId(id)),
            proto::CommandProto::Regroup(regroup) => ControlCommand::Regroup(read_regroup(&regroup)?),
            proto::CommandProto::LogIndexes(report) => {
                if report.logs.len() > REPORTED_LOGS_MAX {
                    return Err(CommandError::new("more logs than one report tells of"));
                }
                ControlCommand::ReportLogs(LogIndexReport {
                    node: NodeId(report.node),
                    incarnation: Incarnation(report.incarnation),
                    logs: report.logs.iter().map(read_log_report).collect(),
                })
            }
            proto::CommandProto::Recover(one) => ControlCommand::Recover {
                keyspace: KeyspaceId(one.keyspace),
                partition: PartitionId(one.partition),
                damaged: match one.damaged {
                    0 => None,
                    1 => Some(RecoverySource::Damaged),
                    2 => Some(RecoverySource::Follower),
                    other => {
                        return Err(CommandError::new(format!(
                            "a recovery of a kind that is not known here: {other}"
                        )));
                    }
                },
            },
            proto::CommandProto::AcknowledgeLosses(proto::AcknowledgeLosses { keyspace, until }) => {
                ControlCommand::AcknowledgeLosses { keyspace: KeyspaceId(keyspace), until: MapEpoch(until) }
            }
            proto::CommandProto::Move(one) => ControlCommand::Move(MovePartition {
                keyspace: KeyspaceId(one.place.keyspace),
                partition: PartitionId(one.place.partition),
                to: one.to.map(NodeId),
                instance: one.instance.map(InstanceId),
            }),
            proto::CommandProto::PutToken(bytes) => match read_one(&bytes)? {
                MapChange::PutToken(token) => ControlCommand::PutToken(token),
                _ => return Err(CommandError::new("a token is described by something else")),
            },
            proto::CommandProto::SplitRegion(bytes) => match read_one(&bytes)? {
                MapChange::SplitRegion { keyspace, region, separator, share } => {
                    ControlCommand::SplitRegion(RegionSplit { keyspace, region, separator, share })
                }
                _ => return Err(CommandError::new("a split of a region is described by something else")),
            },
            proto::CommandProto::BeginSplit(bytes) => match read_one(&bytes)? {
                MapChange::BeginSplit { keyspace, split } => ControlCommand::BeginSplit { keyspace, split },
                _ => return Err(CommandError::new("a pending split is described by something else")),
            },
            proto::CommandProto::CancelSplit(id) => ControlCommand::CancelSplit(KeyspaceId(id)),
            proto::CommandProto::RemoveToken(id) => ControlCommand::RemoveToken(id),
            proto::CommandProto::ExpireToken(proto::ExpireToken { token, at_ms }) => {
                ControlCommand::ExpireToken { token, at_ms }
            }
            proto::CommandProto::SetManagers(managers) => {
                ControlCommand::SetManagers(read_managers(&managers)?)
            }
        };
        let id = RequestId { origin: request.origin, number: request.number };
        Ok(CommandRequest { id, after: request.after, command })
    }
}

/// Numbers of refusals; they never change.
const REFUSALS: [(u32, CommandRefusal); 20] = [
    (2, CommandRefusal::StaleIncarnation),
    (3, CommandRefusal::NotPrimary),
    (4, CommandRefusal::NotControl),
    (5, CommandRefusal::NotInSync),
    (6, CommandRefusal::NotFollower),
    (7, CommandRefusal::Member),
    (8, CommandRefusal::NotNeeded),
    (9, CommandRefusal::TooFewInSync),
    (10, CommandRefusal::NotUp),
    (11, CommandRefusal::Recovering),
    (12, CommandRefusal::NothingToRecover),
    (13, CommandRefusal::Moving),
    (14, CommandRefusal::UnknownNode),
    (15, CommandRefusal::UnknownInstance),
    (16, CommandRefusal::UnknownKeyspace),
    (17, CommandRefusal::UnknownPartition),
    (18, CommandRefusal::NoNodes),
    (19, CommandRefusal::Managers),
    (20, CommandRefusal::TooOld),
    (22, CommandRefusal::InControlGroup),
];
const STALE_EPOCH: u32 = 1;
const MAP: u32 = 21;

impl CommandOutcome {
    /// The bytes; `docs/protocols/control.proto`.
    pub fn encode(&self) -> Vec<u8> {
        self.to_proto().encode_to_vec()
    }

    /// Reads what [`CommandOutcome::encode`] wrote.
    ///
    /// # Errors
    /// If the bytes are not a valid outcome.
    pub fn decode(bytes: &[u8]) -> Result<CommandOutcome, CommandError> {
        if bytes.len() > COMMAND_BYTES_MAX {
            return Err(CommandError::new("an outcome is shorter"));
        }
        let outcome =
            proto::OutcomeProto::decode(bytes).map_err(|error| CommandError::new(error.to_string()))?;
        CommandOutcome::from_proto(outcome)
    }

    pub(crate) fn to_proto(&self) -> proto::OutcomeProto {
        let mut outcome = proto::OutcomeProto { mark: self.applied_count, ..proto::OutcomeProto::default() };
        match &self.result {
            Ok(done) => {
                outcome.number = done.number;
                outcome.map_epoch = done.epoch.get();
            }
            Err(CommandRefusal::StaleEpoch { now }) => {
                outcome.refusal = STALE_EPOCH;
                outcome.number = now.get();
            }
            Err(CommandRefusal::Map(why)) => {
                outcome.refusal = MAP;
                let is_end = |end: &usize| why.is_char_boundary(*end);
                let end = (0..=why.len().min(REFUSAL_BYTES_MAX)).rev().find(is_end);
                outcome.text = why[..end.unwrap_or(0)].to_owned();
            }
            Err(refusal) => {
                let known = REFUSALS.iter().find(|(_, known)| known == refusal);
                outcome.refusal = known.map(|(number, _)| *number).expect("every refusal has a number");
            }
        }
        outcome
    }

    pub(crate) fn from_proto(outcome: proto::OutcomeProto) -> Result<CommandOutcome, CommandError> {
        let result = match outcome.refusal {
            0 => Ok(CommandResult { number: outcome.number, epoch: MapEpoch(outcome.map_epoch) }),
            STALE_EPOCH => Err(CommandRefusal::StaleEpoch { now: PartitionEpoch(outcome.number) }),
            MAP => Err(CommandRefusal::Map(outcome.text)),
            number => Err(REFUSALS
                .iter()
                .find(|(known, _)| *known == number)
                .map(|(_, refusal)| refusal.clone())
                .ok_or(CommandError::new(format!("no refusal has number {number}")))?),
        };
        Ok(CommandOutcome { result, applied_count: outcome.mark })
    }
}

pub(crate) fn write_managers(managers: &[ManagerInfo]) -> proto::Managers {
    let managers = managers
        .iter()
        .map(|manager| proto::ManagerProto { id: manager.id.0, addr: manager.addr.as_str().to_owned() });
    proto::Managers { managers: managers.collect() }
}

pub(crate) fn read_managers(managers: &proto::Managers) -> Result<Vec<ManagerInfo>, CommandError> {
    if managers.managers.len() > MANAGERS_MAX {
        return Err(CommandError::new("more managers than there may be"));
    }
    let read = |manager: &proto::ManagerProto| {
        let addr = Address::new(&manager.addr).map_err(|error| CommandError::new(error.to_string()))?;
        Ok(ManagerInfo { id: ManagerId(manager.id), addr })
    };
    managers.managers.iter().map(read).collect()
}

/// A change as a delta that applies to no map: only the change is meant.
fn one(change: MapChange) -> Vec<u8> {
    MapDelta { from: MapEpoch(0), to: MapEpoch(0), changes: vec![change] }.encode()
}

fn alter(id: KeyspaceId, config: &KeyspaceConfig) -> Vec<u8> {
    one(MapChange::AlterKeyspace { id, config: config.clone() })
}

fn read_one(bytes: &[u8]) -> Result<MapChange, CommandError> {
    let delta = MapDelta::decode(bytes).map_err(|error| CommandError::new(error.to_string()))?;
    let mut changes = delta.changes.into_iter();
    match (changes.next(), changes.next()) {
        (Some(change), None) => Ok(change),
        _ => Err(CommandError::new("not one change")),
    }
}

fn read_alter(bytes: &[u8]) -> Result<(KeyspaceId, KeyspaceConfig), CommandError> {
    match read_one(bytes)? {
        MapChange::AlterKeyspace { id, config } => Ok((id, config)),
        _ => Err(CommandError::new("not a configuration of a keyspace")),
    }
}

fn read_join(join: proto::JoinProto) -> Result<JoinNode, CommandError> {
    let MapChange::PutNode(node) = read_one(&join.node)? else {
        return Err(CommandError::new("not a node"));
    };
    Ok(JoinNode {
        node: join.known.then_some(node.id),
        replaces: Incarnation(join.replaces),
        incarnation: node.incarnation,
        manager: node.manager,
        instances: node.instances,
        domain: join.domain,
        capacity: join.capacity,
        intact: join.intact,
        closed: join.closed,
    })
}

fn write_partition(keyspace: KeyspaceId, partition: PartitionId) -> proto::PartitionProto {
    proto::PartitionProto { keyspace: keyspace.get(), partition: partition.get() }
}

fn write_regroup(regroup: &Regroup) -> proto::RegroupProto {
    let (step, instance) = match regroup.step {
        GroupStep::Admit(instance) => (1, instance),
        GroupStep::Exclude(instance) => (2, instance),
        GroupStep::AddFollower { instance, target: false } => (3, instance),
        GroupStep::AddFollower { instance, target: true } => (4, instance),
        GroupStep::RemoveFollower(instance) => (5, instance),
        GroupStep::Promote(instance) => (6, instance),
        GroupStep::Demote(instance) => (7, instance),
        GroupStep::Leave(instance) => (8, instance),
        GroupStep::RaiseEpoch => (9, InstanceId(0)),
    };
    let by = match regroup.by {
        RegroupOrigin::Control => None,
        RegroupOrigin::Instance(id, incarnation) => {
            Some(proto::Instance { id: id.get(), incarnation: incarnation.get() })
        }
    };
    proto::RegroupProto {
        place: write_partition(regroup.keyspace, regroup.partition),
        epoch: regroup.epoch.get(),
        by,
        step,
        instance: instance.get(),
    }
}

fn read_regroup(regroup: &proto::RegroupProto) -> Result<Regroup, CommandError> {
    let instance = InstanceId(regroup.instance);
    let step = match regroup.step {
        1 => GroupStep::Admit(instance),
        2 => GroupStep::Exclude(instance),
        3 => GroupStep::AddFollower { instance, target: false },
        4 => GroupStep::AddFollower { instance, target: true },
        5 => GroupStep::RemoveFollower(instance),
        6 => GroupStep::Promote(instance),
        7 => GroupStep::Demote(instance),
        8 => GroupStep::Leave(instance),
        9 => GroupStep::RaiseEpoch,
        number => return Err(CommandError::new(format!("no step of a group has number {number}"))),
    };
    let by = match &regroup.by {
        None => RegroupOrigin::Control,
        Some(by) => RegroupOrigin::Instance(InstanceId(by.id), Incarnation(by.incarnation)),
    };
    Ok(Regroup {
        keyspace: KeyspaceId(regroup.place.keyspace),
        partition: PartitionId(regroup.place.partition),
        epoch: PartitionEpoch(regroup.epoch),
        by,
        step,
    })
}

fn write_log_report(log: &LogReport) -> proto::ReportedLogProto {
    proto::ReportedLogProto {
        place: write_partition(log.keyspace, log.partition),
        epoch: log.epoch.get(),
        instance: log.instance.get(),
        end_epoch: log.end.epoch,
        end_index: log.end.index.get(),
        intact: log.intact,
    }
}

fn read_log_report(log: &proto::ReportedLogProto) -> LogReport {
    LogReport {
        keyspace: KeyspaceId(log.place.keyspace),
        partition: PartitionId(log.place.partition),
        epoch: PartitionEpoch(log.epoch),
        instance: InstanceId(log.instance),
        end: LogEnd { epoch: log.end_epoch, index: LogIndex(log.end_index) },
        intact: log.intact,
    }
}
