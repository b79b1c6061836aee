//! A node as a change of the map describes it, and the compact table of all nodes in a map.

use std::collections::BTreeMap;

use zerohop_wire::ids::{Incarnation, InstanceId, NodeId};

use super::{Address, MapError};
use crate::limits::INSTANCES_PER_NODE_MAX;

/// The control group's decision about a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NodeState {
    /// The node serves, and may get partitions.
    Up,
    /// The node serves, and its partitions are being moved away.
    Draining,
    /// The node has failed. It stays in the map as long as a replica group names one of its instances.
    Down,
}

impl NodeState {
    /// Every state.
    pub const ALL: [NodeState; 3] = [NodeState::Up, NodeState::Draining, NodeState::Down];

    /// The name for people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Draining => "draining",
            Self::Down => "down",
        }
    }
}

impl std::fmt::Display for NodeState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

/// A node: one process with its manager and its instances.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its id.
    pub id: NodeId,
    /// The control group's decision about it.
    pub state: NodeState,
    /// The nonce of the start of its process. All its instances start with it and share the nonce. Replica groups that name one of them mean this
    /// incarnation: a process with another nonce is a member of no group.
    pub incarnation: Incarnation,
    /// The address of its manager.
    pub manager: Address,
    /// The id of its first instance; the others have the ids that follow.
    pub first_instance: InstanceId,
    /// The addresses of its instances, in the order of their ids.
    pub instances: Vec<Address>,
}

/// A node in a map.
#[derive(Clone, Copy, Debug)]
pub struct NodeRef<'a> {
    entry: &'a NodeEntry,
    texts: &'a str,
}

/// An instance in a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InstanceRef<'a> {
    /// Its id.
    pub id: InstanceId,
    /// The node to which it belongs.
    pub node: NodeId,
    /// The nonce of the start of its process.
    pub incarnation: Incarnation,
    /// Its address.
    pub addr: &'a str,
}

impl<'a> NodeRef<'a> {
    /// Its id.
    pub fn id(self) -> NodeId {
        self.entry.id
    }

    /// The control group's decision about it.
    pub fn state(self) -> NodeState {
        self.entry.state
    }

    /// The nonce of the start of its process.
    pub fn incarnation(self) -> Incarnation {
        self.entry.incarnation
    }

    /// The address of its manager.
    pub fn manager(self) -> &'a str {
        self.addresses().next().expect("a node's text begins with its manager's address")
    }

    /// Its instances, in the order of their ids.
    pub fn instances(self) -> impl Iterator<Item = InstanceRef<'a>> {
        let NodeEntry { id: node, incarnation, first_instance, .. } = *self.entry;
        self.addresses().skip(1).zip(first_instance.get()..).map(move |(addr, id)| InstanceRef {
            id: InstanceId(id),
            node,
            incarnation,
            addr,
        })
    }

    /// The node as a change would describe it.
    pub fn to_node(self) -> Node {
        // A table has only valid addresses.
        let owned = |text: &str| Address::new(text).expect("an address in a map is valid");
        Node {
            id: self.id(),
            state: self.state(),
            incarnation: self.incarnation(),
            manager: owned(self.manager()),
            first_instance: self.entry.first_instance,
            instances: self.instances().map(|instance| owned(instance.addr)).collect(),
        }
    }

    fn addresses(self) -> impl Iterator<Item = &'a str> {
        let at = self.entry.text_at as usize;
        self.texts[at..at + usize::from(self.entry.text_bytes)].split(SEPARATOR)
    }
}

/// The separator between the addresses of a node in the table's text; no address contains it.
const SEPARATOR: char = '\n';

/// One node in 24 bytes; its addresses are in the table's text.
#[derive(Clone, Debug, PartialEq, Eq)]
struct NodeEntry {
    incarnation: Incarnation,
    id: NodeId,
    first_instance: InstanceId,
    text_at: u32,
    text_bytes: u16,
    instances: u8,
    state: NodeState,
}

/// All nodes of a map. At most 32 bytes a node in addition to the text of its addresses: the entry and a position in the index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct NodeTable {
    /// By node id.
    entries: Box<[NodeEntry]>,
    /// Positions in `entries`, by first instance. The ranges of instances do not overlap.
    by_instance: Box<[u32]>,
    /// The addresses of every node, manager first, with separators between.
    texts: Box<str>,
}

impl NodeTable {
    /// The table with some nodes added or removed, or an error that names the invalid node. Unchanged parts are copied as a block: of a million
    /// nodes usually one changes.
    pub(super) fn changed(
        &self,
        changes: &BTreeMap<NodeId, Option<Node>>,
        nodes_max: usize,
    ) -> Result<NodeTable, MapError> {
        let mut entries = Vec::with_capacity(self.entries.len() + changes.len());
        let mut texts = String::with_capacity(self.texts.len());
        let keep = |old: &[NodeEntry], entries: &mut Vec<NodeEntry>, texts: &mut String| {
            let (Some(first), Some(last)) = (old.first(), old.last()) else { return Ok(()) };
            let (from, to) = (first.text_at as usize, last.text_at as usize + usize::from(last.text_bytes));
            let at = text_position(texts)?;
            // The texts are in the order of the entries, without gaps.
            texts.push_str(&self.texts[from..to]);
            text_position(texts)?;
            entries.extend(
                old.iter()
                    .map(|one| NodeEntry { text_at: at + (one.text_at - first.text_at), ..one.clone() }),
            );
            Ok(())
        };
        let mut rest = &self.entries[..];
        for (id, node) in changes {
            let (before, from) = rest.split_at(rest.partition_point(|one| one.id < *id));
            keep(before, &mut entries, &mut texts)?;
            rest = if from.first().is_some_and(|one| one.id == *id) { &from[1..] } else { from };
            if let Some(node) = node {
                entries.push(entry(node, &mut texts)?);
            }
        }
        keep(rest, &mut entries, &mut texts)?;
        if entries.len() > nodes_max {
            return Err(MapError::TooManyNodes { nodes: entries.len() });
        }
        let mut by_instance: Vec<u32> = (0..).take(entries.len()).collect();
        by_instance.sort_by_key(|at| entries[*at as usize].first_instance);
        let table = NodeTable {
            entries: entries.into(),
            by_instance: by_instance.into(),
            texts: texts.into_boxed_str(),
        };
        table.check_ranges()?;
        Ok(table)
    }

    /// The number of nodes, and the encoded length of all their addresses in bytes. Where the text has a separator the encoding has a length byte,
    /// and one more before the first address.
    pub(super) fn encoded(&self) -> (usize, usize) {
        (self.entries.len(), self.entries.len() + self.texts.len())
    }

    /// The total number of instances of all nodes.
    pub(super) fn instances(&self) -> usize {
        self.entries.iter().map(|entry| usize::from(entry.instances)).sum()
    }

    pub(super) fn get(&self, id: NodeId) -> Option<NodeRef<'_>> {
        let at = self.entries.binary_search_by_key(&id, |entry| entry.id).ok()?;
        Some(self.view(&self.entries[at]))
    }

    pub(super) fn iter(&self) -> impl ExactSizeIterator<Item = NodeRef<'_>> {
        self.entries.iter().map(|entry| self.view(entry))
    }

    /// The node that has this instance.
    pub(super) fn of_instance(&self, id: InstanceId) -> Option<NodeRef<'_>> {
        let after = self.by_instance.partition_point(|at| self.entries[*at as usize].first_instance <= id);
        let entry = &self.entries[*self.by_instance[..after].last()? as usize];
        (id.get() - entry.first_instance.get() < u32::from(entry.instances)).then(|| self.view(entry))
    }

    pub(super) fn instance(&self, id: InstanceId) -> Option<InstanceRef<'_>> {
        let node = self.of_instance(id)?;
        node.instances().nth((id.get() - node.entry.first_instance.get()) as usize)
    }

    /// Bytes on the heap: of everything except the text, and of the text.
    pub(super) fn memory_bytes(&self) -> (usize, usize) {
        (size_of_val(&*self.entries) + size_of_val(&*self.by_instance), self.texts.len())
    }

    fn view<'a>(&'a self, entry: &'a NodeEntry) -> NodeRef<'a> {
        NodeRef { entry, texts: &self.texts }
    }

    fn check_ranges(&self) -> Result<(), MapError> {
        let mut free_from = 0;
        for at in &self.by_instance {
            let entry = &self.entries[*at as usize];
            let first = entry.first_instance.get();
            if first < free_from {
                return Err(MapError::InstanceInUse { instance: entry.first_instance });
            }
            free_from = first
                .checked_add(u32::from(entry.instances))
                .ok_or(MapError::InstanceInUse { instance: entry.first_instance })?;
        }
        Ok(())
    }
}

/// A node's entry; its addresses are appended to the text.
fn entry(node: &Node, texts: &mut String) -> Result<NodeEntry, MapError> {
    let text_at = text_position(texts)?;
    let before = texts.len();
    texts.push_str(node.manager.as_str());
    for instance in &node.instances {
        texts.push(SEPARATOR);
        texts.push_str(instance.as_str());
    }
    Ok(NodeEntry {
        incarnation: node.incarnation,
        id: node.id,
        first_instance: node.first_instance,
        text_at,
        text_bytes: u16::try_from(texts.len() - before)
            .map_err(|_| MapError::Instances { node: node.id, instances: node.instances.len() })?,
        instances: instance_count(node)?,
        state: node.state,
    })
}

/// The number of nodes and their text limit this value. It is checked nonetheless, because a wrong position would be another node.
fn text_position(texts: &str) -> Result<u32, MapError> {
    u32::try_from(texts.len()).map_err(|_| MapError::TooLarge { bytes: texts.len() })
}

fn instance_count(node: &Node) -> Result<u8, MapError> {
    match u8::try_from(node.instances.len()) {
        Ok(count) if count > 0 && usize::from(count) <= INSTANCES_PER_NODE_MAX => Ok(count),
        _ => Err(MapError::Instances { node: node.id, instances: node.instances.len() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(id: u32, first: u32, instances: u32) -> Node {
        Node {
            id: NodeId(id),
            state: NodeState::Up,
            incarnation: Incarnation(u64::from(id) * 1000),
            manager: Address::new(&format!("node-{id}:7400")).unwrap(),
            first_instance: InstanceId(first),
            instances: (0..instances)
                .map(|n| Address::new(&format!("node-{id}:{}", 7401 + n)).unwrap())
                .collect(),
        }
    }

    fn table(nodes: Vec<Node>) -> Result<NodeTable, MapError> {
        let nodes = nodes.into_iter().map(|node| (node.id, Some(node))).collect();
        NodeTable::default().changed(&nodes, crate::limits::NODES_MAX)
    }

    #[test]
    fn nodes_and_instances_are_found_whatever_the_order_of_their_ids() {
        let nodes = vec![node(1, 100, 2), node(2, 5, 3), node(9, 8, 1)];
        let table = table(nodes.clone()).unwrap();
        for node in &nodes {
            assert_eq!(&table.get(node.id).unwrap().to_node(), node);
            for (id, addr) in (node.first_instance.get()..).zip(&node.instances) {
                let found = table.instance(InstanceId(id)).unwrap();
                assert_eq!(
                    (found.node, found.addr, found.incarnation),
                    (node.id, addr.as_str(), node.incarnation)
                );
            }
        }
        for absent in [0, 4, 9, 99, 102, u32::MAX] {
            assert_eq!(table.instance(InstanceId(absent)), None, "{absent}");
        }
        assert!(table.get(NodeId(3)).is_none());
    }

    #[test]
    fn each_instance_belongs_to_one_node() {
        let in_use = |instance| Err(MapError::InstanceInUse { instance: InstanceId(instance) });
        assert_eq!(table(vec![node(1, 0, 4), node(2, 3, 1)]), in_use(3));
        assert_eq!(table(vec![node(1, 7, 1), node(2, 7, 1)]), in_use(7));
        assert_eq!(table(vec![node(1, u32::MAX, 2)]), in_use(u32::MAX));
        assert!(table(vec![node(1, 0, 4), node(2, 4, 1)]).is_ok());
    }

    #[test]
    fn node_has_1_to_255_instances() {
        for instances in [0, 256] {
            assert_eq!(
                table(vec![node(1, 0, instances)]),
                Err(MapError::Instances { node: NodeId(1), instances: instances as usize })
            );
        }
        assert_eq!(table(vec![node(1, 0, 255)]).unwrap().get(NodeId(1)).unwrap().instances().count(), 255);
    }

    #[test]
    fn the_longest_addresses_fit() {
        let mut node = node(1, 0, 255);
        let longest = Address::new(&format!("{}:65535", "h".repeat(249))).unwrap();
        node.manager = longest.clone();
        node.instances.fill(longest);
        assert_eq!(table(vec![node.clone()]).unwrap().get(NodeId(1)).unwrap().to_node(), node);
    }
}
