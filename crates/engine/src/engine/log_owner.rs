//! The stores of an instance as the owner of a shared log's entries: compaction asks them what each entry is, and tells them where it
//! is then.

use crate::log::AppendedPlace;
use crate::log::shared::compact::{LogOwner, VictimEntry};
use crate::log::shared::format::{LogPlace, SharedHead, SharedKind};
use crate::log::shared::live_bytes::{EntryUse, LiveBytes};
use crate::log::shared::streams::LogSlot;
use crate::logs::LogParts;
use crate::store::PartitionStore;
use crate::store::entry_use::PlacedEntry;

/// See the module.
pub(super) struct StoresOfLog<'a> {
    pub(super) partitions: &'a mut [Option<Box<PartitionStore>>],
    pub(super) parts: LogParts<'a>,
}

impl StoresOfLog<'_> {
    fn store(&mut self, slot: LogSlot) -> Option<&mut PartitionStore> {
        let handle = self.parts.handle_of(slot)?;
        self.partitions.get_mut(handle as usize)?.as_deref_mut()
    }

    fn placed(&mut self, head: &SharedHead, place: LogPlace) -> Option<AppendedPlace> {
        let slot = self.parts.segments.of(place.segment).ok()?;
        Some(AppendedPlace { slot, offset: place.offset, entry_bytes: head.entry_bytes() })
    }
}

impl LogOwner for StoresOfLog<'_> {
    fn judge(&mut self, entries: &[VictimEntry<'_>], uses: &mut Vec<Option<EntryUse>>) {
        for entry in entries {
            if let Some(store) = self.store(entry.slot) {
                store.index.hash.touch(store.fragment(entry.key));
            }
        }
        for entry in entries {
            let at = self.placed(entry.head, entry.place);
            let store = self.store(entry.slot);
            debug_assert!(store.as_ref().is_some_and(|store| !store.is_stopped()), "its entries are on hold");
            uses.push(match (store, at.and_then(|at| placed_entry(entry, at))) {
                (Some(store), Some(entry)) => store.use_of(&entry),
                // It stays whatever it is.
                _ => Some(EntryUse::Live),
            });
        }
    }

    fn is_removal_too(&mut self, entry: &VictimEntry<'_>) -> bool {
        let at = self.placed(entry.head, entry.place);
        let entry_at = at.and_then(|at| placed_entry(entry, at));
        self.store(entry.slot).zip(entry_at).is_some_and(|(store, entry)| store.stands_between(&entry))
    }

    fn commit_of(&mut self, slot: LogSlot) -> u64 {
        self.store(slot).map_or(0, |store| store.commit)
    }

    fn moved(&mut self, entry: &VictimEntry<'_>, entry_use: EntryUse, to: Option<LogPlace>) {
        let bytes = entry.head.entry_bytes() as u64;
        self.parts.moved(entry.slot, bytes, entry_use, to.is_some());
        let (from, to) =
            (self.placed(entry.head, entry.place), to.and_then(|to| self.placed(entry.head, to)));
        let entry_at = from.and_then(|from| placed_entry(entry, from));
        if let (Some(store), Some(entry), Some(to)) = (self.store(entry.slot), entry_at, to) {
            store.redirect(&entry, to);
        }
    }

    fn forgotten(&mut self, slot: LogSlot, left: LiveBytes) {
        self.parts.forgotten(slot, left);
    }

    fn freed(&mut self, slot: LogSlot, bytes: u64, last: u64) {
        self.parts.freed(slot, bytes);
        if let Some(store) = self.store(slot) {
            store.recent.forget_through(last);
        }
    }
}

fn placed_entry<'a>(entry: &VictimEntry<'a>, at: AppendedPlace) -> Option<PlacedEntry<'a>> {
    let SharedKind::Replicated(kind) = entry.head.kind else { return None };
    Some(PlacedEntry { index: entry.head.index, kind, flags: entry.head.flags, key: entry.key, at })
}
