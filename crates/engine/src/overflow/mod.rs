//! The side table: records that do not fit one entry of the index. Parts are named by log index. One table has the places of
//! these entries, so that compaction changes a place once, however many records and versions name it.

pub(crate) mod chains;
pub(crate) mod extents;
pub(crate) mod part;
pub(crate) mod places;
pub(crate) mod versions;
