//! The numbers of the chunks that a partition has of long blobs, so that a removal visits no others.
//!
//! Only chunks at or above [`CHUNKS_LISTED_FROM`](zerohop_wire::limits::CHUNKS_LISTED_FROM) are in the table. A number
//! takes two bytes in a block of 65,536 numbers. A table above [`CHUNKS_BYTES_MAX`] is given up, and so is that of a
//! state which an earlier version of the program has written. The table is then *incomplete* and empty, and lists walk
//! the index.

use std::collections::BTreeMap;

use crate::limits::CHUNKS_BYTES_MAX;

/// Memory of a blob beside its name, and of a block beside its numbers: the tree's entry and its share of a node.
const BLOB_BYTES: usize = 64;
const BLOCK_BYTES: usize = 56;
/// Bits of a number within its block.
const BLOCK_BITS: u32 = u16::BITS;

/// The numbers of the chunks of one blob, by block: each in order, none empty.
type Blocks = BTreeMap<u64, Vec<u16>>;

/// The committed chunks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChunkTable {
    is_complete: bool,
    blobs: BTreeMap<Box<[u8]>, Blocks>,
    bytes: usize,
}

impl Default for ChunkTable {
    fn default() -> Self {
        Self { is_complete: true, blobs: BTreeMap::new(), bytes: 0 }
    }
}

impl ChunkTable {
    /// A table that does not know the chunks.
    pub(crate) fn incomplete() -> Self {
        Self { is_complete: false, ..Self::default() }
    }

    /// Whether every chunk of the partition is in the table.
    pub(crate) fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// Adds a chunk that was written.
    pub(crate) fn add(&mut self, name: &[u8], number: u64) {
        if !self.is_complete {
            return;
        }
        if !self.blobs.contains_key(name) {
            self.blobs.insert(name.into(), Blocks::new());
            self.bytes += name.len() + BLOB_BYTES;
        }
        let Some(blocks) = self.blobs.get_mut(name) else { return };
        let block = blocks.entry(number >> BLOCK_BITS).or_insert_with(|| {
            self.bytes += BLOCK_BYTES;
            Vec::new()
        });
        if let Err(at) = block.binary_search(&(number as u16)) {
            block.insert(at, number as u16);
            self.bytes += size_of::<u16>();
        }
        if self.bytes > CHUNKS_BYTES_MAX {
            *self = Self::incomplete();
        }
    }

    /// Removes a chunk that was removed.
    pub(crate) fn remove(&mut self, name: &[u8], number: u64) {
        let Some(blocks) = self.blobs.get_mut(name) else { return };
        let high = number >> BLOCK_BITS;
        let Some(block) = blocks.get_mut(&high) else { return };
        let Ok(at) = block.binary_search(&(number as u16)) else { return };
        block.remove(at);
        self.bytes -= size_of::<u16>();
        if block.is_empty() {
            blocks.remove(&high);
            self.bytes -= BLOCK_BYTES;
        }
        if blocks.is_empty() {
            self.blobs.remove(name);
            self.bytes -= name.len() + BLOB_BYTES;
        }
    }

    /// The numbers of a blob from `first` on, in order.
    pub(crate) fn from<'t>(&'t self, name: &[u8], first: u64) -> impl Iterator<Item = u64> + use<'t> {
        let blocks = self.blobs.get(name).map(|blocks| blocks.range(first >> BLOCK_BITS..));
        blocks.into_iter().flatten().flat_map(move |(high, block)| {
            let begin = match *high == first >> BLOCK_BITS {
                true => block.partition_point(|number| *number < first as u16),
                false => 0,
            };
            block[begin..].iter().map(move |number| high << BLOCK_BITS | u64::from(*number))
        })
    }

    /// The blobs in the order of their names, with the numbers of their chunks.
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = (&[u8], &Blocks)> {
        self.blobs.iter().map(|(name, blocks)| (&**name, blocks))
    }

    /// The memory of the table in bytes, which no encoding of it exceeds.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn numbers(table: &ChunkTable, name: &[u8], first: u64) -> Vec<u64> {
        table.from(name, first).collect()
    }

    proptest! {
        #[test]
        fn table_of_chunks_equals_a_set(
            changes in prop::collection::vec((any::<bool>(), 0..2u8, 0..3u64, 65_530..65_540u64), 0..80),
            first in 0..300_000u64,
        ) {
            let (mut table, mut model) = (ChunkTable::default(), BTreeSet::new());
            for (adds, name, high, low) in changes {
                let number = (high << 16) + low;
                if adds {
                    table.add(&[name], number);
                    model.insert((name, number));
                } else {
                    table.remove(&[name], number);
                    model.remove(&(name, number));
                }
                for name in 0..2 {
                    let of: Vec<u64> = model.range((name, first)..(name + 1, 0)).map(|one| one.1).collect();
                    prop_assert_eq!(numbers(&table, &[name], first), of);
                }
            }
            for (name, number) in model {
                table.remove(&[name], number);
            }
            prop_assert_eq!(table, ChunkTable::default());
        }
    }

    #[test]
    fn table_above_its_limit_is_given_up() {
        let mut table = ChunkTable::default();
        table.add(b"a", 5000);
        assert_eq!(numbers(&table, b"a", 5000), [5000]);
        let mut number = 5000;
        while table.is_complete() {
            number += 1 << BLOCK_BITS;
            table.add(b"a", number);
            assert!(table.bytes() <= CHUNKS_BYTES_MAX);
        }
        assert_eq!(table, ChunkTable::incomplete());
        table.add(b"a", 5000);
        table.remove(b"a", 5000);
        assert_eq!(table, ChunkTable::incomplete());
    }
}
