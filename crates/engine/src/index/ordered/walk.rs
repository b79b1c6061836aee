//! Iteration over a range, in either direction, and cursors to continue it.

use std::ops::Bound;

use super::node::{InnerNode, Leaf, TreeNode};
use crate::index::location::Location;

/// Where an iteration continues: a range of keys, and the end to begin at. It names a key and no node, so it stays valid
/// whatever is inserted, removed or split meanwhile: records that exist throughout are returned exactly once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeCursor {
    near: Bound<Box<[u8]>>,
    far: Bound<Box<[u8]>>,
    is_reverse: bool,
}

impl RangeCursor {
    /// From the lowest key of a range up.
    pub fn ascending(from: Bound<&[u8]>, to: Bound<&[u8]>) -> RangeCursor {
        RangeCursor { near: from.map(Box::from), far: to.map(Box::from), is_reverse: false }
    }

    /// From the highest key of a range down.
    pub fn descending(from: Bound<&[u8]>, to: Bound<&[u8]>) -> RangeCursor {
        RangeCursor { near: to.map(Box::from), far: from.map(Box::from), is_reverse: true }
    }
}

/// An iteration over a range. A key is valid until the next one is read: pages store keys in parts, and each is put together
/// in the same buffer.
pub struct RangeWalk<'a> {
    cursor: RangeCursor,
    /// The inner nodes above the leaf, each with the index of the child below.
    path: Vec<(&'a InnerNode, usize)>,
    leaf: Option<&'a Leaf>,
    /// The entries of this leaf that are left.
    from: usize,
    to: usize,
    /// Whether the range ends in this leaf.
    is_last: bool,
    /// The key that was returned last.
    key: Vec<u8>,
    /// Whether it is of another leaf, and so has another prefix.
    is_new_leaf: bool,
    has_moved: bool,
}

impl<'a> RangeWalk<'a> {
    pub(super) fn new(root: &'a TreeNode, height: usize, cursor: RangeCursor) -> Self {
        let mut walk = RangeWalk {
            cursor,
            path: Vec::with_capacity(height),
            leaf: None,
            from: 0,
            to: 0,
            is_last: false,
            key: Vec::new(),
            is_new_leaf: true,
            has_moved: false,
        };
        walk.descend(root, true);
        walk
    }

    /// The next record, in the direction of the cursor.
    pub fn next_record(&mut self) -> Option<(&[u8], Location)> {
        while self.from >= self.to {
            if self.is_last || !self.enter_next_leaf() {
                return None;
            }
        }
        let at = if self.cursor.is_reverse {
            self.to -= 1;
            self.to
        } else {
            self.from += 1;
            self.from - 1
        };
        let leaf = self.leaf?;
        self.has_moved = true;
        if self.is_new_leaf {
            self.key.clear();
            self.key.extend_from_slice(leaf.prefix());
            self.is_new_leaf = false;
        } else {
            self.key.truncate(leaf.prefix().len());
        }
        self.key.extend_from_slice(leaf.suffix(at));
        Some((&self.key, Location(leaf.value(at))))
    }

    /// What continues behind the record that was returned last.
    pub fn cursor(&self) -> RangeCursor {
        let near = if self.has_moved {
            Bound::Excluded(Box::from(self.key.as_slice()))
        } else {
            self.cursor.near.clone()
        };
        RangeCursor { near, ..self.cursor.clone() }
    }

    fn enter_next_leaf(&mut self) -> bool {
        while let Some((inner, at)) = self.path.pop() {
            let next = if self.cursor.is_reverse { at.checked_sub(1) } else { Some(at + 1) };
            if let Some(next) = next
                && let Some(child) = inner.children.get(next)
            {
                self.path.push((inner, next));
                self.descend(child, false);
                return true;
            }
        }
        self.is_last = true;
        false
    }

    /// Goes down to the leaf of the near bound, or to the outermost one.
    fn descend(&mut self, node: &'a TreeNode, is_start: bool) {
        let is_reverse = self.cursor.is_reverse;
        let near = match &self.cursor.near {
            Bound::Included(key) | Bound::Excluded(key) if is_start => Some(key),
            _ => None,
        };
        let mut node = node;
        let leaf = loop {
            match node {
                TreeNode::Leaf(leaf) => break leaf,
                TreeNode::Inner(inner) => {
                    let at = match near {
                        Some(key) => inner.child_of(key),
                        None if is_reverse => inner.children.len() - 1,
                        None => 0,
                    };
                    self.path.push((inner, at));
                    node = &inner.children[at];
                }
            }
        };
        self.leaf = Some(leaf);
        let below = |bound: &Bound<Box<[u8]>>, is_end: bool| match bound {
            Bound::Unbounded if is_end => leaf.count(),
            Bound::Unbounded => 0,
            Bound::Included(key) if is_end => leaf.upper(key),
            Bound::Excluded(key) if !is_end => leaf.upper(key),
            Bound::Included(key) | Bound::Excluded(key) => leaf.search(key).unwrap_or_else(|at| at),
        };
        let RangeCursor { near, far, .. } = &self.cursor;
        let near_at = |is_end| if is_start { below(near, is_end) } else { below(&Bound::Unbounded, is_end) };
        (self.from, self.to) =
            if is_reverse { (below(far, false), near_at(true)) } else { (near_at(false), below(far, true)) };
        self.is_last = if is_reverse { self.from > 0 } else { self.to < leaf.count() };
        self.is_new_leaf = true;
    }
}
