//! Any bytes as a transaction's message: refused, or read into what is written as the same bytes.

use zerohop_transaction::Message;

/// Goes through any input; panics where it breaks a promise.
pub fn run(bytes: &[u8]) {
    if let Ok(message) = Message::decode(bytes) {
        assert_eq!(message.encode(), bytes);
    }
}
