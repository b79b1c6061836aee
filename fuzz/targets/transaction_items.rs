//! Any bytes as a staged list of items: refused, or read into what is written as the same bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use zerohop_transaction::codec::{decode_items, encode_items};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(items) = decode_items(bytes) {
        assert_eq!(encode_items(&items), bytes);
    }
});
