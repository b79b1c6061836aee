//! The side table: what does not fit one entry of the index. Parts are named by log index, never by place, so that
//! segments can be rewritten and moved under them.

pub(crate) mod chains;
pub(crate) mod extents;
pub(crate) mod versions;
