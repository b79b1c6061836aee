//! The step from one map to the next. It is atomic: the map is a value, and a delta that violates a rule creates no new one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use zerohop_wire::ids::{InstanceId, KeyspaceId, MapEpoch, NodeId, PartitionId};

use super::{
    ClusterMap, Group, Groups, Keyspace, MapChange, MapDelta, MapError, Node, NodeTable, PendingSplit,
    ReplicaGroup, TokenEntry,
};
use crate::division::Division;
use crate::keyspace::{KeyOrder, KeyspaceConfig};
use crate::limits::{CHANGES_MAX, KEYSPACES_MAX, MAP_BYTES_MAX, NODES_MAX, TOKENS_MAX};
use crate::planted::{Bug, is_planted};
use crate::regions::{RegionFault, RegionTable, Regions};
use crate::separators::Separators;

/// Limits of a map's size. Maps that are sent use the defaults; other limits are for measurements of larger maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapBounds {
    /// Maximum number of nodes.
    pub nodes: usize,
    /// Maximum number of changes in one delta.
    pub changes: usize,
    /// Maximum encoded size in bytes.
    pub bytes: usize,
}

impl Default for MapBounds {
    fn default() -> MapBounds {
        MapBounds { nodes: NODES_MAX, changes: CHANGES_MAX, bytes: MAP_BYTES_MAX }
    }
}

impl ClusterMap {
    /// The map after `delta`, which must start at this map's epoch, or be a complete, newer map.
    pub fn apply(&self, delta: &MapDelta) -> Result<ClusterMap, MapError> {
        self.apply_within(delta, MapBounds::default())
    }

    /// [`ClusterMap::apply`] with other limits.
    pub fn apply_within(&self, delta: &MapDelta, bounds: MapBounds) -> Result<ClusterMap, MapError> {
        if delta.to <= self.epoch || delta.to <= delta.from {
            return Err(MapError::NotNewer { map: self.epoch.max(delta.from), to: delta.to });
        }
        if delta.changes.len() > bounds.changes {
            return Err(MapError::TooManyChanges { changes: delta.changes.len() });
        }
        if delta.is_complete() {
            return MapBuilder::of(&ClusterMap::default()).change(&delta.changes)?.finish(delta.to, bounds);
        }
        if delta.from != self.epoch && !is_planted(Bug::DeltaBaseNotChecked) {
            return Err(MapError::WrongBase { map: self.epoch, delta: delta.from });
        }
        MapBuilder::of(self).change(&delta.changes)?.finish(delta.to, bounds)
    }
}

/// A map under construction.
struct MapBuilder<'a> {
    old: &'a ClusterMap,
    /// Nodes that change or are removed.
    nodes: BTreeMap<NodeId, Option<Node>>,
    keyspaces: BTreeMap<KeyspaceId, Arc<Keyspace>>,
    tokens: Arc<BTreeMap<u64, TokenEntry>>,
    /// Groups that were changed, in keyspaces that are not new.
    set: BTreeSet<(KeyspaceId, PartitionId)>,
    /// Keyspaces whose groups are all new.
    renewed: BTreeSet<KeyspaceId>,
    /// Keyspaces whose tables have entries that no group refers to.
    unreferenced: BTreeSet<KeyspaceId>,
}

impl<'a> MapBuilder<'a> {
    fn of(old: &'a ClusterMap) -> MapBuilder<'a> {
        MapBuilder {
            old,
            nodes: BTreeMap::new(),
            keyspaces: old.keyspaces.clone(),
            tokens: Arc::clone(&old.tokens),
            set: BTreeSet::new(),
            renewed: BTreeSet::new(),
            unreferenced: BTreeSet::new(),
        }
    }

    fn change(mut self, changes: &[MapChange]) -> Result<MapBuilder<'a>, MapError> {
        for (at, change) in changes.iter().enumerate() {
            match change {
                change if is_planted(Bug::GroupLostInSplit) && is_split_later(change, &changes[at..]) => {}
                MapChange::PutNode(node) => {
                    self.nodes.insert(node.id, Some(node.clone()));
                }
                MapChange::RemoveNode(id) => {
                    let is_there = match self.nodes.get(id) {
                        Some(changed) => changed.is_some(),
                        None => self.old.nodes.get(*id).is_some(),
                    };
                    if !is_there {
                        return Err(MapError::UnknownNode { node: *id });
                    }
                    self.nodes.insert(*id, None);
                }
                MapChange::CreateKeyspace { id, config, groups } => self.create(*id, config, groups)?,
                MapChange::AlterKeyspace { id, config } => self.alter(*id, config)?,
                MapChange::DropKeyspace(id) => {
                    self.keyspaces.remove(id).ok_or(MapError::UnknownKeyspace { keyspace: *id })?;
                    self.renewed.remove(id);
                    self.unreferenced.remove(id);
                }
                MapChange::SetGroup { keyspace, partition, group } => {
                    self.set(*keyspace, *partition, group)?
                }
                MapChange::SplitKeyspace(id) => self.split(*id)?,
                MapChange::HasSplit { keyspace, splits } => self.has_split(*keyspace, *splits)?,
                MapChange::SplitRegion { keyspace, region, separator, share } => {
                    self.split_region((*keyspace, *region), separator, *share)?
                }
                MapChange::HasRegions { keyspace, table } => self.has_regions(*keyspace, table)?,
                MapChange::BeginDropKeyspace(id) => {
                    let keyspace = self.keyspace(*id)?;
                    (keyspace.is_dropping, keyspace.pending_split) = (true, None);
                }
                MapChange::BeginSplit { keyspace, split } => self.begin_split(*keyspace, split)?,
                MapChange::CancelSplit(id) => {
                    let pending = self.keyspace(*id)?.pending_split.take();
                    pending.ok_or(MapError::NoPendingSplit { keyspace: *id })?;
                }
                MapChange::PutToken(token) => self.put_token(token)?,
                MapChange::RemoveToken(id) => {
                    let gone = Arc::make_mut(&mut self.tokens).remove(id);
                    gone.ok_or(MapError::UnknownToken { token: *id })?;
                }
            }
        }
        Ok(self)
    }

    /// An expired token releases its name, and its place if no other is free.
    fn put_token(&mut self, token: &TokenEntry) -> Result<(), MapError> {
        let gives_up = |other: &TokenEntry| other.has_expired() && other.id != token.id;
        if self.tokens.values().any(|other| gives_up(other) && other.name == token.name) {
            let tokens = Arc::make_mut(&mut self.tokens);
            tokens.retain(|_, other| !gives_up(other) || other.name != token.name);
        }
        if self.tokens.values().any(|other| other.id != token.id && other.name == token.name) {
            return Err(MapError::TokenNameInUse { name: token.name.clone() });
        }
        let tokens = Arc::make_mut(&mut self.tokens);
        tokens.insert(token.id, token.clone());
        if tokens.len() > TOKENS_MAX {
            let expired = tokens.values().filter(|other| gives_up(other));
            let first = expired.min_by_key(|other| (other.expiry.map(|expiry| expiry.at_ms), other.id));
            if let Some(id) = first.map(|first| first.id) {
                tokens.remove(&id);
            }
        }
        match tokens.len() {
            count if count > TOKENS_MAX => Err(MapError::TooManyTokens { tokens: count }),
            _ => Ok(()),
        }
    }

    fn keyspace(&mut self, id: KeyspaceId) -> Result<&mut Keyspace, MapError> {
        self.keyspaces.get_mut(&id).map(Arc::make_mut).ok_or(MapError::UnknownKeyspace { keyspace: id })
    }

    fn create(&mut self, id: KeyspaceId, config: &KeyspaceConfig, groups: &Groups) -> Result<(), MapError> {
        if id == KeyspaceId::NONE || self.keyspaces.contains_key(&id) {
            return Err(MapError::KeyspaceIdInUse { keyspace: id });
        }
        if self.keyspaces.len() == KEYSPACES_MAX {
            return Err(MapError::TooManyKeyspaces { keyspaces: KEYSPACES_MAX + 1 });
        }
        if let Some((other, _)) =
            self.keyspaces.iter().find(|(_, keyspace)| keyspace.config.name == config.name)
        {
            return Err(MapError::NameInUse { name: config.name.clone(), keyspace: *other });
        }
        config.check().map_err(|error| MapError::Config { keyspace: id, error })?;
        let partitions = config.partitions.get();
        if groups.len() != partitions as usize {
            return Err(MapError::GroupCount { keyspace: id, groups: groups.len(), partitions });
        }
        if let Some((partition, fault)) = groups.table().fault() {
            return Err(MapError::Group { keyspace: id, partition, fault });
        }
        let keyspace = Keyspace::new(config.clone(), groups.table().clone());
        self.keyspaces.insert(id, Arc::new(keyspace));
        self.renewed.insert(id);
        Ok(())
    }

    fn alter(&mut self, id: KeyspaceId, config: &KeyspaceConfig) -> Result<(), MapError> {
        let keyspace = self.keyspace(id)?;
        let config = config.clone().with_separators_of(&keyspace.config);
        keyspace
            .config
            .check_alteration(&config)
            .map_err(|error| MapError::Config { keyspace: id, error })?;
        keyspace.config = config;
        Ok(())
    }

    fn split(&mut self, id: KeyspaceId) -> Result<(), MapError> {
        let keyspace = self.keyspace(id)?;
        let error = |error| MapError::Config { keyspace: id, error };
        let doubled = keyspace.config.doubled().map_err(error)?;
        keyspace.division = Division::new(&doubled);
        keyspace.config = doubled;
        // The value is at most 16, because it counts doublings of a number of at most 65,536.
        keyspace.splits += 1;
        keyspace.pending_split = None;
        keyspace.groups.double();
        self.renewed.insert(id);
        self.unreferenced.remove(&id);
        Ok(())
    }

    fn has_split(&mut self, id: KeyspaceId, splits: u8) -> Result<(), MapError> {
        let is_new = !self.old.keyspaces.contains_key(&id);
        let keyspace = self.keyspace(id)?;
        let bits = keyspace.config.partitions.bits();
        let is_ordered = keyspace.config.order == KeyOrder::Ordered;
        if !is_new || is_ordered || keyspace.splits != 0 || splits == 0 || u32::from(splits) > bits {
            return Err(MapError::Splits { keyspace: id, splits });
        }
        keyspace.splits = splits;
        Ok(())
    }

    fn split_region(
        &mut self,
        (id, region): (KeyspaceId, PartitionId),
        separator: &[u8],
        share: u8,
    ) -> Result<(), MapError> {
        let keyspace = self.keyspace(id)?;
        let (position, separators, division) = divided_region(keyspace, (id, region), separator, share)?;
        keyspace.division = division;
        keyspace.config = keyspace.config.clone().divided_at(separators);
        if keyspace.pending_split.as_ref().is_some_and(|pending| pending.covers(region)) {
            keyspace.pending_split = None;
        }
        keyspace.groups.split(position);
        let children = [position, position + 1].map(|position| keyspace.division.at(position));
        self.set.extend(children.map(|child| (id, child)));
        self.unreferenced.remove(&id);
        Ok(())
    }

    fn begin_split(&mut self, id: KeyspaceId, split: &PendingSplit) -> Result<(), MapError> {
        let keyspace = self.keyspace(id)?;
        match split {
            PendingSplit::Keyspace => {
                let doubled = keyspace.config.doubled();
                doubled.map(drop).map_err(|error| MapError::Config { keyspace: id, error })?;
            }
            PendingSplit::Region { region, separator, share } => {
                divided_region(keyspace, (id, *region), separator, *share).map(drop)?;
            }
        }
        if keyspace.pending_split.is_some() || keyspace.is_dropping {
            return Err(MapError::SplitNotPossible { keyspace: id });
        }
        keyspace.pending_split = Some(split.clone());
        Ok(())
    }

    fn has_regions(&mut self, id: KeyspaceId, table: &RegionTable) -> Result<(), MapError> {
        let is_new = !self.old.keyspaces.contains_key(&id);
        let keyspace = self.keyspace(id)?;
        let is_ordered = keyspace.config.order == KeyOrder::Ordered;
        let count = keyspace.config.partitions.get() as usize;
        let has_table = keyspace.division.regions().table().is_some();
        if !is_new || !is_ordered || has_table || table.live().len() != count {
            let region = PartitionId(0);
            return Err(MapError::Region { keyspace: id, region, fault: RegionFault::Table });
        }
        keyspace.division = keyspace.division.with_regions(Regions::of_table(table.clone()));
        Ok(())
    }

    fn set(&mut self, id: KeyspaceId, partition: PartitionId, group: &ReplicaGroup) -> Result<(), MapError> {
        check_group(id, partition, group)?;
        let keyspace = self.keyspace(id)?;
        let position = keyspace.division.position(partition).map(PartitionId);
        let (position, old) = position
            .and_then(|position| Some((position, keyspace.groups.copied(position)?.epoch)))
            .ok_or(MapError::UnknownPartition { keyspace: id, partition })?;
        if group.epoch <= old {
            return Err(MapError::EpochNotRaised { keyspace: id, partition, old, new: group.epoch });
        }
        if keyspace.groups.set(position, group.as_group()) {
            self.unreferenced.insert(id);
        }
        self.set.insert((id, partition));
        Ok(())
    }

    /// Computes the order of rings, once for all keyspaces with the same ring.
    fn order_rings(&mut self, nodes: &NodeTable) -> Result<(), MapError> {
        for id in &self.renewed {
            let Some(ring) = self.keyspaces.get(id).and_then(|found| found.groups.missing_ring().copied())
            else {
                continue;
            };
            // Limits the allocation by the number of instances that were added to the map individually.
            if ring.count as usize > nodes.instances() {
                return Err(MapError::RingTooLarge { keyspace: *id, instances: ring.count });
            }
            let known = self.keyspaces.values().filter_map(|keyspace| keyspace.groups.ring());
            let mut same =
                known.filter(|(other, _)| other.has_order_of(&ring)).map(|(_, order)| Arc::clone(order));
            let order = same.next().unwrap_or_else(|| ring.order());
            if let Some(keyspace) = self.keyspaces.get_mut(id) {
                Arc::make_mut(keyspace).groups.order(order);
            }
        }
        Ok(())
    }

    fn finish(mut self, epoch: MapEpoch, bounds: MapBounds) -> Result<ClusterMap, MapError> {
        for id in std::mem::take(&mut self.unreferenced) {
            self.keyspace(id)?.groups.compact();
        }
        let nodes = match self.nodes.is_empty() {
            true => Arc::clone(&self.old.nodes),
            false => Arc::new(self.old.nodes.changed(&self.nodes, bounds.nodes)?),
        };
        self.order_rings(&nodes)?;
        let map = ClusterMap { epoch, nodes, keyspaces: self.keyspaces, tokens: self.tokens };
        // Instances of changed nodes that no longer exist, and those that have restarted.
        let (mut gone, mut restarted) = (false, BTreeSet::new());
        for old in self.nodes.keys().filter_map(|id| self.old.nodes.get(*id)) {
            for instance in old.instances() {
                let now = map.nodes.of_instance(instance.id).map(|node| node.incarnation());
                gone |= now.is_none();
                if now != Some(instance.incarnation) {
                    restarted.insert(instance.id);
                }
            }
        }
        for (id, keyspace) in map.keyspaces().filter(|(id, _)| gone || self.renewed.contains(id)) {
            for (partition, group) in keyspace.groups() {
                check_members(&map, id, partition, group)?;
            }
        }
        for (id, partition) in &self.set {
            if let Some(group) = map.keyspace(*id).and_then(|keyspace| keyspace.group(*partition)) {
                check_members(&map, *id, *partition, group)?;
            }
        }
        if !restarted.is_empty() {
            check_incarnations(self.old, &map, &restarted)?;
        }
        match map.encoded_bytes() {
            bytes if bytes > bounds.bytes => Err(MapError::TooLarge { bytes }),
            _ => Ok(map),
        }
    }
}

/// The position of a region, and the separators and the division of its keyspace after its split.
fn divided_region(
    keyspace: &Keyspace,
    (id, region): (KeyspaceId, PartitionId),
    separator: &[u8],
    share: u8,
) -> Result<(u32, Separators, Division), MapError> {
    let fault = |fault| MapError::Region { keyspace: id, region, fault };
    if keyspace.config.order == KeyOrder::Hashed {
        return Err(fault(RegionFault::Hashed));
    }
    let unknown = MapError::UnknownPartition { keyspace: id, partition: region };
    let position = keyspace.division.position(region).ok_or(unknown)?;
    let separators = &keyspace.config.separators;
    let is_inside =
        separators.begin(position) < separator && separators.end(position).is_none_or(|end| separator < end);
    if !is_inside {
        return Err(fault(RegionFault::Outside { separator: separator.into() }));
    }
    let separators = separators.with(separator).map_err(|error| fault(RegionFault::Separator(error)))?;
    let division = keyspace.division.split_region(position, separators.clone(), share).map_err(fault)?;
    Ok((position, separators, division))
}

/// Whether a change is of a group that one of these splits.
fn is_split_later(change: &MapChange, later: &[MapChange]) -> bool {
    let MapChange::SetGroup { keyspace: of, partition, .. } = change else { return false };
    later.iter().any(|later| match later {
        MapChange::SplitKeyspace(keyspace) => keyspace == of,
        MapChange::SplitRegion { keyspace, region, .. } => (keyspace, region) == (of, partition),
        _ => false,
    })
}

fn check_group(keyspace: KeyspaceId, partition: PartitionId, group: &ReplicaGroup) -> Result<(), MapError> {
    group.as_group().check().map_err(|fault| MapError::Group { keyspace, partition, fault })
}

fn check_members(
    map: &ClusterMap,
    keyspace: KeyspaceId,
    partition: PartitionId,
    group: Group<'_>,
) -> Result<(), MapError> {
    let mut members = group.members();
    match members.find(|member| map.nodes.of_instance(*member).is_none()) {
        Some(instance) => Err(MapError::UnknownInstance { keyspace, partition, instance }),
        None => Ok(()),
    }
}

/// Groups depend on incarnations, though only the node's entry has them. A change of a node's incarnation must therefore also change every group
/// that names the node. Otherwise a restarted process would be a member of a group that it does not know.
fn check_incarnations(
    old: &ClusterMap,
    new: &ClusterMap,
    restarted: &BTreeSet<InstanceId>,
) -> Result<(), MapError> {
    for (id, keyspace) in new.keyspaces() {
        let Some(before) = old.keyspace(id) else { continue };
        // After a split of the keyspace every group has a new epoch: a delta that combines both changes is not checked. After one of a region, its
        // children have numbers of their own.
        if keyspace.splits != before.splits {
            continue;
        }
        for (partition, group) in keyspace.groups() {
            let kept = before.group(partition).is_some_and(|before| before.epoch == group.epoch);
            if kept && let Some(instance) = group.members().find(|member| restarted.contains(member)) {
                return Err(MapError::StaleMember { keyspace: id, partition, instance });
            }
        }
    }
    Ok(())
}
