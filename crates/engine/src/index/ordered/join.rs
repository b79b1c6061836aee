//! Trees in two and two trees in one: subtrees move, and only nodes on one path are rebuilt.

use super::node::{InnerNode, NodeSplit, TreeNode};

/// A node and its distance from the leaves.
pub(super) struct Subtree {
    pub(super) node: TreeNode,
    pub(super) height: usize,
}

impl Subtree {
    /// One tree of two. All keys of `right` are at or above `separator`, all others are below it.
    pub(super) fn join(mut self, separator: Box<[u8]>, mut right: Subtree) -> Subtree {
        if self.height >= right.height {
            let height = self.height;
            let split = if height == right.height {
                Some(NodeSplit { separator, right: right.node })
            } else {
                let inner = self.node.as_inner_mut().expect("only leaves have height 0");
                add_last(inner, height, separator, right)
            };
            return Subtree { node: self.node, height }.below(split);
        }
        let height = right.height;
        let inner = right.node.as_inner_mut().expect("only leaves have height 0");
        let split = add_first(inner, height, self, separator);
        Subtree { node: right.node, height }.below(split)
    }

    /// The tree with what was split off its root.
    pub(super) fn below(self, split: Option<NodeSplit>) -> Subtree {
        let Some(split) = split else { return self.without_only_children() };
        let mut inner = InnerNode::above(self.node, split);
        if inner.join_small(0) | inner.join_small(1) {
            inner.recount();
        }
        Subtree { node: TreeNode::Inner(inner), height: self.height + 1 }.without_only_children()
    }

    /// A root has more than one child, or is a leaf.
    pub(super) fn without_only_children(self) -> Subtree {
        let Subtree { mut node, mut height } = self;
        while let Some(inner) = node.as_inner_mut()
            && inner.children.len() == 1
        {
            node = inner.children.pop().expect("it has one child");
            height -= 1;
        }
        Subtree { node, height }
    }

    /// Both parts of the tree: keys below `key`, and the others.
    pub(super) fn split(self, key: &[u8]) -> (Option<Subtree>, Option<Subtree>) {
        let height = self.height;
        let mut inner = match self.node {
            TreeNode::Leaf(leaf) => {
                let at = leaf.search(key).unwrap_or_else(|at| at);
                let (left, right) = leaf.split_at(at);
                let part = |leaf| {
                    let node = TreeNode::Leaf(leaf);
                    (!node.is_empty()).then_some(Subtree { node, height })
                };
                return (part(left), part(right));
            }
            TreeNode::Inner(inner) => inner,
        };
        let at = inner.child_of(key);
        let behind = inner.children.split_off(at + 1);
        let child = inner.children.pop().expect("a key has a child");
        let (mut left, mut right) = Subtree { node: child, height: height - 1 }.split(key);
        let (before, after) = inner.take_separators().split_at(at);
        let mut before = before;
        let mut after = after;
        if !behind.is_empty() {
            let separator = after.key(0).head(after.key(0).len());
            after.remove_at(0);
            let siblings = Subtree { node: TreeNode::Inner(InnerNode::new(after, behind)), height };
            right = join_parts(right, separator, siblings.without_only_children());
        }
        if !inner.children.is_empty() {
            let last = before.count() - 1;
            let separator = before.key(last).head(before.key(last).len());
            before.remove_at(last);
            let node = TreeNode::Inner(InnerNode::new(before, inner.children));
            let siblings = Subtree { node, height }.without_only_children();
            left = Some(match left {
                Some(left) => siblings.join(separator, left),
                None => siblings,
            });
        }
        (left, right)
    }
}

fn join_parts(left: Option<Subtree>, separator: Box<[u8]>, right: Subtree) -> Option<Subtree> {
    Some(match left {
        Some(left) => left.join(separator, right),
        None => right,
    })
}

/// Adds a lower tree behind the last child at its height.
fn add_last(inner: &mut InnerNode, height: usize, separator: Box<[u8]>, right: Subtree) -> Option<NodeSplit> {
    let last = inner.children.len() - 1;
    if height == right.height + 1 {
        return inner.add_child(last, NodeSplit { separator, right: right.node }, false);
    }
    let child = inner.children[last].as_inner_mut().expect("only leaves have height 0");
    let split = add_last(child, height - 1, separator, right);
    after_add(inner, last, split)
}

/// Adds a lower tree in front of the first child at its height.
fn add_first(inner: &mut InnerNode, height: usize, left: Subtree, separator: Box<[u8]>) -> Option<NodeSplit> {
    if height == left.height + 1 {
        let right = std::mem::replace(&mut inner.children[0], left.node);
        return inner.add_child(0, NodeSplit { separator, right }, false);
    }
    let child = inner.children[0].as_inner_mut().expect("only leaves have height 0");
    let split = add_first(child, height - 1, left, separator);
    after_add(inner, 0, split)
}

fn after_add(inner: &mut InnerNode, at: usize, split: Option<NodeSplit>) -> Option<NodeSplit> {
    match split {
        Some(split) => inner.add_child(at, split, false),
        None => {
            inner.join_small(at);
            inner.recount();
            None
        }
    }
}
