//! Any bytes as a transaction's entry: refused, or read into what is written as the same bytes; one of the version before, into
//! what is read as the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use zerohop_transaction::Entry;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(entry) = Entry::decode(bytes) {
        if bytes.first() == Some(&zerohop_transaction::codec::VERSION) {
            assert_eq!(entry.encode(), bytes);
        } else {
            assert_eq!(Entry::decode(&entry.encode()), Ok(entry));
        }
    }
});
