//! A control request on its way from a connection to the manager, and back.

use tokio::sync::mpsc;
use zerohop_wire::Envelope;
use zerohop_wire::auth::Access;

/// A control request in progress.
#[derive(Debug)]
pub(crate) struct ControlJob {
    /// The encoded request.
    pub(crate) encoded: Vec<u8>,
    /// The permissions of the client.
    pub(crate) access: Access,
    pub(crate) reply: ReplyTo,
}

/// The destination of a reply.
#[derive(Debug)]
pub(crate) enum ReplyTo {
    /// To a connection of an instance.
    Instance {
        /// The index of the node's instance, from zero.
        instance_index: usize,
        /// The instance's number for the request.
        request_number: u64,
    },
    /// To no client: an instance has requested the change itself, and repeats the request if it is not done.
    NoClient,
    /// To a connection of the manager itself, whose channel has room for it.
    Here {
        /// The envelope of the reply.
        envelope: Envelope,
        /// The channel to the connection's task.
        sender: mpsc::Sender<(Envelope, Vec<u8>)>,
    },
}
