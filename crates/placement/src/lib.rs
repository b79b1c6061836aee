//! Placement of keys: hash functions, partitions, keyspaces and the cluster map. Client and server share this crate, so that both compute the same
//! placement without a request.
//!
//! ```text
//!   key ──HashKind::hash(seed)──> 64-bit hash ──partition_of (top bits)──> partition
//!   key ──Separators::region──> partition of an ordered keyspace
//!   partition ──ClusterMap (one epoch)──> replica group ──primary──> instance, its address
//!   ClusterMap ──MapDelta (from epoch, to epoch)──> next ClusterMap
//! ```
//!
//! Pure: no clock, no I/O, no random numbers of its own. A [`ClusterMap`] is immutable; [`ClusterMap::apply`] creates the next one, and only maps
//! that satisfy every rule can be created. `docs/formats/cluster-map.md` specifies the bytes.

mod codec;
mod division;
pub mod hash;
pub mod keyspace;
mod layout;
pub mod limits;
pub mod map;
pub mod partitions;
pub mod planted;
mod reachability;
mod regions;
mod separators;

pub use codec::DecodeError;
pub use division::Division;
pub use hash::HashKind;
pub use keyspace::{ChangeHistory, ConfigError, Durability, KeyOrder, KeyspaceConfig, KeyspaceName};
pub use map::{
    Address, ClusterMap, Grant, Group, GroupState, Groups, InstanceRef, Keyspace, MapChange, MapDelta,
    MapDifference, MapError, MapHistory, Node, NodeRef, NodeState, PendingSplit, Permissions, ReplicaGroup,
    Ring, Route, RouteError, TokenEntry, TokenExpiry,
};
pub use partitions::{PartitionCount, partition_of};
pub use reachability::{GroupService, Reachability};
pub use regions::{LiveRegion, RegionFault, RegionTable, Regions, RetiredRegion};
pub use separators::{SeparatorError, Separators};
