//! Any bytes as a transaction's entry: refused, or read into what is written as the same bytes; one of the version before, into
//! what is read as the same.

use zerohop_transaction::TransactionEntry;

/// Goes through any input; panics where it breaks a promise.
pub fn run(bytes: &[u8]) {
    if let Ok(entry) = TransactionEntry::decode(bytes) {
        if bytes.first() == Some(&zerohop_transaction::codec::VERSION) {
            assert_eq!(entry.encode(), bytes);
        } else {
            assert_eq!(TransactionEntry::decode(&entry.encode()), Ok(entry));
        }
    }
}
