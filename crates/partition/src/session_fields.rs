//! Fields of several formats of this crate.

use zerohop_base::bytes::Reader;
use zerohop_wire::ids::{SessionId, Timestamp};

/// A session's id: when it was issued (8 bytes) and its nonce (8).
pub(crate) fn session_id(from: &mut Reader<'_>) -> Option<SessionId> {
    Some(SessionId { issued: Timestamp(from.u64()?), nonce: from.u64()? })
}
