//! Nodes of the tree: leaves with records, inner nodes with separators; insert and remove.
//!
//! The *fences* of a node are the separators on its left and right, in its parent or further up. Every key below it is
//! at or above the left fence and below the right one. A separator is the shortest key that divides two neighbours.
//!
//! A node is *small* below a quarter of its size. Two neighbours in one parent are joined if one is small and both fit
//! three quarters of a node. So no sequence of removals leaves more than every other node small, unless the two have no
//! common prefix and would be large without.

use super::key::{KeyParts, shortest_separator};
use super::page::SortedPage;
use super::{CHILDREN_MAX, INNER_BYTES_MAX, LEAF_BYTES_MAX};

/// The records of a leaf, with the bits of their locations.
pub(super) type Leaf = SortedPage<8>;

/// A leaf, or a node above it. All leaves have the same depth.
#[derive(Clone)]
pub(super) enum TreeNode {
    Leaf(Leaf),
    Inner(Box<InnerNode>),
}

/// One child more than separators: keys below the separator `i` are in child `i` or before it.
pub(super) struct InnerNode {
    pub(super) separators: SortedPage<0>,
    pub(super) children: Vec<TreeNode>,
    /// Records of all leaves below it.
    pub(super) records: usize,
    /// Memory of this node and all below it.
    pub(super) memory: usize,
}

impl Clone for InnerNode {
    /// The capacity is the same too: `memory` counts it.
    fn clone(&self) -> InnerNode {
        let InnerNode { separators, children, records, memory } = self;
        let mut copies = Vec::with_capacity(children.capacity());
        copies.extend(children.iter().cloned());
        InnerNode { separators: separators.clone(), children: copies, records: *records, memory: *memory }
    }
}

/// A node that was split off: it follows the node that it came from.
pub(super) struct NodeSplit {
    pub(super) separator: Box<[u8]>,
    pub(super) right: TreeNode,
}

/// Whether a node is at an edge of the tree, where inserts in order arrive.
#[derive(Clone, Copy)]
pub(super) struct Edges {
    pub(super) left: bool,
    pub(super) right: bool,
}

/// What an insert has done.
pub(super) struct InsertOutcome {
    /// The value that the key had.
    pub(super) previous: Option<u64>,
    pub(super) split: Option<NodeSplit>,
    /// Whether nodes have been split or joined.
    pub(super) reshaped: bool,
}

impl TreeNode {
    pub(super) fn records(&self) -> usize {
        match self {
            TreeNode::Leaf(leaf) => leaf.count(),
            TreeNode::Inner(inner) => inner.records,
        }
    }

    /// Memory below this value, and none of its own bytes.
    pub(super) fn memory(&self) -> usize {
        match self {
            TreeNode::Leaf(leaf) => leaf.memory(),
            TreeNode::Inner(inner) => inner.memory,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        match self {
            TreeNode::Leaf(leaf) => leaf.count() == 0,
            TreeNode::Inner(inner) => inner.children.is_empty(),
        }
    }

    pub(super) fn is_small(&self) -> bool {
        match self {
            TreeNode::Leaf(leaf) => leaf.size() < LEAF_BYTES_MAX / 4,
            TreeNode::Inner(inner) => {
                inner.children.len() < CHILDREN_MAX / 4 && inner.separators.size() < INNER_BYTES_MAX / 4
            }
        }
    }

    /// Inserts a key, or changes its value.
    pub(super) fn insert(&mut self, key: &[u8], value: u64, edges: Edges) -> InsertOutcome {
        match self {
            TreeNode::Leaf(leaf) => insert_into_leaf(leaf, key, value, edges),
            TreeNode::Inner(inner) => inner.insert(key, value, edges),
        }
    }

    /// Removes a key and returns its value, and whether nodes have been joined or removed.
    pub(super) fn remove(&mut self, key: &[u8]) -> Option<(u64, bool)> {
        match self {
            TreeNode::Leaf(leaf) => {
                let at = leaf.search(key).ok()?;
                let value = leaf.value(at);
                leaf.remove_at(at);
                Some((value, false))
            }
            TreeNode::Inner(inner) => inner.remove(key),
        }
    }

    pub(super) fn as_inner_mut(&mut self) -> Option<&mut InnerNode> {
        match self {
            TreeNode::Leaf(_) => None,
            TreeNode::Inner(inner) => Some(inner),
        }
    }

    /// The first or the last key of a node that is not empty.
    pub(super) fn outer_key(&self, is_last: bool) -> Option<KeyParts<'_>> {
        match self {
            TreeNode::Leaf(leaf) if leaf.count() == 0 => None,
            TreeNode::Leaf(leaf) => Some(leaf.key(if is_last { leaf.count() - 1 } else { 0 })),
            TreeNode::Inner(inner) => {
                let child = if is_last { inner.children.last() } else { inner.children.first() };
                child?.outer_key(is_last)
            }
        }
    }

    /// Whether both neighbours fit one node. `separator` is the index of what divides them.
    fn fits_with(&self, right: &TreeNode, separators: &SortedPage<0>, separator: usize) -> bool {
        match (self, right) {
            (TreeNode::Leaf(left), TreeNode::Leaf(right)) => {
                left.joined_size(right) <= LEAF_BYTES_MAX / 4 * 3
            }
            (TreeNode::Inner(left), TreeNode::Inner(right)) => {
                let without_prefix = |page: &SortedPage<0>| page.size() + page.count() * page.prefix().len();
                let separators = without_prefix(&left.separators)
                    + without_prefix(&right.separators)
                    + separators.key(separator).len();
                left.children.len() + right.children.len() <= CHILDREN_MAX / 4 * 3
                    && separators <= INNER_BYTES_MAX / 4 * 3
            }
            _ => false,
        }
    }
}

fn insert_into_leaf(leaf: &mut Leaf, key: &[u8], value: u64, edges: Edges) -> InsertOutcome {
    let at = match leaf.search(key) {
        Ok(at) => {
            let previous = Some(leaf.replace_value(at, value));
            return InsertOutcome { previous, split: None, reshaped: false };
        }
        Err(at) => at,
    };
    let done = |split: Option<NodeSplit>| InsertOutcome { previous: None, reshaped: split.is_some(), split };
    if leaf.count() == 0 || leaf.has_room(key) || leaf.size_with(key) <= LEAF_BYTES_MAX {
        leaf.insert_at(at, key, value.to_le_bytes());
        return done(None);
    }
    // In order at the edge of the tree, or without the prefix of all others: the key gets a leaf of its own, and the others
    // keep theirs. The key is first or last then.
    let is_first = at == 0 && (edges.left || leaf.breaks_prefix(key));
    let is_last = at == leaf.count() && (edges.right || leaf.breaks_prefix(key));
    if is_first || is_last {
        let mut alone = Leaf::for_many(key, value.to_le_bytes());
        if !(is_first && edges.left || is_last && edges.right) {
            alone.trim();
        }
        leaf.trim();
        if is_first {
            std::mem::swap(leaf, &mut alone);
        }
        return done(Some(split_of(leaf, alone)));
    }
    let cut = leaf.cut();
    let (left, mut right) = std::mem::replace(leaf, Leaf::new()).split_at(cut);
    *leaf = left;
    let parts = KeyParts { prefix: &[], suffix: key };
    // Between both, the key goes where it leaves the shorter separator.
    let is_left =
        at < cut || at == cut && leaf.key(leaf.count() - 1).common(parts) >= right.key(0).common(parts);
    if is_left {
        leaf.insert_at(at, key, value.to_le_bytes());
    } else {
        right.insert_at(at - cut, key, value.to_le_bytes());
    }
    done(Some(split_of(leaf, right)))
}

fn split_of(left: &Leaf, right: Leaf) -> NodeSplit {
    let separator = shortest_separator(left.key(left.count() - 1), right.key(0));
    NodeSplit { separator, right: TreeNode::Leaf(right) }
}

impl InnerNode {
    pub(super) fn new(separators: SortedPage<0>, children: Vec<TreeNode>) -> Box<InnerNode> {
        let mut node = Box::new(InnerNode { separators, children, records: 0, memory: 0 });
        node.recount();
        node
    }

    /// A node above two others.
    pub(super) fn above(left: TreeNode, split: NodeSplit) -> Box<InnerNode> {
        let mut separators = SortedPage::new();
        separators.insert_at(0, &split.separator, []);
        InnerNode::new(separators, vec![left, split.right])
    }

    /// The child whose fences include `key`.
    #[inline]
    pub(super) fn child_of(&self, key: &[u8]) -> usize {
        self.separators.upper(key)
    }

    pub(super) fn own_memory(&self) -> usize {
        size_of::<InnerNode>() + self.separators.memory() + self.children.capacity() * size_of::<TreeNode>()
    }

    pub(super) fn recount(&mut self) {
        self.records = self.children.iter().map(TreeNode::records).sum();
        self.memory = self.own_memory() + self.children.iter().map(TreeNode::memory).sum::<usize>();
    }

    fn insert(&mut self, key: &[u8], value: u64, edges: Edges) -> InsertOutcome {
        let at = self.child_of(key);
        let is_last = at + 1 == self.children.len();
        let child = &mut self.children[at];
        let memory = child.memory();
        let below = Edges { left: edges.left && at == 0, right: edges.right && is_last };
        let mut inserted = child.insert(key, value, below);
        if let Some(split) = inserted.split.take() {
            inserted.split = self.add_child(at, split, below.right);
        } else if inserted.reshaped {
            self.join_small(at);
            self.recount();
        } else {
            self.records += usize::from(inserted.previous.is_none());
            self.memory = self.memory - memory + self.children[at].memory();
        }
        inserted
    }

    /// Adds what was split off the child at `at`, and returns what this splits off this node.
    pub(super) fn add_child(&mut self, at: usize, split: NodeSplit, is_edge: bool) -> Option<NodeSplit> {
        let NodeSplit { separator, right } = split;
        if self.separators.breaks_prefix(&separator)
            && self.separators.size_with(&separator) > INNER_BYTES_MAX
        {
            // All separators would need the prefix, which may be larger than the node: it is split at the new one.
            let (left, after) = self.take_separators().split_at(at);
            self.separators = left;
            let mut children = vec![right];
            children.append(&mut self.children.split_off(at + 1));
            self.recount();
            return Some(NodeSplit { separator, right: TreeNode::Inner(InnerNode::new(after, children)) });
        }
        self.separators.insert_at(at, &separator, []);
        if self.children.len() == self.children.capacity() {
            self.children.reserve_exact(self.children.len() / 8 + 4);
        }
        self.children.insert(at + 1, right);
        self.join_small(at + 1);
        self.join_small(at);
        let is_large = self.separators.size() > INNER_BYTES_MAX && self.separators.count() >= 3;
        if self.children.len() <= CHILDREN_MAX && !is_large {
            self.recount();
            return None;
        }
        let cut = if is_edge { self.separators.count() - 1 } else { self.separators.cut() };
        Some(self.split_at(cut))
    }

    /// Splits this node at one of its separators, which goes to the parent.
    fn split_at(&mut self, separator: usize) -> NodeSplit {
        let (mut left, right) = self.take_separators().split_at(separator + 1);
        let key = left.key(separator);
        let promoted = key.head(key.len());
        left.remove_at(separator);
        left.trim();
        self.separators = left;
        let children = self.children.split_off(separator + 1);
        self.children.shrink_to_fit();
        self.recount();
        NodeSplit { separator: promoted, right: TreeNode::Inner(InnerNode::new(right, children)) }
    }

    pub(super) fn take_separators(&mut self) -> SortedPage<0> {
        std::mem::replace(&mut self.separators, SortedPage::new())
    }

    fn remove(&mut self, key: &[u8]) -> Option<(u64, bool)> {
        let at = self.child_of(key);
        let child = &mut self.children[at];
        let memory = child.memory();
        let (value, mut reshaped) = child.remove(key)?;
        if child.is_empty() {
            self.remove_child(at);
            reshaped = true;
        } else if reshaped || child.is_small() {
            reshaped |= self.join_small(at);
        }
        if reshaped {
            self.recount();
        } else {
            self.records -= 1;
            self.memory = self.memory - memory + self.children[at].memory();
        }
        Some((value, reshaped))
    }

    /// Removes a child without records. Its neighbour gets its range.
    fn remove_child(&mut self, at: usize) {
        self.children.remove(at);
        if self.separators.count() > 0 {
            self.separators.remove_at(at.saturating_sub(1));
        }
        if at > 0 {
            self.join_small(at - 1);
        }
        self.join_small(at);
    }

    /// Joins the child at `at` with neighbours as long as it is small and one of them has room. The caller recounts.
    pub(super) fn join_small(&mut self, at: usize) -> bool {
        let mut at = at;
        let mut joined = false;
        while at < self.children.len() && self.children[at].is_small() {
            if at + 1 < self.children.len() && self.is_joinable(at) {
                self.join_children(at);
            } else if at > 0 && self.is_joinable(at - 1) {
                at -= 1;
                self.join_children(at);
            } else {
                break;
            }
            joined = true;
        }
        joined
    }

    /// Whether the child at `at` and the next one fit one node.
    pub(super) fn is_joinable(&self, at: usize) -> bool {
        self.children[at].fits_with(&self.children[at + 1], &self.separators, at)
    }

    fn join_children(&mut self, at: usize) {
        let separator = self.separators.key(at).head(self.separators.key(at).len());
        self.separators.remove_at(at);
        let right = self.children.remove(at + 1);
        let left = &mut self.children[at];
        match (left, right) {
            (TreeNode::Leaf(left), TreeNode::Leaf(right)) => {
                *left = std::mem::replace(left, Leaf::new()).join(right);
            }
            (TreeNode::Inner(left), TreeNode::Inner(right)) => left.join_with(&separator, *right),
            _ => unreachable!("all leaves have the same depth"),
        }
    }

    fn join_with(&mut self, separator: &[u8], mut right: InnerNode) {
        let seam = self.children.len();
        let mut separators = self.take_separators();
        separators.insert_at(separators.count(), separator, []);
        self.separators = separators.join(right.separators);
        self.children.append(&mut right.children);
        self.join_small(seam);
        self.join_small(seam - 1);
        self.recount();
    }
}
