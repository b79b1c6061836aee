//! Units that another instance of this node must run, and their replies: one notice each way per
//! batch.
//!
//! Every sent unit has a number, under which its outcome comes back of the sender.

use std::sync::Arc;

use zerohop_reactor::{ConnectionId, NoticeError, ReactorMailbox};
use zerohop_resp::{PartitionPlace, Ticket};
use zerohop_wire::ids::InstanceId;
use zerohop_wire::messages::UnitVerdict;

use super::ReplyAddress;
use super::limits::OUTGOING_BYTES_MAX;
use crate::instance::InstanceNotice;

/// Units for one instance, back to back.
#[derive(Debug, Default)]
pub struct Units {
    /// The sender: its index among the node's instances.
    pub from: usize,
    /// The units, in the order of their bytes.
    pub items: Vec<ForwardItem>,
    /// Their bytes.
    pub bytes: Vec<u8>,
}

/// One of the units of [`Units`].
#[derive(Clone, Copy, Debug)]
pub struct ForwardItem {
    /// The number under which its outcome comes back.
    pub number: u64,
    /// The number of the unit before it: this unit is not run if that one was not. 0: it depends on
    /// none.
    pub behind: u64,
    /// Its partition.
    pub to: PartitionPlace,
    /// Where its bytes end.
    pub end: usize,
}

/// Replies of one instance, back to back.
#[derive(Debug, Default)]
pub struct ReplyBatch {
    /// The outcomes, in the order of their bytes.
    pub items: Vec<AnsweredUnit>,
    /// Their bytes.
    pub bytes: Vec<u8>,
}

/// One of the outcomes of [`ReplyBatch`].
#[derive(Clone, Copy, Debug)]
pub struct AnsweredUnit {
    /// The number of its unit.
    pub number: u64,
    /// The outcome; only a reply has bytes.
    pub verdict: UnitVerdict,
    /// Where its bytes end.
    pub end: usize,
}

/// All instances of a node, by their place.
#[derive(Clone, Debug, Default)]
pub struct Siblings(pub(crate) Arc<[(InstanceId, ReactorMailbox<InstanceNotice>)]>);

/// What the other instances receive at the end of this turn.
#[derive(Debug, Default)]
pub struct OutgoingMessages {
    siblings: Siblings,
    this_instance: usize,
    /// By place.
    units_by_instance: Vec<Units>,
    replies: Vec<ReplyBatch>,
}

impl OutgoingMessages {
    /// Nothing to send yet. `me` is the sender's index among the node's instances.
    #[must_use]
    pub fn new(me: usize) -> OutgoingMessages {
        OutgoingMessages { this_instance: me, ..OutgoingMessages::default() }
    }

    /// All instances of the node are known.
    pub fn set_siblings(&mut self, siblings: Siblings) {
        let count = siblings.0.len();
        let from = self.this_instance;
        self.units_by_instance.resize_with(count, || Units { from, ..Units::default() });
        self.replies.resize_with(count, ReplyBatch::default);
        self.siblings = siblings;
    }

    /// The address of one of the instance's own clients, for a reply from another thread. `None`: the instances of the node are not known yet.
    #[must_use]
    pub fn reply_address(&self, connection: ConnectionId, ticket: Ticket) -> Option<ReplyAddress> {
        let (_, own) = self.siblings.0.get(self.this_instance)?;
        Some(ReplyAddress::new(own.clone(), connection, ticket))
    }

    /// The index of an instance among those of this node.
    pub fn index_of(&self, instance: InstanceId) -> Option<usize> {
        self.siblings.0.iter().position(|(id, _)| *id == instance)
    }

    /// Whether the instance with this index may be sent more units in this batch.
    pub fn has_room(&self, place: usize) -> bool {
        self.units_by_instance.get(place).is_some_and(|units| units.bytes.len() <= OUTGOING_BYTES_MAX)
    }

    /// Adds a unit for the instance with this index.
    pub fn add_unit(&mut self, place: usize, (number, behind): (u64, u64), to: PartitionPlace, unit: &[u8]) {
        let Some(units) = self.units_by_instance.get_mut(place) else { return };
        units.bytes.extend_from_slice(unit);
        units.items.push(ForwardItem { number, behind, to, end: units.bytes.len() });
    }

    /// Adds the outcome of a unit for the instance with this index, whose client sent the unit.
    pub fn add_outcome(&mut self, place: usize, number: u64, verdict: UnitVerdict, bytes: &[u8]) {
        let Some(replies) = self.replies.get_mut(place) else { return };
        replies.bytes.extend_from_slice(bytes);
        replies.items.push(AnsweredUnit { number, verdict, end: replies.bytes.len() });
    }

    /// Sends everything. Where a mailbox is full, replies stay here, because the sender waits for
    /// them; units go to `refused`. Whether something stays.
    pub fn send(&mut self, mut refused: impl FnMut(u64)) -> bool {
        let mut stays = false;
        for (place, (_, mailbox)) in self.siblings.0.iter().enumerate() {
            let replies = &mut self.replies[place];
            if !replies.items.is_empty() {
                match mailbox.leave(InstanceNotice::Ran(std::mem::take(replies))) {
                    Ok(()) | Err(NoticeError::Ended(_)) => {}
                    Err(NoticeError::Full(InstanceNotice::Ran(kept))) => {
                        *replies = kept;
                        stays = true;
                    }
                    Err(NoticeError::Full(_)) => {}
                }
            }
            let units = &mut self.units_by_instance[place];
            if !units.items.is_empty() {
                let sent = std::mem::replace(units, Units { from: self.this_instance, ..Units::default() });
                let back = match mailbox.leave(InstanceNotice::Run(sent)) {
                    Ok(()) => continue,
                    Err(NoticeError::Ended(back) | NoticeError::Full(back)) => back,
                };
                if let InstanceNotice::Run(units) = back {
                    units.items.iter().for_each(|item| refused(item.number));
                }
            }
        }
        stays
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use zerohop_wire::ids::{KeyspaceId, PartitionId};

    use super::*;
    use zerohop_reactor::Inbox;

    #[test]
    fn units_without_space_are_returned_and_replies_stay() {
        let (mailbox, inbox) = Inbox::new(Waker::noop().clone());
        let mut outgoing = OutgoingMessages::new(0);
        outgoing.set_siblings(Siblings(
            [(InstanceId(1), mailbox.clone()), (InstanceId(2), mailbox.clone())].into(),
        ));
        while mailbox.leave(InstanceNotice::Stop).is_ok() {}
        let to = PartitionPlace { keyspace: KeyspaceId(1), partition: PartitionId(0) };
        let bytes = [1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        outgoing.add_unit(1, (7, 0), to, &bytes);
        outgoing.add_outcome(1, 8, UnitVerdict::Replied, b"+OK\r\n");
        let mut refused = Vec::new();
        assert!(outgoing.send(|number| refused.push(number)));
        assert_eq!(refused, [7]);
        while inbox.take().is_some() {}
        assert!(!outgoing.send(|_| ()));
        let Some(InstanceNotice::Ran(replied)) = inbox.take() else { panic!("the reply comes") };
        assert_eq!((replied.items[0].number, &replied.bytes[..]), (8, &b"+OK\r\n"[..]));
    }
}
