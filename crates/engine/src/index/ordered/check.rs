//! The invariants of the tree, and its shape.

use super::node::{InnerNode, TreeNode};
use super::page::SortedPage;
use super::{CHILDREN_MAX, INNER_BYTES_MAX, LEAF_BYTES_MAX, OrderedIndex};

/// Counts of nodes and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IndexShape {
    /// Inner nodes above each leaf.
    pub height: usize,
    /// Leaves.
    pub leaves: usize,
    /// Inner nodes.
    pub inner_nodes: usize,
    /// Memory of all leaves.
    pub leaf_bytes: usize,
    /// What of it has content.
    pub leaf_bytes_used: usize,
    /// Memory of everything.
    pub memory_bytes: usize,
}

impl OrderedIndex {
    /// Checks every invariant, which reads everything.
    ///
    /// # Errors
    /// The first one that is broken.
    pub fn check(&self) -> Result<IndexShape, String> {
        let mut shape = IndexShape { height: self.height, ..IndexShape::default() };
        check_node(&self.root, self.height, [None, None], &mut shape)?;
        if let TreeNode::Inner(inner) = &self.root
            && inner.children.len() < 2
        {
            return Err("the root has an only child".into());
        }
        if shape.memory_bytes != self.memory_bytes() {
            return Err(format!("memory is {}, counted {}", shape.memory_bytes, self.memory_bytes()));
        }
        Ok(shape)
    }
}

fn expect(is_true: bool, what: impl FnOnce() -> String) -> Result<(), String> {
    if is_true { Ok(()) } else { Err(what()) }
}

fn check_node(
    node: &TreeNode,
    height: usize,
    fences: [Option<&[u8]>; 2],
    shape: &mut IndexShape,
) -> Result<(), String> {
    match node {
        TreeNode::Leaf(leaf) => {
            shape.leaves += 1;
            shape.leaf_bytes += leaf.memory();
            shape.leaf_bytes_used += leaf.used_memory();
            shape.memory_bytes += leaf.memory();
            expect(height == 0, || format!("a leaf has height {height}"))?;
            expect(leaf.size() <= LEAF_BYTES_MAX * 3 / 2, || format!("a leaf has {} bytes", leaf.size()))?;
            check_page(leaf, fences)
        }
        TreeNode::Inner(inner) => {
            shape.inner_nodes += 1;
            check_inner(inner, height, fences, shape)
        }
    }
}

fn check_inner(
    inner: &InnerNode,
    height: usize,
    fences: [Option<&[u8]>; 2],
    shape: &mut IndexShape,
) -> Result<(), String> {
    let InnerNode { separators, children, .. } = inner;
    expect(height > 0, || "an inner node has height 0".into())?;
    expect(children.len() <= CHILDREN_MAX, || format!("a node has {} children", children.len()))?;
    expect(children.len() == separators.count() + 1, || {
        format!("a node has {} children and {} separators", children.len(), separators.count())
    })?;
    expect(separators.size() <= INNER_BYTES_MAX * 3 / 2, || {
        format!("separators have {}", separators.size())
    })?;
    check_page(separators, fences)?;
    let memory = shape.memory_bytes;
    let keys: Vec<Vec<u8>> = (0..separators.count()).map(|at| whole(separators, at)).collect();
    for (at, child) in children.iter().enumerate() {
        let low = if at == 0 { fences[0] } else { Some(keys[at - 1].as_slice()) };
        let high = keys.get(at).map(Vec::as_slice).or(fences[1]);
        expect(!child.is_empty(), || format!("child {at} is empty"))?;
        check_node(child, height - 1, [low, high], shape)?;
        let is_sparse =
            at > 0 && child.is_small() && children[at - 1].is_small() && inner.is_joinable(at - 1);
        expect(!is_sparse, || format!("children {} and {at} are small, and could be joined", at - 1))?;
    }
    shape.memory_bytes += inner.own_memory();
    let counted = shape.memory_bytes - memory;
    expect(inner.memory == counted, || format!("a node counts {} bytes, not {counted}", inner.memory))?;
    let records: usize = children.iter().map(TreeNode::records).sum();
    expect(inner.records == records, || format!("a node counts {} records, not {records}", inner.records))
}

fn check_page<const VALUE: usize>(
    page: &SortedPage<VALUE>,
    fences: [Option<&[u8]>; 2],
) -> Result<(), String> {
    page.check_layout()?;
    let [low, high] = fences;
    let mut previous: Option<Vec<u8>> = None;
    for at in 0..page.count() {
        let key = whole(page, at);
        expect(low.is_none_or(|low| low <= &key[..]), || {
            format!("key {at} is below the left fence {low:?}")
        })?;
        expect(high.is_none_or(|high| &key[..] < high), || format!("key {at} is above the right fence"))?;
        expect(previous.is_none_or(|previous| previous < key), || format!("key {at} is not above the last"))?;
        expect(page.search(&key) == Ok(at), || format!("key {at} is not found"))?;
        previous = Some(key);
    }
    Ok(())
}

fn whole<const VALUE: usize>(page: &SortedPage<VALUE>, at: usize) -> Vec<u8> {
    [page.prefix(), page.suffix(at)].concat()
}

/// Visits the separators of all inner nodes.
#[cfg(test)]
pub(super) fn each_separator(index: &OrderedIndex, mut visit: impl FnMut(&[u8])) {
    let mut nodes = vec![&index.root];
    while let Some(node) = nodes.pop() {
        if let TreeNode::Inner(inner) = node {
            (0..inner.separators.count()).for_each(|at| visit(&whole(&inner.separators, at)));
            nodes.extend(&inner.children);
        }
    }
}
