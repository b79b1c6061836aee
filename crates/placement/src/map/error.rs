//! Errors of deltas. The map to which a refused delta was applied does not change.

use std::fmt;

use zerohop_wire::ids::{InstanceId, KeyspaceId, MapEpoch, NodeId, PartitionEpoch, PartitionId};
use zerohop_wire::plurals::counted;

use super::GroupFault;
use crate::keyspace::{ConfigError, KeyspaceName};
use crate::limits::{
    CHANGES_MAX, INSTANCES_PER_NODE_MAX, KEYSPACES_MAX, MAP_BYTES_MAX, NODES_MAX, TOKENS_MAX,
};
use crate::regions::RegionFault;

/// The reason why a delta is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MapError {
    /// The delta starts from another epoch.
    WrongBase {
        /// The map's epoch.
        map: MapEpoch,
        /// The delta's base epoch.
        delta: MapEpoch,
    },
    /// The delta does not lead to a newer epoch.
    NotNewer {
        /// The map's epoch.
        map: MapEpoch,
        /// The delta's target epoch.
        to: MapEpoch,
    },
    /// The delta exceeds the maximum number of changes.
    TooManyChanges {
        /// The number of changes.
        changes: usize,
    },
    /// The map would exceed the maximum number of nodes.
    TooManyNodes {
        /// The number of nodes.
        nodes: usize,
    },
    /// The map would exceed the maximum number of keyspaces.
    TooManyKeyspaces {
        /// The number of keyspaces.
        keyspaces: usize,
    },
    /// The map would not fit in a frame.
    TooLarge {
        /// Its size in bytes.
        bytes: usize,
    },
    /// A node has no instances, or too many.
    Instances {
        /// The node.
        node: NodeId,
        /// The number of instances.
        instances: usize,
    },
    /// Two nodes have the same instance, or an instance's id exceeds the maximum.
    InstanceInUse {
        /// The instance.
        instance: InstanceId,
    },
    /// The node to remove does not exist.
    UnknownNode {
        /// The node.
        node: NodeId,
    },
    /// The keyspace does not exist.
    UnknownKeyspace {
        /// The keyspace.
        keyspace: KeyspaceId,
    },
    /// The id of a new keyspace is in use, or is zero.
    KeyspaceIdInUse {
        /// The keyspace.
        keyspace: KeyspaceId,
    },
    /// The name of a new keyspace is in use.
    NameInUse {
        /// The name.
        name: KeyspaceName,
        /// The keyspace that has it.
        keyspace: KeyspaceId,
    },
    /// The configuration is invalid, or the alteration is not permitted.
    Config {
        /// The keyspace.
        keyspace: KeyspaceId,
        /// The reason.
        error: ConfigError,
    },
    /// The number of groups of a keyspace differs from its number of partitions.
    GroupCount {
        /// The keyspace.
        keyspace: KeyspaceId,
        /// The number of its groups.
        groups: usize,
        /// The number of its partitions.
        partitions: u32,
    },
    /// The number of past splits of a keyspace is impossible, or the keyspace is not created by this delta.
    Splits {
        /// The keyspace.
        keyspace: KeyspaceId,
        /// The stated number of splits.
        splits: u8,
    },
    /// The map would exceed the maximum number of tokens.
    TooManyTokens {
        /// The number of tokens.
        tokens: usize,
    },
    /// The token to revoke does not exist.
    UnknownToken {
        /// Its number.
        token: u64,
    },
    /// Another token has this name.
    TokenNameInUse {
        /// The name.
        name: KeyspaceName,
    },
    /// The ring of a keyspace's groups has more instances than the map.
    RingTooLarge {
        /// The keyspace.
        keyspace: KeyspaceId,
        /// The number of the ring's instances.
        instances: u32,
    },
    /// A region cannot be split, or a keyspace cannot have these regions.
    Region {
        /// The keyspace.
        keyspace: KeyspaceId,
        /// The region.
        region: PartitionId,
        /// The reason.
        fault: RegionFault,
    },
    /// Another split of the keyspace is pending, or the keyspace is being dropped.
    SplitNotPossible {
        /// The keyspace.
        keyspace: KeyspaceId,
    },
    /// The keyspace has no pending split.
    NoPendingSplit {
        /// The keyspace.
        keyspace: KeyspaceId,
    },
    /// The partition does not exist.
    UnknownPartition {
        /// The keyspace.
        keyspace: KeyspaceId,
        /// The partition.
        partition: PartitionId,
    },
    /// An invalid group.
    Group {
        /// The keyspace.
        keyspace: KeyspaceId,
        /// The partition.
        partition: PartitionId,
        /// The reason.
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
    /// An instance has a new incarnation, but a group that names the old one was not changed.
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
            Self::InstanceInUse { instance } => {
                write!(
                    f,
                    "the instances from {instance} on belong to another node or lie beyond the last id: use new ids"
                )
            }
            Self::UnknownNode { node } => write!(f, "the map has no node {node}"),
            Self::UnknownKeyspace { keyspace } => write!(f, "the map has no keyspace {keyspace}"),
            Self::KeyspaceIdInUse { keyspace } => {
                write!(f, "keyspace id {keyspace} is in use or zero: every keyspace gets a new id")
            }
            Self::NameInUse { name, keyspace } => {
                write!(
                    f,
                    "keyspace {keyspace} is called {name} already: use that one, or choose another name"
                )
            }
            Self::Config { keyspace, error } => write!(f, "keyspace {keyspace}: {error}"),
            Self::GroupCount { keyspace, groups, partitions } => {
                write!(
                    f,
                    "keyspace {keyspace} comes with {} for {}",
                    counted(*groups, "replica group"),
                    counted(*partitions, "partition")
                )
            }
            Self::Splits { keyspace, splits } => write!(
                f,
                "keyspace {keyspace} cannot have been split {}: a new keyspace reports its splits once, and has fewer bits",
                counted(*splits, "time")
            ),
            Self::TooManyTokens { tokens } => {
                write!(f, "{tokens} tokens, of at most {TOKENS_MAX}: revoke those that are not used")
            }
            Self::UnknownToken { token } => {
                write!(f, "there is no token {token:016x}: it was revoked already")
            }
            Self::TokenNameInUse { name } => {
                write!(f, "there is a token {name} already: use another name, or revoke it first")
            }
            Self::RingTooLarge { keyspace, instances } => {
                write!(
                    f,
                    "keyspace {keyspace} stands in a ring of {instances} instances, more than the map has"
                )
            }
            Self::Region { keyspace, region, fault } => {
                write!(f, "region {region} of keyspace {keyspace} {fault}")
            }
            Self::SplitNotPossible { keyspace } => write!(
                f,
                "keyspace {keyspace} is being split or dropped already: wait until that has ended, and try again"
            ),
            Self::NoPendingSplit { keyspace } => write!(f, "keyspace {keyspace} is not being split"),
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
