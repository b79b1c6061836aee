//! Work at the end of a batch, and in between: one flush, due ticks, background maintenance of the engine.

use zerohop_engine::disk::Disk;

use super::clock::ClockReading;
use super::{Instance, InstanceEffects};
use crate::limits::{
    FLUSH_LATER_MS, MAINTENANCE_BUSY_MS, MAINTENANCE_IDLE_MS, MAINTENANCE_MS, PRESSED_TICK_MS,
};

impl<D: Disk> Instance<D> {
    /// All requests of a batch have been passed in, or [`Instance::next_tick_ms`] has come. Flushes once for all partitions that
    /// need it, answers the requests that waited for that, and runs the work that is due.
    pub fn end_of_batch(&mut self, now: ClockReading, effects: &mut dyn InstanceEffects) {
        self.clock.advance(now);
        // The messages of a transaction and the entries that they cause need one flush.
        self.deliver_all(effects);
        self.flush(effects);
        let is_touched = self.settle(effects);
        // Expired records are durable before any client is answered.
        self.deliver_all(effects);
        self.flush(effects);
        self.step_splits(effects);
        self.follow_again(effects);
        self.report_readiness(effects);
        self.split_large_regions(effects);
        if is_touched {
            self.maintenance.busy_until_ms = self.clock.elapsed_ms() + MAINTENANCE_BUSY_MS;
        }
    }

    /// When the owner must call [`Instance::end_of_batch`] and [`Instance::maintain`] though no event has arrived, in
    /// [`ClockReading::elapsed_ms`].
    pub fn next_tick_ms(&self) -> u64 {
        let elapsed_ms = self.clock.elapsed_ms();
        if !self.transit.is_empty() {
            return elapsed_ms;
        }
        let is_busy = elapsed_ms < self.maintenance.busy_until_ms;
        let every_ms = if is_busy { MAINTENANCE_MS } else { MAINTENANCE_IDLE_MS };
        let maintenance_ms = self.maintenance.called_ms.map_or(elapsed_ms, |called_ms| called_ms + every_ms);
        if self.partitions.is_flushing() {
            return elapsed_ms + 1;
        }
        if self.partitions.awaits_flush() {
            // The disk is full, or no client waits.
            return elapsed_ms + FLUSH_LATER_MS;
        }
        let again_ms =
            self.splits.next_tick_ms(elapsed_ms).min(self.failed_map_changes.next_tick_ms(elapsed_ms));
        let again_ms = again_ms.min(self.readiness.next_tick_ms(elapsed_ms));
        maintenance_ms.min(self.partitions.next_tick_ms()).min(again_ms)
    }

    /// Does a bounded piece of background maintenance. `true`: there is more. The owner must call again after the next batch,
    /// without sleeping before.
    pub fn maintain(&mut self, now: ClockReading) -> bool {
        self.clock.advance(now);
        let now_ms = self.clock.elapsed_ms();
        let Instance { engine, maintenance, counters, .. } = self;
        // The engine paces itself by the bytes written. More than one call per millisecond finds nothing new.
        if !maintenance.has_more && maintenance.called_ms == Some(now_ms) {
            return false;
        }
        maintenance.called_ms = Some(now_ms);
        maintenance.has_more = match engine.maintain(now_ms) {
            Ok(has_more) => has_more,
            Err(error) => {
                // The partition accepts no more writes. The next flush answers its pending replies.
                counters.record_error(&error);
                false
            }
        };
        let has_more = maintenance.has_more;
        if self.engine.has_reclaim_pressure() && now_ms >= self.maintenance.pressed_ms + PRESSED_TICK_MS {
            self.maintenance.pressed_ms = now_ms;
            self.maintenance.busy_until_ms = now_ms + MAINTENANCE_BUSY_MS;
            let Instance { engine, partitions, .. } = self;
            partitions.by.touch_pressed(engine);
        }
        has_more
    }
}
