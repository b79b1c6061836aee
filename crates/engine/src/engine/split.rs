//! Splitting a partition: it becomes two or more partitions that each hold all of its contents. The owner
//! knows which half belongs to which child.
//!
//! ```text
//!   parent    |──────── serves ─────────|            'gone' (durable: the split has happened) ──> removed
//!   children      segments, ahead ──> the rest, checkpoints ──> synced        │
//!                  'uncreated-PARENT' is first in each folder                  └──> 'uncreated' removed, they serve
//! ```
//!
//! Until `gone` is durable in the parent's folder, opening the engine discards the children, and afterwards
//! the parent. It finds the parent or the children, never both, and never half a child.
//!
//! The segments of a log of one partition are copied, entry by entry at the same offsets, as their checksums and headers contain the
//! partition ([`crate::log::restamp`]). All durable and all accepted entries of the parent are durable in the
//! children once they serve: nothing of the parent is needed from its journal.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::snapshot_install::INCOMING;
use super::{Engine, Handle, folder_of, store_of};
use crate::PartitionId;
use crate::disk::crash_point::CrashPoint;
use crate::disk::{DirEntry, Disk, DiskError, OpenMode};
use crate::error::{EngineError, EngineResult};
use crate::io::Io;
use crate::log::segment::Segment;
use crate::options::Durability;
use crate::planted::{Bug, is_planted};
use crate::resources::LogResources;
use crate::store::PartitionStore;

/// Marker file in the folder of a partition that was split: the rest of the folder is to be removed.
const SPLIT_MARKER: &str = "gone";
/// Marker file in the folder of a partition that is being made: the number of its parent in hex follows.
const INCOMPLETE_CHILD: &str = "unborn-";

/// A child that is being made.
#[derive(Default)]
pub(super) struct ChildLog {
    id: PartitionId,
    folder: String,
    /// The segments copied so far, by slot of the parent's log.
    segments: BTreeMap<u32, Segment>,
}

impl<D: Disk> Engine<D> {
    /// Copies one more segment of a partition that is to be split, for each of its children, while the
    /// partition continues to serve. `true`: [`Engine::split_partition`] must copy the rest; this function
    /// only gives it a head start.
    ///
    /// # Errors
    /// As there.
    pub fn split_ahead(&mut self, parent: PartitionId, children: &[PartitionId]) -> EngineResult<bool> {
        let handle = self.may_split(parent, children)?;
        let (io, store) = self.store(handle)?;
        if io.logs.shared().is_some() {
            // Nothing is copied.
            return Ok(true);
        }
        if store.durability == Durability::Memory || io.logs.separate(store.handle).order.is_empty() {
            return Ok(true);
        }
        let result = self.begin_split(handle, parent, children).and_then(|()| {
            let Engine { io, partitions, splits, .. } = self;
            let store = store_of(partitions, handle)?;
            let making = splits.entry(parent).or_default();
            let (logs, mut io) = io.split_resources();
            let log = logs.separate(store.handle);
            for &slot in &log.order {
                let segment = log.segment(slot);
                let is_settled = segment.sealed && segment.is_durable() && segment.last_index <= store.commit;
                let lack = making.iter_mut().filter(|d| !d.has(slot, segment));
                let lack: Vec<_> = lack.collect();
                if is_settled && !lack.is_empty() {
                    lack.into_iter().try_for_each(|child| child.copy(&mut io, slot, segment, false))?;
                    return Ok(false);
                }
            }
            Ok(true)
        });
        result.map_err(|error| self.abandon_split(parent, error))
    }

    /// Makes children of a partition. Each child holds everything of the parent: its log, its records, its
    /// uncommitted entries and its checkpoints, and survives a crash as the parent would. The parent is
    /// removed. `state` is the upper layer's state beside its records and the log index of that state: the
    /// children's owners take it with [`Engine::recovered_extra`]. Without it they get the payload of the
    /// parent's checkpoint.
    ///
    /// Returns the error that prevents the removal of the parent's files, if there is one; they are removed
    /// when the folder is opened.
    ///
    /// # Errors
    /// [`EngineError::Stopped`] for a child that exists already: a failed attempt may have left one without
    /// entries, which must be dropped. [`EngineError::DiskFull`] and others: the parent is unchanged. After a
    /// failure of the disk at the very moment of the change the parent has stopped, and the next opening
    /// finds the parent or the children.
    pub fn split_partition(
        &mut self,
        parent: PartitionId,
        children: &[PartitionId],
        state: Option<(u64, &[u8])>,
    ) -> EngineResult<Option<EngineError>> {
        let handle = self.may_split(parent, children)?;
        self.finish_work(handle)?;
        if self.io.logs.shared().is_some() {
            return self.split_shared(handle, (parent, children), state);
        }
        let made = self.make_children(handle, (parent, children), state);
        let mut made = made.map_err(|error| self.abandon_split(parent, error))?;
        let folder = folder_of(parent);
        let is_on_disk = self.splits.contains_key(&parent);
        if is_on_disk {
            let gone = self.io.disk.open(&format!("{folder}/{SPLIT_MARKER}"), OpenMode::Create);
            let gone = match gone {
                Ok(gone) => gone,
                Err(error) => {
                    made.iter_mut().for_each(|store| store.release(&mut self.io));
                    return Err(self.abandon_split(parent, error.into()));
                }
            };
            self.io.disk.close(gone);
            if let Err(error) = self.io.disk.sync_dir(&folder) {
                made.iter_mut().for_each(|store| store.release(&mut self.io));
                // Whether the split has happened is unknown until the folder is opened again: neither the
                // parent nor a child may accept entries.
                let (_, store) = self.store(handle)?;
                store.stopped = Some(error.to_string().into_boxed_str());
                self.splits.remove(&parent);
                return Err(error.into());
            }
        }
        self.splits.remove(&parent);
        self.io.disk.reached(CrashPoint::SplitDecided);
        for store in made {
            let (id, handle) = (store.id.partition, Handle(store.handle));
            let mut store = Box::new(store);
            self.maintenance.recovered(&self.io.logs, handle, &mut store);
            if is_on_disk {
                // A mark must confirm what was synced.
                store.is_dirty = true;
                self.maintenance.sync_later(handle, store.durability.sync_after_ms());
            }
            self.partitions.push(Some(store));
            self.by_id.insert(id, handle);
        }
        let mut left = Ok(());
        if is_on_disk {
            for &id in children {
                let folder = folder_of(id);
                left =
                    left.and(self.io.disk.remove(&format!("{folder}/{INCOMPLETE_CHILD}{:016x}", parent.0)));
                left = left.and(self.io.disk.sync_dir(&folder));
            }
        }
        let left = left.map_err(EngineError::from).and(self.drop_partition(parent));
        self.evict();
        Ok(left.err())
    }

    /// See [`Engine::split_partition`]. Nothing is copied but the index in memory:
    ///
    /// ```text
    ///   flush ──> creations of the children, parent dropped ──> flush: the split has happened
    /// ```
    fn split_shared(
        &mut self,
        handle: Handle,
        (parent, children): (PartitionId, &[PartitionId]),
        state: Option<(u64, &[u8])>,
    ) -> EngineResult<Option<EngineError>> {
        let is_on_disk = !self.io.logs.view(handle.0).is_in_memory_only();
        let full = |engine: &mut Self, error: EngineError| engine.io.full_or(error);
        if is_on_disk {
            self.flush_shared(true).map_err(|error| full(self, error))?;
        }
        let next_handle = self.partitions.len() as u32;
        let numbered: Vec<(PartitionId, u32)> = children.iter().copied().zip(next_handle..).collect();
        let (io, store) = self.store(handle)?;
        let seed = store.id.index_seed;
        if let Some(shared) = io.logs.shared_mut() {
            shared.split(store.handle, &numbered, seed)?;
        }
        if is_on_disk && !is_planted(Bug::SplitNotSynced) {
            match self.flush_shared(true) {
                Err(error) if error.is_out_of_space() => {
                    if let Some(shared) = self.io.logs.shared_mut() {
                        shared.undo_split(handle.0, &numbered, seed)?;
                    }
                    return Err(full(self, error));
                }
                Err(error) => {
                    if let Some(shared) = self.io.logs.shared_mut() {
                        shared.forget_children(&numbered);
                    }
                    return Err(error);
                }
                Ok(()) => {}
            }
        }
        self.io.disk.reached(CrashPoint::SplitDecided);
        for (number, name) in numbered.into_iter().enumerate() {
            self.add_child(handle, (number, name), state)?;
        }
        if let Some(shared) = self.io.logs.shared_mut() {
            shared.forget_split(handle.0);
        }
        let left = self.drop_partition(parent);
        self.evict();
        Ok(left.err())
    }

    fn add_child(
        &mut self,
        parent: Handle,
        (number, (id, child)): (usize, (PartitionId, u32)),
        state: Option<(u64, &[u8])>,
    ) -> EngineResult<()> {
        let Engine { io, partitions, maintenance, .. } = self;
        let mut store = Box::new(store_of(partitions, parent)?.clone_for((id, child), state));
        if let Some(shared) = io.logs.shared()
            && let Some(slot) = shared.slot(child)
        {
            store.checkpoints.retained = shared.rounds.retained(&shared.log, slot);
        }
        if is_planted(Bug::UncommittedTailInOneChild) && number == 1 {
            let commit = store.commit;
            store.truncate_after(io, commit)?;
        }
        let handle = Handle(child);
        maintenance.recovered(&io.logs, handle, &mut store);
        if !io.logs.view(child).is_in_memory_only() {
            // A mark must confirm what was synced.
            store.is_dirty = true;
            maintenance.sync_later(handle, store.durability.sync_after_ms());
        }
        partitions.push(Some(store));
        self.by_id.insert(id, handle);
        Ok(())
    }

    /// The parent, if it and the children are in a state that allows a split.
    fn may_split(&mut self, parent: PartitionId, children: &[PartitionId]) -> EngineResult<Handle> {
        let Some(&handle) = self.by_id.get(&parent) else { return Err(EngineError::UnknownPartition) };
        let is_there = |id: &&PartitionId| self.by_id.contains_key(id) || self.dropping.contains_key(id);
        if let Some(id) = children.iter().find(is_there) {
            return Err(EngineError::Stopped { reason: format!("partition {id} is there already") });
        }
        self.store(handle)?.1.check_going()?;
        Ok(handle)
    }

    /// Makes everything durable that must be durable before the parent may be removed, and makes the children
    /// in their final form.
    fn make_children(
        &mut self,
        handle: Handle,
        (parent, children): (PartitionId, &[PartitionId]),
        state: Option<(u64, &[u8])>,
    ) -> EngineResult<Vec<PartitionStore>> {
        let log = self.io.logs.separate(handle.0);
        let in_memory_only = log.is_in_memory_only();
        let has_files = !in_memory_only && !log.order.is_empty();
        if has_files {
            self.begin_split(handle, parent, children)?;
        }
        let next_handle = self.partitions.len() as u32;
        let Engine { io, partitions, splits, .. } = self;
        let store = store_of(partitions, handle)?;
        let mut unsaved: Vec<ChildLog> = children.iter().map(|&id| ChildLog::new(id)).collect();
        let making = if has_files { splits.entry(parent).or_default() } else { &mut unsaved };
        let mut made = Vec::new();
        let result = making.iter_mut().enumerate().try_for_each(|(number, child)| {
            child.remove_replaced(io, store)?;
            let (logs, mut resources) = io.split_resources();
            let log = logs.separate(store.handle);
            for &slot in &log.order {
                let original = log.segment(slot);
                match child.segments.get_mut(&slot) {
                    Some(copy) => copy.copy_metadata_of(original),
                    None => child.copy(&mut resources, slot, original, in_memory_only)?,
                }
            }
            let mut kept = VecDeque::new();
            if has_files && store.is_incoming() {
                let file = io.disk.open(&format!("{}/{INCOMING}", child.folder), OpenMode::Create)?;
                io.disk.close(file);
            }
            if has_files {
                kept = store.copy_checkpoints(io, child.id, &child.folder)?;
                io.disk.sync_dir(&child.folder)?;
            }
            let segments = std::mem::take(&mut child.segments);
            let name = (child.id, next_handle + number as u32);
            let mut copy = store.copy_for(&mut io.logs, name, child.folder.clone(), segments, state);
            copy.checkpoints.retained = kept;
            if is_planted(Bug::UncommittedTailInOneChild) && number == 1 {
                copy.truncate_after(io, copy.commit)?;
            }
            made.push(copy);
            Ok(())
        });
        if result.is_err() {
            made.iter_mut().for_each(|store| store.release(io));
        }
        result.map(|()| made)
    }

    /// Makes the parent's folder durable, and puts the marker `uncreated` first into each child's folder.
    fn begin_split(
        &mut self,
        handle: Handle,
        parent: PartitionId,
        children: &[PartitionId],
    ) -> EngineResult<()> {
        if let Some(begun) = self.splits.get(&parent) {
            if begun.iter().map(|child| child.id).eq(children.iter().copied()) {
                return Ok(());
            }
            // An earlier attempt had other children.
            self.leave_split(parent)?;
        }
        // A child whose parent has no folder counts as complete.
        self.flush_journal_first(handle)?;
        let (io, store) = self.store(handle)?;
        store.sync(io)?;
        self.splits.insert(parent, children.iter().map(|&id| ChildLog::new(id)).collect());
        for &id in children {
            let folder = folder_of(id);
            self.clear_folder(&folder)?;
            let path = format!("{folder}/{INCOMPLETE_CHILD}{:016x}", parent.0);
            let file = self.io.disk.open(&path, OpenMode::Create)?;
            self.io.disk.close(file);
            self.io.disk.sync_dir(&folder)?;
        }
        Ok(())
    }

    /// Abandons a started split; what cannot be removed now is removed with the next attempt, or when the
    /// folder is opened.
    fn abandon_split(&mut self, parent: PartitionId, error: EngineError) -> EngineError {
        // The first error is returned.
        let _ = self.leave_split(parent);
        self.io.full_or(error)
    }

    fn leave_split(&mut self, parent: PartitionId) -> EngineResult<()> {
        let mut result = Ok(());
        for child in self.splits.remove(&parent).into_iter().flatten() {
            for segment in child.segments.into_values() {
                self.io.memory.freed(segment.resident_bytes());
                segment.file.into_iter().for_each(|file| self.io.disk.close(file));
            }
            result = result.and(self.clear_folder(&child.folder));
        }
        result
    }

    /// When the folder is opened, completes splits that a crash has interrupted. Returns the existing
    /// partitions, and those that were split, whose folders are to be removed once the journal has nothing of
    /// them.
    pub(super) fn end_splits(
        &mut self,
        names: &[DirEntry],
    ) -> EngineResult<(BTreeSet<PartitionId>, BTreeSet<PartitionId>)> {
        let (mut there, mut gone, mut uncreated) = (BTreeSet::new(), BTreeSet::new(), Vec::new());
        let mut incoming = BTreeSet::new();
        for name in names {
            let Some(id) = super::open::id_of_folder(&name.name) else { continue };
            there.insert(id);
            for file in self.io.disk.list(&name.name)? {
                if file.name == SPLIT_MARKER {
                    gone.insert(id);
                } else if file.name == INCOMING {
                    incoming.insert(id);
                } else if let Some(parent) = file.name.strip_prefix(INCOMPLETE_CHILD) {
                    let parent = u64::from_str_radix(parent, 16).map(PartitionId).ok();
                    uncreated.push((id, format!("{}/{}", name.name, file.name), parent));
                }
            }
        }
        for (id, marker, parent) in uncreated {
            let folder = folder_of(id);
            if parent.is_some_and(|parent| there.contains(&parent) && !gone.contains(&parent)) {
                self.clear_folder(&folder)?;
                there.remove(&id);
            } else {
                self.io.disk.remove(&marker)?;
                self.io.disk.sync_dir(&folder)?;
            }
        }
        there.retain(|id| !gone.contains(id));
        // Partitions with an incomplete snapshot install are removed.
        for id in incoming.into_iter().filter(|id| there.remove(id)) {
            self.clear_folder(&folder_of(id))?;
        }
        Ok((there, gone))
    }

    /// Makes sure that the next opening removes the rest of a folder of which a crash leaves a part. Its rest may look like a log
    /// that has lost entries, as a checkpoint or a rewritten segment confirms newer ones.
    fn mark_to_be_cleared(&mut self, folder: &str) -> EngineResult<()> {
        let disk = &mut self.io.disk;
        let names = disk.list(folder)?;
        if names.is_empty() || names.iter().any(|name| is_marker(&name.name)) {
            return Ok(());
        }
        let marked = disk.open(&format!("{folder}/{INCOMING}"), OpenMode::Create);
        let marked = marked.map(|file| disk.close(file)).and_then(|()| disk.sync_dir(folder));
        match marked {
            // Without room for the marker the files are removed all the same: that makes room.
            Err(error) if !error.is_temporary() => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// Removes a folder and its files, if it exists: the markers are removed last.
    pub(super) fn clear_folder(&mut self, folder: &str) -> EngineResult<()> {
        self.mark_to_be_cleared(folder)?;
        let disk = &mut self.io.disk;
        let names = disk.list(folder)?;
        let (last, first): (Vec<_>, Vec<_>) = names.iter().partition(|name| is_marker(&name.name));
        // The oldest segment last: the files that a crash leaves must not look like a new log.
        for name in first.iter().rev() {
            disk.remove(&format!("{folder}/{}", name.name))?;
            disk.reached(CrashPoint::PartitionFileRemoved);
        }
        for name in last {
            disk.sync_dir(folder)?;
            disk.remove(&format!("{folder}/{}", name.name))?;
        }
        if disk.list("")?.iter().any(|n| n.name == folder) {
            disk.sync_dir(folder)?;
            disk.remove(folder)?;
        }
        disk.sync_dir("")?;
        Ok(())
    }
}

impl ChildLog {
    fn new(id: PartitionId) -> ChildLog {
        ChildLog { id, folder: folder_of(id), segments: BTreeMap::new() }
    }

    fn has(&self, slot: u32, original: &Segment) -> bool {
        self.segments.get(&slot).is_some_and(|copy| is_copy(copy, original))
    }

    fn copy<D: Disk>(
        &mut self,
        io: &mut LogResources<'_, D>,
        slot: u32,
        original: &Segment,
        in_memory_only: bool,
    ) -> EngineResult<()> {
        if !in_memory_only {
            io.space.check_room_for_copy(io.disk, original.bytes)?;
        }
        let copy = original.copy_for(io, (self.id, &self.folder), in_memory_only)?;
        self.remove_copy(io, slot)?;
        self.segments.insert(slot, copy);
        io.disk.reached(CrashPoint::SplitCopied);
        Ok(())
    }

    /// Removes copies of segments that the parent has rewritten since.
    fn remove_replaced<D: Disk>(&mut self, io: &mut Io<D>, store: &PartitionStore) -> EngineResult<()> {
        for slot in self.segments.keys().copied().collect::<Vec<_>>() {
            let (logs, mut io) = io.split_resources();
            let log = logs.separate(store.handle);
            if !log.order.contains(&slot) || !self.has(slot, log.segment(slot)) {
                self.remove_copy(&mut io, slot)?;
            }
        }
        Ok(())
    }

    fn remove_copy<D: Disk>(&mut self, io: &mut LogResources<'_, D>, slot: u32) -> Result<(), DiskError> {
        let Some(copy) = self.segments.remove(&slot) else { return Ok(()) };
        io.memory.freed(copy.resident_bytes());
        copy.file.into_iter().for_each(|file| io.disk.close(file));
        io.disk.remove(&copy.path)
    }
}

/// Whether a file is a marker about the other files of its folder.
fn is_marker(name: &str) -> bool {
    name == SPLIT_MARKER || name == INCOMING || name.starts_with(INCOMPLETE_CHILD)
}

/// Whether an earlier copy is a complete copy of this segment.
fn is_copy(copy: &Segment, original: &Segment) -> bool {
    let named = |segment: &Segment| (segment.first_index(), segment.header.generation, segment.bytes);
    named(copy) == named(original)
}
