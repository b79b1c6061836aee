//! The side table: records that do not fit one entry of the index. Parts are named by log index, never by position, so that
//! segments can be rewritten and moved under them.

pub(crate) mod chains;
pub(crate) mod extents;
pub(crate) mod versions;
