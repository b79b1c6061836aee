//! The order of the keys of a partition, made when it is opened and kept from then on.

use super::PartitionStore;
use crate::disk::Disk;
use crate::error::{EngineError, EngineResult};
use crate::index::key_order::{KeyOrder, KeyRange, KeysOfRange};
use crate::index::location::{EntryPlace, Location};
use crate::io::Io;

/// Whether the order of the keys is kept.
#[derive(Debug, Default)]
pub(crate) enum OrderOfKeys {
    /// The partition has no order.
    #[default]
    NotKept,
    /// It is to be kept, but a key could not be read.
    Incomplete,
    /// It has every key of the index.
    Kept(Box<KeyOrder>),
}

impl OrderOfKeys {
    pub(crate) fn kept_mut(&mut self) -> Option<&mut KeyOrder> {
        match self {
            OrderOfKeys::Kept(order) => Some(order),
            OrderOfKeys::NotKept | OrderOfKeys::Incomplete => None,
        }
    }

    pub(crate) fn is_wanted(&self) -> bool {
        !matches!(self, OrderOfKeys::NotKept)
    }

    /// Memory that it uses, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            OrderOfKeys::Kept(order) => order.bytes(),
            OrderOfKeys::NotKept | OrderOfKeys::Incomplete => 0,
        }
    }
}

impl PartitionStore {
    /// See [`crate::Engine::keep_key_order`].
    pub(crate) fn keep_key_order<D: Disk>(&mut self, io: &mut Io<D>) -> EngineResult<()> {
        if !self.order.is_wanted() {
            self.order = OrderOfKeys::Incomplete;
        }
        self.complete_order(io).map(drop)
    }

    /// The order. If a key could not be read, all keys are read again: it may have been repaired since.
    fn complete_order<D: Disk>(&mut self, io: &mut Io<D>) -> EngineResult<&KeyOrder> {
        if let OrderOfKeys::Incomplete = self.order {
            self.order = OrderOfKeys::Kept(Box::new(self.read_order(io)?));
        }
        match &self.order {
            OrderOfKeys::Kept(order) => Ok(order),
            OrderOfKeys::NotKept | OrderOfKeys::Incomplete => Err(EngineError::NotOrdered),
        }
    }

    /// Reads all keys, in the order of their places. Those that only older versions have come from these.
    fn read_order<D: Disk>(&self, io: &mut Io<D>) -> EngineResult<KeyOrder> {
        let mut places: Vec<Location> = Vec::with_capacity(self.index.len());
        let mut page = Some(0);
        while let Some(from) = page {
            let (entries, next) = self.index.page_entries(from);
            places.extend(entries.map(|(_, location)| location.with_older(false)));
            page = next;
        }
        places.sort_unstable_by_key(|location| match location.decode() {
            EntryPlace::Entry(position) => (position.slot, position.offset),
            EntryPlace::Chain(id) => (u32::MAX, id),
        });
        let mut order = KeyOrder::default();
        let mut scratch = Vec::new();
        for location in places {
            order.insert(&self.key_at(io, location.decode(), &mut scratch)?);
        }
        for (key, until) in self.versions.ends() {
            order.record_end(key, until);
        }
        Ok(order)
    }

    /// A key has a record now.
    pub(super) fn order_key(&mut self, key: &[u8]) {
        if let Some(order) = self.order.kept_mut() {
            order.insert(key);
        }
    }

    /// See [`crate::Engine::keys_in_order`].
    pub(crate) fn keys_in_order<D: Disk>(
        &mut self,
        io: &mut Io<D>,
        range: KeyRange<'_>,
        most: usize,
        at: Option<u64>,
    ) -> EngineResult<KeysOfRange> {
        Ok(self.complete_order(io)?.keys_of(range, most, at))
    }

    /// See [`crate::Engine::count_in_order`].
    pub(crate) fn count_in_order<D: Disk>(
        &mut self,
        io: &mut Io<D>,
        range: KeyRange<'_>,
    ) -> EngineResult<u64> {
        Ok(self.complete_order(io)?.count(range))
    }
}
