//! What is executed at one partition in one step, as bytes: it may be sent to another thread or another process.
//!
//! | offset | bytes | what |
//! | --- | --- | --- |
//! | 0 | 1 | version of this layout: 1 |
//! | 1 | 1 | kind: 0 one command, 1 a transaction, 2 watch, 3 a page of a command that asks all partitions |
//! | 2 | 1 | version of the client's protocol: 2 or 3 |
//! | 3 | 1 | 0 |
//! | 4 | 8 | when its wait is over, in milliseconds since 1970; 0 if it has not begun to wait |
//! | 12 | 4 | W, bytes of the keys watched |
//! | 16 | W | each key watched: its version (8), 0 if absent; its length (4); its bytes |
//! | 16 + W | rest | the commands, one after the other, as RESP arrays |
//!
//! Numbers are little-endian.

use zerohop_wire::ids::Timestamp;

use crate::command::Command;
use crate::{Args, Protocol};

/// The version of the layout.
const VERSION: u8 = 1;

/// Bytes before the keys watched.
pub const UNIT_HEADER_BYTES: usize = 16;

/// What a unit is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// One command. Its reply is that of the command.
    One = 0,
    /// The commands between `MULTI` and `EXEC`. Its reply is that of `EXEC`.
    Transaction = 1,
    /// `WATCH`. Its reply is the versions of the keys, 8 bytes each.
    Watch = 2,
    /// A page of a command that asks all partitions. Its reply is a [`crate::gather`] page.
    Page = 3,
}

/// What is executed at one partition in one step.
#[derive(Clone, Copy, Debug)]
pub struct Unit<'a> {
    pub(crate) kind: Kind,
    pub(crate) protocol: Protocol,
    /// When its wait is over, in milliseconds since 1970. `None` until [`execute`](crate::execute) has answered
    /// [`Outcome::Wait`](crate::Outcome::Wait) for the first time; to be set before it is executed again.
    pub wait_until_ms: Option<u64>,
    pub(crate) watched: &'a [u8],
    pub(crate) commands: &'a [u8],
    /// The one command, if it has been looked at already: what `commands` would say.
    pub(crate) parsed: Option<(&'static Command, Args<'a>)>,
}

/// A unit of bytes that are none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotAUnit;

impl std::fmt::Display for NotAUnit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the bytes are not a unit of commands of this version")
    }
}

impl std::error::Error for NotAUnit {}

impl<'a> Unit<'a> {
    /// Appends the unit's bytes.
    pub fn encode(&self, into: &mut Vec<u8>) {
        let protocol = match self.protocol {
            Protocol::Resp2 => 2,
            Protocol::Resp3 => 3,
        };
        into.reserve(UNIT_HEADER_BYTES + self.watched.len() + self.commands.len());
        into.extend_from_slice(&[VERSION, self.kind as u8, protocol, 0]);
        into.extend_from_slice(&self.wait_until_ms.unwrap_or(0).to_le_bytes());
        into.extend_from_slice(&(self.watched.len() as u32).to_le_bytes());
        into.extend_from_slice(self.watched);
        into.extend_from_slice(self.commands);
    }

    /// The unit of these bytes. What its commands are is looked at when it is executed.
    pub fn decode(bytes: &'a [u8]) -> Result<Unit<'a>, NotAUnit> {
        let (head, rest) = bytes.split_first_chunk::<UNIT_HEADER_BYTES>().ok_or(NotAUnit)?;
        let [VERSION, kind, protocol, 0, until @ .., w0, w1, w2, w3] = *head else { return Err(NotAUnit) };
        let kind = match kind {
            0 => Kind::One,
            1 => Kind::Transaction,
            2 => Kind::Watch,
            3 => Kind::Page,
            _ => return Err(NotAUnit),
        };
        let protocol = match protocol {
            2 => Protocol::Resp2,
            3 => Protocol::Resp3,
            _ => return Err(NotAUnit),
        };
        let until = u64::from_le_bytes(until);
        let watched = u32::from_le_bytes([w0, w1, w2, w3]) as usize;
        let (watched, commands) = rest.split_at_checked(watched).ok_or(NotAUnit)?;
        let wait_until_ms = (until != 0).then_some(until);
        Ok(Unit { kind, protocol, wait_until_ms, watched, commands, parsed: None })
    }

    /// Whether it may change records: a unit that may not can be executed while changes are refused.
    #[must_use]
    pub fn may_write(&self) -> bool {
        match (self.kind, self.parsed) {
            (Kind::Watch, _) => false,
            (Kind::One, Some((command, _))) => command.is_write(),
            _ => true,
        }
    }
}

/// Appends a key watched, with the version that was seen.
pub(crate) fn push_watched(into: &mut Vec<u8>, key: &[u8], version: Timestamp) {
    into.extend_from_slice(&version.0.to_le_bytes());
    into.extend_from_slice(&(key.len() as u32).to_le_bytes());
    into.extend_from_slice(key);
}

/// The keys watched and their versions; ends at the first that is cut short.
pub(crate) fn watched(mut bytes: &[u8]) -> impl Iterator<Item = (&[u8], Timestamp)> {
    std::iter::from_fn(move || {
        let (version, rest) = bytes.split_first_chunk::<8>()?;
        let (length, rest) = rest.split_first_chunk::<4>()?;
        let (key, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        bytes = rest;
        Some((key, Timestamp(u64::from_le_bytes(*version))))
    })
}
