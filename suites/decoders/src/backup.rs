//! Any bytes as the manifest, the header of a part, and an entry of a backup: refused, or read into what is written the same;
//! behind checksums that are right too, else no change would get past them.

use zerohop_backup::format::checksum;
use zerohop_backup::format::manifest::Manifest;
use zerohop_backup::format::part::{HEADER_BYTES, PartEntry, PartHeader};

/// Goes through any input; panics where it breaks a promise.
pub fn run(bytes: &[u8]) {
    let _any = Manifest::decode(bytes);
    for version in [1u8, 2] {
        let mut sealed = [&b"ZHBM"[..], &[version, 0, 0, 0]].concat();
        sealed.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
        sealed.extend_from_slice(&checksum(bytes).to_le_bytes());
        sealed.extend_from_slice(bytes);
        if let Ok(manifest) = Manifest::decode(&sealed) {
            assert_eq!(manifest.encode(), sealed);
        }
    }
    let _any = PartHeader::decode(bytes);
    if let Some(begin) = bytes.get(..HEADER_BYTES - 4) {
        let sealed = [begin, &checksum(begin).to_le_bytes()].concat();
        if let Ok(header) = PartHeader::decode(&sealed) {
            assert_eq!(header.encode(), sealed[..]);
        }
    }
    if let Some(frame) = bytes.first_chunk() {
        let _any = PartEntry::frame(*frame);
    }
    if let Ok(entry) = PartEntry::decode(bytes, checksum(bytes)) {
        let mut out = Vec::new();
        entry.encode(&mut out);
        assert_eq!(out[8..], *bytes);
    }
}
