//! Committed entries change the index.
//!
//! Applying is idempotent: an entry that is older than the key's state in the index changes nothing. So a
//! checkpoint may be taken page by page while entries are applied, and the tail replayed over it.

use super::record::{Hint, NewestEntry, UnreadableKey};
use super::{PartitionStore, units_of};
use crate::disk::Disk;
use crate::error::EngineResult;
use crate::index::IndexSlot;
use crate::index::location::{EntryPlace, Location};
use crate::io::{Io, Logs};
use crate::log::AppendedPlace;
use crate::log::chunk_head::{CHUNK_HEAD_BYTES, ChunkHead};
use crate::log::entry::{EntryKind, EntryMeta, FLAG_CHUNK, HEAD_BYTES, crc, split_trailer};
use crate::log::shared::live_bytes::EntryUse;
use crate::logs::CountedEntry;
use crate::overflow::chains::{Chain, Form, TrimPoint};
use crate::overflow::extents::COVERS_UNKNOWN;
use crate::overflow::part::ChainPart;
use crate::overflow::versions::{FormerState, NewestVersion, OlderVersion};
use crate::planted::{Bug, is_planted};

/// The index entry of a key.
struct IndexedKey {
    found: IndexSlot,
    location: Location,
    seen: NewestEntry,
}

impl PartitionStore {
    /// Applies an entry that is in the log, and reads its key there.
    pub(crate) fn apply_from_log<D: Disk>(
        &mut self,
        io: &mut Io<D>,
        meta: &EntryMeta,
        placed: AppendedPlace,
    ) -> EngineResult<()> {
        if !meta.kind.has_key() {
            self.end_mark(&mut io.logs, meta, placed);
            return Ok(());
        }
        let EntryPlace::Entry(position) = PartitionStore::location_of(placed).decode() else {
            unreachable!("an entry's location is an entry")
        };
        let mut scratch = std::mem::take(&mut self.apply_scratch.entry);
        let mut own_key = std::mem::take(&mut self.apply_scratch.key);
        own_key.clear();
        if meta.flags & FLAG_CHUNK != 0
            && let Some(large) = io.logs.view(self.handle).chunk_in_memory(position)
        {
            own_key.extend_from_slice(large.key);
            let chunk = large.chunk;
            let result = self.apply(io, (meta, None), placed, &own_key, &chunk.encode(), chunk.length);
            (self.apply_scratch.entry, self.apply_scratch.key) = (scratch, own_key);
            return result;
        }
        // A corrupt payload does not matter here: the key then points to the entry, and reading it returns
        // the error.
        let result = match io.logs.view(self.handle).read_key(&mut io.disk, position, &mut scratch) {
            Ok((entry, is_checked)) => {
                own_key.extend_from_slice(entry.key);
                let head = entry.head;
                let (mut units, mut payload) = (units_of(meta.kind, meta.flags, entry.payload), Vec::new());
                if meta.kind == EntryKind::Trim {
                    payload.extend_from_slice(entry.payload);
                } else if meta.flags & FLAG_CHUNK != 0 {
                    // The payload contains the covered range: a corrupt payload's range is not used.
                    match !is_checked && crc(entry.payload) != head.payload_crc {
                        true => units = COVERS_UNKNOWN,
                        false => payload.extend(entry.payload.iter().take(CHUNK_HEAD_BYTES)),
                    }
                }
                self.apply(io, (meta, None), placed, &own_key, &payload, units)
            }
            Err(error) => Err(error),
        };
        (self.apply_scratch.entry, self.apply_scratch.key) = (scratch, own_key);
        result
    }

    /// Applies a committed entry. `payload` is needed for a trim; for a chunk its head is needed, if the head
    /// is intact. A hint must be for the same key. The place is an argument of its own, so that it stays in registers: it was
    /// just made from its parts.
    pub(crate) fn apply<D: Disk>(
        &mut self,
        io: &mut Io<D>,
        (meta, hint): (&EntryMeta, Option<&Hint>),
        placed: AppendedPlace,
        key: &[u8],
        payload: &[u8],
        units: u32,
    ) -> EngineResult<()> {
        if !meta.kind.has_key() {
            self.end_mark(&mut io.logs, meta, placed);
            return Ok(());
        }
        let (fragment, current) = match hint.filter(|hint| self.is_current(hint)) {
            Some(&Hint { fragment, found, location, seen, .. }) => {
                debug_assert_eq!(fragment, self.fragment(key), "a hint is of the key that is written");
                (fragment, Some(IndexedKey { found, location, seen }))
            }
            None => {
                let fragment = self.fragment(key);
                (fragment, self.is_part_of_state(io, fragment, key)?)
            }
        };
        if let Some(current) = current.as_ref().filter(|h| h.seen.newest_index >= meta.index) {
            self.count_dead_unless_used(&mut io.logs, meta, placed, fragment, current);
            return Ok(());
        }
        match meta.kind {
            EntryKind::Put => self.apply_put(&mut io.logs, meta, placed, fragment, key, current),
            EntryKind::Remove => self.apply_remove(&mut io.logs, meta, placed, fragment, key, current),
            EntryKind::Append => {
                let part = ChainPart { index: meta.index, entry_bytes: placed.entry_bytes as u32, units };
                self.apply_append(
                    io,
                    (meta, placed, ChunkHead::decode(payload)),
                    (fragment, key),
                    part,
                    current,
                )?;
            }
            EntryKind::Trim => {
                let entry = CountedEntry::at(meta.index, placed);
                if !self.apply_trim(&mut io.logs, (meta, placed), fragment, key, payload, current) {
                    io.logs.change_use(self.handle, entry, Some(EntryUse::Live), None);
                }
            }
            EntryKind::Mark | EntryKind::Synced | EntryKind::Footer => {}
        }
        io.memory.freed(std::mem::take(&mut self.released_bytes));
        Ok(())
    }

    /// An entry older than the key's state in the index is dead space, unless it is part of that state.
    fn count_dead_unless_used(
        &mut self,
        logs: &mut Logs,
        meta: &EntryMeta,
        placed: AppendedPlace,
        fragment: u32,
        current: &IndexedKey,
    ) {
        let is_part_of_state = match current.location.decode() {
            EntryPlace::Entry(_) => current.location.is_same_entry(PartitionStore::location_of(placed)),
            EntryPlace::Chain(id) => {
                let is_part = self.chains.get(id).has_part(meta.index);
                if is_part {
                    // The checkpoint that has the chain does not have its place.
                    self.name_by_index(logs, meta.index, PartitionStore::location_of(placed));
                }
                is_part
            }
        };
        if !is_part_of_state && matches!(meta.kind, EntryKind::Put | EntryKind::Append) {
            let AppendedPlace { slot, entry_bytes, .. } = placed;
            self.checkpoints.record_death(slot, fragment, meta.index, entry_bytes as u64);
            logs.count_dead(self.handle, CountedEntry::at(meta.index, placed), EntryUse::Live, None);
        }
    }

    /// A mark is committed. What it says is in each section that covers it, and until then its segment stays.
    fn end_mark(&self, logs: &mut Logs, meta: &EntryMeta, placed: AppendedPlace) {
        logs.change_use(self.handle, CountedEntry::at(meta.index, placed), Some(EntryUse::Live), None);
    }

    /// A chain or a version names this entry from now on. 0 stands for one that could not be read.
    fn name_by_index(&mut self, logs: &Logs, index: u64, place: Location) {
        if index > 0 {
            self.places.insert(logs.view(self.handle), index, place);
        }
    }

    fn is_part_of_state<D: Disk>(
        &mut self,
        io: &mut Io<D>,
        fragment: u32,
        key: &[u8],
    ) -> EngineResult<Option<IndexedKey>> {
        let found = self.find(io, fragment, key, UnreadableKey::TreatAsKey)?;
        Ok(found.map(|(found, location, seen)| IndexedKey { found, location, seen }))
    }

    fn apply_put(
        &mut self,
        logs: &mut Logs,
        meta: &EntryMeta,
        placed: AppendedPlace,
        fragment: u32,
        key: &[u8],
        current: Option<IndexedKey>,
    ) {
        let location = PartitionStore::location_of(placed);
        match current {
            Some(current) => {
                if current.seen.is_unreadable() {
                    // It may have been another key's.
                    self.index.order_key(key);
                }
                self.retire(logs, meta, fragment, key, &current);
                self.index.hash.replace(current.found, location);
            }
            None => {
                self.retain_absence(logs, meta, fragment, key);
                self.index.insert((fragment, key), location);
            }
        }
    }

    fn apply_remove(
        &mut self,
        logs: &mut Logs,
        meta: &EntryMeta,
        placed: AppendedPlace,
        fragment: u32,
        key: &[u8],
        current: Option<IndexedKey>,
    ) {
        let entry = CountedEntry::at(meta.index, placed);
        let now = Some(EntryUse::Removal).filter(|_| !is_planted(Bug::RemovalCountedDead));
        logs.change_use(self.handle, entry, Some(EntryUse::Live), now);
        if let Some(current) = current {
            self.retire(logs, meta, fragment, key, &current);
            let until = self.retains_versions().then_some(meta.timestamp);
            self.index.remove(current.found, key, until);
        }
    }

    fn apply_append<D: Disk>(
        &mut self,
        io: &mut Io<D>,
        (meta, placed, head): (&EntryMeta, AppendedPlace, Option<ChunkHead>),
        (fragment, key): (u32, &[u8]),
        part: ChainPart,
        current: Option<IndexedKey>,
    ) -> EngineResult<()> {
        let Some(current) = current else {
            self.retain_absence(&mut io.logs, meta, fragment, key);
            let location = PartitionStore::location_of(placed);
            match is_planted(Bug::AppendedKeyNotOrdered) {
                true => self.index.hash.insert(fragment, location),
                false => self.index.insert((fragment, key), location),
            }
            return Ok(());
        };
        let form = Form::of(meta.flags);
        self.name_by_index(&io.logs, meta.index, PartitionStore::location_of(placed));
        if current.seen.form != form && !current.seen.is_unreadable() {
            // Upper layers refuse this before it gets here; if it happens, the entry replaces the record. It
            // is stored as a record of parts, by which compaction knows what has replaced the entries of the
            // other kind.
            self.retire(&mut io.logs, meta, fragment, key, &current);
            let mut chain = Chain::new(key, form);
            chain.add(part, head);
            chain.record_entry(meta);
            let id = self.chains.add(chain);
            self.index.hash.replace(current.found, Location::chain(id));
            return Ok(());
        }
        match current.location.decode() {
            EntryPlace::Entry(position) => {
                // An unreadable entry stays a part, and reading the record returns an error until it is
                // replaced or removed.
                let (first, first_head) = match form.is_chunk {
                    true => self.chunk_part(io, position, current.seen.as_part())?,
                    false => (current.seen.as_part(), None),
                };
                self.name_by_index(&io.logs, first.index, current.location);
                self.retain_version(
                    &mut io.logs,
                    meta,
                    fragment,
                    key,
                    FormerState::Entry(current.seen.newest_index),
                    (Vec::new(), None),
                );
                let mut chain = Chain::new(key, form);
                chain.add(first, first_head);
                chain.add(part, head);
                chain.record_entry(meta);
                let id = self.chains.add(chain);
                self.index.hash.replace(current.found, Location::chain(id));
            }
            EntryPlace::Chain(id) => {
                let through = NewestVersion::of(self.chains.get(id));
                let keeps_versions = self.retains_versions();
                let chain = self.chains.get_mut(id);
                let (skipped, first) = (chain.skipped, chain.parts.front().map(|part| part.index));
                let gone = chain.add(part, head);
                chain.record_entry(meta);
                // The first part may have replaced an older record, which must not come back.
                let hides_first = gone.iter().any(|part| Some(part.index) == first);
                let dead_use = hides_first.then_some(EntryUse::Removal);
                if keeps_versions && !gone.is_empty() {
                    // Parts of a chunk that the new one hides: the older version holds them.
                    let older = chain.parts.iter().filter(|kept| kept.index != part.index);
                    let mut parts: Vec<ChainPart> = older.chain(&gone).copied().collect();
                    parts.sort_unstable_by_key(|part| part.index);
                    let was = FormerState::Chain { form, parts, skipped, newest: through };
                    self.retain_version(&mut io.logs, meta, fragment, key, was, (gone, dead_use));
                } else {
                    gone.iter().for_each(|part| self.end_part(&mut io.logs, fragment, part, dead_use));
                    self.retain_version(
                        &mut io.logs,
                        meta,
                        fragment,
                        key,
                        FormerState::Shorter { through },
                        (Vec::new(), None),
                    );
                }
            }
        }
        Ok(())
    }

    /// Returns whether the trim is part of the record's state.
    fn apply_trim(
        &mut self,
        logs: &mut Logs,
        (meta, placed): (&EntryMeta, AppendedPlace),
        fragment: u32,
        key: &[u8],
        payload: &[u8],
        current: Option<IndexedKey>,
    ) -> bool {
        let (payload, _) = split_trailer(meta.flags, payload);
        let (Some(current), Some(to)) = (current, TrimPoint::decode(payload)) else { return false };
        if current.seen.form.is_chunk {
            return false;
        }
        let id = match current.location.decode() {
            EntryPlace::Chain(id) => id,
            EntryPlace::Entry(_) => {
                if to.part != current.seen.newest_index {
                    return false;
                }
                self.name_by_index(logs, current.seen.newest_index, current.location);
                let mut chain = Chain::new(key, current.seen.form);
                chain.push(current.seen.as_part());
                let id = self.chains.add(chain);
                self.index.hash.replace(current.found, Location::chain(id));
                id
            }
        };
        let was = self.retains_versions().then(|| was_chain(self.chains.get(id)));
        let chain = self.chains.get_mut(id);
        let former = chain.trim_at.replace(placed).map(|at| CountedEntry::at(chain.trimmed_by, at));
        let gone = chain.trim(to, meta.index);
        chain.record_entry(meta);
        if let Some(former) = former {
            logs.change_use(self.handle, former, Some(EntryUse::Live), None);
        }
        // The trim keeps what it has removed from coming back.
        match was {
            Some(was) => self.retain_version(logs, meta, fragment, key, was, (gone, None)),
            None => gone.iter().for_each(|part| self.end_part(logs, fragment, part, None)),
        }
        true
    }

    /// A record's state ends: it becomes an older version, or dead space at once.
    fn retire(&mut self, logs: &mut Logs, meta: &EntryMeta, fragment: u32, key: &[u8], current: &IndexedKey) {
        // An append replaces only records of the other kind. What it replaces keeps older entries from being appended to.
        let dead_use = (meta.kind == EntryKind::Append).then_some(EntryUse::Removal);
        match current.location.decode() {
            EntryPlace::Entry(position) if !self.retains_versions() => {
                // Of an unreadable entry, the least that it can have.
                let entry_bytes = match current.seen.is_unreadable() {
                    true => HEAD_BYTES as u64,
                    false => u64::from(current.seen.entry_bytes),
                };
                self.checkpoints.record_death(
                    position.slot,
                    fragment,
                    current.seen.newest_index,
                    entry_bytes,
                );
                let is_replaced = dead_use.is_none();
                let entry =
                    CountedEntry { slot: position.slot, index: current.seen.newest_index, entry_bytes };
                let offset = position.offset;
                self.released_bytes += logs.count_dead_at(self.handle, entry, offset, is_replaced);
                self.dead_since_check += entry_bytes;
            }
            EntryPlace::Entry(_) => {
                let gone = vec![current.seen.as_part()];
                self.name_by_index(logs, current.seen.newest_index, current.location);
                let was = FormerState::Entry(current.seen.newest_index);
                self.retain_version(logs, meta, fragment, key, was, (gone, dead_use));
            }
            EntryPlace::Chain(id) => {
                let chain = self.chains.take(id);
                if let Some(trim) = chain.trim_at {
                    let trim = CountedEntry::at(chain.trimmed_by, trim);
                    logs.change_use(self.handle, trim, Some(EntryUse::Live), None);
                }
                let gone: Vec<ChainPart> = chain.parts.iter().copied().collect();
                if self.retains_versions() {
                    self.retain_version(logs, meta, fragment, key, was_chain(&chain), (gone, dead_use));
                } else {
                    gone.iter().for_each(|part| self.end_part(logs, fragment, part, dead_use));
                }
            }
        }
    }

    /// A part of a record is dead space from now on, or needed as a removal.
    fn end_part(&mut self, logs: &mut Logs, fragment: u32, part: &ChainPart, dead_use: Option<EntryUse>) {
        self.record_death_of(logs, fragment, part);
        self.count_dead(logs, part, EntryUse::Live, dead_use);
    }

    fn record_death_of(&mut self, logs: &Logs, fragment: u32, part: &ChainPart) {
        if let Some(slot) = self.slot_of_part(logs.view(self.handle), part.index) {
            self.checkpoints.record_death(slot, fragment, part.index, u64::from(part.entry_bytes));
        }
    }

    fn retains_versions(&self) -> bool {
        self.horizon.is_some()
    }

    fn retain_absence(&mut self, logs: &mut Logs, meta: &EntryMeta, fragment: u32, key: &[u8]) {
        if self.retains_versions() {
            self.retain_version(logs, meta, fragment, key, FormerState::Absent, (Vec::new(), None));
        }
    }

    fn retain_version(
        &mut self,
        logs: &mut Logs,
        meta: &EntryMeta,
        fragment: u32,
        key: &[u8],
        was: FormerState,
        (gone, dead_use): (Vec<ChainPart>, Option<EntryUse>),
    ) {
        if self.retains_versions() {
            // They count as dead for a checkpoint already, as no older version outlives the process.
            for part in &gone {
                self.record_death_of(logs, fragment, part);
                self.keep_for_versions(logs, part);
            }
            self.versions.push(OlderVersion {
                fragment,
                key: key.into(),
                until: meta.timestamp,
                by: meta.index,
                was,
                dead_parts: gone,
                dead_use,
            });
            // Two at a time: the table shrinks as fast as it grew.
            self.expire_versions(logs, 2);
        }
    }
}

fn was_chain(chain: &Chain) -> FormerState {
    let (parts, newest) = (chain.parts.iter().copied().collect(), NewestVersion::of(chain));
    FormerState::Chain { form: chain.form(), parts, skipped: chain.skipped, newest }
}
