//! The instances of a node, as a gateway sees them: units that another instance must run, and their replies, are one notice each way per batch.

use std::sync::Arc;

use zerohop_reactor::{ConnectionId, NoticeError, ReactorMailbox};
use zerohop_relay::{ReplyBatch, Units};
use zerohop_resp::Ticket;
use zerohop_wire::ids::InstanceId;

use super::{InstanceNotice, ReplyAddress};

/// All instances of a node, by their place.
#[derive(Clone, Debug, Default)]
pub struct Siblings(pub(crate) Arc<[(InstanceId, ReactorMailbox<InstanceNotice>)]>);

impl Siblings {
    /// The address of a client of the instance with this index, for a reply from another thread. `None`: the instances of the node are not known yet.
    #[must_use]
    pub fn reply_address(
        &self,
        place: usize,
        connection: ConnectionId,
        ticket: Ticket,
    ) -> Option<ReplyAddress> {
        let (_, own) = self.0.get(place)?;
        Some(ReplyAddress::new(own.clone(), connection, ticket))
    }

    /// The index of an instance among those of this node.
    #[must_use]
    pub fn index_of(&self, instance: InstanceId) -> Option<usize> {
        self.0.iter().position(|(id, _)| *id == instance)
    }

    /// Sends units to the instance with this index.
    ///
    /// # Errors
    /// Its mailbox is full, or it has ended: the units are returned.
    pub fn send_units(&self, place: usize, units: Units) -> Result<(), Units> {
        let Some((_, mailbox)) = self.0.get(place) else { return Err(units) };
        match mailbox.leave(InstanceNotice::Run(units)) {
            Err(
                NoticeError::Ended(InstanceNotice::Run(back)) | NoticeError::Full(InstanceNotice::Run(back)),
            ) => Err(back),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Sends outcomes to the instance with this index; one that has ended needs none.
    ///
    /// # Errors
    /// Its mailbox is full: the outcomes are returned.
    pub fn send_replies(&self, place: usize, replies: ReplyBatch) -> Result<(), ReplyBatch> {
        let Some((_, mailbox)) = self.0.get(place) else { return Ok(()) };
        match mailbox.leave(InstanceNotice::Ran(replies)) {
            Err(NoticeError::Full(InstanceNotice::Ran(kept))) => Err(kept),
            Ok(()) | Err(_) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use zerohop_reactor::Inbox;
    use zerohop_relay::{AnsweredUnit, ForwardItem};
    use zerohop_resp::PartitionPlace;
    use zerohop_wire::ids::{KeyspaceId, PartitionId};
    use zerohop_wire::messages::UnitVerdict;

    use super::*;

    #[test]
    fn units_and_outcomes_without_space_are_returned() {
        let (mailbox, inbox) = Inbox::new(Waker::noop().clone());
        let siblings = Siblings([(InstanceId(1), mailbox.clone()), (InstanceId(2), mailbox.clone())].into());
        while mailbox.leave(InstanceNotice::Stop).is_ok() {}
        let to = PartitionPlace { keyspace: KeyspaceId(1), partition: PartitionId(0) };
        let units =
            Units { from: 0, items: vec![ForwardItem { number: 7, behind: 0, to, end: 1 }], bytes: vec![0] };
        assert_eq!(siblings.send_units(1, units).map_err(|back| back.items[0].number), Err(7));
        let outcome = AnsweredUnit { number: 8, verdict: UnitVerdict::Replied, end: 5 };
        let replies = ReplyBatch { items: vec![outcome], bytes: b"+OK\r\n".to_vec() };
        let Err(kept) = siblings.send_replies(1, replies) else { panic!("there is no room") };
        while inbox.take().is_some() {}
        assert!(siblings.send_replies(1, kept).is_ok());
        let Some(InstanceNotice::Ran(replied)) = inbox.take() else { panic!("the reply comes") };
        assert_eq!((replied.items[0].number, &replied.bytes[..]), (8, &b"+OK\r\n"[..]));
    }
}
