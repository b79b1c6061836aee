//! Messages between instances about partitions that they share. `docs/protocols/replication.md` has the protocol.

use crate::elements::{Element, Elements};
use crate::error::{BadRequestReason, Failure};
use crate::fields::{FieldReader, layout, nothing_left, split};
use crate::ids::{Incarnation, InstanceId, LogIndex, MapEpoch, Timestamp};
use crate::kind::FrameKind;
use crate::limits::{ENTRIES_MAX, ENTRY_PAYLOAD_BYTES_MAX, KEY_BYTES_MAX};
use crate::messages::{UnitReport, UnitRequest};
use zerohop_record::scan::check_cursor;

/// An instance and the start of its process: a restarted instance is another member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Member {
    /// The instance.
    pub instance: InstanceId,
    /// The start of its process.
    pub incarnation: Incarnation,
}

/// The name of an entry of a partition's log; zero, zero is the position before the first. 16 bytes: index (8), epoch (4), zero (4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntryName {
    /// The epoch of the primary that assigned the index.
    pub epoch: u32,
    /// Its log index.
    pub index: LogIndex,
}

/// An entry of a partition's log. 32 bytes: index (8), timestamp (8), epoch (4), kind (1), flags (1), zero (2), length of
/// the key (4), length of the payload (4); then key and payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogEntry<'a> {
    /// Its name.
    pub name: EntryName,
    /// The time of the index assignment, on the hybrid logical clock.
    pub timestamp: Timestamp,
    /// The kind, as the storage engine numbers it.
    pub kind: u8,
    /// The flags, as the storage engine numbers them.
    pub flags: u8,
    /// The record's key; empty for marker entries.
    pub key: &'a [u8],
    /// The contents of the entry.
    pub payload: &'a [u8],
}

/// A message from one member to another. 24 bytes: sender's instance (4), addressee's instance (4), sender's incarnation (8),
/// addressee's incarnation (8); then the body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerMessage<'a> {
    /// The sender.
    pub from: Member,
    /// The addressee: another process at the same address ignores the message.
    pub to: Member,
    /// The content.
    pub body: PeerBody<'a>,
}

/// A member's report about entries. 32 bytes: index (8), durable (8), epoch (4), verdict (1), zero (3), applied (8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FollowerReport {
    /// Its log equals the primary's up to `matched`, and survives a crash up to `durable`. Verdict 1.
    Acknowledged {
        /// Log index.
        matched: LogIndex,
        /// Log index.
        durable: LogIndex,
        /// Applied index: the member knows that the entries up to it are committed.
        applied: LogIndex,
    },
    /// It does not have the preceding entry; `at` is an entry that it has, from which the primary may continue. Verdict 2.
    Differs {
        /// The entry.
        at: EntryName,
    },
    /// Log entries cannot bring it up to date: it needs the complete state. Verdict 3.
    NeedsState,
    /// Its disk is full: it accepts only removals. The member repeats the report while this is so. Verdict 4.
    DiskFull,
}

/// The contents of a part of a complete state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StatePart<'a> {
    /// A part of a segment of the sender's log, with complete entries.
    Log {
        /// Whether it begins with a segment's header; otherwise it continues the previous part.
        begins: bool,
        /// The bytes.
        bytes: &'a [u8],
    },
    /// A part of the changes that the sender keeps for readers that watch the keyspace. All such parts precede those of the state.
    History {
        /// The bytes.
        bytes: &'a [u8],
    },
    /// A part of the partition's state; the last one is also the last part of all.
    State {
        /// Whether this is the last part.
        is_last: bool,
        /// The bytes.
        bytes: &'a [u8],
    },
}

/// A range of a partition as of a log index: the keys between two cursors of the storage engine's index.
/// 24 bytes: the entry (index 8, epoch 4), 1 if the digest includes contents (1), zero (3), length of the first cursor (4), length of the second (4);
/// then both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DigestRange<'a> {
    /// The last entry applied.
    pub as_of: EntryName,
    /// The cursor at which it begins; empty: before the first key.
    pub from: &'a [u8],
    /// The cursor at which it ends; empty: behind the last key.
    pub to: &'a [u8],
    /// Whether the digest includes the contents of the records, not only their metadata.
    pub contents: bool,
}

/// A message from one member to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PeerBody<'a> {
    /// 32 bytes: the preceding entry (16), commit index (8), number of entries (4), zero (4); then the entries.
    Replicate {
        /// The entry before the first of these.
        preceding: EntryName,
        /// The commit index.
        commit: LogIndex,
        /// In order, without gaps.
        entries: Elements<'a, LogEntry<'a>>,
    },
    /// See [`FollowerReport`].
    ReplicateAck(FollowerReport),
    /// 40 bytes: the entry that the state is as of (16), attempt (8), number of the part (4), contents (1: the log, from the beginning of a segment
    /// on, 2: state, 3: the last of the state, 4: continuation of the log), zero (3), length of the cursor (4), zero (4); then cursor and bytes.
    StatePart {
        /// The entry that the state is as of.
        as_of: EntryName,
        /// The number of the sender's attempt: parts of different attempts do not belong together. A later attempt has a higher number.
        attempt: u64,
        /// Number of the part, from zero.
        part: u32,
        /// Where the sender would continue behind this part; empty if only the numbers of parts say so. Only the sender interprets it.
        cursor: &'a [u8],
        /// Its contents.
        contents: StatePart<'a>,
    },
    /// 32 bytes: the entry that the state is as of (16), attempt (8), number of parts that have arrived (4), length of the cursor (4); then the cursor.
    StateAck {
        /// As in `StatePart`.
        as_of: EntryName,
        /// As in `StatePart`.
        attempt: u64,
        /// All parts before this one have arrived.
        parts: u32,
        /// The cursor of the last of them.
        cursor: &'a [u8],
    },
    /// 24 bytes: sent (8), map epoch (8), timestamp bound (8).
    LeaseQuery {
        /// Time of sending by the lease holder's clock, in microseconds since an arbitrary start.
        sent_us: u64,
        /// The epoch of the holder's map.
        map_epoch: MapEpoch,
        /// The timestamp bound that the holder requests.
        timestamp_bound: Timestamp,
    },
    /// 24 bytes: sent (8), map epoch (8), timestamp bound (8).
    LeaseGrant {
        /// Copied from the request.
        sent_us: u64,
        /// The epoch of the granter's map: the lease is valid once the holder has applied that map.
        map_epoch: MapEpoch,
        /// The timestamp bound that the granter has on disk.
        timestamp_bound: Timestamp,
    },
    /// No body.
    Yield,
    /// No body.
    Stale,
    /// 16 bytes: its name.
    EntryGet(EntryName),
    /// One entry.
    EntryGot(LogEntry<'a>),
    /// 16 bytes: its name.
    EntryLost(EntryName),
    /// See [`DigestRange`].
    DigestQuery(DigestRange<'a>),
    /// 40 bytes: the range (24), records (8), digest (8); then the two cursors of the range.
    DigestReply {
        /// The range.
        range: DigestRange<'a>,
        /// Number of records in it.
        records: u64,
        /// Digest of keys, versions, lengths and, if requested, contents, and of the numbers of sessions and deadlines of the partition.
        digest: u64,
    },
    /// See [`DigestRange`]: the addressee's digest of it differs from the primary's.
    DigestDiffers(DigestRange<'a>),
    /// See [`UnitRequest`].
    UnitQuery(UnitRequest<'a>),
    /// See [`UnitReport`]. It is sent on the connection on which the unit arrived.
    UnitReply(UnitReport<'a>),
    /// A message of the transaction protocol, in that protocol's encoding.
    Transaction(&'a [u8]),
}

impl EntryName {
    fn encode(self) -> [u8; 16] {
        layout(|to| to.u64(self.index.0).u32(self.epoch).zeros(4))
    }

    fn decode_fields<const N: usize>(fields: &mut FieldReader<'_, N>) -> EntryName {
        let (index, epoch) = (LogIndex(fields.u64()), u32::from_le_bytes(fields.bytes()));
        fields.zeros(4);
        EntryName { epoch, index }
    }
}

impl<'a> DigestRange<'a> {
    /// Appends the fields, and others that stand before both cursors. Returns the second cursor, which follows.
    fn put(self, others: &[u8], out: &mut Vec<u8>) -> Result<&'a [u8], Failure<'static>> {
        check_cursor(self.from)?;
        check_cursor(self.to)?;
        let EntryName { epoch, index } = self.as_of;
        let (from, until) = (self.from.len() as u32, self.to.len() as u32);
        let fields: [u8; 24] =
            layout(|to| to.u64(index.0).u32(epoch).u8(u8::from(self.contents)).zeros(3).u32(from).u32(until));
        out.extend_from_slice(&fields);
        out.extend_from_slice(others);
        out.extend_from_slice(self.from);
        Ok(self.to)
    }

    /// The range, without its cursors, and the lengths of these.
    fn decode_fields<const N: usize>(
        fields: &mut FieldReader<'_, N>,
    ) -> Result<(DigestRange<'static>, (usize, usize)), Failure<'static>> {
        let (index, epoch) = (LogIndex(fields.u64()), fields.u32());
        let contents = match fields.u8() {
            0 => false,
            1 => true,
            _ => return Err(BadRequestReason::Detail.into()),
        };
        fields.zeros(3);
        let as_of = EntryName { epoch, index };
        let lengths = (fields.u32() as usize, fields.u32() as usize);
        Ok((DigestRange { as_of, from: &[], to: &[], contents }, lengths))
    }

    /// The range with its cursors, which are all that is left.
    fn with_cursors(
        self,
        (from, to): (usize, usize),
        rest: &'a [u8],
    ) -> Result<DigestRange<'a>, Failure<'static>> {
        let (from, rest) = split(rest, from)?;
        let (to, rest) = split(rest, to)?;
        nothing_left(rest)?;
        check_cursor(from)?;
        check_cursor(to)?;
        Ok(DigestRange { from, to, ..self })
    }
}

impl LogEntry<'_> {
    /// Its length in a message, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        32 + self.key.len() + self.payload.len()
    }
}

impl<'a> Element<'a> for LogEntry<'a> {
    const COUNT_MAX: u32 = ENTRIES_MAX;

    fn put(&self, out: &mut Vec<u8>) -> Result<&[u8], Failure<'static>> {
        let Self { name, timestamp, kind, flags, key, payload } = *self;
        let lengths = entry_lengths(key.len(), payload.len())?;
        let fields: [u8; 32] = layout(|to| {
            let to = to.u64(name.index.0).u64(timestamp.0).u32(name.epoch);
            to.u8(kind).u8(flags).zeros(2).u32(lengths.0).u32(lengths.1)
        });
        out.extend_from_slice(&fields);
        out.extend_from_slice(key);
        Ok(self.payload)
    }

    fn take(bytes: &mut &'a [u8]) -> Result<Self, Failure<'static>> {
        let (mut fields, rest) = FieldReader::<32>::split(bytes)?;
        let (index, timestamp) = (LogIndex(fields.u64()), Timestamp(fields.u64()));
        let (epoch, kind, flags) = (fields.u32(), fields.u8(), fields.u8());
        fields.zeros(2);
        let (key_bytes, payload_bytes) = (fields.u32() as usize, fields.u32() as usize);
        fields.done()?;
        entry_lengths(key_bytes, payload_bytes)?;
        let (key, rest) = split(rest, key_bytes)?;
        let (payload, rest) = split(rest, payload_bytes)?;
        *bytes = rest;
        Ok(LogEntry { name: EntryName { epoch, index }, timestamp, kind, flags, key, payload })
    }
}

/// Both lengths as they are encoded. Errors: one exceeds its limit.
fn entry_lengths(key: usize, payload: usize) -> Result<(u32, u32), Failure<'static>> {
    if key > KEY_BYTES_MAX || payload > ENTRY_PAYLOAD_BYTES_MAX {
        return Err(BadRequestReason::Lengths.into());
    }
    Ok((key as u32, payload as u32))
}

impl PeerBody<'_> {
    /// The kind of its frame.
    #[must_use]
    pub fn kind(&self) -> FrameKind {
        match self {
            Self::Replicate { .. } => FrameKind::Replicate,
            Self::ReplicateAck(_) => FrameKind::ReplicateAck,
            Self::StatePart { .. } => FrameKind::StatePart,
            Self::StateAck { .. } => FrameKind::StateAck,
            Self::LeaseQuery { .. } => FrameKind::LeaseQuery,
            Self::LeaseGrant { .. } => FrameKind::LeaseGrant,
            Self::Yield => FrameKind::Yield,
            Self::Stale => FrameKind::Stale,
            Self::EntryGet(_) => FrameKind::EntryGet,
            Self::EntryGot(_) => FrameKind::EntryGot,
            Self::EntryLost(_) => FrameKind::EntryLost,
            Self::DigestQuery(_) => FrameKind::DigestQuery,
            Self::DigestReply { .. } => FrameKind::DigestReply,
            Self::DigestDiffers(_) => FrameKind::DigestDiffers,
            Self::UnitQuery(_) => FrameKind::UnitQuery,
            Self::UnitReply(_) => FrameKind::UnitReply,
            Self::Transaction(_) => FrameKind::Transaction,
        }
    }
}

impl<'a> PeerMessage<'a> {
    pub(crate) fn put(&self, out: &mut Vec<u8>) -> Result<&[u8], Failure<'static>> {
        let Self { from, to: addressee, body } = self;
        let fields: [u8; 24] = layout(|to| {
            let to = to.u32(from.instance.0).u32(addressee.instance.0);
            to.u64(from.incarnation.0).u64(addressee.incarnation.0)
        });
        out.extend_from_slice(&fields);
        match body {
            PeerBody::Replicate { preceding, commit, entries } => {
                out.extend_from_slice(&preceding.encode());
                let fields: [u8; 16] = layout(|to| to.u64(commit.0).u32(entries.count()).zeros(4));
                out.extend_from_slice(&fields);
                return entries.put(out);
            }
            PeerBody::ReplicateAck(report) => out.extend_from_slice(&report.encode()),
            PeerBody::StatePart { as_of, attempt, part, cursor, contents: holds } => {
                check_cursor(cursor)?;
                out.extend_from_slice(&as_of.encode());
                let (what, bytes) = match *holds {
                    StatePart::Log { begins: true, bytes } => (1, bytes),
                    StatePart::State { is_last: false, bytes } => (2, bytes),
                    StatePart::State { is_last: true, bytes } => (3, bytes),
                    StatePart::Log { begins: false, bytes } => (4, bytes),
                    StatePart::History { bytes } => (5, bytes),
                };
                let length = cursor.len() as u32;
                let fields: [u8; 24] =
                    layout(|to| to.u64(*attempt).u32(*part).u8(what).zeros(3).u32(length).zeros(4));
                out.extend_from_slice(&fields);
                out.extend_from_slice(cursor);
                return Ok(bytes);
            }
            PeerBody::StateAck { as_of, attempt, parts, cursor } => {
                check_cursor(cursor)?;
                out.extend_from_slice(&as_of.encode());
                let fields: [u8; 16] = layout(|to| to.u64(*attempt).u32(*parts).u32(cursor.len() as u32));
                out.extend_from_slice(&fields);
                return Ok(cursor);
            }
            PeerBody::LeaseQuery { sent_us, map_epoch, timestamp_bound }
            | PeerBody::LeaseGrant { sent_us, map_epoch, timestamp_bound } => {
                let fields: [u8; 24] = layout(|to| to.u64(*sent_us).u64(map_epoch.0).u64(timestamp_bound.0));
                out.extend_from_slice(&fields);
            }
            PeerBody::Yield | PeerBody::Stale => {}
            PeerBody::EntryGet(name) | PeerBody::EntryLost(name) => out.extend_from_slice(&name.encode()),
            PeerBody::DigestQuery(range) | PeerBody::DigestDiffers(range) => return range.put(&[], out),
            PeerBody::DigestReply { range, records, digest } => {
                let fields: [u8; 16] = layout(|to| to.u64(*records).u64(*digest));
                return range.put(&fields, out);
            }
            PeerBody::EntryGot(entry) => return entry.put(out),
            PeerBody::UnitQuery(query) => return query.put(out),
            PeerBody::UnitReply(report) => return report.put(out),
            PeerBody::Transaction(message) => return Ok(message),
        }
        Ok(&[])
    }

    pub(crate) fn decode_body(kind: FrameKind, body: &'a [u8]) -> Result<Self, Failure<'static>> {
        let (mut fields, rest) = FieldReader::<24>::split(body)?;
        let (from, to) = (InstanceId(fields.u32()), InstanceId(fields.u32()));
        let from = Member { instance: from, incarnation: Incarnation(fields.u64()) };
        let to = Member { instance: to, incarnation: Incarnation(fields.u64()) };
        Ok(Self { from, to, body: PeerBody::decode_body(kind, rest)? })
    }
}

impl<'a> PeerBody<'a> {
    fn decode_body(kind: FrameKind, body: &'a [u8]) -> Result<Self, Failure<'static>> {
        Ok(match kind {
            FrameKind::Replicate => {
                let (mut fields, rest) = FieldReader::<32>::split(body)?;
                let preceding = EntryName::decode_fields(&mut fields);
                let (commit, count) = (LogIndex(fields.u64()), fields.u32());
                fields.zeros(4);
                fields.done()?;
                Self::Replicate { preceding, commit, entries: Elements::packed(count, rest)? }
            }
            FrameKind::ReplicateAck => Self::ReplicateAck(FollowerReport::decode_body(body)?),
            FrameKind::StatePart => {
                let (mut fields, rest) = FieldReader::<40>::split(body)?;
                let as_of = EntryName::decode_fields(&mut fields);
                let (attempt, part, what) = (fields.u64(), fields.u32(), fields.u8());
                fields.zeros(3);
                let length = fields.u32() as usize;
                fields.zeros(4);
                fields.done()?;
                let (cursor, bytes) = split(rest, length)?;
                check_cursor(cursor)?;
                let holds = match what {
                    1 | 4 => StatePart::Log { begins: what == 1, bytes },
                    2 | 3 => StatePart::State { is_last: what == 3, bytes },
                    5 => StatePart::History { bytes },
                    _ => return Err(BadRequestReason::Reserved.into()),
                };
                Self::StatePart { as_of, attempt, part, cursor, contents: holds }
            }
            FrameKind::StateAck => {
                let (mut fields, rest) = FieldReader::<32>::split(body)?;
                let as_of = EntryName::decode_fields(&mut fields);
                let (attempt, parts, length) = (fields.u64(), fields.u32(), fields.u32() as usize);
                fields.done()?;
                let (cursor, rest) = split(rest, length)?;
                nothing_left(rest)?;
                check_cursor(cursor)?;
                Self::StateAck { as_of, attempt, parts, cursor }
            }
            FrameKind::LeaseQuery | FrameKind::LeaseGrant => {
                let (mut fields, rest) = FieldReader::<24>::split(body)?;
                let (sent_us, map_epoch) = (fields.u64(), MapEpoch(fields.u64()));
                let timestamp_bound = Timestamp(fields.u64());
                nothing_left(rest)?;
                match kind {
                    FrameKind::LeaseQuery => Self::LeaseQuery { sent_us, map_epoch, timestamp_bound },
                    _ => Self::LeaseGrant { sent_us, map_epoch, timestamp_bound },
                }
            }
            FrameKind::Yield | FrameKind::Stale => {
                nothing_left(body)?;
                if kind == FrameKind::Yield { Self::Yield } else { Self::Stale }
            }
            FrameKind::EntryGet | FrameKind::EntryLost => {
                let (mut fields, rest) = FieldReader::<16>::split(body)?;
                let name = EntryName::decode_fields(&mut fields);
                fields.done()?;
                nothing_left(rest)?;
                if kind == FrameKind::EntryGet { Self::EntryGet(name) } else { Self::EntryLost(name) }
            }
            FrameKind::DigestQuery | FrameKind::DigestDiffers => {
                let (mut fields, rest) = FieldReader::<24>::split(body)?;
                let (range, lengths) = DigestRange::decode_fields(&mut fields)?;
                fields.done()?;
                let range = range.with_cursors(lengths, rest)?;
                if kind == FrameKind::DigestQuery {
                    Self::DigestQuery(range)
                } else {
                    Self::DigestDiffers(range)
                }
            }
            FrameKind::DigestReply => {
                let (mut fields, rest) = FieldReader::<40>::split(body)?;
                let (range, lengths) = DigestRange::decode_fields(&mut fields)?;
                let (records, digest) = (fields.u64(), fields.u64());
                fields.done()?;
                let range = range.with_cursors(lengths, rest)?;
                Self::DigestReply { range, records, digest }
            }
            FrameKind::UnitQuery => Self::UnitQuery(UnitRequest::decode_body(body)?),
            FrameKind::UnitReply => Self::UnitReply(UnitReport::decode_body(body)?),
            FrameKind::Transaction => Self::Transaction(body),
            _ => {
                let mut rest = body;
                let entry = <LogEntry<'a> as Element<'a>>::take(&mut rest)?;
                nothing_left(rest)?;
                Self::EntryGot(entry)
            }
        })
    }
}

impl FollowerReport {
    fn encode(self) -> [u8; 32] {
        let (index, durable, epoch, verdict, applied) = match self {
            Self::Acknowledged { matched, durable, applied } => (matched.0, durable.0, 0, 1, applied.0),
            Self::Differs { at } => (at.index.0, 0, at.epoch, 2, 0),
            Self::NeedsState => (0, 0, 0, 3, 0),
            Self::DiskFull => (0, 0, 0, 4, 0),
        };
        layout(|to| to.u64(index).u64(durable).u32(epoch).u8(verdict).zeros(3).u64(applied))
    }

    fn decode_body(body: &[u8]) -> Result<Self, Failure<'static>> {
        let (mut fields, rest) = FieldReader::<32>::split(body)?;
        let (index, durable) = (LogIndex(fields.u64()), LogIndex(fields.u64()));
        let (epoch, verdict) = (fields.u32(), fields.u8());
        fields.zeros(3);
        let applied = LogIndex(fields.u64());
        fields.done()?;
        nothing_left(rest)?;
        match (verdict, durable.0, epoch, index.0, applied.0) {
            (1, _, 0, ..) => Ok(Self::Acknowledged { matched: index, durable, applied }),
            (2, 0, _, _, 0) => Ok(Self::Differs { at: EntryName { epoch, index } }),
            (3, 0, 0, 0, 0) => Ok(Self::NeedsState),
            (4, 0, 0, 0, 0) => Ok(Self::DiskFull),
            _ => Err(BadRequestReason::Reserved.into()),
        }
    }
}
