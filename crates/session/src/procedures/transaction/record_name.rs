//! How a transaction names a record.

use zerohop_wire::ids::KeyspaceId;

use crate::CompositeItem;

/// A keyspace and a key.
pub(super) type RecordName = (KeyspaceId, Vec<u8>);

/// The record of an item.
pub(super) fn record_name(item: &CompositeItem) -> RecordName {
    (item.keyspace(), item.key().to_vec())
}
