//! The end of a sealed segment: its footer and trailer, and the room for them.

use super::entry::{self, EntryKind, EntryMeta, HEAD_BYTES};
use super::header;
use super::segment::Segment;
use crate::resources::Space;

/// Whether marks and a footer may be added to the file of a segment, by the limit of file sizes. Segments are laid out so that they may;
/// this one may have been written under a higher limit.
pub(super) fn may_grow(segment: &Segment, space: &Space) -> bool {
    let samples = segment.bytes / u64::from(crate::limits::SAMPLE_EVERY) / HEAD_BYTES as u64;
    segment.bytes + FOOTER_ROOM_BYTES + 8 * samples <= space.file_bytes_max()
}

/// Room for some marks and for a footer without samples: less than what an admitted entry leaves beside itself.
const FOOTER_ROOM_BYTES: u64 = 2 << 10;

/// Seals a segment; `judged_at` is the commit index at which compaction judged the last entry. Returns the memory used.
pub(crate) fn push_footer(segment: &mut Segment, judged_at: u64) -> usize {
    let base = *segment.base();
    let meta = EntryMeta {
        kind: EntryKind::Footer,
        flags: 0,
        epoch: segment.last_epoch,
        index: segment.last_index.max(base.index),
        timestamp: base.timestamp,
    };
    let payload = segment.footer(judged_at).encode(&segment.header);
    let footer_at = segment.bytes as u32;
    let mut bytes = Vec::with_capacity(HEAD_BYTES + payload.len() + header::TRAILER_BYTES);
    entry::encode(&base, &meta, &[], &payload, &mut bytes);
    let trailer = header::encode_trailer(base.salt, footer_at, bytes.len() as u32);
    bytes.extend_from_slice(&trailer);
    segment.sealed = true;
    segment.push(&bytes)
}
