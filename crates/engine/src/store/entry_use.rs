//! What the entries of a partition in a shared log are. Compaction moves those that are used, and says where they are then.

use std::convert::Infallible;

use super::PartitionStore;
use crate::index::location::{EntryPlace, Location};
use crate::io::Logs;
use crate::log::AppendedPlace;
use crate::log::entry::EntryKind;
use crate::log::shared::live_bytes::EntryUse;
use crate::logs::CountedEntry;
use crate::overflow::chains::{Chain, Form};
use crate::overflow::part::ChainPart;
use crate::overflow::places::position;
use crate::planted::{Bug, is_planted};

/// An entry at a place.
#[derive(Clone, Copy)]
pub(crate) struct PlacedEntry<'a> {
    pub(crate) index: u64,
    pub(crate) kind: EntryKind,
    pub(crate) flags: u8,
    pub(crate) key: &'a [u8],
    pub(crate) at: AppendedPlace,
}

impl PartitionStore {
    /// What an entry is at this place; `None`: dead. What is used at another place is dead at this one.
    pub(crate) fn use_of(&self, entry: &PlacedEntry<'_>) -> Option<EntryUse> {
        let here = PartitionStore::location_of(entry.at);
        if entry.index > self.commit {
            let is_here = self.recent.place_of(entry.index).is_some_and(|place| place.is_same_entry(here));
            return is_here.then_some(EntryUse::Live);
        }
        match entry.kind {
            EntryKind::Put | EntryKind::Append => self.use_of_contents(entry, here),
            EntryKind::Trim => self.is_present_trim(entry).then_some(EntryUse::Live),
            // Of a key that exists again it is needed as little as other removals, and as long.
            EntryKind::Remove => Some(EntryUse::Removal),
            EntryKind::Mark | EntryKind::Synced | EntryKind::Footer => None,
        }
    }

    fn use_of_contents(&self, entry: &PlacedEntry<'_>, here: Location) -> Option<EntryUse> {
        let fragment = self.fragment(entry.key);
        if self.index.hash.find_slot(fragment, here).is_some() {
            return Some(EntryUse::Live);
        }
        let is_named_here = self.places.has(entry.index, here);
        // A part that was loaded from a section may have no row, if its log index is ambiguous.
        let may_be_here =
            is_named_here || !self.places.may_have(entry.index) || entry.index > u32::MAX.into();
        if may_be_here && self.is_part(fragment, entry.index) {
            return Some(EntryUse::Live);
        }
        if is_named_here && self.versions.needs(fragment, entry.index) {
            return Some(EntryUse::Kept);
        }
        self.stands_between(entry).then_some(EntryUse::Removal)
    }

    /// Whether contents that are no part of their record keep older entries from being taken for parts of it.
    pub(crate) fn stands_between(&self, entry: &PlacedEntry<'_>) -> bool {
        let chain = self.chain_of_key(self.fragment(entry.key), entry.key);
        chain.is_some_and(|chain| stands_between(chain, entry))
    }

    fn is_present_trim(&self, entry: &PlacedEntry<'_>) -> bool {
        self.chain_of_key(self.fragment(entry.key), entry.key).is_some_and(|chain| {
            chain.trimmed_by == entry.index && chain.trim_at.is_none_or(|at| at == entry.at)
        })
    }

    /// Whether the place of the trim that shapes a record is known. Sections do not have it.
    pub(crate) fn knows_trim(&self, key: &[u8]) -> bool {
        self.chain_of_key(self.fragment(key), key).is_some_and(|chain| chain.trim_at.is_some())
    }

    fn chain_of_key(&self, fragment: u32, key: &[u8]) -> Option<&Chain> {
        self.chain_of(fragment, key).map(|id| self.chains.get(id))
    }

    /// The chain of a key.
    pub(super) fn chain_of(&self, fragment: u32, key: &[u8]) -> Option<u32> {
        let found = self.index.hash.find(fragment, |location| match location.decode() {
            EntryPlace::Chain(id) => Ok::<_, Infallible>(*self.chains.get(id).key == *key),
            EntryPlace::Entry(_) => Ok(false),
        });
        match found.unwrap_or_else(|never| match never {})?.1.decode() {
            EntryPlace::Chain(id) => Some(id),
            EntryPlace::Entry(_) => None,
        }
    }

    /// An entry that was used at its place has another one.
    pub(crate) fn redirect(&mut self, entry: &PlacedEntry<'_>, to: AppendedPlace) {
        let (here, there) = (PartitionStore::location_of(entry.at), PartitionStore::location_of(to));
        let fragment = self.fragment(entry.key);
        if let Some((found, _)) = self.index.hash.find_slot(fragment, here) {
            self.index.hash.replace(found, there);
        }
        if !is_planted(Bug::PartPlaceNotMoved)
            && !self.places.redirect(entry.index, here, there)
            && !self.places.may_have(entry.index)
            && self.is_part(fragment, entry.index)
        {
            self.places.add(entry.index, there);
        }
        self.recent.redirect(entry.index, to);
        if entry.kind == EntryKind::Trim
            && let Some(id) = self.chain_of(fragment, entry.key)
            && self.chains.get(id).trimmed_by == entry.index
        {
            self.chains.get_mut(id).trim_at = Some(to);
        }
    }

    /// The entry of a part is needed by older versions only.
    pub(crate) fn keep_for_versions(&self, logs: &mut Logs, part: &ChainPart) {
        if let Some(slot) = self.slot_of_part(logs.view(self.handle), part.index) {
            let entry = CountedEntry { slot, index: part.index, entry_bytes: part.entry_bytes.into() };
            let now = Some(EntryUse::Kept).filter(|_| !is_planted(Bug::KeptCountedDead));
            logs.change_use(self.handle, entry, Some(EntryUse::Live), now);
        }
    }

    /// Counts all that is live, after recovery.
    pub(crate) fn count_live(&self, logs: &mut Logs) {
        let mut from = Some(0);
        let mut live: Vec<CountedEntry> = self
            .recent
            .pending()
            .map(|pending| CountedEntry::at(pending.meta.index, pending.location))
            .collect();
        while let Some(fragment) = from {
            let (entries, next) = self.index.hash.page_entries(fragment);
            for (_, location) in entries {
                match location.decode() {
                    EntryPlace::Entry(at) => {
                        live.push(CountedEntry { slot: at.slot, index: 0, entry_bytes: at.bytes_max.into() });
                    }
                    EntryPlace::Chain(id) => self.live_of(self.chains.get(id), logs, &mut live),
                }
            }
            if is_planted(Bug::RecoveredNotCounted) {
                live.clear();
            }
            for entry in live.drain(..) {
                logs.change_use(self.handle, entry, None, Some(EntryUse::Live));
            }
            from = next;
        }
    }

    fn live_of(&self, chain: &Chain, logs: &Logs, live: &mut Vec<CountedEntry>) {
        let log = logs.view(self.handle);
        for part in &chain.parts {
            if let Some(slot) = self.places.get(log, part.index).map(|place| position(place).slot) {
                let entry_bytes = part.entry_bytes.into();
                live.push(CountedEntry { slot, index: part.index, entry_bytes });
            }
        }
        live.extend(chain.trim_at.map(|at| CountedEntry::at(chain.trimmed_by, at)));
    }
}

/// Whether an entry that is no part of its record keeps older entries from being taken for parts of it: the record is of another
/// kind, or later parts of a chunk hide the entry, which had replaced an older record.
fn stands_between(chain: &Chain, entry: &PlacedEntry<'_>) -> bool {
    let is_other_kind = chain.form() != Form::of(entry.flags);
    let is_hidden = chain.form().is_chunk && chain.parts.front().is_none_or(|part| part.index > entry.index);
    is_other_kind || entry.kind == EntryKind::Put && is_hidden
}
