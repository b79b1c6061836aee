//! Splits of partitions in a shared log: the children continue the parent's number, and nothing is copied.

use super::shared::{SharedLogs, SharedPart};
use crate::PartitionId;
use crate::error::EngineResult;
use crate::log::shared::install_run::InstallPlace;
use crate::log::shared::streams::{LogSlot, NewLogPartition};

impl SharedLogs {
    /// Gives each child, by partition and handle, all that a partition has. The partition has nothing from here on, also after a
    /// crash, once a flush has ended; it is to be forgotten ([`SharedLogs::forget_split`]), or to get everything back
    /// ([`SharedLogs::undo_split`]).
    ///
    /// # Errors
    /// [`crate::EngineError::Stopped`], [`crate::EngineError::Limit`]: nothing has changed.
    pub(crate) fn split(
        &mut self,
        parent: u32,
        children: &[(PartitionId, u32)],
        index_seed: u64,
    ) -> EngineResult<()> {
        let &SharedPart { slot, is_in_memory, sizes, install_place, .. } = self.part(parent);
        let slots = match slot {
            Some(slot) => self.continue_by(slot, children, index_seed)?.into_iter().map(Some).collect(),
            None => vec![None; children.len()],
        };
        for (&(partition, handle), slot) in children.iter().zip(slots) {
            let part = SharedPart { partition, slot, is_in_memory, sizes, install_place, hold: None };
            self.parts.add(handle, part);
            if let Some(slot) = slot {
                self.set_handle(slot, Some(handle));
            }
        }
        Ok(())
    }

    fn continue_by(
        &mut self,
        slot: LogSlot,
        children: &[(PartitionId, u32)],
        index_seed: u64,
    ) -> EngineResult<Vec<LogSlot>> {
        let (number, (epoch, through)) = (self.log.number(slot), self.log.last(slot));
        let (is_incoming, is_in_memory) = (self.log.is_incoming(slot), self.log.is_in_memory(slot));
        let new = |(partition, _): &(PartitionId, u32)| NewLogPartition {
            continues: Some((number, through, epoch)),
            is_incoming,
            is_in_memory,
            ..NewLogPartition::first(*partition, index_seed)
        };
        let begun = self.log.begin(&children.iter().map(new).collect::<Vec<_>>(), Some(slot))?;
        self.set_handle(slot, None);
        self.compaction.release_all(slot);
        Ok(begun)
    }

    /// The partition that was split has nothing any more.
    pub(crate) fn forget_split(&mut self, parent: u32) {
        self.hold_entries(parent, false);
        let part = self.part_mut(parent);
        (part.slot, part.install_place) = (None, InstallPlace::default());
    }

    /// The partition has everything again, and the children nothing.
    ///
    /// # Errors
    /// As [`SharedLogs::split`].
    pub(crate) fn undo_split(
        &mut self,
        parent: u32,
        children: &[(PartitionId, u32)],
        index_seed: u64,
    ) -> EngineResult<()> {
        self.hold_entries(parent, false);
        let partition = self.part(parent).partition;
        let Some(((_, first), others)) = children.split_first() else { return Ok(()) };
        if let Some(slot) = self.part(*first).slot {
            let begun = self.continue_by(slot, &[(partition, parent)], index_seed)?;
            self.part_mut(*first).slot = None;
            self.part_mut(parent).slot = begun.first().copied();
            begun.first().into_iter().for_each(|slot| self.set_handle(*slot, Some(parent)));
        }
        for (_, handle) in others {
            self.drop_partition(*handle)?;
        }
        children.iter().for_each(|(_, handle)| self.remove(*handle));
        Ok(())
    }
}
