//! All connections of a reactor: their states, their shared resources, and the queueing of answers.

use std::io::{ErrorKind, IoSlice};
use std::ops::RangeInclusive;

use zerohop_wire::auth::Access;
use zerohop_wire::ids::PartitionEpoch;
use zerohop_wire::{Envelope, Failure, Message, Tail};

use super::connection::{Connection, ConnectionStage};
use super::counters::{CloseReason, ReactorCounters};
use super::driver::{ConnectionId, Driver};
use super::limits::{
    KEPT_BUFFER_BYTES_MAX, KEPT_BYTES_MAX, KEPT_LARGE_BYTES_MAX, LARGE_BUFFER_STEP_BYTES, Limits, PIECES_MAX,
    SEND_BYTES,
};
use super::waiting::{self, WaitingLoad, WaitingShares};
use crate::proofs::Proofs;
use crate::unauthenticated::{Origin, UnprovenBounds, UnprovenConnections};

/// The table of connections, and the totals over all of them.
#[derive(Debug)]
pub(super) struct Connections {
    slots: Vec<ConnectionSlot>,
    /// Free slots, with the last freed one on top.
    free: Vec<u32>,
    pub(super) open: usize,
    /// The unauthenticated connections: their greeting or their proof is not complete.
    pub(super) unproven: UnprovenConnections<ConnectionId>,
    /// The cluster's secret, if there is one: both sides prove that they know it.
    pub(super) proofs: Option<Proofs>,
    /// Connections with bytes to send, or to close, at the end of the batch; each once.
    pub(super) dirty: Vec<ConnectionId>,
    pub(super) unsent_total: usize,
    pub(super) large_total: usize,
    /// The memory in use for all of them.
    waiting: WaitingShares,
    pub(super) buffers: Buffers,
    pub(super) counters: ReactorCounters,
    pub(super) limits: Limits,
}

#[derive(Debug, Default)]
struct ConnectionSlot {
    generation: u32,
    connection: Option<Connection>,
}

/// Empty buffers for reuse: a connection has a buffer only while it stores bytes in it.
#[derive(Debug, Default)]
pub(super) struct Buffers {
    kept: Vec<Vec<u8>>,
    kept_bytes: usize,
    /// Buffers larger than [`KEPT_BUFFER_BYTES_MAX`].
    large: Vec<Vec<u8>>,
    large_bytes: usize,
}

impl Connections {
    pub(super) fn new(limits: Limits) -> Self {
        let bounds =
            UnprovenBounds { all_max: limits.unproven_max, origin_max: limits.unproven_per_address_max };
        let of_token = WaitingLoad { bytes: limits.token_waiting_bytes_max, waits: limits.token_waits_max };
        let waiting = waiting::WaitingBounds { bytes_max: limits.waiting_bytes_max, of_token };
        Connections {
            slots: Vec::new(),
            free: Vec::new(),
            open: 0,
            unproven: UnprovenConnections::new(bounds),
            proofs: None,
            dirty: Vec::new(),
            unsent_total: 0,
            large_total: 0,
            waiting: WaitingShares::new(waiting),
            buffers: Buffers::default(),
            counters: ReactorCounters::default(),
            limits,
        }
    }

    /// The id of the next connection.
    pub(super) fn next_id(&mut self) -> ConnectionId {
        if self.free.is_empty() {
            self.free.push(self.slots.len() as u32);
            self.slots.push(ConnectionSlot::default());
        }
        let slot = self.free[self.free.len() - 1];
        ConnectionId { slot, generation: self.slots[slot as usize].generation }
    }

    /// Adds a connection under the last id of [`Connections::next_id`].
    pub(super) fn open(&mut self, id: ConnectionId, connection: Connection) {
        let slot = self.free.pop();
        assert!(slot == Some(id.slot), "a connection was opened under a name that is not the next");
        self.slots[id.slot as usize].connection = Some(connection);
        self.open += 1;
    }

    /// Adds a connection that a client has opened.
    pub(super) fn open_unproven(&mut self, id: ConnectionId, origin: Origin, connection: Connection) {
        let unproven = Some(self.unproven.enter(id, origin));
        self.open(id, Connection { unproven_slot: unproven, ..connection });
    }

    /// Number of authenticated connections.
    pub(super) fn authenticated_count(&self) -> usize {
        self.open - self.unproven.count()
    }

    /// Records that a connection is now authenticated.
    pub(super) fn set_authenticated(&mut self, id: ConnectionId) {
        if let Some(connection) = self.get_mut(id) {
            let place = connection.unproven_slot.take();
            place.into_iter().for_each(|place| self.unproven.leave(place));
        }
    }

    /// Removes a connection. Its id is never reused.
    pub(super) fn remove(&mut self, id: ConnectionId, why: CloseReason) -> bool {
        let Some(slot) = self.slots.get_mut(id.slot as usize).filter(|slot| slot.generation == id.generation)
        else {
            return false;
        };
        let Some(mut connection) = slot.connection.take() else { return false };
        slot.generation = slot.generation.wrapping_add(1);
        self.unsent_total -= connection.unsent();
        self.large_total -= connection.large_bytes;
        self.waiting.change(connection.access, connection.load, WaitingLoad::default());
        connection.unproven_slot.take().into_iter().for_each(|place| self.unproven.leave(place));
        self.buffers.give(std::mem::take(&mut connection.out));
        self.buffers.give(connection.received.empty());
        self.free.push(id.slot);
        self.open -= 1;
        self.counters.count_ending(why);
        true
    }

    pub(super) fn get(&self, id: ConnectionId) -> Option<&Connection> {
        let slot = self.slots.get(id.slot as usize)?;
        slot.connection.as_ref().filter(|_| slot.generation == id.generation)
    }

    pub(super) fn get_mut(&mut self, id: ConnectionId) -> Option<&mut Connection> {
        let slot = self.slots.get_mut(id.slot as usize)?;
        slot.connection.as_mut().filter(|_| slot.generation == id.generation)
    }

    /// Iterates over all open connections.
    pub(super) fn iter(&self) -> impl Iterator<Item = (ConnectionId, &Connection)> {
        (0..).zip(&self.slots).filter_map(|(slot, entry)| {
            let id = ConnectionId { slot, generation: entry.generation };
            entry.connection.as_ref().map(|connection| (id, connection))
        })
    }

    /// Queues a frame to a connection, which is written at the end of the batch. A large payload is sent at once without a copy, after the bytes
    /// that were queued before it. A message that cannot be encoded is replaced by the failure.
    pub(super) fn queue(
        &mut self,
        driver: &mut dyn Driver,
        id: ConnectionId,
        envelope: &Envelope,
        message: &Message<'_>,
        now_ms: u64,
    ) {
        let Some((connection, before)) = open_for_sending(&mut self.slots, &mut self.buffers, id, now_ms)
        else {
            return;
        };
        let Connection { encoder, is_coalescing: gathering, out, accepts_coalesced: gathers, .. } =
            connection;
        let is_answer =
            matches!(message, Message::Answer(_) | Message::BatchAnswer(_) | Message::Transacted(_));
        let written = match *gathers && is_answer {
            true => gathering.add(encoder, envelope, message, out),
            false => {
                gathering.close(encoder, out);
                encoder.encode_multi_buffer(envelope, message, out)
            }
        };
        match written {
            Ok(tail) if tail.is_empty() => {}
            Ok(tail) => {
                self.counters.writes += 1;
                self.counters.bytes_out +=
                    write_through(driver, id, (connection, &mut self.buffers), tail, now_ms) as u64;
            }
            Err(failure) => {
                gathering.close(encoder, out);
                let answer = Message::Answer(Err(failure));
                let encoded = encoder.encode(envelope, &answer, out);
                assert!(encoded.is_ok(), "an error without a payload always fits a frame");
            }
        }
        let is_much = connection.writable && connection.unsent() >= SEND_BYTES;
        if is_much {
            connection.close_frame();
        }
        self.queued(id, before);
        if is_much {
            self.write(driver, id, now_ms);
        }
    }

    /// Queues bytes that are not a frame, and empties `bytes`: they are not copied if nothing else is queued.
    pub(super) fn queue_all(&mut self, id: ConnectionId, bytes: &mut Vec<u8>, now_ms: u64) {
        if let Some((connection, before)) = open_for_sending(&mut self.slots, &mut self.buffers, id, now_ms) {
            connection.close_frame();
            if before == 0 {
                connection.out.clear();
                connection.sent = 0;
                std::mem::swap(&mut connection.out, bytes);
            } else {
                connection.out.append(bytes);
            }
            self.queued(id, before);
        }
    }

    /// Queues bytes that are not a frame.
    pub(super) fn queue_bytes(&mut self, id: ConnectionId, bytes: &[u8], now_ms: u64) {
        if let Some((connection, before)) = open_for_sending(&mut self.slots, &mut self.buffers, id, now_ms) {
            connection.close_frame();
            connection.out.extend_from_slice(bytes);
            self.queued(id, before);
        }
    }

    /// Counts the bytes added to a connection that had `before` bytes to send.
    fn queued(&mut self, id: ConnectionId, before: usize) {
        let Some(connection) = self.slots.get_mut(id.slot as usize).and_then(|slot| slot.connection.as_mut())
        else {
            return;
        };
        self.unsent_total = self.unsent_total - before + connection.unsent();
        if connection.unsent() > self.limits.unsent_bytes_end
            || self.unsent_total > self.limits.unsent_bytes_total_max
        {
            connection.doomed.get_or_insert(CloseReason::Flooded);
        }
        if connection.doomed.is_some() {
            // These bytes will not be sent: release their memory at once.
            self.unsent_total -= connection.unsent();
            connection.sent = 0;
            connection.out = Vec::new();
            connection.is_coalescing.reset();
        }
        self.mark_dirty(id);
    }

    /// Has the reactor look at a connection at the end of the batch.
    pub(super) fn mark_dirty(&mut self, id: ConnectionId) {
        if let Some(connection) = self.get_mut(id)
            && !std::mem::replace(&mut connection.dirty, true)
        {
            self.dirty.push(id);
        }
    }

    /// Updates the load of a connection. Returns whether it is within the limits.
    pub(super) fn recount(&mut self, id: ConnectionId) -> bool {
        let slot = self.slots.get_mut(id.slot as usize).filter(|slot| slot.generation == id.generation);
        let Some(connection) = slot.and_then(|slot| slot.connection.as_mut()) else { return true };
        let (before, after) = (connection.load, connection.waiting());
        if before == after {
            return true;
        }
        connection.load = after;
        let fits = self.waiting.change(connection.access, before, after);
        connection.is_crowded = self.waiting.is_crowded(connection.access);
        fits
    }

    /// Whether a connection may have this additional load in optional buffers.
    pub(super) fn may_add_load(&self, id: ConnectionId, more: WaitingLoad) -> bool {
        let Some(connection) = self.get(id) else { return true };
        let now = connection.waiting();
        let after = WaitingLoad { bytes: now.bytes + more.bytes, waits: now.waits + more.waits };
        // Bytes that have arrived since the last count are included.
        self.waiting.may_change_load(connection.access, connection.load, after)
    }

    /// Sets the permissions of a connection.
    pub(super) fn set_access(&mut self, id: ConnectionId, access: Access) {
        let slot = self.slots.get_mut(id.slot as usize).filter(|slot| slot.generation == id.generation);
        let Some(connection) = slot.and_then(|slot| slot.connection.as_mut()) else { return };
        self.waiting.change(connection.access, connection.load, WaitingLoad::default());
        connection.access = access;
        self.waiting.change(access, WaitingLoad::default(), connection.load);
    }

    /// Whether this connection is not read until answers are sent.
    pub(super) fn is_blocked(&self, id: ConnectionId) -> bool {
        self.get(id).is_some_and(|connection| connection.is_blocked(&self.limits, self.unsent_total))
    }

    /// Queues the failure for a frame which never became a request.
    pub(super) fn queue_failure(
        &mut self,
        driver: &mut dyn Driver,
        id: ConnectionId,
        of: &Envelope,
        failure: Failure<'_>,
        now_ms: u64,
    ) {
        self.counters.refused += 1;
        let envelope =
            Envelope { partition_epoch: PartitionEpoch(0), time_out_ms: 0, read_lock: false, ..*of };
        self.queue(driver, id, &envelope, &Message::Answer(Err(failure)), now_ms);
    }

    /// Closes a connection once its queued bytes are sent. Received bytes are discarded.
    pub(super) fn close_gently(&mut self, id: ConnectionId, why: CloseReason, now_ms: u64) {
        self.release_large(id);
        let Some(connection) = self.get_mut(id) else { return };
        if connection.is_closing() {
            return;
        }
        connection.stage = ConnectionStage::Closing(why);
        connection.stage_since_ms = now_ms;
        let buffer = connection.received.empty();
        self.buffers.give(buffer);
        self.mark_dirty(id);
    }

    /// Releases the memory of a large frame that was processed or abandoned.
    pub(super) fn release_large(&mut self, id: ConnectionId) {
        if let Some(connection) = self.get_mut(id) {
            let released = std::mem::take(&mut connection.large_bytes);
            self.large_total -= released;
        }
    }
}

/// A connection that can send, with a buffer, and its number of unsent bytes.
fn open_for_sending<'c>(
    slots: &'c mut [ConnectionSlot],
    buffers: &mut Buffers,
    id: ConnectionId,
    now_ms: u64,
) -> Option<(&'c mut Connection, usize)> {
    let slot = slots.get_mut(id.slot as usize).filter(|slot| slot.generation == id.generation)?;
    let connection = slot.connection.as_mut()?;
    if connection.is_closing() || connection.doomed.is_some() {
        return None;
    }
    if connection.out.capacity() == 0 {
        connection.out = buffers.take();
    }
    let before = connection.unsent();
    if before == 0 {
        connection.send_since_ms = now_ms;
    }
    Some((connection, before))
}

/// Writes the queued bytes and then `tail`, and queues what the system does not accept. Returns the accepted bytes.
fn write_through(
    driver: &mut dyn Driver,
    id: ConnectionId,
    (connection, buffers): (&mut Connection, &mut Buffers),
    tail: Tail<'_>,
    now_ms: u64,
) -> usize {
    let queued = connection.unsent();
    let length = tail.len();
    let mut written = 0;
    if connection.writable {
        let all = std::iter::once(&connection.out[connection.sent..]).chain(tail.pieces().iter().copied());
        let pieces: Vec<IoSlice<'_>> = all.take(PIECES_MAX).map(IoSlice::new).collect();
        let offered: usize = pieces.iter().map(|piece| piece.len()).sum();
        match driver.write(id, &pieces) {
            Ok(bytes) => written = bytes,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(_) => {
                connection.doomed.get_or_insert(CloseReason::Broken);
                return 0;
            }
        }
        if written > 0 {
            connection.send_since_ms = now_ms;
        }
        // This stays true after an interruption: the flush at the end of the batch checks it.
        connection.writable = written == offered || written == 0;
    }
    let mut sent_of_tail = 0;
    if written < queued {
        connection.sent += written;
    } else {
        connection.out.clear();
        connection.sent = 0;
        sent_of_tail = written - queued;
    }
    let all = connection.out.len() + length - sent_of_tail;
    if all > KEPT_BUFFER_BYTES_MAX {
        buffers.move_to_large(&mut connection.out, all..=usize::MAX);
        // The capacity is rounded up, so that the buffer fits the next answer as well. It doubles if large answers follow each other.
        connection.out.reserve(all.next_multiple_of(LARGE_BUFFER_STEP_BYTES) - connection.out.len());
    }
    tail.append(sent_of_tail, &mut connection.out);
    written
}

impl Buffers {
    /// An empty buffer, with capacity if one is kept.
    pub(super) fn take(&mut self) -> Vec<u8> {
        let buffer = self.kept.pop().unwrap_or_default();
        self.kept_bytes -= buffer.capacity();
        buffer
    }

    /// Moves the contents of `buffer` to the shortest kept buffer whose capacity is in `requested`, if `buffer` is shorter and the capacity is that of
    /// a large one.
    pub(super) fn move_to_large(&mut self, buffer: &mut Vec<u8>, requested: RangeInclusive<usize>) {
        if buffer.capacity() >= *requested.start() || *requested.start() <= KEPT_BUFFER_BYTES_MAX {
            return;
        }
        let fits = |(_, large): &(usize, &Vec<u8>)| requested.contains(&large.capacity());
        let shortest = self.large.iter().enumerate().filter(fits).min_by_key(|(_, large)| large.capacity());
        if let Some((at, _)) = shortest {
            let mut large = self.large.swap_remove(at);
            self.large_bytes -= large.capacity();
            large.extend_from_slice(buffer);
            self.give(std::mem::replace(buffer, large));
        }
    }

    /// Keeps a large buffer, if necessary in place of shorter ones.
    fn keep_large(&mut self, buffer: Vec<u8>) {
        let bytes = buffer.capacity();
        while self.large_bytes + bytes > KEPT_LARGE_BYTES_MAX {
            let lengths = self.large.iter().map(Vec::capacity).enumerate();
            match lengths.min_by_key(|(_, bytes)| *bytes) {
                Some((at, shortest)) if shortest < bytes && bytes <= KEPT_LARGE_BYTES_MAX => {
                    self.large_bytes -= shortest;
                    self.large.swap_remove(at);
                }
                _ => return,
            }
        }
        self.large_bytes += bytes;
        self.large.push(buffer);
    }

    /// Returns a buffer, which is kept or freed.
    pub(super) fn give(&mut self, mut buffer: Vec<u8>) {
        let bytes = buffer.capacity();
        buffer.clear();
        if bytes > KEPT_BUFFER_BYTES_MAX {
            return self.keep_large(buffer);
        }
        if bytes == 0 || self.kept_bytes + bytes > KEPT_BYTES_MAX {
            return;
        }
        self.kept_bytes += bytes;
        self.kept.push(buffer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connection_ids_are_unique_despite_slot_reuse() {
        let mut connections = Connections::new(Limits::DEFAULT);
        let first = connections.next_id();
        connections.open(first, Connection::new(0, None));
        assert!(connections.get(first).is_some());
        assert!(
            connections.remove(first, CloseReason::Peer) && !connections.remove(first, CloseReason::Peer)
        );
        let second = connections.next_id();
        connections.open(second, Connection::new(0, None));
        assert_eq!((second.slot, connections.open), (first.slot, 1));
        assert!(connections.get(first).is_none() && connections.get_mut(second).is_some());
        assert_eq!(connections.iter().map(|(id, _)| id).collect::<Vec<_>>(), [second]);
        assert_eq!(connections.counters.ended(CloseReason::Peer), 1);
    }

    #[test]
    fn retained_buffers_are_bounded() {
        let mut buffers = Buffers::default();
        for _ in 0..2 * KEPT_BYTES_MAX / KEPT_BUFFER_BYTES_MAX {
            buffers.give(Vec::with_capacity(KEPT_BUFFER_BYTES_MAX));
        }
        buffers.give(Vec::with_capacity(KEPT_BUFFER_BYTES_MAX + 1));
        assert_eq!(
            (buffers.kept_bytes, buffers.kept.len()),
            (KEPT_BYTES_MAX, KEPT_BYTES_MAX / KEPT_BUFFER_BYTES_MAX)
        );
        assert_eq!(buffers.take().capacity(), KEPT_BUFFER_BYTES_MAX);
        assert_eq!(buffers.kept_bytes, KEPT_BYTES_MAX - KEPT_BUFFER_BYTES_MAX);
        for _ in 0..=KEPT_LARGE_BYTES_MAX >> 20 {
            buffers.give(Vec::with_capacity(1 << 20));
        }
        assert_eq!(buffers.large.len(), KEPT_LARGE_BYTES_MAX >> 20, "the shortest gave way");
        assert_eq!(buffers.large_bytes, KEPT_LARGE_BYTES_MAX);
        buffers.give(Vec::with_capacity(16 << 20));
        assert_eq!((buffers.large.len(), buffers.large_bytes), (5, KEPT_LARGE_BYTES_MAX));
        buffers.give(Vec::with_capacity(KEPT_LARGE_BYTES_MAX + 1));
        assert_eq!((buffers.large.len(), buffers.large_bytes), (5, KEPT_LARGE_BYTES_MAX));
    }

    #[test]
    fn growing_frame_uses_shortest_sufficient_buffer() {
        let mut buffers = Buffers::default();
        for mebibytes in [1, 6, 4] {
            buffers.give(Vec::with_capacity(mebibytes << 20));
        }
        let mut buffer = b"begun".to_vec();
        for expected in [KEPT_BUFFER_BYTES_MAX..=usize::MAX, 7 << 20..=usize::MAX, 2 << 20..=3 << 20] {
            buffers.move_to_large(&mut buffer, expected);
            assert!(buffer.capacity() < KEPT_BUFFER_BYTES_MAX, "a short one, or none that fits");
        }
        buffers.move_to_large(&mut buffer, 3 << 20..=usize::MAX);
        assert_eq!((&buffer[..], buffer.capacity(), buffers.large_bytes), (&b"begun"[..], 4 << 20, 7 << 20));
        let place = buffer.as_ptr();
        buffers.move_to_large(&mut buffer, 4 << 20..=usize::MAX);
        assert_eq!((buffer.as_ptr(), buffers.large.len()), (place, 2), "it has the room already");
        buffers.give(buffer);
        assert_eq!((buffers.large.len(), buffers.large_bytes), (3, 11 << 20));
    }
}
