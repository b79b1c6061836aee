//! Any bytes as each record of objects, and as lifecycle rules: refused, or read into what is written as the same bytes.

use zerohop_layer_procedure::Record;
use zerohop_objects::{
    BodyRecord, BucketRecord, LifecycleRules, Manifest, ObjectRecord, PartRecord, SetRecord, StoredVersion,
    UploadRecord,
};

/// Goes through any input; panics where it breaks a promise.
pub fn run(bytes: &[u8]) {
    read::<BucketRecord>(bytes);
    read::<LifecycleRules>(bytes);
    read::<ObjectRecord>(bytes);
    read::<StoredVersion>(bytes);
    read::<UploadRecord>(bytes);
    read::<PartRecord>(bytes);
    read::<Manifest>(bytes);
    read::<SetRecord>(bytes);
    read::<BodyRecord>(bytes);
}

fn read<R: Record>(bytes: &[u8]) {
    if let Some(record) = R::decode(bytes) {
        assert_eq!(record.encode(), bytes);
    }
}
