//! Distribution of the map. Any node serves the map that it has to nodes that request it. The leader sends
//! every change to all nodes that are up, until they confirm that they have it. Everything sent here was
//! decided: it comes from the map that this node follows.

use std::collections::BTreeMap;
use std::sync::Arc;

use zerohop_placement::{Address, NodeState};
use zerohop_wire::ids::{MapEpoch, NodeId};

use super::Agent;
use super::message::{AgentBody, DeltaPieceId};
use crate::limits::{ENCODED_MAPS_MAX, PIECE_BYTES};
use zerohop_base::time::Time;

/// First time after which the leader sends the change again to a node that has not confirmed it; doubled each
/// time.
const RESEND_MS: u64 = 200;
/// The longest time between two sends.
const RESEND_MS_MAX: u64 = 5_000;

/// An encoded delta, cached for nodes that fetch it in pieces.
#[derive(Debug)]
struct EncodedDelta {
    since: MapEpoch,
    epoch: MapEpoch,
    applied_count: u64,
    bytes: Arc<Vec<u8>>,
    used: Time,
}

/// What the leader knows of a node.
#[derive(Debug, Default)]
struct NodeMapProgress {
    /// The epoch that the node has confirmed; zero if nothing is known.
    has: MapEpoch,
    next: Time,
    wait_ms: u64,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Peers {
    by: BTreeMap<NodeId, NodeMapProgress>,
    encoded: Vec<EncodedDelta>,
    /// Something has changed, and all nodes must be checked.
    pub(super) is_due: bool,
    pub(super) next: Time,
}

impl Agent {
    /// A node requests the map, or reports the epoch that it has.
    pub(super) fn handle_map_request(
        &mut self,
        from: &Address,
        node: Option<NodeId>,
        have: MapEpoch,
        piece: Option<DeltaPieceId>,
        is_confirmation: bool,
    ) {
        if let Some(node) = node.filter(|_| self.is_leader())
            && let Some(peer) = self.peers.by.get_mut(&node)
        {
            peer.has = peer.has.max(have);
            if is_confirmation {
                (peer.next, peer.wait_ms) = (self.now, RESEND_MS);
                self.peers.is_due = true;
            }
        }
        if is_confirmation {
            return;
        }
        let begun = piece.and_then(|of| {
            let at = self.peers.encoded.iter().position(|one| (one.since, one.epoch) == (of.since, of.epoch));
            at.map(|at| (at, of.piece))
        });
        if let Some((at, piece)) = begun {
            self.send_piece(from, at, piece);
        } else if have >= self.map().epoch() {
            self.send_epoch(from, have);
        } else {
            let at = self.encoded(have);
            self.send_piece(from, at, 0);
        }
    }

    /// The position in the cache of the delta from this epoch to the newest.
    fn encoded(&mut self, have: MapEpoch) -> usize {
        let epoch = self.map().epoch();
        // Zero is also used for epochs that are too old for the history.
        let since = if self.maps.history.knows(have) { have } else { MapEpoch(0) };
        let found = self.peers.encoded.iter().position(|one| (one.since, one.epoch) == (since, epoch));
        if let Some(at) = found {
            return at;
        }
        let what = self.maps.history.since(since);
        if self.peers.encoded.len() >= ENCODED_MAPS_MAX {
            let oldest = (0..self.peers.encoded.len()).min_by_key(|at| self.peers.encoded[*at].used);
            self.peers.encoded.swap_remove(oldest.unwrap_or(0));
        }
        self.peers.encoded.push(EncodedDelta {
            since: what.since,
            epoch,
            applied_count: self.maps.applied_count,
            bytes: Arc::new(what.encoded),
            used: self.now,
        });
        self.peers.encoded.len() - 1
    }

    fn send_piece(&mut self, to: &Address, at: usize, piece: u32) {
        let one = &mut self.peers.encoded[at];
        one.used = self.now;
        let bytes = Arc::clone(&one.bytes);
        let Some(part) = bytes.chunks(PIECE_BYTES).nth(piece as usize) else { return };
        let of = DeltaPieceId { since: one.since, epoch: one.epoch, piece };
        let news = self.group.news(one.applied_count);
        let pieces = bytes.len().div_ceil(PIECE_BYTES) as u32;
        self.send(to, AgentBody::MapPiece { news, piece: of, pieces, bytes: part.to_vec() });
    }

    /// Sends only the epoch of the map.
    pub(super) fn send_epoch(&mut self, to: &Address, since: MapEpoch) {
        let piece = DeltaPieceId { since, epoch: self.map().epoch(), piece: 0 };
        let news = self.group.news(self.maps.applied_count);
        self.send(to, AgentBody::MapPiece { news, piece, pieces: 0, bytes: Vec::new() });
    }

    /// Sends the newest change to the nodes that have not confirmed the newest map.
    pub(super) fn tick_map_updates(&mut self) {
        if !self.is_leader() {
            self.peers.by.clear();
            self.peers.next = Time::NEVER;
            return;
        }
        if !self.peers.is_due && self.now < self.peers.next {
            return;
        }
        self.peers.is_due = false;
        let map = Arc::clone(self.map());
        let epoch = map.epoch();
        self.peers.by.retain(|node, _| map.node(*node).is_some());
        let mut next = Time::NEVER;
        for node in map.nodes() {
            if Some(node.id()) == self.own_node() || node.state() == NodeState::Down {
                continue;
            }
            let peer = self.peers.by.entry(node.id()).or_default();
            if peer.has >= epoch {
                continue;
            }
            if peer.next > self.now {
                next = next.min(peer.next);
                continue;
            }
            let wait = peer.wait_ms.clamp(RESEND_MS, RESEND_MS_MAX);
            peer.wait_ms = 2 * wait;
            peer.next = self.now.after_ms(wait);
            next = next.min(peer.next);
            let has = match peer.has {
                // Most nodes lack only the newest change.
                MapEpoch(0) => MapEpoch(epoch.get() - 1),
                has => has,
            };
            if let Ok(to) = Address::new(node.manager()) {
                self.send_map_update(&to, has);
            }
        }
        self.peers.next = next;
    }

    /// Sends the delta from an epoch to the newest if it is short, else only the newest epoch.
    fn send_map_update(&mut self, to: &Address, has: MapEpoch) {
        if !self.maps.history.knows(has) && has != MapEpoch(0) {
            return self.send_epoch(to, has);
        }
        let at = self.encoded(has);
        match self.peers.encoded[at].bytes.len() {
            bytes if bytes > PIECE_BYTES => self.send_epoch(to, has),
            _ => self.send_piece(to, at, 0),
        }
    }
}
