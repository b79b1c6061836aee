//! Coalesced frames: each request in the frame is the same as in a frame of its own. It is answered, or sent again, separately.
//!
//! The frame is open at the end of the connection's output. The session ends it before it writes anything else there.

use zerohop_wire::ids::{KeyspaceId, PartitionEpoch, PartitionId};
use zerohop_wire::messages::GatheredRequest;
use zerohop_wire::{Envelope, FrameKind};

use super::connection_table::ConnectionTable;
use crate::connection::{Connection, OpenFrame};
use crate::in_flight_frame::{FrameContents, Gather, request_id};
use crate::limits::COALESCED_FRAME_BYTES;
use crate::operation::OpenOperation;
use crate::slots::Handle;
use crate::timers::Timers;
use zerohop_base::time::Time;

/// The destination of a request.
type PartitionAddress = (KeyspaceId, PartitionId, PartitionEpoch);

/// A request of a coalesced frame, without its body.
#[derive(Clone, Copy, Debug)]
pub(super) struct CoalescedRequest {
    pub(super) place: PartitionAddress,
    /// The number of its kind of message.
    pub(super) kind: u16,
    pub(super) time_out_ms: u32,
    pub(super) read_lock: bool,
}

/// Where an operation is sent.
pub(super) fn address_of<T>(operation: &OpenOperation<T>) -> PartitionAddress {
    (operation.keyspace(), operation.partition.unwrap_or_default(), operation.epoch)
}

impl ConnectionTable {
    /// Whether the open frame has room for another request of the maximum length.
    pub(super) fn has_room_in_open(&self, connection: &Connection) -> bool {
        let Some(open) = connection.open else { return false };
        let is_full = match self.frames.get(open.frame).map(|in_flight| &in_flight.contents) {
            Some(FrameContents::Coalesced(gather)) => gather.is_full(),
            _ => true,
        };
        !is_full && connection.out.len() - open.start < COALESCED_FRAME_BYTES
    }

    /// Ends the open frame.
    pub(super) fn end_open(&mut self, index: u32) {
        let Some(connection) = self.get_mut(index) else { return };
        if let Some(OpenFrame { start, frame: in_flight, time_out_ms }) = connection.open.take() {
            let envelope = Envelope { request: request_id(in_flight, 0), time_out_ms, ..Envelope::default() };
            connection.protocol.encoder.end(start, &envelope, FrameKind::Gather, &mut connection.out);
        }
    }

    /// Adds a request to the open frame of a connection, or to a new one. Returns the handle of the frame.
    pub(super) fn add_coalesced(
        &mut self,
        now: Time,
        index: u32,
        request: CoalescedRequest,
        (head, rest): (&[u8], &[u8]),
        contents: FrameContents,
        timers: &mut Timers,
    ) -> Handle {
        let CoalescedRequest { place: (keyspace, partition, partition_epoch), kind, time_out_ms, read_lock } =
            request;
        let has_room = self.get(index).is_some_and(|one| self.has_room_in_open(one));
        if !has_room {
            let (out, encoder) = self.buffer(index);
            let start = encoder.begin(out);
            let in_flight =
                self.register_frame(now, index, FrameContents::Coalesced(Gather::default()), timers);
            self.existing(index).open = Some(OpenFrame { start, frame: in_flight, time_out_ms });
        }
        let connection = self.existing(index);
        let open = connection.open.as_mut().expect("it was opened above");
        open.time_out_ms = open.time_out_ms.max(time_out_ms);
        let request = GatheredRequest { keyspace, partition, partition_epoch, kind, read_lock, body: &[] };
        request.put_header(head.len() + rest.len(), &mut connection.out);
        connection.out.extend_from_slice(head);
        connection.out.extend_from_slice(rest);
        let in_flight = open.frame;
        match self.frames.get_mut(in_flight).map(|in_flight| &mut in_flight.contents) {
            Some(FrameContents::Coalesced(gather)) => gather.push(contents),
            _ => unreachable!("a frame that stands open has not been answered"),
        }
        in_flight
    }
}
