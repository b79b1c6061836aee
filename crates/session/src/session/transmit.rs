//! From a connection's queue to its bytes: the session numbers, packs and encodes operations.

use bytes::Bytes;
use zerohop_wire::ids::{KeyspaceId, PartitionId, Timestamp};
use zerohop_wire::limits::{BATCH_ITEMS_MAX, BODY_BYTES_MAX, TIME_OUT_MS_MAX};
use zerohop_wire::messages::{
    Admin, ChunkList, Compare, Message, OperationBatch, RecordOperation as WireOperation, Scan,
    SnapshotRequest, StageBytes, Stamp, Transact,
};
use zerohop_wire::{Elements, Envelope, Failure, FrameKind};

use super::coalesced_frame::{CoalescedRequest, address_of};
use super::connection_table::ConnectionTable;
use super::numbering::{NumberWait, WriteNumbering};
use super::operation_table::OperationTable;
use crate::connection::ConnectionPhase;
use crate::effect::SessionEffect;
use crate::in_flight_frame::{FrameContents, request_id};
use crate::limits::{BATCH_FIELDS_BYTES, COALESCED_REQUEST_BYTES_MAX, WAIT_GRACE_US};
use crate::operation::{OpenOperation, OperationState};
use crate::request_kind::{PointMessage, RequestKind, unpack};
use crate::slots::Handle;
use crate::timers::Timers;
use zerohop_base::time::Time;

/// An operation with its keyspace and partition.
type PlacedOperation = (KeyspaceId, PartitionId, Handle);

/// Writes the frames of one connection: the parts of the session that this needs.
#[derive(Debug)]
pub(super) struct Transmitter<'s, T> {
    pub(super) now: Time,
    /// The position of the connection.
    pub(super) index: u32,
    /// The highest timestamp that the session has seen.
    pub(super) seen: Timestamp,
    /// Time limit of a request for a session.
    pub(super) attempt_us: u64,
    pub(super) operations: &'s mut OperationTable<T>,
    pub(super) connections: &'s mut ConnectionTable,
    pub(super) numbering: &'s mut WriteNumbering,
    pub(super) timers: &'s mut Timers,
    pub(super) effects: &'s mut Vec<SessionEffect<T>>,
    /// The buffer in which batches are encoded.
    pub(super) packed: &'s mut Vec<u8>,
    /// Operations that no frame can carry.
    pub(super) refused: Vec<(Handle, Failure<'static>)>,
}

impl<T> Transmitter<'_, T> {
    /// Sends the operations of the connection that can be sent now. Returns those that no frame can carry.
    pub(super) fn transmit(mut self) -> Vec<(Handle, Failure<'static>)> {
        let Self { now, index, .. } = self;
        let connection = self.connections.existing(index);
        if connection.phase == ConnectionPhase::Ready {
            let collected = if connection.collected.is_due(now) { connection.collected.len() } else { 0 };
            // A single request has no other request to share a frame with.
            let gathers = connection.protocol.accepts_coalesced && collected + connection.queue.len() > 1;
            if collected > 0 {
                self.send_collected(gathers);
            }
            while self.connections.may_send_more(index)
                && let Some(handle) = self.connections.existing(index).queue.pop_front()
            {
                if self.operations.waits_at(handle, index) {
                    self.send_one(handle, gathers);
                }
            }
        }
        self.emit_output(Bytes::new());
        self.refused
    }

    /// Whether these operations request read locks: all or none of them, because one reply answers them together.
    fn want_read_locks(&self, handles: &[Handle]) -> bool {
        self.connections.supports_read_locks(self.index) && self.operations.want_read_locks(handles)
    }

    /// Sends one operation in a frame of its own, or lets it wait for its number.
    fn send_one(&mut self, handle: Handle, gathers: bool) {
        let Some(stamp) = self.stamp(handle) else { return };
        self.send_stamped(handle, stamp, gathers);
    }

    fn send_stamped(&mut self, handle: Handle, stamp: Stamp, gathers: bool) {
        if gathers && self.coalesce_operation(handle, &stamp) {
            return;
        }
        let Some(operation) = self.operations.get(handle) else { return };
        let mut envelope = Envelope {
            keyspace: operation.keyspace(),
            partition: operation.partition.unwrap_or_default(),
            partition_epoch: operation.epoch,
            time_out_ms: time_out_ms(self.now, operation),
            read_lock: self.want_read_locks(&[handle]),
            ..Envelope::default()
        };
        let in_flight =
            self.connections.register_frame(self.now, self.index, FrameContents::One(handle), self.timers);
        envelope.request = request_id(in_flight, 0);
        if let Err(failure) = self.encode_one(handle, &envelope, stamp) {
            // The operation exceeds a limit that packing does not check: that of a frame.
            self.connections.take_frame(in_flight);
            return self.refused.push((handle, failure));
        }
        self.operations.record_sent(self.now, handle, in_flight, self.timers);
    }

    fn encode_one(
        &mut self,
        handle: Handle,
        envelope: &Envelope,
        stamp: Stamp,
    ) -> Result<(), Failure<'static>> {
        let seen = self.seen;
        // These are references to the same bytes, so that a large tail can be sent without a copy.
        let query = match self.operations.get(handle) {
            Some(operation) => operation.request.clone(),
            None => return Ok(()),
        };
        let message = match &query {
            RequestKind::Record { item, .. } => match unpack(item) {
                WireOperation::Read(read) => Message::Read { seen, read },
                WireOperation::Write(write) => Message::Write { stamp, write },
            },
            RequestKind::Scan { cursor, prefix, keys_max, blobs, range, .. } => {
                let (keys_max, blobs, range) = (*keys_max, *blobs, range.as_wire());
                Message::Scan(Scan { seen, cursor, prefix, keys_max, blobs, range })
            }
            RequestKind::Chunks { cursor, name, numbers: (first, end), numbers_max, .. } => {
                let (first, end, numbers_max) = (*first, *end, *numbers_max);
                Message::Chunks(ChunkList { seen, name, first, end, cursor, numbers_max })
            }
            RequestKind::Changes { query, .. } => Message::Changes(query.as_wire(seen)),
            RequestKind::Compare { from, .. } => Message::Compare(Compare { from }),
            RequestKind::Snapshot { kind, body, .. } => match Message::decode_body(*kind, body)? {
                Message::Snapshot(snapshot) => Message::Snapshot(SnapshotRequest { seen, ..snapshot }),
                other => other,
            },
            RequestKind::Admin { encoded } => Message::Admin(Admin { encoded }),
            RequestKind::Point { what: PointMessage::Transact, bytes, .. } => {
                Message::Transact(Transact { stamp, parts: bytes })
            }
            RequestKind::Point { what: PointMessage::StageItem | PointMessage::Stage, bytes, .. } => {
                Message::Stage(StageBytes { stamp, piece: bytes })
            }
            RequestKind::Keyspace { .. } => return Ok(()),
        };
        let (out, encoder) = self.connections.buffer(self.index);
        let tail = encoder.encode_split(envelope, &message, out)?;
        let whole = match &query {
            RequestKind::Record { item: whole, .. }
            | RequestKind::Admin { encoded: whole }
            | RequestKind::Point { bytes: whole, .. } => Some(whole),
            _ => None,
        };
        if let (Some(whole), [_, ..]) = (whole, tail) {
            let tail = whole.slice_ref(tail);
            self.emit_output(tail);
        } else if !tail.is_empty() {
            let tail = Bytes::copy_from_slice(tail);
            self.emit_output(tail);
        }
        Ok(())
    }

    /// Sends the collected operations: one request for each partition, or several if one would be too long. They are in coalesced frames if the
    /// server supports that.
    fn send_collected(&mut self, gathers: bool) {
        let connection = self.connections.existing(self.index);
        let (handles, bytes_max) = connection.collected.take();

        let mut placed: Vec<PlacedOperation> = Vec::with_capacity(handles.len());
        for handle in handles {
            let Some(operation) = self.operations.get(handle) else { continue };
            if operation.state == (OperationState::Queued { connection: self.index }) {
                let partition = operation.partition.unwrap_or_default();
                placed.push((operation.keyspace(), partition, handle));
            }
        }
        // The sort is stable, so that operations on one partition stay in the order of their submission.
        placed.sort_by_key(|(keyspace, partition, _)| (*keyspace, *partition));
        let is_of_one =
            |(first, last): (&PlacedOperation, &PlacedOperation)| (first.0, first.1) == (last.0, last.1);
        let is_lone = self.connections.existing(self.index).queue.is_empty()
            && placed.first().zip(placed.last()).is_some_and(is_of_one);
        let gathers = gathers && !is_lone;
        let mut left = Vec::new();
        for group in placed.chunk_by(|one, next| (one.0, one.1) == (next.0, next.1)) {
            let mut rest = group;
            while !rest.is_empty() && self.connections.may_send_more(self.index) {
                rest = self.send_batch(rest, (bytes_max, gathers));
            }
            left.extend(rest.iter().map(|(_, _, handle)| *handle));
        }
        if !left.is_empty() {
            // Their time has passed; now they wait for room.
            self.connections.existing(self.index).collected.put_back(left);
        }
    }

    /// Sends the first of these operations on one partition in one request, and returns those that did not fit.
    fn send_batch<'o>(
        &mut self,
        placed: &'o [PlacedOperation],
        (bytes_max, gathers): (usize, bool),
    ) -> &'o [PlacedOperation] {
        // The frame size limits a batch; the caller's limit only decides when it is sent.
        let limit = bytes_max.clamp(BODY_BYTES_MAX / 4, BODY_BYTES_MAX - BATCH_FIELDS_BYTES);
        let mut packed = std::mem::take(self.packed);
        packed.clear();
        let mut batch_handles: Vec<Handle> = Vec::with_capacity(placed.len().min(BATCH_ITEMS_MAX as usize));
        let mut first: Option<Stamp> = None;
        let mut used = 0;
        let mut time_out = 0;
        for (_, _, handle) in placed {
            let Some(operation) = self.operations.get(*handle) else {
                used += 1;
                continue;
            };
            let RequestKind::Record { item, write, .. } = &operation.request else { break };
            let full = batch_handles.len() == BATCH_ITEMS_MAX as usize || packed.len() + item.len() > limit;
            if full && !batch_handles.is_empty() {
                break;
            }
            used += 1;
            let (item, write, requested) = (item.clone(), *write, time_out_ms(self.now, operation));
            if write {
                match self.stamp(*handle) {
                    Some(stamp) => first = first.or(Some(stamp)),
                    None => continue,
                }
            }
            time_out = time_out.max(requested);
            packed.extend_from_slice(&item);
            batch_handles.push(*handle);
        }
        match *batch_handles {
            [] => {}
            [only] => {
                let stamp = first.unwrap_or_default();
                self.send_stamped(only, stamp, gathers);
            }
            _ => {
                // A batch of reads also carries the highest timestamp that the session has seen.
                let stamp = Stamp { seen: self.seen, ..first.unwrap_or_default() };
                match gathers && packed.len() <= COALESCED_REQUEST_BYTES_MAX {
                    true => self.coalesce_batch(batch_handles, &packed, (stamp, time_out)),
                    false => self.send_packed(batch_handles, &packed, (stamp, time_out)),
                }
            }
        }
        *self.packed = packed;
        &placed[used..]
    }

    /// Adds an operation to the open frame, or to a new one. Returns whether it did. A long operation, or one that is not an operation on a record,
    /// gets a frame of its own. So does a wait, because its time-out is a field of the request itself.
    fn coalesce_operation(&mut self, handle: Handle, stamp: &Stamp) -> bool {
        let Some(operation) = self.operations.get(handle) else { return false };
        let RequestKind::Record { item, write, wait: false, .. } = &operation.request else { return false };
        if item.len() > COALESCED_REQUEST_BYTES_MAX {
            return false;
        }
        let (item, write) = (item.clone(), *write);
        let Some((kind, body)) = WireOperation::of_packed(&item) else { return false };
        let (place, time_out_ms) = (address_of(operation), time_out_ms(self.now, operation));
        let read_lock = self.want_read_locks(&[handle]);
        let request = CoalescedRequest { place, kind, time_out_ms, read_lock };
        let (contents, timers) = (FrameContents::One(handle), &mut *self.timers);
        let in_flight = match write {
            true => {
                let Ok(head) = stamp.encode() else { return false };
                self.connections.add_coalesced(self.now, self.index, request, (&head, body), contents, timers)
            }
            false => {
                let head = self.seen.0.to_le_bytes();
                self.connections.add_coalesced(self.now, self.index, request, (&head, body), contents, timers)
            }
        };
        self.operations.record_sent(self.now, handle, in_flight, self.timers);
        true
    }

    /// Same as [`Self::coalesce_operation`], for a batch.
    fn coalesce_batch(
        &mut self,
        batch_handles: Vec<Handle>,
        packed: &[u8],
        (stamp, time_out_ms): (Stamp, u32),
    ) {
        let Some(operation) = batch_handles.first().and_then(|handle| self.operations.get(*handle)) else {
            return;
        };
        let place = address_of(operation);
        let head = OperationBatch::encode_head(&stamp, batch_handles.len() as u32)
            .expect("stamps are made as they should be");
        let contents = FrameContents::Batch(batch_handles.clone());
        let (kind, read_lock) = (FrameKind::Batch.number(), self.want_read_locks(&batch_handles));
        let request = CoalescedRequest { place, kind, time_out_ms, read_lock };
        let timers = &mut *self.timers;
        let in_flight =
            self.connections.add_coalesced(self.now, self.index, request, (&head, packed), contents, timers);
        for handle in batch_handles {
            self.operations.record_sent(self.now, handle, in_flight, self.timers);
        }
    }

    fn send_packed(&mut self, batch_handles: Vec<Handle>, packed: &[u8], (stamp, time_out_ms): (Stamp, u32)) {
        let Some(operation) = batch_handles.first().and_then(|handle| self.operations.get(*handle)) else {
            return;
        };
        let mut envelope = Envelope {
            keyspace: operation.keyspace(),
            partition: operation.partition.unwrap_or_default(),
            partition_epoch: operation.epoch,
            time_out_ms,
            read_lock: self.want_read_locks(&batch_handles),
            ..Envelope::default()
        };
        let operations =
            Elements::packed(batch_handles.len() as u32, packed).expect("it was packed item by item");
        let in_flight = self.connections.register_frame(
            self.now,
            self.index,
            FrameContents::Batch(batch_handles.clone()),
            self.timers,
        );
        envelope.request = request_id(in_flight, 0);
        self.connections
            .write(self.index, &envelope, &Message::Batch(OperationBatch { stamp, operations }))
            .expect("a batch was kept within what a frame holds");
        for handle in batch_handles {
            self.operations.record_sent(self.now, handle, in_flight, self.timers);
        }
    }

    /// The write identity of a write, with a newly assigned number if it has none; that of a read is empty. `None`: the write waits for a session,
    /// or for room in its partition's window.
    fn stamp(&mut self, handle: Handle) -> Option<Stamp> {
        let operation = self.operations.get_mut(handle)?;
        match self.numbering.stamp(self.now, self.seen, handle, operation) {
            Ok(stamp) => Some(stamp),
            Err(NumberWait::Session) => {
                self.numbering.request_session(
                    self.now,
                    self.index,
                    self.attempt_us,
                    self.connections,
                    self.timers,
                );
                None
            }
            Err(NumberWait::Window) => None,
        }
    }

    /// Passes the output so far to the shell, followed by `tail`.
    fn emit_output(&mut self, tail: Bytes) {
        if let Some((connection, head)) = self.connections.take_output(self.index, &tail) {
            self.effects.push(SessionEffect::Send { connection, head, tail });
        }
    }
}

/// How long the server may take: the remaining time until the operation's deadline.
fn time_out_ms<T>(now: Time, operation: &OpenOperation<T>) -> u32 {
    let grace_us = if operation.is_wait() { WAIT_GRACE_US } else { 0 };
    let remaining_us = operation.deadline.since_us(now.after_us(grace_us));
    u32::try_from(remaining_us / 1000).unwrap_or(u32::MAX).clamp(1, TIME_OUT_MS_MAX)
}
