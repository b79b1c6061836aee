//! The map that this node follows. Its epoch only rises, and everything in it is decided, as this node's
//! manager or others report. A node that lacks a change fetches it, at once if it knows of a newer map, else
//! periodically.

use std::sync::Arc;

use zerohop_placement::{Address, ClusterMap, MapDelta, MapHistory};
use zerohop_wire::ids::MapEpoch;

use super::message::{AgentBody, ControlGroupNews, PieceOf};
use super::{Agent, AgentEffect};
use crate::limits::PIECE_BYTES;
use zerohop_base::time::Time;

/// Time between two fetches of a node that leaves and waits for others to take over.
const LEAVING_POLL_MS: u64 = 30;
/// Least time between two fetches: a map that changes all the time is not fetched with every change.
const FETCH_LEAST_MS: u64 = 20;
/// Time after which a fetch is considered lost.
const FETCH_LOST_MS: u64 = 250;
/// Least time between two fetches of a node that has heard nothing; at most half as much again.
const POLL_MS: u64 = 1_000;
/// Fetches of one piece that may be lost before the whole fetch restarts.
const PIECE_TRIES: u32 = 4;
/// Fetches lost in a row after which another node than the leader is used.
const LEADER_TRIES: u32 = 2;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Maps {
    pub(super) history: MapHistory,
    /// The map includes at least the effects of so many commands.
    pub(super) mark: u64,
    /// The shell has a map and gets its changes.
    pub(super) is_open: bool,
}

/// The state of fetches from other nodes.
#[derive(Debug, Default)]
pub(super) struct MapFetch {
    pub(super) next: Time,
    last: Time,
    /// Fetches without an answer since the last answered one.
    lost: u32,
    coming: Option<PartialMap>,
    /// A delta could not be applied: the whole map is needed.
    whole: bool,
    is_asked: bool,
}

/// A map or delta that arrives in pieces.
#[derive(Debug)]
struct PartialMap {
    of: PieceOf,
    from: Address,
    bytes: Vec<u8>,
    tries: u32,
}

impl Agent {
    /// Applies a decided change.
    pub(super) fn follow(&mut self, delta: &Arc<MapDelta>) {
        let before = Arc::clone(self.map());
        if delta.to <= self.map().epoch() || self.maps.history.push(delta).is_err() {
            return;
        }
        if self.maps.is_open && !self.has_ended {
            let effect = match delta.is_whole() {
                true => AgentEffect::MapReplaced(Arc::clone(self.map())),
                false => AgentEffect::Map(Arc::clone(delta)),
            };
            self.effects.push(effect);
        }
        self.note_changes(&before, Some(delta));
        self.map_changed(Some(delta));
    }

    /// Replaces the map by a decided one, if that is newer.
    pub(super) fn follow_whole(&mut self, map: &Arc<ClusterMap>) {
        if map.epoch() <= self.map().epoch() {
            return;
        }
        let before = Arc::clone(self.map());
        self.maps.history = MapHistory::new(Arc::clone(map));
        if self.maps.is_open && !self.has_ended {
            self.effects.push(AgentEffect::MapReplaced(Arc::clone(map)));
        }
        self.note_changes(&before, None);
        self.map_changed(None);
    }

    fn map_changed(&mut self, delta: Option<&MapDelta>) {
        self.peers.is_due = true;
        self.look_for_own_place();
        self.note_recovering(delta);
        self.answer_operators_who_wait();
    }

    /// Schedules a fetch, because another node has a newer map.
    pub(super) fn fetch_soon(&mut self) {
        let at = self.fetch.last.after_ms(FETCH_LEAST_MS).max(self.now);
        self.fetch.next = self.fetch.next.min(at);
    }

    pub(super) fn pass_time_fetching(&mut self) {
        if self.now < self.fetch.next {
            return;
        }
        if self.leads() && self.cluster_is_known() {
            // No other node has a newer map than the leader.
            self.fetch_done();
            return;
        }
        if self.fetch.is_asked {
            self.fetch.lost += 1;
        }
        self.fetch.is_asked = true;
        self.fetch.last = self.now;
        self.fetch.next = self.now.after_ms(FETCH_LOST_MS);
        if let Some(coming) = &mut self.fetch.coming {
            coming.tries += 1;
            if coming.tries <= PIECE_TRIES {
                return self.fetch_piece();
            }
            self.fetch.coming = None;
        }
        let to = match self.fetch.lost < LEADER_TRIES {
            true => self.ask_whom(),
            false => self.ask_another(),
        };
        if let Some(to) = to {
            let have = if self.fetch.whole { MapEpoch(0) } else { self.map().epoch() };
            self.send(
                &to,
                AgentBody::MapWanted { node: self.own_node(), have, piece: None, only_told: false },
            );
        }
    }

    /// Fetches the next piece of the map or delta that is arriving.
    fn fetch_piece(&mut self) {
        let Some(coming) = &self.fetch.coming else { return };
        let (to, piece) = (coming.from.clone(), Some(coming.of));
        let (node, have) = (self.own_node(), self.map().epoch());
        self.send(&to, AgentBody::MapWanted { node, have, piece, only_told: false });
    }

    fn fetch_done(&mut self) {
        self.fetch.coming = None;
        self.fetch.is_asked = false;
        self.fetch.lost = 0;
        let wait = match self.is_leaving() {
            // The leader sends no changes to a node that is down in the map.
            true => LEAVING_POLL_MS,
            false => self.stream.between(POLL_MS, POLL_MS + POLL_MS / 2),
        };
        self.fetch.next = self.now.after_ms(wait);
    }

    /// A piece has arrived, requested or not.
    pub(super) fn take_piece(
        &mut self,
        from: &Address,
        news: &ControlGroupNews,
        (piece, pieces): (PieceOf, u32),
        bytes: Vec<u8>,
    ) {
        self.hear(news);
        self.heard_news(from, news);
        let epoch = self.map().epoch();
        if piece.epoch <= epoch && !self.fetch.whole {
            // The sender had no newer map at that mark, so this map includes as much.
            self.maps.mark = self.maps.mark.max(news.mark);
            self.fetch_done();
            if pieces > 0 {
                self.tell_held(from);
            }
            return;
        }
        if pieces == 0 {
            return self.fetch_soon();
        }
        if pieces == 1 {
            return self.take_delta(from, news.mark, piece, &bytes);
        }
        let is_next =
            self.fetch.coming.as_ref().is_some_and(|coming| coming.of == piece && coming.from == *from);
        if !is_next && piece.piece != 0 {
            return;
        }
        if piece.piece == 0 {
            let of = PieceOf { piece: 0, ..piece };
            self.fetch.coming = Some(PartialMap { of, from: from.clone(), bytes: Vec::new(), tries: 0 });
        }
        let Some(coming) = &mut self.fetch.coming else { return };
        if coming.bytes.len() != piece.piece as usize * PIECE_BYTES {
            self.fetch.coming = None;
            return;
        }
        coming.bytes.extend_from_slice(&bytes);
        coming.of.piece += 1;
        coming.tries = 0;
        if coming.of.piece < pieces {
            self.fetch.last = self.now;
            self.fetch.next = self.now.after_ms(FETCH_LOST_MS);
            return self.fetch_piece();
        }
        if let Some(coming) = self.fetch.coming.take() {
            self.take_delta(from, news.mark, coming.of, &coming.bytes);
        }
    }

    fn take_delta(&mut self, from: &Address, mark: u64, of: PieceOf, bytes: &[u8]) {
        let delta =
            MapDelta::decode(bytes).ok().filter(|delta| (delta.from, delta.to) == (of.since, of.epoch));
        let Some(delta) = delta else {
            self.counters.malformed += 1;
            return;
        };
        if !delta.is_whole() && delta.from != self.map().epoch() {
            // A change before it was lost.
            return self.fetch_soon();
        }
        let to = delta.to;
        self.follow(&Arc::new(delta));
        if self.map().epoch() < to {
            // The delta does not apply to the map here, although its epochs fit: the map here is wrong.
            self.counters.malformed += 1;
            self.fetch.whole = true;
            return self.fetch_soon();
        }
        self.fetch.whole = false;
        self.maps.mark = self.maps.mark.max(mark);
        self.fetch_done();
        self.tell_held(from);
    }

    /// Reports the epoch that this node has, so that the leader does not send it again.
    fn tell_held(&mut self, to: &Address) {
        let (node, have) = (self.own_node(), self.map().epoch());
        if node.is_some() {
            self.send(to, AgentBody::MapWanted { node, have, piece: None, only_told: true });
        }
    }
}
