//! Any bytes as a segment file: they are read to their end without a panic, and an engine opens on them.

use crate::engine::open_engine_on;
use zerohop_engine::log::header::{self, HEADER_BYTES, SegmentHeader};
use zerohop_engine::log::scan::{self, ScanItem};

/// Goes through any input; panics where it breaks a promise.
pub fn run(bytes: &[u8]) {
    let decoded = SegmentHeader::decode(bytes);
    if let Ok(header) = &decoded {
        // But for the version, which may be an older one, and the checksum over it.
        let (read, written) = (&bytes[..HEADER_BYTES], header.encode());
        for part in [0..8, 12..HEADER_BYTES - 4] {
            assert_eq!(
                read[part.clone()],
                written[part],
                "a header that is read is the one that was written"
            );
        }
    }
    let copy = header::find_copy(bytes, |_| true);
    if let Some(header) = decoded.ok().or(copy) {
        let mut last = 0;
        for item in
            scan::items(&header.base, bytes.get(HEADER_BYTES..).unwrap_or(&[]), HEADER_BYTES as u64, 0)
        {
            if let ScanItem::Entry { entry, offset, .. } = item {
                assert!(entry.head.meta.index > last, "entries rise");
                assert!(
                    offset as usize + entry.head.entry_bytes() <= bytes.len(),
                    "an entry lies within the file"
                );
                last = entry.head.meta.index;
            }
        }
    }
    open_engine_on(&[("p-0000000000000001/0000000000000001-00000000.seg", bytes)]);
}
