//! Any bytes as a checkpoint file: they are read to their end without a panic, and an engine opens on them.

use crate::engine::open_engine_on;
use zerohop_engine::checkpoint::{CheckpointHeader, encode_block, read_blocks};

/// Goes through any input; panics where it breaks a promise.
pub fn run(bytes: &[u8]) {
    if let Ok(header) = CheckpointHeader::decode(bytes) {
        let read = read_blocks(header.salt(), bytes, |block| {
            let mut again = Vec::new();
            encode_block(header.salt(), &block, &mut again);
            assert!(again.len() <= bytes.len(), "a block lies within the file");
            Ok(())
        });
        assert!(read.is_err() || bytes.len() > 64, "a whole file has an end block");
    }
    open_engine_on(&[("p-0000000000000001/0000000000000106.ckp", bytes)]);
}
