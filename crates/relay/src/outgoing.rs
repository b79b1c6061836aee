//! Units that another instance of this node must run, and their replies: one message each way per
//! batch.
//!
//! Every sent unit has a number, under which its sender receives the outcome.

use zerohop_resp::PartitionPlace;
use zerohop_wire::messages::UnitVerdict;

use super::RelayContext;
use super::limits::OUTGOING_BYTES_MAX;
use super::unit_batches::{AnsweredUnit, ForwardItem, ReplyBatch, Units};

/// What the other instances receive at the end of this turn.
#[derive(Debug, Default)]
pub(super) struct OutgoingMessages {
    this_instance: usize,
    /// By place.
    units_by_instance: Vec<Units>,
    replies: Vec<ReplyBatch>,
}

impl OutgoingMessages {
    /// Nothing to send yet. `this_instance` is the sender's index among the node's instances.
    pub(super) fn new(this_instance: usize) -> OutgoingMessages {
        OutgoingMessages { this_instance, ..OutgoingMessages::default() }
    }

    /// Whether the instance with this index may be sent more units in this batch.
    pub(super) fn has_room(&self, place: usize) -> bool {
        self.units_by_instance.get(place).is_none_or(|units| units.bytes.len() <= OUTGOING_BYTES_MAX)
    }

    /// Adds a unit for the instance with this index.
    pub(super) fn add_unit(
        &mut self,
        place: usize,
        (number, behind): (u64, u64),
        to: PartitionPlace,
        unit: &[u8],
    ) {
        self.grow_to(place);
        let units = &mut self.units_by_instance[place];
        units.bytes.extend_from_slice(unit);
        units.items.push(ForwardItem { number, behind, to, end: units.bytes.len() });
    }

    /// Adds the outcome of a unit for the instance with this index, whose client sent the unit.
    pub(super) fn add_outcome(&mut self, place: usize, number: u64, verdict: UnitVerdict, bytes: &[u8]) {
        self.grow_to(place);
        let replies = &mut self.replies[place];
        replies.bytes.extend_from_slice(bytes);
        replies.items.push(AnsweredUnit { number, verdict, end: replies.bytes.len() });
    }

    /// Sends everything. Where there is no room, replies stay here, because the sender waits for
    /// them; units go to `refused`. Whether something stays.
    pub(super) fn send(&mut self, at: &mut impl RelayContext, mut refused: impl FnMut(u64)) -> bool {
        let mut stays = false;
        for place in 0..self.units_by_instance.len() {
            let replies = &mut self.replies[place];
            if !replies.items.is_empty()
                && let Err(kept) = at.send_replies(place, std::mem::take(replies))
            {
                *replies = kept;
                stays = true;
            }
            let units = &mut self.units_by_instance[place];
            if !units.items.is_empty() {
                let sent = std::mem::replace(units, Units { from: self.this_instance, ..Units::default() });
                if let Err(back) = at.send_units(place, sent) {
                    back.items.iter().for_each(|item| refused(item.number));
                }
            }
        }
        stays
    }

    fn grow_to(&mut self, place: usize) {
        if self.units_by_instance.len() <= place {
            let from = self.this_instance;
            self.units_by_instance.resize_with(place + 1, || Units { from, ..Units::default() });
            self.replies.resize_with(place + 1, ReplyBatch::default);
        }
    }
}
