//! What a connection, its requests and the check of users share.

use std::sync::atomic::AtomicBool;

use tokio::sync::Notify;

/// What a connection, its requests and the places share.
#[derive(Debug, Default)]
pub(crate) struct ConnectionState {
    /// Whether the head of a request has come.
    pub(crate) has_sent_a_request: AtomicBool,
    /// Whether a request had the signature of a user.
    pub(crate) is_known: AtomicBool,
    /// The connection must end: another one gets its place.
    pub(crate) end: Notify,
}
