//! Connections to other instances: one for each instance and direction, opened when there is a message to send.
//!
//! ```text
//!   waiting ──something to say──> calling ──greeted──> open
//!      ^                             │                   │
//!      └──────── closed, for whatever reason ────────────┘      (the next call a little later each time)
//! ```
//!
//! Every message is repeated until it is settled (docs/protocols/replication.md), so a message without room or without a connection is dropped.
//! Messages to an instance that is being connected to are buffered until it has greeted.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use tracing::{info, warn};
use zerohop_placement::ClusterMap;
use zerohop_reactor::{ClockSample, ConnectionId, Replies};
use zerohop_wire::ids::{Incarnation, InstanceId, MapEpoch};
use zerohop_wire::limits::{VERSION_MAX, VERSION_MIN};
use zerohop_wire::messages::{ClusterId, Hello, HelloAck, Member, PeerBody};
use zerohop_wire::{Encoder, Envelope, Failure, Features, Message};

use super::limits::{
    LINK_QUEUED_BYTES_MAX, LINK_RETRY_MS_MAX, LINK_RETRY_MS_MIN, LINK_UNSENT_BYTES_MAX, LINK_UNSENT_SMALL_MAX,
};

/// The links of one instance.
#[derive(Debug)]
pub(crate) struct Links {
    cluster: ClusterId,
    name: String,
    by: BTreeMap<InstanceId, Link>,
    /// Instances with messages and without a connection, each once: the instance connects to them at the end of the batch.
    to_call: Vec<InstanceId>,
    /// Number of dropped messages.
    dropped: u64,
}

#[derive(Debug)]
struct Link {
    state: LinkState,
    /// Frames to send once the other instance has greeted.
    queued_frames: Vec<u8>,
    /// The incarnation of the process that greeted last.
    incarnation: Incarnation,
    /// The features of both ends of the connection, once it is open.
    features: Features,
    /// The pause after the next failure.
    retry_ms: u64,
    /// The log has the reason why it does not answer.
    is_logged: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LinkState {
    /// No connection attempt before this time.
    Waiting {
        again_ms: u64,
    },
    /// To be connected to at the end of the batch.
    ConnectAtBatchEnd,
    Calling(ConnectionId),
    Open(ConnectionId),
}

impl Links {
    pub(crate) fn new(cluster: ClusterId, me: InstanceId) -> Links {
        let name = format!("instance {me}");
        Links { cluster, name, by: BTreeMap::new(), to_call: Vec::new(), dropped: 0 }
    }

    /// Sends a message to another instance, now or once it has greeted.
    pub(crate) fn send(
        &mut self,
        to: Member,
        envelope: &Envelope,
        message: &Message<'_>,
        now: ClockSample,
        replies: &mut Replies<'_>,
    ) {
        let link = self.by.entry(to.instance).or_insert_with(Link::new);
        match link.state {
            // The message is repeated, like all others: other messages open a connection by then, if that is possible.
            _ if !link.supports(message) => {}
            LinkState::Open(connection) => {
                let bound = if is_small(message) { LINK_UNSENT_SMALL_MAX } else { LINK_UNSENT_BYTES_MAX };
                if replies.unsent_bytes(connection) < bound {
                    return replies.send(connection, envelope, message);
                }
            }
            LinkState::Waiting { again_ms } if now.elapsed_ms < again_ms => {}
            state => {
                if let LinkState::Waiting { .. } = state {
                    link.state = LinkState::ConnectAtBatchEnd;
                    self.to_call.push(to.instance);
                }
                if link.queue_frame(envelope, message) {
                    return;
                }
            }
        }
        self.dropped += 1;
    }

    /// The connection to another instance, and the member at its other end. `None`: there is none at present; the instance connects at the end of
    /// the batch, unless it tried a moment ago.
    pub(crate) fn reach(&mut self, instance: InstanceId, now_ms: u64) -> Option<(ConnectionId, Member)> {
        let link = self.by.entry(instance).or_insert_with(Link::new);
        match link.state {
            LinkState::Open(connection) => {
                Some((connection, Member { instance, incarnation: link.incarnation }))
            }
            LinkState::Waiting { again_ms } if again_ms <= now_ms => {
                link.state = LinkState::ConnectAtBatchEnd;
                self.to_call.push(instance);
                None
            }
            _ => None,
        }
    }

    /// The connection to another instance, if there is one.
    pub(crate) fn connection_to(&self, instance: InstanceId) -> Option<ConnectionId> {
        match self.by.get(&instance)?.state {
            LinkState::Open(connection) => Some(connection),
            _ => None,
        }
    }

    /// The instance at the other end of a connection that this side has opened.
    pub(crate) fn instance_at(&self, connection: ConnectionId) -> Option<InstanceId> {
        let is_it = |link: &Link| link.state == LinkState::Open(connection);
        self.by.iter().find(|(_, link)| is_it(link)).map(|(instance, _)| *instance)
    }

    /// Connects, at the end of a batch, to the instances for which messages are waiting, at their addresses in the map.
    pub(crate) fn call(&mut self, map: &ClusterMap, now: ClockSample, replies: &mut Replies<'_>) {
        if self.to_call.is_empty() {
            return;
        }
        for instance in std::mem::take(&mut self.to_call) {
            let address = map.instance(instance).and_then(|found| found.addr.parse::<SocketAddr>().ok());
            let hello = Hello {
                version_min: VERSION_MIN,
                version_max: VERSION_MAX,
                features: Features::PEER,
                cluster: self.cluster,
                map_epoch: MapEpoch(0),
                proof_method: 0,
                nonce: [0; 32],
                name: &self.name,
            };
            let called = address.and_then(|address| replies.connect(address, &hello).ok());
            let Some(link) = self.by.get_mut(&instance) else { continue };
            match called {
                Some(connection) => link.state = LinkState::Calling(connection),
                None => link.failed(now.elapsed_ms),
            }
        }
    }

    /// Handles the greeting of an instance. Returns whether it is the intended one: otherwise the connection is useless.
    pub(crate) fn peer_connected(
        &mut self,
        connection: ConnectionId,
        answer: Result<&HelloAck, Failure<'_>>,
        replies: &mut Replies<'_>,
    ) {
        let called = self.by.iter_mut().find(|(_, link)| link.state == LinkState::Calling(connection));
        let Some((instance, link)) = called else { return };
        let reason = match answer {
            Ok(ack) if ack.instance != *instance => format!("instance {} answers there", ack.instance),
            Ok(ack) if ack.cluster != self.cluster => {
                "an instance of another cluster answers there".to_owned()
            }
            Ok(ack) if !ack.features.has(Features::PEER) => {
                "it takes nothing from other instances".to_owned()
            }
            Ok(ack) => {
                link.state = LinkState::Open(connection);
                (link.incarnation, link.features) = (ack.incarnation, ack.features);
                (link.retry_ms, link.is_logged) = (LINK_RETRY_MS_MIN, false);
                let queued = std::mem::take(&mut link.queued_frames);
                // Frames of another version than the agreed one would end the connection.
                if ack.version == VERSION_MAX && !queued.is_empty() {
                    replies.send_frames(connection, &queued);
                }
                info!(
                    instance = instance.0,
                    incarnation = ack.incarnation.0,
                    "connected to another instance"
                );
                return;
            }
            Err(failure) => failure.to_string(),
        };
        if !std::mem::replace(&mut link.is_logged, true) {
            warn!(instance = instance.0, reason, "the connection to another instance has failed");
        }
        replies.hang_up(connection);
    }

    /// Handles the end of a connection, which may be a link.
    pub(crate) fn closed(&mut self, connection: ConnectionId, now_ms: u64) {
        let is_it = |link: &&mut Link| matches!(link.state, LinkState::Calling(of) | LinkState::Open(of) if of == connection);
        if let Some(link) = self.by.values_mut().find(is_it) {
            link.failed(now_ms);
        }
    }

    /// Removes instances that are no longer in the map.
    pub(crate) fn follow(&mut self, map: &ClusterMap, replies: &mut Replies<'_>) {
        self.by.retain(|instance, link| {
            let is_there = map.instance(*instance).is_some();
            if let LinkState::Calling(connection) | LinkState::Open(connection) = link.state
                && !is_there
            {
                replies.hang_up(connection);
            }
            is_there
        });
    }

    /// Number of messages dropped since the start.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Number of connected instances.
    pub(crate) fn open(&self) -> usize {
        self.by.values().filter(|link| matches!(link.state, LinkState::Open(_))).count()
    }
}

impl Link {
    fn new() -> Link {
        let state = LinkState::Waiting { again_ms: 0 };
        let incarnation = Incarnation::default();
        let features = Features::default();
        Link {
            state,
            queued_frames: Vec::new(),
            incarnation,
            features,
            retry_ms: LINK_RETRY_MS_MIN,
            is_logged: false,
        }
    }

    /// Whether the other end supports such messages. An older program would end the connection because of them, again and again as they repeat.
    /// Before the first greeting this is not known: such messages are dropped, and repeated later.
    fn supports(&self, message: &Message<'_>) -> bool {
        match message {
            Message::Peer(peer) => match peer.body {
                PeerBody::DigestQuery(range) => !range.contents || self.features.has(Features::CONTENTS),
                _ => true,
            },
            _ => true,
        }
    }

    /// Buffers a frame until the other instance has greeted. `false`: there is no room.
    fn queue_frame(&mut self, envelope: &Envelope, message: &Message<'_>) -> bool {
        let encoder = Encoder { version: VERSION_MAX, ..Encoder::default() };
        // A message that cannot be encoded could not be sent either.
        self.queued_frames.len() < LINK_QUEUED_BYTES_MAX
            && encoder.encode(envelope, message, &mut self.queued_frames).is_ok()
    }

    fn failed(&mut self, now_ms: u64) {
        self.queued_frames = Vec::new();
        // Another program may answer there next time.
        self.features = Features::default();
        self.state = LinkState::Waiting { again_ms: now_ms + self.retry_ms };
        self.retry_ms = (self.retry_ms * 2).min(LINK_RETRY_MS_MAX);
    }
}

/// Leases and acknowledgements: they must not wait behind entries.
fn is_small(message: &Message<'_>) -> bool {
    match message {
        Message::Peer(peer) => !matches!(
            peer.body,
            PeerBody::Replicate { .. }
                | PeerBody::StatePart { .. }
                | PeerBody::EntryGot(_)
                | PeerBody::Transaction(_)
        ),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use zerohop_wire::messages::{DigestRange, PeerMessage};

    use super::*;

    #[test]
    fn digest_requests_go_only_to_supporting_peers() {
        let [from, to] = [1, 2].map(|id| Member { instance: InstanceId(id), incarnation: Incarnation(7) });
        let query = |contents| {
            let range = DigestRange { contents, ..DigestRange::default() };
            Message::Peer(PeerMessage { from, to, body: PeerBody::DigestQuery(range) })
        };
        let mut link = Link::new();
        assert!(link.supports(&query(false)), "all know that");
        assert!(!link.supports(&query(true)), "no greeting came");
        link.features = Features::PEER;
        assert!(!link.supports(&query(true)), "it is from before");
        link.features = Features(Features::PEER.0 | Features::CONTENTS.0);
        assert!(link.supports(&query(true)));
        link.failed(0);
        assert!(!link.supports(&query(true)), "another may answer next");
    }
}
