//! Any bytes as a transaction's message: refused, or read into what is written as the same bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use zerohop_transaction::Message;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(message) = Message::decode(bytes) {
        assert_eq!(message.encode(), bytes);
    }
});
