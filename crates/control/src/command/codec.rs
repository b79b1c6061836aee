//! Commands and outcomes as bytes. Nodes and configurations of keyspaces travel as changes of the map, in the map's own
//! format, so that there is one form of each.

use std::fmt;

use prost::Message;
use zerohop_placement::{Address, Change, KeyspaceConfig, MapDelta, Node, NodeState};
use zerohop_wire::ids::{
    Incarnation, InstanceId, KeyspaceId, LogIndex, MapEpoch, NodeId, PartitionEpoch, PartitionId,
};

use super::{
    Asker, Command, Done, Drained, GroupStep, Held, HeldLog, Join, Keep, LogEnd, ManagerId, ManagerInfo,
    Move, Outcome, Refusal, Regroup, Request, RequestId, proto,
};
use crate::limits::{COMMAND_BYTES_MAX, HELD_LOGS_MAX, MANAGERS_MAX, REFUSAL_BYTES_MAX};

/// Bytes that are no command, or no outcome.
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

impl Request {
    /// The bytes; `docs/protocols/control.proto`.
    pub fn encode(&self) -> Vec<u8> {
        let command = match &self.command {
            Command::Join(join) => proto::Command::Join(proto::Join {
                node: one(Change::PutNode(Node {
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
            Command::SetNodeState { node, incarnation, state } => {
                let number = STATES.iter().position(|known| known == state).unwrap_or_default();
                proto::Command::SetNodeState(proto::SetNodeState {
                    node: node.get(),
                    incarnation: incarnation.get(),
                    state: number as u32,
                })
            }
            Command::RemoveNode(node) => proto::Command::RemoveNode(node.get()),
            Command::CreateKeyspace(config) => proto::Command::CreateKeyspace(alter(KeyspaceId(0), config)),
            Command::AlterKeyspace(id, config) => proto::Command::AlterKeyspace(alter(*id, config)),
            Command::DropKeyspace(id) => proto::Command::DropKeyspace(id.get()),
            Command::CloseKeyspace(id) => proto::Command::CloseKeyspace(id.get()),
            Command::Drained(Drained { keyspace, instance, map }) => {
                let (keyspace, instance, map) = (keyspace.get(), instance.get(), map.get());
                proto::Command::Drained(proto::Drained { keyspace, instance, map })
            }
            Command::SplitKeyspace(id) => proto::Command::SplitKeyspace(id.get()),
            Command::Regroup(regroup) => proto::Command::Regroup(write_regroup(regroup)),
            Command::Held(held) => proto::Command::Held(proto::Held {
                node: held.node.get(),
                incarnation: held.incarnation.get(),
                logs: held.logs.iter().map(write_held).collect(),
            }),
            Command::Recover { keyspace, partition, damaged } => proto::Command::Recover(proto::Recover {
                keyspace: keyspace.get(),
                partition: partition.get(),
                damaged: match damaged {
                    None => 0,
                    Some(Keep::Damaged) => 1,
                    Some(Keep::Follower) => 2,
                },
            }),
            Command::AcknowledgeLosses { keyspace, until } => {
                let (keyspace, until) = (keyspace.get(), until.get());
                proto::Command::AcknowledgeLosses(proto::AcknowledgeLosses { keyspace, until })
            }
            Command::Move(one) => proto::Command::Move(proto::Move {
                place: place(one.keyspace, one.partition),
                to: one.to.map(NodeId::get),
                instance: one.instance.map(InstanceId::get),
            }),
            Command::PutToken(token) => proto::Command::PutToken(one(Change::PutToken(token.clone()))),
            Command::RemoveToken(id) => proto::Command::RemoveToken(*id),
            Command::ExpireToken { token, at_ms } => {
                proto::Command::ExpireToken(proto::ExpireToken { token: *token, at_ms: *at_ms })
            }
            Command::SetManagers(managers) => proto::Command::SetManagers(write_managers(managers)),
        };
        let Request { id, after, .. } = self;
        proto::Request {
            origin: id.origin,
            number: id.number,
            after: *after,
            command: Some(command),
            batch: Vec::new(),
        }
        .encode_to_vec()
    }

    /// Reads what [`Request::encode`] wrote, and says of other bytes what is wrong with them.
    ///
    /// # Errors
    /// If the bytes are no request.
    pub fn decode(bytes: &[u8]) -> Result<Request, CommandError> {
        if bytes.len() > COMMAND_BYTES_MAX {
            return Err(CommandError::new(format!("{} bytes, of at most {COMMAND_BYTES_MAX}", bytes.len())));
        }
        let request = proto::Request::decode(bytes).map_err(|error| CommandError::new(error.to_string()))?;
        Request::from_proto(request)
    }

    pub(super) fn from_proto(request: proto::Request) -> Result<Request, CommandError> {
        if !request.batch.is_empty() {
            return Err(CommandError::new("a batch of requests, where one is expected"));
        }
        let command = match request.command.ok_or(CommandError::new("it asks for nothing known"))? {
            proto::Command::Join(join) => Command::Join(read_join(join)?),
            proto::Command::SetNodeState(set) => Command::SetNodeState {
                node: NodeId(set.node),
                incarnation: Incarnation(set.incarnation),
                state: *STATES.get(set.state as usize).ok_or(CommandError::new("no state of a node"))?,
            },
            proto::Command::RemoveNode(node) => Command::RemoveNode(NodeId(node)),
            proto::Command::CreateKeyspace(bytes) => Command::CreateKeyspace(read_alter(&bytes)?.1),
            proto::Command::AlterKeyspace(bytes) => {
                let (id, config) = read_alter(&bytes)?;
                Command::AlterKeyspace(id, config)
            }
            proto::Command::DropKeyspace(id) => Command::DropKeyspace(KeyspaceId(id)),
            proto::Command::CloseKeyspace(id) => Command::CloseKeyspace(KeyspaceId(id)),
            proto::Command::Drained(proto::Drained { keyspace, instance, map }) => {
                Command::Drained(Drained {
                    keyspace: KeyspaceId(keyspace),
                    instance: InstanceId(instance),
                    map: MapEpoch(map),
                })
            }
            proto::Command::SplitKeyspace(id) => Command::SplitKeyspace(KeyspaceId(id)),
            proto::Command::Regroup(regroup) => Command::Regroup(read_regroup(&regroup)?),
            proto::Command::Held(held) => {
                if held.logs.len() > HELD_LOGS_MAX {
                    return Err(CommandError::new("more logs than one report tells of"));
                }
                Command::Held(Held {
                    node: NodeId(held.node),
                    incarnation: Incarnation(held.incarnation),
                    logs: held.logs.iter().map(read_held).collect(),
                })
            }
            proto::Command::Recover(one) => Command::Recover {
                keyspace: KeyspaceId(one.keyspace),
                partition: PartitionId(one.partition),
                damaged: match one.damaged {
                    0 => None,
                    1 => Some(Keep::Damaged),
                    2 => Some(Keep::Follower),
                    other => {
                        return Err(CommandError::new(format!(
                            "a recovery of a kind that is not known here: {other}"
                        )));
                    }
                },
            },
            proto::Command::AcknowledgeLosses(proto::AcknowledgeLosses { keyspace, until }) => {
                Command::AcknowledgeLosses { keyspace: KeyspaceId(keyspace), until: MapEpoch(until) }
            }
            proto::Command::Move(one) => Command::Move(Move {
                keyspace: KeyspaceId(one.place.keyspace),
                partition: PartitionId(one.place.partition),
                to: one.to.map(NodeId),
                instance: one.instance.map(InstanceId),
            }),
            proto::Command::PutToken(bytes) => match read_one(&bytes)? {
                Change::PutToken(token) => Command::PutToken(token),
                _ => return Err(CommandError::new("a token is described by something else")),
            },
            proto::Command::RemoveToken(id) => Command::RemoveToken(id),
            proto::Command::ExpireToken(proto::ExpireToken { token, at_ms }) => {
                Command::ExpireToken { token, at_ms }
            }
            proto::Command::SetManagers(managers) => Command::SetManagers(read_managers(&managers)?),
        };
        let id = RequestId { origin: request.origin, number: request.number };
        Ok(Request { id, after: request.after, command })
    }
}

/// Numbers of refusals; they never change.
const REFUSALS: [(u32, Refusal); 20] = [
    (2, Refusal::StaleIncarnation),
    (3, Refusal::NotPrimary),
    (4, Refusal::NotControl),
    (5, Refusal::NotInSync),
    (6, Refusal::NotFollower),
    (7, Refusal::Member),
    (8, Refusal::NotWanted),
    (9, Refusal::TooFewInSync),
    (10, Refusal::NotUp),
    (11, Refusal::Recovering),
    (12, Refusal::NotLost),
    (13, Refusal::Moving),
    (14, Refusal::UnknownNode),
    (15, Refusal::UnknownInstance),
    (16, Refusal::UnknownKeyspace),
    (17, Refusal::UnknownPartition),
    (18, Refusal::NoNodes),
    (19, Refusal::Managers),
    (20, Refusal::TooOld),
    (22, Refusal::InControlGroup),
];
const STALE_EPOCH: u32 = 1;
const MAP: u32 = 21;

impl Outcome {
    /// The bytes; `docs/protocols/control.proto`.
    pub fn encode(&self) -> Vec<u8> {
        self.to_proto().encode_to_vec()
    }

    /// Reads what [`Outcome::encode`] wrote.
    ///
    /// # Errors
    /// If the bytes are no outcome.
    pub fn decode(bytes: &[u8]) -> Result<Outcome, CommandError> {
        if bytes.len() > COMMAND_BYTES_MAX {
            return Err(CommandError::new("an outcome is shorter"));
        }
        let outcome = proto::Outcome::decode(bytes).map_err(|error| CommandError::new(error.to_string()))?;
        Outcome::from_proto(outcome)
    }

    pub(crate) fn to_proto(&self) -> proto::Outcome {
        let mut outcome = proto::Outcome { mark: self.mark, ..proto::Outcome::default() };
        match &self.result {
            Ok(done) => {
                outcome.number = done.number;
                outcome.map_epoch = done.epoch.get();
            }
            Err(Refusal::StaleEpoch { now }) => {
                outcome.refusal = STALE_EPOCH;
                outcome.number = now.get();
            }
            Err(Refusal::Map(why)) => {
                outcome.refusal = MAP;
                outcome.text = why.chars().take(REFUSAL_BYTES_MAX / 4).collect();
            }
            Err(refusal) => {
                let known = REFUSALS.iter().find(|(_, known)| known == refusal);
                outcome.refusal = known.map(|(number, _)| *number).expect("every refusal has a number");
            }
        }
        outcome
    }

    pub(crate) fn from_proto(outcome: proto::Outcome) -> Result<Outcome, CommandError> {
        let result = match outcome.refusal {
            0 => Ok(Done { number: outcome.number, epoch: MapEpoch(outcome.map_epoch) }),
            STALE_EPOCH => Err(Refusal::StaleEpoch { now: PartitionEpoch(outcome.number) }),
            MAP => Err(Refusal::Map(outcome.text)),
            number => Err(REFUSALS
                .iter()
                .find(|(known, _)| *known == number)
                .map(|(_, refusal)| refusal.clone())
                .ok_or(CommandError::new(format!("no refusal has number {number}")))?),
        };
        Ok(Outcome { result, mark: outcome.mark })
    }
}

pub(crate) fn write_managers(managers: &[ManagerInfo]) -> proto::Managers {
    let managers = managers
        .iter()
        .map(|manager| proto::Manager { id: manager.id.0, addr: manager.addr.as_str().to_owned() });
    proto::Managers { managers: managers.collect() }
}

pub(crate) fn read_managers(managers: &proto::Managers) -> Result<Vec<ManagerInfo>, CommandError> {
    if managers.managers.len() > MANAGERS_MAX {
        return Err(CommandError::new("more managers than there may be"));
    }
    let read = |manager: &proto::Manager| {
        let addr = Address::new(&manager.addr).map_err(|error| CommandError::new(error.to_string()))?;
        Ok(ManagerInfo { id: ManagerId(manager.id), addr })
    };
    managers.managers.iter().map(read).collect()
}

/// A change as a delta that no map takes: only the change is meant.
fn one(change: Change) -> Vec<u8> {
    MapDelta { from: MapEpoch(0), to: MapEpoch(0), changes: vec![change] }.encode()
}

fn alter(id: KeyspaceId, config: &KeyspaceConfig) -> Vec<u8> {
    one(Change::AlterKeyspace { id, config: config.clone() })
}

fn read_one(bytes: &[u8]) -> Result<Change, CommandError> {
    let delta = MapDelta::decode(bytes).map_err(|error| CommandError::new(error.to_string()))?;
    let mut changes = delta.changes.into_iter();
    match (changes.next(), changes.next()) {
        (Some(change), None) => Ok(change),
        _ => Err(CommandError::new("not one change")),
    }
}

fn read_alter(bytes: &[u8]) -> Result<(KeyspaceId, KeyspaceConfig), CommandError> {
    match read_one(bytes)? {
        Change::AlterKeyspace { id, config } => Ok((id, config)),
        _ => Err(CommandError::new("not a configuration of a keyspace")),
    }
}

fn read_join(join: proto::Join) -> Result<Join, CommandError> {
    let Change::PutNode(node) = read_one(&join.node)? else {
        return Err(CommandError::new("not a node"));
    };
    Ok(Join {
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

fn place(keyspace: KeyspaceId, partition: PartitionId) -> proto::Place {
    proto::Place { keyspace: keyspace.get(), partition: partition.get() }
}

fn write_regroup(regroup: &Regroup) -> proto::Regroup {
    let (step, instance) = match regroup.step {
        GroupStep::Admit(instance) => (1, instance),
        GroupStep::Exclude(instance) => (2, instance),
        GroupStep::AddFollower { instance, target: false } => (3, instance),
        GroupStep::AddFollower { instance, target: true } => (4, instance),
        GroupStep::RemoveFollower(instance) => (5, instance),
        GroupStep::Promote(instance) => (6, instance),
        GroupStep::Demote(instance) => (7, instance),
        GroupStep::Leave(instance) => (8, instance),
        GroupStep::Keep => (9, InstanceId(0)),
    };
    let by = match regroup.by {
        Asker::Control => None,
        Asker::Instance(id, incarnation) => {
            Some(proto::Instance { id: id.get(), incarnation: incarnation.get() })
        }
    };
    proto::Regroup {
        place: place(regroup.keyspace, regroup.partition),
        epoch: regroup.epoch.get(),
        by,
        step,
        instance: instance.get(),
    }
}

fn read_regroup(regroup: &proto::Regroup) -> Result<Regroup, CommandError> {
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
        9 => GroupStep::Keep,
        number => return Err(CommandError::new(format!("no step of a group has number {number}"))),
    };
    let by = match &regroup.by {
        None => Asker::Control,
        Some(by) => Asker::Instance(InstanceId(by.id), Incarnation(by.incarnation)),
    };
    Ok(Regroup {
        keyspace: KeyspaceId(regroup.place.keyspace),
        partition: PartitionId(regroup.place.partition),
        epoch: PartitionEpoch(regroup.epoch),
        by,
        step,
    })
}

fn write_held(log: &HeldLog) -> proto::HeldLog {
    proto::HeldLog {
        place: place(log.keyspace, log.partition),
        epoch: log.epoch.get(),
        instance: log.instance.get(),
        end_epoch: log.end.epoch,
        end_index: log.end.index.get(),
        intact: log.intact,
    }
}

fn read_held(log: &proto::HeldLog) -> HeldLog {
    HeldLog {
        keyspace: KeyspaceId(log.place.keyspace),
        partition: PartitionId(log.place.partition),
        epoch: PartitionEpoch(log.epoch),
        instance: InstanceId(log.instance),
        end: LogEnd { epoch: log.end_epoch, index: LogIndex(log.end_index) },
        intact: log.intact,
    }
}
