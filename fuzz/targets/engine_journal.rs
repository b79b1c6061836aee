//! Any bytes as a journal file: they are read to their end without a panic, and an engine opens on them.
#![no_main]

use libfuzzer_sys::fuzz_target;
use zerohop_engine::journal::format::{self, HEADER_BYTES, Header, Item};
use zerohop_fuzz::open_engine_on;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(header) = Header::decode(bytes) {
        for item in format::items(header.salt, bytes.get(HEADER_BYTES..).unwrap_or(&[])) {
            if let Item::Record(record) = item {
                let mut again = Vec::new();
                format::encode(header.salt, &record, &mut again);
                assert!(again.len() <= bytes.len(), "a record lies within the file");
            }
        }
    }
    open_engine_on(&[("journal/0000000000000001.jnl", bytes)]);
});
