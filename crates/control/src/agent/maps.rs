//! The map that this node follows. Its epoch only rises, and everything in it is decided, as this node's
//! manager or others report. A node that lacks a change fetches it, at once if it knows of a newer map, else
//! periodically.

use std::sync::Arc;

use zerohop_placement::{Address, ClusterMap, MapDelta, MapHistory};
use zerohop_wire::ids::MapEpoch;

use super::message::{AgentBody, ControlGroupNews, DeltaPieceId};
use super::{Agent, AgentEffect};
use crate::limits::PIECE_BYTES;
use zerohop_base::time::Time;

/// Time between two fetches of a node that leaves and waits for others to take over.
const LEAVING_POLL_MS: u64 = 30;
/// Least time between two fetches: a map that changes all the time is not fetched with every change.
const FETCH_LEAST_MS: u64 = 20;
/// Time after which a fetch is considered lost.
const FETCH_TIME_OUT_MS: u64 = 250;
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
    pub(super) applied_count: u64,
    /// The shell has a map and gets its changes.
    pub(super) is_open: bool,
}

/// The state of fetches from other nodes.
#[derive(Debug, Default)]
pub(super) struct MapFetch {
    pub(super) next: Time,
    last: Time,
    /// Fetches without an answer since the last answered one.
    unanswered: u32,
    coming: Option<PartialMap>,
    /// A delta could not be applied: the whole map is needed.
    needs_complete_map: bool,
    is_requested: bool,
}

/// A map or delta that arrives in pieces.
#[derive(Debug)]
struct PartialMap {
    of: DeltaPieceId,
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
            let effect = match delta.is_complete() {
                true => AgentEffect::MapReplaced(Arc::clone(self.map())),
                false => AgentEffect::Map(Arc::clone(delta)),
            };
            self.effects.push(effect);
        }
        self.log_changes(&before, Some(delta));
        self.map_changed(Some(delta));
    }

    /// Replaces the map by a decided one, if that is newer.
    pub(super) fn replace_map(&mut self, map: &Arc<ClusterMap>) {
        if map.epoch() <= self.map().epoch() {
            return;
        }
        let before = Arc::clone(self.map());
        self.maps.history = MapHistory::new(Arc::clone(map));
        if self.maps.is_open && !self.has_ended {
            self.effects.push(AgentEffect::MapReplaced(Arc::clone(map)));
        }
        self.log_changes(&before, None);
        self.map_changed(None);
    }

    fn map_changed(&mut self, delta: Option<&MapDelta>) {
        self.peers.is_due = true;
        self.check_own_entry();
        self.update_recovering(delta);
        self.answer_waiting_operators();
    }

    /// Schedules a fetch, because another node has a newer map.
    pub(super) fn fetch_soon(&mut self) {
        let at = self.fetch.last.after_ms(FETCH_LEAST_MS).max(self.now);
        self.fetch.next = self.fetch.next.min(at);
    }

    pub(super) fn tick_fetch(&mut self) {
        if self.now < self.fetch.next {
            return;
        }
        if self.is_leader() && self.cluster_is_known() {
            // No other node has a newer map than the leader.
            self.fetch_done();
            return;
        }
        if self.fetch.is_requested {
            self.fetch.unanswered += 1;
        }
        self.fetch.is_requested = true;
        self.fetch.last = self.now;
        self.fetch.next = self.now.after_ms(FETCH_TIME_OUT_MS);
        if let Some(coming) = &mut self.fetch.coming {
            coming.tries += 1;
            if coming.tries <= PIECE_TRIES {
                return self.fetch_piece();
            }
            self.fetch.coming = None;
        }
        let to = match self.fetch.unanswered < LEADER_TRIES {
            true => self.proposal_target(),
            false => self.another_target(),
        };
        if let Some(to) = to {
            let have = if self.fetch.needs_complete_map { MapEpoch(0) } else { self.map().epoch() };
            self.send(
                &to,
                AgentBody::MapRequest { node: self.own_node(), have, piece: None, is_confirmation: false },
            );
        }
    }

    /// Fetches the next piece of the map or delta that is arriving.
    fn fetch_piece(&mut self) {
        let Some(coming) = &self.fetch.coming else { return };
        let (to, piece) = (coming.from.clone(), Some(coming.of));
        let (node, have) = (self.own_node(), self.map().epoch());
        self.send(&to, AgentBody::MapRequest { node, have, piece, is_confirmation: false });
    }

    fn fetch_done(&mut self) {
        self.fetch.coming = None;
        self.fetch.is_requested = false;
        self.fetch.unanswered = 0;
        let wait = match self.is_leaving() {
            // The leader sends no changes to a node that is down in the map.
            true => LEAVING_POLL_MS,
            false => self.stream.between(POLL_MS, POLL_MS + POLL_MS / 2),
        };
        self.fetch.next = self.now.after_ms(wait);
    }

    /// A piece has arrived, requested or not.
    pub(super) fn handle_map_piece(
        &mut self,
        from: &Address,
        news: &ControlGroupNews,
        (piece, pieces): (DeltaPieceId, u32),
        bytes: Vec<u8>,
    ) {
        self.apply_news(news);
        self.record_news(from, news);
        let epoch = self.map().epoch();
        if piece.epoch <= epoch && !self.fetch.needs_complete_map {
            // The sender had no newer map at that mark, so this map includes as much.
            self.maps.applied_count = self.maps.applied_count.max(news.applied_count);
            self.fetch_done();
            if pieces > 0 {
                self.confirm_epoch(from);
            }
            return;
        }
        if pieces == 0 {
            return self.fetch_soon();
        }
        if pieces == 1 {
            return self.handle_delta(from, news.applied_count, piece, &bytes);
        }
        let is_next =
            self.fetch.coming.as_ref().is_some_and(|coming| coming.of == piece && coming.from == *from);
        if !is_next && piece.piece != 0 {
            return;
        }
        if piece.piece == 0 {
            let of = DeltaPieceId { piece: 0, ..piece };
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
            self.fetch.next = self.now.after_ms(FETCH_TIME_OUT_MS);
            return self.fetch_piece();
        }
        if let Some(coming) = self.fetch.coming.take() {
            self.handle_delta(from, news.applied_count, coming.of, &coming.bytes);
        }
    }

    fn handle_delta(&mut self, from: &Address, mark: u64, of: DeltaPieceId, bytes: &[u8]) {
        let delta =
            MapDelta::decode(bytes).ok().filter(|delta| (delta.from, delta.to) == (of.since, of.epoch));
        let Some(delta) = delta else {
            self.counters.malformed += 1;
            return;
        };
        if !delta.is_complete() && delta.from != self.map().epoch() {
            // A change before it was lost.
            return self.fetch_soon();
        }
        let to = delta.to;
        self.follow(&Arc::new(delta));
        if self.map().epoch() < to {
            // The delta does not apply to the map here, although its epochs fit: the map here is wrong.
            self.counters.malformed += 1;
            self.fetch.needs_complete_map = true;
            return self.fetch_soon();
        }
        self.fetch.needs_complete_map = false;
        self.maps.applied_count = self.maps.applied_count.max(mark);
        self.fetch_done();
        self.confirm_epoch(from);
    }

    /// Reports the epoch that this node has, so that the leader does not send it again.
    fn confirm_epoch(&mut self, to: &Address) {
        let (node, have) = (self.own_node(), self.map().epoch());
        if node.is_some() {
            self.send(to, AgentBody::MapRequest { node, have, piece: None, is_confirmation: true });
        }
    }
}
