//! Records of several parts: lists, and bytes with appends.

use std::collections::VecDeque;

use super::extents::Extents;
use super::part::ChainPart;
use crate::log::AppendedPlace;
use crate::log::chunk_head::ChunkHead;
use crate::log::entry::{EntryMeta, FLAG_CHUNK, FLAG_LIST, u64_at};

/// The start of a record after a trim: a part, and units of it that no longer count. It names the part, so that it means
/// the same when it is replayed over a log in which trimmed parts are already gone: the part itself may be gone too, by a
/// later trim, and then none of the units of the next part are removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrimPoint {
    /// Log index of the first part that stays.
    pub part: u64,
    /// Units at its head that are removed.
    pub skip: u64,
}

impl TrimPoint {
    /// The payload of a [`EntryKind::Trim`](crate::log::entry::EntryKind::Trim) entry.
    pub fn encode(&self) -> [u8; 16] {
        let mut out = [0; 16];
        out[0..8].copy_from_slice(&self.part.to_le_bytes());
        out[8..16].copy_from_slice(&self.skip.to_le_bytes());
        out
    }

    /// Reads this payload.
    pub fn decode(bytes: &[u8]) -> Option<TrimPoint> {
        (bytes.len() == 16).then(|| TrimPoint { part: u64_at(bytes, 0), skip: u64_at(bytes, 8) })
    }
}

/// The kind of a record: bytes, if neither.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Form {
    pub(crate) is_list: bool,
    pub(crate) is_chunk: bool,
}

impl Form {
    /// The form in an entry's flags.
    pub(crate) fn of(flags: u8) -> Form {
        Form { is_list: flags & FLAG_LIST != 0, is_chunk: flags & FLAG_CHUNK != 0 }
    }
}

/// A record of several parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Chain {
    pub(crate) key: Box<[u8]>,
    pub(crate) is_list: bool,
    /// In log order.
    pub(crate) parts: VecDeque<ChainPart>,
    /// Units at the head of the first part that were trimmed away.
    pub(crate) skipped: u64,
    /// Log index of the trim that removed them; 0 if none.
    pub(crate) trimmed_by: u64,
    /// The place of that trim, if it is known. Not kept in checkpoints.
    pub(crate) trim_at: Option<AppendedPlace>,
    /// Units that count: of all parts, less the skipped.
    pub(crate) units: u64,
    /// Log index of the last entry that changed it: replaying older ones changes nothing.
    pub(crate) applied: u64,
    /// The fields of an entry that changed it. Not kept in checkpoints.
    pub(crate) changed_by: Option<EntryMeta>,
    /// For a chunk, the extents of its parts.
    pub(crate) extents: Option<Box<Extents>>,
}

impl Chain {
    /// Records the fields of the entry that has just changed it.
    pub(crate) fn record_entry(&mut self, meta: &EntryMeta) {
        self.changed_by = Some(*meta);
    }

    /// The fields of the entry that changed it last, if they are known here; otherwise they are in the log.
    pub(crate) fn newest(&self) -> Option<EntryMeta> {
        self.changed_by.filter(|meta| meta.index == self.applied)
    }

    /// An empty record of parts of this form.
    pub(crate) fn new(key: &[u8], form: Form) -> Chain {
        let extents = form.is_chunk.then(Box::default);
        Chain { key: key.into(), is_list: form.is_list, extents, ..Chain::default() }
    }

    pub(crate) fn form(&self) -> Form {
        Form { is_list: self.is_list, is_chunk: self.extents.is_some() }
    }

    /// Adds a part; for a chunk with the head in its entry, unless that is corrupt. Returns the parts that it hides.
    pub(crate) fn add(&mut self, part: ChainPart, head: Option<ChunkHead>) -> Vec<ChainPart> {
        let mut gone = Vec::new();
        if let Some(extents) = &mut self.extents {
            let offset = head.map_or(0, |head| head.offset);
            gone = extents.add_part(&mut self.parts, part, offset);
            extents.stamp = head.map(|head| head.stamp);
            self.units -= gone.iter().map(|part| u64::from(part.units)).sum::<u64>();
        }
        self.push(part);
        gone
    }

    /// Adds parts from a checkpoint; for a chunk with their offsets.
    pub(crate) fn load(&mut self, parts: &[ChainPart], offsets: Option<&[u32]>) {
        for (at, &part) in parts.iter().enumerate() {
            if let Some(extents) = &mut self.extents {
                extents.load(&self.parts, part, offsets.and_then(|all| all.get(at).copied()).unwrap_or(0));
            }
            self.push(part);
        }
    }

    pub(crate) fn push(&mut self, part: ChainPart) {
        self.units += u64::from(part.units);
        self.applied = self.applied.max(part.index);
        self.parts.push_back(part);
    }

    /// Removes the parts before a point and the units before it in its part. Returns the removed parts.
    pub(crate) fn trim(&mut self, to: TrimPoint, by: u64) -> Vec<ChainPart> {
        let keep_from = self.parts.partition_point(|p| p.index < to.part);
        let gone: Vec<ChainPart> = self.parts.drain(..keep_from).collect();
        self.skipped = if self.has_part(to.part) { to.skip } else { 0 };
        (self.trimmed_by, self.applied) = (by, by);
        let whole: u64 = self.parts.iter().map(|p| u64::from(p.units)).sum();
        self.units = whole.saturating_sub(self.skipped);
        gone
    }

    /// Removes parts that turned out to be missing. The skipped units of the first part no longer count if that part is
    /// among them.
    pub(crate) fn remove_missing(&mut self, missing: &[u64]) {
        if self.parts.front().is_some_and(|first| missing.contains(&first.index)) {
            self.skipped = 0;
        }
        if let Some(extents) = &mut self.extents {
            extents.drop_missing(&self.parts, missing);
        }
        self.parts.retain(|p| !missing.contains(&p.index));
        let whole: u64 = self.parts.iter().map(|p| u64::from(p.units)).sum();
        self.units = whole.saturating_sub(self.skipped);
    }

    pub(crate) fn has_part(&self, index: u64) -> bool {
        self.parts.binary_search_by_key(&index, |p| p.index).is_ok()
    }
}

/// The position so many units behind the beginning of the first part.
pub(crate) fn trim_point(parts: &VecDeque<ChainPart>, mut skip: u64) -> Option<TrimPoint> {
    for part in parts {
        if skip < u64::from(part.units) {
            return Some(TrimPoint { part: part.index, skip });
        }
        skip -= u64::from(part.units);
    }
    None
}

/// All chains of a partition, by id.
#[derive(Clone, Default)]
pub(crate) struct Chains {
    slots: Vec<Option<Box<Chain>>>,
    free: Vec<u32>,
    changes: u64,
}

impl Chains {
    pub(crate) fn add(&mut self, chain: Chain) -> u32 {
        match self.free.pop() {
            Some(id) => {
                self.slots[id as usize] = Some(Box::new(chain));
                id
            }
            None => {
                self.slots.push(Some(Box::new(chain)));
                (self.slots.len() - 1) as u32
            }
        }
    }

    pub(crate) fn get(&self, id: u32) -> &Chain {
        match self.slots.get(id as usize) {
            Some(Some(chain)) => chain,
            _ => unreachable!("the index names a chain that exists"),
        }
    }

    /// The first chain with this id or a higher one.
    pub(crate) fn first_from(&self, id: u64) -> Option<(u32, &Chain)> {
        let first = usize::try_from(id).ok()?;
        let mut chains = self.slots.iter().enumerate().skip(first);
        chains.find_map(|(id, chain)| Some((id as u32, chain.as_deref()?)))
    }

    /// Number of possible changes to any of them.
    pub(crate) fn changes(&self) -> u64 {
        self.changes
    }

    pub(crate) fn get_mut(&mut self, id: u32) -> &mut Chain {
        self.changes += 1;
        match self.slots.get_mut(id as usize) {
            Some(Some(chain)) => chain,
            _ => unreachable!("the index names a chain that exists"),
        }
    }

    pub(crate) fn take(&mut self, id: u32) -> Chain {
        match self.slots.get_mut(id as usize).and_then(Option::take) {
            Some(chain) => {
                self.free.push(id);
                *chain
            }
            None => unreachable!("the index names a chain that exists"),
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Option<Box<Chain>>>()
            + self
                .slots
                .iter()
                .flatten()
                .map(|c| {
                    let extents = c.extents.as_ref().map_or(0, |extents| extents.bytes());
                    size_of::<Chain>() + c.key.len() + c.parts.capacity() * size_of::<ChainPart>() + extents
                })
                .sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(index: u64, units: u32) -> ChainPart {
        ChainPart { index, entry_bytes: 40, units }
    }

    #[test]
    fn trim_drops_whole_parts_and_stores_skip_count_of_the_next() {
        let mut chain = Chain::default();
        chain.push(part(1, 3));
        chain.push(part(5, 2));
        let to = trim_point(&chain.parts, 4).expect("one unit is left");
        assert_eq!(to, TrimPoint { part: 5, skip: 1 });
        assert_eq!(chain.trim(to, 6), vec![part(1, 3)]);
        assert_eq!((chain.skipped, chain.units, chain.parts.len(), chain.applied), (1, 1, 1, 6));
        assert!(chain.has_part(5) && !chain.has_part(1));
        assert_eq!(trim_point(&chain.parts, chain.skipped + 1), None);
        assert_eq!(TrimPoint::decode(&to.encode()), Some(to));
    }

    #[test]
    fn trim_to_a_part_that_is_gone_leaves_the_next_whole() {
        let mut chain = Chain::default();
        chain.push(part(5, 2));
        chain.push(part(7, 1));
        assert_eq!(chain.trim(TrimPoint { part: 3, skip: 1 }, 4), vec![]);
        assert_eq!((chain.skipped, chain.units), (0, 3));
    }
}
