//! Why a delta is refused. The map that it was to change stays as it was.

use std::fmt;

use zerohop_wire::ids::{InstanceId, KeyspaceId, MapEpoch, NodeId, PartitionEpoch, PartitionId};

use super::GroupFault;
use crate::keyspace::{ConfigError, KeyspaceName};
use crate::limits::{
    CHANGES_MAX, INSTANCES_PER_NODE_MAX, KEYSPACES_MAX, MAP_BYTES_MAX, NODES_MAX, TOKENS_MAX,
};

/// Why a delta is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MapError {
    /// The delta starts from another epoch.
    WrongBase {
        /// The map's.
        map: MapEpoch,
        /// The delta's.
        delta: MapEpoch,
    },
    /// The delta does not lead forward from the map.
    NotNewer {
        /// The map's epoch.
        map: MapEpoch,
        /// Where the delta leads.
        to: MapEpoch,
    },
    /// More changes than one delta may have.
    TooManyChanges {
        /// How many.
        changes: usize,
    },
    /// More nodes than a map may have.
    TooManyNodes {
        /// How many.
        nodes: usize,
    },
    /// More keyspaces than a map may have.
    TooManyKeyspaces {
        /// How many.
        keyspaces: usize,
    },
    /// The map would not fit a frame.
    TooLarge {
        /// Bytes it would have.
        bytes: usize,
    },
    /// A node without instances, or with too many.
    Instances {
        /// The node.
        node: NodeId,
        /// How many.
        instances: usize,
    },
    /// Two nodes claim an instance, or its id is beyond the last.
    InstanceTaken {
        /// The instance.
        instance: InstanceId,
    },
    /// There is no such node to remove.
    UnknownNode {
        /// The node.
        node: NodeId,
    },
    /// There is no such keyspace.
    UnknownKeyspace {
        /// The keyspace.
        keyspace: KeyspaceId,
    },
    /// The id of a new keyspace is in use, or is zero.
    KeyspaceIdTaken {
        /// The keyspace.
        keyspace: KeyspaceId,
    },
    /// The name of a new keyspace is in use.
    NameTaken {
        /// The name.
        name: KeyspaceName,
        /// Who has it.
        keyspace: KeyspaceId,
    },
    /// The configuration is not valid, or not as an alteration.
    Config {
        /// The keyspace.
        keyspace: KeyspaceId,
        /// Why.
        error: ConfigError,
    },
    /// A keyspace with another number of groups than of partitions.
    GroupCount {
        /// The keyspace.
        keyspace: KeyspaceId,
        /// Its groups.
        groups: usize,
        /// Its partitions.
        partitions: u32,
    },
    /// A keyspace that was split so often before cannot be, or is not new here.
    Splits {
        /// The keyspace.
        keyspace: KeyspaceId,
        /// How often it is said to have been split.
        splits: u8,
    },
    /// More tokens than a map may have.
    TooManyTokens {
        /// How many.
        tokens: usize,
    },
    /// There is no such token to revoke.
    UnknownToken {
        /// Its number.
        token: u64,
    },
    /// Another token has this name.
    TokenNameTaken {
        /// The name.
        name: KeyspaceName,
    },
    /// The groups of a keyspace stand in a ring of more instances than there are.
    RingTooLarge {
        /// The keyspace.
        keyspace: KeyspaceId,
        /// Instances of the ring.
        instances: u32,
    },
    /// There is no such partition.
    UnknownPartition {
        /// The keyspace.
        keyspace: KeyspaceId,
        /// The partition.
        partition: PartitionId,
    },
    /// A group that can be in no map.
    Group {
        /// The keyspace.
        keyspace: KeyspaceId,
        /// The partition.
        partition: PartitionId,
        /// Why.
        fault: GroupFault,
    },
    /// A group was changed without raising its epoch.
    EpochNotRaised {
        /// The keyspace.
        keyspace: KeyspaceId,
        /// The partition.
        partition: PartitionId,
        /// The epoch of the group in the map.
        old: PartitionEpoch,
        /// The epoch of the group in the delta.
        new: PartitionEpoch,
    },
    /// A group names an instance that no node has.
    UnknownInstance {
        /// The keyspace.
        keyspace: KeyspaceId,
        /// The partition.
        partition: PartitionId,
        /// The instance.
        instance: InstanceId,
    },
    /// An instance has a new incarnation, and a group that named the old one stayed as it was.
    StaleMember {
        /// The keyspace.
        keyspace: KeyspaceId,
        /// The partition.
        partition: PartitionId,
        /// The instance.
        instance: InstanceId,
    },
}

impl fmt::Display for MapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WrongBase { map, delta } => {
                write!(
                    f,
                    "the delta changes the map of epoch {delta}, and this one is of epoch {map}: fetch the map whole"
                )
            }
            Self::NotNewer { map, to } => {
                write!(
                    f,
                    "the delta leads to epoch {to}, and the map is of epoch {map} already: drop the delta"
                )
            }
            Self::TooManyChanges { changes } => {
                write!(
                    f,
                    "{changes} changes in one delta, of at most {CHANGES_MAX}: send the map whole, or in steps"
                )
            }
            Self::TooManyNodes { nodes } => {
                write!(f, "{nodes} nodes, of at most {NODES_MAX}: remove dead ones first")
            }
            Self::TooManyKeyspaces { keyspaces } => {
                write!(
                    f,
                    "{keyspaces} keyspaces, of at most {KEYSPACES_MAX}: drop one, or use prefixes of keys"
                )
            }
            Self::TooLarge { bytes } => write!(
                f,
                "the map would have {bytes} bytes, of at most {MAP_BYTES_MAX}: use fewer partitions or replicas"
            ),
            Self::Instances { node, instances } => {
                write!(f, "node {node} has {instances} instances: give it 1 to {INSTANCES_PER_NODE_MAX}")
            }
            Self::InstanceTaken { instance } => {
                write!(
                    f,
                    "the instances from {instance} on belong to another node or lie beyond the last id: use new ids"
                )
            }
            Self::UnknownNode { node } => write!(f, "the map has no node {node}"),
            Self::UnknownKeyspace { keyspace } => write!(f, "the map has no keyspace {keyspace}"),
            Self::KeyspaceIdTaken { keyspace } => {
                write!(f, "keyspace id {keyspace} is in use or zero: every keyspace gets a new id")
            }
            Self::NameTaken { name, keyspace } => {
                write!(
                    f,
                    "keyspace {keyspace} is called {name} already: use that one, or choose another name"
                )
            }
            Self::Config { keyspace, error } => write!(f, "keyspace {keyspace}: {error}"),
            Self::GroupCount { keyspace, groups, partitions } => {
                write!(
                    f,
                    "keyspace {keyspace} comes with {groups} replica groups for {partitions} partitions"
                )
            }
            Self::Splits { keyspace, splits } => write!(
                f,
                "keyspace {keyspace} cannot have been split {splits} times: that is told once, of a new one, and it has fewer bits"
            ),
            Self::TooManyTokens { tokens } => {
                write!(f, "{tokens} tokens, of at most {TOKENS_MAX}: revoke those that nobody uses")
            }
            Self::UnknownToken { token } => {
                write!(f, "there is no token {token:016x}: it was revoked already")
            }
            Self::TokenNameTaken { name } => {
                write!(f, "there is a token {name} already: use another name, or revoke it first")
            }
            Self::RingTooLarge { keyspace, instances } => {
                write!(
                    f,
                    "keyspace {keyspace} stands in a ring of {instances} instances, more than the map has"
                )
            }
            Self::UnknownPartition { keyspace, partition } => {
                write!(f, "keyspace {keyspace} has no partition {partition}")
            }
            Self::Group { keyspace, partition, fault } => {
                write!(f, "the group of partition {partition} of keyspace {keyspace} {fault}")
            }
            Self::EpochNotRaised { keyspace, partition, old, new } => write!(
                f,
                "the group of partition {partition} of keyspace {keyspace} is at epoch {old}, and the change says \
                 {new}: decide again from the present group"
            ),
            Self::UnknownInstance { keyspace, partition, instance } => write!(
                f,
                "partition {partition} of keyspace {keyspace} is held by instance {instance}, which no node has: \
                 move it first"
            ),
            Self::StaleMember { keyspace, partition, instance } => write!(
                f,
                "instance {instance} has a new incarnation, and the group of partition {partition} of keyspace \
                 {keyspace} names the old one: decide that group in the same delta"
            ),
        }
    }
}

impl std::error::Error for MapError {}
