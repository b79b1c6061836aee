//! What a client knows of a blob: its header as it was read, and the changes of an uncommitted transaction. It is data only; the requests are in
//! [`blob`](super::blob).

mod cached_header;
mod contents;
mod present_blob;
mod write_buffer;

pub(crate) use cached_header::{CachedHeader, ChunkRange};
pub(crate) use contents::{UNFINISHED, contents_of, is_staged, own_attributes};
pub(crate) use present_blob::{BlobKnowledge, PresentBlob};
pub(crate) use write_buffer::{BlobWrites, change_number};
