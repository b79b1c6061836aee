//! From one map to the next. All or nothing: the map is a value, and a delta that breaks a rule makes no new one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use zerohop_wire::ids::{InstanceId, KeyspaceId, MapEpoch, NodeId, PartitionId};

use super::{Change, ClusterMap, GroupTable, Keyspace, MapDelta, MapError, Node, NodeTable, ReplicaGroup};
use crate::codec;
use crate::keyspace::KeyspaceConfig;
use crate::limits::{CHANGES_MAX, KEYSPACES_MAX, MAP_BYTES_MAX};

impl ClusterMap {
    /// The map after `delta`, which must start at this map's epoch, or be a whole, newer map.
    pub fn apply(&self, delta: &MapDelta) -> Result<ClusterMap, MapError> {
        if delta.to <= self.epoch || delta.to <= delta.from {
            return Err(MapError::NotNewer { map: self.epoch.max(delta.from), to: delta.to });
        }
        if delta.changes.len() > CHANGES_MAX {
            return Err(MapError::TooManyChanges { changes: delta.changes.len() });
        }
        if delta.is_whole() {
            return Draft::of(&ClusterMap::default()).change(&delta.changes)?.finish(delta.to);
        }
        if delta.from != self.epoch {
            return Err(MapError::WrongBase { map: self.epoch, delta: delta.from });
        }
        Draft::of(self).change(&delta.changes)?.finish(delta.to)
    }
}

/// A map in the making.
struct Draft<'a> {
    old: &'a ClusterMap,
    /// The nodes, taken out of the table once one of them changes.
    nodes: Option<BTreeMap<NodeId, Node>>,
    keyspaces: BTreeMap<KeyspaceId, Arc<Keyspace>>,
    /// Keyspaces with a group that was set.
    touched: BTreeSet<KeyspaceId>,
}

impl<'a> Draft<'a> {
    fn of(old: &'a ClusterMap) -> Draft<'a> {
        Draft { old, nodes: None, keyspaces: old.keyspaces.clone(), touched: BTreeSet::new() }
    }

    fn change(mut self, changes: &[Change]) -> Result<Draft<'a>, MapError> {
        for change in changes {
            match change {
                Change::PutNode(node) => {
                    self.nodes().insert(node.id, node.clone());
                }
                Change::RemoveNode(id) => {
                    self.nodes().remove(id).ok_or(MapError::UnknownNode { node: *id })?;
                }
                Change::CreateKeyspace { id, config, groups } => self.create(*id, config, groups)?,
                Change::AlterKeyspace { id, config } => self.alter(*id, config)?,
                Change::DropKeyspace(id) => {
                    self.keyspaces.remove(id).ok_or(MapError::UnknownKeyspace { keyspace: *id })?;
                    self.touched.remove(id);
                }
                Change::SetGroup { keyspace, partition, group } => self.set(*keyspace, *partition, group)?,
                Change::SplitKeyspace(id) => self.split(*id)?,
            }
        }
        Ok(self)
    }

    fn nodes(&mut self) -> &mut BTreeMap<NodeId, Node> {
        let old = self.old;
        self.nodes.get_or_insert_with(|| old.nodes().map(|node| (node.id(), node.to_node())).collect())
    }

    fn keyspace(&mut self, id: KeyspaceId) -> Result<&mut Keyspace, MapError> {
        self.keyspaces.get_mut(&id).map(Arc::make_mut).ok_or(MapError::UnknownKeyspace { keyspace: id })
    }

    fn create(
        &mut self,
        id: KeyspaceId,
        config: &KeyspaceConfig,
        groups: &[ReplicaGroup],
    ) -> Result<(), MapError> {
        if id == KeyspaceId::NONE || self.keyspaces.contains_key(&id) {
            return Err(MapError::KeyspaceIdTaken { keyspace: id });
        }
        if self.keyspaces.len() == KEYSPACES_MAX {
            return Err(MapError::TooManyKeyspaces { keyspaces: KEYSPACES_MAX + 1 });
        }
        if let Some((other, _)) =
            self.keyspaces.iter().find(|(_, keyspace)| keyspace.config.name == config.name)
        {
            return Err(MapError::NameTaken { name: config.name.clone(), keyspace: *other });
        }
        config.check().map_err(|error| MapError::Config { keyspace: id, error })?;
        let partitions = config.partitions.get();
        if groups.len() != partitions as usize {
            return Err(MapError::GroupCount { keyspace: id, groups: groups.len(), partitions });
        }
        for (partition, group) in config.partitions.ids().zip(groups) {
            check_group(id, partition, group)?;
        }
        let keyspace = Keyspace { config: config.clone(), groups: GroupTable::new(groups) };
        self.keyspaces.insert(id, Arc::new(keyspace));
        self.touched.insert(id);
        Ok(())
    }

    fn alter(&mut self, id: KeyspaceId, config: &KeyspaceConfig) -> Result<(), MapError> {
        let keyspace = self.keyspace(id)?;
        keyspace.config.check_alteration(config).map_err(|error| MapError::Config { keyspace: id, error })?;
        keyspace.config = config.clone();
        Ok(())
    }

    fn split(&mut self, id: KeyspaceId) -> Result<(), MapError> {
        let keyspace = self.keyspace(id)?;
        let error = |error| MapError::Config { keyspace: id, error };
        let doubled = keyspace.config.doubled().map_err(error)?;
        keyspace.config = doubled;
        keyspace.groups.double();
        self.touched.insert(id);
        Ok(())
    }

    fn set(&mut self, id: KeyspaceId, partition: PartitionId, group: &ReplicaGroup) -> Result<(), MapError> {
        check_group(id, partition, group)?;
        let keyspace = self.keyspace(id)?;
        let old =
            keyspace.group(partition).ok_or(MapError::UnknownPartition { keyspace: id, partition })?.epoch;
        if group.epoch <= old {
            return Err(MapError::EpochNotRaised { keyspace: id, partition, old, new: group.epoch });
        }
        keyspace.groups.set(partition, group.as_group());
        self.touched.insert(id);
        Ok(())
    }

    fn finish(mut self, epoch: MapEpoch) -> Result<ClusterMap, MapError> {
        for id in self.touched.clone() {
            self.keyspace(id)?.groups.compact();
        }
        let nodes_changed = self.nodes.is_some();
        let nodes = match &self.nodes {
            Some(nodes) => Arc::new(NodeTable::new(nodes)?),
            None => Arc::clone(&self.old.nodes),
        };
        let map = ClusterMap { epoch, nodes, keyspaces: self.keyspaces };
        for (id, keyspace) in map.keyspaces() {
            if nodes_changed || self.touched.contains(&id) {
                check_members(&map, id, keyspace)?;
            }
        }
        if nodes_changed {
            check_incarnations(self.old, &map)?;
        }
        match codec::map_bytes(&map) {
            bytes if bytes > MAP_BYTES_MAX => Err(MapError::TooLarge { bytes }),
            _ => Ok(map),
        }
    }
}

fn check_group(keyspace: KeyspaceId, partition: PartitionId, group: &ReplicaGroup) -> Result<(), MapError> {
    group.as_group().check().map_err(|fault| MapError::Group { keyspace, partition, fault })
}

fn check_members(map: &ClusterMap, id: KeyspaceId, keyspace: &Keyspace) -> Result<(), MapError> {
    for (partition, group) in keyspace.groups() {
        if let Some(instance) = group.members().find(|member| map.nodes.of_instance(*member).is_none()) {
            return Err(MapError::UnknownInstance { keyspace: id, partition, instance });
        }
    }
    Ok(())
}

/// Groups name incarnations, though only the node's entry says which: so an entry that changes its incarnation takes
/// every group along that names it. Otherwise a process that restarted would be in a group it knows nothing of.
fn check_incarnations(old: &ClusterMap, new: &ClusterMap) -> Result<(), MapError> {
    let restarted = |instance: InstanceId| {
        let before = old.nodes.of_instance(instance).map(|node| node.incarnation());
        let after = new.nodes.of_instance(instance).map(|node| node.incarnation());
        before.is_some() && before != after
    };
    for (id, keyspace) in new.keyspaces() {
        let Some(before) = old.keyspace(id) else { continue };
        // After a split every group has a new epoch, whoever decided it: a delta that joins both is not looked into.
        if keyspace.config.partitions != before.config.partitions {
            continue;
        }
        for (partition, group) in keyspace.groups() {
            let kept = before.group(partition).is_some_and(|before| before.epoch == group.epoch);
            if kept && let Some(instance) = group.members().find(|member| restarted(*member)) {
                return Err(MapError::StaleMember { keyspace: id, partition, instance });
            }
        }
    }
    Ok(())
}
