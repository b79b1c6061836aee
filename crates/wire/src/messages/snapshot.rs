//! Snapshots: the past state of a partition at one time, kept until the snapshot is closed or its lease expires.
//!
//! Every message begins with the same 24 bytes: the highest timestamp that the session has seen (8), the snapshot's id (16). The fields of the kind
//! follow:
//!
//! | kind | fields |
//! | --- | --- |
//! | open_snapshot | lease in ms (4), zero (4), longest age in ms (8) |
//! | renew_snapshot | lease in ms (4), zero (4) |
//! | close_snapshot | none |
//! | read_at | time (8), then the read as an item of a batch |
//! | scan_at | time (8), 0 for keys, 1 for names of blobs, 2 for chunks of a blob (1), zero (7), then the body of a scan |
//!
//! None has a sequence number: a client may repeat each of them without further effect. A client chooses the snapshot's id, so a repeated request
//! to open it opens it only once.

use super::batch::RecordOperation;
use super::{RecordRead, Scan};
use crate::elements::Element;
use crate::error::{BadRequestReason, Failure};
use crate::fields::{FieldReader, layout, nothing_left};
use crate::ids::{SnapshotId, Timestamp};
use crate::kind::FrameKind;
use crate::limits::{SNAPSHOT_AGE_MS_MAX, SNAPSHOT_LEASE_MS_MAX};

/// One request about a snapshot of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotRequest<'a> {
    /// The highest timestamp that the session has seen.
    pub seen: Timestamp,
    /// The snapshot.
    pub id: SnapshotId,
    /// The request.
    pub request: SnapshotQuery<'a>,
}

/// The kind of a request about a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SnapshotQuery<'a> {
    /// Keep the present state. Answers `Done`; every time from the version in the answer on can be read.
    Open {
        /// The partition releases the snapshot if it is not renewed within this time, at most `SNAPSHOT_LEASE_MS_MAX`.
        lease_ms: u32,
        /// The partition releases the snapshot after this time, at most `SNAPSHOT_AGE_MS_MAX`.
        age_ms: u64,
    },
    /// Keep the snapshot for this time from now on. Answers `Done`, version as for `Open`, or `SnapshotExpired`.
    Renew {
        /// As for `Open`.
        lease_ms: u32,
    },
    /// Release the snapshot. Answers `Done`, also if there is none.
    Close,
    /// Read a record as of a time. Answers like the read.
    Read {
        /// The time: not before the version in the answer to `Open`, and not in the future.
        at: Timestamp,
        /// A lookup of all or a part, a read of metadata, or a read of a chunk.
        read: RecordRead<'a>,
    },
    /// List keys, or names of blobs, that existed at a time. Answers `Page`.
    Scan {
        /// The time, as for `Read`.
        at: Timestamp,
        /// The page.
        scan: Scan<'a>,
    },
    /// List the chunks of a blob that existed at a time, as `Message::Chunks` lists the present ones. Answers `Page`.
    Chunks {
        /// The time, as for `Read`.
        at: Timestamp,
        /// The page. Its prefix is the name in the keys of the chunks, and `blobs` is not set.
        scan: Scan<'a>,
    },
}

/// What the page of a `scan_at` lists: keys, names of blobs, or the chunks of a blob.
const SCAN_KEYS: u8 = 0;
const SCAN_BLOBS: u8 = 1;
const SCAN_CHUNKS: u8 = 2;

impl<'a> SnapshotQuery<'a> {
    pub(crate) fn kind(&self) -> FrameKind {
        match self {
            Self::Open { .. } => FrameKind::OpenSnapshot,
            Self::Renew { .. } => FrameKind::RenewSnapshot,
            Self::Close => FrameKind::CloseSnapshot,
            Self::Read { .. } => FrameKind::ReadAt,
            Self::Scan { .. } | Self::Chunks { .. } => FrameKind::ScanAt,
        }
    }
}

impl<'a> SnapshotRequest<'a> {
    /// The highest timestamp that the server's clock must not be behind.
    #[must_use]
    pub fn newest(&self) -> Timestamp {
        match self.request {
            SnapshotQuery::Read { at, .. }
            | SnapshotQuery::Scan { at, .. }
            | SnapshotQuery::Chunks { at, .. } => self.seen.max(at),
            _ => self.seen,
        }
    }

    /// Whether it changes the partition's snapshots.
    #[must_use]
    pub fn changes(&self) -> bool {
        matches!(self.request, SnapshotQuery::Open { .. } | SnapshotQuery::Close)
    }

    pub(crate) fn put(&self, out: &mut Vec<u8>) -> Result<&'a [u8], Failure<'static>> {
        out.extend_from_slice(&self.seen.0.to_le_bytes());
        out.extend_from_slice(&self.id.0.to_le_bytes());
        match self.request {
            SnapshotQuery::Open { lease_ms, age_ms } => {
                check_lease(lease_ms)?;
                check_age(age_ms)?;
                let fields: [u8; 16] = layout(|to| to.u32(lease_ms).zeros(4).u64(age_ms));
                out.extend_from_slice(&fields);
            }
            SnapshotQuery::Renew { lease_ms } => {
                check_lease(lease_ms)?;
                let fields: [u8; 8] = layout(|to| to.u32(lease_ms).zeros(4));
                out.extend_from_slice(&fields);
            }
            SnapshotQuery::Close => {}
            SnapshotQuery::Read { at, read } => {
                check_query(&read)?;
                out.extend_from_slice(&at.0.to_le_bytes());
                // In all these reads the key is the last piece.
                let _key = RecordOperation::Read(read).put(out)?;
                return Ok(read.key);
            }
            SnapshotQuery::Scan { at, scan } | SnapshotQuery::Chunks { at, scan } => {
                let listed = match self.request {
                    SnapshotQuery::Chunks { .. } => SCAN_CHUNKS,
                    _ if scan.blobs => SCAN_BLOBS,
                    _ => SCAN_KEYS,
                };
                let fields: [u8; 16] = layout(|to| to.u64(at.0).u8(listed).zeros(7));
                out.extend_from_slice(&fields);
                return Scan { seen: self.seen, ..scan }.put(out);
            }
        }
        Ok(&[])
    }

    pub(crate) fn decode_body(kind: FrameKind, body: &'a [u8]) -> Result<Self, Failure<'static>> {
        let (mut fields, rest) = FieldReader::<24>::split(body)?;
        let (seen, id) = (Timestamp(fields.u64()), SnapshotId(u128::from_le_bytes(fields.bytes())));
        fields.done()?;
        let query = match kind {
            FrameKind::OpenSnapshot => {
                let (mut fields, rest) = FieldReader::<16>::split(rest)?;
                let lease_ms = fields.u32();
                fields.zeros(4);
                let age_ms = fields.u64();
                fields.done()?;
                nothing_left(rest)?;
                check_lease(lease_ms)?;
                check_age(age_ms)?;
                SnapshotQuery::Open { lease_ms, age_ms }
            }
            FrameKind::RenewSnapshot => {
                let (mut fields, rest) = FieldReader::<8>::split(rest)?;
                let lease_ms = fields.u32();
                fields.zeros(4);
                fields.done()?;
                nothing_left(rest)?;
                check_lease(lease_ms)?;
                SnapshotQuery::Renew { lease_ms }
            }
            FrameKind::CloseSnapshot => {
                nothing_left(rest)?;
                SnapshotQuery::Close
            }
            FrameKind::ReadAt => {
                let (mut fields, mut rest) = FieldReader::<8>::split(rest)?;
                let at = Timestamp(fields.u64());
                fields.done()?;
                let RecordOperation::Read(read) = RecordOperation::take(&mut rest)? else {
                    return Err(BadRequestReason::SnapshotQuery.into());
                };
                nothing_left(rest)?;
                check_query(&read)?;
                SnapshotQuery::Read { at, read }
            }
            _ => {
                let (mut fields, rest) = FieldReader::<16>::split(rest)?;
                let (at, listed) = (Timestamp(fields.u64()), fields.u8());
                fields.zeros(7);
                fields.done()?;
                if listed > SCAN_CHUNKS {
                    return Err(BadRequestReason::Detail.into());
                }
                let scan = Scan { seen, ..Scan::decode_body(listed == SCAN_BLOBS, rest)? };
                match listed {
                    SCAN_CHUNKS => SnapshotQuery::Chunks { at, scan },
                    _ => SnapshotQuery::Scan { at, scan },
                }
            }
        };
        Ok(Self { seen, id, request: query })
    }
}

fn check_lease(lease_ms: u32) -> Result<(), Failure<'static>> {
    match lease_ms {
        1..=SNAPSHOT_LEASE_MS_MAX => Ok(()),
        _ => Err(BadRequestReason::SnapshotLease.into()),
    }
}

fn check_age(age_ms: u64) -> Result<(), Failure<'static>> {
    match age_ms {
        1..=SNAPSHOT_AGE_MS_MAX => Ok(()),
        _ => Err(BadRequestReason::SnapshotLease.into()),
    }
}

fn check_query(read: &RecordRead<'_>) -> Result<(), Failure<'static>> {
    if read.query.is_in_snapshots() { Ok(()) } else { Err(BadRequestReason::SnapshotQuery.into()) }
}
