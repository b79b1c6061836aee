//! Any bytes as a journal file: they are read to their end without a panic, and an engine opens on them.

use crate::engine::open_engine_on;
use zerohop_engine::journal::format::{self, HEADER_BYTES, JournalHeader, JournalItem};

/// Goes through any input; panics where it breaks a promise.
pub fn run(bytes: &[u8]) {
    if let Ok(header) = JournalHeader::decode(bytes) {
        for item in format::items(header.salt, bytes.get(HEADER_BYTES..).unwrap_or(&[])) {
            if let JournalItem::Record(record) = item {
                let mut again = Vec::new();
                format::encode(header.salt, &record, &mut again);
                assert!(again.len() <= bytes.len(), "a record lies within the file");
            }
        }
    }
    open_engine_on(&[("journal/0000000000000001.jnl", bytes)]);
}
