//! The invariants of a partition's log, checked at the end of every step that changes it.

use zerohop_base::invariant::{BrokenInvariant, check_rules};

use super::PartitionStore;
use crate::io::Logs;
use crate::log::segment::Segment;

/// All segments are checked at one of so many steps.
const ALL_EVERY: u32 = 64;

/// The owner of these invariants.
const LOG: &str = "a log";

impl PartitionStore {
    /// Checks the part that costs the same for every log.
    ///
    /// # Errors
    /// The broken invariant. None is broken while another member's log is being installed.
    #[inline]
    pub(crate) fn check(&self, logs: &Logs) -> Result<(), BrokenInvariant> {
        if self.is_incoming() {
            return Ok(());
        }
        let last = logs.view(self.handle).last().1;
        let open = match logs {
            Logs::Separate(_) => {
                let log = logs.separate(self.handle);
                log.order.last().map(|&slot| log.segment(slot))
            }
            Logs::Shared(_) => None,
        };
        check_rules(
            LOG,
            [
                (self.commit <= last, "no entry is committed that is not in the log"),
                (
                    self.recent.first_pending().is_none_or(|first| first.meta.index > self.commit),
                    "no pending entry is committed",
                ),
                (
                    self.recent.last_pending().is_none_or(|newest| newest.meta.index <= last),
                    "the pending entries are in the log",
                ),
                (
                    open.is_none_or(is_in_order),
                    "a segment is synced up to what is written, and written up to its end",
                ),
            ],
        )
    }

    /// Checks all segments.
    ///
    /// # Errors
    /// The broken invariant.
    pub(crate) fn check_all(&self, logs: &Logs) -> Result<(), BrokenInvariant> {
        self.check(logs)?;
        if logs.shared().is_some() {
            return Ok(());
        }
        let log = logs.separate(self.handle);
        let are_there = log.order.iter().all(|&slot| matches!(log.slots.get(slot as usize), Some(Some(_))));
        check_rules(LOG, [(are_there, "the order of segments names segments that exist")])?;
        let segments = || log.order.iter().map(|&slot| log.segment(slot));
        let are_sorted = segments().is_sorted_by(|one, next| one.last_index < next.first_index());
        let are_sealed = segments().rev().skip(1).all(|segment| segment.sealed);
        check_rules(
            LOG,
            [
                (
                    segments().all(is_in_order),
                    "a segment is synced up to what is written, and written up to its end",
                ),
                (are_sorted, "the segments are in the order of their log indexes"),
                (are_sealed, "only the last segment is open"),
                (
                    segments().all(Segment::has_sound_counts),
                    "a segment has no more dead bytes and removals than bytes",
                ),
            ],
        )
    }

    /// The end of a step that has changed the log.
    ///
    /// # Panics
    /// With debug assertions, if an invariant is broken.
    #[inline]
    pub(crate) fn end_step(&mut self, logs: &Logs) {
        if !cfg!(debug_assertions) || self.broken.is_some() || self.is_stopped() {
            return;
        }
        let checked = if self.check_turn.is_due(ALL_EVERY) { self.check_all(logs) } else { self.check(logs) };
        if let Err(broken) = checked {
            panic!("partition {}: {broken}", self.id.partition);
        }
    }
}

fn is_in_order(segment: &Segment) -> bool {
    segment.synced <= segment.written && segment.written <= segment.bytes
}
