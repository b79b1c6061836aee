//! The watches of an instance with their clients.

use std::net::SocketAddr;

use zerohop_reactor::{ConnectionId, Replies};
use zerohop_shard::{InstanceWatch, InstanceWatches};
use zerohop_wire::auth::Access;

/// A watch and its client.
#[derive(Clone, Debug)]
pub(crate) struct ClientWatch {
    pub(crate) watch: InstanceWatch,
    /// What its connection may do: the number of its token, if it has one.
    pub(crate) access: Access,
    /// The client's address, if it is known.
    pub(crate) peer: Option<SocketAddr>,
}

impl ClientWatch {
    /// The listed watches, with what the reactor knows of their connections.
    pub(super) fn all(watches: &mut InstanceWatches, replies: &Replies<'_>) -> Vec<ClientWatch> {
        let listed = std::mem::take(&mut watches.listed).into_iter();
        let found = listed.map(|watch| {
            let connection = ConnectionId::from_u64(watch.connection);
            ClientWatch { watch, access: replies.access(connection), peer: replies.peer(connection) }
        });
        found.collect()
    }
}
