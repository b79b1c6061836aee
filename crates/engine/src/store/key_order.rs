//! The order of the keys of a partition, made when it is opened and kept from then on.

use super::PartitionStore;
use crate::disk::Disk;
use crate::error::{EngineError, EngineResult};
use crate::index::key_order::{KeyOrder, KeyRange, KeysOfRange};
use crate::index::location::{EntryPlace, Location};
use crate::io::Io;

impl PartitionStore {
    /// Keeps the order of the keys from here on. All present keys are read once, in the order of the log.
    ///
    /// # Errors
    /// [`EngineError::Corrupt`] if a key cannot be read; errors of the disk. The order is not kept then.
    pub(crate) fn keep_key_order<D: Disk>(&mut self, io: &mut Io<D>) -> EngineResult<()> {
        if self.order.is_some() {
            return Ok(());
        }
        let mut places: Vec<Location> = Vec::with_capacity(self.index.len());
        let mut page = Some(0);
        while let Some(from) = page {
            let (entries, next) = self.index.page_entries(from);
            places.extend(entries.map(|(_, location)| location.with_older(false)));
            page = next;
        }
        // Slots are in no order, but all places of one are together.
        places.sort_unstable_by_key(|location| match location.decode() {
            EntryPlace::Entry(position) => (position.slot, position.offset),
            EntryPlace::Chain(id) => (u32::MAX, id),
        });
        let mut order = Box::new(KeyOrder::default());
        let mut scratch = Vec::new();
        for location in places {
            order.insert(&self.key_at(io, location.decode(), &mut scratch)?);
        }
        self.order = Some(order);
        Ok(())
    }

    /// A key has a record now.
    pub(super) fn order_key(&mut self, key: &[u8]) {
        if let Some(order) = &mut self.order {
            order.insert(key);
        }
    }

    /// See [`crate::Engine::keys_in_order`].
    pub(crate) fn keys_in_order(
        &self,
        range: KeyRange<'_>,
        most: usize,
        at: Option<u64>,
    ) -> EngineResult<KeysOfRange> {
        Ok(self.ordered()?.keys_of(range, most, at))
    }

    /// See [`crate::Engine::count_in_order`].
    pub(crate) fn count_in_order(&self, range: KeyRange<'_>) -> EngineResult<u64> {
        Ok(self.ordered()?.count(range))
    }

    fn ordered(&self) -> EngineResult<&KeyOrder> {
        self.order.as_deref().ok_or(EngineError::NotOrdered)
    }
}
