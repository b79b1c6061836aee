//! Units whose keys are in several partitions. They go to a [`CrossPartitionRunner`], which runs them as
//! transactions outside this crate; replies return through the instance's inbox.

use std::fmt;

use zerohop_reactor::{ConnectionId, NoticeError, ReactorMailbox};
use zerohop_resp::Ticket;

use super::InstanceNotice;

/// Executes units over several partitions. It must not block: an instance's thread calls it.
pub trait CrossPartitionRunner: fmt::Debug + Send + Sync {
    /// Accepts a unit ([`zerohop_resp::Unit::decode`]) over the keyspace of this name. The unit is
    /// atomic. Its reply must be sent: without it the client waits as long as its connection lives.
    ///
    /// # Errors There is no room; nothing of the unit is executed.
    fn start_unit(&self, keyspace: &str, unit: Vec<u8>, requester: ReplyAddress) -> Result<(), TooManyUnits>;
}

/// Too many units are under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyUnits;

impl fmt::Display for TooManyUnits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("too many commands over several partitions are under way: try again")
    }
}

impl std::error::Error for TooManyUnits {}

/// The client that waits for a reply.
#[derive(Debug)]
pub struct ReplyAddress {
    mailbox: ReactorMailbox<InstanceNotice>,
    connection: ConnectionId,
    ticket: Ticket,
}

impl ReplyAddress {
    pub(crate) fn new(
        mailbox: ReactorMailbox<InstanceNotice>,
        connection: ConnectionId,
        ticket: Ticket,
    ) -> ReplyAddress {
        ReplyAddress { mailbox, connection, ticket }
    }

    /// Sends the reply.
    ///
    /// # Errors The instance has no room now: the address and reply are returned, to be sent again
    /// a little later.
    pub fn send(self, reply: Vec<u8>) -> Result<(), (ReplyAddress, Vec<u8>)> {
        let ReplyAddress { mailbox, connection, ticket } = self;
        match mailbox.leave(InstanceNotice::CrossPartitionReply { connection, ticket, reply }) {
            Err(NoticeError::Full(InstanceNotice::CrossPartitionReply { reply, .. })) => {
                Err((ReplyAddress { mailbox, connection, ticket }, reply))
            }
            // An instance that has ended has answered its clients.
            Ok(()) | Err(_) => Ok(()),
        }
    }
}
