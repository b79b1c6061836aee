//! Any bytes as a node's state file: refused, or decoded into what encodes to the same bytes.

use zerohop_server::SavedNode;
use zerohop_wire::checksum::crc32c;

/// Goes through any input; panics where it breaks a promise.
pub fn run(bytes: &[u8]) {
    if let Ok(saved) = SavedNode::decode(bytes) {
        assert_eq!(saved.encode(), bytes);
    }
    // Behind a checksum that is right whatever the rest is: else no change would get past it.
    let sealed = [bytes, &crc32c(bytes).to_le_bytes()].concat();
    if let Ok(saved) = SavedNode::decode(&sealed) {
        assert_eq!(saved.encode(), sealed);
    }
}
