//! The messages in frames, one type for each, borrowed from the received bytes.
//!
//! Requests about records are [`RecordRead`], [`RecordWrite`], [`Scan`], [`ChunkList`], [`ReadChanges`], [`Compare`] and [`OperationBatch`]; they go to the instance that is the
//! primary of the partition in the envelope. All others concern the connection or the cluster.

mod batch;
mod cluster;
mod connect;
mod gather;
mod peer;
mod session;
mod snapshot;
mod transact;
mod unit;

pub use batch::{OperationBatch, RecordOperation};
pub use cluster::{Admin, Map, MapGet};
pub use connect::{ClusterId, Hello, HelloAck, Ping, Pong, Proof, Prove};
pub(crate) use gather::ANSWER_HEADER_BYTES;
pub use gather::{GatheredAnswer, GatheredRequest};
pub use peer::{DigestRange, EntryName, FollowerReport, LogEntry, Member, PeerBody, PeerMessage, StatePart};
pub use session::{SessionOpen, SessionOpened, Stamp};
pub use snapshot::{SnapshotQuery, SnapshotRequest};
pub use transact::{ItemAnswer, StageBytes, Transact, TransactionDone};
pub use unit::{UnitReport, UnitRequest, UnitVerdict};
use zerohop_record::answer;
pub use zerohop_record::{
    AFTER_NOW, Append, BlobChange, CHANGE_HEAD_BYTES, ChangeCause, ChunkList, CommittedChange, Compare,
    CompareSwap, Condition, Confirm, CountBits, Expire, Expiry, Extend, GetBit, Increment, Insert, Inspect,
    Lookup, LookupRange, Number, NumberType, OperationAnswer, Operator, Outcome, Query, Range,
    RangeComparison, ReadChanges, ReadChunk, RecordRead, RecordType, RecordWrite, Remove, ReturnedNumber,
    SCANNED_HEAD_BYTES, Scan, ScanRange, ScannedKey, SetBit, Shape, Take, Transform, Trim, UpdateLock, Wait,
    WaitUntil, WriteChange,
};

use crate::elements::Elements;
use crate::error::Failure;
use crate::fields::{FieldReader, nothing_left};
use crate::ids::Timestamp;
use crate::kind::FrameKind;

/// The message of one frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message<'a> {
    /// First frame of a connection.
    Hello(Hello<'a>),
    /// Answers `Hello`.
    HelloAck(HelloAck),
    /// The client's proof.
    Prove(Prove),
    /// Answers `Prove`.
    Proved,
    /// Checks whether the peer is alive.
    Ping(Ping),
    /// The answer to a ping.
    Pong(Pong),
    /// Requests a session.
    SessionOpen(SessionOpen),
    /// Answers `SessionOpen`.
    SessionOpened(SessionOpened),
    /// Requests the cluster map.
    MapGet(MapGet),
    /// Answers `MapGet`.
    Map(Map<'a>),
    /// A control request.
    Admin(Admin<'a>),
    /// Answers `Admin`.
    AdminAnswer(Admin<'a>),
    /// A read of a record.
    Read {
        /// The highest timestamp that the session has seen.
        seen: Timestamp,
        /// The read.
        read: RecordRead<'a>,
    },
    /// A page of the keys of a partition.
    Scan(Scan<'a>),
    /// A page of the chunks of a blob that exist in a partition.
    Chunks(ChunkList<'a>),
    /// A page of the changes of a partition.
    Changes(ReadChanges<'a>),
    /// A comparison of a range of a partition by its members.
    Compare(Compare<'a>),
    /// A request about a snapshot.
    Snapshot(SnapshotRequest<'a>),
    /// A write of a record.
    Write {
        /// Its write identity.
        stamp: Stamp,
        /// The write.
        write: RecordWrite<'a>,
    },
    /// Several operations on records.
    Batch(OperationBatch<'a>),
    /// A transaction over any partitions.
    Transact(Transact<'a>),
    /// Data that a transaction will refer to.
    Stage(StageBytes<'a>),
    /// Several requests, each for a partition of its own.
    Gather(Elements<'a, GatheredRequest<'a>>),
    /// A message from one instance to another.
    Peer(PeerMessage<'a>),
    /// Answers `Read`, `Scan`, `Chunks`, `Changes`, `Compare`, `Snapshot` and `Write`, and any request that failed.
    Answer(OperationAnswer<'a>),
    /// Answers `Batch`.
    BatchAnswer(Elements<'a, OperationAnswer<'a>>),
    /// Answers `Transact`.
    Transacted(TransactionDone<'a>),
    /// Several answers.
    Gathered(Elements<'a, GatheredAnswer<'a>>),
}

impl<'a> Message<'a> {
    /// The kind of its frame.
    #[must_use]
    pub fn kind(&self) -> FrameKind {
        match self {
            Self::Hello(_) => FrameKind::Hello,
            Self::HelloAck(_) => FrameKind::HelloAck,
            Self::Prove(_) => FrameKind::Prove,
            Self::Proved => FrameKind::Proved,
            Self::Ping(_) => FrameKind::Ping,
            Self::Pong(_) => FrameKind::Pong,
            Self::SessionOpen(_) => FrameKind::SessionOpen,
            Self::SessionOpened(_) => FrameKind::SessionOpened,
            Self::MapGet(_) => FrameKind::MapGet,
            Self::Map(_) => FrameKind::Map,
            Self::Admin(_) => FrameKind::Admin,
            Self::AdminAnswer(_) => FrameKind::AdminAnswer,
            Self::Read { read, .. } => read.kind(),
            Self::Scan(scan) if scan.blobs => FrameKind::ScanBlobs,
            Self::Scan(_) => FrameKind::Scan,
            Self::Chunks(_) => FrameKind::ListChunks,
            Self::Changes(_) => FrameKind::ReadChanges,
            Self::Compare(_) => FrameKind::Compare,
            Self::Snapshot(snapshot) => snapshot.request.kind(),
            Self::Write { write, .. } => write.kind(),
            Self::Batch(_) => FrameKind::Batch,
            Self::Peer(peer) => peer.body.kind(),
            Self::Answer(_) => FrameKind::Answer,
            Self::BatchAnswer(_) => FrameKind::BatchAnswer,
            Self::Transact(_) => FrameKind::Transact,
            Self::Stage(_) => FrameKind::Stage,
            Self::Transacted(_) => FrameKind::Transacted,
            Self::Gather(_) => FrameKind::Gather,
            Self::Gathered(_) => FrameKind::Gathered,
        }
    }

    /// Appends its complete body to `out`, and returns its kind: the input of [`Message::decode_body`].
    ///
    /// # Errors
    /// It exceeds a limit of the protocol.
    pub fn encode_body(&self, out: &mut Vec<u8>) -> Result<FrameKind, Failure<'static>> {
        let tail = self.put(out)?.to_vec();
        out.extend_from_slice(&tail);
        Ok(self.kind())
    }

    /// Decodes a body.
    ///
    /// # Errors
    /// The body is invalid for this kind.
    pub fn decode_body(kind: FrameKind, body: &'a [u8]) -> Result<Self, Failure<'static>> {
        Self::decode_kind(kind, body)
    }

    /// Writes all of the body but the last piece of the payload to `out`, and returns that piece.
    pub(crate) fn put(&self, out: &mut Vec<u8>) -> Result<&[u8], Failure<'static>> {
        match self {
            Self::Read { seen, read } => {
                out.extend_from_slice(&seen.0.to_le_bytes());
                return read.put(out);
            }
            Self::Write { stamp, write } => {
                out.extend_from_slice(&stamp.encode()?);
                return write.put(out);
            }
            Self::Answer(answer) => return answer::put(answer, out),
            Self::Batch(batch) => return batch.put(out),
            Self::BatchAnswer(answers) => return answer::put_many(answers, out),
            Self::Transact(transact) => return transact.put(out),
            Self::Stage(stage) => return stage.put(out),
            Self::Transacted(transacted) => return transacted.put(out),
            Self::Gather(requests) => return requests.put(out),
            Self::Gathered(answers) => return answers.put(out),
            Self::Scan(scan) => return scan.put(out),
            Self::Chunks(list) => return list.put(out),
            Self::Changes(changes) => return changes.put(out),
            Self::Compare(compare) => return compare.put(out),
            Self::Snapshot(snapshot) => return snapshot.put(out),
            Self::Peer(peer) => return peer.put(out),
            Self::Hello(hello) => return hello.put(out),
            Self::Map(map) => return map.put(out),
            Self::Admin(admin) | Self::AdminAnswer(admin) => return admin.put(),
            Self::HelloAck(ack) => out.extend_from_slice(&ack.encode()),
            Self::Prove(prove) => out.extend_from_slice(&prove.proof),
            Self::Ping(ping) => out.extend_from_slice(&ping.encode()),
            Self::Pong(pong) => out.extend_from_slice(&pong.encode()),
            Self::SessionOpen(SessionOpen) | Self::Proved => {}
            Self::SessionOpened(opened) => out.extend_from_slice(&opened.encode()),
            Self::MapGet(get) => out.extend_from_slice(&get.encode()),
        }
        Ok(&[])
    }

    /// Decodes the message of this kind that fills `body`.
    pub(crate) fn decode_kind(kind: FrameKind, body: &'a [u8]) -> Result<Self, Failure<'static>> {
        Ok(match kind {
            FrameKind::Lookup
            | FrameKind::LookupRange
            | FrameKind::Inspect
            | FrameKind::GetBit
            | FrameKind::CountBits
            | FrameKind::Wait
            | FrameKind::Confirm
            | FrameKind::ReadChunk
            | FrameKind::UpdateLock => {
                let (mut fields, rest) = FieldReader::<8>::split(body)?;
                Self::Read { seen: Timestamp(fields.u64()), read: RecordRead::decode_body(kind, rest)? }
            }
            FrameKind::Answer => Self::Answer(answer::decode_answer(body)?),
            FrameKind::Batch => Self::Batch(OperationBatch::decode_body(body)?),
            FrameKind::BatchAnswer => Self::BatchAnswer(answer::decode_many(body)?),
            FrameKind::Transact => Self::Transact(Transact::decode_body(body)?),
            FrameKind::Stage => Self::Stage(StageBytes::decode_body(body)?),
            FrameKind::Transacted => Self::Transacted(TransactionDone::decode_body(body)?),
            FrameKind::Gather => Self::Gather(Elements::all(body)?),
            FrameKind::Gathered => Self::Gathered(Elements::all(body)?),
            FrameKind::Scan | FrameKind::ScanBlobs => {
                Self::Scan(Scan::decode_body(kind == FrameKind::ScanBlobs, body)?)
            }
            FrameKind::ListChunks => Self::Chunks(ChunkList::decode_body(body)?),
            FrameKind::ReadChanges => Self::Changes(ReadChanges::decode_body(body)?),
            FrameKind::Compare => Self::Compare(Compare::decode_body(body)?),
            FrameKind::OpenSnapshot
            | FrameKind::RenewSnapshot
            | FrameKind::CloseSnapshot
            | FrameKind::ReadAt
            | FrameKind::ScanAt => Self::Snapshot(SnapshotRequest::decode_body(kind, body)?),
            FrameKind::Replicate
            | FrameKind::ReplicateAck
            | FrameKind::StatePart
            | FrameKind::StateAck
            | FrameKind::LeaseQuery
            | FrameKind::LeaseGrant
            | FrameKind::Yield
            | FrameKind::Stale
            | FrameKind::EntryGet
            | FrameKind::EntryGot
            | FrameKind::EntryLost
            | FrameKind::DigestQuery
            | FrameKind::DigestReply
            | FrameKind::DigestDiffers
            | FrameKind::UnitQuery
            | FrameKind::UnitReply
            | FrameKind::Transaction => Self::Peer(PeerMessage::decode_body(kind, body)?),
            FrameKind::Hello => Self::Hello(Hello::decode_body(body)?),
            FrameKind::HelloAck => Self::HelloAck(HelloAck::decode_body(body)?),
            FrameKind::Prove => Self::Prove(Prove::decode_body(body)?),
            FrameKind::Proved => {
                nothing_left(body)?;
                Self::Proved
            }
            FrameKind::Ping => Self::Ping(Ping::decode_body(body)?),
            FrameKind::Pong => Self::Pong(Pong::decode_body(body)?),
            FrameKind::SessionOpen => Self::SessionOpen(SessionOpen::decode_body(body)?),
            FrameKind::SessionOpened => Self::SessionOpened(SessionOpened::decode_body(body)?),
            FrameKind::MapGet => Self::MapGet(MapGet::decode_body(body)?),
            FrameKind::Map => Self::Map(Map::decode_body(body)?),
            FrameKind::Admin => Self::Admin(Admin::decode_body(body)?),
            FrameKind::AdminAnswer => Self::AdminAnswer(Admin::decode_body(body)?),
            // The others are the writes of the table; any other kind is refused there.
            _ => {
                let (stamp, rest) = Stamp::split(body)?;
                Self::Write { stamp, write: RecordWrite::decode_body(kind, rest)? }
            }
        })
    }
}
