//! The header that opens every frame: 48 bytes, little-endian.
//!
//! | offset | size | field |
//! | --- | --- | --- |
//! | 0 | 3 | magic `FA 5A 48` |
//! | 3 | 1 | version |
//! | 4 | 2 | kind |
//! | 6 | 2 | flags |
//! | 8 | 8 | request id |
//! | 16 | 4 | keyspace |
//! | 20 | 4 | partition |
//! | 24 | 8 | partition epoch |
//! | 32 | 4 | of a request: time-out in ms, 0: the server's default; of an answer: for how many us what was read is locked |
//! | 36 | 4 | body length |
//! | 40 | 4 | CRC-32C of the body, 0 if the flag is not set |
//! | 44 | 4 | CRC-32C of bytes 0 to 43 |

use crate::checksum::crc32c;
use crate::fields::layout;
use crate::ids::{KeyspaceId, PartitionEpoch, PartitionId, RequestId};

/// Length of a header in bytes.
pub const HEADER_BYTES: usize = 48;

/// The first bytes of every frame. The first byte does not occur in UTF-8, so it starts no Redis command, inline or not, and no line of HTTP. It
/// starts no TLS record either.
pub const MAGIC: [u8; 3] = [0xfa, b'Z', b'H'];

const CHECKED_BYTES: usize = HEADER_BYTES - 4;

/// Flags of a header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(pub u16);

impl Flags {
    /// The header has a checksum of the body.
    pub const BODY_CHECKSUM: Self = Self(1);
    /// The body is a `u32` length and an LZ4 block that expands to a body of this length.
    pub const LZ4: Self = Self(2);

    /// The request asks for a read lock with a time limit; see [`Envelope::read_lock`].
    pub const READ_LOCK: Self = Self(4);

    /// The body begins with a [`TraceContext`].
    pub const TRACE: Self = Self(8);

    const KNOWN: u16 = Self::BODY_CHECKSUM.0 | Self::LZ4.0 | Self::READ_LOCK.0 | Self::TRACE.0;

    /// Whether all flags of `other` are set.
    #[must_use]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// The union of both.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether this version knows all flags that are set.
    #[must_use]
    pub const fn all_known(self) -> bool {
        self.0 & !Self::KNOWN == 0
    }
}

/// The place of a request in a trace that spans processes: version (1), trace (16), parent (8), flags (1), as in a `traceparent` of W3C. No program
/// uses it yet: receivers skip it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceContext(pub [u8; TRACE_BYTES]);

/// Length of a [`TraceContext`] in bytes.
pub const TRACE_BYTES: usize = 26;

/// The part of the header that its sender chooses, beside the message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Envelope {
    /// Matches the answer to the request; an answer repeats it.
    pub request: RequestId,
    /// The keyspace, or `NONE`; an answer repeats it.
    pub keyspace: KeyspaceId,
    /// The partition within the keyspace; an answer repeats it.
    pub partition: PartitionId,
    /// In a request, the epoch of the partition with which it was routed. In an answer, the epoch of the group that answers.
    pub partition_epoch: PartitionEpoch,
    /// In a request, how long the client waits, in milliseconds; 0 means the server's default. A server drops overdue requests. In an answer,
    /// [`Envelope::read_lock_us`].
    pub time_out_ms: u32,
    /// The request asks for a read lock with a time limit: a promise that what it reads does not change for a moment, so that no confirming round
    /// is needed. Only where [`Features::READ_LOCKS`](crate::Features::READ_LOCKS) is agreed.
    pub read_lock: bool,
}

impl Envelope {
    /// In an answer: the duration of the read lock in microseconds, from the time of the request; 0: no lock.
    #[must_use]
    pub const fn read_lock_us(&self) -> u32 {
        self.time_out_ms
    }
}

/// A header with valid magic number and checksum. Its other fields are as the peer wrote them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    /// Version of the frame's layout.
    pub version: u8,
    /// Number of the frame's kind, see [`FrameKind`](crate::kind::FrameKind).
    pub kind: u16,
    /// Properties of the body.
    pub flags: Flags,
    /// The frame's envelope.
    pub envelope: Envelope,
    /// Length of the body, which follows the header, in bytes.
    pub body_len: u32,
    /// CRC-32C of the body as it is sent, if the flag says so.
    pub body_crc: u32,
}

impl FrameHeader {
    /// The encoded header, with its checksum.
    #[must_use]
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        self.write_to(&mut bytes);
        bytes
    }

    /// Writes the header into the send buffer.
    // It writes entire words in place: the checksum reads them back at once, and a processor stalls on small stores that it reads back as larger
    // ones.
    #[inline]
    pub(crate) fn write_to(&self, to: &mut [u8; HEADER_BYTES]) {
        let Envelope { request, keyspace, partition, partition_epoch, time_out_ms, read_lock } =
            self.envelope;
        let flags = if read_lock { self.flags.with(Flags::READ_LOCK) } else { self.flags };
        let [m0, m1, m2] = MAGIC;
        let opening = pair(u32::from_le_bytes([m0, m1, m2, self.version]), pair16(self.kind, flags.0));
        *to = layout(|to| {
            to.u64(opening)
                .u64(request.0)
                .u64(pair(keyspace.0, partition.0))
                .u64(partition_epoch.0)
                .u64(pair(time_out_ms, self.body_len))
                .u64(self.body_crc.into())
        });
        let crc = crc32c(&to[..CHECKED_BYTES]);
        to[CHECKED_BYTES..].copy_from_slice(&crc.to_le_bytes());
    }

    /// Decodes the fields after the magic number; `None` if the checksum does not match.
    #[must_use]
    #[inline]
    pub(crate) fn decode(bytes: &[u8; HEADER_BYTES]) -> Option<Self> {
        let (checked, crc) = bytes.split_at(CHECKED_BYTES);
        if crc32c(checked).to_le_bytes() != *crc {
            return None;
        }
        let flags = Flags(u16::from_le_bytes(at(bytes, 6)));
        Some(Self {
            version: bytes[3],
            kind: u16::from_le_bytes(at(bytes, 4)),
            flags,
            envelope: Envelope {
                request: RequestId(u64::from_le_bytes(at(bytes, 8))),
                keyspace: KeyspaceId(u32::from_le_bytes(at(bytes, 16))),
                partition: PartitionId(u32::from_le_bytes(at(bytes, 20))),
                partition_epoch: PartitionEpoch(u64::from_le_bytes(at(bytes, 24))),
                time_out_ms: u32::from_le_bytes(at(bytes, 32)),
                read_lock: flags.has(Flags::READ_LOCK),
            },
            body_len: u32::from_le_bytes(at(bytes, 36)),
            body_crc: u32::from_le_bytes(at(bytes, 40)),
        })
    }
}

const fn pair(low: u32, high: u32) -> u64 {
    low as u64 | (high as u64) << 32
}

const fn pair16(low: u16, high: u16) -> u32 {
    low as u32 | (high as u32) << 16
}

#[inline(always)]
fn at<const W: usize>(bytes: &[u8; HEADER_BYTES], offset: usize) -> [u8; W] {
    let mut value = [0; W];
    value.copy_from_slice(&bytes[offset..offset + W]);
    value
}
