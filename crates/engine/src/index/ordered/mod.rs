//! The ordered index: the location of the newest version of each key, with the keys, in byte order.
//!
//! ```text
//!            inner node: separators, children, records and memory below
//!           /        │        \
//!        leaf       leaf      leaf: prefix, 4-byte heads, ends, locations, keys behind the prefix
//! ```
//!
//! A B+-tree in memory. A leaf stores what all its keys share once; a lookup compares that, then heads of four bytes, and one
//! complete key at the end. Nodes have no fixed size: a buffer grows with its content up to [`LEAF_BYTES_MAX`], so leaves that
//! were just split cost no memory for what may come.
//!
//! Inner nodes have the number of records below them, so ranks and counts of ranges are exact and read one path. Trees are
//! split and joined by moving subtrees.
//!
//! Partitions of ordered keyspaces keep their keys in one, without places, beside their hash index (`key_order.rs`).
//! Decision record 0013 has the layout, alternatives and figures.

use std::fmt;
use std::ops::Bound;

mod check;
mod join;
mod key;
mod node;
mod page;
#[cfg(test)]
mod tests;
mod walk;

pub use check::IndexShape;
pub use walk::{RangeCursor, RangeWalk};

use super::location::Location;
use crate::limits::{KEY_BYTES_MAX, SCAN_KEY_BYTES_MAX};
use join::Subtree;
use key::shortest_separator;
use node::{Edges, Leaf, TreeNode};

/// A leaf splits before it has more bytes.
const LEAF_BYTES_MAX: usize = 4 << 10;
/// Children of an inner node at most.
const CHILDREN_MAX: usize = 256;
/// An inner node splits before its separators have more bytes.
const INNER_BYTES_MAX: usize = 8 << 10;
/// A node splits where a separator of at most this length divides it, if there is such a place near its middle.
pub const SEPARATOR_BYTES_MAX: usize = 256;

/// A key is longer than [`KEY_BYTES_MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyTooLong {
    /// Bytes given.
    pub bytes: usize,
}

impl fmt::Display for KeyTooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a key of {} bytes is longer than {KEY_BYTES_MAX}", self.bytes)
    }
}

impl std::error::Error for KeyTooLong {}

/// The index of one ordered partition.
#[derive(Clone)]
pub struct OrderedIndex {
    root: TreeNode,
    /// Inner nodes above each leaf.
    height: usize,
}

impl Default for OrderedIndex {
    fn default() -> Self {
        OrderedIndex::new()
    }
}

impl fmt::Debug for OrderedIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OrderedIndex").field("records", &self.len()).field("height", &self.height).finish()
    }
}

impl OrderedIndex {
    /// An empty index. It allocates nothing until the first insert.
    pub fn new() -> OrderedIndex {
        OrderedIndex { root: TreeNode::Leaf(Leaf::new()), height: 0 }
    }

    /// Number of records.
    pub fn len(&self) -> usize {
        self.root.records()
    }

    /// Whether it has no records.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Memory that it has allocated, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.root.memory()
    }

    /// The location of a key.
    pub fn get(&self, key: &[u8]) -> Option<Location> {
        let leaf = self.leaf_of(key);
        leaf.search(key).ok().map(|at| Location(leaf.value(at)))
    }

    /// Adds a key, or changes its location; returns the previous one.
    ///
    /// # Errors
    /// [`KeyTooLong`]; nothing has changed.
    pub fn insert(&mut self, key: &[u8], location: Location) -> Result<Option<Location>, KeyTooLong> {
        if key.len() > KEY_BYTES_MAX {
            return Err(KeyTooLong { bytes: key.len() });
        }
        let inserted = self.root.insert(key, location.0, Edges { left: true, right: true });
        if inserted.reshaped {
            self.change_root(|root| root.below(inserted.split));
        }
        Ok(inserted.previous.map(Location))
    }

    /// Changes the location of a key that is there, and returns the previous one.
    pub fn replace(&mut self, key: &[u8], location: Location) -> Option<Location> {
        let mut node = &mut self.root;
        loop {
            match node {
                TreeNode::Leaf(leaf) => {
                    let at = leaf.search(key).ok()?;
                    return Some(Location(leaf.replace_value(at, location.0)));
                }
                TreeNode::Inner(inner) => {
                    let at = inner.child_of(key);
                    node = &mut inner.children[at];
                }
            }
        }
    }

    /// Removes a key, and returns its location.
    pub fn remove(&mut self, key: &[u8]) -> Option<Location> {
        let (value, reshaped) = self.root.remove(key)?;
        if reshaped {
            self.change_root(Subtree::without_only_children);
        }
        if self.is_empty() {
            *self = OrderedIndex::new();
        }
        Some(Location(value))
    }

    /// The number of keys in a range.
    pub fn count(&self, from: Bound<&[u8]>, to: Bound<&[u8]>) -> usize {
        let until = self.rank_of(to, true, rank_in);
        until.saturating_sub(self.rank_of(from, false, rank_in))
    }

    /// The number of keys in a range, wrong by a leaf at most. It reads no leaf.
    pub fn estimated_count(&self, from: Bound<&[u8]>, to: Bound<&[u8]>) -> usize {
        let until = self.rank_of(to, true, |leaf, _, _| leaf.count() / 2);
        until.saturating_sub(self.rank_of(from, false, |leaf, _, _| leaf.count() / 2))
    }

    /// The key with so many others below it.
    pub fn key_at(&self, rank: usize) -> Option<Vec<u8>> {
        let mut rest = rank;
        let mut node = &self.root;
        loop {
            match node {
                TreeNode::Leaf(leaf) => {
                    return (rest < leaf.count()).then(|| [leaf.prefix(), leaf.suffix(rest)].concat());
                }
                TreeNode::Inner(inner) => {
                    node = inner.children.iter().find(|child| {
                        let is_below = rest < child.records();
                        rest -= if is_below { 0 } else { child.records() };
                        is_below
                    })?;
                }
            }
        }
    }

    /// The key with half of all keys below it: where a region is split by its size.
    pub fn median_key(&self) -> Option<Vec<u8>> {
        self.key_at(self.len() / 2)
    }

    /// The records from a cursor on, without bounds on their number.
    pub fn walk(&self, cursor: RangeCursor) -> RangeWalk<'_> {
        RangeWalk::new(&self.root, self.height, cursor)
    }

    /// Visits at most so many records from a cursor on, and fewer if their keys have more than [`SCAN_KEY_BYTES_MAX`] bytes.
    /// Returns the cursor of the rest, if there is any.
    pub fn page(
        &self,
        cursor: RangeCursor,
        most: usize,
        mut visit: impl FnMut(&[u8], Location),
    ) -> Option<RangeCursor> {
        let mut walk = self.walk(cursor);
        let mut bytes = 0;
        for _ in 0..most {
            if bytes >= SCAN_KEY_BYTES_MAX {
                break;
            }
            let (key, location) = walk.next_record()?;
            bytes += key.len();
            visit(key, location);
        }
        let rest = walk.cursor();
        walk.next_record().map(|_| rest)
    }

    /// Splits the index at a key: it keeps the keys below, and returns the others. Leaves move, except the one of the key.
    #[must_use]
    pub fn split_off(&mut self, key: &[u8]) -> OrderedIndex {
        let OrderedIndex { root, height } = std::mem::take(self);
        let (left, right) = Subtree { node: root, height }.split(key);
        let index = |part: Option<Subtree>| {
            part.map_or_else(OrderedIndex::new, |Subtree { node, height }| OrderedIndex {
                root: node,
                height,
            })
        };
        *self = index(left);
        index(right)
    }

    /// Adds an index whose keys are all above its own. Leaves move.
    ///
    /// # Errors
    /// [`KeyOutOfOrder`] has the other index back; nothing has changed.
    pub fn append(&mut self, right: OrderedIndex) -> Result<(), KeyOutOfOrder> {
        let (Some(last), Some(first)) = (self.root.outer_key(true), right.root.outer_key(false)) else {
            if self.is_empty() {
                *self = right;
            }
            return Ok(());
        };
        if !last.is_below(first) {
            return Err(KeyOutOfOrder { right });
        }
        let separator = shortest_separator(last, first);
        let OrderedIndex { root, height } = right;
        self.change_root(|left| left.join(separator, Subtree { node: root, height }));
        Ok(())
    }

    /// Removes the keys of a range, and returns them with their locations. Leaves move, except those of both ends.
    pub fn remove_range(&mut self, from: Bound<&[u8]>, to: Bound<&[u8]>) -> OrderedIndex {
        if self.count(from, to) == 0 {
            return OrderedIndex::new();
        }
        // The lowest key above another has one zero more.
        let above = |key: &[u8]| [key, &[0]].concat();
        let rest = match to {
            Bound::Unbounded => OrderedIndex::new(),
            Bound::Included(key) => self.split_off(&above(key)),
            Bound::Excluded(key) => self.split_off(key),
        };
        let removed = match from {
            Bound::Unbounded => std::mem::take(self),
            Bound::Included(key) => self.split_off(key),
            Bound::Excluded(key) => self.split_off(&above(key)),
        };
        self.append(rest).expect("keys behind the range are above those in front of it");
        removed
    }

    fn leaf_of(&self, key: &[u8]) -> &Leaf {
        let mut node = &self.root;
        loop {
            match node {
                TreeNode::Leaf(leaf) => return leaf,
                TreeNode::Inner(inner) => node = &inner.children[inner.child_of(key)],
            }
        }
    }

    /// The number of keys below a bound, of which `in_leaf` counts those in its leaf.
    fn rank_of(&self, bound: Bound<&[u8]>, is_end: bool, in_leaf: fn(&Leaf, &[u8], bool) -> usize) -> usize {
        let (key, is_above) = match bound {
            Bound::Unbounded => return if is_end { self.len() } else { 0 },
            Bound::Included(key) => (key, is_end),
            Bound::Excluded(key) => (key, !is_end),
        };
        let mut node = &self.root;
        let mut rank = 0;
        loop {
            match node {
                TreeNode::Leaf(leaf) => return rank + in_leaf(leaf, key, is_above),
                TreeNode::Inner(inner) => {
                    let at = inner.child_of(key);
                    rank += inner.children[..at].iter().map(TreeNode::records).sum::<usize>();
                    node = &inner.children[at];
                }
            }
        }
    }

    fn change_root(&mut self, change: impl FnOnce(Subtree) -> Subtree) {
        let OrderedIndex { root, height } = std::mem::take(self);
        let Subtree { node, height } = change(Subtree { node: root, height });
        *self = OrderedIndex { root: node, height };
    }
}

/// The number of keys below `key`, or not above it.
fn rank_in(leaf: &Leaf, key: &[u8], is_above: bool) -> usize {
    if is_above { leaf.upper(key) } else { leaf.search(key).unwrap_or_else(|at| at) }
}

/// An index was to be appended whose keys are not all above those of the other.
#[derive(Debug)]
pub struct KeyOutOfOrder {
    /// The index that was not appended.
    pub right: OrderedIndex,
}

impl fmt::Display for KeyOutOfOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the keys of the {} records to append are not all above the last key", self.right.len())
    }
}

impl std::error::Error for KeyOutOfOrder {}
