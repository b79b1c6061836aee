//! Work at the end of a batch, and in between: one flush, due ticks, background maintenance of the engine.

use zerohop_engine::EngineError;
use zerohop_engine::disk::Disk;

use super::clock::ClockReading;
use super::{Instance, InstanceEffects, relay};
use crate::event::{PartitionEvent, StepContext};
use crate::limits::{
    FLUSH_ROUNDS_MAX, PRESSED_TICK_MS, TRANSIT_ROUNDS_MAX, UPKEEP_BUSY_MS, UPKEEP_EVERY_MS, UPKEEP_IDLE_MS,
};
use crate::map_view::MapView;

impl<D: Disk> Instance<D> {
    /// All requests of a batch have been passed in, or [`Instance::next_wake_ms`] has come. Flushes once for all partitions that
    /// need it, answers the requests that waited for that, and runs the work that is due.
    pub fn end_of_batch(&mut self, now: ClockReading, effects: &mut dyn InstanceEffects) {
        self.clock.advance(now);
        self.flush(effects);
        self.tick_due(effects);
        // Expired records are durable before any client is answered.
        self.flush(effects);
        let is_shared_touched = self.end_of_batch_shared(effects);
        for _ in 0..TRANSIT_ROUNDS_MAX {
            if !self.pass_on(effects) {
                break;
            }
            self.flush(effects);
            self.flush_ahead_shared(effects);
        }
        self.step_splits(effects);
        self.follow_again(effects);
        self.tell_drained(effects);
        if self.table.settle_touched(self.clock.now()) || is_shared_touched {
            self.upkeep.busy_until_ms = self.clock.elapsed_ms() + UPKEEP_BUSY_MS;
        }
    }

    /// When the owner must call [`Instance::end_of_batch`] and [`Instance::maintain`] though no event has arrived, in
    /// [`ClockReading::elapsed_ms`].
    pub fn next_wake_ms(&self) -> u64 {
        let tick_ms = self.table.next_wake_ms().map_or(u64::MAX, |wake_ms| self.clock.elapsed_at(wake_ms));
        let elapsed_ms = self.clock.elapsed_ms();
        if !self.transit.is_empty() {
            return elapsed_ms;
        }
        let is_busy = elapsed_ms < self.upkeep.busy_until_ms || self.table.has_unflushed();
        let every_ms = if is_busy { UPKEEP_EVERY_MS } else { UPKEEP_IDLE_MS };
        let upkeep_ms = self.upkeep.called_ms.map_or(elapsed_ms, |called_ms| called_ms + every_ms);
        if self.groups.awaits_flush() {
            return elapsed_ms + 1;
        }
        let again_ms = self.splits.next_wake_ms(elapsed_ms).min(self.unfollowed.next_wake_ms(elapsed_ms));
        let again_ms = again_ms.min(self.closing.next_wake_ms(elapsed_ms));
        tick_ms.min(upkeep_ms).min(self.groups.next_wake_ms()).min(again_ms)
    }

    /// Does a bounded piece of background maintenance. `true`: there is more. The owner must call again after the next batch,
    /// without sleeping before.
    pub fn maintain(&mut self, now: ClockReading) -> bool {
        self.clock.advance(now);
        let now_ms = self.clock.elapsed_ms();
        let Instance { engine, upkeep, counters, .. } = self;
        // The engine paces itself by the bytes written. More than one call per millisecond finds nothing new.
        if !upkeep.has_more && upkeep.called_ms == Some(now_ms) {
            return false;
        }
        upkeep.called_ms = Some(now_ms);
        upkeep.has_more = match engine.maintain(now_ms) {
            Ok(has_more) => has_more,
            Err(error) => {
                // The partition accepts no more writes. The next flush answers its pending replies.
                counters.trouble(&error);
                false
            }
        };
        let has_more = upkeep.has_more;
        if self.engine.presses() && now_ms >= self.upkeep.pressed_ms + PRESSED_TICK_MS {
            self.upkeep.pressed_ms = now_ms;
            self.upkeep.busy_until_ms = now_ms + UPKEEP_BUSY_MS;
            let Instance { engine, table, groups, .. } = self;
            table.touch_pressed(engine);
            groups.by.touch_pressed(engine);
        }
        has_more
    }

    fn flush(&mut self, effects: &mut dyn InstanceEffects) {
        let mut slots = Vec::new();
        for _ in 0..FLUSH_ROUNDS_MAX {
            if !self.table.has_unflushed() {
                return;
            }
            self.table.take_unflushed(&mut slots);
            let Instance { engine, table, history, connections, counters, transit, clock, .. } = self;
            counters.flushes += 1;
            let event = match engine.flush() {
                Ok(()) => PartitionEvent::Flushed,
                // Space may become free, so the flush is tried again later. New writes are refused meanwhile.
                Err(EngineError::DiskFull { .. } | EngineError::Scarce { .. }) => {
                    table.put_unflushed(&mut slots);
                    return;
                }
                Err(error) => {
                    counters.trouble(&error);
                    PartitionEvent::FlushFailed
                }
            };
            let at = StepContext { now: clock.now(), map: MapView::of(history.map()) };
            let mut relay = relay(history, connections, counters, transit, effects);
            for slot in slots.drain(..) {
                table.step(slot, (engine, at), event, &mut relay);
            }
        }
    }

    fn tick_due(&mut self, effects: &mut dyn InstanceEffects) {
        let now = self.clock.now();
        let Instance { engine, table, history, connections, counters, transit, .. } = self;
        if table.next_wake_ms().is_none_or(|wake_ms| wake_ms > now.ms) {
            return;
        }
        let mut due = Vec::new();
        table.take_due(now, &mut due);
        let at = StepContext { now, map: MapView::of(history.map()) };
        let mut relay = relay(history, connections, counters, transit, effects);
        for slot in due {
            table.step(slot, (engine, at), PartitionEvent::Tick, &mut relay);
            table.ticked(slot, now);
        }
    }
}
