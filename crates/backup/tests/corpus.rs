//! Entries, a manifest and a header of earlier versions must stay readable: the corpus of the fuzz
//! target.
#![allow(missing_docs, reason = "a test")]

use zerohop_backup::format::checksum;
use zerohop_backup::format::manifest::Manifest;
use zerohop_backup::format::part::{HEADER_BYTES, PartEntry, PartHeader};

#[test]
fn corpus_bytes_decode_and_encode_unchanged() {
    let entries: [&[u8]; 7] = [
        include_bytes!("../../../fuzz/corpus/backup/bytes"),
        include_bytes!("../../../fuzz/corpus/backup/list"),
        include_bytes!("../../../fuzz/corpus/backup/values"),
        include_bytes!("../../../fuzz/corpus/backup/blob"),
        include_bytes!("../../../fuzz/corpus/backup/chunk"),
        include_bytes!("../../../fuzz/corpus/backup/kept"),
        include_bytes!("../../../fuzz/corpus/backup/end"),
    ];
    for bytes in entries {
        let entry = PartEntry::decode(bytes, checksum(bytes)).expect("is an entry");
        let mut out = Vec::new();
        entry.encode(&mut out);
        assert_eq!(out[8..], *bytes);
    }
    let body: &[u8] = include_bytes!("../../../fuzz/corpus/backup/manifest-body");
    let mut sealed = b"ZHBM\x01\0\0\0".to_vec();
    sealed.extend_from_slice(&(body.len() as u32).to_le_bytes());
    sealed.extend_from_slice(&checksum(body).to_le_bytes());
    sealed.extend_from_slice(body);
    let manifest = Manifest::decode(&sealed).expect("is a manifest");
    assert_eq!((manifest.keyspaces[0].name.as_str(), manifest.parts[0].partition), ("default", 5));
    assert_eq!(manifest.encode(), sealed);
    let header: &[u8] = include_bytes!("../../../fuzz/corpus/backup/part-header");
    let begin = &header[..HEADER_BYTES - 4];
    let sealed = [begin, &checksum(begin).to_le_bytes()].concat();
    assert_eq!(PartHeader::decode(&sealed).expect("is a header").encode(), sealed[..]);
}
