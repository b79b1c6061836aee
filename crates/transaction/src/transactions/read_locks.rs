//! Cells that a reader of several was promised nobody changes for a moment, so that it need not confirm what it has read. A hold
//! is a shared intent that lapses by itself. Times are those of a clock that is never set, in whatever unit its owner likes.

use super::{Time, Transactions};
use crate::effect::TransactionEffect;
use crate::host::PartitionHost;

impl Transactions {
    /// Holds a cell until then: `false` if somebody is about to change it, or waits to. Times given must not go back.
    pub fn hold(&mut self, cell: u64, until: u64) -> bool {
        self.intents.hold(cell, until)
    }

    /// Lets go of what was held until now or earlier: whoever waits for it goes on.
    pub fn lapse(
        &mut self,
        now: Time,
        host: &mut impl PartitionHost,
        until: u64,
        effects: &mut Vec<TransactionEffect>,
    ) {
        if self.intents.lapse(until) {
            self.pump(now, host, effects);
        }
    }

    /// Until when the first hold lasts.
    #[must_use]
    pub fn first_lapse(&self) -> Option<u64> {
        self.intents.first_lapse()
    }

    /// Whether somebody may wait for holds to lapse.
    #[must_use]
    pub fn has_queue(&self) -> bool {
        self.intents.waiting().0 > 0
    }
}
