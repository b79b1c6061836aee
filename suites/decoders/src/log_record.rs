//! Any bytes as each record of a log's keyspace: refused, or read into what is written as the same bytes.

use zerohop_layer_log::{
    CursorRecord, GroupRecord, HeartbeatRecord, LogOptions, OffsetRecord, PopRecord, ProducerRecord,
    StoredBatch, TailRecord, TrimRecord,
};
use zerohop_layer_procedure::Record;

/// Goes through any input; panics where it breaks a promise.
pub fn run(bytes: &[u8]) {
    read::<TailRecord>(bytes);
    read::<TrimRecord>(bytes);
    read::<ProducerRecord>(bytes);
    read::<LogOptions>(bytes);
    read::<GroupRecord>(bytes);
    read::<HeartbeatRecord>(bytes);
    read::<OffsetRecord>(bytes);
    read::<CursorRecord>(bytes);
    read::<PopRecord>(bytes);
    read::<StoredBatch>(bytes);
    // Behind a checksum of the batch that is right: else no change would get past it.
    if let (Some(front), Some(rest)) = (bytes.get(..25), bytes.get(29..)) {
        let sum = zerohop_wire::checksum::crc32c(rest).to_le_bytes();
        read::<StoredBatch>(&[front, &sum, rest].concat());
    }
}

fn read<R: Record>(bytes: &[u8]) {
    if let Some(record) = R::decode(bytes) {
        assert_eq!(record.encode(), bytes);
    }
}
