//! The index of a partition: by hash, and the order of the keys if the partition keeps it.

use super::key_order::KeyOrder;
use super::location::{EntryPlace, Location};
use super::{HashIndex, IndexSlot};

/// Both indexes of a partition. Only a key that begins or ceases to exist changes the order, so the rest goes to the hash index.
// The hash index comes first: lookups read it alone.
#[derive(Clone, Default)]
#[repr(C)]
pub(crate) struct PartitionIndex {
    pub(crate) hash: HashIndex,
    order: OrderOfKeys,
}

/// Whether the order of the keys is kept.
#[derive(Clone, Default)]
enum OrderOfKeys {
    /// The partition has no order.
    #[default]
    NotKept,
    /// It is to be kept, but a key could not be read.
    Incomplete,
    /// It has every key of the hash index.
    Kept(Box<KeyOrder>),
}

impl PartitionIndex {
    /// Adds an entry; the caller has made sure that its key is not in the index.
    #[inline]
    pub(crate) fn insert(&mut self, (fragment, key): (u32, &[u8]), location: Location) {
        self.hash.insert(fragment, location);
        self.order_key(key);
    }

    /// Removes a found entry. `until`: a snapshot below that timestamp may read its key.
    #[inline]
    pub(crate) fn remove(&mut self, found: IndexSlot, key: &[u8], until: Option<u64>) {
        self.hash.remove(found);
        if let Some(order) = self.kept_mut() {
            order.remove(key, until);
        }
    }

    /// A key has a record, under an entry that may have been another key's.
    pub(crate) fn order_key(&mut self, key: &[u8]) {
        if let Some(order) = self.kept_mut() {
            order.insert(key);
        }
    }

    /// No snapshot reads at a timestamp below the horizon any more.
    pub(crate) fn expire(&mut self, horizon: u64) {
        if let Some(order) = self.kept_mut() {
            order.expire(horizon);
        }
    }

    /// Whether the order of the keys is to be kept.
    pub(crate) fn is_ordered(&self) -> bool {
        !matches!(self.order, OrderOfKeys::NotKept)
    }

    /// The order is to be kept from here on.
    pub(crate) fn want_order(&mut self) {
        if !self.is_ordered() {
            self.order = OrderOfKeys::Incomplete;
        }
    }

    /// Makes the order complete, if it is kept. All keys are read, in the order of their places, unless it is complete. `ends`:
    /// keys that older versions have, each with the end of that version, oldest end first.
    ///
    /// # Errors
    /// Those of `read_key`.
    pub(crate) fn complete_order<'a, E>(
        &mut self,
        mut read_key: impl FnMut(EntryPlace) -> Result<Vec<u8>, E>,
        ends: impl Iterator<Item = (&'a [u8], u64)>,
    ) -> Result<(), E> {
        match self.order {
            OrderOfKeys::NotKept | OrderOfKeys::Kept(_) => return Ok(()),
            OrderOfKeys::Incomplete => {}
        }
        let mut places: Vec<EntryPlace> = Vec::with_capacity(self.hash.len());
        let mut page = Some(0);
        while let Some(from) = page {
            let (entries, next) = self.hash.page_entries(from);
            places.extend(entries.map(|(_, location)| location.decode()));
            page = next;
        }
        places.sort_unstable_by_key(|place| match place {
            EntryPlace::Entry(position) => (position.slot, position.offset),
            EntryPlace::Chain(id) => (u32::MAX, *id),
        });
        let mut order = KeyOrder::default();
        for place in places {
            order.insert(&read_key(place)?);
        }
        ends.for_each(|(key, until)| order.record_end(key, until));
        self.order = OrderOfKeys::Kept(Box::new(order));
        Ok(())
    }

    /// Memory that it uses, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.hash.bytes() + self.kept().map_or(0, KeyOrder::bytes)
    }

    /// The order of the keys; `None`: it is not complete.
    pub(crate) fn kept(&self) -> Option<&KeyOrder> {
        match &self.order {
            OrderOfKeys::Kept(order) => Some(order),
            OrderOfKeys::NotKept | OrderOfKeys::Incomplete => None,
        }
    }

    fn kept_mut(&mut self) -> Option<&mut KeyOrder> {
        match &mut self.order {
            OrderOfKeys::Kept(order) => Some(order),
            OrderOfKeys::NotKept | OrderOfKeys::Incomplete => None,
        }
    }
}
