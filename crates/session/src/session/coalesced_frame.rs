//! Coalesced frames: each request in the frame is the same as in a frame of its own. It is answered, or sent again, separately.
//!
//! The frame is open at the end of the connection's output. The session ends it before it writes anything else there.

use zerohop_wire::ids::{KeyspaceId, PartitionEpoch, PartitionId};
use zerohop_wire::messages::{GatheredRequest, OperationBatch, RecordOperation as WireOperation, Stamp};
use zerohop_wire::{Envelope, Kind};

use super::Session;
use super::transmit::time_out_ms;
use crate::connection::{Connection, OpenFrame};
use crate::in_flight_frame::{Cargo, Gather, request_id};
use crate::limits::{COALESCED_FRAME_BYTES, COALESCED_REQUEST_BYTES_MAX};
use crate::request::RequestKind;
use crate::slots::Handle;
use zerohop_base::time::Time;

impl<T> Session<T> {
    /// Adds an operation to the open frame, or to a new one. Returns whether it did. A long operation, or one that is not an operation on a record,
    /// gets a frame of its own. So does a wait, because its time-out is a field of the request itself.
    pub(super) fn coalesce_operation(
        &mut self,
        now: Time,
        index: u32,
        handle: Handle,
        stamp: &Stamp,
    ) -> bool {
        let Some(operation) = self.operations.get(handle) else { return false };
        let RequestKind::Record { item, write, wait: false, .. } = &operation.request else { return false };
        if item.len() > COALESCED_REQUEST_BYTES_MAX {
            return false;
        }
        let (item, write) = (item.clone(), *write);
        let Some((kind, body)) = WireOperation::of_packed(&item) else { return false };
        let (place, time_out_ms) = (of(operation), time_out_ms(now, operation));
        let hold = self.want_read_locks(index, &[handle]);
        let cargo = Cargo::One(handle);
        let flight = match write {
            true => {
                let Ok(head) = stamp.encode() else { return false };
                self.add(now, index, (place, kind, time_out_ms, hold), (&head, body), cargo)
            }
            false => {
                let head = self.seen.0.to_le_bytes();
                self.add(now, index, (place, kind, time_out_ms, hold), (&head, body), cargo)
            }
        };
        self.record_sent(now, handle, flight);
        true
    }

    /// Same as [`Self::coalesce_operation`], for a batch.
    pub(super) fn coalesce_batch(
        &mut self,
        now: Time,
        index: u32,
        aboard: Vec<Handle>,
        packed: &[u8],
        (stamp, time_out_ms): (Stamp, u32),
    ) {
        let Some(operation) = aboard.first().and_then(|handle| self.operations.get(*handle)) else { return };
        let place = of(operation);
        let head = OperationBatch::encode_head(&stamp, aboard.len() as u32)
            .expect("stamps are made as they should be");
        let cargo = Cargo::Batch(aboard.clone());
        let part = (place, Kind::Batch.number(), time_out_ms, self.want_read_locks(index, &aboard));
        let flight = self.add(now, index, part, (&head, packed), cargo);
        for handle in aboard {
            self.record_sent(now, handle, flight);
        }
    }

    /// Whether the open frame has room for another request of the maximum length.
    pub(super) fn has_room_in_open(&self, connection: &Connection) -> bool {
        let Some(open) = connection.open else { return false };
        let is_full = match self.frames_in_flight.get(open.frame).map(|flight| &flight.cargo) {
            Some(Cargo::Coalesced(gather)) => gather.is_full(),
            _ => true,
        };
        !is_full && connection.out.len() - open.start < COALESCED_FRAME_BYTES
    }

    /// Ends the open frame.
    pub(super) fn end_open(&mut self, index: u32) {
        let Some(connection) = self.connections[index as usize].as_mut() else { return };
        if let Some(OpenFrame { start, frame: flight, time_out_ms }) = connection.open.take() {
            let envelope = Envelope { request: request_id(flight, 0), time_out_ms, ..Envelope::default() };
            connection.encoder.end(start, &envelope, Kind::Gather, &mut connection.out);
        }
    }

    fn add(
        &mut self,
        now: Time,
        index: u32,
        ((keyspace, partition, partition_epoch), kind, time_out_ms, hold): (PartitionAddress, u16, u32, bool),
        (head, rest): (&[u8], &[u8]),
        cargo: Cargo,
    ) -> Handle {
        let has_room =
            self.connections[index as usize].as_ref().is_some_and(|one| self.has_room_in_open(one));
        if !has_room {
            let (out, encoder) = self.buffer(index);
            let start = encoder.begin(out);
            let flight = self.launch(now, index, Cargo::Coalesced(Gather::default()));
            self.connection_mut(index).open = Some(OpenFrame { start, frame: flight, time_out_ms });
        }
        let connection = self.connections[index as usize].as_mut().expect("only what is there is written to");
        let open = connection.open.as_mut().expect("it was opened above");
        open.time_out_ms = open.time_out_ms.max(time_out_ms);
        let request =
            GatheredRequest { keyspace, partition, partition_epoch, kind, read_lock: hold, body: &[] };
        request.put_header(head.len() + rest.len(), &mut connection.out);
        connection.out.extend_from_slice(head);
        connection.out.extend_from_slice(rest);
        let flight = open.frame;
        match self.frames_in_flight.get_mut(flight).map(|flight| &mut flight.cargo) {
            Some(Cargo::Coalesced(gather)) => gather.push(cargo),
            _ => unreachable!("a frame that stands open has not been answered"),
        }
        flight
    }
}

/// The destination of a request.
type PartitionAddress = (KeyspaceId, PartitionId, PartitionEpoch);

fn of<T>(operation: &crate::operation::OpenOperation<T>) -> PartitionAddress {
    (operation.keyspace(), operation.partition.unwrap_or_default(), operation.epoch)
}
