//! Units whose keys live in several partitions: handed to whoever does them as transactions, which is not this crate's to
//! know, and their replies, which come back by the instance's inbox.

use std::fmt;

use zerohop_resp::Ticket;

use crate::instance::InstanceNotice;
use crate::reactor::{ConnectionId, NoticeError, ReactorMailbox};

/// Who executes units over several partitions. It must not wait: it is asked by the thread of an instance.
pub trait Spanning: fmt::Debug + Send + Sync {
    /// Takes up a unit ([`zerohop_resp::Unit::decode`]) over the keyspace of this name. All of it is done at one moment, or none
    /// of it, and its reply told; a reply that is never told is awaited for as long as the connection lives.
    ///
    /// # Errors
    /// There is no room for it, and nothing of it is done.
    fn take(&self, keyspace: &str, unit: Vec<u8>, asker: ReplyAddress) -> Result<(), NoRoom>;
}

/// There are too many under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRoom;

impl fmt::Display for NoRoom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("too many commands over several partitions are under way: try again")
    }
}

impl std::error::Error for NoRoom {}

/// The client that waits for a reply.
#[derive(Debug)]
pub struct ReplyAddress {
    mailbox: ReactorMailbox<InstanceNotice>,
    connection: ConnectionId,
    ticket: Ticket,
}

impl ReplyAddress {
    pub(super) fn new(
        mailbox: ReactorMailbox<InstanceNotice>,
        connection: ConnectionId,
        ticket: Ticket,
    ) -> ReplyAddress {
        ReplyAddress { mailbox, connection, ticket }
    }

    /// Tells the reply. Handed back if the instance has no room for it now.
    ///
    /// # Errors
    /// To be told again a little later.
    pub fn tell(self, reply: Vec<u8>) -> Result<(), (ReplyAddress, Vec<u8>)> {
        let ReplyAddress { mailbox, connection, ticket } = self;
        match mailbox.leave(InstanceNotice::Spanned { connection, ticket, reply }) {
            Err(NoticeError::Full(InstanceNotice::Spanned { reply, .. })) => {
                Err((ReplyAddress { mailbox, connection, ticket }, reply))
            }
            // One that has ended has told its clients so.
            Ok(()) | Err(_) => Ok(()),
        }
    }
}
