//! Any bytes as a staged list of items and as the parts of a transaction: refused, or read into what is written as the
//! same bytes.

use zerohop_transaction::codec::{decode_items, decode_parts, encode_items, encode_parts};

/// Goes through any input; panics where it breaks a promise.
pub fn run(bytes: &[u8]) {
    if let Ok(items) = decode_items(bytes) {
        assert_eq!(encode_items(&items), bytes);
    }
    if let Ok(parts) = decode_parts(bytes) {
        assert_eq!(encode_parts(&parts), bytes);
    }
}
