//! Encoded datagrams of gossip: fixed fields, big-endian like the library's own counts. The bytes are
//! untrusted.

use std::fmt;

use bytes::{Buf, BufMut};
use foca::{Codec, Header, Member, Message, State};
use zerohop_wire::ids::{Incarnation, MapEpoch, NodeId};

use super::Name;

/// Bytes of a name: node, incarnation, epoch, renewals.
const NAME_BYTES: usize = 4 + 8 + 8 + 2;
/// Bytes of a member: name, the library's incarnation, state.
const MEMBER_BYTES: usize = NAME_BYTES + 2 + 1;

/// See the module.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Fields;

/// A datagram that is not valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct GossipDecodeError;

impl fmt::Display for GossipDecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a datagram of gossip")
    }
}

impl std::error::Error for GossipDecodeError {}

impl Codec<Name> for Fields {
    type Error = GossipDecodeError;

    fn encode_header(
        &mut self,
        header: &Header<Name>,
        mut buf: impl BufMut,
    ) -> Result<(), GossipDecodeError> {
        if buf.remaining_mut() < 3 * NAME_BYTES + 4 {
            return Err(GossipDecodeError);
        }
        put_name(&mut buf, &header.src);
        buf.put_u16(header.src_incarnation);
        put_name(&mut buf, &header.dst);
        let (kind, rest) = match &header.message {
            Message::Ping(number) => (1, Some((None, *number))),
            Message::Ack(number) => (2, Some((None, *number))),
            Message::PingReq { target, probe_number } => (3, Some((Some(target), *probe_number))),
            Message::IndirectPing { origin, probe_number } => (4, Some((Some(origin), *probe_number))),
            Message::IndirectAck { target, probe_number } => (5, Some((Some(target), *probe_number))),
            Message::ForwardedAck { origin, probe_number } => (6, Some((Some(origin), *probe_number))),
            Message::Announce => (7, None),
            Message::Feed => (8, None),
            Message::Gossip => (9, None),
            Message::Broadcast => (10, None),
            Message::TurnUndead => (11, None),
        };
        buf.put_u8(kind);
        if let Some((name, number)) = rest {
            buf.put_u8(number);
            if let Some(name) = name {
                put_name(&mut buf, name);
            }
        }
        Ok(())
    }

    fn decode_header(&mut self, mut buf: impl Buf) -> Result<Header<Name>, GossipDecodeError> {
        let src = name(&mut buf)?;
        let src_incarnation = buf.try_get_u16().map_err(|_| GossipDecodeError)?;
        let dst = name(&mut buf)?;
        let kind = buf.try_get_u8().map_err(|_| GossipDecodeError)?;
        let probe_number = if kind <= 6 { buf.try_get_u8().map_err(|_| GossipDecodeError)? } else { 0 };
        let message = match kind {
            1 => Message::Ping(probe_number),
            2 => Message::Ack(probe_number),
            3 => Message::PingReq { target: name(&mut buf)?, probe_number },
            4 => Message::IndirectPing { origin: name(&mut buf)?, probe_number },
            5 => Message::IndirectAck { target: name(&mut buf)?, probe_number },
            6 => Message::ForwardedAck { origin: name(&mut buf)?, probe_number },
            7 => Message::Announce,
            8 => Message::Feed,
            9 => Message::Gossip,
            10 => Message::Broadcast,
            11 => Message::TurnUndead,
            _ => return Err(GossipDecodeError),
        };
        Ok(Header { src, src_incarnation, dst, message })
    }

    fn encode_member(
        &mut self,
        member: &Member<Name>,
        mut buf: impl BufMut,
    ) -> Result<(), GossipDecodeError> {
        if buf.remaining_mut() < MEMBER_BYTES {
            return Err(GossipDecodeError);
        }
        put_name(&mut buf, member.id());
        buf.put_u16(member.incarnation());
        buf.put_u8(match member.state() {
            State::Alive => 0,
            State::Suspect => 1,
            State::Down => 2,
        });
        Ok(())
    }

    fn decode_member(&mut self, mut buf: impl Buf) -> Result<Member<Name>, GossipDecodeError> {
        let id = name(&mut buf)?;
        let incarnation = buf.try_get_u16().map_err(|_| GossipDecodeError)?;
        let state = match buf.try_get_u8() {
            Ok(0) => State::Alive,
            Ok(1) => State::Suspect,
            Ok(2) => State::Down,
            _ => return Err(GossipDecodeError),
        };
        Ok(Member::new(id, incarnation, state))
    }
}

fn put_name(buf: &mut impl BufMut, name: &Name) {
    buf.put_u32(name.node.get());
    buf.put_u64(name.incarnation.get());
    buf.put_u64(name.since.get());
    buf.put_u16(name.renewals);
}

fn name(buf: &mut impl Buf) -> Result<Name, GossipDecodeError> {
    if buf.remaining() < NAME_BYTES {
        return Err(GossipDecodeError);
    }
    Ok(Name {
        node: NodeId(buf.get_u32()),
        incarnation: Incarnation(buf.get_u64()),
        since: MapEpoch(buf.get_u64()),
        renewals: buf.get_u16(),
    })
}
