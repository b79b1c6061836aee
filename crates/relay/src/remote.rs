//! Units and replies on connections between instances of different nodes. Long messages go in
//! pieces, so that they do not delay leases and entries.

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};

use zerohop_base::connection::ConnectionId;
use zerohop_resp::PartitionPlace;
use zerohop_wire::messages::{Member, PeerBody, PeerMessage, UnitReport, UnitRequest, UnitVerdict};
use zerohop_wire::{Envelope, Message};

use super::RelayContext;
use super::limits::{PIECE_BYTES_MAX, UNIT_BYTES_MAX, WIRE_BYTES_MAX, WIRE_UNSENT_BYTES_MAX};

/// The kind of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Head {
    /// A unit to run, after unit `behind`.
    RunUnit { number: u64, behind: u64, to: PartitionPlace },
    /// The outcome of a unit.
    Outcome { number: u64, verdict: UnitVerdict },
}

/// All such connections.
#[derive(Debug, Default)]
pub(super) struct RemoteLinks {
    by: BTreeMap<ConnectionId, RemoteLink>,
}

#[derive(Debug, Default)]
struct RemoteLink {
    /// The member at the other end.
    peer: Member,
    out: VecDeque<(Head, Vec<u8>)>,
    out_bytes: usize,
    /// Bytes of the first message that are sent.
    sent: usize,
    /// What has arrived of the current message.
    coming: Option<(Head, Vec<u8>)>,
}

impl RemoteLinks {
    /// Whether there is room for more messages on a connection.
    pub(super) fn has_room(&self, connection: ConnectionId) -> bool {
        self.by.get(&connection).is_none_or(|wire| wire.out_bytes <= WIRE_BYTES_MAX)
    }

    /// Queues a message for the other end of a connection.
    pub(super) fn push(&mut self, connection: ConnectionId, peer: Member, head: Head, bytes: Vec<u8>) {
        let wire = self.by.entry(connection).or_default();
        wire.peer = peer;
        wire.out_bytes += bytes.len();
        wire.out.push_back((head, bytes));
    }

    /// Queues an answer on a connection from which a message has come, unless that has closed.
    pub(super) fn queue_answer(&mut self, connection: ConnectionId, head: Head, bytes: &[u8]) {
        if let Some(wire) = self.by.get_mut(&connection) {
            wire.out_bytes += bytes.len();
            wire.out.push_back((head, bytes.to_vec()));
        }
    }

    /// Sends what there is room for. Whether something stays.
    pub(super) fn flush(&mut self, at: &mut impl RelayContext) -> bool {
        let me = at.this_member();
        let mut stays = false;
        for (connection, wire) in &mut self.by {
            while let Some((head, bytes)) = wire.out.front() {
                if at.unsent_bytes(*connection) >= WIRE_UNSENT_BYTES_MAX {
                    stays = true;
                    break;
                }
                let end = bytes.len().min(wire.sent + PIECE_BYTES_MAX);
                let (total, begin, piece) = (bytes.len() as u32, wire.sent as u32, &bytes[wire.sent..end]);
                let (envelope, body) = match *head {
                    Head::RunUnit { number, behind, to: PartitionPlace { keyspace, partition } } => {
                        let query = UnitRequest { number, behind, total, at: begin, piece };
                        (Envelope { keyspace, partition, ..Envelope::default() }, PeerBody::UnitQuery(query))
                    }
                    Head::Outcome { number, verdict } => {
                        let report = UnitReport { number, verdict, total, at: begin, piece };
                        (Envelope::default(), PeerBody::UnitReply(report))
                    }
                };
                let peer = PeerMessage { from: me, to: wire.peer, body };
                at.send(*connection, &envelope, &Message::Peer(peer));
                wire.sent = end;
                if end == bytes.len() {
                    wire.out_bytes -= end;
                    wire.sent = 0;
                    wire.out.pop_front();
                }
            }
        }
        stays
    }

    /// Receives a piece. Returns the message once it is complete. A piece that does not continue
    /// the current message is ignored, and so is a message that is too long.
    pub(super) fn receive_piece<'b>(
        &mut self,
        connection: ConnectionId,
        from: Member,
        head: Head,
        (total, at, piece): (u32, u32, &'b [u8]),
    ) -> Option<Cow<'b, [u8]>> {
        let wire = self.by.entry(connection).or_default();
        wire.peer = from;
        let total = total as usize;
        if at == 0 {
            wire.coming = None;
            if piece.len() == total {
                return Some(Cow::Borrowed(piece));
            }
            if total <= UNIT_BYTES_MAX {
                wire.coming = Some((head, piece.to_vec()));
            }
            return None;
        }
        let (of, come) = wire.coming.as_mut()?;
        if *of != head || come.len() != at as usize {
            wire.coming = None;
            return None;
        }
        come.extend_from_slice(piece);
        if come.len() < total {
            return None;
        }
        wire.coming.take().map(|(_, come)| Cow::Owned(come))
    }

    /// A connection has ended.
    pub(super) fn closed(&mut self, connection: ConnectionId) {
        self.by.remove(&connection);
    }
}

#[cfg(test)]
mod tests {
    use zerohop_wire::ids::{KeyspaceId, PartitionId};

    use super::*;

    const LINE: ConnectionId = ConnectionId { slot: 1, generation: 2 };

    #[test]
    fn message_is_assembled_from_consecutive_pieces() {
        let mut links = RemoteLinks::default();
        let to = PartitionPlace { keyspace: KeyspaceId(1), partition: PartitionId(3) };
        let head = |number| Head::RunUnit { number, behind: 0, to };
        let mut take = |number, total, at, piece: &'static [u8]| {
            links
                .receive_piece(LINE, Member::default(), head(number), (total, at, piece))
                .map(Cow::into_owned)
        };
        assert_eq!(take(1, 3, 0, b"one"), Some(b"one".to_vec()));
        assert_eq!(
            (take(2, 6, 0, b"on"), take(2, 6, 2, b"et"), take(2, 6, 4, b"wo")).2,
            Some(b"onetwo".to_vec())
        );
        // A piece of another unit, one with a gap, one without a beginning.
        assert_eq!((take(3, 4, 0, b"on"), take(4, 4, 2, b"et")), (None, None));
        assert_eq!((take(5, 6, 0, b"on"), take(5, 6, 3, b"two"), take(5, 6, 2, b"etwo")), (None, None, None));
        assert_eq!(take(6, u32::MAX, 0, b"too long"), None);
        assert_eq!(take(6, u32::MAX, 8, b"still"), None);
    }
}
