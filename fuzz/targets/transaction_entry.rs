//! Any bytes as a transaction's entry: refused, or read into what is written as the same bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use zerohop_transaction::Entry;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(entry) = Entry::decode(bytes) {
        assert_eq!(entry.encode(), bytes);
    }
});
