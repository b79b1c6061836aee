//! What concerns all replicas of an instance: scrubbing, leases that start or end, the room on the disk.

use zerohop_engine::disk::Disk;
use zerohop_engine::{Engine, EngineResult};

use super::{ReplicaTable, TableEffects};
use crate::limits::SCRUB_BYTES;
use crate::{Context, ReplicaEvent, Role};

impl ReplicaTable {
    /// Sets the longest bytes record that writes may make by adding to it, for the replicas that are here now.
    pub fn set_bytes_max(&mut self, bytes: u64) {
        self.slots.iter_mut().flatten().for_each(|slot| slot.replica.set_bytes_max(bytes));
    }

    /// Scrubs a piece of one log if it is time. It reads the log of one shared replica to its end, then the next.
    pub(super) fn scrub<D: Disk>(
        &mut self,
        context: &mut Context<'_, D>,
        effects: &mut dyn TableEffects,
    ) -> EngineResult<()> {
        if self.scrub.every_us == u64::MAX || context.now_us < self.scrub.at_us {
            return Ok(());
        }
        self.scrub.at_us = context.now_us + self.scrub.every_us;
        let shared = || self.iter().filter(|(_, replica)| !replica.is_lone()).map(|(key, _)| key);
        let after = self.scrub.key.and_then(|key| match self.get(key) {
            Some(replica) if !replica.is_lone() && !replica.is_between_scrubs() => Some(key),
            _ => shared().find(|other| *other > key),
        });
        let next = after.or_else(|| shared().next());
        self.scrub.key = next;
        let Some(at) = next.and_then(|key| self.index.get(key)) else { return Ok(()) };
        self.step_at(at, context, ReplicaEvent::Scrub { bytes: SCRUB_BYTES }, effects)
    }

    /// Ticks a primary when a lease that it needs starts or ends. Such changes are few, and come with events and not with time.
    pub(super) fn check_leases<D: Disk>(&mut self, context: &Context<'_, D>) {
        drop(self.lease_granters());
        let mut changed = Vec::new();
        for (member, was_valid) in &mut self.leases.members {
            let holds = context.leases.is_valid(context.now_us, *member);
            if std::mem::replace(was_valid, holds) != holds {
                changed.push(*member);
            }
        }
        if changed.is_empty() {
            return;
        }
        self.touch_those(|replica| {
            replica.role() == Role::Primary && replica.view().others().any(|other| changed.contains(&other))
        });
    }

    /// Ticks all shared replicas when the disk becomes full, or has room again.
    pub(super) fn check_disk_space<D: Disk>(&mut self, context: &Context<'_, D>) {
        let is_full = !context.engine.has_disk_space();
        if std::mem::replace(&mut self.was_full, is_full) != is_full {
            self.touch_those(|replica| !replica.is_lone());
        }
    }

    /// Schedules a tick soon for the replicas whose dead space waits for a checkpoint.
    pub fn touch_pressed<D: Disk>(&mut self, engine: &Engine<D>) {
        self.touch_those(|replica| engine.is_pressed(replica.handle()));
    }
}
