//! What the shell is to do.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use zerohop_wire::AuthFault;

use crate::connection::ConnectionId;
use crate::error::SessionError;
use crate::reply::Reply;

/// What the shell is to do, in this order. None waits for another, but frames of one connection go out as given.
#[derive(Debug)]
pub enum SessionEffect<T> {
    /// Open a connection, and tell [`Session::connected`](crate::Session::connected) or
    /// [`Session::disconnected`](crate::Session::disconnected).
    Connect {
        /// By which name it goes.
        connection: ConnectionId,
        /// `host:port`, to be resolved.
        address: Arc<str>,
    },
    /// Write `head`, then `tail`. `head` should come back through [`Session::recycle`](crate::Session::recycle).
    Send {
        /// Over which connection.
        connection: ConnectionId,
        /// Frames, and the beginning of one whose end is the tail.
        head: Vec<u8>,
        /// A large payload, sent from where it lies; mostly empty.
        tail: Bytes,
    },
    /// Close the connection. Nothing more is told about it.
    Close {
        /// Which.
        connection: ConnectionId,
    },
    /// The operation has ended.
    Complete {
        /// What came with it.
        token: T,
        /// How it ended.
        result: Result<Reply, SessionError>,
    },
}

/// How a connection came to nothing, or to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionLoss {
    /// What the system says.
    pub kind: io::ErrorKind,
    /// Why the other side is not to be believed, if that is why: it need not be asked again.
    pub fault: Option<AuthFault>,
}

impl From<&io::Error> for ConnectionLoss {
    fn from(error: &io::Error) -> Self {
        Self { kind: error.kind(), fault: None }
    }
}
