//! What one partition executes in one step, as bytes that may be sent to another thread or process.
//!
//! | offset | bytes | what |
//! | --- | --- | --- |
//! | 0 | 1 | version of this layout: 1 |
//! | 1 | 1 | kind: 0 command, 1 transaction, 2 watch, 3 page, 4 page of a long reply |
//! | 2 | 1 | version of the client's protocol: 2 or 3 |
//! | 3 | 1 | 0 |
//! | 4 | 8 | see below |
//! | 12 | 4 | W, bytes of the watched keys; for a page of a long reply 16 |
//! | 16 | W | the watched keys; for a page of a long reply the id of the snapshot |
//! | 16 + W | | the commands, one after the other, as RESP arrays |
//!
//! Offset 4 has the end of the wait in milliseconds since 1970; 0 if none has begun. For `LRANGE`
//! and `MGET`: 1 if the reply may be read in pages, 2 if it may cover only the first keys. For a
//! page of a long reply: the timestamp of the read.
//!
//! A watched key is its version (8 bytes, 0 if absent), its length (4 bytes) and its bytes. Kind 3
//! is a page of a command over all partitions.
//!
//! Numbers are little-endian. A page of a long reply without a command ends the snapshot. Instances
//! that do not know pages ignore offset 4 of `LRANGE` and `MGET` and send the whole reply.

use std::collections::BTreeSet;

use zerohop_wire::ids::{SnapshotId, Timestamp};

use crate::args::ArgumentSpan;
use crate::command::CommandRow;
use crate::parse::{ParseResult, Parser};
use crate::{Args, Protocol};

/// The version of the layout.
const VERSION: u8 = 1;

/// Bytes before the watched keys.
pub const UNIT_HEADER_BYTES: usize = 16;

/// Commands that need a record's metadata and not its contents.
const METADATA_ONLY: [&str; 20] = [
    "del",
    "exists",
    "expire",
    "expireat",
    "expiretime",
    "llen",
    "mset",
    "msetnx",
    "persist",
    "pexpire",
    "pexpireat",
    "pexpiretime",
    "pttl",
    "rpush",
    "rpushx",
    "setnx",
    "touch",
    "ttl",
    "type",
    "unlink",
];

/// The command that carries a finished reply. It is not in the table, so that no client can send it.
pub(crate) const LITERAL: &[u8] = b"\0reply";

/// The kind of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnitKind {
    /// One command. Its reply is that of the command.
    One = 0,
    /// The commands between `MULTI` and `EXEC`. Its reply is that of `EXEC`.
    Transaction = 1,
    /// `WATCH`. Its reply is the versions of the keys, 8 bytes each.
    Watch = 2,
    /// A page of a command over all partitions. Its reply is a [`Page`](crate::execute::Page).
    Page = 3,
    /// A page of a long reply, read from a snapshot. Its reply is a count and so many values.
    Past = 4,
}

/// In place of the end of a wait: the reply of `LRANGE` or `MGET` may be read in pages. The bits above [`FLAG_BITS`] then say for
/// which token.
pub(crate) const MAY_PAGE: u64 = 1;

/// The bits of the flags, of which one is in place of the end of a wait.
const FLAG_BITS: u32 = 8;

/// The reply of `MGET` may cover only the first keys.
pub(crate) const MAY_STOP: u64 = 2;

/// The flag in place of the end of a wait, without the token.
pub(crate) fn flag_of(wait_until_ms: Option<u64>) -> Option<u64> {
    wait_until_ms.map(|flags| flags & ((1 << FLAG_BITS) - 1))
}

/// What one partition executes in one step.
#[derive(Clone, Copy, Debug)]
pub struct Unit<'a> {
    pub(crate) kind: UnitKind,
    pub(crate) protocol: Protocol,
    /// When its wait is over, in milliseconds since 1970. `None` until
    /// [`execute`](crate::execute()) has returned
    /// [`ExecutionOutcome::Wait`](crate::ExecutionOutcome::Wait); it must be set before the next
    /// execution.
    pub wait_until_ms: Option<u64>,
    pub(crate) watched: &'a [u8],
    pub(crate) commands: &'a [u8],
    /// The one command, if it is already parsed; the same as `commands`.
    pub(crate) parsed: Option<(&'static CommandRow, Args<'a>)>,
}

/// The bytes of a unit are invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidUnit;

impl std::fmt::Display for InvalidUnit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the bytes are not a unit of commands of this version")
    }
}

impl std::error::Error for InvalidUnit {}

impl<'a> Unit<'a> {
    /// Appends the unit's bytes.
    pub fn encode(&self, into: &mut Vec<u8>) {
        let protocol = match self.protocol {
            Protocol::Resp2 => 2,
            Protocol::Resp3 => 3,
        };
        into.reserve(self.encoded_bytes());
        into.extend_from_slice(&[VERSION, self.kind as u8, protocol, 0]);
        into.extend_from_slice(&self.wait_until_ms.unwrap_or(0).to_le_bytes());
        into.extend_from_slice(&(self.watched.len() as u32).to_le_bytes());
        into.extend_from_slice(self.watched);
        into.extend_from_slice(self.commands);
    }

    /// The number of bytes that [`Unit::encode`] appends.
    #[must_use]
    pub fn encoded_bytes(&self) -> usize {
        UNIT_HEADER_BYTES + self.watched.len() + self.commands.len()
    }

    /// Decodes a unit. Its commands are checked when it is executed.
    pub fn decode(bytes: &'a [u8]) -> Result<Unit<'a>, InvalidUnit> {
        let (head, rest) = bytes.split_first_chunk::<UNIT_HEADER_BYTES>().ok_or(InvalidUnit)?;
        let [VERSION, kind, protocol, 0, until @ .., w0, w1, w2, w3] = *head else { return Err(InvalidUnit) };
        let kind = match kind {
            0 => UnitKind::One,
            1 => UnitKind::Transaction,
            2 => UnitKind::Watch,
            3 => UnitKind::Page,
            4 => UnitKind::Past,
            _ => return Err(InvalidUnit),
        };
        let protocol = match protocol {
            2 => Protocol::Resp2,
            3 => Protocol::Resp3,
            _ => return Err(InvalidUnit),
        };
        let until = u64::from_le_bytes(until);
        let watched = u32::from_le_bytes([w0, w1, w2, w3]) as usize;
        let (watched, commands) = rest.split_at_checked(watched).ok_or(InvalidUnit)?;
        let wait_until_ms = (until != 0).then_some(until);
        Ok(Unit { kind, protocol, wait_until_ms, watched, commands, parsed: None })
    }

    /// The protocol version of its reply.
    #[must_use]
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// Whether it is a step of a command over all partitions: such steps may wait while others are
    /// served.
    #[must_use]
    pub fn is_page(&self) -> bool {
        self.kind == UnitKind::Page
    }

    /// Whether it is a step of a longer command: it may wait while others are served.
    #[must_use]
    pub fn is_step(&self) -> bool {
        matches!(self.kind, UnitKind::Page | UnitKind::Past)
    }

    /// The snapshot that it reads, and the time, if it is a page of a long reply.
    #[must_use]
    pub fn reads_past(&self) -> Option<(SnapshotId, Timestamp)> {
        let id = self.watched.first_chunk::<16>().filter(|_| self.kind == UnitKind::Past)?;
        Some((SnapshotId(u128::from_le_bytes(*id)), Timestamp(self.wait_until_ms.unwrap_or(0))))
    }

    /// Names the token of its client, which a snapshot for a long reply is counted to.
    #[must_use]
    pub fn for_token(self, token: u64) -> Unit<'a> {
        let may_page = self.kind == UnitKind::One && self.wait_until_ms == Some(MAY_PAGE);
        let flags = if may_page { Some(MAY_PAGE | token << FLAG_BITS) } else { self.wait_until_ms };
        Unit { wait_until_ms: flags, ..self }
    }

    /// The low 56 bits of the token of its client, if its reply may be a long one, and the client has a token.
    #[must_use]
    pub fn paging_token(&self) -> Option<u64> {
        let flags = self.wait_until_ms.filter(|_| self.kind == UnitKind::One)?;
        let token = flags >> FLAG_BITS;
        (flag_of(Some(flags)) == Some(MAY_PAGE) && token != 0).then_some(token)
    }

    /// The number of keys of its one command, all of which follow its name.
    pub(crate) fn one_keys(&self) -> usize {
        let mut parser = Parser::default();
        match parser.parse(self.commands) {
            ParseResult::Command { .. } => parser.argument_ranges.len() - 1,
            _ => 0,
        }
    }

    /// All its keys without duplicates, in no particular order: those of its commands, and the
    /// watched ones.
    #[must_use]
    pub fn keys(&self) -> BTreeSet<&'a [u8]> {
        let watched_bytes = if self.kind == UnitKind::Past { &[] } else { self.watched };
        let mut keys: BTreeSet<&[u8]> = watched(watched_bytes).map(|(key, _)| key).collect();
        self.each_command(|command, bytes, spans| {
            let (places, step) = command.key_positions(spans.len());
            let key =
                |place: usize| spans.get(place).and_then(|&(from, to)| bytes.get(from as usize..to as usize));
            keys.extend(places.step_by(step).filter_map(key));
        });
        keys
    }

    /// Whether its commands need contents of records, or only metadata, which may be much smaller.
    #[must_use]
    pub fn needs_contents(&self) -> bool {
        let mut looks = false;
        self.each_command(|command, _, _| looks |= !METADATA_ONLY.contains(&command.name));
        looks && self.kind != UnitKind::Watch
    }

    /// Calls `each` with each command, its bytes and its argument spans.
    fn each_command(&self, mut each: impl FnMut(&'static CommandRow, &'a [u8], &[ArgumentSpan])) {
        let (mut parser, mut rest) = (Parser::default(), self.commands);
        while let ParseResult::Command { used } = parser.parse(rest) {
            let args = Args::within(rest, &parser.argument_ranges);
            if let Some(command) = CommandRow::find(args.at(0)) {
                each(command, rest, &parser.argument_ranges);
            }
            rest = rest.get(used..).unwrap_or(&[]);
        }
    }

    /// Whether it may change records: one that may not can run while changes are refused.
    #[must_use]
    pub fn may_write(&self) -> bool {
        let first = |is_write: fn(Args<'_>) -> bool| {
            let mut parser = Parser::default();
            match parser.parse(self.commands) {
                ParseResult::Command { .. } => is_write(Args::within(self.commands, &parser.argument_ranges)),
                _ => true,
            }
        };
        match (self.kind, self.parsed) {
            (UnitKind::Watch | UnitKind::Past, _) => false,
            (UnitKind::One, Some((command, _))) => command.is_write(),
            (UnitKind::One, None) => {
                first(|args| CommandRow::find(args.at(0)).is_none_or(CommandRow::is_write))
            }
            (UnitKind::Page, _) => first(|args| args.at(0) == b"flush"),
            (UnitKind::Transaction, _) => true,
        }
    }
}

impl Unit<'_> {
    /// Whether one of its commands changes records. It parses each command of a transaction.
    #[must_use]
    pub fn has_changes(&self) -> bool {
        if self.kind != UnitKind::Transaction {
            return self.may_write();
        }
        let (mut parser, mut rest) = (Parser::default(), self.commands);
        while let ParseResult::Command { used } = parser.parse(rest) {
            let (raw, behind) = rest.split_at(used);
            let name = Args::within(raw, &parser.argument_ranges).at(0);
            if name != LITERAL && CommandRow::find(name).is_none_or(CommandRow::is_write) {
                return true;
            }
            rest = behind;
        }
        !rest.is_empty()
    }
}

/// Appends a watched key, with the version that was seen.
pub(crate) fn push_watched(into: &mut Vec<u8>, key: &[u8], version: Timestamp) {
    into.extend_from_slice(&version.0.to_le_bytes());
    into.extend_from_slice(&(key.len() as u32).to_le_bytes());
    into.extend_from_slice(key);
}

/// The watched keys and their versions; ends at the first incomplete one.
pub(crate) fn watched(mut bytes: &[u8]) -> impl Iterator<Item = (&[u8], Timestamp)> {
    std::iter::from_fn(move || {
        let (version, rest) = bytes.split_first_chunk::<8>()?;
        let (length, rest) = rest.split_first_chunk::<4>()?;
        let (key, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        bytes = rest;
        Some((key, Timestamp(u64::from_le_bytes(*version))))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const GET: &[u8] = b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n";

    #[test]
    fn unit_encoding_matches_documented_layout() {
        let mut watched = Vec::new();
        push_watched(&mut watched, b"key", Timestamp(0x0102_0304_0506_0708));
        let unit = Unit {
            kind: UnitKind::Transaction,
            protocol: Protocol::Resp3,
            wait_until_ms: Some(0x0a0b),
            watched: &watched,
            commands: GET,
            parsed: None,
        };
        let mut bytes = Vec::new();
        unit.encode(&mut bytes);
        let head = b"\x01\x01\x03\x00\x0b\x0a\0\0\0\0\0\0\x0f\0\0\0";
        let seen = b"\x08\x07\x06\x05\x04\x03\x02\x01\x03\0\0\0key";
        assert_eq!(bytes, [&head[..], seen, GET].concat());
    }

    #[test]
    fn token_of_long_reply_travels_with_its_unit() {
        let of = |kind, wait_until_ms| Unit {
            kind,
            protocol: Protocol::Resp2,
            wait_until_ms,
            watched: &[],
            commands: GET,
            parsed: None,
        };
        let unit = of(UnitKind::One, Some(MAY_PAGE)).for_token(0xab12_3456_789a_bcde);
        let mut bytes = Vec::new();
        unit.encode(&mut bytes);
        assert_eq!(bytes[4..12], [1, 0xde, 0xbc, 0x9a, 0x78, 0x56, 0x34, 0x12]);
        let decoded = Unit::decode(&bytes).unwrap();
        assert_eq!(decoded.paging_token(), Some(0x12_3456_789a_bcde));
        assert_eq!(flag_of(decoded.wait_until_ms), Some(MAY_PAGE));
        // Other units have none, and keep what they have in its place.
        assert_eq!(of(UnitKind::One, Some(MAY_PAGE)).paging_token(), None);
        for (kind, until) in
            [(UnitKind::One, None), (UnitKind::One, Some(MAY_STOP)), (UnitKind::Past, Some(MAY_PAGE))]
        {
            let unit = of(kind, until).for_token(7);
            assert_eq!((unit.wait_until_ms, unit.paging_token()), (until, None));
        }
    }

    #[test]
    fn read_only_unit_reports_that_it_does_not_write() {
        let set = b"*3\r\n$3\r\nset\r\n$1\r\nk\r\n$1\r\nv\r\n";
        let flush = b"*3\r\n$5\r\nflush\r\n$1\r\n0\r\n$1\r\n9\r\n";
        let count = b"*3\r\n$6\r\ndbsize\r\n$1\r\n0\r\n$1\r\n9\r\n";
        let cases = [
            (UnitKind::One, GET, false),
            (UnitKind::One, set, true),
            (UnitKind::One, b"no command", true),
            (UnitKind::Watch, GET, false),
            (UnitKind::Transaction, GET, true),
            (UnitKind::Page, flush, true),
            (UnitKind::Page, count, false),
        ];
        for (kind, commands, expected) in cases {
            let protocol = Protocol::Resp2;
            let unit = Unit { kind, protocol, wait_until_ms: None, watched: &[], commands, parsed: None };
            assert_eq!(unit.may_write(), expected, "{kind:?} {}", String::from_utf8_lossy(commands));
        }
    }

    proptest! {
        #[test]
        fn encoded_unit_decodes_to_itself(
            kind in prop::sample::select(vec![UnitKind::One, UnitKind::Transaction, UnitKind::Watch, UnitKind::Page, UnitKind::Past]),
            is_resp3: bool,
            until in prop::option::of(1..u64::MAX),
            keys in prop::collection::vec((prop::collection::vec(any::<u8>(), 0..9), any::<u64>()), 0..4),
            commands in prop::collection::vec(any::<u8>(), 0..50),
        ) {
            let mut bytes = Vec::new();
            keys.iter().for_each(|(key, version)| push_watched(&mut bytes, key, Timestamp(*version)));
            let protocol = if is_resp3 { Protocol::Resp3 } else { Protocol::Resp2 };
            let unit = Unit {
                kind, protocol, wait_until_ms: until, watched: &bytes, commands: &commands, parsed: None,
            };
            let mut encoded = Vec::new();
            unit.encode(&mut encoded);
            let decoded = Unit::decode(&encoded).unwrap();
            prop_assert_eq!((decoded.kind, decoded.protocol, decoded.wait_until_ms), (kind, protocol, until));
            prop_assert_eq!((decoded.watched, decoded.commands), (&bytes[..], &commands[..]));
            let seen: Vec<_> = watched(decoded.watched).map(|(key, at)| (key.to_vec(), at.0)).collect();
            prop_assert_eq!(seen, keys);
            // A prefix that ends within the keys or before is no unit.
            for end in 0..UNIT_HEADER_BYTES + bytes.len() {
                prop_assert_eq!(Unit::decode(&encoded[..end]).err(), Some(InvalidUnit));
            }
        }
    }
}
