//! Any bytes as a staged list of items and as the parts of a transaction: refused, or read into what is written as the
//! same bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use zerohop_transaction::codec::{decode_items, decode_parts, encode_items, encode_parts};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(items) = decode_items(bytes) {
        assert_eq!(encode_items(&items), bytes);
    }
    if let Ok(parts) = decode_parts(bytes) {
        assert_eq!(encode_parts(&parts), bytes);
    }
});
