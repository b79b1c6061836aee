//! Any bytes as a batch of a log, as they are and behind a checksum that is right: refused, or read into as many records as the
//! batch says, and stored as the same bytes.

use zerohop_layer_log::{Batch, BatchLimits};

/// Goes through any input; panics where it breaks a promise.
pub fn run(bytes: &[u8]) {
    let limits = BatchLimits::default();
    let _any = Batch::parse(bytes.to_vec(), &limits);
    let Some(rest) = bytes.get(4..) else { return };
    let sealed = [&zerohop_wire::checksum::crc32c(rest).to_le_bytes(), rest].concat();
    if let Ok(batch) = Batch::parse(sealed.clone(), &limits) {
        assert_eq!(batch.bytes(), sealed);
        let records: Vec<_> = batch.records().collect();
        assert_eq!(records.len(), batch.count() as usize);
        assert_eq!(records.iter().map(|record| record.time).max(), Some(batch.max_time()));
    }
}
