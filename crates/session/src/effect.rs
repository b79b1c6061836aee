//! The effects that the session requests from its shell.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use zerohop_wire::AuthFault;

use crate::connection::ConnectionId;
use crate::error::SessionError;
use crate::reply::Reply;

/// An effect for the shell to execute, in this order. No effect waits for another, but the frames of one connection must be sent in the given
/// order.
#[derive(Debug)]
pub enum SessionEffect<T> {
    /// Open a connection, and report [`Session::connected`](crate::Session::connected) or [`Session::disconnected`](crate::Session::disconnected).
    Connect {
        /// The id of the connection.
        connection: ConnectionId,
        /// `host:port`, which the shell resolves.
        address: Arc<str>,
    },
    /// Write `head`, then `tail`. The shell should return `head` through [`Session::recycle`](crate::Session::recycle).
    Send {
        /// The connection.
        connection: ConnectionId,
        /// Complete frames, and the first part of a frame that ends with the tail.
        head: Vec<u8>,
        /// A large payload, sent without a copy; mostly empty.
        tail: Bytes,
    },
    /// Close the connection. The shell reports nothing more about it.
    Close {
        /// The connection.
        connection: ConnectionId,
    },
    /// The operation has ended.
    Complete {
        /// The token that was submitted with it.
        token: T,
        /// Its result.
        result: Result<Reply, SessionError>,
    },
}

/// The reason why a connection failed or ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionLoss {
    /// The error of the operating system.
    pub kind: io::ErrorKind,
    /// If the server failed authentication, the reason: the session need not try it again.
    pub fault: Option<AuthFault>,
    /// If that is about a certificate that has expired, when it did, in seconds since 1970.
    pub expired_s: Option<u64>,
}

impl From<&io::Error> for ConnectionLoss {
    fn from(error: &io::Error) -> Self {
        Self { kind: error.kind(), fault: None, expired_s: None }
    }
}
