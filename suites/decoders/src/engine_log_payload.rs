//! Any bytes as the payload of a local entry of a shared log, as the directory of a checkpoint round, or as a run of a snapshot install:
//! what is read is what was written.

use zerohop_engine::log::shared::install_run::{RUN_HEADER_BYTES, RunHeader, entries_of};
use zerohop_engine::log::shared::local::{Creation, LogFooter, LogMark, VoidRange};
use zerohop_engine::log::shared::round::RoundDirectory;

/// Goes through any input; panics where it breaks a promise.
pub fn run(bytes: &[u8]) {
    if let Some(rows) = Creation::decode_all(bytes) {
        assert_eq!(Creation::encode_all(&rows), bytes);
    }
    if let Some(mark) = LogMark::decode(bytes) {
        assert_eq!(mark.encode(), bytes);
    }
    if let Some(rows) = VoidRange::decode_all(bytes) {
        assert_eq!(VoidRange::encode_all(&rows), bytes);
    }
    if let Some(directory) = RoundDirectory::decode(bytes) {
        assert_eq!(directory.encode(), bytes);
    }
    if let Some((header, entries)) = RunHeader::decode(bytes) {
        assert_eq!(header.encode(), bytes[..RUN_HEADER_BYTES]);
        let found = entries_of(&header, entries).unwrap_or_default();
        let length: usize = found.iter().map(|entry| entry.head.entry_bytes()).sum();
        assert!(found.is_empty() || length == entries.len(), "entries follow each other without gaps");
    }
    if let Some(footer) = LogFooter::decode(bytes) {
        assert_eq!(footer.encode(), bytes);
    }
}
