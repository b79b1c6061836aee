//! Snapshots: what a partition held at a past time, kept until it is closed or its lease is over.
//!
//! Every message opens with the same 24 bytes: the highest timestamp that the session has seen (8), the snapshot's id (16).
//! Then come the fields of the kind:
//!
//! | kind | fields |
//! | --- | --- |
//! | open_snapshot | lease in ms (4), zero (4), longest age in ms (8) |
//! | renew_snapshot | lease in ms (4), zero (4) |
//! | close_snapshot | none |
//! | read_at | time (8), then the read as an item of a batch |
//! | scan_at | time (8), 1 for names of blobs, else 0 (1), zero (7), then the body of a scan |
//!
//! None carries a number of a session: each may be sent again and changes nothing that was not asked for. A snapshot is
//! opened under an id of the client's choosing, once however often it is asked for.

use super::batch::RecordOperation;
use super::{Query, RecordRead, Scan};
use crate::elements::Element;
use crate::error::{Failure, What};
use crate::fields::{FieldReader, layout, nothing_left};
use crate::ids::{SnapshotId, Timestamp};
use crate::kind::Kind;
use crate::limits::{SNAPSHOT_AGE_MS_MAX, SNAPSHOT_LEASE_MS_MAX};

/// One request about a snapshot of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotRequest<'a> {
    /// The highest timestamp that the session has seen.
    pub seen: Timestamp,
    /// Which snapshot.
    pub id: SnapshotId,
    /// What of it.
    pub ask: SnapshotAsk<'a>,
}

/// What is asked of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SnapshotAsk<'a> {
    /// Keep what is here from now on. Answers `Done`, version: any time from there on can be read.
    Open {
        /// It goes if it is not renewed for so long, at most `SNAPSHOT_LEASE_MS_MAX`.
        lease_ms: u32,
        /// It goes after so long, at most `SNAPSHOT_AGE_MS_MAX`.
        age_ms: u64,
    },
    /// Keep it for so long from now. Answers `Done`, version as for `Open`, or `SnapshotExpired`.
    Renew {
        /// As above.
        lease_ms: u32,
    },
    /// Nobody reads it any more. Answers `Done`, also if there is none.
    Close,
    /// What a record was at a time. Answers as the read does.
    Read {
        /// The time: not before what `Open` was answered, and not in the future.
        at: Timestamp,
        /// A lookup, of all or a part, an inspection, or a read of a chunk.
        read: RecordRead<'a>,
    },
    /// Keys, or names of blobs, that were there at a time. Answers `Page`.
    Scan {
        /// The time, as above.
        at: Timestamp,
        /// The page.
        scan: Scan<'a>,
    },
}

impl<'a> SnapshotAsk<'a> {
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Self::Open { .. } => Kind::OpenSnapshot,
            Self::Renew { .. } => Kind::RenewSnapshot,
            Self::Close => Kind::CloseSnapshot,
            Self::Read { .. } => Kind::ReadAt,
            Self::Scan { .. } => Kind::ScanAt,
        }
    }
}

impl<'a> SnapshotRequest<'a> {
    /// The highest timestamp that whoever answers must not be behind.
    #[must_use]
    pub fn newest(&self) -> Timestamp {
        match self.ask {
            SnapshotAsk::Read { at, .. } | SnapshotAsk::Scan { at, .. } => self.seen.max(at),
            _ => self.seen,
        }
    }

    /// Whether it changes what the partition keeps.
    #[must_use]
    pub fn changes(&self) -> bool {
        matches!(self.ask, SnapshotAsk::Open { .. } | SnapshotAsk::Close)
    }

    pub(crate) fn put(&self, out: &mut Vec<u8>) -> Result<&'a [u8], Failure<'static>> {
        out.extend_from_slice(&self.seen.0.to_le_bytes());
        out.extend_from_slice(&self.id.0.to_le_bytes());
        match self.ask {
            SnapshotAsk::Open { lease_ms, age_ms } => {
                check_lease(lease_ms)?;
                check_age(age_ms)?;
                let fields: [u8; 16] = layout(|to| to.u32(lease_ms).zeros(4).u64(age_ms));
                out.extend_from_slice(&fields);
            }
            SnapshotAsk::Renew { lease_ms } => {
                check_lease(lease_ms)?;
                let fields: [u8; 8] = layout(|to| to.u32(lease_ms).zeros(4));
                out.extend_from_slice(&fields);
            }
            SnapshotAsk::Close => {}
            SnapshotAsk::Read { at, read } => {
                check_query(&read)?;
                out.extend_from_slice(&at.0.to_le_bytes());
                // Of all that can be asked here the key is the last piece.
                let _key = RecordOperation::Read(read).put(out)?;
                return Ok(read.key);
            }
            SnapshotAsk::Scan { at, scan } => {
                let fields: [u8; 16] = layout(|to| to.u64(at.0).u8(u8::from(scan.blobs)).zeros(7));
                out.extend_from_slice(&fields);
                return Scan { seen: self.seen, ..scan }.put(out);
            }
        }
        Ok(&[])
    }

    pub(crate) fn take(kind: Kind, body: &'a [u8]) -> Result<Self, Failure<'static>> {
        let (mut fields, rest) = FieldReader::<24>::split(body)?;
        let (seen, id) = (Timestamp(fields.u64()), SnapshotId(u128::from_le_bytes(fields.bytes())));
        fields.done()?;
        let ask = match kind {
            Kind::OpenSnapshot => {
                let (mut fields, rest) = FieldReader::<16>::split(rest)?;
                let lease_ms = fields.u32();
                fields.zeros(4);
                let age_ms = fields.u64();
                fields.done()?;
                nothing_left(rest)?;
                check_lease(lease_ms)?;
                check_age(age_ms)?;
                SnapshotAsk::Open { lease_ms, age_ms }
            }
            Kind::RenewSnapshot => {
                let (mut fields, rest) = FieldReader::<8>::split(rest)?;
                let lease_ms = fields.u32();
                fields.zeros(4);
                fields.done()?;
                nothing_left(rest)?;
                check_lease(lease_ms)?;
                SnapshotAsk::Renew { lease_ms }
            }
            Kind::CloseSnapshot => {
                nothing_left(rest)?;
                SnapshotAsk::Close
            }
            Kind::ReadAt => {
                let (mut fields, mut rest) = FieldReader::<8>::split(rest)?;
                let at = Timestamp(fields.u64());
                fields.done()?;
                let RecordOperation::Read(read) = RecordOperation::take(&mut rest)? else {
                    return Err(What::SnapshotQuery.into());
                };
                nothing_left(rest)?;
                check_query(&read)?;
                SnapshotAsk::Read { at, read }
            }
            _ => {
                let (mut fields, rest) = FieldReader::<16>::split(rest)?;
                let (at, blobs) = (Timestamp(fields.u64()), fields.u8());
                fields.zeros(7);
                fields.done()?;
                if blobs > 1 {
                    return Err(What::Detail.into());
                }
                SnapshotAsk::Scan { at, scan: Scan { seen, ..Scan::take(blobs == 1, rest)? } }
            }
        };
        Ok(Self { seen, id, ask })
    }
}

fn check_lease(lease_ms: u32) -> Result<(), Failure<'static>> {
    match lease_ms {
        1..=SNAPSHOT_LEASE_MS_MAX => Ok(()),
        _ => Err(What::SnapshotLease.into()),
    }
}

fn check_age(age_ms: u64) -> Result<(), Failure<'static>> {
    match age_ms {
        1..=SNAPSHOT_AGE_MS_MAX => Ok(()),
        _ => Err(What::SnapshotLease.into()),
    }
}

fn check_query(read: &RecordRead<'_>) -> Result<(), Failure<'static>> {
    match read.query {
        Query::Lookup | Query::LookupRange { .. } | Query::Inspect | Query::ReadChunk { .. } => Ok(()),
        _ => Err(What::SnapshotQuery.into()),
    }
}
